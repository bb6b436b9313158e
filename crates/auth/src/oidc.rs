//! Tokens of OpenID Connect: JSON web tokens that other issuers sign.
//!
//! 1. **A slow issuer delays only its own tokens.** Requests to an issuer have a time-out, a limit of bytes
//!    and a rate limit; tokens of another issuer, or with known keys, do not wait for them.
//! 2. **Claims are checked first.** Audience, times and algorithm can refuse a token before the issuer is
//!    asked for new keys.
//! 3. **Nothing of a token is kept** but the claims that another server gave for it (`distributed`), for some
//!    seconds.
//!
//! `provider` has the discovery document and the keys of an issuer, `verify` validates its tokens, `mapping`
//! makes users from their claims, with what the `evaluator` makes of expressions.

mod distributed;
mod evaluator;
mod mapping;
mod provider;
mod verify;

pub use mapping::{ClaimOrExpression, Mapping, Mappings, Rule};
pub use provider::InvalidUrl;

use crate::families::JWT_DURATIONS;
use crate::jwt::{Algorithm, Claims, Unverified};
use crate::{AuthenticateToken, InvalidToken, Token, TokenIdentity, TokenOutcome, agnostic_audiences};
use aws_lc_rs::digest::{SHA256, digest};
use distributed::Resolver;
use object::quote::quote;
use object::time::Time;
use outbound::{Client, Tls, TlsError, Trust};
use provider::Provider;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Instant;
use tasks::Deferred;
use verify::{Checked, Verifier};

/// The configuration of an issuer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The issuer: the claim `iss` of its tokens, and the start of the address of its discovery document.
    pub issuer: String,
    /// The address of the discovery document, if it is another one.
    pub discovery_url: Option<String>,
    /// The authorities of the issuer's server in PEM; `None` for those of the host.
    pub certificate_authority: Option<String>,
    /// A token has to be for one of these.
    pub audiences: Vec<String>,
    /// How tokens may be signed.
    pub algorithms: Vec<Algorithm>,
    /// How the claims of a token become a user.
    pub mappings: Mappings,
}

/// Why a configuration cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// TLS cannot be set up.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// A URL is invalid.
    #[error(transparent)]
    Url(#[from] InvalidUrl),
    /// The system has no random numbers.
    #[error(transparent)]
    Random(#[from] crate::webhook_token::NoRandomNumbers),
}

impl Config {
    /// The client for the issuer's server. It has no connections yet.
    pub fn client(&self) -> Result<Client, TlsError> {
        let trust = match &self.certificate_authority {
            Some(pem) => Trust::from_pem(pem.as_bytes())?,
            None => Trust::System,
        };
        Client::new(&Tls { trust, ..Tls::default() })
    }
}

/// An issuer: its keys, and how its tokens become users.
struct Issuer {
    config: Config,
    verifier: Verifier,
    resolver: Option<Arc<Resolver>>,
    /// The digest of the issuer's name, for metrics.
    hash: String,
}

impl Issuer {
    /// Starts to look for the discovery document.
    fn start(config: Config) -> Result<Self, Error> {
        let client = config.client()?;
        let provider = Provider::start(&config.issuer, config.discovery_url.as_deref(), client.clone())?;
        let verifier = Verifier::new(provider, config.audiences.clone(), config.algorithms.clone());
        let resolver = match &config.mappings.groups {
            Some(ClaimOrExpression::Claim(groups)) => {
                Some(Arc::new(Resolver::new(groups.claim.clone(), client, &config)?))
            }
            Some(ClaimOrExpression::Expression(_)) | None => None,
        };
        let hash = hash(&config.issuer);
        Ok(Self { config, verifier, resolver, hash })
    }

    /// Whether the issuer is ready to verify tokens, and why not.
    fn health(&self) -> Result<(), String> {
        let issuer = quote(&self.config.issuer);
        self.verifier
            .health()
            .map_err(|why| format!("oidc: authenticator for issuer {issuer} is not healthy: {why}"))
    }

    /// The user of a token whose claims are verified.
    async fn identity(&self, mut claims: Claims, audiences: Vec<String>) -> TokenOutcome {
        if let Some(resolver) = &self.resolver {
            let expanded = resolver.expand(&mut claims).await;
            expanded.map_err(|why| {
                InvalidToken::from(format!("oidc: could not expand distributed claims: {why}"))
            })?;
        }
        self.user(&claims, audiences)
    }

    /// Counts a token that took from `start` on.
    fn count(&self, start: Instant, outcome: &TokenOutcome) {
        let result = if outcome.is_ok() { "success" } else { "failure" };
        JWT_DURATIONS.with([&self.hash, result]).observe_time(start.elapsed());
    }

    fn user(&self, claims: &Claims, audiences: Vec<String>) -> TokenOutcome {
        let user = self.config.mappings.user(claims)?;
        Ok(Some(TokenIdentity::new(user, audiences)))
    }
}

/// A digest as the reference shows it.
fn hash(text: &str) -> String {
    let mut shown = "sha256:".to_owned();
    for byte in digest(&SHA256, text.as_bytes()).as_ref() {
        shown.push_str(&format!("{byte:02x}"));
    }
    shown
}

/// All issuers. They can be replaced while the server runs, for all clones.
#[derive(Clone)]
pub struct Issuers {
    issuers: Arc<RwLock<Arc<[Arc<Issuer>]>>>,
    /// The audiences of this server; the audiences of a token are checked against those of its issuer.
    audiences: Vec<String>,
}

impl fmt::Debug for Issuers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.current().iter().map(|issuer| issuer.config.issuer.clone()).collect();
        f.debug_struct("Issuers").field("issuers", &names).finish_non_exhaustive()
    }
}

