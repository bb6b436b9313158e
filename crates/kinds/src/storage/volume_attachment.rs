//! `volumeattachments`.

use crate::{Kind, Scope, Subresource, WithStatus};

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "storage.k8s.io",
    resource: "volumeattachments",
    singular: "volumeattachment",
    kind: "VolumeAttachment",
    scope: Scope::Cluster,
    subresources: &[Subresource::STATUS],
    strategy: &WithStatus,
    ..Kind::PLAIN
};
