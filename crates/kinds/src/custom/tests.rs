//! Tests of custom kinds.

use super::*;
use crate::{Caller, Gates, ResourceType};
use schema::view::View;
use schema::views::apiextensions::v1::JSONSchemaProps;
use schema::{Builder, GroupVersionKind, Limits, Shape, json};

const CONTEXT: Context<'static> = Context {
    now: "2030-01-02T03:04:05Z",
    caller: Caller { name: "", uid: "", groups: &[], extra: &[] },
    gates: Gates::DEFAULT,
};

const SCHEMA: &str = r#"{"type":"object","properties":{
    "spec":{"type":"object","properties":{"replicas":{"x-kubernetes-preserve-unknown-fields":true},"size":{"type":"integer","maximum":3},
        "tags":{"type":"array","x-kubernetes-list-type":"set","items":{"type":"string"}}}},
    "status":{"type":"object","properties":{"replicas":{"type":"integer"},"selector":{"x-kubernetes-preserve-unknown-fields":true}}}}}"#;

fn tree(text: &str) -> Map {
    let decoded = json::decode_shape(&Shape::Any, text.as_bytes(), &Limits::default()).unwrap();
    decoded.value.as_map().unwrap().clone()
}

fn thing(rest: &str) -> Map {
    tree(&format!(
        r#"{{"apiVersion":"x.io/v1","kind":"Thing","metadata":{{"name":"a","namespace":"n","uid":"u","resourceVersion":"1"}}{rest}}}"#
    ))
}

