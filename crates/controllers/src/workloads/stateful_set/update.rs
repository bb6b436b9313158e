//! What a step does with the pods of a set.
//!
//! 1. The pods of the set's ordinals are created, completed and replaced: one after another with
//!    `OrderedReady`, where a step ends at the first that is not available; all at once with `Parallel`.
//! 2. Then pods of other ordinals are deleted, the largest ordinal first.
//! 3. Then pods of old revisions are deleted, from the largest ordinal down to the partition, one at a time.

use super::super::dependents::Dependent;
use super::super::slow_start::{FIRST_BATCH, slow_start};
use super::replica::{Counts, Replica, State};
use super::{Step, claims};
use crate::EventType;
use object::Value;
use object::int_or_string::{IntOrString, Round};
use registry::{Address, DeleteOptions};
use schema::Status;
use schema::status::Reason;
use schema::view::View as _;
use std::sync::Arc;

/// The most pods that one step creates.
const MOST_MISSING: usize = 500;

/// The outcome of a step. The counts are as of its beginning, also if it failed.
pub(super) struct Outcome {
    pub(super) counts: Counts,
    pub(super) result: Result<(), Status>,
}

/// Whether a step goes on with the next pod.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    GoOn,
    Stop,
}

/// The pods of a set.
struct Pods {
    /// Those of the set's ordinals, in order.
    replicas: Vec<Replica>,
    /// The others, the largest ordinal first.
    condemned: Vec<Replica>,
    /// The name of the first pod that is not healthy: the only one of these that `OrderedReady` may delete.
    unhealthy: Option<String>,
}

/// Brings the pods of a set one step further.
pub(super) async fn update(step: &Arc<Step>, pods: Vec<Dependent>) -> Outcome {
    let pods = Arc::new(sort(step, pods));
    let mut counts = Counts::of(step, pods.replicas.iter().chain(&pods.condemned));
    let result = match step.owner.is_deleting() {
        true => Ok(()),
        false => advance(step, &pods, &mut counts).await,
    };
    Outcome { counts, result }
}

fn sort(step: &Step, pods: Vec<Dependent>) -> Pods {
    let mut there: Vec<_> = pods.into_iter().filter_map(Replica::of).collect();
    there.sort_by_key(|replica| replica.ordinal);
    let (own, mut condemned): (Vec<_>, Vec<_>) =
        there.into_iter().partition(|replica| step.has_ordinal(replica.ordinal));
    let replicas = fill(step, own);
    let all = replicas.iter().chain(&condemned);
    let unhealthy = all.into_iter().find(|replica| !replica.is_healthy()).map(|it| it.name.clone());
    condemned.reverse();
    Pods { replicas, condemned, unhealthy }
}

/// The pods of the set's ordinals in order, with places for those that are missing, of which there are at
/// most [`MOST_MISSING`].
fn fill(step: &Step, own: Vec<Replica>) -> Vec<Replica> {
    let end = step.start().saturating_add(step.replicas());
    let mut replicas: Vec<Replica> = Vec::new();
    let mut next = step.start();
    // With `OrderedReady`, a step ends at the first that is missing.
    let mut left = if step.is_ordered() { 1 } else { MOST_MISSING };
    let mut fill_to = |replicas: &mut Vec<Replica>, next: i64, end: i64| {
        for ordinal in (next..end).take(left) {
            replicas.push(Replica::missing(step, ordinal));
            left -= 1;
        }
    };
    for replica in own {
        // Names such as `web-1` and `web-01` have the same ordinal.
        if replicas.last().is_some_and(|last| last.ordinal == replica.ordinal) {
            replicas.pop();
        }
        fill_to(&mut replicas, next, replica.ordinal);
        next = replica.ordinal.saturating_add(1);
        replicas.push(replica);
    }
    fill_to(&mut replicas, next, end);
    replicas
}

