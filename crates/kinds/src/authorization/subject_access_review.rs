//! `subjectaccessreviews`.

use crate::{Kind, Scope, Storage, Verb, Version};

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "authorization.k8s.io",
    resource: "subjectaccessreviews",
    singular: "subjectaccessreview",
    kind: "SubjectAccessReview",
    scope: Scope::Cluster,
    versions: &[Version::V1.introduced(6)],
    verbs: Verb::CREATE,
    storage: Storage::Nowhere,
    ..Kind::PLAIN
};
