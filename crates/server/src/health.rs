//! `/livez`, `/readyz`, `/healthz`: named checks, and their results in plain text.
//!
//! Every [`Check`] is added before the server starts; the order of adding is the order in the verbose
//! response. The texts are those of the reference: the summary withholds the reason of a failure, and the
//! path of the single check has it.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::fmt::Write as _;
use std::future::Future;
use std::pin::Pin;
use std::time::{Duration, Instant};

use http::StatusCode;
use http::header::{CONTENT_TYPE, HeaderValue};
use object::quote::quote;

use crate::error::plain_text;
use crate::measure;
use crate::{Body, Error, Lifecycle, Phase, Query, Response};

/// A check that takes longer has failed.
const CHECK_TIMEOUT: Duration = Duration::from_secs(10);

/// One of the health endpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Endpoint {
    /// `/livez`: a failure means that the process should be restarted.
    Live,
    /// `/readyz`: a failure means that the process should get no requests.
    Ready,
    /// `/healthz`: the older form of `/livez`.
    Healthy,
}

impl Endpoint {
    /// All endpoints.
    pub const ALL: &[Self] = &[Self::Live, Self::Ready, Self::Healthy];

    /// The endpoints of a check of readiness only.
    pub const READY: &[Self] = &[Self::Ready];

    /// The name, which is also the path after the slash.
    pub fn name(self) -> &'static str {
        match self {
            Self::Live => "livez",
            Self::Ready => "readyz",
            Self::Healthy => "healthz",
        }
    }
}

impl Endpoint {
    /// The path.
    pub(crate) fn path(self) -> &'static str {
        match self {
            Self::Live => "/livez",
            Self::Ready => "/readyz",
            Self::Healthy => "/healthz",
        }
    }
}

type Probe = dyn Fn() -> Pin<Box<dyn Future<Output = Result<(), String>> + Send>> + Send + Sync;

/// One named check.
pub struct Check {
    name: Cow<'static, str>,
    endpoints: &'static [Endpoint],
    probe: Box<Probe>,
    /// Until when the check passes for `/livez` whatever its outcome.
    live_until: Option<Instant>,
}

impl Check {
    /// A check with a name, its endpoints, and its function. An error is the reason of the failure, as text.
    pub fn new<F>(
        name: impl Into<Cow<'static, str>>,
        endpoints: &'static [Endpoint],
        probe: impl Fn() -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<(), String>> + Send + 'static,
    {
        let probe: Box<Probe> = Box::new(move || Box::pin(probe()));
        Self { name: name.into(), endpoints, probe, live_until: None }
    }

    /// Passes for `/livez` until then: a start that takes long is no reason for a restart.
    pub fn live_until(self, until: Instant) -> Self {
        Self { live_until: Some(until), ..self }
    }

    /// The check that always passes.
    pub fn ping() -> Self {
        Self::new("ping", Endpoint::ALL, || async { Ok(()) })
    }

    /// The check that fails readiness as soon as a stop is requested.
    pub fn shutdown(lifecycle: Lifecycle) -> Self {
        Self::new("shutdown", Endpoint::READY, move || {
            let serving = lifecycle.phase() == Phase::Serving;
            async move { if serving { Ok(()) } else { Err("process is shutting down".into()) } }
        })
    }

    async fn run(&self, endpoint: Endpoint) -> Result<(), String> {
        if endpoint == Endpoint::Live && self.live_until.is_some_and(|until| Instant::now() <= until) {
            return Ok(());
        }
        match tokio::time::timeout(CHECK_TIMEOUT, (self.probe)()).await {
            Ok(outcome) => outcome,
            Err(_) => Err(format!("no answer within {} s", CHECK_TIMEOUT.as_secs())),
        }
    }
}

impl fmt::Debug for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Check")
            .field("name", &self.name)
            .field("endpoints", &self.endpoints)
            .finish_non_exhaustive()
    }
}

/// Two checks with the same name for the same endpoint.
#[derive(Debug, thiserror::Error)]
#[error("the health check {0:?} has been added already")]
pub struct Duplicate(String);

/// All checks of a server.
#[derive(Debug, Default)]
pub struct Checks {
    checks: Vec<Check>,
    notes: Option<Notes>,
}

/// Warnings of a server that is ready.
struct Notes(Box<dyn Fn() -> Vec<String> + Send + Sync>);

impl fmt::Debug for Notes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Notes").finish_non_exhaustive()
    }
}

/// The client of a health request. Only an authenticated user sees notes, which contain names of objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Audience {
    /// An authenticated user.
    Known,
    /// An unauthenticated client.
    Stranger,
}

