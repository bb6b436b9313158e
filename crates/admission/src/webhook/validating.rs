//! `ValidatingAdmissionWebhook`: webhooks that may refuse a write, all asked at the same time.

use super::Webhooks;
use super::answer::Role;
use super::found::{Found, find, is_exempt, webhooks};
use super::review::Review;
use crate::matching::Matcher;
use crate::plugins::{Builtin, Parts};
use crate::versioned::Versioned;
use crate::{Attributes, Operation, Plugin, Reservation};
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use object::Value;
use schema::Status;
use tasks::Deferred;
use tokio::time::Instant;

/// The plugin.
pub struct ValidatingAdmissionWebhook(Webhooks);

impl ValidatingAdmissionWebhook {
    /// Asks all webhooks, and waits for all. Of several refusals the first that came counts, as in the
    /// reference.
    async fn dispatch(
        &self,
        found: Vec<Found>,
        attributes: &Attributes<'_>,
        object: Option<&Value>,
    ) -> Result<(), Status> {
        let mut versions: Vec<(Versioned, Review)> = Vec::new();
        let mut calls = Vec::new();
        let mut checks = None;
        for found in &found {
            let resource = found.matched.resource(attributes);
            let known = versions.iter().position(|(version, _)| version.is_of(resource));
            let at = match known {
                Some(at) => at,
                None => {
                    let version = Versioned::new(attributes, resource, object).await;
                    let version = version.map_err(|status| Status::internal_error(&status.message))?;
                    let review = Review::new(attributes, &version);
                    versions.push((version, review));
                    versions.len() - 1
                }
            };
            let Some((version, _)) = versions.get(at) else { continue };
            if !found.webhook.has_conditions
                || self.0.meets_conditions(found, attributes, version, &mut checks).await?
            {
                calls.push((&*found.webhook, at));
            }
        }
        let calls = calls.iter().filter_map(|(webhook, at)| Some((*webhook, &versions.get(*at)?.1)));
        let calls = calls.enumerate().map(|(index, (webhook, review))| async move {
            let start = Instant::now();
            let answer = self.0.ask(webhook, attributes, review).await;
            let outcome = answer.and_then(|answer| answer.allowed.map_err(super::call::Failure::Refused));
            self.0.count_call(webhook, attributes, start.elapsed(), outcome.as_ref().copied());
            match outcome {
                Ok(()) => Ok(()),
                Err(failure) => {
                    if matches!(failure, super::call::Failure::Calling(_)) {
                        let audit = super::audit::Place { round: 0, index, attributes, webhook };
                        audit.failed_open("validating", webhook.failure_policy);
                    }
                    self.0.refusal(webhook, attributes, start, failure)
                }
            }
        });
        let mut calls: FuturesUnordered<_> = calls.collect();
        let mut outcome = Ok(());
        while let Some(next) = calls.next().await {
            outcome = outcome.and(next);
        }
        outcome
    }

    /// The webhooks that rules and selectors match.
    fn find(&self, attributes: &Attributes<'_>, object: Option<&Value>) -> Result<Vec<Found>, Status> {
        let all = self.0.configurations.all();
        let mut matcher = Matcher::new(&self.0.namespaces);
        let mut all_found = Vec::new();
        for webhook in webhooks(&all) {
            all_found.extend(find(&mut matcher, webhook, attributes, object)?);
        }
        all_found.retain(|found| !self.0.skips(&found.webhook, attributes));
        Ok(all_found)
    }
}

impl Builtin for ValidatingAdmissionWebhook {
    const NAME: &'static str = "ValidatingAdmissionWebhook";

    fn make(parts: &Parts<'_>) -> Result<Self, String> {
        Webhooks::make(parts, Role::Validating).map(Self)
    }
}

impl Plugin for ValidatingAdmissionWebhook {
    fn handles(&self, _operation: Operation) -> bool {
        true
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'_>,
        object: Option<&'a Value>,
    ) -> Deferred<'a, Result<Option<Reservation>, Status>> {
        if is_exempt(attributes) {
            return Deferred::Now(Ok(None));
        }
        match self.find(attributes, object) {
            Err(refused) => Deferred::Now(Err(refused)),
            Ok(found) if found.is_empty() => Deferred::Now(Ok(None)),
            Ok(found) => {
                Deferred::later(async move { self.dispatch(found, attributes, object).await.map(|()| None) })
            }
        }
    }
}
