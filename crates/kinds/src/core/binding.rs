//! `bindings`.

use crate::{Kind, Storage, Verb, Version};

/// The row.
pub(crate) const KIND: Kind = Kind {
    resource: "bindings",
    singular: "binding",
    kind: "Binding",
    versions: &[Version::V1.introduced(0)],
    verbs: Verb::CREATE,
    storage: Storage::Nowhere,
    ..Kind::PLAIN
};
