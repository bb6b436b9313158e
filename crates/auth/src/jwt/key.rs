//! Public keys, from PEM and from JSON web key sets.

use super::{Algorithm, SigningKey};
use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::signature::{ECDSA_P521_SHA512_FIXED, UnparsedPublicKey};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::DecodingKey;
use object::{Map, Value};
use schema::{Limits, Shape, json};
use std::fmt;
use x509_parser::pem::Pem;
use x509_parser::prelude::FromDer as _;
use x509_parser::public_key::PublicKey as Parsed;
use x509_parser::x509::SubjectPublicKeyInfo;

/// Why keys cannot be used. It contains no key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidKey {
    /// A text has no private key.
    #[error("data does not contain a valid RSA or ECDSA private key")]
    NoPrivateKey,
    /// A text has no public keys.
    #[error("data does not contain any valid RSA or ECDSA public keys")]
    NoPublicKeys,
    /// A text is not a JSON web key set.
    #[error("not a JSON web key set")]
    NoKeySet,
    /// No new key could be made.
    #[error("no key could be generated")]
    NotGenerated,
}

/// A public key and its key id.
#[derive(Clone)]
pub struct PublicKey {
    id: String,
    form: Form,
    /// The key in the form of the library that verifies signatures.
    decoding: DecodingKey,
}

#[derive(Clone, PartialEq, Eq)]
enum Form {
    /// Modulus and exponent, without leading zeros.
    Rsa { modulus: Vec<u8>, exponent: Vec<u8> },
    /// An uncompressed point.
    Ec { curve: Curve, point: Vec<u8> },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Curve {
    P256,
    P384,
    P521,
}

impl Curve {
    const ALL: [Self; 3] = [Self::P256, Self::P384, Self::P521];

    const fn name(self) -> &'static str {
        match self {
            Self::P256 => "P-256",
            Self::P384 => "P-384",
            Self::P521 => "P-521",
        }
    }

    const fn oid(self) -> &'static str {
        match self {
            Self::P256 => "1.2.840.10045.3.1.7",
            Self::P384 => "1.3.132.0.34",
            Self::P521 => "1.3.132.0.35",
        }
    }

    /// The bytes of a coordinate.
    const fn size(self) -> usize {
        match self {
            Self::P256 => 32,
            Self::P384 => 48,
            Self::P521 => 66,
        }
    }

    const fn algorithm(self) -> Algorithm {
        match self {
            Self::P256 => Algorithm::Es256,
            Self::P384 => Algorithm::Es384,
            Self::P521 => Algorithm::Es512,
        }
    }
}

impl PublicKey {
    /// A key from its `SubjectPublicKeyInfo`, from which the key id is derived as in the reference.
    pub(super) fn from_spki(der: &[u8]) -> Option<Self> {
        let (rest, info) = SubjectPublicKeyInfo::from_der(der).ok()?;
        if !rest.is_empty() {
            return None;
        }
        let id = URL_SAFE_NO_PAD.encode(digest(&SHA256, der));
        let form = match info.parsed().ok()? {
            Parsed::RSA(key) => Form::rsa(key.modulus, key.exponent)?,
            Parsed::EC(point) => {
                let named = info.algorithm.parameters.as_ref()?.as_oid().ok()?.to_id_string();
                let curve = Curve::ALL.into_iter().find(|curve| curve.oid() == named)?;
                Form::ec(curve, point.data().to_vec())?
            }
            _ => return None,
        };
        Some(Self::new(id, form))
    }

    /// A key from its `SubjectPublicKeyInfo`, with an id; `None` if no token can be verified by it.
    pub fn from_pkix(id: &str, der: &[u8]) -> Option<Self> {
        Some(Self { id: id.to_owned(), ..Self::from_spki(der)? })
    }

