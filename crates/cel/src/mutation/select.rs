//! The fields of the types of mutations, where expressions select them: `Object{a: 1}.a`.
//!
//! The reference turns an object into plain JSON for every field that is selected where the type is known,
//! and has no fields of it elsewhere (`dyn(Object{a: 1}).a`, `Object{a: 1}.?a`).

use super::native::text_of;
use super::refusal::not_a_text;
use super::types::{JSON_PATCH, is_object};
use crate::value::{Entries, List, Map, Meter, Struct, Value};
use crate::{Failure, Outcome};
use object::quote::Quoted;
use std::sync::Arc;

/// A field of an object whose type is known; null if it has none. Values are those of its plain JSON.
pub(crate) fn field<'a>(made: &Struct<'a>, name: &str, meter: &mut Meter<'_>) -> Outcome<'a> {
    if not_json(made, meter)?.is_some() {
        return Err(Failure::error(format!("cannot get field {}", Quoted(name))));
    }
    match find(made, name) {
        Some(value) => of_field(value, meter),
        None => Ok(Value::Null),
    }
}

/// Whether an object whose type is known has a field.
pub(crate) fn has_field(made: &Struct<'_>, name: &str, meter: &mut Meter<'_>) -> Result<bool, Failure> {
    Ok(not_json(made, meter)?.is_none() && find(made, name).is_some())
}

/// A field of a message by a key that is found out when it is evaluated. `None` if there is none.
pub(crate) fn part<'a>(made: &Struct<'a>, name: &str, is_test: bool) -> Option<Outcome<'a>> {
    if is_object(&made.name) {
        return None;
    }
    let found = find(made, name).map(|value| Ok(value.clone()));
    if *made.name != *JSON_PATCH {
        return found;
    }
    match name {
        _ if found.is_some() || is_test && is_field(name) => found,
        "op" | "path" | "from" => Some(Ok(Value::from(""))),
        "value" => Some(Ok(Value::Null)),
        name => {
            let what = if is_test { "field" } else { "indexer" };
            Some(Err(Failure::error(format!("unsupported {what}: {name}"))))
        }
    }
}

fn is_field(name: &str) -> bool {
    matches!(name, "op" | "path" | "from" | "value")
}

fn find<'v, 'a>(made: &'v Struct<'a>, name: &str) -> Option<&'v Value<'a>> {
    made.fields.iter().find(|(there, _)| **there == *name).map(|(_, value)| value)
}

/// Why an object is no plain JSON: a map of it has a key that is no text.
fn not_json(made: &Struct<'_>, meter: &mut Meter<'_>) -> Result<Option<String>, Failure> {
    for (name, value) in &made.fields {
        let mut value = value;
        while let Value::Optional(Some(inner)) = value {
            meter.spend(1)?;
            value = inner;
        }
        let Value::Map(Map::Entries(entries)) = value else { continue };
        meter.spend(entries.len())?;
        if let Some((key, _)) = entries.as_slice().iter().find(|(key, _)| text_of(key).is_none()) {
            return Ok(Some(format!("fail to convert field {}: {}", Quoted(name), not_a_text(key))));
        }
    }
    Ok(None)
}

/// What a value of a field is in plain JSON: with the elements of a list and the entries of a map.
fn of_field<'a>(value: &Value<'a>, meter: &mut Meter<'_>) -> Outcome<'a> {
    match value {
        Value::Optional(Some(value)) => meter.enter(|meter| of_field(value, meter)),
        Value::List(List::Elements(elements)) => {
            meter.spend(elements.len())?;
            let natives: Result<Vec<_>, _> = elements.iter().map(|element| part_of(element, meter)).collect();
            Ok(Value::List(List::of(natives?)))
        }
        Value::Map(Map::Entries(entries)) => {
            meter.spend(entries.len())?;
            let natives = entries.as_slice().iter().map(|(key, value)| {
                let key = text_of(key).map_or_else(|| key.clone(), |text| Value::from(text.to_owned()));
                Ok((key, part_of(value, meter)?))
            });
            Ok(Value::Map(Map::of(natives.collect::<Result<Entries<'a>, Failure>>()?)))
        }
        value => native(value, meter),
    }
}

/// What an element of a list is in plain JSON. A value of a library stays, because it may not be looked at.
fn part_of<'a>(value: &Value<'a>, meter: &mut Meter<'_>) -> Outcome<'a> {
    match value {
        Value::Opaque(_) | Value::Fields(_) => Ok(value.clone()),
        value => native(value, meter),
    }
}

/// What a value is in plain JSON.
fn native<'a>(value: &Value<'a>, meter: &mut Meter<'_>) -> Outcome<'a> {
    meter.spend(1)?;
    Ok(match value {
        Value::Type(ty) => Value::from(ty.name().to_owned()),
        Value::Optional(None) => Value::Null,
        Value::Optional(Some(value)) => return meter.enter(|meter| native(value, meter)),
        Value::Struct(made) if is_object(&made.name) => {
            if let Some(why) = not_json(made, meter)? {
                return Err(Failure::error(why));
            }
            let fields = made.fields.iter().map(|(name, value)| {
                let value = meter.enter(|meter| of_field(value, meter))?;
                Ok((Value::String(crate::value::Str::Shared(Arc::clone(name))), value))
            });
            Value::Map(Map::of(fields.collect::<Result<Entries<'a>, Failure>>()?))
        }
        Value::Fields(_) => return Err(Failure::error("no such overload")),
        Value::Opaque(opaque) => match opaque.native() {
            Some(native) if native.is_value => value.clone(),
            Some(native) => {
                let why = format!("unsupported conversion to ref.Val: ({}){}", native.type_name, native.text);
                return Err(Failure::error(why));
            }
            None => return Err(Failure::error("no such overload")),
        },
        value => value.clone(),
    })
}
