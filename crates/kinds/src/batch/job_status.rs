//! The rules for the status of a job.
//!
//! Most rules hold only for a change of the fields that they are about: an object that breaks them already
//! may keep what it has.

use super::{indexes, job_spec};
use crate::workload;
use object::field::{BadValue, Error, List, Path};
use object::quote::quote_each;
use object::time::Time;
use schema::view::{Items, View};
use schema::views::batch::v1::{Job, JobCondition, JobStatus, UncountedTerminatedPods};
use std::collections::HashSet;

/// Which conditions of a status are true.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Conditions {
    complete: bool,
    failed: bool,
    failure_target: bool,
    success_criteria_met: bool,
}

impl Conditions {
    fn of(status: JobStatus<'_>) -> Self {
        let holds = |ty| has_condition(status.conditions(), ty, "True");
        Self {
            complete: holds("Complete"),
            failed: holds("Failed"),
            failure_target: holds("FailureTarget"),
            success_criteria_met: holds("SuccessCriteriaMet"),
        }
    }

    fn is_finished(self) -> bool {
        self.complete || self.failed
    }
}

fn has_condition(conditions: Items<'_, JobCondition<'_>>, ty: &str, status: &str) -> bool {
    conditions.iter().any(|condition| condition.r#type() == ty && condition.status() == status)
}

/// A status before and after a change.
struct Change<'a> {
    job: Job<'a>,
    new: JobStatus<'a>,
    old: JobStatus<'a>,
    now: Conditions,
    before: Conditions,
}

impl Change<'_> {
    fn finishes(&self) -> bool {
        self.now.is_finished() != self.before.is_finished()
    }

    fn completes(&self) -> bool {
        self.now.complete != self.before.complete
    }

    fn changes_start(&self) -> bool {
        self.new.start_time() != self.old.start_time()
    }

    fn changes_completion_time(&self) -> bool {
        self.new.completion_time() != self.old.completion_time()
    }

    fn changes_failed_indexes(&self) -> bool {
        self.new.failed_indexes() != self.old.failed_indexes()
    }

    fn changes_active(&self) -> bool {
        self.new.active() != self.old.active()
    }
}

/// The field errors of a change of the status.
pub(super) fn validate(new: Job<'_>, old: Job<'_>) -> List {
    let (new_status, old_status) = (new.status(), old.status());
    let change = Change {
        job: new,
        new: new_status,
        old: old_status,
        now: Conditions::of(new_status),
        before: Conditions::of(old_status),
    };
    let path = Path::new("status");
    let mut errors = counts(new_status, &path);
    errors.append(times_and_conditions(&change, &path));
    errors.append(finished(&change, &path));
    errors.append(index_texts(&change, &path));
    errors.append(late(&change, &path));
    errors.append(transitions(&change, &path));
    errors
}

fn condition_error(path: &Path<'_>, why: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::invalid(&path.child("conditions"), BadValue::Omitted, why)
}

fn counts(status: JobStatus<'_>, path: &Path<'_>) -> List {
    let mut errors = workload::counters(
        &[
            ("active", status.active()),
            ("succeeded", status.succeeded()),
            ("failed", status.failed()),
            ("ready", status.ready().unwrap_or_default()),
            ("terminating", status.terminating().unwrap_or_default()),
        ],
        path,
    );
    let Some(pods) = status.uncounted_terminated_pods() else { return errors };
    let path = path.child("uncountedTerminatedPods");
    let mut seen = HashSet::new();
    for (name, uids) in [("succeeded", pods.succeeded()), ("failed", pods.failed())] {
        let path = path.child(name);
        for (at, uid) in uids.iter().enumerate() {
            if uid.is_empty() {
                errors.push(Error::invalid(&path.index(at), uid, "must not be empty"));
            } else if !seen.insert(uid) {
                errors.push(Error::duplicate(&path.index(at), uid));
            }
        }
    }
    errors
}

fn shown_time(text: Option<&str>) -> BadValue {
    text.and_then(|text| text.parse::<Time>().ok()).map_or(BadValue::Null, BadValue::from)
}

