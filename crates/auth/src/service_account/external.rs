//! Tokens that a program outside of the server signs, and the keys that it publishes.
//!
//! 1. The program gets the claims, and returns the header and the signature. A header that does not say by
//!    which known kind of key it signed is refused ([`check_header`]).
//! 2. [`ExternalKeys`] are a state of its keys. Each other state has another generation: signatures that were
//!    verified by one state count for that alone.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use object::Value;
use object::quote::quote;
use schema::{Limits, Shape, json};
use tasks::BoxFuture;

use crate::jwt::{KeySet, PublicKey};

/// The longest id of a key, in bytes.
pub const LONGEST_KEY_ID: usize = 1024;
/// The algorithms that tokens may be signed with.
const ALGORITHMS: [&str; 4] = ["RS256", "ES256", "ES384", "ES512"];

/// The header and the signature of a token, in base64.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedParts {
    /// The header.
    pub header: String,
    /// The signature.
    pub signature: String,
}

/// A key that the program publishes.
#[derive(Clone, Debug)]
pub struct ExternalKey {
    /// The key, with the id that the program gives it.
    pub key: PublicKey,
    /// Whether it only verifies tokens from before, and is not in the documents for others.
    pub is_excluded: bool,
}

/// The keys at one moment.
#[derive(Clone, Debug, Default)]
pub struct ExternalKeys {
    /// Another number for each other state.
    pub generation: u64,
    all: KeySet,
    published: KeySet,
    excluded: Vec<String>,
}

impl ExternalKeys {
    /// A state of the keys.
    pub fn new(generation: u64, keys: Vec<ExternalKey>) -> Self {
        let published = keys.iter().filter(|key| !key.is_excluded).map(|key| key.key.clone());
        let published = KeySet::new(published.collect());
        let excluded = keys.iter().filter(|key| key.is_excluded).map(|key| key.key.id().to_owned());
        let excluded = excluded.collect();
        Self {
            generation,
            all: KeySet::new(keys.into_iter().map(|key| key.key).collect()),
            published,
            excluded,
        }
    }

    /// All keys, by which tokens are verified.
    pub fn all(&self) -> &KeySet {
        &self.all
    }

    /// The keys in the documents for others.
    pub fn published(&self) -> &KeySet {
        &self.published
    }

    /// Whether a token can be verified that names a key. One that names none may be by any key.
    fn has(&self, key_id: &str) -> bool {
        self.all.candidates(key_id).next().is_some()
    }
}

/// A program that signs tokens.
pub trait ExternalSigner: Send + Sync {
    /// Signs claims, which are in base64.
    fn sign<'a>(&'a self, claims: &'a str) -> BoxFuture<'a, Result<SignedParts, String>>;

    /// The keys, as they are known.
    fn keys(&self) -> Arc<ExternalKeys>;

    /// Asks the program for its keys. Callers at the same time share one question.
    fn refresh(&self) -> BoxFuture<'_, Result<(), String>>;

    /// How long the keys may be kept by others, in seconds.
    fn max_age(&self) -> u32;
}

/// The token of claims, which are in base64.
pub(super) async fn sign(signer: &dyn ExternalSigner, claims: &str) -> Result<String, String> {
    let SignedParts { header, signature } =
        signer.sign(claims).await.map_err(|why| format!("while signing jwt: {why}"))?;
    check_header(signer, &header).await.map_err(|why| format!("while validating header: {why}"))?;
    if signature.is_empty() {
        return Err("empty signature returned".to_owned());
    }
    Ok(format!("{header}.{claims}.{signature}"))
}

/// Checks the header of a token.
async fn check_header(signer: &dyn ExternalSigner, header: &str) -> Result<(), String> {
    let fields = fields(header)?;
    let text = |key: &str| fields.get(key).map(String::as_str).unwrap_or_default();
    let key_id = text("kid");
    if text("typ") != "JWT" {
        return Err("bad type".to_owned());
    }
    if key_id.is_empty() {
        return Err("key id missing".to_owned());
    }
    if key_id.len() > LONGEST_KEY_ID {
        return Err("key id longer than 1 kb".to_owned());
    }
    if !ALGORITHMS.contains(&text("alg")) {
        return Err(format!("bad signing algorithm {}", quote(text("alg"))));
    }
    // Such a key is only there to verify tokens from before.
    if keys_for(signer, key_id).await.excluded.iter().any(|excluded| excluded == key_id) {
        return Err(format!("key used for signing JWT (kid: {key_id}) is excluded from OIDC discovery docs"));
    }
    Ok(())
}

/// The texts of a header.
fn fields(header: &str) -> Result<BTreeMap<String, String>, String> {
    let bytes =
        URL_SAFE_NO_PAD.decode(header).map_err(|error| format!("while unwrapping header: {error}"))?;
    let parsing = |why: String| format!("while parsing header JSON: {why}");
    let limits = Limits { bytes: 16 << 10, ..Limits::REQUEST };
    let decoded = json::decode_shape(&Shape::Any, &bytes, &limits);
    let decoded = decoded.map_err(|error| parsing(error.to_string()))?.value;
    let map = decoded.as_map().ok_or_else(|| parsing("it is no object".to_owned()))?;
    let mut fields = BTreeMap::new();
    for (key, value) in map.iter() {
        let (key, text) = (key.as_str(), value.as_str());
        if !["alg", "kid", "typ"].contains(&key) {
            return Err(parsing(format!("json: unknown field {}", quote(key))));
        }
        match (text, value) {
            (Some(text), _) => drop(fields.insert(key.to_owned(), text.to_owned())),
            (None, Value::Null) => {}
            (None, _) => return Err(parsing(format!("the field {key} is no text"))),
        }
    }
    Ok(fields)
}

/// The keys, after another question if the named one is not among them.
pub(super) async fn keys_for(signer: &dyn ExternalSigner, key_id: &str) -> Arc<ExternalKeys> {
    let known = signer.keys();
    if known.has(key_id) {
        return known;
    }
    if let Err(why) = signer.refresh().await {
        log::error!(why = why.as_str(); "the keys of the signer of service account tokens could not be fetched");
        return known;
    }
    signer.keys()
}
