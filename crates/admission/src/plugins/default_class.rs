//! The class that objects get which name none: the newest that is marked as the default.

use crate::{Lister, plugins::Parts};
use object::{Map, Text, Value};
use schema::Type;
use schema::view::View;
use schema::views::meta::v1::ObjectMeta;
use std::cmp::Reverse;

/// The classes that are marked.
pub(super) struct DefaultClasses(Lister<Class>);

/// A class that is marked.
pub(super) struct Class {
    name: Text,
    created: Text,
}

impl DefaultClasses {
    /// The classes of a resource that `read` finds marked.
    pub(super) fn new(
        parts: &Parts<'_>,
        prefix: &str,
        ty: &'static Type,
        read: fn(&Map) -> Option<Class>,
    ) -> Result<Self, String> {
        Ok(Self(Lister::new(parts.resource(prefix)?, ty, read)))
    }

    /// The name of the default: of several, that of the newest, then that of the first by name.
    pub(super) fn newest(&self) -> Option<Text> {
        let all = self.0.all();
        // Times in this form are in the order of their texts.
        let newest = all.iter().min_by_key(|class| (Reverse(class.created.clone()), class.name.clone()));
        newest.map(|class| class.name.clone())
    }
}

/// A storage class, if it is marked.
pub(super) fn storage_class(object: &Map) -> Option<Class> {
    marked(
        object,
        &["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"],
    )
}

/// An ingress class, if it is marked.
pub(super) fn ingress_class(object: &Map) -> Option<Class> {
    marked(object, &["ingressclass.kubernetes.io/is-default-class"])
}

fn marked(object: &Map, keys: &[&str]) -> Option<Class> {
    let metadata = ObjectMeta::of(object.get("metadata").and_then(Value::as_map)?);
    let is_marked = keys.iter().any(|key| metadata.annotations().get(key) == Some("true"));
    let created = metadata.map().get("creationTimestamp").and_then(Value::as_str).unwrap_or_default();
    is_marked.then(|| Class { name: metadata.name().into(), created: created.into() })
}
