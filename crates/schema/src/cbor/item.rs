//! The items of CBOR: a check that they are well-formed, and a reader for well-formed items.

use crate::decode::{Error, Fault, Limits};
use std::borrow::Cow;

/// The nesting limit of arrays, maps and tags in the reference.
const DEEPEST: usize = 64;

/// The major type of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Major {
    Positive,
    Negative,
    Bytes,
    Text,
    Array,
    Map,
    Tag,
    Primitive,
}

impl Major {
    fn of(head: u8) -> Self {
        match head >> 5 {
            0 => Self::Positive,
            1 => Self::Negative,
            2 => Self::Bytes,
            3 => Self::Text,
            4 => Self::Array,
            5 => Self::Map,
            6 => Self::Tag,
            _ => Self::Primitive,
        }
    }

    /// Its name in error messages of the reference.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Positive => "positive integer",
            Self::Negative => "negative integer",
            Self::Bytes => "byte string",
            Self::Text => "UTF-8 text string",
            Self::Array => "array",
            Self::Map => "map",
            Self::Tag => "tag",
            Self::Primitive => "primitives",
        }
    }
}

/// The start of an item.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    pub(super) major: Major,
    /// The lower five bits.
    pub(super) info: u8,
    /// The number that follows, or the lower bits themselves.
    pub(super) argument: u64,
}

impl Head {
    fn is_indefinite(self) -> bool {
        self.info == 31
    }

    /// The number of a primitive that is one.
    pub(super) fn float(self) -> Option<f64> {
        match self.info {
            25 => Some(half(self.argument as u16)),
            26 => Some(f32::from_bits(self.argument as u32).into()),
            27 => Some(f64::from_bits(self.argument)),
            _ => None,
        }
    }
}

/// A number of 16 bits.
fn half(bits: u16) -> f64 {
    let (exponent, fraction) = (bits >> 10 & 0x1f, f64::from(bits & 0x3ff));
    let size = match exponent {
        0 => fraction * 2f64.powi(-24),
        0x1f if fraction == 0.0 => f64::INFINITY,
        0x1f => f64::NAN,
        _ => (1024.0 + fraction) * 2f64.powi(i32::from(exponent) - 25),
    };
    if bits & 0x8000 == 0 { size } else { -size }
}

#[cold]
pub(super) fn fault(message: impl Into<String>) -> Fault {
    Fault::new(Error::Syntax(message.into()))
}

#[cold]
fn unexpected_end() -> Fault {
    fault("unexpected EOF")
}

/// The error for a well-formed item that is not allowed here.
#[cold]
pub(super) fn unacceptable(major: Major, what: &str) -> Fault {
    let name = major.name();
    Fault::new(Error::Value(format!(
        "cbor: data item of cbor type {name} is not accepted by protocol: {what}"
    )))
}

/// Checks that `bytes` begin with a well-formed item within the limits; returns its end.
pub(super) fn check(bytes: &[u8], limits: &Limits) -> Result<usize, Fault> {
    if bytes.is_empty() {
        return Err(fault("EOF"));
    }
    let mut checker = Checker { bytes, at: 0, left: limits.values, limits };
    checker.item(0)?;
    Ok(checker.at)
}

struct Checker<'b> {
    bytes: &'b [u8],
    at: usize,
    left: usize,
    limits: &'b Limits,
}

