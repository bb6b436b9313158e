use super::*;
use crate::api::represent::{indented, to_yaml};
use crate::api::testing::{Fixture, PARTIAL, PARTIAL_LIST, TABLE, body, text};
use http::header::{CONTENT_ENCODING, VARY};
use schema::protobuf::Envelope;
use schema::{Limits, Shape, cbor, json};
use std::io::Read;

const META: &str = r#""namespace":"n","resourceVersion":"#;

async fn listed(fixture: &Fixture, accept: &str) -> Bytes {
    let encoder = fixture.encoder("", "configmaps", accept);
    body(respond(encoder, fixture.list("configmaps").await, Coding::Identity).await.unwrap()).await
}

async fn two() -> Fixture {
    let fixture = Fixture::new().await;
    fixture.config_map("a", "1").await;
    fixture.config_map("b", "2").await;
    fixture
}

#[tokio::test]
async fn list_items_have_no_kind_and_api_version() {
    let time = r#""creationTimestamp":"2025-01-01T00:00:00Z""#;
    assert_eq!(
        text(&listed(&two().await, "application/json").await),
        format!(
            "{{\"kind\":\"ConfigMapList\",\"apiVersion\":\"v1\",\"metadata\":{{\"resourceVersion\":\"2\"}},\"items\":[\
             {{\"metadata\":{{\"name\":\"a\",{META}\"1\",{time}}},\"data\":{{\"k\":\"1\"}}}},\
             {{\"metadata\":{{\"name\":\"b\",{META}\"2\",{time}}},\"data\":{{\"k\":\"2\"}}}}]}}\n"
        )
    );
}

#[tokio::test]
async fn page_has_continue_token_and_remaining_count() {
    let fixture = two().await;
    let list = List { token: "t".into(), remaining: Some(5), ..fixture.list("configmaps").await };
    let encoder = fixture.encoder("", "configmaps", "application/json");
    let body = body(respond(encoder, list, Coding::Identity).await.unwrap()).await;
    let meta = r#""metadata":{"resourceVersion":"2","continue":"t","remainingItemCount":5},"items":[{"#;
    assert!(text(&body).contains(meta), "{}", text(&body));
}

#[tokio::test]
async fn empty_lists_equal_those_of_the_reference() {
    let fixture = Fixture::new().await;
    assert_eq!(
        text(&listed(&fixture, "application/json").await),
        "{\"kind\":\"ConfigMapList\",\"apiVersion\":\"v1\",\"metadata\":{},\"items\":[]}\n"
    );
    let partial = listed(&fixture, &format!("application/json{PARTIAL_LIST}")).await;
    assert!(text(&partial).ends_with("\"items\":null}\n"), "{}", text(&partial));
    let table = listed(&fixture, &format!("application/json{TABLE}")).await;
    assert!(text(&table).ends_with("],\"rows\":[]}\n"), "{}", text(&table));
    let yaml = listed(&fixture, "application/yaml").await;
    assert!(text(&yaml).starts_with("apiVersion: v1\nitems: []\nkind: ConfigMapList\n"), "{}", text(&yaml));
    let protobuf = listed(&fixture, "application/vnd.kubernetes.protobuf").await;
    let envelope = Envelope::read(&protobuf).unwrap();
    assert_eq!((envelope.api_version, envelope.kind), ("v1", "ConfigMapList"));
    assert_eq!(envelope.raw, b"\x0a\x06\x0a\x00\x12\x00\x1a\x00");
}

#[tokio::test]
async fn all_formats_have_the_same_content() {
    let fixture = two().await;
    for transform in ["", PARTIAL_LIST, TABLE] {
        let plain = listed(&fixture, &format!("application/json{transform}")).await;
        let plain = plain.trim_ascii_end();
        assert_eq!(
            listed(&fixture, &format!("application/json;pretty=1{transform}")).await,
            indented(plain),
            "{transform}"
        );
        assert_eq!(
            listed(&fixture, &format!("application/yaml{transform}")).await,
            to_yaml(plain).unwrap(),
            "{transform}"
        );
        if transform != TABLE {
            let cbor = listed(&fixture, &format!("application/cbor{transform}")).await;
            let tree = |decoded: schema::Decoded| {
                let mut out = Vec::new();
                cbor::encode_shape(&Shape::Any, &decoded.value, &mut out);
                out
            };
            assert_eq!(
                tree(cbor::decode_shape(&Shape::Any, &cbor, &Limits::default()).unwrap()),
                tree(json::decode_shape(&Shape::Any, plain, &Limits::default()).unwrap()),
                "{transform}"
            );
        }
    }
}

