//! Protobuf encoding.

use super::wire::{Wire, Writer};
use super::{Envelope, PREFIX};
use crate::model::{Alternative, Field, MessageField, Shape, Type};
use crate::scalar;
use crate::slots::FieldSlots;
use object::{Map, Value};

/// Writes an object in its envelope; kind and API version come from the object, or else from its type.
pub fn encode(ty: &Type, value: &Value, out: &mut Vec<u8>) {
    let text = |key| value.get(key).and_then(Value::as_str);
    let own = ty.kind.as_ref().map(|kind| (kind.api_version(), kind.kind.clone())).unwrap_or_default();
    let envelope = Envelope {
        api_version: text("apiVersion").unwrap_or(&own.0),
        kind: text("kind").unwrap_or(&own.1),
        ..Envelope::default()
    };
    let mut writer = Writer::with_capacity(4096);
    writer.bytes_field(4, envelope.content_type.as_bytes());
    writer.bytes_field(3, envelope.content_encoding.as_bytes());
    let before = writer.len();
    write_message(ty, value, &mut writer);
    writer.close(2, before);
    let before = writer.len();
    writer.bytes_field(2, envelope.kind.as_bytes());
    writer.bytes_field(1, envelope.api_version.as_bytes());
    writer.close(1, before);
    writer.bytes(&PREFIX);
    out.extend_from_slice(writer.written());
}

/// Writes the message of a value, without an envelope.
pub fn encode_message(ty: &Type, value: &Value, out: &mut Vec<u8>) {
    let mut writer = Writer::with_capacity(4096);
    write_message(ty, value, &mut writer);
    out.extend_from_slice(writer.written());
}

static EMPTY: Map = Map::new();

fn write_message(ty: &Type, value: &Value, writer: &mut Writer) {
    write_struct(ty, value.as_map().unwrap_or(&EMPTY), writer);
}

fn write_struct(ty: &Type, map: &Map, writer: &mut Writer) {
    let slots = FieldSlots::of(ty, map);
    write_fields(ty, &ty.wire, &slots, writer);
}

fn write_fields(ty: &Type, fields: &[MessageField], slots: &FieldSlots<'_>, writer: &mut Writer) {
    for field in fields.iter().rev() {
        match field {
            MessageField::Field { index, .. } => {
                let at = usize::from(*index);
                let Some(field) = ty.fields.get(at) else { continue };
                match slots.value(at, field).filter(|value| !field.drops(value)) {
                    Some(value) if field.boxed => write_one(field.number, &field.shape, value, writer),
                    Some(value) => write_field(field.number, &field.shape, value, writer),
                    None if field.optional => {}
                    None => write_absent(field, writer),
                }
            }
            MessageField::Inline { number, fields } => {
                let before = writer.len();
                write_fields(ty, fields, slots, writer);
                writer.close(*number, before);
            }
        }
    }
}

fn write_field(number: u32, shape: &Shape, value: &Value, writer: &mut Writer) {
    match (shape, value) {
        (Shape::List(shape), Value::List(list)) => {
            for value in list.iter().rev() {
                write_one(number, shape, value, writer);
            }
        }
        (Shape::Map(shape), Value::Map(map)) => {
            let entries = map.entries();
            let mut write = |entry: &(object::Key, Value)| {
                let before = writer.len();
                write_one(2, shape, &entry.1, writer);
                writer.bytes_field(1, entry.0.as_bytes());
                writer.close(number, before);
            };
            if entries.is_sorted_by(|a, b| a.0 <= b.0) {
                entries.iter().rev().for_each(&mut write);
            } else {
                let mut sorted: Vec<_> = entries.iter().collect();
                sorted.sort_by(|a, b| a.0.cmp(&b.0));
                sorted.into_iter().rev().for_each(&mut write);
            }
        }
        _ => write_one(number, shape, value, writer),
    }
}

/// One value with its tag.
fn write_one(number: u32, shape: &Shape, value: &Value, writer: &mut Writer) {
    match (shape, value) {
        (Shape::String, Value::String(text)) => writer.bytes_field(number, text.as_bytes()),
        (Shape::Bool, _) => writer.varint_field(number, value.as_bool().unwrap_or(false).into()),
        (Shape::Int32 | Shape::Int64, _) => writer.varint_field(number, value.as_i64().unwrap_or(0) as u64),
        (Shape::Float64, _) => {
            writer.bytes(&value.as_f64().unwrap_or(0.0).to_le_bytes());
            writer.tag(number, Wire::Fixed64);
        }
        (Shape::Bytes, _) => writer.bytes_field(number, value.as_bytes().unwrap_or_default()),
        _ => {
            let before = writer.len();
            write_nested(shape, value, writer);
            writer.close(number, before);
        }
    }
}

/// The content of a nested message.
fn write_nested(shape: &Shape, value: &Value, writer: &mut Writer) {
    match (shape, value) {
        (Shape::Struct(ty), _) => write_message(ty, value, writer),
        // A list within a map is a message of its own.
        (Shape::List(shape), Value::List(list)) => {
            for value in list.iter().rev() {
                write_one(1, shape, value, writer);
            }
        }
        (Shape::Time | Shape::MicroTime, Value::String(text)) => {
            let time = scalar::unix(shape, text);
            writer.varint_field(2, i64::from(time.nanos) as u64);
            writer.varint_field(1, time.seconds as u64);
        }
        (Shape::Duration, Value::String(text)) => writer.varint_field(1, scalar::nanoseconds(text) as u64),
        (Shape::Duration, _) => writer.varint_field(1, 0),
        (Shape::Quantity, _) => writer.bytes_field(1, value.as_str().unwrap_or("0").as_bytes()),
        (Shape::IntOrString, _) => {
            let text = value.as_str();
            writer.bytes_field(3, text.unwrap_or_default().as_bytes());
            writer.varint_field(2, value.as_i64().unwrap_or(0) as u64);
            writer.varint_field(1, text.is_some().into());
        }
        (Shape::Raw(_), Value::Raw(raw)) => writer.bytes_field(1, raw.as_str().as_bytes()),
        (Shape::SchemaOr(alternative, ty), _) => write_schema_or(*alternative, ty, value, writer),
        _ => {}
    }
}

fn write_schema_or(alternative: Alternative, ty: &Type, value: &Value, writer: &mut Writer) {
    let schema = |number: u32, value: &Value, writer: &mut Writer| {
        let before = writer.len();
        write_message(ty, value, writer);
        writer.close(number, before);
    };
    match (alternative, value) {
        (Alternative::Bool, Value::Map(_)) => {
            schema(2, value, writer);
            writer.varint_field(1, 1);
        }
        (Alternative::Bool, _) => writer.varint_field(1, value.as_bool().unwrap_or(false).into()),
        (_, Value::Map(_)) => schema(1, value, writer),
        (Alternative::Schemas, Value::List(list)) => {
            list.iter().rev().for_each(|value| schema(2, value, writer))
        }
        (Alternative::Strings, Value::List(list)) => {
            for text in list.iter().rev().filter_map(Value::as_str) {
                writer.bytes_field(2, text.as_bytes());
            }
        }
        _ => {}
    }
}

/// Writes an absent field: nothing for a list, a map and bytes, otherwise the empty value.
fn write_absent(field: &Field, writer: &mut Writer) {
    match &field.shape {
        Shape::List(_) | Shape::Map(_) | Shape::Bytes | Shape::Any => {}
        Shape::String => writer.bytes_field(field.number, &[]),
        shape => write_one(field.number, shape, &Value::Null, writer),
    }
}
