//! The claims of the pods of a set: they are made of templates, and are owned by the set or the pod as far as
//! they are deleted with these ([`super::retention`]).

use super::super::dependents::Dependent;
use super::replica::{self, NAME_LABEL, Replica};
use super::retention::{Owners, Policy};
use super::{Step, ordinal};
use crate::EventType;
use crate::objects::decode;
use cache::Entry;
use object::label::Labels as _;
use object::{Map, Value};
use registry::Address;
use schema::Status;
use schema::status::Reason;
use schema::view::View as _;
use schema::views::core::v1::{PersistentVolumeClaim, Pod};
use std::sync::Arc;

/// How often a pod that others change at the same time is written.
const ATTEMPTS: usize = 4;

/// The name of the claim that a pod has by a template.
fn claim_name(step: &Step, template: &str, ordinal: i64) -> String {
    format!("{template}-{}-{ordinal}", step.owner.name())
}

/// The names of the templates of claims.
fn templates(step: &Step) -> impl Iterator<Item = &str> {
    step.spec().volume_claim_templates().iter().map(|template| template.metadata().name())
}

fn find(step: &Step, name: &str) -> Result<Option<Arc<Entry>>, Status> {
    step.controller.claims.lookup(step.owner.namespace(), name).map_err(registry::status)
}

/// Mounts the claims of a pod: volumes by the names of the templates, before all others.
pub(super) fn mount(step: &Step, pod: &mut Map, ordinal: i64) {
    let names: Vec<_> = templates(step).map(str::to_owned).collect();
    if names.is_empty() {
        return;
    }
    let mut volumes: Vec<Value> = Vec::new();
    for name in &names {
        let mut source = Map::new();
        source.insert("claimName", claim_name(step, name, ordinal));
        let mut volume = Map::new();
        volume.insert("name", name.as_str());
        volume.insert("persistentVolumeClaim", source);
        volumes.push(volume.into());
    }
    let Some(spec) = pod.get_or_insert_with("spec", || Map::new().into()).as_map_mut() else { return };
    let others = spec.get("volumes").and_then(Value::as_list).unwrap_or_default();
    let is_own = |volume: &Value| {
        let name = volume.get("name").and_then(Value::as_str).unwrap_or_default();
        names.iter().any(|own| own == name)
    };
    volumes.extend(others.iter().filter(|volume| !is_own(volume)).cloned());
    spec.insert("volumes", volumes);
}

/// The claims of a pod as they are to be created.
fn wanted(step: &Step, ordinal: i64) -> Vec<(String, Map)> {
    let selector = step.spec().selector();
    step.spec()
        .volume_claim_templates()
        .iter()
        .map(|template| {
            let name = claim_name(step, template.metadata().name(), ordinal);
            let mut claim = template.map().clone();
            if let Some(metadata) = claim.get_or_insert_with("metadata", || Map::new().into()).as_map_mut() {
                metadata.insert("name", name.as_str());
                metadata.insert("namespace", step.owner.namespace());
                let labels = metadata.get_or_insert_with("labels", || Map::new().into());
                if let Some(labels) = labels.as_map_mut() {
                    let own = selector.iter().flat_map(|selector| selector.match_labels().iter());
                    own.for_each(|(key, value)| drop(labels.insert(key, value)));
                }
            }
            (name, claim)
        })
        .collect()
}

/// Creates the claims of a pod that are missing. One that is being deleted is an error: the pod has to wait.
pub(super) async fn create(step: &Step, replica: &Replica) -> Result<(), Status> {
    let mut failures = Vec::new();
    for (name, claim) in wanted(step, replica.ordinal) {
        match find(step, &name)? {
            Some(claim) if claim.is_deleting() => failures.push(format!("pvc {name} is being deleted")),
            Some(_) => {}
            None => {
                let address = Address::core("persistentvolumeclaims", step.owner.namespace());
                let created = step.controller.client.create(address, claim.into()).await.map(drop);
                let error = created.err();
                if let Some(error) = &error {
                    failures.push(format!("failed to create PVC {name}: {}", error.message));
                }
                if error.as_ref().is_none_or(|error| error.reason != Reason::AlreadyExists) {
                    let (pod, set) = (&replica.name, step.owner.name());
                    let success = format!("create Claim {name} Pod {pod} in StatefulSet {set} success");
                    let what = format!("create Claim {name} for Pod {pod} in StatefulSet {set}");
                    step.report("create", &success, &what, error.as_ref());
                }
            }
        }
    }
    match failures.as_slice() {
        [] => Ok(()),
        [only] => Err(plain(only.clone())),
        many => Err(plain(format!("[{}]", many.join(", ")))),
    }
}

fn plain(message: String) -> Status {
    Status { message, ..Status::internal_error("") }
}

fn owners(step: &Step, replica: &Replica) -> Owners {
    Owners {
        policy: Policy::of(step.spec().persistent_volume_claim_retention_policy()),
        set: step.owner.reference(),
        pod_name: replica.name.clone(),
        pod_uid: replica.uid().to_owned(),
        is_scaled_down: !step.has_ordinal(replica.ordinal),
    }
}

