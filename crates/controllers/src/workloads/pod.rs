//! What controllers ask of a single pod.

use super::dependents::Dependent;
use crate::objects::until;
use cache::Entry;
use object::time::Time;
use std::time::{Duration, SystemTime};

/// The phase of a pod.
pub(crate) fn phase(pod: &Entry) -> &str {
    pod.field("status.phase").unwrap_or_default()
}

/// The node of a pod; empty if it has none.
pub(crate) fn node(pod: &Entry) -> &str {
    pod.field("spec.nodeName").unwrap_or_default()
}

/// Whether all containers of a pod have ended for good.
pub(crate) fn is_finished(pod: &Entry) -> bool {
    matches!(phase(pod), "Succeeded" | "Failed")
}

/// Whether a pod runs or is going to: it has not finished, and is not being deleted.
pub(crate) fn is_active(pod: &Entry) -> bool {
    !is_finished(pod) && !pod.is_deleting()
}

/// Whether a pod is being deleted and has not finished yet.
pub(crate) fn is_terminating(pod: &Entry) -> bool {
    !is_finished(pod) && pod.is_deleting()
}

/// When a pod counts as available.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Availability {
    /// Now.
    Available,
    /// After a time, if it stays ready.
    In(Duration),
    /// Not before it becomes ready.
    NotReady,
}

impl Dependent {
    /// Whether the pod is ready.
    pub(crate) fn is_ready(&self) -> bool {
        self.facts.ready_since.is_some()
    }

    /// Whether the pod is available: it has been ready for `min_ready` seconds.
    pub(crate) fn is_available(&self, min_ready: i64, now: SystemTime) -> bool {
        self.availability(min_ready, now) == Availability::Available
    }

    /// When the pod is available: once it has been ready for `min_ready` seconds.
    pub(crate) fn availability(&self, min_ready: i64, now: SystemTime) -> Availability {
        let Some(since) = self.facts.ready_since else { return Availability::NotReady };
        if min_ready == 0 {
            return Availability::Available;
        }
        if since.is_zero() {
            return Availability::NotReady;
        }
        match until(Time::from_unix(since.unix().saturating_add(min_ready)), now) {
            Duration::ZERO => Availability::Available,
            left => Availability::In(left),
        }
    }
}

/// The shortest time after which one of the pods becomes available by time alone.
pub(crate) fn next_available<'a>(
    pods: impl IntoIterator<Item = &'a Dependent>,
    min_ready: i64,
    now: SystemTime,
) -> Option<Duration> {
    let waits = pods.into_iter().filter_map(|pod| match pod.availability(min_ready, now) {
        Availability::In(left) => Some(left),
        _ => None,
    });
    waits.min()
}
