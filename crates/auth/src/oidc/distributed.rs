//! Distributed claims: a token names another server, which answers with a token that has the claim.
//!
//! 1. Only verified tokens lead to requests, and only for the claim of the groups.
//! 2. There is one request at a time for a token, and its answer is kept for some seconds.

use super::Config;
use super::mapping::text;
use super::provider::{MOST_BYTES, Provider, TIMEOUT, https};
use super::verify::Verifier;
use crate::expiring::{Digest, Expiring};
use crate::jwt::{Algorithm, Claims, Unverified};
use crate::webhook_token::NoRandomNumbers;
use aws_lc_rs::hmac;
use aws_lc_rs::rand::SystemRandom;
use http::HeaderValue;
use object::quote::quote;
use object::{Map, Value};
use outbound::{Bounds, Client, Shared};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How long an answer is kept, as the reference keeps the result of any token.
const KEPT: Duration = Duration::from_secs(10);
/// The most answers that are kept.
const MOST_KEPT: usize = 256;
/// The most issuers of answers.
const MOST_ISSUERS: usize = 16;

/// Finds the claim of the groups where another server has it.
pub(super) struct Resolver {
    claim: String,
    client: Client,
    audiences: Vec<String>,
    algorithms: Vec<Algorithm>,
    /// The issuers of answers so far.
    verifiers: Mutex<HashMap<String, Arc<Verifier>>>,
    key: hmac::Key,
    kept: Expiring<Value>,
    under_way: Mutex<HashMap<Digest, Shared<Result<Value, String>>>>,
}

/// The server that has a claim.
struct Source {
    url: String,
    /// Empty for none.
    access_token: String,
}

