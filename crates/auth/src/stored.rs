//! Objects that decide about access, read from their stored bytes.

use cache::Entry;
use object::{Map, Value};
use schema::{Error, Limits, Ref, Type, json};

/// An object.
pub(crate) fn decode(ty: &'static Type, entry: &Entry) -> Result<Map, Error> {
    Ok(map(json::decode(ty, entry.bytes(), &Limits::STORED)?.value))
}

/// A part of an object.
pub(crate) fn decode_part(ty: &Ref<Type>, entry: &Entry) -> Result<Map, Error> {
    Ok(map(json::decode_part(ty.clone(), entry.bytes(), &Limits::STORED)?))
}

/// An object of a type is a map.
fn map(object: Value) -> Map {
    object.as_map().cloned().unwrap_or_default()
}

/// What was read of an object. One that cannot be decoded counts as absent.
pub(crate) fn logged<T>(entry: &Entry, read: Result<T, Error>) -> Option<T> {
    read.inspect_err(|error| {
        log::error!(object:% = format_args!("{entry:?}"), error:%; "an object of access control cannot be decoded and grants nothing");
    })
    .ok()
}
