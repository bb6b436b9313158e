//! Which replica set has the newest template, and which are old: revisions, hashes of templates, and the end
//! of what exceeds the history.

use super::super::hash::template_hash;
use super::super::pods::is_namespace_ending;
use super::super::replicas::REPLICA_SET;
use super::super::status;
use super::set::{HASH_LABEL, Set, by_revision, is_same_template, template};
use super::{Missing, PROGRESSING, Sets, Step, UNLIMITED, annotations, is_controlled_by, revision};
use crate::EventType;
use crate::objects::annotation;
use object::quote::quote;
use object::{Map, Value};
use registry::DeleteOptions;
use schema::Status;
use schema::status::Reason;

impl Step<'_> {
    /// Tells the replica set with the template of the deployment from the old ones, and brings the revisions
    /// of the set and of the deployment up to date.
    pub(super) async fn sort(&mut self, sets: Vec<Set>, missing: Missing) -> Result<Sets, Status> {
        let mut old = sets;
        super::set::oldest_first(&mut old);
        let template = template(&self.object);
        // Of several with the template, the oldest is the new one.
        let place = old.iter().position(|set| is_same_template(&set.template(), &template));
        let found = place.map(|at| old.remove(at));
        let largest = old.iter().filter_map(|set| revision(&set.object)).max().unwrap_or_default().max(0);
        let revision = largest.saturating_add(1);
        let new = match (found, missing) {
            (Some(set), _) => Some(self.keep(set, revision).await?),
            (None, Missing::Leave) => None,
            (None, Missing::Create) => Some(self.create(&old, revision).await?),
        };
        Ok(Sets { new, old })
    }

    /// Brings a replica set that has the newest template up to date.
    async fn keep(&mut self, mut set: Set, revision: i64) -> Result<Set, Status> {
        let min_ready = self.spec().min_ready_seconds();
        let is_annotated = annotations::follow_deployment(&mut set.object, &self.object, revision);
        let has_min_ready = status::number(&spec_of(&set.object), "minReadySeconds") == min_ready;
        if is_annotated || !has_min_ready {
            set_in_spec(&mut set.object, "minReadySeconds", min_ready);
            return self.update_set(set.object).await;
        }
        let own_revision = annotation(&set.object, annotations::REVISION).to_owned();
        let mut is_changed = annotations::set(&mut self.object, annotations::REVISION, &own_revision);
        if self.has_deadline() && status::find(&self.status(), PROGRESSING).is_none() {
            let message = format!("Found new replica set {}", quote(set.name()));
            self.set_condition(Self::condition(PROGRESSING, "True", "FoundNewReplicaSet", &message));
            is_changed = true;
        }
        if is_changed {
            self.write_status().await?;
        }
        Ok(set)
    }

    /// Creates a replica set with the template of the deployment.
    async fn create(&mut self, old: &[Set], revision: i64) -> Result<Set, Status> {
        let collisions = self.status().get("collisionCount").and_then(Value::as_i64);
        let hash = template_hash(&template(&self.object), collisions);
        let mut set = self.new_set(&hash);
        let count = self.new_replicas(old, 0)?;
        set_in_spec(&mut set, "replicas", count);
        annotations::follow_deployment(&mut set, &self.object, revision);
        annotations::set_sizes(&mut set, self.replicas(), self.replicas() + self.max_surge());
        let name = format!("{}-{hash}", self.owner.name());
        let address = REPLICA_SET.address(self.owner.namespace(), "");
        let created = match self.controller.client.create(address, set.into()).await {
            Ok(created) => Set { object: created.as_map().cloned().unwrap_or_default() },
            Err(error) if error.reason == Reason::AlreadyExists => {
                let set = self.find_same(&name).await?;
                let Some(set) = set else { return Err(self.count_collision(error).await) };
                if annotations::set(&mut self.object, annotations::REVISION, &revision.to_string()) {
                    self.write_status().await?;
                }
                return Ok(set);
            }
            Err(error) if is_namespace_ending(&error) => return Err(error),
            Err(error) => return Err(self.note_failure(&name, error).await),
        };
        if count > 0 {
            let message = format!("Scaled up replica set {} from 0 to {count}", created.name());
            self.report(EventType::Normal, "ScalingReplicaSet", message);
        }
        let mut is_changed = annotations::set(&mut self.object, annotations::REVISION, &revision.to_string());
        if self.has_deadline() {
            let message = format!("Created new replica set {}", quote(created.name()));
            self.set_condition(Self::condition(PROGRESSING, "True", "NewReplicaSetCreated", &message));
            is_changed = true;
        }
        if is_changed {
            self.write_status().await?;
        }
        Ok(created)
    }

    fn new_set(&self, hash: &str) -> Map {
        let mut template = template(&self.object);
        let metadata = template.get_or_insert_with("metadata", || Map::new().into());
        let mut labels = Value::default();
        if let Some(metadata) = metadata.as_map_mut() {
            add_hash(metadata, "labels", hash);
            labels = metadata.get("labels").cloned().unwrap_or_default();
        }
        let selector = spec_of(&self.object).get("selector").and_then(Value::as_map).cloned();
        let mut selector = selector.unwrap_or_default();
        add_hash(&mut selector, "matchLabels", hash);
        let mut metadata = Map::new();
        metadata.insert("name", format!("{}-{hash}", self.owner.name()));
        metadata.insert("namespace", self.owner.namespace());
        metadata.insert("labels", labels);
        metadata.insert("ownerReferences", self.owner.references());
        let mut spec = Map::new();
        spec.insert("minReadySeconds", self.spec().min_ready_seconds());
        spec.insert("selector", selector);
        spec.insert("template", template);
        let mut set = Map::new();
        set.insert("metadata", metadata);
        set.insert("spec", spec);
        set
    }

    /// The replica set with a name, if it is one of this deployment with the same template.
    async fn find_same(&self, name: &str) -> Result<Option<Set>, Status> {
        let sets = self.controller.sets.resource();
        let found = sets.lookup(self.owner.namespace(), name).map_err(registry::status)?;
        let Some(found) = found else { return Ok(None) };
        let set = Set::read(&found)?;
        let is_same = is_controlled_by(&set.object, self.owner.uid())
            && is_same_template(&set.template(), &template(&self.object));
        Ok(is_same.then_some(set))
    }

    /// Another template has the same hash: with the next count of collisions it has another one.
    async fn count_collision(&mut self, error: Status) -> Status {
        let mut status = self.status();
        let count = status::number(&status, "collisionCount").saturating_add(1);
        status.insert("collisionCount", count);
        self.object.insert("status", status);
        match self.write_status().await {
            // The next step creates the replica set.
            Ok(()) => Status { reason: Reason::Conflict, ..error },
            Err(error) => error,
        }
    }

    async fn note_failure(&mut self, name: &str, error: Status) -> Status {
        let message = format!("Failed to create new replica set {}: {}", quote(name), error.message);
        if self.has_deadline() {
            self.set_condition(Self::condition(PROGRESSING, "False", "ReplicaSetCreateError", &message));
            // The error of the create is the one that counts.
            drop(self.write_status().await);
        }
        self.report(EventType::Warning, "ReplicaSetCreateError", message);
        error
    }

    pub(super) async fn update_set(&self, object: Map) -> Result<Set, Status> {
        let name = kinds::object_meta::text(&object, "name").to_owned();
        let address = REPLICA_SET.address(self.owner.namespace(), &name);
        let updated = self.controller.client.update(address, object.into()).await?;
        Ok(Set { object: updated.as_map().cloned().unwrap_or_default() })
    }

    /// Deletes old replica sets without pods that exceed the history.
    pub(super) async fn clean_up(&self, sets: &Sets) -> Result<(), Status> {
        let Some(limit) = self.spec().revision_history_limit().filter(|limit| *limit != UNLIMITED) else {
            return Ok(());
        };
        let mut old: Vec<_> = sets.old.iter().filter(|set| !set.is_deleting()).cloned().collect();
        let surplus = old.len().saturating_sub(usize::try_from(limit).unwrap_or_default());
        if surplus == 0 {
            return Ok(());
        }
        by_revision(&mut old);
        for set in old.iter().take(surplus) {
            if set.status().replicas() != 0 || set.replicas() != 0 || !set.is_observed() {
                continue;
            }
            let address = REPLICA_SET.address(self.owner.namespace(), set.name());
            match self.controller.client.delete(address, &DeleteOptions::default()).await {
                Err(error) if error.reason == Reason::NotFound => {}
                outcome => outcome?,
            }
        }
        Ok(())
    }
}

fn add_hash(map: &mut Map, field: &'static str, hash: &str) {
    let labels = map.get_or_insert_with(field, || Map::new().into());
    if let Some(labels) = labels.as_map_mut() {
        labels.insert(HASH_LABEL, hash);
    }
}

fn spec_of(object: &Map) -> Map {
    object.get("spec").and_then(Value::as_map).cloned().unwrap_or_default()
}

/// Sets a field of the spec.
pub(super) fn set_in_spec(object: &mut Map, field: &'static str, value: impl Into<Value>) {
    if let Some(spec) = object.get_or_insert_with("spec", || Map::new().into()).as_map_mut() {
        spec.insert(field, value);
    }
}
