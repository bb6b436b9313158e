//! What a pod requests and is limited to: the sum of its containers, or what its init containers need before
//! them, with the overhead of running it.

use super::super::pod_sum::sum;
use super::super::resource_list::ResourceList;
use schema::view::Entries;
use schema::views::core::v1::{Container, ContainerStatus, Pod};
use std::collections::HashMap;

/// Requests or limits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Requests,
    Limits,
}

/// Whether the resources of the pod as a whole count, which the gate `PodLevelResources` decides.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum PodLevel {
    Counts,
    Ignored,
}

/// The resources of a pod.
pub(super) fn of(pod: Pod<'_>, side: Side, level: PodLevel) -> ResourceList {
    let mut all = containers(pod, side);
    if level == PodLevel::Counts {
        let is_set = match side {
            Side::Requests => pod.spec().resources().is_some_and(|own| has_supported(own.requests())),
            Side::Limits => has_pod_level(pod),
        };
        let own = pod.spec().resources().filter(|_| is_set).map(|own| match side {
            Side::Requests => own.requests(),
            Side::Limits => own.limits(),
        });
        for (name, amount) in own.map(ResourceList::read).unwrap_or_default().iter() {
            if is_supported(name) {
                all.set(name, amount.clone());
            }
        }
    }
    let overhead = ResourceList::read(pod.spec().overhead());
    match side {
        Side::Requests => all.add(&overhead),
        // Where there is no limit, the overhead does not make one.
        Side::Limits => {
            let limited = overhead.only(|name| all.get(name).is_some_and(|limit| !limit.is_zero()));
            all.add(&limited);
        }
    }
    all
}

/// Whether the pod as a whole has resources that count.
pub(super) fn has_pod_level(pod: Pod<'_>) -> bool {
    let own = pod.spec().resources();
    own.is_some_and(|own| has_supported(own.requests()) || has_supported(own.limits()))
}

fn has_supported(list: Entries<'_, &str>) -> bool {
    list.iter().any(|(name, _)| is_supported(name))
}

fn is_supported(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || name.starts_with("hugepages-")
}

/// The resources of all containers.
fn containers(pod: Pod<'_>, side: Side) -> ResourceList {
    let (spec, status) = (pod.spec(), pod.status());
    let statuses = status.container_statuses().iter().chain(status.init_container_statuses().iter());
    let statuses: HashMap<&str, ContainerStatus<'_>> =
        statuses.map(|status| (status.name(), status)).collect();
    let is_infeasible = is_resize_infeasible(pod);
    let running =
        |container: Container<'_>| resized(container, side, statuses.get(container.name()), is_infeasible);
    sum(spec, running, |container| declared(container, side))
}

fn declared(container: Container<'_>, side: Side) -> ResourceList {
    let resources = container.resources();
    ResourceList::read(match side {
        Side::Requests => resources.requests(),
        Side::Limits => resources.limits(),
    })
}

/// The resources that a container declares, or those that it has on its node if they are more.
fn resized(
    container: Container<'_>,
    side: Side,
    status: Option<&ContainerStatus<'_>>,
    is_infeasible: bool,
) -> ResourceList {
    let declared = declared(container, side);
    let Some((status, actual)) = status.and_then(|status| Some((status, status.resources()?))) else {
        return declared;
    };
    // What cannot be had does not count.
    let mut most = if is_infeasible { ResourceList::default() } else { declared };
    match side {
        Side::Requests => {
            most.raise(&ResourceList::read(actual.requests()));
            most.raise(&ResourceList::read(status.allocated_resources()));
        }
        Side::Limits => most.raise(&ResourceList::read(actual.limits())),
    }
    most
}

fn is_resize_infeasible(pod: Pod<'_>) -> bool {
    let pending = pod.status().conditions().iter().find(|condition| condition.r#type() == "PodResizePending");
    pending.is_some_and(|condition| condition.reason() == "Infeasible")
}
