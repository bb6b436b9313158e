//! Authorization checks: a chain of calls on `authorizer` says what is asked, `check` asks an [`Authorizer`].
//!
//! `path`, `group`, `resource`, `subresource`, `namespace`, `name`, `serviceAccount`, `check`, `allowed`,
//! `reason`, `errored`, `error`; with the library of selectors also `fieldSelector` and `labelSelector`.
//! Values of the chain cannot be compared.

use super::support::{function, made, member, opaque, str, string};
use crate::value::{Opaque, Value};
use crate::{Failure, Function, Outcome, Type};
use object::name::{self, Mode};
use object::{field_selector, label};
use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// Who answers the authorization checks of an expression.
pub trait Authorizer: fmt::Debug + Send + Sync {
    /// Whether something is allowed. `Failure::Halt(Halt::Waiting)` if the answer is not there yet: the
    /// caller of the expression gets it, and evaluates the expression again.
    fn authorize(&self, check: &Check<'_>) -> Result<Decision, Failure>;
}

/// What a check asks.
#[derive(Clone, Debug)]
pub struct Check<'c> {
    /// Who is asked about; the user of the request if it is absent.
    pub service_account: Option<ServiceAccount<'c>>,
    /// What the user wants to do.
    pub verb: &'c str,
    /// What the user wants to do it with.
    pub target: Target<'c>,
}

/// A service account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceAccount<'c> {
    /// Its namespace.
    pub namespace: &'c str,
    /// Its name.
    pub name: &'c str,
}

/// What a check is about.
#[derive(Clone, Debug)]
pub enum Target<'c> {
    /// A path that is no resource.
    Path(&'c str),
    /// A resource, in any version of its group.
    Resource {
        /// The group; empty for the core group.
        group: &'c str,
        /// The resource.
        resource: &'c str,
        /// The subresource; empty for the resource itself.
        subresource: &'c str,
        /// The namespace; empty for all of them, or for a resource that has none.
        namespace: &'c str,
        /// The name; empty for all objects.
        name: &'c str,
        /// The selector of fields, if there is one, or why it cannot be read. A server without the feature
        /// gate `AuthorizeWithSelectors` ignores selectors.
        fields: Option<Result<field_selector::Selector, field_selector::Error>>,
        /// The selector of labels, if there is one, or why it cannot be read.
        labels: Option<Result<label::Selector, label::Error>>,
    },
}

/// The answer to a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// Whether it is allowed.
    pub allowed: bool,
    /// Why.
    pub reason: String,
    /// What went wrong when it was found out.
    pub error: Option<String>,
}

/// The variable `authorizer`: asks about the user of the request.
pub fn authorizer<'a>(authorizer: Arc<dyn Authorizer>) -> Value<'a> {
    made(Root { authorizer, service_account: None })
}

/// What a request is for.
#[derive(Clone, Copy, Debug, Default)]
pub struct RequestResource<'r> {
    /// The group.
    pub group: &'r str,
    /// The resource.
    pub resource: &'r str,
    /// The subresource; empty for the resource itself.
    pub subresource: &'r str,
    /// The namespace; empty if there is none.
    pub namespace: &'r str,
    /// The name; empty if it is not known yet.
    pub name: &'r str,
}

/// The variable `authorizer.requestResource`: asks about what the request is for.
pub fn request_resource<'a>(authorizer: Arc<dyn Authorizer>, request: &RequestResource<'_>) -> Value<'a> {
    let root = Root { authorizer, service_account: None };
    made(ResourceCheck {
        subresource: request.subresource.into(),
        namespace: request.namespace.into(),
        name: request.name.into(),
        ..ResourceCheck::new(GroupCheck { root, group: request.group.into() }, request.resource)
    })
}

/// The type of the variable `authorizer`.
pub fn authorizer_type() -> Type {
    Type::object("kubernetes.authorization.Authorizer")
}

/// The type of the variable `authorizer.requestResource`.
pub fn resource_check_type() -> Type {
    Type::object("kubernetes.authorization.ResourceCheck")
}

fn path_check_type() -> Type {
    Type::object("kubernetes.authorization.PathCheck")
}

fn group_check_type() -> Type {
    Type::object("kubernetes.authorization.GroupCheck")
}

fn decision_type() -> Type {
    Type::object("kubernetes.authorization.Decision")
}

/// The functions of the library.
pub(crate) fn functions() -> Vec<Function> {
    let (text, resource) = (|| Type::String, resource_check_type);
    let with = |id, call| member(id, [resource(), text()], resource(), call);
    let of_decision = |id, result, call| member(id, [decision_type()], result, call);
    vec![
        function("path", [member("authorizer_path", [authorizer_type(), text()], path_check_type(), path)]),
        function(
            "group",
            [member("authorizer_group", [authorizer_type(), text()], group_check_type(), |args| {
                let root: &Root = opaque(args, 0)?;
                Ok(made(GroupCheck { root: root.clone(), group: str(args, 1)?.into() }))
            })],
        ),
        function(
            "serviceAccount",
            [member(
                "authorizer_serviceaccount",
                [authorizer_type(), text(), text()],
                authorizer_type(),
                service_account,
            )],
        ),
        function(
            "resource",
            [member("groupcheck_resource", [group_check_type(), text()], resource(), resource_of)],
        ),
        function(
            "subresource",
            [with("resourcecheck_subresource", |args| {
                with_text(args, |check, text| check.subresource = text)
            })],
        ),
        function(
            "namespace",
            [with("resourcecheck_namespace", |args| with_text(args, |check, text| check.namespace = text))],
        ),
        function(
            "name",
            [with("resourcecheck_name", |args| with_text(args, |check, text| check.name = text))],
        ),
        function(
            "check",
            [
                member("pathcheck_check", [path_check_type(), text()], decision_type(), check_path),
                member("resourcecheck_check", [resource(), text()], decision_type(), check_resource),
            ],
        ),
        function(
            "errored",
            [of_decision("decision_errored", Type::Bool, |args| {
                Ok(Value::Bool(decision(args)?.error.is_some()))
            })],
        ),
        function(
            "error",
            [of_decision("decision_error", Type::String, |args| {
                Ok(string(decision(args)?.error.as_deref().unwrap_or_default()))
            })],
        ),
        function(
            "allowed",
            [of_decision("decision_allowed", Type::Bool, |args| Ok(Value::Bool(decision(args)?.allowed)))],
        ),
        function(
            "reason",
            [of_decision("decision_reason", Type::String, |args| {
                Ok(string(decision(args)?.reason.as_str()))
            })],
        ),
    ]
}

