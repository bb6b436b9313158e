//! `validatingwebhookconfigurations`.

use crate::{Kind, Scope};

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "admissionregistration.k8s.io",
    resource: "validatingwebhookconfigurations",
    singular: "validatingwebhookconfiguration",
    kind: "ValidatingWebhookConfiguration",
    categories: &["api-extensions"],
    scope: Scope::Cluster,
    ..Kind::PLAIN
};
