//! `ValidatingAdmissionPolicy`: policies that may refuse a write, warn about it, or note it for those who
//! audit the cluster.

use super::definition::{Binding, Bound, Found, Policies, Policy, is_exempt};
use super::params;
use super::validations::{Annotation, Evaluation, Validations};
use crate::conditions::FailurePolicy;
use crate::evaluation::{Checks, Input};
use crate::families::{POLICY_CHECKS, POLICY_DURATIONS};
use crate::matching::Matched;
use crate::plugins::{Builtin, Parts};
use crate::versioned::Versioned;
use crate::{Attributes, Operation, Plugin, Reservation};
use expressions::admission::evaluation::OUT_OF_BUDGET;
use object::{Text, Value};
use schema::status::{Cause, Reason};
use schema::view::View as _;
use schema::views::admissionregistration::v1;
use schema::{Status, json};
use std::sync::Arc;
use std::time::Instant;
use tasks::Deferred;

/// The key of the audit annotation of validations that do not hold.
const FAILURE_KEY: &str = "validation.policy.admission.k8s.io/validation_failure";
/// The most bytes of a text for the audit log.
const MOST_ANNOTATION_BYTES: usize = 10 * 1024;

/// The plugin.
pub struct ValidatingAdmissionPolicy(Policies<Validations>);

/// Why a policy refuses a write.
struct Denial {
    policy: Text,
    /// None if the policy itself cannot be used.
    binding: Option<Text>,
    message: String,
    reason: Option<Box<str>>,
}

impl ValidatingAdmissionPolicy {
    /// Evaluates the policies that were found.
    async fn dispatch(
        &self,
        bound: Arc<[Bound<Validations>]>,
        found: Vec<Found>,
        attributes: &Attributes<'_>,
        object: Option<&Value>,
    ) -> Result<(), Status> {
        let mut write = Write {
            policies: &self.0,
            attributes,
            object,
            checks: Checks::new(&self.0.authorizer, attributes.user),
            inputs: Vec::new(),
            denials: Vec::new(),
        };
        for Found { place, matched } in found {
            let Some(bound) = bound.get(place) else { continue };
            write.apply(bound, matched).await?;
        }
        match write.denials.into_iter().next() {
            None => Ok(()),
            Some(denial) => Err(denial.status(attributes, object)),
        }
    }
}

/// A write that policies are evaluated on.
struct Write<'a> {
    policies: &'a Policies<Validations>,
    attributes: &'a Attributes<'a>,
    object: Option<&'a Value>,
    checks: Arc<Checks>,
    /// What expressions see, for each resource by which the write was matched.
    inputs: Vec<(Versioned, Arc<Input>)>,
    denials: Vec<Denial>,
}

impl Write<'_> {
    /// Applies a policy with all its bindings that match.
    async fn apply(
        &mut self,
        bound: &Bound<Validations>,
        matched: Result<Matched, Status>,
    ) -> Result<(), Status> {
        let policy = &*bound.policy;
        let param_resource = match &matched {
            Ok(_) => params::resource(policy, self.attributes),
            Err(status) => Err(status.message.clone()),
        };
        let (matched, param_resource) = match (matched, param_resource) {
            (Ok(matched), Ok(resource)) => (matched, resource),
            (_, Err(why)) | (Err(Status { message: why, .. }), _) => {
                self.fail(policy, None, &why);
                return Ok(());
            }
        };
        let mut annotations = Annotations::default();
        for binding in &bound.bindings {
            match binding.matches(&mut self.policies.matcher(), self.attributes, self.object) {
                Ok(true) => {}
                Ok(false) => continue,
                Err(status) => {
                    self.fail(policy, Some(binding), &status.message);
                    continue;
                }
            }
            let params = params::collect(param_resource.as_deref(), binding.params.as_ref(), self.attributes);
            let params = match params.await {
                Ok(params) => params,
                Err(why) => {
                    self.fail(policy, Some(binding), &why);
                    continue;
                }
            };
            if params.is_empty() {
                continue;
            }
            let input = match self.input(&matched).await? {
                Ok(input) => input,
                Err(status) => {
                    let why = format!("failed to convert object version: {}", status.message);
                    self.fail(policy, Some(binding), &why);
                    continue;
                }
            };
            for params in &params {
                self.evaluate(policy, binding, &input, params, &mut annotations).await;
            }
        }
        annotations.publish(&policy.name, self.attributes);
        Ok(())
    }

    /// What expressions see of the write through a resource, or why it cannot be converted. The outer error
    /// ends the request.
    async fn input(&mut self, matched: &Matched) -> Result<Result<Arc<Input>, Status>, Status> {
        let resource = matched.resource(self.attributes);
        if let Some((_, known)) = self.inputs.iter().find(|(versioned, _)| versioned.is_of(resource)) {
            return Ok(Ok(known.clone()));
        }
        let versioned = match Versioned::new(self.attributes, resource, self.object).await {
            Ok(versioned) => versioned,
            Err(status) => return Ok(Err(status)),
        };
        let namespace = self.policies.namespace(self.attributes)?;
        let input = Arc::new(Input::new(self.attributes, &versioned, matched, namespace));
        self.inputs.push((versioned, input.clone()));
        Ok(Ok(input))
    }

    /// Evaluates a policy with one object of parameters, and does what the binding says.
    async fn evaluate(
        &mut self,
        policy: &Policy<Validations>,
        binding: &Binding,
        input: &Input,
        params: &Value,
        annotations: &mut Annotations,
    ) {
        let with = Evaluation {
            name: &policy.name,
            attributes: self.attributes,
            input,
            params,
            checks: &self.checks,
            policy: policy.failure_policy,
        };
        let begin = Instant::now();
        let findings = policy.evaluator.validate(&with).await;
        let took = begin.elapsed();
        for failure in findings.failures {
            let error = match failure.message.as_str() {
                message if message.starts_with("compilation") => "compile_error",
                message if message.starts_with(OUT_OF_BUDGET) => "out_of_budget",
                _ => "invalid_error",
            };
            for action in &binding.actions {
                let enforced = action.to_ascii_lowercase();
                let labels = [enforced.as_str(), error, &policy.name, &binding.name];
                POLICY_CHECKS.with(labels).inc();
                POLICY_DURATIONS.with(labels).observe_time(took);
                match action.as_str() {
                    "Deny" => self.denials.push(Denial {
                        policy: policy.name.clone(),
                        binding: Some(binding.name.clone()),
                        message: failure.message.clone(),
                        reason: failure.reason.clone(),
                    }),
                    "Warn" => {
                        let (policy, binding) = (&policy.name, &binding.name);
                        self.attributes.warnings.extend([format!(
                            "Validation failed for ValidatingAdmissionPolicy '{policy}' with binding '{binding}': {}",
                            failure.message
                        )]);
                    }
                    _ => {
                        let note = failure_note(&policy.name, binding, failure.place, &failure.message);
                        self.attributes.annotate(FAILURE_KEY, &note);
                    }
                }
            }
        }
        for Annotation { key, value } in findings.annotations {
            match value {
                Ok(value) => annotations.add(key, value),
                Err(message) => self.denials.push(Denial {
                    policy: policy.name.clone(),
                    binding: Some(binding.name.clone()),
                    message,
                    reason: None,
                }),
            }
        }
    }

    /// A policy, or its binding, cannot be used: the failure policy decides.
    fn fail(&mut self, policy: &Policy<Validations>, binding: Option<&Binding>, why: &str) {
        if policy.failure_policy == FailurePolicy::Fail {
            let what = if binding.is_some() { "binding" } else { "policy" };
            self.denials.push(Denial {
                policy: policy.name.clone(),
                binding: binding.map(|binding| binding.name.clone()),
                message: format!("failed to configure {what}: {why}"),
                reason: None,
            });
        }
    }
}

