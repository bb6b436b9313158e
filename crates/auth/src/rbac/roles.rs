//! The rules of roles, each with a number by which grants refer to it: a decision finds them without a
//! look-up by name.
//!
//! A number is in use while the role exists or a grant refers to it.

use super::binding::{RoleKind, RoleRef};
use super::policy::PolicyRules;
use object::Text;
use std::collections::HashMap;

#[derive(Default)]
pub(super) struct Roles {
    /// By namespace and name; cluster roles are in the namespace without a name.
    ids: HashMap<Text, HashMap<Text, RoleId>>,
    slots: Vec<RoleSlot>,
    unused: Vec<RoleId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RoleId(usize);

#[derive(Default)]
struct RoleSlot {
    /// `None` if there is no such role.
    rules: Option<PolicyRules>,
    /// How many grants refer to it.
    grants: usize,
}

impl RoleSlot {
    fn is_unused(&self) -> bool {
        self.rules.is_none() && self.grants == 0
    }
}

impl Roles {
    pub(super) fn rules(&self, id: RoleId) -> Option<&PolicyRules> {
        self.slots.get(id.0)?.rules.as_ref()
    }

    /// The rules of the role of a binding.
    pub(super) fn find(&self, role: &RoleRef, binding_namespace: &str) -> Option<&PolicyRules> {
        let namespace = namespace(role, binding_namespace)?;
        self.rules(*self.ids.get(namespace)?.get(role.name.as_str())?)
    }

    /// Sets or removes the rules of a role; a cluster role is in no namespace.
    pub(super) fn set(&mut self, namespace: &str, name: &str, rules: Option<PolicyRules>) {
        self.change(namespace, name, |slot| slot.rules = rules);
    }

    /// Counts a grant of a role. `None` if the role can never be resolved.
    pub(super) fn refer(&mut self, role: &RoleRef, binding_namespace: &str) -> Option<RoleId> {
        Some(self.change(namespace(role, binding_namespace)?, &role.name, |slot| slot.grants += 1))
    }

    /// Removes a grant that was counted.
    pub(super) fn release(&mut self, role: &RoleRef, binding_namespace: &str) {
        if let Some(namespace) = namespace(role, binding_namespace) {
            self.change(namespace, &role.name, |slot| slot.grants = slot.grants.saturating_sub(1));
        }
    }

    /// Forgets the rules of the roles of some namespaces.
    pub(super) fn clear(&mut self, is_cleared: impl Fn(&str) -> bool) {
        let Self { ids, slots, unused } = self;
        ids.retain(|namespace, names| {
            if is_cleared(namespace) {
                names.retain(|_, id| {
                    let Some(slot) = slots.get_mut(id.0) else { return false };
                    slot.rules = None;
                    if slot.is_unused() {
                        unused.push(*id);
                    }
                    !slot.is_unused()
                });
            }
            !names.is_empty()
        });
    }

    /// Changes the slot of a role, which gets a number before and loses it after if it is not in use.
    fn change(&mut self, namespace: &str, name: &str, change: impl FnOnce(&mut RoleSlot)) -> RoleId {
        let Self { ids, slots, unused } = self;
        let known = ids.get(namespace).and_then(|names| names.get(name)).copied();
        let id = known.or_else(|| unused.pop()).unwrap_or_else(|| {
            slots.push(RoleSlot::default());
            RoleId(slots.len() - 1)
        });
        let Some(slot) = slots.get_mut(id.0) else { return id };
        change(slot);
        match (slot.is_unused(), known) {
            (false, None) => {
                ids.entry(namespace.into()).or_default().insert(name.into(), id);
            }
            (true, _) => {
                unused.push(id);
                if let Some(names) = ids.get_mut(namespace) {
                    names.remove(name);
                    if names.is_empty() {
                        ids.remove(namespace);
                    }
                }
            }
            (false, Some(_)) => {}
        }
        id
    }
}

/// Where the role of a binding is.
fn namespace<'a>(role: &RoleRef, binding_namespace: &'a str) -> Option<&'a str> {
    match role.kind {
        RoleKind::ClusterRole => Some(""),
        RoleKind::Role => Some(binding_namespace).filter(|namespace| !namespace.is_empty()),
        RoleKind::Unsupported(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn role(kind: RoleKind, name: &str) -> RoleRef {
        RoleRef { group: "".into(), kind, name: name.into() }
    }

    #[test]
    fn number_is_kept_while_the_role_exists_or_a_grant_refers_to_it() {
        let mut roles = Roles::default();
        let local = role(RoleKind::Role, "r");
        let id = roles.refer(&local, "n").unwrap();
        assert!(roles.rules(id).is_none());
        roles.set("n", "r", Some(Arc::new([])));
        assert!(roles.rules(id).is_some() && roles.find(&local, "n").is_some());
        roles.release(&local, "n");
        assert_eq!(roles.refer(&local, "n"), Some(id), "the role exists");
        roles.set("n", "r", None);
        assert_eq!(roles.refer(&local, "n"), Some(id), "a grant refers to it");
        roles.release(&local, "n");
        roles.release(&local, "n");
        assert!(roles.ids.is_empty());
        assert_eq!(roles.refer(&role(RoleKind::ClusterRole, "other"), "n"), Some(id), "it is used again");
        assert_eq!(roles.slots.len(), 1);
    }

    #[test]
    fn roles_of_namespaces_and_cluster_roles_are_apart() {
        let mut roles = Roles::default();
        roles.set("", "r", Some(Arc::new([])));
        assert!(roles.find(&role(RoleKind::ClusterRole, "r"), "n").is_some());
        assert!(roles.find(&role(RoleKind::Role, "r"), "n").is_none());
        assert!(roles.find(&role(RoleKind::Role, "r"), "").is_none(), "a role is in a namespace");
        assert_eq!(roles.refer(&role(RoleKind::Unsupported("x".into()), "r"), "n"), None);
        let local = roles.refer(&role(RoleKind::Role, "r"), "n").unwrap();
        roles.set("n", "r", Some(Arc::new([])));
        roles.clear(|namespace| !namespace.is_empty());
        assert!(roles.rules(local).is_none());
        assert!(roles.find(&role(RoleKind::ClusterRole, "r"), "").is_some());
        roles.clear(str::is_empty);
        assert_eq!((roles.ids.len(), roles.unused.len()), (1, 1), "the number with a grant stays");
    }
}
