//! Who may write admission policies with parameters: those who may read the parameters. Otherwise the
//! messages of a policy could tell what its author must not see.
//!
//! Members of `system:masters` may write all policies, and everybody may write a policy whose parameters do
//! not change. As in the reference, a binding with parameters is checked whether they change or not.

use crate::hooks::{ValidHook, WriteHook, WriteHooks};
use admission::Attributes;
use auth::{Authorized, Authorizer, Decision, Target, User};
use cache::{Cache, Resource};
use object::Map;
use object::field::{Error, Path};
use schema::view::View as _;
use schema::views::admissionregistration::v1::{
    ParamKind, ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
};
use schema::{GroupVersionKind, Type, stored};
use std::fmt;
use std::sync::Arc;
use tasks::BoxFuture;

const GROUP: &str = "admissionregistration.k8s.io";

/// The write hook of policies and of their bindings, both of those that validate and of those that change
/// objects: their fields have the same names.
pub struct PolicyPermissions {
    /// The policies that bindings name.
    policies: Option<Arc<Resource>>,
    ty: &'static Type,
    kind: PolicyKind,
}

/// Which policies are checked. Their errors differ.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PolicyKind {
    Validating,
    Mutating,
}

impl PolicyPermissions {
    /// Adds the hooks for all kinds.
    #[must_use]
    pub fn add_to(hooks: WriteHooks, cache: &Cache) -> WriteHooks {
        let stems = [
            ("validatingadmissionpolic", PolicyKind::Validating),
            ("mutatingadmissionpolic", PolicyKind::Mutating),
        ];
        stems.into_iter().fold(hooks, |hooks, (stem, kind)| {
            let resource = format!("{stem}ies");
            let hook: Arc<dyn WriteHook> = Arc::new(Self {
                policies: cache.resource(&format!("{resource}.{GROUP}")),
                ty: ValidatingAdmissionPolicy::schema(),
                kind,
            });
            hooks.with(GROUP, &resource, hook.clone()).with(GROUP, &format!("{stem}ybindings"), hook)
        })
    }

    /// The kind of the parameters of a policy, or why it is not known.
    fn param_kind(&self, policy: &str) -> Result<Option<GroupVersionKind>, String> {
        let entry = self.policies.as_ref().and_then(|policies| policies.lookup("", policy).ok().flatten());
        let found = entry.and_then(|entry| stored::logged(&entry, stored::decode(self.ty, entry.bytes())));
        let found = found.ok_or_else(|| format!("unable to get policy {policy}"))?;
        Ok(ValidatingAdmissionPolicy::of(&found).spec().param_kind().map(gvk))
    }

    async fn check_policy(&self, of: &Check<'_>, new: &Map) -> Result<(), String> {
        let Some(kind) = ValidatingAdmissionPolicy::of(new).spec().param_kind() else { return Ok(()) };
        let kind_of = gvk(kind);
        let resource = of.resource(&kind_of).unwrap_or_else(|| "*".to_owned());
        let target = target(&kind_of, resource, "*", "*");
        of.is_allowed("get", target).await?.then_some(()).ok_or_else(|| {
            format!(
                r#"user {} must have "get" permission on all objects of the referenced paramKind (kind={}, apiVersion={})"#,
                GoUser(of.user),
                kind.kind(),
                kind.api_version()
            )
        })
    }

