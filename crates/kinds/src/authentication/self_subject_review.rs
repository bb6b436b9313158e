//! `selfsubjectreviews`.

use crate::{Kind, Scope, Storage, Verb, Version};

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "authentication.k8s.io",
    resource: "selfsubjectreviews",
    singular: "selfsubjectreview",
    kind: "SelfSubjectReview",
    scope: Scope::Cluster,
    versions: &[
        Version::V1.introduced(28),
        Version::on_request("v1beta1").introduced(27).deprecated(30).removed(33),
    ],
    verbs: Verb::CREATE,
    storage: Storage::Nowhere,
    ..Kind::PLAIN
};
