//! Amounts of resources: what a pod requests, and what a node can give.

use object::Text;
use object::quantity::Quantity;
use schema::view::Entries;
use schema::views::core::v1::{Container, Pod, PodSpec};

/// The CPU time that scores assume for a container without a request, in thousandths.
const USUAL_CPU: i64 = 100;
/// The memory that scores assume for a container without a request.
const USUAL_MEMORY: i64 = 200 << 20;

/// Amounts of resources.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Resources {
    /// Thousandths of a CPU.
    pub(crate) cpu: i64,
    /// Bytes of memory.
    pub(crate) memory: i64,
    /// Bytes of ephemeral storage.
    pub(crate) ephemeral: i64,
    /// Pods; only nodes have some.
    pub(crate) pods: i64,
    /// Extended resources, huge pages and others, by name.
    pub(crate) others: Vec<(Text, i64)>,
}

/// The requests of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Requests {
    /// The amounts that filters compare.
    pub(crate) exact: Resources,
    /// Thousandths of a CPU, where containers without a request count with the usual one.
    pub(crate) usual_cpu: i64,
    /// Bytes of memory, where containers without a request count with the usual one.
    pub(crate) usual_memory: i64,
}

impl Resources {
    /// The amounts of a list of quantities, each rounded up.
    pub(crate) fn of<'a>(list: impl IntoIterator<Item = (&'a str, Quantity)>) -> Self {
        let mut resources = Self::default();
        for (name, quantity) in list {
            match name {
                "cpu" => resources.cpu += quantity.milli_value(),
                "memory" => resources.memory += quantity.value(),
                "ephemeral-storage" => resources.ephemeral += quantity.value(),
                "pods" => resources.pods += quantity.value(),
                name if is_other(name) => resources.add_other(name, quantity.value()),
                _ => {}
            }
        }
        resources
    }

    /// The amounts of a field, such as the allocatable resources of a node.
    pub(crate) fn of_entries<'a>(entries: Entries<'a, &'a str>) -> Self {
        Self::of(quantities(entries))
    }

    /// The amount of a resource that is not a field.
    pub(crate) fn other(&self, name: &str) -> i64 {
        self.others.iter().find(|(known, _)| known == name).map_or(0, |(_, amount)| *amount)
    }

    /// Whether no amount but that of pods is set.
    pub(crate) fn is_nothing(&self) -> bool {
        self.cpu == 0 && self.memory == 0 && self.ephemeral == 0 && self.others.is_empty()
    }

    /// Adds other amounts, or removes them again.
    pub(crate) fn count(&mut self, other: &Self, sign: i64) {
        self.cpu = self.cpu.saturating_add(sign.saturating_mul(other.cpu));
        self.memory = self.memory.saturating_add(sign.saturating_mul(other.memory));
        self.ephemeral = self.ephemeral.saturating_add(sign.saturating_mul(other.ephemeral));
        for (name, amount) in &other.others {
            self.add_other(name, sign.saturating_mul(*amount));
        }
    }

    fn add_other(&mut self, name: &str, amount: i64) {
        match self.others.iter_mut().find(|(known, _)| known == name) {
            Some((_, sum)) => *sum = sum.saturating_add(amount),
            None => self.others.push((name.into(), amount)),
        }
    }
}

/// Whether a resource without a field of its own counts for the scheduler: an extended one, huge pages, a
/// prefixed native one, or volumes that can be attached.
fn is_other(name: &str) -> bool {
    name.contains('/') || name.starts_with("hugepages-") || name.starts_with("attachable-volumes-")
}

/// The requests of a pod. Those of a pod on a node follow its status while it is resized.
pub(crate) fn requests(pod: Pod<'_>) -> Requests {
    let exact = sum(pod, &[]);
    let defaults = match has_pod_level(pod.spec()) {
        false => vec![("cpu", USUAL_CPU), ("memory", USUAL_MEMORY)],
        true => [("cpu", USUAL_CPU), ("memory", USUAL_MEMORY)]
            .into_iter()
            .filter(|(name, _)| find(&exact, name).is_none())
            .collect(),
    };
    let usual = match defaults.is_empty() {
        true => exact.clone(),
        false => sum(pod, &defaults),
    };
    let amount = |name| find(&usual, name).cloned().unwrap_or_default();
    Requests {
        usual_cpu: amount("cpu").milli_value(),
        usual_memory: amount("memory").value(),
        exact: Resources::of(exact),
    }
}

