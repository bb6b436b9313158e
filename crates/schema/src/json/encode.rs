//! JSON encoding: fields in the order of the type, map keys sorted, absent fields omitted or written as null
//! or empty as in the reference.

use super::escape::{write_markup_escaped, write_string};
use crate::model::{Field, Shape, Type};
use crate::slots::FieldSlots;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use object::{Key, Map, Value, float};

/// Writes an object of a type.
pub fn encode(ty: &Type, value: &Value, out: &mut Vec<u8>) {
    match value.as_map() {
        Some(map) => write_struct(ty, map, out),
        None => write_any(value, out),
    }
}

/// Writes a value of any shape.
#[inline]
pub fn encode_shape(shape: &Shape, value: &Value, out: &mut Vec<u8>) {
    // Only structs, lists and maps need the shape.
    match value {
        Value::String(text) => write_string(text, out),
        Value::Map(map) => write_map_shape(shape, map, out),
        Value::List(list) => write_list_shape(shape, list, out),
        _ => write_any(value, out),
    }
}

fn write_map_shape(shape: &Shape, map: &Map, out: &mut Vec<u8>) {
    match shape {
        Shape::Struct(ty) | Shape::SchemaOr(_, ty) => write_struct(ty, map, out),
        Shape::Map(shape) => write_map(map, out, |value, out| encode_shape(shape, value, out)),
        _ => write_map(map, out, write_any),
    }
}

fn write_list_shape(shape: &Shape, list: &[Value], out: &mut Vec<u8>) {
    match shape {
        Shape::List(shape) => write_list(list, out, |value, out| encode_shape(shape, value, out)),
        Shape::SchemaOr(_, ty) => write_list(list, out, |value, out| encode(ty, value, out)),
        _ => write_list(list, out, write_any),
    }
}

/// Writes a struct: in one pass if the entries are in the order of the type, otherwise by lookups.
fn write_struct(ty: &Type, map: &Map, out: &mut Vec<u8>) {
    let start = out.len();
    if !write_ordered(ty, map, out) {
        out.truncate(start);
        write_unordered(ty, map, out);
    }
}

/// Walks fields and entries side by side; false if an entry is out of order. The order is checked before a
/// nested value is written: otherwise nested values would be written twice, and those within them four times.
fn write_ordered(ty: &Type, map: &Map, out: &mut Vec<u8>) -> bool {
    let fields: &[Field] = &ty.fields;
    let mut first = true;
    let mut next = 0;
    let mut always: &[u16] = &ty.always;
    let mut is_ordered = false;
    let mut rest = map.entries();
    while let [(key, value), after @ ..] = rest {
        rest = after;
        let Some(at) = ty.position_from(next, key) else { return false };
        if !is_ordered && matches!(value, Value::Map(_) | Value::List(_)) {
            is_ordered = are_ordered(ty, at + 1, after);
            if !is_ordered {
                return false;
            }
        }
        while let [absent, rest @ ..] = always
            && usize::from(*absent) <= at
        {
            always = rest;
            if usize::from(*absent) < at {
                write_absent_at(fields, *absent, &mut first, out);
            }
        }
        let Some(field) = fields.get(at) else { return false };
        write_field(field, value, &mut first, out);
        next = at + 1;
    }
    for absent in always {
        write_absent_at(fields, *absent, &mut first, out);
    }
    close(first, out);
    true
}

/// Whether entries are in the order of the type, and its fields from `next` on.
fn are_ordered(ty: &Type, mut next: usize, entries: &[(Key, Value)]) -> bool {
    entries.iter().all(|(key, _)| {
        let at = ty.position_from(next, key);
        next = at.map_or(next, |at| at + 1);
        at.is_some()
    })
}

/// Looks up every field. If the type preserves unknown fields, they follow, sorted.
fn write_unordered(ty: &Type, map: &Map, out: &mut Vec<u8>) {
    let mut first = true;
    let slots = FieldSlots::of(ty, map);
    for (at, field) in ty.fields.iter().enumerate() {
        match slots.value(at, field) {
            Some(value) => write_field(field, value, &mut first, out),
            None if field.always => write_absent(field, &mut first, out),
            None => {}
        }
    }
    if ty.preserve_unknown_fields {
        let mut others: Vec<_> = map.iter().filter(|(key, _)| ty.position(key).is_none()).collect();
        others.sort_by_key(|(key, _)| *key);
        for (key, value) in others {
            write_key(key, &mut first, out);
            write_any(value, out);
        }
    }
    close(first, out);
}

fn close(empty: bool, out: &mut Vec<u8>) {
    out.extend_from_slice(if empty { b"{}" } else { b"}" });
}

