//! The revisions of a daemon set.

use super::super::dependents::Dependent;
use super::super::hash::template_hash;
use super::super::history::{self, History, REVISION_LABEL, Revision, template_patch};
use super::super::owner::Owner;
use super::{DaemonSets, Step, template_of};
use kinds::object_meta;
use object::label::{Labels as _, Selector};
use object::{Map, Value};
use registry::{Address, Patch};
use schema::status::Reason;
use schema::{Status, json};
use std::collections::HashSet;

/// The revisions that a step works with.
pub(super) struct Chosen {
    /// The hash of the newest revision.
    pub(super) hash: String,
    /// The others.
    pub(super) old: Vec<Revision>,
}

impl DaemonSets {
    /// Finds the revision of the template, or makes one.
    pub(super) async fn choose_revision(
        &self,
        owner: &Owner,
        object: &Map,
        selector: &Selector,
    ) -> Result<Chosen, Status> {
        let history = History { client: &self.client, dependents: &self.revisions, owner };
        history.claim(selector).all(|_| true).await?;
        let data = template_patch(&template_of(object));
        let (mut equal, mut old) = (Vec::new(), Vec::new());
        for mut revision in history.list(selector)? {
            if revision.label(REVISION_LABEL).is_empty() {
                revision = label(&history, &revision).await?;
            }
            if revision.data() == data { equal.push(revision) } else { old.push(revision) }
        }
        let number = old.iter().map(Revision::number).max().unwrap_or_default().saturating_add(1);
        let current = match equal.pop() {
            None => self.create(&history, object, &data, number).await?,
            // The list is sorted, so this is the newest of equal ones.
            Some(kept) => {
                if !equal.is_empty() {
                    self.merge(&history, &kept, &equal, selector).await?;
                }
                if kept.number() < number { history.renumber(&kept, number).await? } else { kept }
            }
        };
        Ok(Chosen { hash: current.label(REVISION_LABEL).to_owned(), old })
    }

    async fn create(
        &self,
        history: &History<'_>,
        object: &Map,
        data: &str,
        number: i64,
    ) -> Result<Revision, Status> {
        let template = template_of(object);
        let hash = template_hash(&template, super::collisions(object));
        let annotations = object_meta::metadata(object).and_then(|metadata| metadata.get("annotations"));
        let annotations = annotations.and_then(Value::as_map).cloned().unwrap_or_default();
        let labels = [(REVISION_LABEL, hash.as_str())];
        let revision = history.labelled_revision(&template, &labels, &annotations, data, number);
        let name = format!("{}-{hash}", history.owner.name());
        match history.create(&revision, &name).await {
            Ok(revision) => Ok(revision),
            Err(Some(error)) => Err(error),
            // Another template has the same hash: with the next count of collisions it has another one.
            Err(None) => {
                let mut newest = object.clone();
                let mut status = newest.get("status").and_then(Value::as_map).cloned().unwrap_or_default();
                let count = super::collisions(object).unwrap_or_default().saturating_add(1);
                status.insert("collisionCount", count);
                newest.insert("status", status);
                let address = history.owner.address().subresource("status");
                self.client.update(address, newest.into()).await?;
                let why = format!("controllerrevisions.apps \"{name}\" already exists");
                Err(Status { reason: Reason::Conflict, ..Status::internal_error(&why) })
            }
        }
    }

    /// Makes one of revisions with the same template.
    async fn merge(
        &self,
        history: &History<'_>,
        kept: &Revision,
        others: &[Revision],
        selector: &Selector,
    ) -> Result<(), Status> {
        let hash = kept.label(REVISION_LABEL);
        let pods: Vec<Dependent> = self.pods.claim(history.owner, selector, |_| true).await?;
        for pod in pods.iter().filter(|pod| pod.entry.label(REVISION_LABEL) != Some(hash)) {
            let patch =
                format!(r#"{{"metadata":{{"labels":{{"{REVISION_LABEL}":{}}}}}}}"#, json::string(hash));
            let address = Address::core("pods", history.owner.namespace()).named(pod.name());
            self.client.patch(address, Patch::Merge, patch.as_bytes()).await?;
        }
        for other in others {
            history.delete(other.name()).await?;
        }
        Ok(())
    }
}

/// Gives a revision the label that pods have.
async fn label(history: &History<'_>, revision: &Revision) -> Result<Revision, Status> {
    let mut object = revision.object.clone();
    let metadata = object.get_or_insert_with("metadata", || Map::new().into()).as_map_mut();
    let labels = metadata.map(|metadata| metadata.get_or_insert_with("labels", || Map::new().into()));
    if let Some(labels) = labels.and_then(Value::as_map_mut) {
        labels.insert(REVISION_LABEL, revision.name());
    }
    history.update(revision.name(), object).await
}

impl Step<'_> {
    /// Deletes old revisions that exceed the history and that no pod has.
    pub(super) async fn clean_up(&self, old: &[Revision]) -> Result<(), Status> {
        let limit = usize::try_from(self.spec().revision_history_limit().unwrap_or(10)).unwrap_or_default();
        let surplus = old.len().saturating_sub(limit);
        if surplus == 0 {
            return Ok(());
        }
        let pods = self.claim().await?;
        let live: HashSet<&str> = pods.iter().filter_map(|pod| pod.entry.label(REVISION_LABEL)).collect();
        let (client, dependents) = (&self.controller.client, &*self.controller.revisions);
        let history = History { client, dependents, owner: &self.owner };
        let mut old = old.to_vec();
        history::sort(&mut old);
        let unused = old.iter().filter(|revision| !live.contains(revision.label(REVISION_LABEL)));
        for revision in unused.take(surplus) {
            history.delete(revision.name()).await?;
        }
        Ok(())
    }
}
