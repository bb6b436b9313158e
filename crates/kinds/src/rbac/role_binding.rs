//! `rolebindings`.

use super::{BindingStrategy, role_reference, service_accounts, subject_names, upgrade_binding};
use crate::{About, Cell, Column, Kind, OldVersion, Version, columns};
use schema::view::View;
use schema::views::rbac::v1::RoleBinding;
use schema::views::rbac::v1alpha1;

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "rbac.authorization.k8s.io",
    resource: "rolebindings",
    singular: "rolebinding",
    kind: "RoleBinding",
    versions: &[Version::V1.introduced(8)],
    old_versions: &[
        OldVersion::named("rbac.authorization.k8s.io/v1beta1"),
        OldVersion::named("rbac.authorization.k8s.io/v1alpha1")
            .of(v1alpha1::RoleBinding::schema)
            .by(upgrade_binding),
    ],
    columns: columns!(|object| {
        let binding = RoleBinding::of(object);
        let subjects = binding.subjects();
    } [
        Column::NAME => Cell::name(object),
        Column::text(
            "Role",
            About::Text(
                "RoleRef can reference a Role in the current namespace or a ClusterRole in the global namespace. If the \
                 RoleRef cannot be resolved, the Authorizer must return an error.",
            ),
        ) => role_reference(binding.role_ref()),
        Column::AGE => Cell::age(object),
        Column::text("Users", About::Text("Users in the roleBinding")).wide()
            => subject_names(subjects, "User"),
        Column::text("Groups", About::Text("Groups in the roleBinding")).wide()
            => subject_names(subjects, "Group"),
        Column::text("ServiceAccounts", About::Text("ServiceAccounts in the roleBinding")).wide()
            => service_accounts(subjects),
    ]),
    update_checks: super::CHECKED_TWICE,
    strategy: &BindingStrategy::RoleBinding,
    ..Kind::PLAIN
};
