//! Keys: opaque paths, ordered bytewise.

use bytes::Bytes;
use std::fmt;

/// A key such as `pods/default/web-1`: 1 to [`Key::MAX_LEN`] bytes without a zero byte, ordered bytewise.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Bytes);

/// Why bytes cannot be a key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidKey {
    /// No bytes at all.
    #[error("a key may not be empty")]
    Empty,
    /// More bytes than [`Key::MAX_LEN`].
    #[error("a key of {0} bytes is longer than {max}", max = Key::MAX_LEN)]
    TooLong(usize),
    /// A zero byte, which separates keys from revisions on disk.
    #[error("a key may not contain a zero byte")]
    Zero,
}

impl Key {
    /// The most bytes in a key.
    pub const MAX_LEN: usize = 1024;

    /// Checks bytes and makes a key of them without copying.
    pub fn new(bytes: impl Into<Bytes>) -> Result<Self, InvalidKey> {
        let bytes = bytes.into();
        if bytes.is_empty() {
            Err(InvalidKey::Empty)
        } else if bytes.len() > Self::MAX_LEN {
            Err(InvalidKey::TooLong(bytes.len()))
        } else if bytes.contains(&0) {
            Err(InvalidKey::Zero)
        } else {
            Ok(Self(bytes))
        }
    }

    /// The bytes of the key.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl AsRef<[u8]> for Key {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl TryFrom<&str> for Key {
    type Error = InvalidKey;

    fn try_from(text: &str) -> Result<Self, InvalidKey> {
        Self::new(Bytes::copy_from_slice(text.as_bytes()))
    }
}

impl TryFrom<String> for Key {
    type Error = InvalidKey;

    fn try_from(text: String) -> Result<Self, InvalidKey> {
        Self::new(text)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", String::from_utf8_lossy(&self.0))
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", String::from_utf8_lossy(&self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_bounded_and_free_of_zero_bytes() {
        assert_eq!(Key::new("").unwrap_err(), InvalidKey::Empty);
        assert_eq!(Key::new("a\0b").unwrap_err(), InvalidKey::Zero);
        assert_eq!(Key::new("k".repeat(1025)).unwrap_err(), InvalidKey::TooLong(1025));
        assert_eq!(Key::new("k".repeat(1024)).unwrap().as_bytes().len(), 1024);
    }

    #[test]
    fn keys_are_ordered_bytewise() {
        let mut keys = ["b", "a/b", "a", "a-", "a/"].map(|k| Key::try_from(k).unwrap());
        keys.sort();
        assert_eq!(keys.map(|k| k.to_string()), ["a", "a-", "a/", "a/b", "b"]);
    }
}
