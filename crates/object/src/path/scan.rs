//! The JSON that field sets are written in, read as the reference's reader does: what it accepts, what it
//! refuses, and in which words.
//!
//! A document is read up to its end; whatever follows is left alone. Nesting is bounded, and so is everything
//! else by the length of the text.

mod number;
mod string;

pub(crate) use string::plain_length;

use crate::{Key, Map, Value};
use number::Width;

/// How deep a document may nest.
const MOST_DEPTH: usize = 512;

/// Why a text is not the JSON that was expected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Error(Box<str>);

/// What the reader does with its place in the text when the text ends, which shows in the place of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// A stream: the place stays where it was.
    Stream,
    /// A text in memory: the place is the end.
    Memory,
}

/// A place in a JSON text.
pub(crate) struct Scanner<'t> {
    text: &'t str,
    bytes: &'t [u8],
    head: usize,
    source: Source,
    ended: bool,
    depth: usize,
}

impl<'t> Scanner<'t> {
    pub(crate) fn new(text: &'t str, source: Source) -> Self {
        Self { text, bytes: text.as_bytes(), head: 0, source, ended: false, depth: 0 }
    }

    /// Steps over an empty object, if there is one here.
    #[inline]
    pub(crate) fn skip_empty_object(&mut self) -> bool {
        let empty = self.bytes.get(self.head..self.head + 2) == Some(b"{}");
        if empty {
            self.head += 2;
        }
        empty
    }

    /// The next byte that is not white space; zero at the end.
    #[inline]
    pub(crate) fn token(&mut self) -> u8 {
        let mut at = self.head;
        while let Some(&byte) = self.bytes.get(at) {
            at += 1;
            if !matches!(byte, b' ' | b'\n' | b'\t' | b'\r') {
                self.head = at;
                return byte;
            }
        }
        self.end();
        0
    }

    /// The next byte; zero at the end.
    fn byte(&mut self) -> u8 {
        match self.bytes.get(self.head) {
            Some(&byte) => {
                self.head += 1;
                byte
            }
            None => {
                self.end();
                0
            }
        }
    }

    fn end(&mut self) {
        if !self.ended && self.source == Source::Memory {
            self.head = self.bytes.len();
        }
        self.ended = true;
    }

    fn unread(&mut self) {
        if !self.ended {
            self.head = self.head.saturating_sub(1);
        }
    }

    /// Enters an object or a list.
    pub(crate) fn enter(&mut self) -> Result<(), Error> {
        self.depth += 1;
        if self.depth > MOST_DEPTH { Err(self.error("incrementDepth", "exceeded max depth")) } else { Ok(()) }
    }

    /// Leaves an object or a list.
    pub(crate) fn leave(&mut self) {
        self.depth -= 1;
    }

    /// An error that shows the text around here.
    #[cold]
    pub(crate) fn error(&self, operation: &str, message: &str) -> Error {
        let around = |reach: usize| {
            let from = self.head.saturating_sub(reach);
            let to = (self.head + reach).min(self.bytes.len());
            (from, lossy(self.bytes.get(from..to).unwrap_or_default()))
        };
        let ((from, near), (_, far)) = (around(10), around(50));
        let place = self.head - from;
        let message = format!(
            "{operation}: {message}, error found in #{place} byte of ...|{near}|..., bigger context ...|{far}|..."
        );
        Error(message.into())
    }

    /// An error that names a byte that was found.
    #[cold]
    pub(crate) fn unexpected(&self, operation: &str, expected: &str, found: u8) -> Error {
        self.error(operation, &format!("{expected}, but found {}", lossy(&[found])))
    }

    /// The rest of `null`, `true` or `false`.
    pub(crate) fn word(&mut self, rest: &[u8]) -> Result<(), Error> {
        for expected in rest {
            if self.byte() != *expected {
                let operation = if rest.len() == 3 { "skipThreeBytes" } else { "skipFourBytes" };
                return Err(self.error(operation, &format!("expect {}", lossy(rest))));
            }
        }
        Ok(())
    }

