//! `servicecidrs`.

use crate::{Kind, Scope, Subresource, Version, WithStatus};

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "networking.k8s.io",
    resource: "servicecidrs",
    singular: "servicecidr",
    kind: "ServiceCIDR",
    scope: Scope::Cluster,
    versions: &[Version::V1, Version::on_request("v1beta1")],
    subresources: &[Subresource::STATUS],
    strategy: &WithStatus,
    ..Kind::PLAIN
};
