//! Equality of values as cel-go has it: numbers of different types are compared by what they are, and values
//! of a schema have rules of their own.

use super::entries::Entries;
use super::list::{Item, escaped};
use super::map::of_shape;
use super::{Fields, List, Map, Meter, Struct, Value, same};
use crate::Failure;
use crate::mutation::is_object;
use object::shape::{Form, ListForm, Shape};
use std::cmp::Ordering;
use std::collections::HashMap;

type Answer = Result<bool, Failure>;

/// Whether two values are equal. A list or map of a schema cannot be compared with what is none: that is an
/// error.
///
/// What has parts is compared part by part; a level takes little of the stack, because what does not recurse
/// is in functions of its own.
pub(crate) fn equal<'a>(one: &Value<'a>, other: &Value<'a>, meter: &mut Meter<'_>) -> Answer {
    meter.spend(1)?;
    match (one, other) {
        (Value::List(one), Value::List(other)) => meter.enter(|meter| lists(one, other, meter)),
        (Value::Map(one), Value::Map(other)) => meter.enter(|meter| maps(one, other, meter)),
        (Value::Struct(one), Value::Struct(other)) if is_object(&one.name) => {
            meter.enter(|meter| same::structs(one, other, meter))
        }
        (Value::Struct(one), Value::Struct(other)) => meter.enter(|meter| structs(one, other, meter)),
        (Value::Optional(Some(one)), Value::Optional(Some(other))) => {
            meter.enter(|meter| equal(one, other, meter))
        }
        (Value::Preserved(tree), other) => preserved(tree, other, meter),
        (one, other) => leaves(one, other, meter),
    }
}

/// Whether two values are equal of which one has no parts.
fn leaves<'a>(one: &Value<'a>, other: &Value<'a>, meter: &mut Meter<'_>) -> Answer {
    Ok(match (one, other) {
        (Value::Null, other) | (other, Value::Null) => matches!(other, Value::Null),
        (Value::Bool(one), Value::Bool(other)) => one == other,
        (Value::Int(one), Value::Int(other)) => one == other,
        (Value::Uint(one), Value::Uint(other)) => one == other,
        (Value::Double(one), Value::Double(other)) => one == other,
        (
            Value::Int(_) | Value::Uint(_) | Value::Double(_),
            Value::Int(_) | Value::Uint(_) | Value::Double(_),
        ) => super::order::numbers(one, other) == Some(Ordering::Equal),
        (Value::String(one), Value::String(other)) => {
            let (one, other) = (one.as_str(), other.as_str());
            if one.len() == other.len() {
                meter.spend(one.len() >> 4)?;
            }
            one == other
        }
        (Value::Bytes(one), Value::Bytes(other)) => {
            meter.spend(one.as_slice().len() >> 4)?;
            one.as_slice() == other.as_slice()
        }
        (Value::Duration(one), Value::Duration(other)) => one == other,
        (Value::Timestamp(one), Value::Timestamp(other)) => one == other,
        (Value::Type(one), Value::Type(other)) => one.name() == other.name(),
        (Value::Optional(one), Value::Optional(other)) => one.is_none() && other.is_none(),
        (Value::Opaque(one), Value::Opaque(other)) => one.equals(&**other).ok_or_else(no_such_overload)?,
        // What is no value of a library is not equal to one; the other way round it is an error.
        (Value::Opaque(_), _) => return Err(no_such_overload()),
        (Value::Fields(one), other) => match other {
            Value::Fields(other) => std::ptr::eq(data(*one), data(*other)),
            _ => return Err(no_such_overload()),
        },
        (Value::List(list), _) if list.shape().is_some() => return Err(no_such_overload()),
        (Value::Map(Map::Tree(_, Some(_))), _) => return Err(no_such_overload()),
        _ => false,
    })
}

fn data(fields: &dyn Fields) -> *const () {
    std::ptr::from_ref(fields).cast()
}

fn no_such_overload() -> Failure {
    Failure::error("no such overload")
}

/// The answer where an error counts as equal: parts of values that expressions made.
fn forgiving(answer: Answer) -> Answer {
    match answer {
        Err(Failure::Error(_)) => Ok(true),
        answer => answer,
    }
}

fn lists<'a>(one: &List<'a>, other: &List<'a>, meter: &mut Meter<'_>) -> Answer {
    if one.len() != other.len() {
        return Ok(false);
    }
    match one.shape().map(|shape| (shape, shape.form())) {
        Some((_, Form::List(ListForm::Set))) => return sets(one, other, meter),
        Some((shape, Form::List(ListForm::Map(names)))) => {
            return map_lists(one, other, &escaped(names), shape, meter);
        }
        _ => {}
    }
    let strict = one.shape().is_some();
    let mut error = None;
    for place in 0..one.len() {
        meter.spend(32)?;
        match elements(one, other, place, meter) {
            Ok(true) => {}
            Ok(false) => return Ok(false),
            Err(Failure::Halt(halt)) => return Err(Failure::Halt(halt)),
            Err(failure) if strict => return Err(failure),
            Err(failure) => {
                if matches!(one, List::Concat(_)) {
                    error.get_or_insert(failure);
                }
            }
        }
    }
    error.map_or(Ok(true), Err)
}

