//! JSON web tokens: reading, verifying and signing.
//!
//! 1. **The key decides.** Only algorithms that fit the type of a key are tried with it: RSA signatures with
//!    RSA keys, the one ECDSA algorithm of its curve with an EC key. There is no `none` and no shared secret,
//!    whatever a header says.
//! 2. **Claims of an [`Unverified`] token** are used only to refuse the token, or to choose the keys to try.
//!    [`Unverified::verify`] returns [`Claims`].
//! 3. **Bounds.** A token has at most [`MOST_BYTES`], claims at most [`MOST_DEPTH`] levels and
//!    [`MOST_VALUES`] values.
//!
//! What the claims mean, times and audiences included, is for the callers.

mod key;
#[cfg(test)]
mod openssl;
mod sign;

pub use key::{InvalidKey, KeySet, PublicKey};
pub(crate) use sign::part as encoded;
pub use sign::{SigningFailed, SigningKey};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use object::{Map, Value};
use schema::{Limits, Shape, json};

/// The most bytes of a token.
pub const MOST_BYTES: usize = 64 << 10;
/// The most levels of a token's claims.
pub const MOST_DEPTH: usize = 32;
/// The most values in a token's claims.
pub const MOST_VALUES: usize = 8 << 10;

/// How a token can be signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Algorithm {
    /// ECDSA on P-256 with SHA-256.
    Es256,
    /// ECDSA on P-384 with SHA-384.
    Es384,
    /// ECDSA on P-521 with SHA-512.
    Es512,
    /// RSA PSS with SHA-256.
    Ps256,
    /// RSA PSS with SHA-384.
    Ps384,
    /// RSA PSS with SHA-512.
    Ps512,
    /// RSA PKCS#1 v1.5 with SHA-256.
    Rs256,
    /// RSA PKCS#1 v1.5 with SHA-384.
    Rs384,
    /// RSA PKCS#1 v1.5 with SHA-512.
    Rs512,
}

impl Algorithm {
    /// All algorithms, in the order of their names.
    pub const ALL: [Self; 9] = [
        Self::Es256,
        Self::Es384,
        Self::Es512,
        Self::Ps256,
        Self::Ps384,
        Self::Ps512,
        Self::Rs256,
        Self::Rs384,
        Self::Rs512,
    ];

    /// The name of the algorithm in headers and key sets.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Es256 => "ES256",
            Self::Es384 => "ES384",
            Self::Es512 => "ES512",
            Self::Ps256 => "PS256",
            Self::Ps384 => "PS384",
            Self::Ps512 => "PS512",
            Self::Rs256 => "RS256",
            Self::Rs384 => "RS384",
            Self::Rs512 => "RS512",
        }
    }

    /// The algorithm of a name.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|algorithm| algorithm.name() == name)
    }
}

/// No key verifies the signature of a token. The text is that of the reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("go-jose/go-jose: error in cryptographic primitive")]
pub struct InvalidSignature;

/// A token that was read, and not verified.
pub struct Unverified<'a> {
    algorithm: Option<Algorithm>,
    algorithm_name: String,
    key_id: String,
    claims: Claims,
    /// The header and the claims as they were sent: the signed text.
    message: &'a str,
    signature: &'a str,
}

impl<'a> Unverified<'a> {
    /// Reads a token; `None` if it is not a signed JSON web token in its compact form.
    pub fn parse(token: &'a str) -> Option<Self> {
        if token.len() > MOST_BYTES {
            return None;
        }
        let (message, signature) = token.rsplit_once('.')?;
        let (header, claims) = message.split_once('.')?;
        // A token with more than three parts has a dot here.
        if claims.contains('.') || URL_SAFE_NO_PAD.decode(signature).is_err() {
            return None;
        }
        let (header, claims) = (part(header)?, part(claims)?);
        let text = |key: &str| header.get(key).and_then(Value::as_str).unwrap_or_default();
        // No extension is understood, so none can be critical.
        let algorithm = Algorithm::of_name(text("alg")).filter(|_| !header.contains_key("crit"));
        let (algorithm_name, key_id) = (text("alg").to_owned(), text("kid").to_owned());
        Some(Self { algorithm, algorithm_name, key_id, claims: Claims(claims), message, signature })
    }

