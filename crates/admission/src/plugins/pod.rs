//! What several plugins ask of pods, and how they change them.

use object::{Map, Value};
use schema::view::View as _;
use schema::views::core::v1::Pod;

/// The object as a pod.
pub(super) fn of(object: Option<&Value>) -> Option<Pod<'_>> {
    object.and_then(Value::as_map).map(Pod::of)
}

/// Applies `to` to each map in the list at `key`.
pub(super) fn each(map: &mut Map, key: &str, to: impl FnMut(&mut Map)) {
    let list = map.get_mut(key).and_then(Value::as_list_mut);
    list.into_iter().flat_map(|list| list.iter_mut()).filter_map(Value::as_map_mut).for_each(to);
}