/// Whether two lists have equal elements at a place.
fn elements<'a>(one: &List<'a>, other: &List<'a>, place: usize, meter: &mut Meter<'_>) -> Answer {
    let Some(one) = one.get(place) else { return Ok(true) };
    let Some(other) = other.get(place) else { return Ok(true) };
    let one = one?;
    match other {
        Ok(other) => equal(&one, &other, meter),
        // An element that is an error is not equal to one that is none.
        Err(Failure::Error(_)) => Ok(false),
        Err(failure) => Err(failure),
    }
}

fn sets<'a>(one: &List<'a>, other: &List<'a>, meter: &mut Meter<'_>) -> Answer {
    let mut there = std::collections::HashSet::new();
    for place in 0..one.len() {
        meter.spend(16)?;
        if let Some(item) = one.raw_item(place) {
            there.insert(item.native()?);
        }
    }
    for place in 0..other.len() {
        meter.spend(16)?;
        let Some(item) = other.item(place) else { return Ok(false) };
        if !there.contains(&item.native()?) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn map_lists<'a>(
    one: &List<'a>,
    other: &List<'a>,
    names: &[Box<str>],
    shape: &'a dyn Shape,
    meter: &mut Meter<'_>,
) -> Answer {
    let mut there = HashMap::new();
    for place in 0..one.len() {
        meter.spend(16)?;
        if let Some(item) = one.raw_item(place) {
            there.insert(item.keys(names)?, item);
        }
    }
    for place in 0..other.len() {
        meter.spend(16)?;
        let Some(item) = other.item(place) else { return Ok(false) };
        let Some(found) = there.get(&item.keys(names)?) else { return Ok(false) };
        let found = match (found, shape.items()) {
            (Item::Tree(tree), items) => Value::of(tree, items)?,
            (Item::Made(value), Some(items)) => value.clone().fit(items)?,
            (Item::Made(value), None) => value.clone(),
        };
        let Some(value) = other.get(place) else { return Ok(false) };
        let equal = match value {
            Ok(value) => equal(&found, &value, meter)?,
            Err(Failure::Halt(halt)) => return Err(Failure::Halt(halt)),
            Err(_) => false,
        };
        if !equal {
            return Ok(false);
        }
    }
    Ok(true)
}

fn maps<'a>(one: &Map<'a>, other: &Map<'a>, meter: &mut Meter<'_>) -> Answer {
    if one.len() != other.len() {
        return Ok(false);
    }
    meter.spend(one.len())?;
    let other = Found::of(other);
    match one {
        Map::Tree(map, Some(shape)) => shaped_maps(map, *shape, &other, meter),
        Map::Tree(map, None) => plain_maps(map, &other, meter),
        Map::Entries(entries) => made_maps(entries, &other, meter),
    }
}

