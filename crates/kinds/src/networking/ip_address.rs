//! `ipaddresses`.

use crate::{Kind, Scope, Version};

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "networking.k8s.io",
    resource: "ipaddresses",
    singular: "ipaddress",
    kind: "IPAddress",
    short_names: &["ip"],
    scope: Scope::Cluster,
    versions: &[Version::V1, Version::on_request("v1beta1")],
    ..Kind::PLAIN
};
