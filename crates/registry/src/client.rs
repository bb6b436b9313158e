//! The in-process client of controllers and other parts of the server. Its requests have a system user, and
//! pass the same authorization, pipeline and admission as all others.

use crate::convert::map_mut;
use crate::{
    Answer, ApplyFormat, Catalog, Content, DeleteOptions, Force, List, ListOptions, Patch, Registry, Target,
    WriteOptions,
};
use auth::{Attributes, Authenticated, Authorized, SystemIdentity, User};
use cache::Freshness;
use object::{Map, Value};
use schema::{Limits, Status, json};
use std::ops::Deref;
use std::sync::Arc;

/// A client inside the process. `R` is how it holds the registry: shared, or borrowed by one request.
#[derive(Clone)]
pub struct Client<R = Arc<Registry>> {
    registry: R,
    caller: Authenticated,
    field_manager: String,
    is_startup: bool,
}

/// The resource or object of a request of a [`Client`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address<'a> {
    /// The API group; empty for the core group.
    pub group: &'a str,
    /// The version.
    pub version: &'a str,
    /// The resource.
    pub resource: &'a str,
    /// The subresource; empty for the object itself.
    pub subresource: &'a str,
    /// The namespace; empty for kinds without namespaces.
    pub namespace: &'a str,
    /// The name; empty for a collection.
    pub name: &'a str,
}

impl<'a> Address<'a> {
    /// A resource of the core group, `v1`.
    pub const fn core(resource: &'a str, namespace: &'a str) -> Self {
        Self::v1("", resource, namespace)
    }

    /// A resource of a group, `v1`.
    pub const fn v1(group: &'a str, resource: &'a str, namespace: &'a str) -> Self {
        Self { group, version: "v1", resource, subresource: "", namespace, name: "" }
    }

    /// One object of the resource.
    #[must_use]
    pub const fn named(self, name: &'a str) -> Self {
        Self { name, ..self }
    }

    /// A subresource of the object.
    #[must_use]
    pub const fn subresource(self, subresource: &'a str) -> Self {
        Self { subresource, ..self }
    }

    fn attributes(self, verb: &'static str) -> Attributes {
        let target = auth::Target::Resource {
            group: self.group.into(),
            version: self.version.into(),
            resource: self.resource.into(),
            subresource: self.subresource.into(),
            namespace: self.namespace.into(),
            name: self.name.into(),
        };
        Attributes::new(verb, target)
    }
}

impl<R: Deref<Target = Registry>> Client<R> {
    /// A client with a user, and the field manager of its writes.
    pub fn new(registry: R, identity: SystemIdentity, field_manager: &str) -> Self {
        let caller = Authenticated::system(identity);
        Self { registry, caller, field_manager: field_manager.to_owned(), is_startup: false }
    }

    /// A client of the server itself for the system objects, which are created at startup. Webhooks are not
    /// asked about its writes.
    pub fn of_startup(registry: R, field_manager: &str) -> Self {
        Self { is_startup: true, ..Self::new(registry, SystemIdentity::ApiServer, field_manager) }
    }

    /// The same client with another field manager.
    #[must_use]
    pub fn with_field_manager(self, field_manager: &str) -> Self {
        Self { field_manager: field_manager.to_owned(), ..self }
    }

    /// The registry.
    pub fn registry(&self) -> &R {
        &self.registry
    }

    /// Whether a resource is served, or is there for the server itself.
    pub fn serves(&self, address: Address<'_>) -> bool {
        let Address { group, version, resource, .. } = address;
        self.registry.catalog_for(group, version, resource).find(group, version, resource).is_some()
    }

    /// An object, in the version of the request.
    pub async fn get(&self, address: Address<'_>) -> Result<Value, Status> {
        let (catalog, proof) = self.begin(address, "get").await?;
        let target = Target::find(&proof, &catalog)?;
        let content = self.registry.get(&target, "").await?;
        value(&target, content).await
    }

    /// The newest state of a collection.
    pub async fn list(&self, address: Address<'_>) -> Result<List, Status> {
        let (catalog, proof) = self.begin(address, "list").await?;
        self.registry.list(&Target::find(&proof, &catalog)?, &ListOptions::default()).await
    }

    /// The newest state of a collection, as trees in the version of the request.
    pub async fn list_objects(&self, address: Address<'_>) -> Result<Vec<Value>, Status> {
        let (catalog, proof) = self.begin(address, "list").await?;
        let target = Target::find(&proof, &catalog)?;
        let list = self.registry.list(&target, &ListOptions::default()).await?;
        let mut objects = Vec::new();
        for entry in list.objects {
            objects.push(value(&target, Content::Entry(entry)).await?);
        }
        Ok(objects)
    }

    /// The objects of a kind that are not stored, as far as the options select them.
    pub async fn list_unstored(
        &self,
        address: Address<'_>,
        options: &ListOptions,
    ) -> Result<Vec<Value>, Status> {
        let (catalog, proof) = self.begin(address, "list").await?;
        self.registry.unstored(&Target::find(&proof, &catalog)?, options).await
    }

    /// Creates an object, or one of a subresource, such as a binding.
    pub async fn create(&self, address: Address<'_>, object: Value) -> Result<Value, Status> {
        // The object of a subresource has its name in the path, any other one in its metadata.
        let name = if address.subresource.is_empty() { "" } else { address.name };
        let (catalog, proof) = self.begin(Address { name, ..address }, "create").await?;
        let target = Target::find(&proof, &catalog)?;
        let options = self.options();
        let Answer { content, .. } = Box::pin(self.registry.create(&target, object, &options)).await?;
        value(&target, content).await
    }

