//! One look at a job: how it is going to end, which pods it needs, and what it has to count.

use super::intervals::Intervals;
use super::pod::JobPod;
use super::policy::{self, Verdict};
use super::{KIND, Worker, has_finished, is_indexed, is_managed_elsewhere, is_suspended};
use crate::EventType;
use crate::objects::{decode, edit, set_number};
use crate::queue::RequeueAfter;
use crate::workloads::owner::{ObjectKey, Owner};
use crate::workloads::status;
use kinds::label_selector;
use object::Map;
use object::time::Time;
use schema::Status;
use schema::view::View as _;
use schema::views::batch::v1::Job;
use std::collections::{BTreeMap, HashSet};
use std::time::{Duration, SystemTime};

/// How a job ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Finish {
    /// The type of the condition.
    pub(super) kind: &'static str,
    pub(super) reason: String,
    pub(super) message: String,
}

impl Finish {
    fn new(kind: &'static str, reason: &str, message: &str) -> Self {
        Self { kind, reason: reason.to_owned(), message: message.to_owned() }
    }

    fn failing(reason: &str, message: &str) -> Self {
        Self::new("FailureTarget", reason, message)
    }
}

/// What is known of a job while it is looked at.
pub(super) struct Look<'a> {
    pub(super) worker: &'a Worker,
    pub(super) key: &'a ObjectKey,
    pub(super) owner: Owner,
    /// The job, with the status as it is going to be written.
    pub(super) job: Map,
    pub(super) pods: Vec<JobPod>,
    pub(super) uncounted_succeeded: HashSet<String>,
    pub(super) uncounted_failed: HashSet<String>,
    /// How many pods or indexes have succeeded, those included that are not in the status.
    pub(super) succeeded: i64,
    pub(super) failed: i64,
    pub(super) active: i64,
    pub(super) ready: i64,
    pub(super) terminating: i64,
    /// The indexes that succeeded before, and those that have succeeded by now.
    pub(super) previous_indexes: Intervals,
    pub(super) succeeded_indexes: Intervals,
    pub(super) failed_indexes: Option<Intervals>,
    /// The failed pods, by index, that stay until they are replaced.
    pub(super) delayed: BTreeMap<i64, JobPod>,
    pub(super) record: super::backoff::Record,
    pub(super) finish: Option<Finish>,
    pub(super) again: RequeueAfter,
    pub(super) now: SystemTime,
}

pub(super) async fn sync(worker: &Worker, key: &ObjectKey) -> Result<RequeueAfter, Status> {
    let Some(entry) = worker.jobs.lookup(&key.0, &key.1).map_err(registry::status)? else {
        worker.records.remove(key);
        return Ok(None);
    };
    let job = decode(Job::schema(), &entry)?;
    if is_managed_elsewhere(&job) {
        return Ok(None);
    }
    if has_finished(&job) {
        worker.records.remove(key);
        return Ok(None);
    }
    let owner = Owner { kind: &KIND, entry };
    let spec = Job::of(&job).spec();
    if !matches!(spec.completion_mode(), None | Some("Indexed" | "NonIndexed")) {
        let text = "Skipped Job sync because completion mode is unknown";
        worker.reporter.report(&owner.subject(), EventType::Warning, "UnknownCompletionMode", text);
        return Ok(None);
    }
    let Some(selector) = spec.selector() else { return Ok(None) };
    let selector = label_selector::compile(selector)
        .map_err(|error| crate::objects::failure(format!("couldn't convert Job selector: {error}")))?;
    let claimed = worker.pods.claims(&owner, &selector, &[super::TRACKING]).all(|_| true).await?;
    let pods: Vec<JobPod> = claimed.into_iter().map(JobPod::read).collect::<Result<_, _>>()?;
    let mut look = Look::new(worker, key, owner, job, pods);
    look.sync().await?;
    Ok(look.again)
}

pub(super) fn count<T>(items: impl Iterator<Item = T>) -> i64 {
    i64::try_from(items.count()).unwrap_or(i64::MAX)
}

