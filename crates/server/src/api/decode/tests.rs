use super::*;
use schema::builtin::by_kind;

fn config_map() -> Expected<'static> {
    Expected::only(by_kind("", "v1", "ConfigMap").unwrap())
}

fn post(body: &str) -> Result<Body, String> {
    object(body.as_bytes(), BodyFormat::Json, config_map(), FieldValidation::Warn).map_err(|refused| {
        assert_eq!((refused.status.code, refused.status.reason), (400, Reason::BadRequest));
        refused.status.message
    })
}

fn message(body: &str) -> String {
    post(body).map(|body| body.value).unwrap_err()
}

#[test]
fn missing_kind_and_api_version_are_those_expected() {
    for body in [
        "null",
        "{}",
        r#"{"kind":"ConfigMap"}"#,
        r#"{"apiVersion":"v1"}"#,
        r#"{"apiVersion":"/v1","kind":"ConfigMap"}"#,
        r#"{"kind":"a","kind":"ConfigMap","apiVersion":"v1"}"#,
    ] {
        let value = post(body).unwrap().value;
        assert_eq!(value.get("kind").and_then(Value::as_str), Some("ConfigMap"), "{body}");
        assert_eq!(value.get("apiVersion").and_then(Value::as_str), Some("v1"), "{body}");
    }
}

#[test]
fn body_that_is_not_an_object_is_unrecognized() {
    let start = "the object provided is unrecognized (must be of type ConfigMap): ";
    let parse = "couldn't get version/kind; json parse error: ";
    let go = "into Go value of type struct { APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \
              \"json:\\\"kind,omitempty\\\"\" }";
    for (body, why) in [
        ("", format!("{parse}unexpected end of JSON input (<empty>)")),
        ("{", format!("{parse}unexpected end of JSON input ({{)")),
        ("[]", format!("{parse}json: cannot unmarshal array {go} (5b5d)")),
        ("\"x\"", format!("{parse}json: cannot unmarshal string {go} (227822)")),
        ("5", format!("{parse}json: cannot unmarshal number {go} (35)")),
        (
            r#"{"kind":5}"#,
            format!(
                "{parse}json: cannot unmarshal number into Go struct field .kind of type string ({{\"kind\":5}})"
            ),
        ),
        (
            r#"{"apiVersion":"a/b/c","kind":"ConfigMap"}"#,
            r#"unexpected GroupVersion string: a/b/c ({"apiVersion":"a/b/c","kind":" ...)"#.to_owned(),
        ),
        (
            r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"}}garbage"#,
            format!(
                "{parse}invalid character 'g' after top-level value ({{\"apiVersion\":\"v1\",\"kind\":\"Con ...)"
            ),
        ),
        (
            "this is a long text that is not json at all, really not",
            format!(
                "{parse}invalid character 'h' in literal true (expecting 'r') \
                 (746869732069732061206c6f6e6720746578742074686174206973206e6f ...)"
            ),
        ),
    ] {
        assert_eq!(message(body), format!("{start}{why}"), "{body}");
    }
}