    /// Replaces an object, or a part of it.
    pub async fn update(&self, address: Address<'_>, object: Value) -> Result<Value, Status> {
        let (catalog, proof) = self.begin(address, "update").await?;
        let target = Target::find(&proof, &catalog)?;
        let options = self.options();
        let Answer { content, .. } = Box::pin(self.registry.update(&target, object, &options)).await?;
        value(&target, content).await
    }

    /// Applies a configuration with `force`: takes its fields from other managers.
    pub async fn apply(&self, address: Address<'_>, config: &[u8]) -> Result<(), Status> {
        let (catalog, proof) = self.begin(address, "patch").await?;
        let target = Target::find(&proof, &catalog)?;
        let options = WriteOptions { force: Force::Yes, ..self.options() };
        Box::pin(self.registry.apply(&target, ApplyFormat::Yaml, config, &options)).await.map(drop)
    }

    /// Changes an object, or a part of it, by a patch.
    pub async fn patch(&self, address: Address<'_>, format: Patch, patch: &[u8]) -> Result<Value, Status> {
        let (catalog, proof) = self.begin(address, "patch").await?;
        let target = Target::find(&proof, &catalog)?;
        let options = self.options();
        let Answer { content, .. } = Box::pin(self.registry.patch(&target, format, patch, &options)).await?;
        value(&target, content).await
    }

    /// Changes the metadata of an object by a merge patch, in the version of its stored bytes: it is
    /// converted for admission only.
    pub async fn patch_metadata(&self, address: Address<'_>, patch: &[u8]) -> Result<(), Status> {
        let (catalog, proof) = self.begin(address, "patch").await?;
        let target = Target::find(&proof, &catalog)?;
        let entry = self.registry.entry(&target, Freshness::MostRecent).await?;
        let target = target.in_place(&entry);
        let options = self.options();
        Box::pin(self.registry.patch(&target, Patch::Merge, patch, &options)).await.map(drop)
    }

    /// Deletes an object.
    pub async fn delete(&self, address: Address<'_>, options: &DeleteOptions) -> Result<(), Status> {
        let (catalog, proof) = self.begin(address, "delete").await?;
        self.registry.delete(&Target::find(&proof, &catalog)?, options).await.map(drop)
    }

    /// Deletes the objects of a collection.
    pub async fn delete_collection(
        &self,
        address: Address<'_>,
        pick: &ListOptions,
        options: &DeleteOptions,
    ) -> Result<List, Status> {
        self.delete_collection_in(&self.registry.catalog(), address, pick, options).await
    }

    /// Deletes the objects of a collection that is looked up in `catalog`.
    pub async fn delete_collection_in(
        &self,
        catalog: &Catalog,
        address: Address<'_>,
        pick: &ListOptions,
        options: &DeleteOptions,
    ) -> Result<List, Status> {
        let (_, proof) = self.begin(address, "deletecollection").await?;
        self.registry.delete_collection(&Target::find(&proof, catalog)?, pick, options).await
    }

    /// Reads an object, changes it, and writes it back if it differs, to the subresource of the address if it
    /// has one. The caller retries after a conflict.
    pub async fn modify(&self, address: Address<'_>, change: impl FnOnce(&mut Map)) -> Result<(), Status> {
        let before = self.get(address.subresource("")).await?;
        let mut object = before.clone();
        change(map_mut(&mut object)?);
        if object == before {
            return Ok(());
        }
        self.update(address, object).await.map(drop)
    }

    /// Decodes JSON as an object of a resource.
    pub fn decode(&self, address: Address<'_>, text: &str) -> Result<Value, Status> {
        let Address { group, version, resource, .. } = address;
        let catalog = self.registry.catalog_for(group, version, resource);
        let served = catalog.find(group, version, resource);
        let served = served.ok_or_else(Status::unknown_resource)?;
        json::decode(&served.ty, text.as_bytes(), &Limits::REQUEST)
            .map(|decoded| decoded.value)
            .map_err(|error| Status::internal_error(&error.to_string()))
    }

    /// The user of the client, if it may make a request that another server answers.
    pub async fn user_for(&self, address: Address<'_>, verb: &'static str) -> Result<Arc<User>, Status> {
        let authorizer = &self.registry.config().authorizer;
        let proof = authorizer.authorize(self.caller.clone(), address.attributes(verb)).await?;
        Ok(proof.user().clone())
    }

    async fn begin(
        &self,
        address: Address<'_>,
        verb: &'static str,
    ) -> Result<(Arc<Catalog>, Authorized), Status> {
        let authorizer = &self.registry.config().authorizer;
        let proof = authorizer.authorize(self.caller.clone(), address.attributes(verb)).await?;
        let Address { group, version, resource, .. } = address;
        Ok((self.registry.catalog_for(group, version, resource), proof))
    }

    fn options(&self) -> WriteOptions {
        WriteOptions {
            field_manager: self.field_manager.clone(),
            is_startup: self.is_startup,
            ..WriteOptions::default()
        }
    }
}

/// The object of a response, in the version of the request.
async fn value(target: &Target<'_>, content: Content) -> Result<Value, Status> {
    let object = match content {
        Content::Entry(entry) => target.stored()?.decode(&entry).await?,
        Content::Tree(tree) => tree,
        Content::Other { value, .. } => return Ok(value),
    };
    target.served.out_of_working(object).await
}
