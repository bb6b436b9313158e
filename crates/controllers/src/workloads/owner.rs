//! The object that owns others as their controller: a replica set owns pods, a deployment owns replica sets.

use crate::Subject;
use cache::Entry;
use kinds::label_selector;
use object::label::Selector;
use object::{Map, Text, Value};
use registry::Address;
use schema::Type;
use schema::view::View as _;
use schema::views::meta::v1::LabelSelector;
use std::fmt;
use std::sync::Arc;

/// An object of a queue, by its namespace and name.
pub(crate) type ObjectKey = (Text, Text);

/// A kind whose objects own others as their controller.
pub(crate) struct OwnerKind {
    /// The API group.
    pub(crate) group: &'static str,
    /// The version, which is the storage version.
    pub(crate) version: &'static str,
    /// The kind.
    pub(crate) kind: &'static str,
    /// The resource.
    pub(crate) resource: &'static str,
    /// The prefix in the store.
    pub(crate) prefix: &'static str,
    /// The type of the objects.
    pub(crate) schema: fn() -> &'static Type,
    /// Reads the selector of an object.
    pub(crate) selector: fn(&Map) -> Option<Selector>,
}

impl OwnerKind {
    /// `apiVersion`.
    pub(crate) fn api_version(&self) -> String {
        match self.group {
            "" => self.version.to_owned(),
            group => format!("{group}/{}", self.version),
        }
    }

    /// The address of an object.
    pub(crate) const fn address<'a>(&self, namespace: &'a str, name: &'a str) -> Address<'a> {
        Address {
            group: self.group,
            version: self.version,
            resource: self.resource,
            subresource: "",
            namespace,
            name,
        }
    }
}

impl fmt::Debug for OwnerKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind)
    }
}

/// Reads `spec.selector` as a label selector. `None` if there is none, or if it is not valid.
pub(crate) fn label_selector(object: &Map) -> Option<Selector> {
    let selector = object.get("spec")?.get("selector")?.as_map()?;
    label_selector::compile(LabelSelector::of(selector)).ok()
}

/// Reads `spec.selector` as the labels of a replication controller.
pub(crate) fn label_map(object: &Map) -> Option<Selector> {
    let labels = object.get("spec")?.get("selector")?.as_map()?;
    let pairs = labels.iter().map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default()));
    Some(Selector::from_labels(pairs))
}

/// An object that owns others, as it is in the cache.
#[derive(Clone, Debug)]
pub(crate) struct Owner {
    /// The kind of the object.
    pub(crate) kind: &'static OwnerKind,
    /// The object.
    pub(crate) entry: Arc<Entry>,
}

impl Owner {
    /// The namespace.
    pub(crate) fn namespace(&self) -> &str {
        self.entry.namespace()
    }

    /// The name.
    pub(crate) fn name(&self) -> &str {
        self.entry.name()
    }

    /// The uid.
    pub(crate) fn uid(&self) -> &str {
        self.entry.uid()
    }

    /// Whether a delete of the object has begun.
    pub(crate) fn is_deleting(&self) -> bool {
        self.entry.is_deleting()
    }

    /// The address of the object.
    pub(crate) fn address(&self) -> Address<'_> {
        self.kind.address(self.namespace(), self.name())
    }

    /// The object as events name it.
    pub(crate) fn subject(&self) -> Subject {
        Subject::of(&self.entry, &self.kind.api_version(), self.kind.kind)
    }

    /// The reference to the object in what it controls.
    pub(crate) fn reference(&self) -> Map {
        let mut reference = Map::new();
        reference.insert("apiVersion", self.kind.api_version());
        reference.insert("kind", self.kind.kind);
        reference.insert("name", self.name());
        reference.insert("uid", self.uid());
        reference.insert("controller", true);
        reference.insert("blockOwnerDeletion", true);
        reference
    }

    /// The references of an object that has this owner alone.
    pub(crate) fn references(&self) -> Value {
        vec![Value::from(self.reference())].into()
    }
}
