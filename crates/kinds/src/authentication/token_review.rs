//! `tokenreviews`.

use crate::{Kind, Scope, Storage, Verb};

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "authentication.k8s.io",
    resource: "tokenreviews",
    singular: "tokenreview",
    kind: "TokenReview",
    scope: Scope::Cluster,
    verbs: Verb::CREATE,
    storage: Storage::Nowhere,
    ..Kind::PLAIN
};
