//! Pruning, defaulting and compiling, by cases from what the reference does.

use super::{CompileError, Defaulted, Structural};
use crate::model::{GroupVersionKind, Ref, Shape, Type};
use crate::view::View;
use crate::views::apiextensions::v1::JSONSchemaProps;
use crate::{Builder, Decoded, Error, Limits, json};
use object::Value;
use std::sync::Arc;

pub(super) fn try_compile(schema: &str) -> Result<Arc<Structural>, CompileError> {
    let decoded = json::decode(JSONSchemaProps::schema(), schema.as_bytes(), &Limits::STORED).unwrap();
    assert_eq!(decoded.strict, [], "{schema}");
    Structural::compile(JSONSchemaProps::of(decoded.value.as_map().unwrap()))
}

pub(super) fn compile(schema: &str) -> Arc<Structural> {
    try_compile(schema).unwrap()
}

/// A schema of an object with these fields.
fn object(properties: &str) -> String {
    format!(r#"{{"type":"object","properties":{properties}}}"#)
}

fn ty(schema: &str) -> Ref<Type> {
    let kind = GroupVersionKind { group: "example.org".into(), version: "v1".into(), kind: "Widget".into() };
    Builder::new("org.example.v1.Widget").kind(kind).object().custom(compile(schema)).build()
}

fn read(schema: &str, text: &str, limits: &Limits) -> Result<Decoded, Error> {
    json::decode(ty(schema), text.as_bytes(), limits)
}

pub(super) fn tree(text: &str) -> Value {
    json::decode_shape(&Shape::Any, text.as_bytes(), &Limits::STORED).unwrap().value
}

pub(super) fn text(value: &Value) -> String {
    let mut out = Vec::new();
    json::encode_shape(&Shape::Any, value, &mut out);
    String::from_utf8(out).unwrap()
}

/// What is left of an object, and what strict validation says of it.
fn pruned(schema: &str, object: &str) -> (String, Vec<String>) {
    let decoded = read(schema, object, &Limits::REQUEST).unwrap();
    assert_eq!(decoded.pruned, tree(object) != decoded.value, "{object}");
    (text(&decoded.value), decoded.strict.iter().map(ToString::to_string).collect())
}

fn check_pruned(schema: &str, object: &str, left: &str, unknown: &[&str]) {
    let (value, strict) = pruned(schema, object);
    assert_eq!(value, left, "{schema} {object}");
    let expected: Vec<String> = unknown.iter().map(|path| format!("unknown field \"{path}\"")).collect();
    assert_eq!(strict, expected, "{schema} {object}");
    assert_eq!(pruned(schema, &value), (value, vec![]), "a second time");
}

fn check_defaulted(schema: &str, object: &str, expected: &str) {
    let schema = compile(schema);
    let mut value = tree(object);
    let changed = schema.default(&mut value) == Defaulted::Changed;
    assert_eq!(text(&value), expected, "{object}");
    assert_eq!(changed, tree(object) != value, "{object}");
    assert_eq!(schema.default(&mut value), Defaulted::Unchanged, "a second time");
}

#[test]
fn fields_that_the_schema_does_not_name_go() {
    let schema = object(
        r#"{"spec":{"type":"object","properties":{"a":{"type":"string"},"l":{"type":"array","items":{"type":"object","properties":{"x":{"type":"integer"}}}},
            "m":{"type":"object","additionalProperties":{"type":"object","properties":{"y":{"type":"string"}}}}}}}"#,
    );
    check_pruned(
        &schema,
        r#"{"extra":{"deep":1},"spec":{"zz":1,"a":{"kept":"because it is no object by its schema"},"l":[{"x":1,"b":2},3,[{"q":1}]],"m":{"k.1":{"y":"","z":0}}}}"#,
        r#"{"spec":{"a":{},"l":[{"x":1},3,[{}]],"m":{"k.1":{"y":""}}}}"#,
        &["extra", "spec.a.kept", "spec.l[0].b", "spec.l[2][0].q", "spec.m.k.1.z", "spec.zz"],
    );
    check_pruned(&schema, r#"{"spec":7}"#, r#"{"spec":7}"#, &[]);
}

