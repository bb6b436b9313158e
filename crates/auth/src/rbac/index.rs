//! The index: from users and groups to the grants of bindings, and from roles to their rules.
//!
//! 1. A change of one binding touches the lists of its subjects; a change of a role touches the role alone.
//! 2. The grants of a subject are in the order of (hash of the namespace, namespace, name of the binding), so
//!    those of a namespace are adjacent, and found by a binary search.

use super::binding::{Binding, Grant, RoleRef, Subject};
use super::policy::{PolicyRequest, PolicyRule, PolicyRules};
use super::roles::{RoleId, Roles};
use crate::User;
use cache::Entry;
use object::Text;
use schema::Error;
use schema::stored::{decode, logged};
use schema::view::{Items, View};
use schema::views::rbac::v1;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

#[derive(Default)]
pub(super) struct Index {
    /// By name. A service account is here by the name of its user.
    users: HashMap<Text, Vec<Granted>>,
    groups: HashMap<Text, Vec<Granted>>,
    hashes: RandomState,
    roles: Roles,
}

/// A grant in the list of its subject, with the values that decisions need most often.
struct Granted {
    namespace_hash: u64,
    /// The role; none if its kind cannot be resolved.
    role: Option<RoleId>,
    grant: Arc<Grant>,
}

/// Which bindings a change is about.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    Cluster,
    Namespaces,
}

/// The outcome of a search for a grant that allows a request.
pub(super) enum Search<'i> {
    Allowed(&'i Arc<Grant>),
    /// No grant allows the request; whether the role of a binding could not be resolved.
    Not {
        unresolved: bool,
    },
}

impl Index {
    /// Forgets all roles of a scope.
    pub(super) fn clear_roles(&mut self, scope: Scope) {
        self.roles.clear(|namespace| namespace.is_empty() == (scope == Scope::Cluster));
    }

    /// Forgets all bindings of a scope.
    pub(super) fn clear_bindings(&mut self, scope: Scope) {
        let Self { users, groups, roles, .. } = self;
        for subjects in [users, groups] {
            subjects.retain(|_, grants| {
                grants.retain(|granted| {
                    let Binding { namespace, role, .. } = &*granted.grant.binding;
                    let is_cleared = namespace.is_empty() == (scope == Scope::Cluster);
                    if is_cleared {
                        roles.release(role, namespace);
                    }
                    !is_cleared
                });
                !grants.is_empty()
            });
        }
    }

    /// Sets or removes a role.
    pub(super) fn change_role(&mut self, scope: Scope, before: Option<&Entry>, after: Option<&Entry>) {
        let rules = after.and_then(|entry| logged(entry, rules(scope, entry)));
        if let Some(entry) = after.or(before) {
            self.roles.set(entry.namespace(), entry.name(), rules);
        }
    }

    /// Sets or removes a binding.
    pub(super) fn change_binding(&mut self, scope: Scope, before: Option<&Entry>, after: Option<&Entry>) {
        let before = before.and_then(|entry| grants(scope, entry).ok());
        let after = after.and_then(|entry| logged(entry, grants(scope, entry)));
        before.into_iter().flatten().for_each(|grant| self.remove(&grant));
        after.into_iter().flatten().for_each(|grant| self.insert(grant));
    }

    fn insert(&mut self, grant: Grant) {
        let namespace_hash = self.hash(&grant.binding.namespace);
        let granted = match &grant.subject {
            Subject::User(name) => self.users.entry(name.clone()),
            Subject::Group(name) => self.groups.entry(name.clone()),
            Subject::ServiceAccount { namespace, name } => self.users.entry(user_name(namespace, name)),
        }
        .or_default();
        // Otherwise the subject is in the binding twice: the first one stays.
        if let Err(at) = position(granted, namespace_hash, &grant.binding) {
            let role = self.roles.refer(&grant.binding.role, &grant.binding.namespace);
            granted.insert(at, Granted { namespace_hash, role, grant: Arc::new(grant) });
        }
    }

    fn remove(&mut self, grant: &Grant) {
        let namespace_hash = self.hash(&grant.binding.namespace);
        let account;
        let (subjects, name) = match &grant.subject {
            Subject::User(name) => (&mut self.users, name),
            Subject::Group(name) => (&mut self.groups, name),
            Subject::ServiceAccount { namespace, name } => {
                account = user_name(namespace, name);
                (&mut self.users, &account)
            }
        };
        let Some(granted) = subjects.get_mut(name) else { return };
        if let Ok(at) = position(granted, namespace_hash, &grant.binding) {
            let Binding { namespace, role, .. } = &*granted.remove(at).grant.binding;
            self.roles.release(role, namespace);
        }
        if granted.is_empty() {
            subjects.remove(name);
        }
    }

    fn hash(&self, namespace: &str) -> u64 {
        self.hashes.hash_one(namespace)
    }

    /// The rules of a role; `None` if there is no such role.
    pub(super) fn rules(&self, role: &RoleRef, binding_namespace: &str) -> Option<&PolicyRules> {
        self.roles.find(role, binding_namespace)
    }