/// The claims of a pod that exist.
fn existing(step: &Step, replica: &Replica) -> Result<Vec<Map>, Status> {
    let names = templates(step).map(|template| claim_name(step, template, replica.ordinal));
    let mut found = Vec::new();
    for name in names {
        if let Some(entry) = find(step, &name)? {
            found.push(decode(PersistentVolumeClaim::schema(), &entry)?);
        }
    }
    Ok(found)
}

/// Whether a claim waits for the end of an earlier pod of the same name, with which it is deleted.
pub(super) fn are_stale(step: &Step, replica: &Replica) -> Result<bool, Status> {
    let owners = owners(step, replica);
    if !owners.policy.is_deleted_when_scaled() {
        return Ok(false);
    }
    Ok(existing(step, replica)?.iter().any(|claim| owners.has_stale_pod(claim)))
}

/// Whether the claims of a pod have the owners that the policy wants.
pub(super) fn have_right_owners(step: &Step, replica: &Replica) -> Result<bool, Status> {
    let owners = owners(step, replica);
    Ok(existing(step, replica)?.iter().all(|claim| owners.are_right(claim)))
}

/// Gives the claims of a pod the owners that the policy wants.
pub(super) async fn write_owners(step: &Step, replica: &Replica) -> Result<(), Status> {
    let owners = owners(step, replica);
    for mut claim in existing(step, replica)? {
        let name = kinds::object_meta::text(&claim, "name").to_owned();
        if owners.has_other_controller(&claim) {
            let message = format!(
                "PersistentVolumeClaim {name} has a conflicting OwnerReference that acts as a manging controller, the retention policy is ignored for this claim"
            );
            let subject = step.owner.subject();
            step.controller.reporter.report(&subject, EventType::Warning, "ConflictingController", message);
        }
        if !owners.are_right(&claim) {
            owners.correct(&mut claim);
            let address = Address::core("persistentvolumeclaims", step.owner.namespace()).named(&name);
            let updated = step.controller.client.update(address, claim.into()).await;
            updated.map_err(|error| Status {
                message: format!(
                    "could not update claim {name} for delete policy ownerRefs: {}",
                    error.message
                ),
                ..error
            })?;
        }
    }
    Ok(())
}

/// Gives the claims of a pod that goes away the owners that the policy wants.
pub(super) async fn fix_owners(step: &Step, replica: &Replica) -> Result<(), Status> {
    match have_right_owners(step, replica)? {
        true => Ok(()),
        false => write_owners(step, replica).await,
    }
}

/// Whether a pod has the label of its name, and mounts its claims.
pub(super) fn has_identity(step: &Step, replica: &Replica) -> Result<bool, Status> {
    let Some(pod) = replica.pod() else { return Ok(true) };
    let is_named = pod.name() == format!("{}-{}", step.owner.name(), replica.ordinal)
        && pod.entry.label(NAME_LABEL) == Some(pod.name());
    if !is_named || step.spec().volume_claim_templates().is_empty() {
        return Ok(is_named);
    }
    Ok(mounts_claims(step, &decode(Pod::schema(), &pod.entry)?, replica.ordinal))
}

fn mounts_claims(step: &Step, pod: &Map, ordinal: i64) -> bool {
    let volumes = Pod::of(pod).spec().volumes();
    templates(step).all(|template| {
        let mut own = volumes.iter().filter(|volume| volume.name() == template);
        let source = own.next().and_then(|volume| volume.persistent_volume_claim());
        source.is_some_and(|source| source.claim_name() == claim_name(step, template, ordinal))
    })
}

/// Writes a pod with its labels, its volumes and the owners of its claims as they have to be.
pub(super) async fn repair(step: &Step, replica: &Replica, pod: &Dependent) -> Result<(), Status> {
    let mut entry = pod.entry.clone();
    let mut outcome = Ok(());
    for _ in 0..ATTEMPTS {
        let mut object = decode(Pod::schema(), &entry)?;
        let name = entry.name().to_owned();
        if let Some(ordinal) = ordinal::ordinal(&name) {
            if entry.label(NAME_LABEL) != Some(&name) {
                replica::identify(&mut object, &name, ordinal);
            }
            if !mounts_claims(step, &object, ordinal) {
                mount(step, &mut object, ordinal);
                create(step, replica).await?;
            }
        }
        fix_owners(step, replica).await?;
        let address = Address::core("pods", step.owner.namespace()).named(&name);
        outcome = step.controller.client.update(address, object.into()).await.map(drop);
        match &outcome {
            Err(error) if error.reason == Reason::Conflict => {}
            _ => break,
        }
        let newest = step.controller.pods.dependents().newest(&entry)?;
        let Some(newest) = newest else { break };
        entry = newest.entry;
    }
    outcome
}
