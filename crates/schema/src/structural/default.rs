//! Defaulting: what is absent gets the value that the schema names.

use super::edit::{self, Edit};
use super::{Node, Structural};
use object::{Key, Map, Value};

impl Structural {
    /// Gives an object the defaults of the schema, at every depth. A null where none is allowed counts as absent. True if the object changed.
    pub fn default(&self, object: &mut Value) -> bool {
        let completed = completed(object, &self.root);
        let changed = completed.is_some();
        completed.into_iter().for_each(|value| *object = value);
        changed
    }
}

impl Node {
    /// What becomes of a value that is there.
    fn complete(&self, value: &Value) -> Edit {
        if value.is_null() && !self.nullable {
            return self.default.as_ref().map(|default| default.value().clone()).into();
        }
        completed(value, self).into()
    }
}

/// A value with the defaults of what is within it, if it lacks any. A default itself lacks none.
pub(super) fn completed(value: &Value, node: &Node) -> Option<Value> {
    if !node.has_defaults {
        return None;
    }
    match value {
        Value::Map(map) => completed_map(map, node),
        Value::List(items) => {
            let node = node.items.as_ref()?;
            edit::list(items, |_, item| node.complete(item)).map(Value::from)
        }
        _ => None,
    }
}

fn completed_map(map: &Map, node: &Node) -> Option<Value> {
    let mut is_there = vec![false; node.properties.len()];
    let changed = edit::map(map, |key, value| match node.position(key) {
        Some(at) => {
            is_there.get_mut(at).into_iter().for_each(|is_there| *is_there = true);
            node.properties.get(at).map_or(Edit::Keep, |(_, node)| node.complete(value))
        }
        None => node.additional.node().map_or(Edit::Keep, |node| node.complete(value)),
    });
    let absent: Vec<(Key, Value)> = node
        .properties
        .iter()
        .zip(is_there)
        .filter(|(_, is_there)| !is_there)
        .filter_map(|((key, node), _)| Some((key.clone(), node.default.as_ref()?.value().clone())))
        .collect();
    if absent.is_empty() {
        return changed.map(|entries| Map::from_distinct(entries).into());
    }
    let mut entries = changed.unwrap_or_else(|| map.entries().to_vec());
    entries.extend(absent);
    Some(Map::from_distinct(entries).into())
}
