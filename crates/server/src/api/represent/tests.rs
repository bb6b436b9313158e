use super::*;
use crate::api::testing::{Fixture, NOW, PARTIAL, PARTIAL_LIST, TABLE, text};
use crate::negotiate::ErrorFormat;
use cache::Encoding;
use std::collections::HashMap;

const META: &str =
    r#"{"name":"a","namespace":"n","resourceVersion":"1","creationTimestamp":"2025-01-01T00:00:00Z"}"#;

async fn answer(accept: &str) -> String {
    let fixture = Fixture::new().await;
    let entry = fixture.config_map("a", "<1>").await;
    let body = fixture.encoder("", "configmaps", accept).object(&entry.into()).unwrap();
    text(&body).to_owned()
}

#[tokio::test]
async fn json_in_the_storage_version_is_the_stored_bytes() {
    let wanted =
        format!(r#"{{"kind":"ConfigMap","apiVersion":"v1","metadata":{META},"data":{{"k":"<1>"}}}}"#);
    assert_eq!(answer("application/json").await, wanted + "\n");
}

#[tokio::test]
async fn yaml_and_indented_json_have_the_same_content() {
    assert_eq!(
        answer("application/yaml").await,
        "apiVersion: v1\ndata:\n  k: <1>\nkind: ConfigMap\nmetadata:\n  creationTimestamp: \"2025-01-01T00:00:00Z\"\n  \
         name: a\n  namespace: \"n\"\n  resourceVersion: \"1\"\n"
    );
    let pretty = answer("application/json;pretty=1").await;
    assert!(pretty.starts_with("{\n  \"kind\": \"ConfigMap\",\n  \"apiVersion\": \"v1\",\n"), "{pretty}");
    assert!(pretty.ends_with("    \"k\": \"<1>\"\n  }\n}"), "{pretty}");
}

#[tokio::test]
async fn another_version_is_converted_once_and_cached() {
    let fixture = Fixture::new().await;
    let json = r#"{"kind":"Event","apiVersion":"v1","metadata":{"name":"e","namespace":"n","creationTimestamp":null},"involvedObject":{"kind":"Pod"},"message":"hello","source":{},"firstTimestamp":null,"lastTimestamp":null,"eventTime":null,"reportingComponent":"","reportingInstance":""}"#;
    let entry = fixture.put("events", "e", json.to_owned()).await;
    let encoder = fixture.encoder("events.k8s.io", "events", "application/json");
    let content = Content::Entry(entry);
    let first = encoder.object(&content).unwrap();
    assert!(
        text(&first).starts_with(r#"{"kind":"Event","apiVersion":"events.k8s.io/v1","metadata":{"name":"e""#)
    );
    assert!(text(&first).contains(r#""note":"hello""#), "{}", text(&first));
    assert_eq!(encoder.object(&content).unwrap(), first);
    assert_eq!(fixture.cache.encodings().stats().misses, 1);
    let core = fixture.encoder("", "events", "application/json").object(&content).unwrap();
    assert!(text(&core).contains(r#""message":"hello""#));
}

#[tokio::test]
async fn protobuf_equals_the_encoding_of_the_schema() {
    let fixture = Fixture::new().await;
    let entry = fixture.config_map("a", "1").await;
    let encoder = fixture.encoder("", "configmaps", "application/vnd.kubernetes.protobuf");
    let tree = encoder.served.stored.as_ref().unwrap().decode(&entry).await.unwrap();
    let mut wanted = Vec::new();
    protobuf::encode(&encoder.served.ty, &tree, &mut wanted);
    assert_eq!(encoder.object(&entry.into()).unwrap(), wanted);
    assert_eq!(encoder.object(&Content::Tree(tree.clone())).unwrap(), wanted, "and for what is not stored");
    let cbor =
        fixture.encoder("", "configmaps", "application/cbor").object(&Content::Tree(tree.clone())).unwrap();
    assert_eq!(cbor::decode(&encoder.served.ty, &cbor, &Limits::STORED).unwrap().value, tree);
}

#[tokio::test]
async fn partial_metadata_is_sliced_from_the_stored_bytes() {
    let wanted =
        format!(r#"{{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{META}}}"#);
    assert_eq!(answer(&format!("application/json{PARTIAL}")).await, format!("{wanted}\n"));
    assert!(
        answer(&format!("application/yaml{PARTIAL}"))
            .await
            .starts_with("apiVersion: meta.k8s.io/v1\nkind: Partial")
    );
    let fixture = Fixture::new().await;
    let entry = fixture.config_map("a", "1").await;
    let encoder = fixture.encoder("", "configmaps", &format!("application/vnd.kubernetes.protobuf{PARTIAL}"));
    let ty = builtin::by_name("meta.v1.PartialObjectMetadata").unwrap();
    let tree = json::decode(ty, wanted.as_bytes(), &Limits::STORED).unwrap().value;
    let mut bytes = Vec::new();
    protobuf::encode(ty, &tree, &mut bytes);
    assert_eq!(encoder.object(&entry.into()).unwrap(), bytes);
    assert_eq!(encoder.object(&Content::Tree(tree)).unwrap(), bytes);
}

#[tokio::test]
async fn single_object_as_partial_metadata_list_is_406() {
    let fixture = Fixture::new().await;
    let entry = fixture.config_map("a", "1").await;
    let status = fixture
        .encoder("", "configmaps", &format!("application/json{PARTIAL_LIST}"))
        .object(&entry.into())
        .unwrap_err();
    assert_eq!(
        status.message,
        "you requested PartialObjectMetadataList, but the requested object is not a list (*core.ConfigMap)"
    );
    assert_eq!((status.code, status.details), (406, None));
}

#[tokio::test]
async fn table_of_an_object_has_headings_and_one_row() {
    let table = answer(&format!("application/json{TABLE}")).await;
    assert!(
        table.starts_with(
            r#"{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"1"},"columnDefinitions":[{"name":"Name","type":"string","format":"name","description":"Name must be unique within a namespace."#
        ),
        "{table}"
    );
    let rows = format!(
        r#""rows":[{{"cells":["a",1,"2d21h"],"object":{{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{META}}}}}]}}"#
    );
    assert!(table.ends_with(&format!("{rows}\n")), "{table}");
}

#[tokio::test]
async fn ages_are_computed_per_request_and_rows_are_cached() {
    let fixture = Fixture::new().await;
    let entry = fixture.config_map("a", "1").await;
    let mut encoder = fixture.encoder("", "configmaps", &format!("application/json{TABLE}"));
    encoder.include = Include::None;
    for (now, age) in [
        (NOW, "2d21h"),
        ("2025-01-01T00:01:30.000000Z", "90s"),
        ("2024-01-01T00:00:00.000000Z", "\\u003cinvalid\\u003e"),
    ] {
        encoder.now = now.parse().unwrap();
        let table = encoder.object(&Content::Entry(entry.clone())).unwrap();
        let row = format!(r#""rows":[{{"cells":["a",1,"{age}"],"object":null}}]}}"#);
        assert!(text(&table).trim_end().ends_with(&row), "{}", text(&table));
    }
    assert_eq!(fixture.cache.encodings().stats().misses, 1);
    encoder.include = Include::Object;
    let table = encoder.object(&Content::Entry(entry.clone())).unwrap();
    assert!(
        text(&table).contains(r#""object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a""#)
    );
    assert!(text(&table).trim_end().ends_with(r#""data":{"k":"1"}}}]}"#), "{}", text(&table));
}

#[test]
fn cached_row_keeps_every_type_of_cell() {
    let row = kinds::Row {
        cells: vec![
            kinds::Cell::text("\"<"),
            kinds::Cell::Integer(-5),
            kinds::Cell::Bool(true),
            kinds::Cell::Null,
            kinds::Cell::Since {
                before: "5 (".into(),
                time: Some("2025-01-03T20:59:00Z".into()),
                after: " ago)",
            },
            kinds::Cell::since(None),
        ],
        conditions: vec![kinds::Condition {
            ty: "Completed",
            status: "True",
            reason: "Succeeded",
            message: "",
        }],
    };
    let mut out = Vec::new();
    let metadata = table::Row::write(&table::Row::make(&row, 7..9), NOW.parse().unwrap(), &mut out);
    assert_eq!(metadata, 7..9);
    assert_eq!(
        text(&out),
        r#"{"cells":["\"\u003c",-5,true,null,"5 (60s ago)","\u003cunknown\u003e"],"conditions":[{"type":"Completed","status":"True","reason":"Succeeded"}],"object":"#
    );
}

#[tokio::test]
async fn scale_table_has_its_own_columns() {
    let fixture = Fixture::new().await;
    let ty = builtin::by_kind("autoscaling", "v1", "Scale").unwrap();
    let json = br#"{"kind":"Scale","apiVersion":"autoscaling/v1","metadata":{"name":"d"},"spec":{"replicas":3},"status":{"replicas":2}}"#;
    let value = json::decode(ty, json, &Limits::STORED).unwrap().value;
    let encoder = fixture.encoder("apps", "deployments", &format!("application/json{TABLE}"));
    let table = encoder.object(&Content::Other { ty: ty.into(), value }).unwrap();
    assert!(
        text(&table).contains(r#""rows":[{"cells":["d",3,2,"\u003cunknown\u003e"],"object":"#),
        "{}",
        text(&table)
    );
}

#[test]
fn errors_are_encoded_in_the_accepted_format() {
    let status = Status::not_found("", "configmaps", "missing");
    let body = |format| status_body(&status, format).0;
    assert_eq!(
        body(ErrorFormat::Negotiated(Format::Protobuf)),
        [
            &b"k8s\0\x0a\x0c\x0a\x02v1\x12\x06Status\x12\x5b\x0a\x06\x0a\x00\x12\x00\x1a\x00\x12\x07Failure\x1a\x1e"[..],
            b"configmaps \"missing\" not found\x22\x08NotFound\x2a\x1b\x0a\x07missing\x12\x00\x1a\x0aconfigmaps",
            b"\x28\x00\x32\x00\x30\x94\x03\x1a\x00\x22\x00",
        ]
        .concat(),
        "the reference's bytes"
    );
    assert_eq!(
        text(&body(ErrorFormat::Negotiated(Format::Yaml))),
        "apiVersion: v1\ncode: 404\ndetails:\n  kind: configmaps\n  name: missing\nkind: Status\nmessage: configmaps \"missing\" \
         not found\nmetadata: {}\nreason: NotFound\nstatus: Failure\n"
    );
    let raw = body(ErrorFormat::IndentedJson);
    assert!(text(&raw).starts_with("{\n  \"kind\": \"Status\",\n") && text(&raw).ends_with("\n}"));
    assert_eq!(raw.len(), 241, "as long as the reference's");
    assert_eq!(status_body(&status, ErrorFormat::IndentedJson).1, "application/json");
}

#[tokio::test]
async fn cache_ids_of_encodings_are_unique_across_kinds_and_versions() {
    let fixture = Fixture::new().await;
    let mut seen: HashMap<Encoding, String> = HashMap::new();
    for served in fixture.registry.catalog().served() {
        let name = format!("{} {}", served.api_version, served.kind);
        for encoding in [CachedEncoding::Json, CachedEncoding::Protobuf, CachedEncoding::Row] {
            if let Some(other) = seen.insert(encodings::cache_id(encoding, served), name.clone()) {
                panic!("{name} and {other}");
            }
        }
    }
}
