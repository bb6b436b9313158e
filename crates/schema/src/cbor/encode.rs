//! CBOR encoding.

use super::PREFIX;
use crate::decode::Limits;
use crate::model::{Field, Shape, Type};
use object::{Map, RawJson, Value};

/// Writes an object of a type.
pub fn encode(ty: &Type, value: &Value, out: &mut Vec<u8>) {
    out.extend_from_slice(&PREFIX);
    write_schema(ty, value, out);
}

/// Writes a value of any shape.
pub fn encode_shape(shape: &Shape, value: &Value, out: &mut Vec<u8>) {
    out.extend_from_slice(&PREFIX);
    write_value(shape, value, out);
}

const POSITIVE: u8 = 0x00;
const NEGATIVE: u8 = 0x20;
const BYTES: u8 = 0x40;
const ARRAY: u8 = 0x80;
const MAP: u8 = 0xa0;
const NULL: u8 = 0xf6;
/// The tag of binary data that is base64 in JSON.
const LATER_BASE64: u8 = 0xd6;

fn write_head(major: u8, argument: u64, out: &mut Vec<u8>) {
    let bytes = argument.to_be_bytes();
    let (info, length) = match argument {
        0..24 => (argument as u8, 0),
        24..0x100 => (24, 1),
        0x100..0x1_0000 => (25, 2),
        0x1_0000..0x1_0000_0000 => (26, 4),
        _ => (27, 8),
    };
    out.push(major | info);
    out.extend_from_slice(bytes.get(8 - length..).unwrap_or_default());
}

fn write_text(text: &str, out: &mut Vec<u8>) {
    write_head(BYTES, text.len() as u64, out);
    out.extend_from_slice(text.as_bytes());
}

fn write_value(shape: &Shape, value: &Value, out: &mut Vec<u8>) {
    match (shape, value) {
        (Shape::Struct(ty) | Shape::SchemaOr(_, ty), Value::Map(map)) => write_struct(ty, map, out),
        (Shape::Map(shape), Value::Map(map)) => {
            write_map(map, out, |value, out| write_value(shape, value, out));
        }
        (Shape::List(shape), Value::List(list)) => {
            write_list(list, out, |value, out| write_value(shape, value, out));
        }
        (Shape::SchemaOr(_, ty), Value::List(list)) => {
            write_list(list, out, |value, out| write_schema(ty, value, out));
        }
        (Shape::Float64, Value::Int(number)) => write_float(*number as f64, out),
        _ => write_any(value, out),
    }
}

/// A JSON schema, or a text as its alternative.
fn write_schema(ty: &Type, value: &Value, out: &mut Vec<u8>) {
    match value.as_map() {
        Some(map) => write_struct(ty, map, out),
        None => write_any(value, out),
    }
}

