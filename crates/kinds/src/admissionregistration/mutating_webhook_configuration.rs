//! `mutatingwebhookconfigurations`.

use crate::{Kind, Scope};

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "admissionregistration.k8s.io",
    resource: "mutatingwebhookconfigurations",
    singular: "mutatingwebhookconfiguration",
    kind: "MutatingWebhookConfiguration",
    categories: &["api-extensions"],
    scope: Scope::Cluster,
    ..Kind::PLAIN
};
