//! `MutatingAdmissionPolicy`: policies that change the object of a write, one after another.

use super::definition::{Binding, Bound, Found, Policies, Policy, is_exempt};
use super::mutations::{Mutations, Mutator};
use super::params;
use crate::conditions::FailurePolicy;
use crate::evaluation::{Checks, Input, OutOfBudget, evaluate};
use crate::families;
use crate::matching::Matched;
use crate::plugins::{Builtin, Parts};
use crate::versioned::Versioned;
use crate::{Attributes, Operation, Plugin};
use cel::kubernetes::COST_OF_AN_OBJECT;
use expressions::admission::Batch;
use expressions::admission::evaluation::OUT_OF_BUDGET;
use kinds::ResourceType;
use merge::mutation::{self, Mutation};
use object::quote::Quoted;
use object::{Text, Value};
use schema::Status;
use schema::status::Cause;
use schema::view::View as _;
use schema::views::admissionregistration::v1alpha1;
use std::sync::Arc;
use std::time::Instant;
use tasks::Deferred;

/// The plugin.
pub struct MutatingAdmissionPolicy {
    policies: Policies<Mutations>,
    /// The feature gate `MutatingAdmissionPolicy`.
    is_on: bool,
}

/// A policy that is applied to a write, with one of its bindings and one object of parameters.
struct Invocation {
    policy: Arc<Policy<Mutations>>,
    binding: Arc<Binding>,
    matched: Matched,
    params: Value,
}

/// What is wrong with a policy.
struct Fault {
    message: String,
    /// Whether expressions failed, and not their configuration.
    is_invalid: bool,
}

impl MutatingAdmissionPolicy {
    /// Applies the policies that were found.
    async fn dispatch(
        &self,
        bound: Arc<[Bound<Mutations>]>,
        found: Vec<Found>,
        attributes: &Attributes<'_>,
        mut object: Option<&mut Value>,
    ) -> Result<(), Status> {
        let mut faults = Vec::new();
        let invocations = self.invocations(&bound, found, attributes, object.as_deref(), &mut faults).await;
        if !invocations.is_empty() {
            self.invoke(&invocations, attributes, object.as_deref_mut(), &mut faults).await?;
        }
        let mut faults = faults.into_iter();
        let Some(first) = faults.next() else { return Ok(()) };
        let mut status = attributes.forbidden(object.as_deref(), "admission request denied by policy");
        if first.is_invalid {
            status.reason = "Invalid".into();
        }
        status.message = first.message.clone();
        let causes = &mut status.details.get_or_insert_default().causes;
        causes.extend(
            std::iter::once(first)
                .chain(faults)
                .map(|fault| Cause { message: fault.message, ..Cause::default() }),
        );
        Err(status)
    }

    /// The policies, bindings and parameters that are applied, in their order.
    async fn invocations(
        &self,
        bound: &[Bound<Mutations>],
        found: Vec<Found>,
        attributes: &Attributes<'_>,
        object: Option<&Value>,
        faults: &mut Vec<Fault>,
    ) -> Vec<Invocation> {
        let mut invocations = Vec::new();
        for Found { place, matched } in found {
            let Some(Bound { policy, bindings }) = bound.get(place) else { continue };
            let resource = match &matched {
                Ok(_) => params::resource(policy, attributes),
                Err(status) => Err(status.message.clone()),
            };
            let (matched, resource) = match (matched, resource) {
                (Ok(matched), Ok(resource)) => (matched, resource),
                (_, Err(why)) | (Err(Status { message: why, .. }), _) => {
                    faults.extend(Fault::of_configuration(policy, None, &why));
                    continue;
                }
            };
            for binding in bindings {
                match binding.matches(&mut self.policies.matcher(), attributes, object) {
                    Ok(true) => {}
                    Ok(false) => continue,
                    Err(status) => {
                        faults.extend(Fault::of_configuration(policy, Some(binding), &status.message));
                        continue;
                    }
                }
                let found = params::collect(resource.as_deref(), binding.params.as_ref(), attributes);
                match found.await {
                    Err(why) => faults.extend(Fault::of_configuration(policy, Some(binding), &why)),
                    Ok(found) => invocations.extend(found.into_iter().map(|params| Invocation {
                        policy: policy.clone(),
                        binding: binding.clone(),
                        matched: matched.clone(),
                        params,
                    })),
                }
            }
        }
        invocations
    }

