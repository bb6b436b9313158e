//! What a job says about failures and successes of its pods.

use super::intervals::Intervals;
use super::pod::JobPod;
use object::Map;
use schema::view::{Items, View as _};
use schema::views::batch::v1::{Job, PodFailurePolicyOnExitCodesRequirement, PodFailurePolicyRule};
use schema::views::core::v1::ContainerStatus;

/// What follows from the failure of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The failure counts.
    Counted,
    /// The failure does not count.
    Ignored,
    /// The index has failed.
    FailIndex,
    /// The job has failed; with the message for its condition.
    FailJob(String),
}

impl Verdict {
    pub(super) fn is_counted(&self) -> bool {
        *self != Self::Ignored
    }
}

/// Whether pods that are being deleted are replaced only after their end.
pub(super) fn replaces_only_failed(job: &Map) -> bool {
    let spec = Job::of(job).spec();
    spec.pod_replacement_policy() == Some("Failed") || spec.pod_failure_policy().is_some()
}

/// What the failure policy says about a pod that failed: the first rule that fits decides.
pub(super) fn verdict(job: &Map, pod: &JobPod) -> Verdict {
    let Some(policy) = Job::of(job).spec().pod_failure_policy() else { return Verdict::Counted };
    for (index, rule) in policy.rules().iter().enumerate() {
        let Some(why) = matched(rule, pod) else { continue };
        return match rule.action() {
            "Ignore" => Verdict::Ignored,
            "FailIndex" => Verdict::FailIndex,
            "Count" => Verdict::Counted,
            "FailJob" => Verdict::FailJob(format!("{why} matching {} rule at index {index}", rule.action())),
            _ => continue,
        };
    }
    Verdict::Counted
}

/// Why a rule fits a pod; `None` if it does not.
fn matched(rule: PodFailurePolicyRule<'_>, pod: &JobPod) -> Option<String> {
    let status = pod.view().status();
    let (namespace, name) = (pod.namespace(), pod.name());
    if let Some(codes) = rule.on_exit_codes() {
        let container = exited(codes, status.container_statuses())
            .or_else(|| exited(codes, status.init_container_statuses()))?;
        let code = container.state().terminated()?.exit_code();
        let container = container.name();
        return Some(format!(
            "Container {container} for pod {namespace}/{name} failed with exit code {code}"
        ));
    }
    let found = status.conditions().iter().find(|condition| {
        let mut patterns = rule.on_pod_conditions().iter();
        patterns
            .any(|pattern| pattern.r#type() == condition.r#type() && pattern.status() == condition.status())
    })?;
    Some(format!("Pod {namespace}/{name} has condition {}", found.r#type()))
}

/// The first container that ended with a code that fits.
fn exited<'a>(
    codes: PodFailurePolicyOnExitCodesRequirement<'_>,
    statuses: Items<'a, ContainerStatus<'a>>,
) -> Option<ContainerStatus<'a>> {
    statuses.iter().find(|status| {
        let Some(terminated) = status.state().terminated() else { return false };
        let code = terminated.exit_code();
        let is_listed = codes.values().iter().any(|value| value == code);
        let fits = match codes.operator() {
            "In" => is_listed,
            "NotIn" => !is_listed,
            _ => false,
        };
        code != 0 && fits && codes.container_name().is_none_or(|name| name == status.name())
    })
}

/// The message about the success policy, if its criteria are met.
pub(super) fn success(job: &Map, succeeded: &Intervals) -> Option<String> {
    let spec = Job::of(job).spec();
    let policy = spec.success_policy()?;
    if succeeded.is_empty() {
        return None;
    }
    let completions = spec.completions().unwrap_or_default();
    let met = policy.rules().iter().position(|rule| match rule.succeeded_indexes() {
        Some(text) => {
            let wanted = Intervals::parse(text, completions);
            let common = wanted.common(succeeded);
            !wanted.is_empty()
                && (common == wanted.total() || rule.succeeded_count().is_some_and(|count| common >= count))
        }
        None => rule.succeeded_count().is_some_and(|count| succeeded.total() >= count),
    });
    met.map(|index| format!("Matched rules at index {index}"))
}
