//! Each rule of each format by itself, and the error for a client that breaks it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "this is test code")]

use merge::{Error, FieldValidation, Patch, Patched};
use schema::{Limits, Ref, Shape, builtin, json};

const MAP: &str = r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","creationTimestamp":null,"labels":{"a/b":"1"},"finalizers":["c","d","e"]},"data":{"x":"1","y":"a<b"}}"#;
const DEPLOYMENT: &str = r#"{"kind":"Deployment","apiVersion":"apps/v1","metadata":{"name":"d","creationTimestamp":null},"spec":{"replicas":1,"selector":null,"template":{"metadata":{"creationTimestamp":null},"spec":{"containers":[{"name":"a","image":"1","resources":{}},{"name":"b","image":"2","resources":{}},{"name":"c","image":"3","resources":{}}]}},"strategy":{"type":"RollingUpdate","rollingUpdate":{"maxSurge":1}}},"status":{}}"#;

fn apply(format: Patch, object: &str, patch: &str, validation: FieldValidation) -> Result<Patched, Error> {
    let (group, kind) = if object == MAP { ("", "ConfigMap") } else { ("apps", "Deployment") };
    let ty = Ref::Static(builtin::by_kind(group, "v1", kind).unwrap());
    let shape = Shape::Struct(ty.clone());
    let current = json::decode_shape(&shape, object.as_bytes(), &Limits::default()).unwrap().value;
    merge::apply(format, &ty, &current, patch.as_bytes(), validation, &Limits::default())
}

fn text(patched: &Patched) -> String {
    let mut out = Vec::new();
    json::encode(&patched.ty, &patched.value, &mut out);
    String::from_utf8(out).unwrap()
}

/// What a patch makes of the config map's data.
fn data(format: Patch, patch: &str) -> String {
    let patched = apply(format, MAP, patch, FieldValidation::Warn).unwrap();
    assert_eq!(patched.strict, Vec::<String>::new());
    let mut out = Vec::new();
    json::encode_shape(&Shape::Any, patched.value.get("data").unwrap_or(&object::Value::Null), &mut out);
    String::from_utf8(out).unwrap()
}

