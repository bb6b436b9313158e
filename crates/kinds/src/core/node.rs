//! `nodes`.

use crate::{Action, Body, Kind, Scope, Subresource, Verb, WithStatus};

/// The row.
pub(crate) const KIND: Kind = Kind {
    resource: "nodes",
    singular: "node",
    kind: "Node",
    short_names: &["no"],
    scope: Scope::Cluster,
    subresources: &[
        Subresource {
            name: "proxy",
            verbs: &[Verb::Create, Verb::Delete, Verb::Get, Verb::Patch, Verb::Update],
            body: Body::Options("NodeProxyOptions"),
            action: Action::Unserved,
        },
        Subresource::STATUS,
    ],
    strategy: &WithStatus,
    ..Kind::PLAIN
};
