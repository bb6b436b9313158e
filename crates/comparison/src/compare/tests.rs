use serde_json::json;

use super::*;

fn paths(wanted: &Value, got: &Value) -> Vec<String> {
    differences(wanted, got).into_iter().map(|difference| difference.path).collect()
}

#[test]
fn every_difference_has_its_path() {
    let wanted = json!({"status": 200, "body": {"items": [{"a": 1}, {"b": 2}], "gone": null, "same": 1.0}});
    let got = json!({"status": 201, "body": {"items": [{"a": 2}], "new": null, "same": 1}});
    assert_eq!(paths(&wanted, &got), ["body.gone", "body.items[]", "body.items[0].a", "body.new", "status"]);
    assert!(paths(&wanted, &wanted).is_empty());
}

#[test]
fn null_and_absent_are_not_the_same() {
    let found = differences(&json!({"a": null}), &json!({}));
    assert_eq!(found, [Difference { path: "a".into(), wanted: Some(Value::Null), got: None }]);
    assert_eq!(found[0].to_string(), "a\n  wanted null\n  got    <absent>");
}

#[test]
fn differences_in_messages_are_wording() {
    let severity = |path: &str| Difference { path: path.into(), wanted: None, got: None }.severity();
    for path in
        ["body.message", "body.details.causes[0].message", "headers.warning[]", "headers.content-type"]
    {
        assert_eq!(severity(path), Severity::Wording, "{path}");
    }
    for path in ["body.reason", "status", "body", "events[0].object.message.x"] {
        assert_eq!(severity(path), Severity::Substance, "{path}");
    }
}

#[test]
fn values_are_found_by_path() {
    let value = json!({"a": [{"b.c": 1}], "d": {"x.y": 2}});
    assert_eq!(find(&value, "a.0.b~c"), Some(&json!(1)));
    assert_eq!(find(&value, "d.x~y"), Some(&json!(2)));
    for path in ["a.1", "a.x", "d.x.y", "a.0.b~c.e"] {
        assert_eq!(find(&value, path), None, "{path}");
    }
}

#[test]
fn ignored_paths_are_removed_and_indexes_stay() {
    let mut value =
        json!({"items": [{"m": {"x.y": 1, "z": 2}}, {"m": {"x.y": 3}}], "list": [1, 2], "keep": 1});
    for path in ["items.*.m.x~y", "list.0", "list.7", "none.a", "keep.a"] {
        leave_out(&mut value, path);
    }
    assert_eq!(value, json!({"items": [{"m": {"z": 2}}, {"m": {}}], "list": [null, 2], "keep": 1}));
}
