//! The documents of custom kinds compared with those of the reference, for the definitions in
//! `reference/definitions.json`.
#![allow(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "test code")]

use flate2::read::GzDecoder;
use kinds::{ResourceType, Scope, SelectableField, Subresource};
use openapi::{ServedResources, discovery, hash, v2, v3};
use schema::{Builder, GroupVersionKind, Limits, Ref, Shape};
use serde_json::{Value, from_slice};
use std::io::Read;
use std::sync::Arc;

fn texts(list: &Value) -> Vec<object::Text> {
    list.as_array().into_iter().flatten().map(|text| text.as_str().expect("text").into()).collect()
}

fn tree(value: &Value) -> object::Value {
    let decoded = schema::json::decode_shape(&Shape::Any, value.to_string().as_bytes(), &Limits::STORED);
    decoded.expect("JSON").value
}

/// The served versions of a definition.
fn custom(definition: &Value) -> Vec<Arc<ResourceType>> {
    let spec = &definition["spec"];
    let names = &spec["names"];
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    let versions = spec["versions"].as_array().expect("versions");
    let storage = versions.iter().find(|version| version["storage"] == true).expect("a storage version");
    let served = versions.iter().filter(|version| version["served"] == true);
    let made = served.map(|version| {
        let kind = GroupVersionKind {
            group: text(&spec["group"]).into(),
            version: text(&version["name"]).into(),
            kind: text(&names["kind"]).into(),
        };
        let scope = if spec["scope"] == "Namespaced" { Scope::Namespaced } else { Scope::Cluster };
        let ty = Builder::new(text(&names["kind"])).kind(kind.clone()).object().build();
        let mut made = ResourceType::custom(&kind, &text(&names["plural"]), scope, ty);
        made.singular = text(&names["singular"]).into();
        made.list_kind = text(&names["listKind"]).into();
        made.short_names = texts(&names["shortNames"]);
        made.categories = texts(&names["categories"]);
        made.announced_storage =
            Some(format!("{}/{}/{}", kind.group, text(&storage["name"]), kind.kind).into());
        for field in version["selectableFields"].as_array().into_iter().flatten() {
            let name: object::Text = text(&field["jsonPath"]).trim_start_matches('.').into();
            let (index, paths) = (name.clone(), vec![name.clone()]);
            let (absent, absent_within) = ("".into(), Vec::new());
            made.fields.push(SelectableField { name, index, paths, absent, absent_within, indexed: true });
        }
        if version["subresources"].get("scale").is_some() {
            let paths = kinds::ScalePaths {
                spec_replicas: Vec::new().into(),
                status_replicas: Vec::new().into(),
                selector: Vec::new().into(),
                are_open: true,
            };
            made.subresources.push(Subresource::scale(Ref::Shared(Arc::new(paths))));
        }
        if version["subresources"].get("status").is_some() {
            made.subresources.push(Subresource::STATUS);
        }
        let schema = version["schema"].get("openAPIV3Schema").map(tree);
        made.definition = Some(Arc::new(move || schema.clone()));
        Arc::new(made)
    });
    made.collect()
}

fn customs() -> Vec<Arc<ResourceType>> {
    let definitions: Value = from_slice(include_bytes!("reference/definitions.json")).expect("JSON");
    let mut all: Vec<_> = definitions.as_array().expect("definitions").iter().flat_map(custom).collect();
    all.sort_by(|a, b| a.group.cmp(&b.group));
    all
}

/// The built-in kinds, and after them the custom ones.
fn served() -> ServedResources {
    let builtin = kinds::all().flat_map(|kind| kind.versions.iter().map(move |version| (kind, version)));
    let builtin = builtin.filter(|(_, version)| version.by_default);
    let builtin = builtin.filter_map(|(kind, version)| ResourceType::builtin(kind, version)).map(Arc::new);
    ServedResources::new(builtin.chain(customs()))
}

/// The document with these parts.
fn v2_document(parts: &[v2::DocumentPart], encoding: v2::Encoding) -> Vec<u8> {
    let mut document = Vec::new();
    GzDecoder::new(v2::gzip(parts, encoding).as_slice()).read_to_end(&mut document).expect("gzip");
    document
}

