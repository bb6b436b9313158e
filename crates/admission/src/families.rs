//! The families that admission counts in.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use metrics::{
    Bundles, CounterVec, GaugeVec, Histogram, HistogramVec, Stability, Summary, SummaryConfig, SummaryVec,
};

use crate::Operation;

metrics::families! {
    /// How long plugins took.
    pub(crate) static CONTROLLERS: HistogramVec<4> = HistogramVec::new(
        "apiserver_admission_controller_admission_duration_seconds",
        "Admission controller latency histogram in seconds, identified by name and broken out for each operation and API resource and type (validate or admit).",
        Stability::Stable,
        ["name", "operation", "rejected", "type"],
        &[0.005, 0.025, 0.1, 0.5, 1.0, 2.5],
    );
    /// How long all plugins of a step took.
    pub(crate) static STEPS: HistogramVec<3> = HistogramVec::new(
        "apiserver_admission_step_admission_duration_seconds",
        "Admission sub-step latency histogram in seconds, broken out for each operation and API resource and step type (validate or admit).",
        Stability::Stable,
        ["operation", "rejected", "type"],
        &[0.005, 0.025, 0.1, 0.5, 1.0, 2.5],
    );
    /// How long webhooks took.
    pub(crate) static WEBHOOKS: HistogramVec<4> = HistogramVec::new(
        "apiserver_admission_webhook_admission_duration_seconds",
        "Admission webhook latency histogram in seconds, identified by name and broken out for each operation and API resource and type (validate or admit).",
        Stability::Stable,
        ["name", "operation", "rejected", "type"],
        &[0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10.0, 25.0],
    );
    /// Failures of webhooks that were ignored.
    pub(crate) static FAIL_OPEN: CounterVec<2> = CounterVec::new(
        "apiserver_admission_webhook_fail_open_count",
        "Admission webhook fail open count, identified by name and broken out for each admission type (validating or admit).",
        Stability::Alpha,
        ["name", "type"],
    );
    /// Requests that webhooks refused, or that were refused because a webhook failed.
    pub(crate) static REJECTIONS: CounterVec<5> = CounterVec::new(
        "apiserver_admission_webhook_rejection_count",
        "Admission webhook rejection count, identified by name and broken out for each admission type (validating or admit) and operation. Additional labels specify an error type (calling_webhook_error or apiserver_internal_error if an error occurred; no_error otherwise) and optionally a non-zero rejection code if the webhook rejects the request with an HTTP status code (honored by the apiserver when the code is greater or equal to 400). Codes greater than 600 are truncated to 600, to keep the metrics cardinality bounded.",
        Stability::Alpha,
        ["error_type", "name", "operation", "rejection_code", "type"],
    );
    /// Questions to webhooks.
    pub(crate) static WEBHOOK_REQUESTS: CounterVec<5> = CounterVec::new(
        "apiserver_admission_webhook_request_total",
        "Admission webhook request total, identified by name and broken out for each admission type (validating or admit) and operation. Additional labels specify whether the request was rejected or not and an HTTP status code. Codes greater than 600 are truncated to 600, to keep the metrics cardinality bounded.",
        Stability::Alpha,
        ["code", "name", "operation", "rejected", "type"],
    );
    /// Questions to webhooks that have a place.
    pub(crate) static WEBHOOKS_UNDER_WAY: GaugeVec<0> = GaugeVec::new(
        "keelson_admission_webhook_calls",
        "Number of calls of admission webhooks that are under way.",
        Stability::Unstated,
        [],
    );
    /// Questions that wait for a place.
    pub(crate) static WEBHOOKS_WAITING: GaugeVec<0> = GaugeVec::new(
        "keelson_admission_webhook_waiting_calls",
        "Number of calls of admission webhooks that wait until others have ended.",
        Stability::Unstated,
        [],
    );
    /// Questions that had no place in time.
    pub(crate) static WEBHOOKS_WITHOUT_PLACE: CounterVec<0> = CounterVec::new(
        "keelson_admission_webhook_unsent_calls_total",
        "Number of calls of admission webhooks that failed because too many others were under way until their timeout.",
        Stability::Unstated,
        [],
    );
    /// Match conditions that failed.
    pub(crate) static MATCH_ERRORS: CounterVec<4> = CounterVec::new(
        "apiserver_admission_match_condition_evaluation_errors_total",
        "Admission match condition evaluation errors count, identified by name of resource containing the match condition and broken out for each kind containing matchConditions (webhook or policy), operation and admission type (validate or admit).",
        Stability::Alpha,
        ["kind", "name", "operation", "type"],
    );
    /// Requests that match conditions kept away.
    pub(crate) static MATCH_EXCLUSIONS: CounterVec<4> = CounterVec::new(
        "apiserver_admission_match_condition_exclusions_total",
        "Admission match condition evaluation exclusions count, identified by name of resource containing the match condition and broken out for each kind containing matchConditions (webhook or policy), operation and admission type (validate or admit).",
        Stability::Alpha,
        ["kind", "name", "operation", "type"],
    );
    /// How long match conditions took.
    pub(crate) static MATCH_DURATIONS: HistogramVec<4> = HistogramVec::new(
        "apiserver_admission_match_condition_evaluation_seconds",
        "Admission match condition evaluation time in seconds, identified by name and broken out for each kind containing matchConditions (webhook or policy), operation and type (validate or admit).",
        Stability::Alpha,
        ["kind", "name", "operation", "type"],
        &[0.001, 0.005, 0.01, 0.025, 0.1, 0.2, 0.25],
    );
    /// Bindings of policies that did not let a request pass, or failed.
    pub(crate) static POLICY_CHECKS: CounterVec<4> = CounterVec::new(
        "apiserver_validating_admission_policy_check_total",
        "Validation admission policy check total, labeled by policy and further identified by binding and enforcement action taken.",
        Stability::Beta,
        ["enforcement_action", "error_type", "policy", "policy_binding"],
    );
    /// How long they took.
    pub(crate) static POLICY_DURATIONS: HistogramVec<4> = HistogramVec::new(
        "apiserver_validating_admission_policy_check_duration_seconds",
        "Validation admission latency for individual validation expressions in seconds, labeled by policy and further including binding and enforcement action taken.",
        Stability::Beta,
        ["enforcement_action", "error_type", "policy", "policy_binding"],
        &[5e-07, 0.001, 0.01, 0.1, 1.0],
    );
    /// Evaluations of Pod Security.
    pub(crate) static POD_SECURITY_EVALUATIONS: CounterVec<7> = CounterVec::new(
        "pod_security_evaluations_total",
        "Number of policy evaluations that occurred, not counting ignored or exempt requests.",
        Stability::Alpha,
        ["decision", "mode", "policy_level", "policy_version", "request_operation", "resource", "subresource"],
    );
    /// Requests that Pod Security does not look at.
    pub(crate) static POD_SECURITY_EXEMPTIONS: CounterVec<3> = CounterVec::new(
        "pod_security_exemptions_total",
        "Number of exempt requests, not counting ignored or out of scope requests.",
        Stability::Alpha,
        ["request_operation", "resource", "subresource"],
    );
    /// Errors of Pod Security.
    pub(crate) static POD_SECURITY_ERRORS: CounterVec<4> = CounterVec::new(
        "pod_security_errors_total",
        "Number of errors preventing normal evaluation. Non-fatal errors may result in the latest restricted profile being used for evaluation.",
        Stability::Alpha,
        ["fatal", "request_operation", "resource", "subresource"],
    );

    /// Quantiles of how long all plugins of a step took.
    pub(crate) static STEP_QUANTILES: SummaryVec<3> = SummaryVec::new(
        "apiserver_admission_step_admission_duration_seconds_summary",
        "Admission sub-step latency summary in seconds, broken out for each operation and API resource and step type (validate or admit).",
        Stability::Alpha,
        ["operation", "rejected", "type"],
        SummaryConfig { quantiles: &[0.5, 0.9, 0.99], max_age: Duration::from_secs(5 * 3600) },
    );
}

