//! A cursor over JSON text that reads what it is asked for and skips the rest.
//!
//! Skipping counts brackets and knows strings; it does not judge what lies between. Nothing here panics or
//! recurses, whatever the bytes are: text that cannot be followed is [`Broken`], with the place where it
//! ended.

/// Where and why text could not be followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} at byte {at}")]
pub(crate) struct Broken {
    pub(crate) what: &'static str,
    pub(crate) at: usize,
}

/// The inside of a string, between its quotes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Text {
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) escaped: bool,
}

/// A value that has no parts.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Scalar {
    /// A string, without its quotes.
    Text(Text),
    /// A number or truth value, as it is written.
    Word(Text),
    Null,
}

pub(crate) struct Scanner<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Scanner<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// The next byte that is not white space.
    pub(crate) fn peek(&mut self) -> Option<u8> {
        loop {
            match self.bytes.get(self.at) {
                Some(b' ' | b'\t' | b'\n' | b'\r') => self.at += 1,
                other => return other.copied(),
            }
        }
    }

    pub(crate) fn expect(&mut self, byte: u8, what: &'static str) -> Result<(), Broken> {
        if self.peek() == Some(byte) {
            self.at += 1;
            return Ok(());
        }
        self.broken(what)
    }

    /// Nothing but white space may follow.
    pub(crate) fn end(&mut self) -> Result<(), Broken> {
        match self.peek() {
            None => Ok(()),
            Some(_) => self.broken("text after the object"),
        }
    }

    pub(crate) fn broken<T>(&self, what: &'static str) -> Result<T, Broken> {
        Err(Broken { what, at: self.at })
    }

    /// The next key of an object whose `{` was read, with its colon; `None` at the closing bracket.
    pub(crate) fn key(&mut self, first: &mut bool) -> Result<Option<Text>, Broken> {
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(None);
        }
        if !std::mem::take(first) {
            self.expect(b',', "no comma between the members of an object")?;
        }
        let key = self.string()?;
        self.expect(b':', "no colon after a key")?;
        Ok(Some(key))
    }

    /// Whether an array whose `[` was read has one more item; its closing bracket is read if not.
    pub(crate) fn item(&mut self, first: &mut bool) -> Result<bool, Broken> {
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(false);
        }
        if !std::mem::take(first) {
            self.expect(b',', "no comma between the items of a list")?;
        }
        Ok(true)
    }

    pub(crate) fn string(&mut self) -> Result<Text, Broken> {
        self.expect(b'"', "no string")?;
        let start = self.at;
        match string_end(self.bytes, start) {
            Some(StringEnd { end, escaped }) => {
                self.at = end + 1;
                Ok(Text { start, end, escaped })
            }
            None => self.broken("a string without an end"),
        }
    }

    /// A value without parts; `None`, and nothing read, if it has some.
    pub(crate) fn scalar(&mut self) -> Result<Option<Scalar>, Broken> {
        match self.peek() {
            Some(b'{' | b'[') => Ok(None),
            Some(b'"') => self.string().map(|text| Some(Scalar::Text(text))),
            _ => {
                let text = self.word()?;
                let null = self.bytes.get(text.start..text.end) == Some(b"null");
                Ok(Some(if null { Scalar::Null } else { Scalar::Word(text) }))
            }
        }
    }

    /// Passes over a value of any kind.
    pub(crate) fn skip(&mut self) -> Result<(), Broken> {
        match self.peek() {
            Some(b'{' | b'[') => self.skip_nested(),
            Some(b'"') => self.string().map(|_| ()),
            _ => self.word().map(|_| ()),
        }
    }

    fn word(&mut self) -> Result<Text, Broken> {
        let start = self.at;
        while let Some(b'a'..=b'z' | b'0'..=b'9' | b'-' | b'+' | b'.' | b'E') = self.bytes.get(self.at) {
            self.at += 1;
        }
        if start == self.at {
            self.broken("no value")
        } else {
            Ok(Text { start, end: self.at, escaped: false })
        }
    }

    fn skip_nested(&mut self) -> Result<(), Broken> {
        match nested_end(self.bytes, self.at) {
            Some(end) => {
                self.at = end;
                Ok(())
            }
            None => {
                self.at = self.bytes.len();
                self.broken("a bracket that is not closed")
            }
        }
    }
}

/// Where the object or list that starts at a place ends.
fn nested_end(bytes: &[u8], mut at: usize) -> Option<usize> {
    let mut depth = 0usize;
    loop {
        let byte = *bytes.get(at)?;
        at += 1;
        match byte {
            b'"' => at = string_end(bytes, at)?.end + 1,
            b'{' | b'[' => depth += 1,
            b'}' | b']' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(at);
                }
            }
            _ => {}
        }
    }
}

struct StringEnd {
    end: usize,
    escaped: bool,
}

/// The closing quote of a string whose inside starts at a place.
#[inline]
fn string_end(bytes: &[u8], mut at: usize) -> Option<StringEnd> {
    let mut escaped = false;
    loop {
        at = quote_or_backslash(bytes, at)?;
        if bytes.get(at) == Some(&b'"') {
            return Some(StringEnd { end: at, escaped });
        }
        escaped = true;
        at += 2;
    }
}

