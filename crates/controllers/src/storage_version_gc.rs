//! The controller `storageversion-garbage-collector-controller`, with the feature gate `StorageVersionAPI`:
//! takes servers that are gone out of `StorageVersion` objects. A server is gone when it has no identity
//! lease. An object without servers is removed.

use crate::follow::{StartFrom, follow};
use crate::objects::decode;
use crate::queue::{Queue, Reconcile, RequeueAfter};
use crate::{Context, Controller};
use cache::{Cursor, Entry, Resource, Update};
use object::label::Labels as _;
use object::time::Time;
use object::{Text, Value};
use registry::{Address, Client, DeleteOptions};
use schema::Status;
use schema::view::View as _;
use schema::views::apiserverinternal::v1alpha1::StorageVersion;
use std::sync::Arc;

pub(crate) const CONTROLLER: Controller = Controller {
    name: "storageversion-garbage-collector-controller",
    alias: "storage-version-gc",
    account: "storage-version-garbage-collector",
    stores: crate::Stores::All,
    run: |context| Box::pin(run(context)),
};

const STORAGE_VERSIONS: Address<'static> =
    Address { version: "v1alpha1", ..Address::v1("internal.apiserver.k8s.io", "storageversions", "") };
/// The label of identity leases, and its value.
const IDENTITY: (&str, &str) = ("apiserver.kubernetes.io/identity", "kube-apiserver");
/// The namespace of identity leases.
const LEASES: &str = "kube-system";

async fn run(context: Context) {
    if !context.settings.gates.storage_version_api {
        return;
    }
    let (Some(versions), Some(leases)) = (
        context.resource("storageversions.internal.apiserver.k8s.io"),
        context.resource("leases.coordination.k8s.io"),
    ) else {
        return;
    };
    let queue: Arc<Queue<Text>> = Arc::default();
    let _versions = follow(versions.clone(), StartFrom::State, {
        let queue = queue.clone();
        move |update| {
            if let Update::Change { after: Some(entry), .. } = update {
                queue.add(entry.name().into());
            }
        }
    });
    let _leases = follow(leases.clone(), StartFrom::Now, {
        let (queue, versions) = (queue.clone(), versions.clone());
        move |update| match update {
            Update::Change { before: Some(lease), after: None } if is_identity(lease) => {
                add_all(&queue, &versions);
            }
            Update::Reset => add_all(&queue, &versions),
            Update::Change { .. } => {}
        }
    });
    let worker = Arc::new(Worker { client: context.client.clone(), versions, leases });
    queue.work(&context, 1, worker).await;
}

fn is_identity(lease: &Entry) -> bool {
    lease.namespace() == LEASES && lease.label(IDENTITY.0) == Some(IDENTITY.1)
}

fn add_all(queue: &Queue<Text>, versions: &Arc<Resource>) {
    Cursor::new(versions.clone()).advance(|update| {
        if let Update::Change { after: Some(entry), .. } = update {
            queue.add(entry.name().into());
        }
    });
}

struct Worker {
    client: Client,
    versions: Arc<Resource>,
    leases: Arc<Resource>,
}

impl Reconcile for Worker {
    type Key = Text;