/// Counts the match conditions of a policy, which hold or not, or failed. As in the reference, those that
/// hold are not timed, and both sorts of policies have one type.
pub(crate) fn policy_conditions<E>(
    policy: &str,
    operation: Operation,
    outcome: &Result<bool, E>,
    took: Duration,
) {
    let labels = ["policy", policy, operation.name(), Step::Validate.as_str()];
    if outcome.is_err() {
        MATCH_ERRORS.with(labels).inc();
    }
    if !matches!(outcome, Ok(true)) {
        MATCH_DURATIONS.with(labels).observe_time(took);
    }
}

/// One of the two steps of admission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Mutating admission.
    Admit,
    /// Validating admission.
    Validate,
}

impl Step {
    /// The value of the label `type`.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Admit => "admit",
            Self::Validate => "validate",
        }
    }
}

/// Plugins with mutating admission alone.
const ADMIT_ALONE: [&str; 12] = [
    "DefaultIngressClass",
    "DefaultStorageClass",
    "DefaultTolerationSeconds",
    "ExtendedResourceToleration",
    "MutatingAdmissionPolicy",
    "MutatingAdmissionWebhook",
    "NamespaceAutoProvision",
    "NamespaceLifecycle",
    "NodeRestriction",
    "PodTopologyLabels",
    "StorageObjectInUseProtection",
    "TaintNodesByCondition",
];

