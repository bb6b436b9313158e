//! Documents as Protobuf: the message `openapi.v3.Document` of gnostic.

use crate::gnostic::{FieldEncoding, GnosticField, GnosticMessage, message};
use FieldEncoding::{Anys, Bool, By, Double, Each, Integer, Named, OneOf, Text, Texts, Within};
use object::Value;

/// Encodes a document.
pub(super) fn encode(document: &Value) -> Vec<u8> {
    document.as_map().map(|document| message(&DOCUMENT, document)).unwrap_or_default()
}

static DOCUMENT: GnosticMessage = GnosticMessage {
    fields: &[
        GnosticField("openapi", 1, Text),
        GnosticField("info", 2, FieldEncoding::GnosticMessage(&INFO)),
        GnosticField("paths", 4, Named(1, &FieldEncoding::GnosticMessage(&PATH_ITEM))),
        GnosticField("components", 5, FieldEncoding::GnosticMessage(&COMPONENTS)),
    ],
    extensions: 9,
};

static INFO: GnosticMessage = GnosticMessage {
    fields: &[GnosticField("title", 1, Text), GnosticField("version", 6, Text)],
    extensions: 7,
};

static COMPONENTS: GnosticMessage = GnosticMessage {
    fields: &[
        GnosticField("schemas", 1, Named(1, &By(schema_or_reference))),
        GnosticField(
            "securitySchemes",
            7,
            Named(1, &Within(1, &FieldEncoding::GnosticMessage(&SECURITY_SCHEME))),
        ),
    ],
    extensions: 10,
};

static SECURITY_SCHEME: GnosticMessage = GnosticMessage {
    fields: &[
        GnosticField("type", 1, Text),
        GnosticField("description", 2, Text),
        GnosticField("name", 3, Text),
        GnosticField("in", 4, Text),
    ],
    extensions: 9,
};

static PATH_ITEM: GnosticMessage = GnosticMessage {
    fields: &[
        GnosticField("get", 4, FieldEncoding::GnosticMessage(&OPERATION)),
        GnosticField("put", 5, FieldEncoding::GnosticMessage(&OPERATION)),
        GnosticField("post", 6, FieldEncoding::GnosticMessage(&OPERATION)),
        GnosticField("delete", 7, FieldEncoding::GnosticMessage(&OPERATION)),
        GnosticField("options", 8, FieldEncoding::GnosticMessage(&OPERATION)),
        GnosticField("head", 9, FieldEncoding::GnosticMessage(&OPERATION)),
        GnosticField("patch", 10, FieldEncoding::GnosticMessage(&OPERATION)),
        GnosticField("parameters", 13, PARAMETERS),
    ],
    extensions: 14,
};

static OPERATION: GnosticMessage = GnosticMessage {
    fields: &[
        GnosticField("tags", 1, Texts),
        GnosticField("description", 3, Text),
        GnosticField("operationId", 5, Text),
        GnosticField("parameters", 6, PARAMETERS),
        GnosticField("requestBody", 7, Within(1, &FieldEncoding::GnosticMessage(&REQUEST_BODY))),
        GnosticField("responses", 8, Named(2, &Within(1, &FieldEncoding::GnosticMessage(&RESPONSE)))),
        GnosticField("deprecated", 10, Bool),
    ],
    extensions: 13,
};

const PARAMETERS: FieldEncoding = Each(&Within(1, &FieldEncoding::GnosticMessage(&PARAMETER)));

static PARAMETER: GnosticMessage = GnosticMessage {
    fields: &[
        GnosticField("name", 1, Text),
        GnosticField("in", 2, Text),
        GnosticField("description", 3, Text),
        GnosticField("required", 4, Bool),
        GnosticField("schema", 10, By(schema_or_reference)),
    ],
    extensions: 14,
};

static REQUEST_BODY: GnosticMessage = GnosticMessage {
    fields: &[GnosticField("content", 2, CONTENT), GnosticField("required", 3, Bool)],
    extensions: 4,
};

static RESPONSE: GnosticMessage = GnosticMessage {
    fields: &[GnosticField("description", 1, Text), GnosticField("content", 3, CONTENT)],
    extensions: 5,
};

