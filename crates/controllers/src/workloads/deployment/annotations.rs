//! The annotations that a deployment and its replica sets have in common, and those that say which revision a
//! replica set is and how large its deployment was.

use super::set::Set;
use crate::objects::{annotate, annotation};
use kinds::object_meta;
use object::{Map, Value};

pub(super) const REVISION: &str = "deployment.kubernetes.io/revision";
const REVISION_HISTORY: &str = "deployment.kubernetes.io/revision-history";
/// The size of the deployment when the replica set was scaled.
pub(super) const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";
/// The most pods that the deployment could have then.
pub(super) const MAXIMUM: &str = "deployment.kubernetes.io/max-replicas";
pub(super) const ROLLBACK_TO: &str = "deprecated.deployment.rollback.to";
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// The most bytes of the annotation with the earlier revisions.
const LONGEST_HISTORY: usize = 2000;

/// Whether an annotation belongs to one object, and is not copied.
fn is_own(key: &str) -> bool {
    [LAST_APPLIED, REVISION, REVISION_HISTORY, DESIRED, MAXIMUM, ROLLBACK_TO].contains(&key)
}

/// The annotations of an object.
fn all(object: &Map) -> impl Iterator<Item = (&str, &str)> {
    let annotations = object_meta::metadata(object).and_then(|metadata| metadata.get("annotations"));
    let annotations = annotations.and_then(Value::as_map).into_iter().flat_map(Map::iter);
    annotations.map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default()))
}

/// Sets an annotation; true if it changes.
pub(super) fn set(object: &mut Map, key: &str, value: &str) -> bool {
    let is_there = all(object).any(|known| known == (key, value));
    if !is_there {
        annotate(object, key, value);
    }
    !is_there
}

/// A number of an annotation of a replica set, from zero on. `None` if it has none.
pub(super) fn count(set: &Set, key: &str) -> Option<i64> {
    annotation(&set.object, key).parse::<i32>().ok().filter(|count| *count >= 0).map(i64::from)
}

/// Sets the annotations with the size of the deployment; true if one changes.
pub(super) fn set_sizes(set_object: &mut Map, desired: i64, maximum: i64) -> bool {
    let desired = set(set_object, DESIRED, &desired.to_string());
    set(set_object, MAXIMUM, &maximum.to_string()) | desired
}

/// Gives a replica set the annotations of its deployment, and a revision if it has a smaller one; true if an
/// annotation changes.
pub(super) fn follow_deployment(set_object: &mut Map, deployment: &Map, revision: i64) -> bool {
    let mut is_changed = false;
    for (key, value) in all(deployment).filter(|(key, _)| !is_own(key)) {
        is_changed |= set(set_object, key, value);
    }
    let known = annotation(set_object, REVISION).to_owned();
    let known_number: i64 = match known.as_str() {
        "" => 0,
        text => match text.parse() {
            Ok(number) => number,
            Err(_) => return false,
        },
    };
    if known_number >= revision {
        return is_changed;
    }
    set(set_object, REVISION, &revision.to_string());
    if !known.is_empty() {
        // The deployment has come back to an earlier template.
        let history = annotation(set_object, REVISION_HISTORY);
        if let Some(history) = longer_history(history, &known) {
            set(set_object, REVISION_HISTORY, &history);
        }
    }
    true
}

/// The earlier revisions with one more; the first ones are left out where that becomes too long. `None` if
/// there is no room for one more at all.
fn longer_history(history: &str, revision: &str) -> Option<String> {
    if history.is_empty() {
        return Some(revision.to_owned());
    }
    let mut revisions: Vec<_> = history.split(',').collect();
    let mut length = history.len() + revision.len() + 1;
    let mut dropped = 0;
    while length > LONGEST_HISTORY
        && let Some(first) = revisions.get(dropped)
    {
        length -= first.len() + 1;
        dropped += 1;
    }
    if length > LONGEST_HISTORY {
        return None;
    }
    revisions.drain(..dropped);
    revisions.push(revision);
    Some(revisions.join(","))
}

/// Gives a deployment the annotations of a replica set that it goes back to.
pub(super) fn follow_set(deployment: &mut Map, set: &Set) {
    let own = all(deployment).filter(|(key, _)| is_own(key));
    let others = all(&set.object).filter(|(key, _)| !is_own(key));
    let annotations: Map =
        own.chain(others).map(|(key, value)| (key.to_owned(), Value::from(value))).collect();
    let metadata = deployment.get_or_insert_with("metadata", || Map::new().into());
    if let Some(metadata) = metadata.as_map_mut() {
        metadata.insert("annotations", annotations);
    }
}

/// Removes an annotation.
pub(super) fn remove(object: &mut Map, key: &str) {
    let metadata = object.get_mut("metadata").and_then(Value::as_map_mut);
    let annotations = metadata.and_then(|metadata| metadata.get_mut("annotations"));
    if let Some(annotations) = annotations.and_then(Value::as_map_mut) {
        annotations.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn history_of_revisions_drops_its_first_ones_when_it_is_too_long() {
        assert_eq!(longer_history("", "1").unwrap(), "1");
        assert_eq!(longer_history("1,3", "5").unwrap(), "1,3,5");
        let long = vec!["1234"; 400].join(",");
        assert_eq!(long.len(), 1999);
        let longer = longer_history(&long, "77").unwrap();
        assert!(longer.len() <= LONGEST_HISTORY && longer.ends_with(",1234,77"), "{}", longer.len());
        assert_eq!(longer.split(',').count(), 400);
        assert_eq!(longer_history("1", &"9".repeat(2001)), None);
    }

    #[test]
    fn replica_set_takes_annotations_and_larger_revisions() {
        let object = |annotations: &[(&'static str, &str)]| {
            let mut object = Map::new();
            annotations.iter().for_each(|(key, value)| annotate(&mut object, key, value));
            object
        };
        let deployment = object(&[("team", "a"), (REVISION, "9"), (LAST_APPLIED, "{}")]);
        let mut new = Map::new();
        assert!(follow_deployment(&mut new, &deployment, 1));
        assert_eq!(new, object(&[("team", "a"), (REVISION, "1")]));
        assert!(!follow_deployment(&mut new, &deployment, 1));
        assert!(follow_deployment(&mut new, &deployment, 3));
        assert_eq!((annotation(&new, REVISION), annotation(&new, REVISION_HISTORY)), ("3", "1"));
        assert!(!follow_deployment(&mut new, &deployment, 2), "revisions never become smaller");
        let mut odd = object(&[(REVISION, "x")]);
        assert!(!follow_deployment(&mut odd, &deployment, 2));
        assert_eq!(annotation(&odd, REVISION), "x");
    }
}