impl Resolver {
    pub(super) fn new(claim: String, client: Client, config: &Config) -> Result<Self, NoRandomNumbers> {
        let key =
            hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new()).map_err(|_| NoRandomNumbers)?;
        Ok(Self {
            claim,
            client,
            audiences: config.audiences.clone(),
            algorithms: config.algorithms.clone(),
            verifiers: Mutex::default(),
            key,
            kept: Expiring::new(MOST_KEPT),
            under_way: Mutex::default(),
        })
    }

    /// Whether another server may have the claim.
    pub(super) fn may_expand(&self, claims: &Claims) -> bool {
        claims.get(&self.claim).is_none() && claims.get("_claim_names").is_some()
    }

    /// Adds the claim to those of a verified token, if another server has it.
    pub(super) async fn expand(self: &Arc<Self>, claims: &mut Claims) -> Result<(), String> {
        if !self.may_expand(claims) {
            return Ok(());
        }
        let Some(source) = self.source(claims)? else { return Ok(()) };
        let digest = self.digest(&source);
        let value = match self.kept.get(&digest) {
            Some(kept) => kept,
            None => {
                let question = {
                    let mut under_way = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
                    let ask = || Shared::spawn(self.clone().ask(digest, source));
                    under_way.entry(digest).or_insert_with(ask).clone()
                };
                let failed = || Err("the question for a distributed claim failed unexpectedly".to_owned());
                question.wait().await.unwrap_or_else(failed)?
            }
        };
        claims.insert(&self.claim, value);
        Ok(())
    }

    /// The server that has the claim; `None` if the token has none for it.
    fn source(&self, claims: &Claims) -> Result<Option<Source>, String> {
        let names = claims.get("_claim_names").unwrap_or(&Value::Null);
        let names = object(names).map_err(|why| {
            format!("oidc: error parsing distributed claim names: {why} of type map[string]string")
        })?;
        let sources = claims.get("_claim_sources").ok_or("oidc: no claim sources")?;
        let sources = object(sources).map_err(|why| {
            format!("oidc: could not parse claim sources: {why} of type map[string]oidc.endpoint")
        })?;
        let Some(name) = names.get(&self.claim) else { return Ok(None) };
        let name = text(name).map_err(|why| format!("oidc: error parsing distributed claim names: {why}"))?;
        let Some(source) = sources.get(name) else {
            return Err(format!(
                "id token _claim_names contained a source {name} missing in _claims_sources"
            ));
        };
        let part = |key: &str| source.get(key).map_or(Ok(""), text).map(str::to_owned);
        let unreadable = |why: String| format!("oidc: could not parse claim sources: {why}");
        let url = part("endpoint").map_err(unreadable)?;
        let access_token = part("access_token").map_err(unreadable)?;
        // Without an endpoint the claim is an aggregated one, which is not supported.
        Ok((!url.is_empty()).then_some(Source { url, access_token }))
    }

    fn digest(&self, source: &Source) -> Digest {
        let mut context = hmac::Context::with_key(&self.key);
        for text in [&source.url, &source.access_token] {
            context.update(&(text.len() as u64).to_be_bytes());
            context.update(text.as_bytes());
        }
        let mut out = [0; 32];
        out.iter_mut().zip(context.sign().as_ref()).for_each(|(to, from)| *to = *from);
        out
    }

    async fn ask(self: Arc<Self>, digest: Digest, source: Source) -> Result<Value, String> {
        let _over = Over { resolver: &self, digest };
        let value = self.resolve(&source).await?;
        self.kept.insert(digest, value.clone(), KEPT);
        Ok(value)
    }

    async fn resolve(&self, source: &Source) -> Result<Value, String> {
        let Self { claim, .. } = self;
        let Source { url, .. } = source;
        let token = self.get(source).await;
        let token =
            token.map_err(|why| format!("while getting distributed claim {}: {why}", quote(claim)))?;
        let issuer =
            Unverified::parse(&token).map(|token| super::verify::issuer_of(token.issuer()).to_owned());
        let issuer = issuer.ok_or_else(|| {
            let claim = quote(claim);
            format!("getting untrusted issuer from endpoint {url} failed for claim {claim}: malformed token")
        })?;
        let unknown = |why: String| format!("verifying untrusted issuer {issuer} failed: {why}");
        let verifier = self.verifier(&issuer).map_err(unknown)?;
        let keys = verifier
            .keys()
            .ok_or_else(|| unknown(format!("verifier not initialized for issuer: {}", quote(&issuer))))?;
        let verified = verifier.verify(&token, &keys).await;
        let claims = verified.map_err(|why| format!("verify distributed claim token: {why}"))?;
        claims.get(claim).cloned().ok_or_else(|| {
            let url = quote(url);
            format!("jwt returned by distributed claim endpoint {url} did not contain claim: {claim}")
        })
    }

    /// The token of a server.
    async fn get(&self, source: &Source) -> Result<String, String> {
        let url = https(&source.url).map_err(|error| error.to_string())?;
        let bounds = Bounds::within(TIMEOUT, MOST_BYTES);
        let accept = "application/jwt, */*";
        let answer = if source.access_token.is_empty() {
            self.client.get(&url, accept, bounds).await
        } else {
            let value = HeaderValue::from_str(&format!("Bearer {}", source.access_token));
            let value =
                value.map_err(|_| "net/http: invalid header field value for \"Authorization\"".to_owned())?;
            self.client.get_authorized(&url, &value, accept, bounds).await
        };
        let answer = answer.map_err(|error| error.to_string())?;
        if !(200..=226).contains(&answer.status.as_u16()) {
            return Err(format!("error while getting distributed claim JWT: {}", answer.status));
        }
        String::from_utf8(answer.body.to_vec())
            .map_err(|_| "could not decode distributed claim response".to_owned())
    }

    /// The verifier of an issuer; the first call starts its discovery.
    fn verifier(&self, issuer: &str) -> Result<Arc<Verifier>, String> {
        let mut verifiers = self.verifiers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = verifiers.get(issuer) {
            return Ok(known.clone());
        }
        if verifiers.len() >= MOST_ISSUERS {
            return Err("there are too many issuers of distributed claims".to_owned());
        }
        let provider =
            Provider::start(issuer, None, self.client.clone()).map_err(|error| error.to_string())?;
        let verifier = Arc::new(Verifier::new(provider, self.audiences.clone(), self.algorithms.clone()));
        verifiers.insert(issuer.to_owned(), verifier.clone());
        Ok(verifier)
    }
}

/// Ends a question.
struct Over<'a> {
    resolver: &'a Resolver,
    digest: Digest,
}

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.resolver.under_way.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.digest);
    }
}

/// An object; null counts as an empty one.
fn object(value: &Value) -> Result<Map, String> {
    match value {
        Value::Map(map) => Ok(map.clone()),
        Value::Null => Ok(Map::new()),
        other => Err(format!("json: cannot unmarshal {} into Go value", other.kind())),
    }
}
