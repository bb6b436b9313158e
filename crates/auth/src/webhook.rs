//! The mode `Webhook`: another server decides on each request, as a `SubjectAccessReview`.
//!
//! 1. **Answers are cached**, with one lifetime for those that allow and another for the others; their number
//!    and the size of their requests are bounded.
//! 2. **Only the requests that need the server wait for it**, and no longer than its time-out.
//! 3. **Requests that do not match are not sent** ([`Conditions`]): they are left to the next mode.

mod conditions;
mod requirement;

pub use conditions::Conditions;

use crate::expiring::{Digest, Expiring};
use crate::families::{
    MATCH_DURATIONS, MATCH_ERRORS, MATCH_EXCLUSIONS, WEBHOOK_DURATIONS, WEBHOOK_EVALUATIONS,
    WEBHOOK_FAIL_OPEN,
};
use crate::{Attributes, Authorize, Decision, Reason, Rules, Selectors, Target, User, Verdict};
use aws_lc_rs::digest::{SHA256, digest};
use object::{Map, Value};
use outbound::{Endpoint, Error};
use requirement::Requirement;
use schema::view::View as _;
use schema::views::authorization::{v1, v1beta1};
use schema::{Type, json};
use std::fmt;
use std::str::FromStr;
use std::time::{Duration, Instant};
use tasks::Deferred;

/// The most answers that are kept.
const MOST_KEPT: usize = 8192;
/// The most bytes of attributes that a client chooses, or of a reason, in an answer that is kept.
const MOST_BYTES: usize = 10_000;

/// The version of the reviews.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// `v1`.
    V1,
    /// `v1beta1`.
    V1beta1,
}

impl FromStr for Version {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "v1" => Ok(Self::V1),
            "v1beta1" => Ok(Self::V1beta1),
            _ => Err(format!(
                "unsupported webhook authorizer version {}, supported versions are \"v1\", \"v1beta1\"",
                object::quote::quote(text)
            )),
        }
    }
}

/// The decision when the server does not answer, and when a match condition fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailurePolicy {
    /// The next mode decides.
    NoOpinion,
    /// The request is denied.
    Deny,
}

/// The configuration of a webhook.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    /// The version of the reviews.
    pub version: Version,
    /// How long an answer that allows is kept.
    pub authorized_ttl: Duration,
    /// How long another answer is kept.
    pub unauthorized_ttl: Duration,
    /// How long the server may take, all attempts together.
    pub timeout: Duration,
    /// The decision when the server does not answer, and when a match condition fails.
    pub failure_policy: FailurePolicy,
    /// The pauses between attempts.
    pub backoff: outbound::Backoff,
}

/// The type that decisions are counted with.
const KIND: &str = "Webhook";

/// A server that decides.
pub struct Webhook {
    server: outbound::Webhook,
    config: Config,
    conditions: Conditions,
    /// The name that its decisions are counted with.
    name: String,
    kept: Expiring<Answer>,
}

/// The answer of the server.
#[derive(Clone, Debug)]
struct Answer {
    is_allowed: bool,
    is_denied: bool,
    reason: Reason,
}

impl fmt::Debug for Webhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Webhook")
            .field("server", &self.server)
            .field("config", &self.config)
            .field("conditions", &self.conditions)
            .finish_non_exhaustive()
    }
}

impl Webhook {
    /// A server that decides on the requests that match.
    pub fn new(server: Endpoint, config: Config, conditions: Conditions) -> Self {
        let server = outbound::Webhook::new(server, config.backoff, config.timeout);
        Self { server, config, conditions, name: "webhook".into(), kept: Expiring::new(MOST_KEPT) }
    }

    /// With the name of its configuration.
    #[must_use]
    pub fn named(self, name: String) -> Self {
        Self { name, ..self }
    }

