//! `resourceslices`.

use crate::{Kind, Scope, Version};

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "resource.k8s.io",
    resource: "resourceslices",
    singular: "resourceslice",
    kind: "ResourceSlice",
    scope: Scope::Cluster,
    versions: &[
        Version::on_request("v1beta2"),
        Version::on_request("v1beta1"),
        Version::on_request("v1alpha3"),
    ],
    ..Kind::PLAIN
};
