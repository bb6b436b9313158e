//! `validatingadmissionpolicybindings`.

use crate::{Kind, Scope, Version};

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "admissionregistration.k8s.io",
    resource: "validatingadmissionpolicybindings",
    singular: "validatingadmissionpolicybinding",
    kind: "ValidatingAdmissionPolicyBinding",
    categories: &["api-extensions"],
    scope: Scope::Cluster,
    versions: &[Version::V1, Version::on_request("v1beta1")],
    ..Kind::PLAIN
};
