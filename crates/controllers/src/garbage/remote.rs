//! Owners and dependents that other API servers have.

use super::Collector;
use super::collect::{Object, Place, Who};
use super::find::{Found, OwnerKind, group_version};
use super::graph::Item;
use super::metadata::{Metadata, Policy};
use super::observed::Observed as _;
use crate::Context;
use crate::queue::{Queue, Reconcile, RequeueAfter};
use aggregation::{Aggregation, Known, Mirror, RemoteObject, RemoteResource, RemoteWrite};
use auth::User;
use registry::{Address, Client};
use schema::Status;
use schema::views::meta::v1::OwnerReference;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How long a server may take for an answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// How many requests a server gets at once.
const OF_A_SERVER: usize = 3;
/// When an object is looked at again whose server has all of these.
const LATER: Duration = Duration::from_secs(1);

/// The other API servers.
pub(super) struct Remotes {
    client: Client,
    aggregation: Arc<Aggregation>,
    pub(super) mirror: Arc<Mirror>,
    /// The objects for which other servers are asked.
    pub(super) queue: Queue<Item>,
    /// How many requests each group has, by its name: a group has one server mostly.
    running: Arc<Mutex<HashMap<String, usize>>>,
}

/// Does what waits for other servers.
pub(super) struct RemoteWorker(pub(super) Arc<Collector>);

/// Why there is no answer of another server.
pub(super) enum NoAnswer {
    /// The server has enough requests now.
    Busy,
    /// The request failed.
    Failed(Status),
}

impl Reconcile for RemoteWorker {
    type Key = Item;

    async fn reconcile(&self, item: &Item) -> Result<RequeueAfter, Status> {
        self.0.look_at(item, Who::Remote).await
    }
}

impl NoAnswer {
    /// How a look at an object ends that needed the answer.
    pub(super) fn outcome(self) -> Result<RequeueAfter, Status> {
        match self {
            Self::Busy => Ok(Some(LATER)),
            Self::Failed(status) => Err(status),
        }
    }
}

impl Remotes {
    /// The servers that a server hands requests on to.
    pub(super) fn new(context: &Context) -> Option<Self> {
        let aggregation = context.settings.aggregation.clone()?;
        let client = context.client.clone();
        let mirror = aggregation.mirror(&client);
        Some(Self { client, aggregation, mirror, queue: Queue::default(), running: Arc::default() })
    }

    /// Whether another server has the kind of an owner.
    pub(super) fn knows(&self, owner: OwnerReference<'_>) -> bool {
        let (group, version) = group_version(owner);
        matches!(self.mirror.kind(group, version, owner.kind()), Known::Kind(_))
    }

    /// An object of a kind whose objects are kept, as its server has it now.
    pub(super) async fn object<'a>(&self, item: &'a Item) -> Result<Option<Object<'a>>, NoAnswer> {
        let Some(of) = self.mirror.resource(&item.prefix) else { return Ok(None) };
        let (namespace, name) = item.names();
        let Some(found) = self.get(&of, namespace, name).await? else { return Ok(None) };
        let Some(state) = RemoteObject::read(&found) else { return Ok(None) };
        let version = found.get("metadata").and_then(|metadata| metadata.get("resourceVersion"));
        Ok(Some(Object {
            item,
            uid: state.uid.to_string(),
            resource_version: version.and_then(object::Value::as_str).unwrap_or_default().to_owned(),
            is_deleting: state.is_deleting,
            metadata: Metadata::of(&found),
            place: Place::Remote(of),
        }))
    }

    /// Looks up an owner of an object in a namespace. The mirror knows most of those that exist; `who` may
    /// ask the server for the others.
    pub(super) async fn find(
        &self,
        namespace: &str,
        owner: OwnerReference<'_>,
        who: Who,
    ) -> Result<Option<Found>, NoAnswer> {
        let (group, version) = group_version(owner);
        let Known::Kind(of) = self.mirror.kind(group, version, owner.kind()) else {
            return Ok(Some(Found::Unknown));
        };
        if of.is_namespaced && namespace.is_empty() {
            return Ok(Some(Found::NoNamespace(OwnerKind::Remote(of))));
        }
        let namespace = if of.is_namespaced { namespace } else { "" };
        let prefix = of.prefix();
        let state = |object: &RemoteObject| {
            let waits = object.is_deleting && object.awaits() == Some(Policy::Foreground);
            if waits { Found::Waiting } else { Found::Solid }
        };
        let seen = self.mirror.lookup(&prefix, namespace, owner.name());
        if let Some(object) = seen.filter(|object| &*object.uid == owner.uid()) {
            return Ok(Some(state(&object)));
        }
        if who == Who::Here {
            return Ok(None);
        }
        let is_kept = self.mirror.resource(&prefix).is_some();
        let found = self.get(&of, namespace, owner.name()).await?;
        let found = found.as_ref().and_then(RemoteObject::read);
        Ok(Some(match found.filter(|object| &*object.uid == owner.uid()) {
            None => Found::Absent(OwnerKind::Remote(of)),
            Some(object) => match state(&object) {
                Found::Solid if !is_kept => Found::Unfollowed,
                found => found,
            },
        }))
    }

    async fn get(
        &self,
        of: &RemoteResource,
        namespace: &str,
        name: &str,
    ) -> Result<Option<object::Value>, NoAnswer> {
        let _turn = self.turn(of)?;
        let user = self.user(of, namespace, name, "get").await.map_err(NoAnswer::Failed)?;
        let found = self.aggregation.get(&user, of, [namespace, name], PATIENCE).await;
        found.map_err(|why| NoAnswer::Failed(failed(&why)))
    }

    /// Changes or deletes an object.
    pub(super) async fn write(
        &self,
        of: &RemoteResource,
        [namespace, name]: [&str; 2],
        write: RemoteWrite<'_>,
    ) -> Result<(), Status> {
        let verb = match write {
            RemoteWrite::Delete(_) => "delete",
            RemoteWrite::Patch(_) => "patch",
        };
        let user = self.user(of, namespace, name, verb).await?;
        let written = self.aggregation.write_object(&user, of, [namespace, name], write, PATIENCE).await;
        written.map_err(|why| failed(&why))
    }

    async fn user(
        &self,
        of: &RemoteResource,
        namespace: &str,
        name: &str,
        verb: &'static str,
    ) -> Result<Arc<User>, Status> {
        let address = Address { version: &of.version, ..Address::v1(&of.group, &of.resource, namespace) };
        self.client.user_for(address.named(name), verb).await
    }

    /// A place among the requests to the server of a group.
    fn turn(&self, of: &RemoteResource) -> Result<Turn, NoAnswer> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let count = running.entry(of.group.clone()).or_default();
        if *count >= OF_A_SERVER {
            return Err(NoAnswer::Busy);
        }
        *count += 1;
        Ok(Turn { group: of.group.clone(), running: self.running.clone() })
    }
}

/// A request to the server of a group.
struct Turn {
    group: String,
    running: Arc<Mutex<HashMap<String, usize>>>,
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = running.get_mut(&self.group) {
            *count -= 1;
            if *count == 0 {
                running.remove(&self.group);
            }
        }
    }
}

fn failed(why: &str) -> Status {
    Status::service_unavailable(why)
}
