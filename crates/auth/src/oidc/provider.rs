//! The discovery document and the keys of an issuer.
//!
//! 1. **One request at a time.** Tokens that need new keys wait for the same answer.
//! 2. **At most one request a second**, whichever keys tokens name. After a failure the pauses grow, and
//!    until the next request tokens with unknown keys are refused at once.
//! 3. **Keys are kept** until the issuer returns others: if the issuer does not answer, tokens with known
//!    keys stay valid.

use crate::jwt::KeySet;
use http::{StatusCode, Uri};
use object::Value;
use object::excerpt::shorten_to;
use object::quote::{Quoted, quote};
use outbound::{Answer, Bounds, Client, Shared};
use schema::{Limits, Shape, json};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tasks::{Ended, Name, Task};
use tokio::time::{Instant, sleep, sleep_until};

const WELL_KNOWN: &str = "/.well-known/openid-configuration";
/// How long an issuer may take to answer.
pub(super) const TIMEOUT: Duration = Duration::from_secs(10);
/// The most bytes of an answer.
pub(super) const MOST_BYTES: usize = 1 << 20;
/// The most bytes of an answer in an error.
const MOST_ERROR: usize = 1 << 10;
/// The pause before the discovery document is requested again.
const DISCOVERY_PAUSE: Duration = Duration::from_secs(10);
/// The time from one request for keys to the next, and the pause after the first failure.
const PAUSE: Duration = Duration::from_secs(1);
/// The longest pause after a failure.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// A text is not the address of a server with TLS.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} is not an HTTPS address", Quoted(.0))]
pub struct InvalidUrl(pub String);

/// The address of a server with TLS.
pub(super) fn https(url: &str) -> Result<Uri, InvalidUrl> {
    let invalid = || InvalidUrl(url.to_owned());
    let parsed: Uri = url.parse().map_err(|_| invalid())?;
    let is_https = parsed.scheme_str() == Some("https") && parsed.host().is_some_and(|host| !host.is_empty());
    if is_https { Ok(parsed) } else { Err(invalid()) }
}

/// An issuer's server.
pub(super) struct Provider {
    inner: Arc<Inner>,
    _discovery: Task,
}

struct Inner {
    issuer: String,
    discovery_url: Uri,
    client: Client,
    state: Mutex<State>,
}

struct State {
    /// The address of the keys, or why it is not known.
    keys_url: Result<Uri, String>,
    keys: Arc<KeySet>,
    /// The request under way.
    question: Option<Shared<Result<Arc<KeySet>, String>>>,
    /// When the last request was sent.
    asked: Option<Instant>,
    failure: Option<Failure>,
}

/// A failed request for keys.
struct Failure {
    why: String,
    pause: Duration,
    retry_at: Instant,
}

impl Provider {
    /// Looks for the discovery document of an issuer until it is there. `discovery_url` is its address if
    /// that does not follow from the issuer.
    pub(super) fn start(
        issuer: &str,
        discovery_url: Option<&str>,
        client: Client,
    ) -> Result<Self, InvalidUrl> {
        let discovery_url = match discovery_url {
            Some(url) => https(url)?,
            None => https(&format!("{}{WELL_KNOWN}", issuer.strip_suffix('/').unwrap_or(issuer)))?,
        };
        let missing = format!("oidc: authenticator for issuer {} is not initialized", quote(issuer));
        let state = State {
            keys_url: Err(missing),
            keys: Arc::default(),
            question: None,
            asked: None,
            failure: None,
        };
        let inner =
            Arc::new(Inner { issuer: issuer.to_owned(), discovery_url, client, state: Mutex::new(state) });
        let discovery = tasks::spawn(Name::IssuerDiscovery, {
            let inner = inner.clone();
            move || {
                let inner = inner.clone();
                async move {
                    inner.discover().await;
                    Ended::Done
                }
            }
        });
        Ok(Self { inner, _discovery: discovery })
    }

    pub(super) fn issuer(&self) -> &str {
        &self.inner.issuer
    }

    /// Whether the discovery document was found, and why not.
    pub(super) fn health(&self) -> Result<(), String> {
        self.inner.state().keys_url.as_ref().map(drop).map_err(Clone::clone)
    }

    /// The known keys, which may be none yet; `None` before the discovery document was found.
    pub(super) fn keys(&self) -> Option<Arc<KeySet>> {
        let state = self.inner.state();
        state.keys_url.is_ok().then(|| state.keys.clone())
    }

    /// Other keys than `tried`, if the issuer has others.
    pub(super) async fn refresh(&self, tried: &Arc<KeySet>) -> Result<Arc<KeySet>, String> {
        let question = {
            let mut state = self.inner.state();
            if !Arc::ptr_eq(&state.keys, tried) {
                return Ok(state.keys.clone());
            }
            match (&state.question, &state.failure) {
                (Some(question), _) => question.clone(),
                (None, Some(failure)) if Instant::now() < failure.retry_at => {
                    return Err(failure.why.clone());
                }
                (None, _) => {
                    let question = Shared::spawn(self.inner.clone().ask(state.asked));
                    state.question = Some(question.clone());
                    question
                }
            }
        };
        question.wait().await.unwrap_or_else(|| Err("oidc: get keys failed unexpectedly".to_owned()))
    }
}

