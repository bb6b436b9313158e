//! `componentstatuses`.

use crate::{Kind, Scope, Storage, Verb};

/// The row.
pub(crate) const KIND: Kind = Kind {
    resource: "componentstatuses",
    singular: "componentstatus",
    kind: "ComponentStatus",
    short_names: &["cs"],
    scope: Scope::Cluster,
    verbs: &[Verb::Get, Verb::List],
    storage: Storage::Nowhere,
    ..Kind::PLAIN
};
