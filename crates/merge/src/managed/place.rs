//! Places in a type, and how server-side apply sees the values there.
//!
//! Values come in two forms. A *typed* one is the tree of an object: it lacks what its type says anyway, so a field that
//! is always written is seen with its empty value. A *plain* one is JSON as it was sent, with all its nulls.

use crate::node::{ANY, UNBOUNDED};
use object::path::{Element, Keys};
use object::{Key, Map, Text, Value};
use schema::{Field, Raw, Shape, Topology, Type, json};
use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::HashMap;

/// How values are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// As the tree of a type.
    Typed,
    /// As JSON of any kind.
    Plain,
}

/// A place in a type.
#[derive(Clone, Copy)]
pub(crate) struct Place<'s> {
    shape: &'s Shape,
    topology: &'s Topology,
}

/// What values at a place are.
#[derive(Clone, Copy)]
pub(crate) enum Atom<'s> {
    Scalar(Scalar),
    Struct(Fields<'s>),
    Map(Entries<'s>),
    List(Items<'s>),
    /// Anything: what it is shows in the value.
    Any(Depth),
}

/// The fields of a type.
#[derive(Clone, Copy)]
pub(crate) struct Fields<'s> {
    pub(crate) ty: &'s Type,
    pub(crate) atomic: bool,
}

/// The entries of a map.
#[derive(Clone, Copy)]
pub(crate) struct Entries<'s> {
    pub(crate) inner: Place<'s>,
    pub(crate) atomic: bool,
}

/// The items of a list.
#[derive(Clone, Copy)]
pub(crate) struct Items<'s> {
    pub(crate) inner: Place<'s>,
    pub(crate) list_type: ListType<'s>,
}

/// How server-side apply merges a list: `x-kubernetes-list-type`.
#[derive(Clone, Copy)]
pub(crate) enum ListType<'s> {
    /// As one value.
    Atomic,
    /// By the values of its items.
    Set,
    /// By these fields of its items.
    Map(&'s [Text]),
}

/// The types of scalars.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scalar {
    Numeric,
    String,
    Boolean,
    Untyped,
}

/// How deep something without a type is looked into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Depth {
    /// Into maps.
    Maps,
    /// Not at all.
    Nothing,
}

/// What a value is taken for.
#[derive(Clone, Copy)]
pub(crate) enum Seen<'s> {
    Scalar(Scalar),
    Map(Names<'s>),
    List(Items<'s>),
}

/// What the keys of a map are.
#[derive(Clone, Copy)]
pub(crate) enum Names<'s> {
    Fields(Fields<'s>),
    Entries(Entries<'s>),
}

static NATURAL: Topology = Topology::Natural;
static ATOMIC: Topology = Topology::Atomic;
static NULL: Value = Value::Null;
static FALSE: Value = Value::Bool(false);
static ZERO: Value = Value::Int(0);
static ZERO_FLOAT: Value = Value::Float(0.0);
static NO_TEXT: Value = Value::String(Text::EMPTY);
static ZERO_QUANTITY: Value = Value::String(Text::known("0"));
static ZERO_DURATION: Value = Value::String(Text::known("0s"));
static NO_FIELDS: Value = Value::Map(Map::new());

impl<'s> Place<'s> {
    /// The place of anything.
    const ANY: Place<'static> = Place { shape: &ANY, topology: &NATURAL };
    /// The place of anything that is one value.
    const ANY_ATOMIC: Place<'static> = Place { shape: &ANY, topology: &ATOMIC };

    /// The place of a whole object.
    pub(crate) fn of(shape: &'s Shape) -> Self {
        Self { shape, topology: &NATURAL }
    }

    pub(crate) fn field(field: &'s Field) -> Self {
        Self { shape: &field.shape, topology: &field.options.topology }
    }

    pub(crate) fn atom(self) -> Atom<'s> {
        match self.shape {
            Shape::Bool => Atom::Scalar(Scalar::Boolean),
            Shape::Int32 | Shape::Int64 | Shape::Float64 => Atom::Scalar(Scalar::Numeric),
            Shape::String | Shape::Bytes | Shape::Duration => Atom::Scalar(Scalar::String),
            Shape::Time | Shape::MicroTime | Shape::Quantity => Atom::Scalar(Scalar::Untyped),
            Shape::IntOrString | Shape::SchemaOr(..) | Shape::Raw(Raw::Json) => Atom::Any(Depth::Maps),
            Shape::Raw(Raw::Extension) => Atom::Any(Depth::Nothing),
            Shape::Raw(Raw::Fields) => Atom::Map(Entries { inner: Place::ANY, atomic: false }),
            Shape::Any => Atom::Any(match self.topology {
                Topology::Atomic => Depth::Nothing,
                _ => Depth::Maps,
            }),
            Shape::Struct(ty) => {
                let atomic = match self.topology {
                    Topology::Atomic => true,
                    Topology::Granular => false,
                    _ => ty.atomic,
                };
                Atom::Struct(Fields { ty, atomic })
            }
            Shape::Map(inner) => Atom::Map(Entries {
                inner: Place::of(inner),
                atomic: matches!(self.topology, Topology::Atomic),
            }),
            Shape::List(inner) => {
                let list_type = match self.topology {
                    Topology::Natural | Topology::Granular | Topology::Atomic => ListType::Atomic,
                    Topology::Set => ListType::Set,
                    Topology::Keyed(keys) => ListType::Map(keys),
                };
                Atom::List(Items { inner: Place::of(inner), list_type })
            }
        }
    }

    /// Whether every item of a list at this place has a key, whatever its fields. True if the place is not a list.
    pub(crate) fn items_have_keys(self) -> bool {
        let Atom::List(Items { inner, list_type: ListType::Map(keys) }) = self.atom() else { return true };
        let Shape::Struct(ty) = inner.shape else { return false };
        keys.iter().all(|key| ty.field(key).is_some_and(|field| key_default(inner, field).is_some()))
    }

    /// What a value is taken for here; null and nothing are a map where they can be anything.
    pub(crate) fn see(self, value: Option<&Value>) -> Seen<'s> {
        match self.atom() {
            Atom::Scalar(scalar) => Seen::Scalar(scalar),
            Atom::Struct(fields) => Seen::Map(Names::Fields(fields)),
            Atom::Map(entries) => Seen::Map(Names::Entries(entries)),
            Atom::List(items) => Seen::List(items),
            Atom::Any(depth) => match value {
                None | Some(Value::Null | Value::Map(_)) => Seen::Map(Names::Entries(match depth {
                    Depth::Maps => Entries { inner: Place::ANY, atomic: false },
                    Depth::Nothing => Entries { inner: Place::ANY_ATOMIC, atomic: true },
                })),
                Some(Value::List(_)) => {
                    Seen::List(Items { inner: Place::ANY_ATOMIC, list_type: ListType::Atomic })
                }
                Some(_) => Seen::Scalar(Scalar::Untyped),
            },
        }
    }
}

