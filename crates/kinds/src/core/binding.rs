//! `bindings`.

use crate::{Kind, Storage, Verb};

/// The row.
pub(crate) const KIND: Kind = Kind {
    resource: "bindings",
    singular: "binding",
    kind: "Binding",
    verbs: Verb::CREATE,
    storage: Storage::Nowhere,
    ..Kind::PLAIN
};