impl Checker<'_> {
    fn item(&mut self, depth: usize) -> Result<(), Fault> {
        self.left = self.left.checked_sub(1).ok_or_else(|| Fault::new(Error::TooMany(self.limits.values)))?;
        let head = self.head()?;
        match head.major {
            Major::Positive | Major::Negative | Major::Primitive => Ok(()),
            Major::Bytes | Major::Text if head.is_indefinite() => self.chunks(head.major),
            Major::Bytes | Major::Text => self.skip_bytes(head),
            Major::Array | Major::Map => self.elements(head, self.deeper(depth)?),
            Major::Tag => self.tagged(head.argument, depth),
        }
    }

    fn deeper(&self, depth: usize) -> Result<usize, Fault> {
        if depth < self.limits.depth.min(DEEPEST) {
            return Ok(depth + 1);
        }
        Err(if depth < DEEPEST {
            Fault::new(Error::TooDeep)
        } else {
            fault(format!("cbor: exceeded max nested level {DEEPEST}"))
        })
    }

    fn peek(&self) -> Result<u8, Fault> {
        self.bytes.get(self.at).copied().ok_or_else(unexpected_end)
    }

    /// Whether the next item is a break, which is consumed.
    fn at_break(&mut self) -> Result<bool, Fault> {
        let found = self.peek()? == 0xff;
        self.at += usize::from(found);
        Ok(found)
    }

    fn skip_bytes(&mut self, head: Head) -> Result<(), Fault> {
        if i64::try_from(head.argument).is_err() {
            let (name, length) = (head.major.name(), head.argument);
            return Err(fault(format!(
                "cbor: {name} length {length} is too large, causing integer overflow"
            )));
        }
        let left = self.bytes.len() - self.at;
        let length = usize::try_from(head.argument).ok().filter(|length| *length <= left);
        self.at += length.ok_or_else(unexpected_end)?;
        Ok(())
    }

    /// Checks the chunks of a string of indefinite length.
    fn chunks(&mut self, major: Major) -> Result<(), Fault> {
        while !self.at_break()? {
            let next = self.peek()?;
            if Major::of(next) != major {
                let (found, wanted) = (Major::of(next).name(), major.name());
                return Err(fault(format!(
                    "cbor: wrong element type {found} for indefinite-length {wanted}"
                )));
            }
            if next & 0x1f == 31 {
                return Err(fault(format!(
                    "cbor: indefinite-length {} chunk is not definite-length",
                    major.name()
                )));
            }
            let head = self.head()?;
            self.skip_bytes(head)?;
        }
        Ok(())
    }

    fn elements(&mut self, head: Head, depth: usize) -> Result<(), Fault> {
        if head.is_indefinite() {
            let mut count = 0usize;
            while !self.at_break()? {
                self.item(depth)?;
                if head.major == Major::Map && count.is_multiple_of(2) {
                    self.left += 1;
                }
                count += 1;
            }
            if head.major == Major::Map && !count.is_multiple_of(2) {
                return Err(fault("cbor: unexpected \"break\" code"));
            }
            return Ok(());
        }
        if i64::try_from(head.argument).is_err() {
            let (name, length) = (head.major.name(), head.argument);
            return Err(fault(format!(
                "cbor: {name} length {length} is too large, it would cause integer overflow"
            )));
        }
        for _ in 0..head.argument {
            self.item(depth)?;
            if head.major == Major::Map {
                // Keys are not counted.
                self.left += 1;
                self.item(depth)?;
            }
        }
        Ok(())
    }

    fn tagged(&mut self, mut number: u64, mut depth: usize) -> Result<(), Fault> {
        loop {
            let next = self.peek()?;
            if matches!(number, 2 | 3) {
                return Err(unacceptable(Major::Tag, "bignum"));
            }
            if Major::of(next) != Major::Tag {
                return self.item(depth);
            }
            number = self.head()?.argument;
            depth = self.deeper(depth)?;
        }
    }

    fn head(&mut self) -> Result<Head, Fault> {
        let first = self.peek()?;
        let head = read_head(self.bytes, &mut self.at).ok_or_else(unexpected_end)?;
        let (major, info) = (head.major, first & 0x1f);
        match (major, info) {
            (Major::Primitive, 24) if head.argument < 32 => {
                let (value, name) = (head.argument, major.name());
                return Err(fault(format!("cbor: invalid simple value {value} for type {name}")));
            }
            (Major::Primitive, 31) => return Err(fault("cbor: unexpected \"break\" code")),
            (_, 28..=30) | (Major::Positive | Major::Negative | Major::Tag, 31) => {
                let name = major.name();
                return Err(fault(format!("cbor: invalid additional information {info} for type {name}")));
            }
            _ => {}
        }
        match head.float().filter(|_| major == Major::Primitive) {
            Some(number) if number.is_nan() => Err(unacceptable(major, "floating-point NaN")),
            Some(number) if number.is_infinite() => Err(unacceptable(major, "floating-point infinity")),
            _ => Ok(head),
        }
    }
}

