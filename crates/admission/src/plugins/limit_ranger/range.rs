//! A limit range, in the form that admission uses.

use super::super::errors::Errors;
use super::super::pod::each;
use super::super::pod_sum::sum;
use super::super::resource_list::ResourceList;
use object::quantity::Quantity;
use object::{Key, Map, Text, Value};
use schema::view::{Entries, View as _};
use schema::views::core::v1::{
    Container, LimitRange, LimitRangeItem, PersistentVolumeClaim, Pod, PodSpec, ResourceRequirements,
};
use std::collections::BTreeMap;

/// The annotation of a pod that says what was set.
const ANNOTATION: &str = "kubernetes.io/limit-ranger";

/// The largest amount whose thousandths fit into 64 bits.
const MOST_FOR_MILLI: i64 = i64::MAX / 1000;

/// The resources that a pod can have requests and limits of its own for.
const OF_PODS: [&str; 2] = ["cpu", "memory"];

/// The bounds and defaults of a limit range.
pub(super) struct Range {
    /// The limits that containers get.
    limits: BTreeMap<Text, Value>,
    /// The requests that containers get.
    requests: BTreeMap<Text, Value>,
    bounds: Vec<Bounds>,
}

/// The bounds for one type of object, with resources in their order.
struct Bounds {
    of: Bounded,
    least: Vec<(Text, Quantity)>,
    most: Vec<(Text, Quantity)>,
    ratio: Vec<(Text, Quantity)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Bounded {
    Container,
    Pod,
    PersistentVolumeClaim,
}

impl Bounded {
    fn name(self) -> &'static str {
        match self {
            Self::Container => "Container",
            Self::Pod => "Pod",
            Self::PersistentVolumeClaim => "PersistentVolumeClaim",
        }
    }
}

impl Range {
    pub(super) fn of(range: LimitRange<'_>) -> Self {
        let mut read = Self { limits: BTreeMap::new(), requests: BTreeMap::new(), bounds: Vec::new() };
        for item in range.spec().limits().iter() {
            if item.r#type() == Bounded::Container.name() {
                read.limits.extend(values(item.default()));
                read.requests.extend(values(item.default_request()));
            }
            read.bounds.extend(Bounds::of(item));
        }
        read
    }

    /// Gives the containers of a pod the requests and limits that they do not have.
    pub(super) fn fill(&self, pod: &mut Map) {
        if self.limits.is_empty() && self.requests.is_empty() {
            return;
        }
        let mut set = Vec::new();
        if let Some(spec) = kinds::map_at(pod, "spec") {
            each(spec, "containers", |container| self.fill_container(container, "container", &mut set));
            each(spec, "initContainers", |container| {
                self.fill_container(container, "init container", &mut set);
            });
        }
        if !set.is_empty()
            && let Some(metadata) = kinds::map_at(pod, "metadata")
            && let Some(annotations) = kinds::map_at(metadata, "annotations")
        {
            annotations.insert(Key::known(ANNOTATION), format!("LimitRanger plugin set: {}", set.join("; ")));
        }
    }

    fn fill_container(&self, container: &mut Map, title: &str, set: &mut Vec<String>) {
        for (key, what, defaults) in
            [("requests", "request", &self.requests), ("limits", "limit", &self.limits)]
        {
            let there = Container::of(container).resources().map().get(key).and_then(Value::as_map).cloned();
            let there = there.unwrap_or_default();
            let index = there.index();
            let missing: Vec<_> =
                defaults.iter().filter(|(resource, _)| !index.contains_key(resource.as_str())).collect();
            if missing.is_empty() {
                continue;
            }
            let names: Vec<&str> = missing.iter().map(|(resource, _)| resource.as_str()).collect();
            let name = Container::of(container).name();
            set.push(format!("{} {what} for {title} {name}", names.join(", ")));
            let list =
                kinds::map_at(container, "resources").and_then(|resources| kinds::map_at(resources, key));
            if let Some(list) = list {
                for (resource, amount) in missing {
                    list.insert_at(usize::MAX, Key::from(resource.clone()), amount.clone());
                }
            }
        }
    }

    /// The errors of a pod; `None` if it is within all bounds.
    pub(super) fn check_pod(&self, pod: Pod<'_>, pod_level_resources: bool) -> Option<String> {
        let spec = pod.spec();
        let mut errors = Errors::default();
        for bounds in &self.bounds {
            match bounds.of {
                Bounded::Container => {
                    for container in spec.containers().iter().chain(spec.init_containers().iter()) {
                        let resources = container.resources();
                        let (requests, limits) = (
                            ResourceList::read(resources.requests()),
                            ResourceList::read(resources.limits()),
                        );
                        bounds.check(&requests, &limits, &mut errors);
                    }
                }
                Bounded::Pod => {
                    let of_pod = |select| of_pod(spec, pod_level_resources, select);
                    let requests = of_pod(|resources| resources.requests());
                    let limits = of_pod(|resources| resources.limits());
                    bounds.check(&requests, &limits, &mut errors);
                }
                Bounded::PersistentVolumeClaim => {}
            }
        }
        errors.message()
    }

    /// The errors of a claim; `None` if it is within all bounds. Its limits are not checked.
    pub(super) fn check_claim(&self, claim: PersistentVolumeClaim<'_>) -> Option<String> {
        let requests = ResourceList::read(claim.spec().resources().requests());
        let mut errors = Errors::default();
        for bounds in self.bounds.iter().filter(|bounds| bounds.of == Bounded::PersistentVolumeClaim) {
            for (resource, least) in &bounds.least {
                errors.extend(bounds.check_least(resource, least, requests.get(resource), None));
            }
            for (resource, most) in &bounds.most {
                errors.extend(bounds.check_most_request(resource, most, requests.get(resource)));
            }
        }
        errors.message()
    }
}

