//! `namespaces`.

use crate::{Action, Body, Kind, Part, Scope, Subresource, Verb, WithStatus};

/// The row.
pub(crate) const KIND: Kind = Kind {
    resource: "namespaces",
    singular: "namespace",
    kind: "Namespace",
    short_names: &["ns"],
    scope: Scope::Cluster,
    verbs: &[Verb::Create, Verb::Delete, Verb::Get, Verb::List, Verb::Patch, Verb::Update, Verb::Watch],
    subresources: &[
        Subresource {
            name: "finalize",
            verbs: &[Verb::Update],
            body: Body::Object,
            action: Action::Part(Part::Finalize),
        },
        Subresource::STATUS,
    ],
    strategy: &WithStatus,
    ..Kind::PLAIN
};
