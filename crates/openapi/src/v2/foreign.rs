//! The OpenAPI v2 documents of other servers, as parts of the document of this one.
//!
//! Types of one name that are not the same get other names, as in the reference. The types of this server
//! keep theirs, and say nothing of the group versions of others.

use super::{DocumentPart, Encoding, MAPS, end_of_package, json_entries};
use crate::tree::hash;
use object::{Key, Map, Value};
use schema::{Limits, Shape};
use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// The limits of a document.
const LIMITS: Limits = Limits { bytes: 32 << 20, values: 2_000_000, ..Limits::REQUEST };
const DEFINITION: &str = "#/definitions/";
const PARAMETER: &str = "#/parameters/";
/// Which group versions use a type. Types that differ in nothing else are the same.
const KINDS: &str = "x-kubernetes-group-version-kind";

/// The part of the document of another server that is about one group version.
pub struct Foreign {
    /// The entries of each map of the document.
    maps: [BTreeMap<String, Value>; 3],
    hash: String,
}

impl Foreign {
    /// Reads a document, and keeps the paths that start with `prefix` and what these refer to.
    pub fn read(document: &[u8], prefix: &str) -> Result<Self, String> {
        let decoded = schema::json::decode_shape(&Shape::Any, document, &LIMITS);
        let document = decoded.map_err(|error| error.to_string())?.value;
        let document = document.as_map().ok_or("it is no object")?;
        let map = |key: &str| document.get(key).and_then(Value::as_map).cloned().unwrap_or_default();
        let [all_paths, definitions, parameters] = MAPS.map(map);
        let shared = [map("parameters").into(), map("responses").into()];
        let mut paths = all_paths.clone();
        paths.retain(|path, _| path.starts_with(prefix));
        let used = |paths: &Map| used(paths, &shared, &definitions);
        let (before, after) = (used(&all_paths), used(&paths));
        let mut kept = definitions.clone();
        kept.retain(|name, _| after.contains(name.as_str()) || !before.contains(name.as_str()));
        let entries = |map: Map| -> BTreeMap<String, Value> {
            map.iter().map(|(key, value)| (key.as_str().to_owned(), value.clone())).collect()
        };
        let maps = [paths, kept, parameters].map(entries);
        let all: Vec<(String, Value)> =
            maps.iter().flatten().map(|(key, value)| (key.clone(), value.clone())).collect();
        Ok(Self { hash: hash(&json_entries(&all)), maps })
    }

    /// The hash of its content.
    pub fn hash(&self) -> &str {
        &self.hash
    }
}

/// The definitions that paths and shared parts of a document refer to, directly or through others.
fn used(paths: &Map, shared: &[Value], definitions: &Map) -> HashSet<String> {
    let index = definitions.index();
    let mut used = HashSet::new();
    let mut pending: Vec<Value> = vec![paths.clone().into()];
    pending.extend_from_slice(shared);
    while let Some(value) = pending.pop() {
        each_reference(&value, &mut |reference| {
            if let Some(name) = reference.strip_prefix(DEFINITION)
                && used.insert(name.to_owned())
            {
                pending.extend(index.get(name).map(|&value| value.clone()));
            }
        });
    }
    used
}

fn each_reference(value: &Value, found: &mut impl FnMut(&str)) {
    let mut pending = vec![value];
    while let Some(value) = pending.pop() {
        if let Some(reference) = value.get("$ref").and_then(Value::as_str) {
            found(reference);
        }
        pending.extend(value.as_list().unwrap_or_default());
        pending.extend(value.as_map().into_iter().flat_map(Map::values));
    }
}

/// The parts of other servers beside the parts of this one, which are in JSON.
pub fn foreign_parts<P: Borrow<DocumentPart>>(
    own: &[P],
    foreign: &[&Foreign],
    encoding: Encoding,
) -> Vec<DocumentPart> {
    let mut known = KnownEntries {
        own: own.iter().map(Borrow::borrow).collect(),
        read: HashMap::new(),
        added: Default::default(),
    };
    foreign.iter().map(|foreign| known.add(foreign, encoding)).collect()
}

/// The entries of a document to which others are added.
struct KnownEntries<'a> {
    own: Vec<&'a DocumentPart>,
    /// The pieces of `own` that were read, by part, map and place.
    read: HashMap<[usize; 3], Map>,
    added: [BTreeMap<String, Value>; 3],
}