#[tokio::test]
async fn protobuf_list_starts_with_its_length() {
    let fixture = two().await;
    let bytes = listed(&fixture, "application/vnd.kubernetes.protobuf").await;
    let envelope = Envelope::read(&bytes).unwrap();
    assert_eq!(envelope.kind, "ConfigMapList");
    let encoder = fixture.encoder("", "configmaps", "application/vnd.kubernetes.protobuf");
    let mut wanted = b"\x0a\x07\x0a\x00\x12\x012\x1a\x00".to_vec();
    for entry in fixture.list("configmaps").await.objects {
        let object = encoder.object(&entry.into()).unwrap();
        crate::api::represent::wire::bytes_field(2, Envelope::read(&object).unwrap().raw, &mut wanted);
    }
    assert_eq!(envelope.raw, wanted);
    let accept = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=";
    for (version, first) in [("v1", b"\x0a\x07\x0a\x00"), ("v1beta1", b"\x0a\x1d\x0a\x1b")] {
        let bytes = listed(&fixture, &format!("{accept}{version}")).await;
        let envelope = Envelope::read(&bytes).unwrap();
        assert_eq!((envelope.kind, envelope.raw.len()), ("PartialObjectMetadataList", 71), "{version}");
        assert_eq!(&envelope.raw[..4], first, "{version}: {:02x?}", envelope.raw);
    }
}

#[tokio::test]
async fn list_as_partial_object_metadata_is_406() {
    let fixture = two().await;
    let encoder = fixture.encoder("", "configmaps", &format!("application/json{PARTIAL}"));
    let refused = respond(encoder, fixture.list("configmaps").await, Coding::Identity).await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        "you requested PartialObjectMetadata, but the requested object is a list (*core.ConfigMapList)"
    );
}

#[tokio::test]
async fn long_lists_are_sent_in_chunks_and_compressed() {
    let fixture = Fixture::new().await;
    let value = "x".repeat(2_000);
    for at in 0..200 {
        fixture.config_map(&format!("c{at:03}"), &value).await;
    }
    for accept in ["application/json", "application/vnd.kubernetes.protobuf", "application/yaml"] {
        let encoder = || fixture.encoder("", "configmaps", accept);
        let plain = respond(encoder(), fixture.list("configmaps").await, Coding::Identity).await.unwrap();
        assert!(matches!(plain.body(), Body::Stream(_)), "{accept}");
        assert!(!plain.headers().contains_key(CONTENT_ENCODING));
        let plain = body(plain).await;
        assert!(plain.len() > 400_000, "{accept}");
        let packed = respond(encoder(), fixture.list("configmaps").await, Coding::Gzip).await.unwrap();
        assert_eq!(packed.headers()[CONTENT_ENCODING], "gzip");
        assert_eq!(packed.headers()[VARY], "Accept-Encoding");
        let mut unpacked = Vec::new();
        flate2::read::GzDecoder::new(&*body(packed).await).read_to_end(&mut unpacked).unwrap();
        assert_eq!(unpacked, plain, "{accept}");
    }
    let protobuf = listed(&fixture, "application/vnd.kubernetes.protobuf").await;
    assert_eq!(Envelope::read(&protobuf).unwrap().kind, "ConfigMapList");
    let all =
        json::decode_shape(&Shape::Any, &listed(&fixture, "application/json").await, &Limits::default())
            .unwrap();
    assert_eq!(all.value.get("items").and_then(object::Value::as_list).map(<[_]>::len), Some(200));
}

const OTHER_FORMS: [&str; 6] = [
    "application/vnd.kubernetes.protobuf",
    "application/cbor",
    "application/yaml",
    "application/json;pretty=1",
    "application/json;as=Table;g=meta.k8s.io;v=v1",
    "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
];

