//! A configuration put into an object, and paths taken out of one. Both are plain JSON.

use super::place::{Finder, ItemKey, ItemKeyError, Items, ListType, Names, Place, Seen};
use object::path::{Element, ElementRef};
use object::path_set::Set;
use object::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

/// Merges a configuration into an object. Nothing is removed.
pub(crate) fn merged(place: Place<'_>, live: &Value, config: &Value) -> Result<Value, ItemKeyError> {
    Ok(at(place, Some(live), Some(config))?.unwrap_or_default())
}

/// Merges two values; `None` if nothing is left.
fn at(place: Place<'_>, live: Option<&Value>, config: Option<&Value>) -> Result<Option<Value>, ItemKeyError> {
    let leaf = || Ok(config.or(live).cloned());
    match place.see(config.or(live)) {
        Seen::Scalar(_) => leaf(),
        Seen::Map(names) => {
            let (live, config) = (live.and_then(Value::as_map), config.and_then(Value::as_map));
            let is_nothing = |map: Option<&Map>| map.is_none_or(Map::is_empty);
            if names.is_atomic() || (is_nothing(live) && is_nothing(config)) {
                return leaf();
            }
            maps(names, live, config)
        }
        Seen::List(items) => {
            let (live, config) = (live.and_then(Value::as_list), config.and_then(Value::as_list));
            let is_nothing = |list: Option<&[Value]>| list.is_none_or(<[Value]>::is_empty);
            if matches!(items.list_type, ListType::Atomic) || (is_nothing(live) && is_nothing(config)) {
                return leaf();
            }
            let list = lists(items, live.unwrap_or_default(), config.unwrap_or_default())?;
            Ok((!list.is_empty()).then(|| list.into()))
        }
    }
}

fn maps(names: Names<'_>, live: Option<&Map>, config: Option<&Map>) -> Result<Option<Value>, ItemKeyError> {
    let (before, after) = (Finder::of(live), Finder::of(config));
    let mut entries = Vec::with_capacity(live.map_or(0, Map::len).max(config.map_or(0, Map::len)));
    let own = live.into_iter().flat_map(Map::iter).map(|(key, value)| (key, Some(value), after.get(key)));
    let new = config.into_iter().flat_map(Map::iter).filter(|(key, _)| before.get(key).is_none());
    for (key, live, config) in own.chain(new.map(|(key, value)| (key, None, Some(value)))) {
        let Some(place) = names.place(key) else { continue };
        if let Some(value) = at(place, live, config)? {
            entries.push((key.clone(), value));
        }
    }
    Ok((!entries.is_empty()).then(|| Map::from_distinct(entries).into()))
}

/// The items of a list by their keys.
struct Indexed<'v> {
    order: Vec<ItemKey>,
    /// `None` for a duplicate item, which is not merged with another.
    items: BTreeMap<ItemKey, Option<&'v Value>>,
}

impl<'v> Indexed<'v> {
    fn of(items: Items<'_>, list: &'v [Value]) -> Result<Self, ItemKeyError> {
        let mut indexed = Self { order: Vec::with_capacity(list.len()), items: BTreeMap::new() };
        for item in list {
            let key = ItemKey(items.element(item)?);
            indexed.items.entry(key.clone()).and_modify(|first| *first = None).or_insert(Some(item));
            indexed.order.push(key);
        }
        Ok(indexed)
    }

    fn has(&self, key: &ItemKey) -> bool {
        self.items.contains_key(key)
    }

    fn get(&self, key: &ItemKey) -> Option<&'v Value> {
        match self.items.get(key) {
            Some(Some(item)) => Some(item),
            // A duplicate item counts as null.
            Some(None) => Some(&NULL),
            None => None,
        }
    }
}

static NULL: Value = Value::Null;

/// Items of both lists, in the order of the configuration as far as both have them; items that only the
/// object has stay where they are between the others.
fn lists(items: Items<'_>, live: &[Value], config: &[Value]) -> Result<Vec<Value>, ItemKeyError> {
    let (left, right) = (Indexed::of(items, live)?, Indexed::of(items, config)?);
    let mut out = Vec::with_capacity(live.len().max(config.len()));
    let mut shared = right.order.iter().filter(|key| left.has(key));
    let mut next = shared.next();
    let mut done: BTreeSet<&ItemKey> = BTreeSet::new();
    let (mut l, mut r) = (0, 0);
    loop {
        let (own, new) = (left.order.get(l), right.order.get(r));
        if own.is_none() && new.is_none() {
            return Ok(out);
        }
        if let (Some(own), Some(new)) = (own, new) {
            if own == new {
                done.insert(new);
                out.extend(at(items.inner, left.get(own), right.get(own))?);
                (l, r) = (l + 1, r + 1);
                next = shared.next();
                continue;
            }
            if right.has(own) && next.is_some_and(|next| next != own) {
                // The item comes later, where the configuration has it.
                l += 1;
                continue;
            }
        }
        if let Some(own) = own {
            if !right.has(own) {
                out.extend(at(items.inner, live.get(l), None)?);
                l += 1;
                continue;
            }
            if done.contains(own) {
                l += 1;
            }
        }
        if let Some(new) = new {
            done.insert(new);
            out.extend(at(items.inner, left.get(new), right.get(new))?);
            r += 1;
            if next == Some(new) {
                next = shared.next();
            }
        }
    }
}

/// Removes the paths of a set from an object. A value with nothing left becomes null.
pub(crate) fn without(place: Place<'_>, object: &Value, paths: &Set) -> Value {
    match place.see(Some(object)) {
        Seen::Scalar(_) => object.clone(),
        Seen::Map(names) => match object.as_map() {
            Some(map) if !names.is_atomic() => map_without(names, map, paths),
            _ => Value::Null,
        },
        Seen::List(items) => match object.as_list() {
            Some(list) if !matches!(items.list_type, ListType::Atomic) => list_without(items, list, paths),
            _ => Value::Null,
        },
    }
}

fn map_without(names: Names<'_>, map: &Map, paths: &Set) -> Value {
    let mut entries = Vec::with_capacity(map.len());
    for (key, value) in map.iter() {
        let entry = paths.entry(ElementRef::Field(key));
        if entry.is_some_and(|entry| entry.is_member) {
            continue;
        }
        let below = entry.and_then(|entry| entry.children);
        let left = match (below, names.place(key)) {
            (Some(below), Some(place)) => without(place, value, below),
            _ => value.clone(),
        };
        entries.push((key.clone(), left));
    }
    if entries.is_empty() { Value::Null } else { Map::from_distinct(entries).into() }
}

fn list_without(items: Items<'_>, list: &[Value], paths: &Set) -> Value {
    let mut left = Vec::with_capacity(list.len());
    for item in list {
        let element = items.element(item).ok();
        let entry = element.as_ref().and_then(|element: &Element| paths.entry(element));
        if entry.is_some_and(|entry| entry.is_member) {
            continue;
        }
        left.push(match entry.and_then(|entry| entry.children) {
            Some(below) => without(items.inner, item, below),
            None => item.clone(),
        });
    }
    if left.is_empty() { Value::Null } else { left.into() }
}
