//! Conditions of a status: one for each type, with the time of its last transition.

use object::time::Time;
use object::{Map, Value};

/// Sets a condition, and replaces the one of the same type. `lastTransitionTime` is kept if the condition's
/// status has not changed.
pub fn set(status: &mut Map, mut condition: Map) {
    let list = status.get("conditions").and_then(Value::as_list);
    let mut conditions = list.map(<[Value]>::to_vec).unwrap_or_default();
    let same = |before: &Value, key: &str| before.get(key) == condition.get(key);
    let before = conditions.iter_mut().find(|before| same(before, "type"));
    let since = before.as_ref().filter(|before| same(before, "status"));
    let since = since.and_then(|before| before.get("lastTransitionTime").cloned());
    condition.insert("lastTransitionTime", since.unwrap_or_else(|| Time::now().text().into()));
    match before {
        Some(before) => *before = condition.into(),
        None => conditions.push(condition.into()),
    }
    status.insert("conditions", conditions);
}

/// Whether the condition of this type exists with the status `True`.
pub(crate) fn is_true(status: &Map, kind: &str) -> bool {
    let conditions = status.get("conditions").and_then(Value::as_list).unwrap_or_default();
    let is =
        |condition: &Value, key: &str, text: &str| condition.get(key).and_then(Value::as_str) == Some(text);
    conditions.iter().any(|condition| is(condition, "type", kind) && is(condition, "status", "True"))
}