    /// Any value. Numbers are floats to the reference; those are whole here that read the same either way.
    pub(crate) fn value(&mut self) -> Result<Value, Error> {
        let mut scratch = String::new();
        let token = self.token();
        self.unread();
        match token {
            b'"' => Ok(self.string(&mut scratch)?.into()),
            b'-' | b'0'..=b'9' => Ok(number::value(self.float(Width::Double)?)),
            b'n' => self.word(b"null").map(|()| Value::Null),
            b't' => {
                self.token();
                self.word(b"rue").map(|()| Value::Bool(true))
            }
            b'f' => {
                self.token();
                self.word(b"alse").map(|()| Value::Bool(false))
            }
            b'[' => {
                let mut items = Vec::new();
                self.list(|scanner| scanner.value().map(|item| items.push(item)))?;
                Ok(items.into())
            }
            b'{' => {
                let mut entries = Vec::new();
                self.map(|scanner, key| {
                    let key = Key::from(key);
                    scanner.value().map(|value| entries.push((key, value)))
                })?;
                Ok(last_of_each(entries).into())
            }
            _ => Err(self.error("Read", "unexpected value type: 0")),
        }
    }

    fn list(&mut self, mut item: impl FnMut(&mut Self) -> Result<(), Error>) -> Result<(), Error> {
        self.token();
        self.enter()?;
        let mut next = self.token();
        if next != b']' {
            self.unread();
            item(self)?;
            next = self.token();
            while next == b',' {
                item(self)?;
                next = self.token();
            }
            if next != b']' {
                return Err(self.unexpected("ReadArrayCB", "expect ] in the end", next));
            }
        }
        self.leave();
        Ok(())
    }

    /// The entries of an object or of a null. An error about a missing colon names the byte before the key.
    pub(crate) fn map(
        &mut self,
        mut entry: impl FnMut(&mut Self, &str) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.entries("ReadMapCB", |scanner, before, key| {
            if scanner.token() != b':' {
                return Err(scanner.unexpected("ReadMapCB", "expect : after object field", before));
            }
            entry(scanner, key)
        })
    }

    /// The same for an object whose errors about a missing colon name what is in its place.
    pub(crate) fn object(
        &mut self,
        mut entry: impl FnMut(&mut Self, &str) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.entries("ReadObjectCB", |scanner, _, key| {
            let colon = scanner.token();
            if colon != b':' {
                return Err(scanner.unexpected("ReadObject", "expect : after object field", colon));
            }
            entry(scanner, key)
        })
    }

    fn entries(
        &mut self,
        operation: &str,
        mut entry: impl FnMut(&mut Self, u8, &str) -> Result<(), Error>,
    ) -> Result<(), Error> {
        match self.token() {
            b'{' => {}
            b'n' => return self.word(b"ull"),
            other => return Err(self.unexpected(operation, "expect { or n", other)),
        }
        self.enter()?;
        let mut scratch = String::new();
        let mut before = self.token();
        match before {
            b'"' => self.unread(),
            b'}' => {
                self.leave();
                return Ok(());
            }
            other => return Err(self.unexpected(operation, "expect \" after {", other)),
        }
        loop {
            let key = self.string(&mut scratch)?;
            entry(self, before, key)?;
            before = self.token();
            match before {
                b',' => {}
                b'}' => break,
                _ => return Err(self.error(operation, "object not ended with }")),
            }
        }
        self.leave();
        Ok(())
    }

    /// Steps over any value.
    pub(crate) fn skip(&mut self) -> Result<(), Error> {
        let token = self.token();
        match token {
            b'"' => self.string_body("trySkipString", &mut String::new()).map(|_| ()),
            b'n' => self.word(b"ull"),
            b't' => self.word(b"rue"),
            b'f' => self.word(b"alse"),
            b'0' => {
                self.unread();
                self.float(Width::Single).map(|_| ())
            }
            b'-' | b'1'..=b'9' => self.skip_number(),
            b'[' => {
                self.unread();
                self.list(Self::skip)
            }
            b'{' => {
                self.unread();
                self.object(|scanner, _| scanner.skip())
            }
            other => Err(self.error("Skip", &format!("do not know how to skip: {other}"))),
        }
    }
}

/// Of entries with the same key, the last counts.
fn last_of_each(mut entries: Vec<(Key, Value)>) -> Map {
    entries.reverse();
    entries.sort_by(|a, b| a.0.cmp(&b.0));
    entries.dedup_by(|later, earlier| later.0 == earlier.0);
    Map::from_distinct(entries)
}

/// The text of bytes, each one that is no text replaced.
fn lossy(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        out.push_str(chunk.valid());
        out.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    out
}
