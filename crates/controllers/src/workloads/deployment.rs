//! The controller `deployment-controller`: replica sets for the templates of a deployment, of which the
//! newest takes the place of the others step by step.
//!
//! A step of a deployment looks at all its replica sets. It scales some of them, and writes the status; the
//! changes of the replica sets lead to the next step.

mod annotations;
mod progress;
mod recreate;
mod revisions;
mod rollback;
mod rolling;
mod scale;
mod set;
#[cfg(test)]
mod tests;

use super::claim::{Claim, DependentKind};
use super::dependents::Dependents;
use super::following::{Owners, follow_dependents, follow_owners};
use super::owner::{ObjectKey, Owner, OwnerKind, label_selector};
use super::pods::is_namespace_ending;
use super::replicas::REPLICA_SET;
use super::status::{self, number, text};
use super::{catch_up, dependents};
use crate::events::Reporter;
use crate::follow::{StartFrom, follow};
use crate::objects::{annotation, decode, mentions};
use crate::queue::{Queue, Reconcile, RequeueAfter};
use crate::{Context, Controller, EventType};
use cache::{Entry, Resource, Update};
use object::label::Selector;
use object::time::Time;
use object::{Map, Value};
use registry::Client;
use schema::Status;
use schema::view::View;
use schema::views::apps::v1::{Deployment, DeploymentSpec};
use schema::views::meta::v1::OwnerReference;
use set::Set;
use std::sync::Arc;

pub(crate) const CONTROLLER: Controller = Controller {
    name: "deployment-controller",
    alias: "deployment",
    account: "deployment-controller",
    stores: crate::Stores::Own,
    run: |context| Box::pin(run(context)),
};

static KIND: OwnerKind = OwnerKind {
    group: "apps",
    version: "v1",
    kind: "Deployment",
    resource: "deployments",
    prefix: "deployments.apps",
    schema: Deployment::schema,
    selector: label_selector,
};

const REPLICA_SETS: DependentKind =
    DependentKind { group: "apps", resource: "replicasets", kind: "ReplicaSet" };

/// How many deployments are worked on at the same time.
const AT_ONCE: usize = 8;
const PROGRESSING: &str = "Progressing";
/// The number that stands for no limit.
const UNLIMITED: i64 = i32::MAX as i64;

async fn run(context: Context) {
    let Some(resource) = context.resource(KIND.prefix) else { return };
    let (Some(sets), Some(pods)) = (context.dependents(REPLICA_SET.prefix), context.dependents("pods"))
    else {
        return;
    };
    catch_up(&[&resource, sets.resource(), pods.resource()]).await;
    let queue: Arc<Queue<ObjectKey>> = Arc::default();
    let owners = Owners::new(&KIND);
    let _sets = follow_dependents(&owners, sets.resource().clone(), &queue);
    let _own = follow_owners(&owners, resource.clone(), &queue);
    let _pods = follow(pods.resource().clone(), StartFrom::Now, {
        let (queue, owners, sets) = (queue.clone(), owners.clone(), sets.clone());
        let resource = resource.clone();
        move |update| match update {
            Update::Reset => queue.extend(owners.keys()),
            Update::Change { before: Some(pod), after: None } => {
                queue.extend(recreating(pod, &owners, sets.resource(), &resource));
            }
            Update::Change { .. } => {}
        }
    });
    let worker = Deployments {
        client: context.client.clone(),
        reporter: Reporter::start(&context.recorder),
        resource,
        sets,
        pods,
    };
    queue.work(&context, AT_ONCE, Arc::new(worker)).await;
}

