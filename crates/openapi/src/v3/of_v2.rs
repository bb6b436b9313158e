//! OpenAPI v3 made of OpenAPI v2, for servers that have no other. What version 3 says otherwise is converted,
//! and what version 2 cannot say is missing.

use crate::tree::{Escape, Object, json};
use object::{Key, Map, Value};

/// The document in version 3 for one in version 2, as JSON.
pub fn of_v2(document: &Value) -> Vec<u8> {
    let map = |key: &str| document.get(key).and_then(Value::as_map);
    let paths =
        map("paths").into_iter().flat_map(Map::iter).map(|(path, item)| (path.to_string(), path_item(item)));
    let mut components = Object::new();
    if let Some(definitions) = map("definitions") {
        components.put("schemas", converted(definitions, schema));
    }
    if let Some(responses) = map("responses") {
        let produces = document.get("produces");
        components.put("responses", converted(responses, |answer| response(answer, produces)));
    }
    if let Some(schemes) = map("securityDefinitions") {
        components.put("securitySchemes", converted(schemes, security_scheme));
    }
    let object = Object::new()
        .with("openapi", "3.0.0")
        .with_some("info", document.get("info").cloned())
        .with("paths", Object::from(paths.collect::<Vec<_>>()))
        .with("components", components)
        .with_some("externalDocs", document.get("externalDocs").cloned());
    json(&object.into(), Escape::Markup)
}

fn converted(map: &Map, convert: impl Fn(&Value) -> Value) -> Object {
    Object::from(map.iter().map(|(name, value)| (name.to_string(), convert(value))).collect::<Vec<_>>())
}

fn path_item(item: &Value) -> Value {
    let mut object = Object::new();
    for (key, value) in item.as_map().into_iter().flat_map(Map::iter) {
        let value = match key.as_str() {
            "get" | "put" | "post" | "delete" | "options" | "head" | "patch" => operation(value),
            "parameters" => parameters(value, |_| true).into(),
            _ => value.clone(),
        };
        object.put(key.clone(), value);
    }
    object.into()
}

fn operation(operation: &Value) -> Value {
    let produces = operation.get("produces");
    let mut object = Object::new();
    for (key, value) in operation.as_map().into_iter().flat_map(Map::iter) {
        match key.as_str() {
            "consumes" | "produces" | "schemes" | "security" => {}
            "parameters" => {
                let is_body = |parameter: &Value| {
                    parameter.get("name").and_then(Value::as_str) == Some("body")
                        && parameter.get("schema").is_some()
                };
                let others = parameters(value, |parameter| !is_body(parameter));
                if !others.is_empty() {
                    object.put("parameters", others);
                }
                let body = value.as_list().unwrap_or_default().iter().find(|parameter| is_body(parameter));
                if let Some(body) = body.and_then(|body| body.get("schema")) {
                    object.put("requestBody", content(Object::new(), body, operation.get("consumes")));
                }
            }
            "responses" => {
                let answers = value.as_map().cloned().unwrap_or_default();
                object.put("responses", converted(&answers, |answer| response(answer, produces)));
            }
            _ => object.put(key.clone(), value.clone()),
        }
    }
    object.into()
}

fn response(answer: &Value, produces: Option<&Value>) -> Value {
    let mut object = Object::new();
    for (key, value) in answer.as_map().into_iter().flat_map(Map::iter) {
        match key.as_str() {
            "schema" => {}
            "$ref" => object.put("$ref", moved(value, "#/responses/", "#/components/responses/")),
            _ => object.put(key.clone(), value.clone()),
        }
    }
    match answer.get("schema") {
        Some(schema) => content(object, schema, produces).into(),
        None => object.into(),
    }
}

/// An object with a schema for each of some media types.
fn content(object: Object, of: &Value, media_types: Option<&Value>) -> Object {
    let Some(media_types) = media_types.and_then(Value::as_list) else { return object };
    let mut content = Object::new();
    for media_type in media_types.iter().filter_map(Value::as_str) {
        content.put(media_type.to_owned(), Object::new().with("schema", schema(of)));
    }
    object.with("content", content)
}

fn parameters(list: &Value, is_wanted: impl Fn(&Value) -> bool) -> Vec<Value> {
    let list = list.as_list().unwrap_or_default().iter();
    list.filter(|one| is_wanted(one)).map(parameter).collect()
}

fn parameter(parameter: &Value) -> Value {
    let mut object = Object::new();
    let mut simple = Object::new();
    for (key, value) in parameter.as_map().into_iter().flat_map(Map::iter) {
        match key.as_str() {
            "type" => simple.put("type", value.as_str().map_or(value.clone(), Value::from)),
            "format" | "uniqueItems" => simple.put(key.clone(), value.clone()),
            "schema" => object.put("schema", schema(value)),
            "$ref" => object.put("$ref", moved(value, "#/parameters/", "#/components/parameters/")),
            "name" | "in" | "description" | "required" | "allowEmptyValue" => {
                object.put(key.clone(), value.clone());
            }
            extension if extension.starts_with("x-") => object.put(key.clone(), value.clone()),
            _ => {}
        }
    }
    if parameter.get("schema").is_none() && parameter.get("$ref").is_none() {
        object.put("schema", simple);
    }
    object.into()
}

