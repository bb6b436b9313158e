//! Defaulting: an absent value gets the default of the schema.
//!
//! Each item of a list gets the defaults of its schema, so a small object can become a large one. The added
//! bytes of JSON are counted; if they exceed a bound, nothing is added at all.

use super::edit::{self, Edit};
use super::{Constant, Node, Structural};
use object::{Key, Map, Value};

/// The most that defaults add to an object, which is more than an object may have.
const MOST_ADDED: usize = 4 << 20;

/// The outcome of defaulting an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Defaulted {
    /// The object had no absent value with a default.
    Unchanged,
    /// Defaults were added.
    Changed,
    /// The defaults would make the object larger than objects may be. The object is unchanged.
    TooLarge,
}

impl Structural {
    /// Adds the defaults of the schema to an object, at every depth. A null where the schema allows none
    /// counts as absent.
    pub fn default(&self, object: &mut Value) -> Defaulted {
        let mut room = Room::of(MOST_ADDED);
        let completed = completed(object, &self.root, &mut room);
        match completed {
            _ if room.is_exceeded() => Defaulted::TooLarge,
            None => Defaulted::Unchanged,
            Some(value) => {
                *object = value;
                Defaulted::Changed
            }
        }
    }
}

/// How many bytes may still be added.
pub(super) struct Room(Option<usize>);

impl Room {
    pub(super) fn of(bytes: usize) -> Self {
        Self(Some(bytes))
    }

    /// Whether more was to be added than there was room for.
    pub(super) fn is_exceeded(&self) -> bool {
        self.0.is_none()
    }

    /// The value of a default, if there is room for it.
    fn take(&mut self, name: &str, default: &Constant) -> Option<Value> {
        self.0 = self.0?.checked_sub(name.len() + default.bytes());
        self.0.map(|_| default.value().clone())
    }
}

impl Node {
    /// The edit of a value that is present.
    fn complete(&self, value: &Value, room: &mut Room) -> Edit {
        if value.is_null() && !self.nullable {
            return self.default.as_ref().and_then(|default| room.take("", default)).into();
        }
        completed(value, self, room).into()
    }
}

/// A value with the defaults of nested values added, if any is absent. A default is already complete.
pub(super) fn completed(value: &Value, node: &Node, room: &mut Room) -> Option<Value> {
    if !node.has_defaults || room.is_exceeded() {
        return None;
    }
    match value {
        Value::Map(map) => completed_map(map, node, room),
        Value::List(items) => {
            let node = node.items.as_ref()?;
            edit::list(items, |_, item| node.complete(item, room)).map(Value::from)
        }
        _ => None,
    }
}

fn completed_map(map: &Map, node: &Node, room: &mut Room) -> Option<Value> {
    let mut is_there = vec![false; node.properties.len()];
    let changed = edit::map(map, |key, value| match node.position(key) {
        Some(at) => {
            is_there.get_mut(at).into_iter().for_each(|is_there| *is_there = true);
            node.properties.get(at).map_or(Edit::Keep, |(_, node)| node.complete(value, room))
        }
        None => node.additional.node().map_or(Edit::Keep, |node| node.complete(value, room)),
    });
    let absent: Vec<(Key, Value)> = node
        .properties
        .iter()
        .zip(is_there)
        .filter(|(_, is_there)| !is_there)
        .filter_map(|((key, node), _)| Some((key.clone(), room.take(key.as_str(), node.default.as_ref()?)?)))
        .collect();
    if absent.is_empty() {
        return changed.map(|entries| Map::from_distinct(entries).into());
    }
    let mut entries = changed.unwrap_or_else(|| map.entries().to_vec());
    entries.extend(absent);
    Some(Map::from_distinct(entries).into())
}
