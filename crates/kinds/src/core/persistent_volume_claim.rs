//! `persistentvolumeclaims`.

use crate::{Kind, Subresource, WithStatus};

/// The row.
pub(crate) const KIND: Kind = Kind {
    resource: "persistentvolumeclaims",
    singular: "persistentvolumeclaim",
    kind: "PersistentVolumeClaim",
    short_names: &["pvc"],
    subresources: &[Subresource::STATUS],
    strategy: &WithStatus,
    ..Kind::PLAIN
};
