//! What tests of nodes share.

use object::Map;
use schema::{Limits, Ref, Type, json};

/// An object of a type, of its JSON.
pub(crate) fn map(ty: &'static Type, text: &str) -> Map {
    let value = json::decode(Ref::Static(ty), text.as_bytes(), &Limits::REQUEST).unwrap().value;
    value.as_map().unwrap().clone()
}
