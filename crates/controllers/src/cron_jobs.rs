//! The controller `cronjob-controller`: makes jobs by schedules.
//!
//! `next` says when a schedule is due, in the time zone of `zone`; `sync` decides about one CronJob.

mod next;
mod sync;
mod zone;

use crate::follow::{StartFrom, follow};
use crate::objects::{controller_of, decode};
use crate::queue::{Queue, Reconcile, RequeueAfter};
use crate::{Context, Controller, EventType, Recorder, Subject};
use cache::{Entry, Filter, Freshness, Query, Resource, Update};
use next::{Schedule, Unix};
use object::{Map, Text};
use registry::Client;
use schema::view::View as _;
use schema::views::batch::v1::{CronJob, Job};
use schema::{Builder, Part, Ref, Status, Type, stored};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, SystemTime};
use zone::Zone;

pub(crate) const CONTROLLER: Controller = Controller {
    name: NAME,
    alias: "cronjob",
    account: NAME,
    stores: crate::Stores::Own,
    run: |context| Box::pin(run(context, Clock(wall_time))),
};

const NAME: &str = "cronjob-controller";
/// How long after its time a schedule is looked at: clocks differ.
const AFTER_DUE: Duration = Duration::from_millis(100);

/// A CronJob, by its namespace and name.
type Key = (Text, Text);

/// Tells the time since 1970.
#[derive(Clone, Copy)]
struct Clock(fn() -> Duration);