#[test]
fn fields_of_every_object_stay_and_unknown_metadata_comes_first() {
    let schema =
        object(r#"{"metadata":{"type":"object","properties":{"name":{"type":"string","pattern":"^a"}}}}"#);
    check_pruned(
        &schema,
        r#"{"kind":"Widget","apiVersion":"example.org/v1","b":1,"a":2,"metadata":{"zz":1,"name":"n","labels":{"a":"b"},"aa":1}}"#,
        r#"{"apiVersion":"example.org/v1","kind":"Widget","metadata":{"labels":{"a":"b"},"name":"n"}}"#,
        &["metadata.aa", "metadata.zz", "a", "b"],
    );
    let (_, strict) = pruned(&schema, r#"{"a":1,"metadata":{"q":1,"name":"n","name":"n"},"a":1}"#);
    let expected = [
        r#"duplicate field "metadata.name""#,
        r#"duplicate field "a""#,
        r#"unknown field "metadata.q""#,
        r#"unknown field "a""#,
    ];
    assert_eq!(strict, expected);
}

#[test]
fn unknown_fields_are_preserved_until_a_field_is_named() {
    let schema = r#"{"type":"object","x-kubernetes-preserve-unknown-fields":true,"properties":{
        "spec":{"type":"object","properties":{"a":{"type":"string"}}},
        "open":{"type":"object","x-kubernetes-preserve-unknown-fields":true,"properties":{"in":{"type":"object"}}},
        "list":{"type":"array","x-kubernetes-preserve-unknown-fields":true,"items":{"type":"object","properties":{"in":{"type":"object","properties":{"a":{"type":"string"}}}}}},
        "any":{"x-kubernetes-preserve-unknown-fields":true}}}"#;
    check_pruned(
        schema,
        r#"{"any":{"a":[{"b":null}]},"list":[{"in":{"b":1},"out":{"b":1}}],"open":{"a":1,"in":{"b":1},"x":{"y":1}},"spec":{"b":1},"z":{"y":[{"x":1}]}}"#,
        r#"{"any":{"a":[{"b":null}]},"list":[{"in":{},"out":{"b":1}}],"open":{"a":1,"in":{},"x":{"y":1}},"spec":{},"z":{"y":[{"x":1}]}}"#,
        &["list[0].in.b", "open.in.b", "spec.b"],
    );
}

#[test]
fn additional_properties_without_a_schema_keep_keys_and_empty_their_objects() {
    check_pruned(
        &object(r#"{"m":{"type":"object","additionalProperties":true}}"#),
        r#"{"m":{"a":1,"b":{"c":1},"d":[{"e":1},2]}}"#,
        r#"{"m":{"a":1,"b":{},"d":[{},2]}}"#,
        &["m.b.c", "m.d[0].e"],
    );
}

#[test]
fn nulls_go_where_none_is_allowed_and_there_is_no_default() {
    let schema = object(
        r#"{"a":{"type":"string"},"b":{"type":"string","nullable":true},"c":{"type":"string","default":"x"},"n":{"type":"string","nullable":true,"default":null},
            "l":{"type":"array","items":{"type":"string"}},"m":{"type":"object","additionalProperties":{"type":"string"}},
            "p":{"x-kubernetes-preserve-unknown-fields":true,"type":"object","properties":{"a":{"type":"string"}}}}"#,
    );
    check_pruned(
        &schema,
        r#"{"a":null,"b":null,"c":null,"n":null,"l":[null,"a"],"m":{"k":null,"v":"v"},"p":{"a":null,"b":null}}"#,
        r#"{"b":null,"c":null,"l":[null,"a"],"m":{"v":"v"},"n":null,"p":{"b":null}}"#,
        &[],
    );
}

const EMBEDDED: &str = r#"{"type":"object","properties":{"o":{"type":"object","x-kubernetes-embedded-resource":true,"properties":{"spec":{"type":"object"}}},
    "m":{"type":"object","additionalProperties":{"type":"object","x-kubernetes-embedded-resource":true,"x-kubernetes-preserve-unknown-fields":true}}}}"#;

#[test]
fn metadata_of_embedded_objects_is_read_by_its_type() {
    check_pruned(
        EMBEDDED,
        r#"{"o":{"kind":"K","apiVersion":"v1","x":1,"spec":{"a":1},"metadata":{"name":"n","zz":1,"namespace":"","labels":{},"creationTimestamp":null,"deletionTimestamp":"2024-01-02T03:04:05+01:00","ownerReferences":[{"uid":"u","q":1}]}},
            "m":{"k":{"status":{"a":1},"metadata":{"bad":1}},"n":{"metadata":null}}}"#,
        r#"{"m":{"k":{"metadata":{},"status":{"a":1}},"n":{"metadata":{}}},"o":{"apiVersion":"v1","kind":"K","metadata":{"deletionTimestamp":"2024-01-02T02:04:05Z","name":"n","ownerReferences":[{"apiVersion":"","kind":"","name":"","uid":"u"}]},"spec":{}}}"#,
        &["o.spec.a", "o.x", "m[k].metadata.bad", "o.metadata.ownerReferences[0].q", "o.metadata.zz"],
    );
}

