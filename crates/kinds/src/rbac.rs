//! The kinds of `rbac.authorization.k8s.io`.

use crate::Kind;

mod cluster_role;
mod cluster_role_binding;
mod role;
mod role_binding;

/// The rows, in the order of discovery.
pub(crate) const KINDS: &[&Kind] =
    &[&cluster_role_binding::KIND, &cluster_role::KIND, &role_binding::KIND, &role::KIND];
