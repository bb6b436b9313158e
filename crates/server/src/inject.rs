//! Faults on demand: the layer that has requests meet them. Which request meets which fault is decided in the
//! crate `faults`.
//!
//! 1. Requests for resources alone meet faults. Health, metrics, discovery, `/keelson/v1` and the server's
//!    own work do not.
//! 2. The layer stands where the user is known, and outside of fairness: a request that is delayed holds no
//!    seats.
//! 3. Every response that is sent has `X-Keelson-Fault` for each fault that it met. Each fault is counted,
//!    and logged.
//! 4. Some faults are done elsewhere: watches and stale reads by the API ([`CallFaults`]), cut connections by
//!    [`crate::connection`] ([`Cut`]), crashes where the registry commits
//!    ([`observe::Observation::at_commits`]).

mod history;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use faults::{Call, CommitPoint, Fault, Faults, Hit, Hits, StaleBy, WatchEnd, WatchEndsAfter};
use http::header::{HeaderName, RETRY_AFTER, USER_AGENT};
use http::{HeaderValue, StatusCode};
use metrics::{CounterVec, Stability};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use registry::Registry;
use schema::status::{Details, Reason};
use store::Revision;

use crate::error::plain_text;
use crate::handler::{Handler, Layer};
use crate::request_info::{RequestInfo, Verb};
use crate::{Error, Request, Response, Status, layers};
use history::History;

metrics::families! {
    /// Faults that requests met.
    static INJECTED: CounterVec<1> = CounterVec::new(
        "keelson_faults_injected_total",
        "Number of faults that requests met on demand, by rule.",
        Stability::Alpha,
        ["rule"],
    );
}

const HEADER: HeaderName = HeaderName::from_static("x-keelson-fault");

/// Has requests meet the faults of a plan.
#[derive(Clone)]
pub struct Injection {
    faults: Faults,
    registry: Arc<Registry>,
    history: Arc<History>,
}

impl fmt::Debug for Injection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Injection").field("faults", &self.faults).finish_non_exhaustive()
    }
}

impl Injection {
    /// The faults of the requests to a registry: none until a client asks for some.
    pub fn new(registry: Arc<Registry>) -> Self {
        metrics::MAIN.register(FAMILIES);
        Self { faults: Faults::default(), registry, history: Arc::default() }
    }

    /// The rules.
    pub(crate) fn faults(&self) -> &Faults {
        &self.faults
    }

    /// Notes the revision of now, if a rule asks for the state of some time ago.
    fn note_revision(&self) {
        if let Some(longest) = self.faults.oldest() {
            self.history.note(self.registry.cache().revision(), longest);
        }
    }

    /// The revision that a stale read shows.
    fn stale(&self, by: StaleBy) -> Revision {
        let cache = self.registry.cache();
        let now = cache.revision();
        let wanted = match by {
            StaleBy::Revisions(count) => Revision(now.0.saturating_sub(count)),
            StaleBy::Time(time) => self.history.revision(time).unwrap_or(now),
        };
        // History reaches no further.
        wanted.max(cache.store().compacted()).max(Revision(1))
    }

    /// What the API has to do of the faults of a request.
    fn for_api(&self, hits: &Hits) -> Option<CallFaults> {
        let mut faults = CallFaults::default();
        for hit in hits.iter() {
            match &hit.rule.fault {
                Fault::EndWatch { after, with } => faults.watch.end = Some((*after, *with)),
                Fault::DelayEvents { duration } => faults.watch.delay = Some(*duration),
                Fault::OmitBookmarks => faults.watch.omits_bookmarks = true,
                Fault::StaleRead { by } => faults.stale = Some(self.stale(*by)),
                _ => {}
            }
        }
        (faults != CallFaults::default()).then_some(faults)
    }

