//! `ValidatingAdmissionWebhook`: webhooks that may refuse a write, all asked at the same time.

use super::Webhooks;
use super::answer::Role;
use super::matching::{Matched, Matcher, is_exempt, webhooks};
use super::review::Versioned;
use crate::plugins::{Builtin, Parts};
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
        matched: Vec<Matched>,
        attributes: &Attributes<'_>,
        object: Option<&Value>,
    ) -> Result<(), Status> {
        let mut versions: Vec<Versioned> = Vec::new();
        let mut calls = Vec::new();
        for matched in &matched {
            let resource = matched.resource(attributes);
            let known = versions.iter().position(|version| version.is_of(resource));
            let at = match known {
                Some(at) => at,
                None => {
                    let version = Versioned::new(attributes, resource, object).await;
                    versions.push(version.map_err(|status| Status::internal_error(&status.message))?);
                    versions.len() - 1
                }
            };
            calls.push((matched, at));
        }
        let calls = calls.iter().filter_map(|(matched, at)| Some((*matched, versions.get(*at)?)));
        let calls = calls.map(|(matched, version)| async move {
            let start = Instant::now();
            let answer = self.0.ask(matched, attributes, version).await;
            let outcome = answer.and_then(|answer| answer.allowed.map_err(super::call::Failure::Refused));
            match outcome {
                Ok(()) => Ok(()),
                Err(failure) => self.0.refusal(&matched.webhook, attributes, start, failure),
            }
        });
        let mut calls: FuturesUnordered<_> = calls.collect();
        let mut outcome = Ok(());
        while let Some(next) = calls.next().await {
            outcome = outcome.and(next);
        }
        outcome
    }

    /// The webhooks that are asked about a write.
    fn find(&self, attributes: &Attributes<'_>, object: Option<&Value>) -> Result<Vec<Matched>, Status> {
        let all = self.0.configurations.all();
        let mut matcher = Matcher::new(&self.0.namespaces);
        let mut found = Vec::new();
        for webhook in webhooks(&all) {
            found.extend(matcher.find(webhook, attributes, object)?);
        }
        found.retain(|matched| !self.0.skips(&matched.webhook, attributes));
        Ok(found)
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
            Ok(matched) if matched.is_empty() => Deferred::Now(Ok(None)),
            Ok(matched) => {
                Deferred::later(
                    async move { self.dispatch(matched, attributes, object).await.map(|()| None) },
                )
            }
        }
    }
}