/// The deployment of a pod that is gone, if it may have waited for that.
fn recreating(pod: &Entry, owners: &Owners, sets: &Resource, deployments: &Resource) -> Option<ObjectKey> {
    let set = dependents::controller_of(pod).filter(|owner| owner.kind == REPLICA_SET.kind)?;
    let found = sets.lookup(pod.namespace(), &set.name).ok()??;
    if found.uid() != set.uid {
        return None;
    }
    let (namespace, name) = found.owners().find_map(|uid| owners.key(uid))?;
    let deployment = deployments.lookup(&namespace, &name).ok()??;
    mentions(&deployment, r#""type":"Recreate""#).then_some((namespace, name))
}

struct Deployments {
    client: Client,
    reporter: Reporter,
    resource: Arc<Resource>,
    sets: Arc<Dependents>,
    pods: Arc<Dependents>,
}

/// One step of a deployment.
struct Step<'a> {
    controller: &'a Deployments,
    owner: Owner,
    /// The deployment, with what this step has changed of it.
    object: Map,
}

/// The replica sets of a deployment.
struct Sets {
    /// The one with the template of the deployment.
    new: Option<Set>,
    /// All others, the oldest first.
    old: Vec<Set>,
}

impl Sets {
    fn all(&self) -> impl Iterator<Item = &Set> + Clone {
        self.old.iter().chain(&self.new)
    }
}

/// Whether a replica set for the newest template is created if there is none.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Missing {
    Create,
    Leave,
}

impl Reconcile for Deployments {
    type Key = ObjectKey;

    async fn reconcile(&self, (namespace, name): &ObjectKey) -> Result<RequeueAfter, Status> {
        let Some(entry) = self.resource.lookup(namespace, name).map_err(registry::status)? else {
            return Ok(None);
        };
        let object = decode(Deployment::schema(), &entry)?;
        let owner = Owner { kind: &KIND, entry };
        match Box::pin(Step { controller: self, owner, object }.run()).await {
            // Nothing can be created any more.
            Err(error) if is_namespace_ending(&error) => Ok(None),
            outcome => outcome,
        }
    }
}

