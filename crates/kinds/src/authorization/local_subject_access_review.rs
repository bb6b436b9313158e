//! `localsubjectaccessreviews`.

use crate::{Kind, Storage, Verb};

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "authorization.k8s.io",
    resource: "localsubjectaccessreviews",
    singular: "localsubjectaccessreview",
    kind: "LocalSubjectAccessReview",
    verbs: Verb::CREATE,
    storage: Storage::Nowhere,
    ..Kind::PLAIN
};
