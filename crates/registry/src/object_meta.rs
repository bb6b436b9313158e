//! The fields of `ObjectMeta` that the server sets. Their validation is in `kinds::object_meta`.

use object::time::Time;
use object::{Map, Value};
use schema::Status;
use std::collections::HashSet;

pub(crate) use kinds::object_meta::{
    FOREGROUND, ORPHAN, finalizers, is_deleting, list_of_strings, metadata, number, text,
};

/// The metadata of an object; an empty one is inserted if it is missing.
pub(crate) fn metadata_mut(object: &mut Map) -> Option<&mut Map> {
    object.get_or_insert_with("metadata", || Map::new().into()).as_map_mut()
}

/// Sets a field of the metadata.
pub(crate) fn set(object: &mut Map, key: &'static str, value: impl Into<Value>) {
    if let Some(metadata) = metadata_mut(object) {
        metadata.insert(key, value);
    }
}

/// Removes fields of the metadata.
pub(crate) fn remove(object: &mut Map, keys: &[&str]) {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_map_mut) {
        metadata.retain(|key, _| !keys.contains(&key.as_str()));
    }
}

/// Removes the fields that only the server sets.
pub(crate) fn wipe_system_fields(object: &mut Map) {
    remove(
        object,
        &["creationTimestamp", "uid", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"],
    );
}

/// Sets the creation time and the uid of a new object.
pub(crate) fn fill_system_fields(object: &mut Map, now: Time) {
    set(object, "creationTimestamp", now.text());
    set(object, "uid", object::name::random_uid());
}

/// Generates a name: the prefix, cut to 58 bytes, and five random characters.
pub(crate) fn generate_name(prefix: &str) -> String {
    const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let mut end = prefix.len().min(58);
    while !prefix.is_char_boundary(end) {
        end -= 1;
    }
    let mut made = prefix.get(..end).unwrap_or_default().to_owned();
    made.extend(
        (0..5).map(|_| char::from(ALPHABET.get(fastrand::usize(..ALPHABET.len())).copied().unwrap_or(b'x'))),
    );
    made
}

/// Sets the namespace of an object to that of the request; 400 if the object has another one.
pub(crate) fn fit_namespace(object: &mut Map, requested: &str) -> Result<(), Status> {
    let own = text(object, "namespace");
    if own == requested {
        return Ok(());
    }
    if requested.is_empty() {
        remove(object, &["namespace"]);
    } else if own.is_empty() {
        set(object, "namespace", requested);
    } else {
        let why = "the namespace of the provided object does not match the namespace sent on the request";
        return Err(Status::bad_request(why));
    }
    Ok(())
}

/// The moment of a check of owner references, for its warning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// On the body of the request.
    BeforeAdmission,
    /// On the result of mutating admission.
    AfterAdmission,
}

/// Drops repeated owner references; returns the warning for them, if there were any.
pub(crate) fn dedup_owners(object: &mut Map, stage: Stage) -> Option<String> {
    let owners = metadata(object)?.get("ownerReferences")?.as_list()?;
    let mut seen = HashSet::with_capacity(owners.len());
    let mut kept: Vec<Value> = Vec::with_capacity(owners.len());
    let mut dropped = Vec::new();
    for owner in owners {
        if seen.insert(OwnerReference::of(owner)) {
            kept.push(owner.clone());
        } else {
            dropped.push(owner.get("uid").and_then(Value::as_str).unwrap_or_default());
        }
    }
    if dropped.is_empty() {
        return None;
    }
    let dropped = dropped.join(", ");
    set(object, "ownerReferences", kept);
    let when = match stage {
        Stage::BeforeAdmission => "",
        Stage::AfterAdmission => " after mutating admission happens",
    };
    Some(format!(
        ".metadata.ownerReferences contains duplicate entries{when}; API server dedups owner references in 1.20+, and may reject \
         such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {dropped}"
    ))
}

/// All fields of an owner reference.
#[derive(PartialEq, Eq, Hash)]
struct OwnerReference<'a> {
    texts: [Option<&'a str>; 4],
    flags: [Option<bool>; 2],
}

impl<'a> OwnerReference<'a> {
    fn of(owner: &'a Value) -> Self {
        Self {
            texts: ["apiVersion", "kind", "name", "uid"].map(|key| owner.get(key).and_then(Value::as_str)),
            flags: ["controller", "blockOwnerDeletion"].map(|key| owner.get(key).and_then(Value::as_bool)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_generated_name_has_five_more_characters_and_fits_a_label() {
        let short = generate_name("web-");
        assert!(short.starts_with("web-") && short.len() == 9, "{short}");
        let long = generate_name(&"x".repeat(80));
        assert_eq!(long.len(), 63);
        assert_eq!(generate_name(&"é".repeat(40)).chars().count(), 29 + 5);
    }

    #[test]
    fn repeated_owners_are_dropped_and_named() {
        let owner = |uid: &str, controller: Option<bool>| {
            let mut owner: Map = [("kind", "Pod"), ("name", "p"), ("uid", uid)].into_iter().collect();
            if let Some(controller) = controller {
                owner.insert("controller", controller);
            }
            Value::from(owner)
        };
        let all =
            [owner("a", None), owner("b", None), owner("a", None), owner("a", Some(true)), owner("b", None)];
        let mut object = Map::new();
        set(&mut object, "ownerReferences", all.to_vec());
        let warning = dedup_owners(&mut object, Stage::BeforeAdmission).unwrap();
        assert!(warning.ends_with("duplicate UID(s) observed: a, b"), "{warning}");
        let left = metadata(&object).unwrap().get("ownerReferences").unwrap().as_list().unwrap();
        assert_eq!(left, [owner("a", None), owner("b", None), owner("a", Some(true))]);
        assert_eq!(dedup_owners(&mut object, Stage::BeforeAdmission), None);
    }

    #[test]
    fn an_objects_namespace_is_that_of_the_request() {
        let mut object = Map::new();
        fit_namespace(&mut object, "a").unwrap();
        assert_eq!(text(&object, "namespace"), "a");
        assert_eq!(fit_namespace(&mut object, "b").unwrap_err().code, 400);
        fit_namespace(&mut object, "").unwrap();
        assert_eq!(text(&object, "namespace"), "");
    }
}
