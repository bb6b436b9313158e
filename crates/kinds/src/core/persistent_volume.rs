//! `persistentvolumes`.

use crate::{Kind, Scope, Subresource, WithStatus};

/// The row.
pub(crate) const KIND: Kind = Kind {
    resource: "persistentvolumes",
    singular: "persistentvolume",
    kind: "PersistentVolume",
    short_names: &["pv"],
    scope: Scope::Cluster,
    subresources: &[Subresource::STATUS],
    strategy: &WithStatus,
    ..Kind::PLAIN
};
