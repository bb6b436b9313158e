//! `customresourcedefinitions`.

use crate::{Kind, Scope, Subresource, WithStatus};

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "apiextensions.k8s.io",
    resource: "customresourcedefinitions",
    singular: "customresourcedefinition",
    kind: "CustomResourceDefinition",
    short_names: &["crd", "crds"],
    categories: &["api-extensions"],
    scope: Scope::Cluster,
    subresources: &[Subresource::STATUS],
    strategy: &WithStatus,
    ..Kind::PLAIN
};
