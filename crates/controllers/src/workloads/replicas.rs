//! The controllers `replicaset-controller` and `replicationcontroller-controller`: as many pods as a replica
//! set or a replication controller asks for.

use super::dependents::{Dependent, Dependents};
use super::following::{Owners, follow_dependents, follow_owners};
use super::owner::{ObjectKey, Owner, OwnerKind, label_map, label_selector};
use super::pods::{Pods, is_namespace_ending, pod_of_template};
use super::slow_start::{FIRST_BATCH, at_once, slow_start};
use super::status::{self, condition, number};
use super::{catch_up, pod, ranking};
use crate::events::Reporter;
use crate::objects::decode;
use crate::queue::{Queue, Reconcile, RequeueAfter};
use crate::{Context, Controller};
use cache::{Filter, Freshness, Query, Resource};
use object::label::Selector;
use object::time::Time;
use object::{Map, Value};
use registry::Client;
use schema::Status;
use schema::status::Reason;
use schema::view::View;
use schema::views::apps::v1::ReplicaSet;
use schema::views::core::v1::ReplicationController;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::SystemTime;

/// Replica sets.
pub(crate) const REPLICA_SETS: Controller = Controller {
    name: "replicaset-controller",
    alias: "replicaset",
    account: "replicaset-controller",
    stores: crate::Stores::Own,
    run: |context| Box::pin(run(context, &REPLICA_SET)),
};

/// Replication controllers.
pub(crate) const REPLICATION_CONTROLLERS: Controller = Controller {
    name: "replicationcontroller-controller",
    alias: "replicationcontroller",
    account: "replication-controller",
    stores: crate::Stores::Own,
    run: |context| Box::pin(run(context, &REPLICATION_CONTROLLER)),
};

/// The kind of replica sets.
pub(crate) static REPLICA_SET: OwnerKind = OwnerKind {
    group: "apps",
    version: "v1",
    kind: "ReplicaSet",
    resource: "replicasets",
    prefix: "replicasets.apps",
    schema: ReplicaSet::schema,
    selector: label_selector,
};

static REPLICATION_CONTROLLER: OwnerKind = OwnerKind {
    group: "",
    version: "v1",
    kind: "ReplicationController",
    resource: "replicationcontrollers",
    prefix: "replicationcontrollers",
    schema: ReplicationController::schema,
    selector: label_map,
};

/// The most pods that one step creates or deletes.
const BURST: usize = 500;
/// The most pods that one step deletes at the same time.
const DELETES_AT_ONCE: usize = 64;
/// How many objects are worked on at the same time.
const AT_ONCE: usize = 8;
/// The type of the condition that tells of failures.
pub(crate) const REPLICA_FAILURE: &str = "ReplicaFailure";

async fn run(context: Context, kind: &'static OwnerKind) {
    let Some(resource) = context.resource(kind.prefix) else { return };
    let reporter = Reporter::start(&context.recorder);
    let Some(pods) = Pods::new(&context, reporter) else { return };
    catch_up(&[&resource, pods.resource()]).await;
    let queue: Arc<Queue<ObjectKey>> = Arc::default();
    let owners = Owners::new(kind);
    let _pods = follow_dependents(&owners, pods.resource().clone(), &queue);
    let _own = follow_owners(&owners, resource.clone(), &queue);
    let siblings = context.dependents(REPLICA_SET.prefix).filter(|_| kind.prefix == REPLICA_SET.prefix);
    let worker = Replicas { kind, client: context.client.clone(), pods, resource, siblings };
    queue.work(&context, AT_ONCE, Arc::new(worker)).await;
}

struct Replicas {
    kind: &'static OwnerKind,
    client: Client,
    pods: Pods,
    resource: Arc<Resource>,
    /// Replica sets by their controllers.
    siblings: Option<Arc<Dependents>>,
}

impl Reconcile for Replicas {
    type Key = ObjectKey;

    async fn reconcile(&self, (namespace, name): &ObjectKey) -> Result<RequeueAfter, Status> {
        let found = self.resource.lookup(namespace, name).map_err(registry::status)?;
        let Some(entry) = found else { return Ok(None) };
        let object = decode((self.kind.schema)(), &entry)?;
        let owner = Owner { kind: self.kind, entry };
        let Some(selector) = (self.kind.selector)(&object) else {
            log::warn!(object:% = format_args!("{:?}", owner.entry); "a selector is not valid");
            return Ok(None);
        };
        let pods = self.pods.claim(&owner, &selector, pod::is_active).await?;
        let managed = match owner.is_deleting() {
            true => Ok(()),
            false => self.manage(&owner, &object, &pods).await,
        };
        let now = clock::now();
        self.write_status(&owner, &object, &pods, managed.as_ref().err(), now).await?;
        managed?;
        let min_ready = ReplicaSet::of(&object).spec().min_ready_seconds();
        Ok(pod::next_available(&pods, min_ready, now))
    }
}

impl Replicas {
    /// Creates pods that are missing, or deletes those that are too many.
    async fn manage(&self, owner: &Owner, object: &Map, pods: &[Dependent]) -> Result<(), Status> {
        let wanted = usize::try_from(replicas(object)).unwrap_or_default();
        if let Some(missing) = wanted.checked_sub(pods.len()).filter(|missing| *missing > 0) {
            return self.create(owner, object, missing.min(BURST)).await;
        }
        match pods.len().saturating_sub(wanted).min(BURST) {
            0 => Ok(()),
            surplus => self.delete(owner, object, pods, surplus).await,
        }
    }