fn times_and_conditions(change: &Change<'_>, path: &Path<'_>) -> List {
    let mut errors = List::new();
    let Change { new, now, before, .. } = change;
    let (completes, changes_time) = (change.completes(), change.changes_completion_time());
    if now.complete && now.failed && (completes || now.failed != before.failed) {
        errors.push(condition_error(path, "cannot set Complete=True and Failed=true conditions"));
    }
    if now.complete && now.failure_target && (completes || now.failure_target != before.failure_target) {
        errors.push(condition_error(path, "cannot set Complete=True and FailureTarget=true conditions"));
    }
    let time_path = path.child("completionTime");
    match (new.completion_time(), now.complete) {
        (time @ Some(_), false) if completes || changes_time => {
            let why = "cannot set completionTime when there is no Complete=True condition";
            errors.push(Error::invalid(&time_path, shown_time(time), why));
        }
        (None, true) if completes || changes_time => {
            errors.push(Error::required(&time_path, "completionTime is required for Complete jobs"));
        }
        _ => {}
    }
    let unix = |text: &str| text.parse::<Time>().map(Time::unix).ok();
    if let (Some(start), Some(end)) = (new.start_time(), new.completion_time())
        && (change.changes_start() || changes_time)
        && unix(end) < unix(start)
    {
        let why = "completionTime cannot be set before startTime";
        errors.push(Error::invalid(&time_path, shown_time(Some(end)), why));
    }
    if now.failed && !now.failure_target && (now.failed != before.failed || change.changes_failed_indexes()) {
        let why = "cannot set Failed=True condition without the FailureTarget=true condition";
        errors.push(condition_error(path, why));
    }
    if now.complete
        && !now.success_criteria_met
        && (completes || now.success_criteria_met != before.success_criteria_met)
    {
        let why = "cannot set Complete=True condition without the SuccessCriteriaMet=true condition";
        errors.push(condition_error(path, why));
    }
    errors
}

/// What a finished job may not have.
fn finished(change: &Change<'_>, path: &Path<'_>) -> List {
    let mut errors = List::new();
    if !change.now.is_finished() {
        return errors;
    }
    let new = change.new;
    let finishes = change.finishes();
    if new.active() > 0 && (finishes || change.changes_active()) {
        let why = "active>0 is invalid for finished job";
        errors.push(Error::invalid(&path.child("active"), new.active(), why));
    }
    let spec = change.job.spec();
    let never_started = spec.suspend() == Some(true) && spec.completions() == Some(0);
    if new.start_time().is_none() && (finishes || change.changes_start()) && !never_started {
        let why = "startTime is required for finished job";
        errors.push(Error::required(&path.child("startTime"), why));
    }
    if let Some(pods) = new.uncounted_terminated_pods() {
        let before = change.old.uncounted_terminated_pods().map(View::map);
        let changed = Some(pods.map()) != before;
        if (finishes || changed) && !(pods.succeeded().is_empty() && pods.failed().is_empty()) {
            let why = "uncountedTerminatedPods needs to be empty for finished job";
            errors.push(Error::invalid(&path.child("uncountedTerminatedPods"), shown_pods(pods), why));
        }
    }
    errors
}

fn shown_pods(pods: UncountedTerminatedPods<'_>) -> BadValue {
    let uids = |uids: Items<'_, &str>| match uids.is_empty() {
        true => "[]types.UID(nil)".to_owned(),
        false => format!("[]types.UID{{{}}}", quote_each(uids.iter())),
    };
    BadValue::Raw(format!(
        "batch.UncountedTerminatedPods{{Succeeded:{}, Failed:{}}}",
        uids(pods.succeeded()),
        uids(pods.failed())
    ))
}