impl<'a> Look<'a> {
    fn new(worker: &'a Worker, key: &'a ObjectKey, owner: Owner, job: Map, pods: Vec<JobPod>) -> Self {
        let view = Job::of(&job).status();
        let uncounted = view.uncounted_terminated_pods();
        let succeeded = uncounted.map(|uncounted| uncounted.succeeded().iter().map(str::to_owned).collect());
        let failed = uncounted.map(|uncounted| uncounted.failed().iter().map(str::to_owned).collect());
        let active = count(pods.iter().filter(|pod| pod.is_active()));
        let ready = count(pods.iter().filter(|pod| pod.is_active() && pod.is_ready()));
        let terminating = count(pods.iter().filter(|pod| pod.is_terminating()));
        Self {
            worker,
            key,
            owner,
            pods,
            uncounted_succeeded: succeeded.unwrap_or_default(),
            uncounted_failed: failed.unwrap_or_default(),
            succeeded: view.succeeded(),
            failed: view.failed(),
            active,
            ready,
            terminating,
            previous_indexes: Intervals::default(),
            succeeded_indexes: Intervals::default(),
            failed_indexes: None,
            delayed: BTreeMap::new(),
            record: worker.records.get(key),
            finish: None,
            again: None,
            now: clock::now(),
            job,
        }
    }

    pub(super) fn report(&self, event_type: EventType, reason: &'static str, message: impl Into<String>) {
        self.worker.reporter.report(&self.owner.subject(), event_type, reason, message);
    }

    /// The job is looked at again after a time at the latest.
    pub(super) fn look_again(&mut self, after: Duration) {
        self.again = Some(self.again.map_or(after, |known| known.min(after)));
    }

    pub(super) fn completions(&self) -> i64 {
        Job::of(&self.job).spec().completions().unwrap_or_default()
    }

    pub(super) fn is_per_index(&self) -> bool {
        Job::of(&self.job).spec().backoff_limit_per_index().is_some()
    }

    /// The pods that are not counted yet and have an index of the job.
    fn countable<'p>(&'p self, counted: &'p HashSet<String>) -> impl Iterator<Item = &'p JobPod> {
        let pods = self.pods.iter().filter(|pod| pod.is_tracked && !counted.contains(pod.uid()));
        pods.filter(|pod| pod.is_in_range(&self.job))
    }

    async fn sync(&mut self) -> Result<(), Status> {
        self.count_new();
        let status = Job::of(&self.job).status();
        let (was_active, was_ready, was_terminating) =
            (status.active(), status.ready(), status.terminating());
        if status.start_time().is_none() && !is_suspended(&self.job) {
            self.set_start_time();
        }
        self.decide();
        let mut is_resumed_or_suspended = false;
        let mut managed = Ok(());
        if self.finish.is_some() {
            let before = self.active;
            managed = self.delete_active().await;
            if self.active > 0 && before > 0 {
                // Some pods could not be deleted.
                self.finish = None;
            }
        } else {
            let is_managed = !self.owner.is_deleting();
            if is_managed {
                managed = self.manage().await;
            }
            let spec = Job::of(&self.job).spec();
            let is_complete = match spec.completions() {
                None => self.succeeded > 0 && self.active == 0,
                Some(completions) => self.succeeded >= completions && self.active == 0,
            };
            if is_complete {
                let text = "Reached expected number of succeeded pods";
                self.finish = Some(Finish::new("SuccessCriteriaMet", "CompletionsReached", text));
            } else if is_managed {
                is_resumed_or_suspended = self.note_suspension();
            }
        }
        let needs_flush = is_resumed_or_suspended
            || was_active != self.active
            || was_ready != Some(self.ready)
            || was_terminating != Some(self.terminating);
        let (active, ready, terminating) = (self.active, self.ready, self.terminating);
        edit(&mut self.job, "status", |status| {
            set_number(status, "active", active);
            status.insert("ready", ready);
            status.insert("terminating", terminating);
        });
        self.track(needs_flush).await.map_err(|mut error| {
            error.message = format!("tracking status: {}", error.message);
            error
        })?;
        managed
    }

    /// Counts the pods that have ended since the last look.
    fn count_new(&mut self) {
        let succeeded: Vec<&JobPod> =
            self.countable(&self.uncounted_succeeded).filter(|pod| pod.has_succeeded()).collect();
        let failed: Vec<&JobPod> =
            self.countable(&self.uncounted_failed).filter(|pod| pod.has_failed(&self.job)).collect();
        let counted = failed.iter().filter(|pod| policy::verdict(&self.job, pod).is_counted());
        let more_failed = count(counted) + count(self.uncounted_failed.iter());
        let more_succeeded = count(succeeded.iter()) + count(self.uncounted_succeeded.iter());
        self.record = self.record.after(&succeeded, &failed);
        self.succeeded += more_succeeded;
        self.failed += more_failed;
    }

