//! `validatingadmissionpolicies`.

use crate::{Kind, Scope, Subresource, Version, WithStatus};

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "admissionregistration.k8s.io",
    resource: "validatingadmissionpolicies",
    singular: "validatingadmissionpolicy",
    kind: "ValidatingAdmissionPolicy",
    categories: &["api-extensions"],
    scope: Scope::Cluster,
    versions: &[Version::V1, Version::on_request("v1beta1")],
    subresources: &[Subresource::STATUS],
    strategy: &WithStatus,
    ..Kind::PLAIN
};