    /// Has a request meet its faults.
    async fn meet<H: Handler>(&self, mut request: Request, next: &H, hits: Hits) -> Result<Response, Error> {
        let target = Target::of(&request)?;
        for hit in hits.iter() {
            let rule = hit.rule.name.as_str();
            INJECTED.with([rule]).inc();
            log::debug!(rule, fault = hit.rule.fault.as_str(), verb = target.verb.as_str(), uri:% = request.uri(); "a request meets a fault");
        }
        let wait: Duration = hits.modifiers.iter().map(|hit| hit.wait).sum();
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
        if let Some(faults) = self.for_api(&hits) {
            request.head.extensions.insert(faults);
        }
        let format = request.context.error_format;
        let handle = async |request: Request| {
            next.handle(request).await.unwrap_or_else(|error| error.into_response(format))
        };
        let mut response = match hits.outcome.as_ref().map(|hit| &hit.rule.fault) {
            Some(Fault::Error { code, reason, message, retry_after }) => {
                let status = error(*code, reason.as_deref(), message.as_deref(), *retry_after);
                Error::from(status).into_response(format)
            }
            Some(Fault::Throttle { retry_after }) => too_many(*retry_after),
            Some(Fault::Conflict { after_commit: false }) => {
                Error::from(target.conflict()).into_response(format)
            }
            Some(Fault::Conflict { after_commit: true }) => {
                let is_committed = Arc::<AtomicBool>::default();
                let noted = is_committed.clone();
                request.context.observation.at_commits(move |stage| {
                    noted.fetch_or(stage == observe::Commit::Done, Ordering::AcqRel);
                });
                let response = handle(request).await;
                match is_committed.load(Ordering::Acquire) {
                    true => Error::from(target.conflict()).into_response(format),
                    false => response,
                }
            }
            Some(Fault::LoseAnswer) => cut(handle(request).await, Cut::Stream),
            Some(Fault::CutConnection) => cut(unanswered(), Cut::Connection),
            Some(Fault::Crash { at }) => {
                let at = match at {
                    CommitPoint::Before => observe::Commit::Begins,
                    CommitPoint::After => observe::Commit::Done,
                };
                let rule = hits.outcome.as_ref().map(|hit| hit.rule.name.clone()).unwrap_or_default();
                request.context.observation.at_commits(move |stage| {
                    if stage == at {
                        crash(&rule);
                    }
                });
                handle(request).await
            }
            _ => handle(request).await,
        };
        for hit in hits.iter() {
            name(&mut response, hit);
        }
        Ok(response)
    }
}

impl Layer for Option<Injection> {
    async fn around<H: Handler>(&self, request: Request, next: &H) -> Result<Response, Error> {
        let Some(injection) = self.as_ref().filter(|injection| injection.faults.seed().is_some()) else {
            return next.handle(request).await;
        };
        let hits = injection.decide(&request)?;
        match hits.is_empty() {
            true => next.handle(request).await,
            // Boxed: requests without faults need not carry it.
            false => Box::pin(injection.meet(request, next, hits)).await,
        }
    }
}

impl Injection {
    fn decide(&self, request: &Request) -> Result<Hits, Error> {
        let Some(path) = &request.context.path else { return Ok(Hits::default()) };
        let Ok(info) = RequestInfo::parse(request.method(), path, request.query()) else {
            return Ok(Hits::default());
        };
        if !info.is_resource_request {
            return Ok(Hits::default());
        }
        self.note_revision();
        let first = request.query().values("resourceVersion").next();
        let caller = layers::caller(request)?;
        Ok(self.faults.decide(&Call {
            user: &caller.user().name,
            user_agent: request.header(USER_AGENT),
            verb: info.verb.as_str(),
            group: info.api_group,
            resource: info.resource,
            subresource: info.subresource,
            namespace: info.namespace.unwrap_or_default(),
            name: &info.name,
            reads_any: first.is_some_and(|version| version == "0"),
        }))
    }
}

/// What the API does of the faults of a request: an extension of the request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CallFaults {
    pub(crate) watch: WatchFaults,
    /// The state that a read with `resourceVersion=0` shows.
    pub(crate) stale: Option<Revision>,
}

/// The faults of a watch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WatchFaults {
    pub(crate) end: Option<(WatchEndsAfter, WatchEnd)>,
    pub(crate) delay: Option<Duration>,
    pub(crate) omits_bookmarks: bool,
}

/// What is cut instead of a response that is not sent: an extension of that response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// The stream; with HTTP/1.1 the connection.
    Stream,
    /// The connection, with all its streams.
    Connection,
}

fn cut(mut response: Response, what: Cut) -> Response {
    response.extensions_mut().insert(what);
    response
}

/// A response that is not sent, as the audit log has it.
fn unanswered() -> Response {
    let mut response = Response::default();
    *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    response
}

/// Names the rule of a fault in the response.
fn name(response: &mut Response, hit: &Hit) {
    if let Ok(rule) = HeaderValue::from_str(&hit.rule.name) {
        response.headers_mut().append(HEADER, rule);
    }
}

/// What a request is about, for conflicts and the log.
struct Target {
    verb: Verb,
    group: String,
    resource: String,
    name: String,
}

impl Target {
    fn of(request: &Request) -> Result<Self, Error> {
        let path = request.context.path.as_deref().unwrap_or_default();
        let info = RequestInfo::parse(request.method(), path, request.query());
        let info = info.map_err(|_| Error::incomplete_path(request.uri()))?;
        Ok(Self {
            verb: info.verb,
            group: info.api_group.to_owned(),
            resource: info.resource.to_owned(),
            name: info.path_name.to_owned(),
        })
    }

