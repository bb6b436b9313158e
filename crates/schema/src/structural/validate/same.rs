//! When values are the same.

use crate::structural::lists::Identity;
use crate::validate::json_text;
use object::field::BadValue;
use object::{Text, Value};
use std::collections::{HashMap, HashSet};

/// The old items of a list map, by their keys. The first of several with the same keys counts.
pub struct Keyed<'o> {
    keys: &'o [Text],
    items: HashMap<Vec<Identity<'o>>, &'o Value>,
}

impl<'o> Keyed<'o> {
    /// The items of a list, by the fields that tell them apart.
    pub fn new(keys: &'o [Text], list: &'o [Value]) -> Self {
        let mut items = HashMap::with_capacity(list.len());
        for item in list {
            if let Some(identity) = identity(keys, item) {
                items.entry(identity).or_insert(item);
            }
        }
        Self { keys, items }
    }

    /// The old item with the keys of a new one.
    pub fn get(&self, item: &Value) -> Option<&'o Value> {
        self.items.get(&identity(self.keys, item)?).copied()
    }
}

/// The values of the keys of an item. They are all there, and no lists or maps.
fn identity<'v>(keys: &[Text], item: &'v Value) -> Option<Vec<Identity<'v>>> {
    let is_scalar = |value: &Value| !matches!(value, Value::Null | Value::List(_) | Value::Map(_));
    let fields = item.as_map()?.lookup(keys.len());
    let value = |key: &Text| fields.get(key).filter(|value| is_scalar(value)).map(Identity::of);
    keys.iter().map(value).collect::<Option<Vec<_>>>().filter(|values| !values.is_empty())
}

/// Whether two items are equal.
pub(super) fn has_repeats(list: &[Value]) -> bool {
    let mut known = HashSet::with_capacity(list.len());
    !list.iter().all(|item| known.insert(Identity::of(item)))
}

/// Whether a value, converted to the type of a listed one, is that one. A whole number converts to the
/// character with that code, and a number loses its fraction; null is never listed.
pub(super) fn converts(value: &Value, listed: &Value) -> bool {
    match (value, listed) {
        (Value::Null, _) | (_, Value::Null) => false,
        (Value::Int(number), Value::Float(listed)) => *number as f64 == *listed,
        (Value::Float(number), Value::Int(listed)) => to_i64(*number) == *listed,
        (Value::Int(number), Value::String(listed)) => {
            let character = u32::try_from(*number).ok().and_then(char::from_u32);
            let mut characters = listed.as_str().chars();
            characters.next() == Some(character.unwrap_or(char::REPLACEMENT_CHARACTER))
                && characters.next().is_none()
        }
        _ => value == listed,
    }
}

/// A number without its fraction, converted as on amd64: a number that does not fit becomes the least `i64`.
pub(super) fn to_i64(number: f64) -> i64 {
    const END: f64 = 9_223_372_036_854_775_808.0;
    if (-END..END).contains(&number) { number as i64 } else { i64::MIN }
}

/// A value as Go prints it: messages of the reference have such texts.
pub fn go_text(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::Float(number) => BadValue::Float(*number).to_string(),
        Value::String(text) => text.as_str().to_owned(),
        Value::List(list) => {
            let items: Vec<_> = list.iter().map(go_text).collect();
            format!("[{}]", items.join(" "))
        }
        Value::Map(map) => {
            let mut entries: Vec<_> =
                map.iter().map(|(key, value)| format!("{}:{}", key.as_str(), go_text(value))).collect();
            entries.sort();
            format!("map[{}]", entries.join(" "))
        }
        other => json_text(other),
    }
}
