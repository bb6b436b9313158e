//! The document as Protobuf: the message `openapi.v2.Document` of gnostic.

use crate::gnostic::{FieldEncoding, GnosticField, GnosticMessage, message, write_entry, write_varint};
use object::Value;

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

static DOCUMENT: GnosticMessage = GnosticMessage {
    fields: &[
        GnosticField("swagger", 1, FieldEncoding::Text),
        GnosticField("info", 2, FieldEncoding::GnosticMessage(&INFO)),
        GnosticField("paths", 8, FieldEncoding::Named(2, &FieldEncoding::GnosticMessage(&PATH_ITEM))),
        GnosticField("definitions", 9, FieldEncoding::Named(1, &FieldEncoding::GnosticMessage(&SCHEMA))),
        GnosticField("parameters", 10, FieldEncoding::Named(1, &FieldEncoding::By(parameter))),
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
        GnosticField("parameters", 9, FieldEncoding::Each(&FieldEncoding::By(parameter_or_reference))),
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
        GnosticField("parameters", 8, FieldEncoding::Each(&FieldEncoding::By(parameter_or_reference))),
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
        GnosticField("additionalProperties", 21, FieldEncoding::By(schema_or_bool)),
        GnosticField("type", 22, FieldEncoding::Within(1, &FieldEncoding::Texts)),
        GnosticField("items", 23, FieldEncoding::Within(1, &FieldEncoding::GnosticMessage(&SCHEMA))),
        GnosticField("properties", 25, FieldEncoding::Named(1, &FieldEncoding::GnosticMessage(&SCHEMA))),
    ],
    extensions: 31,
};

static SCHEMA_WITHIN: FieldEncoding = FieldEncoding::Within(1, &FieldEncoding::GnosticMessage(&SCHEMA));
static BOOL_WITHIN: FieldEncoding = FieldEncoding::Within(2, &FieldEncoding::OneOf(&FieldEncoding::Bool));
static IN_BODY: FieldEncoding = FieldEncoding::Within(1, &FieldEncoding::GnosticMessage(&BODY_PARAMETER));
static IN_PATH: FieldEncoding =
    FieldEncoding::Within(2, &FieldEncoding::Within(4, &FieldEncoding::GnosticMessage(&PATH_PARAMETER)));
static IN_QUERY: FieldEncoding =
    FieldEncoding::Within(2, &FieldEncoding::Within(3, &FieldEncoding::GnosticMessage(&QUERY_PARAMETER)));
static REFERRED: FieldEncoding = FieldEncoding::Within(2, &FieldEncoding::GnosticMessage(&REFERENCE));
static IN_PLACE: FieldEncoding = FieldEncoding::Within(1, &FieldEncoding::By(parameter));

/// A schema or a boolean.
fn schema_or_bool(value: &Value) -> &'static FieldEncoding {
    match value {
        Value::Bool(_) => &BOOL_WITHIN,
        _ => &SCHEMA_WITHIN,
    }
}

/// A parameter: body, query and path parameters are different messages.
fn parameter(value: &Value) -> &'static FieldEncoding {
    match value.get("in").and_then(Value::as_str) {
        Some("body") => &IN_BODY,
        Some("path") => &IN_PATH,
        _ => &IN_QUERY,
    }
}

/// A parameter, or a reference to one.
fn parameter_or_reference(value: &Value) -> &'static FieldEncoding {
    match value.get("$ref") {
        Some(_) => &REFERRED,
        None => &IN_PLACE,
    }
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
