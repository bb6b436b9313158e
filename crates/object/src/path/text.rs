//! The two texts of an element: the one in field sets, and the one in messages.

use super::scan::{self, Scanner, Source};
use super::{Element, Keys};
use crate::field::BadValue;
use crate::quote::{IntegerError, Quoted, parse_i64};
use crate::{Key, RawJson, Value, float};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::fmt;
use std::fmt::{Display, Write};
use std::str::FromStr;

/// Why a text is not an element.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// There is no room for a letter and a colon.
    #[error("key must be 2 characters long:")]
    Short,
    /// The second byte is no colon.
    #[error("missing colon: {0}")]
    NoColon(String),
    /// The letter is of no type of element; a set of paths leaves those out.
    #[error("unknown path element type")]
    UnknownType,
    /// What should be a place in a list is no number.
    #[error("strconv.Atoi: parsing {}: {reason}", Quoted(text))]
    Index {
        /// What is there instead.
        text: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// What should be keys or a value is no JSON.
    #[error(transparent)]
    Json(#[from] scan::Error),
}

impl Element {
    /// The text in field sets, such as `f:name`.
    pub fn text(&self) -> String {
        let mut out = String::new();
        self.push_text(&mut out);
        out
    }

    /// Appends the text in field sets.
    pub fn push_text(&self, out: &mut String) {
        match self {
            Self::Field(name) => {
                out.push_str("f:");
                out.push_str(name);
            }
            Self::Keyed(keys) => {
                out.push_str("k:{");
                for (index, (name, value)) in keys.iter().enumerate() {
                    if index > 0 {
                        out.push(',');
                    }
                    push_string(name, Markup::Plain, out);
                    out.push(':');
                    push_value(value, out);
                }
                out.push('}');
            }
            Self::Value(value) => {
                out.push_str("v:");
                push_value(value, out);
            }
            Self::Index(index) => {
                // Writing into a String cannot fail.
                let _ = write!(out, "i:{index}");
            }
        }
    }
}

/// Reads the text in field sets. What follows complete JSON is left alone, as in the reference.
impl FromStr for Element {
    type Err = Error;

    #[inline]
    fn from_str(text: &str) -> Result<Self, Error> {
        let (kind, rest) = match text.as_bytes() {
            [kind, b':', ..] => (kind, text.get(2..).unwrap_or_default()),
            [_, _, ..] => return Err(Error::NoColon(text.into())),
            _ => return Err(Error::Short),
        };
        match kind {
            b'f' => Ok(Self::Field(rest.into())),
            b'k' => read_keys(rest).map(Self::Keyed),
            b'v' => Ok(Self::Value(Scanner::new(rest, Source::Memory).value()?)),
            b'i' => match parse_i64(rest) {
                Ok(index) => Ok(Self::Index(index)),
                Err(error) => Err(Error::Index {
                    text: rest.into(),
                    reason: match error {
                        IntegerError::Syntax => "invalid syntax",
                        IntegerError::Range => "value out of range",
                    },
                }),
            },
            _ => Err(Error::UnknownType),
        }
    }
}

fn read_keys(text: &str) -> Result<Keys, Error> {
    let mut fields: Vec<(Key, Value)> = Vec::with_capacity(2);
    Scanner::new(text, Source::Memory).object(|scanner, name| {
        let name = Key::from(name);
        scanner.value().map(|value| fields.push((name, value)))
    })?;
    Ok(fields.into_iter().collect())
}

/// Writes an element as messages show it.
pub(super) fn display(element: &Element, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match element {
        Element::Field(name) => write!(f, ".{name}"),
        Element::Keyed(keys) => {
            f.write_char('[')?;
            for (index, (name, value)) in keys.iter().enumerate() {
                let separator = if index > 0 { "," } else { "" };
                write!(f, "{separator}{name}=")?;
                display_value(value, f)?;
            }
            f.write_char(']')
        }
        Element::Value(value) => {
            f.write_str("[=")?;
            display_value(value, f)?;
            f.write_char(']')
        }
        Element::Index(index) => write!(f, "[{index}]"),
    }
}

/// The entries of a map have nothing between them, as in the reference.
fn display_value(value: &Value, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match value {
        Value::Null => f.write_str("null"),
        Value::Bool(flag) => flag.fmt(f),
        Value::Int(number) => number.fmt(f),
        Value::Float(number) => BadValue::Float(*number).fmt(f),
        Value::String(text) => Quoted(text).fmt(f),
        Value::Bytes(bytes) => Quoted(&STANDARD.encode(bytes)).fmt(f),
        Value::Raw(raw) => f.write_str(raw.as_str()),
        Value::List(items) => {
            f.write_char('[')?;
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    f.write_char(',')?;
                }
                display_value(item, f)?;
            }
            f.write_char(']')
        }
        Value::Map(map) => map.iter().try_for_each(|(key, value)| {
            write!(f, "{key}=")?;
            display_value(value, f)
        }),
    }
}

