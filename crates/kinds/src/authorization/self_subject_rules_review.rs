//! `selfsubjectrulesreviews`.

use crate::{Kind, Scope, Storage, Verb};

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "authorization.k8s.io",
    resource: "selfsubjectrulesreviews",
    singular: "selfsubjectrulesreview",
    kind: "SelfSubjectRulesReview",
    scope: Scope::Cluster,
    verbs: Verb::CREATE,
    storage: Storage::Nowhere,
    ..Kind::PLAIN
};
