//! The meaning of plain scalars: YAML 1.1 as the reference reads it, with Go's number parsing.

use super::fault;
use super::timestamp::is_timestamp;
use crate::decode::Fault;
use object::Text;
use std::hash::{Hash, Hasher};

/// The prefix of the standard tags.
const COMMON: &str = "tag:yaml.org,2002:";

/// A scalar that has been read.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Scalar {
    Null,
    Bool(bool),
    Int(i64),
    /// An integer above the range of [`Scalar::Int`].
    Uint(u64),
    Float(f64),
    Text(Text),
}

/// Only for keys of maps: NaN equals nothing, so it is never a duplicate.
impl Eq for Scalar {}

impl Hash for Scalar {
    fn hash<H: Hasher>(&self, state: &mut H) {
        std::mem::discriminant(self).hash(state);
        match self {
            Scalar::Null => {}
            Scalar::Bool(flag) => flag.hash(state),
            Scalar::Int(number) => number.hash(state),
            Scalar::Uint(number) => number.hash(state),
            // 0.0 and -0.0 are equal.
            Scalar::Float(number) => (number + 0.0).to_bits().hash(state),
            Scalar::Text(text) => text.hash(state),
        }
    }
}

/// Resolves a scalar by its tag, or by its text if it has none.
pub(super) fn resolve(text: &Text, tag: &str) -> Result<Scalar, Fault> {
    let Some(known) = tag.strip_prefix(COMMON) else {
        return Ok(if tag.is_empty() { plain(text) } else { Scalar::Text(text.clone()) });
    };
    let scalar = match known {
        "binary" => return binary(text),
        "bool" | "int" | "float" | "null" | "timestamp" => plain(text),
        _ => return Ok(Scalar::Text(text.clone())),
    };
    let found = match &scalar {
        Scalar::Null => "null",
        Scalar::Bool(_) => "bool",
        Scalar::Int(_) | Scalar::Uint(_) => "int",
        Scalar::Float(_) => "float",
        Scalar::Text(_) if known == "timestamp" && is_timestamp(text) => "timestamp",
        Scalar::Text(_) => "str",
    };
    match scalar {
        scalar if found == known => Ok(scalar),
        Scalar::Int(number) if known == "float" => Ok(Scalar::Float(number as f64)),
        _ => Err(fault(format!("cannot decode !!{found} `{text}` as a !!{known}"))),
    }
}

/// Whether text needs quotes because it would resolve to another type.
pub(super) fn is_ambiguous(text: &str) -> bool {
    !matches!(plain(&Text::from(text)), Scalar::Text(_)) || is_timestamp(text) || is_base_60(text)
}

/// `1:30:00`: a number in YAML 1.1. The reference reads it as text, and writes it with quotes.
fn is_base_60(text: &str) -> bool {
    let text = text.strip_prefix(['+', '-']).unwrap_or(text);
    let mut parts = text.split(':');
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_');
    let first = parts.next().unwrap_or_default();
    if !first.starts_with(|first: char| first.is_ascii_digit()) || !digits(first) {
        return false;
    }
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return false;
    }
    while let Some(part) = parts.next() {
        let whole = match part.split_once('.') {
            Some((whole, fraction)) if parts.peek().is_none() && digits(fraction) => whole,
            _ => part,
        };
        if !matches!(whole.as_bytes(), [b'0'..=b'9'] | [b'0'..=b'5', b'0'..=b'9']) {
            return false;
        }
    }
    true
}

fn binary(text: &str) -> Result<Scalar, Fault> {
    let bytes =
        crate::scalar::base64(text).map_err(|_| fault("!!binary value contains invalid base64 data"))?;
    Ok(Scalar::Text(crate::json::utf8(&bytes).into()))
}

/// Resolves a scalar without a tag. A timestamp is text.
fn plain(text: &Text) -> Scalar {
    let own = || Scalar::Text(text.clone());
    match text.as_bytes().first() {
        None => Scalar::Null,
        Some(b'y' | b'Y' | b'n' | b'N' | b't' | b'T' | b'f' | b'F' | b'o' | b'O' | b'~') => {
            word(text).unwrap_or_else(own)
        }
        Some(b'.') => word(text).or_else(|| point_number(text)).unwrap_or_else(own),
        Some(b'+' | b'-' | b'0'..=b'9') => word(text).or_else(|| number(text)).unwrap_or_else(own),
        _ => own(),
    }
}

