//! `resourceclaimtemplates`.

use crate::{Kind, Version};

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "resource.k8s.io",
    resource: "resourceclaimtemplates",
    singular: "resourceclaimtemplate",
    kind: "ResourceClaimTemplate",
    versions: &[
        Version::on_request("v1beta2"),
        Version::on_request("v1beta1"),
        Version::on_request("v1alpha3"),
    ],
    ..Kind::PLAIN
};
