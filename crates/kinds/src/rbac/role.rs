//! `roles`.

use super::RoleStrategy;
use crate::Kind;

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "rbac.authorization.k8s.io",
    resource: "roles",
    singular: "role",
    kind: "Role",
    update_checks: super::CHECKED_TWICE,
    strategy: &RoleStrategy::Role,
    ..Kind::PLAIN
};
