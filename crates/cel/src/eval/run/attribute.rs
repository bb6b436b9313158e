//! Variables and fields.

use super::{Evaluation, Slot, no_such_overload};
use crate::eval::node::{Base, By, Name, Qualifier};
use crate::mutation;
use crate::value::{List, Map, Str, Value, of_shape, whole};
use crate::{Failure, Halt, Outcome};
use object::quote::Quoted;
use object::shape::Form;
use std::collections::HashMap;
use std::sync::Arc;

/// From how many entries on the look-ups in a map of a tree are counted.
const COUNTED_FROM: usize = 64;
/// After how many look-ups a map gets a table.
const TABLE_AFTER: u32 = 8;

/// Tables for large maps in which many keys are looked up.
#[derive(Default)]
pub(super) struct Lookups<'a> {
    maps: Vec<(&'a object::Map, u32, HashMap<&'a str, &'a object::Value>)>,
}

impl<'a> Lookups<'a> {
    /// The value at a key.
    #[inline]
    pub(super) fn get(&mut self, map: &'a object::Map, key: &str) -> Option<&'a object::Value> {
        if map.len() < COUNTED_FROM { map.get(key) } else { self.get_large(map, key) }
    }

    #[cold]
    fn get_large(&mut self, map: &'a object::Map, key: &str) -> Option<&'a object::Value> {
        let there = self.maps.iter().position(|(there, ..)| std::ptr::eq(*there, map));
        let there = there.unwrap_or_else(|| {
            // Many maps that are looked at once each need no tables.
            if self.maps.len() >= 16 {
                self.maps.swap_remove(0);
            }
            self.maps.push((map, 0, HashMap::new()));
            self.maps.len() - 1
        });
        let (_, count, table) = self.maps.get_mut(there)?;
        *count = count.saturating_add(1);
        if *count == TABLE_AFTER {
            *table = map.index();
        }
        if *count < TABLE_AFTER { map.get(key) } else { table.get(key).copied() }
    }
}

/// A part of a value that was looked for.
type Found<'a> = Result<Option<Outcome<'a>>, Failure>;

impl<'a> Evaluation<'a, '_> {
    /// The value of an attribute; a choice between two costs nothing itself.
    pub(super) fn attribute(&mut self, place: u32) -> Outcome<'a> {
        let value = self.resolve(place);
        if let Err(failure @ Failure::Halt(_)) = value {
            return Err(failure);
        }
        if !self.is_choice(place) {
            self.charge(crate::cost::SELECT_OR_IDENT)?;
        }
        value
    }