    fn set_start_time(&mut self) {
        let now = Time::now().text();
        edit(&mut self.job, "status", |status| status.insert("startTime", now));
    }

    /// Decides whether the job ends, and how: what was decided before counts first, then failures, then
    /// successes.
    fn decide(&mut self) {
        let job = self.job.clone();
        let empty = Map::new();
        let status = job.get("status").and_then(object::Value::as_map).unwrap_or(&empty);
        let decided = |kind: &str| {
            status::find(status, kind).filter(|condition| status::text(condition, "status") == "True")
        };
        let as_decided = |kind: &'static str, condition: &Map| {
            Finish::new(kind, status::text(condition, "reason"), status::text(condition, "message"))
        };
        self.finish = decided("SuccessCriteriaMet")
            .map(|condition| as_decided("SuccessCriteriaMet", condition))
            .or_else(|| decided("FailureTarget").map(|condition| as_decided("Failed", condition)))
            .or_else(|| self.failed_by_policy())
            .or_else(|| self.failed_by_limits());
        if is_indexed(&job) {
            self.decide_by_indexes();
        }
    }

    /// A pod failed in a way that fails the job.
    fn failed_by_policy(&self) -> Option<Finish> {
        let failed = self.pods.iter().filter(|pod| pod.has_failed(&self.job));
        let mut messages = failed.filter_map(|pod| match policy::verdict(&self.job, pod) {
            Verdict::FailJob(message) => Some(message),
            _ => None,
        });
        messages.next().map(|message| Finish::failing("PodFailurePolicy", &message))
    }

    fn failed_by_limits(&mut self) -> Option<Finish> {
        let job = self.job.clone();
        let spec = Job::of(&job).spec();
        let limit = spec.backoff_limit().unwrap_or(i64::MAX);
        if self.failed > limit || self.has_too_many_restarts(limit) {
            let text = "Job has reached the specified backoff limit";
            return Some(Finish::failing("BackoffLimitExceeded", text));
        }
        let deadline = spec.active_deadline_seconds().filter(|_| !is_suspended(&job))?;
        let started: Time = Job::of(&job).status().start_time()?.parse().ok()?;
        let end = Time::from_unix(started.unix().saturating_add(deadline));
        match crate::objects::until(end, self.now) {
            Duration::ZERO => {
                Some(Finish::failing("DeadlineExceeded", "Job was active longer than specified deadline"))
            }
            left => {
                self.look_again(left);
                None
            }
        }
    }

    /// Whether the containers of pods that are restarted in place were restarted too often.
    fn has_too_many_restarts(&self, limit: i64) -> bool {
        if Job::of(&self.job).spec().template().spec().restart_policy() != "OnFailure" {
            return false;
        }
        let running = self.pods.iter().filter(|pod| matches!(pod.phase(), "Running" | "Pending"));
        let restarts: i64 = running.map(JobPod::restarts).sum();
        if limit == 0 { restarts > 0 } else { restarts >= limit }
    }

    fn decide_by_indexes(&mut self) {
        let (job, completions) = (self.job.clone(), self.completions());
        let (spec, status) = (Job::of(&job).spec(), Job::of(&job).status());
        let tracked = self.pods.iter().filter(|pod| pod.is_tracked && pod.is_in_range(&job));
        let (succeeded, others): (Vec<&JobPod>, Vec<&JobPod>) = tracked.partition(|pod| pod.has_succeeded());
        let new: Intervals = succeeded.iter().filter_map(|pod| pod.index).collect();
        self.previous_indexes = Intervals::parse(status.completed_indexes(), completions);
        self.succeeded_indexes = self.previous_indexes.merge(&new);
        self.succeeded = self.succeeded_indexes.total();
        if let Some(limit) = spec.backoff_limit_per_index() {
            let failed = others.iter().filter(|pod| has_failed_index(&job, pod, limit));
            let new: Intervals = failed.filter_map(|pod| pod.index).collect();
            let before = Intervals::parse(status.failed_indexes().unwrap_or_default(), completions);
            let failed = before.merge(&new);
            if self.finish.is_none() {
                let total = failed.total();
                if spec.max_failed_indexes().is_some_and(|most| total > most) {
                    let text = "Job has exceeded the specified maximal number of failed indexes";
                    self.finish = Some(Finish::failing("MaxFailedIndexesExceeded", text));
                } else if total > 0 && total + self.succeeded_indexes.total() >= completions {
                    self.finish = Some(Finish::failing("FailedIndexes", "Job has failed indexes"));
                }
            }
            self.failed_indexes = Some(failed);
            self.delayed = self.delayed_pods();
        }
        if self.finish.is_none()
            && let Some(message) = policy::success(&job, &self.succeeded_indexes)
        {
            self.finish = Some(Finish::new("SuccessCriteriaMet", "SuccessPolicy", &message));
        }
    }

    /// The failed pods that the next pod of their index takes the number of failures from.
    fn delayed_pods(&self) -> BTreeMap<i64, JobPod> {
        let active: HashSet<i64> =
            self.pods.iter().filter(|pod| pod.is_active()).filter_map(|pod| pod.index).collect();
        let failed_indexes = self.failed_indexes.clone().unwrap_or_default();
        let mut delayed: BTreeMap<i64, JobPod> = BTreeMap::new();
        for pod in self.pods.iter().filter(|pod| pod.is_tracked && pod.is_in_range(&self.job)) {
            let Some(index) = pod.index.filter(|_| pod.has_failed(&self.job)) else { continue };
            if self.succeeded_indexes.has(index) || failed_indexes.has(index) || active.contains(&index) {
                continue;
            }
            let is_newer = delayed.get(&index).is_none_or(|known| {
                known.failures().total() <= pod.failures().total() && pod.finished_at() >= known.finished_at()
            });
            if is_newer {
                delayed.insert(index, pod.clone());
            }
        }
        delayed
    }

    /// Says in the status that the job is suspended, or was resumed. True if that was not said before.
    fn note_suspension(&mut self) -> bool {
        let is_suspended = is_suspended(&self.job);
        let (value, reason, text) = match is_suspended {
            true => ("True", "JobSuspended", "Job suspended"),
            false => ("False", "JobResumed", "Job resumed"),
        };
        let finish = Finish::new("Suspended", reason, text);
        if !edit(&mut self.job, "status", |status| ensure(status, &finish, value)) {
            return false;
        }
        match is_suspended {
            true => self.report(EventType::Normal, "Suspended", text),
            false => {
                self.report(EventType::Normal, "Resumed", text);
                self.set_start_time();
            }
        }
        true
    }
}

