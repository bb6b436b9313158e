//! `rolebindings`.

use crate::Kind;

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "rbac.authorization.k8s.io",
    resource: "rolebindings",
    singular: "rolebinding",
    kind: "RoleBinding",
    ..Kind::PLAIN
};
