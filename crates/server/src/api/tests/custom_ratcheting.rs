//! A schema that became stricter: what an object has kept since before stays valid until it is changed, by an
//! apply to the object and by one to its status.

use super::*;
use kinds::{CustomStrategy, ResourceType, Scope, Subresource};
use registry::{Conversion, CustomKind, CustomVersion};
use schema::view::View;
use schema::views::apiextensions::v1::JSONSchemaProps;
use schema::{Builder, GroupVersionKind, Limits, Ref, Structural, json};

const WIDGETS: &str = "/apis/example.com/v1/namespaces/n/widgets";

/// One step of a case.
enum Step<'a> {
    /// The schema changes.
    Schema(&'a str),
    /// A configuration that is accepted.
    Applies(&'a str),
    /// A configuration that is refused as invalid.
    Fails(&'a str),
}

use Step::{Applies, Fails, Schema};

/// The place of the fields of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Object,
    Status,
}

/// Widgets whose fields, or those of whose status, have these properties.
fn widgets(properties: &str, place: Place) -> CustomKind {
    let schema = match place {
        Place::Object => format!(r#"{{"type":"object","properties":{properties}}}"#),
        Place::Status => format!(
            r#"{{"type":"object","properties":{{"status":{{"type":"object","properties":{properties}}}}}}}"#
        ),
    };
    let decoded = json::decode(JSONSchemaProps::schema(), schema.as_bytes(), &Limits::default()).unwrap();
    let schema = Structural::compile(JSONSchemaProps::of(decoded.value.as_map().unwrap())).unwrap();
    let kind = GroupVersionKind { group: "example.com".into(), version: "v1".into(), kind: "Widget".into() };
    let ty = Builder::new("com.example.v1.Widget").kind(kind.clone()).object().custom(schema.clone()).build();
    let resource_type = ResourceType {
        subresources: vec![Subresource::STATUS],
        strategy: Ref::Shared(Arc::new(CustomStrategy::new(schema, true, None))),
        ..ResourceType::custom(&kind, "widgets", Scope::Namespaced, ty)
    };
    CustomKind {
        versions: vec![CustomVersion { resource_type: Arc::new(resource_type), served: true }],
        storage_version: "v1".into(),
        conversion: Conversion::None,
    }
}

async fn apply(server: &Server, fields: &str, place: Place) -> Answer {
    const HEAD: &str = r#""kind":"Widget","apiVersion":"example.com/v1","metadata":{"name":"a"}"#;
    let fields = fields.strip_prefix('{').unwrap();
    let (path, body) = match place {
        Place::Object => ("", format!("{{{HEAD},{fields}")),
        Place::Status => ("/status", format!(r#"{{{HEAD},"status":{{{fields}}}"#)),
    };
    let request = http::Request::patch(format!("{WIDGETS}/a{path}?fieldManager=manager"))
        .header(CONTENT_TYPE, "application/apply-patch+yaml");
    server.ask(request, &body).await
}

async fn check(steps: &[Step<'_>]) {
    for place in [Place::Object, Place::Status] {
        let server = Server::start().await;
        for (number, step) in steps.iter().enumerate() {
            match step {
                Schema(properties) => {
                    server.0.registry.install(widgets(properties, place)).await.unwrap();
                    if number == 0 && place == Place::Status {
                        let widget =
                            r#"{"kind":"Widget","apiVersion":"example.com/v1","metadata":{"name":"a"}}"#;
                        server.send("POST", WIDGETS, widget).await.says(201, "a");
                    }
                }
                Applies(fields) => {
                    let answer = apply(&server, fields, place).await;
                    assert!(matches!(answer.code, 200 | 201), "{place:?} {number}: {}", answer.text());
                }
                Fails(fields) => {
                    let answer = apply(&server, fields, place).await;
                    assert_eq!(answer.code, 422, "{place:?} {number}: {}", answer.text());
                }
            }
        }
    }
}

#[tokio::test]
async fn numbers_below_a_new_minimum_or_above_a_new_maximum_may_stay() {
    check(&[
        Schema(r#"{"low":{"type":"integer"},"high":{"type":"integer"},"both":{"type":"integer"},"free":{"type":"integer"}}"#),
        Applies(r#"{"low":0,"high":1000,"both":50}"#),
        Schema(
            r#"{"low":{"type":"integer","minimum":10},"high":{"type":"integer","maximum":20},"both":{"type":"integer","minimum":10,"maximum":20},"free":{"type":"integer"}}"#,
        ),
        Applies(r#"{"low":0,"high":1000,"both":50,"free":50}"#),
        Fails(r#"{"low":5,"high":1000,"both":50}"#),
        Fails(r#"{"low":5,"high":21}"#),
        Applies(r#"{"low":11,"high":1000,"both":50}"#),
        Applies(r#"{"high":19,"both":15}"#),
        Fails(r#"{"high":1000}"#),
    ])
    .await;
}

#[tokio::test]
async fn values_that_are_no_longer_listed_may_stay() {
    check(&[
        Schema(r#"{"one":{"type":"string"}}"#),
        Applies(r#"{"one":"before"}"#),
        Schema(r#"{"one":{"type":"string","enum":["A","B","C"]},"other":{"type":"string"}}"#),
        Applies(r#"{"one":"before"}"#),
        Applies(r#"{"one":"before","other":"any"}"#),
        Fails(r#"{"one":"D"}"#),
        Applies(r#"{"one":"A"}"#),
        Fails(r#"{"one":"before"}"#),
    ])
    .await;
}

#[tokio::test]
async fn values_of_other_keys_may_stay() {
    check(&[
        Schema(r#"{"numbers":{"type":"object","additionalProperties":{"type":"integer"}}}"#),
        Applies(r#"{"numbers":{"a":1,"b":1000000}}"#),
        Schema(r#"{"numbers":{"type":"object","additionalProperties":{"type":"integer","minimum":1000}}}"#),
        Applies(r#"{"numbers":{"a":1,"b":2000}}"#),
        Fails(r#"{"numbers":{"a":2,"b":2000}}"#),
        Fails(r#"{"numbers":{"a":1,"b":2000,"c":1}}"#),
    ])
    .await;
}

#[tokio::test]
async fn maps_with_too_many_or_too_few_keys_may_stay_as_they_are() {
    check(&[
        Schema(
            r#"{"few":{"type":"object","additionalProperties":{"type":"string"}},"free":{"type":"object","additionalProperties":{"type":"string"}}}"#,
        ),
        Applies(r#"{"few":{"a":"hi","b":"there"}}"#),
        Schema(
            r#"{"few":{"type":"object","additionalProperties":{"type":"string"},"minProperties":1,"maxProperties":1},"free":{"type":"object","additionalProperties":{"type":"string"}}}"#,
        ),
        Applies(r#"{"few":{"a":"hi","b":"there"},"free":{"a":"yo"}}"#),
        Fails(r#"{"few":{"a":"changed","b":"there"},"free":{"a":"yo"}}"#),
        Schema(
            r#"{"few":{"type":"object","additionalProperties":{"type":"string"},"minProperties":2},"free":{"type":"object","additionalProperties":{"type":"string"}}}"#,
        ),
        Applies(r#"{"few":{"a":"hi","b":"there","c":"more"}}"#),
        Fails(r#"{"few":{"a":"hi","b":null,"c":null}}"#),
        Fails(r#"{"few":{"a":"hi"}}"#),
        Schema(
            r#"{"few":{"type":"object","additionalProperties":{"type":"string"},"maxProperties":1},"free":{"type":"object","additionalProperties":{"type":"string"}}}"#,
        ),
        Applies(r#"{"few":{"a":"hi","b":"there","c":"more"},"free":{"a":"value","b":"value"}}"#),
        Fails(r#"{"few":{"a":"hi","b":"changed","c":"more"}}"#),
    ])
    .await;
}

#[tokio::test]
async fn lists_with_too_few_or_too_many_items_may_stay_as_they_are() {
    check(&[
        Schema(r#"{"one":{"type":"string"},"list":{"type":"array","items":{"type":"string"}}}"#),
        Applies(r#"{"list":["a","b","c"]}"#),
        Schema(r#"{"one":{"type":"string"},"list":{"type":"array","items":{"type":"string"},"minItems":5}}"#),
        Applies(r#"{"list":["a","b","c"],"one":"value"}"#),
        Fails(r#"{"list":["b","b","c"]}"#),
        Fails(r#"{"list":["a","b","c","d"]}"#),
        Applies(r#"{"list":["a","b","c","d","e"]}"#),
        Fails(r#"{"list":["a","b","c"]}"#),
        Schema(r#"{"one":{"type":"string"},"list":{"type":"array","items":{"type":"string"},"maxItems":1}}"#),
        Applies(r#"{"list":["a","b","c","d","e"],"one":"other"}"#),
        Fails(r#"{"list":["a","b","c","d"]}"#),
        Fails(r#"{"list":["b","b","c","d","e"]}"#),
        Applies(r#"{"list":["a"]}"#),
        Fails(r#"{"list":["a","b","c","d","e"]}"#),
    ])
    .await;
}

#[tokio::test]
async fn texts_of_another_length_pattern_or_format_may_stay() {
    let text = |rules: &str| format!(r#"{{"one":{{"type":"string"{rules}}},"other":{{"type":"string"}}}}"#);
    for (before, rules, wrong, right) in [
        ("value", r#","minLength":10"#, "short", "valuelength13"),
        ("valueThatsVeryLongSee", r#","maxLength":15"#, "valuewithlength17", "l2"),
        ("does not match", r#","pattern":"^[1-9]+$""#, "w123", "123"),
        ("not of any format", r#","format":"byte""#, "asd", "dGhpcyBpcyBwYXNzd29yZA=="),
        ("dGhpcyBpcyBwYXNzd29yZA==", r#","format":"date-time""#, "yesterday", "2018-11-13T20:20:39+00:00"),
    ] {
        let fields = |one: &str, rest: &str| format!(r#"{{"one":"{one}"{rest}}}"#);
        check(&[
            Schema(&text("")),
            Applies(&fields(before, "")),
            Schema(&text(rules)),
            Applies(&fields(before, "")),
            Applies(&fields(before, r#","other":"added""#)),
            Fails(&fields(wrong, r#","other":"added""#)),
            Applies(&fields(right, r#","other":"added""#)),
            Fails(&fields(before, r#","other":"added""#)),
        ])
        .await;
    }
}

#[tokio::test]
async fn items_of_a_list_map_belong_together_by_their_keys() {
    let list = |of_port: &str, of_list: &str| {
        format!(
            r#"{{"list":{{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["name","port"]{of_list},"items":{{"type":"object","required":["name","port"],"properties":{{
                "name":{{"type":"string"}},"port":{{"type":"integer"{of_port}}},"field":{{"type":"string"}}}}}}}}}}"#
        )
    };
    let of = |items: &[(&str, u16, &str)]| {
        let items = items
            .iter()
            .map(|(name, port, field)| format!(r#"{{"name":"{name}","port":{port},"field":"{field}"}}"#));
        format!(r#"{{"list":[{}]}}"#, items.collect::<Vec<_>>().join(","))
    };
    let (nginx, etcd, api, dev) =
        (("nginx", 443, "v"), ("etcd", 2379, "v"), ("api", 6443, "v"), ("dev", 8080, "v"));
    check(&[
        Schema(&list("", "")),
        Applies(&of(&[nginx, etcd, api])),
        Schema(&list("", r#","maxItems":2"#)),
        Applies(&of(&[api, nginx, etcd])),
        Fails(&of(&[api, nginx, etcd, dev])),
        Fails(&of(&[api, nginx, ("etcd", 2379, "changed")])),
        Schema(&list(r#","multipleOf":2"#, "")),
        Applies(&of(&[nginx, etcd, api])),
        Applies(&of(&[nginx, etcd, ("api", 6443, "changed"), dev])),
        Fails(&of(&[nginx, etcd, ("api", 6443, "changed"), dev, ("odd", 1, "v")])),
    ])
    .await;
}

#[tokio::test]
async fn items_of_other_lists_do_not_belong_together() {
    check(&[
        Schema(
            r#"{"list":{"type":"array","items":{"type":"object","additionalProperties":{"type":"string"}}},"other":{"type":"string"}}"#,
        ),
        Applies(r#"{"list":[{"name":"1","key":"value"},{"name":"2","key":"value"}]}"#),
        Schema(
            r#"{"list":{"type":"array","items":{"type":"object","additionalProperties":{"type":"string","minLength":6}}},"other":{"type":"string"}}"#,
        ),
        Fails(r#"{"list":[{"name":"1","key":"value"},{"name":"2","key":"bad"}]}"#),
        Applies(r#"{"list":[{"name":"1","key":"value"},{"name":"2","key":"value"}],"other":"hello"}"#),
        Fails(r#"{"list":[{"name":"1","key":"value"},{"name":"2","key":"value","more":"valid value"}]}"#),
        Fails(r#"{"list":[{"name":"2","key":"value"},{"name":"1","key":"value"}]}"#),
    ])
    .await;
}