fn read_head(bytes: &[u8], at: &mut usize) -> Option<Head> {
    let first = *bytes.get(*at)?;
    let info = first & 0x1f;
    let length = match info {
        24 => 1,
        25 => 2,
        26 => 4,
        27 => 8,
        _ => 0,
    };
    let argument = bytes.get(*at + 1..*at + 1 + length)?;
    *at += 1 + length;
    let argument = match length {
        0 => info.into(),
        _ => argument.iter().fold(0, |argument, byte| argument << 8 | u64::from(*byte)),
    };
    Some(Head { major: Major::of(first), info, argument })
}

/// A reader of well-formed items.
#[derive(Clone, Copy)]
pub(super) struct Reader<'b> {
    bytes: &'b [u8],
    at: usize,
}

impl<'b> Reader<'b> {
    pub(super) fn new(bytes: &'b [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    pub(super) fn peek(&self) -> u8 {
        self.bytes.get(self.at).copied().unwrap_or(0xff)
    }

    pub(super) fn major(&self) -> Major {
        Major::of(self.peek())
    }

    pub(super) fn head(&mut self) -> Head {
        let end = Head { major: Major::Primitive, info: 22, argument: 22 };
        read_head(self.bytes, &mut self.at).unwrap_or(end)
    }

    /// The number of elements after the head of an array or map.
    pub(super) fn elements(&mut self) -> Elements {
        let head = self.head();
        Elements(if head.is_indefinite() { None } else { Some(head.argument) })
    }

    /// Whether another element follows.
    pub(super) fn more(&mut self, elements: &mut Elements) -> bool {
        match &mut elements.0 {
            Some(left) => match left.checked_sub(1) {
                Some(fewer) => {
                    *left = fewer;
                    self.at < self.bytes.len()
                }
                None => false,
            },
            None => {
                let ended = self.peek() == 0xff;
                self.at += usize::from(ended);
                !ended
            }
        }
    }

    /// The bytes of a byte or text string.
    pub(super) fn string(&mut self) -> Cow<'b, [u8]> {
        let head = self.head();
        if !head.is_indefinite() {
            return Cow::Borrowed(self.take(head.argument));
        }
        let mut joined = Vec::new();
        while self.peek() != 0xff && self.at < self.bytes.len() {
            let chunk = self.head();
            joined.extend_from_slice(self.take(chunk.argument));
        }
        self.at += 1;
        Cow::Owned(joined)
    }

    fn take(&mut self, length: u64) -> &'b [u8] {
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let end = self.at.saturating_add(length).min(self.bytes.len());
        let taken = self.bytes.get(self.at..end).unwrap_or_default();
        self.at = end;
        taken
    }

    /// Skips an item.
    pub(super) fn skip(&mut self) {
        let head = self.head();
        match head.major {
            Major::Positive | Major::Negative | Major::Primitive => {}
            Major::Tag => self.skip(),
            Major::Bytes | Major::Text if !head.is_indefinite() => {
                self.take(head.argument);
            }
            Major::Bytes | Major::Text | Major::Array | Major::Map => {
                let twice = head.major == Major::Map;
                let mut elements = Elements(if head.is_indefinite() { None } else { Some(head.argument) });
                while self.more(&mut elements) {
                    self.skip();
                    if twice {
                        self.skip();
                    }
                }
            }
        }
    }

    /// An integer as a number, or as text if it does not fit into 64 bits.
    pub(super) fn integer(&mut self) -> Result<i64, String> {
        let head = self.head();
        match (head.major, i64::try_from(head.argument)) {
            (Major::Positive, Ok(number)) => Ok(number),
            (Major::Negative, Ok(number)) => Ok(-1 - number),
            (Major::Negative, Err(_)) => Err((-1 - i128::from(head.argument)).to_string()),
            (_, _) => Err(head.argument.to_string()),
        }
    }
}

/// The remaining elements of an array or a map: a number, or up to a break.
pub(super) struct Elements(Option<u64>);
