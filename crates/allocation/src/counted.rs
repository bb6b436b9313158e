//! The families that allocation counts in.

use std::time::Duration;

use metrics::{CounterVec, HistogramVec, Kind, Observed, Stability};

use crate::AddressRange;

metrics::families! {
    /// Addresses that were given.
    pub(crate) static ALLOCATIONS: CounterVec<2> = CounterVec::new(
        "kube_apiserver_clusterip_allocator_allocation_total",
        "Number of Cluster IPs allocations",
        Stability::Alpha,
        ["cidr", "scope"],
    );
    /// Addresses that could not be given.
    pub(crate) static ERRORS: CounterVec<2> = CounterVec::new(
        "kube_apiserver_clusterip_allocator_allocation_errors_total",
        "Number of errors trying to allocate Cluster IPs",
        Stability::Alpha,
        ["cidr", "scope"],
    );
    /// How long that took.
    pub(crate) static DURATIONS: HistogramVec<1> = HistogramVec::new(
        "kube_apiserver_clusterip_allocator_allocation_duration_seconds",
        "Duration in seconds to allocate a Cluster IP by ServiceCIDR",
        Stability::Alpha,
        ["cidr"],
        &[0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0],
    );
    /// Addresses that are taken.
    pub(crate) static ALLOCATED: Observed = Observed::new(
        Kind::Gauge,
        "kube_apiserver_clusterip_allocator_allocated_ips",
        "Gauge measuring the number of allocated IPs for Services",
        Stability::Alpha,
        &["cidr"],
    );
    /// Addresses that are free.
    pub(crate) static AVAILABLE: Observed = Observed::new(
        Kind::Gauge,
        "kube_apiserver_clusterip_allocator_available_ips",
        "Gauge measuring the number of available IPs for Services",
        Stability::Alpha,
        &["cidr"],
    );
    /// Ports that are taken.
    pub(crate) static PORTS_ALLOCATED: Observed = Observed::new(
        Kind::Gauge,
        "kube_apiserver_nodeport_allocator_allocated_ports",
        "Gauge measuring the number of allocated NodePorts for Services",
        Stability::Alpha,
        &[],
    );
    /// Ports that are free.
    pub(crate) static PORTS_AVAILABLE: Observed = Observed::new(
        Kind::Gauge,
        "kube_apiserver_nodeport_allocator_available_ports",
        "Gauge measuring the number of available NodePorts for Services",
        Stability::Alpha,
        &[],
    );
    /// Ports that were given.
    pub(crate) static PORTS: CounterVec<1> = CounterVec::new(
        "kube_apiserver_nodeport_allocator_allocation_total",
        "Number of NodePort allocations",
        Stability::Alpha,
        ["scope"],
    );
    /// Ports that could not be given.
    pub(crate) static PORT_ERRORS: CounterVec<1> = CounterVec::new(
        "kube_apiserver_nodeport_allocator_allocation_errors_total",
        "Number of errors trying to allocate NodePort",
        Stability::Alpha,
        ["scope"],
    );
}

/// Counts an address that was asked for, a certain one or any: the reference counts both as certain ones.
pub(crate) fn allocated(range: &AddressRange, took: Duration, succeeded: bool) {
    let range = range.to_string();
    let family = if succeeded { &ALLOCATIONS } else { &ERRORS };
    family.with([&range, "static"]).inc();
    if succeeded {
        DURATIONS.with([&range]).observe_time(took);
    }
}

/// Counts a port that was asked for.
pub(crate) fn port_allocated(scope: &str, succeeded: bool) {
    let family = if succeeded { &PORTS } else { &PORT_ERRORS };
    family.with([scope]).inc();
}

/// Serves the families of this crate.
pub fn register_families() {
    metrics::MAIN.register(FAMILIES);
}
