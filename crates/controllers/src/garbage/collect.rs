//! What is done with one object.

use super::Collector;
use super::find::{Found, OwnerKind, find};
use super::graph::{Item, Uid};
use super::metadata::{Metadata, Policy, blocks};
use super::report::{Dependent, LONGEST, Missing, OWNERS};
use crate::Subject;
use crate::queue::{Reconcile, RequeueAfter};
use aggregation::{RemoteResource, RemoteWrite};
use registry::{Address, DeleteOptions, Served, status};
use schema::views::meta::v1::OwnerReference;
use schema::{Status, json};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

/// When to look again at an object whose owner is of a type that is not followed.
const POLL: Duration = Duration::from_secs(300);

/// Who looks at an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Who {
    /// Those who look at objects of this server, and wait for no other.
    Here,
    /// Those who ask other servers.
    Remote,
}

/// An object that is worked on.
pub(super) struct Object<'a> {
    pub(super) item: &'a Item,
    pub(super) place: Place,
    pub(super) uid: String,
    pub(super) resource_version: String,
    pub(super) is_deleting: bool,
    pub(super) metadata: Metadata,
}

/// Where an object is.
pub(super) enum Place {
    /// It is stored here.
    Here(Arc<Served>),
    /// Another API server has it.
    Remote(RemoteResource),
}

impl Reconcile for Collector {
    type Key = Item;

    async fn reconcile(&self, item: &Item) -> Result<RequeueAfter, Status> {
        self.look_at(item, Who::Here).await
    }
}

impl Collector {
    /// Does what is to be done with an object. What needs another server is left to those who ask them.
    pub(super) async fn look_at(&self, item: &Item, who: Who) -> Result<RequeueAfter, Status> {
        let object = match (self.object(item)?, &self.remotes, who) {
            (Some(object), _, _) => object,
            (None, Some(remotes), Who::Here) => {
                if !self.is_here(item) && remotes.mirror.resource(&item.prefix).is_some() {
                    remotes.queue.add(item.clone());
                }
                return Ok(None);
            }
            (None, Some(remotes), Who::Remote) if !self.is_here(item) => match remotes.object(item).await {
                Ok(Some(object)) => object,
                Ok(None) => return Ok(None),
                Err(why) => return why.outcome(),
            },
            (None, _, _) => return Ok(None),
        };
        if self.note_owners(&object) {
            let policy = |owner: OwnerReference<'_>| self.graph().policy(&owner.uid().into());
            let kept = object.metadata.owners_where(|owner| policy(owner) != Some(Policy::Orphan));
            self.patch(&object, &format!(r#""ownerReferences":{kept}"#)).await?;
            return Ok(Some(Duration::ZERO));
        }
        if !object.is_deleting {
            return self.judge(&object, who).await;
        }
        // The end of what is being deleted is waited for, unless its dependents come first.
        if let Some(policy) = object.metadata.awaits() {
            self.finish(&object, policy).await?;
        }
        Ok(None)
    }

    /// Whether objects of the type of an object are stored here.
    fn is_here(&self, item: &Item) -> bool {
        self.graph().served(&item.prefix).is_some()
    }

    fn object<'a>(&self, item: &'a Item) -> Result<Option<Object<'a>>, Status> {
        let Some(served) = self.graph().served(&item.prefix) else { return Ok(None) };
        let Some(stored) = &served.stored else { return Ok(None) };
        let (namespace, name) = item.names();
        let Some(entry) = stored.resource.lookup(namespace, name).map_err(status)? else { return Ok(None) };
        let metadata = Metadata::read(&entry).map_err(|error| Status::internal_error(&error.to_string()))?;
        Ok(Some(Object {
            item,
            uid: entry.uid().to_owned(),
            resource_version: entry.mod_revision().to_string(),
            is_deleting: entry.is_deleting(),
            metadata,
            place: Place::Here(served),
        }))
    }

    /// Notes which owners an object keeps from being deleted. Whether an owner orphans it.
    fn note_owners(&self, object: &Object<'_>) -> bool {
        let mut graph = self.graph();
        let mut is_orphaned = false;
        for owner in object.metadata.owners() {
            let uid = Uid::from(owner.uid());
            graph.note(object.item, &uid, blocks(owner));
            is_orphaned |= graph.policy(&uid) == Some(Policy::Orphan);
        }
        is_orphaned
    }

