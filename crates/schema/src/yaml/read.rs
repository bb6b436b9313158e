//! The characters of a YAML stream, with their line and column.
//!
//! The stream is decoded in blocks, as in the reference: an invalid byte is reported when the scanner reaches
//! its block, before any other error in that block, and not at all if the scanner stops earlier.

use super::fault;
use crate::decode::Fault;

/// The size of a block in bytes.
const BLOCK: usize = 512;

const BYTE_ORDER_MARK: [u8; 3] = [0xef, 0xbb, 0xbf];

/// A position in the stream, counted in characters from zero.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Mark {
    pub(super) index: usize,
    pub(super) line: usize,
    pub(super) column: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Encoding {
    Utf8,
    Utf16Le,
    Utf16Be,
}

/// The stream and the current position. After the end it reads as zeros, which no stream contains.
pub(super) struct Reader<'i> {
    raw: &'i [u8],
    /// The end of the part of `raw` that is decoded to text.
    taken: usize,
    /// The end of the current block in `raw`.
    held: usize,
    ended: bool,
    encoding: Option<Encoding>,
    /// The text so far, as UTF-8.
    text: Vec<u8>,
    at: usize,
    /// Characters of `text` from `at` on.
    unread: usize,
    pub(super) mark: Mark,
}

impl<'i> Reader<'i> {
    pub(super) fn new(raw: &'i [u8]) -> Self {
        // An empty stream is read as an empty line.
        let raw = if raw.is_empty() { b"\n" } else { raw };
        Self {
            raw,
            taken: 0,
            held: 0,
            ended: false,
            encoding: None,
            text: Vec::new(),
            at: 0,
            unread: 0,
            mark: Mark::default(),
        }
    }

    /// Decodes at least `count` characters ahead.
    #[inline]
    pub(super) fn want(&mut self, count: usize) -> Result<(), Fault> {
        if self.unread >= count { Ok(()) } else { self.fill(count) }
    }

    /// The current byte.
    #[inline]
    pub(super) fn byte(&self) -> u8 {
        self.ahead(0)
    }

    /// The byte at an offset from the current one.
    #[inline]
    pub(super) fn ahead(&self, count: usize) -> u8 {
        self.text.get(self.at + count).copied().unwrap_or(0)
    }

    pub(super) fn is_end(&self) -> bool {
        self.byte() == 0
    }

    pub(super) fn is_blank(&self) -> bool {
        matches!(self.byte(), b' ' | b'\t')
    }

    pub(super) fn is_break(&self) -> bool {
        self.is_break_ahead(0)
    }

    pub(super) fn is_break_ahead(&self, count: usize) -> bool {
        match self.ahead(count) {
            b'\r' | b'\n' => true,
            0xc2 => self.ahead(count + 1) == 0x85,
            0xe2 => self.ahead(count + 1) == 0x80 && matches!(self.ahead(count + 2), 0xa8 | 0xa9),
            _ => false,
        }
    }

    pub(super) fn is_break_or_end(&self) -> bool {
        self.is_end() || self.is_break()
    }

    /// Whether a blank, a line break or the end is at an offset from the current byte.
    pub(super) fn is_gap(&self, count: usize) -> bool {
        matches!(self.ahead(count), 0 | b' ' | b'\t') || self.is_break_ahead(count)
    }

