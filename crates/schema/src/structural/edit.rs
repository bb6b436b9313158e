//! Changes of trees that share unchanged parts: a list or a map is copied only if a value within it changes.

use object::{Key, Map, Value};

/// The change of a value.
pub(super) enum Edit {
    /// The value stays.
    Keep,
    /// The value is removed.
    Drop,
    /// The value is replaced.
    Set(Value),
}

impl From<Option<Value>> for Edit {
    fn from(changed: Option<Value>) -> Self {
        changed.map_or(Self::Keep, Self::Set)
    }
}

/// The entries after `edit` has seen each of them, if that changes any.
pub(super) fn map(map: &Map, mut edit: impl FnMut(&Key, &Value) -> Edit) -> Option<Vec<(Key, Value)>> {
    let mut changed: Option<Vec<(Key, Value)>> = None;
    for (at, (key, value)) in map.entries().iter().enumerate() {
        let before = || map.entries().get(..at).unwrap_or_default().to_vec();
        match edit(key, value) {
            Edit::Keep => changed.iter_mut().for_each(|entries| entries.push((key.clone(), value.clone()))),
            Edit::Drop => _ = changed.get_or_insert_with(before),
            Edit::Set(value) => changed.get_or_insert_with(before).push((key.clone(), value)),
        }
    }
    changed
}

/// The items after `edit` has seen each of them, if that changes any.
pub(super) fn list(list: &[Value], mut edit: impl FnMut(usize, &Value) -> Edit) -> Option<Vec<Value>> {
    let mut changed: Option<Vec<Value>> = None;
    for (at, value) in list.iter().enumerate() {
        let before = || list.get(..at).unwrap_or_default().to_vec();
        match edit(at, value) {
            Edit::Keep => changed.iter_mut().for_each(|items| items.push(value.clone())),
            Edit::Drop => _ = changed.get_or_insert_with(before),
            Edit::Set(value) => changed.get_or_insert_with(before).push(value),
        }
    }
    changed
}
