//! Validation of the tokens of an issuer: audience, times, algorithm and signature, in the order of the
//! reference.

use super::mapping::{mismatch, text};
use super::provider::Provider;
use crate::jwt::{Algorithm, Claims, KeySet, Unverified};
use object::quote::quote;
use object::time::Time;
use object::{Map, Value};
use std::sync::Arc;

/// By how many seconds clocks may differ where a token says when it becomes valid.
const LEEWAY: i64 = 60;

/// The issuer whose tokens may also name it without a scheme.
const GOOGLE: &str = "https://accounts.google.com";

/// The issuer that a name in a token is of.
pub(super) fn issuer_of(name: &str) -> &str {
    if name == "accounts.google.com" { GOOGLE } else { name }
}

/// Verifies the tokens of an issuer.
pub(super) struct Verifier {
    provider: Provider,
    /// Sorted.
    audiences: Vec<String>,
    algorithms: Vec<Algorithm>,
}

/// The result of verifying a token with the known keys.
pub(super) enum Checked {
    /// The token is valid.
    Verified(Claims),
    /// No known key verifies the token. The issuer may have others.
    UnknownKey,
}

impl Verifier {
    pub(super) fn new(provider: Provider, mut audiences: Vec<String>, algorithms: Vec<Algorithm>) -> Self {
        audiences.sort_unstable();
        Self { provider, audiences, algorithms }
    }

    /// Whether the issuer's server was found, and why not.
    pub(super) fn health(&self) -> Result<(), String> {
        self.provider.health()
    }

    /// The known keys, which may be none yet; `None` before the issuer's server was found.
    pub(super) fn keys(&self) -> Option<Arc<KeySet>> {
        self.provider.keys()
    }

    /// Refuses a token, or tries the known keys.
    pub(super) fn check(&self, token: Unverified<'_>, keys: &KeySet, now: i64) -> Result<Checked, String> {
        self.check_claims(token.unverified_claims(), now)?;
        let algorithm = token.algorithm_name();
        if !self.algorithms.iter().any(|known| known.name() == algorithm) {
            let known = quoted(self.algorithms.iter().map(|known| known.name()));
            let algorithm = quote(algorithm);
            return Err(format!(
                "oidc: id token signed with unsupported algorithm, expected {known} got {algorithm}"
            ));
        }
        match self.claims(token, keys) {
            Some(claims) => self.check_audiences(claims).map(Checked::Verified),
            None => Ok(Checked::UnknownKey),
        }
    }

    /// Asks the issuer for its keys, and tries those. `tried` are the ones that did not verify the token.
    pub(super) async fn verify_with_new_keys(
        &self,
        token: &str,
        tried: &Arc<KeySet>,
    ) -> Result<Claims, String> {
        let keys = self.provider.refresh(tried).await;
        let keys = keys.map_err(|why| format!("failed to verify signature: fetching keys {why}"))?;
        let claims = Unverified::parse(token).and_then(|token| self.claims(token, &keys));
        let unverified = || "failed to verify signature: failed to verify id token signature".to_owned();
        self.check_audiences(claims.ok_or_else(unverified)?)
    }

    /// Verifies a token, with the help of the issuer if the known keys do not.
    pub(super) async fn verify(&self, token: &str, keys: &Arc<KeySet>) -> Result<Claims, String> {
        let unverified = Unverified::parse(token).ok_or("oidc: malformed jwt")?;
        match self.check(unverified, keys, Time::now().unix())? {
            Checked::Verified(claims) => Ok(claims),
            Checked::UnknownKey => self.verify_with_new_keys(token, keys).await,
        }
    }

    fn claims(&self, token: Unverified<'_>, keys: &KeySet) -> Option<Claims> {
        let id = token.key_id().to_owned();
        token.verify(keys.candidates(&id), &self.algorithms).ok()
    }

