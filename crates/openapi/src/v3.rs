//! OpenAPI v3: one document for each group version, one for each group, and one for each path outside of the
//! API groups.

use crate::descriptions::Descriptions;
use crate::operations::{
    Operation, Paths, Response, VerbParameters, about_the_server, is_shared, of_custom, of_resource, root,
    shared_parameters,
};
use crate::parameters::{Location, Parameter};
use crate::schemas::{OpenApiVersion, Schemas};
use crate::served::{GroupVersion, ServedResources};
use crate::tree::{Escape, Object, hash, json};
use kinds::Release;
use object::Value;
use schema::{Limits, Shape};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

mod of_v2;
mod protobuf;

pub use of_v2::of_v2;

/// The media type of [`to_protobuf`].
pub const PROTOBUF: &str = "application/com.github.proto-openapi.spec.v3.v1.0+protobuf";

/// The entry of a document in the index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The document's path below `/openapi/v3/`: `apis/apps/v1`.
    pub path: String,
    /// The [hash] of the bytes of the document.
    pub hash: String,
}

/// The paths of the documents below `/openapi/v3/`, in the order of the index.
pub fn paths(served: &ServedResources) -> BTreeSet<String> {
    let mut paths: BTreeSet<String> =
        about_the_server(served).into_keys().map(|path| path.trim_matches('/').to_owned()).collect();
    for group in served.groups() {
        for version in group.versions.iter().filter(|version| version.is_custom()) {
            paths.insert(root(&group.name, &version.name).trim_start_matches('/').to_owned());
        }
    }
    paths
}

/// The document at a path below `/openapi/v3/`, if there is one, as JSON.
///
/// ```
/// let served = openapi::ServedResources::by_default();
/// assert!(openapi::v3::document(&served, "apis/apps/v1").is_some());
/// assert_eq!(openapi::v3::document(&served, "apis/apps/v9"), None);
/// ```
pub fn document(served: &ServedResources, path: &str) -> Option<Vec<u8>> {
    Writer::new(served).document(path)
}

/// A document as Protobuf, made from its JSON; empty for text that is not a document.
pub fn to_protobuf(document: &[u8]) -> Vec<u8> {
    let decoded = schema::json::decode_shape(&Shape::Any, document, &Limits::STORED);
    decoded.map(|decoded| protobuf::encode(&decoded.value)).unwrap_or_default()
}

/// Writes several documents, and keeps what they have in common between them.
pub struct Writer<'s> {
    served: &'s ServedResources,
    descriptions: Descriptions,
    options: VerbParameters,
}

impl<'s> Writer<'s> {
    /// For the documents of these resources.
    pub fn new(served: &'s ServedResources) -> Self {
        let mut descriptions = Descriptions::default();
        let options = VerbParameters::new(&mut descriptions);
        Self { served, descriptions, options }
    }

    /// The document at a path below `/openapi/v3/`, if there is one, as JSON.
    pub fn document(&mut self, path: &str) -> Option<Vec<u8>> {
        let mut schemas = Schemas::new(OpenApiVersion::V3, &mut self.descriptions);
        let mut operations = Paths::new();
        let version = match path.strip_prefix("apis/") {
            Some(rest) => {
                rest.split_once('/').and_then(|(group, version)| self.served.version(group, version))
            }
            None => path.strip_prefix("api/").and_then(|version| self.served.version("", version)),
        };
        let is_custom = version.is_some_and(GroupVersion::is_custom);
        schemas.groups_of_clients = is_custom;
        if !is_custom {
            let own = format!("/{path}/");
            let about = about_the_server(self.served).remove(&own)?;
            operations.insert(own, about);
        }
        for resource in version.into_iter().flat_map(|version| &version.resources) {
            if is_custom {
                of_custom(resource, &self.options, &mut operations);
            } else {
                of_resource(resource, &self.options, schemas.descriptions, &mut operations);
            }
        }
        let mut paths = Object::new();
        for (path, operations) in &operations {
            paths.put(path.as_str(), path_item(operations, &mut schemas));
        }
        let schemas = schemas.finish();
        let mut components = Object::new();
        if !schemas.is_empty() {
            components.put("schemas", Object::from(schemas));
        }
        let info = if is_custom {
            Object::new().with("title", "Kubernetes CRD Swagger").with("version", "v0.1.0")
        } else {
            components.put("securitySchemes", security_schemes());
            info()
        };
        let document = Object::new()
            .with("openapi", "3.0.0")
            .with("info", info)
            .with("paths", paths)
            .with("components", components);
        Some(json(&document.into(), Escape::Markup))
    }
}

/// The index of documents, as JSON: the response of `/openapi/v3`. `entries` are in the order of [`paths`].
///
/// The address of a document contains its hash, so that clients can cache it without expiry.
pub fn index(entries: &[Entry]) -> Vec<u8> {
    index_with(entries, &[])
}

