//! The migration from client-side apply: the annotation `last-applied-configuration`, in which clients keep
//! the configuration that they applied last. Only applies of the manager `kubectl` use it.

use super::Ownership;
use super::check::{Duplicates, check, check_typed};
use super::compare::compare;
use super::conflict::{Conflict, Conflicts};
use super::fields::fields;
use super::place::{Form, Place, plain};
use crate::node::{ANY, shape_of};
use object::path_set::Set;
use object::{Map, Value};
use schema::json;

/// The manager that moves from the annotation to managed fields.
pub(crate) const KUBECTL: &str = "kubectl";
const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// The most bytes of all annotations of an object together.
const MOST: usize = 256 << 10;

impl Ownership<'_> {
    /// The conflicts about fields that the annotation did not apply; `None` if the object has no valid
    /// annotation.
    pub(crate) fn beyond_last_applied(&self, live: &Value, conflicts: &Conflicts) -> Option<Vec<Conflict>> {
        let allowed = self.last_applied(live)?;
        let left = conflicts.iter().filter(|conflict| !allowed.has(&conflict.path));
        Some(left.cloned().collect())
    }

    /// The fields that the annotation applied and that are still as it says.
    fn last_applied(&self, live: &Value) -> Option<Set> {
        let text = annotation(live)?;
        let shape = shape_of(self.ty);
        let place = Place::of(&shape);
        check_typed(self.ty, live, Duplicates::Refused).ok()?;
        let applied = json::decode_shape(&ANY, text.as_bytes(), &schema::Limits::REQUEST).ok()?.value;
        if applied.get("apiVersion").and_then(Value::as_str) != Some(self.api_version) {
            return None;
        }
        check(place, &applied, Form::Plain, Duplicates::Refused).ok()?;
        let live = plain(self.ty, live);
        let difference = compare(place, &applied, &live, Form::Plain).ok()?;
        let applied = fields(place, &applied, Form::Plain);
        Some(
            applied
                .difference(&difference.modified)
                .difference(&difference.added)
                .difference(&difference.removed),
        )
    }
}

/// Brings the annotation of an object up to date, if it has one.
pub(crate) fn renew(object: &mut Value, config: &Value) {
    if annotation(object).is_none() {
        return;
    }
    let mut config = config.clone();
    if let Some(annotations) = annotations_mut(&mut config) {
        annotations.remove(ANNOTATION);
    }
    sort_keys(&mut config);
    let mut text = Vec::new();
    json::encode_shape(&ANY, &config, &mut text);
    text.push(b'\n');
    let Some(annotations) = annotations_mut(object) else { return };
    annotations.insert(ANNOTATION, String::from_utf8(text).unwrap_or_default());
    let size = annotations.iter().map(|(key, value)| key.len() + value.as_str().map_or(0, str::len));
    if size.sum::<usize>() > MOST {
        annotations.remove(ANNOTATION);
    }
}

fn annotation(object: &Value) -> Option<&str> {
    let text = object.get("metadata")?.get("annotations")?.get(ANNOTATION)?.as_str()?;
    (!text.is_empty()).then_some(text)
}

fn annotations_mut(object: &mut Value) -> Option<&mut Map> {
    let metadata = object.as_map_mut()?.get_mut("metadata")?.as_map_mut()?;
    metadata.get_mut("annotations")?.as_map_mut()
}

/// Sorts the keys of all maps.
fn sort_keys(value: &mut Value) {
    match value {
        Value::Map(map) => {
            map.sort_keys();
            map.iter_mut().for_each(|(_, value)| sort_keys(value));
        }
        Value::List(list) => list.iter_mut().for_each(sort_keys),
        _ => {}
    }
}