/// Plugins with validating admission alone.
const VALIDATE_ALONE: [&str; 15] = [
    "CertificateApproval",
    "CertificateSigning",
    "CertificateSubjectRestriction",
    "ClusterTrustBundleAttest",
    "DenyServiceExternalIPs",
    "EventRateLimit",
    "ImagePolicyWebhook",
    "LimitPodHardAntiAffinityTopology",
    "NamespaceExists",
    "OwnerReferencesPermissionEnforcement",
    "PersistentVolumeClaimResize",
    "PodSecurity",
    "ResourceQuota",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionWebhook",
];

/// The cells of a plugin, found when they are first needed.
#[derive(Debug, Default)]
pub(crate) struct PluginCells {
    name: &'static str,
    /// By operation, step, and whether the request was refused.
    cells: [OnceLock<Arc<Histogram>>; 16],
}

impl PluginCells {
    /// Those of a plugin with this name.
    pub(crate) fn of(name: &'static str) -> Self {
        Self { name, ..Self::default() }
    }

    /// Counts the time of the plugin, if it has such a step in the reference.
    pub(crate) fn observe(&self, step: Step, operation: Operation, rejected: bool, took: Duration) {
        let others = if step == Step::Admit { &VALIDATE_ALONE[..] } else { &ADMIT_ALONE[..] };
        let place = usize::from(rejected) | (step as usize) << 1 | (operation as usize) << 2;
        let Some(cell) = self.cells.get(place) else { return };
        let known = cell.get();
        if known.is_none() && others.contains(&self.name) {
            return;
        }
        let make = || CONTROLLERS.with([self.name, operation.name(), text(rejected), step.as_str()]);
        cell.get_or_init(make).observe_time(took);
    }
}

/// Counts the time of all plugins of a step.
pub(crate) fn step(step: Step, operation: Operation, rejected: bool, took: Duration) {
    let cells = STEP_CELLS.with([operation.name(), text(rejected), step.as_str()]);
    cells.0.observe_time(took);
    cells.1.observe_time(took);
}

/// The two cells of a step.
struct StepCells(Arc<Histogram>, Arc<Summary>);

static STEP_CELLS: Bundles<3, StepCells> =
    Bundles::new(|labels| StepCells(STEPS.with(labels), STEP_QUANTILES.with(labels)));

/// The value of a label for a condition.
pub(crate) fn text(condition: bool) -> &'static str {
    if condition { "true" } else { "false" }
}

/// Serves the families of this crate.
pub fn register_families() {
    metrics::MAIN.register(FAMILIES);
    metrics::MAIN.at_reset(|| STEP_CELLS.forget());
}
