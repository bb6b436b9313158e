//! The tokens of JSON text. Knows no types. Syntax errors have the messages of the reference.

use crate::decode::{Error, Fault};
use std::borrow::Cow;

/// A position in the text.
pub(crate) struct Scanner<'i> {
    text: &'i str,
    at: usize,
}

/// A skipped value.
pub(crate) struct Skipped<'i> {
    pub(crate) text: &'i str,
    /// Whether there is white space between its tokens.
    pub(crate) spaced: bool,
}

/// The end of skipped entries, and what is expected there.
struct SkippedEntries {
    end: usize,
    expected: Expected,
}

/// What is expected next in a value that is being skipped.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Expected {
    Value,
    /// A value, or the end of the list.
    FirstValue,
    /// A key, or the end of the object.
    FirstKey,
    Key,
    Colon,
    /// A comma, or the end of the level.
    End,
}

impl Expected {
    /// The context of an unexpected byte, as in the messages of the reference.
    fn context(self, level: Option<u8>) -> &'static str {
        match self {
            Expected::Value | Expected::FirstValue => "looking for beginning of value",
            Expected::FirstKey | Expected::Key => "looking for beginning of object key string",
            Expected::Colon => "after object key",
            Expected::End if level == Some(b'}') => "after object key:value pair",
            Expected::End => "after array element",
        }
    }
}

impl<'i> Scanner<'i> {
    pub(crate) fn new(text: &'i str) -> Self {
        Self { text, at: 0 }
    }

    /// A scanner in the middle of a text.
    pub(crate) fn at(text: &'i str, at: usize) -> Self {
        Self { text, at }
    }

    /// The index of the next byte.
    pub(crate) fn position(&self) -> usize {
        self.at
    }

    /// Moves the scanner to an index.
    pub(crate) fn move_to(&mut self, at: usize) {
        self.at = at;
    }

    /// Moves past a value that is no list and no map.
    pub(crate) fn scalar(&mut self) -> Result<(), Fault> {
        match self.peek_token() {
            Some(b'"') => self.string().map(drop),
            Some(b't') => self.word("true"),
            Some(b'f') => self.word("false"),
            Some(b'n') => self.word("null"),
            Some(b'-' | b'0'..=b'9') => self.number().map(drop),
            _ => Err(self.unexpected("looking for beginning of value")),
        }
    }

    /// The next byte, without consuming it.
    #[inline]
    pub(crate) fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Skips white space; the next byte, without consuming it.
    #[inline]
    pub(crate) fn peek_token(&mut self) -> Option<u8> {
        loop {
            match self.peek() {
                Some(b' ' | b'\n' | b'\t' | b'\r') => self.at += 1,
                other => return other,
            }
        }
    }

    /// Consumes the next byte.
    #[inline]
    pub(crate) fn advance(&mut self) {
        self.at += 1;
    }

    /// The error for an unexpected byte, or for the end of the text.
    #[cold]
    pub(crate) fn unexpected(&self, context: &str) -> Fault {
        Fault::new(Error::Syntax(match self.peek() {
            None => "unexpected end of JSON input".into(),
            Some(byte) => format!("invalid character {} {context}", quote(byte)),
        }))
    }

    /// The error for an unexpected byte within a token. At the end of the text the reference reads one more
    /// space, which is unexpected.
    #[cold]
    fn unexpected_within(&self, context: &str) -> Fault {
        let byte = self.peek().unwrap_or(b' ');
        Fault::new(Error::Syntax(format!("invalid character {} {context}", quote(byte))))
    }

    /// After the value: nothing but white space.
    pub(crate) fn end(&mut self) -> Result<(), Fault> {
        match self.peek_token() {
            None => Ok(()),
            Some(_) => Err(self.unexpected("after top-level value")),
        }
    }