/// Issuers that are about to replace others.
pub struct Prepared(Arc<[Arc<Issuer>]>);

impl fmt::Debug for Prepared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prepared").field("issuers", &self.0.len()).finish_non_exhaustive()
    }
}

impl Prepared {
    /// Whether all are ready to verify tokens, and why not.
    pub fn health(&self) -> Result<(), String> {
        let mut errors: Vec<String> = self.0.iter().filter_map(|issuer| issuer.health().err()).collect();
        match errors.len() {
            0 => Ok(()),
            1 => Err(errors.remove(0)),
            _ => Err(format!("[{}]", errors.join(", "))),
        }
    }
}

impl Issuers {
    /// Starts to look for the discovery documents; it needs a runtime. `audiences` are those of this server.
    pub fn start(configs: Vec<Config>, audiences: Vec<String>) -> Result<Self, Error> {
        let none = Self { issuers: Arc::new(RwLock::new(Arc::new([]))), audiences };
        let prepared = none.prepare(configs)?;
        none.replace(&prepared);
        Ok(none)
    }

    /// Issuers that can replace these. Issuers with an unchanged configuration are kept, with their keys.
    pub fn prepare(&self, configs: Vec<Config>) -> Result<Prepared, Error> {
        let current = self.current();
        let issuers =
            configs.into_iter().map(|config| match current.iter().find(|issuer| issuer.config == config) {
                Some(same) => Ok(same.clone()),
                None => Issuer::start(config).map(Arc::new),
            });
        Ok(Prepared(issuers.collect::<Result<_, Error>>()?))
    }

    /// Replaces the issuers.
    pub fn replace(&self, prepared: &Prepared) {
        *self.issuers.write().unwrap_or_else(PoisonError::into_inner) = prepared.0.clone();
    }

    fn current(&self) -> Arc<[Arc<Issuer>]> {
        self.issuers.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl AuthenticateToken for Issuers {
    fn authenticate<'a>(&'a self, token: Token<'a>, audiences: &'a [String]) -> Deferred<'a, TokenOutcome> {
        let start = Instant::now();
        let (issuer, outcome) = self.authenticate_by(token, audiences);
        let Some(issuer) = issuer else { return outcome };
        match outcome {
            Deferred::Now(outcome) => {
                issuer.count(start, &outcome);
                Deferred::Now(outcome)
            }
            Deferred::Later(later) => Deferred::later(async move {
                let outcome = later.await;
                issuer.count(start, &outcome);
                outcome
            }),
        }
    }
}

/// The outcome for a token, and the issuer that it names if that one was asked.
type AskedIssuer<'a> = (Option<Arc<Issuer>>, Deferred<'a, TokenOutcome>);

impl Issuers {
    fn authenticate_by<'a>(&'a self, token: Token<'a>, audiences: &'a [String]) -> AskedIssuer<'a> {
        let nobody = || (None, Deferred::Now(Ok(None)));
        let Some(unverified) = Unverified::parse(token.0) else { return nobody() };
        let current = self.current();
        let named = verify::issuer_of(unverified.issuer());
        let Some(issuer) = current.iter().find(|issuer| issuer.config.issuer == named).cloned() else {
            return nobody();
        };
        let Some(audiences) = agnostic_audiences(audiences, &self.audiences) else {
            return nobody();
        };
        let asked = Some(issuer.clone());
        let Some(keys) = issuer.verifier.keys() else {
            return (asked, Deferred::Now(Err("oidc: authenticator not initialized".into())));
        };
        let refused = |why: String| InvalidToken::from(format!("oidc: verify token: {why}"));
        let outcome = match issuer.verifier.check(unverified, &keys, Time::now().unix()) {
            Err(why) => Deferred::Now(Err(refused(why))),
            Ok(Checked::Verified(claims)) => {
                match issuer.resolver.as_ref().is_some_and(|resolver| resolver.may_expand(&claims)) {
                    true => Deferred::later(async move { issuer.identity(claims, audiences).await }),
                    false => Deferred::Now(issuer.user(&claims, audiences)),
                }
            }
            Ok(Checked::UnknownKey) => Deferred::later(async move {
                let claims = issuer.verifier.verify_with_new_keys(token.0, &keys).await.map_err(refused)?;
                issuer.identity(claims, audiences).await
            }),
        };
        (asked, outcome)
    }
}

#[cfg(test)]
mod tests;
