//! The families that autoscaling counts in.

use metrics::{CounterVec, HistogramVec, Stability};

/// What a reconciliation did, or what a metric asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Action {
    /// More replicas.
    ScaleUp,
    /// Fewer replicas.
    ScaleDown,
    /// Neither.
    #[default]
    None,
}

impl Action {
    /// The action that changes one number of replicas into another.
    pub(super) fn between(before: i64, after: i64) -> Self {
        match after.cmp(&before) {
            std::cmp::Ordering::Greater => Self::ScaleUp,
            std::cmp::Ordering::Less => Self::ScaleDown,
            std::cmp::Ordering::Equal => Self::None,
        }
    }

    /// The label.
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::ScaleUp => "scale_up",
            Self::ScaleDown => "scale_down",
            Self::None => "none",
        }
    }
}

metrics::families! {
    /// Reconciliations of autoscalers.
    pub(super) static RECONCILIATIONS: CounterVec<2> = CounterVec::new(
        "horizontal_pod_autoscaler_controller_reconciliations_total",
        "Number of reconciliations of HPA controller. The label 'action' should be either 'scale_down', 'scale_up', or 'none'. Also, the label 'error' should be either 'spec', 'internal', or 'none'. Note that if both spec and internal errors happen during a reconciliation, the first one to occur is reported in `error` label.",
        Stability::Alpha,
        ["action", "error"],
    );
    /// How long they took.
    pub(super) static RECONCILIATION_TIMES: HistogramVec<2> = HistogramVec::new(
        "horizontal_pod_autoscaler_controller_reconciliation_duration_seconds",
        "The time(seconds) that the HPA controller takes to reconcile once. The label 'action' should be either 'scale_down', 'scale_up', or 'none'. Also, the label 'error' should be either 'spec', 'internal', or 'none'. Note that if both spec and internal errors happen during a reconciliation, the first one to occur is reported in `error` label.",
        Stability::Alpha,
        ["action", "error"],
        &[0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.024, 2.048, 4.096, 8.192, 16.384],
    );
    /// Metrics that were looked at.
    pub(super) static METRICS: CounterVec<3> = CounterVec::new(
        "horizontal_pod_autoscaler_controller_metric_computation_total",
        "Number of metric computations. The label 'action' should be either 'scale_down', 'scale_up', or 'none'. Also, the label 'error' should be either 'spec', 'internal', or 'none'. The label 'metric_type' corresponds to HPA.spec.metrics[*].type",
        Stability::Alpha,
        ["action", "error", "metric_type"],
    );
    /// How long they took.
    pub(super) static METRIC_TIMES: HistogramVec<3> = HistogramVec::new(
        "horizontal_pod_autoscaler_controller_metric_computation_duration_seconds",
        "The time(seconds) that the HPA controller takes to calculate one metric. The label 'action' should be either 'scale_down', 'scale_up', or 'none'. The label 'error' should be either 'spec', 'internal', or 'none'. The label 'metric_type' corresponds to HPA.spec.metrics[*].type",
        Stability::Alpha,
        ["action", "error", "metric_type"],
        &[0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.024, 2.048, 4.096, 8.192, 16.384],
    );
}
