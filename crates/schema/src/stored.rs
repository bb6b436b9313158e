//! Built-in objects, decoded from the bytes of a store.

use crate::{Error, Limits, Ref, Type, json};
use object::{Map, Value};
use std::fmt::Debug;

/// Decodes an object.
pub fn decode(ty: &'static Type, bytes: &[u8]) -> Result<Map, Error> {
    Ok(map(json::decode(ty, bytes, &Limits::STORED)?.value))
}

/// Decodes the fields of an object that a [part](crate::Part) of its type has.
pub fn decode_part(ty: &Ref<Type>, bytes: &[u8]) -> Result<Map, Error> {
    Ok(map(json::decode_part(ty.clone(), bytes, &Limits::STORED)?))
}

/// The map of an object: the value of a type with fields is always one.
fn map(object: Value) -> Map {
    object.as_map().cloned().unwrap_or_default()
}

/// The decoded object. An object that cannot be decoded is logged and counts as absent.
pub fn logged<T>(entry: &impl Debug, decoded: Result<T, Error>) -> Option<T> {
    decoded
        .inspect_err(|error| {
            log::error!(object:% = format_args!("{entry:?}"), error:%; "an object that decides about requests cannot be decoded and counts as absent");
        })
        .ok()
}
