//! Which pods go first when a controller has too many.
//!
//! In this order: those without a node; those that have not begun to run; those that are not ready; those
//! that cost less to delete, by their annotation; those that share their node with more pods of the same
//! workload; those that became ready later; those whose containers were restarted more often; those that are
//! younger.
//!
//! Times count by their binary orders of magnitude, so that pods of about the same age are chosen by other
//! properties, in the end by their uids, which are random. The reference goes on to the uids at once where
//! two times differ within an order of magnitude; so little is to be gained from that order, which has
//! cycles, that restarts and ages are compared first here.

use super::dependents::Dependent;
use super::pod;
use object::time::Time;
use schema::view::View as _;
use schema::views::core::v1::Pod;
use schema::{Builder, Part, Ref, Type, stored};
use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::LazyLock;
use std::time::{SystemTime, UNIX_EPOCH};

const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";

const CONTAINER: &[Part] = &[Part("name", &[]), Part("restartPolicy", &[])];
const CONTAINER_STATUS: &[Part] = &[Part("name", &[]), Part("restartCount", &[])];

/// The fields of a pod that are decoded.
static PART: LazyLock<Ref<Type>> = LazyLock::new(|| {
    let parts = [
        Part("metadata", &[Part("annotations", &[]), Part("creationTimestamp", &[])]),
        Part("spec", &[Part("initContainers", CONTAINER)]),
        Part(
            "status",
            &[Part("containerStatuses", CONTAINER_STATUS), Part("initContainerStatuses", CONTAINER_STATUS)],
        ),
    ];
    Builder::part_of(Pod::schema(), &parts).build()
});

/// The place of a pod in the order; smaller ones go first.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rank<'a> {
    has_node: bool,
    phase: u8,
    is_ready: bool,
    deletion_cost: i32,
    neighbours: Reverse<usize>,
    /// No time, then short ones.
    ready_for: Option<i64>,
    restarts: Reverse<Restarts>,
    /// No time, then short ones.
    age: Option<i64>,
    uid: &'a str,
}

/// The most restarts of a container, and of an init container that goes on running.
#[derive(Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Restarts {
    regular: i64,
    sidecar: i64,
}

impl<'a> Rank<'a> {
    fn of(dependent: &'a Dependent, neighbours: usize, now: SystemTime) -> Self {
        let entry = &dependent.entry;
        let decoded = stored::logged(entry, stored::decode_part(&PART, entry.bytes())).unwrap_or_default();
        let decoded = Pod::of(&decoded);
        let metadata = decoded.metadata();
        let cost = metadata.annotations().get(DELETION_COST).and_then(|cost| cost.parse().ok());
        let created = metadata.creation_timestamp().and_then(|at| at.parse().ok());
        Self {
            has_node: !pod::node(entry).is_empty(),
            phase: match pod::phase(entry) {
                "Unknown" => 1,
                "Running" => 2,
                _ => 0,
            },
            is_ready: dependent.is_ready(),
            deletion_cost: cost.unwrap_or_default(),
            neighbours: Reverse(neighbours),
            ready_for: dependent.facts.ready_since.and_then(|since| magnitude(since, now)),
            restarts: Reverse(Restarts::of(decoded)),
            age: created.and_then(|at| magnitude(at, now)),
            uid: entry.uid(),
        }
    }
}

impl Restarts {
    fn of(pod: Pod<'_>) -> Self {
        let status = pod.status();
        let regular = status.container_statuses().iter().map(|container| container.restart_count()).max();
        let goes_on = |name: &str| {
            let mut containers = pod.spec().init_containers().iter();
            containers.any(|own| own.name() == name && own.restart_policy() == Some("Always"))
        };
        let sidecars = status.init_container_statuses().iter().filter(|container| goes_on(container.name()));
        let sidecar = sidecars.map(|container| container.restart_count()).max();
        Self { regular: regular.unwrap_or_default(), sidecar: sidecar.unwrap_or_default() }
    }
}

/// The binary order of magnitude of the time since a point, in nanoseconds; `None` without a point.
fn magnitude(since: Time, now: SystemTime) -> Option<i64> {
    if since.is_zero() {
        return None;
    }
    let now = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    let since = u128::try_from(since.unix()).unwrap_or_default() * 1_000_000_000;
    let elapsed = now.saturating_sub(since);
    Some(elapsed.checked_ilog2().map_or(-1, i64::from))
}

/// The pods to delete so that `count` are gone. `related` are all pods of the same workload.
pub(crate) fn to_delete(
    mut pods: Vec<Dependent>,
    related: &[Dependent],
    count: usize,
    now: SystemTime,
) -> Vec<Dependent> {
    if count < pods.len() {
        let mut on_node: HashMap<&str, usize> = HashMap::new();
        for other in related.iter().filter(|other| pod::is_active(&other.entry)) {
            *on_node.entry(pod::node(&other.entry)).or_default() += 1;
        }
        let neighbours = |it: &Dependent| on_node.get(pod::node(&it.entry)).copied().unwrap_or_default();
        let mut ranked: Vec<(usize, Rank<'_>)> =
            pods.iter().enumerate().map(|(at, it)| (at, Rank::of(it, neighbours(it), now))).collect();
        ranked.sort_unstable_by(|(_, one), (_, other)| one.cmp(other));
        let chosen: Vec<_> = ranked.into_iter().take(count).map(|(at, _)| at).collect();
        return chosen.into_iter().filter_map(|at| pods.get(at).cloned()).collect();
    }
    pods.truncate(count);
    pods
}
