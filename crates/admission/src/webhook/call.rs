//! Asks one webhook, and says what became of it.

use super::Webhooks;
use super::answer::{Answer, Role};
use super::configuration::{SideEffects, Webhook};
use super::places::NoPlace;
use super::review::Review;
use crate::Attributes;
use crate::conditions::FailurePolicy;
use crate::families::{self, FAIL_OPEN, REJECTIONS, WEBHOOK_REQUESTS, WEBHOOKS};
use object::quote::Quoted;
use observe::{Part, Span};
use outbound::{Bounds, Error};
use schema::view::View as _;
use schema::views::admission::v1::AdmissionReview;
use schema::{Limits, Status};
use std::time::Duration;
use tokio::time::Instant;

/// The most bytes of an answer.
const MOST_BYTES: usize = Limits::REQUEST.bytes;
/// The code that a webhook without an answer is counted with.
const CALLING_CODE: u16 = 400;
/// The longest time for an answer, whatever the webhook allows itself.
const LONGEST: Duration = Duration::from_secs(30);

/// Why a webhook did not let a request pass.
#[derive(Debug)]
pub(crate) enum Failure {
    /// There is no answer that can be used: its failure policy decides. The text says why.
    Calling(String),
    /// The request is refused, whatever the failure policy is.
    Refused(Box<Status>),
}

impl Failure {
    /// 500 whatever the failure policy is.
    pub(crate) fn internal(why: &str) -> Self {
        Self::Refused(Box::new(Status::internal_error(why)))
    }
}

impl Webhooks {
    /// Asks a webhook. Its warnings and audit annotations are recorded, also if it refuses.
    pub(super) async fn ask(
        &self,
        webhook: &Webhook,
        attributes: &Attributes<'_>,
        review: &Review,
    ) -> Result<Answer, Failure> {
        check_dry_run(webhook, attributes)?;
        let version = webhook.review_version.ok_or_else(|| {
            let why = "webhook does not accept known AdmissionReview versions (v1, v1beta1)";
            Failure::Calling(format!("could not create admission objects: {why}"))
        })?;
        let endpoint = webhook.connections.get_or_init(|| self.clients.get(&webhook.server));
        let endpoint =
            endpoint.as_ref().map_err(|why| Failure::Calling(format!("could not get REST client: {why}")))?;
        let uid = object::name::random_uid();
        let span = self.span(webhook, attributes, &uid);
        let exchange = self.guarded(webhook, attributes, async {
            let deadline = deadline(webhook, attributes);
            let _place = self.places.take(webhook, review.bytes, deadline).await.map_err(|NoPlace| {
                let error = Error::Timeout { method: "Post", url: endpoint.url() };
                format!("failed to call webhook: {error}")
            })?;
            let body = review.encode(&uid, version);
            let bounds = Bounds { deadline, most_bytes: MOST_BYTES };
            let of = (AdmissionReview::schema(), version.api_version());
            let review = endpoint.review(&webhook.server.path, body, bounds, of);
            let review = outbound::within_trace(span.headers(), review).await;
            span.step("Request completed");
            let review = review.map_err(|error| format!("failed to call webhook: {error}"))?;
            Answer::read(&review, &uid, webhook, version, self.role)
                .map_err(|why| format!("received invalid webhook response: {why}"))
        });
        let answer = exchange.await.map_err(Failure::Calling)?;
        attributes.warnings.extend(answer.warnings.iter().cloned());
        for (key, value) in &answer.annotations {
            attributes.annotate(&format!("{}/{key}", webhook.name), value);
        }
        Ok(answer)
    }

    /// The span of a call, with the fields of the reference. Validating webhooks are asked at the same time.
    fn span(&self, webhook: &Webhook, attributes: &Attributes<'_>, uid: &str) -> Span {
        let fields = || {
            let Attributes { resource, subresource, .. } = attributes;
            let shown = format!("{}/{}, Resource={}", resource.group, resource.version, resource.resource);
            vec![
                ("configuration", webhook.configuration.as_str().into()),
                ("webhook", webhook.name.as_str().into()),
                ("resource", shown.into()),
                ("subresource", (*subresource).into()),
                ("operation", attributes.operation.name().into()),
                ("UID", uid.into()),
            ]
        };
        match self.role {
            Role::Mutating => attributes.observation.span("Call mutating webhook", fields),
            Role::Validating => attributes.observation.parallel_span("Call validating webhook", fields),
        }
    }

    /// Asks, unless the breaker of the webhook is open, and tells the breaker how it went.
    async fn guarded(
        &self,
        webhook: &Webhook,
        attributes: &Attributes<'_>,
        exchange: impl Future<Output = Result<Answer, String>>,
    ) -> Result<Answer, String> {
        let Some(most) = self.settings.breaker_failures else { return exchange.await };
        let role = match self.role {
            Role::Mutating => "mutating",
            Role::Validating => "validating",
        };
        let name = format!("{} of {role} configuration {}", webhook.name, webhook.configuration);
        let breakers = &self.breakers;
        if let Err(why) = breakers.check(&name) {
            let shown = Quoted(&webhook.name);
            attributes.warnings.extend([format!("admission webhook {shown} was not called: {why}")]);
            return Err(why);
        }
        let outcome = exchange.await;
        match &outcome {
            Ok(_) => breakers.succeeded(&name),
            Err(why) => breakers.failed(&name, most, why),
        }
        outcome
    }

