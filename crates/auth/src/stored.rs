//! Objects that decide about requests, read from their stored bytes.

use cache::Entry;
use object::{Map, Value};
use schema::{Error, Limits, Ref, Type, json};

/// An object.
pub fn decode(ty: &'static Type, entry: &Entry) -> Result<Map, Error> {
    Ok(map(json::decode(ty, entry.bytes(), &Limits::STORED)?.value))
}

/// A part of an object.
pub fn decode_part(ty: &Ref<Type>, entry: &Entry) -> Result<Map, Error> {
    Ok(map(json::decode_part(ty.clone(), entry.bytes(), &Limits::STORED)?))
}

/// An object of a type is a map.
fn map(object: Value) -> Map {
    object.as_map().cloned().unwrap_or_default()
}

/// What was read of an object. One that cannot be decoded counts as absent.
pub fn logged<T>(entry: &Entry, read: Result<T, Error>) -> Option<T> {
    read.inspect_err(|error| {
        log::error!(object:% = format_args!("{entry:?}"), error:%; "an object that decides about requests cannot be decoded and counts as absent");
    })
    .ok()
}
