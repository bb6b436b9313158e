//! `MutatingAdmissionWebhook`: webhooks that may change an object, one after another.

use super::Webhooks;
use super::answer::{JSON_PATCH, Patch, Role};
use super::call::Failure;
use super::configuration::{Configuration, Reinvocation, Webhook};
use super::found::{find, is_exempt, webhooks};
use super::review::Review;
use crate::matching::Matcher;
use crate::plugins::{Builtin, Parts};
use crate::versioned::Versioned;
use crate::{Attributes, Operation, Plugin};
use kinds::ResourceType;
use merge::{FieldValidation, Patched};
use object::Value;
use object::quote::Quoted;
use schema::status::Reason;
use schema::{Limits, Status};
use std::sync::Arc;
use tasks::Deferred;
use tokio::time::Instant;

/// The plugin.
pub struct MutatingAdmissionWebhook(Webhooks);

impl MutatingAdmissionWebhook {
    /// Asks the webhooks from the one at `first` on.
    async fn dispatch(
        &self,
        all: Arc<[Arc<Configuration>]>,
        first: usize,
        attributes: &Attributes<'_>,
        mut object: Option<&mut Value>,
    ) -> Result<(), Status> {
        if let Some(passes) = attributes.passes.filter(|passes| passes.is_second()) {
            passes.webhooks.lock().begin_again(object.as_deref());
        }
        let mut matcher = Matcher::new(&self.0.namespaces);
        let mut checks = None;
        let round = u8::from(attributes.passes.is_some_and(|passes| passes.is_second()));
        for (index, webhook) in webhooks(&all).enumerate().skip(first) {
            let Some(found) = find(&mut matcher, webhook, attributes, object.as_deref())? else { continue };
            if self.0.skips(webhook, attributes) {
                continue;
            }
            let resource = found.matched.resource(attributes);
            let versioned = Versioned::new(attributes, resource, object.as_deref()).await;
            let versioned = versioned.map_err(|status| Status::internal_error(&status.message))?;
            if webhook.has_conditions
                && !self.0.meets_conditions(&found, attributes, &versioned, &mut checks).await?
            {
                continue;
            }
            let is_left_out = attributes.passes.is_some_and(|passes| {
                passes.is_second() && !passes.webhooks.lock().again.contains(&webhook.id)
            });
            if is_left_out {
                continue;
            }
            let start = Instant::now();
            let mut patch = None;
            let outcome =
                self.call(webhook, resource, &versioned, attributes, object.as_deref_mut(), &mut patch).await;
            let took = start.elapsed();
            self.0.count_call(webhook, attributes, took, outcome.as_ref().map(|_| ()));
            let audit = super::audit::Place { round, index, attributes, webhook };
            audit.mutated(matches!(outcome, Ok(Effect::Changed)), patch.as_deref());
            if let Some(passes) = attributes.passes {
                let mut memory = passes.webhooks.lock();
                if matches!(outcome, Ok(Effect::Changed)) {
                    memory.changed();
                    passes.again();
                }
                if webhook.reinvocation == Reinvocation::IfNeeded {
                    memory.candidates.insert(webhook.id.clone());
                }
            }
            if let Err(failure) = outcome {
                if matches!(failure, Failure::Calling(_)) {
                    audit.failed_open("mutating", webhook.failure_policy);
                }
                self.0.refusal(webhook, attributes, start, failure)?;
            }
        }
        if let Some(passes) = attributes.passes {
            passes.webhooks.lock().output = object.as_deref().cloned();
        }
        Ok(())
    }

