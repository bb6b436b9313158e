//! The families that rules of custom kinds are counted in.

use metrics::{HistogramVec, Stability};

/// The bounds that a histogram of the reference has when nobody chose any.
const BOUNDS: &[f64] = &[0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

metrics::families! {
    /// How long the rules of a schema took to compile.
    pub(crate) static COMPILATIONS: HistogramVec<0> = HistogramVec::new(
        "apiserver_cel_compilation_duration_seconds",
        "CEL compilation time in seconds.",
        Stability::Beta,
        [],
        BOUNDS,
    );
    /// How long the rules of an object took.
    pub(crate) static EVALUATIONS: HistogramVec<0> = HistogramVec::new(
        "apiserver_cel_evaluation_duration_seconds",
        "CEL evaluation time in seconds.",
        Stability::Beta,
        [],
        BOUNDS,
    );
}

/// Serves the families of this crate.
pub fn register_families() {
    metrics::MAIN.register(FAMILIES);
}
