//! Tokens, and the texts that are one.

/// The kinds of tokens, with the numbers that the reference's grammar gives them: sets of them are shown in
/// the order of these numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(super) enum Kind {
    /// The end of the text.
    End = 0,
    Equals,
    NotEquals,
    In,
    Less,
    LessEquals,
    GreaterEquals,
    Greater,
    And,
    Or,
    BracketOpen,
    BracketClose,
    BraceOpen,
    BraceClose,
    ParenOpen,
    ParenClose,
    Dot,
    Comma,
    Minus,
    Not,
    Question,
    Colon,
    Plus,
    Star,
    Slash,
    Percent,
    True,
    False,
    Null,
    Space,
    Comment,
    Double,
    Int,
    Uint,
    String,
    Bytes,
    Ident,
    EscapedIdent,
}

/// What begins at a place of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scan {
    /// A token, and the byte after it.
    Token(Kind, usize),
    /// No token, and the byte after the first character that no token has there.
    Unknown(usize),
}

/// The longest token that begins at a byte of a text. Two kinds that are equally long are told apart by their
/// numbers: the lower one wins.
pub(super) fn scan(text: &str, at: usize) -> Scan {
    let bytes = text.as_bytes();
    let Some(first) = bytes.get(at).copied() else { return Scan::Token(Kind::End, at) };
    let second = bytes.get(at + 1).copied().unwrap_or(0);
    let one = |kind| Scan::Token(kind, at + 1);
    let either = |follow: u8, long, short| {
        if second == follow { Scan::Token(long, at + 2) } else { Scan::Token(short, at + 1) }
    };
    let both = |kind| {
        if second == first { Scan::Token(kind, at + 2) } else { Scan::Unknown(after_char(text, at + 1)) }
    };
    match first {
        b' ' | b'\t' | b'\r' | b'\n' | 0x0c => {
            Scan::Token(Kind::Space, after(bytes, at, |b| matches!(b, b' ' | b'\t' | b'\r' | b'\n' | 0x0c)))
        }
        b'a'..=b'z' | b'A'..=b'Z' | b'_' => word(text, at),
        b'0'..=b'9' => number(bytes, at),
        b'.' if second.is_ascii_digit() => Scan::Token(Kind::Double, exponent(bytes, digits(bytes, at + 1))),
        b'"' | b'\'' => match string(text, at, false) {
            Ok(end) => Scan::Token(Kind::String, end),
            Err(end) => Scan::Unknown(end),
        },
        b'=' => both(Kind::Equals),
        b'!' => either(b'=', Kind::NotEquals, Kind::Not),
        b'<' => either(b'=', Kind::LessEquals, Kind::Less),
        b'>' => either(b'=', Kind::GreaterEquals, Kind::Greater),
        b'&' => both(Kind::And),
        b'|' => both(Kind::Or),
        b'/' if second == b'/' => Scan::Token(Kind::Comment, after(bytes, at, |b| b != b'\n')),
        b'[' => one(Kind::BracketOpen),
        b']' => one(Kind::BracketClose),
        b'{' => one(Kind::BraceOpen),
        b'}' => one(Kind::BraceClose),
        b'(' => one(Kind::ParenOpen),
        b')' => one(Kind::ParenClose),
        b'.' => one(Kind::Dot),
        b',' => one(Kind::Comma),
        b'-' => one(Kind::Minus),
        b'?' => one(Kind::Question),
        b':' => one(Kind::Colon),
        b'+' => one(Kind::Plus),
        b'*' => one(Kind::Star),
        b'/' => one(Kind::Slash),
        b'%' => one(Kind::Percent),
        b'`' => escaped(text, at),
        _ => Scan::Unknown(after_char(text, at)),
    }
}

/// The byte after the character at a byte; the end of the text if there is none.
fn after_char(text: &str, at: usize) -> usize {
    at + text.get(at..).and_then(|rest| rest.chars().next()).map_or(0, char::len_utf8)
}

