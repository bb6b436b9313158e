//! The families that the cache counts in. The label `resource` is the prefix of the keys of a type, which
//! names resource and group.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use metrics::{Counter, CounterVec, HistogramVec, Stability};

use crate::Spec;

metrics::families! {
    /// Changes that were applied to the state in memory.
    pub(crate) static RECEIVED: CounterVec<1> = CounterVec::new(
        "apiserver_watch_cache_events_received_total",
        "Counter of events received in watch cache broken by resource type.",
        Stability::Alpha,
        ["resource"],
    );
    /// Changes that watchers were woken for.
    pub(crate) static DISPATCHED: CounterVec<1> = CounterVec::new(
        "apiserver_watch_cache_events_dispatched_total",
        "Counter of events dispatched in watch cache broken by resource type.",
        Stability::Alpha,
        ["resource"],
    );
    /// How often the state of a type was loaded.
    pub(crate) static INITIALIZATIONS: CounterVec<1> = CounterVec::new(
        "apiserver_watch_cache_initializations_total",
        "Counter of watch cache initializations broken by resource type.",
        Stability::Alpha,
        ["resource"],
    );
    /// Changes that the store delivered.
    pub(crate) static STORAGE_EVENTS: CounterVec<1> = CounterVec::new(
        "apiserver_storage_events_received_total",
        "Number of etcd events received split by kind.",
        Stability::Alpha,
        ["resource"],
    );
    /// How long reads waited for a revision.
    pub(crate) static READ_WAITS: HistogramVec<1> = HistogramVec::new(
        "apiserver_watch_cache_read_wait_seconds",
        "Histogram of time spent waiting for a watch cache to become fresh.",
        Stability::Alpha,
        ["resource"],
        &[0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0],
    );
    /// Reads of the newest state, from memory.
    pub(crate) static CONSISTENT_READS: CounterVec<3> = CounterVec::new(
        "apiserver_watch_cache_consistent_read_total",
        "Counter for consistent reads from cache.",
        Stability::Alpha,
        ["fallback", "resource", "success"],
    );
    /// Lists.
    pub(crate) static LISTS: CounterVec<2> = CounterVec::new(
        "apiserver_cache_list_total",
        "Number of LIST requests served from watch cache",
        Stability::Alpha,
        ["index", "resource_prefix"],
    );
    /// Objects that lists looked at.
    pub(crate) static LIST_FETCHED: CounterVec<2> = CounterVec::new(
        "apiserver_cache_list_fetched_objects_total",
        "Number of objects read from watch cache in the course of serving a LIST request",
        Stability::Alpha,
        ["index", "resource_prefix"],
    );
    /// Objects that lists returned.
    pub(crate) static LIST_RETURNED: CounterVec<1> = CounterVec::new(
        "apiserver_cache_list_returned_objects_total",
        "Number of objects returned for a LIST request from watch cache",
        Stability::Alpha,
        ["resource_prefix"],
    );
    /// Watchers that ended because they were too slow.
    pub(crate) static TERMINATED_WATCHERS: CounterVec<1> = CounterVec::new(
        "apiserver_terminated_watchers_total",
        "Counter of watchers closed due to unresponsiveness broken by resource type.",
        Stability::Alpha,
        ["resource"],
    );
    /// Initial events of watchers.
    pub(crate) static INIT_EVENTS: CounterVec<1> = CounterVec::new(
        "apiserver_init_events_total",
        "Counter of init events processed in watch cache broken by resource type.",
        Stability::Alpha,
        ["resource"],
    );
    /// Objects that could not be decoded.
    pub(crate) static DECODE_ERRORS: CounterVec<1> = CounterVec::new(
        "apiserver_storage_decode_errors_total",
        "Number of stored object decode errors split by object type",
        Stability::Alpha,
        ["resource"],
    );
    /// Changes that were given to the store.
    pub(crate) static STORE_REQUESTS: CounterVec<2> = CounterVec::new(
        "etcd_requests_total",
        "Etcd request counts for each operation and object type.",
        Stability::Alpha,
        ["operation", "type"],
    );
    /// Those that failed, conflicts not counted.
    pub(crate) static STORE_ERRORS: CounterVec<2> = CounterVec::new(
        "etcd_request_errors_total",
        "Etcd failed request counts for each operation and object type.",
        Stability::Alpha,
        ["operation", "type"],
    );
    /// How long the store took.
    pub(crate) static STORE_DURATIONS: HistogramVec<2> = HistogramVec::new(
        "etcd_request_duration_seconds",
        "Etcd request latency in seconds for each operation and object type.",
        Stability::Alpha,
        ["operation", "type"],
        &[0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0],
    );
}

/// The counters of one type, found when they are first needed.
#[derive(Debug)]
pub(crate) struct Counts {
    prefix: Box<str>,
    /// The prefix of its keys in the reference, with a slash before it.
    reference_prefix: Box<str>,
    received: OnceLock<[Arc<Counter>; 3]>,
    lists: OnceLock<[Arc<Counter>; 3]>,
}

impl Counts {
    /// Those of a type.
    pub(crate) fn of(spec: &Spec) -> Self {
        let reference_prefix = format!("/{}", spec.reference_prefix()).into();
        Self {
            prefix: spec.prefix().into(),
            reference_prefix,
            received: OnceLock::new(),
            lists: OnceLock::new(),
        }
    }

    /// Changes were applied to the state of a type.
    pub(crate) fn applied(&self, changes: usize) {
        let prefix = &*self.prefix;
        let make = || [&RECEIVED, &STORAGE_EVENTS, &DISPATCHED].map(|family| family.with([prefix]));
        self.received.get_or_init(make).iter().for_each(|counter| counter.add(changes as u64));
    }

    /// A list looked at some objects, and returned some of them.
    pub(crate) fn listed(&self, fetched: usize, returned: usize) {
        let [lists, looked_at, found] = self.lists.get_or_init(|| {
            let prefix = &*self.reference_prefix;
            [LISTS.with(["", prefix]), LIST_FETCHED.with(["", prefix]), LIST_RETURNED.with([prefix])]
        });
        lists.inc();
        looked_at.add(fetched as u64);
        found.add(returned as u64);
    }
}

/// The store was given a change.
pub(crate) fn changed(operation: &str, prefix: &str, took: Duration, failed: bool) {
    STORE_REQUESTS.with([operation, prefix]).inc();
    STORE_DURATIONS.with([operation, prefix]).observe_time(took);
    if failed {
        STORE_ERRORS.with([operation, prefix]).inc();
    }
}

/// A read waited for a revision.
pub(crate) fn waited(prefix: &str, took: Duration) {
    READ_WAITS.with([prefix]).observe_time(took);
}

/// The newest state was read.
pub(crate) fn read_newest(prefix: &str, succeeded: bool) {
    CONSISTENT_READS.with(["false", prefix, if succeeded { "true" } else { "false" }]).inc();
}

/// Serves the families of this crate.
pub fn register_families() {
    metrics::MAIN.register(FAMILIES);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_counted_by_the_prefix_of_the_reference() {
        let nodes = Spec::cluster("listed-nodes").unwrap().known_as("listed/minions");
        Counts::of(&nodes).listed(3, 2);
        let count = |prefix| LIST_FETCHED.with(["", prefix]).value();
        assert_eq!((count("/listed/minions"), count("/listed-nodes")), (3, 0));
        Counts::of(&Spec::cluster("listed-pods").unwrap()).listed(1, 1);
        assert_eq!(count("/listed-pods"), 1);
    }
}
