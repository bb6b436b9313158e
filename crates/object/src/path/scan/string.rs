//! Strings and their escapes.

use super::{Error, Scanner};

impl<'t> Scanner<'t> {
    /// A string with its escapes resolved, in `scratch` where it has some. A null counts as an empty one.
    #[inline]
    pub(crate) fn string<'s>(&mut self, scratch: &'s mut String) -> Result<&'s str, Error>
    where
        't: 's,
    {
        match self.token() {
            b'"' => self.string_body("ReadString", scratch),
            b'n' => self.word(b"ull").map(|()| ""),
            other => Err(self.unexpected("ReadString", "expects \" or n", other)),
        }
    }

    /// A string behind its first quote.
    #[inline]
    pub(super) fn string_body<'s>(
        &mut self,
        operation: &str,
        scratch: &'s mut String,
    ) -> Result<&'s str, Error>
    where
        't: 's,
    {
        let rest = self.bytes.get(self.head..).unwrap_or_default();
        let plain = plain_length(rest);
        match rest.get(plain) {
            Some(b'"') => {
                let text = self.text.get(self.head..self.head + plain).unwrap_or_default();
                self.head += plain + 1;
                Ok(text)
            }
            Some(&byte) if byte < b' ' => {
                Err(self.error(operation, &format!("invalid control character found: {byte}")))
            }
            _ => self.escaped_string(scratch),
        }
    }

    /// The rest of a string, escapes and all. Control characters are accepted after an escape.
    fn escaped_string<'s>(&mut self, scratch: &'s mut String) -> Result<&'s str, Error> {
        scratch.clear();
        scratch.reserve(64);
        loop {
            let plain = plain_length(self.bytes.get(self.head..).unwrap_or_default());
            scratch.push_str(self.text.get(self.head..self.head + plain).unwrap_or_default());
            self.head += plain;
            match self.byte() {
                b'"' => return Ok(scratch),
                b'\\' => {
                    let byte = self.byte();
                    self.escape(byte, scratch)?;
                }
                control => scratch.push(char::from(control)),
            }
            if self.ended {
                return Err(self.error("readStringSlowPath", "unexpected end of input"));
            }
        }
    }

    /// What follows a backslash.
    fn escape(&mut self, byte: u8, out: &mut String) -> Result<(), Error> {
        out.push(match byte {
            b'"' | b'\\' | b'/' => char::from(byte),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => return self.code_unit(out),
            _ => return Err(self.error("readEscapedChar", "invalid escape char after \\")),
        });
        Ok(())
    }

    /// A character by its number, or by two of them. A half of a pair alone is replaced.
    fn code_unit(&mut self, out: &mut String) -> Result<(), Error> {
        let lone = |unit: u32| char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER);
        let first = self.hex()?;
        if !(0xd800..0xe000).contains(&first) {
            out.push(lone(first));
            return Ok(());
        }
        if self.byte() != b'\\' {
            self.unread();
            out.push(lone(first));
            return Ok(());
        }
        let byte = self.byte();
        if byte != b'u' {
            out.push(lone(first));
            return if self.ended { Ok(()) } else { self.escape(byte, out) };
        }
        let second = self.hex()?;
        if first < 0xdc00 && (0xdc00..0xe000).contains(&second) {
            out.push(lone(0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00)));
        } else {
            out.extend([lone(first), lone(second)]);
        }
        Ok(())
    }

    fn hex(&mut self) -> Result<u32, Error> {
        let mut unit = 0;
        for _ in 0..4 {
            let byte = self.byte();
            if self.ended {
                break;
            }
            let Some(digit) = char::from(byte).to_digit(16) else {
                return Err(self.unexpected("readU4", "expects 0~9 or a~f", byte));
            };
            unit = unit * 16 + digit;
        }
        Ok(unit)
    }
}

/// How many bytes there are before the first quote, backslash or control character.
#[inline]
pub(crate) fn plain_length(bytes: &[u8]) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGHS: u64 = 0x8080_8080_8080_8080;
    // A borrow may flag a byte above one that is flagged rightly, never the lowest.
    let zeros = |word: u64| word.wrapping_sub(ONES) & !word;
    let specials = |word: &[u8; 8]| {
        let word = u64::from_le_bytes(*word);
        let control = word.wrapping_sub(ONES * 0x20) & !word;
        let quote = zeros(word ^ (ONES * u64::from(b'"')));
        let backslash = zeros(word ^ (ONES * u64::from(b'\\')));
        (control | quote | backslash) & HIGHS
    };
    let first = |found: u64| found.trailing_zeros() as usize / 8;
    for (index, word) in bytes.as_chunks::<8>().0.iter().enumerate() {
        let found = specials(word);
        if found != 0 {
            return index * 8 + first(found);
        }
    }
    match bytes.last_chunk::<8>() {
        // What of these was looked at above is plain.
        Some(word) => match specials(word) {
            0 => bytes.len(),
            found => bytes.len() - 8 + first(found),
        },
        None => {
            let special = |byte: &u8| matches!(byte, b'"' | b'\\' | 0..0x20);
            bytes.iter().position(special).unwrap_or(bytes.len())
        }
    }
}