impl Inner {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn discover(&self) {
        loop {
            let found = self.keys_url().await;
            let is_found = found.is_ok();
            {
                let mut state = self.state();
                if let Err(error) = &found
                    && state.keys_url.as_ref().err() != Some(error)
                {
                    let issuer = self.issuer.as_str();
                    log::error!(issuer, error = error.as_str(); "the discovery document of an issuer of tokens cannot be used");
                }
                state.keys_url = found;
            }
            if is_found {
                return;
            }
            sleep(DISCOVERY_PAUSE).await;
        }
    }

    /// The address of the keys, by the discovery document.
    async fn keys_url(&self) -> Result<Uri, String> {
        let answer = self.get(&self.discovery_url).await.map_err(|error| error.to_string())?;
        if answer.status != StatusCode::OK {
            return Err(format!("{}: {}", answer.status, excerpt(&answer)));
        }
        let document = decode(&answer)
            .map_err(|why| format!("oidc: failed to decode provider discovery object: {why}"))?;
        let text = |key: &str| document.get(key).and_then(Value::as_str).unwrap_or_default();
        if text("issuer") != self.issuer {
            let (expected, got) = (quote(&self.issuer), quote(text("issuer")));
            return Err(format!(
                "oidc: issuer did not match the issuer returned by provider, expected {expected} got {got}"
            ));
        }
        https(text("jwks_uri"))
            .map_err(|error| format!("oidc: the address of the keys cannot be used: {error}"))
    }

    /// Requests the keys, at the earliest some time after the request before.
    async fn ask(self: Arc<Self>, asked: Option<Instant>) -> Result<Arc<KeySet>, String> {
        // The request also ends when this task panics.
        let _over = Over(&self);
        if let Some(asked) = asked {
            sleep_until(asked + PAUSE).await;
        }
        let url = {
            let mut state = self.state();
            state.asked = Some(Instant::now());
            state.keys_url.clone()?
        };
        let outcome = self.fetch(&url).await.map(Arc::new);
        let mut state = self.state();
        match &outcome {
            Ok(keys) => {
                state.keys = keys.clone();
                state.failure = None;
            }
            Err(why) => {
                let issuer = self.issuer.as_str();
                log::error!(issuer, error = why.as_str(); "the keys of an issuer of tokens cannot be used; those before stay");
                let pause =
                    state.failure.as_ref().map_or(PAUSE, |failure| failure.pause * 2).min(LONGEST_PAUSE);
                let retry_at = Instant::now() + pause;
                state.failure = Some(Failure { why: why.clone(), pause, retry_at });
            }
        }
        outcome
    }

    async fn fetch(&self, url: &Uri) -> Result<KeySet, String> {
        let answer = self.get(url).await.map_err(|error| format!("oidc: get keys failed {error}"))?;
        if answer.status != StatusCode::OK {
            return Err(format!("oidc: get keys failed: {} {}", answer.status, excerpt(&answer)));
        }
        KeySet::from_jwks(&answer.body)
            .map_err(|error| format!("oidc: failed to decode keys: {error} {}", excerpt(&answer)))
    }

    async fn get(&self, url: &Uri) -> Result<Answer, outbound::Error> {
        self.client.get(url, "application/json, */*", Bounds::within(TIMEOUT, MOST_BYTES)).await
    }
}

/// Marks a request as ended when dropped.
struct Over<'a>(&'a Inner);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.state().question = None;
    }
}

fn decode(answer: &Answer) -> Result<Value, String> {
    let limits = Limits { bytes: MOST_BYTES, ..Limits::REQUEST };
    let wrong = match json::decode_shape(&Shape::Any, &answer.body, &limits) {
        Ok(decoded) if decoded.value.as_map().is_some() => return Ok(decoded.value),
        Ok(decoded) => {
            format!("json: cannot unmarshal {} into Go value of type oidc.providerJSON", decoded.value.kind())
        }
        Err(error) => error.to_string(),
    };
    let media_type = answer.content_type.split(';').next().unwrap_or_default().trim();
    Err(match media_type.eq_ignore_ascii_case("application/json") {
        true => format!("got Content-Type = application/json, but could not unmarshal as JSON: {wrong}"),
        false => {
            let found = quote(&answer.content_type);
            format!("expected Content-Type = application/json, got {found}: {wrong}")
        }
    })
}

/// The beginning of an answer, for an error.
fn excerpt(answer: &Answer) -> String {
    shorten_to(MOST_ERROR, String::from_utf8_lossy(&answer.body))
}
