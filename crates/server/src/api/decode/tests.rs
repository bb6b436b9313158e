use super::*;
use schema::builtin::by_kind;

fn config_map() -> Expected<'static> {
    Expected::only(by_kind("", "v1", "ConfigMap").unwrap())
}

fn post(body: &str) -> Result<Body, String> {
    object(body.as_bytes(), BodyFormat::Json, config_map(), FieldValidation::Warn).map_err(|status| {
        assert_eq!((status.code, status.reason), (400, Reason::BadRequest));
        status.message
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
        object(body.as_bytes(), BodyFormat::Json, expected, FieldValidation::Warn).unwrap_err().message
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
        read(FieldValidation::Strict).unwrap_err().message,
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
        read(FieldValidation::Strict).unwrap_err().message,
        "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: yaml: unmarshal errors:\n  \
         line 3: key \"name\" already set in map\n  line 5: key \"foo\" already set in map, unknown field \"foo\""
    );
    let refused = object(b"a: b: c", BodyFormat::Yaml, config_map(), FieldValidation::Warn).unwrap_err();
    assert_eq!(
        refused.message,
        "the object provided is unrecognized (must be of type ConfigMap): yaml: mapping values are not allowed in this \
         context (613a20623a2063)"
    );
    assert!(object(b"", BodyFormat::Yaml, config_map(), FieldValidation::Warn).is_ok());
}

#[test]
fn protobuf_body_needs_its_envelope() {
    let refused = |body: &[u8]| {
        object(body, BodyFormat::Protobuf, config_map(), FieldValidation::Warn).unwrap_err().message
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
