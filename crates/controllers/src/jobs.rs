//! The controller `job-controller`: runs the pods of jobs to their end.
//!
//! 1. **Each pod is counted once.** A pod has a finalizer until it is counted. Its uid is written into
//!    `uncountedTerminatedPods` first, then the finalizer is removed, then the number in the status grows and
//!    the uid goes. After a crash at any point the next look goes on from there.
//! 2. **A job ends in two steps.** A condition (`FailureTarget`, `SuccessCriteriaMet`) says how it is going
//!    to end, before pods lose their finalizers; the last one (`Failed`, `Complete`) comes when no pod is
//!    left.
//! 3. **Pods without a job lose their finalizer**: those of jobs that are gone or have ended.
//!
//! `sync` looks at one job, `manage` makes and deletes pods, `track` counts those that have ended.

mod backoff;
mod intervals;
mod manage;
mod orphans;
mod pod;
mod policy;
mod sync;
mod track;

use crate::events::Reporter;
use crate::queue::{Queue, Reconcile, RequeueAfter};
use crate::workloads::catch_up;
use crate::workloads::following::{Owners, follow_dependents, follow_owners};
use crate::workloads::owner::{ObjectKey, OwnerKind, label_selector};
use crate::workloads::pods::Pods;
use crate::{Context, Controller, Recorder};
use backoff::{Pauses, Records};
use cache::Resource;
use object::Map;
use registry::Client;
use schema::Status;
use schema::view::View as _;
use schema::views::batch::v1::Job;
use std::sync::Arc;
use std::time::Duration;

pub(crate) const CONTROLLER: Controller = Controller {
    name: NAME,
    alias: "job",
    account: NAME,
    stores: crate::Stores::Own,
    run: |context| Box::pin(run(context, PAUSES)),
};

const NAME: &str = "job-controller";
/// The finalizer of pods that are not counted yet.
const TRACKING: &str = "batch.kubernetes.io/job-tracking";
/// The name of this controller in `managedBy`.
const MANAGER: &str = "kubernetes.io/job-controller";
const PAUSES: Pauses = Pauses { first: Duration::from_secs(10), longest: Duration::from_secs(600) };

static KIND: OwnerKind = OwnerKind {
    group: "batch",
    version: "v1",
    kind: "Job",
    resource: "jobs",
    prefix: "jobs.batch",
    schema: Job::schema,
    selector: label_selector,
};

async fn run(context: Context, pauses: Pauses) {
    let Some(jobs) = context.resource(KIND.prefix) else { return };
    let reporter = Reporter::start(&Recorder::new(context.client.clone(), NAME));
    let Some(pods) = Pods::new(&context, reporter.clone()) else { return };
    catch_up(&[&jobs, pods.resource()]).await;
    let queue: Arc<Queue<ObjectKey>> = Arc::default();
    let owners = Owners::new(&KIND);
    let _pods = follow_dependents(&owners, pods.resource().clone(), &queue);
    let _own = follow_owners(&owners, jobs.clone(), &queue);
    let orphans = orphans::Orphans::follow(&context, &jobs, &pods);
    let worker =
        Worker { client: context.client.clone(), reporter, pods, jobs, records: Records::default(), pauses };
    tokio::join!(queue.work(&context, 5, Arc::new(worker)), orphans.work(&context));
}

struct Worker {
    client: Client,
    reporter: Reporter,
    pods: Pods,
    jobs: Arc<Resource>,
    records: Records,
    pauses: Pauses,
}

impl Reconcile for Worker {
    type Key = ObjectKey;

    async fn reconcile(&self, key: &ObjectKey) -> Result<RequeueAfter, Status> {
        sync::sync(self, key).await
    }
}

/// Whether another controller runs a job.
fn is_managed_elsewhere(job: &Map) -> bool {
    Job::of(job).spec().managed_by().is_some_and(|manager| manager != MANAGER)
}

/// Whether a job has ended.
fn has_finished(job: &Map) -> bool {
    let mut conditions = Job::of(job).status().conditions().iter();
    conditions.any(|one| matches!(one.r#type(), "Complete" | "Failed") && one.status() == "True")
}

fn is_indexed(job: &Map) -> bool {
    Job::of(job).spec().completion_mode() == Some("Indexed")
}

fn is_suspended(job: &Map) -> bool {
    Job::of(job).spec().suspend() == Some(true)
}

#[cfg(test)]
mod tests;
