//! `format`: texts with clauses, as cel-go puts values in their places.
//!
//! | clause | of | shows |
//! |---|---|---|
//! | `%s` | most values | the value as `string` does; lists and maps as expressions write them |
//! | `%d` | `int`, `uint` | decimal digits |
//! | `%f` | `double` | a fixed number of digits after the point, thousands parted by commas |
//! | `%e` | `double` | six digits after the point and a power of ten; a precision is a width, as in the reference |
//! | `%b`, `%o`, `%x`, `%X` | whole numbers; `%b` booleans, `%x` texts and bytes | digits of the base |

use super::super::support::{self, MOST_BYTES, list, quoted, str, string, utf8};
use crate::value::{List, Map, Meter, Value};
use crate::{Failure, Halt, Outcome};
use object::float;
use std::fmt::Write;

/// The digits after the point where a clause does not say how many.
const PRECISION: i64 = 6;
/// A precision is not read past the first of its digits at which it is larger than this.
const MOST_PRECISION: i64 = 1_000_000;

/// What a clause asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clause {
    /// `%s`
    Text,
    /// `%d`
    Decimal,
    /// `%f`, and the digits after the point.
    Fixed(i64),
    /// `%e`, and its width.
    Scientific(i64),
    /// `%b`
    Binary,
    /// `%x`, or `%X` for capital letters.
    Hexadecimal {
        /// Whether it is `%X`.
        upper: bool,
    },
    /// `%o`
    Octal,
}

/// Why a clause cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ClauseFault {
    /// The text ends with a percent sign.
    End,
    /// Something else, in cel-go's words.
    Syntax(String),
}

impl std::fmt::Display for ClauseFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::End => f.write_str("unexpected end of string"),
            Self::Syntax(why) => write!(f, "could not parse formatting clause: {why}"),
        }
    }
}

/// A part of a text with clauses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Piece<'t> {
    /// What is shown as it is.
    Plain(&'t str),
    /// A clause. After a fault, the rest of the text is not read.
    Clause(Result<Clause, ClauseFault>),
}

/// The parts of a text with clauses.
pub(crate) struct Clauses<'t> {
    rest: &'t str,
}

/// Reads a text with clauses.
pub(crate) fn clauses(text: &str) -> Clauses<'_> {
    Clauses { rest: text }
}

impl<'t> Iterator for Clauses<'t> {
    type Item = Piece<'t>;

    fn next(&mut self) -> Option<Piece<'t>> {
        if self.rest.is_empty() {
            return None;
        }
        let Some(clause) = self.rest.strip_prefix('%') else {
            let end = self.rest.find('%').unwrap_or(self.rest.len());
            let (plain, rest) = self.rest.split_at_checked(end)?;
            self.rest = rest;
            return Some(Piece::Plain(plain));
        };
        if let Some(rest) = clause.strip_prefix('%') {
            self.rest = rest;
            return Some(Piece::Plain("%"));
        }
        let read = if clause.is_empty() { Err(ClauseFault::End) } else { read(clause) };
        Some(Piece::Clause(match read {
            Ok((clause, rest)) => {
                self.rest = rest;
                Ok(clause)
            }
            Err(fault) => {
                self.rest = "";
                Err(fault)
            }
        }))
    }
}

/// Reads a clause after its percent sign.
fn read(text: &str) -> Result<(Clause, &str), ClauseFault> {
    let of_precision = |why: String| ClauseFault::Syntax(format!("error while parsing precision: {why}"));
    let (precision, rest) = match text.strip_prefix('.') {
        None => (None, text),
        Some(digits) => {
            let rest = digits.trim_start_matches(|character: char| character.is_ascii_digit());
            if rest.is_empty() {
                return Err(of_precision("could not find end of precision specifier".to_owned()));
            }
            let digits = digits.get(..digits.len() - rest.len()).unwrap_or_default();
            let precision = digits.parse::<i64>().map_err(|_| {
                let why = if digits.is_empty() { "invalid syntax" } else { "value out of range" };
                of_precision(format!(
                    "error while converting precision to integer: strconv.Atoi: parsing {}: {why}",
                    quoted(digits)
                ))
            })?;
            (Some(precision), rest)
        }
    };
    let precision = precision.unwrap_or(PRECISION);
    let clause = match rest.bytes().next() {
        Some(b's') => Clause::Text,
        Some(b'd') => Clause::Decimal,
        Some(b'f') => Clause::Fixed(precision),
        Some(b'e') => Clause::Scientific(precision),
        Some(b'b') => Clause::Binary,
        Some(b'x') => Clause::Hexadecimal { upper: false },
        Some(b'X') => Clause::Hexadecimal { upper: true },
        Some(b'o') => Clause::Octal,
        other => {
            // The first byte of a character is taken for a character.
            let byte = char::from(other.unwrap_or_default());
            return Err(ClauseFault::Syntax(format!("unrecognized formatting clause \"{byte}\"")));
        }
    };
    Ok((clause, rest.get(1..).unwrap_or_default()))
}