    async fn ask(&self, review: Review, key: Option<Digest>) -> Verdict {
        let begin = Instant::now();
        let outcome = self.server.review(review.ty, &review.object, None).await;
        let name = self.name.as_str();
        let is_open = outcome.is_err() && matches!(self.config.failure_policy, FailurePolicy::NoOpinion);
        let result = match &outcome {
            Ok(_) => "success",
            Err(error) if error.is_timeout() => "timeout",
            Err(_) => "error",
        };
        WEBHOOK_EVALUATIONS.with([name, result]).inc();
        WEBHOOK_DURATIONS.with([name, result]).observe_time(begin.elapsed());
        if is_open {
            WEBHOOK_FAIL_OPEN.with([name, result]).inc();
        }
        match outcome {
            Ok(object) => {
                let answer = Answer::of(&object);
                if let Some(key) = key.filter(|_| answer.reason.to_string().len() < MOST_BYTES) {
                    let ttl = match answer.is_allowed {
                        true => self.config.authorized_ttl,
                        false => self.config.unauthorized_ttl,
                    };
                    self.kept.insert(key, answer.clone(), ttl);
                }
                answer.verdict()
            }
            Err(error) => self.unanswered(&error),
        }
    }

    /// Whether the conditions hold.
    fn holds(&self, user: &User, attributes: &Attributes) -> Result<bool, String> {
        if self.conditions.is_empty() {
            return Ok(true);
        }
        let (begin, labels) = (Instant::now(), [self.name.as_str(), KIND]);
        let outcome = self.conditions.hold(user, attributes);
        MATCH_DURATIONS.with(labels).observe_time(begin.elapsed());
        match &outcome {
            Ok(true) => {}
            Ok(false) => MATCH_EXCLUSIONS.with(labels).inc(),
            Err(_) => MATCH_ERRORS.with(labels).inc(),
        }
        outcome
    }

    fn unanswered(&self, error: &Error) -> Verdict {
        log::error!(error:%; "a webhook authorizer did not answer");
        self.failed(error.to_string())
    }

    fn failed(&self, error: String) -> Verdict {
        let decision = match self.config.failure_policy {
            FailurePolicy::NoOpinion => Decision::NoOpinion,
            FailurePolicy::Deny => Decision::Deny,
        };
        Verdict { decision, reason: Reason::NONE, error: Some(error) }
    }
}

impl Authorize for Webhook {
    fn decide<'a>(&'a self, user: &'a User, attributes: &'a Attributes) -> Deferred<'a, Verdict> {
        match self.holds(user, attributes) {
            Ok(true) => {}
            Ok(false) => return Deferred::Now(Verdict::no_opinion(Reason::NONE)),
            Err(error) => return Deferred::Now(self.failed(error)),
        }
        let review = Review::new(self.config.version, user, attributes);
        // The digest keeps the memory of an entry small, however long the groups of a user are.
        let key = (controlled_bytes(attributes) < MOST_BYTES).then(|| review.digest());
        if let Some(answer) = key.as_ref().and_then(|key| self.kept.get(key)) {
            return Deferred::Now(answer.verdict());
        }
        Deferred::later(self.ask(review, key))
    }

    fn counted_as(&self) -> Option<(&'static str, &str)> {
        Some((KIND, &self.name))
    }

    fn rules(&self, _user: &User, _namespace: &str) -> Rules {
        Rules {
            is_incomplete: true,
            error: Some("webhook authorizer does not support user rule resolution".to_owned()),
            ..Rules::default()
        }
    }
}

impl Answer {
    fn of(object: &Value) -> Self {
        let empty = Map::new();
        // The status has the same form in both versions.
        let status = object.get("status").and_then(Value::as_map).unwrap_or(&empty);
        let status = v1::SubjectAccessReviewStatus::of(status);
        Self {
            is_allowed: status.allowed(),
            is_denied: status.denied(),
            reason: status.reason().to_owned().into(),
        }
    }

    fn verdict(self) -> Verdict {
        match (self.is_denied, self.is_allowed) {
            (true, true) => Verdict {
                error: Some("webhook subject access review returned both allow and deny response".to_owned()),
                ..Verdict::deny(self.reason)
            },
            (true, false) => Verdict::deny(self.reason),
            (false, true) => Verdict::allow(self.reason),
            (false, false) => Verdict::no_opinion(self.reason),
        }
    }
}

/// How many bytes of the attributes the client chooses.
fn controlled_bytes(attributes: &Attributes) -> usize {
    let target = match &attributes.target {
        Target::Path(path) => path.len(),
        Target::Resource { group, version, resource, subresource, namespace, name } => {
            [group, version, resource, subresource, namespace, name].iter().map(|text| text.len()).sum()
        }
    };
    attributes.verb.len() + target
}

/// A review of a request.
struct Review {
    ty: &'static Type,
    object: Value,
}