impl<'s> Seen<'s> {
    /// Whether two values at one place are taken for the same.
    pub(crate) fn is_like(&self, other: &Seen<'_>) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}

impl<'s> Names<'s> {
    pub(crate) fn is_atomic(self) -> bool {
        match self {
            Names::Fields(fields) => fields.atomic,
            Names::Entries(entries) => entries.atomic,
        }
    }

    /// The place of a key; `None` if the type has no such field.
    pub(crate) fn place(self, key: &str) -> Option<Place<'s>> {
        match self {
            Names::Fields(fields) => match fields.ty.field(key) {
                Some(field) => Some(Place::field(field)),
                None => fields.takes_any().then_some(Place::ANY),
            },
            Names::Entries(entries) => Some(entries.inner),
        }
    }

    /// Whether a key is a field of the type.
    pub(crate) fn declares(self, key: &str) -> bool {
        matches!(self, Names::Fields(fields) if fields.ty.position(key).is_some())
    }
}

impl Fields<'_> {
    /// Whether keys that are no field are taken.
    pub(crate) fn takes_any(self) -> bool {
        self.ty.preserve_unknown_fields || self.ty.fields.is_empty()
    }
}

/// The JSON value of a field that is written although the tree does not have it.
pub(crate) fn unwritten(field: &Field) -> Option<&'static Value> {
    if !field.always {
        return None;
    }
    Some(match &field.shape {
        _ if field.optional => &NULL,
        Shape::Bool => &FALSE,
        Shape::Int32 | Shape::Int64 | Shape::IntOrString => &ZERO,
        Shape::Float64 => &ZERO_FLOAT,
        Shape::String => &NO_TEXT,
        Shape::Quantity => &ZERO_QUANTITY,
        Shape::Duration => &ZERO_DURATION,
        Shape::Struct(_) => &NO_FIELDS,
        _ => &NULL,
    })
}

/// Whether a map has nothing in it, as the form is written.
pub(crate) fn is_empty(names: Names<'_>, map: &Map, form: Form) -> bool {
    map.is_empty()
        && match (form, names) {
            (Form::Typed, Names::Fields(fields)) => !fields.ty.fields.iter().any(|field| field.always),
            _ => true,
        }
}

/// A value with raw JSON opened, which makes it plain.
pub(crate) fn opened(value: &Value) -> Cow<'_, Value> {
    match value {
        Value::Raw(raw) => {
            let decoded = json::decode_shape(&ANY, raw.as_str().as_bytes(), &UNBOUNDED);
            Cow::Owned(decoded.map(|decoded| decoded.value).unwrap_or_default())
        }
        other => Cow::Borrowed(other),
    }
}

