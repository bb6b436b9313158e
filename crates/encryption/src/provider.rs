//! The providers of one resource: which of them reads a value, and which writes it.
//!
//! A stored value begins with the prefix of its provider, and with the name of the key where the provider has
//! named keys. The first provider writes. Each provider whose prefix fits may read: two of them may have the
//! same prefix, when keys move from one to the other.

use std::sync::Arc;

use bytes::Bytes;

use crate::aes::{Cbc, Gcm};
use crate::kms::Plugin;
use crate::secretbox::Secretbox;
use crate::{Decrypted, Error, Freshness, Patience};

/// The prefix of every encrypted value.
const ENCRYPTED: &[u8] = b"k8s:enc:";

/// The providers of one resource. There is at least one.
#[derive(Default)]
pub(crate) struct Chain(Vec<Arc<Provider>>);

/// One provider.
pub(crate) enum Provider {
    /// Stores values as they are.
    Identity,
    /// Has keys of its own.
    Keys(KeyRing),
    /// Has its keys encrypted by a KMS plugin.
    Kms(Arc<Plugin>),
}

/// The keys of a provider. The first one writes.
pub(crate) struct KeyRing {
    prefix: &'static [u8],
    /// The kind of provider in errors.
    shown: &'static str,
    keys: Vec<NamedKey>,
}

struct NamedKey {
    /// The name and a colon.
    prefix: Vec<u8>,
    cipher: Cipher,
}

enum Cipher {
    Gcm(Gcm),
    Cbc(Box<Cbc>),
    Secretbox(Secretbox),
}

/// The kinds of providers with keys of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProviderKind {
    AesGcm,
    AesCbc,
    Secretbox,
}

impl Chain {
    pub(crate) fn append(&mut self, providers: &[Arc<Provider>]) {
        self.0.extend_from_slice(providers);
    }

    /// Whether no provider changes a value.
    pub(crate) fn is_identity(&self) -> bool {
        !self.0.is_empty() && self.0.iter().all(|provider| matches!(**provider, Provider::Identity))
    }

    pub(crate) fn encrypt(&self, context: &[u8], plain: &[u8]) -> Result<Bytes, Error> {
        match self.0.first().map(|first| &**first) {
            None => Err(Error::NoProvider),
            Some(Provider::Identity) => Ok(Bytes::copy_from_slice(plain)),
            Some(Provider::Keys(ring)) => ring.encrypt(context, plain),
            Some(Provider::Kms(plugin)) => plugin.encrypt(context, plain),
        }
    }

    /// The first provider that can read a value reads it.
    pub(crate) fn decrypt(
        &self,
        context: &[u8],
        stored: &Bytes,
        patience: Patience,
    ) -> Result<Decrypted, Error> {
        let mut errors = Vec::new();
        for (at, provider) in self.0.iter().enumerate() {
            match provider.decrypt(context, stored, patience) {
                None => {}
                Some(Ok(decrypted)) if at == 0 => return Ok(decrypted),
                Some(Ok(decrypted)) => return Ok(Decrypted { freshness: Freshness::Stale, ..decrypted }),
                Some(Err(error)) => errors.push(error),
            }
        }
        Err(Error::several(errors).unwrap_or(Error::NoProvider))
    }
}

impl Provider {
    /// Decrypts a value; `None` if another provider wrote it.
    fn decrypt(
        &self,
        context: &[u8],
        stored: &Bytes,
        patience: Patience,
    ) -> Option<Result<Decrypted, Error>> {
        match self {
            Self::Identity => identity(stored.clone()).ok().map(Ok),
            Self::Keys(ring) => stored.strip_prefix(ring.prefix).map(|sealed| ring.decrypt(context, sealed)),
            Self::Kms(plugin) => {
                let sealed = stored.strip_prefix(plugin.prefix()).map(|sealed| stored.slice_ref(sealed));
                sealed.map(|sealed| plugin.decrypt(context, sealed, patience))
            }
        }
    }
}

impl KeyRing {
    /// Keys by name. A key of a length that the cipher does not take is an error.
    pub(crate) fn new<'a>(
        kind: ProviderKind,
        keys: impl IntoIterator<Item = (&'a str, &'a [u8])>,
    ) -> Result<Self, Error> {
        let keys = keys.into_iter().map(|(name, key)| {
            let cipher = match kind {
                ProviderKind::AesGcm => Cipher::Gcm(Gcm::new(key)?),
                ProviderKind::AesCbc => Cipher::Cbc(Box::new(Cbc::new(key)?)),
                ProviderKind::Secretbox => Cipher::Secretbox(Secretbox::new(key)?),
            };
            Ok(NamedKey { prefix: format!("{name}:").into_bytes(), cipher })
        });
        let keys = keys.collect::<Result<_, Error>>()?;
        let (prefix, shown): (&[u8], _) = match kind {
            ProviderKind::AesGcm => (b"k8s:enc:aesgcm:v1:", "AES"),
            ProviderKind::AesCbc => (b"k8s:enc:aescbc:v1:", "AES"),
            ProviderKind::Secretbox => (b"k8s:enc:secretbox:v1:", "Secretbox"),
        };
        Ok(Self { prefix, shown, keys })
    }

    fn encrypt(&self, context: &[u8], plain: &[u8]) -> Result<Bytes, Error> {
        let key = self.keys.first().ok_or(Error::NoKey(self.shown))?;
        let overhead = match key.cipher {
            Cipher::Gcm(_) => Gcm::OVERHEAD,
            Cipher::Cbc(_) => Cbc::OVERHEAD,
            Cipher::Secretbox(_) => Secretbox::OVERHEAD,
        };
        let mut out = Vec::with_capacity(self.prefix.len() + key.prefix.len() + overhead + plain.len());
        out.extend_from_slice(self.prefix);
        out.extend_from_slice(&key.prefix);
        match &key.cipher {
            Cipher::Gcm(cipher) => cipher.seal(context, plain, &mut out)?,
            Cipher::Cbc(cipher) => cipher.seal(plain, &mut out)?,
            Cipher::Secretbox(cipher) => cipher.seal(plain, &mut out)?,
        }
        Ok(out.into())
    }

    fn decrypt(&self, context: &[u8], stored: &[u8]) -> Result<Decrypted, Error> {
        let mut errors = Vec::new();
        for (at, key) in self.keys.iter().enumerate() {
            let Some(sealed) = stored.strip_prefix(&*key.prefix) else { continue };
            let plain = match &key.cipher {
                Cipher::Gcm(cipher) => cipher.open(context, sealed),
                Cipher::Cbc(cipher) => cipher.open(sealed),
                Cipher::Secretbox(cipher) => cipher.open(sealed),
            };
            match plain {
                Ok(plain) => {
                    let freshness = if at == 0 { Freshness::Current } else { Freshness::Stale };
                    return Ok(Decrypted { value: plain.into(), freshness });
                }
                Err(error) => errors.push(error),
            }
        }
        Err(Error::several(errors).unwrap_or(Error::NoKey(self.shown)))
    }
}

/// A value that was stored as it is.
pub(crate) fn identity(stored: Bytes) -> Result<Decrypted, Error> {
    match stored.starts_with(ENCRYPTED) {
        true => Err(Error::Encrypted),
        false => Ok(Decrypted { value: stored, freshness: Freshness::Current }),
    }
}