fn with<T>(has_status: bool, check: impl FnOnce(&CustomStrategy, &Rules<'_>) -> T) -> T {
    let text = |path: &[&str]| path.iter().copied().map(Text::from).collect();
    let scale = ScalePaths {
        spec_replicas: text(&["spec", "replicas"]),
        status_replicas: text(&["status", "replicas"]),
        selector: text(&["status", "selector"]),
        are_open: true,
    };
    let source =
        json::decode(JSONSchemaProps::schema(), SCHEMA.as_bytes(), &Limits::default()).unwrap().value;
    let schema = Structural::compile(JSONSchemaProps::of(source.as_map().unwrap())).unwrap();
    let strategy = CustomStrategy::new(schema, has_status, Some(Ref::Shared(Arc::new(scale))));
    let kind = GroupVersionKind { group: "x.io".into(), version: "v1".into(), kind: "Thing".into() };
    let ty = Builder::new("io.x.v1.Thing").kind(kind.clone()).object().build();
    let served = ResourceType::custom(&kind, "things", Scope::Namespaced, ty);
    check(&strategy, &Rules::new(&served, &served.ty))
}

fn texts(errors: &field::List) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

fn create(rest: &str) -> Vec<String> {
    with(true, |strategy, rules| texts(&strategy.validate_create(&thing(rest), rules)))
}

#[test]
fn status_is_written_apart_only_with_its_subresource() {
    let (full, other) =
        (r#","spec":{"size":1},"status":{"replicas":1}"#, r#","spec":{"size":2},"status":{"replicas":2}"#);
    with(true, |strategy, _| {
        let mut new = thing(full);
        strategy.prepare_create(&mut new, &CONTEXT);
        assert_eq!(new, thing(r#","spec":{"size":1}"#));
        let mut new = thing(other);
        strategy.prepare_update(&mut new, &thing(full), &CONTEXT);
        assert_eq!(new, thing(r#","spec":{"size":2},"status":{"replicas":1}"#));
        assert!(strategy.bumps_generation(&new, &thing(full)));
        let mut new = thing(other);
        strategy.prepare_update(&mut new, &thing(r#","spec":{"size":2}"#), &CONTEXT);
        assert!(!new.contains_key("status"));
    });
    with(false, |strategy, _| {
        let mut new = thing(full);
        strategy.prepare_create(&mut new, &CONTEXT);
        assert_eq!(new, thing(full));
        strategy.prepare_update(&mut new, &thing(other), &CONTEXT);
        assert_eq!(new, thing(full));
        assert!(strategy.bumps_generation(&thing(r#","status":{"a":1}"#), &thing("")));
    });
}

#[test]
fn status_updates_change_the_status_and_managed_fields_alone() {
    with(true, |strategy, _| {
        let old = thing(r#","spec":{"size":1}"#);
        let mut new = thing(r#","spec":{"size":2},"status":{"replicas":2},"more":1"#);
        let metadata = map_at(&mut new, "metadata").unwrap();
        metadata.insert("labels", tree(r#"{"a":"b"}"#));
        metadata.insert("managedFields", Value::from_iter([Value::from("m")]));
        strategy.prepare_status(&mut new, &old, &CONTEXT);
        let mut expected = thing(r#","spec":{"size":1},"status":{"replicas":2}"#);
        map_at(&mut expected, "metadata")
            .unwrap()
            .insert("managedFields", Value::from_iter([Value::from("m")]));
        assert_eq!(new, expected);
    });
}

#[test]
fn scale_fields_are_numbers_of_replicas_and_a_selector() {
    let none: Vec<String> = Vec::new();
    assert_eq!(create(r#","spec":{"replicas":3},"status":{"selector":"a=b"}"#), none);
    assert_eq!(create(r#","spec":{}"#), none);
    assert_eq!(
        create(r#","spec":{"replicas":-1},"status":{"replicas":2147483648,"selector":{"a":"b"}}"#),
        [
            ".spec.replicas: Invalid value: -1: should be a non-negative integer",
            ".status.replicas: Invalid value: 2147483648: should be less than or equal to 2147483647",
            r#".status.selector: Invalid value: "": .status.selector accessor error: map[a:b] is of the type map[string]interface {}, expected string"#,
        ]
    );
    assert_eq!(
        create(r#","spec":{"replicas":1.5}"#),
        [
            ".spec.replicas: Invalid value: 0: .spec.replicas accessor error: 1.5 is of the type float64, expected int64"
        ]
    );
    assert_eq!(
        create(r#","spec":7"#),
        [
            r#"spec: Invalid value: "integer": spec in body must be of type object: "integer""#,
            ".spec.replicas: Invalid value: 0: .spec.replicas accessor error: 7 is of the type int64, expected map[string]interface{}",
        ]
    );
}

#[test]
fn the_kind_is_that_of_the_request() {
    with(true, |strategy, rules| {
        let object = tree(r#"{"apiVersion":"x.io/v2","kind":"Other","spec":{"size":9}}"#);
        assert_eq!(
            texts(&strategy.validate_create(&object, rules)),
            [
                r#"kind: Invalid value: "Other": must be Thing"#,
                r#"apiVersion: Invalid value: "x.io/v2": must be x.io/v1"#,
            ]
        );
    });
}

#[test]
fn what_was_wrong_before_may_stay() {
    with(true, |strategy, rules| {
        let update = |new: &str, old: &str| texts(&strategy.validate_update(&thing(new), &thing(old), rules));
        let none: Vec<String> = Vec::new();
        let old = r#","spec":{"size":9,"tags":["a","a"]}"#;
        assert_eq!(update(r#","spec":{"size":9,"tags":["b","b"]}"#, old), none);
        assert_eq!(
            update(r#","spec":{"size":8,"tags":["b","b"]}"#, r#","spec":{"size":9}"#),
            [
                "spec.size: Invalid value: 8: spec.size in body should be less than or equal to 3",
                r#"spec.tags[1]: Duplicate value: "b""#,
            ]
        );
        let status = |new: &str, old: &str| texts(&strategy.validate_status(&thing(new), &thing(old), rules));
        assert_eq!(status(r#","spec":{"size":9},"status":{}"#, r#","spec":{"size":9}"#), none);
        assert_eq!(
            status(r#","status":{"replicas":"x"}"#, ""),
            [
                r#"status.replicas: Invalid value: "string": replicas in body must be of type integer: "string""#,
                r#".status.replicas: Invalid value: 0: .status.replicas accessor error: x is of the type string, expected int64"#,
            ]
        );
    });
}

#[test]
fn new_finalizers_without_a_domain_get_warnings() {
    with(true, |strategy, _| {
        let object = |finalizers: &[&str]| {
            let mut object = thing("");
            let list: Value = finalizers.iter().copied().collect();
            map_at(&mut object, "metadata").unwrap().insert("finalizers", list);
            object
        };
        let new = object(&["orphan", "x.io/a", "b.c", "b", "old"]);
        assert_eq!(
            strategy.warnings(&new, Some(&object(&["old"]))),
            [
                r#"metadata.finalizers: "b": prefer a domain-qualified finalizer name to avoid accidental conflicts with other finalizer writers"#,
                r#"metadata.finalizers: "b.c": prefer a domain-qualified finalizer name including a path (/) to avoid accidental conflicts with other finalizer writers"#,
            ]
        );
    });
}
