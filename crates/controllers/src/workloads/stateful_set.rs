//! The controller `statefulset-controller`: pods with ordinals, each with claims of its own, in the
//! revisions of a template.
//!
//! A step of a set lists its revisions and its pods, brings the pods one step further ([`update`]), writes
//! the status and deletes revisions that nothing uses. With `OrderedReady` it stops at the first pod that is
//! not ready yet; the change of that pod leads to the next step.

mod claims;
mod ordinal;
mod replica;
mod retention;
#[cfg(test)]
mod tests;
mod update;

use super::dependents::{Dependent, Dependents};
use super::following::{Owners, follow_dependents, follow_owners};
use super::history::{self, History, Revision};
use super::owner::{ObjectKey, Owner, OwnerKind, label_selector};
use super::pods::Pods;
use super::status::number;
use super::{catch_up, pod};
use crate::events::Reporter;
use crate::follow::{StartFrom, follow};
use crate::objects::decode;
use crate::queue::{Queue, Reconcile, RequeueAfter};
use crate::{Context, Controller};
use cache::{Resource, Update};
use kinds::object_meta;
use object::label::Selector;
use object::{Map, Value};
use registry::Client;
use replica::Counts;
use schema::Status;
use schema::status::Reason;
use schema::view::View;
use schema::views::apps::v1::{StatefulSet, StatefulSetSpec};
use std::collections::HashSet;
use std::sync::Arc;

pub(crate) const CONTROLLER: Controller = Controller {
    name: "statefulset-controller",
    alias: "statefulset",
    account: "statefulset-controller",
    stores: crate::Stores::Own,
    run: |context| Box::pin(run(context)),
};

static KIND: OwnerKind = OwnerKind {
    group: "apps",
    version: "v1",
    kind: "StatefulSet",
    resource: "statefulsets",
    prefix: "statefulsets.apps",
    schema: StatefulSet::schema,
    selector: label_selector,
};

/// How many sets are worked on at the same time.
const AT_ONCE: usize = 8;

async fn run(context: Context) {
    let (Some(resource), Some(claims)) =
        (context.resource(KIND.prefix), context.resource("persistentvolumeclaims"))
    else {
        return;
    };
    let reporter = Reporter::start(&context.recorder);
    let (Some(pods), Some(revisions)) =
        (Pods::new(&context, reporter.clone()), context.dependents(history::PREFIX))
    else {
        return;
    };
    catch_up(&[&resource, pods.resource(), &claims, revisions.resource()]).await;
    let queue: Arc<Queue<ObjectKey>> = Arc::default();
    let owners = Owners::new(&KIND);
    let _pods = follow_dependents(&owners, pods.resource().clone(), &queue);
    let _own = follow_owners(&owners, resource.clone(), &queue);
    // A pod whose claim is being deleted is created when the claim is gone.
    let _claims = follow(claims.clone(), StartFrom::Now, {
        let (queue, owners) = (queue.clone(), owners.clone());
        move |update| match update {
            Update::Reset => queue.extend(owners.keys()),
            Update::Change { before: Some(claim), after: None } => queue.extend(owners.selecting(claim)),
            Update::Change { .. } => {}
        }
    });
    let worker = StatefulSets {
        client: context.client.clone(),
        reporter,
        pods,
        resource,
        claims,
        revisions,
        has_max_unavailable: context.settings.gates.max_unavailable_stateful_set,
    };
    queue.work(&context, AT_ONCE, Arc::new(worker)).await;
}

#[derive(Clone)]
struct StatefulSets {
    client: Client,
    reporter: Reporter,
    pods: Pods,
    resource: Arc<Resource>,
    claims: Arc<Resource>,
    revisions: Arc<Dependents>,
    /// The gate `MaxUnavailableStatefulSet`.
    has_max_unavailable: bool,
}

/// One step of a set.
struct Step {
    controller: StatefulSets,
    owner: Owner,
    /// The set.
    object: Map,
    current: Revision,
    update: Revision,
    /// The template of the current revision.
    current_template: Map,
}

