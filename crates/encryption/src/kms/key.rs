//! The keys that KMS plugins encrypt, in plain form.

use std::sync::Arc;

use aws_lc_rs::{hmac, rand};
use zeroize::Zeroizing;

use super::envelope::{KEY, SEED};
use crate::Error;
use crate::aes::{Gcm, random};

/// How many bytes a seed has at least, and how many precede each value that is encrypted with a seed.
const SEED_SIZE: usize = 32;
const INFO: usize = 32;
/// The size of derived keys.
const KEY_SIZE: usize = 32;

/// A seed: each value has a key of its own, derived by HKDF's expansion with SHA-256 from the seed and random
/// bytes that are stored before the value. So a seed has no limit of values, where a key of AES-GCM with
/// random nonces has.
pub(crate) struct Seed(hmac::Key);

impl Seed {
    /// What a sealed value is longer by.
    pub(crate) const OVERHEAD: usize = INFO + Gcm::OVERHEAD;

    fn new(seed: &[u8]) -> Result<Self, Error> {
        if seed.len() < SEED_SIZE {
            return Err(Error::Kms(format!("invalid seed length {} used for key generation", seed.len())));
        }
        Ok(Self(hmac::Key::new(hmac::HMAC_SHA256, seed)))
    }

    /// A new seed, and its bytes for the plugin.
    pub(crate) fn generate() -> Result<(Self, Zeroizing<[u8; SEED_SIZE]>), Error> {
        let mut seed = Zeroizing::new([0; SEED_SIZE]);
        rand::fill(&mut *seed).map_err(|_| Error::Random)?;
        Ok((Self::new(&*seed)?, seed))
    }

    /// Appends the random bytes and the sealed value.
    pub(crate) fn seal(&self, context: &[u8], plain: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
        let info = random::<INFO>()?;
        out.extend_from_slice(&info);
        self.derive(&info)?.seal(context, plain, out)
    }

    pub(crate) fn open(&self, context: &[u8], sealed: &[u8]) -> Result<Vec<u8>, Error> {
        let (info, sealed) = sealed.split_first_chunk().ok_or(Error::TooShort)?;
        self.derive(info)?.open(context, sealed)
    }

    /// The first block of HKDF's expansion, which is as long as the key.
    fn derive(&self, info: &[u8; INFO]) -> Result<Gcm, Error> {
        let mut input = [1; INFO + 1];
        input.iter_mut().zip(info).for_each(|(slot, byte)| *slot = *byte);
        let mut key = Zeroizing::new([0; KEY_SIZE]);
        hmac::sign_to_buffer(&self.0, &input, &mut *key).map_err(|_| Error::KeySize(KEY_SIZE))?;
        Gcm::new(&*key)
    }
}

/// A key that only decrypts.
pub(crate) enum ReadKey {
    Seed(Arc<Seed>),
    Key(Gcm),
}

impl ReadKey {
    /// The key of an envelope, from what the plugin decrypted.
    pub(crate) fn new(source_type: i32, plain: &[u8]) -> Result<Self, Error> {
        match source_type {
            SEED => Ok(Self::Seed(Arc::new(Seed::new(plain)?))),
            KEY => Gcm::new(plain)
                .map(Self::Key)
                .map_err(|_| Error::Kms(format!("crypto/aes: invalid key size {}", plain.len()))),
            other => Err(Error::Envelope(format!("unknown encryptedDEKSourceType: {other}"))),
        }
    }

    pub(crate) fn open(&self, context: &[u8], sealed: &[u8]) -> Result<Vec<u8>, Error> {
        match self {
            Self::Seed(seed) => seed.open(context, sealed),
            Self::Key(key) => key.open(context, sealed),
        }
    }
}
