//! The escalation check of RBAC: a user can grant only permissions that it has, or may grant explicitly.
//!
//! A role may be written by those who hold all its permissions, or may `escalate` it. A binding may be
//! written by those who hold all permissions of its role, or may `bind` that role. Members of
//! `system:masters` may write all of them, and so may every user that changes only what the garbage collector
//! changes.

use crate::convert::map;
use crate::error::unknown_reason_500;
use crate::hooks::{WriteHook, WriteHooks};
use admission::{Attributes, differ_in_ownership_only};
use auth::rbac::{GROUP, PolicyRule, Rbac, RoleKind, RoleRef, Unresolved};
use auth::{Authorized, Authorizer, Decision, Target, User};
use object::{Map, Text, Value};
use schema::Status;
use schema::view::View;
use schema::views::rbac::v1;
use std::sync::Arc;
use tasks::BoxFuture;

/// The write hook of roles and bindings.
pub struct Escalation {
    rbac: Arc<Rbac>,
}

impl Escalation {
    /// Adds the hook for all four kinds.
    #[must_use]
    pub fn add_to(hooks: WriteHooks, rbac: &Arc<Rbac>) -> WriteHooks {
        let hook: Arc<dyn WriteHook> = Arc::new(Self { rbac: rbac.clone() });
        ["roles", "clusterroles", "rolebindings", "clusterrolebindings"]
            .into_iter()
            .fold(hooks, |hooks, resource| hooks.with(GROUP, resource, hook.clone()))
    }
}

impl WriteHook for Escalation {
    fn authorize<'a>(
        &'a self,
        proof: &'a Authorized,
        authorizer: &'a Authorizer,
        attributes: &'a Attributes<'a>,
        object: &'a Value,
    ) -> Option<BoxFuture<'a, Result<(), Status>>> {
        if proof.user().is_in(User::MASTERS) {
            return None;
        }
        let check = Check { rbac: &self.rbac, proof, authorizer, attributes };
        Some(Box::pin(async move {
            let new = map(object)?;
            let old = attributes.old.map(map).transpose()?;
            match &*attributes.resource.resource {
                "roles" | "clusterroles" => check.role(new, old).await,
                _ => check.binding(new, old).await,
            }
        }))
    }
}

/// The check of one write.
struct Check<'a> {
    rbac: &'a Rbac,
    proof: &'a Authorized,
    authorizer: &'a Authorizer,
    attributes: &'a Attributes<'a>,
}

impl Check<'_> {
    fn differ_in_ownership_only(&self, new: &Map, old: &Map) -> bool {
        differ_in_ownership_only(&self.attributes.resource.ty, new, old)
    }

    async fn role(&self, new: &Map, old: Option<&Map>) -> Result<(), Status> {
        if self.may_escalate().await || old.is_some_and(|old| self.differ_in_ownership_only(new, old)) {
            return Ok(());
        }
        // A role has the same rules as a cluster role, and no aggregation rule.
        let role = v1::ClusterRole::of(new);
        self.confirm(&PolicyRule::read(role.rules())).map_err(|why| self.forbidden(&why))?;
        let aggregates = |role: v1::ClusterRole<'_>| {
            role.aggregation_rule().is_some_and(|rule| !rule.cluster_role_selectors().is_empty())
        };
        if aggregates(role) || old.is_some_and(|old| aggregates(v1::ClusterRole::of(old))) {
            let why = "must have cluster-admin privileges to use the aggregationRule";
            self.confirm(&full_authority()).map_err(|_| self.forbidden(why))?;
        }
        Ok(())
    }

    async fn binding(&self, new: &Map, old: Option<&Map>) -> Result<(), Status> {
        if old.is_some_and(|old| self.differ_in_ownership_only(new, old)) {
            return Ok(());
        }
        // Both kinds of bindings have the same fields.
        let role = RoleRef::read(v1::RoleBinding::of(new).role_ref());
        if self.may_bind(&role).await {
            return Ok(());
        }
        let namespace = self.attributes.namespace;
        let rules =
            self.rbac.role_rules(&role, namespace).map_err(|role| self.unresolved(role, namespace))?;
        self.confirm(&rules).map_err(|why| self.forbidden(&why))
    }

    /// Checks that the user has all permissions of these rules. The error says which it lacks.
    fn confirm(&self, rules: &[PolicyRule]) -> Result<(), String> {
        let user = self.proof.user();
        let held = self.rbac.held(user, self.attributes.namespace);
        held.confirm_no_escalation(user, rules, self.resource())
    }

    /// Whether the user has the verb `escalate`. For a create the check has no name.
    async fn may_escalate(&self) -> bool {
        let mut asked = auth::Attributes { selectors: None, ..self.proof.attributes().clone() };
        asked.verb = "escalate".into();
        if let Target::Resource { version, subresource, .. } = &mut asked.target {
            "*".clone_into(version);
            subresource.clear();
        }
        self.is_allowed(&asked).await
    }

    /// Whether the user has the verb `bind` on a role.
    async fn may_bind(&self, role: &RoleRef) -> bool {
        let resource = match role.kind {
            RoleKind::Role => "roles",
            RoleKind::ClusterRole => "clusterroles",
            RoleKind::Unsupported(_) => return false,
        };
        let target = Target::Resource {
            group: role.group.as_str().into(),
            version: "*".into(),
            resource: resource.into(),
            subresource: String::new(),
            namespace: self.attributes.namespace.into(),
            name: role.name.as_str().into(),
        };
        self.is_allowed(&auth::Attributes::new("bind", target)).await
    }

    async fn is_allowed(&self, asked: &auth::Attributes) -> bool {
        let verdict = self.authorizer.decide(self.proof.user(), asked).await;
        if let Some(error) = verdict.error {
            let (verb, user) = (&*asked.verb, &*self.proof.user().name);
            log::error!(verb, user, error:%; "authorization failed");
        }
        verdict.decision == Decision::Allow
    }

    fn resource(&self) -> &str {
        &self.attributes.resource.resource
    }

    fn forbidden(&self, why: &str) -> Status {
        Status::forbidden(GROUP, self.resource(), self.attributes.name, why)
    }

    /// The error for the role of a binding that does not exist. The binding is not validated yet: an invalid
    /// role reference is an error of the lookup, as in the reference.
    fn unresolved(&self, role: &RoleRef, namespace: &str) -> Status {
        match role.kind {
            RoleKind::Unsupported(_) => unknown_reason_500(Unresolved { role, resource: None }.to_string()),
            RoleKind::Role if namespace.is_empty() => Status::bad_request("Namespace parameter required."),
            _ if role.name.is_empty() => Status::bad_request("Name parameter required."),
            _ => Status::not_found(GROUP, self.resource(), &role.name),
        }
    }
}

/// The rules of cluster-admin.
fn full_authority() -> [PolicyRule; 2] {
    let all = || Box::new([Text::known("*")]) as Box<[Text]>;
    let none = Box::default;
    [
        PolicyRule::new(all(), all(), all(), none(), none()),
        PolicyRule::new(all(), none(), none(), none(), all()),
    ]
}
