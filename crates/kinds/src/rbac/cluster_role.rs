//! `clusterroles`.

use super::RoleStrategy;
use crate::{Kind, Scope};

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "rbac.authorization.k8s.io",
    resource: "clusterroles",
    singular: "clusterrole",
    kind: "ClusterRole",
    scope: Scope::Cluster,
    update_checks: super::CHECKED_TWICE,
    strategy: &RoleStrategy::ClusterRole,
    ..Kind::PLAIN
};
