//! `mutatingadmissionpolicies`.

use crate::{Kind, Scope, Version};

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "admissionregistration.k8s.io",
    resource: "mutatingadmissionpolicies",
    singular: "mutatingadmissionpolicy",
    kind: "MutatingAdmissionPolicy",
    categories: &["api-extensions"],
    scope: Scope::Cluster,
    versions: &[Version::on_request("v1alpha1")],
    ..Kind::PLAIN
};
