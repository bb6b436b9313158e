//! `clusterrolebindings`.

use super::{BindingStrategy, binding_row};
use crate::{About, Column, Columns, Kind, Row, Scope};
use object::Map;
use schema::view::View;
use schema::views::rbac::v1::ClusterRoleBinding;

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "rbac.authorization.k8s.io",
    resource: "clusterrolebindings",
    singular: "clusterrolebinding",
    kind: "ClusterRoleBinding",
    scope: Scope::Cluster,
    columns: Columns {
        list: &[
            Column::NAME,
            Column::text(
                "Role",
                About::Text(
                    "RoleRef can only reference a ClusterRole in the global namespace. If the RoleRef cannot be resolved, the \
                     Authorizer must return an error.",
                ),
            ),
            Column::AGE,
            Column::text("Users", About::Text("Users in the clusterRoleBinding")).wide(),
            Column::text("Groups", About::Text("Groups in the clusterRoleBinding")).wide(),
            Column::text("ServiceAccounts", About::Text("ServiceAccounts in the clusterRoleBinding")).wide(),
        ],
        row,
    },
    update_checks: super::CHECKED_TWICE,
    strategy: &BindingStrategy::ClusterRoleBinding,
    ..Kind::PLAIN
};

fn row(object: &Map) -> Row {
    let binding = ClusterRoleBinding::of(object);
    binding_row(object, binding.role_ref(), binding.subjects())
}
