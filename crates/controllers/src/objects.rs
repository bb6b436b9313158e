//! Objects as controllers read and write them.

use cache::Entry;
use object::{Map, Value};
use schema::status::Reason;
use schema::{Status, Type};

/// An object of the cache.
pub(crate) fn decode(ty: &'static Type, entry: &Entry) -> Result<Map, Status> {
    auth::stored::decode(ty, entry).map_err(|error| Status::internal_error(&error.to_string()))
}

/// An annotation of an object; empty if it has none.
pub(crate) fn annotation<'a>(object: &'a Map, key: &str) -> &'a str {
    let annotations = object.get("metadata").and_then(|metadata| metadata.get("annotations"));
    annotations.and_then(|annotations| annotations.get(key)).and_then(Value::as_str).unwrap_or_default()
}

/// Sets an annotation of an object.
pub(crate) fn annotate(object: &mut Map, key: &'static str, value: &str) {
    let metadata = object.get_or_insert_with("metadata", || Map::new().into());
    let Some(metadata) = metadata.as_map_mut() else { return };
    let annotations = metadata.get_or_insert_with("annotations", || Map::new().into());
    if let Some(annotations) = annotations.as_map_mut() {
        annotations.insert(key, value);
    }
}

/// What became of a write that is needless if the object was changed or removed meanwhile: then a later look decides.
pub(crate) fn unless_changed<T>(outcome: Result<T, Status>) -> Result<(), Status> {
    match outcome {
        Err(error) if matches!(error.reason, Reason::Conflict | Reason::NotFound) => Ok(()),
        outcome => outcome.map(drop),
    }
}
