//! Policies and their bindings in the form in which requests use them.
//!
//! Policies that validate and policies that change objects have the same fields for what they match, and are
//! read with the views of one of them.

use crate::conditions::{Conditions, FailurePolicy};
use crate::matching::{Criteria, Matched, Matcher, Namespaces, read_labels};
use crate::plugins::Parts;
use crate::{Attributes, Lister};
use auth::Authorizer;
use cache::Resource;
use expressions::Stage;
use expressions::admission::{Scope, Variables};
use kinds::label_selector;
use object::label::Selector;
use object::{Map, Text, Value};
use schema::view::View as _;
use schema::views::admissionregistration::v1::{
    ParamKind, ParamRef, ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
    ValidatingAdmissionPolicySpec,
};
use schema::views::core::v1::Namespace;
use schema::{GroupVersionKind, Status, Type, json, stored};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

/// What the expressions of a policy are compiled into.
pub(super) trait Evaluator: Send + Sync + 'static {
    /// Compiles the expressions of a spec.
    fn compile(spec: &Map) -> Self;
}

/// What the expressions of a policy share, whatever it does.
pub(super) struct Common {
    /// What expressions may use, the variables included.
    pub(super) scope: Scope,
    pub(super) variables: Variables,
    pub(super) conditions: Conditions,
}

impl Common {
    /// Compiles the variables and the match conditions of a spec.
    pub(super) fn compile(spec: &Map) -> Self {
        let spec = ValidatingAdmissionPolicySpec::of(spec);
        let scope = Scope::of_policy(spec.param_kind().is_some());
        let variables = spec.variables().iter();
        let variables: Vec<_> = variables
            .map(|variable| scope.add_variable(variable.name(), variable.expression(), Stage::Stored))
            .collect();
        let conditions = Conditions::texts(spec.match_conditions());
        let conditions = Conditions::compile(conditions.iter().map(|text| &**text), &scope);
        Self { scope, variables: variables.into(), conditions }
    }
}

/// A policy.
pub(super) struct Policy<E> {
    pub(super) name: Text,
    /// The kind of its parameters; none if it has no parameters.
    pub(super) param_kind: Option<GroupVersionKind>,
    pub(super) criteria: Criteria,
    pub(super) failure_policy: FailurePolicy,
    /// Compiled for the first write that rules and selectors match.
    pub(super) evaluator: LazyLock<E, Box<dyn FnOnce() -> E + Send>>,
}

/// A binding of a policy.
pub(super) struct Binding {
    pub(super) name: Text,
    policy: Text,
    criteria: Option<Criteria>,
    pub(super) params: Option<Reference>,
    /// `Deny`, `Warn`, `Audit`.
    pub(super) actions: Vec<Text>,
}

/// The parameters of a binding.
pub(super) struct Reference {
    /// The name of the parameters; empty if they are selected.
    pub(super) name: Text,
    /// Their namespace; empty for that of the request.
    pub(super) namespace: Text,
    /// Or why it cannot be used.
    pub(super) selector: Option<Result<Selector, String>>,
    /// Whether it is an error if there are none.
    pub(super) is_required: bool,
}

/// A policy with its bindings.
pub(super) struct Bound<E> {
    pub(super) policy: Arc<Policy<E>>,
    pub(super) bindings: Vec<Arc<Binding>>,
}

/// A policy that matches a write, or why that cannot be found out.
pub(super) struct Found {
    /// The place of the policy among the bound ones.
    pub(super) place: usize,
    pub(super) matched: Result<Matched, Status>,
}

/// The policies of one kind, and what they look up.
pub(super) struct Policies<E> {
    policies: Lister<Policy<E>>,
    bindings: Lister<Binding>,
    /// Policies and bindings, and what was made of them.
    joined: Mutex<Option<Joined<E>>>,
    namespaces: Namespaces,
    namespace_objects: Arc<Resource>,
    pub(super) authorizer: Authorizer,
}

struct Joined<E> {
    policies: Arc<[Arc<Policy<E>>]>,
    bindings: Arc<[Arc<Binding>]>,
    bound: Arc<[Bound<E>]>,
}