    /// The first grant that allows a request: of cluster role bindings, then of role bindings in the
    /// namespace; by name.
    pub(super) fn search(&self, user: &User, namespace: &str, request: &PolicyRequest<'_>) -> Search<'_> {
        let mut unresolved = false;
        for namespace in scopes(namespace) {
            let hash = self.hash(namespace);
            let mut first: Option<&Arc<Grant>> = None;
            for granted in self.subjects(user) {
                let found = of_hash(granted, hash)
                    .iter()
                    .take_while(|granted| first.is_none_or(|first| granted.grant.order() < first.order()))
                    .find(|granted| match granted.role.and_then(|role| self.roles.rules(role)) {
                        Some(rules) => {
                            rules.iter().any(|rule| rule.allows(request))
                                && granted.grant.binding.namespace == namespace
                        }
                        None => {
                            unresolved = true;
                            false
                        }
                    });
                first = found.map(|granted| &granted.grant).or(first);
            }
            if let Some(first) = first {
                return Search::Allowed(first);
            }
        }
        Search::Not { unresolved }
    }

    /// The bindings of a user: those that apply everywhere, then those of the namespace; by name.
    pub(super) fn bindings(&self, user: &User, namespace: &str) -> Vec<&Arc<Binding>> {
        let mut all = Vec::new();
        for namespace in scopes(namespace) {
            let hash = self.hash(namespace);
            let granted = self.subjects(user).flat_map(|granted| of_hash(granted, hash));
            let bindings = granted.map(|granted| &granted.grant.binding);
            let mut here: Vec<_> = bindings.filter(|binding| binding.namespace == namespace).collect();
            here.sort_unstable_by(|one, other| one.name.cmp(&other.name));
            here.dedup_by(|one, other| one.name == other.name);
            all.extend(here);
        }
        all
    }

    /// The lists of the user and of its groups.
    fn subjects<'i, 'u>(&'i self, user: &'u User) -> impl Iterator<Item = &'i [Granted]> + use<'i, 'u> {
        let own = self.users.get(user.name.as_str());
        let groups = user.groups.iter().filter_map(|group| self.groups.get(group.as_str()));
        own.into_iter().chain(groups).map(Vec::as_slice)
    }
}

/// The namespaces whose bindings count for a request: that of cluster role bindings, and its own.
fn scopes(namespace: &str) -> impl Iterator<Item = &str> {
    std::iter::once("").chain((!namespace.is_empty()).then_some(namespace))
}

/// The grants of the namespaces with a hash: one namespace, but for a collision.
fn of_hash(granted: &[Granted], hash: u64) -> &[Granted] {
    let start = granted.partition_point(|granted| granted.namespace_hash < hash);
    let rest = granted.get(start..).unwrap_or_default();
    let len = rest.iter().take_while(|granted| granted.namespace_hash == hash).count();
    rest.get(..len).unwrap_or_default()
}

/// Where the grant of a binding is, or belongs.
fn position(granted: &[Granted], namespace_hash: u64, binding: &Binding) -> Result<usize, usize> {
    granted.binary_search_by(|of| {
        let Binding { namespace, name, .. } = &*of.grant.binding;
        let names = || (namespace, name).cmp(&(&binding.namespace, &binding.name));
        of.namespace_hash.cmp(&namespace_hash).then_with(names)
    })
}

/// The user of a service account.
fn user_name(namespace: &str, name: &str) -> Text {
    format!("{}{namespace}:{name}", User::SERVICE_ACCOUNT_PREFIX).into()
}

/// The rules of a role.
fn rules(scope: Scope, entry: &Entry) -> Result<PolicyRules, Error> {
    match scope {
        Scope::Cluster => {
            let role = decode(v1::ClusterRole::schema(), entry.bytes())?;
            Ok(PolicyRule::read(v1::ClusterRole::of(&role).rules()))
        }
        Scope::Namespaces => {
            let role = decode(v1::Role::schema(), entry.bytes())?;
            Ok(PolicyRule::read(v1::Role::of(&role).rules()))
        }
    }
}

/// The grants of a binding to its subjects.
fn grants(scope: Scope, entry: &Entry) -> Result<Vec<Grant>, Error> {
    let read = |role: v1::RoleRef<'_>, subjects: Items<'_, v1::Subject<'_>>| {
        let (namespace, name) = (entry.namespace().into(), entry.name().into());
        let binding = Arc::new(Binding { namespace, name, role: RoleRef::read(role) });
        let subjects = subjects.iter().filter_map(|subject| Subject::read(subject, entry.namespace()));
        let grant = |(position, subject)| Grant { binding: binding.clone(), subject, position };
        subjects.enumerate().map(grant).collect()
    };
    match scope {
        Scope::Cluster => {
            let binding = decode(v1::ClusterRoleBinding::schema(), entry.bytes())?;
            let binding = v1::ClusterRoleBinding::of(&binding);
            Ok(read(binding.role_ref(), binding.subjects()))
        }
        Scope::Namespaces => {
            let binding = decode(v1::RoleBinding::schema(), entry.bytes())?;
            let binding = v1::RoleBinding::of(&binding);
            Ok(read(binding.role_ref(), binding.subjects()))
        }
    }
}
