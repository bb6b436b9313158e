//! What the reference says of custom resources and formats, one case per line.
//!
//! `reference/custom.txt`: a schema with objects, old and new, and the errors of a create, an update (where
//! they differ) and an update of the status: reason, path and message, sorted, because the reference walks
//! maps in any order. `reference/formats.txt`: texts with the formats that they have.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "this is test code")]

use object::{Map, Value, field};
use schema::structural::Structural;
use schema::view::View;
use schema::{Limits, builtin, json};
use serde_json::json;
use std::sync::Arc;

fn object(value: &serde_json::Value) -> Map {
    let text = value.to_string();
    let decoded = json::decode_shape(&schema::Shape::Any, text.as_bytes(), &Limits::STORED).expect("JSON");
    decoded.value.as_map().expect("an object").clone()
}

fn compile(source: &serde_json::Value) -> Arc<Structural> {
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "spec": {"versions": [{"name": "v1", "schema": {"openAPIV3Schema": source}}]},
    });
    let ty = builtin::by_kind("apiextensions.k8s.io", "v1", "CustomResourceDefinition").expect("the type");
    let definition =
        json::decode(ty, definition.to_string().as_bytes(), &Limits::STORED).expect("a definition").value;
    let view = schema::views::apiextensions::v1::CustomResourceDefinition::of(
        definition.as_map().expect("an object"),
    );
    let version = view.spec().versions().iter().next().expect("a version");
    let source = version.schema().and_then(|schema| schema.open_apiv3_schema()).expect("a schema");
    Structural::compile(source).expect("it compiles")
}

fn shown(errors: &field::List) -> serde_json::Value {
    let mut errors: Vec<_> = errors
        .iter()
        .map(|error| [error.kind.reason().to_owned(), error.path.clone(), error.body()])
        .collect();
    errors.sort();
    json!(errors)
}

#[test]
fn validation_matches_the_reference() {
    let (mut cases, mut wrong) = (0, vec![]);
    for line in include_str!("reference/custom.txt").lines() {
        let line: serde_json::Value = serde_json::from_str(line).expect("a line");
        let structural = compile(&line["schema"]);
        for case in line["cases"].as_array().expect("cases") {
            let (new, old) = (object(&case["new"]), object(&case["old"]));
            let expected = &case["errors"];
            let update = expected.get("update").unwrap_or(&expected["create"]);
            let status = expected.get("status").cloned().unwrap_or(json!([]));
            for (what, expected, found) in [
                ("create", &expected["create"], structural.validate(&new, None)),
                ("update", update, structural.validate(&new, Some(&old))),
                ("status", &status, structural.validate_status(&new, &old)),
            ] {
                cases += 1;
                let found = shown(&found);
                if found != *expected {
                    wrong.push(format!(
                        "{what} {}\n{case}\n  expected {expected}\n  found    {found}",
                        line["schema"]
                    ));
                }
            }
        }
    }
    assert!(cases > 4_000, "{cases}");
    assert!(
        wrong.is_empty(),
        "{} of {cases} differ:\n{}",
        wrong.len(),
        wrong[..wrong.len().min(5)].join("\n")
    );
}

/// The errors of a field with one rule.
fn of_text(rule: serde_json::Value, text: &str) -> field::List {
    let mut rule = rule;
    rule["type"] = json!("string");
    let structural = compile(&json!({"type": "object", "properties": {"a": rule}}));
    structural.validate(&Map::from_iter([("a", Value::from(text))]), None)
}

#[test]
fn formats_match_the_reference() {
    const FORMATS: [&str; 24] = [
        "bsonobjectid",
        "uri",
        "email",
        "hostname",
        "ipv4",
        "ipv6",
        "cidr",
        "mac",
        "uuid",
        "uuid3",
        "uuid4",
        "uuid5",
        "isbn",
        "isbn10",
        "isbn13",
        "creditcard",
        "ssn",
        "hexcolor",
        "rgbcolor",
        "byte",
        "password",
        "date",
        "duration",
        "datetime",
    ];
    let mut wrong = vec![];
    for line in include_str!("reference/formats.txt").lines() {
        let line: serde_json::Value = serde_json::from_str(line).expect("a line");
        let text = line["text"].as_str().expect("a text");
        for format in FORMATS {
            let expected = line["formats"].as_array().expect("formats").contains(&json!(format));
            if of_text(json!({ "format": format }), text).is_empty() != expected {
                wrong.push(format!("{text:?} {format}: {expected}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn hostile_objects_are_checked_in_bounded_time_and_space() {
    let text = |count: usize, item: &str| vec![item; count].join(",");
    let list = compile(
        &json!({"type": "object", "properties": {"a": {"type": "array", "items": {"type": "integer", "maximum": 3,
        "anyOf": [{"minimum": 9}, {"enum": [1, 2]}]}}}}),
    );
    let wide = compile(
        &json!({"type": "object", "required": ["z"], "additionalProperties": {"type": "string", "maxLength": 1}}),
    );
    let numbers = object(&serde_json::from_str(&format!(r#"{{"a":[{}]}}"#, text(200_000, "7"))).unwrap());
    let keys: Vec<_> =
        (0..100_000).map(|at| (object::Key::from(at.to_string()), Value::from("long"))).collect();
    let keys = Map::from_distinct(keys);
    let start = std::time::Instant::now();
    for (structural, object) in [(list, numbers), (wide, keys)] {
        let errors = structural.validate(&object, None);
        assert!(errors.len() <= field::MOST_ERRORS && errors.left_out() > 10_000, "{}", errors.left_out());
        assert!(structural.validate(&object, Some(&object)).len() <= field::MOST_ERRORS);
    }
    assert!(start.elapsed() < std::time::Duration::from_secs(60), "{:?}", start.elapsed());
}

#[test]
fn deep_schemas_are_checked_on_a_small_stack() {
    let mut schema = json!({"type": "string"});
    let mut value = json!(1);
    for _ in 0..200 {
        schema = json!({"type": "object", "properties": {"a": schema}});
        value = json!({ "a": value });
    }
    let (structural, new) = (compile(&schema), object(&value));
    let errors = std::thread::spawn(move || structural.validate(&new, Some(&Map::new()))).join().unwrap();
    assert_eq!(errors.len(), 1);
}