impl Step<'_> {
    async fn run(mut self) -> Result<RequeueAfter, Status> {
        let Some(selector) = label_selector(&self.object) else {
            log::warn!(object:% = format_args!("{:?}", self.owner.entry); "a selector is not valid");
            return Ok(None);
        };
        if selector.is_everything() {
            return self.refuse_everything().await;
        }
        let sets = self.claim(&selector).await?;
        if self.owner.is_deleting() {
            let sets = self.sort(sets, Missing::Leave).await?;
            return self.write_new_status(&sets).await;
        }
        self.note_pause().await?;
        if self.spec().paused() {
            return self.scale_only(sets).await;
        }
        if let Some(revision) = rollback::wanted(&self.object) {
            return self.roll_back(sets, revision).await;
        }
        let sets = self.sort(sets, Missing::Leave).await?;
        if self.is_scaled(&sets) {
            let all = sets.old.into_iter().chain(sets.new).collect();
            return self.scale_only(all).await;
        }
        match self.spec().strategy().r#type() {
            "Recreate" => self.recreate(sets, &selector).await,
            _ => self.roll(sets).await,
        }
    }

    fn spec(&self) -> DeploymentSpec<'_> {
        Deployment::of(&self.object).spec()
    }

    /// `spec.replicas`; the default is set by the server.
    fn replicas(&self) -> i64 {
        self.spec().replicas().unwrap_or_default()
    }

    fn status(&self) -> Map {
        self.object.get("status").and_then(Value::as_map).cloned().unwrap_or_default()
    }

    fn generation(&self) -> i64 {
        Deployment::of(&self.object).metadata().generation()
    }

    fn is_rolling(&self) -> bool {
        self.spec().strategy().r#type() == "RollingUpdate"
    }

    fn report(&self, event_type: EventType, reason: &'static str, message: impl Into<String>) {
        self.controller.reporter.report(&self.owner.subject(), event_type, reason, message);
    }

    async fn refuse_everything(mut self) -> Result<RequeueAfter, Status> {
        let why = "This deployment is selecting all pods. A non-empty selector is required.";
        self.report(EventType::Warning, "SelectingAll", why);
        let mut status = self.status();
        if number(&status, "observedGeneration") < self.generation() {
            status.insert("observedGeneration", self.generation());
            self.object.insert("status", status);
            self.write_status().await?;
        }
        Ok(None)
    }

    /// The replica sets that the deployment controls, the oldest first.
    async fn claim(&self, selector: &Selector) -> Result<Vec<Set>, Status> {
        let claim = Claim {
            client: &self.controller.client,
            dependents: &self.controller.sets,
            kind: REPLICA_SETS,
            owner: &self.owner,
            selector,
            finalizers: &[],
        };
        let claimed = claim.all(|_| true).await?;
        let mut sets: Vec<_> =
            claimed.into_iter().map(|set| Set::read(&set.entry)).collect::<Result<_, _>>()?;
        set::oldest_first(&mut sets);
        Ok(sets)
    }

    /// A condition of the deployment, that was updated now.
    fn condition(kind: &str, status: &str, reason: &str, message: &str) -> Map {
        let now = Time::now();
        let mut condition = status::condition(kind, status, reason, message, now);
        condition.insert("lastUpdateTime", now.text());
        condition
    }

    fn set_condition(&mut self, condition: Map) {
        let mut status = self.status();
        status::set(&mut status, condition);
        self.object.insert("status", status);
    }

    /// Writes the status, and with it the annotations, as they are in `object`.
    async fn write_status(&mut self) -> Result<(), Status> {
        let address = self.owner.address().subresource("status");
        let written = self.controller.client.update(address, self.object.clone().into()).await?;
        self.object = written.as_map().cloned().unwrap_or_default();
        Ok(())
    }

    /// A deployment that is paused, or resumed, makes no progress meanwhile and must not miss its deadline
    /// for that reason.
    async fn note_pause(&mut self) -> Result<(), Status> {
        if !self.has_deadline() {
            return Ok(());
        }
        let status = self.status();
        let reason = status::find(&status, PROGRESSING).map(|condition| text(condition, "reason"));
        let is_noted = match reason {
            Some("ProgressDeadlineExceeded") => return Ok(()),
            reason => reason == Some("DeploymentPaused"),
        };
        let condition = match (self.spec().paused(), is_noted) {
            (true, false) => {
                Self::condition(PROGRESSING, "Unknown", "DeploymentPaused", "Deployment is paused")
            }
            (false, true) => {
                Self::condition(PROGRESSING, "Unknown", "DeploymentResumed", "Deployment is resumed")
            }
            _ => return Ok(()),
        };
        self.set_condition(condition);
        self.write_status().await
    }

    /// Scales the replica sets to the size of the deployment, without a rollout.
    async fn scale_only(mut self, sets: Vec<Set>) -> Result<RequeueAfter, Status> {
        let sets = self.sort(sets, Missing::Leave).await?;
        self.scale(&sets).await?;
        if self.spec().paused() && rollback::wanted(&self.object).is_none() {
            self.clean_up(&sets).await?;
        }
        self.write_new_status(&sets).await
    }

    fn has_deadline(&self) -> bool {
        self.spec().progress_deadline_seconds().is_some_and(|seconds| seconds != UNLIMITED)
    }

    /// Whether the deployment was scaled since the annotations of its replica sets were written.
    fn is_scaled(&self, sets: &Sets) -> bool {
        let mut active = sets.all().filter(|set| set.replicas() > 0);
        active.any(|set| {
            annotations::count(set, annotations::DESIRED).is_some_and(|desired| desired != self.replicas())
        })
    }
}

/// Whether an object is controlled by the object with a uid.
fn is_controlled_by(object: &Map, uid: &str) -> bool {
    let mut owners = dependents::owner_references(object).iter().filter_map(Value::as_map);
    owners.any(|owner| {
        let owner = OwnerReference::of(owner);
        owner.controller() == Some(true) && owner.uid() == uid
    })
}

/// An annotation of an object as a number; zero if it has none, `None` if it is not a number.
fn revision(object: &Map) -> Option<i64> {
    match annotation(object, annotations::REVISION) {
        "" => Some(0),
        text => text.parse().ok(),
    }
}
