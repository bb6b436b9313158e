//! Families about families.

use crate::family::{CounterVec, Stability};

crate::families! {
    /// The families that were registered.
    pub(crate) static REGISTERED: CounterVec<2> = CounterVec::new(
        "registered_metrics_total",
        "The count of registered metrics broken by stability level and deprecation version.",
        Stability::Beta,
        ["stability_level", "deprecated_version"],
    );
    /// The families that are not served because they are deprecated for long.
    pub(crate) static HIDDEN: CounterVec<0> =
        CounterVec::new("hidden_metrics_total", "The count of hidden metrics.", Stability::Beta, []);
    /// The names of families that shall not be served.
    pub(crate) static DISABLED: CounterVec<0> =
        CounterVec::new("disabled_metrics_total", "The count of disabled metrics.", Stability::Beta, []);
    /// The label values that were not allowed.
    pub(crate) static UNEXPECTED: CounterVec<0> = CounterVec::new(
        "cardinality_enforcement_unexpected_categorizations_total",
        "The count of unexpected categorizations during cardinality enforcement.",
        Stability::Alpha,
        [],
    );
}

pub(crate) fn count_unexpected() {
    UNEXPECTED.with([]).inc();
}

static SERVER: std::sync::OnceLock<String> = std::sync::OnceLock::new();

/// Sets the value of the label `apiserver_id_hash`: the hash of the name of this server. The first call
/// counts.
pub fn set_server_hash(hash: String) {
    let _ = SERVER.set(hash);
}

/// The value of the label `apiserver_id_hash`; empty before it is known.
pub fn server_hash() -> &'static str {
    SERVER.get().map_or("", String::as_str)
}
