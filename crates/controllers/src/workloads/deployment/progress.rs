//! The status of a deployment: counts, conditions, and the deadline by which it has to make progress.

use super::super::replicas::REPLICA_FAILURE;
use super::super::status::{self, conditions, number, text};
use super::set::{Set, sum};
use super::{PROGRESSING, Sets, Step};
use crate::objects::time_left;
use crate::queue::RequeueAfter;
use object::quote::quote;
use object::time::Time;
use object::{Map, Value};
use schema::Status;
use schema::semantic::equal_maps;
use schema::view::View;
use schema::views::apps::v1::DeploymentStatus;
use std::time::Duration;

/// The time after the deadline at which a deployment is looked at.
const AFTER_DEADLINE: Duration = Duration::from_millis(10);
const AVAILABLE: &str = "NewReplicaSetAvailable";
const TIMED_OUT: &str = "ProgressDeadlineExceeded";

impl Step<'_> {
    /// The counts, and whether the deployment is available; other conditions stay.
    fn new_status(&self, sets: &Sets) -> Map {
        let old = self.status();
        let available = sum(sets.all(), |set| set.status().available_replicas());
        let mut new = Map::new();
        new.insert("observedGeneration", self.generation());
        new.insert("replicas", sum(sets.all(), |set| set.status().replicas()));
        new.insert("updatedReplicas", sum(&sets.new, |set| set.status().replicas()));
        new.insert("readyReplicas", sum(sets.all(), |set| set.status().ready_replicas()));
        new.insert("availableReplicas", available);
        new.insert("unavailableReplicas", (sum(sets.all(), Set::replicas) - available).max(0));
        for field in ["collisionCount", "conditions"] {
            if let Some(value) = old.get(field) {
                new.insert(field, value.clone());
            }
        }
        let condition = match available >= self.replicas() - self.max_unavailable() {
            true => ["True", "MinimumReplicasAvailable", "Deployment has minimum availability."],
            false => {
                ["False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability."]
            }
        };
        let [value, reason, message] = condition;
        status::set(&mut new, Self::condition("Available", value, reason, message));
        new
    }

    /// Writes the status of a deployment that is not being rolled out.
    pub(super) async fn write_new_status(&mut self, sets: &Sets) -> Result<RequeueAfter, Status> {
        let new = self.new_status(sets);
        if !self.has_status(&new) {
            self.object.insert("status", new);
            self.write_status().await?;
        }
        Ok(None)
    }

    /// Writes the status of a deployment that is rolled out. Gives the time until its deadline if it makes no
    /// progress.
    pub(super) async fn write_rollout_status(&mut self, sets: &Sets) -> Result<RequeueAfter, Status> {
        let mut new = self.new_status(sets);
        self.note_progress(&mut new, sets);
        match failure(sets) {
            Some(failure) => status::set(&mut new, failure),
            None => status::remove(&mut new, REPLICA_FAILURE),
        }
        if self.has_status(&new) {
            return Ok(self.time_to_deadline(&new));
        }
        self.object.insert("status", new);
        self.write_status().await?;
        Ok(None)
    }

    fn has_status(&self, new: &Map) -> bool {
        equal_maps(DeploymentStatus::schema(), &self.status(), new)
    }

    /// Whether all replicas have the newest template and are available.
    pub(super) fn is_complete(&self, status: &Map) -> bool {
        let counts = ["updatedReplicas", "replicas", "availableReplicas"];
        counts.iter().all(|count| number(status, count) == self.replicas())
            && number(status, "observedGeneration") >= self.generation()
    }

    /// Whether there is more of the new, or less of the old, than the status says that was written last.
    fn has_progress(&self, new: &Map) -> bool {
        let old = self.status();
        let rest = |status: &Map| number(status, "replicas") - number(status, "updatedReplicas");
        let grows = ["updatedReplicas", "readyReplicas", "availableReplicas"];
        rest(new) < rest(&old) || grows.iter().any(|count| number(new, count) > number(&old, count))
    }

    fn note_progress(&self, new: &mut Map, sets: &Sets) {
        if !self.has_deadline() {
            return status::remove(new, PROGRESSING);
        }
        let old = self.status();
        let current = status::find(&old, PROGRESSING);
        let is_done = number(new, "replicas") == number(new, "updatedReplicas")
            && current.is_some_and(|current| text(current, "reason") == AVAILABLE);
        if is_done {
            return;
        }
        let subject = match &sets.new {
            Some(set) => format!("ReplicaSet {}", quote(set.name())),
            None => format!("Deployment {}", quote(self.owner.name())),
        };
        if self.is_complete(new) {
            let message = format!("{subject} has successfully progressed.");
            status::set(new, Self::condition(PROGRESSING, "True", AVAILABLE, &message));
        } else if self.has_progress(new) {
            let message = format!("{subject} is progressing.");
            let mut condition = Self::condition(PROGRESSING, "True", "ReplicaSetUpdated", &message);
            if let Some(current) = current.filter(|current| text(current, "status") == "True") {
                let since = current.get("lastTransitionTime").cloned().unwrap_or_default();
                condition.insert("lastTransitionTime", since);
            }
            // Each progress counts for the deadline, so the condition is new even if it says the same.
            status::put(new, condition);
        } else if self.is_overdue(new) {
            let message = format!("{subject} has timed out progressing.");
            status::set(new, Self::condition(PROGRESSING, "False", TIMED_OUT, &message));
        }
    }

    /// The time that is left until the deadline, from the last progress on.
    fn time_left(&self, progressing: &Map) -> Duration {
        let since: Time = text(progressing, "lastUpdateTime").parse().unwrap_or(Time::ZERO);
        let seconds = self.spec().progress_deadline_seconds().unwrap_or_default();
        time_left(Time::from_unix(since.unix().saturating_add(seconds)))
    }

    fn is_overdue(&self, status: &Map) -> bool {
        let Some(condition) = status::find(status, PROGRESSING) else { return false };
        match text(condition, "reason") {
            AVAILABLE => false,
            TIMED_OUT => true,
            _ => self.time_left(condition).is_zero(),
        }
    }

    fn time_to_deadline(&self, status: &Map) -> RequeueAfter {
        let condition = status::find(status, PROGRESSING).filter(|_| self.has_deadline())?;
        let is_over = self.is_complete(status) || matches!(text(condition, "reason"), TIMED_OUT | AVAILABLE);
        (!is_over).then(|| self.time_left(condition) + AFTER_DEADLINE)
    }
}

/// The failure of a replica set to create or delete pods, as a condition of its deployment: that of the new
/// one, or the first.
fn failure(sets: &Sets) -> Option<Map> {
    let failures = |set: &Set| {
        let status = set.object.get("status").and_then(Value::as_map)?;
        let mut all = conditions(status).iter().filter_map(Value::as_map);
        all.find(|condition| text(condition, "type") == REPLICA_FAILURE).cloned()
    };
    let found = sets.new.iter().chain(&sets.old).find_map(failures)?;
    let mut condition = Map::new();
    for field in ["type", "status", "lastTransitionTime", "reason", "message"] {
        condition.insert(field, found.get(field).cloned().unwrap_or_default());
    }
    condition.insert("lastUpdateTime", found.get("lastTransitionTime").cloned().unwrap_or_default());
    Some(condition)
}
