//! The status of a disruption budget.

use super::scale::Expected;
use super::{DELETION_TIMEOUT, Member};
use crate::objects::{edit, set_number};
use cache::Entry;
use kinds::object_meta;
use object::time::Time;
use object::{Map, Text};
use registry::conditions;
use schema::view::View as _;
use schema::views::policy::v1::PodDisruptionBudget;
use std::collections::BTreeMap;
use std::sync::Arc;

const CONDITION: &str = "DisruptionAllowed";

/// The pods whose eviction was allowed and that are not marked as deleted yet.
#[derive(Default)]
pub(super) struct Disrupted {
    pods: BTreeMap<Text, Time>,
    /// Those that should have been deleted by now, and are no longer counted.
    pub(super) not_deleted: Vec<Arc<Entry>>,
    /// When the next of them should be deleted.
    pub(super) recheck: Option<Time>,
}

/// What is left of the pods in the status of a budget.
pub(super) fn disrupted_pods(budget: &Map, pods: &[Member], now: Time) -> Disrupted {
    let before = PodDisruptionBudget::of(budget).status().disrupted_pods();
    let mut disrupted = Disrupted::default();
    for pod in pods.iter().filter(|pod| !pod.entry.is_deleting()) {
        let Some(at) = before.get(pod.entry.name()).and_then(|at| at.parse::<Time>().ok()) else { continue };
        let deadline = Time::from_unix(at.unix().saturating_add(DELETION_TIMEOUT));
        if deadline < now {
            disrupted.not_deleted.push(pod.entry.clone());
        } else {
            disrupted.recheck = Some(disrupted.recheck.map_or(deadline, |known| known.min(deadline)));
            disrupted.pods.insert(pod.entry.name().into(), at);
        }
    }
    disrupted
}

/// Writes the numbers and the condition. A status that says all that already stays as it is.
pub(super) fn update(budget: &mut Map, expected: &Expected, pods: &[Member], disrupted: &Disrupted) {
    let is_healthy = |pod: &&Member| {
        let is_disrupted = disrupted.pods.contains_key(pod.entry.name());
        let is_ready = pod.condition("Ready").is_some_and(|condition| condition.status() == "True");
        !pod.entry.is_deleting() && !is_disrupted && is_ready
    };
    let healthy = i64::try_from(pods.iter().filter(is_healthy).count()).unwrap_or(i64::MAX);
    let allowed = match expected.pods {
        ..=0 => 0,
        _ => (healthy - expected.healthy).max(0),
    };
    let generation = object_meta::number(budget, "generation").unwrap_or_default();
    edit(budget, "status", |status| {
        let is_observed =
            status.get("observedGeneration").and_then(object::Value::as_i64) == Some(generation);
        set_number(status, "currentHealthy", healthy);
        set_number(status, "desiredHealthy", expected.healthy);
        set_number(status, "expectedPods", expected.pods);
        set_number(status, "disruptionsAllowed", allowed);
        set_number(status, "observedGeneration", generation);
        match disrupted.pods.is_empty() {
            true => drop(status.remove("disruptedPods")),
            false => {
                let times = disrupted.pods.iter().map(|(name, at)| (name.as_str(), at.text()));
                status.insert("disruptedPods", times.collect::<Map>());
            }
        }
        let (value, reason) = match allowed {
            0 => ("False", "InsufficientPods"),
            _ => ("True", "SufficientPods"),
        };
        if !is_observed || !says(status, value, reason) {
            set_condition(status, value, reason, "");
        }
    });
}

/// No disruption is allowed, because the numbers are not known.
pub(super) fn fail(status: &mut Map, why: &str) {
    status.remove("disruptionsAllowed");
    set_condition(status, "False", "SyncFailed", why);
}

/// Whether the condition says so already.
fn says(status: &Map, value: &str, reason: &str) -> bool {
    let conditions = schema::views::policy::v1::PodDisruptionBudgetStatus::of(status).conditions();
    let known = conditions.iter().find(|condition| condition.r#type() == CONDITION);
    known.is_some_and(|known| known.status() == value && known.reason() == reason)
}

fn set_condition(status: &mut Map, value: &str, reason: &str, message: &str) {
    let mut condition: Map =
        [("type", CONDITION), ("status", value), ("reason", reason)].into_iter().collect();
    if !message.is_empty() {
        condition.insert("message", message);
    }
    if let Some(generation) = status.get("observedGeneration").cloned() {
        condition.insert("observedGeneration", generation);
    }
    conditions::set(status, condition);
}
