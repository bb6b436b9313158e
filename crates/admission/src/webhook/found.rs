//! The webhooks that are asked about a write: those that its rules, its selectors and its match conditions
//! leave.

use super::Webhooks;
use super::answer::Role;
use super::configuration::{Configuration, Webhook};
use crate::Attributes;
use crate::evaluation::{Checks, Input};
use crate::families::{MATCH_DURATIONS, MATCH_ERRORS, MATCH_EXCLUSIONS, Step};
use crate::matching::{Matched, Matcher};
use crate::versioned::Versioned;
use expressions::admission::Variables;
use object::Value;
use schema::Status;
use std::sync::{Arc, LazyLock};
use std::time::Instant;

/// A webhook that rules and selectors match.
pub(super) struct Found {
    pub(super) webhook: Arc<Webhook>,
    pub(super) matched: Matched,
}

/// Matches a webhook by rules and selectors.
pub(super) fn find(
    matcher: &mut Matcher<'_>,
    webhook: &Arc<Webhook>,
    attributes: &Attributes<'_>,
    object: Option<&Value>,
) -> Result<Option<Found>, Status> {
    let matched = matcher.find(&webhook.criteria, attributes, object)?;
    Ok(matched.map(|matched| Found { webhook: webhook.clone(), matched }))
}

impl Webhooks {
    /// Whether the match conditions of a webhook hold for a write. `checks` are made when the first webhook
    /// with conditions needs them.
    pub(super) async fn meets_conditions(
        &self,
        found: &Found,
        attributes: &Attributes<'_>,
        versioned: &Versioned,
        checks: &mut Option<Arc<Checks>>,
    ) -> Result<bool, Status> {
        static NO_VARIABLES: LazyLock<Variables> = LazyLock::new(Variables::default);
        let webhook = &*found.webhook;
        let checks = checks.get_or_insert_with(|| Checks::new(&self.authorizer, attributes.user));
        let input = Input::new(attributes, versioned, &found.matched, None);
        let conditions = &webhook.conditions;
        let policy = webhook.failure_policy;
        let held = conditions.hold(attributes, &input, &Value::Null, &NO_VARIABLES, checks, policy);
        let begin = Instant::now();
        let outcome = held.await;
        let (name, operation) = (webhook.name.as_str(), attributes.operation.name());
        let (kind, excluded_kind) = (
            self.counted_as(),
            match self.role {
                Role::Mutating => Step::Admit,
                Role::Validating => Step::Validate,
            }
            .as_str(),
        );
        // As in the reference: conditions that hold are not timed, and the two have other names for the
        // steps.
        match &outcome {
            Ok(true) => {}
            Ok(false) => MATCH_EXCLUSIONS.with(["webhook", name, operation, excluded_kind]).inc(),
            Err(_) => MATCH_ERRORS.with(["webhook", name, operation, kind]).inc(),
        }
        if !matches!(outcome, Ok(true)) {
            MATCH_DURATIONS.with(["webhook", name, operation, kind]).observe_time(begin.elapsed());
        }
        outcome.map_err(|why| {
            log::warn!(webhook = webhook.name.as_str(), configuration = webhook.configuration.as_str(), error = why.as_str(); "match conditions of a webhook could not be evaluated; the request is refused");
            let resource = attributes.resource;
            Status::forbidden(&resource.group, &resource.resource, attributes.name, &why)
        })
    }
}

/// Whether a write is about a configuration of webhooks or a policy, which no webhook is asked about, so that
/// each can be mended.
pub(super) fn is_exempt(attributes: &Attributes<'_>) -> bool {
    attributes.resource.group == "admissionregistration.k8s.io"
        && matches!(
            attributes.resource.kind.as_str(),
            "ValidatingWebhookConfiguration"
                | "MutatingWebhookConfiguration"
                | "ValidatingAdmissionPolicy"
                | "ValidatingAdmissionPolicyBinding"
                | "MutatingAdmissionPolicy"
                | "MutatingAdmissionPolicyBinding"
        )
}

/// The webhooks of all configurations, in their order.
pub(super) fn webhooks(all: &[Arc<Configuration>]) -> impl Iterator<Item = &Arc<Webhook>> {
    all.iter().flat_map(|configuration| &configuration.webhooks)
}
