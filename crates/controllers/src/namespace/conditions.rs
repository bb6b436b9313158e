//! What the conditions of a namespace say about its deletion.

use super::content::Left;
use object::time::Time;
use object::{Map, Value};
use schema::view::View as _;
use schema::views::core::v1::{Namespace, NamespaceCondition};

/// A condition of a namespace while nothing is wrong.
struct Condition {
    kind: &'static str,
    reason: &'static str,
    message: &'static str,
}

const DISCOVERY_FAILURE: &str = "NamespaceDeletionDiscoveryFailure";
const CONTENT_FAILURE: &str = "NamespaceDeletionContentFailure";
const CONTENT_REMAINING: &str = "NamespaceContentRemaining";
const FINALIZERS_REMAINING: &str = "NamespaceFinalizersRemaining";

/// The conditions, in the order in which they are added. The second one is about names that cannot be
/// malformed here.
const CONDITIONS: [Condition; 5] = [
    Condition {
        kind: DISCOVERY_FAILURE,
        reason: "ResourcesDiscovered",
        message: "All resources successfully discovered",
    },
    Condition {
        kind: "NamespaceDeletionGroupVersionParsingFailure",
        reason: "ParsedGroupVersions",
        message: "All legacy kube types successfully parsed",
    },
    Condition {
        kind: CONTENT_FAILURE,
        reason: "ContentDeleted",
        message: "All content successfully deleted, may be waiting on finalization",
    },
    Condition {
        kind: CONTENT_REMAINING,
        reason: "ContentRemoved",
        message: "All content successfully removed",
    },
    Condition {
        kind: FINALIZERS_REMAINING,
        reason: "ContentHasNoFinalizers",
        message: "All content-preserving finalizers finished",
    },
];

/// What the conditions of a namespace say, without their times.
pub(super) fn texts(namespace: &Map) -> Vec<String> {
    let conditions = Namespace::of(namespace).status().conditions();
    let text = |of: NamespaceCondition<'_>| [of.r#type(), of.status(), of.reason(), of.message()].join("\n");
    conditions.iter().map(text).collect()
}

/// Writes what is left of a namespace into its status. False if that is there already.
pub(super) fn update(status: &mut Map, left: &Left) -> bool {
    let mut is_changed = false;
    for condition in &CONDITIONS {
        let (status_value, reason, message) = match problem(condition.kind, left) {
            Some((reason, message)) => ("True", reason, message),
            None => ("False", condition.reason, condition.message.to_owned()),
        };
        is_changed |= set(status, condition.kind, status_value, reason, &message);
    }
    is_changed
}

/// The reason and the message of a condition that is true.
fn problem(kind: &str, left: &Left) -> Option<(&'static str, String)> {
    match kind {
        DISCOVERY_FAILURE => {
            let (number, failure) = (left.remote_types.stale.len(), left.remote_types.failure()?);
            let message = format!("Discovery failed for some groups, {number} failing: {failure}");
            Some(("DiscoveryFailed", message))
        }
        CONTENT_FAILURE if !left.errors.is_empty() => {
            let (number, errors) = (left.errors.len(), sorted(left.errors.iter().cloned()));
            let message = format!("Failed to delete all resource types, {number} remaining: {errors}");
            Some(("ContentDeletionFailed", message))
        }
        CONTENT_REMAINING => {
            let types = sorted(
                left.counts()
                    .map(|(name, group, number)| format!("{name}.{group} has {number} resource instances")),
            );
            let message = format!("Some resources are remaining: {types}");
            (!types.is_empty()).then_some(("SomeResourcesRemain", message))
        }
        FINALIZERS_REMAINING => {
            let finalizers = left.finalizers();
            let finalizers = sorted(
                finalizers.into_iter().map(|(name, number)| format!("{name} in {number} resource instances")),
            );
            let message = format!("Some content in the namespace has finalizers remaining: {finalizers}");
            (!finalizers.is_empty()).then_some(("SomeFinalizersRemain", message))
        }
        _ => None,
    }
}

fn sorted(texts: impl Iterator<Item = String>) -> String {
    let mut texts: Vec<String> = texts.collect();
    texts.sort_unstable();
    texts.join(", ")
}

/// Sets one condition. Its time changes with its status alone.
fn set(status: &mut Map, kind: &str, value: &str, reason: &str, message: &str) -> bool {
    let conditions = status.get_or_insert_with("conditions", || Vec::new().into());
    let Some(conditions) = conditions.as_list_mut() else { return false };
    let is_same = |condition: &Value, key: &str, value: &str| {
        condition.get(key).and_then(Value::as_str).unwrap_or_default() == value
    };
    let found = conditions.iter_mut().find(|condition| is_same(condition, "type", kind));
    let fields = [("status", value), ("reason", reason), ("message", message)];
    let Some(condition) = found else {
        let mut condition = Map::from_iter([("type", kind)]);
        fields.into_iter().for_each(|(key, value)| drop(condition.insert(key, value)));
        condition.insert("lastTransitionTime", Time::now().text());
        conditions.push(condition.into());
        return true;
    };
    if fields.iter().all(|(key, value)| is_same(condition, key, value)) {
        return false;
    }
    let is_transition = !is_same(condition, "status", value);
    let Some(condition) = condition.as_map_mut() else { return false };
    fields.into_iter().for_each(|(key, value)| drop(condition.insert(key, value)));
    if is_transition {
        condition.insert("lastTransitionTime", Time::now().text());
    }
    true
}
