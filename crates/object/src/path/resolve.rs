//! Where in a tree a path leads.

use super::{Element, ElementRef, Keys};
use crate::Value;

pub(super) fn get<'v>(path: &[Element], root: &'v Value) -> Option<&'v Value> {
    path.iter().try_fold(root, |value, element| match element {
        Element::Field(name) => value.get(name),
        _ => value.as_list()?.get(position(element, value)?),
    })
}

pub(super) fn get_mut<'v>(path: &[Element], root: &'v mut Value) -> Option<&'v mut Value> {
    // Nothing is copied for a path that leads nowhere.
    get(path, root)?;
    path.iter().try_fold(root, |value, element| match element {
        Element::Field(name) => value.as_map_mut()?.get_mut(name),
        _ => {
            let at = position(element, value)?;
            value.as_list_mut()?.get_mut(at)
        }
    })
}

/// The place of a list item.
fn position(element: &Element, list: &Value) -> Option<usize> {
    let items = list.as_list()?;
    match element {
        Element::Field(_) => None,
        Element::Keyed(keys) => items.iter().position(|item| has_keys(item, keys)),
        Element::Value(value) => {
            items.iter().position(|item| ElementRef::Value(item) == ElementRef::Value(value))
        }
        Element::Index(index) => usize::try_from(*index).ok(),
    }
}

/// Without any keys, every map has them all.
fn has_keys(item: &Value, keys: &Keys) -> bool {
    let Some(map) = item.as_map() else { return false };
    keys.iter().all(|(name, value)| {
        map.get(name).is_some_and(|found| ElementRef::Value(found) == ElementRef::Value(value))
    })
}