fn index_texts(change: &Change<'_>, path: &Path<'_>) -> List {
    let mut errors = List::new();
    let (spec, new) = (change.job.spec(), change.new);
    let (completed_path, failed_path) = (path.child("completedIndexes"), path.child("failedIndexes"));
    let (completed, failed) = (new.completed_indexes(), new.failed_indexes());
    let changes_completed = completed != change.old.completed_indexes();
    let changes_failed = change.changes_failed_indexes();
    if changes_completed
        && let Some(Err(why)) = spec.completions().map(|completions| indexes::count(completed, completions))
    {
        let why = format!("error parsing completedIndexes: {why}");
        errors.push(Error::invalid(&completed_path, completed, why));
    }
    if let (true, Some(completions), Some(_), Some(failed)) =
        (changes_failed, spec.completions(), spec.backoff_limit_per_index(), failed)
        && let Err(why) = indexes::count(failed, completions)
    {
        let why = format!("error parsing failedIndexes: {why}");
        errors.push(Error::invalid(&failed_path, failed, why));
    }
    if changes_completed && !completed.is_empty() && !job_spec::is_indexed(spec) {
        let why = "cannot set non-empty completedIndexes when non-indexed completion mode";
        errors.push(Error::invalid(&completed_path, completed, why));
    }
    let Some(failed) = failed else { return errors };
    if changes_failed && spec.backoff_limit_per_index().is_none() {
        let why = "cannot set non-null failedIndexes when backoffLimitPerIndex is null";
        errors.push(Error::invalid(&failed_path, failed, why));
    }
    if (changes_failed || changes_completed)
        && let Some(completions) = spec.completions()
        && let Some(index) = indexes::overlap(completed, failed, completions)
    {
        let why = format!("failedIndexes and completedIndexes overlap at index: {index}");
        errors.push(Error::invalid(&failed_path, failed, why));
    }
    errors
}

fn late(change: &Change<'_>, path: &Path<'_>) -> List {
    let mut errors = List::new();
    let Change { new, old, now, .. } = change;
    if let Some(terminating @ 1..) = new.terminating()
        && now.is_finished()
        && (change.finishes() || new.terminating() != old.terminating())
    {
        let why = "terminating>0 is invalid for finished job";
        errors.push(Error::invalid(&path.child("terminating"), terminating, why));
    }
    if let Some(ready) = new.ready().filter(|ready| *ready > new.active())
        && (new.ready() != old.ready() || change.changes_active())
    {
        let why = "cannot set more ready pods than active";
        errors.push(Error::invalid(&path.child("ready"), ready, why));
    }
    if now.success_criteria_met && now.failed {
        let why = "cannot set SuccessCriteriaMet=True and Failed=true conditions";
        errors.push(condition_error(path, why));
    }
    if now.success_criteria_met && now.failure_target {
        let why = "cannot set SuccessCriteriaMet=True and FailureTarget=true conditions";
        errors.push(condition_error(path, why));
    }
    if change.job.spec().success_policy().is_some() && now.complete && !now.success_criteria_met {
        let why = "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True";
        errors.push(condition_error(path, why));
    }
    errors
}

/// What a change may not take back.
fn transitions(change: &Change<'_>, path: &Path<'_>) -> List {
    let mut errors = List::new();
    let Change { job, new, old, now, before } = change;
    for (name, was, is) in [
        ("Failed", before.failed, now.failed),
        ("Complete", before.complete, now.complete),
        ("FailureTarget", before.failure_target, now.failure_target),
    ] {
        if was && !is {
            errors.push(condition_error(path, format!("cannot disable the terminal {name}=True condition")));
        }
    }
    if new.failed() < old.failed() {
        let why = "cannot decrease the failed counter";
        errors.push(Error::invalid(&path.child("failed"), new.failed(), why));
    }
    let spec = job.spec();
    let is_elastic = job_spec::is_indexed(spec) && spec.completions() == spec.parallelism();
    if new.succeeded() < old.succeeded() && !is_elastic {
        let why = "cannot decrease the succeeded counter";
        errors.push(Error::invalid(&path.child("succeeded"), new.succeeded(), why));
    }
    if new.completion_time().is_some() && old.completion_time().is_some() && change.changes_completion_time()
    {
        let shown = shown_time(new.completion_time());
        errors.push(Error::invalid(&path.child("completionTime"), shown, "completionTime cannot be mutated"));
    }
    let resumes = has_condition(old.conditions(), "Suspended", "True")
        && has_condition(new.conditions(), "Suspended", "False");
    if old.start_time().is_some() && change.changes_start() && !resumes && !spec.suspend().unwrap_or_default()
    {
        let why = "startTime cannot be removed for unsuspended job";
        errors.push(Error::required(&path.child("startTime"), why));
    }
    if before.success_criteria_met && !now.success_criteria_met {
        errors.push(condition_error(path, "cannot disable the SuccessCriteriaMet=True condition"));
    }
    if before.complete && !before.success_criteria_met && now.success_criteria_met {
        let why = "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions";
        errors.push(condition_error(path, why));
    }
    errors
}
