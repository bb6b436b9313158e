//! The entries of maps that expressions make.

use super::{Str, Value};
use std::collections::HashMap;
use std::hash::{Hash, Hasher};

/// The number of entries from which on keys are looked up in a table.
const TABLE_FROM: usize = 9;

/// The entries of a map that an expression made, in the order in which their keys were first given.
#[derive(Clone, Debug, Default)]
pub struct Entries<'a> {
    entries: Vec<(Value<'a>, Value<'a>)>,
    /// The places of the entries, where there are many.
    places: HashMap<Key<'a>, usize>,
}

/// A key as Go's maps tell it apart: `1`, `1u` and `1.0` are three keys.
#[derive(Clone, Debug)]
enum Key<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(u64),
    String(Str<'a>),
    Duration(i64),
    Timestamp(i64, u32, i16),
    Type(Box<str>),
}

impl<'a> Key<'a> {
    /// The key of a value; `None` for what is never found again.
    fn of(value: &Value<'a>) -> Option<Self> {
        Some(match value {
            Value::Null => Self::Null,
            Value::Bool(flag) => Self::Bool(*flag),
            Value::Int(number) => Self::Int(*number),
            Value::Uint(number) => Self::Uint(*number),
            Value::Double(number) if number.is_nan() => return None,
            Value::Double(number) => Self::Double((number + 0.0).to_bits()),
            Value::String(text) => Self::String(text.clone()),
            Value::Duration(nanos) => Self::Duration(*nanos),
            Value::Timestamp(time) => Self::Timestamp(time.seconds, time.nanos, time.offset),
            Value::Type(ty) => Self::Type(ty.name().into()),
            _ => return None,
        })
    }
}

impl PartialEq for Key<'_> {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Null, Self::Null) => true,
            (Self::Bool(one), Self::Bool(other)) => one == other,
            (Self::Int(one), Self::Int(other)) | (Self::Duration(one), Self::Duration(other)) => one == other,
            (Self::Uint(one), Self::Uint(other)) | (Self::Double(one), Self::Double(other)) => one == other,
            (Self::String(one), Self::String(other)) => one.as_str() == other.as_str(),
            (Self::Timestamp(a, b, c), Self::Timestamp(x, y, z)) => (a, b, c) == (x, y, z),
            (Self::Type(one), Self::Type(other)) => one == other,
            _ => false,
        }
    }
}

impl Eq for Key<'_> {}

impl Hash for Key<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        std::mem::discriminant(self).hash(state);
        match self {
            Self::Null => {}
            Self::Bool(flag) => flag.hash(state),
            Self::Int(number) | Self::Duration(number) => number.hash(state),
            Self::Uint(number) | Self::Double(number) => number.hash(state),
            Self::String(text) => text.as_str().hash(state),
            Self::Timestamp(seconds, nanos, offset) => (seconds, nanos, offset).hash(state),
            Self::Type(name) => name.hash(state),
        }
    }
}

impl<'a> Entries<'a> {
    /// The number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The entries in order.
    pub fn as_slice(&self) -> &[(Value<'a>, Value<'a>)] {
        &self.entries
    }

    /// Puts a value at a key: in the place of the one that is there, or at the end.
    pub fn insert(&mut self, key: Value<'a>, value: Value<'a>) {
        match self.place(&key).and_then(|place| self.entries.get_mut(place)) {
            Some(there) => there.1 = value,
            None => {
                self.entries.push((key, value));
                self.keep_last();
            }
        }
    }

    /// Takes the entry at a key out.
    pub fn remove(&mut self, key: &Value<'a>) {
        if let Some(place) = self.place(key) {
            self.entries.remove(place);
            self.places.clear();
            if self.entries.len() >= TABLE_FROM {
                self.keep_all();
            }
        }
    }

    /// The value at a key. A number is also found by an equal one of another type, but for a fraction.
    pub fn get(&self, key: &Value<'a>) -> Option<&Value<'a>> {
        let found = self.place(key).or_else(|| {
            let [first, second] = others(key);
            first.and_then(|key| self.place(&key)).or_else(|| second.and_then(|key| self.place(&key)))
        });
        self.entries.get(found?).map(|(_, value)| value)
    }

    /// Whether there is an entry at exactly this key.
    pub(crate) fn has(&self, key: &Value<'a>) -> bool {
        self.place(key).is_some()
    }

    /// The value at exactly this key: numbers of other types are other keys.
    pub(super) fn get_exactly(&self, key: &Value<'a>) -> Option<&Value<'a>> {
        self.entries.get(self.place(key)?).map(|(_, value)| value)
    }

    fn place(&self, key: &Value<'a>) -> Option<usize> {
        let key = Key::of(key)?;
        if self.entries.len() >= TABLE_FROM {
            return self.places.get(&key).copied();
        }
        self.entries.iter().position(|(there, _)| Key::of(there).as_ref() == Some(&key))
    }

    fn keep_last(&mut self) {
        if self.entries.len() == TABLE_FROM {
            self.keep_all();
        } else if self.entries.len() > TABLE_FROM {
            let place = self.entries.len() - 1;
            if let Some(key) = self.entries.last().and_then(|(key, _)| Key::of(key)) {
                self.places.insert(key, place);
            }
        }
    }

    fn keep_all(&mut self) {
        for (place, (key, _)) in self.entries.iter().enumerate() {
            if let Some(key) = Key::of(key) {
                self.places.insert(key, place);
            }
        }
    }
}

/// The equal numbers of other types under which a value can be.
fn others<'a>(key: &Value<'a>) -> [Option<Value<'a>>; 2] {
    match key {
        Value::Double(number) => [whole(*number).map(Value::Int), whole_unsigned(*number).map(Value::Uint)],
        Value::Int(number) => [u64::try_from(*number).ok().map(Value::Uint), None],
        Value::Uint(number) => [i64::try_from(*number).ok().map(Value::Int), None],
        _ => [None, None],
    }
}

/// The whole number that a floating point number is.
pub(crate) fn whole(number: f64) -> Option<i64> {
    let least = i64::MIN as f64;
    (number > least && number < -least && number.fract() == 0.0).then_some(number as i64)
}

/// The unsigned whole number that a floating point number is.
pub(crate) fn whole_unsigned(number: f64) -> Option<u64> {
    (number >= 0.0 && number < u64::MAX as f64 && number.fract() == 0.0).then_some(number as u64)
}

impl<'a> FromIterator<(Value<'a>, Value<'a>)> for Entries<'a> {
    fn from_iter<I: IntoIterator<Item = (Value<'a>, Value<'a>)>>(entries: I) -> Self {
        let mut made = Self::default();
        for (key, value) in entries {
            made.insert(key, value);
        }
        made
    }
}
