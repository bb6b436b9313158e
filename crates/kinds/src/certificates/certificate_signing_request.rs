//! `certificatesigningrequests`.

use crate::{Action, Body, Kind, Part, Scope, Subresource, Verb, WithStatus};

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "certificates.k8s.io",
    resource: "certificatesigningrequests",
    singular: "certificatesigningrequest",
    kind: "CertificateSigningRequest",
    short_names: &["csr"],
    scope: Scope::Cluster,
    subresources: &[
        Subresource {
            name: "approval",
            verbs: Verb::READ_AND_CHANGE,
            body: Body::Object,
            action: Action::Part(Part::Approval),
        },
        Subresource::STATUS,
    ],
    strategy: &WithStatus,
    ..Kind::PLAIN
};
