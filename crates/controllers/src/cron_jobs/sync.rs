//! One look at a CronJob: its finished jobs, its history, and the job that is due.

use super::next::{Missed, Past, Schedule, Unix};
use super::{Clock, OwnJob, Worker, Zone, schedule_of};
use crate::objects::{controller_of, edit, failure, is_namespace_terminating};
use crate::queue::RequeueAfter;
use crate::{EventType, Subject};
use cache::Entry;
use kinds::object_meta;
use object::quote::Quoted;
use object::time::Time;
use object::{List, Map, Value};
use registry::{Address, DeleteOptions};
use schema::Status;
use schema::status::Reason;
use schema::view::View as _;
use schema::views::batch::v1::{CronJob, Job};

const SCHEDULED_AT: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";

/// A CronJob that is worked on. What changes in its status is written once, at the end.
pub(super) struct Sync<'a> {
    worker: &'a Worker,
    namespace: &'a str,
    name: &'a str,
    subject: Subject,
    before: Map,
    cron_job: Map,
    jobs: Vec<OwnJob>,
}

/// How a job ended.
fn finished(job: &Map) -> Option<&'static str> {
    let conditions = Job::of(job).status().conditions();
    let mut kinds = conditions
        .iter()
        .filter(|one| one.status() == "True")
        .filter_map(|one| ["Complete", "Failed"].into_iter().find(|kind| *kind == one.r#type()));
    kinds.next()
}

/// When times of a CronJob count from: since its last job, or its creation.
fn since(cron_job: &Map) -> Unix {
    let last = CronJob::of(cron_job).status().last_schedule_time();
    let text = last.unwrap_or_else(|| object_meta::text(cron_job, "creationTimestamp"));
    text.parse::<Time>().map_or(0, Time::unix)
}

/// How long it is until the next time of a CronJob. `None` if there is none.
pub(super) fn wait_for_next(cron_job: &Map, schedule: &Schedule, clock: Clock) -> RequeueAfter {
    let now = clock.unix();
    let from = match schedule.past(since(cron_job), now) {
        Err(_) => now,
        Ok(Past { latest: Some(latest), .. }) => latest,
        Ok(Past { since, missed: Missed::None, .. }) => since,
        Ok(_) => now,
    };
    schedule.next(from).map(|at| clock.until(at))
}

impl<'a> Sync<'a> {
    pub(super) fn new(worker: &'a Worker, entry: &'a Entry, cron_job: Map, jobs: Vec<OwnJob>) -> Self {
        Self {
            worker,
            namespace: entry.namespace(),
            name: entry.name(),
            subject: Subject::of(entry, "batch/v1", "CronJob"),
            before: cron_job.clone(),
            cron_job,
            jobs,
        }
    }

    pub(super) async fn run(mut self) -> Result<RequeueAfter, Status> {
        self.clean_up().await;
        let outcome = self.sync().await;
        if self.cron_job != self.before {
            let address = self.address("cronjobs").named(self.name).subresource("status");
            match self.worker.client.update(address, self.cron_job.into()).await {
                Err(error) if error.reason == Reason::NotFound => return Ok(None),
                written => drop(written?),
            }
        }
        outcome
    }

    fn address(&self, resource: &'static str) -> Address<'a> {
        Address::v1("batch", resource, self.namespace)
    }

    async fn normal(&self, reason: &str, message: &str) {
        self.worker.record(&self.subject, EventType::Normal, reason, message).await;
    }

    async fn warn(&self, reason: &str, message: &str) {
        self.worker.record(&self.subject, EventType::Warning, reason, message).await;
    }

    /// Deletes the oldest finished jobs beyond the limits of the history.
    async fn clean_up(&mut self) {
        let spec = CronJob::of(&self.cron_job).spec();
        let limits = [
            ("Complete", spec.successful_jobs_history_limit()),
            ("Failed", spec.failed_jobs_history_limit()),
        ];
        for (kind, limit) in limits {
            let Some(limit) = limit.and_then(|limit| usize::try_from(limit).ok()) else { continue };
            let ended = self.jobs.iter().filter(|job| finished(&job.job) == Some(kind));
            let mut ended: Vec<OwnJob> = ended.cloned().collect();
            let started = |job: &OwnJob| {
                let at = Job::of(&job.job).status().start_time().map(str::to_owned);
                (at.is_none(), at, job.entry.name().to_owned())
            };
            ended.sort_by_cached_key(started);
            let surplus = ended.len().saturating_sub(limit);
            for job in ended.into_iter().take(surplus).filter(|job| !job.entry.is_deleting()) {
                self.delete(job.entry.name(), job.entry.uid()).await;
            }
        }
    }

    /// Deletes a job with its pods.
    async fn delete(&mut self, name: &str, uid: &str) -> bool {
        let options = DeleteOptions {
            propagation_policy: Some("Background".to_owned()),
            uid: Some(uid.to_owned()),
            ..DeleteOptions::default()
        };
        if let Err(error) = self.worker.client.delete(self.address("jobs").named(name), &options).await {
            self.warn("FailedDelete", &format!("Deleted job: {}", error.message)).await;
            return false;
        }
        self.forget(uid);
        self.normal("SuccessfulDelete", &format!("Deleted job {name}")).await;
        true
    }

    /// Removes a job from the list of active ones.
    fn forget(&mut self, uid: &str) {
        edit(&mut self.cron_job, "status", |status| {
            let Some(active) = status.get_mut("active").and_then(Value::as_list_mut) else { return };
            active.retain(|job| job.get("uid").and_then(Value::as_str) != Some(uid));
            if active.is_empty() {
                status.remove("active");
            }
        });
    }

    fn is_active(&self, uid: &str) -> bool {
        CronJob::of(&self.cron_job).status().active().iter().any(|job| job.uid() == uid)
    }

    /// The active jobs, by name and uid.
    fn active(&self) -> Vec<(String, String)> {
        let active = CronJob::of(&self.cron_job).status().active();
        active.iter().map(|job| (job.name().to_owned(), job.uid().to_owned())).collect()
    }

    /// Brings the status up to what the jobs say.
    async fn note_jobs(&mut self) -> Result<(), Status> {
        for OwnJob { entry, job } in self.jobs.clone() {
            let is_active = self.is_active(entry.uid());
            match finished(&job) {
                None if !is_active => {
                    let name = entry.name();
                    let text = format!("Saw a job that the controller did not create or forgot: {name}");
                    self.warn("UnexpectedJob", &text).await;
                }
                None => {}
                Some(condition) => {
                    if is_active {
                        self.forget(entry.uid());
                        let text = format!("Saw completed job: {}, condition: {condition}", entry.name());
                        self.normal("SawCompletedJob", &text).await;
                    }
                    if condition == "Complete" {
                        self.note_success(&job);
                    }
                }
            }
        }
        for (name, uid) in self.active() {
            if self.jobs.iter().any(|job| job.entry.uid() == uid) {
                continue;
            }
            match self.worker.client.get(self.address("jobs").named(&name)).await {
                Err(error) if error.reason == Reason::NotFound => {
                    self.normal("MissingJob", &format!("Active job went missing: {name}")).await;
                    self.forget(&uid);
                }
                found => drop(found?),
            }
        }
        Ok(())
    }

    /// The last success is that of the job that completed last.
    fn note_success(&mut self, job: &Map) {
        let Some(completed) = Job::of(job).status().completion_time() else { return };
        let last = CronJob::of(&self.cron_job).status().last_successful_time();
        let parse = |text: &str| text.parse::<Time>().ok();
        if last.is_none_or(|last| parse(completed) > parse(last)) {
            edit(&mut self.cron_job, "status", |status| {
                status.insert("lastSuccessfulTime", completed);
            });
        }
    }

    async fn sync(&mut self) -> Result<RequeueAfter, Status> {
        self.note_jobs().await?;
        if object_meta::is_deleting(&self.cron_job) {
            return Ok(None);
        }
        let cron_job = self.cron_job.clone();
        let spec = CronJob::of(&cron_job).spec();
        if let Some(zone) = spec.time_zone()
            && let Err(why) = Zone::find(zone)
        {
            self.warn("UnknownTimeZone", &format!("invalid timeZone: {}: {why}", Quoted(zone))).await;
            return Ok(None);
        }
        if spec.suspend() == Some(true) {
            return Ok(None);
        }
        if spec.schedule().contains("TZ") {
            let text = format!(
                "CRON_TZ or TZ used in schedule {} is not officially supported, see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details",
                Quoted(spec.schedule())
            );
            self.warn("UnsupportedSchedule", &text).await;
        }
        let schedule = match schedule_of(&cron_job) {
            Ok(schedule) => schedule,
            Err(why) => {
                let text = format!("unparseable schedule: {} : {why}", Quoted(spec.schedule()));
                self.warn("UnparseableSchedule", &text).await;
                return Ok(None);
            }
        };
        let now = self.worker.clock.unix();
        let deadline = spec.starting_deadline_seconds();
        let earliest = deadline.map_or(Unix::MIN, |seconds| now.saturating_sub(seconds));
        let past = match schedule.past(since(&cron_job).max(earliest), now) {
            Ok(past) => past,
            Err(why) => {
                let text = format!("invalid schedule: {} : {why}", spec.schedule());
                self.warn("InvalidSchedule", &text).await;
                return Ok(None);
            }
        };
        let next = wait_for_next(&cron_job, &schedule, self.worker.clock);
        let Some(due) = past.latest else { return Ok(next) };
        if past.missed == Missed::Many {
            let text = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew";
            self.warn("TooManyMissedTimes", text).await;
        }
        if deadline.is_some_and(|seconds| due.saturating_add(seconds) < now) {
            let text = format!("Missed scheduled time to start a job: {}", rfc1123(due));
            self.warn("MissSchedule", &text).await;
            return Ok(next);
        }
        let name = format!("{}-{}", self.name, due.div_euclid(60));
        let last =
            CronJob::of(&cron_job).status().last_schedule_time().and_then(|at| at.parse::<Time>().ok());
        let active = self.active();
        if active.iter().any(|(known, _)| *known == name) || last.is_some_and(|last| last.unix() == due) {
            return Ok(next);
        }
        match spec.concurrency_policy() {
            "Forbid" if !active.is_empty() => {
                let text =
                    "Not starting job because prior execution is running and concurrency policy is Forbid";
                self.normal("JobAlreadyActive", text).await;
                return Ok(next);
            }
            "Replace" => self.replace(&active).await?,
            _ => {}
        }
        match self.start(&schedule, &name, due).await? {
            // A status with a new time may be due at another time.
            Started::Yes => Ok(wait_for_next(&self.cron_job, &schedule, self.worker.clock)),
            Started::No => Ok(None),
        }
    }

    /// Deletes the active jobs.
    async fn replace(&mut self, active: &[(String, String)]) -> Result<(), Status> {
        for (name, _) in active {
            let job = match self.worker.client.get(self.address("jobs").named(name)).await {
                Ok(job) => job,
                Err(error) => {
                    self.warn("FailedGet", &format!("Get job: {}", error.message)).await;
                    return Err(error);
                }
            };
            let uid = job.as_map().map(|job| object_meta::text(job, "uid")).unwrap_or_default();
            if !self.delete(name, uid).await {
                return Err(failure(format!("could not replace job {}/{name}", self.namespace)));
            }
        }
        Ok(())
    }

    /// Makes the job that is due, and notes it in the status.
    async fn start(&mut self, schedule: &Schedule, name: &str, due: Unix) -> Result<Started, Status> {
        let address = self.address("jobs");
        let job = match self.worker.client.create(address, self.job(schedule, name, due)?.into()).await {
            Ok(job) => {
                self.normal("SuccessfulCreate", &format!("Created job {name}")).await;
                job
            }
            Err(error) if is_namespace_terminating(&error) => return Ok(Started::No),
            Err(error) if error.reason == Reason::AlreadyExists => {
                let job = self.worker.client.get(address.named(name)).await?;
                let uid = object_meta::text(&self.cron_job, "uid");
                let is_own = job.as_map().and_then(controller_of).is_some_and(|owner| owner.uid() == uid);
                let known = job.as_map().map(|job| object_meta::text(job, "uid")).unwrap_or_default();
                if !is_own || self.is_active(known) {
                    return Ok(Started::No);
                }
                job
            }
            Err(error) => {
                self.warn("FailedCreate", &format!("Error creating job: {}", error.message)).await;
                return Err(error);
            }
        };
        let job = job.as_map().cloned().unwrap_or_default();
        let reference: Map = [
            ("kind", "Job"),
            ("namespace", self.namespace),
            ("name", name),
            ("uid", object_meta::text(&job, "uid")),
            ("apiVersion", "batch/v1"),
            ("resourceVersion", object_meta::text(&job, "resourceVersion")),
        ]
        .into_iter()
        .collect();
        edit(&mut self.cron_job, "status", |status| {
            let active = status.get_or_insert_with("active", || List::new().into());
            if let Some(active) = active.as_list_mut() {
                active.push(reference.into());
            }
            status.insert("lastScheduleTime", Time::from_unix(due).text());
        });
        Ok(Started::Yes)
    }

    /// The job for a time.
    fn job(&self, schedule: &Schedule, name: &str, due: Unix) -> Result<Map, Status> {
        let template = CronJob::of(&self.cron_job).spec().job_template();
        // The annotation is in the zone of the field, not in one of the schedule.
        let zone = match CronJob::of(&self.cron_job).spec().time_zone() {
            Some(zone) => Zone::find(zone).map_err(failure)?,
            None if CronJob::of(&self.cron_job).spec().schedule().contains("TZ") => {
                Zone::find("").map_err(failure)?
            }
            None => schedule.zone.clone(),
        };
        let mut annotations = template.metadata().annotations().map().clone();
        annotations.insert(SCHEDULED_AT, zone.text(due));
        let mut owner: Map = [
            ("apiVersion", "batch/v1"),
            ("kind", "CronJob"),
            ("name", self.name),
            ("uid", object_meta::text(&self.cron_job, "uid")),
        ]
        .into_iter()
        .collect();
        owner.insert("controller", true);
        owner.insert("blockOwnerDeletion", true);
        let mut metadata = Map::new();
        metadata.insert("name", name);
        metadata.insert("annotations", annotations);
        metadata.insert("ownerReferences", List::of([Value::from(owner)]));
        let labels = template.metadata().labels();
        if !labels.is_empty() {
            metadata.insert("labels", labels.map().clone());
        }
        let mut job = Map::new();
        job.insert("metadata", metadata);
        job.insert("spec", template.spec().map().clone());
        Ok(job)
    }
}

/// Whether a job was started, or found, that the status did not know.
enum Started {
    Yes,
    No,
}

/// A time as events show it: `Mon, 02 Jan 2006 15:04:05 +0000`.
fn rfc1123(at: Unix) -> String {
    let at = jiff::Timestamp::from_second(at).unwrap_or_default();
    at.strftime("%a, %d %b %Y %H:%M:%S +0000").to_string()
}

#[cfg(test)]
mod tests {
    #[test]
    fn times_are_shown_as_the_reference_shows_them() {
        assert_eq!(super::rfc1123(1_136_214_245), "Mon, 02 Jan 2006 15:04:05 +0000");
    }
}
