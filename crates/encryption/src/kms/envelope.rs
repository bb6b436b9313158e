//! The stored form of the KMS provider: the encrypted data, and what the plugin needs to decrypt its key.

use std::collections::BTreeMap;

use aws_lc_rs::digest::{Context, SHA256, digest};
use bytes::Bytes;
use object::field::{Aggregate, Path};
use object::name::domain::fully_qualified_domain_name;
use prost::Message;

use crate::Error;
use crate::error::Listed;

use super::cache::KeyDigest;

const MOST_KEY_ID: usize = 1 << 10;
const MOST_SOURCE: usize = 1 << 10;
const MOST_ANNOTATIONS: usize = 32 << 10;

/// The decrypted source is the key itself. Written before 1.29.
pub(crate) const KEY: i32 = 0;
/// The decrypted source is a seed, from which the key of each value is derived.
pub(crate) const SEED: i32 = 1;

/// A stored value, without the prefix.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct EncryptedObject {
    #[prost(bytes = "bytes", tag = "1")]
    pub(crate) encrypted_data: Bytes,
    #[prost(string, tag = "2")]
    pub(crate) key_id: String,
    #[prost(bytes = "bytes", tag = "3")]
    pub(crate) source: Bytes,
    #[prost(btree_map = "string, bytes", tag = "4")]
    pub(crate) annotations: BTreeMap<String, Vec<u8>>,
    #[prost(int32, tag = "5")]
    pub(crate) source_type: i32,
}

impl EncryptedObject {
    /// Reads a stored value.
    pub(crate) fn read(stored: Bytes) -> Result<Self, Error> {
        let object = Self::decode(stored).map_err(|error| Error::Envelope(error.to_string()))?;
        if object.encrypted_data.is_empty() {
            object.check_type()?;
            return Err(Error::Envelope("encrypted data is empty".to_owned()));
        }
        object.check()?;
        Ok(object)
    }

    /// Checks everything but the data.
    pub(crate) fn check(&self) -> Result<(), Error> {
        self.check_type()?;
        let source = match self.source.len() {
            0 => Some("encrypted DEK source is empty".to_owned()),
            size if size > MOST_SOURCE => Some(format!(
                "encrypted DEK source is {size} bytes, which exceeds the max size of {MOST_SOURCE}"
            )),
            _ => None,
        };
        if let Some(wrong) = source {
            return Err(Error::Envelope(format!("failed to validate encrypted DEK source: {wrong}")));
        }
        check_key_id(&self.key_id)
            .map_err(|wrong| Error::Envelope(format!("failed to validate key id: {wrong}")))?;
        self.check_annotations()
            .map_err(|wrong| Error::Envelope(format!("failed to validate annotations: {wrong}")))
    }

    fn check_type(&self) -> Result<(), Error> {
        match self.source_type {
            KEY | SEED => Ok(()),
            other => Err(Error::Envelope(format!("unknown encryptedDEKSourceType: {other}"))),
        }
    }

    fn check_annotations(&self) -> Result<(), String> {
        let mut errors = Vec::new();
        for key in self.annotations.keys() {
            let wrong = Aggregate::new(fully_qualified_domain_name(&Path::new("annotations"), key));
            errors.extend(wrong.map(|wrong| wrong.to_string()));
        }
        let size: usize = self.annotations.iter().map(|(key, value)| key.len() + value.len()).sum();
        if size > MOST_ANNOTATIONS {
            errors.push(format!(
                "total size of annotations is {size}, which exceeds the max size of {MOST_ANNOTATIONS}"
            ));
        }
        if errors.is_empty() { Ok(()) } else { Err(Listed(&errors).to_string()) }
    }

    /// Whether both have the same key.
    pub(crate) fn has_key_of(&self, other: &Self) -> bool {
        self.source == other.source
            && self.source_type == other.source_type
            && self.key_id == other.key_id
            && self.annotations == other.annotations
    }

    /// A digest of everything that identifies the key.
    pub(crate) fn key_digest(&self) -> KeyDigest {
        let mut context = Context::new(&SHA256);
        let mut add = |bytes: &[u8]| {
            context.update(&(bytes.len() as u64).to_be_bytes());
            context.update(bytes);
        };
        add(&self.source_type.to_be_bytes());
        add(&self.source);
        add(self.key_id.as_bytes());
        for (key, value) in &self.annotations {
            add(key.as_bytes());
            add(value);
        }
        let mut digest = KeyDigest::default();
        digest.iter_mut().zip(context.finish().as_ref()).for_each(|(slot, byte)| *slot = *byte);
        digest
    }
}

/// Checks the size of a key's id.
pub(crate) fn check_key_id(id: &str) -> Result<(), String> {
    match id.len() {
        0 => Err("keyID is empty".to_owned()),
        size if size > MOST_KEY_ID => {
            Err(format!("keyID is {size} bytes, which exceeds the max size of {MOST_KEY_ID}"))
        }
        _ => Ok(()),
    }
}

/// A key's id as messages show it.
pub(crate) fn shown_key_id(id: &str) -> String {
    use std::fmt::Write as _;
    if id.is_empty() {
        return String::new();
    }
    let mut shown = "sha256:".to_owned();
    for byte in digest(&SHA256, id.as_bytes()).as_ref() {
        let _ = write!(shown, "{byte:02x}");
    }
    shown
}