/// The revisions that a step works with.
struct Chosen {
    current: Revision,
    update: Revision,
    collisions: i64,
}

impl Reconcile for StatefulSets {
    type Key = ObjectKey;

    async fn reconcile(&self, (namespace, name): &ObjectKey) -> Result<RequeueAfter, Status> {
        let Some(entry) = self.resource.lookup(namespace, name).map_err(registry::status)? else {
            return Ok(None);
        };
        let object = decode(StatefulSet::schema(), &entry)?;
        let owner = Owner { kind: &KIND, entry };
        let Some(selector) = label_selector(&object) else {
            log::warn!(object:% = format_args!("{:?}", owner.entry); "a selector is not valid");
            return Ok(None);
        };
        Box::pin(self.step(owner, object, &selector)).await
    }
}

impl StatefulSets {
    async fn step(&self, owner: Owner, object: Map, selector: &Selector) -> Result<RequeueAfter, Status> {
        let history = History { client: &self.client, dependents: &self.revisions, owner: &owner };
        history.claim(selector).adopt_orphans().await?;
        let is_member = |pod: &cache::Entry| ordinal::parent(pod.name()) == Some(owner.name());
        let pods = self.pods.claims(&owner, selector, &[]).all_matching(|_| true, is_member).await?;
        let revisions = history.list(selector)?;
        let Chosen { current, update, collisions } = self.choose(&history, &object, &revisions).await?;
        let current_template = match current.data() == update.data() {
            true => None,
            false => history::patched_template(&self.client, &KIND, &current),
        };
        let current_template = current_template.unwrap_or_else(|| template(&object));
        let step = Step {
            controller: self.clone(),
            owner: owner.clone(),
            object,
            current,
            update,
            current_template,
        };
        let step = Arc::new(step);
        let min_ready = step.spec().min_ready_seconds();
        let next = pod::next_available(&pods, min_ready, clock::now());
        let update::Outcome { counts, result } = update::update(&step, pods.clone()).await;
        let written = step.write_status(&counts, collisions).await;
        let truncated = step.truncate(&history, &pods, &revisions).await;
        result.and(written).and(truncated)?;
        Ok(next)
    }

    /// The revision of the template, which is made if there is none, and the one that the set has come from.
    async fn choose(
        &self,
        history: &History<'_>,
        object: &Map,
        revisions: &[Revision],
    ) -> Result<Chosen, Status> {
        let empty = Map::new();
        let status = object.get("status").and_then(Value::as_map).unwrap_or(&empty);
        let mut collisions = number(status, "collisionCount");
        let template = template(object);
        let data = history::template_patch(&template);
        let next = revisions.last().map_or(1, |last| last.number().saturating_add(1));
        let equal = revisions.iter().rev().find(|revision| revision.data() == data);
        let update = match (equal, revisions.last()) {
            (Some(equal), Some(last)) if equal.name() == last.name() => equal.clone(),
            (Some(equal), _) => history.renumber(equal, next).await?,
            (None, _) => {
                let annotations = object_meta::metadata(object).and_then(|it| it.get("annotations"));
                let annotations = annotations.and_then(Value::as_map).cloned().unwrap_or_default();
                let revision = history.new_revision(&template, &annotations, &data, next, collisions);
                loop {
                    match history.create(&revision, &history.name_of(&data, collisions)).await {
                        Ok(revision) => break revision,
                        Err(Some(error)) => return Err(error),
                        Err(None) => collisions = collisions.saturating_add(1),
                    }
                }
            }
        };
        let named = super::status::text(status, "currentRevision");
        let current = revisions.iter().find(|revision| revision.name() == named);
        let current = current.cloned().unwrap_or_else(|| update.clone());
        Ok(Chosen { current, update, collisions })
    }
}

/// The template of a set.
fn template(object: &Map) -> Map {
    let template = object.get("spec").and_then(|spec| spec.get("template"));
    template.and_then(Value::as_map).cloned().unwrap_or_default()
}

