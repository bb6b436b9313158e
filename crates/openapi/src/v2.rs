//! OpenAPI v2 (Swagger 2.0): one document for all served resources, as JSON and as Protobuf.
//!
//! The document is put together from compressed [parts](DocumentPart): one for all built-in kinds, and one
//! for each custom kind in each version. So one more custom kind costs its own part, and the whole document
//! is in memory in its compressed form only.

mod foreign;
mod protobuf;

use crate::descriptions::Descriptions;
use crate::operations::{
    Operation, Paths, VerbParameters, about_the_server, is_shared, of_custom, of_resource, shared_parameters,
};
use crate::parameters::{Location, Parameter};
use crate::pieces::{Gzip, Piece};
use crate::schemas::{Entries, Model, OpenApiVersion, Schemas};
use crate::served::ServedResources;
use crate::tree::{Escape, Object, hash, json as write_json, texts};
use crate::v3::info;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE;
use kinds::ResourceType;
use object::Value;
use std::borrow::Borrow;
use std::collections::BTreeMap;

pub use foreign::{Foreign, foreign_parts};

/// The media type of [`Encoding::Protobuf`].
pub const PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

/// The encodings of the document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// JSON.
    Json,
    /// The message `openapi.v2.Document` of gnostic.
    Protobuf,
}

/// The part of some resources, compressed.
pub struct DocumentPart {
    /// The pieces of each map of the document, by the first key in them.
    maps: [Vec<(String, Piece)>; 3],
    hash: String,
}

/// The maps of a document that have entries of many resources, in the order in which it has them.
const MAPS: [&str; 3] = ["paths", "definitions", "parameters"];

/// Makes parts, and keeps what they have in common between them.
pub struct Writer {
    encoding: Encoding,
    descriptions: Descriptions,
    options: VerbParameters,
}

impl Writer {
    /// For parts in an encoding.
    pub fn new(encoding: Encoding) -> Self {
        let mut descriptions = Descriptions::default();
        let options = VerbParameters::new(&mut descriptions);
        Self { encoding, descriptions, options }
    }

    /// The part of all built-in kinds, with what custom ones share with them.
    pub fn builtin(&mut self, served: &ServedResources) -> DocumentPart {
        let maps = self.builtin_entries(served);
        // Each group version and each package of types is a piece, so that those of custom kinds can go
        // between them.
        DocumentPart::new(maps, self.encoding, end_of_package)
    }

    /// The part of a custom kind in one version.
    pub fn custom(&mut self, resource: &ResourceType) -> DocumentPart {
        let mut operations = Paths::new();
        of_custom(resource, &self.options, &mut operations);
        let mut schemas = Schemas::new(OpenApiVersion::V2, &mut self.descriptions);
        // All parameters and all other types are in the part of the built-in kinds.
        let paths = path_items(&operations, &mut schemas, &mut SharedParameters::default());
        DocumentPart::new([paths, schemas.finish_custom(), Vec::new()], self.encoding, |_| 0)
    }

    fn builtin_entries(&mut self, served: &ServedResources) -> [Entries; 3] {
        let mut operations: Paths<'_> = about_the_server(served);
        let groups = served.groups().iter();
        let versions = groups.flat_map(|group| &group.versions).filter(|version| !version.is_custom());
        for resource in versions.flat_map(|version| &version.resources) {
            of_resource(resource, &self.options, &mut self.descriptions, &mut operations);
        }
        let mut schemas = Schemas::new(OpenApiVersion::V2, &mut self.descriptions);
        let mut shared = SharedParameters::default();
        let paths = path_items(&operations, &mut schemas, &mut shared);
        [paths, schemas.finish(), shared.by_name.into_iter().collect()]
    }
}

/// The length of what the keys of a group version, or of a package of types, start with.
fn end_of_package(key: &str) -> usize {
    match key.strip_prefix("/apis/") {
        Some(rest) => key.len() - rest.len() + end_of_group_version(rest),
        None => key.rfind('.').unwrap_or(0),
    }
}

/// The length of `<group>/<version>` at the start of a path.
fn end_of_group_version(path: &str) -> usize {
    path.match_indices('/').nth(1).map_or(path.len(), |(at, _)| at)
}

impl DocumentPart {
    /// The part with these entries; neighbours whose keys start with the same `shared` bytes are one piece.
    fn new(maps: [Entries; 3], encoding: Encoding, shared: impl Fn(&str) -> usize) -> Self {
        let mut all = Vec::new();
        let mut at = 0;
        let maps = maps.map(|entries| {
            let mut pieces = Vec::new();
            for run in
                entries.chunk_by(|(one, _), (other, _)| one.get(..shared(one)) == other.get(..shared(other)))
            {
                let text = json_entries(run);
                all.extend_from_slice(&text);
                let piece = match encoding {
                    Encoding::Json => Piece::new(&text),
                    Encoding::Protobuf => Piece::new(&protobuf::entries(MAPS.get(at).copied(), run)),
                };
                pieces.extend(run.first().map(|(key, _)| (key.clone(), piece)));
            }
            at += 1;
            pieces
        });
        Self { maps, hash: hash(&all) }
    }