impl Denial {
    fn status(self, attributes: &Attributes<'_>, object: Option<&Value>) -> Status {
        let with_binding = self.binding.map(|name| format!(" with binding '{name}'")).unwrap_or_default();
        let message = format!(
            "ValidatingAdmissionPolicy '{}'{with_binding} denied request: {}",
            self.policy, self.message
        );
        let mut status = attributes.forbidden(object, &message);
        status.reason =
            self.reason.as_deref().filter(|reason| !reason.is_empty()).unwrap_or("Invalid").into();
        status.code = match status.reason {
            Reason::Forbidden => 403,
            Reason::Unauthorized => 401,
            Reason::RequestEntityTooLarge => 413,
            _ => 422,
        };
        let cause = Cause { message, ..Cause::default() };
        status.details.get_or_insert_default().causes.push(cause);
        status
    }
}

/// What the audit log says of a validation that does not hold: JSON.
fn failure_note(policy: &str, binding: &Binding, place: usize, message: &str) -> String {
    let actions = json::string_list(binding.actions.iter().map(Text::as_str));
    format!(
        r#"[{{"message":{},"policy":{},"binding":{},"expressionIndex":{place},"validationActions":{actions}}}]"#,
        json::string(message),
        json::string(policy),
        json::string(&binding.name),
    )
}

/// The texts of a policy for the audit log, by key.
#[derive(Default)]
struct Annotations(Vec<(Box<str>, Vec<String>)>);

impl Annotations {
    /// Adds a text, unless another binding has made the same one.
    fn add(&mut self, key: Box<str>, mut value: String) {
        value.truncate(value.floor_char_boundary(MOST_ANNOTATION_BYTES));
        match self.0.iter_mut().find(|(known, _)| *known == key) {
            Some((_, values)) if values.contains(&value) => {}
            Some((_, values)) => values.push(value),
            None => self.0.push((key, vec![value])),
        }
    }

    fn publish(self, policy: &str, attributes: &Attributes<'_>) {
        for (key, values) in self.0 {
            attributes.annotate(&format!("{policy}/{key}"), &values.join(", "));
        }
    }
}

impl Builtin for ValidatingAdmissionPolicy {
    const NAME: &'static str = "ValidatingAdmissionPolicy";

    fn make(parts: &Parts<'_>) -> Result<Self, String> {
        let policies = Policies::make(
            parts,
            ("validatingadmissionpolicies", v1::ValidatingAdmissionPolicy::schema()),
            ("validatingadmissionpolicybindings", v1::ValidatingAdmissionPolicyBinding::schema()),
        );
        policies.map(Self)
    }
}

impl Plugin for ValidatingAdmissionPolicy {
    fn handles(&self, _operation: Operation) -> bool {
        true
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'_>,
        object: Option<&'a Value>,
    ) -> Deferred<'a, Result<Option<Reservation>, Status>> {
        let bound = self.0.bound();
        if bound.is_empty() || is_exempt(attributes) {
            return Deferred::Now(Ok(None));
        }
        let found = self.0.find(&bound, attributes, object);
        if found.is_empty() {
            return Deferred::Now(Ok(None));
        }
        Deferred::later(async move { self.dispatch(bound, found, attributes, object).await.map(|()| None) })
    }
}