/// The functions of the library of selectors.
pub(crate) fn selector_functions() -> Vec<Function> {
    let with = |id, call| member(id, [resource_check_type(), Type::String], resource_check_type(), call);
    vec![
        function(
            "fieldSelector",
            [with("authorizer_fieldselector", |args| with_text(args, |check, text| check.fields = text))],
        ),
        function(
            "labelSelector",
            [with("authorizer_labelselector", |args| with_text(args, |check, text| check.labels = text))],
        ),
    ]
}

/// The start of a chain.
#[derive(Clone, Debug)]
struct Root {
    authorizer: Arc<dyn Authorizer>,
    /// Namespace and name.
    service_account: Option<[Arc<str>; 2]>,
}

#[derive(Debug)]
struct PathCheck {
    root: Root,
    path: Arc<str>,
}

#[derive(Clone, Debug)]
struct GroupCheck {
    root: Root,
    group: Arc<str>,
}

#[derive(Clone, Debug)]
struct ResourceCheck {
    group: GroupCheck,
    resource: Arc<str>,
    subresource: Arc<str>,
    namespace: Arc<str>,
    name: Arc<str>,
    fields: Arc<str>,
    labels: Arc<str>,
}

#[derive(Debug)]
struct Answer(Decision);

impl Root {
    fn ask<'a>(&self, verb: &str, target: Target<'_>) -> Outcome<'a> {
        let service_account =
            self.service_account.as_ref().map(|[namespace, name]| ServiceAccount { namespace, name });
        let check = Check { service_account, verb, target };
        self.authorizer.authorize(&check).map(|decision| made(Answer(decision)))
    }
}

impl ResourceCheck {
    fn new(group: GroupCheck, resource: &str) -> Self {
        let none = Arc::<str>::default;
        Self {
            group,
            resource: resource.into(),
            subresource: none(),
            namespace: none(),
            name: none(),
            fields: none(),
            labels: none(),
        }
    }
}

macro_rules! incomparable {
    ($($value:ident: $ty:expr;)*) => {
        $(impl Opaque for $value {
            fn type_of(&self) -> Type {
                $ty
            }

            fn equals(&self, _: &dyn Opaque) -> Option<bool> {
                None
            }

            fn as_any(&self) -> &dyn Any {
                self
            }
        })*
    };
}

incomparable! {
    Root: authorizer_type();
    PathCheck: path_check_type();
    GroupCheck: group_check_type();
    ResourceCheck: resource_check_type();
    Answer: decision_type();
}

fn decision<'v>(args: &'v [Value<'_>]) -> Result<&'v Decision, Failure> {
    opaque::<Answer>(args, 0).map(|answer| &answer.0)
}

fn path<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let (root, path): (&Root, _) = (opaque(args, 0)?, str(args, 1)?);
    if path.trim().is_empty() {
        return Err(Failure::error("path must not be empty"));
    }
    Ok(made(PathCheck { root: root.clone(), path: path.into() }))
}

fn service_account<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let (root, namespace, name): (&Root, _, _) = (opaque(args, 0)?, str(args, 1)?, str(args, 2)?);
    if !name::name_is_dns_subdomain(name, Mode::Name).is_empty() {
        return Err(Failure::error("Invalid service account name"));
    }
    if !name::name_is_dns_label(namespace, Mode::Name).is_empty() {
        return Err(Failure::error("Invalid service account namespace"));
    }
    let service_account = Some([namespace.into(), name.into()]);
    Ok(made(Root { authorizer: root.authorizer.clone(), service_account }))
}

fn resource_of<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let (group, resource): (&GroupCheck, _) = (opaque(args, 0)?, str(args, 1)?);
    if resource.trim().is_empty() {
        return Err(Failure::error("resource must not be empty"));
    }
    Ok(made(ResourceCheck::new(group.clone(), resource)))
}

/// The check with one of its texts changed.
fn with_text<'a>(args: &[Value<'a>], change: fn(&mut ResourceCheck, Arc<str>)) -> Outcome<'a> {
    let check: &ResourceCheck = opaque(args, 0)?;
    let mut check = check.clone();
    change(&mut check, str(args, 1)?.into());
    Ok(made(check))
}

fn check_path<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let check: &PathCheck = opaque(args, 0)?;
    check.root.ask(str(args, 1)?, Target::Path(&check.path))
}

fn check_resource<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let check: &ResourceCheck = opaque(args, 0)?;
    let is_there = |text: &&Arc<str>| !text.is_empty();
    let target = Target::Resource {
        group: &check.group.group,
        resource: &check.resource,
        subresource: &check.subresource,
        namespace: &check.namespace,
        name: &check.name,
        fields: Some(&check.fields).filter(is_there).map(|text| field_selector::Selector::parse(text)),
        labels: Some(&check.labels).filter(is_there).map(|text| label::Selector::parse(text)),
    };
    check.group.root.ask(str(args, 1)?, target)
}