    /// The name of an object's entry and the colon after it, or `None` at the closing brace.
    #[inline]
    pub(crate) fn key(&mut self, first: bool) -> Result<Option<Cow<'i, str>>, Fault> {
        match self.peek_token() {
            Some(b'"') => {}
            Some(b'}') if first => {
                self.at += 1;
                return Ok(None);
            }
            _ => return Err(self.unexpected("looking for beginning of object key string")),
        }
        let key = self.string()?;
        if self.peek_token() != Some(b':') {
            return Err(self.unexpected("after object key"));
        }
        self.at += 1;
        Ok(Some(key))
    }

    /// After an entry: whether another one follows.
    #[inline]
    pub(crate) fn more_entries(&mut self) -> Result<bool, Fault> {
        match self.peek_token() {
            Some(b',') => {
                self.at += 1;
                Ok(true)
            }
            Some(b'}') => {
                self.at += 1;
                Ok(false)
            }
            _ => Err(self.unexpected("after object key:value pair")),
        }
    }

    /// After an element: whether another one follows.
    #[inline]
    pub(crate) fn more_elements(&mut self) -> Result<bool, Fault> {
        match self.peek_token() {
            Some(b',') => {
                self.at += 1;
                Ok(true)
            }
            Some(b']') => {
                self.at += 1;
                Ok(false)
            }
            _ => Err(self.unexpected("after array element")),
        }
    }

    /// A string, at its opening quote.
    #[inline]
    pub(crate) fn string(&mut self) -> Result<Cow<'i, str>, Fault> {
        let start = self.at + 1;
        self.at = find_special(self.text.as_bytes(), start);
        match self.peek() {
            Some(b'"') => {
                let text = self.text.get(start..self.at).unwrap_or_default();
                self.at += 1;
                Ok(Cow::Borrowed(text))
            }
            Some(b'\\') => self.escaped_string(start).map(Cow::Owned),
            _ => Err(self.unexpected("in string literal")),
        }
    }

    /// The rest of a string that has escapes: `self.at` is at the first backslash.
    #[cold]
    fn escaped_string(&mut self, start: usize) -> Result<String, Fault> {
        let mut out = String::from(self.text.get(start..self.at).unwrap_or_default());
        loop {
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(out);
                }
                Some(b'\\') => {
                    self.at += 1;
                    self.escape(&mut out)?;
                }
                Some(0x20..) => {
                    let start = self.at;
                    self.at = find_special(self.text.as_bytes(), start);
                    out.push_str(self.text.get(start..self.at).unwrap_or_default());
                }
                _ => return Err(self.unexpected("in string literal")),
            }
        }
    }

    fn escape(&mut self, out: &mut String) -> Result<(), Fault> {
        let plain = match self.peek() {
            Some(byte @ (b'"' | b'\\' | b'/')) => char::from(byte),
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                self.at += 1;
                let unit = self.hex()?;
                out.push(self.code_point(unit)?);
                return Ok(());
            }
            _ => return Err(self.unexpected_within("in string escape code")),
        };
        self.at += 1;
        out.push(plain);
        Ok(())
    }

    /// The character of a UTF-16 unit: half of a pair joins with the half that follows, or is replaced.
    fn code_point(&mut self, unit: u16) -> Result<char, Fault> {
        if let Some(plain) = char::from_u32(unit.into()) {
            return Ok(plain);
        }
        if unit < 0xdc00 && self.text.as_bytes().get(self.at..self.at + 2) == Some(br"\u") {
            let back = self.at;
            self.at += 2;
            let low = self.hex()?;
            if let Some(Ok(joined)) = char::decode_utf16([unit, low]).next() {
                return Ok(joined);
            }
            self.at = back;
        }
        Ok(char::REPLACEMENT_CHARACTER)
    }

    fn hex(&mut self) -> Result<u16, Fault> {
        let mut unit = 0;
        for _ in 0..4 {
            let digit = self.peek().and_then(|byte| char::from(byte).to_digit(16));
            let digit = digit.ok_or_else(|| self.unexpected_within(r"in \u hexadecimal character escape"))?;
            unit = unit * 16 + digit as u16;
            self.at += 1;
        }
        Ok(unit)
    }

    /// The text of a number, from its first byte.
    #[inline]
    pub(crate) fn number(&mut self) -> Result<&'i str, Fault> {
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        match self.peek() {
            Some(b'0') => self.at += 1,
            Some(b'1'..=b'9') => self.digits(),
            _ => return Err(self.unexpected_within("in numeric literal")),
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.some_digits("after decimal point in numeric literal")?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            self.some_digits("in exponent of numeric literal")?;
        }
        Ok(self.text.get(start..self.at).unwrap_or_default())
    }

    fn digits(&mut self) {
        while let Some(b'0'..=b'9') = self.peek() {
            self.at += 1;
        }
    }

    fn some_digits(&mut self, context: &str) -> Result<(), Fault> {
        let Some(b'0'..=b'9') = self.peek() else { return Err(self.unexpected_within(context)) };
        self.digits();
        Ok(())
    }

    /// `true`, `false` or `null`; the caller has checked the first byte.
    pub(crate) fn word(&mut self, word: &'static str) -> Result<(), Fault> {
        for expected in word.bytes() {
            if self.peek() != Some(expected) {
                let context = format!("in literal {word} (expecting {})", quote(expected));
                return Err(self.unexpected_within(&context));
            }
            self.at += 1;
        }
        Ok(())
    }

    /// Skips any value, from its first byte, and checks its syntax. It may nest at most `depth` levels deep.
    pub(crate) fn skip(&mut self, depth: usize) -> Result<Skipped<'i>, Fault> {
        let bytes = self.text.as_bytes();
        let start = self.at;
        let mut at = start;
        let mut spaced = false;
        // The closing byte of each level.
        let mut levels: Vec<u8> = Vec::new();
        let mut expected = Expected::Value;
        loop {
            let Some(&byte) = bytes.get(at) else {
                self.at = at;
                return Err(self.unexpected(""));
            };
            expected = match (byte, expected) {
                (b'"', Expected::FirstKey | Expected::Key) => {
                    let entries = self.skip_entries(at, &mut levels, depth)?;
                    at = entries.end;
                    entries.expected
                }
                (b'"', Expected::Value | Expected::FirstValue) => {
                    at = self.skip_string(at)?;
                    Expected::End
                }
                (b' ' | b'\n' | b'\t' | b'\r', _) => {
                    spaced = true;
                    at += 1;
                    continue;
                }
                (b'{' | b'[', Expected::Value | Expected::FirstValue) => {
                    if levels.len() >= depth {
                        return Err(Fault::new(Error::TooDeep));
                    }
                    at += 1;
                    let closing = byte + 2;
                    if bytes.get(at) == Some(&closing) {
                        at += 1;
                        Expected::End
                    } else {
                        levels.push(closing);
                        if byte == b'{' { Expected::FirstKey } else { Expected::FirstValue }
                    }
                }
                (b',', Expected::End) => {
                    at += 1;
                    if levels.last() == Some(&b'}') { Expected::Key } else { Expected::Value }
                }
                (b'}' | b']', Expected::End | Expected::FirstKey | Expected::FirstValue)
                    if levels.last() == Some(&byte) =>
                {
                    at += 1;
                    levels.pop();
                    Expected::End
                }
                (b':', Expected::Colon) => {
                    at += 1;
                    Expected::Value
                }
                (b'-' | b'0'..=b'9' | b't' | b'f' | b'n', Expected::Value | Expected::FirstValue) => {
                    self.at = at;
                    match byte {
                        b't' => self.word("true")?,
                        b'f' => self.word("false")?,
                        b'n' => self.word("null")?,
                        _ => self.number().map(drop)?,
                    }
                    at = self.at;
                    Expected::End
                }
                (_, expected) => {
                    self.at = at;
                    return Err(self.unexpected(expected.context(levels.last().copied())));
                }
            };
            if levels.is_empty() && expected == Expected::End {
                self.at = at;
                return Ok(Skipped { text: self.text.get(start..at).unwrap_or_default(), spaced });
            }
        }
    }

    /// Skips the entries of an object, from the opening quote of a key, as long as the values are objects and
    /// there is no white space. A fast path for `fieldsV1`, which is most of the skipped text.
    fn skip_entries(
        &mut self,
        mut at: usize,
        levels: &mut Vec<u8>,
        depth: usize,
    ) -> Result<SkippedEntries, Fault> {
        let bytes = self.text.as_bytes();
        // The number of levels that were opened here; all of them are objects.
        let mut opened = 0;
        let expected = loop {
            at = self.skip_string(at)?;
            match bytes.get(at..).and_then(|rest| rest.first_chunk()) {
                Some(b":{}") if levels.len() + opened < depth => at += 3,
                Some(b":{\"") if levels.len() + opened < depth => {
                    opened += 1;
                    at += 2;
                    continue;
                }
                Some([b':', ..]) => {
                    at += 1;
                    break Expected::Value;
                }
                _ => break Expected::Colon,
            }
            while opened > 0 && bytes.get(at) == Some(&b'}') {
                opened -= 1;
                at += 1;
            }
            if bytes.get(at..).and_then(|rest| rest.first_chunk()) != Some(b",\"") {
                break Expected::End;
            }
            at += 1;
        };
        levels.resize(levels.len() + opened, b'}');
        Ok(SkippedEntries { end: at, expected })
    }

    /// Skips a string from its opening quote; returns its end.
    #[inline]
    fn skip_string(&mut self, at: usize) -> Result<usize, Fault> {
        let bytes = self.text.as_bytes();
        let at = find_special(bytes, at + 1);
        if bytes.get(at) == Some(&b'"') { Ok(at + 1) } else { self.skip_escapes(at) }
    }

    /// Skips the rest of a string from its first escape or error on; returns its end.
    #[cold]
    fn skip_escapes(&mut self, at: usize) -> Result<usize, Fault> {
        self.at = at;
        loop {
            match self.peek() {
                Some(b'"') => return Ok(self.at + 1),
                Some(b'\\') => {
                    self.at += 1;
                    match self.peek() {
                        Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 1,
                        Some(b'u') => {
                            self.at += 1;
                            self.hex()?;
                        }
                        _ => return Err(self.unexpected_within("in string escape code")),
                    }
                }
                _ => return Err(self.unexpected("in string literal")),
            }
            self.at = find_special(self.text.as_bytes(), self.at);
        }
    }
}

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGHS: u64 = 0x8080_8080_8080_8080;