async fn advance(step: &Arc<Step>, pods: &Arc<Pods>, counts: &mut Counts) -> Result<(), Status> {
    let all = pods.replicas.len();
    if for_all(step, pods, all, |step, pods, at| async move { step.process(&pods, at).await }).await?
        == Next::Stop
    {
        return Ok(());
    }
    if i64::try_from(pods.replicas.len()).is_ok_and(|count| count < step.replicas()) {
        // The next step, which the new pods lead to, creates more.
        return Ok(());
    }
    let all = pods.condemned.len();
    let fix = |step: Arc<Step>, pods: Arc<Pods>, at: usize| async move {
        match pods.condemned.get(at) {
            Some(replica) => claims::fix_owners(&step, replica).await.map(|()| Next::GoOn),
            None => Ok(Next::GoOn),
        }
    };
    if for_all(step, pods, all, fix).await? == Next::Stop {
        return Ok(());
    }
    if for_all(step, pods, all, |step, pods, at| async move { step.condemn(&pods, at).await }).await?
        == Next::Stop
    {
        return Ok(());
    }
    if step.spec().update_strategy().r#type() == "OnDelete" {
        return Ok(());
    }
    if step.controller.has_max_unavailable {
        return step.replace_some(pods, counts).await;
    }
    step.replace_one(pods, counts).await
}

/// Runs an action for pods by their places: in order until one stops the step, or all at once.
async fn for_all<F>(
    step: &Arc<Step>,
    pods: &Arc<Pods>,
    count: usize,
    action: impl Fn(Arc<Step>, Arc<Pods>, usize) -> F,
) -> Result<Next, Status>
where
    F: Future<Output = Result<Next, Status>> + Send + 'static,
{
    if step.is_ordered() {
        for at in 0..count {
            if action(step.clone(), pods.clone(), at).await? == Next::Stop {
                return Ok(Next::Stop);
            }
        }
        return Ok(Next::GoOn);
    }
    let started = slow_start(count, FIRST_BATCH, |at| {
        let running = action(step.clone(), pods.clone(), at);
        async move { running.await.map(drop) }
    });
    started.await.error.map_or(Ok(Next::GoOn), Err)
}

impl Step {
    /// `OrderedReady`: one pod after another.
    fn is_ordered(&self) -> bool {
        self.spec().pod_management_policy() != "Parallel"
    }

    /// The outcome for a pod that others may have to wait for.
    fn wait_if_ordered(&self) -> Next {
        if self.is_ordered() { Next::Stop } else { Next::GoOn }
    }

    async fn process(&self, pods: &Pods, at: usize) -> Result<Next, Status> {
        let Some(replica) = pods.replicas.get(at) else { return Ok(Next::GoOn) };
        if replica.is_finished() {
            if !replica.is_terminating() {
                self.delete(replica).await?;
            }
            return Ok(Next::Stop);
        }
        if let State::Missing(pod) = &replica.state {
            if claims::are_stale(self, replica)? {
                return Ok(Next::Stop);
            }
            self.create(replica, pod.clone()).await?;
            if self.is_ordered() {
                return Ok(Next::Stop);
            }
        }
        if replica.is_pending() {
            self.complete_claims(replica).await?;
        }
        let min_ready = self.spec().min_ready_seconds();
        let is_settled =
            !replica.is_terminating() && replica.is_ready() && replica.is_available(min_ready, clock::now());
        if !is_settled && self.is_ordered() {
            return Ok(Next::Stop);
        }
        if let State::There(pod) = &replica.state {
            let has_identity = claims::has_identity(self, replica)?;
            if !has_identity || !claims::have_right_owners(self, replica).unwrap_or(true) {
                self.repair(replica, pod).await?;
            }
        }
        Ok(Next::GoOn)
    }

    async fn condemn(&self, pods: &Pods, at: usize) -> Result<Next, Status> {
        let Some(replica) = pods.condemned.get(at) else { return Ok(Next::GoOn) };
        if replica.is_terminating() {
            return Ok(self.wait_if_ordered());
        }
        let min_ready = self.spec().min_ready_seconds();
        let is_settled = replica.is_ready() && replica.is_available(min_ready, clock::now());
        let is_first_unhealthy = pods.unhealthy.as_ref() == Some(&replica.name);
        if !is_settled && self.is_ordered() && !is_first_unhealthy {
            return Ok(Next::Stop);
        }
        self.delete(replica).await.map(|()| Next::Stop)
    }