    /// The checks that need no key.
    fn check_claims(&self, claims: &Claims, now: i64) -> Result<(), String> {
        let malformed = |why: String| format!("oidc: failed to unmarshal claims: {why}");
        for name in ["iss", "sub", "nonce", "at_hash"] {
            if let Some(value) = claims.get(name)
                && let Err(_) = text(value)
            {
                let kind = value.kind();
                let why = format!(
                    "json: cannot unmarshal {kind} into Go struct field idToken.{name} of type string"
                );
                return Err(malformed(why));
            }
        }
        let audiences = audiences(claims).map_err(malformed)?;
        let expiry = time(claims.get("exp")).map_err(malformed)?;
        time(claims.get("iat")).map_err(malformed)?;
        let not_before = claims.get("nbf").filter(|value| !value.is_null());
        let not_before = time(not_before).map_err(malformed)?;
        check_sources(claims)?;
        let issuer = issuer_of(claims.text("iss"));
        if issuer != self.provider.issuer() {
            let (expected, got) = (quote(self.provider.issuer()), quote(issuer));
            return Err(format!(
                "oidc: id token issued by a different provider, expected {expected} got {got}"
            ));
        }
        if let [only] = self.audiences.as_slice()
            && !audiences.contains(&only.as_str())
        {
            return Err(format!("oidc: expected audience {} got {}", quote(only), quoted(audiences)));
        }
        // A token is expired from the second of `exp` on: what is left of `now` below a second is not zero.
        if expiry.is_none_or(|expiry| expiry <= now) {
            let expiry = expiry.map_or(Time::ZERO, Time::from_unix);
            return Err(format!("oidc: token is expired (Token Expiry: {})", shown(expiry)));
        }
        if let Some(not_before) = not_before
            && now.saturating_add(LEEWAY) < not_before
        {
            let (now, not_before) = (Time::from_unix(now), Time::from_unix(not_before));
            let (now, not_before) = (shown(now), shown(not_before));
            return Err(format!("oidc: current time {now} before the nbf (not before) time: {not_before}"));
        }
        Ok(())
    }

    /// The check of several audiences, which the reference makes after the signature.
    fn check_audiences(&self, claims: Claims) -> Result<Claims, String> {
        let named = audiences(&claims)?;
        if self.audiences.iter().any(|audience| named.contains(&audience.as_str())) {
            return Ok(claims);
        }
        let expected = quoted(self.audiences.iter().map(String::as_str));
        Err(format!("oidc: expected audience in {expected} got {}", quoted(named)))
    }
}

/// One text or a list of them.
fn audiences(claims: &Claims) -> Result<Vec<&str>, String> {
    match claims.get("aud") {
        None => Ok(Vec::new()),
        Some(Value::List(list)) => list.iter().map(text).collect(),
        Some(one) => text(one).map(|one| vec![one]).map_err(|_| mismatch(one, "[]string")),
    }
}

/// Seconds since 1970: a number, or a number as text.
fn time(value: Option<&Value>) -> Result<Option<i64>, String> {
    match value {
        None => Ok(None),
        Some(Value::Int(seconds)) => Ok(Some(*seconds)),
        Some(Value::Float(seconds)) => Ok(Some(*seconds as i64)),
        Some(Value::String(text)) => match text.as_str().parse::<i64>() {
            Ok(seconds) => Ok(Some(seconds)),
            Err(_) => match text.as_str().parse::<f64>() {
                Ok(seconds) if seconds.is_finite() => Ok(Some(seconds as i64)),
                _ => {
                    let text = quote(&quote(text.as_str()));
                    Err(format!("json: invalid number literal, trying to unmarshal {text} into Number"))
                }
            },
        },
        Some(Value::Null) => Err("strconv.ParseFloat: parsing \"\": invalid syntax".to_owned()),
        Some(other) => Err(mismatch(other, "json.Number")),
    }
}

/// Whether each claim that another server has names one that the token describes.
fn check_sources(claims: &Claims) -> Result<(), String> {
    let Some(names) = claims.get("_claim_names").and_then(Value::as_map) else { return Ok(()) };
    let empty = Map::new();
    let sources = claims.get("_claim_sources").and_then(Value::as_map).unwrap_or(&empty);
    for source in names.values() {
        match source.as_str().unwrap_or_default() {
            "" => return Err("oidc: failed to obtain source from claim name".to_owned()),
            source if !sources.contains_key(source) => return Err("oidc: source does not exist".to_owned()),
            _ => {}
        }
    }
    Ok(())
}

/// A list of texts, as Go shows it.
fn quoted<'a>(texts: impl IntoIterator<Item = &'a str>) -> String {
    let texts: Vec<String> = texts.into_iter().map(quote).collect();
    format!("[{}]", texts.join(" "))
}

/// A time, as Go shows it.
fn shown(time: Time) -> String {
    time.text().as_str().replace('T', " ").replace('Z', " +0000 UTC")
}