/// Whether the failure of a pod fails its index.
fn has_failed_index(job: &Map, pod: &JobPod, limit: i64) -> bool {
    if !pod.has_failed(job) {
        return false;
    }
    match policy::verdict(job, pod) {
        Verdict::FailIndex => true,
        verdict => verdict.is_counted() && i64::from(pod.failures().counted) >= limit,
    }
}

/// Sets a condition of a job. A condition that is not there is not added as `False`. True if that changes
/// anything.
pub(super) fn ensure(status: &mut Map, condition: &Finish, value: &str) -> bool {
    match status::find(status, condition.kind) {
        None if value == "False" => return false,
        Some(known)
            if status::text(known, "status") == value
                && status::text(known, "reason") == condition.reason
                && status::text(known, "message") == condition.message =>
        {
            return false;
        }
        _ => {}
    }
    put(status, condition, value);
    true
}

/// Puts a condition in the place of the one of its type, or at the end.
pub(super) fn put(status: &mut Map, Finish { kind, reason, message }: &Finish, value: &str) {
    let now = Time::now();
    let mut condition = Map::new();
    condition.insert("type", *kind);
    condition.insert("status", value);
    condition.insert("lastProbeTime", now.text());
    condition.insert("lastTransitionTime", now.text());
    crate::objects::set_text(&mut condition, "reason", reason);
    crate::objects::set_text(&mut condition, "message", message);
    let list = status.get_or_insert_with("conditions", || object::List::new().into());
    let Some(list) = list.as_list_mut() else { return };
    let known = list.iter_mut().find(|one| one.get("type").and_then(object::Value::as_str) == Some(*kind));
    match known {
        Some(known) => *known = condition.into(),
        None => list.push(condition.into()),
    }
}