/// Appends a value as JSON.
fn push_value(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(flag) => out.push_str(if *flag { "true" } else { "false" }),
        Value::Int(number) => {
            let _ = write!(out, "{number}");
        }
        Value::Float(number) => push_float(*number, out),
        Value::String(text) => push_string(text, Markup::Escaped, out),
        Value::Bytes(bytes) => push_string(&STANDARD.encode(bytes), Markup::Escaped, out),
        Value::Raw(raw) => out.push_str(RawJson::as_str(raw)),
        Value::List(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                push_value(item, out);
            }
            out.push(']');
        }
        Value::Map(map) => {
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_unstable_by_key(|(key, _)| *key);
            out.push('{');
            for (index, (key, value)) in entries.into_iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                push_string(key, Markup::Escaped, out);
                out.push(':');
                push_value(value, out);
            }
            out.push('}');
        }
    }
}

fn push_float(number: f64, out: &mut String) {
    let size = number.abs();
    if size == 0.0 || (1e-6..1e21).contains(&size) {
        out.push_str(&float::decimal(number));
        return;
    }
    let float::Scientific { mantissa, exponent } = float::scientific(number);
    let sign = if exponent < 0 { '-' } else { '+' };
    let _ = write!(out, "{mantissa}e{sign}{:02}", exponent.unsigned_abs());
}

/// Whether the characters of HTML and the line separators of JavaScript are not escaped in a string.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Markup {
    Plain,
    Escaped,
}

/// Appends a JSON string.
pub(crate) fn push_string(text: &str, markup: Markup, out: &mut String) {
    out.push('"');
    push_escaped(text, markup, out);
    out.push('"');
}

/// Appends the content of a JSON string.
pub(crate) fn push_escaped(text: &str, markup: Markup, out: &mut String) {
    let mut rest = text;
    loop {
        let (plain, after) = rest.split_at_checked(scan::plain_length(rest.as_bytes())).unwrap_or((rest, ""));
        match markup {
            Markup::Plain => out.push_str(plain),
            Markup::Escaped => push_markup_escaped(plain, out),
        }
        let Some(special) = after.bytes().next() else { return };
        rest = after.get(1..).unwrap_or_default();
        match special {
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            _ => {
                let _ = write!(out, "\\u{special:04x}");
            }
        }
    }
}

fn push_markup_escaped(text: &str, out: &mut String) {
    let in_markup = |character: char| matches!(character, '<' | '>' | '&' | '\u{2028}' | '\u{2029}');
    for piece in text.split_inclusive(in_markup) {
        let end = piece.chars().next_back().filter(|character| in_markup(*character));
        out.push_str(piece.get(..piece.len() - end.map_or(0, char::len_utf8)).unwrap_or_default());
        if let Some(character) = end {
            let _ = write!(out, "\\u{:04x}", u32::from(character));
        }
    }
}