    /// Deletes the last pod of an old revision, if all after it are healthy.
    async fn replace_one(&self, pods: &Pods, counts: &mut Counts) -> Result<(), Status> {
        for replica in pods.replicas.iter().skip(self.partition()).rev() {
            if replica.revision() != self.update.name() && !replica.is_terminating() {
                let deleted = self.delete(replica).await;
                if deleted.as_ref().is_err_and(|error| error.reason != Reason::NotFound) {
                    return deleted;
                }
                counts.current -= 1;
                return deleted;
            }
            if !replica.is_healthy() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Deletes pods of old revisions, so many that `maxUnavailable` pods are not healthy.
    async fn replace_some(&self, pods: &Pods, counts: &mut Counts) -> Result<(), Status> {
        let most = self.max_unavailable()?;
        let unhealthy = pods.replicas.iter().filter(|replica| !replica.is_healthy()).count();
        let mut left = usize::try_from(most).unwrap_or_default().saturating_sub(unhealthy);
        for replica in pods.replicas.iter().skip(self.partition()).rev() {
            if left == 0 {
                break;
            }
            if replica.revision() != self.update.name() && !replica.is_terminating() {
                match self.delete(replica).await {
                    Err(error) if error.reason != Reason::NotFound => return Err(error),
                    _ => {}
                }
                left -= 1;
                counts.current -= 1;
            }
        }
        Ok(())
    }

    /// How many pods, from the first on, keep their revision.
    fn partition(&self) -> usize {
        let rolling = self.spec().update_strategy().rolling_update();
        let partition = rolling.and_then(|rolling| rolling.partition()).unwrap_or_default();
        usize::try_from(partition).unwrap_or_default()
    }

    fn max_unavailable(&self) -> Result<i64, Status> {
        let rolling = self.spec().update_strategy().rolling_update();
        let value: Option<&Value> = rolling.and_then(|rolling| rolling.map().get("maxUnavailable"));
        let amount = match value {
            None => IntOrString::Int(1),
            value => kinds::int_or_percent(value),
        };
        let scaled = amount.scaled_value(self.replicas(), Round::Down);
        scaled.map(|most| most.max(1)).map_err(|error| Status::internal_error(&error.to_string()))
    }

    async fn create(&self, replica: &Replica, pod: object::Map) -> Result<(), Status> {
        if let Err(error) = claims::create(self, replica).await {
            self.report_pod("create", replica, Some(&error));
            return Err(error);
        }
        let address = Address::core("pods", self.owner.namespace());
        let created = self.controller.client.create(address, pod.into()).await.map(drop);
        if created.as_ref().is_err_and(|error| error.reason == Reason::AlreadyExists) {
            return created;
        }
        if let Err(error) = claims::write_owners(self, replica).await {
            self.report_pod("update", replica, Some(&error));
            return Err(error);
        }
        self.report_pod("create", replica, created.as_ref().err());
        created
    }

    async fn complete_claims(&self, replica: &Replica) -> Result<(), Status> {
        claims::create(self, replica).await?;
        let written = claims::write_owners(self, replica).await;
        if let Err(error) = &written {
            self.report_pod("update", replica, Some(error));
        }
        written
    }

    /// Gives a pod its identity and its claims back.
    async fn repair(&self, replica: &Replica, pod: &Dependent) -> Result<(), Status> {
        let repaired = claims::repair(self, replica, pod).await;
        self.report_pod("update", replica, repaired.as_ref().err());
        repaired
    }

    async fn delete(&self, replica: &Replica) -> Result<(), Status> {
        let address = Address::core("pods", self.owner.namespace()).named(&replica.name);
        let deleted = self.controller.client.delete(address, &DeleteOptions::default()).await;
        self.report_pod("delete", replica, deleted.as_ref().err());
        deleted
    }

    fn report_pod(&self, verb: &str, replica: &Replica, error: Option<&Status>) {
        let what = format!("{verb} Pod {} in StatefulSet {}", replica.name, self.owner.name());
        self.report(verb, &format!("{what} successful"), &what, error);
    }

    /// Reports a success or a failure.
    pub(super) fn report(&self, verb: &str, success: &str, what: &str, error: Option<&Status>) {
        let (event_type, message) = match error {
            None => (EventType::Normal, success.to_owned()),
            Some(error) => (EventType::Warning, format!("{what} failed error: {}", error.message)),
        };
        let reason = match (verb, error.is_none()) {
            ("create", true) => "SuccessfulCreate",
            ("create", false) => "FailedCreate",
            ("delete", true) => "SuccessfulDelete",
            ("delete", false) => "FailedDelete",
            (_, true) => "SuccessfulUpdate",
            (_, false) => "FailedUpdate",
        };
        self.controller.reporter.report(&self.owner.subject(), event_type, reason, message);
    }
}
