//! The document as Protobuf: gnostic's `openapi.v2.Document`, field by field as the JSON tree has them.
//!
//! Messages are tables of their fields by rising number. Keys that start with `x-` are extensions: their values are
//! carried as YAML, with the quotation marks of YAML 1.1 (`"y"`), where the reference's library has those of 1.2.

use crate::tree::{Escape, json};
use object::{Map, Value};

/// Encodes a document.
pub(super) fn encode(document: &Value) -> Vec<u8> {
    document.as_map().map(|document| message(&DOCUMENT, document)).unwrap_or_default()
}

/// A message: its fields, and the number of the field for extensions.
struct Message {
    fields: &'static [Field],
    extensions: u32,
}

/// The key in JSON, the number, and the form.
struct Field(&'static str, u32, Form);

/// How a value is carried.
enum Form {
    Text,
    Bool,
    /// Each text of a list; a single text counts as a list of one.
    Texts,
    /// Each value of a list, as YAML in a message.
    Anys,
    Message(&'static Message),
    /// Each element of a list, in this form.
    Each(&'static Form),
    /// In a message of its own, as the field of this number.
    Within(u32, &'static Form),
    /// The entries of a map: a message with a repeated field of this number, for names and values.
    Named(u32, &'static Form),
    /// A parameter: body, query and path parameters are different messages.
    Parameter,
    /// A parameter, or a reference to one.
    ParameterOrReference,
}

static DOCUMENT: Message = Message {
    fields: &[
        Field("swagger", 1, Form::Text),
        Field("info", 2, Form::Message(&INFO)),
        Field("paths", 8, Form::Named(2, &Form::Message(&PATH_ITEM))),
        Field("definitions", 9, Form::Named(1, &Form::Message(&SCHEMA))),
        Field("parameters", 10, Form::Named(1, &Form::Parameter)),
        Field("security", 12, Form::Each(&Form::Named(1, &Form::Within(1, &Form::Texts)))),
        Field("securityDefinitions", 13, Form::Named(1, &Form::Within(2, &Form::Message(&API_KEY)))),
    ],
    extensions: 16,
};

static INFO: Message =
    Message { fields: &[Field("title", 1, Form::Text), Field("version", 2, Form::Text)], extensions: 7 };

static API_KEY: Message = Message {
    fields: &[
        Field("type", 1, Form::Text),
        Field("name", 2, Form::Text),
        Field("in", 3, Form::Text),
        Field("description", 4, Form::Text),
    ],
    extensions: 5,
};

static PATH_ITEM: Message = Message {
    fields: &[
        Field("get", 2, Form::Message(&OPERATION)),
        Field("put", 3, Form::Message(&OPERATION)),
        Field("post", 4, Form::Message(&OPERATION)),
        Field("delete", 5, Form::Message(&OPERATION)),
        Field("options", 6, Form::Message(&OPERATION)),
        Field("head", 7, Form::Message(&OPERATION)),
        Field("patch", 8, Form::Message(&OPERATION)),
        Field("parameters", 9, Form::Each(&Form::ParameterOrReference)),
    ],
    extensions: 10,
};

static OPERATION: Message = Message {
    fields: &[
        Field("tags", 1, Form::Texts),
        Field("description", 3, Form::Text),
        Field("operationId", 5, Form::Text),
        Field("produces", 6, Form::Texts),
        Field("consumes", 7, Form::Texts),
        Field("parameters", 8, Form::Each(&Form::ParameterOrReference)),
        Field("responses", 9, Form::Named(1, &Form::Within(1, &Form::Message(&RESPONSE)))),
        Field("schemes", 10, Form::Texts),
    ],
    extensions: 13,
};

static RESPONSE: Message = Message {
    fields: &[
        Field("description", 1, Form::Text),
        Field("schema", 2, Form::Within(1, &Form::Message(&SCHEMA))),
    ],
    extensions: 5,
};

static REFERENCE: Message = Message { fields: &[Field("$ref", 1, Form::Text)], extensions: 0 };

static BODY_PARAMETER: Message = Message {
    fields: &[
        Field("description", 1, Form::Text),
        Field("name", 2, Form::Text),
        Field("in", 3, Form::Text),
        Field("required", 4, Form::Bool),
        Field("schema", 5, Form::Message(&SCHEMA)),
    ],
    extensions: 6,
};

static QUERY_PARAMETER: Message = Message {
    fields: &[
        Field("required", 1, Form::Bool),
        Field("in", 2, Form::Text),
        Field("description", 3, Form::Text),
        Field("name", 4, Form::Text),
        Field("type", 6, Form::Text),
        Field("uniqueItems", 20, Form::Bool),
    ],
    extensions: 23,
};

static PATH_PARAMETER: Message = Message {
    fields: &[
        Field("required", 1, Form::Bool),
        Field("in", 2, Form::Text),
        Field("description", 3, Form::Text),
        Field("name", 4, Form::Text),
        Field("type", 5, Form::Text),
        Field("uniqueItems", 19, Form::Bool),
    ],
    extensions: 22,
};

static SCHEMA: Message = Message {
    fields: &[
        Field("$ref", 1, Form::Text),
        Field("format", 2, Form::Text),
        Field("description", 4, Form::Text),
        Field("required", 19, Form::Texts),
        Field("enum", 20, Form::Anys),
        Field("additionalProperties", 21, Form::Within(1, &Form::Message(&SCHEMA))),
        Field("type", 22, Form::Within(1, &Form::Texts)),
        Field("items", 23, Form::Within(1, &Form::Message(&SCHEMA))),
        Field("properties", 25, Form::Named(1, &Form::Message(&SCHEMA))),
    ],
    extensions: 31,
};

static IN_BODY: Form = Form::Within(1, &Form::Message(&BODY_PARAMETER));
static IN_PATH: Form = Form::Within(2, &Form::Within(4, &Form::Message(&PATH_PARAMETER)));
static IN_QUERY: Form = Form::Within(2, &Form::Within(3, &Form::Message(&QUERY_PARAMETER)));
static REFERRED: Form = Form::Within(2, &Form::Message(&REFERENCE));
static IN_PLACE: Form = Form::Within(1, &Form::Parameter);

fn message(message: &Message, map: &Map) -> Vec<u8> {
    let mut out = Vec::new();
    for Field(key, number, form) in message.fields {
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

fn write(number: u32, form: &Form, value: &Value, out: &mut Vec<u8>) {
    match form {
        Form::Text => {
            if let Some(text) = value.as_str().filter(|text| !text.is_empty()) {
                write_bytes(number, text.as_bytes(), out);
            }
        }
        Form::Bool => {
            if value.as_bool() == Some(true) {
                write_varint(u64::from(number) << 3, out);
                out.push(1);
            }
        }
        Form::Texts => {
            let one = std::slice::from_ref(value);
            for text in value.as_list().unwrap_or(one).iter().filter_map(Value::as_str) {
                write_bytes(number, text.as_bytes(), out);
            }
        }
        Form::Anys => {
            for value in value.as_list().unwrap_or_default() {
                write_bytes(number, &any(value), out);
            }
        }
        Form::Message(ty) => {
            if let Some(map) = value.as_map() {
                write_bytes(number, &message(ty, map), out);
            }
        }
        Form::Each(form) => {
            for value in value.as_list().unwrap_or_default() {
                write(number, form, value, out);
            }
        }
        Form::Within(inner, form) => {
            let mut body = Vec::new();
            write(*inner, form, value, &mut body);
            write_bytes(number, &body, out);
        }
        Form::Named(inner, form) => {
            let mut body = Vec::new();
            for (key, value) in value.as_map().into_iter().flat_map(Map::iter) {
                let mut entry = Vec::new();
                write_bytes(1, key.as_bytes(), &mut entry);
                write(2, form, value, &mut entry);
                write_bytes(*inner, &entry, &mut body);
            }
            write_bytes(number, &body, out);
        }
        Form::Parameter => {
            let form = match value.get("in").and_then(Value::as_str) {
                Some("body") => &IN_BODY,
                Some("path") => &IN_PATH,
                _ => &IN_QUERY,
            };
            write(number, form, value, out);
        }
        Form::ParameterOrReference => {
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

    /// A document with something of every message, and what the reference's library makes of it.
    #[test]
    fn a_document_is_encoded_as_the_reference_does() {
        let json = include_bytes!("../../tests/reference/small.json");
        let expected: String =
            include_str!("../../tests/reference/small.pb.base64").split_whitespace().collect();
        let decoded = schema::json::decode_shape(&Shape::Any, json, &Limits::default()).expect("JSON");
        assert_eq!(STANDARD.encode(encode(&decoded.value)), expected);
    }

    #[test]
    fn what_is_no_document_is_empty() {
        assert!(encode(&Value::Null).is_empty());
    }
}
