//! From text to quantity, and the short way from text to canonical text.

use super::decimal::Decimal;
use super::{Amount, Error, Format, Quantity, Scale};
use crate::Text;
use std::borrow::Cow;

/// Digits that always fit 64 bits.
const SAFE_DIGITS: i64 = 18;

pub(super) fn parse(text: &str) -> Result<Quantity, Error> {
    if text.is_empty() {
        return Err(Error::Format);
    }
    if text == "0" {
        return Ok(Quantity { text: Text::known("0"), ..Quantity::default() });
    }
    let parts = Parts::split(text)?;
    let unit = Unit::read(parts.suffix).ok_or(Error::Suffix)?;
    if let Some(quantity) = parse_small(text, &parts, unit) {
        return Ok(quantity);
    }
    parse_large(&parts, unit)
}

/// The canonical text of a quantity as it is written in a document: space around it is dropped.
///
/// ```
/// use object::quantity::canonicalize;
/// assert_eq!(canonicalize("128Mi").unwrap(), "128Mi");
/// assert_eq!(canonicalize("1000m").unwrap(), "1");
/// assert_eq!(canonicalize("1.5Gi").unwrap(), "1536Mi");
/// assert_eq!(canonicalize("1e3").unwrap(), "1e3");
/// ```
pub fn canonicalize(text: &str) -> Result<Cow<'_, str>, Error> {
    if everyday_form(text.as_bytes()).is_some() {
        return Ok(Cow::Borrowed(text));
    }
    let trimmed = text.trim();
    Ok(canonical_text(parse(trimmed)?, trimmed))
}

/// Like [`canonicalize`], rounded up to whole thousandths: the form that the amounts of a resource list take.
///
/// ```
/// use object::quantity::canonicalize_milli;
/// assert_eq!(canonicalize_milli("250m").unwrap(), "250m");
/// assert_eq!(canonicalize_milli("100u").unwrap(), "1m");
/// ```
pub fn canonicalize_milli(text: &str) -> Result<Cow<'_, str>, Error> {
    if everyday_form(text.as_bytes()).is_some_and(|scale| scale >= Scale::Milli) {
        return Ok(Cow::Borrowed(text));
    }
    let trimmed = text.trim();
    let mut quantity = parse(trimmed)?;
    quantity.round_up(Scale::Milli);
    Ok(canonical_text(quantity, trimmed))
}

fn canonical_text(quantity: Quantity, original: &str) -> Cow<'_, str> {
    if quantity.text.as_str() == original {
        return Cow::Borrowed(original);
    }
    let canonical = quantity.to_string();
    if canonical == original { Cow::Borrowed(original) } else { Cow::Owned(canonical) }
}

/// Recognises text that is certainly its own canonical form: digits without a leading zero that no larger
/// suffix could absorb, then a plain suffix. Gives the power of ten of the suffix.
fn everyday_form(text: &[u8]) -> Option<Scale> {
    let end = text.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    let (digits, suffix) = text.split_at_checked(end)?;
    if digits.len() > SAFE_DIGITS as usize {
        return None;
    }
    match digits.first() {
        None => return None,
        Some(b'0') => return (text == b"0").then_some(Scale::One),
        Some(_) => {}
    }
    let value = digits.iter().fold(0_u64, |value, digit| value * 10 + u64::from(digit - b'0'));
    let decimal = |scale| (value % 1000 != 0).then_some(scale);
    let binary = |most: usize| (digits.len() <= most && value % 1024 != 0).then_some(Scale::One);
    match suffix {
        b"" => decimal(Scale::One),
        b"m" => decimal(Scale::Milli),
        b"Ki" => binary(11),
        b"Mi" => binary(8),
        b"Gi" => binary(5),
        b"Ti" => binary(2),
        b"k" => decimal(Scale::Kilo),
        b"M" => decimal(Scale::Mega),
        b"G" => decimal(Scale::Giga),
        b"T" => decimal(Scale::Tera),
        b"P" => decimal(Scale::Peta),
        b"E" => decimal(Scale::Exa),
        b"u" => decimal(Scale::Micro),
        b"n" => decimal(Scale::Nano),
        _ => None,
    }
}

/// The pieces of a quantity's text.
struct Parts<'a> {
    negative: bool,
    /// Whether any digit was written before the suffix.
    has_digits: bool,
    /// Digits before the point without leading zeros, `0` if that leaves none.
    whole: &'a str,
    /// Digits after the point, as written.
    fraction: &'a str,
    suffix: &'a str,
}

