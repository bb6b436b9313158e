//! A value that is a number or a text: a port by number or by name, an amount in items or in percent.

use crate::Text;
use crate::quote::{IntegerError, Quoted, parse_i64};
use std::fmt;

/// A number or a text.
///
/// ```
/// use object::int_or_string::{IntOrString, Round};
/// let most: IntOrString = "25%".into();
/// assert_eq!(most.scaled_value(10, Round::Up), Ok(3));
/// assert_eq!(most.scaled_value(10, Round::Down), Ok(2));
/// assert_eq!(IntOrString::Int(8080).to_string(), "8080");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum IntOrString {
    /// A number.
    Int(i32),
    /// A text.
    String(Text),
}

/// Which way a percentage of a whole is rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Round {
    /// To the next larger number of items.
    Up,
    /// To the next smaller number of items.
    Down,
}

/// Why a value is no amount.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A text without a percent sign.
    #[error("invalid value for IntOrString: invalid type: string is not a percentage")]
    NotAPercentage,
    /// A text before a percent sign that is not a number.
    #[error(
        "invalid value for IntOrString: invalid value {}: strconv.Atoi: parsing {}: {reason}",
        Quoted(text),
        Quoted(text.strip_suffix('%').unwrap_or(text))
    )]
    NotANumber {
        /// The whole text.
        text: Text,
        /// What is wrong with the number.
        reason: &'static str,
    },
}

impl IntOrString {
    /// Takes a text that is a 32-bit number for one, and any other for itself.
    ///
    /// ```
    /// use object::int_or_string::IntOrString;
    /// assert_eq!(IntOrString::parse("80"), IntOrString::Int(80));
    /// assert_eq!(IntOrString::parse("http"), IntOrString::String("http".into()));
    /// ```
    pub fn parse(text: &str) -> Self {
        match parse_i64(text).ok().and_then(|number| i32::try_from(number).ok()) {
            Some(number) => Self::Int(number),
            None => Self::String(text.into()),
        }
    }

    /// The number; of a text the number that it spells. One too large is cut to 64 bits, and any other text
    /// is zero.
    pub fn int_value(&self) -> i64 {
        match self {
            Self::Int(number) => i64::from(*number),
            Self::String(text) => match parse_i64(text) {
                Ok(number) => number,
                Err(IntegerError::Range) if text.starts_with('-') => i64::MIN,
                Err(IntegerError::Range) => i64::MAX,
                Err(IntegerError::Syntax) => 0,
            },
        }
    }

    /// The number of items: a number is itself, a percentage is taken of the total. A share past 64 bits is
    /// cut to them.
    pub fn scaled_value(&self, total: i64, round: Round) -> Result<i64, Error> {
        let text = match self {
            Self::Int(number) => return Ok(i64::from(*number)),
            Self::String(text) => text,
        };
        let number = text.strip_suffix('%').ok_or(Error::NotAPercentage)?;
        let percent = parse_i64(number).map_err(|error| {
            let reason = match error {
                IntegerError::Syntax => "invalid syntax",
                IntegerError::Range => "value out of range",
            };
            Error::NotANumber { text: text.clone(), reason }
        })?;
        let share = percent as f64 * total as f64 / 100.0;
        Ok(match round {
            Round::Up => share.ceil() as i64,
            Round::Down => share.floor() as i64,
        })
    }
}

impl fmt::Display for IntOrString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(number) => write!(f, "{number}"),
            Self::String(text) => f.write_str(text),
        }
    }
}

impl From<i32> for IntOrString {
    fn from(number: i32) -> Self {
        Self::Int(number)
    }
}

impl From<&str> for IntOrString {
    fn from(text: &str) -> Self {
        Self::String(text.into())
    }
}
