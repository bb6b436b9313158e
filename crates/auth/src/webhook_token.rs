//! Tokens that another server authenticates, by a `TokenReview`.
//!
//! 1. **One review at a time for a token.** Requests with the same token wait for the same answer.
//! 2. **Answers are cached**, those that refuse too. They are found by a keyed digest: the memory of the
//!    process has no list of tokens.
//! 3. **Bounded.** A review has a time-out, and the number of reviews under way is limited: a server that
//!    hangs delays only requests with its tokens.

use crate::expiring::{Digest, Expiring};
use crate::families::{TOKEN_FETCHES, TOKEN_FETCHES_OPEN, TOKEN_REQUEST_DURATIONS, TOKEN_REQUESTS};
use crate::webhook::Version;
use crate::{AuthenticateToken, InvalidToken, Token, TokenIdentity, TokenOutcome, User};
use aws_lc_rs::hmac;
use aws_lc_rs::rand::SystemRandom;
use object::excerpt::shorten_to;
use object::{Map, Value};
use outbound::{Backoff, Endpoint, Shared};
use schema::view::View as _;
use schema::views::authentication::{v1, v1beta1};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tasks::Deferred;

/// How long the server may take to answer, all attempts together.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The most answers that are kept.
const MOST_KEPT: usize = 8192;
/// The most bytes of a user in an answer that is kept.
const MOST_USER: usize = 64 << 10;
/// The most reviews under way.
const MOST_UNDER_WAY: usize = 2048;
/// The most bytes of an error of the server.
const MOST_ERROR: usize = 1 << 10;

/// The configuration of a webhook.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The version of the reviews.
    pub version: Version,
    /// How long answers are kept.
    pub cache_ttl: Duration,
    /// The audiences of this server, which count for a token of an answer without audiences.
    pub audiences: Vec<String>,
    /// The pauses between attempts.
    pub backoff: Backoff,
}

/// A server that authenticates tokens.
pub struct WebhookTokens(Arc<Inner>);

struct Inner {
    server: outbound::Webhook,
    config: Config,
    key: hmac::Key,
    kept: Expiring<Option<TokenIdentity>>,
    under_way: Mutex<HashMap<Digest, Shared<TokenOutcome>>>,
}

impl fmt::Debug for WebhookTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebhookTokens").field("server", &self.0.server).finish_non_exhaustive()
    }
}

/// The system has no random numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the system gave no random numbers")]
pub struct NoRandomNumbers;

impl WebhookTokens {
    /// Authenticates tokens by asking a server.
    pub fn new(server: Endpoint, config: Config) -> Result<Self, NoRandomNumbers> {
        let key =
            hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new()).map_err(|_| NoRandomNumbers)?;
        Ok(Self(Arc::new(Inner {
            server: outbound::Webhook::new(server, config.backoff, TIMEOUT),
            config,
            key,
            kept: Expiring::new(MOST_KEPT),
            under_way: Mutex::default(),
        })))
    }
}

impl AuthenticateToken for WebhookTokens {
    fn authenticate<'a>(&'a self, token: Token<'a>, audiences: &'a [String]) -> Deferred<'a, TokenOutcome> {
        let inner = &self.0;
        let digest = inner.digest(token, audiences);
        if let Some(kept) = inner.kept.get(&digest) {
            TOKEN_REQUESTS.with(["hit"]).inc();
            TOKEN_REQUEST_DURATIONS.with(["hit"]).observe(0.0);
            return Deferred::Now(Ok(kept));
        }
        let begin = Instant::now();
        let answer = {
            let mut under_way = inner.under_way.lock().unwrap_or_else(PoisonError::into_inner);
            // A review that ended meanwhile has cached its answer.
            if let Some(kept) = inner.kept.get(&digest) {
                return Deferred::Now(Ok(kept));
            }
            if under_way.len() >= MOST_UNDER_WAY && !under_way.contains_key(&digest) {
                return Deferred::Now(Err("too many tokens wait for the webhook".into()));
            }
            let ask = || Shared::spawn(inner.clone().look_up(digest, token.0.to_owned(), audiences.to_vec()));
            under_way.entry(digest).or_insert_with(ask).clone()
        };
        Deferred::later(async move {
            let failed = || Err("authentication failed unexpectedly".into());
            let outcome = answer.wait().await.unwrap_or_else(failed);
            TOKEN_REQUESTS.with(["miss"]).inc();
            TOKEN_REQUEST_DURATIONS.with(["miss"]).observe_time(begin.elapsed());
            outcome
        })
    }
}