/// Quantities by the name of their resource.
type Amounts<'a> = Vec<(&'a str, Quantity)>;

fn quantities<'a>(entries: Entries<'a, &'a str>) -> Amounts<'a> {
    entries.iter().filter_map(|(name, text)| Some((name, text.parse().ok()?))).collect()
}

fn find<'q>(amounts: &'q Amounts<'_>, name: &str) -> Option<&'q Quantity> {
    amounts.iter().find(|(known, _)| *known == name).map(|(_, quantity)| quantity)
}

fn add<'a>(to: &mut Amounts<'a>, other: &Amounts<'a>) {
    for (name, quantity) in other {
        match to.iter_mut().find(|(known, _)| known == name) {
            Some((_, sum)) => *sum += quantity,
            None => to.push((name, quantity.clone())),
        }
    }
}

fn raise<'a>(to: &mut Amounts<'a>, other: Amounts<'a>) {
    for (name, quantity) in other {
        match to.iter_mut().find(|(known, _)| *known == name) {
            Some((_, known)) if *known < quantity => *known = quantity,
            Some(_) => {}
            None => to.push((name, quantity)),
        }
    }
}

/// Whether the pod as a whole has requests.
fn has_pod_level(spec: PodSpec<'_>) -> bool {
    spec.resources().is_some_and(|resources| resources.requests().iter().any(|(name, _)| is_pod_level(name)))
}

fn is_pod_level(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || name.starts_with("hugepages-")
}

/// The requests of all containers, those of the pod as a whole in their place, and the overhead.
fn sum<'a>(pod: Pod<'a>, defaults: &[(&'static str, i64)]) -> Amounts<'a> {
    let spec = pod.spec();
    let mut all = Amounts::new();
    for container in spec.containers().iter() {
        add(&mut all, &of_container(pod, container, defaults));
    }
    // A container that runs while the pod starts needs its own resources and those of the sidecars before it.
    let (mut sidecars, mut starting) = (Amounts::new(), Amounts::new());
    for container in spec.init_containers().iter() {
        let mut own = of_container(pod, container, defaults);
        if is_sidecar(container) {
            add(&mut all, &own);
            add(&mut sidecars, &own);
            raise(&mut starting, sidecars.clone());
        } else {
            add(&mut own, &sidecars);
            raise(&mut starting, own);
        }
    }
    raise(&mut all, starting);
    if has_pod_level(spec)
        && let Some(resources) = spec.resources()
    {
        for (name, quantity) in quantities(resources.requests()) {
            match all.iter_mut().find(|(known, _)| *known == name) {
                _ if !is_pod_level(name) => {}
                Some((_, known)) => *known = quantity,
                None => all.push((name, quantity)),
            }
        }
    }
    add(&mut all, &quantities(spec.overhead()));
    all
}

/// Whether an init container runs for as long as the pod.
pub(crate) fn is_sidecar(container: Container<'_>) -> bool {
    container.restart_policy() == Some("Always")
}

fn of_container<'a>(pod: Pod<'a>, container: Container<'a>, defaults: &[(&'static str, i64)]) -> Amounts<'a> {
    let mut own = quantities(container.resources().requests());
    if !pod.spec().node_name().is_empty() {
        let status = pod.status();
        let mut statuses = status.container_statuses().iter().chain(status.init_container_statuses().iter());
        let status = statuses.find(|status| status.name() == container.name());
        if let Some(status) = status
            && let Some(resources) = status.resources()
        {
            if is_resize_infeasible(pod) {
                own = Amounts::new();
            }
            raise(&mut own, quantities(resources.requests()));
            raise(&mut own, quantities(status.allocated_resources()));
        }
    }
    for (name, amount) in defaults {
        if find(&own, name).is_none() {
            let quantity = match *name {
                "cpu" => Quantity::milli(*amount, object::quantity::Format::DecimalSi),
                _ => Quantity::new(*amount, object::quantity::Format::DecimalSi),
            };
            own.push((name, quantity));
        }
    }
    own
}