fn custom_parts(encoding: v2::Encoding) -> Vec<v2::DocumentPart> {
    let mut writer = v2::Writer::new(encoding);
    customs().iter().map(|resource| writer.custom(resource)).collect()
}

/// The ETags of the documents in the reference: the hashes of their bytes.
const V3_ETAGS: &[(&str, &str)] = &[
    ("apis/a.other.io/foo1", "59783A78E48341F7DA97994AE8F7E03099ADE841440E2D3D7F96EDB139B6285A"),
    ("apis/a.other.io/v2", "ADCA2ABACEA1B34BCB0FC8F480DE892681AF04A7DAF2B3DECF88B2EEE2BFA8E8"),
    ("apis/apps.example.org/v1", "926E6975AEBA28E6CE520D0F07036CC777EAE81970243FA18FADF04260EBE989"),
    ("apis/example.com/v1", "FE9925FD2B31C00637AFDD1740747C4F4C03D274E758DD31C142895DC68C2C3E"),
    ("apis/example.com/v1beta1", "DDBAD8B126C37F0941B391C318F3D1455ED7EC4AEDD3DA9E4BBBD90B1126D55A"),
    ("apis/metrics.k8s.io/v1", "A358C71BB1595FD4E0A625EC11FA5D276A5D8A79FCB57BB99A0D48C8792C36FE"),
];

#[test]
fn v3_documents_match_the_reference() {
    let served = served();
    for (path, etag) in V3_ETAGS {
        let document = v3::document(&served, path).expect("a document");
        assert!(hash(&document).starts_with(etag), "{path}");
    }
}

#[test]
fn v3_paths_have_served_versions_alone() {
    let paths = v3::paths(&served());
    assert!(paths.contains("apis/example.com/v1beta1"));
    for absent in ["apis/example.com/v1alpha1", "apis/example.com"] {
        assert!(!paths.contains(absent), "{absent}");
        assert_eq!(v3::document(&served(), absent), None);
    }
}

#[test]
fn v2_entries_match_the_reference() {
    let json = v2_document(&custom_parts(v2::Encoding::Json), v2::Encoding::Json);
    assert_eq!(&hash(&json)[..32], V2_JSON);
    let protobuf = v2_document(&custom_parts(v2::Encoding::Protobuf), v2::Encoding::Protobuf);
    assert_eq!(&hash(&protobuf)[..32], V2_PROTOBUF);
    let document: Value = from_slice(&json).expect("JSON");
    let widget = &document["definitions"]["com.example.v1.Widget"]["properties"]["spec"];
    assert_eq!(widget["required"], serde_json::json!(["zeta", "color"]));
    assert_eq!(widget["properties"]["nully"], serde_json::json!({}));
    assert!(document["definitions"]["com.example.v1beta1.Widget"].get("properties").is_none());
}

/// The hashes of a document with the paths and definitions that the reference has for these kinds.
const V2_JSON: &str = "31579F7C87877DD57461C26C2BB8C265";
const V2_PROTOBUF: &str = "7113D2D1352A481C878F6B0011198D89";

#[test]
fn v2_parts_go_between_those_of_built_in_kinds_in_the_order_of_their_names() {
    let mut writer = v2::Writer::new(v2::Encoding::Json);
    let mut parts = vec![writer.builtin(&served())];
    let alone = v2::etag(&parts);
    parts.extend(custom_parts(v2::Encoding::Json));
    let text = String::from_utf8(v2_document(&parts, v2::Encoding::Json)).expect("text");
    let document: Value = serde_json::from_str(&text).expect("JSON");
    for map in ["paths", "definitions"] {
        // The parser sorts keys; the document has them in the same order.
        let mut at = 0;
        for key in document[map].as_object().expect("a map").keys() {
            let key = format!("\"{key}\":{{");
            at += text[at..].find(&key).unwrap_or_else(|| panic!("{key} is not in its order"));
        }
    }
    assert!(text.find("\"io.k8s.metrics.v1.NodeMetric\"") > text.find("\"io.k8s.api.core.v1.Pod\""));
    let all = v2::etag(&parts);
    assert_ne!(all, alone);
    parts.reverse();
    assert_eq!(v2::etag(&parts), all);
    let mut protobuf = v2::Writer::new(v2::Encoding::Protobuf);
    assert_eq!(v2::etag(&[protobuf.builtin(&served())]), alone);
}

