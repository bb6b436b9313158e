//! With the feature gate `StorageVersionAPI`: what this server says of the versions that it stores, as
//! objects of the kind `StorageVersion`, one for each resource.
//!
//! The reference holds writes of a resource back until its object is written, so that a client that knows
//! all servers knows the versions of all objects. Nothing waits here: a server of this release stores what
//! every other one of it does.

use kinds::{Kind, OldVersion, Storage};
use object::time::Time;
use object::{Map, Value};
use registry::{Address, Client};
use schema::Status;
use schema::status::Reason;

use crate::identity::identity_name;

/// The objects.
pub(crate) const STORAGE_VERSIONS: Address<'static> =
    Address { version: "v1alpha1", ..Address::v1("internal.apiserver.k8s.io", "storageversions", "") };
/// How often an object is tried that another server writes at the same time.
const ATTEMPTS: usize = 8;

/// What this server says of a resource.
#[derive(Debug, PartialEq, Eq)]
struct Said {
    /// The name of the object.
    name: String,
    encoding: String,
    decodable: Vec<String>,
    served: Vec<String>,
}

/// Writes what this server says of all resources of which it serves a version.
pub(crate) async fn write(client: &Client) -> Result<(), Status> {
    let own = identity_name();
    for said in all(client) {
        write_one(client, &own, &said).await?;
    }
    Ok(())
}

