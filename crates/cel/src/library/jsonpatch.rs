//! What expressions that make a JSON patch have: `jsonpatch.escapeKey`, and the type `JSONPatch` of an
//! operation of a patch.

use super::support::{function, overload, str, string};
use crate::value::{Struct, Value};
use crate::{Failure, Function, Outcome, Type, TypeProvider};
use object::json_pointer;
use std::sync::Arc;

/// The name of the type of an operation.
pub const JSON_PATCH: &str = "JSONPatch";

/// The functions of the library.
pub(crate) fn functions() -> Vec<Function> {
    vec![function(
        "jsonpatch.escapeKey",
        [overload("string_jsonpatch_escapeKey_string", [Type::String], Type::String, |args| {
            Ok(string(&*json_pointer::escape(str(args, 0)?)))
        })],
    )]
}

/// The type `JSONPatch`, with the fields `op`, `path`, `from` and `value`.
///
/// An operation is a [`Struct`]. A text that is empty is left out, which is the same as one that is not
/// given.
#[derive(Debug)]
pub struct JsonPatchTypes;

impl TypeProvider for JsonPatchTypes {
    fn find(&self, name: &str) -> Option<Type> {
        (name == JSON_PATCH).then(|| Type::object(JSON_PATCH))
    }

    fn field(&self, name: &str, field: &str) -> Option<Type> {
        match field {
            "op" | "path" | "from" if name == JSON_PATCH => Some(Type::String),
            "value" if name == JSON_PATCH => Some(Type::Dyn),
            _ => None,
        }
    }

    fn construct<'a>(&self, name: &str, fields: Vec<(Arc<str>, Value<'a>)>) -> Option<Outcome<'a>> {
        (name == JSON_PATCH).then(|| construct(fields))
    }
}

fn construct<'a>(fields: Vec<(Arc<str>, Value<'a>)>) -> Outcome<'a> {
    let mut kept = Vec::with_capacity(fields.len());
    for (name, value) in fields {
        match (&*name, &value) {
            ("value", _) => kept.push((name, value)),
            ("op" | "path" | "from", Value::String(text)) => {
                if !text.as_str().is_empty() {
                    kept.push((name, value));
                }
            }
            ("op" | "path" | "from", value) => {
                let found = value.native_name();
                let why = format!("unexpected type {found} for JSONPatchType '{name}' field");
                return Err(Failure::error(why));
            }
            _ => return Err(Failure::error(format!("unexpected JSONPatchType field: {name}"))),
        }
    }
    Ok(Value::Struct(Arc::new(Struct { name: JSON_PATCH.into(), fields: kept })))
}
