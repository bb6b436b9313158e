//! The map of the value tree: entries in the order they were put in, found by a scan. They lie in one shared
//! piece of memory, which a change to one of its clones copies first.
//!
//! The maps of API objects are small, so a scan beats a hash. Code that looks up many keys of one map that a
//! client filled uses [`Map::index`], which is built once, so that no request costs time quadratic in its
//! size.

use crate::shared::{IntoIter, Shared};
use crate::{Key, Value};
use std::collections::HashMap;

/// Keys and values in insertion order; a key is there at most once. A clone shares the entries until either
/// of the two is changed.
#[derive(Clone, Debug, Default)]
pub struct Map {
    entries: Shared<(Key, Value)>,
}

impl Map {
    /// A map without entries; allocates nothing.
    pub const fn new() -> Self {
        Self { entries: Shared::new() }
    }

    /// A map with room for `capacity` entries.
    pub fn with_capacity(capacity: usize) -> Self {
        Self { entries: Shared::with_capacity(capacity) }
    }

    /// Takes entries whose keys the caller knows to be distinct, in their order.
    #[inline]
    pub fn from_distinct(
        entries: impl IntoIterator<Item = (Key, Value), IntoIter: ExactSizeIterator>,
    ) -> Self {
        Self { entries: Shared::of(entries.into_iter()) }
    }

    /// How many entries there are.
    #[inline]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The value at `key`.
    #[inline]
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.entries.iter().find(|(k, _)| k == key).map(|(_, v)| v)
    }

    /// The value at `key`, to change it in place.
    #[inline]
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Value> {
        let at = self.position(key)?;
        self.entries.make_mut().get_mut(at).map(|(_, v)| v)
    }

    #[inline]
    fn position(&self, key: &str) -> Option<usize> {
        self.entries.iter().position(|(k, _)| k == key)
    }

    /// Whether there is an entry at `key`.
    pub fn contains_key(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// Puts `value` at `key`: in the place of the entry that is there (whose value comes back), or at the
    /// end.
    pub fn insert(&mut self, key: impl Into<Key>, value: impl Into<Value>) -> Option<Value> {
        let (key, value) = (key.into(), value.into());
        match self.get_mut(&key) {
            Some(slot) => Some(std::mem::replace(slot, value)),
            None => {
                self.entries.push((key, value));
                None
            }
        }
    }

    /// Puts an entry that the caller knows not to be there before the one at `place`, or at the end.
    pub fn insert_at(&mut self, place: usize, key: Key, value: Value) {
        self.entries.insert(place, (key, value));
    }

    /// The value at `key`; where there is none, `value()` is put at the end first.
    #[allow(clippy::indexing_slicing, reason = "`at` was found, or is that of the entry just pushed")]
    pub fn get_or_insert_with(&mut self, key: impl Into<Key>, value: impl FnOnce() -> Value) -> &mut Value {
        let key = key.into();
        let at = self.position(&key).unwrap_or_else(|| {
            self.entries.push((key, value()));
            self.entries.len() - 1
        });
        &mut self.entries.make_mut()[at].1
    }

    /// Takes the entry at `key` out; the others keep their order.
    pub fn remove(&mut self, key: &str) -> Option<Value> {
        let at = self.position(key)?;
        self.entries.remove(at).map(|(_, value)| value)
    }

    /// Keeps the entries for which `keep` says so.
    pub fn retain(&mut self, mut keep: impl FnMut(&Key, &mut Value) -> bool) {
        self.entries.retain(|(k, v)| keep(k, v));
    }

    /// The entries in order.
    #[inline]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&Key, &Value)> + DoubleEndedIterator {
        self.entries.iter().map(|(k, v)| (k, v))
    }

    /// The entries in order, values to be changed in place.
    pub fn iter_mut(&mut self) -> impl ExactSizeIterator<Item = (&Key, &mut Value)> {
        self.entries.make_mut().iter_mut().map(|(k, v)| (&*k, v))
    }

    /// The entries in insertion order.
    #[inline]
    pub fn entries(&self) -> &[(Key, Value)] {
        &self.entries
    }

    /// The keys in order.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = &Key> + DoubleEndedIterator {
        self.entries.iter().map(|(k, _)| k)
    }

    /// The values in order.
    pub fn values(&self) -> impl ExactSizeIterator<Item = &Value> {
        self.entries.iter().map(|(_, v)| v)
    }

    /// Orders the entries by key, bytewise.
    pub fn sort_keys(&mut self) {
        if !self.entries.is_sorted_by(|a, b| a.0 <= b.0) {
            self.entries.make_mut().sort_by(|a, b| a.0.cmp(&b.0));
        }
    }

    /// A look-up table over the entries, for many look-ups in a map whose size a client chose.
    pub fn index(&self) -> HashMap<&str, &Value> {
        self.entries.iter().map(|(k, v)| (k.as_str(), v)).collect()
    }

    /// The map, for this many look-ups: with a table where that is less work than to go through the entries
    /// each time.
    pub fn lookup(&self, lookups: usize) -> Lookup<'_> {
        if self.len() > 16 && lookups > 1 { Lookup::Table(self.index()) } else { Lookup::Scan(self) }
    }
}

