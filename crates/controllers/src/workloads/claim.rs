//! Which objects an owner controls: those without a controller that it selects are adopted, and those that it
//! does not select any more are released.

use super::dependents::{Dependent, Dependents};
use super::owner::Owner;
use cache::Entry;
use kinds::object_meta;
use object::label::Selector;
use registry::{Address, Client, Patch};
use schema::status::Reason;
use schema::{Status, json};
use tokio::sync::OnceCell;

/// The kind of what is claimed, in addresses and messages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DependentKind {
    /// The API group.
    pub(crate) group: &'static str,
    /// The resource.
    pub(crate) resource: &'static str,
    /// The kind.
    pub(crate) kind: &'static str,
}

/// Pods.
pub(crate) const PODS: DependentKind = DependentKind { group: "", resource: "pods", kind: "Pod" };

/// A claim of an owner to objects of one kind.
///
/// 1. An owner that is being deleted adopts and releases nothing.
/// 2. Before the first adoption a read of the store shows that the owner is still there and is not being
///    deleted: what it adopts after its end would stay without an owner.
pub(crate) struct Claim<'a> {
    pub(crate) client: &'a Client,
    pub(crate) dependents: &'a Dependents,
    pub(crate) kind: DependentKind,
    pub(crate) owner: &'a Owner,
    pub(crate) selector: &'a Selector,
    /// The finalizers that an object gets when it is adopted, and loses when it is released.
    pub(crate) finalizers: &'a [&'a str],
}

impl Claim<'_> {
    /// The objects that the owner controls from now on, of those that pass `filter`: what does not is neither
    /// claimed nor adopted nor released.
    pub(crate) async fn all(&self, filter: impl Fn(&Entry) -> bool) -> Result<Vec<Dependent>, Status> {
        self.all_matching(filter, |_| true).await
    }

    /// The same for owners that control only some of what they select: an object that fails `matches` is
    /// treated as one that is not selected.
    pub(crate) async fn all_matching(
        &self,
        filter: impl Fn(&Entry) -> bool,
        matches: impl Fn(&Entry) -> bool,
    ) -> Result<Vec<Dependent>, Status> {
        let (namespace, uid) = (self.owner.namespace(), self.owner.uid());
        let is_selected = |entry: &Entry| self.selector.matches(entry) && matches(entry);
        let mut claimed = Vec::new();
        let mut failure = None;
        for dependent in self.dependents.controlled(namespace, uid)? {
            if !filter(&dependent.entry) {
                continue;
            }
            if is_selected(&dependent.entry) {
                claimed.push(dependent);
            } else if !self.owner.is_deleting()
                && let Err(error) = self.release(&dependent.entry).await
            {
                failure = failure.or(Some(error));
            }
        }
        if self.owner.is_deleting() {
            return failure.map_or(Ok(claimed), Err);
        }
        let may_be_adopted = |entry: &Entry| !entry.is_deleting() && filter(entry) && is_selected(entry);
        let owner_is_there = OnceCell::new();
        for orphan in self.dependents.uncontrolled(namespace, may_be_adopted)? {
            match self.adopt(&orphan.entry, &owner_is_there).await {
                // The object as it is after the adoption.
                Ok(()) => claimed.extend(self.dependents.newest(&orphan.entry)?),
                Err(error) if error.reason == Reason::NotFound => {}
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        failure.map_or(Ok(claimed), Err)
    }

    /// Adopts all objects without a controller that the owner selects, and releases none.
    pub(crate) async fn adopt_orphans(&self) -> Result<(), Status> {
        if self.owner.is_deleting() {
            return Ok(());
        }
        let owner_is_there = OnceCell::new();
        let is_selected = |entry: &Entry| self.selector.matches(entry);
        for orphan in self.dependents.uncontrolled(self.owner.namespace(), is_selected)? {
            self.adopt(&orphan.entry, &owner_is_there).await?;
        }
        Ok(())
    }

    async fn adopt(
        &self,
        entry: &Entry,
        owner_is_there: &OnceCell<Result<(), String>>,
    ) -> Result<(), Status> {
        let DependentKind { kind, .. } = self.kind;
        let (namespace, name, uid) = (entry.namespace(), entry.name(), entry.uid());
        if let Err(why) = owner_is_there.get_or_init(|| self.check_owner()).await {
            let why = format!("can't adopt {kind} {namespace}/{name} ({uid}): {why}");
            return Err(Status::internal_error(&why));
        }
        let owner = self.owner;
        let finalizers = match self.finalizers {
            [] => String::new(),
            all => format!(r#","finalizers":[{}]"#, texts(all)),
        };
        let patch = format!(
            r#"{{"metadata":{{"ownerReferences":[{{"apiVersion":{},"kind":{},"name":{},"uid":{},"controller":true,"blockOwnerDeletion":true}}],"uid":{}{finalizers}}}}}"#,
            json::string(&owner.kind.api_version()),
            json::string(owner.kind.kind),
            json::string(owner.name()),
            json::string(owner.uid()),
            json::string(uid),
        );
        self.patch(entry, &patch).await
    }

    /// Releases an object. One that is gone, or has another uid, needs no release.
    pub(crate) async fn release(&self, entry: &Entry) -> Result<(), Status> {
        let finalizers = match self.finalizers {
            [] => String::new(),
            all => format!(r#","$deleteFromPrimitiveList/finalizers":[{}]"#, texts(all)),
        };
        let patch = format!(
            r#"{{"metadata":{{"uid":{},"ownerReferences":[{{"$patch":"delete","uid":{}}}]{finalizers}}}}}"#,
            json::string(entry.uid()),
            json::string(self.owner.uid()),
        );
        match self.patch(entry, &patch).await {
            Err(error) if matches!(error.reason, Reason::NotFound | Reason::Invalid) => Ok(()),
            outcome => outcome,
        }
    }

    async fn patch(&self, entry: &Entry, patch: &str) -> Result<(), Status> {
        let DependentKind { group, resource, .. } = self.kind;
        let address = Address::v1(group, resource, entry.namespace()).named(entry.name());
        self.client.patch(address, Patch::Strategic, patch.as_bytes()).await.map(drop)
    }

    /// Whether the owner is there in the store, and is not being deleted.
    async fn check_owner(&self) -> Result<(), String> {
        let owner = self.owner;
        let fresh = self.client.get(owner.address()).await;
        let fresh = fresh.map_err(|error| format!("can't recheck DeletionTimestamp: {}", error.message))?;
        let Some(fresh) = fresh.as_map() else { return Ok(()) };
        let (namespace, name) = (owner.namespace(), owner.name());
        let uid = object_meta::text(fresh, "uid");
        if uid != owner.uid() {
            return Err(format!(
                "can't recheck DeletionTimestamp: original {} {namespace}/{name} is gone: got uid {uid}, wanted {}",
                owner.kind.kind,
                owner.uid()
            ));
        }
        match object_meta::text(fresh, "deletionTimestamp") {
            "" => Ok(()),
            at => Err(format!("{namespace}/{name} has just been deleted at {at}")),
        }
    }
}

/// JSON strings with commas between them.
fn texts(all: &[&str]) -> String {
    all.iter().map(|text| json::string(text)).collect::<Vec<_>>().join(",")
}