/// Lists config maps while nothing can run beside the event loop: `None` if that has to.
async fn listed_on_the_event_loop(fixture: &Fixture, accept: &str) -> Option<Bytes> {
    let encoder = fixture.encoder("", "configmaps", accept);
    let _permits = encoder.large.all_permits().await;
    let list = fixture.list("configmaps").await;
    let sent = async { body(respond(encoder, list, Coding::Identity).await.unwrap()).await };
    tokio::time::timeout(std::time::Duration::from_secs(60), sent).await.ok()
}

#[tokio::test(start_paused = true)]
async fn large_lists_are_encoded_beside_the_event_loop_unless_they_are_cached() {
    let fixture = Fixture::new().await;
    for at in 0..100 {
        fixture.config_map(&format!("c{at:03}"), &"x".repeat(2_000)).await;
    }
    assert!(listed_on_the_event_loop(&fixture, "application/json").await.is_some(), "as it is stored");
    for accept in OTHER_FORMS {
        assert!(listed_on_the_event_loop(&fixture, accept).await.is_none(), "{accept}");
        let made = listed(&fixture, accept).await;
        assert_eq!(listed_on_the_event_loop(&fixture, accept).await.as_ref(), Some(&made), "{accept}");
    }
}

#[tokio::test(start_paused = true)]
async fn small_lists_are_encoded_on_the_event_loop() {
    let fixture = Fixture::new().await;
    for at in 0..20 {
        fixture.config_map(&format!("c{at:03}"), &"x".repeat(2_000)).await;
    }
    for accept in OTHER_FORMS {
        assert!(listed_on_the_event_loop(&fixture, accept).await.is_some(), "{accept}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_rest_of_a_long_object_is_encoded_beside_the_event_loop() {
    let fixture = Fixture::new().await;
    let lines: String = "x\\n".repeat(50_000);
    fixture.config_map("long", &lines).await;
    let encoder = fixture.encoder("", "configmaps", "application/yaml");
    let large = encoder.large.clone();
    let response = respond(encoder, fixture.list("configmaps").await, Coding::Identity).await.unwrap();
    let _permits = large.all_permits().await;
    let sent = tokio::time::timeout(std::time::Duration::from_secs(60), body(response)).await;
    assert!(sent.is_err());
}

#[tokio::test(start_paused = true)]
async fn tables_with_sorted_rows_are_sorted_beside_the_event_loop() {
    let fixture = Fixture::new().await;
    for (name, precedence) in [("a", 9000), ("b", 10)] {
        let long = "x".repeat(LARGE);
        let json = format!(
            r#"{{"kind":"FlowSchema","apiVersion":"flowcontrol.apiserver.k8s.io/v1","metadata":{{"name":"{name}","annotations":{{"long":"{long}"}}}},"spec":{{"matchingPrecedence":{precedence},"priorityLevelConfiguration":{{"name":"p"}}}}}}"#
        );
        let resource = fixture.cache.resource("flowschemas.flowcontrol.apiserver.k8s.io").unwrap();
        fixture.cache.commit(cache::Change::put(&resource, "", name, json)).await.unwrap();
    }
    let accept = &format!("application/json{TABLE}");
    let encoder = fixture.encoder("flowcontrol.apiserver.k8s.io", "flowschemas", accept);
    let permits = encoder.large.all_permits().await;
    let (large, sorted) = (
        encoder.large.clone(),
        Producer::new(encoder, fixture.list("flowschemas.flowcontrol.apiserver.k8s.io").await),
    );
    let mut sorted = sorted.unwrap();
    assert!(matches!(sorted.step(None), Ok(Step::Large(bytes)) if bytes > LARGE));
    drop(permits);
    for _ in ["decoded", "sorted"] {
        let permit = large.permit(LARGE * 2).await;
        assert!(matches!(sorted.step(Some(permit)), Ok(Step::Again)));
    }
    let State::Writing { rest: Remaining::Measured(rest), .. } = &sorted.state else { panic!("not sorted") };
    assert_eq!(rest.as_slice().iter().map(|entry| entry.name()).collect::<Vec<_>>(), ["b", "a"]);
}