    async fn reconcile(&self, name: &Text) -> Result<RequeueAfter, Status> {
        let Some(entry) = self.versions.lookup("", name).map_err(registry::status)? else { return Ok(None) };
        let mut object = decode(StorageVersion::schema(), &entry)?;
        let servers: Vec<String> = {
            let servers = StorageVersion::of(&object).status().storage_versions();
            servers.iter().map(|server| server.api_server_id().to_owned()).collect()
        };
        let mut gone = Vec::new();
        for server in &servers {
            let lease = self.leases.lookup(LEASES, server).map_err(registry::status)?;
            if !lease.is_some_and(|lease| is_identity(&lease)) {
                gone.push(server.as_str());
            }
        }
        if gone.is_empty() {
            return Ok(None);
        }
        let address = STORAGE_VERSIONS.named(name);
        if gone.len() == servers.len() {
            let options = DeleteOptions {
                uid: Some(entry.uid().to_owned()),
                resource_version: Some(entry.mod_revision().to_string()),
                ..DeleteOptions::default()
            };
            return match self.client.delete(address, &options).await {
                Err(error) if error.code != 404 => Err(error),
                _ => Ok(None),
            };
        }
        let status = object.get_mut("status").and_then(Value::as_map_mut);
        if let Some(list) = status.and_then(|status| status.get_mut("storageVersions")?.as_list_mut()) {
            list.retain(|server| {
                let id = server.get("apiServerID").and_then(Value::as_str).unwrap_or_default();
                !gone.contains(&id)
            });
        }
        kinds::storage_version::set_common_encoding(&mut object, Time::now());
        self.client.update(address.subresource("status"), object.into()).await?;
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Fixture;
    use registry::Selection;

    async fn fixture() -> Fixture {
        let mut fixture = Fixture::configured(|config| {
            let mut selection = Selection::default();
            selection.set("internal.apiserver.k8s.io/v1alpha1", true);
            config.selection = selection;
        })
        .await;
        fixture.change_settings(|settings| settings.gates.storage_version_api = true);
        fixture.namespace(LEASES).await;
        fixture
    }

    async fn lease(fixture: &Fixture, name: &str) {
        let text = format!(
            r#"{{"metadata":{{"name":"{name}","labels":{{"{}":"{}"}}}},"spec":{{"holderIdentity":"h"}}}}"#,
            IDENTITY.0, IDENTITY.1
        );
        fixture.create(Address::v1("coordination.k8s.io", "leases", LEASES), &text).await;
    }

    async fn version(fixture: &Fixture, name: &str, servers: &[&str]) {
        let address = STORAGE_VERSIONS.named(name);
        fixture.create(STORAGE_VERSIONS, &format!(r#"{{"metadata":{{"name":"{name}"}},"spec":{{}}}}"#)).await;
        let of = |(at, server): (usize, &&str)| {
            format!(r#"{{"apiServerID":"{server}","encodingVersion":"v{at}","decodableVersions":["v{at}"]}}"#)
        };
        let list: Vec<String> = servers.iter().enumerate().map(of).collect();
        let text = format!(
            r#"{{"metadata":{{"name":"{name}"}},"spec":{{}},"status":{{"storageVersions":[{}]}}}}"#,
            list.join(",")
        );
        let status = fixture.client.decode(STORAGE_VERSIONS, &text).unwrap();
        let status = status.get("status").unwrap().clone();
        let put = |object: &mut object::Map| drop(object.insert("status", status));
        fixture.client.modify(address.subresource("status"), put).await.unwrap();
    }

    /// The servers of an object, and the version that they have in common; empty if it is gone.
    fn servers(fixture: &Fixture, name: &str) -> String {
        let Some(entry) = fixture.lookup("storageversions.internal.apiserver.k8s.io", "", name) else {
            return String::new();
        };
        let object = decode(StorageVersion::schema(), &entry).unwrap();
        let status = StorageVersion::of(&object).status();
        let ids: Vec<&str> = status.storage_versions().iter().map(|server| server.api_server_id()).collect();
        format!("{} {}", ids.join(","), status.common_encoding_version().unwrap_or("-"))
    }

    #[tokio::test]
    async fn servers_without_a_lease_go_and_with_the_last_one_the_object() {
        let fixture = fixture().await;
        for name in ["one", "two"] {
            lease(&fixture, name).await;
        }
        version(&fixture, "apps.deployments", &["one", "two", "never"]).await;
        version(&fixture, "apps.statefulsets", &["never"]).await;
        let _running = fixture.start(&CONTROLLER);
        let until = async |name: &str, expected: &str| {
            fixture.until(expected, async || servers(&fixture, name) == expected).await;
        };
        until("apps.statefulsets", "").await;
        until("apps.deployments", "one,two -").await;
        let leases = Address::v1("coordination.k8s.io", "leases", LEASES);
        fixture.client.delete(leases.named("one"), &DeleteOptions::default()).await.unwrap();
        until("apps.deployments", "two v1").await;
        fixture.client.delete(leases.named("two"), &DeleteOptions::default()).await.unwrap();
        until("apps.deployments", "").await;
    }
}
