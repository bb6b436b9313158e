//! Spans of time as Go writes them: `5m0s`, `1.5s`, `-300ms`.
//!
//! A [`Duration`] is a signed count of nanoseconds in 64 bits, a little over 292 years either way. Reading
//! and writing agree with Go's `time` package, including its error texts and how it rounds fractions.

use crate::time::quote_as_time;
use std::fmt;
use std::ops::Neg;
use std::str::FromStr;

/// Why a text is not a duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Not a list of numbers with units, or too large.
    #[error("time: invalid duration {}", quote_as_time(.0))]
    Invalid(String),
    /// A number without a unit.
    #[error("time: missing unit in duration {}", quote_as_time(.0))]
    MissingUnit(String),
    /// A unit that does not exist.
    #[error("time: unknown unit {} in duration {}", quote_as_time(unit), quote_as_time(text))]
    UnknownUnit {
        /// The unit.
        unit: String,
        /// The whole text.
        text: String,
    },
}

/// A signed span of time.
///
/// ```
/// use object::duration::Duration;
/// let timeout: Duration = "1h30m".parse().unwrap();
/// assert_eq!(timeout.to_string(), "1h30m0s");
/// assert_eq!(timeout, Duration::from_secs(5400));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Duration(i64);

const MICROSECOND: u64 = 1_000;
const MILLISECOND: u64 = 1_000 * MICROSECOND;
const SECOND: u64 = 1_000 * MILLISECOND;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
/// The magnitude of the smallest duration.
const LIMIT: u64 = 1 << 63;

impl Duration {
    /// No time at all.
    pub const ZERO: Self = Self(0);
    /// The longest span.
    pub const MAX: Self = Self(i64::MAX);

    /// A span of nanoseconds.
    pub const fn from_nanos(nanos: i64) -> Self {
        Self(nanos)
    }

    /// A span of seconds; one that is too long becomes the longest duration.
    pub const fn from_secs(seconds: i64) -> Self {
        Self(seconds.saturating_mul(SECOND as i64))
    }

    /// The span in nanoseconds.
    pub const fn as_nanos(self) -> i64 {
        self.0
    }

    /// The whole seconds in the span.
    pub const fn as_secs(self) -> i64 {
        self.0 / SECOND as i64
    }

    /// The span in seconds, with a fraction.
    pub fn as_secs_f64(self) -> f64 {
        self.as_secs() as f64 + (self.0 % SECOND as i64) as f64 / 1e9
    }

    /// Reports whether the span points into the past.
    pub const fn is_negative(self) -> bool {
        self.0 < 0
    }

    /// The sum, if it fits.
    pub fn checked_add(self, other: Self) -> Option<Self> {
        self.0.checked_add(other.0).map(Self)
    }

    /// The difference, if it fits.
    pub fn checked_sub(self, other: Self) -> Option<Self> {
        self.0.checked_sub(other.0).map(Self)
    }
}

impl Neg for Duration {
    type Output = Self;

    fn neg(self) -> Self {
        Self(self.0.saturating_neg())
    }
}

impl From<std::time::Duration> for Duration {
    fn from(duration: std::time::Duration) -> Self {
        i64::try_from(duration.as_nanos()).map_or(Self::MAX, Self)
    }
}

/// Fails for a negative span.
impl TryFrom<Duration> for std::time::Duration {
    type Error = std::num::TryFromIntError;

    fn try_from(duration: Duration) -> Result<Self, Self::Error> {
        u64::try_from(duration.0).map(Self::from_nanos)
    }
}

impl FromStr for Duration {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let invalid = || Error::Invalid(text.to_owned());
        let negative = text.starts_with('-');
        let mut rest = text.strip_prefix(['+', '-']).unwrap_or(text);
        if rest == "0" {
            return Ok(Self::ZERO);
        }
        if rest.is_empty() {
            return Err(invalid());
        }
        let mut total: u64 = 0;
        while !rest.is_empty() {
            let (whole, after) = split(rest, |byte| !byte.is_ascii_digit());
            let mut has_digits = !whole.is_empty();
            rest = after;
            let mut fraction = "";
            if let Some(after) = rest.strip_prefix('.') {
                (fraction, rest) = split(after, |byte| !byte.is_ascii_digit());
                has_digits |= !fraction.is_empty();
            }
            let number = if whole.is_empty() { Some(0) } else { whole.parse().ok() };
            let number: u64 = number.filter(|&number| has_digits && number <= LIMIT).ok_or_else(invalid)?;
            let (unit, after) = split(rest, |byte| byte == b'.' || byte.is_ascii_digit());
            rest = after;
            if unit.is_empty() {
                return Err(Error::MissingUnit(text.to_owned()));
            }
            let Some(size) = unit_size(unit) else {
                return Err(Error::UnknownUnit { unit: unit.to_owned(), text: text.to_owned() });
            };
            let part = number
                .checked_mul(size)
                .and_then(|part| part.checked_add(fraction_of(fraction, size)))
                .filter(|&part| part <= LIMIT)
                .ok_or_else(invalid)?;
            total = total.checked_add(part).filter(|&total| total <= LIMIT).ok_or_else(invalid)?;
        }
        if negative {
            return Ok(Self(total.wrapping_neg() as i64));
        }
        i64::try_from(total).map(Self).map_err(|_| invalid())
    }
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let magnitude = self.0.unsigned_abs();
        if self.0 < 0 {
            f.write_str("-")?;
        }
        match magnitude {
            0 => f.write_str("0s"),
            1..MICROSECOND => write!(f, "{magnitude}ns"),
            MICROSECOND..MILLISECOND => write_fraction(f, magnitude, MICROSECOND, "µs"),
            MILLISECOND..SECOND => write_fraction(f, magnitude, MILLISECOND, "ms"),
            SECOND.. => {
                if magnitude >= HOUR {
                    write!(f, "{}h", magnitude / HOUR)?;
                }
                if magnitude >= MINUTE {
                    write!(f, "{}m", magnitude % HOUR / MINUTE)?;
                }
                write_fraction(f, magnitude % MINUTE, SECOND, "s")
            }
        }
    }
}