    /// Applies policies one after another, each to what the one before made of the object.
    async fn invoke(
        &self,
        invocations: &[Invocation],
        attributes: &Attributes<'_>,
        mut object: Option<&mut Value>,
        faults: &mut Vec<Fault>,
    ) -> Result<(), Status> {
        if let Some(passes) = attributes.passes.filter(|passes| passes.is_second()) {
            passes.policies.lock().begin_again(object.as_deref());
        }
        let namespace = self.policies.namespace(attributes)?;
        let mut write = Write {
            attributes,
            namespace,
            checks: Checks::new(&self.policies.authorizer, attributes.user),
            is_changed: false,
        };
        for invocation in invocations {
            write.invoke(invocation, object.as_deref_mut(), faults).await?;
        }
        if let Some(passes) = attributes.passes {
            let mut memory = passes.policies.lock();
            if write.is_changed {
                memory.changed();
                passes.again();
            }
            memory.output = object.as_deref().cloned();
        }
        Ok(())
    }
}

/// A write that policies change.
struct Write<'a> {
    attributes: &'a Attributes<'a>,
    namespace: Option<Value>,
    checks: Arc<Checks>,
    /// Whether a mutation was applied, be it one that changed nothing.
    is_changed: bool,
}

impl Write<'_> {
    /// Applies a policy with one binding and one object of parameters. The error ends the request.
    async fn invoke(
        &mut self,
        invocation: &Invocation,
        mut object: Option<&mut Value>,
        faults: &mut Vec<Fault>,
    ) -> Result<(), Status> {
        let Invocation { policy, binding, matched, params } = invocation;
        let mutations = &*policy.evaluator;
        let resource = matched.resource(self.attributes);
        let mut seen = match self.see(matched, object.as_deref()).await {
            Ok(seen) => seen,
            Err(status) => {
                faults.extend(Fault::of_configuration(policy, None, &status.message));
                return Ok(());
            }
        };
        let held = mutations.conditions.hold(
            self.attributes,
            &seen.1,
            params,
            &mutations.variables,
            &self.checks,
            policy.failure_policy,
        );
        let begin = Instant::now();
        let held = held.await;
        families::policy_conditions(&policy.name, self.attributes.operation, &held, begin.elapsed());
        match held {
            Ok(true) => {}
            Ok(false) => return Ok(()),
            Err(why) => {
                faults.extend(Fault::of_expression(policy, binding, &why));
                return Ok(());
            }
        }
        let key = key(policy, binding, params);
        let is_left_out = self
            .attributes
            .passes
            .is_some_and(|passes| passes.is_second() && !passes.policies.lock().again.contains(&key));
        if is_left_out {
            return Ok(());
        }
        let before = object.as_deref().cloned();
        for mutator in &mutations.mutations {
            let Some(target) = object.as_deref_mut() else { break };
            match self.mutate(mutator, mutations, &seen, params, resource).await? {
                Ok(mutated) => {
                    *target = mutated;
                    self.is_changed = true;
                    seen = self.see(matched, Some(target)).await?;
                }
                Err(why) => faults.extend(Fault::of_expression(policy, binding, &why)),
            }
        }
        if let Some(passes) = self.attributes.passes {
            let mut memory = passes.policies.lock();
            if object.as_deref() != before.as_ref() {
                memory.changed();
                passes.again();
            }
            if mutations.is_reinvoked {
                memory.candidates.insert(key);
            }
        }
        Ok(())
    }

    /// What expressions see of an object through a resource.
    async fn see(&self, matched: &Matched, object: Option<&Value>) -> Result<(Versioned, Input), Status> {
        let resource = matched.resource(self.attributes);
        let versioned = Versioned::new(self.attributes, resource, object).await?;
        let input = Input::new(self.attributes, &versioned, matched, self.namespace.clone());
        Ok((versioned, input))
    }

    /// The object after one mutation, in the working version, or why the policy cannot make it. The outer
    /// error ends the request.
    async fn mutate(
        &self,
        mutator: &Mutator,
        mutations: &Mutations,
        (versioned, input): &(Versioned, Input),
        params: &Value,
        resource: &ResourceType,
    ) -> Result<Result<Value, String>, Status> {
        let Some(object) = &versioned.object else { return Ok(Err("there is no object".to_owned())) };
        if let Some(fault) = mutator.fault() {
            return Ok(Err(fault));
        }
        let seen = input.seen(params, Some(self.checks.values(self.attributes)));
        let batch = Batch { expressions: &mutator.expression, variables: &mutations.variables, seen: &seen };
        let mut left = COST_OF_AN_OBJECT;
        let deadline = self.attributes.request.deadline();
        let results = evaluate(&batch, &self.checks, &mut left, deadline, |outcome| {
            outcome.and_then(|value| mutator.mutation(&value))
        });
        let mutation = match results.await {
            Ok(results) => results.into_iter().flatten().next(),
            Err(OutOfBudget) => Some(Err(OUT_OF_BUDGET.to_owned())),
        };
        let mutation = match mutation {
            Some(Ok(mutation)) => mutation,
            Some(Err(why)) => return Ok(Err(why)),
            None => return Ok(Ok(object.clone())),
        };
        if let (Mutation::ApplyConfiguration(_), Some(why)) = (&mutation, undescribed(versioned, resource)) {
            return Ok(Err(why));
        }
        let outcome = mutation::apply(&versioned.ty, object, mutation);
        if let (Some(why), Ok(_) | Err(mutation::Error::Internal(_))) =
            (unconverted(versioned, resource), &outcome)
        {
            return Ok(Err(why));
        }
        match outcome {
            Ok(mutated) => {
                let working = self.attributes.request.to_working(mutated, resource).await;
                Ok(working.map_err(|status| status.message))
            }
            Err(mutation::Error::Failed(why)) => Ok(Err(why)),
            Err(mutation::Error::Internal(why)) => Err(Status::internal_error(&why)),
        }
    }
}

