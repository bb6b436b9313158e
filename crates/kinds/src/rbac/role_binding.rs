//! `rolebindings`.

use super::{BindingStrategy, binding_row};
use crate::{About, Column, Columns, Kind, Row};
use object::Map;
use schema::view::View;
use schema::views::rbac::v1::RoleBinding;

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "rbac.authorization.k8s.io",
    resource: "rolebindings",
    singular: "rolebinding",
    kind: "RoleBinding",
    columns: Columns {
        list: &[
            Column::NAME,
            Column::text(
                "Role",
                About::Text(
                    "RoleRef can reference a Role in the current namespace or a ClusterRole in the global namespace. If the \
                     RoleRef cannot be resolved, the Authorizer must return an error.",
                ),
            ),
            Column::AGE,
            Column::text("Users", About::Text("Users in the roleBinding")).wide(),
            Column::text("Groups", About::Text("Groups in the roleBinding")).wide(),
            Column::text("ServiceAccounts", About::Text("ServiceAccounts in the roleBinding")).wide(),
        ],
        row,
    },
    update_checks: super::CHECKED_TWICE,
    strategy: &BindingStrategy::RoleBinding,
    ..Kind::PLAIN
};

fn row(object: &Map) -> Row {
    let binding = RoleBinding::of(object);
    binding_row(object, binding.role_ref(), binding.subjects())
}