#[test]
fn malformed_embedded_objects_are_refused_and_readable_in_the_store() {
    let cases = [
        (
            r#"{"o":{"kind":1,"apiVersion":"v1"}}"#,
            "o.kind: Invalid value: 1: must be a string",
            r#"{"o":{"apiVersion":"v1"}}"#,
        ),
        (r#"{"o":{"kind":null}}"#, r#"o.kind: Invalid value: "null": must be a string"#, r#"{"o":{}}"#),
        (
            r#"{"m":{"k":{"metadata":{"name":"n","labels":[1],"q":1}}}}"#,
            r#"m[k].metadata: Invalid value: map[string]interface {}{"labels":[]interface {}{1}, "name":"n", "q":1}: json: cannot unmarshal array into Go struct field ObjectMeta.labels of type map[string]string"#,
            r#"{"m":{"k":{"metadata":{"name":"n"}}}}"#,
        ),
        (
            r#"{"o":{"metadata":[1]}}"#,
            "o.metadata: Invalid value: []interface {}{1}: json: cannot unmarshal array into Go value of type v1.ObjectMeta",
            r#"{"o":{"metadata":[1]}}"#,
        ),
    ];
    for (object, error, left) in cases {
        assert_eq!(read(EMBEDDED, object, &Limits::REQUEST).unwrap_err().to_string(), error);
        assert_eq!(text(&read(EMBEDDED, object, &Limits::STORED).unwrap().value), left);
    }
}

#[test]
fn defaults_fill_what_is_absent_at_every_depth() {
    let schema = object(
        r#"{"spec":{"type":"object","default":{},"properties":{"a":{"type":"string","default":"A"},"o":{"type":"object","properties":{"b":{"type":"integer","default":1}}}}},
            "l":{"type":"array","items":{"type":"object","default":{"x":2},"properties":{"x":{"type":"integer","default":1},"y":{"type":"integer","default":1}}}},
            "m":{"type":"object","additionalProperties":{"type":"object","default":{"z":1},"properties":{"x":{"type":"integer","default":1}}}}}"#,
    );
    check_defaulted(&schema, "{}", r#"{"spec":{"a":"A"}}"#);
    check_defaulted(&schema, r#"{"spec":{"o":{}}}"#, r#"{"spec":{"a":"A","o":{"b":1}}}"#);
    check_defaulted(&schema, r#"{"spec":7}"#, r#"{"spec":7}"#);
    check_defaulted(
        &schema,
        r#"{"l":[{},null,{"x":5,"y":6},7],"m":{"a":null,"b":{"x":null}},"spec":null}"#,
        r#"{"l":[{"x":1,"y":1},{"x":2,"y":1},{"x":5,"y":6},7],"m":{"a":{"x":1},"b":{"x":1}},"spec":{"a":"A"}}"#,
    );
}

#[test]
fn nullable_nulls_are_not_defaulted_and_a_null_is_no_default() {
    let schema = object(
        r#"{"a":{"type":"string","nullable":true,"default":"A"},"b":{"type":"string","nullable":true,"default":null},"l":{"type":"array","items":{"type":"string"}}}"#,
    );
    check_defaulted(&schema, r#"{"a":null}"#, r#"{"a":null}"#);
    check_defaulted(&schema, r#"{"l":[null]}"#, r#"{"a":"A","l":[null]}"#);
}

#[test]
fn embedded_objects_need_a_kind_a_version_and_good_metadata() {
    let schema = compile(EMBEDDED);
    let rules = |object: &object::Map| {
        let metadata = object.get("metadata").unwrap();
        assert!(metadata.get("name").is_some());
        let path = object::field::Path::new("metadata");
        metadata
            .get("uid")
            .iter()
            .map(|_| object::field::Error::forbidden(&path.child("uid"), "no"))
            .collect()
    };
    let errors = |object: &str| -> Vec<String> {
        let errors = schema.validate_embedded(tree(object).as_map().unwrap(), rules);
        errors.iter().map(ToString::to_string).collect()
    };
    assert_eq!(
        errors(r#"{"o":{"kind":"Ab-c","apiVersion":"a/v1","metadata":{"generateName":"x"}}}"#),
        [""; 0]
    );
    assert_eq!(
        errors(r#"{"m":{"k":{"metadata":{"uid":"u"}}},"o":{"kind":"","apiVersion":"a/b/c","metadata":[]}}"#),
        [
            "m[k].apiVersion: Required value: must not be empty",
            "m[k].kind: Required value: must not be empty",
            "m[k].metadata.uid: Forbidden: no",
            r#"o.apiVersion: Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c"#,
            r#"o.kind: Invalid value: "": must not be empty"#,
            "o.metadata: Invalid value: []interface {}{}: json: cannot unmarshal array into Go value of type v1.ObjectMeta",
        ]
    );
    assert_eq!(
        errors(r#"{"o":{"apiVersion":""}}"#),
        [
            "o.kind: Required value: must not be empty",
            r#"o.apiVersion: Invalid value: "": must not be empty"#
        ],
        "what is missing comes first"
    );
    let bad_kind = errors(r#"{"o":{"kind":"a_b","apiVersion":1}}"#);
    assert_eq!(bad_kind.first().unwrap(), "o.apiVersion: Invalid value: 1: must be a string");
    assert!(bad_kind.last().unwrap().starts_with(
        r#"o.kind: Invalid value: "a_b": may have mixed case, but should otherwise match: a DNS-1035 label must"#
    ));
}

#[test]
fn malformed_metadata_is_named_without_its_place_in_the_object() {
    let error = |text: &str| read(EMBEDDED, text, &Limits::REQUEST).unwrap_err().to_string();
    assert_eq!(
        error(r#"{"metadata":{"ownerReferences":[{"controller":"x"}]}}"#),
        "json: cannot unmarshal string into Go struct field OwnerReference.ownerReferences.controller of type bool"
    );
    assert_eq!(
        error(r#"{"metadata":7}"#),
        "json: cannot unmarshal number into Go value of type v1.ObjectMeta"
    );
}

#[test]
fn a_node_is_small() {
    assert!(size_of::<super::Node>() <= 96, "{}", size_of::<super::Node>());
}

#[test]
fn schemas_that_nest_too_deep_are_refused() {
    let nest = |open: &str, close: &str, depth: usize| {
        try_compile(&format!("{}{{\"type\":\"string\"}}{}", open.repeat(depth), close.repeat(depth))).err()
    };
    for (open, close) in [
        (r#"{"type":"object","properties":{"a":"#, "}}"),
        (r#"{"type":"object","additionalProperties":"#, "}"),
        (r#"{"type":"array","items":"#, "}"),
        (r#"{"allOf":["#, "]}"),
        (r#"{"not":"#, "}"),
    ] {
        assert_eq!(nest(open, close, 250), None, "{open}");
        assert_eq!(nest(open, close, 300), Some(CompileError::Depth), "{open}");
    }
}

#[test]
fn defaults_that_grow_by_other_defaults_are_refused() {
    let empty = format!("[{}]", vec!["{}"; 100].join(","));
    let list = |within: &str| {
        format!(
            r#"{{"type":"array","default":{empty},"items":{{"type":"object","properties":{{"l":{within}}}}}}}"#
        )
    };
    let (one, two) = (list(r#"{"type":"string"}"#), list(&list(r#"{"type":"string"}"#)));
    assert!(try_compile(&one).is_ok() && try_compile(&two).is_ok());
    assert_eq!(try_compile(&list(&two)).err(), Some(CompileError::Default));
}

#[test]
fn defaults_lose_what_their_schema_does_not_name() {
    let schema = object(
        r#"{"o":{"type":"object","default":{"a":"x","b":1,"n":null},"properties":{"a":{"type":"string"},"n":{"type":"string"},"d":{"type":"integer","default":5}}}}"#,
    );
    check_defaulted(&schema, "{}", r#"{"o":{"a":"x","d":5}}"#);
}

#[test]
fn defaults_of_metadata_keep_what_metadata_has() {
    let embedded =
        |rest: &str| format!(r#"{{"type":"object","x-kubernetes-embedded-resource":true,{rest}}}"#);
    let fields = embedded(
        r#""properties":{"kind":{"type":"string","default":"K"},"metadata":{"type":"object","properties":{
            "name":{"type":"string","default":"n"},"other":{"type":"string","default":"o"},
            "labels":{"type":"object","default":{"a":"b"}},"annotations":{"type":"object","default":{"a":1}},
            "ownerReferences":{"type":"array","items":{"type":"object","properties":{
                "uid":{"type":"string","default":"u"},"q":{"type":"string","default":"q"}}}}}}}"#,
    );
    let whole = embedded(
        r#""properties":{"metadata":{"type":"object","default":{"name":"n","other":"o","labels":{"a":1}}}}"#,
    );
    let outside = embedded(r#""default":{"kind":"K","metadata":{"name":"n","other":"o"}}"#);
    let plain = r#"{"type":"object","properties":{"metadata":{"type":"object","default":{"name":"n"}}}}"#;
    let same = embedded(r#""properties":{"metadata":{"type":"object","default":{"name":"n"}}}"#);
    let schema = object(&format!(
        r#"{{"fields":{fields},"whole":{whole},"outside":{outside},"plain":{plain},"same":{same}}}"#
    ));
    check_defaulted(
        &schema,
        r#"{"fields":{"metadata":{"ownerReferences":[{}]}},"plain":{},"same":{},"whole":{}}"#,
        r#"{"fields":{"kind":"K","metadata":{"labels":{"a":"b"},"name":"n","ownerReferences":[{"uid":"u"}]}},"outside":{"kind":"K","metadata":{"name":"n"}},"plain":{"metadata":{}},"same":{"metadata":{"name":"n"}},"whole":{"metadata":{"name":"n"}}}"#,
    );
}