impl Review {
    fn new(version: Version, user: &User, attributes: &Attributes) -> Self {
        let (ty, groups) = match version {
            Version::V1 => (v1::SubjectAccessReview::schema(), v1::SubjectAccessReviewSpec::GROUPS),
            Version::V1beta1 => {
                (v1beta1::SubjectAccessReview::schema(), v1beta1::SubjectAccessReviewSpec::GROUP)
            }
        };
        let mut spec = Map::new();
        match &attributes.target {
            Target::Path(path) => {
                let mut about = Map::new();
                set(&mut about, v1::NonResourceAttributes::PATH, path);
                set(&mut about, v1::NonResourceAttributes::VERB, &attributes.verb);
                spec.insert(v1::SubjectAccessReviewSpec::NON_RESOURCE_ATTRIBUTES, about);
            }
            Target::Resource { group, version, resource, subresource, namespace, name } => {
                let mut about = Map::new();
                set(&mut about, v1::ResourceAttributes::NAMESPACE, namespace);
                set(&mut about, v1::ResourceAttributes::VERB, &attributes.verb);
                set(&mut about, v1::ResourceAttributes::GROUP, group);
                set(&mut about, v1::ResourceAttributes::VERSION, version);
                set(&mut about, v1::ResourceAttributes::RESOURCE, resource);
                set(&mut about, v1::ResourceAttributes::SUBRESOURCE, subresource);
                set(&mut about, v1::ResourceAttributes::NAME, name);
                if let Some(selectors) = &attributes.selectors {
                    add_selectors(&mut about, selectors);
                }
                spec.insert(v1::SubjectAccessReviewSpec::RESOURCE_ATTRIBUTES, about);
            }
        }
        set(&mut spec, v1::SubjectAccessReviewSpec::USER, &user.name);
        if !user.groups.is_empty() {
            spec.insert(groups, texts(&user.groups));
        }
        if !user.extra.is_empty() {
            let mut extra: Map =
                user.extra.iter().map(|(key, values)| (key.as_str(), texts(values))).collect();
            extra.sort_keys();
            spec.insert(v1::SubjectAccessReviewSpec::EXTRA, extra);
        }
        set(&mut spec, v1::SubjectAccessReviewSpec::UID, &user.uid);
        let mut object = Map::new();
        if let Some(kind) = &ty.kind {
            object.insert("kind", kind.kind.as_str());
            object.insert("apiVersion", kind.api_version().as_str());
        }
        object.insert(v1::SubjectAccessReview::SPEC, spec);
        Self { ty, object: object.into() }
    }

    fn digest(&self) -> Digest {
        let mut text = Vec::new();
        json::encode(self.ty, &self.object, &mut text);
        let mut out = [0; 32];
        out.iter_mut().zip(digest(&SHA256, &text).as_ref()).for_each(|(to, from)| *to = *from);
        out
    }
}

/// Sets a field, unless its value is empty.
fn set(map: &mut Map, key: object::Key, text: &str) {
    if !text.is_empty() {
        map.insert(key, text);
    }
}

fn texts(list: &[String]) -> Value {
    list.iter().map(|text| Value::from(text.as_str())).collect()
}

/// Adds the requirements of selectors.
fn add_selectors(about: &mut Map, selectors: &Selectors) {
    let fields: Vec<Value> = requirement::of_fields(selectors).map(shown).collect();
    let labels: Vec<Value> = requirement::of_labels(selectors).map(shown).collect();
    for (key, requirements) in
        [(v1::ResourceAttributes::FIELD_SELECTOR, fields), (v1::ResourceAttributes::LABEL_SELECTOR, labels)]
    {
        if !requirements.is_empty() {
            let mut selector = Map::new();
            let requirements: Value = requirements.into_iter().collect();
            selector.insert(v1::FieldSelectorAttributes::REQUIREMENTS, requirements);
            about.insert(key, selector);
        }
    }
}

fn shown(requirement: Requirement<'_>) -> Value {
    let Requirement { key, operator, values } = requirement;
    let mut out = Map::new();
    out.insert("key", key);
    out.insert("operator", operator);
    if !values.is_empty() {
        out.insert("values", values.into_iter().map(Value::from).collect::<Value>());
    }
    out.into()
}

#[cfg(test)]
mod tests;