    /// A key of a JSON web key set; `None` if it is of another type or use.
    fn from_jwk(jwk: &Map) -> Option<Self> {
        let text = |key: &str| jwk.get(key).and_then(Value::as_str).unwrap_or_default();
        let bytes = |key: &str| URL_SAFE_NO_PAD.decode(text(key)).ok();
        if !matches!(text("use"), "" | "sig") {
            return None;
        }
        let form = match text("kty") {
            "RSA" => Form::rsa(&bytes("n")?, &bytes("e")?)?,
            "EC" => {
                let curve = Curve::ALL.into_iter().find(|curve| curve.name() == text("crv"))?;
                let mut point = vec![4];
                for coordinate in [bytes("x")?, bytes("y")?] {
                    let padding = curve.size().checked_sub(coordinate.len())?;
                    point.extend(std::iter::repeat_n(0, padding));
                    point.extend(coordinate);
                }
                Form::ec(curve, point)?
            }
            _ => return None,
        };
        Some(Self::new(text("kid").to_owned(), form))
    }

    fn new(id: String, form: Form) -> Self {
        let decoding = match &form {
            Form::Rsa { modulus, exponent } => DecodingKey::from_rsa_raw_components(modulus, exponent),
            Form::Ec { point, .. } => DecodingKey::from_ec_der(point),
        };
        Self { id, form, decoding }
    }

    /// The key id, as in the header `kid` of tokens.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The algorithm that the server signs with where it has the private key.
    pub fn algorithm(&self) -> Algorithm {
        match &self.form {
            Form::Rsa { .. } => Algorithm::Rs256,
            Form::Ec { curve, .. } => curve.algorithm(),
        }
    }

    /// Whether a signature, in base64, is that of a message. An algorithm that does not fit the key verifies
    /// nothing.
    pub(super) fn verifies(&self, algorithm: Algorithm, message: &[u8], signature: &str) -> bool {
        let by_library = |algorithm| {
            jsonwebtoken::crypto::verify(signature, message, &self.decoding, algorithm).unwrap_or(false)
        };
        match (&self.form, algorithm) {
            (Form::Rsa { .. }, Algorithm::Rs256) => by_library(jsonwebtoken::Algorithm::RS256),
            (Form::Rsa { .. }, Algorithm::Rs384) => by_library(jsonwebtoken::Algorithm::RS384),
            (Form::Rsa { .. }, Algorithm::Rs512) => by_library(jsonwebtoken::Algorithm::RS512),
            (Form::Rsa { .. }, Algorithm::Ps256) => by_library(jsonwebtoken::Algorithm::PS256),
            (Form::Rsa { .. }, Algorithm::Ps384) => by_library(jsonwebtoken::Algorithm::PS384),
            (Form::Rsa { .. }, Algorithm::Ps512) => by_library(jsonwebtoken::Algorithm::PS512),
            (Form::Ec { curve: Curve::P256, .. }, Algorithm::Es256) => {
                by_library(jsonwebtoken::Algorithm::ES256)
            }
            (Form::Ec { curve: Curve::P384, .. }, Algorithm::Es384) => {
                by_library(jsonwebtoken::Algorithm::ES384)
            }
            // The library does not know this curve.
            (Form::Ec { curve: Curve::P521, point }, Algorithm::Es512) => {
                let key = UnparsedPublicKey::new(&ECDSA_P521_SHA512_FIXED, point);
                URL_SAFE_NO_PAD
                    .decode(signature)
                    .is_ok_and(|signature| key.verify(message, &signature).is_ok())
            }
            _ => false,
        }
    }