impl Inner {
    /// The key of a token and its audiences, each with its length before it.
    fn digest(&self, token: Token<'_>, audiences: &[String]) -> Digest {
        let mut context = hmac::Context::with_key(&self.key);
        let texts = std::iter::once(token.0).chain(audiences.iter().map(String::as_str));
        for text in texts {
            context.update(&(text.len() as u64).to_be_bytes());
            context.update(text.as_bytes());
        }
        let mut out = [0; 32];
        out.iter_mut().zip(context.sign().as_ref()).for_each(|(to, from)| *to = *from);
        out
    }

    async fn look_up(self: Arc<Self>, digest: Digest, token: String, audiences: Vec<String>) -> TokenOutcome {
        // The review also ends when this task panics.
        let _over = Over { inner: &self, digest };
        let open = TOKEN_FETCHES_OPEN.with(["in_flight"]);
        open.inc();
        let outcome = self.ask(&token, &audiences).await;
        open.dec();
        TOKEN_FETCHES.with([if outcome.is_ok() { "ok" } else { "error" }]).inc();
        if let Ok(answer) = &outcome
            && answer.as_ref().is_none_or(|identity| bytes_of(&identity.user) <= MOST_USER)
        {
            self.kept.insert(digest, answer.clone(), self.config.cache_ttl);
        }
        outcome
    }

    async fn ask(&self, token: &str, audiences: &[String]) -> TokenOutcome {
        let ty = match self.config.version {
            Version::V1 => v1::TokenReview::schema(),
            Version::V1beta1 => v1beta1::TokenReview::schema(),
        };
        let mut spec = Map::new();
        spec.insert(v1::TokenReviewSpec::TOKEN, token);
        if !audiences.is_empty() {
            let audiences: Value = audiences.iter().map(|audience| Value::from(audience.as_str())).collect();
            spec.insert(v1::TokenReviewSpec::AUDIENCES, audiences);
        }
        let mut review = Map::new();
        if let Some(kind) = &ty.kind {
            review.insert("kind", kind.kind.as_str());
            review.insert("apiVersion", kind.api_version().as_str());
        }
        review.insert(v1::TokenReview::SPEC, spec);
        let answer = self.server.review(ty, &review.into(), Some(token)).await.map_err(|error| {
            let error = error.to_string();
            log::error!(error = error.as_str(); "a webhook for tokens did not answer");
            InvalidToken::from(error)
        })?;
        let empty = Map::new();
        let status = answer.get("status").and_then(Value::as_map).unwrap_or(&empty);
        // The status has the same form in both versions.
        self.identity(v1::TokenReviewStatus::of(status), audiences)
    }

    fn identity(&self, status: v1::TokenReviewStatus<'_>, asked: &[String]) -> TokenOutcome {
        let named: Vec<&str> = status.audiences().iter().collect();
        let is_for = |audience: &String| match named.is_empty() {
            true => self.config.audiences.contains(audience),
            false => named.contains(&audience.as_str()),
        };
        let audiences: Vec<String> = asked.iter().filter(|audience| is_for(audience)).cloned().collect();
        if !asked.is_empty() && audiences.is_empty() {
            return Ok(None);
        }
        if !status.authenticated() {
            return match status.error() {
                "" => Ok(None),
                error => Err(shorten_to(MOST_ERROR, error).into()),
            };
        }
        let user = status.user();
        let extra = user.extra().iter();
        let user = User {
            name: user.username().to_owned(),
            uid: user.uid().to_owned(),
            groups: user.groups().iter().map(str::to_owned).collect(),
            extra: extra
                .map(|(key, values)| (key.to_owned(), values.iter().map(str::to_owned).collect()))
                .collect(),
        };
        Ok(Some(TokenIdentity::new(user, audiences)))
    }
}

/// Marks a review as ended when dropped.
struct Over<'a> {
    inner: &'a Inner,
    digest: Digest,
}

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.inner.under_way.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.digest);
    }
}

fn bytes_of(user: &User) -> usize {
    let extra = user.extra.iter().flat_map(|(key, values)| std::iter::once(key).chain(values));
    user.groups.iter().chain(extra).chain([&user.name, &user.uid]).map(String::len).sum()
}

#[cfg(test)]
mod tests;
