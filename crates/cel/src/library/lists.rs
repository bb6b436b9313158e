//! Functions of lists that Kubernetes adds: `isSorted`, `sum`, `min`, `max`, `indexOf`, `lastIndexOf`.
//!
//! An element that has no order with another one, such as NaN, is passed over.

use super::support::{function, list, member, metered};
use crate::value::{List, Meter, Value, equal};
use crate::{Failure, Function, Outcome, Type};
use std::cmp::Ordering;

/// The functions of the library.
pub(crate) fn functions() -> Vec<Function> {
    let element = || Type::param("A");
    let sought = |id, call| metered(id, [Type::list(element()), element()], Type::Int, call).on_target();
    let one = |id, ty: Type, result, call| member(id, [Type::list(ty)], result, call);
    vec![
        function(
            "isSorted",
            [
                one("list_int_is_sorted_bool", Type::Int, Type::Bool, is_sorted),
                one("list_uint_is_sorted_bool", Type::Uint, Type::Bool, is_sorted),
                one("list_double_is_sorted_bool", Type::Double, Type::Bool, is_sorted),
                one("list_bool_is_sorted_bool", Type::Bool, Type::Bool, is_sorted),
                one("list_duration_is_sorted_bool", Type::Duration, Type::Bool, is_sorted),
                one("list_timestamp_is_sorted_bool", Type::Timestamp, Type::Bool, is_sorted),
                one("list_string_is_sorted_bool", Type::String, Type::Bool, is_sorted),
                one("list_bytes_is_sorted_bool", Type::Bytes, Type::Bool, is_sorted),
            ],
        ),
        function(
            "sum",
            [
                one("list_int_sum_int", Type::Int, Type::Int, |args| sum(args, Value::Int(0))),
                one("list_uint_sum_uint", Type::Uint, Type::Uint, |args| sum(args, Value::Uint(0))),
                one("list_double_sum_double", Type::Double, Type::Double, |args| {
                    sum(args, Value::Double(0.0))
                }),
                one("list_duration_sum_duration", Type::Duration, Type::Duration, |args| {
                    sum(args, Value::Duration(0))
                }),
            ],
        ),
        function(
            "max",
            [
                one("list_int_max_int", Type::Int, Type::Int, max),
                one("list_uint_max_uint", Type::Uint, Type::Uint, max),
                one("list_double_max_double", Type::Double, Type::Double, max),
                one("list_bool_max_bool", Type::Bool, Type::Bool, max),
                one("list_duration_max_duration", Type::Duration, Type::Duration, max),
                one("list_timestamp_max_timestamp", Type::Timestamp, Type::Timestamp, max),
                one("list_string_max_string", Type::String, Type::String, max),
                one("list_bytes_max_bytes", Type::Bytes, Type::Bytes, max),
            ],
        ),
        function(
            "min",
            [
                one("list_int_min_int", Type::Int, Type::Int, min),
                one("list_uint_min_uint", Type::Uint, Type::Uint, min),
                one("list_double_min_double", Type::Double, Type::Double, min),
                one("list_bool_min_bool", Type::Bool, Type::Bool, min),
                one("list_duration_min_duration", Type::Duration, Type::Duration, min),
                one("list_timestamp_min_timestamp", Type::Timestamp, Type::Timestamp, min),
                one("list_string_min_string", Type::String, Type::String, min),
                one("list_bytes_min_bytes", Type::Bytes, Type::Bytes, min),
            ],
        ),
        function("indexOf", [sought("list_a_index_of_int", index_of)]),
        function("lastIndexOf", [sought("list_a_last_index_of_int", last_index_of)]),
    ]
}

/// An element, if it is of a type whose values have an order.
fn ordered<'a>(element: Outcome<'a>) -> Outcome<'a> {
    match element? {
        element @ (Value::Bool(_)
        | Value::Int(_)
        | Value::Uint(_)
        | Value::Double(_)
        | Value::String(_)
        | Value::Bytes(_)
        | Value::Duration(_)
        | Value::Timestamp(_)) => Ok(element),
        _ => Err(super::support::no_such_overload()),
    }
}