/// The same index with documents of other servers: their paths, and the address of each. A path that this
/// server has too is its own.
pub fn index_with(entries: &[Entry], foreign: &[(String, String)]) -> Vec<u8> {
    let mut addresses: BTreeMap<&str, String> = BTreeMap::new();
    for Entry { path, hash } in entries {
        addresses.insert(path, format!("/openapi/v3/{path}?hash={hash}"));
    }
    for (path, address) in foreign {
        addresses.entry(path).or_insert_with(|| address.clone());
    }
    let mut paths = Object::new();
    for (path, address) in addresses {
        paths.put(path, Object::new().with("serverRelativeURL", address));
    }
    json(&Object::new().with("paths", paths).into(), Escape::Nothing)
}

impl Entry {
    /// The entry of a document.
    pub fn new(path: impl Into<String>, document: &[u8]) -> Self {
        Self { path: path.into(), hash: hash(document) }
    }
}

static RELEASE: OnceLock<Release> = OnceLock::new();

/// Sets the release that the documents of this process name. Only the first call counts, and only before a
/// document is made.
pub fn set_release(release: Release) {
    let _ = RELEASE.set(release);
}

/// Title and version, as the reference has them.
pub(crate) fn info() -> Object {
    let release = *RELEASE.get_or_init(|| Release::OWN);
    Object::new().with("title", "Kubernetes").with("version", release.to_string())
}

fn security_schemes() -> Object {
    let token = Object::new()
        .with("type", "apiKey")
        .with("description", "Bearer Token authentication")
        .with("name", "authorization")
        .with("in", "header");
    Object::new().with("BearerToken", token)
}

fn path_item<'a>(operations: &[Operation<'a>], schemas: &mut Schemas<'a, '_>) -> Object {
    let mut by_method: Vec<&Operation<'a>> = operations.iter().collect();
    by_method.sort_by_key(|operation| operation.method);
    let shared = shared_parameters(operations);
    let mut item = Object::new();
    for operation in by_method {
        item.put(operation.method.key(), of_operation(operation, &shared, schemas));
    }
    if !shared.is_empty() {
        item.put("parameters", shared.iter().map(|parameter| of_parameter(parameter)).collect::<Vec<_>>());
    }
    item
}

fn of_operation<'a>(
    operation: &Operation<'a>,
    shared: &[&Parameter],
    schemas: &mut Schemas<'a, '_>,
) -> Object {
    let parameters: Vec<Value> = operation
        .parameters
        .iter()
        .filter(|parameter| !is_shared(parameter, shared))
        .map(of_parameter)
        .collect();
    let mut object = Object::new()
        .with("tags", vec![operation.tag.as_str().into()])
        .with("description", operation.description.as_str())
        .with("operationId", operation.id.as_str());
    if !parameters.is_empty() {
        object.put("parameters", parameters);
    }
    if let Some(body) = &operation.body {
        let mut content = BTreeMap::new();
        for media_type in operation.consumes {
            content.insert(*media_type, schemas.body(body.model));
        }
        let mut request = Object::new().with("content", of_content(content));
        if body.required {
            request.put("required", true);
        }
        object.put("requestBody", request);
    }
    let mut responses = Object::new();
    for Response { code, description, model } in &operation.responses {
        let mut content = BTreeMap::new();
        for media_type in operation.produces {
            content.insert(*media_type, schemas.body(*model));
        }
        responses
            .put(*code, Object::new().with("description", *description).with("content", of_content(content)));
    }
    responses.put("401", Object::new().with("description", "Unauthorized"));
    object.put("responses", responses);
    if let Some((action, kind)) = &operation.action {
        object.put("x-kubernetes-action", *action);
        let kind = Object::new()
            .with("group", kind.group.as_str())
            .with("version", kind.version.as_str())
            .with("kind", kind.kind.as_str());
        object.put("x-kubernetes-group-version-kind", kind);
    }
    object
}

fn of_content(content: BTreeMap<&str, Object>) -> Object {
    let mut object = Object::new();
    for (media_type, schema) in content {
        object.put(media_type, Object::new().with("schema", schema));
    }
    object
}

fn of_parameter(parameter: &Parameter) -> Value {
    let is_in_path = parameter.place == Location::Path;
    let mut object = Object::new()
        .with("name", parameter.name.clone())
        .with("in", if is_in_path { "path" } else { "query" });
    if !parameter.description.is_empty() {
        object.put("description", parameter.description.as_str());
    }
    if is_in_path {
        object.put("required", true);
    }
    object.with("schema", Object::new().with("type", parameter.ty).with("uniqueItems", true)).into()
}
