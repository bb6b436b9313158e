//! `storageversions`.

use crate::{Kind, Scope, Subresource, Version, WithStatus};

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "internal.apiserver.k8s.io",
    resource: "storageversions",
    singular: "storageversion",
    kind: "StorageVersion",
    scope: Scope::Cluster,
    versions: &[Version::on_request("v1alpha1")],
    subresources: &[Subresource::STATUS],
    strategy: &WithStatus,
    ..Kind::PLAIN
};
