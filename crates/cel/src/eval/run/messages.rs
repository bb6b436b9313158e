//! Messages of Protobuf that stand for values: `google.protobuf.Int64Value{value: 1}` is `1`.

use crate::value::{Entries, List, Map, Str, Struct, Timestamp, Value};
use crate::{Failure, Outcome};
use std::sync::Arc;

/// What the names of the messages begin with.
pub(in crate::eval) const PACKAGE: &str = "google.protobuf.";

/// A field with its value.
type Field<'a> = (Arc<str>, Value<'a>);

/// The value of a message.
pub(super) fn construct<'a>(name: &Arc<str>, fields: Vec<Field<'a>>) -> Outcome<'a> {
    let field =
        |name: &str| fields.iter().find(|(there, _)| &**there == name).map(|(_, value)| value.clone());
    let number = |name: &str| match field(name) {
        Some(Value::Int(number)) => number,
        _ => 0,
    };
    let value = || field("value");
    Ok(match name.strip_prefix(PACKAGE).unwrap_or_default() {
        "BoolValue" => value().unwrap_or(Value::Bool(false)),
        "BytesValue" => value().unwrap_or(Value::Bytes(crate::value::Bytes::Borrowed(&[]))),
        "DoubleValue" => value().unwrap_or(Value::Double(0.0)),
        "FloatValue" => match value() {
            Some(Value::Double(number)) => Value::Double(f64::from(number as f32)),
            other => other.unwrap_or(Value::Double(0.0)),
        },
        "Int32Value" => match value() {
            Some(Value::Int(number)) if i32::try_from(number).is_err() => {
                return Err(Failure::error("integer overflow"));
            }
            other => other.unwrap_or(Value::Int(0)),
        },
        "UInt32Value" => match value() {
            Some(Value::Uint(number)) if u32::try_from(number).is_err() => {
                return Err(Failure::error("unsigned integer overflow"));
            }
            other => other.unwrap_or(Value::Uint(0)),
        },
        "Int64Value" => value().unwrap_or(Value::Int(0)),
        "UInt64Value" => value().unwrap_or(Value::Uint(0)),
        "StringValue" => value().unwrap_or(Value::String(Str::Borrowed(""))),
        "Duration" => {
            Value::Duration(number("seconds").saturating_mul(1_000_000_000).saturating_add(number("nanos")))
        }
        "Timestamp" => {
            let seconds = number("seconds").saturating_add(number("nanos").div_euclid(1_000_000_000));
            Value::Timestamp(Timestamp::new(seconds, number("nanos").rem_euclid(1_000_000_000) as u32))
        }
        "Struct" => json(field("fields").unwrap_or_else(|| Value::Map(Map::of(Entries::default()))), 0)?,
        "ListValue" => json(field("values").unwrap_or_else(|| Value::List(List::of(Vec::new()))), 0)?,
        "Value" => match fields.into_iter().next() {
            Some((name, _)) if &*name == "null_value" => Value::Null,
            Some((_, value)) => json(value, 0)?,
            None => Value::Null,
        },
        "Any" => return Err(Failure::error("unsupported conversion to ref.Val: (*dynamicpb.Message)")),
        _ => Value::Struct(Arc::new(Struct { name: name.clone(), fields })),
    })
}

/// The value as JSON has it, in which all numbers are floating point numbers.
fn json<'a>(value: Value<'a>, depth: usize) -> Outcome<'a> {
    if depth > 100 {
        return Err(Failure::error("value is nested too deep"));
    }
    Ok(match value {
        Value::Int(number) => Value::Double(number as f64),
        Value::Uint(number) => Value::Double(number as f64),
        Value::List(list) => {
            let elements = list.iter().map(|element| json(element?, depth + 1));
            Value::List(List::of(elements.collect::<Result<_, _>>()?))
        }
        Value::Map(map) => {
            let entries = map.iter().map(|(key, value)| Ok((key, json(value?, depth + 1)?)));
            Value::Map(Map::of(entries.collect::<Result<_, Failure>>()?))
        }
        value => value,
    })
}
