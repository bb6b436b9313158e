//! Maps and objects: values by key, and keys in order.

use super::{Map, Str, Value};
use crate::{Failure, Outcome};
use object::shape::{Form, Shape};
use std::sync::Arc;

use super::Entries;

impl<'a> Map<'a> {
    /// A map of such entries.
    pub fn of(entries: Entries<'a>) -> Self {
        Self::Entries(Arc::new(entries))
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        match self {
            Self::Tree(map, _) => map.len(),
            Self::Entries(entries) => entries.len(),
        }
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value at a key; `None` if there is none. A key of a wrong type is an error for a map of a schema.
    pub fn get(&self, key: &Value<'a>) -> Option<Outcome<'a>> {
        match (self, key) {
            (Self::Entries(entries), key) => entries.get(key).cloned().map(Ok),
            (Self::Tree(map, None), Value::String(key)) => map.get(key.as_str()).map(Value::plain).map(Ok),
            (Self::Tree(_, None), _) => None,
            (Self::Tree(map, Some(shape)), Value::String(key)) => {
                let is_object = shape.form() == Form::Object;
                let raw =
                    if is_object { crate::escape::unescape(key.as_str())? } else { key.as_str().into() };
                of_shape(map.get(&raw)?, &raw, *shape, is_object)
            }
            (Self::Tree(_, Some(_)), _) => Some(Err(Failure::error("no such overload"))),
        }
    }

    /// The keys in order. Those that expressions cannot write are as they are; properties that a schema does
    /// not know come last, as null.
    pub fn keys(&self) -> Vec<Value<'a>> {
        match self {
            Self::Entries(entries) => entries.as_slice().iter().map(|(key, _)| key.clone()).collect(),
            Self::Tree(map, None) => map.keys().map(|key| Value::from(key.as_str())).collect(),
            Self::Tree(map, Some(shape)) => {
                let is_object = shape.form() == Form::Object;
                let known = map.keys().filter(|key| shape.field(key).is_some());
                let mut keys: Vec<_> = known.map(|key| key_of(key, is_object)).collect();
                keys.resize(map.len(), Value::Null);
                keys
            }
        }
    }

    /// The entries in order, without properties that a schema does not know.
    pub fn iter(&self) -> impl Iterator<Item = (Value<'a>, Outcome<'a>)> + '_ {
        (0..self.len()).filter_map(|place| match self {
            Self::Entries(entries) => {
                entries.as_slice().get(place).map(|(key, value)| (key.clone(), Ok(value.clone())))
            }
            Self::Tree(map, None) => map
                .entries()
                .get(place)
                .map(|(key, tree)| (Value::from(key.as_str()), Ok(Value::plain(tree)))),
            Self::Tree(map, Some(shape)) => {
                let (key, tree) = map.entries().get(place)?;
                let is_object = shape.form() == Form::Object;
                let field = shape.field(key)?;
                let key = key_of(key, is_object);
                if is_object && tree.is_null() {
                    let missing = Failure::error(format!("no such key: {key}"));
                    return Some((key, Err(missing)));
                }
                Some((key, Value::of(tree, Some(field))))
            }
        })
    }
}

fn key_of<'a>(key: &'a str, is_object: bool) -> Value<'a> {
    match is_object.then(|| crate::escape::escape(key)).flatten() {
        Some(std::borrow::Cow::Owned(escaped)) => Value::String(Str::from(escaped)),
        _ => Value::from(key),
    }
}

/// The value of a property, if the schema knows it. Null in a property is as if it were not there.
pub(crate) fn of_shape<'a>(
    tree: &'a object::Value,
    key: &str,
    shape: &'a dyn Shape,
    is_object: bool,
) -> Option<Outcome<'a>> {
    if is_object && tree.is_null() {
        return None;
    }
    shape.field(key).map(|shape| Value::of(tree, Some(shape)))
}
