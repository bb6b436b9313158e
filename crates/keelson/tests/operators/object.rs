//! Objects that a schema accepts.

use fastrand::Rng;
use serde_json::{Map, Value, json};

/// The keywords that relate fields to each other. A place with one of them gets no more fields than it needs.
const COMBINATIONS: [&str; 4] = ["oneOf", "anyOf", "allOf", "not"];
/// Texts for fields with a pattern or a format, of which the server takes one or another.
const TEXTS: [&str; 14] = [
    "a",
    "example.com",
    "30s",
    "100m",
    "1",
    "10.0.0.0/8",
    "10.1.2.3",
    "2024-01-02T03:04:05Z",
    "aGVsbG8=",
    "https://example.com/x",
    "/x",
    "TCP",
    "Host",
    "default",
];

/// An object in a version of a definition: with the fields it needs, and some of the others. It has no
/// status, which a create leaves out.
pub(super) fn generate(definition: &Value, version: &Value, rng: &mut Rng) -> Value {
    let spec = &definition["spec"];
    let schema = &version["schema"]["openAPIV3Schema"];
    let mut object = match value(schema, rng, 0) {
        Value::Object(map) => map,
        _ => Map::new(),
    };
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    object.insert(
        "apiVersion".to_owned(),
        json!(format!("{}/{}", text(&spec["group"]), text(&version["name"]))),
    );
    object.insert("kind".to_owned(), spec["names"]["kind"].clone());
    object.insert("metadata".to_owned(), json!({"name": "generated"}));
    Value::Object(object)
}

fn value(schema: &Value, rng: &mut Rng, depth: usize) -> Value {
    if let Some(Value::Array(values)) = schema.get("enum") {
        return values[rng.usize(..values.len())].clone();
    }
    if schema["x-kubernetes-int-or-string"] == true {
        return json!(rng.u32(1..100));
    }
    match schema["type"].as_str() {
        Some("object") => fields(schema, rng, depth),
        Some("array") => items(schema, rng, depth),
        Some("string") => text(schema, rng),
        Some("integer") => number(schema, rng),
        Some("number") => number(schema, rng),
        Some("boolean") => json!(rng.bool()),
        _ => json!({"anything": [1, "two", {"three": null}]}),
    }
}

fn fields(schema: &Value, rng: &mut Rng, depth: usize) -> Value {
    let empty = Map::new();
    let properties = schema["properties"].as_object().unwrap_or(&empty);
    let required: Vec<&str> =
        schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let combined = COMBINATIONS.iter().any(|keyword| schema.get(*keyword).is_some());
    // Large types have so many fields that a small part of them makes a large object.
    let chance = if properties.len() > 12 { 0.15 } else { 0.5 };
    let mut map = Map::new();
    for (name, property) in properties {
        let at_root = depth == 0 && matches!(name.as_str(), "apiVersion" | "kind" | "metadata" | "status");
        let optional = !combined && depth < 8 && is_simple(property) && rng.f64() < chance;
        if !at_root && (required.contains(&name.as_str()) || optional) {
            map.insert(name.clone(), value(property, rng, depth + 1));
        }
    }
    if let Some(additional) = schema.get("additionalProperties").filter(|schema| schema.is_object()) {
        for key in ["first", "second"].into_iter().take(rng.usize(..3)) {
            map.insert(key.to_owned(), value(additional, rng, depth + 1));
        }
    }
    Value::Object(map)
}

/// Whether a field can be given a value without knowing what its pattern means.
fn is_simple(schema: &Value) -> bool {
    schema.get("pattern").is_none() && COMBINATIONS.iter().all(|keyword| schema.get(*keyword).is_none())
}

fn items(schema: &Value, rng: &mut Rng, depth: usize) -> Value {
    let least = usize::try_from(schema["minItems"].as_u64().unwrap_or(0)).unwrap();
    let most = usize::try_from(schema["maxItems"].as_u64().unwrap_or(2)).unwrap().min(2);
    let unique = matches!(schema["x-kubernetes-list-type"].as_str(), Some("set" | "map"));
    let count = rng.usize(least..=most.max(least)).min(if unique { least.max(1) } else { usize::MAX });
    (0..count).map(|_| value(&schema["items"], rng, depth + 1)).collect()
}

fn text(schema: &Value, rng: &mut Rng) -> Value {
    let least = usize::try_from(schema["minLength"].as_u64().unwrap_or(0)).unwrap();
    let fixed = match schema["format"].as_str() {
        Some("date-time") => Some("2024-01-02T03:04:05Z"),
        Some("byte") => Some("aGVsbG8="),
        Some("uri") => Some("https://example.com/x"),
        Some("cidr") => Some("10.0.0.0/8"),
        Some("ipv4") => Some("10.1.2.3"),
        _ => None,
    };
    let text = match fixed {
        Some(text) => text.to_owned(),
        None if schema.get("pattern").is_some() => TEXTS[rng.usize(..TEXTS.len())].to_owned(),
        None => "x".repeat(least.max(rng.usize(1..4))),
    };
    Value::String(text)
}

fn number(schema: &Value, rng: &mut Rng) -> Value {
    let least = schema["minimum"].as_i64().unwrap_or(0);
    let most = schema["maximum"].as_i64().unwrap_or(least + 100);
    json!(rng.i64(least..=most))
}
