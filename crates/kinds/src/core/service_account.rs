//! `serviceaccounts`.

use crate::{Action, Body, Kind, Subresource, Verb};

/// The row.
pub(crate) const KIND: Kind = Kind {
    resource: "serviceaccounts",
    singular: "serviceaccount",
    kind: "ServiceAccount",
    short_names: &["sa"],
    subresources: &[Subresource {
        name: "token",
        verbs: Verb::CREATE,
        body: Body::Kind { group: "authentication.k8s.io", version: "v1", kind: "TokenRequest" },
        action: Action::Unserved,
    }],
    ..Kind::PLAIN
};