    /// Whether the current byte is a letter, a digit, `_` or `-`.
    pub(super) fn is_word(&self) -> bool {
        matches!(self.byte(), b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' | b'_' | b'-')
    }

    /// Whether the current position is the start of a line with `---` or `...` as a word.
    pub(super) fn is_document_mark(&self, mark: u8) -> bool {
        self.mark.column == 0 && (0..3).all(|count| self.ahead(count) == mark) && self.is_gap(3)
    }

    /// Whether the current position is at the byte order mark of the stream.
    pub(super) fn is_byte_order_mark(&self) -> bool {
        self.at == 0 && self.text.starts_with(&BYTE_ORDER_MARK)
    }

    /// Skips a character that is not a line break.
    pub(super) fn skip(&mut self) {
        self.at += width(self.byte());
        self.unread = self.unread.saturating_sub(1);
        self.mark.index += 1;
        self.mark.column += 1;
    }

    /// Consumes a character that is not a line break and appends it.
    pub(super) fn take(&mut self, into: &mut Vec<u8>) {
        let end = self.at + width(self.byte());
        into.extend_from_slice(self.text.get(self.at..end).unwrap_or_default());
        self.skip();
    }

    /// Skips a line break, if the current character is one.
    pub(super) fn skip_break(&mut self) {
        self.take_break(&mut Vec::new());
    }

    /// Consumes and appends a line break, if the current character is one; all but the Unicode separators
    /// become a line feed.
    pub(super) fn take_break(&mut self, into: &mut Vec<u8>) {
        let (bytes, characters) = match self.byte() {
            b'\r' if self.ahead(1) == b'\n' => (2, 2),
            b'\r' | b'\n' => (1, 1),
            0xc2 if self.is_break() => (2, 1),
            0xe2 if self.is_break() => (3, 1),
            _ => return,
        };
        if bytes == 3 {
            into.extend_from_slice(self.text.get(self.at..self.at + bytes).unwrap_or_default());
        } else {
            into.push(b'\n');
        }
        self.at += bytes;
        self.unread = self.unread.saturating_sub(characters);
        self.mark.index += characters;
        self.mark.column = 0;
        self.mark.line += 1;
    }

    fn fill(&mut self, count: usize) -> Result<(), Fault> {
        let encoding = match self.encoding {
            Some(encoding) => encoding,
            None => self.find_encoding(),
        };
        let mut first = true;
        while self.unread < count {
            if !first || self.taken == self.held {
                self.hold_more();
            }
            first = false;
            while self.taken != self.held && self.decode_one(encoding)? {}
            if self.ended {
                self.unread += 1;
                break;
            }
        }
        Ok(())
    }

    /// Extends the current block; records the end of the stream.
    fn hold_more(&mut self) {
        let room = BLOCK - (self.held - self.taken);
        let more = room.min(self.raw.len() - self.held);
        self.held += more;
        self.ended |= more == 0;
    }

    fn find_encoding(&mut self) -> Encoding {
        while !self.ended && self.held < 3 {
            self.hold_more();
        }
        let (encoding, length) = match self.raw {
            [0xff, 0xfe, ..] => (Encoding::Utf16Le, 2),
            [0xfe, 0xff, ..] => (Encoding::Utf16Be, 2),
            raw if raw.starts_with(&BYTE_ORDER_MARK) => (Encoding::Utf8, 3),
            _ => (Encoding::Utf8, 0),
        };
        self.encoding = Some(encoding);
        self.taken += length;
        encoding
    }

    /// Decodes one character; false if the block ends within it.
    fn decode_one(&mut self, encoding: Encoding) -> Result<bool, Fault> {
        let held = self.raw.get(self.taken..self.held).unwrap_or_default();
        let decoded = match encoding {
            Encoding::Utf8 => utf8(held),
            Encoding::Utf16Le => utf16(held, u16::from_le_bytes),
            Encoding::Utf16Be => utf16(held, u16::from_be_bytes),
        };
        let (character, width) = match decoded {
            Ok(decoded) => decoded,
            Err(InvalidBytes::Incomplete(_)) if !self.ended => return Ok(false),
            Err(InvalidBytes::Incomplete(problem) | InvalidBytes::Invalid(problem)) => {
                return Err(fault(problem));
            }
        };
        if !matches!(character, '\t' | '\n' | '\r' | ' '..='~' | '\u{85}' | '\u{a0}'..='\u{fffd}' | '\u{10000}'..)
        {
            return Err(fault("control characters are not allowed"));
        }
        let mut bytes = [0; 4];
        self.text.extend_from_slice(character.encode_utf8(&mut bytes).as_bytes());
        self.taken += width;
        self.unread += 1;
        Ok(true)
    }
}

/// Why bytes are no valid character.
enum InvalidBytes {
    Incomplete(&'static str),
    Invalid(&'static str),
}

/// The first character of UTF-8 bytes and its length.
fn utf8(bytes: &[u8]) -> Result<(char, usize), InvalidBytes> {
    let lead = bytes.first().copied().unwrap_or(0);
    let width = width(lead);
    if width == 0 {
        return Err(InvalidBytes::Invalid("invalid leading UTF-8 octet"));
    }
    let Some(bytes) = bytes.get(..width) else {
        return Err(InvalidBytes::Incomplete("incomplete UTF-8 octet sequence"));
    };
    let bits = [0x7f, 0x1f, 0x0f, 0x07].get(width - 1).copied().unwrap_or(0);
    let mut code = u32::from(lead & bits);
    for byte in bytes.iter().skip(1) {
        if byte & 0xc0 != 0x80 {
            return Err(InvalidBytes::Invalid("invalid trailing UTF-8 octet"));
        }
        code = (code << 6) | u32::from(byte & 0x3f);
    }
    let least = [0, 0x80, 0x800, 0x10000].get(width - 1).copied().unwrap_or(0);
    if code < least {
        return Err(InvalidBytes::Invalid("invalid length of a UTF-8 sequence"));
    }
    char::from_u32(code)
        .map(|character| (character, width))
        .ok_or(InvalidBytes::Invalid("invalid Unicode character"))
}

/// The first character of UTF-16 bytes and its length.
fn utf16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> Result<(char, usize), InvalidBytes> {
    let (units, _) = bytes.as_chunks::<2>();
    let Some(first) = units.first().map(|pair| unit(*pair)) else {
        return Err(InvalidBytes::Incomplete("incomplete UTF-16 character"));
    };
    match first {
        0xdc00..=0xdfff => Err(InvalidBytes::Invalid("unexpected low surrogate area")),
        0xd800..=0xdbff => {
            let Some(second) = units.get(1).map(|pair| unit(*pair)) else {
                return Err(InvalidBytes::Incomplete("incomplete UTF-16 surrogate pair"));
            };
            match char::decode_utf16([first, second]).next() {
                Some(Ok(character)) => Ok((character, 4)),
                _ => Err(InvalidBytes::Invalid("expected low surrogate area")),
            }
        }
        _ => Ok((char::from_u32(first.into()).unwrap_or(char::REPLACEMENT_CHARACTER), 2)),
    }
}

/// The length of a UTF-8 character by its first byte; 0 for an invalid first byte.
pub(super) fn width(lead: u8) -> usize {
    match lead {
        0..0x80 => 1,
        0xc0..0xe0 => 2,
        0xe0..0xf0 => 3,
        0xf0..0xf8 => 4,
        _ => 0,
    }
}
