//! `services`.

use crate::{Action, Body, Kind, Subresource, Verb, WithStatus};

/// The row.
pub(crate) const KIND: Kind = Kind {
    resource: "services",
    singular: "service",
    kind: "Service",
    short_names: &["svc"],
    categories: &["all"],
    subresources: &[
        Subresource {
            name: "proxy",
            verbs: &[Verb::Create, Verb::Delete, Verb::Get, Verb::Patch, Verb::Update],
            body: Body::Options("ServiceProxyOptions"),
            action: Action::Unserved,
        },
        Subresource::STATUS,
    ],
    strategy: &WithStatus,
    ..Kind::PLAIN
};
