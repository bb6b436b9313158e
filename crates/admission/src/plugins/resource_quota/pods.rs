//! What pods use: themselves while they live, and what they request and are limited to.

use super::super::resource_list::{ResourceList, count};
use super::pod_resources::{self, PodLevel, Side};
use super::scope::Scope;
use object::duration::Duration;
use object::name::qualified_name;
use object::quantity::Quantity;
use object::time::{MicroTime, Time};
use schema::view::Items;
use schema::views::core::v1::{Container, Pod, PodAffinityTerm, WeightedPodAffinityTerm};
use std::collections::{BTreeMap, BTreeSet};

const COUNT: &str = "count/pods";
/// Before the names of requests in quotas.
const REQUESTS: &str = "requests.";
const HUGE_PAGES: &str = "hugepages-";
const NAMES: [&str; 11] = [
    COUNT,
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
];
/// The resources that every container has to specify if a quota counts them.
const REQUIRED: [&str; 6] =
    ["cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"];

pub(super) fn counts(name: &str) -> bool {
    let extended = || !is_native(name) && name.starts_with(REQUESTS);
    let huge_pages = || name.strip_prefix(REQUESTS).unwrap_or(name).starts_with(HUGE_PAGES);
    NAMES.contains(&name) || huge_pages() || extended()
}

/// Whether a resource is one of Kubernetes itself.
fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

fn is_extended(name: &str) -> bool {
    !is_native(name) && !name.starts_with(REQUESTS) && qualified_name(&format!("{REQUESTS}{name}")).is_empty()
}

/// The usage of a pod at the time `now`.
pub(super) fn usage(pod: Pod<'_>, now: MicroTime, level: PodLevel) -> ResourceList {
    let mut usage = ResourceList::default();
    if is_alive(pod, now) {
        let requests = pod_resources::of(pod, Side::Requests, level);
        let limits = pod_resources::of(pod, Side::Limits, level);
        usage = compute(&requests, &limits);
    }
    usage.set(COUNT, count(1));
    usage
}

/// Requests and limits under the names that quotas have for them.
fn compute(requests: &ResourceList, limits: &ResourceList) -> ResourceList {
    let mut usage = ResourceList::default();
    usage.set("pods", count(1));
    for name in ["cpu", "memory", "ephemeral-storage"] {
        if let Some(request) = requests.get(name) {
            usage.set(name, request.clone());
            usage.set(format!("{REQUESTS}{name}"), request.clone());
        }
        if let Some(limit) = limits.get(name) {
            usage.set(format!("limits.{name}"), limit.clone());
        }
    }
    for (name, request) in requests.iter() {
        let is_huge_page = name.starts_with(HUGE_PAGES);
        if is_huge_page {
            usage.set(name, request.clone());
        }
        if is_huge_page || is_extended(name) {
            usage.set(format!("{REQUESTS}{name}"), request.clone());
        }
    }
    usage
}

/// Whether a pod has not ended, and is not overdue to be gone.
fn is_alive(pod: Pod<'_>, now: MicroTime) -> bool {
    !matches!(pod.status().phase(), "Failed" | "Succeeded") && ends_at(pod).is_none_or(|end| now <= end)
}

/// When a pod that is being deleted stops to count, whether it is gone or not.
pub(super) fn ends_at(pod: Pod<'_>) -> Option<MicroTime> {
    let metadata = pod.metadata();
    let deleted: Time = metadata.deletion_timestamp()?.parse().ok()?;
    let grace = Duration::from_nanos(metadata.deletion_grace_period_seconds()?.saturating_mul(1_000_000_000));
    MicroTime::from(deleted).checked_add(grace)
}

/// Whether every container specifies what a quota with these names has to know of it.
pub(super) fn check(pod: Pod<'_>, names: &[&str], level: PodLevel) -> Result<(), String> {
    if level == PodLevel::Counts && pod_resources::has_pod_level(pod) {
        return Ok(());
    }
    let required: Vec<&str> = REQUIRED.into_iter().filter(|name| names.contains(name)).collect();
    let mut missing: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let spec = pod.spec();
    for container in spec.containers().iter().chain(spec.init_containers().iter()) {
        let specified = specified(container);
        for name in required.iter().filter(|name| specified.get(name).is_none()) {
            missing.entry(name).or_default().insert(container.name());
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    let missing = missing.into_iter().map(|(name, containers)| {
        let containers: Vec<&str> = containers.into_iter().collect();
        format!("{name} for: {}", containers.join(","))
    });
    Err(format!("must specify {}", missing.collect::<Vec<_>>().join("; ")))
}

fn specified(container: Container<'_>) -> ResourceList {
    let resources = container.resources();
    compute(&ResourceList::read(resources.requests()), &ResourceList::read(resources.limits()))
}

/// Whether a pod is in a scope.
pub(super) fn is_in(pod: Pod<'_>, scope: &Scope, level: PodLevel) -> Result<bool, String> {
    Ok(match scope.name.as_str() {
        "Terminating" => is_terminating(pod),
        "NotTerminating" => !is_terminating(pod),
        "BestEffort" => is_best_effort(pod, level),
        "NotBestEffort" => !is_best_effort(pod, level),
        "CrossNamespacePodAffinity" => reaches_other_namespaces(pod),
        "PriorityClass" => {
            let class = pod.spec().priority_class_name();
            let classes = if class.is_empty() { &[][..] } else { &[class] };
            return scope.matches_any(classes);
        }
        _ => false,
    })
}

/// Whether a pod ends by itself after some time.
pub(super) fn is_terminating(pod: Pod<'_>) -> bool {
    pod.spec().active_deadline_seconds().is_some_and(|seconds| seconds >= 0)
}

fn is_best_effort(pod: Pod<'_>, level: PodLevel) -> bool {
    match pod.status().qos_class() {
        "" => {}
        class => return class == "BestEffort",
    }
    let spec = pod.spec();
    let has = |list: ResourceList| {
        ["cpu", "memory"]
            .iter()
            .any(|name| list.get(name).is_some_and(|amount: &Quantity| amount.signum() > 0))
    };
    if let (PodLevel::Counts, true, Some(own)) = (level, pod_resources::has_pod_level(pod), spec.resources())
    {
        return !has(ResourceList::read(own.requests())) && !has(ResourceList::read(own.limits()));
    }
    !spec.containers().iter().chain(spec.init_containers().iter()).any(|container| {
        let resources = container.resources();
        has(ResourceList::read(resources.requests())) || has(ResourceList::read(resources.limits()))
    })
}

fn reaches_other_namespaces(pod: Pod<'_>) -> bool {
    let Some(affinity) = pod.spec().affinity() else { return false };
    let required = |terms: Items<'_, PodAffinityTerm<'_>>| terms.iter().any(is_across);
    let preferred = |terms: Items<'_, WeightedPodAffinityTerm<'_>>| {
        terms.iter().any(|term| is_across(term.pod_affinity_term()))
    };
    affinity.pod_affinity().is_some_and(|affinity| {
        required(affinity.required_during_scheduling_ignored_during_execution())
            || preferred(affinity.preferred_during_scheduling_ignored_during_execution())
    }) || affinity.pod_anti_affinity().is_some_and(|affinity| {
        required(affinity.required_during_scheduling_ignored_during_execution())
            || preferred(affinity.preferred_during_scheduling_ignored_during_execution())
    })
}

fn is_across(term: PodAffinityTerm<'_>) -> bool {
    !term.namespaces().is_empty() || term.namespace_selector().is_some()
}