fn wall_time() -> Duration {
    clock::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

impl Clock {
    fn unix(self) -> Unix {
        Unix::try_from((self.0)().as_secs()).unwrap_or(Unix::MAX)
    }

    /// How long it is until a schedule has to be looked at that is due at a time.
    fn until(self, at: Unix) -> Duration {
        let at = Duration::from_secs(u64::try_from(at).unwrap_or_default()) + AFTER_DUE;
        at.saturating_sub((self.0)())
    }
}

async fn run(context: Context, clock: Clock) {
    let (Some(cron_jobs), Some(jobs)) = (context.resource("cronjobs.batch"), context.resource("jobs.batch"))
    else {
        return;
    };
    let queue: Arc<Queue<Key>> = Arc::default();
    let _cron_jobs = follow(cron_jobs.clone(), StartFrom::State, {
        let queue = queue.clone();
        move |update| {
            if let Update::Change { before, after: Some(cron_job) } = update {
                let key = (cron_job.namespace().into(), cron_job.name().into());
                match before.and_then(|before| rescheduled(before, cron_job, clock)) {
                    Some(wait) => queue.add_after(key, wait),
                    None => queue.add(key),
                }
            }
        }
    });
    let _jobs = follow(jobs.clone(), StartFrom::Now, {
        let (queue, cron_jobs) = (queue.clone(), cron_jobs.clone());
        move |update| match update {
            Update::Reset => cache::Cursor::new(cron_jobs.clone()).advance(|update| {
                if let Update::Change { after: Some(cron_job), .. } = update {
                    queue.add((cron_job.namespace().into(), cron_job.name().into()));
                }
            }),
            Update::Change { before, after } => {
                let owners = before.into_iter().chain(after).filter_map(|job| owner(job));
                queue.extend(owners);
            }
        }
    });
    let worker = Worker {
        client: context.client.clone(),
        recorder: Recorder::new(context.client.clone(), NAME),
        cron_jobs,
        jobs,
        clock,
    };
    queue.work(&context, 5, Arc::new(worker)).await;
}

/// The CronJob that made a job.
fn owner(job: &Entry) -> Option<Key> {
    static PART: LazyLock<Ref<Type>> = LazyLock::new(|| {
        Builder::part_of(Job::schema(), &[Part("metadata", &[Part("ownerReferences", &[])])]).build()
    });
    job.owners().next()?;
    let decoded = stored::decode_part(&PART, job.bytes()).ok()?;
    let owner = controller_of(&decoded).filter(|owner| owner.kind() == "CronJob")?;
    Some((job.namespace().into(), owner.name().into()))
}

/// How long a CronJob with a new schedule waits: its first job is that of the next time that is due, not one
/// that the new schedule would have missed.
fn rescheduled(before: &Entry, after: &Entry, clock: Clock) -> Option<Duration> {
    static PART: LazyLock<Ref<Type>> = LazyLock::new(|| {
        let metadata = Part("metadata", &[Part("creationTimestamp", &[])]);
        let spec = Part("spec", &[Part("schedule", &[]), Part("timeZone", &[])]);
        let status = Part("status", &[Part("lastScheduleTime", &[])]);
        Builder::part_of(CronJob::schema(), &[metadata, spec, status]).build()
    });
    let decoded = |entry: &Entry| stored::decode_part(&PART, entry.bytes()).ok();
    let (before, after) = (decoded(before)?, decoded(after)?);
    let spec = |object: &Map| {
        let spec = CronJob::of(object).spec();
        (spec.schedule().to_owned(), spec.time_zone().map(str::to_owned))
    };
    if spec(&before) == spec(&after) {
        return None;
    }
    let schedule = schedule_of(&after).ok()?;
    sync::wait_for_next(&after, &schedule, clock)
}

/// The schedule of a CronJob. A zone within the schedule is stronger than the field; one that does not exist
/// is as if there were none.
fn schedule_of(cron_job: &Map) -> Result<Schedule, String> {
    let spec = CronJob::of(cron_job).spec();
    let kinds::schedule::Schedule { zone, times } = kinds::schedule::parse(spec.schedule())?;
    let utc = || Zone::find("");
    let zone = match zone {
        Some(zone) => Zone::find(&zone).map_err(|why| format!("provided bad location {zone}: {why}"))?,
        None if spec.schedule().contains("TZ") => utc()?,
        None => Zone::find(spec.time_zone().unwrap_or_default()).or_else(|_| utc())?,
    };
    Ok(Schedule { times, zone })
}

struct Worker {
    client: Client,
    recorder: Recorder,
    cron_jobs: Arc<Resource>,
    jobs: Arc<Resource>,
    clock: Clock,
}

impl Reconcile for Worker {
    type Key = Key;

    async fn reconcile(&self, key: &Key) -> Result<RequeueAfter, Status> {
        let Some(entry) = self.cron_jobs.lookup(&key.0, &key.1).map_err(registry::status)? else {
            return Ok(None);
        };
        let cron_job = decode(CronJob::schema(), &entry)?;
        let jobs = self.jobs_of(&entry).await?;
        sync::Sync::new(self, &entry, cron_job, jobs).run().await
    }
}

/// A job of a CronJob.
#[derive(Clone)]
struct OwnJob {
    entry: Arc<Entry>,
    job: Map,
}

impl Worker {
    /// The jobs that a CronJob controls.
    async fn jobs_of(&self, cron_job: &Entry) -> Result<Vec<OwnJob>, Status> {
        static PART: LazyLock<Ref<Type>> = LazyLock::new(|| {
            let metadata = Part("metadata", &[Part("ownerReferences", &[])]);
            let status = &[Part("conditions", &[]), Part("startTime", &[]), Part("completionTime", &[])];
            Builder::part_of(Job::schema(), &[metadata, Part("status", status)]).build()
        });
        let query = Query::new(Freshness::Any, Filter::namespace(cron_job.namespace()));
        let mut own = Vec::new();
        for entry in self.jobs.list(query).await.map_err(registry::status)? {
            if !entry.owners().any(|uid| uid == cron_job.uid()) {
                continue;
            }
            let job = stored::decode_part(&PART, entry.bytes());
            let job = job.map_err(|error| Status::internal_error(&error.to_string()))?;
            if controller_of(&job).is_some_and(|owner| owner.uid() == cron_job.uid()) {
                own.push(OwnJob { entry, job });
            }
        }
        Ok(own)
    }

    async fn record(&self, subject: &Subject, event_type: EventType, reason: &str, message: &str) {
        self.recorder.record(subject, event_type, reason, message).await;
    }
}

#[cfg(test)]
mod tests;