    /// Whether the last field of an attribute is there.
    pub(super) fn has(&mut self, place: u32) -> Outcome<'a> {
        let value = self.resolve(place);
        if let Err(failure @ Failure::Halt(_)) = value {
            return Err(failure);
        }
        if self.is_choice(place) {
            // cel-go gives back the cost of a name, which a choice does not have.
            match self.cost.checked_sub(crate::cost::SELECT_OR_IDENT) {
                Some(cost) => self.cost = cost,
                None => return Err(Failure::Halt(Halt::CostLimit)),
            }
        }
        Ok(match value? {
            Value::Optional(value) => Value::Bool(value.is_some()),
            value => value,
        })
    }

    fn is_choice(&self, place: u32) -> bool {
        let attribute = self.program.attributes.get(place as usize);
        attribute.is_some_and(|attribute| matches!(attribute.base, Base::Choice { .. }))
    }

    /// The error of a variable that no value was given for.
    #[cold]
    fn missing(&self, slot: u32) -> Failure {
        let name = self.program.variables.iter().find(|(there, _)| *there == slot);
        Failure::error(format!("no such attribute(s): {}", name.map_or("", |(_, name)| name)))
    }

    /// The value of an attribute without its own cost.
    fn resolve(&mut self, place: u32) -> Outcome<'a> {
        let Some(attribute) = self.program.attributes.get(place as usize) else {
            return Err(no_such_overload());
        };
        let base = match attribute.base {
            Base::Slot(slot) => match self.slots.get(slot as usize) {
                Some(value) => value.clone(),
                None => return Err(self.missing(slot)),
            },
            Base::Local(local) => self.local(local)?,
            Base::Missing(constant) => self.constant(constant)?,
            Base::Node(node) => self.eval(node)?,
            Base::Choice { condition, truthy, falsy } => {
                return match self.eval(condition)? {
                    Value::Bool(true) => self.resolve(truthy),
                    Value::Bool(false) => self.resolve(falsy),
                    _ => Err(no_such_overload()),
                };
            }
        };
        let start = attribute.qualifiers.start as usize;
        let qualifiers = self.program.qualifiers.get(start..start + attribute.qualifiers.len as usize);
        let qualifiers = qualifiers.unwrap_or_default();
        if qualifiers.is_empty() && !matches!(base, Value::Optional(_)) {
            return Ok(base);
        }
        self.qualified(base, qualifiers)
    }

    fn qualified(&mut self, base: Value<'a>, qualifiers: &'a [Qualifier]) -> Outcome<'a> {
        let mut is_optional = false;
        let mut value = match base {
            Value::Optional(None) => return Ok(Value::Optional(None)),
            Value::Optional(Some(value)) => {
                is_optional = true;
                Value::clone(&value).without_shape()
            }
            value => value,
        };
        let mut rest = qualifiers.iter();
        while let Some(qualifier) = rest.next() {
            is_optional |= qualifier.optional;
            let found = self.find(&value, qualifier, is_optional || qualifier.test);
            let found = match found {
                Err(failure @ Failure::Halt(_)) => return Err(failure),
                // An element that is an error is found, and the next part of it is asked for.
                Ok(Some(Err(failure))) => {
                    let next = rest.next().is_some_and(|next| !is_optional && !next.optional);
                    self.charge(crate::cost::SELECT_OR_IDENT * (1 + u64::from(next)))?;
                    return Err(failure);
                }
                Ok(Some(Ok(found))) => Ok(Some(found)),
                Ok(None) => Ok(None),
                Err(failure) => Err(failure),
            };
            // A part that may be missing costs only if it is there.
            if !is_optional || matches!(found, Ok(Some(_))) {
                self.charge(crate::cost::SELECT_OR_IDENT)?;
            }
            value = match found? {
                found if qualifier.test && !is_optional => Value::Bool(found.is_some()),
                Some(found) => found,
                None => return Ok(Value::Optional(None)),
            };
        }
        Ok(if is_optional { Value::Optional(Some(Arc::new(value))) } else { value })
    }

    /// The value of a name of a loop.
    #[inline]
    pub(super) fn local(&mut self, local: u32) -> Outcome<'a> {
        match self.locals.get(local as usize) {
            Some(Slot::Value(value)) => Ok(value.clone()),
            Some(Slot::Failed(failure)) => Err(failure.clone()),
            Some(Slot::Lazy(_)) => {
                self.init(local)?;
                self.local(local)
            }
            None => Err(no_such_overload()),
        }
    }

    /// Evaluates the first value of an accumulator, if that has not been done.
    pub(super) fn init(&mut self, local: u32) -> Result<(), Failure> {
        let Some(Slot::Lazy(node)) = self.locals.get(local as usize) else { return Ok(()) };
        let slot = match self.eval(*node) {
            Ok(value) => Slot::Value(value),
            Err(failure @ Failure::Halt(_)) => return Err(failure),
            Err(failure) => Slot::Failed(failure),
        };
        if let Some(there) = self.locals.get_mut(local as usize) {
            *there = slot;
        }
        Ok(())
    }

    /// A part of a value. `None` is given only if it is asked whether the part is there. An element that does
    /// not fit its schema is found as an error.
    fn find(&mut self, value: &Value<'a>, qualifier: &Qualifier, test: bool) -> Found<'a> {
        let found = match qualifier.by {
            By::Name(name) => {
                let Some(name) = self.program.names.get(name as usize) else { return Ok(None) };
                self.field(value, name, test)
            }
            By::Field(name) => return self.object_field(value, name, qualifier, test),
            By::Constant(constant) => {
                let key = self.constant(constant)?;
                return self.part(value, &key, test);
            }
            By::Attribute(attribute) => {
                let key = self.resolve(attribute)?;
                return self.part_by(value, &key, test);
            }
            By::Node(node) => {
                let key = self.eval(node)?;
                return self.part_by(value, &key, test);
            }
        };
        match found {
            Some(found) => found.map(|found| Some(Ok(found))),
            None if test => Ok(None),
            None => match qualifier.by {
                By::Name(name) => {
                    let name = self.program.names.get(name as usize).map_or("", |name| &name.text);
                    Err(Failure::error(format!("no such key: {name}")))
                }
                _ => Ok(None),
            },
        }
    }

    /// The part of a value with a key that was found out while evaluating.
    fn part_by(&mut self, value: &Value<'a>, key: &Value<'a>, test: bool) -> Found<'a> {
        match key {
            Value::String(_) | Value::Int(_) | Value::Uint(_) | Value::Bool(_) | Value::Double(_) => {
                self.part(value, key, test)
            }
            key => {
                let name = match key {
                    Value::Null => "<nil>",
                    Value::List(List::Tree(_, None)) => "[]interface {}",
                    Value::Map(Map::Tree(_, None)) => "map[string]interface {}",
                    key => key.go_name(),
                };
                Err(Failure::error(format!("invalid qualifier type: {name}")))
            }
        }
    }

    fn part(&mut self, value: &Value<'a>, key: &Value<'a>, test: bool) -> Found<'a> {
        let found = match (value, key) {
            (Value::List(list), key) => {
                let place = index(key)?;
                let found = usize::try_from(place).ok().and_then(|place| list.get(place));
                if found.is_none() && !test {
                    return Err(Failure::error(format!("index out of bounds: {key}")));
                }
                if found.is_some() && !matches!(key, Value::Int(_)) && list.is_shaped() {
                    return Ok(Some(Err(Failure::error(format!("unsupported index: {key}")))));
                }
                return Ok(found);
            }
            (Value::Map(Map::Tree(map, None)), Value::String(key)) => {
                self.lookups.get(map, key.as_str()).map(Value::plain).map(Ok)
            }
            (Value::Map(Map::Tree(map, Some(shape))), Value::String(key)) => {
                let is_object = shape.form() == Form::Object;
                let raw =
                    if is_object { crate::escape::unescape(key.as_str()) } else { Some(key.as_str().into()) };
                raw.and_then(|raw| of_shape(self.lookups.get(map, &raw)?, &raw, *shape, is_object))
            }
            (Value::Map(map), key) => map.get(key),
            (Value::Fields(_) | Value::Struct(_), Value::String(key)) => {
                let text: Arc<str> = key.as_str().into();
                let property = crate::escape::unescape(&text).map(|name| Arc::from(&*name));
                self.field(value, &Name { text: text.clone(), property }, test)
            }
            _ => None,
        };
        match found {
            Some(found) => found.map(|found| Some(Ok(found))),
            None if test => Ok(None),
            None => Err(Failure::error(format!("no such key: {key}"))),
        }
    }

    /// The field of an object whose type is known.
    #[cold]
    fn object_field(&mut self, value: &Value<'a>, name: u32, qualifier: &Qualifier, test: bool) -> Found<'a> {
        let Some(name) = self.program.names.get(name as usize) else { return Ok(None) };
        match value {
            Value::Struct(made) if test && !mutation::has_field(made, &name.text, &mut self.meter)? => {
                Ok(None)
            }
            Value::Struct(_) if qualifier.test => Ok(Some(Ok(Value::Null))),
            Value::Struct(made) => {
                mutation::field(made, &name.text, &mut self.meter).map(|found| Some(Ok(found)))
            }
            _ if test => Ok(None),
            _ => Err(Failure::error(format!("cannot get field {}", Quoted(&name.text)))),
        }
    }

    /// The field of a value with a constant name.
    #[inline]
    fn field(&mut self, value: &Value<'a>, name: &Name, test: bool) -> Option<Outcome<'a>> {
        match value {
            Value::Map(Map::Tree(map, None)) => self.lookups.get(map, &name.text).map(Value::plain).map(Ok),
            Value::Map(Map::Tree(map, Some(shape))) => {
                let is_object = shape.form() == Form::Object;
                let key = if is_object { name.property.as_ref()? } else { &name.text };
                of_shape(self.lookups.get(map, key)?, key, *shape, is_object)
            }
            Value::Map(map) => map.get(&Value::String(Str::Shared(name.text.clone()))),
            Value::List(_) => Some(Err(Failure::error("unsupported index type 'string' in list"))),
            Value::Fields(fields) => fields.field(name.property.as_ref()?),
            Value::Struct(made) => mutation::part(made, &name.text, test),
            _ => None,
        }
    }
}

/// The place that an index means.
fn index(key: &Value<'_>) -> Result<i64, Failure> {
    let place = match key {
        Value::Int(place) => Some(*place),
        Value::Uint(place) => i64::try_from(*place).ok(),
        Value::Double(place) => whole(*place),
        other => {
            let text = format!("unsupported index type '{}' in list", other.type_of().name());
            return Err(Failure::error(text));
        }
    };
    place.ok_or_else(|| Failure::error(format!("unsupported index value {key} in list")))
}
