//! The messages of gnostic, by which OpenAPI documents are written as Protobuf: encoded from the JSON tree.
//!
//! A message is a table of its fields by ascending number. Keys that start with `x-` are extensions: their
//! values are YAML text, with the quoting of YAML 1.1 (`"y"`); the library of the reference quotes as YAML
//! 1.2.

use crate::tree::{Escape, json};
use object::{Map, Value};

/// A message: its fields, and the number of the field for extensions.
pub(crate) struct GnosticMessage {
    pub(crate) fields: &'static [GnosticField],
    pub(crate) extensions: u32,
}

/// The key in JSON, the field number, and the encoding.
pub(crate) struct GnosticField(pub(crate) &'static str, pub(crate) u32, pub(crate) FieldEncoding);

/// The encoding of a field.
pub(crate) enum FieldEncoding {
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
    /// A choice in a message: written also if it is false, zero or empty.
    OneOf(&'static FieldEncoding),
    /// The encoding that the value asks for.
    By(fn(&Value) -> &'static FieldEncoding),
}

/// Encodes a map as a message.
pub(crate) fn message(message: &GnosticMessage, map: &Map) -> Vec<u8> {
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

/// Writes a field.
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
        FieldEncoding::OneOf(form) => match (value, form) {
            (Value::String(text), FieldEncoding::Text) => write_bytes(number, text.as_bytes(), out),
            (Value::Bool(truth), FieldEncoding::Bool) => {
                write_varint(u64::from(number) << 3, out);
                out.push(u8::from(*truth));
            }
            (Value::Int(_) | Value::Float(_), FieldEncoding::Double) => {
                write_varint((u64::from(number) << 3) | 1, out);
                out.extend_from_slice(&value.as_f64().unwrap_or_default().to_le_bytes());
            }
            _ => write(number, form, value, out),
        },
        FieldEncoding::By(form) => write(number, form(value), value, out),
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

/// Writes a field of bytes.
fn write_bytes(number: u32, bytes: &[u8], out: &mut Vec<u8>) {
    write_varint((u64::from(number) << 3) | 2, out);
    write_varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

/// Writes a number.
pub(crate) fn write_varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Writes an entry of a map: a message with its name and its value.
pub(crate) fn write_entry(number: u32, form: &FieldEncoding, key: &str, value: &Value, out: &mut Vec<u8>) {
    let mut entry = Vec::new();
    write_bytes(1, key.as_bytes(), &mut entry);
    write(2, form, value, &mut entry);
    write_bytes(number, &entry, out);
}
