//! The texts within a message.
//!
//! A message has many short texts, and to check them one by one takes longer than to copy them. So the message is made
//! text as a whole, with every byte forced into ASCII; where a part of it was ASCII before, that part is its text.

use object::SmolStr;
use std::borrow::Cow;

/// The texts of one message.
pub(super) struct Texts {
    /// The address of the message.
    start: usize,
    /// The message without the high bit of its bytes.
    forced: String,
}

impl Texts {
    pub(super) fn of(message: &[u8]) -> Self {
        let forced = message.iter().map(|byte| byte & 0x7f).collect();
        Self { start: message.as_ptr().addr(), forced: String::from_utf8(forced).unwrap_or_default() }
    }

    /// A part of the message as text. The reference does not check strings; what is not UTF-8 could not be written as
    /// JSON, and is replaced.
    pub(super) fn text<'t>(&'t self, part: &'t [u8]) -> Cow<'t, str> {
        self.ascii(part).map_or_else(|| String::from_utf8_lossy(part), Cow::Borrowed)
    }

    /// The same as a string of its own.
    #[inline]
    pub(super) fn string(&self, part: &[u8]) -> SmolStr {
        match self.ascii(part) {
            Some(text) if text.len() <= SmolStr::INLINE_CAP => SmolStr::new_inline(text),
            Some(text) => SmolStr::new(text),
            None => String::from_utf8_lossy(part).into(),
        }
    }

    /// A part of the message as text, if it is UTF-8.
    pub(super) fn checked<'t>(&'t self, part: &'t [u8]) -> Option<&'t str> {
        self.ascii(part).or_else(|| std::str::from_utf8(part).ok())
    }

    /// A part of the message as text, if it is ASCII.
    #[inline]
    fn ascii(&self, part: &[u8]) -> Option<&str> {
        if !is_ascii(part) {
            return None;
        }
        let at = part.as_ptr().addr().checked_sub(self.start)?;
        self.forced.get(at..at + part.len())
    }
}

#[inline]
fn is_ascii(bytes: &[u8]) -> bool {
    const HIGHS: u64 = 0x8080_8080_8080_8080;
    let word = |chunk: &[u8; 8]| u64::from_ne_bytes(*chunk);
    // The last bytes may overlap those before them.
    let all = if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        let ends = word(first) | word(last);
        if bytes.len() <= 16 {
            ends
        } else {
            bytes.as_chunks().0.iter().fold(ends, |all, chunk| all | word(chunk))
        }
    } else if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        (u32::from_ne_bytes(*first) | u32::from_ne_bytes(*last)).into()
    } else {
        match *bytes {
            [a] => a.into(),
            [a, b] => (a | b).into(),
            [a, b, c] => (a | b | c).into(),
            _ => 0,
        }
    };
    all & HIGHS == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_told_as_it_is() {
        let message = "\u{1}ab\u{7f}-longer-than-a-word-\u{e9}\u{20ac}".as_bytes();
        let texts = Texts::of(message);
        for from in 0..message.len() {
            for to in from..=message.len() {
                let part = &message[from..to];
                assert_eq!(texts.text(part), String::from_utf8_lossy(part));
                assert_eq!(texts.string(part).as_str(), String::from_utf8_lossy(part));
                assert_eq!(texts.checked(part), std::str::from_utf8(part).ok());
            }
        }
    }

    #[test]
    fn bytes_from_elsewhere_are_not_taken_for_a_part() {
        let bytes = *b"some\x80message";
        let (message, elsewhere) = bytes.split_at(4);
        let texts = Texts::of(message);
        assert_eq!(texts.text(elsewhere), "\u{fffd}message");
        assert_eq!(texts.text(&elsewhere[1..]), "message");
    }
}