/// The first byte that is not one of a class.
fn after(bytes: &[u8], at: usize, class: impl Fn(u8) -> bool) -> usize {
    bytes.iter().skip(at).position(|byte| !class(*byte)).map_or(bytes.len(), |length| at + length)
}

fn digits(bytes: &[u8], at: usize) -> usize {
    after(bytes, at, |byte| byte.is_ascii_digit())
}

/// The end of an exponent, or where it would begin.
fn exponent(bytes: &[u8], at: usize) -> usize {
    if !matches!(bytes.get(at), Some(b'e' | b'E')) {
        return at;
    }
    let from = if matches!(bytes.get(at + 1), Some(b'+' | b'-')) { at + 2 } else { at + 1 };
    let end = digits(bytes, from);
    if end > from { end } else { at }
}

fn number(bytes: &[u8], at: usize) -> Scan {
    let mut end = digits(bytes, at);
    if end == at + 1 && bytes.get(at) == Some(&b'0') && bytes.get(end) == Some(&b'x') {
        let hex = after(bytes, end + 1, |byte| byte.is_ascii_hexdigit());
        if hex > end + 1 {
            end = hex;
        }
    } else {
        let mut float = end;
        if bytes.get(end) == Some(&b'.') && bytes.get(end + 1).is_some_and(u8::is_ascii_digit) {
            float = digits(bytes, end + 1);
        }
        float = exponent(bytes, float);
        if float > end {
            return Scan::Token(Kind::Double, float);
        }
    }
    if matches!(bytes.get(end), Some(b'u' | b'U')) {
        return Scan::Token(Kind::Uint, end + 1);
    }
    Scan::Token(Kind::Int, end)
}

