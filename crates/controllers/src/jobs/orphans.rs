//! Pods that no job counts: they lose the finalizer of jobs.

use super::{TRACKING, has_finished, is_managed_elsewhere};
use crate::Context;
use crate::follow::{StartFrom, follow};
use crate::objects::{controller_of, decode, mentions};
use crate::queue::{Queue, Reconcile, RequeueAfter};
use crate::workloads::owner::ObjectKey;
use crate::workloads::pods::Pods;
use cache::{Cursor, Entry, Resource, Update};
use kinds::object_meta;
use registry::{Address, Client, Patch};
use schema::Status;
use schema::status::Reason;
use schema::view::View as _;
use schema::views::batch::v1::Job;
use schema::views::core::v1::Pod;
use std::sync::Arc;
use tasks::Task;

/// Finds pods whose job is gone or has ended.
pub(super) struct Orphans {
    queue: Arc<Queue<ObjectKey>>,
    worker: Arc<Worker>,
    #[expect(dead_code, reason = "they end with their owner")]
    followers: [Task; 2],
}

impl Orphans {
    pub(super) fn follow(context: &Context, jobs: &Arc<Resource>, pods: &Pods) -> Self {
        let queue: Arc<Queue<ObjectKey>> = Arc::default();
        let of_pods = follow(pods.resource().clone(), StartFrom::State, {
            let queue = queue.clone();
            move |update| {
                // A pod that goes on has a job, or gets one.
                if let Update::Change { before, after: Some(pod) } = update
                    && (before.is_none() || pod.is_deleting() || pod.owners().len() == 0)
                    && mentions(pod, TRACKING)
                {
                    queue.add(key(pod));
                }
            }
        });
        let of_jobs = follow(jobs.clone(), StartFrom::Now, {
            let (queue, pods) = (queue.clone(), pods.clone());
            move |update| match update {
                Update::Reset => Cursor::new(pods.resource().clone()).advance(|update| {
                    if let Update::Change { after: Some(pod), .. } = update
                        && mentions(pod, TRACKING)
                    {
                        queue.add(key(pod));
                    }
                }),
                Update::Change { before: Some(job), after }
                    if after.is_none_or(|after| after.uid() != job.uid()) =>
                {
                    let left = pods.dependents().controlled(job.namespace(), job.uid()).unwrap_or_default();
                    queue.extend(left.iter().map(|pod| key(&pod.entry)));
                }
                Update::Change { .. } => {}
            }
        });
        let worker =
            Worker { client: context.client.clone(), jobs: jobs.clone(), pods: pods.resource().clone() };
        Self { queue, worker: Arc::new(worker), followers: [of_pods, of_jobs] }
    }

    pub(super) async fn work(&self, context: &Context) {
        let context = Context { name: "job_orphan_pod", ..context.clone() };
        self.queue.work(&context, 2, self.worker.clone()).await;
    }
}

fn key(pod: &Entry) -> ObjectKey {
    (pod.namespace().into(), pod.name().into())
}

struct Worker {
    client: Client,
    jobs: Arc<Resource>,
    pods: Arc<Resource>,
}

impl Reconcile for Worker {
    type Key = ObjectKey;

    async fn reconcile(&self, (namespace, name): &ObjectKey) -> Result<RequeueAfter, Status> {
        let Some(entry) = self.pods.lookup(namespace, name).map_err(registry::status)? else {
            return Ok(None);
        };
        let pod = decode(Pod::schema(), &entry)?;
        if !object_meta::finalizers(&pod).contains(&TRACKING) {
            return Ok(None);
        }
        if let Some(owner) = controller_of(&pod) {
            if owner.kind() != "Job" || owner.api_version() != "batch/v1" {
                return Ok(None);
            }
            let job = self.jobs.lookup(namespace, owner.name()).map_err(registry::status)?;
            if let Some(job) = job.filter(|job| job.uid() == owner.uid()) {
                let job = decode(Job::schema(), &job)?;
                if is_managed_elsewhere(&job) || !has_finished(&job) {
                    return Ok(None);
                }
            }
        }
        untrack(&self.client, &entry).await.map(|()| None)
    }
}

/// Removes the finalizer of a pod.
pub(super) async fn untrack(client: &Client, pod: &Entry) -> Result<(), Status> {
    let patch = format!(
        r#"{{"metadata":{{"uid":"{}","$deleteFromPrimitiveList/finalizers":["{TRACKING}"]}}}}"#,
        pod.uid()
    );
    let address = Address::core("pods", pod.namespace()).named(pod.name());
    match client.patch(address, Patch::Strategic, patch.as_bytes()).await {
        // The pod is gone, or another one has its name.
        Err(error) if matches!(error.reason, Reason::NotFound | Reason::Conflict | Reason::Invalid) => Ok(()),
        outcome => outcome.map(drop),
    }
}
