//! What admission knows of a write.

use crate::Warnings;
use auth::User;
use kinds::ResourceType;
use object::{Map, Value};
use schema::Status;

/// What a write does.
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

/// A write, as plugins see it. Objects are in the storage version, but for those of a subresource with a kind of its own
/// (a scale, a binding), which are of that kind.
#[derive(Clone, Copy)]
pub struct Attributes<'a> {
    /// What is done.
    pub operation: Operation,
    /// The resource, as it was requested.
    pub resource: &'a ResourceType,
    /// The subresource; empty for the object itself.
    pub subresource: &'a str,
    /// The namespace; empty for objects that live in none.
    pub namespace: &'a str,
    /// The name. Empty in mutating admission of an object whose name the server generates.
    pub name: &'a str,
    /// The state before; none for a create.
    pub old: Option<&'a Value>,
    /// The caller.
    pub user: &'a User,
    /// Whether nothing is stored.
    pub dry_run: bool,
    /// Where warnings for the client go.
    pub warnings: &'a Warnings,
}

impl Attributes<'_> {
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
