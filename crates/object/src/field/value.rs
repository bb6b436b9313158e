//! How a value that is wrong reads in a message.

use crate::duration::Duration;
use crate::excerpt::shorten;
use crate::float;
use crate::int_or_string::IntOrString;
use crate::quote::Quoted;
use crate::time::{MicroTime, Time};
use std::fmt;

/// A value that is wrong.
///
/// ```
/// use object::field::BadValue;
/// assert_eq!(BadValue::from("a b").to_string(), r#""a b""#);
/// assert_eq!(BadValue::from(1e6).to_string(), "1e+06");
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum BadValue {
    /// Not known.
    Omitted,
    /// No value, which reads as the word in quotes.
    Null,
    /// A truth value.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A number.
    Float(f64),
    /// Text, which is shown quoted.
    String(String),
    /// Any other value, as its final text.
    Raw(String),
}

impl BadValue {
    /// The same without the end of a long text.
    pub(super) fn shortened(self) -> Self {
        match self {
            Self::String(text) => Self::String(shorten(text)),
            Self::Raw(text) => Self::Raw(shorten(text)),
            short => short,
        }
    }

    pub(super) fn text_len(&self) -> usize {
        match self {
            Self::String(text) | Self::Raw(text) => text.len(),
            _ => 0,
        }
    }
}

impl fmt::Display for BadValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Omitted => Ok(()),
            Self::Null => f.write_str("\"null\""),
            Self::Bool(value) => write!(f, "{value}"),
            Self::Int(value) => write!(f, "{value}"),
            Self::Float(value) => write_float(f, *value),
            Self::String(value) => write!(f, "{}", Quoted(value)),
            Self::Raw(value) => f.write_str(value),
        }
    }
}

impl From<bool> for BadValue {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<i64> for BadValue {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<i32> for BadValue {
    fn from(value: i32) -> Self {
        Self::Int(value.into())
    }
}

impl From<usize> for BadValue {
    fn from(value: usize) -> Self {
        i64::try_from(value).map_or_else(|_| Self::Raw(value.to_string()), Self::Int)
    }
}

impl From<f64> for BadValue {
    fn from(value: f64) -> Self {
        Self::Float(value)
    }
}

impl From<&str> for BadValue {
    fn from(value: &str) -> Self {
        Self::String(value.to_owned())
    }
}

impl From<String> for BadValue {
    fn from(value: String) -> Self {
        Self::String(value)
    }
}

/// As the reference shows its own type.
impl From<&IntOrString> for BadValue {
    fn from(value: &IntOrString) -> Self {
        Self::Raw(match value {
            IntOrString::Int(number) => {
                format!(r#"intstr.IntOrString{{Type:0, IntVal:{number}, StrVal:""}}"#)
            }
            IntOrString::String(text) => {
                format!("intstr.IntOrString{{Type:1, IntVal:0, StrVal:{}}}", Quoted(text))
            }
        })
    }
}

/// As the reference shows its own type.
impl From<Duration> for BadValue {
    fn from(value: Duration) -> Self {
        Self::Raw(format!("v1.Duration{{Duration:{}}}", value.as_nanos()))
    }
}

impl From<Time> for BadValue {
    fn from(value: Time) -> Self {
        Self::from(MicroTime::from(value))
    }
}

impl From<MicroTime> for BadValue {
    fn from(value: MicroTime) -> Self {
        let text = value.to_string().replace('T', " ");
        let digits = text.trim_end_matches('Z').trim_end_matches('0').trim_end_matches('.');
        Self::Raw(format!("{digits} +0000 UTC"))
    }
}

/// Writes the shortest digits that give the number back, with an exponent from a million up and from 0.00001
/// down.
fn write_float(f: &mut fmt::Formatter<'_>, value: f64) -> fmt::Result {
    if !value.is_finite() {
        return f.write_str(if value.is_nan() {
            "NaN"
        } else if value > 0.0 {
            "+Inf"
        } else {
            "-Inf"
        });
    }
    let float::Scientific { mantissa, exponent } = float::scientific(value);
    if (-4..6).contains(&exponent) {
        return f.write_str(&float::decimal(value));
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    write!(f, "{mantissa}e{sign}{:02}", exponent.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_the_api_read_as_the_reference_shows_them() {
        let time = |text: &str| BadValue::from(text.parse::<Time>().unwrap()).to_string();
        assert_eq!(time("2024-01-02T03:04:00+01:00"), "2024-01-02 02:04:00 +0000 UTC");
        assert_eq!(time("9999-12-31T23:59:59-01:00"), "10000-01-01 00:59:59 +0000 UTC");
        let micro = BadValue::from(MicroTime::from_unix(5, 120_000_000));
        assert_eq!(micro.to_string(), "1970-01-01 00:00:05.12 +0000 UTC");
        let span = BadValue::from(Duration::from_secs(90));
        assert_eq!(span.to_string(), "v1.Duration{Duration:90000000000}");
        assert_eq!(
            BadValue::from(&IntOrString::Int(-1)).to_string(),
            r#"intstr.IntOrString{Type:0, IntVal:-1, StrVal:""}"#
        );
        assert_eq!(
            BadValue::from(&IntOrString::from("a\"b")).to_string(),
            r#"intstr.IntOrString{Type:1, IntVal:0, StrVal:"a\"b"}"#
        );
    }

    #[test]
    fn numbers_past_64_bits_are_shown() {
        assert_eq!(BadValue::from(usize::MAX).to_string(), usize::MAX.to_string());
    }
}
