//! `configmaps`.

use crate::Kind;

/// The row.
pub(crate) const KIND: Kind = Kind {
    resource: "configmaps",
    singular: "configmap",
    kind: "ConfigMap",
    short_names: &["cm"],
    ..Kind::PLAIN
};
