//! Rules that every document follows.
#![allow(clippy::expect_used, clippy::panic, reason = "test code")]

use kinds::Release;
use openapi::{ServedResources, v3};
use serde_json::{Value, from_slice};
use std::collections::{HashMap, HashSet};

fn document(served: &ServedResources, path: &str) -> Value {
    from_slice(&v3::document(served, path).expect(path)).expect("JSON")
}

/// All values in a document.
fn all(document: &Value) -> Vec<&Value> {
    let mut found = vec![document];
    let mut at = 0;
    while let Some(value) = found.get(at).copied() {
        found.extend(value.as_object().into_iter().flat_map(|map| map.values()));
        found.extend(value.as_array().into_iter().flatten());
        at += 1;
    }
    found
}

#[test]
fn every_kind_is_in_the_document_of_its_group_version() {
    let served = ServedResources::everything();
    let mut documents = HashMap::new();
    for kind in kinds::all() {
        for version in kind.versions.iter().filter(|one| !one.life.is_removed_in(Release::OWN)) {
            let path = match kind.group {
                "" => format!("api/{}", version.name),
                group => format!("apis/{group}/{}", version.name),
            };
            let document = documents.entry(path.clone()).or_insert_with(|| document(&served, &path));
            let wanted =
                serde_json::json!([{"group": kind.group, "version": version.name, "kind": kind.kind}]);
            let schemas = document["components"]["schemas"].as_object().expect("schemas");
            let found = schemas.values().any(|schema| schema["x-kubernetes-group-version-kind"] == wanted);
            assert!(found, "{path} {}", kind.kind);
        }
    }
}

#[test]
fn every_reference_resolves_and_every_schema_is_referenced() {
    let served = ServedResources::everything();
    for path in v3::paths(&served) {
        let document = document(&served, &path);
        let mut seen = HashSet::new();
        for value in all(&document) {
            if let Some(reference) = value.get("$ref").and_then(Value::as_str) {
                let pointer = reference.strip_prefix('#').expect("a reference into the document");
                assert!(
                    document.pointer(pointer).is_some_and(|schema| schema.is_object()),
                    "{path} {reference}"
                );
                seen.insert(reference.to_owned());
            }
        }
        let schemas = document["components"]["schemas"].as_object();
        assert_eq!(seen.len(), schemas.map_or(0, |schemas| schemas.len()), "{path}");
    }
}

#[test]
fn operation_ids_are_unique() {
    let served = ServedResources::everything();
    let mut names = HashSet::new();
    for path in v3::paths(&served) {
        for value in all(&document(&served, &path)) {
            if let Some(name) = value.get("operationId").and_then(Value::as_str) {
                assert!(names.insert(name.to_owned()), "{name}");
            }
        }
    }
    assert!(names.len() > 1000, "{}", names.len());
}

#[test]
fn resources_not_served_are_in_no_document() {
    let only_pods = kinds::all().filter(|kind| kind.resource == "pods").map(|kind| (kind, &kind.versions[0]));
    let served = ServedResources::builtin(only_pods);
    let paths = [".well-known/openid-configuration", "api", "api/v1", "apis", "openid/v1/jwks", "version"];
    assert!(v3::paths(&served).iter().eq(paths));
    let document = document(&served, "api/v1");
    let paths = document["paths"].as_object().expect("paths");
    assert!(paths.contains_key("/api/v1/pods"));
    assert!(!paths.contains_key("/api/v1/nodes"));
    assert!(document["components"]["schemas"].get("io.k8s.api.core.v1.NodeSpec").is_none());
}

#[test]
fn v3_index_addresses_carry_the_document_hash() {
    let served = ServedResources::by_default();
    let bytes = v3::document(&served, "apis/apps").expect("a document");
    let index: Value = from_slice(&v3::index(&[v3::Entry::new("apis/apps", &bytes)])).expect("JSON");
    let address = format!("/openapi/v3/apis/apps?hash={}", openapi::hash(&bytes));
    assert_eq!(index, serde_json::json!({"paths": {"apis/apps": {"serverRelativeURL": address}}}));
    // The hash of the same document in the reference.
    assert!(address.ends_with(APPS_HASH_END), "{address}");
}

const APPS_HASH_END: &str = "70624D1209E505F5B8327C47";
