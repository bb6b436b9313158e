//! Points in time as documents carry them: [`Time`] to the second, [`MicroTime`] to the microsecond.
//!
//! Both are read as Go's `time.Parse` reads the layouts that the reference uses, with its error texts; both
//! are written in UTC. A [`Time`] may be given with a fraction, which is dropped; a [`MicroTime`] has exactly
//! six digits of one. Years 0 to 9999 can be read; an offset can push the result just past either end, and it
//! is written as such.
//!
//! The first second of year 1 is how Go spells "no time"; an encoder leaves such a time out or writes
//! null ([`Time::is_zero`]).

mod calendar;
mod parse;
#[cfg(test)]
mod tests;

pub use parse::Error;
pub(crate) use parse::quote_as_time;

use crate::Text;
use crate::duration::Duration;
use calendar::Civil;
use parse::{Instant, Layout};
use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::time::SystemTime;

const NANOS_PER_SECOND: i64 = 1_000_000_000;
const NANOS_PER_MICRO: i64 = 1_000;
/// 0001-01-01T00:00:00Z
const ZERO_SECONDS: i64 = -62_135_596_800;

/// A point in time, to the second.
///
/// ```
/// use object::time::Time;
/// let time: Time = "2024-01-02T05:04:05.9+02:00".parse().unwrap();
/// assert_eq!(time.to_string(), "2024-01-02T03:04:05Z");
/// assert_eq!(time.unix(), 1_704_164_645);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time {
    seconds: i64,
}

impl Time {
    /// The point that means "no time".
    pub const ZERO: Self = Self { seconds: ZERO_SECONDS };

    /// The present.
    pub fn now() -> Self {
        MicroTime::now().into()
    }

    /// A point by seconds since 1970.
    pub const fn from_unix(seconds: i64) -> Self {
        Self { seconds }
    }

    /// The text, without going through the heap for the years of four digits.
    pub fn text(self) -> Text {
        let mut text = Text::EMPTY;
        self.write(&mut text);
        text
    }

    /// Puts the text where it will stay.
    pub fn write(self, text: &mut Text) {
        match Civil::from_unix(self.seconds).digits() {
            Some(digits) => {
                let mut letters = [b'Z'; 20];
                letters.iter_mut().zip(digits).for_each(|(slot, digit)| *slot = digit);
                text.set_lossy(&letters);
            }
            None => *text = self.to_string().into(),
        }
    }

    /// Seconds since 1970.
    pub const fn unix(self) -> i64 {
        self.seconds
    }

    /// Reports whether this is the point that means "no time".
    pub fn is_zero(self) -> bool {
        self == Self::ZERO
    }

    /// A later point, or an earlier one for a negative span; a fraction left over is dropped.
    pub fn checked_add(self, span: Duration) -> Option<Self> {
        self.seconds.checked_add(span.as_nanos().div_euclid(NANOS_PER_SECOND)).map(Self::from_unix)
    }

    /// The span from another point to this one; one too long is cut to the longest there is.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_secs(self.seconds.saturating_sub(earlier.seconds))
    }
}

impl FromStr for Time {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let instant = match parse::everyday(text.as_bytes()) {
            Some(instant) => instant,
            None => parse::parse(Layout::Seconds, text)?,
        };
        Ok(Self::from_unix(instant.seconds))
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}Z", Civil::from_unix(self.seconds))
    }
}

/// A point in time, to the microsecond.
///
/// ```
/// use object::time::MicroTime;
/// let time: MicroTime = "2024-01-02T03:04:05.000006Z".parse().unwrap();
/// assert_eq!(time.to_string(), "2024-01-02T03:04:05.000006Z");
/// assert_eq!(time.subsec_nanos(), 6_000);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MicroTime {
    seconds: i64,
    /// Less than a million.
    micros: u32,
}

impl MicroTime {
    /// The point that means "no time".
    pub const ZERO: Self = Self { seconds: ZERO_SECONDS, micros: 0 };

    /// The present.
    pub fn now() -> Self {
        clock::now().into()
    }

