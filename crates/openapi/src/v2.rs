//! OpenAPI v2 (Swagger 2.0): one document for all served resources, as JSON and as Protobuf.

mod protobuf;

use crate::operations::{Operation, Paths, about_the_server, is_shared, of_resource, shared_parameters};
use crate::parameters::{Location, Parameter};
use crate::schemas::{Model, OpenApiVersion, Schemas};
use crate::served::Served;
use crate::tree::{Escape, Object, json as write_json, texts};
use crate::v3::info;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE;
use object::Value;
use std::collections::BTreeMap;

/// The media type of [`protobuf`].
pub const PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

/// The document as JSON.
pub fn json(served: &Served) -> Vec<u8> {
    write_json(&document(served), Escape::Nothing)
}

/// The document as the message `openapi.v2.Document` of gnostic.
pub fn protobuf(served: &Served) -> Vec<u8> {
    protobuf::encode(&document(served))
}

fn document(served: &Served) -> Value {
    let mut schemas = Schemas::new(OpenApiVersion::V2);
    let mut shared = SharedParameters::default();
    let mut operations: Paths<'_> = about_the_server(served);
    for group in served.groups() {
        for version in group.versions {
            for resource in served.of(group.name, version) {
                of_resource(resource, &mut schemas.descriptions, &mut operations);
            }
        }
    }
    let mut paths = Object::new();
    for (path, operations) in &operations {
        paths.put(path.as_str(), path_item(operations, &mut schemas, &mut shared));
    }
    let mut parameters = Object::new();
    for (name, parameter) in shared.by_name {
        parameters.put(name, parameter);
    }
    let token = Object::new()
        .with("description", "Bearer Token authentication")
        .with("type", "apiKey")
        .with("name", "authorization")
        .with("in", "header");
    Object::new()
        .with("swagger", "2.0")
        .with("info", info())
        .with("paths", paths)
        .with("definitions", schemas.finish())
        .with("parameters", parameters)
        .with("securityDefinitions", Object::new().with("BearerToken", token))
        .with("security", vec![Object::new().with("BearerToken", Vec::new()).into()])
        .into()
}

fn path_item<'a>(
    operations: &[Operation<'a>],
    schemas: &mut Schemas<'a>,
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
    schemas: &mut Schemas<'a>,
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
        let is_of_one_kind =
            matches!(body.model, Model::Type(ty) if !ty.openapi.starts_with("io.k8s.apimachinery"));
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
    /// The entry for `parameter` in an operation: a reference, or the parameter itself if it belongs to one operation or if
    /// clients expect it there.
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
        let document = document(&Served::everything());
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
