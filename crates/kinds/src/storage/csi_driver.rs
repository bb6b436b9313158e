//! `csidrivers`.

use crate::{Kind, Scope};

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "storage.k8s.io",
    resource: "csidrivers",
    singular: "csidriver",
    kind: "CSIDriver",
    scope: Scope::Cluster,
    ..Kind::PLAIN
};
