//! OpenAPI v3: one document for each group version, one for each group, and one for each path outside of the API groups.

use crate::operations::{
    Operation, Paths, Response, about_the_server, is_shared, of_resource, root, shared_parameters,
};
use crate::parameters::{Location, Parameter};
use crate::schemas::{OpenApiVersion, Schemas};
use crate::served::Served;
use crate::tree::{Escape, Object, hash, json};
use object::Value;
use std::collections::BTreeMap;

/// The entry of a document in the index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The document's path below `/openapi/v3/`: `apis/apps/v1`.
    pub path: String,
    /// The [hash] of its bytes.
    pub hash: String,
}

/// The paths of the documents below `/openapi/v3/`, in the order of the index.
pub fn paths(served: &Served) -> Vec<String> {
    let mut paths: Vec<String> =
        about_the_server(served).into_keys().map(|path| path.trim_matches('/').to_owned()).collect();
    paths.sort();
    paths
}

/// The document at a path below `/openapi/v3/`, if there is one, as JSON.
///
/// ```
/// let served = openapi::Served::by_default();
/// assert!(openapi::v3::document(&served, "apis/apps/v1").is_some());
/// assert_eq!(openapi::v3::document(&served, "apis/apps/v9"), None);
/// ```
pub fn document(served: &Served, path: &str) -> Option<Vec<u8>> {
    let mut schemas = Schemas::new(OpenApiVersion::V3);
    let mut about = about_the_server(served);
    let mut operations = Paths::new();
    let own = format!("/{path}/");
    operations.insert(own.clone(), about.remove(&own)?);
    for group in served.groups() {
        for version in group.versions {
            if root(group.name, version).trim_start_matches('/') == path {
                for resource in served.of(group.name, version) {
                    of_resource(resource, &mut schemas.descriptions, &mut operations);
                }
            }
        }
    }
    let mut paths = Object::new();
    for (path, operations) in &operations {
        paths.put(path.as_str(), path_item(operations, &mut schemas));
    }
    let schemas = schemas.finish();
    let mut components = Object::new();
    if !schemas.is_empty() {
        components.put("schemas", schemas);
    }
    let document = Object::new()
        .with("openapi", "3.0.0")
        .with("info", info())
        .with("paths", paths)
        .with("components", components.with("securitySchemes", security_schemes()));
    Some(json(&document.into(), Escape::Markup))
}

/// The index of documents, as JSON: the response of `/openapi/v3`. `entries` are in the order of [`paths`].
///
/// The address of a document contains its hash, so that clients can cache it without expiry.
pub fn index(entries: &[Entry]) -> Vec<u8> {
    let mut paths = Object::new();
    for Entry { path, hash } in entries {
        let address = format!("/openapi/v3/{path}?hash={hash}");
        paths.put(path.as_str(), Object::new().with("serverRelativeURL", address));
    }
    json(&Object::new().with("paths", paths).into(), Escape::Nothing)
}

impl Entry {
    /// The entry of a document.
    pub fn new(path: impl Into<String>, document: &[u8]) -> Self {
        Self { path: path.into(), hash: hash(document) }
    }
}

/// Title and version, as the reference has them.
pub(crate) fn info() -> Object {
    Object::new().with("title", "Kubernetes").with("version", "1.33")
}

fn security_schemes() -> Object {
    let token = Object::new()
        .with("type", "apiKey")
        .with("description", "Bearer Token authentication")
        .with("name", "authorization")
        .with("in", "header");
    Object::new().with("BearerToken", token)
}

fn path_item<'a>(operations: &[Operation<'a>], schemas: &mut Schemas<'a>) -> Object {
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

fn of_operation<'a>(operation: &Operation<'a>, shared: &[&Parameter], schemas: &mut Schemas<'a>) -> Object {
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
