//! Private keys, and signing.

use super::{Algorithm, InvalidKey, PublicKey};
use aws_lc_rs::encoding::{AsDer, EcPrivateKeyRfc5915Der, PublicKeyX509Der};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, ECDSA_P521_SHA512_FIXED_SIGNING,
    EcdsaKeyPair, KeyPair as _, RSA_PKCS1_SHA256, RsaKeyPair,
};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use object::{Map, Value};
use schema::{Shape, json};
use std::fmt;
use x509_parser::pem::Pem;

/// A private key. Debug output withholds it.
pub struct SigningKey {
    pair: Pair,
    public: PublicKey,
}

enum Pair {
    Rsa(RsaKeyPair),
    Ec(EcdsaKeyPair),
}

/// A token could not be signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the key cannot sign")]
pub struct SigningFailed;

impl SigningKey {
    /// The first private key of a PEM text, in PKCS#1, PKCS#8 or SEC1.
    pub fn from_pem(text: &[u8]) -> Result<Self, InvalidKey> {
        let mut keys =
            Pem::iter_from_buffer(text).flatten().filter_map(|block| Self::from_der(&block.contents));
        keys.next().ok_or(InvalidKey::NoPrivateKey)
    }

    /// A new key, as PEM text: ECDSA on P-256.
    pub fn generate() -> Result<String, InvalidKey> {
        let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING);
        let pair = pair.map_err(|_| InvalidKey::NotGenerated)?;
        let der: EcPrivateKeyRfc5915Der<'_> =
            pair.private_key().as_der().map_err(|_| InvalidKey::NotGenerated)?;
        let encoded = STANDARD.encode(der.as_ref());
        let mut text = String::from("-----BEGIN EC PRIVATE KEY-----\n");
        for (at, letter) in encoded.chars().enumerate() {
            if at > 0 && at % 64 == 0 {
                text.push('\n');
            }
            text.push(letter);
        }
        text.push_str("\n-----END EC PRIVATE KEY-----\n");
        Ok(text)
    }

    pub(super) fn from_der(der: &[u8]) -> Option<Self> {
        if let Ok(pair) = RsaKeyPair::from_pkcs8(der).or_else(|_| RsaKeyPair::from_der(der)) {
            let spki: PublicKeyX509Der<'_> = pair.public_key().as_der().ok()?;
            let public = PublicKey::from_spki(spki.as_ref())?;
            return Some(Self { pair: Pair::Rsa(pair), public });
        }
        let curves = [
            &ECDSA_P256_SHA256_FIXED_SIGNING,
            &ECDSA_P384_SHA384_FIXED_SIGNING,
            &ECDSA_P521_SHA512_FIXED_SIGNING,
        ];
        curves.into_iter().find_map(|curve| {
            let pair = EcdsaKeyPair::from_pkcs8(curve, der);
            let pair = pair.or_else(|_| EcdsaKeyPair::from_private_key_der(curve, der)).ok()?;
            let spki: PublicKeyX509Der<'_> = pair.public_key().as_der().ok()?;
            let public = PublicKey::from_spki(spki.as_ref())?;
            Some(Self { pair: Pair::Ec(pair), public })
        })
    }

    /// The public key.
    pub fn public(&self) -> &PublicKey {
        &self.public
    }

    /// The algorithm that the key signs with: RS256 for an RSA key, that of the curve for an EC key.
    pub fn algorithm(&self) -> Algorithm {
        self.public.algorithm()
    }

    /// A token with these claims.
    pub fn sign(&self, claims: Map) -> Result<String, SigningFailed> {
        let mut header = Map::new();
        header.insert("alg", self.algorithm().name());
        header.insert("kid", self.public.id());
        self.sign_with_header(header, claims)
    }

    pub(super) fn sign_with_header(&self, header: Map, claims: Map) -> Result<String, SigningFailed> {
        let token = format!("{}.{}", part(header), part(claims));
        let signature = self.sign_text(&token)?;
        Ok(format!("{token}.{signature}"))
    }

    /// The signature of a text, in base64.
    pub fn sign_text(&self, text: &str) -> Result<String, SigningFailed> {
        let random = SystemRandom::new();
        let message = text.as_bytes();
        let signature = match &self.pair {
            Pair::Rsa(pair) => {
                let mut signature = vec![0; pair.public_modulus_len()];
                let signed = pair.sign(&RSA_PKCS1_SHA256, &random, message, &mut signature);
                signed.map(|()| URL_SAFE_NO_PAD.encode(signature))
            }
            Pair::Ec(pair) => pair.sign(&random, message).map(|signature| URL_SAFE_NO_PAD.encode(signature)),
        };
        signature.map_err(|_| SigningFailed)
    }

    /// The public key as a `SubjectPublicKeyInfo`; `None` if it cannot be encoded.
    pub fn public_der(&self) -> Option<Vec<u8>> {
        let der: PublicKeyX509Der<'_> = match &self.pair {
            Pair::Rsa(pair) => pair.public_key().as_der().ok()?,
            Pair::Ec(pair) => pair.public_key().as_der().ok()?,
        };
        Some(der.as_ref().to_vec())
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SigningKey").field("id", &self.public.id()).finish_non_exhaustive()
    }
}

/// A part of a token, in base64.
pub(crate) fn part(map: Map) -> String {
    let mut out = Vec::new();
    json::encode_shape(&Shape::Any, &Value::Map(map), &mut out);
    URL_SAFE_NO_PAD.encode(out)
}
