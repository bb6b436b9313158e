//! `clusterroles`.

use super::RoleStrategy;
use crate::{Kind, OldVersion, Scope, Version};
use schema::view::View as _;
use schema::views::rbac::v1alpha1;

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "rbac.authorization.k8s.io",
    resource: "clusterroles",
    singular: "clusterrole",
    kind: "ClusterRole",
    versions: &[Version::V1.introduced(8)],
    old_versions: &[
        OldVersion::named("rbac.authorization.k8s.io/v1beta1"),
        OldVersion::named("rbac.authorization.k8s.io/v1alpha1").of(v1alpha1::ClusterRole::schema).by(|_| {}),
    ],
    scope: Scope::Cluster,
    update_checks: super::CHECKED_TWICE,
    strategy: &RoleStrategy::ClusterRole,
    ..Kind::PLAIN
};