    /// A point by seconds since 1970 and nanoseconds on top, which may be negative or more than a second;
    /// what is less than a microsecond is dropped.
    pub fn from_unix(seconds: i64, nanos: i32) -> Self {
        let micros = i64::from(nanos) / NANOS_PER_MICRO;
        Self {
            seconds: seconds.saturating_add(micros.div_euclid(1_000_000)),
            micros: micros.rem_euclid(1_000_000) as u32,
        }
    }

    /// Whole seconds since 1970, rounded down.
    pub const fn unix(self) -> i64 {
        self.seconds
    }

    /// Nanoseconds on top of [`Self::unix`]; a multiple of a thousand.
    pub const fn subsec_nanos(self) -> u32 {
        self.micros * NANOS_PER_MICRO as u32
    }

    /// Reports whether this is the point that means "no time".
    pub fn is_zero(self) -> bool {
        self == Self::ZERO
    }

    /// A later point, or an earlier one for a negative span; what is less than a microsecond is dropped.
    pub fn checked_add(self, span: Duration) -> Option<Self> {
        let micros = i64::from(self.micros) + span.as_nanos().div_euclid(NANOS_PER_MICRO);
        Some(Self {
            seconds: self.seconds.checked_add(micros.div_euclid(1_000_000))?,
            micros: micros.rem_euclid(1_000_000) as u32,
        })
    }

    /// The span from another point to this one; one too long is cut to the longest there is.
    pub fn since(self, earlier: Self) -> Duration {
        let seconds = i128::from(self.seconds) - i128::from(earlier.seconds);
        let micros = seconds * 1_000_000 + i128::from(self.micros) - i128::from(earlier.micros);
        let nanos = micros * i128::from(NANOS_PER_MICRO);
        Duration::from_nanos(nanos.clamp(i64::MIN.into(), i64::MAX.into()) as i64)
    }
}

impl FromStr for MicroTime {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let Instant { seconds, nanos } = parse::parse(Layout::Micros, text)?;
        Ok(Self { seconds, micros: nanos / NANOS_PER_MICRO as u32 })
    }
}

impl fmt::Display for MicroTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:06}Z", Civil::from_unix(self.seconds), self.micros)
    }
}

/// Any time that a clock may show, also one before 1970.
impl From<SystemTime> for MicroTime {
    fn from(time: SystemTime) -> Self {
        match time.duration_since(SystemTime::UNIX_EPOCH) {
            Ok(since) => Self {
                seconds: i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
                micros: since.subsec_micros(),
            },
            Err(error) => {
                let before = Duration::from(error.duration());
                Self::from_unix(0, 0).checked_add(-before).unwrap_or(Self::ZERO)
            }
        }
    }
}

impl From<Time> for MicroTime {
    fn from(time: Time) -> Self {
        Self { seconds: time.seconds, micros: 0 }
    }
}

/// Drops the fraction.
impl From<MicroTime> for Time {
    fn from(time: MicroTime) -> Self {
        Self { seconds: time.seconds }
    }
}

/// The text that a [`Time`] given as `text` is written as; the everyday form is handed back as it is.
///
/// ```
/// use object::time::canonicalize;
/// assert_eq!(canonicalize("2024-01-02T03:04:05Z").unwrap(), "2024-01-02T03:04:05Z");
/// assert_eq!(canonicalize("2024-01-02T03:04:05.5+01:00").unwrap(), "2024-01-02T02:04:05Z");
/// ```
pub fn canonicalize(text: &str) -> Result<Cow<'_, str>, Error> {
    if parse::everyday(text.as_bytes()).is_some() {
        return Ok(Cow::Borrowed(text));
    }
    Ok(Cow::Owned(text.parse::<Time>()?.to_string()))
}

/// The text that a [`MicroTime`] given as `text` is written as.
pub fn canonicalize_micro(text: &str) -> Result<Cow<'_, str>, Error> {
    let canonical = text.parse::<MicroTime>()?.to_string();
    Ok(if canonical == text { Cow::Borrowed(text) } else { Cow::Owned(canonical) })
}