impl KnownEntries<'_> {
    /// An entry of a map.
    fn find(&mut self, map: usize, key: &str) -> Option<Value> {
        if let Some(added) = self.added.get(map).and_then(|entries| entries.get(key)) {
            return Some(added.clone());
        }
        let package = |key: &str| key.get(..end_of_package(key)).unwrap_or_default().to_owned();
        let wanted = package(key);
        for (at, part) in self.own.iter().enumerate() {
            let pieces = part.maps.get(map).map(Vec::as_slice).unwrap_or_default();
            for (place, (first, piece)) in pieces.iter().enumerate() {
                if package(first) != wanted {
                    continue;
                }
                let entries = self.read.entry([at, map, place]).or_insert_with(|| {
                    let text = [b"{", piece.plain().as_slice(), b"}"].concat();
                    let decoded = schema::json::decode_shape(&Shape::Any, &text, &LIMITS);
                    let value = decoded.map(|decoded| decoded.value).unwrap_or_default();
                    value.as_map().cloned().unwrap_or_default()
                });
                if let Some(found) = entries.get(key) {
                    return Some(found.clone());
                }
            }
        }
        None
    }

    fn add(&mut self, foreign: &Foreign, encoding: Encoding) -> DocumentPart {
        let [paths, definitions, parameters] = &foreign.maps;
        let mut renames = HashMap::new();
        self.rename(1, definitions, DEFINITION, &mut renames);
        self.rename(2, parameters, PARAMETER, &mut renames);
        let mut maps: [Vec<(String, Value)>; 3] = Default::default();
        for (at, (entries, prefix)) in
            [(paths, ""), (definitions, DEFINITION), (parameters, PARAMETER)].into_iter().enumerate()
        {
            for (key, value) in entries {
                let name = renames.get(&format!("{prefix}{key}"));
                let name = name.and_then(|name| name.strip_prefix(prefix)).unwrap_or(key).to_owned();
                if self.find(at, &name).is_some() {
                    continue;
                }
                let mut value = value.clone();
                refer(&mut value, &renames);
                if let Some(added) = self.added.get_mut(at) {
                    added.insert(name.clone(), value.clone());
                }
                if let Some(map) = maps.get_mut(at) {
                    map.push((name, value));
                }
            }
        }
        maps.iter_mut().for_each(|entries| entries.sort_by(|(one, _), (other, _)| one.cmp(other)));
        DocumentPart::new(maps, encoding, end_of_package)
    }

    /// Finds other names for entries of a map that are not those that are known by their names.
    fn rename(
        &mut self,
        map: usize,
        entries: &BTreeMap<String, Value>,
        prefix: &str,
        renames: &mut HashMap<String, String>,
    ) {
        let mut taken: BTreeSet<String> = BTreeSet::new();
        for (key, value) in entries {
            let is_same = |known: &Value| comparable(known) == comparable(value);
            if self.find(map, key).is_none_or(|known| is_same(&known)) {
                continue;
            }
            let name =
                (2..).map(|number| format!("{key}_v{number}")).find(|name| match self.find(map, name) {
                    Some(known) => is_same(&known),
                    None => !taken.contains(name) && !entries.contains_key(name),
                });
            if let Some(name) = name {
                taken.insert(name.clone());
                renames.insert(format!("{prefix}{key}"), format!("{prefix}{name}"));
            }
        }
    }
}

/// What has to be equal in entries that are the same.
fn comparable(value: &Value) -> Value {
    let mut value = value.clone();
    if let Some(map) = value.as_map_mut() {
        map.remove(KINDS);
    }
    sort(&mut value);
    value
}

/// Sorts the keys of all maps, whose order means nothing.
fn sort(value: &mut Value) {
    match value {
        Value::Map(map) => {
            map.sort_keys();
            map.iter_mut().for_each(|(_, value)| sort(value));
        }
        Value::List(list) => list.iter_mut().for_each(sort),
        _ => {}
    }
}