impl<'a> Parts<'a> {
    fn split(text: &'a str) -> Result<Self, Error> {
        let negative = text.starts_with('-');
        let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
        let without_zeros = unsigned.trim_start_matches('0');
        if without_zeros.is_empty() {
            // A bare sign counts as zero too.
            return Ok(Self { negative, has_digits: true, whole: "0", fraction: "", suffix: "" });
        }
        let mut has_digits = without_zeros.len() < unsigned.len();
        let (whole, rest) = split_digits(without_zeros);
        let (fraction, suffix) = match rest.strip_prefix('.') {
            Some(rest) => split_digits(rest),
            None => ("", rest),
        };
        has_digits |= !whole.is_empty() || !fraction.is_empty();
        let letters = suffix.trim_start_matches(|c: char| "eEinumkKMGTP".contains(c));
        let exponent = letters.strip_prefix(['+', '-']).unwrap_or(letters);
        if !exponent.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(Error::Format);
        }
        let whole = if whole.is_empty() { "0" } else { whole };
        Ok(Self { negative, has_digits, whole, fraction, suffix })
    }

    fn digits(&self) -> impl Iterator<Item = u8> + '_ {
        self.whole.bytes().chain(self.fraction.bytes())
    }
}

fn split_digits(text: &str) -> (&str, &str) {
    let end = text.bytes().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    text.split_at_checked(end).unwrap_or((text, ""))
}

/// What a suffix multiplies by.
#[derive(Clone, Copy)]
enum Unit {
    PowerOfTen { exponent: i32, format: Format },
    PowerOfTwo { exponent: u32 },
}

impl Unit {
    fn read(suffix: &str) -> Option<Self> {
        let si = |exponent| Some(Self::PowerOfTen { exponent, format: Format::DecimalSi });
        let binary = |exponent| Some(Self::PowerOfTwo { exponent });
        match suffix {
            "n" => si(-9),
            "u" => si(-6),
            "m" => si(-3),
            "" => si(0),
            "k" => si(3),
            "M" => si(6),
            "G" => si(9),
            "T" => si(12),
            "P" => si(15),
            "E" => si(18),
            "Ki" => binary(10),
            "Mi" => binary(20),
            "Gi" => binary(30),
            "Ti" => binary(40),
            "Pi" => binary(50),
            "Ei" => binary(60),
            _ => {
                let exponent = crate::quote::parse_i64(suffix.strip_prefix(['e', 'E'])?).ok()?;
                // Exponents past 32 bits wrap around, and quietly so.
                Some(Self::PowerOfTen { exponent: exponent as i32, format: Format::DecimalExponent })
            }
        }
    }
}

/// Reads what surely fits 64 bits; `None` leaves the text to [`parse_large`].
fn parse_small(text: &str, parts: &Parts<'_>, unit: Unit) -> Option<Quantity> {
    let whole = parts.whole.len() as i64;
    let fraction = parts.fraction.len() as i64;
    let (spare, exponent) = match unit {
        Unit::PowerOfTen { exponent, .. } => (SAFE_DIGITS - whole - fraction, exponent),
        Unit::PowerOfTwo { exponent } if fraction == 0 => (14 - whole - i64::from(exponent) * 3 / 10, 0),
        Unit::PowerOfTwo { .. } => return None,
    };
    if spare < 0 {
        return None;
    }
    let scale = exponent.wrapping_sub(fraction as i32);
    if scale < Scale::Nano as i32 {
        return None;
    }
    let number = parts.digits().fold(0_i64, |number, digit| number * 10 + i64::from(digit - b'0'));
    let (magnitude, format, as_written) = match unit {
        Unit::PowerOfTen { format, .. } => {
            (number, format, scale % 3 == 0 && number % 1000 != 0 && !parts.whole.starts_with('0'))
        }
        Unit::PowerOfTwo { exponent } => {
            (number.checked_mul(1_i64.checked_shl(exponent)?)?, Format::BinarySi, number % 8 != 0)
        }
    };
    let value = if parts.negative { -magnitude } else { magnitude };
    let text = if as_written { Text::from(text) } else { Text::default() };
    Some(Quantity { amount: Amount::Small { value, scale }, format, text })
}

fn parse_large(parts: &Parts<'_>, unit: Unit) -> Result<Quantity, Error> {
    if !parts.has_digits {
        return Err(Error::Numeric);
    }
    let fraction = parts.fraction.len() as i64;
    let mut format = Format::BinarySi;
    let mut decimal = match unit {
        Unit::PowerOfTen { exponent, format: written } => {
            format = written;
            Decimal::from_digits(parts.digits(), i64::from(exponent) - fraction)
        }
        Unit::PowerOfTwo { exponent } => {
            let mut decimal = Decimal::from_digits(parts.digits(), -fraction);
            decimal.multiply_unsigned(1_u64.checked_shl(exponent).unwrap_or(0));
            decimal
        }
    };
    if !decimal.is_zero() {
        decimal.round_up(Scale::Nano as i32);
    }
    if format == Format::BinarySi {
        let most = Decimal::from_scaled(i64::MAX, 0);
        if decimal > most {
            decimal = most;
        } else if !decimal.is_zero() && decimal < Decimal::from_scaled(1, 0) {
            format = Format::DecimalSi;
        }
    }
    if parts.negative {
        decimal.negate();
    }
    Ok(Quantity { amount: Amount::Large(Box::new(decimal)), format, text: Text::default() })
}
