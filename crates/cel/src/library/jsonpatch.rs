//! `jsonpatch.escapeKey`, for expressions that make a JSON patch.

use super::support::{function, overload, str, string};
use crate::{Function, Type};
use object::json_pointer;

/// The functions of the library.
pub(crate) fn functions() -> Vec<Function> {
    vec![function(
        "jsonpatch.escapeKey",
        [overload("string_jsonpatch_escapeKey_string", [Type::String], Type::String, |args| {
            Ok(string(&*json_pointer::escape(str(args, 0)?)))
        })],
    )]
}
