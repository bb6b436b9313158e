//! Objects within values: what `apiVersion`, `kind` and `metadata` have to be.

use super::walk::single;
use crate::{Scope, object_meta};
use ::schema::go_value;
use ::schema::view::View;
use ::schema::views::apiextensions::v1::JSONSchemaProps;
use ::schema::views::meta::v1::ObjectMeta;
use ::schema::{Limits, Shape, json};
use object::field::{Error, List, Path};
use object::name::{dns1035_label, name_is_path_segment};
use object::{Map, Value};

/// Whether a field is one of those that every object has.
pub(super) fn is_meta(key: &str) -> bool {
    matches!(key, "apiVersion" | "kind" | "metadata")
}

/// The first of these fields that does not have its type, in a value or in an object within it.
pub(super) fn malformed(
    value: &Value,
    schema: Option<JSONSchemaProps<'_>>,
    is_object: bool,
    path: &Path<'_>,
) -> Option<Error> {
    if let (Value::Map(map), true) = (value, is_object) {
        for key in ["apiVersion", "kind"] {
            if let Some(value) = map.get(key).filter(|value| value.as_str().is_none()) {
                return Some(Error::invalid(&path.child(key), go_value(value), "must be a string"));
            }
        }
        if let Some(value) = map.get("metadata")
            && let Err(why) = read(value)
        {
            return Some(Error::invalid(&path.child("metadata"), go_value(value), why));
        }
    }
    let mut first = None;
    each(value, schema, path, &mut |value, schema, path| {
        if first.is_none() {
            first = malformed(value, Some(schema), schema.x_kubernetes_embedded_resource(), path);
        }
    });
    first
}

/// What is wrong with these fields, in a value and in the objects within it.
pub(super) fn validate(
    value: &Value,
    schema: Option<JSONSchemaProps<'_>>,
    is_object: bool,
    path: &Path<'_>,
) -> List {
    let mut errors = List::new();
    if let (Value::Map(map), true) = (value, is_object) {
        errors.append(object(map, path));
    }
    each(value, schema, path, &mut |value, schema, path| {
        errors.append(validate(value, Some(schema), schema.x_kubernetes_embedded_resource(), path));
    });
    errors
}

/// Calls `visit` with the values right within a value that have a schema.
fn each(
    value: &Value,
    schema: Option<JSONSchemaProps<'_>>,
    path: &Path<'_>,
    visit: &mut dyn FnMut(&Value, JSONSchemaProps<'_>, &Path<'_>),
) {
    let Some(schema) = schema else { return };
    match value {
        Value::Map(map) => {
            for (key, value) in map.iter() {
                if let Some(property) = schema.properties().get(key) {
                    visit(value, property, &path.child(key));
                } else if let Some(additional) = single(schema.additional_properties()) {
                    visit(value, additional, &path.key(key));
                }
            }
        }
        Value::List(list) => {
            let Some(items) = single(schema.items()) else { return };
            for (at, value) in list.iter().enumerate() {
                visit(value, items, &path.index(at));
            }
        }
        _ => {}
    }
}

fn object(map: &Map, path: &Path<'_>) -> List {
    let mut errors = List::new();
    for key in ["apiVersion", "kind"] {
        if !map.contains_key(key) {
            errors.push(Error::required(&path.child(key), "must not be empty"));
        }
    }
    let text = |key: &str| map.get(key).and_then(Value::as_str);
    match text("apiVersion") {
        Some("") => errors.push(Error::invalid(&path.child("apiVersion"), "", "must not be empty")),
        Some(version) if version.matches('/').count() > 1 => {
            let why = format!("unexpected GroupVersion string: {version}");
            errors.push(Error::invalid(&path.child("apiVersion"), version, why));
        }
        _ => {}
    }
    match text("kind") {
        Some("") => errors.push(Error::invalid(&path.child("kind"), "", "must not be empty")),
        Some(kind) => {
            let wrong = dns1035_label(&kind.to_lowercase());
            if !wrong.is_empty() {
                let why = format!("may have mixed case, but should otherwise match: {}", wrong.join(","));
                errors.push(Error::invalid(&path.child("kind"), kind, why));
            }
        }
        None => {}
    }
    if let Some(Ok(mut metadata)) = map.get("metadata").map(read) {
        if ObjectMeta::of(&metadata).name().is_empty() {
            metadata.insert("name", "fakename");
        }
        let scope = match ObjectMeta::of(&metadata).namespace() {
            "" => Scope::Cluster,
            _ => Scope::Namespaced,
        };
        let object = Map::from_iter([("metadata", Value::from(metadata))]);
        for error in object_meta::validate_named(&object, scope, name_is_path_segment).into_vec() {
            let place = path.child(&error.path).to_string();
            errors.push(Error { path: place, ..error });
        }
    }
    errors
}

/// The metadata, as its type reads it.
fn read(value: &Value) -> Result<Map, String> {
    let mut text = Vec::new();
    json::encode_shape(&Shape::Any, value, &mut text);
    let decoded = json::decode(ObjectMeta::schema(), &text, &Limits::STORED);
    let value = decoded.map_err(|error| error.to_string())?.value;
    Ok(value.as_map().cloned().unwrap_or_default())
}