/// The function `format`.
pub(super) fn format<'a>(args: &[Value<'a>], meter: &mut Meter<'_>) -> Outcome<'a> {
    let (text, values) = (str(args, 0)?, list(args, 1)?);
    let mut out = String::new();
    let mut place = 0;
    for piece in clauses(text) {
        match piece {
            Piece::Plain(plain) => out.push_str(plain),
            Piece::Clause(clause) => {
                let Some(value) = values.get(place) else {
                    return Err(Failure::error(format!("index {place} out of range")));
                };
                let clause = clause.map_err(|fault| Failure::error(fault.to_string()))?;
                show(&mut out, clause, &value?, meter).map_err(Fault::into_failure)?;
                place += 1;
            }
        }
        if out.len() > MOST_BYTES {
            return Err(Failure::Halt(Halt::CostLimit));
        }
    }
    Ok(string(out))
}

/// Why a value cannot be shown.
enum Fault {
    Why(String),
    Failure(Failure),
}

impl Fault {
    fn into_failure(self) -> Failure {
        match self {
            Self::Why(why) => Failure::error(format!("error during formatting: {why}")),
            Self::Failure(failure) => failure,
        }
    }
}

impl From<Failure> for Fault {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
}

/// The fault of a value whose type a clause does not take.
fn unfit(clause: &str, value: &Value<'_>) -> Fault {
    Fault::Why(format!("{clause}, was given {}", value.type_of().name()))
}

impl Clause {
    /// What a clause says of values that it does not take.
    pub(crate) fn takes(self) -> &'static str {
        match self {
            Self::Text => {
                "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, \
                 durations, and timestamps"
            }
            Self::Decimal => "decimal clause can only be used on integers",
            Self::Fixed(_) => "fixed-point clause can only be used on doubles",
            Self::Scientific(_) => "scientific clause can only be used on doubles",
            Self::Binary => "only integers and bools can be formatted as binary",
            Self::Hexadecimal { .. } => "only integers, byte buffers, and strings can be formatted as hex",
            Self::Octal => "octal clause can only be used on integers",
        }
    }
}

fn show(out: &mut String, clause: Clause, value: &Value<'_>, meter: &mut Meter<'_>) -> Result<(), Fault> {
    // Writing into a String cannot fail.
    let _ = match (clause, value) {
        (Clause::Text, value) => return plain(out, value, meter),
        (Clause::Decimal, Value::Int(number)) => write!(out, "{number}"),
        (Clause::Decimal, Value::Uint(number)) => write!(out, "{number}"),
        (Clause::Binary, Value::Int(number)) => write!(out, "{}{:b}", sign(*number), number.unsigned_abs()),
        (Clause::Binary, Value::Uint(number)) => write!(out, "{number:b}"),
        (Clause::Binary, Value::Bool(value)) => write!(out, "{}", u8::from(*value)),
        (Clause::Octal, Value::Int(number)) => write!(out, "{}{:o}", sign(*number), number.unsigned_abs()),
        (Clause::Octal, Value::Uint(number)) => write!(out, "{number:o}"),
        (Clause::Hexadecimal { upper }, Value::Int(number)) => {
            out.push_str(sign(*number));
            hexadecimal(out, number.unsigned_abs(), upper)
        }
        (Clause::Hexadecimal { upper }, Value::Uint(number)) => hexadecimal(out, *number, upper),
        (Clause::Hexadecimal { upper }, Value::String(text)) => bytes(out, text.as_str().as_bytes(), upper),
        (Clause::Hexadecimal { upper }, Value::Bytes(value)) => bytes(out, value.as_slice(), upper),
        (Clause::Fixed(precision), value) => {
            let Some(number) = number(value) else { return Err(unfit(clause.takes(), value)) };
            fixed(out, number, precision)
        }
        (Clause::Scientific(width), value) => {
            let Some(number) = number(value) else { return Err(unfit(clause.takes(), value)) };
            scientific(out, number, width)
        }
        (clause, value) => return Err(unfit(clause.takes(), value)),
    };
    Ok(())
}

