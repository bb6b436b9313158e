//! Map keys. A key that the schema knows points into the program's own text, so a decoded object holds no
//! heap string for it; any other key up to 23 bytes stands inline.

use smol_str::SmolStr;
use std::borrow::Borrow;
use std::fmt;
use std::ops::Deref;

/// The name of a map entry.
///
/// Two keys are equal when their texts are, whatever they were made from.
///
/// ```
/// use object::Key;
/// const SPEC: Key = Key::known("spec");
/// assert_eq!(SPEC, Key::from("spec"));
/// ```
#[derive(Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key(SmolStr);

impl Key {
    /// A key whose text lives as long as the program: costs nothing to make, clone or drop.
    pub const fn known(text: &'static str) -> Self {
        Self(SmolStr::new_static(text))
    }

    /// The key's text.
    #[inline]
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

impl Deref for Key {
    type Target = str;
    #[inline]
    fn deref(&self) -> &str {
        self.0.as_str()
    }
}

impl Borrow<str> for Key {
    fn borrow(&self) -> &str {
        self.0.as_str()
    }
}

impl AsRef<str> for Key {
    fn as_ref(&self) -> &str {
        self.0.as_str()
    }
}

impl From<&str> for Key {
    #[inline]
    fn from(text: &str) -> Self {
        Self(SmolStr::new(text))
    }
}

impl From<String> for Key {
    fn from(text: String) -> Self {
        Self(SmolStr::from(text))
    }
}

impl From<SmolStr> for Key {
    #[inline]
    fn from(text: SmolStr) -> Self {
        Self(text)
    }
}

impl From<Key> for SmolStr {
    #[inline]
    fn from(key: Key) -> Self {
        key.0
    }
}

/// Told by length and first byte where that is enough, as it mostly is among the keys of one map.
impl PartialEq<str> for Key {
    #[inline]
    fn eq(&self, other: &str) -> bool {
        let text = self.as_str();
        text.len() == other.len() && text.as_bytes().first() == other.as_bytes().first() && text == other
    }
}

impl PartialEq<&str> for Key {
    #[inline]
    fn eq(&self, other: &&str) -> bool {
        *self == **other
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}
