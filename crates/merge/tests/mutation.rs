//! The mutations of admission policies on objects. What the reference answers is in the tests of the crate
//! `expressions`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "this is test code")]

use merge::mutation::{Error, Mutation, Operation, apply};
use object::Value;
use object::foreign::Foreign;
use schema::{Limits, Ref, Shape, Type, builtin, json};

fn pod() -> Ref<Type> {
    Ref::Static(builtin::by_kind("", "v1", "Pod").unwrap())
}

fn read(shape: &Shape, text: &str) -> Value {
    json::decode_shape(shape, text.as_bytes(), &Limits::default()).unwrap().value
}

fn object() -> Value {
    let text = r#"{"metadata":{"name":"p","managedFields":[{"manager":"m","operation":"Apply","apiVersion":"v1",
        "fieldsType":"FieldsV1","fieldsV1":{"f:spec":{}}}]},"spec":{"containers":[{"name":"a","image":"i"}],
        "nodeSelector":{"k":"v"}}}"#;
    read(&Shape::Struct(pod()), text)
}

fn configuration(text: &str) -> Mutation {
    Mutation::ApplyConfiguration(read(&Shape::Any, text))
}

fn operation(op: &str, path: &str, value: Option<Value>) -> Operation {
    Operation { op: op.into(), path: path.into(), from: String::new(), value }
}

#[test]
fn a_configuration_is_merged_and_nobody_owns_its_fields() {
    let before = object();
    let config = r#"{"apiVersion":"x/v9","kind":"Other","spec":{"containers":[{"name":"b","image":"j"}]}}"#;
    let mutated = apply(&pod(), &before, configuration(config)).unwrap();
    let containers = mutated.get("spec").and_then(|spec| spec.get("containers")?.as_list()).unwrap();
    let names: Vec<_> = containers.iter().map(|container| container.get("name").unwrap().as_str()).collect();
    assert_eq!(names, [Some("a"), Some("b")]);
    let entries = |object: &Value| object.get("metadata").unwrap().get("managedFields").cloned();
    assert_eq!(entries(&mutated), entries(&before));
    assert_eq!(mutated.get("kind").and_then(Value::as_str), Some("Pod"));
}

#[test]
fn what_is_atomic_is_refused_with_all_of_its_places() {
    let config = r#"{"spec":{"nodeSelector":{"a":"b"},"containers":[{"name":"a","args":["x"]}]}}"#;
    let Err(Error::Failed(why)) = apply(&pod(), &object(), configuration(config)) else { panic!("applied") };
    assert_eq!(
        why,
        "error applying patch: invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: \
         .spec.containers[0].args, .spec.nodeSelector"
    );
}

#[test]
fn many_places_that_are_atomic_make_a_short_error() {
    let items: Vec<String> = (0..50_000).map(|at| format!(r#"{{"name":"c{at}","args":["x"]}}"#)).collect();
    let config = format!(r#"{{"spec":{{"containers":[{}]}}}}"#, items.join(","));
    let Err(Error::Failed(why)) = apply(&pod(), &object(), configuration(&config)) else { panic!("applied") };
    assert!(why.len() < 200_000, "{}", why.len());
    assert!(why.contains(" more "), "{}", why.get(why.len() - 100..).unwrap());
}

#[test]
fn values_that_are_no_json_are_refused_where_they_are() {
    let foreign =
        Foreign { type_name: "time.Duration".into(), text: "1s".into(), source: "1000000000".into() };
    let mut config = read(&Shape::Any, r#"{"spec":{"containers":[{"name":null,"image":null}]}}"#);
    let containers = config.as_map_mut().unwrap().get_mut("spec").unwrap().as_map_mut().unwrap();
    let items = containers.get_mut("containers").unwrap();
    let mut container = items.as_list().unwrap().first().cloned().unwrap();
    for key in ["name", "image"] {
        container.as_map_mut().unwrap().insert(key, Value::from(foreign.clone()));
    }
    *items = [container].into_iter().collect();
    let Err(Error::Failed(why)) = apply(&pod(), &object(), Mutation::ApplyConfiguration(config)) else {
        panic!("applied")
    };
    let place = r".spec.containers[name={{undefined}}]";
    let misfit = "expected string, got &value.valueUnstructured{Value:1000000000}";
    assert_eq!(
        why,
        format!(
            "error applying patch: failed to convert patch object to typed object: errors:\n  \
             {place}.image: {misfit}\n  {place}.name: {misfit}"
        )
    );
}

#[test]
fn a_test_that_fails_leaves_the_object_as_it_is() {
    let operations = vec![
        operation("add", "/spec/hostname", Some("h".into())),
        operation("test", "/spec/hostname", Some("other".into())),
    ];
    let before = object();
    assert_eq!(apply(&pod(), &before, Mutation::JsonPatch(operations)), Ok(before));
}

#[test]
fn operations_that_do_not_apply_are_errors_of_the_policy() {
    for (made, why) in [
        (
            operation("remove", "/spec/none", None),
            "error in remove for path: '/spec/none': Unable to remove nonexistent key: none: missing value",
        ),
        (operation("x: test failed", "/a", None), "Unexpected kind: x: test failed"),
        (operation("o\u{1}p", "/a", None), "Unexpected kind: unknown"),
        (
            operation("replace", "/\u{7f}", None),
            "replace operation failed to decode path: invalid character 'x' in string escape code",
        ),
        (
            operation("test", "/\\\u{10ffff}", None),
            "test operation failed to decode path: invalid character 'U' in string escape code",
        ),
    ] {
        let found = apply(&pod(), &object(), Mutation::JsonPatch(vec![made]));
        assert_eq!(found, Err(Error::Failed(format!("JSON Patch: {why}"))));
    }
}

#[test]
fn a_patch_to_something_that_is_no_object_of_the_type_is_an_internal_error() {
    for (made, why) in [
        (
            operation("add", "/spec/nope", Some(1.into())),
            r#"strict decoding error: unknown field "spec.nope""#,
        ),
        (
            operation("add", "/spec/hostname", Some(1.into())),
            "json: cannot unmarshal number into Go struct field PodSpec.spec.hostname of type string",
        ),
    ] {
        let found = apply(&pod(), &object(), Mutation::JsonPatch(vec![made]));
        assert_eq!(found, Err(Error::Internal(why.into())));
    }
}
