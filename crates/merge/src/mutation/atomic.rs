//! Finds the lists, maps and structs of a configuration that are atomic.

use crate::managed::{ListType, Place, Seen};
use crate::node::shape_of;
use object::field::{MOST_ERRORS, MOST_TEXT, more};
use object::path::Element;
use object::{Key, Value};
use schema::{Ref, Type};

/// Refuses a configuration that has something atomic. The error is a list of its places. As in the reference,
/// places below the keys of a map that are no fields are not looked at.
pub(super) fn refuse(ty: &Ref<Type>, configuration: &Value) -> Result<(), String> {
    let mut search = Search { path: String::new(), found: Vec::new(), left_out: 0, text: 0 };
    search.at(Place::of(&shape_of(ty)), configuration);
    if search.found.is_empty() {
        return Ok(());
    }
    let mut found = search.found.join(", ");
    if search.left_out > 0 {
        found.push_str(&format!(" and {}", more(search.left_out)));
    }
    Err(found)
}

struct Search {
    /// Where the search is.
    path: String,
    found: Vec<String>,
    /// How many places are only counted.
    left_out: usize,
    /// The length of the places.
    text: usize,
}

impl Search {
    fn at(&mut self, place: Place<'_>, value: &Value) {
        match (place.see(Some(value)), value) {
            (Seen::Map(names), Value::Map(map)) => {
                if names.is_atomic() {
                    self.report();
                }
                let mut entries: Vec<(&Key, &Value)> =
                    map.iter().filter(|(key, _)| names.declares(key)).collect();
                entries.sort_by_key(|(key, _)| *key);
                for (key, value) in entries {
                    if let Some(place) = names.place(key) {
                        self.below(&Element::Field(key.clone()), place, value);
                    }
                }
            }
            (Seen::List(items), Value::List(list)) => {
                if matches!(items.list_type, ListType::Atomic) {
                    self.report();
                }
                for (at, item) in list.iter().enumerate() {
                    self.below(&Element::Index(i64::try_from(at).unwrap_or(i64::MAX)), items.inner, item);
                }
            }
            _ => {}
        }
    }

    fn below(&mut self, element: &Element, place: Place<'_>, value: &Value) {
        if !matches!(value, Value::Map(_) | Value::List(_)) {
            return;
        }
        let length = self.path.len();
        self.path.push_str(&element.to_string());
        self.at(place, value);
        self.path.truncate(length);
    }

    fn report(&mut self) {
        if self.found.len() >= MOST_ERRORS || self.text > MOST_TEXT {
            self.left_out += 1;
            return;
        }
        self.text += self.path.len();
        self.found.push(self.path.clone());
    }
}