    /// About how many bytes of memory the part takes.
    pub fn size(&self) -> usize {
        let pieces = self.maps.iter().flatten();
        pieces.map(|(key, piece)| key.len() + piece.size() + size_of::<(String, Piece)>()).sum()
    }
}

/// The ETag of the document with these parts, in any encoding: it depends on their content.
pub fn etag<P: Borrow<DocumentPart>>(parts: &[P]) -> String {
    let mut hashes: Vec<&str> = parts.iter().map(|part| part.borrow().hash.as_str()).collect();
    hashes.sort_unstable();
    hash(hashes.concat().as_bytes())
}

/// The document with these parts, compressed with gzip. All have the given encoding.
pub fn gzip<P: Borrow<DocumentPart>>(parts: &[P], encoding: Encoding) -> Vec<u8> {
    let mut maps: [Vec<(&str, &Piece)>; 3] = Default::default();
    for part in parts {
        for (all, own) in maps.iter_mut().zip(&part.borrow().maps) {
            all.extend(own.iter().map(|(key, piece)| (key.as_str(), piece)));
        }
    }
    maps.iter_mut().for_each(|pieces| pieces.sort_by_key(|(key, _)| *key));
    let size: usize = maps.iter().flatten().map(|(_, piece)| piece.size() + 8).sum();
    let mut document = Gzip::with_capacity(size + 1024);
    match encoding {
        Encoding::Json => write_json_document(&maps, &mut document),
        Encoding::Protobuf => write_protobuf_document(&maps, &mut document),
    }
    document.finish()
}

fn write_json_document(maps: &[Vec<(&str, &Piece)>; 3], document: &mut Gzip) {
    let head = write_json(&head().into(), Escape::Nothing);
    document.add(&Piece::new(head.strip_suffix(b"}").unwrap_or(&head)));
    let comma = Piece::new(b",");
    for (name, pieces) in MAPS.iter().zip(maps) {
        document.add(&Piece::new(format!(",\"{name}\":{{").as_bytes()));
        for (at, (_, piece)) in pieces.iter().enumerate() {
            if at > 0 {
                document.add(&comma);
            }
            document.add(piece);
        }
        document.add(&Piece::new(b"}"));
    }
    let tail = write_json(&tail().into(), Escape::Nothing);
    document.add(&comma);
    document.add(&Piece::new(tail.strip_prefix(b"{").unwrap_or(&tail)));
}

fn write_protobuf_document(maps: &[Vec<(&str, &Piece)>; 3], document: &mut Gzip) {
    document.add(&Piece::new(&protobuf::encode(&head().into())));
    for (name, pieces) in MAPS.iter().zip(maps) {
        let length = pieces.iter().map(|(_, piece)| piece.length).sum();
        document.add(&Piece::new(&protobuf::start(name, length)));
        pieces.iter().for_each(|(_, piece)| document.add(piece));
    }
    document.add(&Piece::new(&protobuf::encode(&tail().into())));
}

fn head() -> Object {
    Object::new().with("swagger", "2.0").with("info", info())
}

fn tail() -> Object {
    let token = Object::new()
        .with("description", "Bearer Token authentication")
        .with("type", "apiKey")
        .with("name", "authorization")
        .with("in", "header");
    Object::new()
        .with("securityDefinitions", Object::new().with("BearerToken", token))
        .with("security", vec![Object::new().with("BearerToken", Vec::new()).into()])
}

/// Entries of a JSON object, without its braces.
fn json_entries(entries: &[(String, Value)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (key, value) in entries {
        if !out.is_empty() {
            out.push(b',');
        }
        out.extend_from_slice(&write_json(&Value::from(key.as_str()), Escape::Nothing));
        out.push(b':');
        out.extend_from_slice(&write_json(value, Escape::Nothing));
    }
    out
}

fn path_items<'a>(
    operations: &Paths<'a>,
    schemas: &mut Schemas<'a, '_>,
    shared: &mut SharedParameters,
) -> Entries {
    let items = operations.iter();
    items.map(|(path, operations)| (path.clone(), path_item(operations, schemas, shared).into())).collect()
}

fn path_item<'a>(
    operations: &[Operation<'a>],
    schemas: &mut Schemas<'a, '_>,
    shared: &mut SharedParameters,
) -> Object {
    let mut by_method: Vec<&Operation<'a>> = operations.iter().collect();
    by_method.sort_by_key(|operation| operation.method);
    let of_path = shared_parameters(operations);
    let mut item = Object::new();
    for operation in by_method {
        item.put(operation.method.key(), of_operation(operation, &of_path, schemas, shared));
    }
    if !of_path.is_empty() {
        let parameters: Vec<Value> =
            of_path.iter().map(|parameter| shared.place(&parameter.name, of_parameter(parameter))).collect();
        item.put("parameters", parameters);
    }
    item
}

