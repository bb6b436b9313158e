//! The standard library: operators, conversions, functions of texts and times, with cel-go's names of
//! overloads.

mod conversions;
mod times;

use super::support::{function, planned};
use crate::{Function, Type};

/// The functions of the standard library and the operators.
pub(crate) fn functions() -> Vec<Function> {
    let mut functions = logic();
    functions.extend(arithmetic());
    functions.extend(["less", "less_equals", "greater", "greater_equals"].map(comparison));
    functions.extend(collections());
    functions.extend(conversions::functions());
    functions.extend(texts());
    functions.extend(times::functions());
    functions
}

fn a() -> Type {
    Type::param("A")
}

fn list() -> Type {
    Type::list(a())
}

fn map() -> Type {
    Type::map(a(), Type::param("B"))
}

fn logic() -> Vec<Function> {
    use Type::Bool;
    vec![
        function("_?_:_", [planned("conditional", [Bool, a(), a()], a())]),
        function("_&&_", [planned("logical_and", [Bool, Bool], Bool)]),
        function("_||_", [planned("logical_or", [Bool, Bool], Bool)]),
        function("!_", [planned("logical_not", [Bool], Bool)]),
        function("@not_strictly_false", [planned("not_strictly_false", [Bool], Bool)]),
        function("_==_", [planned("equals", [a(), a()], Bool)]),
        function("_!=_", [planned("not_equals", [a(), a()], Bool)]),
    ]
}

fn arithmetic() -> Vec<Function> {
    use Type::{Bytes, Double, Duration, Int, String, Timestamp, Uint};
    let same = |id, ty: Type| planned(id, [ty.clone(), ty.clone()], ty);
    vec![
        function(
            "_+_",
            [
                same("add_bytes", Bytes),
                same("add_double", Double),
                same("add_duration_duration", Duration),
                planned("add_duration_timestamp", [Duration, Timestamp], Timestamp),
                planned("add_timestamp_duration", [Timestamp, Duration], Timestamp),
                same("add_int64", Int),
                same("add_list", list()),
                same("add_string", String),
                same("add_uint64", Uint),
            ],
        ),
        function(
            "_/_",
            [same("divide_double", Double), same("divide_int64", Int), same("divide_uint64", Uint)],
        ),
        function("_%_", [same("modulo_int64", Int), same("modulo_uint64", Uint)]),
        function(
            "_*_",
            [same("multiply_double", Double), same("multiply_int64", Int), same("multiply_uint64", Uint)],
        ),
        function("-_", [planned("negate_double", [Double], Double), planned("negate_int64", [Int], Int)]),
        function(
            "_-_",
            [
                same("subtract_double", Double),
                same("subtract_duration_duration", Duration),
                same("subtract_int64", Int),
                planned("subtract_timestamp_duration", [Timestamp, Duration], Timestamp),
                planned("subtract_timestamp_timestamp", [Timestamp, Timestamp], Duration),
                same("subtract_uint64", Uint),
            ],
        ),
    ]
}

/// The overloads of a comparison: what their names end with, and their types.
const COMPARED: [(&str, Type, Type); 14] = [
    ("bool", Type::Bool, Type::Bool),
    ("int64", Type::Int, Type::Int),
    ("int64_double", Type::Int, Type::Double),
    ("int64_uint64", Type::Int, Type::Uint),
    ("uint64", Type::Uint, Type::Uint),
    ("uint64_double", Type::Uint, Type::Double),
    ("uint64_int64", Type::Uint, Type::Int),
    ("double", Type::Double, Type::Double),
    ("double_int64", Type::Double, Type::Int),
    ("double_uint64", Type::Double, Type::Uint),
    ("string", Type::String, Type::String),
    ("bytes", Type::Bytes, Type::Bytes),
    ("timestamp", Type::Timestamp, Type::Timestamp),
    ("duration", Type::Duration, Type::Duration),
];

/// The ids of the overloads of a comparison.
macro_rules! ids {
    ($name:literal) => {
        [
            concat!($name, "_bool"),
            concat!($name, "_int64"),
            concat!($name, "_int64_double"),
            concat!($name, "_int64_uint64"),
            concat!($name, "_uint64"),
            concat!($name, "_uint64_double"),
            concat!($name, "_uint64_int64"),
            concat!($name, "_double"),
            concat!($name, "_double_int64"),
            concat!($name, "_double_uint64"),
            concat!($name, "_string"),
            concat!($name, "_bytes"),
            concat!($name, "_timestamp"),
            concat!($name, "_duration"),
        ]
    };
}

fn comparison(name: &str) -> Function {
    let (operator, ids) = match name {
        "less" => ("_<_", ids!("less")),
        "less_equals" => ("_<=_", ids!("less_equals")),
        "greater" => ("_>_", ids!("greater")),
        _ => ("_>=_", ids!("greater_equals")),
    };
    let overloads = ids.into_iter().zip(COMPARED);
    function(operator, overloads.map(|(id, (_, left, right))| planned(id, [left, right], Type::Bool)))
}

fn collections() -> Vec<Function> {
    use Type::{Bool, Bytes, Int, String};
    let size =
        |global, inst, ty: Type| [planned(global, [ty.clone()], Int), planned(inst, [ty], Int).on_target()];
    let sizes = [
        size("size_bytes", "bytes_size", Bytes),
        size("size_list", "list_size", list()),
        size("size_map", "map_size", map()),
        size("size_string", "string_size", String),
    ];
    vec![
        function(
            "_[_]",
            [planned("index_list", [list(), Int], a()), planned("index_map", [map(), a()], Type::param("B"))],
        ),
        function("@in", [planned("in_list", [a(), list()], Bool), planned("in_map", [a(), map()], Bool)]),
        function("size", sizes.into_iter().flatten()),
        function("type", [planned("type", [a()], Type::Type(Some(a().into())))]),
        function("dyn", [planned("to_dyn", [a()], Type::Dyn)]),
    ]
}

fn texts() -> Vec<Function> {
    use Type::{Bool, String};
    let on_text = |id| planned(id, [String, String], Bool).on_target();
    vec![
        function("contains", [on_text("contains_string")]),
        function("endsWith", [on_text("ends_with_string")]),
        function("startsWith", [on_text("starts_with_string")]),
        function("matches", [planned("matches", [String, String], Bool), on_text("matches_string")]),
    ]
}
