//! Records that the servers on one etcd share and do not serve, encrypted.

use bytes::Bytes;
use encryption::{Encryption, Transform};
use store::{Codec, DecodeError, Key, Patience};

use crate::open;

/// Keys as they are; values encrypted as those of one resource of the group `""`.
pub struct Record {
    transform: Transform,
}

impl Record {
    /// Encrypts as the configuration says for a resource.
    pub fn new(encryption: &Encryption, resource: &str) -> Self {
        Self { transform: encryption.for_resource("", resource) }
    }
}

impl Codec for Record {
    fn encode_value(&self, key: &Key, value: Bytes) -> Result<Bytes, String> {
        self.transform.encrypt(key.as_bytes(), &value).map_err(|error| error.to_string())
    }

    fn decode_value(&self, key: &Key, stored: Bytes, patience: Patience) -> Result<Bytes, DecodeError> {
        open(&self.transform, key.as_bytes(), stored, patience).map(|(value, _)| value)
    }
}
