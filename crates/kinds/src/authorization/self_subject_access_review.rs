//! `selfsubjectaccessreviews`.

use crate::{Kind, Scope, Storage, Verb, Version};

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "authorization.k8s.io",
    resource: "selfsubjectaccessreviews",
    singular: "selfsubjectaccessreview",
    kind: "SelfSubjectAccessReview",
    scope: Scope::Cluster,
    versions: &[Version::V1.introduced(19)],
    verbs: Verb::CREATE,
    storage: Storage::Nowhere,
    ..Kind::PLAIN
};
