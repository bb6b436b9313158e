//! Keelson's own layout, encrypted.

use crate::keys::Keys;
use crate::{NO_PLACE, decrypt, encrypt, marked, no_place};
use bytes::Bytes;
use encryption::Encryption;
use store::{Codec, DecodeError, Key, Patience};

/// The start of the key that is authenticated with a value, as in the reference.
const ROOT: &str = "/registry";

/// Leaves keys as they are and encrypts values. The key that the reference would use is authenticated with a
/// value.
pub struct Sealed {
    keys: Keys,
    encryption: Encryption,
}

impl Sealed {
    /// Encrypts as the configuration says.
    pub fn new(encryption: Encryption) -> Self {
        Self { keys: Keys::new(ROOT), encryption }
    }
}

impl Codec for Sealed {
    fn encode_value(&self, key: &Key, value: Bytes) -> Result<Bytes, String> {
        let place = self.keys.place(key.as_bytes()).ok_or(NO_PLACE)?;
        encrypt(Some(&self.encryption), &self.keys, &place, value)
    }

    fn decode_value(&self, key: &Key, stored: Bytes, patience: Patience) -> Result<Bytes, DecodeError> {
        let place = self.keys.place(key.as_bytes()).ok_or_else(no_place)?;
        let (framed, freshness) = decrypt(Some(&self.encryption), &self.keys, &place, stored, patience)?;
        Ok(marked(framed, freshness))
    }
}
