//! The mode `RBAC`: roles and bindings.
//!
//! [`Rbac`] decides from an index of the roles and bindings in the cache, which is brought up to date before
//! each decision. A decision looks up the lists of the user and of its groups, and compares the request with
//! the rules of the roles there, without allocating. The text of a reason is made only when it is displayed.
//!
//! [`Held::confirm_no_escalation`] checks that a user grants only permissions that it holds; `registry` calls
//! it for writes of roles and bindings.

mod binding;
mod escalation;
mod index;
mod policy;
mod roles;
#[cfg(test)]
mod tests;

pub use binding::{RoleKind, RoleRef};
pub use escalation::{Held, uncovered};
pub(crate) use policy::{PolicyRequest, is_path};
pub use policy::{PolicyRule, PolicyRules};

use crate::authorize::aggregate;
use crate::{Attributes, Authorize, PathRule, Reason, ResourceRule, Rules, Target, User, Verdict};
use cache::{Cursor, Entry, Resource, Update};
use index::{Index, Scope, Search};
use object::Text;
use object::quote::Quoted;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use tasks::Deferred;

/// The API group of roles and bindings.
pub const GROUP: &str = "rbac.authorization.k8s.io";

/// Decides by roles and bindings.
pub struct Rbac {
    state: RwLock<State>,
}

struct State {
    roles: Cursor,
    cluster_roles: Cursor,
    role_bindings: Cursor,
    cluster_role_bindings: Cursor,
    index: Index,
}

impl State {
    fn is_current(&self) -> bool {
        let Self { roles, cluster_roles, role_bindings, cluster_role_bindings, .. } = self;
        [roles, cluster_roles, role_bindings, cluster_role_bindings].into_iter().all(Cursor::is_current)
    }

    fn advance(&mut self) {
        let Self { roles, cluster_roles, role_bindings, cluster_role_bindings, index } = self;
        for (cursor, scope) in [(roles, Scope::Namespaces), (cluster_roles, Scope::Cluster)] {
            cursor.advance(|update| match update {
                Update::Reset => index.clear_roles(scope),
                Update::Change { before, after } => index.change_role(scope, entry(before), entry(after)),
            });
        }
        for (cursor, scope) in [(role_bindings, Scope::Namespaces), (cluster_role_bindings, Scope::Cluster)] {
            cursor.advance(|update| match update {
                Update::Reset => index.clear_bindings(scope),
                Update::Change { before, after } => index.change_binding(scope, entry(before), entry(after)),
            });
        }
    }
}

fn entry(entry: Option<&Arc<Entry>>) -> Option<&Entry> {
    entry.map(|entry| &**entry)
}

impl Rbac {
    /// Decides by the roles and bindings of these types. The index is built by the first decision.
    pub fn new(
        roles: Arc<Resource>,
        cluster_roles: Arc<Resource>,
        role_bindings: Arc<Resource>,
        cluster_role_bindings: Arc<Resource>,
    ) -> Self {
        let state = State {
            roles: Cursor::new(roles),
            cluster_roles: Cursor::new(cluster_roles),
            role_bindings: Cursor::new(role_bindings),
            cluster_role_bindings: Cursor::new(cluster_role_bindings),
            index: Index::default(),
        };
        Self { state: RwLock::new(state) }
    }

    /// The permissions of a user in a namespace and cluster-wide, in the order of its bindings.
    pub fn held(&self, user: &User, namespace: &str) -> Held {
        self.with_index(|index| {
            let mut held = Held::default();
            for binding in index.bindings(user, namespace) {
                match index.rules(&binding.role, &binding.namespace) {
                    Some(rules) => held.rules.push(rules.clone()),
                    None => held.unresolved.push(binding.role.clone()),
                }
            }
            held
        })
    }

    /// The rules of the role of a binding in a namespace; empty for a cluster role binding.
    pub fn role_rules<'r>(
        &self,
        role: &'r RoleRef,
        binding_namespace: &str,
    ) -> Result<PolicyRules, &'r RoleRef> {
        self.with_index(|index| index.rules(role, binding_namespace).cloned().ok_or(role))
    }

    /// Reads the index, after it was brought up to date with every acknowledged change.
    fn with_index<T>(&self, read: impl FnOnce(&Index) -> T) -> T {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        if state.is_current() {
            return read(&state.index);
        }
        drop(state);
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        state.advance();
        read(&state.index)
    }
}

impl Authorize for Rbac {
    fn counted_as(&self) -> Option<(&'static str, &str)> {
        Some(("RBAC", "rbac"))
    }

    fn decide<'a>(&'a self, user: &'a User, attributes: &'a Attributes) -> Deferred<'a, Verdict> {
        let namespace = match &attributes.target {
            Target::Resource { namespace, .. } => namespace.as_str(),
            Target::Path(_) => "",
        };
        let request = PolicyRequest::new(attributes);
        let found = self.with_index(|index| match index.search(user, namespace, &request) {
            Search::Allowed(grant) => Ok(Verdict::allow(Reason::shared(grant.clone()))),
            Search::Not { unresolved } => Err(unresolved),
        });
        Deferred::Now(match found {
            Ok(allowed) => allowed,
            Err(false) => Verdict::no_opinion(Reason::NONE),
            Err(true) => {
                let errors = errors(&self.held(user, namespace));
                Verdict::no_opinion(errors.map(|errors| format!("RBAC: {errors}")).unwrap_or_default())
            }
        })
    }

    fn rules(&self, user: &User, namespace: &str) -> Rules {
        let held = self.held(user, namespace);
        let mut rules = Rules { error: errors(&held), ..Rules::default() };
        let texts = |list: &[Text]| list.iter().map(|text| text.as_str().to_owned()).collect();
        for rule in held.rules.iter().flat_map(|rules| rules.iter()) {
            let PolicyRule { verbs, groups, resources, names, paths, .. } = rule;
            if !resources.is_empty() {
                rules.resources.push(ResourceRule {
                    verbs: texts(verbs),
                    groups: texts(groups),
                    resources: texts(resources),
                    names: texts(names),
                });
            }
            if !paths.is_empty() {
                rules.paths.push(PathRule { verbs: texts(verbs), paths: texts(paths) });
            }
        }
        rules
    }
}

/// The errors of roles of a user that could not be resolved.
fn errors(held: &Held) -> Option<String> {
    let errors = held.unresolved.iter().map(|role| Unresolved { role, resource: None }.to_string());
    aggregate(&errors.collect::<Vec<_>>())
}

/// The message about a role that could not be resolved.
pub struct Unresolved<'a> {
    /// The role.
    pub role: &'a RoleRef,
    /// The resource of the request, which the message names instead of the kind of the role.
    pub resource: Option<&'a str>,
}

impl fmt::Display for Unresolved<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let resource = match &self.role.kind {
            RoleKind::Unsupported(kind) => {
                return write!(f, "unsupported role reference kind: {}", Quoted(kind));
            }
            RoleKind::Role => "role",
            RoleKind::ClusterRole => "clusterrole",
        };
        write!(f, "{}.{GROUP} {} not found", self.resource.unwrap_or(resource), Quoted(&self.role.name))
    }
}

/// A list of texts, as Go's `%q` writes it.
struct QuotedList<'a, T>(&'a [T]);

impl<T: AsRef<str>> fmt::Display for QuotedList<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (at, text) in self.0.iter().enumerate() {
            let separator = if at == 0 { "" } else { " " };
            write!(f, "{separator}{}", Quoted(text.as_ref()))?;
        }
        f.write_str("]")
    }
}
