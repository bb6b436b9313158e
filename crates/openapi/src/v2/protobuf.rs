//! The document as Protobuf: the message `openapi.v2.Document` of gnostic, encoded from the JSON tree.
//!
//! A message is a table of its fields by ascending number. Keys that start with `x-` are extensions: their values are YAML
//! text, with the quoting of YAML 1.1 (`"y"`); the library of the reference quotes as YAML 1.2.

use crate::tree::{Escape, json};
use object::{Map, Value};

/// Encodes a document, or some fields of one.
pub(super) fn encode(document: &Value) -> Vec<u8> {
    document.as_map().map(|document| message(&DOCUMENT, document)).unwrap_or_default()
}

/// The start of a map of the document, whose entries have this length.
pub(super) fn start(map: &str, length: usize) -> Vec<u8> {
    let mut out = Vec::new();
    if let Some(GnosticField(_, number, _)) = DOCUMENT.fields.iter().find(|field| field.0 == map) {
        write_varint((u64::from(*number) << 3) | 2, &mut out);
        write_varint(length as u64, &mut out);
    }
    out
}

/// Entries of a map of the document.
pub(super) fn entries(map: Option<&str>, entries: &[(String, Value)]) -> Vec<u8> {
    let mut out = Vec::new();
    let field = DOCUMENT.fields.iter().find(|field| Some(field.0) == map);
    if let Some(GnosticField(_, _, FieldEncoding::Named(number, form))) = field {
        for (key, value) in entries {
            write_entry(*number, form, key, value, &mut out);
        }
    }
    out
}

fn write_entry(number: u32, form: &FieldEncoding, key: &str, value: &Value, out: &mut Vec<u8>) {
    let mut entry = Vec::new();
    write_bytes(1, key.as_bytes(), &mut entry);
    write(2, form, value, &mut entry);
    write_bytes(number, &entry, out);
}

/// A message: its fields, and the number of the field for extensions.
struct GnosticMessage {
    fields: &'static [GnosticField],
    extensions: u32,
}