/// The checks that a health path names.
#[derive(Debug, Clone, Copy)]
pub(crate) enum HealthRequest<'a> {
    /// All checks of an endpoint.
    Summary(Endpoint),
    /// One check of an endpoint.
    Single(Endpoint, &'a Check),
}

impl Checks {
    /// No checks.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a check at the end.
    pub fn add(&mut self, check: Check) -> Result<(), Duplicate> {
        if self.checks.iter().any(|other| other.name == check.name) {
            return Err(Duplicate(check.name.into_owned()));
        }
        self.checks.push(check);
        Ok(())
    }

    /// Adds warnings to the verbose response of readiness. They do not fail it.
    pub fn note(&mut self, notes: impl Fn() -> Vec<String> + Send + Sync + 'static) {
        self.notes = Some(Notes(Box::new(notes)));
    }

    /// Whether all checks of `endpoint` pass now.
    pub async fn pass(&self, endpoint: Endpoint) -> bool {
        for check in self.of(endpoint) {
            if check.run(endpoint).await.is_err() {
                return false;
            }
        }
        true
    }

    /// The checks that `path` names, if it is a health path; the name of a check may contain slashes.
    pub(crate) fn find(&self, path: &str) -> Option<HealthRequest<'_>> {
        let path = path.strip_prefix('/')?;
        let endpoint = *Endpoint::ALL.iter().find(|endpoint| path.starts_with(endpoint.name()))?;
        let rest = path.get(endpoint.name().len()..)?;
        if rest.is_empty() {
            return Some(HealthRequest::Summary(endpoint));
        }
        let name = rest.strip_prefix('/')?;
        let check = self.of(endpoint).find(|check| check.name == name);
        check.map(|check| HealthRequest::Single(endpoint, check))
    }

    pub(crate) async fn answer(
        &self,
        request: HealthRequest<'_>,
        query: Query<'_>,
        audience: Audience,
    ) -> Result<Response, Error> {
        match request {
            HealthRequest::Summary(endpoint) => self.summary(endpoint, query, audience).await,
            HealthRequest::Single(endpoint, check) => single(endpoint, check).await,
        }
    }

    fn of(&self, endpoint: Endpoint) -> impl Iterator<Item = &Check> {
        self.checks.iter().filter(move |check| check.endpoints.contains(&endpoint))
    }

    async fn summary(
        &self,
        endpoint: Endpoint,
        query: Query<'_>,
        audience: Audience,
    ) -> Result<Response, Error> {
        let mut excluded: BTreeSet<Cow<'_, str>> = query.values("exclude").collect();
        let mut lines = String::new();
        let mut failed = false;
        for check in self.of(endpoint) {
            let name = &check.name;
            let outcome = if excluded.remove(name.as_ref()) {
                "excluded: ok"
            } else {
                let outcome = check.run(endpoint).await;
                measure::health_check(name, endpoint.name(), outcome.is_ok());
                match outcome {
                    Ok(()) => "ok",
                    Err(reason) => {
                        failed = true;
                        log::debug!(endpoint = endpoint.name(), check = name.as_ref(), reason = reason.as_str(); "a health check failed");
                        "failed: reason withheld"
                    }
                }
            };
            let sign = if outcome.starts_with("failed") { '-' } else { '+' };
            let _ = writeln!(lines, "[{sign}]{name} {outcome}");
        }
        if !excluded.is_empty() {
            let names: Vec<String> = excluded.iter().map(|name| quote(name)).collect();
            let _ = writeln!(
                lines,
                "warn: some health checks cannot be excluded: no matches for {}",
                names.join(",")
            );
        }
        if let Some(Notes(notes)) = &self.notes
            && (endpoint, audience) == (Endpoint::Ready, Audience::Known)
            && (failed || query.has("verbose"))
        {
            for note in notes() {
                let _ = writeln!(lines, "warn: {note}");
            }
        }
        if failed {
            let _ = writeln!(lines, "{} check failed", endpoint.name());
            return Err(Error::Unhealthy(lines));
        }
        if !query.has("verbose") {
            return Ok(plain_text(StatusCode::OK, "ok"));
        }
        let _ = writeln!(lines, "{} check passed", endpoint.name());
        Ok(plain_text(StatusCode::OK, lines))
    }
}

async fn single(endpoint: Endpoint, check: &Check) -> Result<Response, Error> {
    match check.run(endpoint).await {
        Ok(()) => {
            let mut response = Response::new(Body::from("ok"));
            response
                .headers_mut()
                .insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
            Ok(response)
        }
        Err(reason) => Err(Error::Unhealthy(format!("internal server error: {reason}\n"))),
    }
}

#[cfg(test)]
mod tests;
