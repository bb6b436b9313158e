//! Lists: elements by place, and the sum of two lists.

use super::{List, Value};
use crate::{Failure, Halt, Outcome};
use object::shape::{Form, ListForm, Shape};
use std::collections::HashMap;
use std::sync::Arc;

/// A list of a schema, to which another one was added.
#[derive(Clone)]
pub struct Merged<'a> {
    pub(super) items: Vec<Item<'a>>,
    pub(super) shape: &'a dyn Shape,
}

/// An item of a list that was merged.
#[derive(Clone)]
pub(super) enum Item<'a> {
    /// Of a tree.
    Tree(&'a object::Value),
    /// Of another list, not yet in the form of the schema.
    Made(Value<'a>),
}

impl std::fmt::Debug for Merged<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(&self.items).finish()
    }
}

impl std::fmt::Debug for Item<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Tree(tree) => tree.fmt(f),
            Self::Made(value) => value.fmt(f),
        }
    }
}

impl<'a> List<'a> {
    /// A list of such elements.
    pub fn of(elements: Vec<Value<'a>>) -> Self {
        Self::Elements(Arc::new(elements))
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        match self {
            Self::Tree(items, _) => items.len(),
            Self::Elements(elements) => elements.len(),
            Self::Texts(texts) => texts.len(),
            Self::Concat(parts) => parts.2,
            Self::Merged(merged) => merged.items.len(),
        }
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The element at a place; `None` past the end. An element of a tree that does not fit its shape is an
    /// error.
    pub fn get(&self, place: usize) -> Option<Outcome<'a>> {
        let mut place = place;
        let mut list = self;
        loop {
            match list {
                Self::Tree(items, shape) => return Some(element(items.get(place)?, *shape)),
                Self::Elements(elements) => return Some(Ok(elements.get(place)?.clone())),
                Self::Texts(texts) => return Some(Ok(Value::String(texts.get(place)?.clone()))),
                Self::Merged(merged) => return merged.get(place),
                Self::Concat(parts) => {
                    let first = parts.0.len();
                    if place < first {
                        list = &parts.0;
                    } else {
                        place -= first;
                        list = &parts.1;
                    }
                }
            }
        }
    }

    /// The elements in order.
    pub fn iter(&self) -> impl Iterator<Item = Outcome<'a>> + '_ {
        (0..self.len()).map_while(|place| self.get(place))
    }

    /// Whether the list has the form of a schema.
    pub(crate) fn is_shaped(&self) -> bool {
        self.shape().is_some()
    }

    /// The schema of the list itself, if it is one of a schema.
    pub(super) fn shape(&self) -> Option<&'a dyn Shape> {
        match self {
            Self::Tree(_, shape) => *shape,
            Self::Merged(merged) => Some(merged.shape),
            _ => None,
        }
    }

    /// One list after the other. To a list of a schema the elements of the other are added as its form has
    /// it: those of a set that are not there yet, and those of a map in the place of what has the same keys.
    pub fn plus(&self, other: &List<'a>) -> Result<List<'a>, Failure> {
        let Some(shape) = self.shape() else {
            return Ok(if self.is_empty() {
                other.clone()
            } else if other.is_empty() {
                self.clone()
            } else {
                let length = self.len().saturating_add(other.len());
                List::Concat(Arc::new((self.clone(), other.clone(), length)))
            });
        };
        let mut items: Vec<_> = (0..self.len()).filter_map(|place| self.raw_item(place)).collect();
        let added = (0..other.len()).filter_map(|place| other.item(place));
        match shape.form() {
            Form::List(ListForm::Set) => {
                let mut keys = HashMap::new();
                for (place, item) in items.iter().enumerate() {
                    keys.insert(item.native()?, place);
                }
                for item in added {
                    if let std::collections::hash_map::Entry::Vacant(vacant) = keys.entry(item.native()?) {
                        vacant.insert(items.len());
                        items.push(item);
                    }
                }
            }
            Form::List(ListForm::Map(names)) => {
                let names = escaped(names);
                let mut places = HashMap::new();
                for (place, item) in items.iter().enumerate() {
                    places.insert(item.keys(&names)?, place);
                }
                for item in added {
                    let there = places.get(&item.keys(&names)?).and_then(|place| items.get_mut(*place));
                    match there {
                        Some(there) => *there = item,
                        None => items.push(item),
                    }
                }
            }
            _ => items.extend(added),
        }
        Ok(List::Merged(Arc::new(Merged { items, shape })))
    }

    /// The elements without the form of a schema.
    pub(super) fn without_shape(&self) -> List<'a> {
        let items = (0..self.len()).filter_map(|place| self.item(place));
        List::of(
            items
                .map(|item| match item {
                    Item::Tree(tree) => Value::plain(tree),
                    Item::Made(value) => value.without_shape(),
                })
                .collect(),
        )
    }

    /// The item at a place as the tree has it.
    pub(super) fn raw_item(&self, place: usize) -> Option<Item<'a>> {
        match self {
            Self::Tree(items, _) => items.get(place).map(Item::Tree),
            list => list.item(place),
        }
    }

    /// The item at a place as Go has it of the element.
    pub(super) fn item(&self, place: usize) -> Option<Item<'a>> {
        match self {
            Self::Tree(items, shape) => {
                let tree = items.get(place)?;
                let plain = shape.and_then(|shape| shape.items()).is_none_or(keeps_natives);
                if plain { Some(Item::Tree(tree)) } else { self.get(place)?.ok().map(Item::Made) }
            }
            Self::Merged(merged) => merged.items.get(place).cloned(),
            _ => self.get(place)?.ok().map(Item::Made),
        }
    }
}