/// Writes a count of nanoseconds in units of a power of a thousand, without trailing zeros.
fn write_fraction(f: &mut fmt::Formatter<'_>, nanos: u64, unit: u64, name: &str) -> fmt::Result {
    write!(f, "{}", nanos / unit)?;
    let fraction = nanos % unit;
    if fraction != 0 {
        let width = unit.ilog10() as usize;
        let digits = format!("{fraction:0width$}");
        write!(f, ".{}", digits.trim_end_matches('0'))?;
    }
    f.write_str(name)
}

fn split(text: &str, stop: impl Fn(u8) -> bool) -> (&str, &str) {
    let end = text.bytes().position(stop).unwrap_or(text.len());
    text.split_at_checked(end).unwrap_or((text, ""))
}

fn unit_size(unit: &str) -> Option<u64> {
    Some(match unit {
        "ns" => 1,
        // The micro sign and the Greek letter mu look alike.
        "us" | "\u{b5}s" | "\u{3bc}s" => MICROSECOND,
        "ms" => MILLISECOND,
        "s" => SECOND,
        "m" => MINUTE,
        "h" => HOUR,
        _ => return None,
    })
}

/// Nanoseconds in a decimal fraction of a unit. Digits past what 63 bits hold are ignored, and the product is
/// taken in floating point, so that the last nanosecond agrees.
fn fraction_of(digits: &str, unit: u64) -> u64 {
    let mut number: u64 = 0;
    let mut scale: f64 = 1.0;
    for digit in digits.bytes() {
        if number > (LIMIT - 1) / 10 {
            break;
        }
        let longer = number * 10 + u64::from(digit - b'0');
        if longer > LIMIT {
            break;
        }
        number = longer;
        scale *= 10.0;
    }
    (number as f64 * (unit as f64 / scale)) as u64
}

/// Parses a length of time such as `1h30m`, `1.5s`, `250ms` or `0`; the error says what is expected.
pub fn not_negative(text: &str) -> Result<std::time::Duration, String> {
    let read: Duration = text.parse().map_err(|_| "not a duration such as 30s, 1m30s or 250ms")?;
    let nanoseconds = u64::try_from(read.as_nanos()).map_err(|_| "a duration cannot be negative here")?;
    Ok(std::time::Duration::from_nanos(nanoseconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_sums_of_numbers_with_units() {
        for (text, milliseconds) in [
            ("0", 0),
            ("0s", 0),
            ("30s", 30_000),
            ("1m30s", 90_000),
            ("1.5h", 5_400_000),
            ("250ms", 250),
            (".5s", 500),
        ] {
            assert_eq!(not_negative(text), Ok(std::time::Duration::from_millis(milliseconds)), "{text}");
        }
        for text in ["", "5", "s", "1x", "1..5s", "1e3s", "ten", "99999999999999999999h"] {
            assert_eq!(
                not_negative(text),
                Err("not a duration such as 30s, 1m30s or 250ms".into()),
                "{text}"
            );
        }
        assert_eq!(not_negative("-1s"), Err("a duration cannot be negative here".into()));
    }

    #[test]
    fn spans_convert_to_the_standard_library_and_back() {
        let span = Duration::from(std::time::Duration::from_millis(1500));
        assert_eq!(span.to_string(), "1.5s");
        assert_eq!(std::time::Duration::try_from(span).unwrap(), std::time::Duration::from_millis(1500));
        assert!(std::time::Duration::try_from(-span).is_err());
        assert_eq!(Duration::from(std::time::Duration::MAX), Duration::MAX);
    }

    #[test]
    fn the_longest_spans_neither_overflow_nor_panic() {
        assert_eq!(Duration::from_nanos(i64::MIN).to_string(), "-2562047h47m16.854775808s");
        assert_eq!(-Duration::from_nanos(i64::MIN), Duration::MAX);
        assert_eq!(Duration::from_secs(i64::MAX), Duration::MAX);
        assert_eq!(Duration::MAX.checked_add(Duration::from_nanos(1)), None);
        assert_eq!(Duration::from_nanos(i64::MIN).checked_sub(Duration::from_nanos(1)), None);
    }

    #[test]
    fn whole_seconds_are_cut_towards_zero() {
        let span: Duration = "-1.75s".parse().unwrap();
        assert_eq!(span.as_secs(), -1);
        assert_eq!(span.as_secs_f64(), -1.75);
        assert!(span.is_negative());
    }
}