fn of_operation<'a>(
    operation: &Operation<'a>,
    of_path: &[&Parameter],
    schemas: &mut Schemas<'a, '_>,
    shared: &mut SharedParameters,
) -> Object {
    let mut object = Object::new().with("description", operation.description.as_str());
    if !operation.consumes.is_empty() {
        object.put("consumes", texts(operation.consumes.iter().copied()));
    }
    object.put("produces", texts(operation.produces.iter().copied()));
    object.put("schemes", texts(["https"]));
    object.put("tags", texts([operation.tag.as_str()]));
    object.put("operationId", operation.id.as_str());
    let mut parameters: Vec<(&str, Value)> = operation
        .parameters
        .iter()
        .filter(|parameter| !is_shared(parameter, of_path))
        .map(|parameter| (parameter.name.as_str(), of_parameter(parameter)))
        .collect();
    if let Some(body) = &operation.body {
        let mut parameter = Object::new().with("name", "body").with("in", "body");
        if body.required {
            parameter.put("required", true);
        }
        let is_of_one_kind = match body.model {
            Model::Type(ty) => !ty.openapi.starts_with("io.k8s.apimachinery"),
            model => matches!(model, Model::Custom(_)),
        };
        let parameter = parameter.with("schema", schemas.body(body.model)).into();
        parameters.push((if is_of_one_kind { OWN_BODY } else { "body" }, parameter));
    }
    parameters.sort_by_key(|(name, _)| *name);
    let parameters: Vec<Value> =
        parameters.into_iter().map(|(name, parameter)| shared.place(name, parameter)).collect();
    if !parameters.is_empty() {
        object.put("parameters", parameters);
    }
    let mut responses = Object::new();
    for response in &operation.responses {
        let answer = Object::new().with("description", response.description);
        responses.put(response.code, answer.with("schema", schemas.body(response.model)));
    }
    object.put("responses", responses.with("401", Object::new().with("description", "Unauthorized")));
    if let Some((action, kind)) = &operation.action {
        object.put("x-kubernetes-action", *action);
        let kind = Object::new()
            .with("group", kind.group.as_str())
            .with("kind", kind.kind.as_str())
            .with("version", kind.version.as_str());
        object.put("x-kubernetes-group-version-kind", kind);
    }
    object
}

fn of_parameter(parameter: &Parameter) -> Value {
    let mut object = Object::new().with("uniqueItems", true).with("type", parameter.ty);
    if !parameter.description.is_empty() {
        object.put("description", parameter.description.as_str());
    }
    object.put("name", parameter.name.clone());
    match parameter.place {
        Location::Query => object.with("in", "query"),
        Location::Path => object.with("in", "path").with("required", true),
    }
    .into()
}

/// The sort key of a body parameter with the schema of one kind; it sorts like `body`.
const OWN_BODY: &str = "body ";

/// The shared parameters of the document: each occurs once, under a name with a hash of its content.
#[derive(Default)]
struct SharedParameters {
    by_name: BTreeMap<String, Value>,
}

impl SharedParameters {
    /// The entry for `parameter` in an operation: a reference, or the parameter itself if it belongs to one
    /// operation or if clients expect it there.
    fn place(&mut self, name: &str, parameter: Value) -> Value {
        if matches!(name, OWN_BODY | "name" | "fieldValidation" | "dryRun") {
            return parameter;
        }
        let content = write_json(&parameter, Escape::Markup);
        let mark = fnv1(&content).to_be_bytes();
        let name = format!("{name}-{}", URL_SAFE.encode(mark.get(..6).unwrap_or_default()));
        let reference = Object::new().with("$ref", format!("#/parameters/{name}")).into();
        self.by_name.insert(name, parameter);
        reference
    }
}

/// FNV-1 with 64 bits.
fn fnv1(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        hash.wrapping_mul(0x0000_0100_0000_01b3) ^ u64::from(*byte)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_parameter_names_match_the_reference() {
        let mut shared = SharedParameters::default();
        let reference = shared.place("namespace", of_parameter(&Parameter::namespace()));
        assert_eq!(reference.get("$ref").and_then(Value::as_str), Some("#/parameters/namespace-vgWSWtn3"));
        let reference = shared.place("pretty", of_parameter(&Parameter::pretty()));
        assert_eq!(reference.get("$ref").and_then(Value::as_str), Some("#/parameters/pretty-tJGM1-ng"));
    }

    #[test]
    fn parameter_references_resolve() {
        let maps = Writer::new(Encoding::Json).builtin_entries(&ServedResources::everything());
        let mut names = MAPS.iter();
        let document = maps.map(|map| (names.next().unwrap().to_string(), Object::from(map).into()));
        let document: Value = Object::from(Vec::from(document)).into();
        let mut pending = vec![&document];
        let mut count = 0;
        while let Some(value) = pending.pop() {
            if let Some(reference) = value.get("$ref").and_then(Value::as_str) {
                let mut target = Some(&document);
                for key in reference.trim_start_matches("#/").splitn(2, '/') {
                    target = target.and_then(|target| target.get(key));
                }
                assert!(target.is_some_and(|target| !target.is_null()), "{reference}");
                count += 1;
            }
            pending.extend(value.as_list().unwrap_or_default());
            pending.extend(value.as_map().into_iter().flat_map(|map| map.iter().map(|(_, value)| value)));
        }
        assert!(count > 5000, "{count}");
    }
}