/// The first quote, backslash or control character from `at` on, or the end.
#[inline]
fn find_special(bytes: &[u8], mut at: usize) -> usize {
    while let Some(chunk) = bytes.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
        let word = u64::from_le_bytes(*chunk);
        // A borrow can only flag bytes above a true hit, so the lowest flag is right.
        let control = word.wrapping_sub(ONES * 0x20) & !word;
        let quote = (word ^ (ONES * 0x22)).wrapping_sub(ONES) & !(word ^ (ONES * 0x22));
        let backslash = (word ^ (ONES * 0x5c)).wrapping_sub(ONES) & !(word ^ (ONES * 0x5c));
        let hits = (control | quote | backslash) & HIGHS;
        if hits != 0 {
            return at + (hits.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    while let Some(0x20..=0x21 | 0x23..=0x5b | 0x5d..) = bytes.get(at) {
        at += 1;
    }
    at
}

/// A byte as the reference shows it in an error.
fn quote(byte: u8) -> String {
    match byte {
        b'\'' => r"'\''".into(),
        b'"' => "'\"'".into(),
        _ => {
            let quoted = object::quote::quote(&char::from(byte).to_string());
            format!("'{}'", quoted.trim_matches('"'))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Changes, removes and truncates at every byte of a `fieldsV1` value: the scanner accepts the result
    /// exactly if `serde_json` does.
    #[test]
    fn skip_refuses_the_same_damaged_fields_v1_as_a_bytewise_reader() {
        let set = r#"{"f:a":{},"f:list":{".":{},"k:{\"n\":\"x\"}":{"f:b":{}},"v:1":{}},"o":[{"f:c":{}},1],"n":null}"#;
        let valid = |text: &str| serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok();
        let skips = |text: &str| {
            let mut scanner = Scanner::new(text);
            scanner.peek_token();
            scanner.skip(9).and_then(|_| scanner.end()).is_ok()
        };
        assert!(skips(set));
        for at in 0..set.len() {
            let (before, after) = (&set[..at], &set[at + 1..]);
            assert!(!skips(before));
            for other in ["", " ", "\"", "\\", ":", ",", "{", "}", "[", "]", "1", "}}", "{}", ",\"x\":{}"] {
                let text = [before, other, after].concat();
                assert_eq!(skips(&text), valid(&text), "{text}");
            }
        }
    }

    #[test]
    fn skip_refuses_entries_nested_past_the_depth_limit() {
        let nested = r#"{"a":{"b":{"c":{}}}}"#;
        assert!(Scanner::new(nested).skip(4).is_ok());
        for depth in 0..4 {
            assert_eq!(*Scanner::new(nested).skip(depth).err().unwrap(), Error::TooDeep);
        }
    }
}
