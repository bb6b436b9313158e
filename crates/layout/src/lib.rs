//! How objects lie in a store: in one that is shared with the reference, with its keys, its encodings and its
//! storage versions ([`Layout`]); in one of its own as they are, and encrypted if that is wanted
//! ([`Sealed`]).
//!
//! The layers above write keys such as `deployments.apps/default/web` and JSON behind a header. In etcd the
//! reference has other forms of the same, and either server has to find what the other one wrote:
//!
//! | objects | key | value |
//! |---|---|---|
//! | of built-in kinds | `/registry/deployments/default/web`; some kinds have names of their own (`minions`) | Protobuf in its envelope, or JSON if `--storage-media-type` says so |
//! | definitions of custom kinds | `/registry/apiextensions.k8s.io/customresourcedefinitions/NAME` | JSON of `v1beta1`, which says once what all versions have in common |
//! | API services | `/registry/apiregistration.k8s.io/apiservices/NAME` | JSON |
//! | of custom kinds | `/registry/GROUP/RESOURCE/default/web` | JSON with sorted keys, or CBOR with the feature gate `CBORServingAndStorage` |
//!
//! No stored value has a `resourceVersion`: it is the revision of its key. What is read may be in any of
//! these encodings and in any version that is served; the layers above convert versions. An object in a
//! version that is not served any more is converted here ([`kinds::OldVersion`]). Keys of other things are
//! left alone: the ranges that older releases gave addresses from. What servers share and do not serve (their
//! own addresses, the record of node ports) is no object of a kind; others read and write it, through a
//! [`Record`] if it is encrypted.

#![deny(clippy::indexing_slicing)]

mod definition;
mod keys;
mod record;
mod sealed;
mod value;

pub use record::Record;
pub use sealed::Sealed;
pub use value::{CustomMediaType, MediaType};

use bytes::Bytes;
use encryption::{Encryption, Freshness, Transform};
use keys::{Keys, Place};
use store::{Codec, DecodeError, Key, Patience};
use value::ReadCustom;

/// The layout of the reference, under a prefix.
pub struct Layout {
    keys: Keys,
    media_type: MediaType,
    custom: CustomMediaType,
    encryption: Option<Encryption>,
    families: [&'static str; 2],
}

impl Layout {
    /// The layout under a prefix such as `/registry`. Built-in kinds are written in the given encoding.
    pub fn new(prefix: &str, media_type: MediaType) -> Self {
        let custom = CustomMediaType::default();
        let families = ["IPv4", "IPv6"];
        Self { keys: Keys::new(prefix), media_type, custom, encryption: None, families }
    }

    /// Writes objects of custom kinds in the given encoding.
    #[must_use]
    pub fn custom(self, media_type: CustomMediaType) -> Self {
        Self { custom: media_type, ..self }
    }

    /// Sets the order of the address families: that of the default service addresses comes first.
    #[must_use]
    pub fn with_families(self, families: [&'static str; 2]) -> Self {
        Self { families, ..self }
    }

    /// Encrypts values as the configuration says.
    #[must_use]
    pub fn encrypted(self, encryption: Encryption) -> Self {
        Self { encryption: Some(encryption), ..self }
    }
}

impl Codec for Layout {
    fn encode_prefix(&self, prefix: &[u8]) -> Bytes {
        self.keys.stored_prefix(prefix).into()
    }

    fn encode_key(&self, key: &Key) -> Option<Key> {
        let place = self.keys.place(key.as_bytes())?;
        Key::new(self.keys.stored(&place)).ok()
    }

    fn decode_key(&self, stored: &Key) -> Option<Key> {
        let place = self.keys.place_of_stored(stored.as_bytes())?;
        Key::new(place.key()).ok()
    }

    fn encode_value(&self, key: &Key, value: Bytes) -> Result<Bytes, String> {
        let place = self.keys.place(key.as_bytes()).ok_or(NO_PLACE)?;
        let json = cache::frame::json(&value)?;
        let plain = match place.kind {
            Some(kind) => value::encode(kind, json, self.media_type)?,
            None => value::encode_custom(json, self.custom)?,
        };
        encrypt(self.encryption.as_ref(), &self.keys, &place, plain)
    }

    fn decode_value(&self, key: &Key, stored: Bytes, patience: Patience) -> Result<Bytes, DecodeError> {
        let place = self.keys.place(key.as_bytes()).ok_or_else(no_place)?;
        let (plain, freshness) = decrypt(self.encryption.as_ref(), &self.keys, &place, stored, patience)?;
        let read = match place.kind {
            Some(kind) => value::decode(kind, &plain, self.families).map(|text| (text, freshness)),
            None => value::decode_custom(&plain, self.custom).map(|ReadCustom { text, is_stale }| {
                (text, if is_stale { Freshness::Stale } else { freshness })
            }),
        };
        let framed = read.and_then(|(text, freshness)| Ok(marked(cache::frame::of(&text)?, freshness)));
        framed.map_err(DecodeError::Damaged)
    }
}

const NO_PLACE: &str = "its key has no place";

fn no_place() -> DecodeError {
    DecodeError::Damaged(NO_PLACE.to_owned())
}

/// Encrypts a value. The key in the store is authenticated with it.
fn encrypt(
    encryption: Option<&Encryption>,
    keys: &Keys,
    place: &Place<'_>,
    plain: Bytes,
) -> Result<Bytes, String> {
    let Some(encryption) = encryption else { return Ok(plain) };
    let (group, resource) = place.resource();
    let transform = encryption.for_resource(group, resource);
    transform.encrypt(keys.stored(place).as_bytes(), &plain).map_err(|error| error.to_string())
}

/// Decrypts a stored value, and returns whether it is stale. A value that cannot be decrypted is unavailable,
/// whatever the reason: a changed value looks like one with a wrong key.
fn decrypt(
    encryption: Option<&Encryption>,
    keys: &Keys,
    place: &Place<'_>,
    stored: Bytes,
    patience: Patience,
) -> Result<(Bytes, Freshness), DecodeError> {
    let Some(encryption) = encryption else { return Ok((stored, Freshness::Current)) };
    let (group, resource) = place.resource();
    let transform = encryption.for_resource(group, resource);
    open(&transform, keys.stored(place).as_bytes(), stored, patience)
}

fn open(
    transform: &Transform,
    context: &[u8],
    stored: Bytes,
    patience: Patience,
) -> Result<(Bytes, Freshness), DecodeError> {
    let patience = match patience {
        Patience::Now => encryption::Patience::Now,
        Patience::Wait => encryption::Patience::Wait,
    };
    let decrypted = transform.decrypt_with(context, stored, patience);
    let decrypted = decrypted.map_err(|error| DecodeError::Unavailable(error.to_string()))?;
    Ok((decrypted.value, decrypted.freshness))
}

/// A frame that is marked as stale if its value is.
fn marked(framed: Bytes, freshness: Freshness) -> Bytes {
    match freshness {
        Freshness::Current => framed,
        Freshness::Stale => cache::frame::stale(&framed),
    }
}

#[cfg(test)]
mod tests;