/// The key in JSON, the field number, and the encoding.
struct GnosticField(&'static str, u32, FieldEncoding);

/// The encoding of a field.
enum FieldEncoding {
    Text,
    Bool,
    Double,
    Integer,
    /// Each text of a list; a single text counts as a list of one.
    Texts,
    /// Each value of a list, as YAML in a message.
    Anys,
    GnosticMessage(&'static GnosticMessage),
    /// Each element of a list, in this encoding.
    Each(&'static FieldEncoding),
    /// In a message of its own, as the field of this number.
    Within(u32, &'static FieldEncoding),
    /// The entries of a map: a message with a repeated field of this number, for names and values.
    Named(u32, &'static FieldEncoding),
    /// A message with a schema or a boolean.
    SchemaOrBool,
    /// A parameter: body, query and path parameters are different messages.
    Parameter,
    /// A parameter, or a reference to one.
    ParameterOrReference,
}

static DOCUMENT: GnosticMessage = GnosticMessage {
    fields: &[
        GnosticField("swagger", 1, FieldEncoding::Text),
        GnosticField("info", 2, FieldEncoding::GnosticMessage(&INFO)),
        GnosticField("paths", 8, FieldEncoding::Named(2, &FieldEncoding::GnosticMessage(&PATH_ITEM))),
        GnosticField("definitions", 9, FieldEncoding::Named(1, &FieldEncoding::GnosticMessage(&SCHEMA))),
        GnosticField("parameters", 10, FieldEncoding::Named(1, &FieldEncoding::Parameter)),
        GnosticField(
            "security",
            12,
            FieldEncoding::Each(&FieldEncoding::Named(1, &FieldEncoding::Within(1, &FieldEncoding::Texts))),
        ),
        GnosticField(
            "securityDefinitions",
            13,
            FieldEncoding::Named(1, &FieldEncoding::Within(2, &FieldEncoding::GnosticMessage(&API_KEY))),
        ),
    ],
    extensions: 16,
};

static INFO: GnosticMessage = GnosticMessage {
    fields: &[GnosticField("title", 1, FieldEncoding::Text), GnosticField("version", 2, FieldEncoding::Text)],
    extensions: 7,
};

static API_KEY: GnosticMessage = GnosticMessage {
    fields: &[
        GnosticField("type", 1, FieldEncoding::Text),
        GnosticField("name", 2, FieldEncoding::Text),
        GnosticField("in", 3, FieldEncoding::Text),
        GnosticField("description", 4, FieldEncoding::Text),
    ],
    extensions: 5,
};

static PATH_ITEM: GnosticMessage = GnosticMessage {
    fields: &[
        GnosticField("get", 2, FieldEncoding::GnosticMessage(&OPERATION)),
        GnosticField("put", 3, FieldEncoding::GnosticMessage(&OPERATION)),
        GnosticField("post", 4, FieldEncoding::GnosticMessage(&OPERATION)),
        GnosticField("delete", 5, FieldEncoding::GnosticMessage(&OPERATION)),
        GnosticField("options", 6, FieldEncoding::GnosticMessage(&OPERATION)),
        GnosticField("head", 7, FieldEncoding::GnosticMessage(&OPERATION)),
        GnosticField("patch", 8, FieldEncoding::GnosticMessage(&OPERATION)),
        GnosticField("parameters", 9, FieldEncoding::Each(&FieldEncoding::ParameterOrReference)),
    ],
    extensions: 10,
};

static OPERATION: GnosticMessage = GnosticMessage {
    fields: &[
        GnosticField("tags", 1, FieldEncoding::Texts),
        GnosticField("description", 3, FieldEncoding::Text),
        GnosticField("operationId", 5, FieldEncoding::Text),
        GnosticField("produces", 6, FieldEncoding::Texts),
        GnosticField("consumes", 7, FieldEncoding::Texts),
        GnosticField("parameters", 8, FieldEncoding::Each(&FieldEncoding::ParameterOrReference)),
        GnosticField(
            "responses",
            9,
            FieldEncoding::Named(1, &FieldEncoding::Within(1, &FieldEncoding::GnosticMessage(&RESPONSE))),
        ),
        GnosticField("schemes", 10, FieldEncoding::Texts),
    ],
    extensions: 13,
};

static RESPONSE: GnosticMessage = GnosticMessage {
    fields: &[
        GnosticField("description", 1, FieldEncoding::Text),
        GnosticField("schema", 2, FieldEncoding::Within(1, &FieldEncoding::GnosticMessage(&SCHEMA))),
    ],
    extensions: 5,
};

static REFERENCE: GnosticMessage =
    GnosticMessage { fields: &[GnosticField("$ref", 1, FieldEncoding::Text)], extensions: 0 };

static BODY_PARAMETER: GnosticMessage = GnosticMessage {
    fields: &[
        GnosticField("description", 1, FieldEncoding::Text),
        GnosticField("name", 2, FieldEncoding::Text),
        GnosticField("in", 3, FieldEncoding::Text),
        GnosticField("required", 4, FieldEncoding::Bool),
        GnosticField("schema", 5, FieldEncoding::GnosticMessage(&SCHEMA)),
    ],
    extensions: 6,
};

static QUERY_PARAMETER: GnosticMessage = GnosticMessage {
    fields: &[
        GnosticField("required", 1, FieldEncoding::Bool),
        GnosticField("in", 2, FieldEncoding::Text),
        GnosticField("description", 3, FieldEncoding::Text),
        GnosticField("name", 4, FieldEncoding::Text),
        GnosticField("type", 6, FieldEncoding::Text),
        GnosticField("uniqueItems", 20, FieldEncoding::Bool),
    ],
    extensions: 23,
};

static PATH_PARAMETER: GnosticMessage = GnosticMessage {
    fields: &[
        GnosticField("required", 1, FieldEncoding::Bool),
        GnosticField("in", 2, FieldEncoding::Text),
        GnosticField("description", 3, FieldEncoding::Text),
        GnosticField("name", 4, FieldEncoding::Text),
        GnosticField("type", 5, FieldEncoding::Text),
        GnosticField("uniqueItems", 19, FieldEncoding::Bool),
    ],
    extensions: 22,
};

static SCHEMA: GnosticMessage = GnosticMessage {
    fields: &[
        GnosticField("$ref", 1, FieldEncoding::Text),
        GnosticField("format", 2, FieldEncoding::Text),
        GnosticField("title", 3, FieldEncoding::Text),
        GnosticField("description", 4, FieldEncoding::Text),
        GnosticField("multipleOf", 6, FieldEncoding::Double),
        GnosticField("maximum", 7, FieldEncoding::Double),
        GnosticField("exclusiveMaximum", 8, FieldEncoding::Bool),
        GnosticField("minimum", 9, FieldEncoding::Double),
        GnosticField("exclusiveMinimum", 10, FieldEncoding::Bool),
        GnosticField("maxLength", 11, FieldEncoding::Integer),
        GnosticField("minLength", 12, FieldEncoding::Integer),
        GnosticField("pattern", 13, FieldEncoding::Text),
        GnosticField("maxItems", 14, FieldEncoding::Integer),
        GnosticField("minItems", 15, FieldEncoding::Integer),
        GnosticField("uniqueItems", 16, FieldEncoding::Bool),
        GnosticField("maxProperties", 17, FieldEncoding::Integer),
        GnosticField("minProperties", 18, FieldEncoding::Integer),
        GnosticField("required", 19, FieldEncoding::Texts),
        GnosticField("enum", 20, FieldEncoding::Anys),
        GnosticField("additionalProperties", 21, FieldEncoding::SchemaOrBool),
        GnosticField("type", 22, FieldEncoding::Within(1, &FieldEncoding::Texts)),
        GnosticField("items", 23, FieldEncoding::Within(1, &FieldEncoding::GnosticMessage(&SCHEMA))),
        GnosticField("properties", 25, FieldEncoding::Named(1, &FieldEncoding::GnosticMessage(&SCHEMA))),
    ],
    extensions: 31,
};

static SCHEMA_WITHIN: FieldEncoding = FieldEncoding::Within(1, &FieldEncoding::GnosticMessage(&SCHEMA));
static BOOL_WITHIN: FieldEncoding = FieldEncoding::Within(2, &FieldEncoding::Bool);
static IN_BODY: FieldEncoding = FieldEncoding::Within(1, &FieldEncoding::GnosticMessage(&BODY_PARAMETER));
static IN_PATH: FieldEncoding =
    FieldEncoding::Within(2, &FieldEncoding::Within(4, &FieldEncoding::GnosticMessage(&PATH_PARAMETER)));
static IN_QUERY: FieldEncoding =
    FieldEncoding::Within(2, &FieldEncoding::Within(3, &FieldEncoding::GnosticMessage(&QUERY_PARAMETER)));
static REFERRED: FieldEncoding = FieldEncoding::Within(2, &FieldEncoding::GnosticMessage(&REFERENCE));
static IN_PLACE: FieldEncoding = FieldEncoding::Within(1, &FieldEncoding::Parameter);

fn message(message: &GnosticMessage, map: &Map) -> Vec<u8> {
    let mut out = Vec::new();
    for GnosticField(key, number, form) in message.fields {
        if let Some(value) = map.get(key) {
            write(*number, form, value, &mut out);
        }
    }
    for (key, value) in map.iter().filter(|(key, _)| key.starts_with("x-")) {
        let mut named = Vec::new();
        write_bytes(1, key.as_bytes(), &mut named);
        write_bytes(2, &any(value), &mut named);
        write_bytes(message.extensions, &named, &mut out);
    }
    out
}

fn write(number: u32, form: &FieldEncoding, value: &Value, out: &mut Vec<u8>) {
    match form {
        FieldEncoding::Text => {
            if let Some(text) = value.as_str().filter(|text| !text.is_empty()) {
                write_bytes(number, text.as_bytes(), out);
            }
        }
        FieldEncoding::Bool => {
            if value.as_bool() == Some(true) {
                write_varint(u64::from(number) << 3, out);
                out.push(1);
            }
        }
        FieldEncoding::Double => {
            if let Some(double) = value.as_f64().filter(|double| *double != 0.0) {
                write_varint((u64::from(number) << 3) | 1, out);
                out.extend_from_slice(&double.to_le_bytes());
            }
        }
        FieldEncoding::Integer => {
            if let Some(integer) = value.as_i64().filter(|integer| *integer != 0) {
                write_varint(u64::from(number) << 3, out);
                write_varint(integer as u64, out);
            }
        }
        FieldEncoding::SchemaOrBool => {
            let form = match value {
                Value::Bool(_) => &BOOL_WITHIN,
                _ => &SCHEMA_WITHIN,
            };
            write(number, form, value, out);
        }
        FieldEncoding::Texts => {
            let one = std::slice::from_ref(value);
            for text in value.as_list().unwrap_or(one).iter().filter_map(Value::as_str) {
                write_bytes(number, text.as_bytes(), out);
            }
        }
        FieldEncoding::Anys => {
            for value in value.as_list().unwrap_or_default() {
                write_bytes(number, &any(value), out);
            }
        }
        FieldEncoding::GnosticMessage(ty) => {
            if let Some(map) = value.as_map() {
                write_bytes(number, &message(ty, map), out);
            }
        }
        FieldEncoding::Each(form) => {
            for value in value.as_list().unwrap_or_default() {
                write(number, form, value, out);
            }
        }
        FieldEncoding::Within(inner, form) => {
            let mut body = Vec::new();
            write(*inner, form, value, &mut body);
            write_bytes(number, &body, out);
        }
        FieldEncoding::Named(inner, form) => {
            let mut body = Vec::new();
            for (key, value) in value.as_map().into_iter().flat_map(Map::iter) {
                write_entry(*inner, form, key, value, &mut body);
            }
            write_bytes(number, &body, out);
        }
        FieldEncoding::Parameter => {
            let form = match value.get("in").and_then(Value::as_str) {
                Some("body") => &IN_BODY,
                Some("path") => &IN_PATH,
                _ => &IN_QUERY,
            };
            write(number, form, value, out);
        }
        FieldEncoding::ParameterOrReference => {
            let form = match value.get("$ref") {
                Some(_) => &REFERRED,
                None => &IN_PLACE,
            };
            write(number, form, value, out);
        }
    }
}

/// A value as YAML, in the message that carries any value.
fn any(value: &Value) -> Vec<u8> {
    let json = String::from_utf8(json(value, Escape::Nothing)).unwrap_or_default();
    let mut yaml = Vec::new();
    if schema::yaml::from_json(&json, &mut yaml).is_err() {
        // JSON is YAML.
        yaml = json.into_bytes();
    }
    let mut out = Vec::new();
    write_bytes(2, &yaml, &mut out);
    out
}

fn write_bytes(number: u32, bytes: &[u8], out: &mut Vec<u8>) {
    write_varint((u64::from(number) << 3) | 2, out);
    write_varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

fn write_varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use schema::{Limits, Shape};

    /// A document that uses every message, and its encoding by the library of the reference.
    #[test]
    fn protobuf_document_matches_the_reference() {
        let json = include_bytes!("../../tests/reference/small.json");
        let expected: String =
            include_str!("../../tests/reference/small.pb.base64").split_whitespace().collect();
        let decoded = schema::json::decode_shape(&Shape::Any, json, &Limits::default()).expect("JSON");
        assert_eq!(STANDARD.encode(encode(&decoded.value)), expected);
    }

    #[test]
    fn value_that_is_no_document_encodes_to_nothing() {
        assert!(encode(&Value::Null).is_empty());
    }
}
