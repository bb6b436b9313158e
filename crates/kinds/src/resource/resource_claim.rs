//! `resourceclaims`.

use crate::{Kind, Subresource, Version, WithStatus};

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "resource.k8s.io",
    resource: "resourceclaims",
    singular: "resourceclaim",
    kind: "ResourceClaim",
    versions: &[
        Version::on_request("v1beta2"),
        Version::on_request("v1beta1"),
        Version::on_request("v1alpha3"),
    ],
    subresources: &[Subresource::STATUS],
    strategy: &WithStatus,
    ..Kind::PLAIN
};