/// A name, a word of the language, or a string or bytes with a prefix.
fn word(text: &str, at: usize) -> Scan {
    let bytes = text.as_bytes();
    let end = after(bytes, at, |byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if matches!(bytes.get(end), Some(b'"' | b'\'')) {
        let string = match bytes.get(at..end) {
            Some(b"r" | b"R") => string(text, end, true).map(|end| (Kind::String, end)),
            Some(b"b" | b"B") => string(text, end, false).map(|end| (Kind::Bytes, end)),
            Some([b'b' | b'B', b'r' | b'R']) => string(text, end, true).map(|end| (Kind::Bytes, end)),
            _ => Err(end),
        };
        if let Ok((kind, end)) = string {
            return Scan::Token(kind, end);
        }
    }
    let kind = match bytes.get(at..end) {
        Some(b"in") => Kind::In,
        Some(b"true") => Kind::True,
        Some(b"false") => Kind::False,
        Some(b"null") => Kind::Null,
        _ => Kind::Ident,
    };
    Scan::Token(kind, end)
}

/// A name in backticks.
fn escaped(text: &str, at: usize) -> Scan {
    let bytes = text.as_bytes();
    let class = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-' | b'/' | b' ');
    let end = after(bytes, at + 1, class);
    if end > at + 1 && bytes.get(end) == Some(&b'`') {
        return Scan::Token(Kind::EscapedIdent, end + 1);
    }
    Scan::Unknown(after_char(text, end))
}

/// A string from its first quote on: the byte after it, or the byte after the character that cannot be in it.
/// Three quotes begin a long string if there is an end of it, and are an empty string and a quote otherwise.
fn string(text: &str, at: usize, raw: bool) -> Result<usize, usize> {
    let bytes = text.as_bytes();
    let quote = bytes.get(at).copied().unwrap_or(b'"');
    if bytes.get(at + 1) != Some(&quote) {
        return short_string(text, at + 1, quote, raw);
    }
    if bytes.get(at + 2) == Some(&quote)
        && let Some(end) = long_string(bytes, at + 3, quote, raw)
    {
        return Ok(end);
    }
    Ok(at + 2)
}

fn short_string(text: &str, mut at: usize, quote: u8, raw: bool) -> Result<usize, usize> {
    let bytes = text.as_bytes();
    loop {
        match bytes.get(at) {
            None => return Err(at),
            Some(byte) if *byte == quote => return Ok(at + 1),
            Some(b'\n' | b'\r') => return Err(at + 1),
            Some(b'\\') if !raw => at = escape(bytes, at).map_err(|end| after_char(text, end))?,
            Some(_) => at += 1,
        }
    }
}

fn long_string(bytes: &[u8], mut at: usize, quote: u8, raw: bool) -> Option<usize> {
    loop {
        match bytes.get(at) {
            None => return None,
            Some(byte)
                if *byte == quote
                    && bytes.get(at + 1) == Some(&quote)
                    && bytes.get(at + 2) == Some(&quote) =>
            {
                return Some(at + 3);
            }
            Some(b'\\') if !raw => at = escape(bytes, at).ok()?,
            Some(_) => at += 1,
        }
    }
}

/// The byte after an escape sequence, or the byte that cannot be in it.
fn escape(bytes: &[u8], at: usize) -> Result<usize, usize> {
    let run = |from: usize, length: usize, class: fn(u8) -> bool| match (from..from + length)
        .find(|place| !bytes.get(*place).copied().is_some_and(class))
    {
        Some(place) => Err(place),
        None => Ok(from + length),
    };
    let hex = |byte: u8| byte.is_ascii_hexdigit();
    match bytes.get(at + 1) {
        Some(b'a' | b'b' | b'f' | b'n' | b'r' | b't' | b'v' | b'"' | b'\'' | b'\\' | b'?' | b'`') => {
            Ok(at + 2)
        }
        Some(b'x' | b'X') => run(at + 2, 2, hex),
        Some(b'u') => run(at + 2, 4, hex),
        Some(b'U') => run(at + 2, 8, hex),
        Some(b'0'..=b'3') => run(at + 2, 2, |byte| matches!(byte, b'0'..=b'7')),
        _ => Err(at + 1),
    }
}

impl Kind {
    /// All kinds, in the order of their numbers.
    pub(super) const ALL: [Self; 38] = {
        use Kind::*;
        [
            End,
            Equals,
            NotEquals,
            In,
            Less,
            LessEquals,
            GreaterEquals,
            Greater,
            And,
            Or,
            BracketOpen,
            BracketClose,
            BraceOpen,
            BraceClose,
            ParenOpen,
            ParenClose,
            Dot,
            Comma,
            Minus,
            Not,
            Question,
            Colon,
            Plus,
            Star,
            Slash,
            Percent,
            True,
            False,
            Null,
            Space,
            Comment,
            Double,
            Int,
            Uint,
            String,
            Bytes,
            Ident,
            EscapedIdent,
        ]
    };

    /// The text of the kinds that have one only, in quotes.
    pub(super) fn literal(self) -> Option<&'static str> {
        const TEXTS: [&str; 28] = [
            "'=='", "'!='", "'in'", "'<'", "'<='", "'>='", "'>'", "'&&'", "'||'", "'['", "']'", "'{'", "'}'",
            "'('", "')'", "'.'", "','", "'-'", "'!'", "'?'", "':'", "'+'", "'*'", "'/'", "'%'", "'true'",
            "'false'", "'null'",
        ];
        TEXTS.get((self as usize).checked_sub(1)?).copied()
    }

    /// The name of a kind in faults.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::End => "<EOF>",
            Self::Space => "WHITESPACE",
            Self::Comment => "COMMENT",
            Self::Double => "NUM_FLOAT",
            Self::Int => "NUM_INT",
            Self::Uint => "NUM_UINT",
            Self::String => "STRING",
            Self::Bytes => "BYTES",
            Self::Ident => "IDENTIFIER",
            Self::EscapedIdent => "ESC_IDENTIFIER",
            _ => self.literal().unwrap_or_default(),
        }
    }
}