async fn write_one(client: &Client, own: &str, said: &Said) -> Result<(), Status> {
    let address = STORAGE_VERSIONS.named(&said.name);
    for attempt in 1.. {
        let written = client.modify(address.subresource("status"), |object| said.put(own, object)).await;
        let outcome = match written {
            Err(error) if error.reason == Reason::NotFound => {
                let text = format!(r#"{{"metadata":{{"name":"{}"}},"spec":{{}}}}"#, said.name);
                let object = client.decode(STORAGE_VERSIONS, &text)?;
                client.create(STORAGE_VERSIONS, object).await.map(drop)
            }
            outcome => {
                if outcome.is_ok() {
                    return Ok(());
                }
                outcome
            }
        };
        match outcome {
            Err(error) if !matches!(error.reason, Reason::Conflict | Reason::AlreadyExists) => {
                return Err(error);
            }
            Err(error) if attempt >= ATTEMPTS => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

impl Said {
    /// Puts it into the status of an object.
    fn put(&self, own: &str, object: &mut Map) {
        let mut server = Map::new();
        server.insert("apiServerID", own);
        server.insert("encodingVersion", self.encoding.as_str());
        let list = |versions: &[String]| {
            versions.iter().map(|version| version.as_str().into()).collect::<Vec<Value>>()
        };
        server.insert("decodableVersions", list(&self.decodable));
        if !self.served.is_empty() {
            server.insert("servedVersions", list(&self.served));
        }
        let status = object.get_or_insert_with("status", || Map::new().into());
        let Some(status) = status.as_map_mut() else { return };
        let servers = status.get_or_insert_with("storageVersions", || Value::from(Vec::new()));
        let Some(servers) = servers.as_list_mut() else { return };
        let is_own = |known: &&mut Value| known.get("apiServerID").and_then(Value::as_str) == Some(own);
        match servers.iter_mut().find(is_own) {
            Some(known) => *known = server.into(),
            None => servers.push(server.into()),
        }
        kinds::storage_version::set_common_encoding(object, Time::now());
    }
}

/// What this server says of all resources, by name.
fn all(client: &Client) -> Vec<Said> {
    let selection = &client.registry().config().selection;
    let served = |kind: &'static Kind| {
        let versions = kind.versions.iter().filter(|version| selection.serves(kind, version));
        versions.map(|version| kinds::api_version(kind.group, version.name).to_string()).collect::<Vec<_>>()
    };
    let decodable = |kind: &'static Kind| {
        let versions =
            kind.versions.iter().map(|version| kinds::api_version(kind.group, version.name).to_string());
        let old = kind.old_versions.iter().map(|OldVersion { api_version, .. }| (*api_version).to_owned());
        versions.chain(old).collect::<Vec<_>>()
    };
    let own = kinds::all().filter(|kind| kind.storage == Storage::Own);
    let mut all: Vec<Said> = own
        .filter_map(|kind| {
            let shares = kinds::all().filter(|other| {
                other.storage == Storage::Shared { group: kind.group, resource: kind.resource }
            });
            let shares: Vec<&Kind> = shares.collect();
            let encoding = kinds::api_version(kind.group, kind.storage_version()?.name).to_string();
            let is_served = !served(kind).is_empty() || shares.iter().any(|other| !served(other).is_empty());
            if !is_served {
                return None;
            }
            let mut versions = decodable(kind);
            for version in shares.into_iter().flat_map(decodable) {
                if !versions.contains(&version) {
                    versions.push(version);
                }
            }
            let group = if kind.group.is_empty() { "core" } else { kind.group };
            let name = format!("{group}.{}", kind.resource);
            Some(Said { name, encoding, decodable: versions, served: served(kind) })
        })
        .collect();
    all.sort_unstable_by(|one, other| one.name.cmp(&other.name));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use cache::{Cache, CacheOptions};
    use registry::{Registry, Selection};
    use std::sync::Arc;
    use store::memory::Memory;

    async fn client() -> Client {
        let cache =
            Cache::open(Arc::new(Memory::default()), registry::specs().unwrap(), CacheOptions::default());
        let cache = Arc::new(cache.await.unwrap());
        let mut selection = Selection::default();
        selection.set("internal.apiserver.k8s.io/v1alpha1", true);
        let config = registry::Config { selection, ..registry::Config::new(&cache).unwrap() };
        Client::of_startup(Arc::new(Registry::new(cache, config).unwrap()), "test")
    }

    #[tokio::test]
    async fn every_served_resource_has_an_object_with_the_version_of_this_server() {
        let client = client().await;
        write(&client).await.unwrap();
        let versions = client
            .list(STORAGE_VERSIONS)
            .await
            .unwrap()
            .objects
            .iter()
            .map(|entry| entry.mod_revision())
            .collect::<Vec<_>>();
        let get = async |name: &str| client.get(STORAGE_VERSIONS.named(name)).await.unwrap();
        let at = |object: &Value, path: &[&str]| {
            path.iter().try_fold(object.clone(), |value, key| match key.parse::<usize>() {
                Ok(at) => value.as_list()?.get(at).cloned(),
                Err(_) => value.get(key).cloned(),
            })
        };
        let deployments = get("apps.deployments").await;
        let server = ["status", "storageVersions", "0"];
        let text = |path: &[&str]| at(&deployments, path).and_then(|value| value.as_str().map(str::to_owned));
        assert_eq!(text(&[&server[..], &["apiServerID"]].concat()), Some(identity_name()));
        assert_eq!(text(&[&server[..], &["encodingVersion"]].concat()).as_deref(), Some("apps/v1"));
        assert_eq!(text(&["status", "commonEncodingVersion"]).as_deref(), Some("apps/v1"));
        assert_eq!(text(&["status", "conditions", "0", "type"]).as_deref(), Some("AllEncodingVersionsEqual"));
        assert_eq!(
            text(&["status", "conditions", "0", "reason"]).as_deref(),
            Some("CommonEncodingVersionSet")
        );
        let events = get("core.events").await;
        let list = at(&events, &[&server[..], &["decodableVersions"]].concat()).unwrap();
        let list: Vec<&str> = list.as_list().unwrap().iter().filter_map(Value::as_str).collect();
        assert!(list.starts_with(&["v1", "events.k8s.io/v1"]), "{list:?}");
        assert!(client.get(STORAGE_VERSIONS.named("events.k8s.io.events")).await.is_err());
        assert!(
            client.get(STORAGE_VERSIONS.named("resource.k8s.io.deviceclasses")).await.is_err(),
            "it is not served"
        );
        // What is there already is not written again.
        write(&client).await.unwrap();
        let again = client
            .list(STORAGE_VERSIONS)
            .await
            .unwrap()
            .objects
            .iter()
            .map(|entry| entry.mod_revision())
            .collect::<Vec<_>>();
        assert!(versions.len() > 50);
        assert_eq!(versions, again);
    }
}
