//! `tokenreviews`.

use crate::{Kind, Scope, Storage, Verb, Version};

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "authentication.k8s.io",
    resource: "tokenreviews",
    singular: "tokenreview",
    kind: "TokenReview",
    scope: Scope::Cluster,
    versions: &[Version::V1.introduced(6)],
    verbs: Verb::CREATE,
    storage: Storage::Nowhere,
    ..Kind::PLAIN
};
