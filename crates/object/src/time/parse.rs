//! Reading times by the two layouts, as Go's `time.Parse` does.

use super::calendar::{Civil, days_in_month};
use std::fmt::Write as _;

/// Why a text is not a time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// An element of the layout is not there.
    #[error(
        "parsing time {} as \"{layout}\": cannot parse {} as \"{element}\"",
        quote_as_time(text),
        quote_as_time(rest)
    )]
    Mismatch {
        /// The whole text.
        text: String,
        /// The layout it should have.
        layout: &'static str,
        /// What was left of the text when reading stopped.
        rest: String,
        /// The element of the layout that should have been next.
        element: &'static str,
    },
    /// A number is too large or too small for what it counts.
    #[error("parsing time {}: {what} out of range", quote_as_time(text))]
    OutOfRange {
        /// The whole text.
        text: String,
        /// What the number counts.
        what: &'static str,
    },
    /// Something follows the time.
    #[error("parsing time {}: extra text: {}", quote_as_time(text), quote_as_time(rest))]
    ExtraText {
        /// The whole text.
        text: String,
        /// What follows.
        rest: String,
    },
}

/// The layouts in use.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Layout {
    Seconds,
    Micros,
}

impl Layout {
    fn text(self) -> &'static str {
        match self {
            Self::Seconds => "2006-01-02T15:04:05Z07:00",
            Self::Micros => "2006-01-02T15:04:05.000000Z07:00",
        }
    }
}

/// A point in time as it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Instant {
    pub(super) seconds: i64,
    /// Less than a second.
    pub(super) nanos: u32,
}

/// Quotes text as Go's `time` package does: all that is not printable ASCII byte by byte.
pub(crate) fn quote_as_time(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => out.extend(['\\', char::from(byte)]),
            b' '..=0x7f => out.push(char::from(byte)),
            _ => {
                // Writing into a String cannot fail.
                let _ = write!(out, "\\x{byte:02x}");
            }
        }
    }
    out.push('"');
    out
}

/// Reads the form that times are written in, `2024-01-02T03:04:05Z`, and nothing else.
pub(super) fn everyday(text: &[u8]) -> Option<Instant> {
    let &[y1, y2, y3, y4, b'-', m1, m2, b'-', d1, d2, b'T', h1, h2, b':', n1, n2, b':', s1, s2, b'Z'] = text
    else {
        return None;
    };
    let civil = Civil {
        year: i64::from(pair(y1, y2)? * 100 + pair(y3, y4)?),
        month: pair(m1, m2)?,
        day: pair(d1, d2)?,
        hour: pair(h1, h2)?,
        minute: pair(n1, n2)?,
        second: pair(s1, s2)?,
    };
    let valid = (1..=12).contains(&civil.month)
        && (1..=days_in_month(civil.year, civil.month)).contains(&civil.day)
        && civil.hour < 24
        && civil.minute < 60
        && civil.second < 60;
    valid.then(|| Instant { seconds: civil.to_unix(), nanos: 0 })
}

/// Reads a time by a layout.
pub(super) fn parse(layout: Layout, text: &str) -> Result<Instant, Error> {
    let mut reader = Reader { layout, text, rest: text };
    let mut nanos = 0;

    let year = reader.number("2006", year)?;
    reader.literal("-")?;
    let month = reader.number("01", two)?;
    reader.within(month, 1..=12, "month")?;
    reader.literal("-")?;
    let day = reader.number("02", two)?;
    reader.literal("T")?;
    let hour = reader.number("15", one_or_two)?;
    reader.within(hour, 0..=23, "hour")?;
    reader.literal(":")?;
    let minute = reader.number("04", two)?;
    reader.within(minute, 0..=59, "minute")?;
    reader.literal(":")?;
    let second = reader.number("05", two)?;
    reader.within(second, 0..=59, "second")?;
    match layout {
        Layout::Seconds => {
            if let [b'.' | b',', digits @ ..] = reader.rest.as_bytes() {
                let length = digits.iter().take_while(|digit| digit.is_ascii_digit()).count();
                if length > 0 {
                    nanos = nanoseconds(digits.get(..length.min(9)).unwrap_or_default());
                    reader.skip(1 + length);
                }
            }
        }
        Layout::Micros => nanos = reader.six_digits()?,
    }
    let offset = reader.zone()?;
    if !reader.rest.is_empty() {
        return Err(Error::ExtraText { text: text.to_owned(), rest: reader.rest.to_owned() });
    }
    let year = i64::from(year);
    reader.within(day, 1..=days_in_month(year, month), "day")?;
    let civil = Civil { year, month, day, hour, minute, second };
    Ok(Instant { seconds: civil.to_unix() - offset, nanos })
}

