//! The value tree: one object, or a part of one, as data.
//!
//! Clones are cheap: lists, maps, long strings, bytes and raw text are shared, and are copied only when a
//! clone is changed ([`Value::as_map_mut`], [`Value::as_list_mut`]).

use crate::{Key, List, Map, Text};
use std::fmt;
use std::sync::Arc;

/// One node of the tree.
///
/// Numbers without a fraction that fit are [`Value::Int`]; all others are [`Value::Float`]. Times, quantities
/// and durations are strings in their canonical form.
#[derive(Clone, PartialEq, Default)]
pub enum Value {
    /// JSON's null.
    #[default]
    Null,
    /// A boolean.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A finite number that is not an [`Value::Int`].
    Float(f64),
    /// Text; up to 23 bytes are stored inline.
    String(Text),
    /// Binary data: base64 in JSON, bytes in Protobuf and CBOR.
    Bytes(Arc<[u8]>),
    /// JSON text kept as it was sent, for fields that carry any JSON unread.
    Raw(RawJson),
    /// Values in order.
    List(List),
    /// Values by key.
    Map(Map),
}

impl Value {
    /// The text of a string.
    #[inline]
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Value::String(text) => Some(text.as_str()),
            _ => None,
        }
    }

    /// The number, if it is whole.
    #[inline]
    pub fn as_i64(&self) -> Option<i64> {
        match self {
            Value::Int(number) => Some(*number),
            _ => None,
        }
    }

    /// The number, whole or not.
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Value::Int(number) => Some(*number as f64),
            Value::Float(number) => Some(*number),
            _ => None,
        }
    }

    /// The boolean.
    #[inline]
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Value::Bool(flag) => Some(*flag),
            _ => None,
        }
    }

    /// The bytes of binary data.
    pub fn as_bytes(&self) -> Option<&[u8]> {
        match self {
            Value::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// The elements of a list.
    #[inline]
    pub fn as_list(&self) -> Option<&[Value]> {
        match self {
            Value::List(list) => Some(list),
            _ => None,
        }
    }

    /// The list, to be changed; shared elements are copied first.
    #[inline]
    pub fn as_list_mut(&mut self) -> Option<&mut List> {
        match self {
            Value::List(list) => Some(list),
            _ => None,
        }
    }

    /// The entries of a map.
    #[inline]
    pub fn as_map(&self) -> Option<&Map> {
        match self {
            Value::Map(map) => Some(map),
            _ => None,
        }
    }

    /// The map, to be changed; shared entries are copied first.
    #[inline]
    pub fn as_map_mut(&mut self) -> Option<&mut Map> {
        match self {
            Value::Map(map) => Some(map),
            _ => None,
        }
    }

    /// The value at `key`, if this is a map that has it.
    #[inline]
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.as_map()?.get(key)
    }

    /// Whether this is null.
    pub fn is_null(&self) -> bool {
        matches!(self, Value::Null)
    }

    /// What JSON calls this kind of value, as error messages show it.
    pub fn kind(&self) -> &'static str {
        match self {
            Value::Null => "null",
            Value::Bool(_) => "bool",
            Value::Int(_) | Value::Float(_) => "number",
            Value::String(_) | Value::Bytes(_) => "string",
            Value::List(_) => "array",
            Value::Map(_) => "object",
            Value::Raw(raw) => raw.kind(),
        }
    }
}

/// JSON text that is known to be one valid value without white space between tokens.
///
/// Equality is that of the text: `1.0` and `1` differ.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct RawJson(Arc<str>);

impl RawJson {
    /// Takes text that the caller has checked to be one compact JSON value: decoders do.
    pub fn from_checked(text: impl Into<Arc<str>>) -> Self {
        Self(text.into())
    }

    /// The text.
    #[inline]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn kind(&self) -> &'static str {
        match self.0.as_bytes().first() {
            Some(b'{') => "object",
            Some(b'[') => "array",
            Some(b'"') => "string",
            Some(b't' | b'f') => "bool",
            Some(b'n') => "null",
            _ => "number",
        }
    }
}

impl fmt::Debug for RawJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Null => f.write_str("null"),
            Value::Bool(flag) => flag.fmt(f),
            Value::Int(number) => number.fmt(f),
            Value::Float(number) => number.fmt(f),
            Value::String(text) => fmt::Debug::fmt(text.as_str(), f),
            Value::Bytes(bytes) => write!(f, "b{:?}", String::from_utf8_lossy(bytes)),
            Value::Raw(raw) => raw.fmt(f),
            Value::List(list) => f.debug_list().entries(list.iter()).finish(),
            Value::Map(map) => f.debug_map().entries(map.iter()).finish(),
        }
    }
}

macro_rules! value_from {
    ($($from:ty, $name:ident => $make:expr;)*) => {
        $(impl From<$from> for Value {
            #[inline]
            fn from($name: $from) -> Self {
                $make
            }
        })*
    };
}

value_from! {
    bool, flag => Value::Bool(flag);
    i64, number => Value::Int(number);
    i32, number => Value::Int(number.into());
    u32, number => Value::Int(number.into());
    f64, number => Value::Float(number);
    &str, text => Value::String(text.into());
    String, text => Value::String(text.into());
    Text, text => Value::String(text);
    Key, key => Value::String(key.into());
    RawJson, raw => Value::Raw(raw);
    List, list => Value::List(list);
    Vec<Value>, list => Value::List(list.into());
    Map, map => Value::Map(map);
}

impl<V: Into<Value>> FromIterator<V> for Value {
    fn from_iter<I: IntoIterator<Item = V>>(values: I) -> Self {
        values.into_iter().map(Into::into).collect::<List>().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_takes_three_words_and_a_key_two() {
        assert_eq!(size_of::<Value>(), 24);
        assert_eq!(size_of::<Key>(), 16);
    }

    #[test]
    fn a_changed_clone_leaves_the_original_alone() {
        let original: Value = Map::from_iter([("list", Value::from_iter([1i64, 2]))]).into();
        let mut clone = original.clone();
        let list = clone.as_map_mut().and_then(|m| m.get_mut("list")).and_then(Value::as_list_mut);
        list.expect("a list").push(Value::Int(3));
        assert_eq!(original.get("list"), Some(&Value::from_iter([1i64, 2])));
        assert_eq!(clone.get("list"), Some(&Value::from_iter([1i64, 2, 3])));
    }
}
