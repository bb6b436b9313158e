//! The attributes of a write, as admission plugins see them.

use crate::Warnings;
use crate::chain::Passes;
use auth::User;
use kinds::ResourceType;
use object::label::Selector;
use object::{Map, Value, excerpt};
use observe::{AuditLevel, Observation};
use schema::{GroupVersionKind, Status, Type, semantic};
use std::sync::Arc;
use tasks::BoxFuture;
use tokio::time::Instant;

/// The operation of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Makes an object, or carries out an operation that is posted, such as a binding.
    Create,
    /// Changes an object.
    Update,
    /// Deletes an object, or begins to.
    Delete,
    /// Opens a connection to a pod, node or service.
    Connect,
}

impl Operation {
    /// The name in rules and reviews of webhooks: `CREATE`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
        }
    }
}

/// A write, as plugins see it. Objects are in the working version, but for those of a subresource with a kind
/// of its own (a scale, a binding), which are of that kind.
#[derive(Clone, Copy)]
pub struct Attributes<'a> {
    /// The operation.
    pub operation: Operation,
    /// The resource, as it was requested.
    pub resource: &'a ResourceType,
    /// The subresource; empty for the object itself.
    pub subresource: &'a str,
    /// The namespace; empty for objects without namespace.
    pub namespace: &'a str,
    /// The name. Empty in mutating admission of an object whose name the server generates.
    pub name: &'a str,
    /// The state before; none for a create.
    pub old: Option<&'a Value>,
    /// The caller.
    pub user: &'a User,
    /// What is noted of the request.
    pub observation: &'a Observation,
    /// Whether the write is a dry run.
    pub dry_run: bool,
    /// Collects warnings for the client.
    pub warnings: &'a Warnings,
    /// Properties of the request that few plugins ask for.
    pub request: &'a dyn Request,
    /// The passes of mutating admission; none in validating admission.
    pub passes: Option<&'a Passes>,
}

/// Properties of a request that few plugins ask for. They are computed when a plugin asks.
pub trait Request: Send + Sync {
    /// The options, as an object of `meta.k8s.io/v1`: `CreateOptions`, `UpdateOptions` or `DeleteOptions`, by
    /// the operation.
    fn options(&self, operation: Operation) -> Value;

    /// When the request has to be answered; never for those of the server itself.
    fn deadline(&self) -> Option<Instant>;

    /// Whether webhooks are asked about the write. They are not about the objects that the server itself
    /// creates at startup: a webhook that does not answer must not keep the server from becoming healthy.
    fn asks_webhooks(&self) -> bool {
        true
    }

    /// Every resource through which the objects can be written: the requested one, its other versions, and
    /// looks at the same objects in other groups.
    fn equivalents(&self) -> Vec<Arc<ResourceType>>;

    /// The resources that are served of a kind.
    fn resources_of(&self, kind: &GroupVersionKind) -> Vec<Arc<ResourceType>>;

    /// The objects of a resource that are the parameters of a policy, in the version of the resource, as
    /// their JSON reads. `namespace` is empty for a resource without namespaces.
    fn parameters<'a>(
        &'a self,
        resource: &'a ResourceType,
        namespace: &'a str,
        pick: Pick<'a>,
    ) -> BoxFuture<'a, Result<Vec<Value>, Status>>;

    /// An object of the working version, in the version of one of the equivalents.
    fn to_version<'a>(
        &'a self,
        object: Value,
        resource: &'a ResourceType,
    ) -> BoxFuture<'a, Result<Value, Status>>;

    /// An object in the version of one of the equivalents, with the defaults of that version, in the working
    /// version.
    fn to_working<'a>(
        &'a self,
        object: Value,
        resource: &'a ResourceType,
    ) -> BoxFuture<'a, Result<Value, Status>>;
}

/// Which objects of a resource are meant.
#[derive(Clone, Copy, Debug)]
pub enum Pick<'a> {
    /// The one of this name.
    Name(&'a str),
    /// Those with such labels.
    Labels(&'a Selector),
}

impl Attributes<'_> {
    /// Whether the write is about a resource itself, in any version, and none of its subresources.
    pub fn is_about(&self, group: &str, resource: &str) -> bool {
        self.subresource.is_empty() && self.is_resource(group, resource)
    }

    /// Whether the write is about a resource or one of its subresources, in any version.
    pub fn is_resource(&self, group: &str, resource: &str) -> bool {
        self.resource.resource == resource && self.resource.group == group
    }

    /// Notes something about the write for those who audit the cluster. The key is a qualified name with a
    /// prefix.
    pub fn annotate(&self, key: &str, value: &str) {
        self.annotate_from(AuditLevel::Metadata, key, value);
    }

    /// The same, if at least so much is audited.
    pub fn annotate_from(&self, least: AuditLevel, key: &str, value: &str) {
        let is_key = || key.contains('/') && object::name::qualified_name(key).is_empty();
        if self.observation.audit_level() >= least && is_key() {
            self.observation.annotate(&excerpt::shorten(key), &excerpt::shorten(value));
        }
    }

    /// 403 with a reason, for the object that is written.
    pub fn forbidden(&self, object: Option<&Value>, why: &str) -> Status {
        Status::forbidden(&self.resource.group, &self.resource.resource, self.shown_name(object), why)
    }

    /// The name of the object in errors: while it has none, the prefix that it is generated from.
    fn shown_name<'n>(&'n self, object: Option<&'n Value>) -> &'n str {
        if !self.name.is_empty() {
            return self.name;
        }
        let metadata = object.and_then(|object| object.get("metadata")).and_then(Value::as_map);
        let text = |key: &str| {
            let value = metadata.and_then(|metadata: &Map| metadata.get(key)).and_then(Value::as_str);
            value.filter(|text| !text.is_empty())
        };
        text("name").or_else(|| text("generateName")).unwrap_or("Unknown")
    }
}

/// Whether two states of an object of a type differ at most in what garbage collection changes: owners and
/// finalizers.
pub fn differ_in_ownership_only(ty: &Type, new: &Map, old: &Map) -> bool {
    const OWNERSHIP: [&str; 4] = ["ownerReferences", "finalizers", "selfLink", "managedFields"];
    let without_ownership = |object: &Map| {
        let mut object = object.clone();
        object.retain(|key, _| !matches!(key.as_str(), "kind" | "apiVersion"));
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_map_mut) {
            metadata.retain(|key, _| !OWNERSHIP.contains(&key.as_str()));
        }
        object
    };
    semantic::equal_maps(ty, &without_ownership(new), &without_ownership(old))
}
