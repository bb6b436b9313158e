//! Strings of the tree. Most are short and of ASCII letters, and those are stored inline; all others are
//! shared.
//!
//! A short text can be written where it will stay ([`Text::set_lossy`]). Its letters are copied in pieces of
//! various sizes, and a processor that has to read them back as a whole right after, to move the text, waits
//! until all are written: that takes longer than the copy.

use ascii::{AsAsciiStr, AsciiChar, AsciiStr};
use std::borrow::{Borrow, Cow};
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

/// A string that is cheap to clone. Up to 23 ASCII letters take no memory of their own.
///
/// ```
/// use object::Text;
/// const NAME: Text = Text::known("name");
/// assert_eq!(NAME, Text::from("name"));
/// ```
#[derive(Clone)]
pub struct Text(Form);

#[derive(Clone)]
enum Form {
    Short { length: Length, letters: [AsciiChar; MOST] },
    Known(&'static str),
    Shared(Arc<str>),
}

/// The number of letters that are stored inline.
const MOST: usize = 23;

/// How many of the letters count. An enum, so that its byte has values left to tell other forms and values
/// by.
#[rustfmt::skip]
#[derive(Clone, Copy)]
#[repr(u8)]
enum Length { L0, L1, L2, L3, L4, L5, L6, L7, L8, L9, L10, L11, L12, L13, L14, L15, L16, L17, L18, L19, L20, L21, L22, L23 }

impl Length {
    #[rustfmt::skip]
    const ALL: [Length; MOST + 1] = {
        use Length::*;
        [L0, L1, L2, L3, L4, L5, L6, L7, L8, L9, L10, L11, L12, L13, L14, L15, L16, L17, L18, L19, L20, L21, L22, L23]
    };
}

impl Text {
    /// Without a letter.
    pub const EMPTY: Self = Self(Form::Short { length: Length::L0, letters: [AsciiChar::Null; MOST] });

    /// A text that lives as long as the program: costs nothing to make, clone or drop.
    pub const fn known(text: &'static str) -> Self {
        Self(Form::Known(text))
    }

    /// The text of such bytes. What is not UTF-8 is replaced.
    #[inline]
    pub fn from_lossy(bytes: &[u8]) -> Self {
        let mut text = Self::EMPTY;
        text.set_lossy(bytes);
        text
    }

    /// Becomes the text of such bytes, in place. What is not UTF-8 is replaced.
    #[inline]
    pub fn set_lossy(&mut self, bytes: &[u8]) {
        if !self.set_short(bytes) {
            self.0 = Form::Shared(match std::str::from_utf8(bytes) {
                Ok(text) => text.into(),
                Err(_) => String::from_utf8_lossy(bytes).into(),
            });
        }
    }

    /// Becomes the text of such bytes, if they can be stored inline.
    #[inline]
    fn set_short(&mut self, bytes: &[u8]) -> bool {
        let Some(size) = Length::ALL.get(bytes.len()) else { return false };
        let Ok(text) = bytes.as_ascii_str() else { return false };
        if !matches!(self.0, Form::Short { .. }) {
            *self = Self::EMPTY;
        }
        if let Form::Short { length, letters } = &mut self.0
            && let Some(place) = letters.get_mut(..text.len())
        {
            place.copy_from_slice(text.as_slice());
            *length = *size;
        }
        true
    }

    /// The text.
    #[inline]
    pub fn as_str(&self) -> &str {
        match &self.0 {
            Form::Short { length, letters } => {
                letters.get(..*length as usize).map_or("", |letters| <&AsciiStr>::from(letters).as_str())
            }
            Form::Known(text) => text,
            Form::Shared(text) => text,
        }
    }
}

impl Default for Text {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl Deref for Text {
    type Target = str;
    #[inline]
    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl AsRef<str> for Text {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

impl Borrow<str> for Text {
    fn borrow(&self) -> &str {
        self.as_str()
    }
}

impl From<&str> for Text {
    #[inline]
    fn from(text: &str) -> Self {
        let mut short = Self::EMPTY;
        if short.set_short(text.as_bytes()) { short } else { Self(Form::Shared(text.into())) }
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        text.as_str().into()
    }
}

impl From<Cow<'_, str>> for Text {
    #[inline]
    fn from(text: Cow<'_, str>) -> Self {
        (&*text).into()
    }
}

impl From<Text> for String {
    fn from(text: Text) -> Self {
        text.as_str().into()
    }
}

impl PartialEq for Text {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Text {}

impl Hash for Text {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl Ord for Text {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_str().cmp(other.as_str())
    }
}

impl PartialOrd for Text {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq<str> for Text {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == other
    }
}

impl PartialEq<&str> for Text {
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == *other
    }
}

impl PartialEq<Text> for &str {
    fn eq(&self, other: &Text) -> bool {
        *self == other.as_str()
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(f)
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Texts around the length that is stored inline, of ASCII letters and of others.
    fn texts() -> impl Iterator<Item = String> {
        (0..=MOST + 2).flat_map(|length| {
            ["a", "\u{7f}", "\u{80}", "\u{20ac}", "\0"].map(|letter| letter.repeat(length))
        })
    }

    #[test]
    fn a_text_is_what_it_was_made_of() {
        for text in texts() {
            let made = Text::from(text.as_str());
            assert_eq!(made.as_str(), text);
            assert_eq!(Text::from_lossy(text.as_bytes()), made);
            assert_eq!(made.clone(), Text::from(text.clone()));
            assert_eq!((made.to_string(), format!("{made:?}")), (text.clone(), format!("{text:?}")));
        }
    }

    #[test]
    fn set_lossy_replaces_the_text() {
        for before in texts() {
            for after in texts() {
                let mut text = Text::from(before.as_str());
                text.set_lossy(after.as_bytes());
                assert_eq!(text.as_str(), after);
            }
        }
        let mut known = Text::known("known");
        known.set_lossy(b"set");
        assert_eq!(known, "set");
    }

    #[test]
    fn invalid_utf8_is_replaced() {
        for length in [0, 5, MOST, 40] {
            let bytes = [b"a".repeat(length).as_slice(), b"\xff\xc3(\xe2\x82"].concat();
            assert_eq!(Text::from_lossy(&bytes).as_str(), String::from_utf8_lossy(&bytes));
        }
    }

    #[test]
    fn equal_texts_are_equal_in_every_form() {
        use std::hash::{BuildHasher, RandomState};
        let state = RandomState::new();
        let forms = [Text::known("a"), Text::from("a"), Text(Form::Shared("a".into()))];
        for one in &forms {
            for other in &forms {
                assert_eq!((one, one.cmp(other)), (other, Ordering::Equal));
                assert_eq!(state.hash_one(one), state.hash_one("a"));
            }
        }
    }
}
