//! The kinds of `rbac.authorization.k8s.io`.

use crate::cells::joined;
use crate::defaults::{each, fill, fill_text, update_or_insert_map};
use crate::{Cell, Check, Kind, NameRule, Rules, Scope, Strategy};
use object::field::List;
use object::{Key, Map, Value};
use schema::view::{Items, View};
use schema::views::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding, RoleRef, Subject};

mod cluster_role;
mod cluster_role_binding;
mod role;
mod role_binding;
mod validate;

/// The rows, in the order of discovery.
pub(crate) const KINDS: &[&Kind] =
    &[&cluster_role_binding::KIND, &cluster_role::KIND, &role_binding::KIND, &role::KIND];

/// The API group.
const GROUP: &str = "rbac.authorization.k8s.io";

/// The strategy of roles: a PUT creates, and a name is any path segment.
enum RoleStrategy {
    Role,
    ClusterRole,
}

impl Strategy for RoleStrategy {
    fn validate_object(&self, object: &Map, old: Option<&Map>, _rules: &Rules<'_>) -> List {
        match self {
            Self::Role => validate::rules(Role::of(object).rules(), Scope::Namespaced),
            Self::ClusterRole => {
                let role = ClusterRole::of(object);
                let mut errors = validate::rules(role.rules(), Scope::Cluster);
                if let Some(rule) = role.aggregation_rule() {
                    let old = old.and_then(|old| ClusterRole::of(old).aggregation_rule());
                    errors.append(validate::aggregation(rule, validate::values_after(old)));
                }
                errors
            }
        }
    }

    fn name_rule(&self) -> NameRule {
        NameRule::PathSegment
    }

    fn allow_create_on_update(&self) -> bool {
        true
    }
}

/// The strategy of bindings: that of roles, with defaults for `apiGroup`.
enum BindingStrategy {
    RoleBinding,
    ClusterRoleBinding,
}

impl BindingStrategy {
    fn role_ref<'o>(&self, object: &'o Map) -> RoleRef<'o> {
        match self {
            Self::RoleBinding => RoleBinding::of(object).role_ref(),
            Self::ClusterRoleBinding => ClusterRoleBinding::of(object).role_ref(),
        }
    }
}

impl Strategy for BindingStrategy {
    fn default(&self, object: &mut Map) {
        update_or_insert_map(object, "roleRef", |role| fill_text(role, "apiGroup", GROUP));
        each(object, "subjects", |subject| {
            if matches!(subject.get("kind").and_then(Value::as_str), Some("User" | "Group")) {
                fill_text(subject, "apiGroup", GROUP);
            }
        });
    }

    fn validate_object(&self, object: &Map, _old: Option<&Map>, _rules: &Rules<'_>) -> List {
        let role = self.role_ref(object);
        match self {
            Self::RoleBinding => {
                validate::binding(role, RoleBinding::of(object).subjects(), Scope::Namespaced)
            }
            Self::ClusterRoleBinding => {
                validate::binding(role, ClusterRoleBinding::of(object).subjects(), Scope::Cluster)
            }
        }
    }

    fn validate_change(&self, new: &Map, old: &Map) -> List {
        validate::same_role(self.role_ref(new), self.role_ref(old))
    }

    fn name_rule(&self) -> NameRule {
        NameRule::PathSegment
    }

    fn allow_create_on_update(&self) -> bool {
        true
    }
}

/// Converts a binding of `v1alpha1`. Its subjects have an `apiVersion` in place of a group, and the user `*`
/// is every authenticated user.
fn upgrade_binding(object: &mut Map) {
    update_or_insert_map(object, "roleRef", |role| fill_text(role, "apiGroup", GROUP));
    each(object, "subjects", |subject| {
        let version = subject.remove("apiVersion");
        let text = |key| subject.get(key).and_then(Value::as_str);
        match (text("kind"), text("name")) {
            (Some("ServiceAccount"), _) => {}
            (Some("User"), Some("*")) => {
                subject.insert(Key::known("kind"), "Group");
                subject.insert(Key::known("name"), "system:authenticated");
                fill_text(subject, "apiGroup", GROUP);
            }
            (Some("User" | "Group"), _) => fill_text(subject, "apiGroup", GROUP),
            _ => {
                let group = version.as_ref().and_then(Value::as_str).and_then(|text| text.split_once('/'));
                if let Some((group, _)) = group.filter(|(_, version)| !version.contains('/')) {
                    fill(subject, "apiGroup", group);
                }
            }
        }
    });
}

/// The checks of an update: the reference checks an update by the rules for new objects twice, and reports
/// each error twice.
const CHECKED_TWICE: &[Check] =
    &[Check::Metadata, Check::Object, Check::Metadata, Check::Object, Check::MetadataChange, Check::Change];

/// The role of a binding, with its kind.
fn role_reference(role: RoleRef<'_>) -> Cell {
    Cell::Text(format!("{}/{}", role.kind(), role.name()))
}

/// The names of the subjects of a kind.
fn subject_names(subjects: Items<'_, Subject<'_>>, kind: &str) -> Cell {
    let subjects = subjects.iter().filter(|subject| subject.kind() == kind);
    Cell::Text(joined(subjects.map(|subject| subject.name()), ", "))
}

/// The subjects that are service accounts, with their namespaces.
fn service_accounts(subjects: Items<'_, Subject<'_>>) -> Cell {
    let accounts = subjects.iter().filter(|subject| subject.kind() == "ServiceAccount");
    let accounts = accounts.map(|subject| format!("{}/{}", subject.namespace(), subject.name()));
    Cell::Text(joined(accounts, ", "))
}