/// The value of an entry of a struct.
enum StructEntry<'v> {
    Field(&'v Field, &'v Value),
    Absent(&'v Field),
    Other(&'v Value),
}

fn write_struct(ty: &Type, map: &Map, out: &mut Vec<u8>) {
    let mut entries: Vec<(&str, StructEntry<'_>)> = Vec::with_capacity(map.len() + ty.always.len());
    let mut written = vec![false; ty.fields.len()];
    for (key, value) in map.iter() {
        let known = ty.position(key).and_then(|at| Some((ty.fields.get(at)?, written.get_mut(at)?)));
        match known {
            None => entries.push((key, StructEntry::Other(value))),
            Some((field, _)) if field.drops(value) => {}
            Some((field, written)) => {
                *written = true;
                entries.push((&field.name, StructEntry::Field(field, value)));
            }
        }
    }
    for at in ty.always.iter().map(|at| usize::from(*at)) {
        if let (Some(field), Some(false)) = (ty.fields.get(at), written.get(at)) {
            entries.push((&field.name, StructEntry::Absent(field)));
        }
    }
    write_sorted(entries, out, |entry, out| match entry {
        StructEntry::Field(field, value) => write_value(&field.shape, value, out),
        StructEntry::Absent(field) => write_absent(field, out),
        StructEntry::Other(value) => write_any(value, out),
    });
}

/// Writes an absent field.
fn write_absent(field: &Field, out: &mut Vec<u8>) {
    if field.optional {
        return out.push(NULL);
    }
    match &field.shape {
        Shape::Struct(ty) => write_struct(ty, &Map::new(), out),
        Shape::Bool => out.push(0xf4),
        Shape::Int32 | Shape::Int64 | Shape::IntOrString => out.push(POSITIVE),
        Shape::Float64 => write_float(0.0, out),
        Shape::String => write_text("", out),
        Shape::Quantity => write_text("0", out),
        Shape::Duration => write_text("0s", out),
        Shape::Time
        | Shape::MicroTime
        | Shape::Bytes
        | Shape::Raw(_)
        | Shape::Any
        | Shape::List(_)
        | Shape::Map(_)
        | Shape::SchemaOr(..) => out.push(NULL),
    }
}

/// Writes entries in the order of their encoded keys: shorter keys first, then bytewise.
fn write_sorted<T>(mut entries: Vec<(&str, T)>, out: &mut Vec<u8>, mut each: impl FnMut(T, &mut Vec<u8>)) {
    entries.sort_unstable_by(|(a, _), (b, _)| a.len().cmp(&b.len()).then_with(|| a.cmp(b)));
    write_head(MAP, entries.len() as u64, out);
    for (key, entry) in entries {
        write_text(key, out);
        each(entry, out);
    }
}

fn write_map(map: &Map, out: &mut Vec<u8>, each: impl FnMut(&Value, &mut Vec<u8>)) {
    let entries = map.iter().map(|(key, value)| (key.as_str(), value)).collect();
    write_sorted(entries, out, each);
}

fn write_list(list: &[Value], out: &mut Vec<u8>, mut each: impl FnMut(&Value, &mut Vec<u8>)) {
    write_head(ARRAY, list.len() as u64, out);
    list.iter().for_each(|value| each(value, out));
}

/// Writes a value without a type.
fn write_any(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Null => out.push(NULL),
        Value::Bool(flag) => out.push(if *flag { 0xf5 } else { 0xf4 }),
        Value::Int(number) => match u64::try_from(*number) {
            Ok(number) => write_head(POSITIVE, number, out),
            Err(_) => write_head(NEGATIVE, !*number as u64, out),
        },
        Value::Float(number) => write_float(*number, out),
        Value::String(text) => write_text(text, out),
        Value::Bytes(bytes) => {
            out.push(LATER_BASE64);
            write_head(BYTES, bytes.len() as u64, out);
            out.extend_from_slice(bytes);
        }
        Value::Raw(raw) => write_raw(raw, out),
        Value::List(list) => write_list(list, out, write_any),
        Value::Map(map) => write_map(map, out, write_any),
    }
}

/// Writes JSON text as items. A number that does not fit into 64 bits is written as text.
fn write_raw(raw: &RawJson, out: &mut Vec<u8>) {
    let limits = Limits { depth: 1000, ..Limits::STORED };
    match crate::json::decode_shape(&Shape::Any, raw.as_str().as_bytes(), &limits) {
        Ok(decoded) => write_any(&decoded.value, out),
        Err(_) => write_text(raw.as_str(), out),
    }
}

/// Writes a number in the shortest exact form.
fn write_float(number: f64, out: &mut Vec<u8>) {
    let single = number as f32;
    if f64::from(single) != number {
        out.push(0xfb);
        return out.extend_from_slice(&number.to_be_bytes());
    }
    match half(single) {
        Some(half) => {
            out.push(0xf9);
            out.extend_from_slice(&half.to_be_bytes());
        }
        None => {
            out.push(0xfa);
            out.extend_from_slice(&single.to_be_bytes());
        }
    }
}

/// A finite number in 16 bits, if they hold it exactly.
fn half(number: f32) -> Option<u16> {
    let bits = number.to_bits();
    let sign = (bits >> 16 & 0x8000) as u16;
    let exponent = (bits >> 23 & 0xff) as i32 - 127;
    let fraction = bits & 0x7f_ffff;
    match exponent {
        -127 if fraction == 0 => Some(sign),
        -14..=15 if fraction & 0x1fff == 0 => {
            Some(sign | ((exponent + 15) << 10) as u16 | (fraction >> 13) as u16)
        }
        -24..-14 => {
            let (whole, shift) = (fraction | 0x80_0000, -1 - exponent);
            (whole.trailing_zeros() as i32 >= shift).then_some(sign | (whole >> shift) as u16)
        }
        _ => None,
    }
}