    /// The issuer that the token names.
    pub fn issuer(&self) -> &str {
        self.claims.text("iss")
    }

    /// The algorithm that the token names, whether it is a known one or not; empty if it names none.
    pub fn algorithm_name(&self) -> &str {
        &self.algorithm_name
    }

    /// The claims, for checks that can only refuse the token: they may be forged.
    pub fn unverified_claims(&self) -> &Claims {
        &self.claims
    }

    /// The key that the token names; empty if it names none.
    pub fn key_id(&self) -> &str {
        &self.key_id
    }

    /// The claims, if one of the keys verifies the signature by one of the algorithms.
    pub fn verify<'k>(
        self,
        keys: impl IntoIterator<Item = &'k PublicKey>,
        algorithms: &[Algorithm],
    ) -> Result<Claims, InvalidSignature> {
        let algorithm = self.algorithm.filter(|algorithm| algorithms.contains(algorithm));
        let algorithm = algorithm.ok_or(InvalidSignature)?;
        let is_valid = |key: &PublicKey| key.verifies(algorithm, self.message.as_bytes(), self.signature);
        if keys.into_iter().any(is_valid) { Ok(self.claims) } else { Err(InvalidSignature) }
    }
}

/// A part of a token: an object in which no key is repeated.
fn part(encoded: &str) -> Option<Map> {
    const LIMITS: Limits =
        Limits { bytes: MOST_BYTES, depth: MOST_DEPTH, values: MOST_VALUES, ..Limits::REQUEST };
    let bytes = URL_SAFE_NO_PAD.decode(encoded).ok()?;
    let decoded = json::decode_shape(&Shape::Any, &bytes, &LIMITS).ok()?;
    match decoded.value {
        Value::Map(map) if decoded.strict.is_empty() => Some(map),
        _ => None,
    }
}

/// The claims of a token. Its signature is verified, except for [`Unverified::unverified_claims`].
#[derive(Clone, Debug, PartialEq)]
pub struct Claims(Map);

/// A claim has the wrong type. The texts are those of the reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidClaim {
    /// A time is not a number.
    #[error("go-jose/go-jose/jwt: expected number value to unmarshal NumericDate")]
    Time,
    /// The audience is neither text nor a list of texts.
    #[error("go-jose/go-jose/jwt: expected string or array value to unmarshal to Audience")]
    Audience,
}

impl Claims {
    /// A claim.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }

    /// Adds a claim that was verified elsewhere.
    pub(crate) fn insert(&mut self, name: &str, value: Value) {
        self.0.insert(name, value);
    }

    /// All claims.
    pub fn all(&self) -> &Map {
        &self.0
    }

    /// The text of a claim; empty if the claim is absent or not a string.
    pub fn text(&self, name: &str) -> &str {
        self.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    /// The time of a claim, in seconds since 1970.
    pub fn time(&self, name: &str) -> Result<Option<i64>, InvalidClaim> {
        time(self.get(name))
    }

    /// The audiences; none if the token does not say.
    pub fn audiences(&self) -> Result<Vec<String>, InvalidClaim> {
        let text = |value: &Value| value.as_str().map(str::to_owned).ok_or(InvalidClaim::Audience);
        match self.get("aud") {
            None => Ok(Vec::new()),
            Some(Value::List(list)) => list.iter().map(text).collect(),
            Some(one) => text(one).map(|one| vec![one]),
        }
    }
}

/// The time of a number in claims, in seconds since 1970; a fraction is cut off.
pub(crate) fn time(value: Option<&Value>) -> Result<Option<i64>, InvalidClaim> {
    match value {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Int(seconds)) => Ok(Some(*seconds)),
        Some(Value::Float(seconds)) => Ok(Some(*seconds as i64)),
        Some(_) => Err(InvalidClaim::Time),
    }
}

#[cfg(test)]
mod tests;