impl<E: Evaluator> Policies<E> {
    /// The policies and bindings of these resources and types.
    pub(super) fn make(
        parts: &Parts<'_>,
        (policies, policy_type): (&str, &'static Type),
        (bindings, binding_type): (&str, &'static Type),
    ) -> Result<Self, String> {
        let resource = |name: &str| parts.resource(&format!("{name}.admissionregistration.k8s.io"));
        let namespace_objects = parts.resource("namespaces")?;
        Ok(Self {
            policies: Lister::new(resource(policies)?, policy_type, Policy::read),
            bindings: Lister::new(resource(bindings)?, binding_type, Binding::read),
            joined: Mutex::new(None),
            namespaces: Lister::new(namespace_objects.clone(), Namespace::schema(), read_labels),
            namespace_objects,
            authorizer: parts.authorizer.clone(),
        })
    }

    /// The policies that have bindings, by name.
    pub(super) fn bound(&self) -> Arc<[Bound<E>]> {
        let (policies, bindings) = (self.policies.all(), self.bindings.all());
        let mut joined = self.joined.lock().unwrap_or_else(PoisonError::into_inner);
        match &*joined {
            Some(known)
                if Arc::ptr_eq(&known.policies, &policies) && Arc::ptr_eq(&known.bindings, &bindings) =>
            {
                known.bound.clone()
            }
            _ => {
                let bound = join(&policies, &bindings);
                *joined = Some(Joined { policies, bindings, bound: bound.clone() });
                bound
            }
        }
    }

    /// Matches one write.
    pub(super) fn matcher(&self) -> Matcher<'_> {
        Matcher::new(&self.namespaces)
    }

    /// The policies that a write is matched by.
    pub(super) fn find(
        &self,
        bound: &[Bound<E>],
        attributes: &Attributes<'_>,
        object: Option<&Value>,
    ) -> Vec<Found> {
        let mut matcher = self.matcher();
        let found = bound.iter().enumerate().filter_map(|(place, bound)| {
            let matched = matcher.find(&bound.policy.criteria, attributes, object).transpose()?;
            Some(Found { place, matched })
        });
        found.collect()
    }

    /// The namespace of an object, as policies see it; none if the object has none.
    pub(super) fn namespace(&self, attributes: &Attributes<'_>) -> Result<Option<Value>, Status> {
        let name = attributes.namespace;
        if name.is_empty() || attributes.is_resource("", "namespaces") {
            return Ok(None);
        }
        let entry = self.namespace_objects.lookup("", name).ok().flatten();
        let found = entry
            .and_then(|entry| stored::logged(&entry, stored::decode(Namespace::schema(), entry.bytes())));
        let found = found.ok_or_else(|| Status::not_found("", "namespaces", name))?;
        Ok(Some(shown_namespace(found)))
    }
}

/// Whether no policy is asked about a write.
pub(super) fn is_exempt(attributes: &Attributes<'_>) -> bool {
    let resource = attributes.resource.resource.as_str();
    match attributes.resource.group.as_str() {
        "admissionregistration.k8s.io" => matches!(
            resource,
            "validatingadmissionpolicies"
                | "validatingadmissionpolicybindings"
                | "mutatingadmissionpolicies"
                | "mutatingadmissionpolicybindings"
        ),
        "authentication.k8s.io" => matches!(resource, "selfsubjectreviews" | "tokenreviews"),
        "authorization.k8s.io" => matches!(
            resource,
            "localsubjectaccessreviews"
                | "selfsubjectaccessreviews"
                | "selfsubjectrulesreviews"
                | "subjectaccessreviews"
        ),
        _ => false,
    }
}

fn join<E>(policies: &[Arc<Policy<E>>], bindings: &[Arc<Binding>]) -> Arc<[Bound<E>]> {
    let mut bindings: Vec<_> = bindings.iter().collect();
    // A stable sort: bindings of a policy stay in the order of their names.
    bindings.sort_by(|one, other| one.policy.cmp(&other.policy));
    let bound = policies.iter().filter_map(|policy| {
        let start = bindings.partition_point(|binding| binding.policy < policy.name);
        let of_policy = bindings.get(start..).unwrap_or_default().iter();
        let of_policy = of_policy.take_while(|binding| binding.policy == policy.name);
        let bindings: Vec<_> = of_policy.map(|binding| (*binding).clone()).collect();
        (!bindings.is_empty()).then(|| Bound { policy: policy.clone(), bindings })
    });
    bound.collect()
}

impl<E: Evaluator> Policy<E> {
    fn read(object: &Map) -> Option<Self> {
        let policy = ValidatingAdmissionPolicy::of(object);
        let spec: ValidatingAdmissionPolicySpec<'_> = policy.spec();
        let source = spec.map().clone();
        Some(Self {
            name: policy.metadata().name().into(),
            param_kind: spec.param_kind().map(param_kind),
            criteria: Criteria::of(spec.match_constraints()?),
            failure_policy: FailurePolicy::of(spec.failure_policy()),
            evaluator: LazyLock::new(Box::new(move || tasks::off_worker(|| E::compile(&source)))),
        })
    }
}

fn param_kind(kind: ParamKind<'_>) -> GroupVersionKind {
    let (group, version) = kind.api_version().split_once('/').unwrap_or(("", kind.api_version()));
    GroupVersionKind { group: group.into(), version: version.into(), kind: kind.kind().into() }
}

impl Binding {
    fn read(object: &Map) -> Option<Self> {
        let binding = ValidatingAdmissionPolicyBinding::of(object);
        let spec = binding.spec();
        Some(Self {
            name: binding.metadata().name().into(),
            policy: spec.policy_name().into(),
            criteria: spec.match_resources().map(Criteria::of),
            params: spec.param_ref().map(Reference::new),
            actions: spec.validation_actions().iter().map(Text::from).collect(),
        })
    }

    /// Whether the binding matches a write.
    pub(super) fn matches(
        &self,
        matcher: &mut Matcher<'_>,
        attributes: &Attributes<'_>,
        object: Option<&Value>,
    ) -> Result<bool, Status> {
        match &self.criteria {
            None => Ok(true),
            Some(criteria) => matcher.matches_binding(criteria, attributes, object),
        }
    }
}

impl Reference {
    fn new(reference: ParamRef<'_>) -> Self {
        let compile = |selector| label_selector::compile(selector).map_err(|error| error.to_string());
        Self {
            name: reference.name().into(),
            namespace: reference.namespace().into(),
            selector: reference.selector().map(compile),
            is_required: reference.parameter_not_found_action() == Some("Deny"),
        }
    }
}

/// The fields of a namespace that expressions see.
fn shown_namespace(namespace: Map) -> Value {
    const METADATA: [&str; 12] = [
        "name",
        "generateName",
        "namespace",
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "labels",
        "annotations",
        "finalizers",
    ];
    let mut namespace = Value::from(namespace);
    json::make_plain(Namespace::schema(), &mut namespace);
    if let Some(map) = namespace.as_map_mut() {
        map.retain(|key, _| matches!(key.as_str(), "metadata" | "spec" | "status"));
        if let Some(metadata) = map.get_mut("metadata").and_then(Value::as_map_mut) {
            metadata.retain(|key, _| METADATA.contains(&key.as_str()));
        }
    }
    namespace
}