    /// Lets an owner go for which no dependents are left.
    async fn finish(&self, object: &Object<'_>, policy: Policy) -> Result<(), Status> {
        // An object that cannot be decrypted may be a dependent.
        self.graph().check_available().map_err(status)?;
        let is_free = {
            let mut graph = self.graph();
            graph.advance_all();
            graph.is_free(&object.uid.as_str().into())
        };
        if !is_free {
            return Ok(());
        }
        let finalizers = object.metadata.finalizers_without(policy.finalizer());
        self.patch(object, &format!(r#""finalizers":{finalizers}"#)).await
    }

    /// Deletes an object whose owners are all gone or going, or removes the references to those that are.
    async fn judge(&self, object: &Object<'_>, who: Who) -> Result<RequeueAfter, Status> {
        let catalog = self.client.registry().catalog();
        let is_followed = |prefix: &str| self.graph().served(prefix).is_some();
        let (mut solid, mut waiting, mut absent) = (false, false, Vec::new());
        let mut again = None;
        let mut kept = HashSet::new();
        for owner in object.metadata.owners() {
            let namespace = object.item.names().0;
            let found = match (find(&catalog, is_followed, namespace, owner)?, &self.remotes) {
                (Found::Unknown, Some(remotes)) => match remotes.find(namespace, owner, who).await {
                    Ok(Some(found)) => found,
                    Ok(None) => {
                        remotes.queue.add(object.item.clone());
                        return Ok(None);
                    }
                    Err(why) => return why.outcome(),
                },
                (found, _) => found,
            };
            match found {
                found @ (Found::Solid | Found::Unfollowed) => {
                    solid = true;
                    kept.insert(owner.uid());
                    again = again.or(matches!(found, Found::Unfollowed).then_some(POLL));
                }
                Found::Waiting => waiting = true,
                Found::Absent(kind) => absent.push((owner, kind)),
                Found::NoNamespace(kind) => {
                    self.report_absent(object, &[(owner, kind)]);
                    return Ok(None);
                }
                Found::Unknown => {
                    self.graph().keep_unresolved(object.item);
                    let is_newest = self.client.registry().catalog().generation() == catalog.generation();
                    let is_known_now = self.remotes.as_ref().is_some_and(|remotes| remotes.knows(owner));
                    return Ok((!is_newest || is_known_now).then_some(Duration::ZERO));
                }
            }
        }
        if solid {
            if waiting || !absent.is_empty() {
                let owners = object.metadata.owners_where(|owner| kept.contains(owner.uid()));
                self.patch(object, &format!(r#""ownerReferences":{owners}"#)).await?;
            }
        } else if waiting || !absent.is_empty() {
            if waiting && self.has_dependents(object) {
                if self.unblock(object).await? {
                    return Ok(Some(Duration::ZERO));
                }
                self.delete(object, "Foreground").await?;
            } else {
                let policy = match object.metadata.awaits() {
                    Some(Policy::Orphan) => "Orphan",
                    Some(Policy::Foreground) => "Foreground",
                    None => "Background",
                };
                self.delete(object, policy).await?;
            }
        }
        self.report_absent(object, &absent);
        Ok(again)
    }

    fn has_dependents(&self, object: &Object<'_>) -> bool {
        let mut graph = self.graph();
        graph.advance_all();
        graph.has_dependents(&object.uid.as_str().into())
    }

    /// Objects that own each other would wait for each other: where a dependent of an object waits already,
    /// the object does not block its own owners. Whether that was changed.
    async fn unblock(&self, object: &Object<'_>) -> Result<bool, Status> {
        let is_due = object.metadata.owners().any(blocks)
            && self.graph().has_waiting_dependent(&object.uid.as_str().into());
        if is_due {
            let owners = object.metadata.owners_unblocked();
            self.patch(object, &format!(r#""ownerReferences":{owners}"#)).await?;
        }
        Ok(is_due)
    }

    /// Deletes an object if it still is as it was looked at.
    async fn delete(&self, object: &Object<'_>, policy: &str) -> Result<(), Status> {
        match &object.place {
            Place::Here(served) => {
                let options = DeleteOptions {
                    uid: Some(object.uid.clone()),
                    resource_version: Some(object.resource_version.clone()),
                    propagation_policy: Some(policy.to_owned()),
                    ..DeleteOptions::default()
                };
                done(self.client.delete(object.address(served), &options).await)
            }
            Place::Remote(of) => {
                let options = format!(
                    r#"{{"kind":"DeleteOptions","apiVersion":"v1","preconditions":{{"uid":{}}},"propagationPolicy":"{policy}"}}"#,
                    json::string(&object.uid)
                );
                self.write_remote(object, of, RemoteWrite::Delete(options.as_bytes())).await
            }
        }
    }

    /// Changes a field of the metadata of an object if it still is as it was looked at.
    async fn patch(&self, object: &Object<'_>, field: &str) -> Result<(), Status> {
        let (uid, version) = (json::string(&object.uid), json::string(&object.resource_version));
        let patch = format!(r#"{{"metadata":{{"uid":{uid},"resourceVersion":{version},{field}}}}}"#);
        match &object.place {
            Place::Here(served) => {
                done(self.client.patch_metadata(object.address(served), patch.as_bytes()).await)
            }
            Place::Remote(of) => self.write_remote(object, of, RemoteWrite::Patch(patch.as_bytes())).await,
        }
    }

    async fn write_remote(
        &self,
        object: &Object<'_>,
        of: &RemoteResource,
        write: RemoteWrite<'_>,
    ) -> Result<(), Status> {
        let Some(remotes) = &self.remotes else { return Ok(()) };
        let (namespace, name) = object.item.names();
        remotes.write(of, [namespace, name], write).await
    }

    /// Tells people if an owner that an object does not have in its namespace is in another one.
    fn report_absent(&self, object: &Object<'_>, absent: &[(OwnerReference<'_>, OwnerKind)]) {
        let (namespace, name) = object.item.names();
        let missing = |(owner, kind): &(OwnerReference<'_>, OwnerKind)| {
            if !kind.is_namespaced() || self.graph().is_absent(&owner.uid().into()) {
                return None;
            }
            let resource = match kind {
                OwnerKind::Here(served) => Some(served.stored.as_ref()?.resource.clone()),
                OwnerKind::Remote(of) => {
                    let mirror = &self.remotes.as_ref()?.mirror;
                    let found = mirror.namespace_of(&of.prefix(), owner.uid())?;
                    if found == namespace {
                        return None;
                    }
                    None
                }
            };
            let reference = format!(
                "[{}/{}, namespace: {namespace}, name: {}, uid: {}]",
                owner.api_version(),
                owner.kind(),
                owner.name(),
                owner.uid()
            );
            let missing = Missing { reference, uid: owner.uid().to_owned(), resource };
            (missing.reference.len() <= LONGEST).then_some(missing)
        };
        let owners: Vec<_> = absent.iter().filter_map(missing).take(OWNERS).collect();
        let (api_version, kind) = match &object.place {
            Place::Here(served) => (served.api_version.to_string(), served.kind.to_string()),
            Place::Remote(of) => (of.api_version(), of.kind.clone()),
        };
        let subject = Subject {
            api_version,
            kind,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            uid: object.uid.clone(),
            resource_version: String::new(),
        };
        self.reporter.add(Dependent { subject, owners });
    }
}

impl Object<'_> {
    /// The address of an object that is stored here.
    fn address<'a>(&'a self, served: &'a Served) -> Address<'a> {
        let (namespace, name) = self.item.names();
        Address {
            group: &served.group,
            version: &served.version,
            resource: &served.resource,
            subresource: "",
            namespace,
            name,
        }
    }
}

/// The outcome of a write of an object; a 404 is no error, because nothing is left to do.
fn done(outcome: Result<(), Status>) -> Result<(), Status> {
    outcome.or_else(|error| if error.code == 404 { Ok(()) } else { Err(error) })
}