    /// The JSON of the key in a key set, with the members in the order of the reference.
    fn to_jwk(&self) -> String {
        let id = json::string(&self.id);
        let algorithm = self.algorithm().name();
        let encode = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        match &self.form {
            Form::Rsa { modulus, exponent } => {
                let (n, e) = (encode(modulus), encode(exponent));
                format!(r#"{{"use":"sig","kty":"RSA","kid":{id},"alg":"{algorithm}","n":"{n}","e":"{e}"}}"#)
            }
            Form::Ec { curve, point } => {
                let coordinates = point.get(1..).unwrap_or_default();
                let (x, y) = coordinates.split_at_checked(curve.size()).unwrap_or_default();
                let (curve, x, y) = (curve.name(), encode(x), encode(y));
                format!(
                    r#"{{"use":"sig","kty":"EC","kid":{id},"crv":"{curve}","alg":"{algorithm}","x":"{x}","y":"{y}"}}"#
                )
            }
        }
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PublicKey").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Form {
    fn rsa(modulus: &[u8], exponent: &[u8]) -> Option<Self> {
        let [modulus, exponent] = [modulus, exponent].map(|number| {
            let zeros = number.iter().take_while(|byte| **byte == 0).count();
            number.get(zeros..).unwrap_or_default().to_vec()
        });
        // The library refuses signatures of other keys.
        let fits = (256..=1024).contains(&modulus.len()) && (1..=8).contains(&exponent.len());
        fits.then_some(Self::Rsa { modulus, exponent })
    }

    fn ec(curve: Curve, point: Vec<u8>) -> Option<Self> {
        let fits = point.len() == 1 + 2 * curve.size() && point.first() == Some(&4);
        fits.then_some(Self::Ec { curve, point })
    }
}

/// Public keys that tokens are verified with.
#[derive(Clone, Debug, Default)]
pub struct KeySet(Vec<PublicKey>);

impl KeySet {
    /// Keys.
    pub fn new(keys: Vec<PublicKey>) -> Self {
        Self(keys)
    }

    /// The keys of a PEM text: public keys, the public halves of private keys, and those of certificates.
    /// Other parts are left out.
    pub fn from_pem(text: &[u8]) -> Result<Self, InvalidKey> {
        let keys = Pem::iter_from_buffer(text).flatten().filter_map(|block| {
            let der = block.contents.as_slice();
            PublicKey::from_spki(der)
                .or_else(|| SigningKey::from_der(der).map(|key| key.public().clone()))
                .or_else(|| {
                    let (_, certificate) = x509_parser::parse_x509_certificate(der).ok()?;
                    PublicKey::from_spki(certificate.public_key().raw)
                })
        });
        let keys: Vec<_> = keys.collect();
        if keys.is_empty() { Err(InvalidKey::NoPublicKeys) } else { Ok(Self(keys)) }
    }

    /// The keys of a JSON web key set. Those of other types and uses are left out.
    pub fn from_jwks(text: &[u8]) -> Result<Self, InvalidKey> {
        let limits = Limits { bytes: 1 << 20, ..Limits::REQUEST };
        let decoded = json::decode_shape(&Shape::Any, text, &limits).map_err(|_| InvalidKey::NoKeySet)?;
        let keys = decoded.value.get("keys").and_then(Value::as_list).ok_or(InvalidKey::NoKeySet)?;
        Ok(Self(keys.iter().filter_map(Value::as_map).filter_map(PublicKey::from_jwk).collect()))
    }

    /// Adds further keys.
    pub fn extend(&mut self, more: Self) {
        self.0.extend(more.0);
    }

    /// The keys.
    pub fn keys(&self) -> &[PublicKey] {
        &self.0
    }

    /// The keys that a token can be signed with: those of the name, or all if the token names none.
    pub fn candidates(&self, key_id: &str) -> impl Iterator<Item = &PublicKey> + Clone {
        self.0.iter().filter(move |key| key_id.is_empty() || key.id == key_id)
    }

    /// The algorithms that the server signs with where it has the private keys, each once, in the order of
    /// their names.
    pub fn algorithms(&self) -> Vec<Algorithm> {
        let mut algorithms: Vec<_> = self.0.iter().map(PublicKey::algorithm).collect();
        algorithms.sort_unstable();
        algorithms.dedup();
        algorithms
    }

    /// The JSON web key set.
    pub fn to_jwks(&self) -> String {
        let keys: Vec<String> = self.0.iter().map(PublicKey::to_jwk).collect();
        format!(r#"{{"keys":[{}]}}"#, keys.join(","))
    }
}