fn shaped_maps<'a>(
    map: &'a object::Map,
    shape: &'a dyn Shape,
    other: &Found<'_, 'a>,
    meter: &mut Meter<'_>,
) -> Answer {
    for (key, tree) in map.iter() {
        let answer = match (shape.field(key), other.map) {
            (Some(field), _) => match other.get(&Value::from(key.as_str())) {
                None => false,
                Some(there) => shaped(tree, field, there, meter)?,
            },
            (None, Map::Tree(there, Some(_))) => match there.get(key) {
                None => true,
                Some(there) => trees(there, tree, meter)?,
            },
            (None, _) => return Err(no_such_overload()),
        };
        if !answer {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether a value of a schema equals that of another map.
fn shaped<'a>(
    tree: &'a object::Value,
    shape: &'a dyn Shape,
    there: crate::Outcome<'a>,
    meter: &mut Meter<'_>,
) -> Answer {
    if let Err(Failure::Halt(halt)) = there {
        return Err(Failure::Halt(halt));
    }
    let value = Value::of(tree, Some(shape))?;
    match there {
        Ok(there) => equal(&value, &there, meter),
        Err(_) => Ok(false),
    }
}

fn plain_maps<'a>(map: &'a object::Map, other: &Found<'_, 'a>, meter: &mut Meter<'_>) -> Answer {
    for (key, tree) in map.iter() {
        let Some(there) = other.get(&Value::from(key.as_str())) else { return Ok(false) };
        if !part(&Value::plain(tree), there, meter)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn made_maps<'a>(entries: &Entries<'a>, other: &Found<'_, 'a>, meter: &mut Meter<'_>) -> Answer {
    for (key, value) in entries.as_slice() {
        let Some(there) = other.get(key) else { return Ok(false) };
        if !part(value, there, meter)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether a value of a map that is of no schema equals that of another map.
fn part<'a>(value: &Value<'a>, there: crate::Outcome<'a>, meter: &mut Meter<'_>) -> Answer {
    match there {
        Ok(there) => forgiving(equal(value, &there, meter)),
        Err(Failure::Halt(halt)) => Err(Failure::Halt(halt)),
        Err(_) => Ok(false),
    }
}

/// A map in which many keys are looked up.
struct Found<'m, 'a> {
    map: &'m Map<'a>,
    table: Option<HashMap<&'a str, &'a object::Value>>,
}

impl<'m, 'a> Found<'m, 'a> {
    fn of(map: &'m Map<'a>) -> Self {
        let table = match map {
            Map::Tree(tree, _) if tree.len() > 16 => Some(tree.index()),
            _ => None,
        };
        Self { map, table }
    }

    fn get(&self, key: &Value<'a>) -> Option<crate::Outcome<'a>> {
        match (self.map, &self.table, key) {
            (Map::Tree(_, shape), Some(table), Value::String(key)) => match shape {
                None => table.get(key.as_str()).map(|tree| Ok(Value::plain(tree))),
                Some(shape) => {
                    let is_object = shape.form() == Form::Object;
                    let raw =
                        if is_object { crate::escape::unescape(key.as_str())? } else { key.as_str().into() };
                    of_shape(table.get(&*raw)?, &raw, *shape, is_object)
                }
            },
            (map, ..) => map.get(key),
        }
    }
}

fn structs<'a>(one: &Struct<'a>, other: &Struct<'a>, meter: &mut Meter<'_>) -> Answer {
    if one.name != other.name || one.fields.len() != other.fields.len() {
        return Ok(false);
    }
    for (name, value) in &one.fields {
        meter.spend(other.fields.len())?;
        let Some((_, there)) = other.fields.iter().find(|(there, _)| there == name) else { return Ok(false) };
        if !equal(value, there, meter)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether a value of no known type is the same tree as another value.
fn preserved(tree: &object::Value, other: &Value<'_>, meter: &mut Meter<'_>) -> Answer {
    Ok(match (tree, other) {
        (tree, Value::Preserved(other)) => return trees(tree, other, meter),
        (object::Value::Bool(one), Value::Bool(other)) => one == other,
        (object::Value::Int(one), Value::Int(other)) => one == other,
        (object::Value::Float(one), Value::Double(other)) => one == other,
        (object::Value::String(one), Value::String(other)) => one.as_str() == other.as_str(),
        (object::Value::List(one), Value::List(List::Tree(other, _))) => {
            return meter.enter(|meter| tree_lists(one, other, meter));
        }
        (object::Value::Map(one), Value::Map(Map::Tree(other, _))) => {
            return meter.enter(|meter| tree_maps(one, other, meter));
        }
        _ => false,
    })
}

/// Whether two trees are the same.
fn trees(one: &object::Value, other: &object::Value, meter: &mut Meter<'_>) -> Answer {
    meter.spend(1)?;
    match (one, other) {
        (object::Value::List(one), object::Value::List(other)) => {
            meter.enter(|meter| tree_lists(one, other, meter))
        }
        (object::Value::Map(one), object::Value::Map(other)) => {
            meter.enter(|meter| tree_maps(one, other, meter))
        }
        (object::Value::String(one), object::Value::String(other)) => {
            meter.spend(one.len() >> 4)?;
            Ok(one == other)
        }
        (object::Value::Raw(one), object::Value::Raw(other)) => {
            meter.spend(one.as_str().len() >> 4)?;
            Ok(one == other)
        }
        (one, other) => Ok(one == other),
    }
}

fn tree_lists(one: &[object::Value], other: &[object::Value], meter: &mut Meter<'_>) -> Answer {
    if std::ptr::eq(one, other) {
        return Ok(true);
    }
    if one.len() != other.len() {
        return Ok(false);
    }
    for (one, other) in one.iter().zip(other) {
        if !trees(one, other, meter)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn tree_maps(one: &object::Map, other: &object::Map, meter: &mut Meter<'_>) -> Answer {
    if std::ptr::eq(one.entries(), other.entries()) {
        return Ok(true);
    }
    if one.len() != other.len() {
        return Ok(false);
    }
    let other = other.lookup(one.len());
    for (key, tree) in one.iter() {
        meter.spend(16)?;
        let Some(there) = other.get(key) else { return Ok(false) };
        if !trees(tree, there, meter)? {
            return Ok(false);
        }
    }
    Ok(true)
}
