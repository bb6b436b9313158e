//! Map keys. A key that the schema knows points into the program's own text, so a decoded object holds no
//! heap string for it and copies no text; any other key is a shared one.

use crate::Text;
use std::borrow::Borrow;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use triomphe::Arc;

/// The name of a map entry.
///
/// Two keys are equal when their texts are, whatever they were made from.
///
/// ```
/// use object::Key;
/// const SPEC: Key = Key::known("spec");
/// assert_eq!(SPEC, Key::from("spec"));
/// ```
pub struct Key(Form);

/// Two words: most of the entries of an object have a known key, and are copied and dropped with it.
#[derive(Clone)]
enum Form {
    Known(&'static str),
    Other(Arc<Text>),
}

impl Key {
    /// A key whose text lives as long as the program: costs nothing to make, clone or drop.
    pub const fn known(text: &'static str) -> Self {
        Self(Form::Known(text))
    }

    /// Whether other clones of the key share its text, or the program itself does.
    pub fn is_shared(&self) -> bool {
        match &self.0 {
            Form::Known(_) => true,
            Form::Other(text) => !text.is_unique(),
        }
    }

    /// The key's text.
    #[inline]
    pub fn as_str(&self) -> &str {
        match &self.0 {
            Form::Known(text) => text,
            Form::Other(text) => text.as_str(),
        }
    }
}

impl Clone for Key {
    #[inline]
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }

    /// Writes a known key where it will stay: to move it there would cost more.
    #[inline]
    fn clone_from(&mut self, other: &Self) {
        match &other.0 {
            Form::Known(text) => self.0 = Form::Known(text),
            Form::Other(text) => self.0 = Form::Other(text.clone()),
        }
    }
}

impl Default for Key {
    fn default() -> Self {
        Self::known("")
    }
}

impl PartialEq for Key {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        *self == *other.as_str()
    }
}

impl Eq for Key {}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_str().cmp(other.as_str())
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Deref for Key {
    type Target = str;
    #[inline]
    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl Borrow<str> for Key {
    fn borrow(&self) -> &str {
        self.as_str()
    }
}

impl AsRef<str> for Key {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

impl From<&str> for Key {
    #[inline]
    fn from(text: &str) -> Self {
        Text::from(text).into()
    }
}

impl From<String> for Key {
    fn from(text: String) -> Self {
        Text::from(text).into()
    }
}

impl From<Text> for Key {
    #[inline]
    fn from(text: Text) -> Self {
        Self(Form::Other(Arc::new(text)))
    }
}

impl From<Key> for Text {
    #[inline]
    fn from(key: Key) -> Self {
        match key.0 {
            Form::Known(text) => Text::known(text),
            Form::Other(text) => Text::clone(&text),
        }
    }
}

/// Compares length and first byte first, which mostly decide among the keys of one map.
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
