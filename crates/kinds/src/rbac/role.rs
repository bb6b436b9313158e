//! `roles`.

use super::RoleStrategy;
use crate::Kind;

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "rbac.authorization.k8s.io",
    resource: "roles",
    singular: "role",
    kind: "Role",
    strategy: &RoleStrategy::Role,
    ..Kind::PLAIN
};
