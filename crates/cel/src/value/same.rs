//! Whether two values are the same to Go's `reflect.DeepEqual`, which compares what values are made of. The
//! objects that an expression makes are equal if their fields are the same.

use super::equal::{equal, tree_maps};
use super::{List, Map, Meter, Struct, Value};
use crate::Failure;
use std::sync::Arc;

/// Whether two objects are the same: their types, and what their fields are made of.
pub(super) fn structs<'a>(
    one: &Struct<'a>,
    other: &Struct<'a>,
    meter: &mut Meter<'_>,
) -> Result<bool, Failure> {
    if one.name != other.name || one.fields.len() != other.fields.len() {
        return Ok(false);
    }
    for (name, value) in &one.fields {
        meter.spend(other.fields.len())?;
        let Some((_, there)) = other.fields.iter().find(|(there, _)| there == name) else { return Ok(false) };
        if !meter.enter(|meter| same(value, there, meter))? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn same<'a>(one: &Value<'a>, other: &Value<'a>, meter: &mut Meter<'_>) -> Result<bool, Failure> {
    meter.spend(1)?;
    Ok(match (one, other) {
        (Value::Int(one), Value::Int(other)) => one == other,
        (Value::Uint(one), Value::Uint(other)) => one == other,
        (Value::Double(one), Value::Double(other)) => one == other,
        (Value::Int(_) | Value::Uint(_) | Value::Double(_), _) => false,
        (Value::Timestamp(one), Value::Timestamp(other)) => one == other && one.offset == other.offset,
        (Value::Optional(Some(one)), Value::Optional(Some(other))) => {
            return meter.enter(|meter| same(one, other, meter));
        }
        (Value::Struct(one), Value::Struct(other)) => return structs(one, other, meter),
        // Lists have functions in Go, which are never the same.
        (Value::List(List::Elements(one)), Value::List(List::Elements(other))) => Arc::ptr_eq(one, other),
        (Value::List(List::Concat(one)), Value::List(List::Concat(other))) => Arc::ptr_eq(one, other),
        (Value::List(_), _) => false,
        (Value::Map(one), Value::Map(other)) => return maps(one, other, meter),
        (Value::Opaque(one), Value::Opaque(other)) => {
            one.equals(&**other) == Some(true)
                && one.native().map(|native| native.text) == other.native().map(|native| native.text)
        }
        (Value::Fields(_) | Value::Opaque(_) | Value::Preserved(_), _) => false,
        (one, other) => return equal(one, other, meter),
    })
}

fn maps<'a>(one: &Map<'a>, other: &Map<'a>, meter: &mut Meter<'_>) -> Result<bool, Failure> {
    match (one, other) {
        (Map::Tree(one, _), Map::Tree(other, _)) => {
            if std::ptr::eq(*one, *other) {
                return Ok(true);
            }
            if one.len() != other.len() {
                return Ok(false);
            }
            meter.enter(|meter| tree_maps(one, other, meter))
        }
        (Map::Entries(one), Map::Entries(other)) => {
            if Arc::ptr_eq(one, other) {
                return Ok(true);
            }
            if one.len() != other.len() {
                return Ok(false);
            }
            for (key, value) in one.as_slice() {
                meter.spend(16)?;
                let Some(there) = other.get_exactly(key) else { return Ok(false) };
                if !meter.enter(|meter| same(value, there, meter))? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        _ => Ok(false),
    }
}