/// A map in the form that fits the number of look-ups.
#[derive(Debug)]
pub enum Lookup<'m> {
    /// The entries are scanned.
    Scan(&'m Map),
    /// The entries are in a hash table.
    Table(HashMap<&'m str, &'m Value>),
}

impl<'m> Lookup<'m> {
    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&'m Value> {
        match self {
            Self::Scan(map) => map.get(key),
            Self::Table(table) => table.get(key).copied(),
        }
    }
}

/// Equal when they hold the same keys with equal values, in whatever order; clones are equal without a
/// comparison of their entries.
impl PartialEq for Map {
    fn eq(&self, other: &Self) -> bool {
        if std::ptr::eq(self.entries(), other.entries()) {
            return true;
        }
        if self.len() != other.len() {
            return false;
        }
        let same_order = self.entries.iter().zip(other.entries()).all(|((a, _), (b, _))| a == b);
        if same_order {
            return self.entries.iter().zip(other.entries()).all(|((_, a), (_, b))| a == b);
        }
        let there = other.index();
        self.entries.iter().all(|(k, v)| there.get(k.as_str()).is_some_and(|w| *w == v))
    }
}

impl<K: Into<Key>, V: Into<Value>> FromIterator<(K, V)> for Map {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut map = Map::new();
        for (key, value) in entries {
            map.insert(key, value);
        }
        map
    }
}

impl IntoIterator for Map {
    type Item = (Key, Value);
    type IntoIter = IntoIter<(Key, Value)>;
    fn into_iter(self) -> Self::IntoIter {
        self.entries.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn insert_keeps_the_place_of_a_key_that_is_there() {
        let mut map: Map = [("a", 1i64), ("b", 2)].into_iter().collect();
        assert_eq!(map.insert("a", 3i64), Some(Value::Int(1)));
        map.insert("c", 4i64);
        assert_eq!(map.keys().map(Key::as_str).collect::<Vec<_>>(), ["a", "b", "c"]);
        assert_eq!(map.get("a"), Some(&Value::Int(3)));
    }

    #[test]
    fn order_does_not_count_for_equality() {
        let a: Map = [("a", 1i64), ("b", 2)].into_iter().collect();
        let b: Map = [("b", 2i64), ("a", 1)].into_iter().collect();
        let c: Map = [("b", 2i64), ("c", 1)].into_iter().collect();
        assert_eq!(a, b);
        assert_ne!(a, c);
    }

    #[test]
    fn a_removed_entry_leaves_the_others_in_order() {
        let mut map: Map = [("a", 1i64), ("b", 2), ("c", 3)].into_iter().collect();
        assert_eq!(map.remove("b"), Some(Value::Int(2)));
        assert_eq!(map.remove("b"), None);
        assert_eq!(map.keys().map(Key::as_str).collect::<Vec<_>>(), ["a", "c"]);
    }
}