/// Replaces references.
fn refer(value: &mut Value, renames: &HashMap<String, String>) {
    if renames.is_empty() {
        return;
    }
    match value {
        Value::Map(map) => {
            if let Some(name) = map.get("$ref").and_then(Value::as_str).and_then(|name| renames.get(name)) {
                map.insert(Key::known("$ref"), name.as_str());
            }
            map.iter_mut().for_each(|(_, value)| refer(value, renames));
        }
        Value::List(list) => list.iter_mut().for_each(|value| refer(value, renames)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Writer, gzip};
    use super::*;
    use crate::ServedResources;
    use flate2::read::GzDecoder;
    use std::io::Read as _;

    const DOCUMENT: &str = r##"{"swagger":"2.0","paths":{
        "/apis/g/v1/things":{"get":{"operationId":"listThings","parameters":[{"$ref":"#/parameters/pretty-tJGM1-ng"}],"responses":{"200":{"description":"OK","schema":{"$ref":"#/definitions/g.Thing"}}}}},
        "/apis/g/v2/things":{"get":{"responses":{"200":{"schema":{"$ref":"#/definitions/g.Other"}}}}},
        "/apis/apps/v1/":{"get":{}}},
        "parameters":{"pretty-tJGM1-ng":{"name":"odd","in":"query"}},
        "definitions":{
        "g.Thing":{"type":"object","properties":{"metadata":{"$ref":"#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"},"time":{"$ref":"#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.Time"}}},
        "g.Other":{"type":"object"},"g.Unused":{"type":"string"},
        "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta":{"type":"object"},
        "io.k8s.apimachinery.pkg.apis.meta.v1.Time":{"format":"date-time","description":"Time is a wrapper around time.Time which supports correct marshaling to YAML and JSON.  Wrappers are provided for many of the factory methods that the time package offers.","type":"string","x-kubernetes-group-version-kind":[]}}}"##;

    fn merged(foreign: &[&Foreign]) -> Value {
        let mut parts = vec![Writer::new(Encoding::Json).builtin(&ServedResources::by_default())];
        let added = foreign_parts(&parts, foreign, Encoding::Json);
        parts.extend(added);
        let mut text = Vec::new();
        GzDecoder::new(gzip(&parts, Encoding::Json).as_slice()).read_to_end(&mut text).unwrap();
        schema::json::decode_shape(&Shape::Any, &text, &Limits::STORED).unwrap().value
    }

    #[test]
    fn paths_of_the_group_version_and_what_they_refer_to_are_kept() {
        let foreign = Foreign::read(DOCUMENT.as_bytes(), "/apis/g/v1/").unwrap();
        let [paths, definitions, _] = &foreign.maps;
        assert_eq!(paths.keys().collect::<Vec<_>>(), ["/apis/g/v1/things"]);
        let names: Vec<_> = definitions.keys().map(|name| name.rsplit('.').next().unwrap()).collect();
        assert_eq!(names, ["Thing", "Unused", "ObjectMeta", "Time"]);
        assert!(Foreign::read(b"[]", "").is_err());
        assert!(Foreign::read(b"{", "").is_err());
    }

    #[test]
    fn entries_of_one_name_that_differ_get_other_names() {
        let foreign = Foreign::read(DOCUMENT.as_bytes(), "/apis/g/v1/").unwrap();
        let other = DOCUMENT.replace("/apis/g/v1/", "/apis/g/v3/").replace("g.Thing", "g.Three");
        let other = Foreign::read(other.as_bytes(), "/apis/g/v3/").unwrap();
        let document = merged(&[&foreign, &other]);
        let at = |keys: &[&str]| keys.iter().try_fold(&document, |value, key| value.get(key)).cloned();
        let meta = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
        let reference = |name: &str, property: &str| {
            let found = at(&["definitions", name, "properties", property, "$ref"]).unwrap();
            found.as_str().unwrap().to_owned()
        };
        assert!(at(&["definitions", meta, "properties"]).is_some());
        assert_eq!(at(&["definitions", &format!("{meta}_v2"), "type"]), Some("object".into()));
        for name in ["g.Thing", "g.Three"] {
            assert_eq!(reference(name, "metadata"), format!("#/definitions/{meta}_v2"));
            assert_eq!(reference(name, "time"), "#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.Time");
        }
        assert!(at(&["definitions", &format!("{meta}_v3")]).is_none());
        assert_eq!(at(&["parameters", "pretty-tJGM1-ng_v2", "name"]), Some("odd".into()));
        for path in ["/apis/g/v1/things", "/apis/g/v3/things"] {
            let parameters = at(&["paths", path, "get", "parameters"]).unwrap();
            let parameter = &parameters.as_list().unwrap()[0];
            assert_eq!(parameter.get("$ref"), Some(&"#/parameters/pretty-tJGM1-ng_v2".into()));
        }
    }

    #[test]
    fn paths_that_this_server_has_stay_its_own() {
        let foreign = Foreign::read(DOCUMENT.as_bytes(), "/apis/apps/v1/").unwrap();
        let document = merged(&[&foreign]);
        let path = document.get("paths").unwrap().get("/apis/apps/v1/").unwrap();
        assert!(path.get("get").unwrap().get("operationId").is_some());
    }
}