fn schema(of: &Value) -> Value {
    let Some(map) = of.as_map() else { return of.clone() };
    let reference = map.get("$ref").map(|to| moved(to, "#/definitions/", "#/components/schemas/"));
    let mut object = Object::new();
    for (key, value) in map.iter() {
        let value = match key.as_str() {
            "$ref" => continue,
            "properties" => converted(&value.as_map().cloned().unwrap_or_default(), schema).into(),
            "items" | "allOf" | "anyOf" | "oneOf" => match value.as_list() {
                Some(list) => list.iter().map(schema).collect::<Vec<_>>().into(),
                None => schema(value),
            },
            "additionalProperties" | "additionalItems" | "not" => schema(value),
            _ => value.clone(),
        };
        object.put(key.clone(), value);
    }
    match reference {
        None => object.into(),
        Some(to) if object.is_empty() => Object::new().with("$ref", to).into(),
        // A reference has no siblings in version 3.
        Some(to) => {
            let to: Value = Object::new().with("$ref", to).into();
            object.with("allOf", vec![to]).into()
        }
    }
}

/// A reference in the place where version 3 has what it refers to.
fn moved(reference: &Value, from: &str, to: &str) -> Value {
    let text = reference.as_str().unwrap_or_default();
    match text.split_once(from) {
        Some((_, name)) => format!("{to}{name}").as_str().into(),
        None => reference.clone(),
    }
}

fn security_scheme(scheme: &Value) -> Value {
    let mut object = Object::new();
    for (key, value) in scheme.as_map().into_iter().flat_map(Map::iter) {
        if matches!(key.as_str(), "description" | "type" | "name" | "in") || key.starts_with("x-") {
            object.put(key.clone(), value.clone());
        }
    }
    if let Some(flow) = scheme.get("flow").and_then(Value::as_str) {
        let of_flow = Object::new()
            .with_some("authorizationUrl", scheme.get("authorizationUrl").cloned())
            .with_some("tokenUrl", scheme.get("tokenUrl").cloned())
            .with_some("scopes", scheme.get("scopes").cloned());
        object.put("flows", Object::new().with(Key::from(flow.to_owned()), of_flow));
    }
    object.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use schema::{Limits, Shape};

    #[test]
    fn document_of_version_2_is_said_in_version_3() {
        let document = r##"{"swagger":"2.0","info":{"title":"t","version":"1"},"paths":{"/apis/g/v1/things":{
            "post":{"operationId":"make","consumes":["application/json"],"produces":["application/json"],"schemes":["https"],
                "parameters":[{"name":"body","in":"body","required":true,"schema":{"$ref":"#/definitions/Thing"}},
                    {"name":"dryRun","in":"query","type":"string","uniqueItems":true}],
                "responses":{"200":{"description":"OK","schema":{"$ref":"#/definitions/Thing"}},"401":{"description":"Unauthorized"}}},
            "parameters":[{"$ref":"#/parameters/pretty"}]}},
            "definitions":{"Thing":{"type":"object","properties":{"part":{"description":"d","$ref":"#/definitions/Part"},
                "list":{"type":"array","items":{"$ref":"#/definitions/Part"}}}}},
            "securityDefinitions":{"BearerToken":{"type":"apiKey","name":"authorization","in":"header"}}}"##;
        let value =
            schema::json::decode_shape(&Shape::Any, document.as_bytes(), &Limits::REQUEST).unwrap().value;
        assert_eq!(
            String::from_utf8(of_v2(&value)).unwrap(),
            concat!(
                r##"{"openapi":"3.0.0","info":{"title":"t","version":"1"},"paths":{"/apis/g/v1/things":{"##,
                r##""post":{"operationId":"make","parameters":[{"name":"dryRun","in":"query","schema":{"type":"string","uniqueItems":true}}],"##,
                r##""requestBody":{"content":{"application/json":{"schema":{"$ref":"#/components/schemas/Thing"}}}},"##,
                r##""responses":{"200":{"description":"OK","content":{"application/json":{"schema":{"$ref":"#/components/schemas/Thing"}}}},"401":{"description":"Unauthorized"}}},"##,
                r##""parameters":[{"$ref":"#/components/parameters/pretty"}]}},"##,
                r##""components":{"schemas":{"Thing":{"type":"object","properties":{"part":{"description":"d","allOf":[{"$ref":"#/components/schemas/Part"}]},"##,
                r##""list":{"type":"array","items":{"$ref":"#/components/schemas/Part"}}}}},"##,
                r##""securitySchemes":{"BearerToken":{"type":"apiKey","name":"authorization","in":"header"}}}}"##
            )
        );
    }
}