fn sign(number: i64) -> &'static str {
    if number < 0 { "-" } else { "" }
}

fn hexadecimal(out: &mut String, number: u64, upper: bool) -> std::fmt::Result {
    if upper { write!(out, "{number:X}") } else { write!(out, "{number:x}") }
}

fn bytes(out: &mut String, bytes: &[u8], upper: bool) -> std::fmt::Result {
    for byte in bytes {
        if upper { write!(out, "{byte:02X}")? } else { write!(out, "{byte:02x}")? }
    }
    Ok(())
}

/// The number of a clause for doubles, which takes three texts too.
fn number(value: &Value<'_>) -> Option<f64> {
    match value {
        Value::Double(number) => Some(*number),
        Value::String(text) => match text.as_str() {
            "NaN" => Some(f64::NAN),
            "Infinity" => Some(f64::INFINITY),
            "-Infinity" => Some(f64::NEG_INFINITY),
            _ => None,
        },
        _ => None,
    }
}

/// What is shown of a number that is none.
fn special(number: f64) -> Option<&'static str> {
    match number {
        f64::INFINITY => Some("∞"),
        f64::NEG_INFINITY => Some("-∞"),
        number if number.is_nan() => Some("NaN"),
        _ => None,
    }
}

/// Whether the reference reads all digits of a precision.
fn is_read(precision: i64) -> bool {
    precision / 10 <= MOST_PRECISION
}