struct Reader<'a> {
    layout: Layout,
    text: &'a str,
    rest: &'a str,
}

impl Reader<'_> {
    fn literal(&mut self, literal: &'static str) -> Result<(), Error> {
        self.rest = self.rest.strip_prefix(literal).ok_or_else(|| self.mismatch(literal))?;
        Ok(())
    }

    fn number(&mut self, element: &'static str, read: fn(&[u8]) -> Option<Number>) -> Result<u32, Error> {
        let number = read(self.rest.as_bytes()).ok_or_else(|| self.mismatch(element))?;
        self.skip(number.length);
        Ok(number.value)
    }

    fn within(
        &self,
        value: u32,
        range: std::ops::RangeInclusive<u32>,
        what: &'static str,
    ) -> Result<(), Error> {
        if range.contains(&value) { Ok(()) } else { Err(self.out_of_range(what)) }
    }

    /// A point and six digits, the first of which may be a sign.
    fn six_digits(&mut self) -> Result<u32, Error> {
        let bytes = self.rest.as_bytes().first_chunk::<7>();
        let Some([b'.' | b',', field @ ..]) = bytes else { return Err(self.mismatch(".000000")) };
        let (negative, digits) = match field.as_slice() {
            [b'+', digits @ ..] => (false, digits),
            [b'-', digits @ ..] => (true, digits),
            digits => (false, digits),
        };
        if !digits.iter().all(u8::is_ascii_digit) {
            return Err(self.mismatch(".000000"));
        }
        let micros = digits.iter().fold(0, |micros, digit| micros * 10 + u32::from(digit - b'0'));
        if negative && micros > 0 {
            return Err(self.out_of_range("fractional second"));
        }
        self.skip(7);
        Ok(micros * 1_000)
    }

    /// `Z` or hours and minutes with a sign, in seconds east of UTC.
    fn zone(&mut self) -> Result<i64, Error> {
        if let Some(rest) = self.rest.strip_prefix('Z') {
            self.rest = rest;
            return Ok(0);
        }
        let Some(&[sign, h1, h2, b':', m1, m2]) = self.rest.as_bytes().first_chunk::<6>() else {
            return Err(self.mismatch("Z07:00"));
        };
        let hours = pair(h1, h2);
        let minutes = hours.and_then(|_| pair(m1, m2));
        if minutes.is_some_and(|minutes| minutes > 60) {
            return Err(self.out_of_range("time zone offset minute"));
        }
        if hours.is_some_and(|hours| hours > 24) {
            return Err(self.out_of_range("time zone offset hour"));
        }
        let (Some(hours), Some(minutes), b'+' | b'-') = (hours, minutes, sign) else {
            return Err(self.mismatch("Z07:00"));
        };
        self.skip(6);
        let offset = i64::from((hours * 60 + minutes) * 60);
        Ok(if sign == b'-' { -offset } else { offset })
    }

    fn skip(&mut self, length: usize) {
        self.rest = self.rest.get(length..).unwrap_or_default();
    }

    fn mismatch(&self, element: &'static str) -> Error {
        Error::Mismatch {
            text: self.text.to_owned(),
            layout: self.layout.text(),
            rest: self.rest.to_owned(),
            element,
        }
    }

    fn out_of_range(&self, what: &'static str) -> Error {
        Error::OutOfRange { text: self.text.to_owned(), what }
    }
}

struct Number {
    value: u32,
    length: usize,
}

fn year(bytes: &[u8]) -> Option<Number> {
    let &[a, b, c, d] = bytes.first_chunk()?;
    Some(Number { value: pair(a, b)? * 100 + pair(c, d)?, length: 4 })
}

fn two(bytes: &[u8]) -> Option<Number> {
    let &[a, b] = bytes.first_chunk()?;
    Some(Number { value: pair(a, b)?, length: 2 })
}

fn one_or_two(bytes: &[u8]) -> Option<Number> {
    two(bytes).or_else(|| Some(Number { value: digit(*bytes.first()?)?, length: 1 }))
}

/// The value of up to nine digits after the point.
fn nanoseconds(digits: &[u8]) -> u32 {
    (0..9).fold(0, |nanos, index| nanos * 10 + u32::from(digits.get(index).map_or(0, |digit| digit - b'0')))
}

fn pair(tens: u8, ones: u8) -> Option<u32> {
    Some(digit(tens)? * 10 + digit(ones)?)
}

fn digit(byte: u8) -> Option<u32> {
    byte.is_ascii_digit().then(|| u32::from(byte - b'0'))
}