fn word(text: &str) -> Option<Scalar> {
    Some(match text {
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            Scalar::Bool(true)
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            Scalar::Bool(false)
        }
        "~" | "null" | "Null" | "NULL" => Scalar::Null,
        ".nan" | ".NaN" | ".NAN" => Scalar::Float(f64::NAN),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => Scalar::Float(f64::INFINITY),
        "-.inf" | "-.Inf" | "-.INF" => Scalar::Float(f64::NEG_INFINITY),
        _ => return None,
    })
}

/// A number that begins with a sign or a digit; underscores are ignored.
pub(super) fn number(text: &str) -> Option<Scalar> {
    let text = text.replace('_', "");
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(&text);
    let negative = text.starts_with('-');
    if let Some(size) = magnitude(unsigned) {
        match (negative, i64::try_from(size)) {
            (false, Ok(number)) => return Some(Scalar::Int(number)),
            (true, Ok(number)) => return Some(Scalar::Int(-number)),
            (true, Err(_)) if size == i64::MIN.unsigned_abs() => return Some(Scalar::Int(i64::MIN)),
            // Unsigned parsing does not accept a sign.
            (false, Err(_)) if unsigned.len() == text.len() => return Some(Scalar::Uint(size)),
            _ => {}
        }
    }
    if is_decimal(unsigned)
        && let Some(number) = text.parse().ok().filter(|number: &f64| number.is_finite())
    {
        return Some(Scalar::Float(number));
    }
    // A sign may follow the prefix of a binary number.
    let digits = text.strip_prefix("0b")?;
    i64::from_str_radix(digits, 2).ok().map(Scalar::Int)
}

/// An unsigned integer in the base of its prefix.
fn magnitude(text: &str) -> Option<u64> {
    let (digits, base) = match text.as_bytes() {
        [b'0', b'x' | b'X', ..] => (text.get(2..)?, 16),
        [b'0', b'b' | b'B', ..] => (text.get(2..)?, 2),
        [b'0', b'o' | b'O', ..] => (text.get(2..)?, 8),
        [b'0', _, ..] => (text.get(1..)?, 8),
        _ => (text, 10),
    };
    if !digits.bytes().all(|digit| digit.is_ascii_alphanumeric()) {
        return None;
    }
    u64::from_str_radix(digits, base).ok()
}

/// Whether text without a sign is a decimal number, perhaps with a fraction and an exponent.
fn is_decimal(text: &str) -> bool {
    let some_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let (mantissa, exponent) = match text.find(['e', 'E']) {
        Some(at) => (text.get(..at).unwrap_or_default(), text.get(at + 1..)),
        None => (text, None),
    };
    let (whole, fraction) = match mantissa.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (mantissa, None),
    };
    let mantissa = match (whole, fraction) {
        ("", Some(fraction)) => some_digits(fraction),
        (whole, Some("") | None) => some_digits(whole),
        (whole, Some(fraction)) => some_digits(whole) && some_digits(fraction),
    };
    mantissa
        && exponent.is_none_or(|exponent| some_digits(exponent.strip_prefix(['+', '-']).unwrap_or(exponent)))
}

/// A number that begins with a point; underscores between digits are ignored.
fn point_number(text: &str) -> Option<Scalar> {
    let bytes = text.as_bytes();
    let digit = |at: Option<usize>| at.and_then(|at| bytes.get(at)).is_some_and(u8::is_ascii_digit);
    let misplaced = |at: usize| !digit(at.checked_sub(1)) || !digit(Some(at + 1));
    if text.match_indices('_').any(|(at, _)| misplaced(at)) {
        return None;
    }
    let text = text.replace('_', "");
    if !is_decimal(&text) {
        return None;
    }
    text.parse().ok().filter(|number: &f64| number.is_finite()).map(Scalar::Float)
}