#[test]
fn body_of_another_kind_cannot_be_handled() {
    let scheme = "in scheme \"pkg/api/legacyscheme/scheme.go:30\"";
    for (body, wanted) in [
        (
            r#"{"apiVersion":"foo/","kind":"ConfigMap"}"#,
            r#"ConfigMap in version "" cannot be handled as a ConfigMap: Object 'apiVersion' is missing in '{"apiVersion":"foo/","kind":"ConfigMap"}'"#.to_owned(),
        ),
        (
            r#"{"apiVersion":"v1","kind":"Foo"}"#,
            format!(r#"Foo in version "v1" cannot be handled as a ConfigMap: no kind "Foo" is registered for version "v1" {scheme}"#),
        ),
        (
            r#"{"apiVersion":"foo/v1","kind":"ConfigMap"}"#,
            format!(r#"ConfigMap in version "v1" cannot be handled as a ConfigMap: no kind "ConfigMap" is registered for version "foo/v1" {scheme}"#),
        ),
        (
            r#"{"apiVersion":"apps/v1beta1","kind":"ConfigMap"}"#,
            format!(r#"ConfigMap in version "v1beta1" cannot be handled as a ConfigMap: no kind "ConfigMap" is registered for version "apps/v1beta1" {scheme}"#),
        ),
        (
            r#"{"apiVersion":"v1","kind":"Secret"}"#,
            r#"Secret in version "v1" cannot be handled as a ConfigMap: converting (v1.Secret) to (core.ConfigMap): unknown conversion"#.to_owned(),
        ),
        (
            r#"{"KIND":"Secret","metadata":{"name":"x"}}"#,
            r#"Secret in version "v1" cannot be handled as a ConfigMap: converting (v1.Secret) to (core.ConfigMap): unknown conversion"#.to_owned(),
        ),
        (
            r#"{"apiVersion":"extensions/v1beta1","kind":"Deployment"}"#,
            r#"Deployment in version "v1beta1" cannot be handled as a ConfigMap: converting (v1beta1.Deployment) to (core.ConfigMap): unknown conversion"#.to_owned(),
        ),
        (
            r#"{"apiVersion":"v1","kind":"ConfigMapList"}"#,
            r#"ConfigMapList in version "v1" cannot be handled as a ConfigMap: converting (v1.ConfigMapList) to (core.ConfigMap): unknown conversion"#.to_owned(),
        ),
        (
            r#"{"apiVersion":"v1","kind":"DeleteOptions"}"#,
            r#"DeleteOptions in version "v1" cannot be handled as a ConfigMap: converting (v1.DeleteOptions) to (core.ConfigMap): unknown conversion"#.to_owned(),
        ),
        (
            r#"{"apiVersion":"apps/v1","kind":"Deployment","spec":5}"#,
            "Deployment in version \"v1\" cannot be handled as a ConfigMap: json: cannot unmarshal number into Go struct \
             field Deployment.spec of type v1.DeploymentSpec"
                .to_owned(),
        ),
        (
            r#"{"metadata":{"name":5}}"#,
            "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: json: cannot unmarshal number into Go struct \
             field ObjectMeta.metadata.name of type string"
                .to_owned(),
        ),
    ] {
        assert_eq!(message(body), wanted, "{body}");
    }
}

#[test]
fn body_in_another_version_of_the_kind_is_refused() {
    let refused = |expected: Expected, body: &str| {
        object(body.as_bytes(), BodyFormat::Json, expected, FieldValidation::Warn).unwrap_err().status.message
    };
    let deployment = Expected::only(by_kind("apps", "v1", "Deployment").unwrap());
    assert_eq!(
        refused(deployment, r#"{"apiVersion":"apps/v1beta1","kind":"Deployment","metadata":{"name":"a"}}"#),
        "the API version in the data (apps/v1beta1) does not match the expected API version (apps/v1)"
    );
    let autoscaler = Expected::only(by_kind("autoscaling", "v2", "HorizontalPodAutoscaler").unwrap());
    assert_eq!(
        refused(
            autoscaler,
            r#"{"apiVersion":"autoscaling/v1","kind":"HorizontalPodAutoscaler","spec":{"maxReplicas":3}}"#
        ),
        "the API version in the data (autoscaling/v1) does not match the expected API version (autoscaling/v2)"
    );
    let event = Expected::only(by_kind("", "v1", "Event").unwrap());
    assert_eq!(
        refused(event, r#"{"apiVersion":"events.k8s.io/v1","kind":"Event"}"#),
        "the API version in the data (events.k8s.io/v1) does not match the expected API version (v1)"
    );
    let eviction = Expected {
        also: &["policy/v1beta1"],
        ..Expected::only(by_kind("policy", "v1", "Eviction").unwrap())
    };
    let body = br#"{"apiVersion":"policy/v1beta1","kind":"Eviction","metadata":{"name":"p"}}"#;
    let taken = object(body, BodyFormat::Json, eviction, FieldValidation::Strict).unwrap();
    assert_eq!(taken.value.get("apiVersion").and_then(Value::as_str), Some("policy/v1"));
    assert_eq!(
        taken.value.get("metadata").and_then(|meta| meta.get("name")).and_then(Value::as_str),
        Some("p")
    );
}

#[test]
fn field_validation_warns_refuses_or_ignores() {
    let body = br#"{"metadata":{"name":"a"},"foo":1,"foo":2,"bar":3}"#;
    let read = |validation| object(body, BodyFormat::Json, config_map(), validation);
    assert_eq!(
        read(FieldValidation::Warn).unwrap().warnings,
        ["unknown field \"foo\"", "unknown field \"bar\""]
    );
    assert_eq!(read(FieldValidation::Ignore).unwrap().warnings, Vec::<String>::new());
    assert_eq!(
        read(FieldValidation::Strict).unwrap_err().status.message,
        "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: unknown field \"foo\", \
         unknown field \"bar\""
    );
}

#[test]
fn yaml_warns_of_each_duplicate_key() {
    let body = b"metadata:\n  name: a\n  name: b\nfoo: 1\nfoo: 2\n";
    let read = |validation| object(body, BodyFormat::Yaml, config_map(), validation);
    assert_eq!(
        read(FieldValidation::Warn).unwrap().warnings,
        [
            "line 3: key \"name\" already set in map",
            "line 5: key \"foo\" already set in map",
            "unknown field \"foo\""
        ]
    );
    assert_eq!(
        read(FieldValidation::Strict).unwrap_err().status.message,
        "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: yaml: unmarshal errors:\n  \
         line 3: key \"name\" already set in map\n  line 5: key \"foo\" already set in map, unknown field \"foo\""
    );
    let refused = object(b"a: b: c", BodyFormat::Yaml, config_map(), FieldValidation::Warn).unwrap_err();
    assert_eq!(
        refused.status.message,
        "the object provided is unrecognized (must be of type ConfigMap): yaml: mapping values are not allowed in this \
         context (613a20623a2063)"
    );
    assert!(object(b"", BodyFormat::Yaml, config_map(), FieldValidation::Warn).is_ok());
}

#[test]
fn protobuf_body_needs_its_envelope() {
    let refused = |body: &[u8]| {
        object(body, BodyFormat::Protobuf, config_map(), FieldValidation::Warn).unwrap_err().status.message
    };
    let start = "the object provided is unrecognized (must be of type ConfigMap): ";
    assert_eq!(refused(b""), format!("{start}empty data (<empty>)"));
    assert_eq!(
        refused(b"abcdefg"),
        format!(
            "{start}provided data does not appear to be a protobuf message, expected prefix [107 56 115 0] (61626364656667)"
        )
    );
    let secret = by_kind("", "v1", "Secret").unwrap();
    let mut body = Vec::new();
    protobuf::encode(secret, &Value::Null, &mut body);
    assert_eq!(
        refused(&body),
        "Secret in version \"v1\" cannot be handled as a ConfigMap: converting (v1.Secret) to (core.ConfigMap): unknown \
         conversion"
    );
    body.clear();
    protobuf::encode(&config_map().ty, &post(r#"{"metadata":{"name":"p"}}"#).unwrap().value, &mut body);
    let taken = object(&body, BodyFormat::Protobuf, config_map(), FieldValidation::Strict).unwrap();
    assert_eq!(
        taken.value.get("metadata").and_then(|meta| meta.get("name")).and_then(Value::as_str),
        Some("p")
    );
}

#[test]
fn delete_options_are_accepted_in_any_group() {
    for body in [
        "{}",
        r#"{"apiVersion":"meta.k8s.io/v1","kind":"DeleteOptions"}"#,
        r#"{"apiVersion":"unheard.example/v7","kind":"DeleteOptions","nothing":"x"}"#,
    ] {
        assert!(delete_options(body.as_bytes(), BodyFormat::Json).is_ok(), "{body}");
    }
    let value = delete_options(b"kind: DeleteOptions\ngracePeriodSeconds: 5\n", BodyFormat::Yaml).unwrap();
    assert_eq!(value.get("gracePeriodSeconds").and_then(Value::as_i64), Some(5));
}

#[test]
fn invalid_delete_options_are_500_without_a_reason() {
    for (body, wanted) in [
        (
            "{not json",
            "couldn't get version/kind; json parse error: invalid character 'n' looking for beginning of object key string",
        ),
        (
            r#"{"apiVersion":"v1","kind":"ConfigMap"}"#,
            "no kind \"ConfigMap\" is registered for version \"v1\" in scheme \
             \"k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme/register.go:27\"",
        ),
        (
            r#"{"apiVersion":"v1","kind":"Status"}"#,
            "converting (v1.Status) to (v1.DeleteOptions): unknown conversion",
        ),
        (r#"{"apiVersion":"a/b/c","kind":"DeleteOptions"}"#, "unexpected GroupVersion string: a/b/c"),
        (
            r#"{"apiVersion":"v1","kind":"DeleteOptions","gracePeriodSeconds":"x"}"#,
            "json: cannot unmarshal string into Go struct field DeleteOptions.gracePeriodSeconds of type int64",
        ),
        (
            r#"{"apiVersion":"v1","kind":"DeleteOptions","preconditions":[]}"#,
            "json: cannot unmarshal array into Go struct field DeleteOptions.preconditions of type v1.Preconditions",
        ),
    ] {
        let status = delete_options(body.as_bytes(), BodyFormat::Json).unwrap_err();
        assert_eq!(
            (status.code, status.reason, status.message.as_str()),
            (500, Reason::Unknown, wanted),
            "{body}"
        );
    }
}

/// Widgets: `spec` with a number and an embedded object.
fn widget() -> Expected<'static> {
    use schema::view::View;
    let schema = br#"{"type":"object","properties":{"spec":{"type":"object","properties":{"n":{"type":"integer"},"any":{"type":"object","x-kubernetes-preserve-unknown-fields":true},"object":{"type":"object","x-kubernetes-embedded-resource":true,"x-kubernetes-preserve-unknown-fields":true}}}}}"#;
    type Props<'v> = schema::views::apiextensions::v1::JSONSchemaProps<'v>;
    let decoded = json::decode(Props::schema(), schema, &Limits::default()).unwrap().value;
    let compiled = schema::Structural::compile(Props::of(decoded.as_map().unwrap())).unwrap();
    let kind =
        schema::GroupVersionKind { group: "example.com".into(), version: "v1".into(), kind: "Widget".into() };
    let ty = schema::Builder::new("com.example.v1.Widget").kind(kind).object().custom(compiled).build();
    Expected { is_custom: true, ..Expected::only(ty) }
}

fn read_widget(body: &str, format: BodyFormat, validation: FieldValidation) -> Result<Body, Refused> {
    object(body.as_bytes(), format, widget(), validation)
}

#[test]
fn body_of_a_custom_kind_says_what_it_is() {
    let start = "the object provided is unrecognized (must be of type Widget): ";
    let handled = r#"cannot be handled as a Widget: "#;
    let body = r#"{"metadata":{"name":"y"}}"#;
    use FieldValidation::{Ignore, Strict, Warn};
    for (body, validation, why) in [
        (body, Warn, format!("{start}Object 'Kind' is missing in '{body}' ({body})")),
        (body, Ignore, format!(r#"Widget in version "v1" {handled}Object 'Kind' is missing in '{body}'"#)),
        ("null", Strict, format!("{start}Object 'Kind' is missing in 'null' (6e756c6c)")),
        (
            r#"{"kind":"Widget"}"#,
            Warn,
            "the API version in the data () does not match the expected API version (example.com/v1)".into(),
        ),
        (
            r#"{"kind":"Widget","apiVersion":null}"#,
            Warn,
            format!(
                r#"Widget in version "" {handled}.apiVersion accessor error: <nil> is of the type <nil>, expected string"#
            ),
        ),
        (
            r#"{"kind":"ConfigMap","apiVersion":"v1","data":{}}"#,
            Strict,
            "the API version in the data (v1) does not match the expected API version (example.com/v1)"
                .into(),
        ),
        (
            r#"{"kind":"Widget","apiVersion":"example.com/v9","spec":{},"a":1}"#,
            Strict,
            format!(
                r#"Widget in version "v9" {handled}strict decoding error: unknown field "a", unknown field "spec""#
            ),
        ),
        (
            r#"{"kind":"Widget","apiVersion":"example.com/v1","metadata":"x"}"#,
            Warn,
            format!(
                r#"Widget in version "v1" {handled}json: cannot unmarshal string into Go value of type v1.ObjectMeta"#
            ),
        ),
        (
            r#"{"kind":"Widget","apiVersion":"example.com/v1","metadata":{"labels":{"a":1}}}"#,
            Warn,
            format!(
                r#"Widget in version "v1" {handled}json: cannot unmarshal number into Go struct field ObjectMeta.labels of type string"#
            ),
        ),
        (
            r#"{"kind":"Widget","apiVersion":"example.com/v1","spec":{"object":{"kind":5}}}"#,
            Warn,
            format!(
                r#"Widget in version "v1" {handled}spec.object.kind: Invalid value: 5: must be a string"#
            ),
        ),
    ] {
        let refused = read_widget(body, BodyFormat::Json, validation).unwrap_err();
        assert_eq!(refused.status.message, why, "{body}");
    }
    let other = r#"{"kind":"Widget","apiVersion":"example.com/v9","spec":{}}"#;
    let refused = read_widget(other, BodyFormat::Json, Warn).unwrap_err();
    assert_eq!(refused.warnings, [r#"unknown field "spec""#]);
}

#[test]
fn custom_object_of_another_kind_is_not_pruned() {
    let body = r#"{"kind":"Gadget","apiVersion":"example.com/v1","metadata":{"x":1},"spec":{"unknown":1}}"#;
    let read = read_widget(body, BodyFormat::Json, FieldValidation::Warn).unwrap();
    assert_eq!(read.value.get("kind").and_then(Value::as_str), Some("Gadget"));
    assert!(read.value.get("spec").is_some_and(|spec| spec.get("unknown").is_some()));
    assert_eq!(read.warnings, [r#"unknown field "metadata.x""#]);
}

#[test]
fn unknown_fields_of_a_custom_kind_are_reported_but_in_cbor() {
    let json = r#"{"kind":"Widget","apiVersion":"example.com/v1","z":1,"spec":{"n":1,"n":2,"a":{},"any":{"x":1}},"metadata":{"b":1}}"#;
    let warnings = read_widget(json, BodyFormat::Json, FieldValidation::Warn).unwrap().warnings;
    let wanted = [
        r#"duplicate field "spec.n""#,
        r#"unknown field "metadata.b""#,
        r#"unknown field "spec.a""#,
        r#"unknown field "z""#,
    ];
    assert_eq!(warnings, wanted);
    let yaml = "kind: Widget\napiVersion: example.com/v1\nspec:\n  \"n\": 1\n  \"n\": 2\n  a: 1\n";
    let refused = read_widget(yaml, BodyFormat::Yaml, FieldValidation::Strict).unwrap_err();
    assert_eq!(
        refused.status.message,
        "Widget in version \"v1\" cannot be handled as a Widget: strict decoding error: yaml: unmarshal errors:\n  line 5: key \"n\" already set in map, unknown field \"spec.a\""
    );
    let value = read_widget(json, BodyFormat::Json, FieldValidation::Ignore).unwrap();
    assert!(value.warnings.is_empty());
    let mut bytes = Vec::new();
    let plain = br#"{"kind":"Widget","apiVersion":"example.com/v1","spec":{"a":1,"n":2}}"#;
    let plain = json::decode_shape(&Shape::Any, plain, &Limits::default()).unwrap().value;
    cbor::encode_shape(&Shape::Any, &plain, &mut bytes);
    let read = object(&bytes, BodyFormat::Cbor, widget(), FieldValidation::Strict).unwrap();
    assert!(read.value.get("spec").is_some_and(|spec| spec.get("a").is_none() && spec.get("n").is_some()));
}

#[test]
fn custom_kinds_are_not_sent_in_protobuf() {
    let kind = by_kind("", "v1", "ConfigMap").unwrap();
    let mut body = Vec::new();
    protobuf::encode(kind, &object::Map::new().into(), &mut body);
    let refused = object(&body, BodyFormat::Protobuf, widget(), FieldValidation::Warn).unwrap_err();
    assert!(
        refused.status.message.ends_with("Object 'Kind' is missing in 'object has no kind field '"),
        "{}",
        refused.status.message
    );
}
