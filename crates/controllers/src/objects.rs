//! What several controllers ask of objects, and do with them.

use cache::Entry;
use kinds::object_meta;
use object::time::Time;
use object::{Map, Value};
use schema::status::Reason;
use schema::view::View as _;
use schema::views::meta::v1::{ObjectMeta, OwnerReference};
use schema::{Ref, Status, Type};
use std::time::{Duration, SystemTime};

/// An object of the cache.
pub(crate) fn decode(ty: &'static Type, entry: &Entry) -> Result<Map, Status> {
    schema::stored::decode(ty, entry.bytes()).map_err(|error| Status::internal_error(&error.to_string()))
}

/// A part of an object of the cache.
pub(crate) fn decode_part(part: &Ref<Type>, entry: &Entry) -> Result<Map, Status> {
    schema::stored::decode_part(part, entry.bytes())
        .map_err(|error| Status::internal_error(&error.to_string()))
}

/// An annotation of an object; empty if it has none.
pub(crate) fn annotation<'a>(object: &'a Map, key: &str) -> &'a str {
    let annotations = object.get("metadata").and_then(|metadata| metadata.get("annotations"));
    annotations.and_then(|annotations| annotations.get(key)).and_then(Value::as_str).unwrap_or_default()
}

/// Sets an annotation of an object.
pub(crate) fn annotate(object: &mut Map, key: &str, value: &str) {
    let metadata = object.get_or_insert_with("metadata", || Map::new().into());
    let Some(metadata) = metadata.as_map_mut() else { return };
    let annotations = metadata.get_or_insert_with("annotations", || Map::new().into());
    if let Some(annotations) = annotations.as_map_mut() {
        annotations.insert(key, value);
    }
}

/// The error of a step that failed for another reason than a request. The message is taken as it is.
pub(crate) fn failure(message: impl Into<String>) -> Status {
    Status {
        code: 500,
        reason: Reason::InternalError,
        message: message.into(),
        details: None,
        token: String::new(),
    }
}

/// Sets a field that is no pointer: its zero value is an absent field.
pub(crate) fn set_number(object: &mut Map, key: &'static str, number: i64) {
    match number {
        0 => drop(object.remove(key)),
        number => drop(object.insert(key, number)),
    }
}

/// Sets a field that is no pointer: an empty text is an absent field.
pub(crate) fn set_text(object: &mut Map, key: &'static str, text: &str) {
    match text {
        "" => drop(object.remove(key)),
        text => drop(object.insert(key, text)),
    }
}

/// Changes a part of an object, such as `status`, which may not be there before and after.
pub(crate) fn edit<T>(object: &mut Map, key: &'static str, change: impl FnOnce(&mut Map) -> T) -> T {
    let mut part = match object.remove(key) {
        Some(Value::Map(part)) => part,
        _ => Map::new(),
    };
    let outcome = change(&mut part);
    if !part.is_empty() {
        object.insert(key, part);
    }
    outcome
}

/// The owner that controls an object.
pub(crate) fn controller_of(object: &Map) -> Option<OwnerReference<'_>> {
    let owners = object_meta::metadata(object).map(ObjectMeta::of)?.owner_references();
    owners.iter().find(|owner| owner.controller() == Some(true))
}

/// Removes an annotation of an object.
pub(crate) fn remove_annotation(object: &mut Map, key: &str) {
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_map_mut) else { return };
    let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_map_mut) else { return };
    annotations.remove(key);
    if annotations.is_empty() {
        metadata.remove("annotations");
    }
}

/// Whether a create was refused because the namespace is being deleted.
pub(crate) fn is_namespace_terminating(error: &Status) -> bool {
    let causes = error.details.iter().flat_map(|details| &details.causes);
    causes.into_iter().any(|cause| cause.reason == "NamespaceTerminating")
}

/// The outcome of a write that a controller gives up if the object was changed or removed meanwhile: a
/// conflict or a 404 is no error, because the change causes another reconciliation.
pub(crate) fn unless_changed<T>(outcome: Result<T, Status>) -> Result<(), Status> {
    match outcome {
        Err(error) if matches!(error.reason, Reason::Conflict | Reason::NotFound) => Ok(()),
        outcome => outcome.map(drop),
    }
}

/// Whether a text is in the bytes of an object: a cheap question before it is decoded.
pub(crate) fn mentions(entry: &Entry, text: &str) -> bool {
    memchr::memmem::find(entry.bytes(), text.as_bytes()).is_some()
}

/// Adds a finalizer that an object lacks.
pub(crate) fn add_finalizer(object: &mut Map, finalizer: &str) {
    let metadata = object.get_or_insert_with("metadata", || Map::new().into()).as_map_mut();
    let finalizers =
        metadata.map(|metadata| metadata.get_or_insert_with("finalizers", || Vec::<Value>::new().into()));
    if let Some(finalizers) = finalizers.and_then(Value::as_list_mut)
        && !finalizers.iter().any(|known| known.as_str() == Some(finalizer))
    {
        finalizers.push(finalizer.into());
    }
}

/// Removes a finalizer.
pub(crate) fn remove_finalizer(object: &mut Map, finalizer: &str) {
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_map_mut) else { return };
    let Some(finalizers) = metadata.get_mut("finalizers").and_then(Value::as_list_mut) else { return };
    finalizers.retain(|known| known.as_str() != Some(finalizer));
    if finalizers.is_empty() {
        metadata.remove("finalizers");
    }
}

/// The time that is left until a deadline; zero if it has passed.
pub(crate) fn time_left(deadline: Time) -> Duration {
    until(deadline, clock::now())
}

/// The time from `now` to a point; zero if the point has passed.
pub(crate) fn until(at: Time, now: SystemTime) -> Duration {
    let seconds = u64::try_from(at.unix()).unwrap_or_default();
    let at = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds));
    at.and_then(|at| at.duration_since(now).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use kinds::object_meta::finalizers;

    #[test]
    fn finalizers_are_added_once_and_removed_without_a_trace() {
        let mut object = Map::new();
        add_finalizer(&mut object, "a/b");
        add_finalizer(&mut object, "a/c");
        add_finalizer(&mut object, "a/b");
        assert_eq!(finalizers(&object), ["a/b", "a/c"]);
        remove_finalizer(&mut object, "a/b");
        assert_eq!(finalizers(&object), ["a/c"]);
        remove_finalizer(&mut object, "a/c");
        let mut bare = Map::new();
        bare.insert("metadata", Map::new());
        assert_eq!(object, bare);
    }

    #[test]
    fn past_times_are_due() {
        assert_eq!(time_left(Time::ZERO), Duration::ZERO);
        assert_eq!(time_left(Time::now()), Duration::ZERO);
        let hour = Duration::from_secs(3600);
        let left = time_left(Time::from_unix(Time::now().unix() + 3600));
        assert!(left <= hour && left > hour - Duration::from_secs(10), "{left:?}");
    }
}
