//! The documents compared with those of the reference; `reference/documents.txt` has the hashes of the
//! latter.
//!
//! They were recorded from a reference server with all APIs enabled. The comparison leaves out the
//! descriptions of enum values: no source that the build reads has them.
#![allow(clippy::expect_used, clippy::panic, reason = "test code")]

use flate2::read::GzDecoder;
use kinds::Release;
use openapi::{ServedResources, discovery, hash, v2, v3};
use serde_json::{Map, Value, from_reader, from_slice};
use std::collections::BTreeMap;

const DOCUMENTS: &str = include_str!("reference/documents.txt");

/// The lines that start with `label`: name, number of parts, hash.
fn expected(label: &str) -> BTreeMap<String, (usize, String)> {
    let mut lines = BTreeMap::new();
    for line in DOCUMENTS.lines() {
        let words: Vec<_> = line.split(' ').collect();
        if words[0] == label {
            lines.insert(words[1].to_owned(), (words[2].parse().expect("a number"), words[3].to_owned()));
        }
    }
    assert!(!lines.is_empty());
    lines
}

fn compare(label: &str, found: BTreeMap<String, Value>) {
    let expected = expected(label);
    let found: BTreeMap<_, _> =
        found.into_iter().map(|(name, part)| (name, (count(&part), fingerprint(part)))).collect();
    let differing: Vec<_> =
        expected.iter().filter(|(name, wanted)| found.get(*name) != Some(*wanted)).collect();
    assert!(differing.is_empty(), "{label} differs: {differing:#?}");
    let unknown: Vec<_> = found.keys().filter(|name| !expected.contains_key(*name)).collect();
    assert!(unknown.is_empty(), "{label} has what the reference has not: {unknown:?}");
}

fn count(part: &Value) -> usize {
    let list = ["resources", "groups", "versions"].iter().find_map(|key| part.get(key)?.as_array());
    list.map_or_else(|| part.as_object().map_or(0, Map::len), Vec::len)
}

fn fingerprint(mut part: Value) -> String {
    normalise(&mut part);
    hash(part.to_string().as_bytes())[..16].to_owned()
}

fn normalise(value: &mut Value) {
    match value {
        Value::Object(map) => {
            if let Some(Value::String(text)) = map.get_mut("description") {
                let meaning = text.split("Possible enum values:").next().unwrap_or_default();
                *text = meaning.trim_end().to_owned();
            }
            map.values_mut().for_each(normalise);
        }
        Value::Array(list) => list.iter_mut().for_each(normalise),
        _ => {}
    }
}

fn by_package(schemas: Map<String, Value>) -> BTreeMap<String, Value> {
    let mut packages = BTreeMap::<String, Value>::new();
    for (name, schema) in schemas {
        let package = name.rsplit_once('.').expect("a package").0.to_owned();
        let schemas = packages.entry(package).or_insert_with(|| Map::new().into());
        schemas.as_object_mut().expect("a map").insert(name, schema);
    }
    packages
}

fn v3_documents() -> BTreeMap<String, Value> {
    let served = ServedResources::everything();
    let documents = v3::paths(&served).into_iter().map(|path| {
        let document = v3::document(&served, &path).expect("a document at each path");
        (path, from_slice(&document).expect("JSON"))
    });
    documents.collect()
}

#[test]
fn v3_paths_match_the_reference() {
    let paths = v3_documents().into_iter().map(|(path, mut document)| (path, document["paths"].take()));
    compare("v3-paths", paths.collect());
}

#[test]
fn v3_schemas_match_the_reference() {
    let mut schemas = Map::new();
    for (_, mut document) in v3_documents() {
        if let Value::Object(found) = document["components"]["schemas"].take() {
            schemas.extend(found);
        }
    }
    compare("v3-schemas", by_package(schemas));
}

#[test]
fn v2_document_matches_the_reference() {
    let part = v2::Writer::new(v2::Encoding::Json).builtin(&ServedResources::everything());
    let gzip = v2::gzip(&[part], v2::Encoding::Json);
    let mut document: Value = from_reader(GzDecoder::new(gzip.as_slice())).expect("JSON");
    let Value::Object(definitions) = document["definitions"].take() else { panic!("definitions") };
    compare("v2-definitions", by_package(definitions));
    compare("v2-paths", [("all".to_owned(), document["paths"].take())].into());
    compare("v2-parameters", [("all".to_owned(), document["parameters"].take())].into());
}

#[test]
fn discovery_matches_the_reference() {
    let served = ServedResources::everything();
    let mut found = BTreeMap::new();
    let mut add = |path: String, document: discovery::Document| {
        found.insert(path, from_slice(&document.json()).expect("JSON"));
    };
    add("apis".into(), discovery::groups(&served).expect("groups"));
    for kind in kinds::all() {
        if let Some(group) = discovery::group(&served, kind.group) {
            add(format!("apis/{}", kind.group), group);
        }
        for version in kind.versions.iter().filter(|one| !one.life.is_removed_in(Release::OWN)) {
            let resources = discovery::resources(&served, kind.group, version.name).expect("resources");
            let path = match kind.group {
                "" => format!("api/{}", version.name),
                group => format!("apis/{group}/{}", version.name),
            };
            add(path, resources);
        }
    }
    compare("discovery", found);
}

#[test]
fn aggregated_discovery_etags_match_the_reference() {
    let served = ServedResources::by_default();
    for (root, etag) in [(discovery::Root::Api, API_ETAG), (discovery::Root::Apis, APIS_ETAG)] {
        for version in [discovery::Aggregated::V2, discovery::Aggregated::V2Beta1] {
            assert_eq!(discovery::aggregated(&served, root, version).etag, etag, "{root:?}");
        }
    }
}

const API_ETAG: &str = "B71838287F84440751EF3E5744A7306A573352C87E530D4A937F4A2BCBB23B71\
    C20457F1B57490979D43B5FBD3071512F6607C7FED9E4AC951494FE8201B8C95";
const APIS_ETAG: &str = "6BC6C2E7DC4C9E4D7B162F6635BCFE444D8D0FE3EA3EB94C910A7952B70118EC\
    F7A7EC2CD191E42F192532E8FACF321846E06613F8FB5E2D5F979B16E63C75E3";