fn is_sorted<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    let mut before: Option<Value<'a>> = None;
    for element in list(args, 0)?.iter() {
        let element = ordered(element)?;
        if let Some(before) = &before
            && before.compare(&element).is_ok_and(Ordering::is_gt)
        {
            return Ok(Value::Bool(false));
        }
        before = Some(element);
    }
    Ok(Value::Bool(true))
}

fn sum<'a>(args: &[Value<'a>], zero: Value<'a>) -> Outcome<'a> {
    list(args, 0)?.iter().try_fold(zero, |sum, element| add(&sum, &element?))
}

fn add<'a>(one: &Value<'a>, other: &Value<'a>) -> Outcome<'a> {
    let overflow = |why: &str| Failure::error(why);
    match (one, other) {
        (Value::Int(one), Value::Int(other)) => {
            one.checked_add(*other).map(Value::Int).ok_or_else(|| overflow("integer overflow"))
        }
        (Value::Uint(one), Value::Uint(other)) => {
            one.checked_add(*other).map(Value::Uint).ok_or_else(|| overflow("unsigned integer overflow"))
        }
        (Value::Double(one), Value::Double(other)) => Ok(Value::Double(one + other)),
        (Value::Duration(one), Value::Duration(other)) => {
            one.checked_add(*other).map(Value::Duration).ok_or_else(|| overflow("integer overflow"))
        }
        (Value::Timestamp(time), Value::Duration(length))
        | (Value::Duration(length), Value::Timestamp(time)) => {
            time.plus(*length).map(Value::Timestamp).map_err(overflow)
        }
        _ => Err(super::support::no_such_overload()),
    }
}

fn max<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    extreme(list(args, 0)?, Ordering::Less, "max called on empty list")
}

fn min<'a>(args: &[Value<'a>]) -> Outcome<'a> {
    extreme(list(args, 0)?, Ordering::Greater, "min called on empty list")
}

/// The first element that no other one replaces: one does to which it compares like this.
fn extreme<'a>(list: &List<'a>, replaced: Ordering, empty: &str) -> Outcome<'a> {
    let mut kept: Option<Value<'a>> = None;
    for element in list.iter() {
        let element = ordered(element)?;
        if kept.as_ref().is_none_or(|kept| kept.compare(&element).is_ok_and(|order| order == replaced)) {
            kept = Some(element);
        }
    }
    kept.ok_or_else(|| Failure::error(empty))
}

fn index_of<'a>(args: &[Value<'a>], meter: &mut Meter<'_>) -> Outcome<'a> {
    let list = list(args, 0)?;
    place(list, args, 0..list.len(), meter)
}

fn last_index_of<'a>(args: &[Value<'a>], meter: &mut Meter<'_>) -> Outcome<'a> {
    let list = list(args, 0)?;
    place(list, args, (0..list.len()).rev(), meter)
}

/// The first of these places at which the sought value is.
fn place<'a>(
    list: &List<'a>,
    args: &[Value<'a>],
    places: impl Iterator<Item = usize>,
    meter: &mut Meter<'_>,
) -> Outcome<'a> {
    let sought = args.get(1).ok_or_else(super::support::no_such_overload)?;
    for place in places {
        let found = match list.get(place) {
            Some(Ok(element)) => equal(&element, sought, meter),
            Some(Err(failure)) => Err(failure),
            None => Ok(false),
        };
        match found {
            Ok(true) => return Ok(Value::Int(i64::try_from(place).unwrap_or(i64::MAX))),
            Err(Failure::Halt(halt)) => return Err(Failure::Halt(halt)),
            // What cannot be compared is not equal.
            Ok(false) | Err(Failure::Error(_)) => {}
        }
    }
    Ok(Value::Int(-1))
}
