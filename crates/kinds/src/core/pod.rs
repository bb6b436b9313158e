//! `pods`.

use crate::{Action, Body, Kind, Part, Subresource, Verb, WithStatus};

/// The row.
pub(crate) const KIND: Kind = Kind {
    resource: "pods",
    singular: "pod",
    kind: "Pod",
    short_names: &["po"],
    categories: &["all"],
    subresources: &[
        Subresource {
            name: "attach",
            verbs: &[Verb::Create, Verb::Get],
            body: Body::Options("PodAttachOptions"),
            action: Action::Unserved,
        },
        Subresource {
            name: "binding",
            verbs: Verb::CREATE,
            body: Body::Kind { group: "", version: "v1", kind: "Binding" },
            action: Action::Unserved,
        },
        Subresource {
            name: "ephemeralcontainers",
            verbs: Verb::READ_AND_CHANGE,
            body: Body::Object,
            action: Action::Part(Part::EphemeralContainers),
        },
        Subresource {
            name: "eviction",
            verbs: Verb::CREATE,
            body: Body::Kind { group: "policy", version: "v1", kind: "Eviction" },
            action: Action::Unserved,
        },
        Subresource {
            name: "exec",
            verbs: &[Verb::Create, Verb::Get],
            body: Body::Options("PodExecOptions"),
            action: Action::Unserved,
        },
        Subresource { name: "log", verbs: &[Verb::Get], body: Body::Object, action: Action::Unserved },
        Subresource {
            name: "portforward",
            verbs: &[Verb::Create, Verb::Get],
            body: Body::Options("PodPortForwardOptions"),
            action: Action::Unserved,
        },
        Subresource {
            name: "proxy",
            verbs: &[Verb::Create, Verb::Delete, Verb::Get, Verb::Patch, Verb::Update],
            body: Body::Options("PodProxyOptions"),
            action: Action::Unserved,
        },
        Subresource {
            name: "resize",
            verbs: Verb::READ_AND_CHANGE,
            body: Body::Object,
            action: Action::Part(Part::Resize),
        },
        Subresource::STATUS,
    ],
    strategy: &WithStatus,
    ..Kind::PLAIN
};
