//! Texts of clients within errors: an error repeats only the beginning of a text that is long.
//!
//! The bounds are far above what people send. `docs/differences.md` names them.

use std::fmt::{self, Write};

/// The most bytes of a path, a value or a reason within one error.
pub const MOST_BYTES: usize = 64 << 10;

/// A text, or its beginning and the number of bytes that are left out.
///
/// ```
/// use object::excerpt::{MOST_BYTES, shorten};
/// assert_eq!(shorten("short"), "short");
/// let cut = shorten("x".repeat(MOST_BYTES + 7));
/// assert!(cut.ends_with("x... (7 more bytes)"));
/// ```
pub fn shorten(text: impl Into<String>) -> String {
    shorten_to(MOST_BYTES, text)
}

/// The same with another limit.
pub fn shorten_to(most: usize, text: impl Into<String>) -> String {
    let mut text = text.into();
    if text.len() <= most {
        return text;
    }
    let end = text.floor_char_boundary(most);
    let left_out = text.len() - end;
    text.truncate(end);
    text.shrink_to_fit();
    // Writing into a String cannot fail.
    let _ = write!(text, "... ({left_out} more bytes)");
    text
}

/// The text of `shown`, or its beginning: formatting stops at the limit.
pub fn excerpt(shown: &impl fmt::Display) -> String {
    let mut begun = Begun { text: String::new() };
    let whole = write!(begun, "{shown}").is_ok();
    let mut text = begun.text;
    if !whole {
        text.push_str("...");
    }
    text
}

/// A text that ends with an error at the limit.
struct Begun {
    text: String,
}

impl Write for Begun {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        let room = MOST_BYTES - self.text.len().min(MOST_BYTES);
        let end = part.floor_char_boundary(room.min(part.len()));
        self.text.push_str(part.get(..end).unwrap_or_default());
        if end < part.len() { Err(fmt::Error) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_between_characters() {
        let cut = shorten("é".repeat(MOST_BYTES));
        assert!(cut.ends_with(&format!("é... ({MOST_BYTES} more bytes)")), "{}", cut.len());
        let odd = format!("x{}", "é".repeat(MOST_BYTES));
        assert!(shorten(odd.clone()).contains("é... ("));
        assert!(excerpt(&odd).ends_with("é..."));
    }

    #[test]
    fn nothing_is_written_past_the_limit() {
        struct Endless;
        impl fmt::Display for Endless {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                loop {
                    f.write_str("abc")?;
                }
            }
        }
        assert_eq!(excerpt(&Endless).len(), MOST_BYTES + 3);
        assert_eq!(excerpt(&"x"), "x");
    }
}
