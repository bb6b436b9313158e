//! The end of a definition: all objects of its kind are deleted, and when they are gone, the definition goes
//! too.

use crate::conditions::{self, Condition};
use crate::definition::{FINALIZER, conditions_of};
use crate::kind::{Sources, kind_of};
use crate::{GROUP, RESOURCE};
use cache::watch::{Start, WatchOptions};
use cache::{Filter, Freshness, Query, Resource};
use kinds::object_meta;
use object::{Map, Text, Value};
use registry::{Address, Client, DeleteOptions, ListOptions, Served};
use schema::Status;
use schema::status::Reason;
use schema::view::View;
use schema::views::apiextensions::v1::CustomResourceDefinition;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// After so long, the conditions say that objects are left.
const PATIENCE: Duration = Duration::from_secs(60);
/// The pause after the first failure.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

const KIND: &str = "Terminating";

pub(crate) const DEFINITIONS: Address<'static> = Address::v1(GROUP, RESOURCE, "");

/// Why the objects of a kind are not gone.
struct Failure {
    reason: &'static str,
    message: String,
}

/// Deletes the objects of a definition's kind, and removes the finalizer of the definition when they are
/// gone. Ends when the definition was deleted, or no longer has the finalizer.
pub(crate) async fn run(client: Client, sources: Arc<Sources>, name: Text) {
    let mut pause = FIRST_PAUSE;
    while let Err(error) = step(&client, &sources, &name).await {
        if error.reason != Reason::Conflict {
            log::warn!(definition = name.as_str(), error:% = error.message; "the objects of a definition could not be deleted");
        }
        sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

async fn step(client: &Client, sources: &Sources, name: &str) -> Result<(), Status> {
    let address = DEFINITIONS.named(name);
    let mut definition = match client.get(address).await {
        Err(gone) if gone.reason == Reason::NotFound => return Ok(()),
        found => map(found?)?,
    };
    if !object_meta::is_deleting(&definition) || !object_meta::finalizers(&definition).contains(&FINALIZER) {
        return Ok(());
    }
    set(&mut definition, "True", "InstanceDeletionInProgress", "CustomResource deletion is in progress");
    let mut definition = map(client.update(address.subresource("status"), definition.into()).await?)?;
    let view = CustomResourceDefinition::of(&definition);
    let status = definition.get("status").and_then(Value::as_map).cloned().unwrap_or_default();
    let (group, plural) =
        (view.spec().group().to_owned(), view.status().accepted_names().plural().to_owned());
    let is_builtin =
        kinds::all().any(|kind| kind.group == group && kind.resource == view.spec().names().plural());
    if is_builtin {
        let why = "instances overlap with built-in resources in storage";
        set(&mut definition, "False", "OverlappingBuiltInResource", why);
    } else if conditions::is_true(conditions_of(&status), "Established") {
        if let Err(failure) = delete_instances(client, sources, &definition, &group, &plural).await {
            set(&mut definition, "True", failure.reason, &failure.message);
            client.update(address.subresource("status"), definition.into()).await?;
            return Err(Status::internal_error(&failure.message));
        }
        set(&mut definition, "False", "InstanceDeletionCompleted", "removed all instances");
    } else {
        set(&mut definition, "False", "NeverEstablished", "resource was never established");
    }
    remove_finalizer(&mut definition);
    match client.update(address.subresource("status"), definition.into()).await {
        Err(gone) if gone.reason == Reason::NotFound => Ok(()),
        outcome => outcome.map(drop),
    }
}

/// Deletes all objects of a kind, and waits until they are gone.
async fn delete_instances(
    client: &Client,
    sources: &Sources,
    definition: &Map,
    group: &str,
    plural: &str,
) -> Result<(), Failure> {
    let failed = |reason, what: &str, why: &dyn std::fmt::Display| Failure {
        reason,
        message: format!("{what}: {why}"),
    };
    let not_listed =
        |why: &dyn std::fmt::Display| failed("InstanceDeletionFailed", "could not list instances", why);
    let registry = client.registry();
    let without_client = |why: &dyn std::fmt::Display| {
        not_listed(&format!("unable to find a custom resource client for {plural}.{group}: {why}"))
    };
    let Some(resource) = registry.cache().resource(&format!("{plural}.{group}")) else {
        return Err(without_client(&"it is not served"));
    };
    let list = resource.list(Query::new(Freshness::Any, Filter::all())).await;
    let list = list.map_err(|error| not_listed(&registry::status(error).message))?;
    let mut catalog = registry.catalog();
    let is_it = |served: &&Arc<Served>| served.group == group && served.resource == plural;
    let served = catalog.served().find(is_it).map(|served| served.version.clone());
    let version = match served {
        Some(version) => version,
        // Objects with finalizers keep the definition, and cannot be written until it serves a version again.
        None => {
            let kind = kind_of(definition, sources).map_err(|error| without_client(&error))?;
            let storage = kind.storage_version.clone();
            let with_storage = registry.catalog_with_storage(kind).await;
            catalog = with_storage.map_err(|error| without_client(&error))?;
            storage
        }
    };
    let mut namespaces: BTreeSet<String> = list.map(|entry| entry.namespace().to_owned()).collect();
    let mut errors = Vec::new();
    while let Some(namespace) = namespaces.pop_first() {
        let address = Address {
            group,
            version: &version,
            resource: plural,
            subresource: "",
            namespace: &namespace,
            name: "",
        };
        let (pick, options) = (ListOptions::default(), DeleteOptions::default());
        let deleted = client.delete_collection_in(&catalog, address, &pick, &options).await;
        errors.extend(deleted.err().map(|error| error.message));
    }
    match errors.as_slice() {
        [] => {}
        [one] => return Err(failed("InstanceDeletionFailed", "could not issue all deletes", one)),
        several => {
            let all = format!("[{}]", several.join(", "));
            return Err(failed("InstanceDeletionFailed", "could not issue all deletes", &all));
        }
    }
    let unconfirmed = |why: &dyn std::fmt::Display| {
        failed("InstanceDeletionCheck", "could not confirm zero CustomResources remaining", why)
    };
    match timeout(PATIENCE, emptied(&resource)).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(unconfirmed(&registry::status(error).message)),
        Err(_) => Err(unconfirmed(&"context deadline exceeded")),
    }
}

/// Ends when a type has no objects.
async fn emptied(resource: &Arc<Resource>) -> Result<(), cache::Error> {
    loop {
        let start = Start::After(resource.revision());
        let mut watcher = resource.watch(WatchOptions::new(start)).await?;
        while !resource.is_empty() {
            match watcher.next().await {
                Err(cache::Error::TooOld { .. }) => break,
                change => drop(change?),
            }
        }
        if resource.is_empty() {
            return Ok(());
        }
    }
}

fn set(definition: &mut Map, status: &'static str, reason: &str, message: &str) {
    let condition = Condition { kind: KIND, status, reason, message };
    if let Some(status) = kinds::map_at(definition, "status") {
        condition.set(status);
    }
}

fn remove_finalizer(definition: &mut Map) {
    let Some(metadata) = kinds::map_at(definition, "metadata") else { return };
    let Some(finalizers) = metadata.get_mut("finalizers").and_then(Value::as_list_mut) else { return };
    finalizers.retain(|known| known.as_str() != Some(FINALIZER));
    if finalizers.is_empty() {
        metadata.remove("finalizers");
    }
}

/// An object of a built-in type.
fn map(object: Value) -> Result<Map, Status> {
    match object {
        Value::Map(map) => Ok(map),
        _ => Err(Status::internal_error("a definition is not a map")),
    }
}
