//! `apiservices`.

use crate::{Kind, Scope, Subresource, WithStatus};

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "apiregistration.k8s.io",
    resource: "apiservices",
    singular: "apiservice",
    kind: "APIService",
    categories: &["api-extensions"],
    scope: Scope::Cluster,
    subresources: &[Subresource::STATUS],
    strategy: &WithStatus,
    ..Kind::PLAIN
};