const CONTENT: FieldEncoding = Named(1, &FieldEncoding::GnosticMessage(&MEDIA_TYPE));

static MEDIA_TYPE: GnosticMessage =
    GnosticMessage { fields: &[GnosticField("schema", 1, By(schema_or_reference))], extensions: 5 };

static REFERENCE: GnosticMessage = GnosticMessage {
    fields: &[
        GnosticField("$ref", 1, Text),
        GnosticField("summary", 2, Text),
        GnosticField("description", 3, Text),
    ],
    extensions: 0,
};

static SCHEMA: GnosticMessage = GnosticMessage {
    fields: &[
        GnosticField("nullable", 1, Bool),
        GnosticField("readOnly", 3, Bool),
        GnosticField("writeOnly", 4, Bool),
        GnosticField("deprecated", 8, Bool),
        GnosticField("title", 9, Text),
        GnosticField("multipleOf", 10, Double),
        GnosticField("maximum", 11, Double),
        GnosticField("exclusiveMaximum", 12, Bool),
        GnosticField("minimum", 13, Double),
        GnosticField("exclusiveMinimum", 14, Bool),
        GnosticField("maxLength", 15, Integer),
        GnosticField("minLength", 16, Integer),
        GnosticField("pattern", 17, Text),
        GnosticField("maxItems", 18, Integer),
        GnosticField("minItems", 19, Integer),
        GnosticField("uniqueItems", 20, Bool),
        GnosticField("maxProperties", 21, Integer),
        GnosticField("minProperties", 22, Integer),
        GnosticField("required", 23, Texts),
        GnosticField("enum", 24, Anys),
        GnosticField("type", 25, Text),
        GnosticField("allOf", 26, Each(&By(schema_or_reference))),
        GnosticField("oneOf", 27, Each(&By(schema_or_reference))),
        GnosticField("anyOf", 28, Each(&By(schema_or_reference))),
        GnosticField("not", 29, FieldEncoding::GnosticMessage(&SCHEMA)),
        GnosticField("items", 30, Within(1, &By(schema_or_reference))),
        GnosticField("properties", 31, Named(1, &By(schema_or_reference))),
        GnosticField("additionalProperties", 32, By(schema_or_bool)),
        GnosticField("default", 33, By(default_value)),
        GnosticField("description", 34, Text),
        GnosticField("format", 35, Text),
    ],
    extensions: 36,
};

static SCHEMA_WITHIN: FieldEncoding = Within(1, &FieldEncoding::GnosticMessage(&SCHEMA));
static REFERRED: FieldEncoding = Within(2, &FieldEncoding::GnosticMessage(&REFERENCE));
static SCHEMA_ITEM: FieldEncoding = Within(1, &By(schema_or_reference));
static BOOL_ITEM: FieldEncoding = Within(2, &OneOf(&Bool));
static NUMBER_DEFAULT: FieldEncoding = Within(1, &OneOf(&Double));
static TEXT_DEFAULT: FieldEncoding = Within(3, &OneOf(&Text));

/// A schema, or a reference to one.
fn schema_or_reference(value: &Value) -> &'static FieldEncoding {
    match value.get("$ref") {
        Some(_) => &REFERRED,
        None => &SCHEMA_WITHIN,
    }
}

/// A schema, a reference to one, or a boolean.
fn schema_or_bool(value: &Value) -> &'static FieldEncoding {
    match value {
        Value::Bool(_) => &BOOL_ITEM,
        _ => &SCHEMA_ITEM,
    }
}

/// A default. The message has no place for one that has parts: it is empty then.
fn default_value(value: &Value) -> &'static FieldEncoding {
    match value {
        Value::Bool(_) => &BOOL_ITEM,
        Value::Int(_) | Value::Float(_) => &NUMBER_DEFAULT,
        _ => &TEXT_DEFAULT,
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
        let json = include_bytes!("../../tests/reference/small-v3.json");
        let expected: String =
            include_str!("../../tests/reference/small-v3.pb.base64").split_whitespace().collect();
        let decoded = schema::json::decode_shape(&Shape::Any, json, &Limits::default()).expect("JSON");
        assert_eq!(STANDARD.encode(encode(&decoded.value)), expected);
    }
}