    /// The error of a request that a webhook, called at `start`, has refused or failed; `Ok` if failures of
    /// the webhook are ignored. Logs the webhook, the duration of the call and the reason.
    pub(super) fn refusal(
        &self,
        webhook: &Webhook,
        attributes: &Attributes<'_>,
        start: Instant,
        failure: Failure,
    ) -> Result<(), Status> {
        let (name, configuration) = (webhook.name.as_str(), webhook.configuration.as_str());
        let milliseconds = start.elapsed().as_millis() as u64;
        let resource = shown(attributes);
        match failure {
            Failure::Calling(why) if webhook.failure_policy == FailurePolicy::Ignore => {
                FAIL_OPEN.with([name, self.counted_as()]).inc();
                log::warn!(webhook = name, configuration, resource = resource.as_str(), milliseconds, error = why.as_str(); "a webhook failed, which is ignored");
                check_deadline(attributes)
            }
            Failure::Calling(why) => {
                self.count_rejection(webhook, attributes, "calling_webhook_error", CALLING_CODE);
                log::warn!(webhook = name, configuration, resource = resource.as_str(), milliseconds, error = why.as_str(); "a webhook failed, which refuses the request");
                check_deadline(attributes)?;
                let why = format!("failed calling webhook {}: {why}", Quoted(name));
                Err(Status::internal_error(&why))
            }
            Failure::Refused(status) => {
                self.count_rejection(webhook, attributes, "no_error", status.code);
                log::warn!(webhook = name, configuration, resource = resource.as_str(), milliseconds, code = status.code, error = status.message.as_str(); "a webhook refused a request");
                Err(*status)
            }
        }
    }

    /// The value of the label `type`.
    pub(super) fn counted_as(&self) -> &'static str {
        match self.role {
            Role::Mutating => "admit",
            Role::Validating => "validating",
        }
    }

    fn count_rejection(&self, webhook: &Webhook, attributes: &Attributes<'_>, error: &str, code: u16) {
        let (code, operation) = (code.min(600).to_string(), attributes.operation.name());
        REJECTIONS.with([error, &webhook.name, operation, &code, self.counted_as()]).inc();
    }

    /// Counts a webhook that was asked, and answered with a code, or did not answer.
    pub(super) fn count_call(
        &self,
        webhook: &Webhook,
        attributes: &Attributes<'_>,
        took: Duration,
        outcome: Result<(), &Failure>,
    ) {
        let (code, rejected) = match outcome {
            Ok(()) => (200, "false"),
            Err(Failure::Refused(status)) => (status.code.min(600), "true"),
            Err(Failure::Calling(_)) => {
                (CALLING_CODE, families::text(webhook.failure_policy != FailurePolicy::Ignore))
            }
        };
        let (name, operation, code) = (&*webhook.name, attributes.operation.name(), code.to_string());
        WEBHOOK_REQUESTS.with([&code, name, operation, rejected, self.counted_as()]).inc();
        WEBHOOKS.with([name, operation, rejected, self.counted_as()]).observe_time(took);
        if let Some(times) = attributes.observation.times() {
            match self.role {
                Role::Mutating => times.add(Part::MutatingWebhooks, took),
                Role::Validating => times.longest(Part::ValidatingWebhooks, took),
            }
        }
    }

    /// Whether a webhook is skipped: the write is one of the server itself at startup, or an administrator
    /// has broken the glass.
    pub(super) fn skips(&self, webhook: &Webhook, attributes: &Attributes<'_>) -> bool {
        if !attributes.request.asks_webhooks() {
            return true;
        }
        let skips = self.settings.break_glass && attributes.user.is_in(auth::User::MASTERS);
        if skips {
            let (name, configuration) = (webhook.name.as_str(), webhook.configuration.as_str());
            let user = attributes.user.name.as_str();
            log::warn!(user, operation = attributes.operation.name(), resource:% = shown(attributes), webhook = name, configuration; "a webhook is skipped, because --break-glass-skip-webhooks is on");
        }
        skips
    }
}

/// 504 after the deadline of the request. The timeout of the request then ended the call of the webhook.
fn check_deadline(attributes: &Attributes<'_>) -> Result<(), Status> {
    match attributes.request.deadline() {
        Some(deadline) if deadline <= Instant::now() => {
            let why = "request did not complete within requested timeout - context deadline exceeded";
            Err(Status::timeout(why))
        }
        _ => Ok(()),
    }
}

/// A webhook with side effects is not asked about a dry run.
fn check_dry_run(webhook: &Webhook, attributes: &Attributes<'_>) -> Result<(), Failure> {
    match webhook.side_effects {
        _ if !attributes.dry_run => Ok(()),
        SideEffects::NoneOnDryRun => Ok(()),
        SideEffects::NotGiven => Err(Failure::Calling("Webhook SideEffects is nil".to_owned())),
        SideEffects::Some => {
            let why = format!("admission webhook {} does not support dry run", Quoted(&webhook.name));
            Err(Failure::Refused(Box::new(Status::bad_request(why))))
        }
    }
}

/// When a webhook that is asked now must have answered: within its own time and that of the request.
fn deadline(webhook: &Webhook, attributes: &Attributes<'_>) -> Instant {
    let until = Instant::now() + webhook.timeout.unwrap_or(LONGEST).min(LONGEST);
    attributes.request.deadline().map_or(until, |deadline| deadline.min(until))
}

/// The object of a write, for the log: `pods NAMESPACE/NAME`.
fn shown(attributes: &Attributes<'_>) -> String {
    let Attributes { resource, subresource, namespace, name, .. } = attributes;
    let slash = if subresource.is_empty() { "" } else { "/" };
    let group = if resource.group.is_empty() { "" } else { "." };
    format!("{}{slash}{subresource}{group}{} {namespace}/{name}", resource.resource, resource.group)
}
