//! Go's way of quoting text (`%q`, `strconv.Quote`) and of reading and naming integers, since the messages
//! that clients see carry both.
//!
//! Everything here is a pure function of its input. What is printable follows Unicode 15.0, as in the
//! reference server.

mod printable;

use std::fmt;

/// Quotes text as a Go string literal.
///
/// ```
/// assert_eq!(object::quote::quote("a\"b\n"), r#""a\"b\n""#);
/// assert_eq!(object::quote::quote("é\u{200b}\u{7f}"), r#""é\u200b\x7f""#);
/// ```
pub fn quote(text: &str) -> String {
    Quoted(text).to_string()
}

/// Quotes each item and joins them with a comma and a space.
///
/// ```
/// assert_eq!(object::quote::quote_each(["a", "b"]), r#""a", "b""#);
/// ```
pub fn quote_each<'a>(items: impl IntoIterator<Item = &'a str>) -> String {
    let mut out = String::new();
    for (index, item) in items.into_iter().enumerate() {
        if index > 0 {
            out.push_str(", ");
        }
        push_quoted(&mut out, item);
    }
    out
}

/// Whether a character is written unescaped in quoted text.
pub fn is_printable(character: char) -> bool {
    printable::is_printable(character)
}

/// Text that displays itself quoted, for use inside `format!` and `write!`.
///
/// ```
/// assert_eq!(format!("found {}", object::quote::Quoted("x\ty")), r#"found "x\ty""#);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quoted<'a>(pub &'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_quoted(f, self.0)
    }
}

/// Why a text is not an integer, in the words of Go's `strconv`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum IntegerError {
    /// Not digits with an optional sign.
    #[error("invalid syntax")]
    Syntax,
    /// Digits, but past the range asked for.
    #[error("value out of range")]
    Range,
}

/// Reads a decimal integer with an optional sign, as `strconv.ParseInt(text, 10, 64)` does.
pub(crate) fn parse_i64(text: &str) -> Result<i64, IntegerError> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(IntegerError::Syntax);
    }
    text.parse().map_err(|_| IntegerError::Range)
}

fn push_quoted(out: &mut String, text: &str) {
    // Writing into a String cannot fail.
    let _ = write_quoted(out, text);
}

fn write_quoted(out: &mut impl fmt::Write, text: &str) -> fmt::Result {
    out.write_char('"')?;
    let mut plain_from = 0;
    for (at, character) in text.char_indices() {
        if character != '"' && character != '\\' && printable::is_printable(character) {
            continue;
        }
        out.write_str(text.get(plain_from..at).unwrap_or_default())?;
        plain_from = at + character.len_utf8();
        write_escape(out, character)?;
    }
    out.write_str(text.get(plain_from..).unwrap_or_default())?;
    out.write_char('"')
}

fn write_escape(out: &mut impl fmt::Write, character: char) -> fmt::Result {
    let code = u32::from(character);
    match character {
        '"' => out.write_str("\\\""),
        '\\' => out.write_str("\\\\"),
        '\u{7}' => out.write_str("\\a"),
        '\u{8}' => out.write_str("\\b"),
        '\u{b}' => out.write_str("\\v"),
        '\u{c}' => out.write_str("\\f"),
        '\n' => out.write_str("\\n"),
        '\r' => out.write_str("\\r"),
        '\t' => out.write_str("\\t"),
        _ if character.is_ascii() => write!(out, "\\x{code:02x}"),
        _ if code < 0x1_0000 => write!(out, "\\u{code:04x}"),
        _ => write!(out, "\\U{code:08x}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_control_character_has_its_escape() {
        assert_eq!(quote("\0\u{7}\u{8}\t\n\u{b}\u{c}\r\u{1b}\u{7f}"), r#""\x00\a\b\t\n\v\f\r\x1b\x7f""#);
    }

    #[test]
    fn unprintable_characters_above_ascii_are_spelt_by_code() {
        assert_eq!(quote("\u{a0}\u{ad}\u{2028}\u{feff}\u{e000}"), r#""\u00a0\u00ad\u2028\ufeff\ue000""#);
        assert_eq!(quote("\u{f0000}\u{10ffff}"), r#""\U000f0000\U0010ffff""#);
    }

    #[test]
    fn letters_marks_and_symbols_are_not_escaped() {
        assert_eq!(quote("日本 e\u{301} €😀\u{fffd}"), "\"日本 e\u{301} €😀\u{fffd}\"");
    }

    #[test]
    fn characters_newer_than_unicode_15_are_escaped() {
        assert_eq!(quote("\u{1c89}\u{2ffc}"), r#""\u1c89\u2ffc""#);
    }

    #[test]
    fn integers_are_read_as_go_reads_them() {
        assert_eq!(parse_i64("+9223372036854775807"), Ok(i64::MAX));
        assert_eq!(parse_i64("-9223372036854775808"), Ok(i64::MIN));
        assert_eq!(parse_i64("9223372036854775808"), Err(IntegerError::Range));
        for text in ["", "+", "-", "1_0", " 1", "1 ", "0x1", "--1", "+-1", "١"] {
            assert_eq!(parse_i64(text), Err(IntegerError::Syntax), "{text:?}");
        }
    }
}