    async fn create(&self, owner: &Owner, object: &Map, count: usize) -> Result<(), Status> {
        let template = object.get("spec").and_then(|spec| spec.get("template")).and_then(Value::as_map);
        let pod = pod_of_template(template.unwrap_or(&Map::new()), owner);
        let started = slow_start(count, FIRST_BATCH, |_| {
            let (pods, owner, pod) = (self.pods.clone(), owner.clone(), pod.clone());
            async move {
                match pods.create(&owner, pod).await {
                    // No other create can succeed either.
                    Err(error) if is_namespace_ending(&error) => Ok(()),
                    created => created.map(drop),
                }
            }
        });
        started.await.error.map_or(Ok(()), Err)
    }

    async fn delete(
        &self,
        owner: &Owner,
        object: &Map,
        pods: &[Dependent],
        count: usize,
    ) -> Result<(), Status> {
        let related = self.related(owner, object).await?;
        let surplus = ranking::to_delete(pods.to_vec(), &related, count, clock::now());
        let deletes = surplus.into_iter().map(|pod| {
            let (pods, owner) = (self.pods.clone(), owner.clone());
            async move {
                match pods.delete(&owner, pod.name()).await {
                    Err(error) if error.reason == Reason::NotFound => Ok(()),
                    outcome => outcome,
                }
            }
        });
        at_once(DELETES_AT_ONCE, deletes).await
    }

    /// The pods that the replica sets with the same controller select, this one included.
    async fn related(&self, owner: &Owner, object: &Map) -> Result<Vec<Dependent>, Status> {
        let controller = ReplicaSet::of(object).metadata().owner_references().iter();
        let controller = controller.into_iter().find(|owner| owner.controller() == Some(true));
        let (Some(controller), Some(siblings)) = (controller, &self.siblings) else { return Ok(Vec::new()) };
        let mut seen = HashSet::new();
        let mut related = Vec::new();
        for sibling in siblings.controlled(owner.namespace(), controller.uid())? {
            let sibling = decode((self.kind.schema)(), &sibling.entry)?;
            let Some(labels) = (self.kind.selector)(&sibling) else { continue };
            let filter = Filter { labels, ..Filter::namespace(owner.namespace()) };
            let pods = self.pods.resource().list(Query::new(Freshness::Any, filter)).await;
            for pod in pods.map_err(registry::status)? {
                if seen.insert(pod.uid().to_owned()) {
                    related.push(Dependent::read(pod)?);
                }
            }
        }
        Ok(related)
    }

    async fn write_status(
        &self,
        owner: &Owner,
        object: &Map,
        pods: &[Dependent],
        failure: Option<&Status>,
        now: SystemTime,
    ) -> Result<(), Status> {
        let empty = Map::new();
        let old = object.get("status").and_then(Value::as_map).unwrap_or(&empty);
        let mut new = new_status(object, old, pods, failure, now);
        let generation = ReplicaSet::of(object).metadata().generation();
        let counts = ["replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas"];
        let is_same = counts.iter().all(|field| number(&new, field) == number(old, field))
            && status::conditions(&new) == status::conditions(old);
        if is_same && generation == number(old, "observedGeneration") {
            return Ok(());
        }
        new.insert("observedGeneration", generation);
        let address = owner.address().subresource("status");
        let with_status = |mut object: Map| {
            object.insert("status", new.clone());
            Value::from(object)
        };
        match self.client.update(address, with_status(object.clone())).await {
            Ok(_) => return Ok(()),
            Err(error) if error.reason == Reason::NotFound => return Ok(()),
            Err(_) => {}
        }
        // Mostly, another client has changed the object meanwhile.
        let newest = match self.client.get(owner.address()).await {
            Err(error) if error.reason == Reason::NotFound => return Ok(()),
            newest => newest?,
        };
        let newest = newest.as_map().cloned().unwrap_or_default();
        self.client.update(address, with_status(newest)).await.map(drop)
    }
}

/// `spec.replicas`; the default is set by the server.
pub(crate) fn replicas(object: &Map) -> i64 {
    ReplicaSet::of(object).spec().replicas().unwrap_or_default()
}

/// The status that follows from the active pods, and from the failure to create or delete some.
fn new_status(object: &Map, old: &Map, pods: &[Dependent], failure: Option<&Status>, now: SystemTime) -> Map {
    let spec = ReplicaSet::of(object).spec();
    let template = Selector::from_labels(spec.template().metadata().labels().iter());
    let min_ready = spec.min_ready_seconds();
    let count = |counts: &dyn Fn(&Dependent) -> bool| {
        let counted = pods.iter().filter(|pod| counts(pod)).count();
        i64::try_from(counted).unwrap_or(i64::MAX)
    };
    let mut new = old.clone();
    new.insert("replicas", count(&|_| true));
    new.insert("fullyLabeledReplicas", count(&|pod| template.matches(&*pod.entry)));
    new.insert("readyReplicas", count(&Dependent::is_ready));
    new.insert("availableReplicas", count(&|pod| pod.is_available(min_ready, now)));
    match failure {
        Some(failure) if status::find(old, REPLICA_FAILURE).is_none() => {
            let reason = match count(&|_| true) - replicas(object) {
                ..0 => "FailedCreate",
                0 => "",
                1.. => "FailedDelete",
            };
            status::set(&mut new, condition(REPLICA_FAILURE, "True", reason, &failure.message, Time::now()));
        }
        Some(_) => {}
        None => status::remove(&mut new, REPLICA_FAILURE),
    }
    new
}

#[cfg(test)]
mod tests;
