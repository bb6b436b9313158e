//! Conditions in the status of workloads.

use object::time::Time;
use object::{Map, Value};

/// A condition, with the fields that all kinds of workloads have.
pub(crate) fn condition(kind: &str, status: &str, reason: &str, message: &str, now: Time) -> Map {
    let mut condition = Map::new();
    condition.insert("type", kind);
    condition.insert("status", status);
    condition.insert("lastTransitionTime", now.text());
    condition.insert("reason", reason);
    condition.insert("message", message);
    condition
}

/// The conditions of a status.
pub(crate) fn conditions(status: &Map) -> &[Value] {
    status.get("conditions").and_then(Value::as_list).unwrap_or_default()
}

/// The condition of a status with a type.
pub(crate) fn find<'a>(status: &'a Map, kind: &str) -> Option<&'a Map> {
    conditions(status).iter().filter_map(Value::as_map).find(|condition| text(condition, "type") == kind)
}

/// The text of a field; empty if it is absent.
pub(crate) fn text<'a>(map: &'a Map, field: &str) -> &'a str {
    map.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// The number in a field; zero if it is absent.
pub(crate) fn number(map: &Map, field: &str) -> i64 {
    map.get(field).and_then(Value::as_i64).unwrap_or_default()
}

/// Sets a condition, unless the one that is there has the same status and reason. A condition whose status
/// stays as it was keeps its `lastTransitionTime`. The condition becomes the last one.
pub(crate) fn set(status: &mut Map, mut condition: Map) {
    if let Some(known) = find(status, text(&condition, "type"))
        && text(known, "status") == text(&condition, "status")
    {
        if text(known, "reason") == text(&condition, "reason") {
            return;
        }
        let since = known.get("lastTransitionTime").cloned().unwrap_or_default();
        condition.insert("lastTransitionTime", since);
    }
    put(status, condition);
}

/// Sets a condition, whatever is there. The condition becomes the last one.
pub(crate) fn put(status: &mut Map, condition: Map) {
    remove(status, text(&condition, "type"));
    let list = status.get_or_insert_with("conditions", || Vec::<Value>::new().into());
    match list.as_list_mut() {
        Some(list) => list.push(condition.into()),
        None => *list = vec![Value::from(condition)].into(),
    }
}

/// Removes a condition.
pub(crate) fn remove(status: &mut Map, kind: &str) {
    let Some(list) = status.get_mut("conditions").and_then(Value::as_list_mut) else { return };
    let is_it =
        |condition: &Value| condition.as_map().is_some_and(|condition| text(condition, "type") == kind);
    if list.iter().any(is_it) {
        list.retain(|condition| !is_it(condition));
    }
    if list.is_empty() {
        status.remove("conditions");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_change_with_status_or_reason_and_keep_the_time_of_their_status() {
        let (early, late) = (Time::from_unix(1_000), Time::from_unix(2_000));
        let mut status = Map::new();
        set(&mut status, condition("A", "True", "R", "m", early));
        set(&mut status, condition("B", "True", "R", "m", early));
        set(&mut status, condition("A", "True", "R", "other", late));
        assert_eq!(text(find(&status, "A").unwrap(), "message"), "m");
        set(&mut status, condition("A", "True", "S", "other", late));
        let changed = find(&status, "A").unwrap();
        assert_eq!(text(changed, "message"), "other");
        assert_eq!(text(changed, "lastTransitionTime"), early.text().as_str());
        set(&mut status, condition("A", "False", "S", "other", late));
        assert_eq!(text(find(&status, "A").unwrap(), "lastTransitionTime"), late.text().as_str());
        let order: Vec<_> =
            conditions(&status).iter().map(|one| text(one.as_map().unwrap(), "type")).collect();
        assert_eq!(order, ["B", "A"]);
        remove(&mut status, "A");
        remove(&mut status, "B");
        assert_eq!(status, Map::new());
    }
}