    /// The 409 that the verb has.
    fn conflict(&self) -> Status {
        let Self { verb, group, resource, name } = self;
        match verb.as_str() {
            "create" => Status::already_exists(group, resource, name),
            _ => Status::conflict(
                group,
                resource,
                name,
                "the object has been modified; please apply your changes to the latest version and try again",
            ),
        }
    }
}

/// A `Status` as the reference has it for a code.
fn error(code: u16, reason: Option<&str>, message: Option<&str>, retry_after: Option<u32>) -> Status {
    let (usual, text) = match code {
        400 => (Reason::BadRequest, "the server rejected our request for an unknown reason"),
        401 => (Reason::Unauthorized, "Unauthorized"),
        403 => (Reason::Forbidden, "forbidden"),
        404 => (Reason::NotFound, "the server could not find the requested resource"),
        405 => (Reason::MethodNotAllowed, "the server does not allow this method on the requested resource"),
        406 => (
            Reason::NotAcceptable,
            "the server was unable to respond with a content type that the client supports",
        ),
        409 => (
            Reason::Conflict,
            "Operation cannot be fulfilled: the object has been modified; please apply your changes to the latest version and try again",
        ),
        410 => (Reason::Expired, "The resourceVersion for the provided watch is too old."),
        413 => (Reason::RequestEntityTooLarge, "Request entity too large: limit is 3145728"),
        415 => (Reason::UnsupportedMediaType, "the body of the request was in an unknown format"),
        422 => (Reason::Invalid, "the server rejected our request due to an error in our request"),
        429 => (
            Reason::TooManyRequests,
            "the server has received too many requests and has asked us to try again later",
        ),
        500 => (Reason::InternalError, "Internal error occurred: a fault was injected"),
        503 => (Reason::ServiceUnavailable, "the server is currently unable to handle the request"),
        504 => (Reason::Timeout, "Timeout: request did not complete within the allotted timeout"),
        _ => (Reason::Unknown, "an error on the server has prevented the request from succeeding"),
    };
    let details = retry_after.map(|seconds| Details { retry_after_seconds: seconds, ..Details::default() });
    Status {
        code,
        reason: reason.map_or(usual, Reason::from),
        message: message.unwrap_or(text).to_owned(),
        details: details.map(Box::new),
        token: String::new(),
    }
}

/// 429 as priority and fairness of the reference answers it.
fn too_many(seconds: u32) -> Response {
    let text = "Too many requests, please try again later.\n";
    let mut response = plain_text(StatusCode::TOO_MANY_REQUESTS, text);
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    response
}

/// Ends the process as a power failure would: nothing is written, nothing is said to any client.
fn crash(rule: &str) {
    log::error!(rule; "this process ends at a commit, because a fault asks for it");
    if let Err(error) = kill(Pid::this(), Signal::SIGKILL) {
        log::error!(error:%; "the process could not be ended");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::negotiate::ErrorFormat;

    #[test]
    fn error_has_what_its_code_usually_has_unless_the_rule_says_otherwise() {
        let usual = error(503, None, None, Some(3));
        assert_eq!((usual.reason.as_str(), usual.message.is_empty()), ("ServiceUnavailable", false));
        let response = Error::from(usual).into_response(ErrorFormat::JSON);
        assert_eq!(
            (response.status().as_u16(), &response.headers()[RETRY_AFTER]),
            (503, &HeaderValue::from(3))
        );
        let own = error(418, Some("Teapot"), Some("short and stout"), None);
        assert_eq!((own.code, own.reason.as_str(), own.message.as_str()), (418, "Teapot", "short and stout"));
        assert!(own.details.is_none());
    }

    #[test]
    fn throttled_requests_are_answered_as_by_priority_and_fairness() {
        let response = too_many(2);
        assert_eq!(
            (response.status().as_u16(), &response.headers()[RETRY_AFTER]),
            (429, &HeaderValue::from(2))
        );
        assert_eq!(response.headers()["content-type"], "text/plain; charset=utf-8");
    }

    #[test]
    fn conflicts_are_those_of_the_verb() {
        let target = |verb| Target {
            verb: Verb::Resource(verb),
            group: "apps".to_owned(),
            resource: "deployments".to_owned(),
            name: "a".to_owned(),
        };
        let reasons = [kinds::Verb::Create, kinds::Verb::Update, kinds::Verb::Delete]
            .map(|verb| target(verb).conflict().reason.as_str().to_owned());
        assert_eq!(reasons, ["AlreadyExists", "Conflict", "Conflict"]);
    }
}
