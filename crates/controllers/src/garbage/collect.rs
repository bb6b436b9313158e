//! What is done with one object.

use super::Collector;
use super::find::{Found, find};
use super::graph::{Item, Uid};
use super::metadata::{Metadata, Policy, blocks};
use super::report::{Dependent, LONGEST, Missing, OWNERS};
use crate::Subject;
use crate::queue::{Reconcile, RequeueAfter};
use cache::Entry;
use registry::{Address, DeleteOptions, Served, status};
use schema::views::meta::v1::OwnerReference;
use schema::{Status, json};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

/// When to look again at an object whose owner is of a type that is not followed.
const POLL: Duration = Duration::from_secs(300);

/// An object that is worked on.
struct Object<'a> {
    item: &'a Item,
    served: Arc<Served>,
    entry: Arc<Entry>,
    metadata: Metadata,
}

impl Reconcile for Collector {
    type Key = Item;

    async fn reconcile(&self, item: &Item) -> Result<RequeueAfter, Status> {
        let Some(object) = self.object(item)? else { return Ok(None) };
        if self.note_owners(&object) {
            let policy = |owner: OwnerReference<'_>| self.graph().policy(&owner.uid().into());
            let kept = object.metadata.owners_where(|owner| policy(owner) != Some(Policy::Orphan));
            self.patch(&object, &format!(r#""ownerReferences":{kept}"#)).await?;
            return Ok(Some(Duration::ZERO));
        }
        if !object.entry.is_deleting() {
            return self.judge(&object).await;
        }
        // The end of what is being deleted is waited for, unless its dependents come first.
        if let Some(policy) = object.metadata.awaits() {
            self.finish(&object, policy).await?;
        }
        Ok(None)
    }
}

impl Collector {
    fn object<'a>(&self, item: &'a Item) -> Result<Option<Object<'a>>, Status> {
        let Some(served) = self.graph().served(&item.prefix) else { return Ok(None) };
        let Some(stored) = &served.stored else { return Ok(None) };
        let (namespace, name) = item.names();
        let Some(entry) = stored.resource.lookup(namespace, name).map_err(status)? else { return Ok(None) };
        let metadata = Metadata::read(&entry).map_err(|error| Status::internal_error(&error.to_string()))?;
        Ok(Some(Object { item, served, entry, metadata }))
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
            graph.is_free(&object.entry.uid().into())
        };
        if !is_free {
            return Ok(());
        }
        let finalizers = object.metadata.finalizers_without(policy.finalizer());
        self.patch(object, &format!(r#""finalizers":{finalizers}"#)).await
    }

    /// Deletes an object whose owners are all gone or going, or removes the references to those that are.
    async fn judge(&self, object: &Object<'_>) -> Result<RequeueAfter, Status> {
        let catalog = self.client.registry().catalog();
        let is_followed = |prefix: &str| self.graph().served(prefix).is_some();
        let (mut solid, mut waiting, mut absent) = (false, false, Vec::new());
        let mut again = None;
        let mut kept = HashSet::new();
        for owner in object.metadata.owners() {
            match find(&catalog, is_followed, object.entry.namespace(), owner)? {
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
                    return Ok((!is_newest).then_some(Duration::ZERO));
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
        graph.has_dependents(&object.entry.uid().into())
    }

    /// Objects that own each other would wait for each other: where a dependent of an object waits already,
    /// the object does not block its own owners. Whether that was changed.
    async fn unblock(&self, object: &Object<'_>) -> Result<bool, Status> {
        let is_due = object.metadata.owners().any(blocks)
            && self.graph().has_waiting_dependent(&object.entry.uid().into());
        if is_due {
            let owners = object.metadata.owners_unblocked();
            self.patch(object, &format!(r#""ownerReferences":{owners}"#)).await?;
        }
        Ok(is_due)
    }

    /// Deletes an object if it still is as it was looked at.
    async fn delete(&self, object: &Object<'_>, policy: &str) -> Result<(), Status> {
        let options = DeleteOptions {
            uid: Some(object.entry.uid().to_owned()),
            resource_version: Some(object.entry.mod_revision().to_string()),
            propagation_policy: Some(policy.to_owned()),
            ..DeleteOptions::default()
        };
        done(self.client.delete(object.address(), &options).await)
    }

    /// Changes a field of the metadata of an object if it still is as it was looked at.
    async fn patch(&self, object: &Object<'_>, field: &str) -> Result<(), Status> {
        let (uid, revision) = (json::string(object.entry.uid()), object.entry.mod_revision());
        let patch = format!(r#"{{"metadata":{{"uid":{uid},"resourceVersion":"{revision}",{field}}}}}"#);
        done(self.client.patch_metadata(object.address(), patch.as_bytes()).await)
    }

    /// Tells people if an owner that an object does not have in its namespace is in another one.
    fn report_absent(&self, object: &Object<'_>, absent: &[(OwnerReference<'_>, Arc<Served>)]) {
        let namespace = object.entry.namespace();
        let missing = |(owner, kind): &(OwnerReference<'_>, Arc<Served>)| {
            let stored = kind.stored.as_ref().filter(|_| kind.is_namespaced())?;
            if self.graph().is_absent(&owner.uid().into()) {
                return None;
            }
            let reference = format!(
                "[{}/{}, namespace: {namespace}, name: {}, uid: {}]",
                owner.api_version(),
                owner.kind(),
                owner.name(),
                owner.uid()
            );
            let missing =
                Missing { reference, uid: owner.uid().to_owned(), resource: stored.resource.clone() };
            (missing.reference.len() <= LONGEST).then_some(missing)
        };
        let owners: Vec<_> = absent.iter().filter_map(missing).take(OWNERS).collect();
        let subject = Subject {
            resource_version: String::new(),
            ..Subject::of(&object.entry, &object.served.api_version, &object.served.kind)
        };
        self.reporter.add(Dependent { subject, owners });
    }
}

impl Object<'_> {
    fn address(&self) -> Address<'_> {
        Address {
            group: &self.served.group,
            version: &self.served.version,
            resource: &self.served.resource,
            subresource: "",
            namespace: self.entry.namespace(),
            name: self.entry.name(),
        }
    }
}

/// The outcome of a write of an object; a 404 is no error, because nothing is left to do.
fn done(outcome: Result<(), Status>) -> Result<(), Status> {
    outcome.or_else(|error| if error.code == 404 { Ok(()) } else { Err(error) })
}