/// The first quote or backslash from a place on, looked for in eight bytes at a time.
#[inline]
fn quote_or_backslash(bytes: &[u8], mut at: usize) -> Option<usize> {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGHS: u64 = 0x8080_8080_8080_8080;
    // The lowest flag is right, those above it may be false.
    let zeros = |word: u64| word.wrapping_sub(ONES) & !word & HIGHS;
    while let Some(chunk) = bytes.get(at..).and_then(<[u8]>::first_chunk::<8>) {
        let word = u64::from_le_bytes(*chunk);
        let found = zeros(word ^ (ONES * b'"' as u64)) | zeros(word ^ (ONES * b'\\' as u64));
        if found != 0 {
            return Some(at + found.trailing_zeros() as usize / 8);
        }
        at += 8;
    }
    let rest = bytes.get(at..)?.iter().position(|byte| matches!(byte, b'"' | b'\\'))?;
    Some(at + rest)
}

/// The text of a string whose inside has escapes; `None` if one of them is wrong.
pub(crate) fn unescape(inside: &str) -> Option<String> {
    let mut out = String::with_capacity(inside.len());
    let mut characters = inside.chars();
    while let Some(character) = characters.next() {
        if character != '\\' {
            out.push(character);
            continue;
        }
        out.push(match characters.next()? {
            'n' => '\n',
            't' => '\t',
            'r' => '\r',
            'b' => '\u{8}',
            'f' => '\u{c}',
            'u' => unescape_unicode(&mut characters)?,
            same @ ('"' | '\\' | '/') => same,
            _ => return None,
        });
    }
    Some(out)
}

/// The character after `\u`; half of a pair that has no other half becomes the replacement character.
fn unescape_unicode(characters: &mut std::str::Chars<'_>) -> Option<char> {
    let first = hex(characters)?;
    if !(0xd800..0xdc00).contains(&first) {
        return Some(char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER));
    }
    let mut ahead = characters.clone();
    if (ahead.next(), ahead.next()) == (Some('\\'), Some('u'))
        && let Some(second @ 0xdc00..0xe000) = hex(&mut ahead)
    {
        *characters = ahead;
        return char::from_u32(0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00));
    }
    Some(char::REPLACEMENT_CHARACTER)
}

fn hex(characters: &mut std::str::Chars<'_>) -> Option<u32> {
    (0..4).try_fold(0, |value, _| Some(value * 16 + characters.next()?.to_digit(16)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_every_kind_are_skipped() {
        let text = r#" {"a":[1,{"b":"]}\"\\"}],"c":-1.5e+3} ,"x" , null,true"#;
        let mut scanner = Scanner::new(text.as_bytes());
        for _ in 0..3 {
            scanner.skip().unwrap();
            scanner.expect(b',', "comma").unwrap();
        }
        scanner.skip().unwrap();
        scanner.end().unwrap();
    }

    #[test]
    fn broken_json_is_reported_with_its_offset() {
        for text in ["", "{", "[", "\"", "\"\\", "\"\\\"", "?", "{\"a\":[}", "}"] {
            let mut scanner = Scanner::new(text.as_bytes());
            assert!(scanner.skip().and_then(|()| scanner.end()).is_err(), "{text}");
        }
        assert_eq!(
            Scanner::new(b"[1,").skip().unwrap_err().to_string(),
            "a bracket that is not closed at byte 3"
        );
    }

    #[test]
    fn strings_of_every_length_end_where_they_do() {
        for length in 0..40 {
            for escape in [None, Some(0), Some(length / 2), Some(length)] {
                let mut inside: String = (0..length).map(|at| ['a', 'é', '#', '!', ']'][at % 5]).collect();
                if let Some(at) = escape {
                    let at = inside.char_indices().nth(at).map_or(inside.len(), |(at, _)| at);
                    inside.insert_str(at, "\\\"");
                }
                let text = format!("\"{inside}\",");
                let found = Scanner::new(text.as_bytes()).string().unwrap();
                assert_eq!((found.start, found.end, found.escaped), (1, inside.len() + 1, escape.is_some()));
                assert!(Scanner::new(&text.as_bytes()[..text.len() - 2]).string().is_err());
            }
        }
    }

    #[test]
    fn escapes_are_taken_out() {
        for (inside, text) in [
            (r"a\nb\t\r\b\f\/\\", "a\nb\t\r\u{8}\u{c}/\\"),
            (r#"\"\u003c\u00e9"#, "\"<é"),
            (r"\ud83d\ude00!", "😀!"),
            (r"\ud83dx\udc00", "\u{fffd}x\u{fffd}"),
            (r"\ud83d\u0041", "\u{fffd}A"),
        ] {
            assert_eq!(unescape(inside).as_deref(), Some(text));
        }
        for wrong in [r"\x", r"\u12", r"\", r"\u12g4"] {
            assert_eq!(unescape(wrong), None);
        }
    }
}
