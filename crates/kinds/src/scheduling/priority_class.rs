//! `priorityclasses`.

use crate::{Kind, Scope};

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "scheduling.k8s.io",
    resource: "priorityclasses",
    singular: "priorityclass",
    kind: "PriorityClass",
    short_names: &["pc"],
    scope: Scope::Cluster,
    ..Kind::PLAIN
};
