//! The kinds of `rbac.authorization.k8s.io`.

use crate::cells::joined;
use crate::defaults::{each, fill_text, within};
use crate::{Cell, Context, Kind, NameRule, Row, Strategy};
use object::{Map, Value};
use schema::view::Items;
use schema::views::rbac::v1::{RoleRef, Subject};

mod cluster_role;
mod cluster_role_binding;
mod role;
mod role_binding;

/// The rows, in the order of discovery.
pub(crate) const KINDS: &[&Kind] =
    &[&cluster_role_binding::KIND, &cluster_role::KIND, &role_binding::KIND, &role::KIND];

/// The strategy of roles: a PUT creates, and a name is any path segment.
struct RoleStrategy;

impl Strategy for RoleStrategy {
    fn prepare_create(&self, _object: &mut Map, _context: &Context<'_>) {}

    fn prepare_update(&self, _new: &mut Map, _old: &Map, _context: &Context<'_>) {}

    fn name_rule(&self) -> NameRule {
        NameRule::PathSegment
    }

    fn allow_create_on_update(&self) -> bool {
        true
    }
}

/// The strategy of bindings: that of roles, with defaults for `apiGroup`.
struct BindingStrategy;

impl Strategy for BindingStrategy {
    fn default(&self, object: &mut Map) {
        const GROUP: &str = "rbac.authorization.k8s.io";
        within(object, "roleRef", |role| fill_text(role, "apiGroup", GROUP));
        each(object, "subjects", |subject| {
            if matches!(subject.get("kind").and_then(Value::as_str), Some("User" | "Group")) {
                fill_text(subject, "apiGroup", GROUP);
            }
        });
    }

    fn prepare_create(&self, _object: &mut Map, _context: &Context<'_>) {}

    fn prepare_update(&self, _new: &mut Map, _old: &Map, _context: &Context<'_>) {}

    fn name_rule(&self) -> NameRule {
        RoleStrategy.name_rule()
    }

    fn allow_create_on_update(&self) -> bool {
        true
    }
}

/// The row of a binding: its role, and its subjects by their kinds.
fn binding_row(object: &Map, role: RoleRef<'_>, subjects: Items<'_, Subject<'_>>) -> Row {
    let named = |kind: &'static str| {
        let names =
            subjects.iter().filter(move |subject| subject.kind() == kind).map(|subject| subject.name());
        Cell::Text(joined(names, ", "))
    };
    let accounts = subjects.iter().filter(|subject| subject.kind() == "ServiceAccount");
    let accounts = accounts.map(|subject| format!("{}/{}", subject.namespace(), subject.name()));
    vec![
        Cell::name(object),
        Cell::Text(format!("{}/{}", role.kind(), role.name())),
        Cell::age(object),
        named("User"),
        named("Group"),
        Cell::Text(joined(accounts, ", ")),
    ]
    .into()
}
