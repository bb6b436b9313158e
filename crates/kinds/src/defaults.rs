//! Helpers for defaulting: they set absent values and ignore values of an unexpected type.

use object::quantity::canonicalize_milli;
use object::{Key, Map, Value};
use std::borrow::Cow;

/// Sets `key` to `value` if it is absent.
pub(crate) fn fill(map: &mut Map, key: &'static str, value: impl Into<Value>) {
    if !map.contains_key(key) {
        map.insert(Key::known(key), value);
    }
}

/// Sets `key` to a static text if it is absent.
pub(crate) fn fill_text(map: &mut Map, key: &'static str, text: &'static str) {
    if !map.contains_key(key) {
        map.insert(Key::known(key), Value::String(object::Text::known(text)));
    }
}

/// Applies `to` to the map at `key`, if there is one.
pub(crate) fn update_map(map: &mut Map, key: &str, to: impl FnOnce(&mut Map)) {
    if let Some(inner) = map.get_mut(key).and_then(Value::as_map_mut) {
        to(inner);
    }
}

/// Applies `to` to each map in the list at `key`, if there is one.
pub(crate) fn each(map: &mut Map, key: &str, to: impl FnMut(&mut Map)) {
    let list = map.get_mut(key).and_then(Value::as_list_mut);
    list.into_iter().flatten().filter_map(Value::as_map_mut).for_each(to);
}

/// Applies `to` to the map at `key`. If the key is absent, `to` is applied to an empty map, which is inserted
/// unless it stays empty.
pub(crate) fn update_or_insert_map(map: &mut Map, key: &'static str, to: impl FnOnce(&mut Map)) {
    match map.get_mut(key) {
        Some(value) => {
            if let Some(inner) = value.as_map_mut() {
                to(inner);
            }
        }
        None => {
            let mut inner = Map::new();
            to(&mut inner);
            if !inner.is_empty() {
                map.insert(Key::known(key), inner);
            }
        }
    }
}

/// Rounds the quantities of the resource list at `key` up to milli-units.
pub(crate) fn round_up(map: &mut Map, key: &str) {
    update_map(map, key, |list| {
        for (_, amount) in list.iter_mut() {
            let rounded = match amount.as_str().map(canonicalize_milli) {
                Some(Ok(Cow::Owned(text))) => text,
                _ => continue,
            };
            *amount = rounded.into();
        }
    });
}

/// Rounds the limits and requests of the requirements at `key`.
pub(crate) fn round_up_requirements(map: &mut Map, key: &str) {
    update_map(map, key, |requirements| {
        round_up(requirements, "limits");
        round_up(requirements, "requests");
    });
}

/// Adds the entries of `from` whose keys the map at `key` does not have.
pub(crate) fn fill_entries(map: &mut Map, key: &'static str, from: &Map) {
    if from.is_empty() {
        return;
    }
    if let Some(target) = crate::map_at(map, key) {
        let missing: Vec<_> = {
            let there = target.index();
            from.iter().filter(|(name, _)| !there.contains_key(name.as_str())).collect()
        };
        for (name, value) in missing {
            target.insert_at(usize::MAX, name.clone(), value.clone());
        }
    }
}
