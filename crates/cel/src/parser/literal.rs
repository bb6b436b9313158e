//! The values of literals.

use super::token::Kind;
use crate::Value;
use crate::value::{Bytes, Str};
use std::borrow::Cow;
use std::sync::Arc;

/// The value of a token that is a literal, or cel-go's text of what is wrong with it. A sign is of the
/// literal itself.
pub(super) fn value(kind: Kind, text: &str, negative: bool) -> Result<Value<'static>, &'static str> {
    match kind {
        Kind::True => Ok(Value::Bool(true)),
        Kind::False => Ok(Value::Bool(false)),
        Kind::Int => int(text, negative).map(Value::Int).ok_or("invalid int literal"),
        Kind::Uint => {
            let digits = text.get(..text.len().saturating_sub(1)).unwrap_or_default();
            magnitude(digits).map(Value::Uint).ok_or("invalid uint literal")
        }
        Kind::Double => match text.parse::<f64>() {
            Ok(value) if value.is_finite() => Ok(Value::Double(if negative { -value } else { value })),
            _ => Err("invalid double literal"),
        },
        Kind::String => string(text).map(|text| Value::String(Str::Shared(Arc::from(&*text)))),
        Kind::Bytes => bytes(text.get(1..).unwrap_or_default())
            .map(|bytes| Value::Bytes(Bytes::Shared(Arc::from(&*bytes)))),
        _ => Ok(Value::Null),
    }
}

fn int(text: &str, negative: bool) -> Option<i64> {
    let magnitude = magnitude(text)?;
    if negative { 0i64.checked_sub_unsigned(magnitude) } else { i64::try_from(magnitude).ok() }
}

fn magnitude(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

/// The content of a string literal.
fn string(literal: &str) -> Result<Cow<'_, str>, &'static str> {
    let (content, raw) = content(literal);
    if raw || !content.contains('\\') {
        return Ok(content);
    }
    let mut text = String::with_capacity(content.len());
    let mut rest = &*content;
    while let Some((plain, escape)) = rest.split_once('\\') {
        text.push_str(plain);
        let (value, after) = unescape(escape)?;
        let value = match value {
            Escape::Char(char) => Some(char),
            Escape::Code(code) | Escape::Byte(code) => char::from_u32(code),
        };
        text.push(value.ok_or("invalid unicode code point")?);
        rest = after;
    }
    text.push_str(rest);
    Ok(Cow::Owned(text))
}

/// The content of a bytes literal, without its prefix.
fn bytes(literal: &str) -> Result<Cow<'_, [u8]>, &'static str> {
    let (content, raw) = content(literal);
    if raw || !content.contains('\\') {
        return Ok(match content {
            Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
            Cow::Owned(text) => Cow::Owned(text.into_bytes()),
        });
    }
    let mut bytes = Vec::with_capacity(content.len());
    let mut rest = &*content;
    while let Some((plain, escape)) = rest.split_once('\\') {
        bytes.extend_from_slice(plain.as_bytes());
        let (value, after) = unescape(escape)?;
        match value {
            Escape::Char(char) => bytes.push(char as u8),
            Escape::Byte(byte) => bytes.push(byte as u8),
            Escape::Code(_) => return Err(MALFORMED),
        }
        rest = after;
    }
    bytes.extend_from_slice(rest.as_bytes());
    Ok(Cow::Owned(bytes))
}

/// What is between the quotes, with `\n` for every end of a line, and whether it is raw.
fn content(literal: &str) -> (Cow<'_, str>, bool) {
    let unprefixed = literal.trim_start_matches(['r', 'R']);
    let raw = unprefixed.len() < literal.len();
    let long = unprefixed.len() >= 6 && (unprefixed.starts_with("\"\"\"") || unprefixed.starts_with("'''"));
    let quotes = if long { 3 } else { 1 };
    let content = unprefixed.get(quotes..unprefixed.len().saturating_sub(quotes)).unwrap_or_default();
    if content.contains('\r') {
        return (Cow::Owned(content.replace("\r\n", "\n").replace('\r', "\n")), raw);
    }
    (Cow::Borrowed(content), raw)
}

const MALFORMED: &str = "unable to unescape string";

/// What an escape sequence stands for.
enum Escape {
    /// A character by its own sequence: `\n`.
    Char(char),
    /// A code point: `\u00e9`.
    Code(u32),
    /// A byte of bytes, a code point of a string: `\xe9`, `\351`.
    Byte(u32),
}

/// The escape sequence after a backslash, and what follows it.
fn unescape(text: &str) -> Result<(Escape, &str), &'static str> {
    let mut chars = text.chars();
    let number = |from: usize, length: usize, radix: u32| {
        let digits = text.get(from..from + length).ok_or(MALFORMED)?;
        let number = u32::from_str_radix(digits, radix).map_err(|_| MALFORMED)?;
        Ok((number, text.get(from + length..).unwrap_or_default()))
    };
    let char = match chars.next().ok_or(MALFORMED)? {
        'a' => '\x07',
        'b' => '\x08',
        'f' => '\x0c',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'v' => '\x0b',
        same @ ('\\' | '\'' | '"' | '`' | '?') => same,
        'x' | 'X' => return number(1, 2, 16).map(|(code, rest)| (Escape::Byte(code), rest)),
        'u' => return number(1, 4, 16).map(|(code, rest)| (Escape::Code(code), rest)),
        'U' => return number(1, 8, 16).map(|(code, rest)| (Escape::Code(code), rest)),
        '0'..='3' => return number(0, 3, 8).map(|(code, rest)| (Escape::Byte(code), rest)),
        _ => return Err(MALFORMED),
    };
    Ok((Escape::Char(char), chars.as_str()))
}
