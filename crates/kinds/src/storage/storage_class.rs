//! `storageclasses`.

use crate::{Kind, Scope};

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "storage.k8s.io",
    resource: "storageclasses",
    singular: "storageclass",
    kind: "StorageClass",
    short_names: &["sc"],
    scope: Scope::Cluster,
    ..Kind::PLAIN
};
