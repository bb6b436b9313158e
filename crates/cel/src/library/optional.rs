//! Optional values.

use super::support::{function, member, no_such_overload, overload, planned, some};
use crate::mutation::JSON_PATCH;
use crate::value::{Map, Value};
use crate::{Failure, Function, Outcome, Type};

/// The functions of optional values.
pub(crate) fn functions() -> Vec<Function> {
    let value = || Type::param("V");
    let key = || Type::param("K");
    let optional = || Type::optional(value());
    let list = || Type::list(value());
    let map = || Type::map(key(), value());
    vec![
        function("optional.of", [overload("optional_of", [value()], optional(), of)]),
        function(
            "optional.ofNonZeroValue",
            [overload("optional_ofNonZeroValue", [value()], optional(), of_non_zero)],
        ),
        function("optional.none", [overload("optional_none", [], optional(), |_| Ok(Value::Optional(None)))]),
        function("value", [member("optional_value", [optional()], value(), content)]),
        function("hasValue", [member("optional_hasValue", [optional()], Type::Bool, has)]),
        function("or", [planned("optional_or_optional", [optional(), optional()], optional()).on_target()]),
        function("orValue", [planned("optional_orValue_value", [optional(), value()], value()).on_target()]),
        function("_?._", [planned("select_optional_field", [Type::Dyn, Type::String], optional())]),
        function(
            "_[?_]",
            [
                planned("list_optindex_optional_int", [list(), Type::Int], optional()),
                planned(
                    "optional_list_optindex_optional_int",
                    [Type::optional(list()), Type::Int],
                    optional(),
                ),
                planned("map_optindex_optional_value", [map(), key()], optional()),
                planned("optional_map_optindex_optional_value", [Type::optional(map()), key()], optional()),
            ],
        ),
        function(
            "_[_]",
            [
                planned("optional_list_index_int", [Type::optional(list()), Type::Int], optional()),
                planned("optional_map_index_value", [Type::optional(map()), key()], optional()),
            ],
        ),
        function("last", [member("list_last", [list()], optional(), last)]),
        function("first", [member("list_first", [list()], optional(), first)]),
        function("optional.unwrap", [overload("optional_unwrap", [Type::list(optional())], list(), unwrap)]),
        function("unwrapOpt", [member("optional_unwrapOpt", [Type::list(optional())], list(), unwrap)]),
    ]
}

fn of<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    Ok(some(args.first().cloned().unwrap_or(Value::Null)))
}

fn of_non_zero<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let value = args.first().cloned().unwrap_or(Value::Null);
    Ok(if is_zero(&value) { Value::Optional(None) } else { some(value) })
}

/// Whether a value is the first of its type. Lists and maps of schemas never are, as in cel-go.
fn is_zero(value: &Value<'_>) -> bool {
    match value {
        Value::Null | Value::Optional(None) => true,
        Value::Bool(flag) => !flag,
        Value::Int(number) | Value::Duration(number) => *number == 0,
        Value::Uint(number) => *number == 0,
        Value::Double(number) => *number == 0.0,
        Value::String(text) => text.as_str().is_empty(),
        Value::Bytes(bytes) => bytes.as_slice().is_empty(),
        Value::Timestamp(time) => time.is_zero(),
        Value::List(list) => list.is_empty() && !list.is_shaped(),
        Value::Map(Map::Tree(map, None)) => map.is_empty(),
        Value::Map(Map::Entries(entries)) => entries.is_empty(),
        Value::Struct(made) => made.fields.is_empty() && *made.name != *JSON_PATCH,
        _ => false,
    }
}

fn content<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    match args {
        [Value::Optional(Some(value))] => Ok(Value::clone(value)),
        _ => Err(Failure::error("optional.none() dereference")),
    }
}

fn has<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Bool(matches!(args, [Value::Optional(Some(_))])))
}

fn first<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    at(args, |_| 0)
}

fn last<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    at(args, |length| length.saturating_sub(1))
}

fn at<'a>(args: &[Value<'a>], place: fn(usize) -> usize) -> Outcome<'a> {
    let [Value::List(list)] = args else { return Err(no_such_overload()) };
    match list.get(place(list.len())) {
        Some(element) => element.map(some),
        None => Ok(Value::Optional(None)),
    }
}

fn unwrap<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let [Value::List(list)] = args else { return Err(no_such_overload()) };
    let mut elements = Vec::new();
    for element in list.iter() {
        match element? {
            Value::Optional(value) => elements.extend(value.map(|value| Value::clone(&value))),
            other => return Err(Failure::error(format!("value {other} is not optional"))),
        }
    }
    Ok(Value::List(crate::value::List::of(elements)))
}