impl Bounds {
    fn of(item: LimitRangeItem<'_>) -> Option<Self> {
        let all = [Bounded::Container, Bounded::Pod, Bounded::PersistentVolumeClaim];
        let of = all.into_iter().find(|of| of.name() == item.r#type())?;
        let (least, most) = (quantities(item.min()), quantities(item.max()));
        Some(Self { of, least, most, ratio: quantities(item.max_limit_request_ratio()) })
    }

    fn check(&self, requests: &ResourceList, limits: &ResourceList, errors: &mut Errors) {
        for (resource, least) in &self.least {
            errors.extend(self.check_least(resource, least, requests.get(resource), limits.get(resource)));
        }
        for (resource, most) in &self.most {
            errors.extend(self.check_most(resource, most, requests.get(resource), limits.get(resource)));
        }
        for (resource, ratio) in &self.ratio {
            errors.extend(self.check_ratio(resource, ratio, requests.get(resource), limits.get(resource)));
        }
    }

    fn check_least(
        &self,
        resource: &str,
        least: &Quantity,
        request: Option<&Quantity>,
        limit: Option<&Quantity>,
    ) -> Option<String> {
        let compared = Compared::of(request, limit, least);
        let usage = || format!("minimum {resource} usage per {} is {least}", self.of.name());
        let Some(request) = request else { return Some(format!("{}.  No request is specified", usage())) };
        if compared.request < compared.bound {
            return Some(format!("{}, but request is {request}", usage()));
        }
        let limit = limit.filter(|_| compared.limit < compared.bound)?;
        Some(format!("{}, but limit is {limit}", usage()))
    }

    fn check_most(
        &self,
        resource: &str,
        most: &Quantity,
        request: Option<&Quantity>,
        limit: Option<&Quantity>,
    ) -> Option<String> {
        let compared = Compared::of(request, limit, most);
        let usage = || format!("maximum {resource} usage per {} is {most}", self.of.name());
        let Some(limit) = limit else { return Some(format!("{}.  No limit is specified", usage())) };
        if compared.limit > compared.bound {
            return Some(format!("{}, but limit is {limit}", usage()));
        }
        let request = request.filter(|_| compared.request > compared.bound)?;
        Some(format!("{}, but request is {request}", usage()))
    }

    fn check_most_request(
        &self,
        resource: &str,
        most: &Quantity,
        request: Option<&Quantity>,
    ) -> Option<String> {
        let compared = Compared::of(request, None, most);
        let usage = || format!("maximum {resource} usage per {} is {most}", self.of.name());
        let Some(request) = request else { return Some(format!("{}.  No request is specified", usage())) };
        (compared.request > compared.bound).then(|| format!("{}, but request is {request}", usage()))
    }

    fn check_ratio(
        &self,
        resource: &str,
        most: &Quantity,
        request: Option<&Quantity>,
        limit: Option<&Quantity>,
    ) -> Option<String> {
        let Compared { request, limit, .. } = Compared::of(request, limit, most);
        let bound = || format!("{resource} max limit to request ratio per {} is {most}", self.of.name());
        if request == 0 {
            return Some(format!("{}, but no request is specified or request is 0", bound()));
        }
        if limit == 0 {
            return Some(format!("{}, but no limit is specified or limit is 0", bound()));
        }
        let ratio = limit as f64 / request as f64;
        let exceeds = match most.value() {
            whole if whole > MOST_FOR_MILLI => ratio > whole as f64,
            _ => ratio * 1000.0 > most.milli_value() as f64,
        };
        exceeds.then(|| format!("{}, but provided ratio is {ratio:.6}", bound()))
    }
}

/// A request, a limit and a bound in one unit: thousandths, if all of them fit. What is absent is 0.
struct Compared {
    request: i64,
    limit: i64,
    bound: i64,
}

impl Compared {
    fn of(request: Option<&Quantity>, limit: Option<&Quantity>, bound: &Quantity) -> Self {
        let all = [request, limit, Some(bound)];
        let [mut request, mut limit, mut bound] = all.map(|amount| amount.map_or(0, Quantity::value));
        if [request, limit, bound].into_iter().all(|whole| whole <= MOST_FOR_MILLI) {
            [request, limit, bound] = all.map(|amount| amount.map_or(0, Quantity::milli_value));
        }
        Self { request, limit, bound }
    }
}

fn values<'a>(list: Entries<'a, &'a str>) -> impl Iterator<Item = (Text, Value)> + use<'a> {
    list.map().iter().map(|(resource, amount)| (resource.clone().into(), amount.clone()))
}

fn quantities(list: Entries<'_, &str>) -> Vec<(Text, Quantity)> {
    let mut read: Vec<(Text, Quantity)> =
        list.iter().filter_map(|(resource, amount)| Some((resource.into(), amount.parse().ok()?))).collect();
    read.sort_by(|(one, _), (other, _)| one.as_str().cmp(other.as_str()));
    read
}

/// The requests or the limits of a pod, by `select`.
fn of_pod<'a>(
    spec: PodSpec<'a>,
    pod_level_resources: bool,
    select: fn(ResourceRequirements<'a>) -> Entries<'a, &'a str>,
) -> ResourceList {
    let of_container = |container: Container<'a>| ResourceList::read(select(container.resources()));
    let mut all = sum(spec, of_container, of_container);
    if pod_level_resources && let Some(resources) = spec.resources() {
        let own = ResourceList::read(select(resources));
        own.iter().filter(|(name, _)| OF_PODS.contains(name)).for_each(|(name, amount)| {
            all.set(name, amount.clone());
        });
    }
    all
}
