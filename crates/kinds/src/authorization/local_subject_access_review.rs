//! `localsubjectaccessreviews`.

use crate::{Kind, Storage, Verb, Version};

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "authorization.k8s.io",
    resource: "localsubjectaccessreviews",
    singular: "localsubjectaccessreview",
    kind: "LocalSubjectAccessReview",
    versions: &[Version::V1.introduced(19)],
    verbs: Verb::CREATE,
    storage: Storage::Nowhere,
    ..Kind::PLAIN
};