/// The reference keeps 8 bits of the least number of digits after the point, and 16 of the most: beyond them
/// a precision asks for fewer digits, or for as many as the number has.
fn fixed(out: &mut String, number: f64, precision: i64) -> std::fmt::Result {
    if !is_read(precision) {
        return out.write_str("%!(NOVERB)");
    }
    if let Some(text) = special(number) {
        return out.write_str(text);
    }
    let least = usize::from(precision as u8);
    let digits = match usize::try_from(precision as i16) {
        Ok(most) => format!("{:.most$}", number.abs()),
        Err(_) => float::decimal(number.abs()),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((&digits, ""));
    let fraction = fraction.trim_end_matches('0');
    if number < 0.0 {
        out.push('-');
    }
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    if least > 0 || !fraction.is_empty() {
        write!(out, ".{fraction:0<least$}")?;
    }
    Ok(())
}

/// Six digits after the point, whatever the precision, which is taken for a width of 16 bits.
fn scientific(out: &mut String, number: f64, width: i64) -> std::fmt::Result {
    const DIGITS: [char; 10] = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
    if !is_read(width) {
        return out.write_str("%!(NOVERB)");
    }
    let width = usize::from(width as u16);
    if let Some(text) = special(number) {
        return write!(out, "{text:>width$}");
    }
    let digits = format!("{:.6e}", number.abs());
    let (mantissa, exponent) = digits.split_once('e').unwrap_or((&digits, "0"));
    let mut text = format!("{}{mantissa}×10", if number < 0.0 { "-" } else { "" });
    let magnitude = exponent.strip_prefix('-');
    if magnitude.is_some() {
        text.push('⁻');
    }
    let magnitude = format!("{:0>2}", magnitude.unwrap_or(exponent));
    text.extend(magnitude.chars().filter_map(|digit| DIGITS.get(digit.to_digit(10)? as usize)));
    write!(out, "{text:>width$}")
}

/// A value as `%s` shows it.
fn plain(out: &mut String, value: &Value<'_>, meter: &mut Meter<'_>) -> Result<(), Fault> {
    match value {
        Value::List(items) => list_of(out, items, meter),
        Value::Map(map) => map_of(out, map, meter),
        value => plain_leaf(out, value),
    }
}

fn plain_leaf(out: &mut String, value: &Value<'_>) -> Result<(), Fault> {
    // Writing into a String cannot fail.
    let _ = match value {
        Value::Null => write!(out, "null"),
        Value::Bool(value) => write!(out, "{value}"),
        Value::Int(number) => write!(out, "{number}"),
        Value::Uint(number) => write!(out, "{number}"),
        value @ Value::Double(_) => write!(out, "{value}"),
        Value::String(text) => write!(out, "{}", text.as_str()),
        Value::Bytes(bytes) => write!(out, "{}", text_of(bytes)?),
        Value::Duration(nanos) => write!(out, "{}", support::duration(*nanos)),
        Value::Timestamp(time) => write!(out, "{time}"),
        Value::Type(ty) => write!(out, "{}", ty.name()),
        value => return Err(unfit(Clause::Text.takes(), value)),
    };
    Ok(())
}

fn text_of<'v>(bytes: &'v crate::value::Bytes<'_>) -> Result<&'v str, Fault> {
    utf8(bytes).ok_or_else(|| {
        let why = "invalid UTF-8 in bytes, cannot convert to string";
        Fault::Why(format!("could not convert argument {} to string", quoted(why)))
    })
}

/// A value within a list or a map, as an expression writes it.
fn nested(out: &mut String, value: &Value<'_>, meter: &mut Meter<'_>) -> Result<(), Fault> {
    match value {
        Value::List(_) | Value::Map(_) => meter.enter(|meter| plain(out, value, meter)),
        value => nested_leaf(out, value, meter),
    }
}

fn nested_leaf(out: &mut String, value: &Value<'_>, meter: &mut Meter<'_>) -> Result<(), Fault> {
    let before = out.len();
    // Writing into a String cannot fail.
    let _ = match value {
        Value::String(text) => write!(out, "{}", quoted(text.as_str())),
        Value::Bytes(bytes) => write!(out, "b{}", quoted(text_of(bytes)?)),
        Value::Double(number) if number.is_finite() => write!(out, "{number:.6}"),
        value @ Value::Double(_) => write!(out, "{}", quoted(&value.to_string())),
        Value::Duration(nanos) => write!(out, "duration({})", quoted(&support::duration(*nanos))),
        Value::Timestamp(time) => write!(out, "timestamp({})", quoted(&time.to_string())),
        Value::Null | Value::Bool(_) | Value::Int(_) | Value::Uint(_) | Value::Type(_) => {
            return plain_leaf(out, value);
        }
        value => return Err(Fault::Why(format!("no formatting function for {}", value.type_of().name()))),
    };
    if out.len() > MOST_BYTES {
        return Err(Failure::Halt(Halt::CostLimit).into());
    }
    Ok(meter.spend(out.len() - before)?)
}

fn list_of(out: &mut String, items: &List<'_>, meter: &mut Meter<'_>) -> Result<(), Fault> {
    out.push('[');
    for (at, item) in items.iter().enumerate() {
        if at > 0 {
            out.push_str(", ");
        }
        nested(out, &item?, meter)?;
    }
    out.push(']');
    Ok(())
}

/// The entries of a map in the order of their keys as they are shown.
fn map_of(out: &mut String, map: &Map<'_>, meter: &mut Meter<'_>) -> Result<(), Fault> {
    let mut entries = Vec::new();
    for (key, value) in map.iter() {
        let mut shown = String::new();
        match &key {
            Value::String(_) | Value::Bool(_) | Value::Int(_) | Value::Uint(_) => {
                nested(&mut shown, &key, meter)?;
            }
            key => {
                let why = format!("no formatting function for map key of type {}", key.type_of().name());
                return Err(Fault::Why(why));
            }
        }
        let mut of_value = String::new();
        nested(&mut of_value, &value?, meter)?;
        // It is copied once for each map around it.
        meter.spend(of_value.len())?;
        entries.push((shown, of_value));
    }
    entries.sort_by(|(one, _), (other, _)| one.cmp(other));
    out.push('{');
    for (at, (key, value)) in entries.iter().enumerate() {
        out.push_str(if at > 0 { ", " } else { "" });
        // Writing into a String cannot fail.
        let _ = write!(out, "{key}:{value}");
    }
    out.push('}');
    Ok(())
}