/// Why a configuration cannot be merged into an object: the OpenAPI document of its version does not have its
/// kind. That is so for the options of connections, and for subresources whose kind is of another version
/// than the resource.
fn undescribed(versioned: &Versioned, resource: &ResourceType) -> Option<String> {
    let kind = versioned.ty.kind.as_ref()?;
    let is_described =
        !versioned.is_options && kind.group == resource.group && kind.version == resource.version;
    (!is_described).then(|| {
        format!(
            "error applying patch: failed to convert patch object to typed object: no corresponding type for {}/{}, Kind={}",
            kind.group, kind.version, kind.kind
        )
    })
}

/// Why no patch of an object counts: the reference does not convert the scale of a custom object.
fn unconverted(versioned: &Versioned, resource: &ResourceType) -> Option<String> {
    let kind = versioned.ty.kind.as_ref().filter(|_| versioned.ty.custom.is_none())?;
    let is_custom = resource.ty.custom.is_some();
    is_custom.then(|| format!("request to convert CR to an invalid group/version: {}", kind.api_version()))
}

/// Tells an invocation from all others of a write.
fn key(policy: &Policy<Mutations>, binding: &Binding, params: &Value) -> Text {
    let metadata = params.get("metadata");
    let text = |key: &str| metadata.and_then(|of| of.get(key)).and_then(Value::as_str).unwrap_or_default();
    format!("{}/{}/{}/{}", policy.name, binding.name, text("namespace"), text("name")).into()
}

impl Fault {
    /// A policy or a binding that cannot be used; none if the policy ignores failures.
    fn of_configuration(policy: &Policy<Mutations>, binding: Option<&Binding>, why: &str) -> Option<Self> {
        let message = match binding {
            None => {
                format!("policy {} denied request: failed to configure policy: {why}", Quoted(&policy.name))
            }
            Some(binding) => format!(
                "policy '{}' with binding '{}' denied request: failed to configure binding: {why}",
                policy.name, binding.name
            ),
        };
        (policy.failure_policy == FailurePolicy::Fail).then_some(Self { message, is_invalid: false })
    }

    /// An expression that failed; none if the policy ignores failures.
    fn of_expression(policy: &Policy<Mutations>, binding: &Binding, why: &str) -> Option<Self> {
        let message =
            format!("policy '{}' with binding '{}' denied request: {why}", policy.name, binding.name);
        (policy.failure_policy == FailurePolicy::Fail).then_some(Self { message, is_invalid: true })
    }
}

impl Builtin for MutatingAdmissionPolicy {
    const NAME: &'static str = "MutatingAdmissionPolicy";

    fn make(parts: &Parts<'_>) -> Result<Self, String> {
        let policies = Policies::make(
            parts,
            ("mutatingadmissionpolicies", v1alpha1::MutatingAdmissionPolicy::schema()),
            ("mutatingadmissionpolicybindings", v1alpha1::MutatingAdmissionPolicyBinding::schema()),
        )?;
        Ok(Self { policies, is_on: parts.settings.gates.mutating_admission_policy })
    }
}

impl Plugin for MutatingAdmissionPolicy {
    fn handles(&self, operation: Operation) -> bool {
        // Without its gate too: the reference counts the plugin then.
        operation != Operation::Delete
    }

    fn mutate<'a>(
        &'a self,
        attributes: &'a Attributes<'_>,
        object: Option<&'a mut Value>,
    ) -> Deferred<'a, Result<(), Status>> {
        let bound = self.policies.bound();
        if !self.is_on || bound.is_empty() || is_exempt(attributes) {
            return Deferred::Now(Ok(()));
        }
        let found = self.policies.find(&bound, attributes, object.as_deref());
        if found.is_empty() {
            return Deferred::Now(Ok(()));
        }
        Deferred::later(async move { self.dispatch(bound, found, attributes, object).await })
    }
}
