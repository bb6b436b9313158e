//! XSalsa20 and Poly1305 as in NaCl's secretbox: a nonce of 24 bytes, a tag of 16 bytes, the data. The
//! context is not authenticated.

use crypto_secretbox::aead::AeadInPlace;
use crypto_secretbox::{KeyInit, Nonce, Tag, XSalsa20Poly1305};

use crate::Error;
use crate::aes::random;

const NONCE: usize = 24;
const TAG: usize = 16;

/// A key of secretbox.
pub(crate) struct Secretbox(XSalsa20Poly1305);

impl Secretbox {
    /// What a sealed value is longer by.
    pub(crate) const OVERHEAD: usize = NONCE + TAG;

    /// A key of 32 bytes.
    pub(crate) fn new(key: &[u8]) -> Result<Self, Error> {
        XSalsa20Poly1305::new_from_slice(key).map(Self).map_err(|_| Error::KeySize(key.len()))
    }

    /// Appends nonce, tag and data.
    pub(crate) fn seal(&self, plain: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
        let nonce = random::<NONCE>()?;
        out.extend_from_slice(&nonce);
        let start = out.len();
        out.extend_from_slice(&[0; TAG]);
        out.extend_from_slice(plain);
        let (tag_place, data) = out
            .get_mut(start..)
            .and_then(|sealed| sealed.split_first_chunk_mut::<TAG>())
            .ok_or(Error::TooShort)?;
        let tag = self
            .0
            .encrypt_in_place_detached(Nonce::from_slice(&nonce), &[], data)
            .map_err(|_| Error::NotAuthentic)?;
        tag_place.copy_from_slice(&tag);
        Ok(())
    }

    pub(crate) fn open(&self, sealed: &[u8]) -> Result<Vec<u8>, Error> {
        let (nonce, rest) = sealed.split_first_chunk::<NONCE>().ok_or(Error::TooShort)?;
        let (tag, data) = rest.split_first_chunk::<TAG>().ok_or(Error::TooShort)?;
        let mut plain = data.to_vec();
        self.0
            .decrypt_in_place_detached(Nonce::from_slice(nonce), &[], &mut plain, Tag::from_slice(tag))
            .map_err(|_| Error::NotAuthentic)?;
        Ok(plain)
    }
}
