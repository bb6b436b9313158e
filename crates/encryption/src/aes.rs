//! AES-GCM and AES-CBC, as the reference stores them.
//!
//! GCM: a nonce of 12 bytes, the data, a tag of 16 bytes; the context is authenticated with them. CBC: an
//! initialization vector of 16 bytes, then the data with the padding of PKCS#7; nothing is authenticated.

use aws_lc_rs::aead::{
    AES_128_GCM, AES_192_GCM, AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey,
};
use aws_lc_rs::cipher::{
    AES_128, AES_192, AES_256, DecryptingKey, DecryptionContext, EncryptingKey, EncryptionContext,
    UnboundCipherKey,
};
use aws_lc_rs::iv::FixedLength;
use aws_lc_rs::rand;

use crate::Error;

const TAG: usize = 16;
const BLOCK: usize = 16;

/// A key of AES-GCM, for random nonces.
pub(crate) struct Gcm(LessSafeKey);

impl Gcm {
    /// What a sealed value is longer by.
    pub(crate) const OVERHEAD: usize = NONCE_LEN + TAG;

    /// A key of 16, 24 or 32 bytes.
    pub(crate) fn new(key: &[u8]) -> Result<Self, Error> {
        let algorithm = match key.len() {
            16 => &AES_128_GCM,
            24 => &AES_192_GCM,
            32 => &AES_256_GCM,
            other => return Err(Error::KeySize(other)),
        };
        let key = UnboundKey::new(algorithm, key).map_err(|_| Error::KeySize(key.len()))?;
        Ok(Self(LessSafeKey::new(key)))
    }

    /// Appends nonce, data and tag.
    pub(crate) fn seal(&self, context: &[u8], plain: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
        let nonce = random::<NONCE_LEN>()?;
        out.extend_from_slice(&nonce);
        let start = out.len();
        out.extend_from_slice(plain);
        let data = out.get_mut(start..).unwrap_or_default();
        let nonce = Nonce::assume_unique_for_key(nonce);
        let tag = self
            .0
            .seal_in_place_separate_tag(nonce, Aad::from(context), data)
            .map_err(|_| Error::NotAuthentic)?;
        out.extend_from_slice(tag.as_ref());
        Ok(())
    }

    pub(crate) fn open(&self, context: &[u8], sealed: &[u8]) -> Result<Vec<u8>, Error> {
        let (nonce, data) = sealed.split_first_chunk::<NONCE_LEN>().ok_or(Error::TooShort)?;
        let (data, tag) = data.split_last_chunk::<TAG>().ok_or(Error::NotAuthentic)?;
        let mut plain = vec![0; data.len()];
        let nonce = Nonce::assume_unique_for_key(*nonce);
        self.0
            .open_separate_gather(nonce, Aad::from(context), data, tag, &mut plain)
            .map_err(|_| Error::NotAuthentic)?;
        Ok(plain)
    }
}

/// A key of AES-CBC.
pub(crate) struct Cbc {
    encrypting: EncryptingKey,
    decrypting: DecryptingKey,
}

impl Cbc {
    /// What a sealed value is longer by at most.
    pub(crate) const OVERHEAD: usize = 2 * BLOCK;

    /// A key of 16, 24 or 32 bytes.
    pub(crate) fn new(key: &[u8]) -> Result<Self, Error> {
        let wrong = |_| Error::KeySize(key.len());
        let algorithm = match key.len() {
            16 => &AES_128,
            24 => &AES_192,
            32 => &AES_256,
            other => return Err(Error::KeySize(other)),
        };
        let unbound = || UnboundCipherKey::new(algorithm, key).map_err(wrong);
        Ok(Self {
            encrypting: EncryptingKey::cbc(unbound()?).map_err(wrong)?,
            decrypting: DecryptingKey::cbc(unbound()?).map_err(wrong)?,
        })
    }

    /// Appends the initialization vector and the blocks.
    pub(crate) fn seal(&self, plain: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
        let vector = random::<BLOCK>()?;
        out.extend_from_slice(&vector);
        let start = out.len();
        out.extend_from_slice(plain);
        let padding = BLOCK - plain.len() % BLOCK;
        out.resize(out.len() + padding, padding as u8);
        let blocks = out.get_mut(start..).unwrap_or_default();
        let context = EncryptionContext::Iv128(FixedLength::from(vector));
        self.encrypting.less_safe_encrypt(blocks, context).map_err(|_| Error::PartialBlock)?;
        Ok(())
    }

    pub(crate) fn open(&self, sealed: &[u8]) -> Result<Vec<u8>, Error> {
        let (vector, blocks) = sealed.split_first_chunk::<BLOCK>().ok_or(Error::TooShort)?;
        if !blocks.len().is_multiple_of(BLOCK) {
            return Err(Error::PartialBlock);
        }
        let mut plain = blocks.to_vec();
        let context = DecryptionContext::Iv128(FixedLength::from(*vector));
        self.decrypting.decrypt(&mut plain, context).map_err(|_| Error::PartialBlock)?;
        let length = unpadded(&plain).ok_or(Error::Padding)?;
        plain.truncate(length);
        Ok(plain)
    }
}

/// The length without the padding; `None` if the padding is invalid.
fn unpadded(data: &[u8]) -> Option<usize> {
    let last = *data.last()?;
    let length = data.len().checked_sub(usize::from(last)).filter(|_| last > 0)?;
    let padding = data.get(length..)?;
    padding.iter().all(|byte| *byte == last).then_some(length)
}

/// Bytes from the system's secure random generator.
pub(crate) fn random<const N: usize>() -> Result<[u8; N], Error> {
    let mut bytes = [0; N];
    rand::fill(&mut bytes).map_err(|_| Error::Random)?;
    Ok(bytes)
}
