//! `csinodes`.

use crate::{Kind, Scope};

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "storage.k8s.io",
    resource: "csinodes",
    singular: "csinode",
    kind: "CSINode",
    scope: Scope::Cluster,
    ..Kind::PLAIN
};
