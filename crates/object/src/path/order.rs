//! The order of elements and of the values in them.

use super::ElementRef;
use crate::{Map, Text, Value};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::borrow::Cow;
use std::cmp::Ordering;

/// How two values compare.
type Compare = fn(&Value, &Value) -> Ordering;

/// Orders elements that may be of different sorts.
pub(super) fn elements(a: ElementRef<'_>, b: ElementRef<'_>, compare: Compare) -> Ordering {
    let sort = |element| match element {
        ElementRef::Field(_) => 0,
        ElementRef::Keyed(_) => 1,
        ElementRef::Value(_) => 2,
        ElementRef::Index(_) => 3,
    };
    match (a, b) {
        (ElementRef::Field(a), ElementRef::Field(b)) => a.cmp(b),
        (ElementRef::Keyed(a), ElementRef::Keyed(b)) => {
            let pairs = a.iter().zip(b).map(|(a, b)| a.0.cmp(&b.0).then_with(|| compare(&a.1, &b.1)));
            first_unequal(pairs).then(a.len().cmp(&b.len()))
        }
        (ElementRef::Value(a), ElementRef::Value(b)) => compare(a, b),
        (ElementRef::Index(a), ElementRef::Index(b)) => a.cmp(&b),
        _ => sort(a).cmp(&sort(b)),
    }
}

/// The order of the reference, in which a whole number and a fraction are compared as floats.
pub(super) fn values(a: &Value, b: &Value) -> Ordering {
    compare(a, b, values)
}

/// An order that is total for all values: where [`values`] calls a whole number and a fraction equal, the
/// whole number comes first. Only a sort needs it.
pub(crate) fn strict(a: ElementRef<'_>, b: ElementRef<'_>) -> Ordering {
    fn strict_values(a: &Value, b: &Value) -> Ordering {
        match (a, b) {
            (Value::Int(_) | Value::Float(_), Value::Int(_) | Value::Float(_)) => floats(a, b)
                .then_with(|| values(a, b))
                .then_with(|| matches!(a, Value::Float(_)).cmp(&matches!(b, Value::Float(_)))),
            _ => compare(a, b, strict_values),
        }
    }
    elements(a, b, strict_values)
}

fn compare(a: &Value, b: &Value, parts: Compare) -> Ordering {
    match (a, b) {
        (Value::String(a), Value::String(b)) => a.cmp(b),
        (Value::Int(a), Value::Int(b)) => a.cmp(b),
        (Value::Int(_) | Value::Float(_), Value::Int(_) | Value::Float(_)) => floats(a, b),
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::List(a), Value::List(b)) => {
            let pairs = a.iter().zip(b.iter()).map(|(a, b)| parts(a, b));
            first_unequal(pairs).then(a.len().cmp(&b.len()))
        }
        (Value::Map(a), Value::Map(b)) => maps(a, b, parts),
        (Value::Raw(a), Value::Raw(b)) => a.as_str().cmp(b.as_str()),
        _ => match (string(a), string(b)) {
            (Some(a), Some(b)) => a.cmp(&b),
            _ => sort(a).cmp(&sort(b)),
        },
    }
}

fn floats(a: &Value, b: &Value) -> Ordering {
    a.as_f64().partial_cmp(&b.as_f64()).unwrap_or(Ordering::Equal)
}

/// Entries are compared in the order of their keys; of two keys, the smaller one comes first.
fn maps(a: &Map, b: &Map, parts: Compare) -> Ordering {
    fn sorted(map: &Map) -> Vec<(&str, &Value)> {
        let mut entries: Vec<_> = map.iter().map(|(key, value)| (key.as_str(), value)).collect();
        entries.sort_unstable_by_key(|(key, _)| *key);
        entries
    }
    let (a, b) = (sorted(a), sorted(b));
    let pairs = a.iter().zip(&b).map(|(a, b)| a.0.cmp(b.0).then_with(|| parts(a.1, b.1)));
    first_unequal(pairs).then(a.len().cmp(&b.len()))
}

fn first_unequal(mut pairs: impl Iterator<Item = Ordering>) -> Ordering {
    pairs.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}

/// The text of a string, and the text that binary data has in JSON.
fn string(value: &Value) -> Option<Cow<'_, str>> {
    match value {
        Value::String(text) => Some(Cow::Borrowed(Text::as_str(text))),
        Value::Bytes(bytes) => Some(Cow::Owned(STANDARD.encode(bytes))),
        _ => None,
    }
}

fn sort(value: &Value) -> u8 {
    match value {
        Value::Int(_) | Value::Float(_) => 0,
        Value::String(_) | Value::Bytes(_) => 1,
        Value::Bool(_) => 2,
        Value::List(_) => 3,
        Value::Map(_) => 4,
        Value::Null => 5,
        Value::Raw(_) => 6,
    }
}