/// Whether two values are equal to the reference, for which numbers are numbers.
pub(crate) fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Int(_), Value::Float(_)) | (Value::Float(_), Value::Int(_)) => a.as_f64() == b.as_f64(),
        (Value::List(a), Value::List(b)) => {
            a.len() == b.len() && a.iter().zip(b.iter()).all(|(a, b)| equal(a, b))
        }
        (Value::Map(a), Value::Map(b)) => {
            if std::ptr::eq(a.entries(), b.entries()) {
                return true;
            }
            if a.len() != b.len() {
                return false;
            }
            let there = Finder::of(Some(b));
            a.iter().all(|(key, value)| there.get(key).is_some_and(|other| equal(value, other)))
        }
        _ => a == b,
    }
}

/// Looks keys up in a map: by scanning it, or in an index where it is large.
pub(crate) enum Finder<'m> {
    Nothing,
    Scan(&'m Map),
    Index(HashMap<&'m str, &'m Value>),
}

impl<'m> Finder<'m> {
    /// Maps up to this size are scanned.
    const SCANNED: usize = 32;

    pub(crate) fn of(map: Option<&'m Map>) -> Self {
        match map {
            None => Self::Nothing,
            Some(map) if map.len() <= Self::SCANNED => Self::Scan(map),
            Some(map) => Self::Index(map.index()),
        }
    }

    #[inline]
    pub(crate) fn get(&self, key: &str) -> Option<&'m Value> {
        match self {
            Self::Nothing => None,
            Self::Scan(map) => map.get(key),
            Self::Index(index) => index.get(key).copied(),
        }
    }
}

/// Why an item of a list has no key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ItemKeyError {
    #[error("associative list with keys may not have a null element")]
    NullItem,
    #[error("associative list with keys may not have non-map elements")]
    NoMap,
    #[error(
        "associative list with keys has an element that omits key field {} (and doesn't have default value)",
        object::quote::Quoted(.0)
    )]
    NoKey(String),
    #[error("associative list without keys has an element that's a map type")]
    MapInSet,
    #[error("not supported: associative list with lists as elements")]
    ListInSet,
    #[error("associative list without keys has an element that's an explicit null")]
    NullInSet,
}

/// The key of a list item: its path element, in the order of elements.
#[derive(Clone, Debug)]
pub(crate) struct ItemKey(pub(crate) Element);

impl Ord for ItemKey {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.borrowed().total_cmp(other.0.borrowed())
    }
}

impl PartialOrd for ItemKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for ItemKey {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for ItemKey {}

impl<'s> Items<'s> {
    /// The key of an item as a path element. Items of an atomic list are treated as those of a set.
    pub(crate) fn element(self, item: &Value) -> Result<Element, ItemKeyError> {
        let ListType::Map(names) = self.list_type else { return set_element(item) };
        if item.is_null() {
            return Err(ItemKeyError::NullItem);
        }
        let map = item.as_map().ok_or(ItemKeyError::NoMap)?;
        let mut fields = Vec::with_capacity(names.len());
        for name in names {
            let declared = match self.inner.shape {
                Shape::Struct(ty) => ty.field(name),
                _ => None,
            };
            let default = || declared.and_then(|field| key_default(self.inner, field));
            let Some(value) = map.get(name).or_else(default) else {
                return Err(ItemKeyError::NoKey(name.to_string()));
            };
            let key = declared.map_or_else(|| Key::from(name.clone()), |field| field.name.clone());
            fields.push((key, value.clone()));
        }
        Ok(Element::Keyed(fields.into_iter().collect::<Keys>()))
    }
}

/// The value of a key field that an item does not have.
fn key_default<'s>(place: Place<'s>, field: &'s Field) -> Option<&'s Value> {
    let is_empty_by_default = |ty: &Type| EMPTY_KEYS.contains(&(ty.name.as_str(), field.name.as_str()));
    match (&field.options.default, place.shape) {
        (Some(value), _) => Some(value),
        (None, Shape::Struct(ty)) if is_empty_by_default(ty) => Some(&NO_TEXT),
        (None, _) => unwritten(field).filter(|value| !value.is_null()),
    }
}

/// Keys that count as empty where they are absent, by type and field. For all but server-side apply that is no different
/// from being absent.
const EMPTY_KEYS: [(&str, &str); 1] = [("core.v1.LocalObjectReference", "name")];

fn set_element(item: &Value) -> Result<Element, ItemKeyError> {
    match item {
        Value::Map(_) => Err(ItemKeyError::MapInSet),
        Value::List(_) => Err(ItemKeyError::ListInSet),
        Value::Null => Err(ItemKeyError::NullInSet),
        scalar => Ok(Element::Value(scalar.clone())),
    }
}

/// An object of a type as plain JSON, with every field that is written.
pub(crate) fn plain(ty: &Type, object: &Value) -> Value {
    let mut text = Vec::with_capacity(1024);
    json::encode(ty, object, &mut text);
    json::decode_shape(&ANY, &text, &UNBOUNDED).map(|decoded| decoded.value).unwrap_or_default()
}