fn is_resize_infeasible(pod: Pod<'_>) -> bool {
    let mut conditions = pod.status().conditions().iter();
    conditions
        .find(|condition| condition.r#type() == "PodResizePending")
        .is_some_and(|condition| condition.reason() == "Infeasible")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{map, pod};
    use schema::view::View as _;

    fn of(text: &str) -> Resources {
        requests(Pod::of(&map(&pod("p", text)))).exact
    }

    fn cpu_memory(text: &str) -> (i64, i64) {
        let resources = of(text);
        (resources.cpu, resources.memory)
    }

    const C: &str = r#""name":"c","image":"i""#;

    #[test]
    fn requests_are_the_sum_of_containers_or_the_most_that_starting_needs() {
        let one = |cpu: &str, memory: &str| {
            format!(r#"{{{C},"resources":{{"requests":{{"cpu":"{cpu}","memory":"{memory}"}}}}}}"#)
        };
        let sidecar = |cpu: &str, memory: &str| {
            let requests = format!(r#""resources":{{"requests":{{"cpu":"{cpu}","memory":"{memory}"}}}}"#);
            format!(r#"{{{C},"restartPolicy":"Always",{requests}}}"#)
        };
        let (a, b) = (one("2", "1"), one("1", "1"));
        let cases = [
            (format!(r#""containers":[{a},{b}]"#), (3000, 2)),
            (format!(r#""containers":[{a},{b}],"initContainers":[{}]"#, one("2", "3")), (3000, 3)),
            (format!(r#""containers":[{a}],"initContainers":[{}]"#, sidecar("1", "3")), (3000, 4)),
            (
                format!(r#""containers":[{a}],"initContainers":[{},{}]"#, sidecar("1", "3"), one("4", "1")),
                (5000, 4),
            ),
            (
                format!(r#""containers":[{a}],"initContainers":[{},{}]"#, one("4", "1"), sidecar("1", "3")),
                (4000, 4),
            ),
            (format!(r#""containers":[{a}],"overhead":{{"cpu":"100m","memory":"7"}}"#), (2100, 8)),
            (format!(r#""containers":[{a}],"resources":{{"requests":{{"cpu":"5"}}}}"#), (5000, 1)),
            (
                format!(
                    r#""containers":[{a}],"resources":{{"requests":{{"cpu":"5"}}}},"overhead":{{"cpu":"1"}}"#
                ),
                (6000, 1),
            ),
            (format!(r#""containers":[{{{C}}}]"#), (0, 0)),
        ];
        for (text, expected) in cases {
            assert_eq!(cpu_memory(&text), expected, "{text}");
        }
    }

    #[test]
    fn extended_resources_and_huge_pages_count_and_unknown_names_do_not() {
        let text = r#""containers":[{"name":"c","image":"i","resources":{"requests":{"example.com/gpu":"2","hugepages-2Mi":"4Mi","ephemeral-storage":"1Ki","other":"3"}}}]"#;
        let resources = of(text);
        assert_eq!(resources.others, [("example.com/gpu".into(), 2), ("hugepages-2Mi".into(), 4 << 20)]);
        assert_eq!((resources.ephemeral, resources.other("other")), (1024, 0));
    }

    #[test]
    fn containers_without_requests_count_with_the_usual_amounts_in_scores() {
        let text = r#""containers":[{"name":"c","image":"i"},{"name":"d","image":"i","resources":{"requests":{"cpu":"1"}}}]"#;
        let requests = requests(Pod::of(&map(&pod("p", text))));
        assert_eq!((requests.usual_cpu, requests.usual_memory), (1100, 400 << 20));
        assert_eq!((requests.exact.cpu, requests.exact.memory), (1000, 0));
    }

    #[test]
    fn a_pod_that_is_resized_counts_with_the_larger_of_its_specification_and_status() {
        let spec =
            r#""nodeName":"n","containers":[{"name":"c","image":"i","resources":{"requests":{"cpu":"1"}}}]"#;
        let status = r#"{"containerStatuses":[{"name":"c","image":"i","imageID":"","ready":true,"restartCount":0,"resources":{"requests":{"cpu":"3"}},"allocatedResources":{"cpu":"2"}}]"#;
        let with = |more: &str| {
            let text = pod("p", spec).replace(r#""spec":"#, &format!(r#""status":{status}{more}}},"spec":"#));
            requests(Pod::of(&map(&text))).exact.cpu
        };
        assert_eq!(with(""), 3000);
        let pending = r#","conditions":[{"type":"PodResizePending","status":"True","reason":"Infeasible"}]"#;
        assert_eq!(with(pending), 3000);
    }
}