#[test]
fn custom_kind_with_the_name_of_a_built_in_type_is_renamed_in_the_document_of_all_kinds() {
    let kind =
        GroupVersionKind { group: "apps.api.k8s.io".into(), version: "v1".into(), kind: "Deployment".into() };
    let ty = Builder::new("Deployment").kind(kind.clone()).object().build();
    let deployments = ResourceType::custom(&kind, "deployments", Scope::Namespaced, ty);
    let part = v2::Writer::new(v2::Encoding::Json).custom(&deployments);
    let text = String::from_utf8(v2_document(&[part], v2::Encoding::Json)).expect("text");
    assert!(text.contains("\"io.k8s.api.apps.v1.Deployment_v2\":{"));
    assert!(text.contains("\"#/definitions/io.k8s.api.apps.v1.Deployment_v2\""));
}

#[test]
fn discovery_matches_the_reference() {
    let served = served();
    let groups: Value = from_slice(&discovery::groups(&served).expect("groups").json()).expect("JSON");
    let groups = groups["groups"].as_array().expect("groups");
    let names: Vec<_> = groups.iter().map(|group| group["name"].as_str().expect("a name")).collect();
    assert_eq!(
        names[names.len() - 5..],
        ["flowcontrol.apiserver.k8s.io", "a.other.io", "apps.example.org", "example.com", "metrics.k8s.io"]
    );
    let orders = groups.iter().find(|group| group["name"] == "a.other.io").expect("a group");
    let versions: Vec<_> = orders["versions"].as_array().expect("versions").iter().collect();
    let versions: Vec<_> =
        versions.iter().map(|version| version["version"].as_str().expect("text")).collect();
    assert_eq!(versions, ["v10", "v2", "v1beta2", "v11alpha2", "foo1", "foo10"]);
    assert_eq!(orders["preferredVersion"]["version"], "v10");
    let resources = discovery::resources(&served, "example.com", "v1").expect("resources").json();
    assert_eq!(
        String::from_utf8(resources).expect("text"),
        concat!(
            r#"{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"example.com/v1","resources":["#,
            r#"{"name":"gadgets","singularName":"gadget","namespaced":false,"kind":"Gadget","#,
            r#""verbs":["delete","deletecollection","get","list","patch","create","update","watch"],"#,
            r#""storageVersionHash":"ggWp2HxsL0Q="},"#,
            r#"{"name":"widgets","singularName":"widget","namespaced":true,"kind":"Widget","#,
            r#""verbs":["delete","deletecollection","get","list","patch","create","update","watch"],"#,
            r#""shortNames":["wd","wg"],"categories":["all","gear"],"storageVersionHash":"gIwvi5rymmg="},"#,
            r#"{"name":"widgets/status","singularName":"","namespaced":true,"kind":"Widget","verbs":["get","patch","update"]},"#,
            r#"{"name":"widgets/scale","singularName":"","namespaced":true,"group":"autoscaling","version":"v1","kind":"Scale","verbs":["get","patch","update"]}]}"#,
        )
    );
    let all = discovery::aggregated(&served, discovery::Root::Apis, discovery::Aggregated::V2).json;
    let all = String::from_utf8(all).expect("text");
    assert!(all.contains(concat!(
        r#"{"metadata":{"name":"example.com","creationTimestamp":null},"versions":[{"version":"v1","resources":["#,
        r#"{"resource":"gadgets","responseKind":{"group":"example.com","version":"v1","kind":"Gadget"},"scope":"Cluster","#,
        r#""singularResource":"gadget","verbs":["delete","deletecollection","get","list","patch","create","update","watch"]},"#,
    )));
    assert!(all.contains(concat!(
        r#""subresources":[{"subresource":"status","responseKind":{"group":"example.com","version":"v1","kind":"Widget"},"verbs":["get","patch","update"]},"#,
        r#"{"subresource":"scale","responseKind":{"group":"autoscaling","version":"v1","kind":"Scale"},"verbs":["get","patch","update"]}]"#,
    )));
}