    async fn check_binding(&self, of: &Check<'_>, new: &Map) -> Result<(), String> {
        let spec = ValidatingAdmissionPolicyBinding::of(new).spec();
        let Some(reference) = spec.param_ref() else { return Ok(()) };
        let kind = self.param_kind(spec.policy_name());
        let any = || GroupVersionKind { group: "*".into(), version: "*".into(), kind: "".into() };
        let known = kind.as_ref().ok().and_then(Option::as_ref);
        let resource = known.and_then(|kind| of.resource(kind));
        let verb = if reference.name().is_empty() { "list" } else { "get" };
        let target = target(
            known.unwrap_or(&any()),
            resource.clone().unwrap_or_else(|| "*".to_owned()),
            reference.namespace(),
            reference.name(),
        );
        let allowed = of.is_allowed(verb, target).await;
        let failed = |why| match self.kind {
            PolicyKind::Validating => format!("failed to authorize request: {why}"),
            PolicyKind::Mutating => why,
        };
        if allowed.map_err(failed)? {
            return Ok(());
        }
        let user = GoUser(of.user);
        let everything = |why: String| {
            format!(
                r#"{why} to determine minimum required permissions and user {user} does not have "{verb}" permission for all groups, versions and resources"#
            )
        };
        Err(match (kind, resource) {
            (Err(why), _) => everything(why),
            (Ok(Some(kind)), None) => {
                let GroupVersionKind { group, version, kind } = kind;
                let slash = if group.is_empty() { "" } else { "/" };
                everything(format!(
                    "unable to resolve paramKind &ParamKind{{APIVersion:{group}{slash}{version},Kind:{kind},}}"
                ))
            }
            _ => match self.kind {
                PolicyKind::Validating => format!(
                    r#"user {user} does not have "{verb}" permission on the object referenced by paramRef"#
                ),
                // As in the reference, which confuses the two.
                PolicyKind::Mutating => format!(
                    r#"user {verb} does not have "{user}" permission on the object referenced by paramRef"#
                ),
            },
        })
    }
}

fn gvk(kind: ParamKind<'_>) -> GroupVersionKind {
    let (group, version) = kind.api_version().split_once('/').unwrap_or(("", kind.api_version()));
    GroupVersionKind { group: group.into(), version: version.into(), kind: kind.kind().into() }
}

fn target(kind: &GroupVersionKind, resource: String, namespace: &str, name: &str) -> Target {
    Target::Resource {
        group: kind.group.to_string(),
        version: kind.version.to_string(),
        resource,
        subresource: String::new(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    }
}

/// The check of one write.
struct Check<'a> {
    user: &'a User,
    authorizer: &'a Authorizer,
    attributes: &'a Attributes<'a>,
}

impl Check<'_> {
    /// The name of the resource of a kind, if it is served.
    fn resource(&self, kind: &GroupVersionKind) -> Option<String> {
        let found = self.attributes.request.resources_of(kind).into_iter().next();
        found.map(|found| found.resource.to_string())
    }

    async fn is_allowed(&self, verb: &'static str, target: Target) -> Result<bool, String> {
        let verdict = self.authorizer.decide(self.user, &auth::Attributes::new(verb, target)).await;
        match verdict.error {
            Some(why) if verdict.decision != Decision::Allow => Err(why),
            _ => Ok(verdict.decision == Decision::Allow),
        }
    }
}

impl ValidHook for PolicyPermissions {
    fn check<'a>(
        &'a self,
        proof: &'a Authorized,
        authorizer: &'a Authorizer,
        attributes: &'a Attributes<'a>,
        (new, old): (&'a Map, Option<&'a Map>),
    ) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async move {
            let user = proof.user();
            let is_binding = attributes.resource.resource.ends_with("bindings");
            let field = if is_binding { "paramRef" } else { "paramKind" };
            let kind = |object: &'a Map| object.get("spec").and_then(|spec| spec.get("paramKind"));
            let is_same = old.is_some_and(|old| !is_binding && kind(old).is_some() && kind(old) == kind(new));
            if is_same || user.is_in(User::MASTERS) {
                return Ok(());
            }
            let of = Check { user, authorizer, attributes };
            let outcome = match is_binding {
                true => self.check_binding(&of, new).await,
                false => self.check_policy(&of, new).await,
            };
            outcome.map_err(|why| Error::forbidden(&Path::new("spec").child(field), why))
        })
    }
}

impl WriteHook for PolicyPermissions {
    fn after_validation(&self) -> Option<&dyn ValidHook> {
        Some(self)
    }
}

/// A user as the reference prints it.
struct GoUser<'a>(&'a User);

impl fmt::Display for GoUser<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let User { name, uid, groups, extra, .. } = self.0;
        write!(f, "&{{{name} {uid} [{}] map[", groups.join(" "))?;
        for (place, (key, values)) in extra.iter().enumerate() {
            write!(f, "{}{key}:[{}]", if place == 0 { "" } else { " " }, values.join(" "))?;
        }
        f.write_str("]}")
    }
}