impl Step {
    fn spec(&self) -> StatefulSetSpec<'_> {
        StatefulSet::of(&self.object).spec()
    }

    /// `spec.replicas`; the default is set by the server.
    fn replicas(&self) -> i64 {
        self.spec().replicas().unwrap_or_default()
    }

    /// The first ordinal.
    fn start(&self) -> i64 {
        self.spec().ordinals().map_or(0, |ordinals| ordinals.start())
    }

    /// Whether the pods of the set are those of these ordinals.
    fn has_ordinal(&self, ordinal: i64) -> bool {
        ordinal >= self.start() && ordinal < self.start() + self.replicas()
    }

    fn is_rolling(&self) -> bool {
        self.spec().update_strategy().r#type() == "RollingUpdate"
    }

    async fn write_status(&self, counts: &Counts, collisions: i64) -> Result<(), Status> {
        let mut counts = *counts;
        let mut current = self.current.name();
        let wanted = self.replicas();
        if self.is_rolling() && [counts.updated, counts.ready, counts.replicas] == [wanted; 3] {
            counts.current = counts.updated;
            current = self.update.name();
        }
        let generation = StatefulSet::of(&self.object).metadata().generation();
        let old = StatefulSet::of(&self.object).status();
        let is_same = generation <= old.observed_generation()
            && counts.replicas == old.replicas()
            && counts.current == old.current_replicas()
            && counts.ready == old.ready_replicas()
            && counts.updated == old.updated_replicas()
            && counts.available == old.available_replicas()
            && current == old.current_revision()
            && self.update.name() == old.update_revision();
        if is_same {
            return Ok(());
        }
        let mut new = Map::new();
        new.insert("observedGeneration", generation);
        new.insert("replicas", counts.replicas);
        new.insert("readyReplicas", counts.ready);
        new.insert("currentReplicas", counts.current);
        new.insert("updatedReplicas", counts.updated);
        new.insert("currentRevision", current);
        new.insert("updateRevision", self.update.name());
        new.insert("collisionCount", collisions);
        new.insert("availableReplicas", counts.available);
        self.put_status(new).await
    }

    /// Writes the status, also if the set was changed meanwhile.
    async fn put_status(&self, status: Map) -> Result<(), Status> {
        let client = &self.controller.client;
        let address = self.owner.address().subresource("status");
        let mut object = self.object.clone();
        object.insert("status", status.clone());
        match client.update(address, object.into()).await {
            Err(error) if error.reason == Reason::Conflict => {}
            Err(error) if error.reason == Reason::NotFound => return Ok(()),
            outcome => return outcome.map(drop),
        }
        let newest = match client.get(self.owner.address()).await {
            Err(error) if error.reason == Reason::NotFound => return Ok(()),
            newest => newest?,
        };
        let mut newest = newest.as_map().cloned().unwrap_or_default();
        if object_meta::text(&newest, "uid") != self.owner.uid() {
            return Ok(());
        }
        newest.insert("status", status);
        client.update(address, newest.into()).await.map(drop)
    }

    /// Deletes revisions that exceed the history and that no pod has.
    async fn truncate(
        &self,
        history: &History<'_>,
        pods: &[Dependent],
        revisions: &[Revision],
    ) -> Result<(), Status> {
        let used: HashSet<&str> = [self.current.name(), self.update.name()]
            .into_iter()
            .chain(pods.iter().map(|pod| replica::revision_of(&pod.entry)))
            .collect();
        let unused: Vec<_> = revisions.iter().filter(|revision| !used.contains(revision.name())).collect();
        let Ok(limit) = usize::try_from(self.spec().revision_history_limit().unwrap_or(10)) else {
            return Ok(());
        };
        for revision in unused.iter().take(unused.len().saturating_sub(limit)) {
            history.delete(revision.name()).await?;
        }
        Ok(())
    }
}
