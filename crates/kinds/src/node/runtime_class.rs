//! `runtimeclasses`.

use crate::{Kind, Scope};

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "node.k8s.io",
    resource: "runtimeclasses",
    singular: "runtimeclass",
    kind: "RuntimeClass",
    scope: Scope::Cluster,
    ..Kind::PLAIN
};