/// The name of a field, after `{` or a comma.
#[inline]
fn write_name(field: &Field, first: &mut bool, out: &mut Vec<u8>) {
    let start = out.len();
    let (name, length) = (field.quoted.as_bytes(), field.quoted_length);
    match name.first_chunk::<{ Field::PADDED }>() {
        Some(padded) if length <= padded.len() => {
            out.extend_from_slice(padded);
            out.truncate(start + length);
        }
        _ => out.extend_from_slice(name),
    }
    if std::mem::take(first)
        && let Some(comma) = out.get_mut(start)
    {
        *comma = b'{';
    }
}

/// The key of an entry, after `{` or a comma.
fn write_key(key: &Key, first: &mut bool, out: &mut Vec<u8>) {
    out.push(if std::mem::take(first) { b'{' } else { b',' });
    write_string(key, out);
    out.push(b':');
}

#[inline(always)]
fn write_field(field: &Field, value: &Value, first: &mut bool, out: &mut Vec<u8>) {
    if field.drops(value) {
        if field.always {
            write_absent(field, first, out);
        }
        return;
    }
    write_name(field, first, out);
    match value {
        Value::String(text) => write_string(text, out),
        _ => encode_shape(&field.shape, value, out),
    }
}

fn write_absent_at(fields: &[Field], at: u16, first: &mut bool, out: &mut Vec<u8>) {
    if let Some(field) = fields.get(usize::from(at)) {
        write_absent(field, first, out);
    }
}

/// Writes an absent field: as null, or as the empty value.
fn write_absent(field: &Field, first: &mut bool, out: &mut Vec<u8>) {
    write_name(field, first, out);
    if field.optional {
        out.extend_from_slice(b"null");
        return;
    }
    let text: &[u8] = match &field.shape {
        Shape::Struct(ty) => return write_struct(ty, &Map::new(), out),
        Shape::Bool => b"false",
        Shape::Int32 | Shape::Int64 | Shape::Float64 | Shape::IntOrString => b"0",
        Shape::String => b"\"\"",
        Shape::Quantity => b"\"0\"",
        Shape::Duration => b"\"0s\"",
        Shape::Time
        | Shape::MicroTime
        | Shape::Bytes
        | Shape::Raw(_)
        | Shape::Any
        | Shape::List(_)
        | Shape::Map(_)
        | Shape::SchemaOr(..) => b"null",
    };
    out.extend_from_slice(text);
}

fn write_list(list: &[Value], out: &mut Vec<u8>, mut each: impl FnMut(&Value, &mut Vec<u8>)) {
    let mut opening = b'[';
    for value in list {
        out.push(opening);
        opening = b',';
        each(value, out);
    }
    if opening == b'[' {
        out.push(b'[');
    }
    out.push(b']');
}

fn write_map(map: &Map, out: &mut Vec<u8>, mut each: impl FnMut(&Value, &mut Vec<u8>)) {
    let mut first = true;
    let mut write = |(key, value): &(Key, Value)| {
        write_key(key, &mut first, out);
        each(value, out);
    };
    let entries = map.entries();
    if entries.is_sorted_by(|a, b| a.0 <= b.0) {
        entries.iter().for_each(&mut write);
    } else {
        let mut sorted: Vec<_> = entries.iter().collect();
        sorted.sort_by(|a, b| a.0.cmp(&b.0));
        sorted.into_iter().for_each(&mut write);
    }
    close(first, out);
}

/// Writes a value without a type.
fn write_any(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Int(number) => out.extend_from_slice(itoa::Buffer::new().format(*number).as_bytes()),
        Value::Float(number) => write_float(*number, out),
        Value::String(text) => write_string(text, out),
        Value::Bytes(bytes) => {
            out.push(b'"');
            let start = out.len();
            out.resize(start + bytes.len().div_ceil(3) * 4, 0);
            if let Some(room) = out.get_mut(start..) {
                // The slice has exactly the length of the encoding.
                let _ = STANDARD.encode_slice(bytes, room);
            }
            out.push(b'"');
        }
        Value::Raw(raw) => {
            let text = raw.as_str();
            let bytes = text.as_bytes();
            if memchr::memchr3(b'<', b'>', b'&', bytes).is_some() || memchr::memchr(0xe2, bytes).is_some() {
                write_markup_escaped(text, out);
            } else {
                out.extend_from_slice(bytes);
            }
        }
        Value::List(list) => write_list(list, out, write_any),
        Value::Map(map) => write_map(map, out, write_any),
    }
}

/// Writes a number as the reference does: the shortest digits that parse to the same number, with an exponent
/// only below 1e-6 and from 1e21 on.
pub(crate) fn write_float(number: f64, out: &mut Vec<u8>) {
    let size = number.abs();
    if size != 0.0 && !(1e-6..1e21).contains(&size) {
        let float::Scientific { mantissa, exponent } = float::scientific(number);
        let sign = if exponent < 0 { '-' } else { '+' };
        out.extend_from_slice(format!("{mantissa}e{sign}{}", exponent.unsigned_abs()).as_bytes());
    } else {
        out.extend_from_slice(float::decimal(number).as_bytes());
    }
}