/// Whether what Go has of a value of such a schema is what its tree has.
fn keeps_natives(shape: &dyn Shape) -> bool {
    !matches!(shape.form(), Form::Bytes | Form::Duration | Form::Date | Form::DateTime | Form::Number)
}

fn element<'a>(tree: &'a object::Value, shape: Option<&'a dyn Shape>) -> Outcome<'a> {
    match shape {
        None => Ok(Value::plain(tree)),
        Some(shape) => Value::of(tree, shape.items()),
    }
}

impl<'a> Merged<'a> {
    fn get(&self, place: usize) -> Option<Outcome<'a>> {
        let shape = self.shape.items();
        Some(match (self.items.get(place)?, shape) {
            (Item::Tree(tree), _) => Value::of(tree, shape),
            (Item::Made(value), Some(shape)) => value.clone().fit(shape),
            (Item::Made(value), None) => Ok(value.clone()),
        })
    }
}

/// What Go's maps tell values apart by.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Native {
    None,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(u64),
    String(Box<str>),
    Duration(i64),
    Timestamp(i64, u32),
    /// Never equal to another one.
    Other(usize),
}

impl Native {
    /// A number; 0.0 and -0.0 are the same.
    fn of_double(number: f64) -> Self {
        Self::Double((number + 0.0).to_bits())
    }
}

impl<'a> Item<'a> {
    /// What Go's maps tell the item apart by; the error is that of Go's run time.
    pub(super) fn native(&self) -> Result<Native, Failure> {
        match self {
            Self::Tree(tree) => of_tree(tree),
            Self::Made(value) => of_value(value),
        }
    }

    /// What the items of a list are told apart by that is a map.
    pub(super) fn keys(&self, names: &[Box<str>]) -> Result<Vec<Native>, Failure> {
        let map = match self {
            Self::Tree(object::Value::Map(map)) => map,
            Self::Made(Value::Map(super::Map::Tree(map, _))) => map,
            Self::Tree(other) => return Ok(vec![Native::Other(std::ptr::from_ref(*other).addr())]),
            Self::Made(_) => return Ok(vec![Native::Other(0)]),
        };
        names.iter().map(|name| map.get(name).map_or(Ok(Native::None), of_tree)).collect()
    }
}

/// The names of properties as cel-go looks for them: escaped, although the objects have them unescaped.
pub(super) fn escaped(names: &[object::Text]) -> Vec<Box<str>> {
    names.iter().map(|name| crate::escape::escape(name).unwrap_or((&**name).into()).into()).collect()
}

fn of_tree(tree: &object::Value) -> Result<Native, Failure> {
    Ok(match tree {
        object::Value::Null => Native::None,
        object::Value::Bool(flag) => Native::Bool(*flag),
        object::Value::Int(number) => Native::Int(*number),
        object::Value::Float(number) => Native::of_double(*number),
        object::Value::String(text) => Native::String((&**text).into()),
        object::Value::Bytes(bytes) => Native::String(super::formats::base64(bytes).into()),
        object::Value::Map(_) | object::Value::Raw(_) => return Err(unhashable("map[string]interface {}")),
        object::Value::List(_) => return Err(unhashable("[]interface {}")),
    })
}

fn of_value(value: &Value<'_>) -> Result<Native, Failure> {
    Ok(match value {
        Value::Null => Native::None,
        Value::Bool(flag) => Native::Bool(*flag),
        Value::Int(number) => Native::Int(*number),
        Value::Uint(number) => Native::Uint(*number),
        Value::Double(number) => Native::of_double(*number),
        Value::String(text) => Native::String(text.as_str().into()),
        Value::Duration(nanos) => Native::Duration(*nanos),
        Value::Timestamp(time) => Native::Timestamp(time.seconds, time.nanos),
        Value::Preserved(tree) => return of_tree(tree),
        Value::Bytes(_) | Value::List(_) | Value::Map(_) => return Err(unhashable(value.native_name())),
        _ => Native::Other(0),
    })
}

fn unhashable(name: &'static str) -> Failure {
    Failure::Halt(Halt::Unhashable(name))
}
