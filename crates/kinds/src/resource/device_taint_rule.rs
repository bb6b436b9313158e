//! `devicetaintrules`.

use crate::{Kind, Scope, Version};

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "resource.k8s.io",
    resource: "devicetaintrules",
    singular: "devicetaintrule",
    kind: "DeviceTaintRule",
    scope: Scope::Cluster,
    versions: &[Version::on_request("v1alpha3")],
    ..Kind::PLAIN
};