/// What a strategic patch of the pod's spec makes of the containers: names and images.
fn containers(patch: &str) -> Vec<String> {
    let patch = format!(r#"{{"spec":{{"template":{{"spec":{{{patch}}}}}}}}}"#);
    let patched = apply(Patch::Strategic, DEPLOYMENT, &patch, FieldValidation::Strict).unwrap();
    let spec = patched.value.get("spec").and_then(|spec| spec.get("template")?.get("spec"));
    let list =
        spec.and_then(|spec| spec.get("containers")).and_then(object::Value::as_list).unwrap_or_default();
    let word = |item: &object::Value, key: &str| item.get(key).and_then(|v| v.as_str().map(str::to_owned));
    list.iter()
        .map(|item| word(item, "name").unwrap_or_default() + &word(item, "image").unwrap_or_default())
        .collect()
}

fn refused(format: Patch, patch: &str) -> String {
    let object = if format == Patch::Strategic { DEPLOYMENT } else { MAP };
    let error = apply(format, object, patch, FieldValidation::Warn).unwrap_err();
    format!("{} {error}", error.status().code)
}

#[test]
fn json_patch_operations_apply_in_order() {
    let patch = r#"[{"op":"test","path":"/data/x","value":"1"},{"op":"add","path":"/data/n","value":"new"},
        {"op":"replace","path":"/data/y","value":"two"},{"op":"copy","from":"/data/x","path":"/data/c"},
        {"op":"move","from":"/data/x","path":"/data/m"},{"op":"remove","path":"/data/n"}]"#;
    assert_eq!(data(Patch::Json, patch), r#"{"c":"1","m":"1","y":"two"}"#);
}

#[test]
fn json_patch_is_laxer_than_the_standard_where_the_reference_is() {
    assert_eq!(
        data(Patch::Json, r#"[{"op":"replace","path":"/data/n","value":"v"}]"#),
        r#"{"n":"v","x":"1","y":"a\u003cb"}"#
    );
    assert_eq!(data(Patch::Json, r#"[{"op":"remove","path":"x/data/x"}]"#), r#"{"y":"a\u003cb"}"#);
    assert_eq!(data(Patch::Json, r#"[{"op":"replace","path":"","value":3}]"#), r#"{"x":"1","y":"a\u003cb"}"#);
    assert_eq!(data(Patch::Json, "null"), r#"{"x":"1","y":"a\u003cb"}"#);
    let last = r#"[{"op":"test","path":"/metadata/finalizers/-1","value":"e"}]"#;
    assert!(apply(Patch::Json, MAP, last, FieldValidation::Warn).is_ok());
}

#[test]
fn json_patch_sees_empty_fields_that_are_written() {
    for (path, value) in
        [("/metadata/creationTimestamp", "null"), ("/status", "{}"), ("/spec/selector", "null")]
    {
        let patch = format!(r#"[{{"op":"test","path":"{path}","value":{value}}}]"#);
        assert!(apply(Patch::Json, DEPLOYMENT, &patch, FieldValidation::Warn).is_ok(), "{path}");
        let patch = format!(r#"[{{"op":"remove","path":"{path}"}}]"#);
        assert!(apply(Patch::Json, DEPLOYMENT, &patch, FieldValidation::Warn).is_ok(), "{path}");
    }
    let absent = r#"[{"op":"remove","path":"/metadata/labels"}]"#;
    assert!(apply(Patch::Json, DEPLOYMENT, absent, FieldValidation::Warn).is_err());
}

#[test]
fn json_patch_test_compares_texts() {
    for (value, same) in [(r#""a\u003cb""#, true), (r#""a<b""#, false), ("1", false)] {
        let patch = format!(r#"[{{"op":"test","path":"/data/y","value":{value}}}]"#);
        assert_eq!(apply(Patch::Json, MAP, &patch, FieldValidation::Warn).is_ok(), same, "{value}");
    }
    let reordered = r#"[{"op":"test","path":"/data","value":{ "y":"a\u003cb" , "x":"1" }}]"#;
    assert!(apply(Patch::Json, MAP, reordered, FieldValidation::Warn).is_ok());
}

#[test]
fn json_patches_that_do_not_apply_are_unprocessable() {
    for (patch, reason) in [
        (
            r#"{"op":"remove","path":"/data/n"}"#,
            "error in remove for path: '/data/n': Unable to remove nonexistent key: n: missing value",
        ),
        (
            r#"{"op":"add","path":"/binaryData/n","value":"v"}"#,
            "add operation does not apply: doc is missing path: \"/binaryData/n\": missing value",
        ),
        (
            r#"{"op":"add","path":"/metadata/finalizers/9","value":"v"}"#,
            "error in add for path: '/metadata/finalizers/9': Unable to access invalid index: 9: invalid index referenced",
        ),
        (r#"{"op":"test","path":"/data/x","value":"2"}"#, "testing value /data/x failed: test failed"),
        (r#"{"op":"merge","path":"/data/x"}"#, "Unexpected kind: merge"),
        (r#"{"op":"add","value":1}"#, "add operation failed to decode path: missing value"),
        (
            r#"{"op":"add","path":"","value":{}}"#,
            "add operation does not apply: doc is missing path: \"\": missing value",
        ),
        (r#"{"op":"test","path":"/data/x"}"#, "testing value /data/x failed: test failed"),
        (r#"{"op":"test","path":"/data/n"}"#, "test operation has no value"),
    ] {
        assert_eq!(refused(Patch::Json, &format!("[{patch}]")), format!("422 {reason}"));
    }
}

#[test]
fn json_patches_that_cannot_be_read_are_bad_requests() {
    for (patch, reason) in [
        (
            "{}",
            "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp",
        ),
        (
            "[1]",
            "error decoding patch: json: cannot unmarshal number into Go value of type handlers.jsonPatchOp",
        ),
        ("", "error decoding patch: unexpected end of JSON input"),
        (
            r#"[{"op":1}]"#,
            "error decoding patch: json: cannot unmarshal number into Go struct field jsonPatchOp.op of type string",
        ),
    ] {
        assert_eq!(refused(Patch::Json, patch), format!("400 {reason}"));
    }
    let error = apply(Patch::Json, MAP, "{}", FieldValidation::Ignore).unwrap_err();
    assert_eq!(error.message(), "json: cannot unmarshal object into Go value of type jsonpatch.Patch");
    let many = format!("[{}{{}}]", "{},".repeat(10_000));
    let large =
        "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001";
    assert_eq!(refused(Patch::Json, &many), format!("413 {large}"));
}

#[test]
fn merge_patch_removes_merges_and_replaces() {
    assert_eq!(data(Patch::Merge, r#"{"data":{"x":null,"n":"v","m":null}}"#), r#"{"n":"v","y":"a\u003cb"}"#);
    assert_eq!(data(Patch::Merge, r#"{"data":null}"#), "null");
    let lists =
        apply(Patch::Merge, MAP, r#"{"metadata":{"finalizers":["z",null]}}"#, FieldValidation::Warn).unwrap();
    assert!(text(&lists).contains(r#""finalizers":["z",""]"#));
}

#[test]
fn merge_patches_that_are_no_objects_are_bad_requests() {
    for (patch, reason) in [
        (
            "[]",
            "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}",
        ),
        ("null", "Invalid JSON Patch"),
        ("{", "error decoding patch: unexpected end of JSON input"),
    ] {
        assert_eq!(refused(Patch::Merge, patch), format!("400 {reason}"));
    }
    for patch in ["3", "null", "{"] {
        let error = apply(Patch::Merge, MAP, patch, FieldValidation::Ignore).unwrap_err();
        assert_eq!(error, Error::BadRequest("Invalid JSON Patch".into()));
    }
    let Err(Error::Invalid { value, detail }) =
        apply(Patch::Merge, MAP, r#"[{"a":1,"b":null}]"#, FieldValidation::Ignore)
    else {
        panic!("taken")
    };
    assert_eq!(value, r#"[{"a":1}]"#);
    assert!(
        detail.starts_with("couldn't get version/kind; json parse error: json: cannot unmarshal array into")
    );
}

#[test]
fn error_of_an_undecodable_result_shows_the_whole_object() {
    let error = apply(Patch::Merge, MAP, r#"{"data":{"x":1.0}}"#, FieldValidation::Warn).unwrap_err();
    let Error::Invalid { value, detail } = &error else { panic!("{error}") };
    assert_eq!(
        value,
        r#"{"apiVersion":"v1","data":{"x":1.0,"y":"a\u003cb"},"kind":"ConfigMap","metadata":{"name":"a","creationTimestamp":null,"labels":{"a/b":"1"},"finalizers":["c","d","e"]}}"#
    );
    assert_eq!(detail, "json: cannot unmarshal number into Go struct field ConfigMap.data of type string");
    assert_eq!((error.status().code, error.status().reason), (422, "Invalid"));
}

#[test]
fn patch_cannot_change_kind_or_api_version() {
    for (patch, detail) in [
        (r#"{"kind":"Secret"}"#, "illegal base64 data at input byte 0"),
        (
            r#"{"apiVersion":"v2"}"#,
            "no kind \"ConfigMap\" is registered for version \"v2\" in scheme \"pkg/api/legacyscheme/scheme.go:30\"",
        ),
        (
            r#"{"apiVersion":"apps/v1","kind":"Deployment"}"#,
            "converting (v1.Deployment) to (core.ConfigMap): unknown conversion",
        ),
        (r#"{"apiVersion":"a/b/c"}"#, "unexpected GroupVersion string: a/b/c"),
        (
            r#"{"kind":3}"#,
            "couldn't get version/kind; json parse error: json: cannot unmarshal number into Go struct field .kind of type string",
        ),
    ] {
        let Err(Error::Invalid { detail: found, .. }) =
            apply(Patch::Merge, MAP, patch, FieldValidation::Warn)
        else {
            panic!("{patch}")
        };
        assert_eq!(found, detail);
    }
    let same = apply(Patch::Merge, MAP, r#"{"kind":null}"#, FieldValidation::Strict).unwrap();
    assert_eq!(text(&same), MAP.replace("a<b", "a\\u003cb"));
    let ignored =
        apply(Patch::Strategic, MAP, r#"{"kind":"Secret","apiVersion":"v9"}"#, FieldValidation::Strict)
            .unwrap();
    assert_eq!(text(&ignored), text(&same));
}

#[test]
fn unknown_and_duplicate_fields_follow_field_validation() {
    let cases = [
        (
            Patch::Json,
            r#"[{"op":"add","path":"/b","value":1,"foo":2}]"#,
            vec![r#"json patch unknown field "[0].foo""#, r#"unknown field "b""#],
        ),
        (
            Patch::Merge,
            r#"{"data":{"x":"1","x":"1"},"b":1}"#,
            vec![r#"duplicate field "data.x""#, r#"unknown field "b""#],
        ),
        (
            Patch::Strategic,
            r#"{"metadata":{"b":1},"a":1,"a":2}"#,
            vec![r#"duplicate field "a""#, r#"unknown field "a""#, r#"unknown field "metadata.b""#],
        ),
    ];
    for (format, patch, strict) in cases {
        assert_eq!(apply(format, MAP, patch, FieldValidation::Warn).unwrap().strict, strict);
        assert!(apply(format, MAP, patch, FieldValidation::Ignore).unwrap().strict.is_empty());
        let Err(Error::Invalid { detail, .. }) = apply(format, MAP, patch, FieldValidation::Strict) else {
            panic!("{patch}")
        };
        assert_eq!(detail, format!("strict decoding error: {}", strict.join(", ")));
    }
}

#[test]
fn strategic_lists_are_merged_by_key_and_ordered() {
    assert_eq!(containers(r#""containers":[{"name":"b","image":"9"}]"#), ["a1", "b9", "c3"]);
    assert_eq!(containers(r#""containers":[{"name":"n","image":"9"}]"#), ["n9", "a1", "b2", "c3"]);
    assert_eq!(containers(r#""containers":[{"name":"b","$patch":"delete"}]"#), ["a1", "c3"]);
    assert_eq!(containers(r#""containers":[{"$patch":"replace"},{"name":"n"}]"#), ["n"]);
    assert_eq!(
        containers(r#""$setElementOrder/containers":[{"name":"c"},{"name":"a"},{"name":"b"}]"#),
        ["c3", "a1", "b2"]
    );
    assert_eq!(
        containers(r#""$setElementOrder/containers":[{"name":"c"},{"name":"a"}]"#),
        ["b2", "c3", "a1"]
    );
    assert_eq!(containers(r#""containers":null"#), Vec::<String>::new());
}

#[test]
fn strategic_merge_adds_and_deletes_set_elements() {
    let finalizers = |patch: &str| {
        let patch = format!(r#"{{"metadata":{{{patch}}}}}"#);
        let patched = apply(Patch::Strategic, MAP, &patch, FieldValidation::Strict).unwrap();
        let list = patched.value.get("metadata").and_then(|meta| meta.get("finalizers")).cloned();
        list.unwrap_or_default()
            .as_list()
            .unwrap_or_default()
            .iter()
            .map(|v| v.as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(finalizers(r#""finalizers":["n","d"]"#), ["n", "c", "d", "e"]);
    assert_eq!(finalizers(r#""$deleteFromPrimitiveList/finalizers":["d","q"]"#), ["c", "e"]);
    assert_eq!(finalizers(r#""$setElementOrder/finalizers":["e","d","c"]"#), ["e", "d", "c"]);
}

#[test]
fn strategic_directives_replace_delete_and_retain() {
    let strategy = |patch: &str| {
        let patch = format!(r#"{{"spec":{{"strategy":{patch}}}}}"#);
        text(&apply(Patch::Strategic, DEPLOYMENT, &patch, FieldValidation::Strict).unwrap())
    };
    assert!(
        strategy(r#"{"$retainKeys":["type"],"type":"Recreate"}"#)
            .contains(r#""strategy":{"type":"Recreate"}"#)
    );
    assert!(strategy(r#"{"$patch":"replace","type":"X"}"#).contains(r#""strategy":{"type":"X"}"#));
    assert!(strategy(r#"{"$patch":"delete"}"#).contains(r#""strategy":{}"#));
}

#[test]
fn strategic_patches_are_refused_as_the_reference_does() {
    let pod = |patch: &str| format!(r#"{{"spec":{{"template":{{"spec":{{{patch}}}}}}}}}"#);
    for (patch, refusal) in [
        (
            r#"[]"#.to_string(),
            "400 json: cannot unmarshal array into Go value of type map[string]interface {}",
        ),
        (
            pod(r#""containers":[{"image":"x"}]"#),
            "500 map: map[image:x] does not contain declared merge key: name",
        ),
        (
            pod(r#""containers":[{"name":"a","$patch":"merge"}]"#),
            "500 merging lists cannot yet be specified in the patch",
        ),
        (r#"{"$patch":"drop"}"#.to_string(), "500 unknown patch type: drop in map: map[$patch:drop]"),
        (
            r#"{"metadata":{"$deleteFromPrimitiveList":["x"]}}"#.to_string(),
            "400 invalid patch format of primitive list",
        ),
        (pod(r#""$setElementOrder":[]"#), "400 invalid patch format of setElementOrder list"),
        (pod(r#""$setElementOrder/containers":"c""#), "500 expected a []interface {}, but received a string"),
        (
            r#"{"spec":{"strategy":{"$retainKeys":"type"}}}"#.to_string(),
            "400 invalid patch format of retainKeys",
        ),
        (
            r#"{"spec":{"replicas":"x"}}"#.to_string(),
            "422 patch: Invalid value: \"map[spec:map[replicas:x]]\": unrecognized type: int32",
        ),
        (
            pod(r#""containers":[null]"#),
            "500 list element types are not identical: [[map[image:1 name:a resources:map[]] map[image:2 name:b resources:map[]] map[image:3 name:c resources:map[]]] [<nil>]]",
        ),
    ] {
        assert_eq!(refused(Patch::Strategic, &patch), refusal);
    }
}
