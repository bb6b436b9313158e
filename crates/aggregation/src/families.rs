//! The metrics of aggregation.

use metrics::{CounterVec, GaugeVec, Stability};

metrics::families! {
    /// Whether API services are unavailable.
    static UNAVAILABLE: GaugeVec<1> = GaugeVec::new(
        "aggregator_unavailable_apiservice",
        "Gauge of APIServices which are marked as unavailable broken down by APIService name.",
        Stability::Alpha,
        ["name"],
    );
    /// How often API services became unavailable.
    static UNAVAILABLE_TOTAL: CounterVec<2> = CounterVec::new(
        "aggregator_unavailable_apiservice_total",
        "Counter of APIServices which are marked as unavailable broken down by APIService name and reason.",
        Stability::Alpha,
        ["name", "reason"],
    );
}

/// Serves the families of this crate.
pub fn register_families() {
    metrics::MAIN.register(FAMILIES);
}

/// Shows whether an API service is available.
pub fn show_availability(name: &str, is_available: bool) {
    UNAVAILABLE.with([name]).set(if is_available { 0.0 } else { 1.0 });
}

/// Shows nothing of an API service any more.
pub fn forget_availability(name: &str) {
    UNAVAILABLE.remove([name]);
}

/// Counts an API service that was available and is not any more.
pub fn count_unavailable(name: &str, reason: &str) {
    UNAVAILABLE_TOTAL.with([name, reason]).inc();
}