    async fn call(
        &self,
        webhook: &Webhook,
        resource: &ResourceType,
        versioned: &Versioned,
        attributes: &Attributes<'_>,
        object: Option<&mut Value>,
        applied: &mut Option<Vec<u8>>,
    ) -> Result<Effect, Failure> {
        let failed = |status: Status| Failure::internal(&status.message);
        let answer = self.0.ask(webhook, attributes, &Review::new(attributes, versioned)).await?;
        answer.allowed.map_err(Failure::Refused)?;
        let Some(patch) = answer.patch.filter(|patch| !is_empty(&patch.bytes)) else {
            return Ok(Effect::None);
        };
        let (Some(target), Some(before)) = (object, &versioned.object) else {
            let name = Quoted(&webhook.name);
            return Err(Failure::internal(&format!(
                "admission webhook {name} attempted to modify the object, which is not supported for this operation"
            )));
        };
        let patched = apply(&patch, versioned, before)?;
        *applied = Some(patch.bytes.to_vec());
        if patched.value == *before {
            return Ok(Effect::None);
        }
        let to_working = |resource| attributes.request.to_working(patched.value, resource);
        *target = if patched.ty.name == versioned.ty.name {
            to_working(resource).await
        } else {
            // The patch has put another version into the object.
            let all = attributes.request.equivalents();
            let found = all.iter().find(|other| other.ty.name == patched.ty.name);
            to_working(found.map_or(resource, |found| &**found)).await
        }
        .map_err(failed)?;
        Ok(Effect::Changed)
    }
}

/// The effect of a webhook on an object.
#[derive(Debug, PartialEq, Eq)]
enum Effect {
    None,
    Changed,
}

/// Whether a patch has no operations.
fn is_empty(patch: &[u8]) -> bool {
    let mut text = patch.iter().filter(|byte| !byte.is_ascii_whitespace());
    text.by_ref().take(5).eq(b"[]") || patch.trim_ascii() == b"null"
}

/// Applies the patch of a webhook to an object.
fn apply(patch: &Patch, versioned: &Versioned, before: &Value) -> Result<Patched, Failure> {
    if patch.ty != JSON_PATCH {
        return Err(Failure::Calling(format!("unsupported patch type {}", Quoted(&patch.ty))));
    }
    let (ty, limits) = (&versioned.ty, &Limits::REQUEST);
    let patched = merge::json_patch::apply(ty, before, &patch.bytes, FieldValidation::Ignore, limits);
    let unforeseen = |message| {
        let (reason, token) = (Reason::Unknown, String::new());
        Failure::Refused(Box::new(Status { code: 500, reason, message, details: None, token }))
    };
    patched.map_err(|error| match error {
        // The object is of another kind now, which the reference finds out later.
        merge::Error::Invalid { detail, .. } if detail.ends_with(merge::UNKNOWN_CONVERSION) => {
            unforeseen(detail)
        }
        merge::Error::Invalid { detail, .. } => Failure::internal(&detail),
        merge::Error::Internal(message) => unforeseen(message),
        other => Failure::internal(&other.to_string()),
    })
}

impl Builtin for MutatingAdmissionWebhook {
    const NAME: &'static str = "MutatingAdmissionWebhook";

    fn make(parts: &Parts<'_>) -> Result<Self, String> {
        Webhooks::make(parts, Role::Mutating).map(Self)
    }
}

impl Plugin for MutatingAdmissionWebhook {
    fn handles(&self, _operation: Operation) -> bool {
        true
    }

    fn mutate<'a>(
        &'a self,
        attributes: &'a Attributes<'_>,
        object: Option<&'a mut Value>,
    ) -> Deferred<'a, Result<(), Status>> {
        let all = self.0.configurations.all();
        if all.is_empty() || is_exempt(attributes) {
            return Deferred::Now(Ok(()));
        }
        let mut matcher = Matcher::new(&self.0.namespaces);
        let mut found =
            webhooks(&all).map(|webhook| find(&mut matcher, webhook, attributes, object.as_deref()));
        match found.position(|found| !matches!(found, Ok(None))) {
            None => Deferred::Now(Ok(())),
            Some(first) => {
                drop(found);
                Deferred::later(async move { self.dispatch(all, first, attributes, object).await })
            }
        }
    }
}
