//! Places (positions) in a type, and how server-side apply treats the values there.
//!
//! Values have two forms. A *typed* value is the tree of an object: it omits empty fields, so an absent field
//! that is always written counts as its empty value. A *plain* value is JSON as it was sent, with all its
//! nulls. The fields of a custom object other than `kind`, `apiVersion` and `metadata` are plain in its tree,
//! too.

use crate::node::{ANY, UNBOUNDED};
use object::path::{Element, Keys};
use object::{Key, Map, Text, Value};
use schema::structural::{self, Additional, Node, NodeType};
use schema::{Field, Raw, Shape, Topology, Type, builtin, json};
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
pub(crate) enum Place<'s> {
    /// In a type of fields.
    Shape { shape: &'s Shape, topology: &'s Topology },
    /// In the schema of a custom kind, below its root. Values there are plain.
    Node(NodePlace<'s>),
}

/// A place in the schema of a custom kind.
#[derive(Clone, Copy)]
pub(crate) struct NodePlace<'s> {
    node: &'s Node,
    /// Whether the schema keeps unknown fields here or further out: server-side apply takes both for the
    /// same.
    keeps_unknown: bool,
}

/// What values at a place are.
#[derive(Clone, Copy)]
pub(crate) enum Atom<'s> {
    Scalar(Scalar),
    Map(Names<'s>),
    List(Items<'s>),
    /// Anything: what it is shows in the value.
    Any(Anything<'s>),
}

/// The fields of a type.
#[derive(Clone, Copy)]
pub(crate) struct Fields<'s> {
    pub(crate) ty: &'s Type,
    pub(crate) atomic: bool,
}

/// The properties of an object in the schema of a custom kind.
#[derive(Clone, Copy)]
pub(crate) struct Properties<'s> {
    place: NodePlace<'s>,
    /// Of a whole object or an embedded one: the type with the fields that every object has.
    object: Option<&'s Type>,
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

/// What something without a type is taken for, as a map and as a list.
#[derive(Clone, Copy)]
pub(crate) enum Anything<'s> {
    /// Maps are looked into.
    Maps,
    /// Nothing is looked into.
    Atomic,
    /// What a schema says of maps and of lists counts for those.
    Node(NodePlace<'s>),
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
    Properties(Properties<'s>),
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
    const ANY: Place<'static> = Place::Shape { shape: &ANY, topology: &NATURAL };
    /// The place of anything that is one value.
    const ANY_ATOMIC: Place<'static> = Place::Shape { shape: &ANY, topology: &ATOMIC };

    /// The place of a whole object.
    pub(crate) fn of(shape: &'s Shape) -> Self {
        Self::Shape { shape, topology: &NATURAL }
    }

    pub(crate) fn field(field: &'s Field) -> Self {
        Self::Shape { shape: &field.shape, topology: &field.options.topology }
    }

    /// How values are written here, where those around are written in `form`.
    pub(crate) fn form(self, form: Form) -> Form {
        match self {
            Self::Shape { .. } => form,
            Self::Node(_) => Form::Plain,
        }
    }

    pub(crate) fn atom(self) -> Atom<'s> {
        let (shape, topology) = match self {
            Self::Shape { shape, topology } => (shape, topology),
            Self::Node(place) => return place.atom(),
        };
        match shape {
            Shape::Bool => Atom::Scalar(Scalar::Boolean),
            Shape::Int32 | Shape::Int64 | Shape::Float64 => Atom::Scalar(Scalar::Numeric),
            Shape::String | Shape::Bytes | Shape::Duration => Atom::Scalar(Scalar::String),
            Shape::Time | Shape::MicroTime | Shape::Quantity => Atom::Scalar(Scalar::Untyped),
            Shape::IntOrString | Shape::SchemaOr(..) | Shape::Raw(Raw::Json) => Atom::Any(Anything::Maps),
            Shape::Raw(Raw::Extension) => Atom::Any(Anything::Atomic),
            Shape::Raw(Raw::Fields) => {
                Atom::Map(Names::Entries(Entries { inner: Place::ANY, atomic: false }))
            }
            Shape::Any => Atom::Any(match topology {
                Topology::Atomic => Anything::Atomic,
                _ => Anything::Maps,
            }),
            Shape::Struct(ty) => Atom::Map(match &ty.custom {
                Some(schema) => Names::Properties(Properties {
                    place: NodePlace::new(schema.root(), false),
                    object: Some(ty),
                }),
                None => Names::Fields(Fields {
                    ty,
                    atomic: match topology {
                        Topology::Atomic => true,
                        Topology::Granular => false,
                        _ => ty.atomic,
                    },
                }),
            }),
            Shape::Map(inner) => Atom::Map(Names::Entries(Entries {
                inner: Place::of(inner),
                atomic: matches!(topology, Topology::Atomic),
            })),
            Shape::List(inner) => {
                let list_type = match topology {
                    Topology::Natural | Topology::Granular | Topology::Atomic => ListType::Atomic,
                    Topology::Set => ListType::Set,
                    Topology::Keyed(keys) => ListType::Map(keys),
                };
                Atom::List(Items { inner: Place::of(inner), list_type })
            }
        }
    }

    /// Whether every item of a list at this place has a key, whatever its fields. True if the place is not a
    /// list.
    pub(crate) fn items_have_keys(self) -> bool {
        let Atom::List(items) = self.atom() else { return true };
        let ListType::Map(keys) = items.list_type else { return true };
        keys.iter().all(|key| items.key_default(key).is_some())
    }

    /// What a value is taken for here; null and nothing are a map where they can be anything.
    pub(crate) fn see(self, value: Option<&Value>) -> Seen<'s> {
        match self.atom() {
            Atom::Scalar(scalar) => Seen::Scalar(scalar),
            Atom::Map(names) => Seen::Map(names),
            Atom::List(items) => Seen::List(items),
            Atom::Any(anything) => match value {
                None | Some(Value::Null | Value::Map(_)) => Seen::Map(anything.names()),
                Some(Value::List(_)) => Seen::List(anything.items()),
                Some(_) => Seen::Scalar(Scalar::Untyped),
            },
        }
    }
}

impl<'s> NodePlace<'s> {
    /// The place of a part of a schema, within one that keeps unknown fields or does not.
    fn new(node: &'s Node, keeps_unknown: bool) -> Self {
        Self { node, keeps_unknown: keeps_unknown || node.preserve_unknown_fields }
    }

    fn below(self, node: &'s Node) -> Place<'s> {
        Place::Node(Self::new(node, self.keeps_unknown))
    }

    fn atom(self) -> Atom<'s> {
        match self.node.ty {
            None => Atom::Any(Anything::Node(self)),
            Some(NodeType::Object) => Atom::Map(Names::Properties(self.properties())),
            Some(NodeType::Array) => Atom::List(self.items()),
            Some(NodeType::Boolean) => Atom::Scalar(Scalar::Boolean),
            Some(NodeType::Integer | NodeType::Number) => Atom::Scalar(Scalar::Numeric),
            Some(NodeType::String) => {
                let format = self.node.rules.as_ref().map(|rules| rules.format.as_str());
                Atom::Scalar(match format.unwrap_or_default() {
                    "" | "byte" => Scalar::String,
                    _ => Scalar::Untyped,
                })
            }
        }
    }

    fn properties(self) -> Properties<'s> {
        let object = || builtin::by_name("meta.v1.PartialObjectMetadata");
        Properties { place: self, object: self.node.embedded_resource.then(object).flatten() }
    }

    fn items(self) -> Items<'s> {
        Items {
            inner: self.node.items.as_ref().map_or(Place::ANY_ATOMIC, |items| self.below(items)),
            list_type: match &self.node.list_type {
                structural::ListType::Atomic => ListType::Atomic,
                structural::ListType::Set => ListType::Set,
                structural::ListType::Map(keys) => ListType::Map(keys),
            },
        }
    }
}

impl<'s> Anything<'s> {
    pub(crate) fn names(self) -> Names<'s> {
        match self {
            Self::Maps => Names::Entries(Entries { inner: Place::ANY, atomic: false }),
            Self::Atomic => Names::Entries(Entries { inner: Place::ANY_ATOMIC, atomic: true }),
            Self::Node(place) => Names::Properties(place.properties()),
        }
    }

    pub(crate) fn items(self) -> Items<'s> {
        match self {
            Self::Maps | Self::Atomic => Items { inner: Place::ANY_ATOMIC, list_type: ListType::Atomic },
            Self::Node(place) => place.items(),
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
            Names::Properties(properties) => properties.place.node.atomic_map,
            Names::Entries(entries) => entries.atomic,
        }
    }

    /// The fields that have types; properties of a schema are not among them.
    pub(crate) fn fields(self) -> &'s [Field] {
        match self {
            Names::Fields(fields) => &fields.ty.fields,
            Names::Properties(properties) => properties.object.map_or(&[], |ty| &ty.fields),
            Names::Entries(_) => &[],
        }
    }

    /// The field that a key is, if it has a type.
    pub(crate) fn field(self, key: &str) -> Option<&'s Field> {
        match self {
            Names::Fields(fields) => fields.ty.field(key),
            Names::Properties(properties) => properties.object?.field(key),
            Names::Entries(_) => None,
        }
    }

    /// The place of a key; `None` if the type has no such field.
    pub(crate) fn place(self, key: &str) -> Option<Place<'s>> {
        if let Some(field) = self.field(key) {
            return Some(Place::field(field));
        }
        match self {
            Names::Properties(Properties { place, .. }) if let Some(node) = place.node.property(key) => {
                Some(place.below(node))
            }
            _ => self.others(),
        }
    }

    /// The place of keys that are no field; `None` if there are none.
    pub(crate) fn others(self) -> Option<Place<'s>> {
        match self {
            Names::Fields(fields) => fields.takes_any().then_some(Place::ANY),
            Names::Entries(entries) => Some(entries.inner),
            Names::Properties(properties) => match &properties.place.node.additional {
                Additional::Node(node) => Some(properties.place.below(node)),
                Additional::Any => Some(Place::ANY),
                Additional::None => {
                    let takes_any = properties.place.keeps_unknown || properties.is_empty();
                    takes_any.then_some(Place::ANY)
                }
            },
        }
    }

    /// Whether a key is a field of the type.
    pub(crate) fn declares(self, key: &str) -> bool {
        match self {
            Names::Fields(fields) => fields.ty.position(key).is_some(),
            Names::Properties(properties) => {
                self.field(key).is_some() || properties.place.node.property(key).is_some()
            }
            Names::Entries(_) => false,
        }
    }

    /// Whether there are no fields, and what values are shows in themselves.
    pub(crate) fn is_deduced(self) -> bool {
        let has_fields = match self {
            Names::Fields(fields) => !fields.ty.fields.is_empty(),
            Names::Properties(properties) => !properties.is_empty(),
            Names::Entries(_) => false,
        };
        if has_fields {
            return false;
        }
        match self.others() {
            Some(Place::Shape { shape: Shape::Any, topology }) => !matches!(topology, Topology::Atomic),
            // A scalar of any type counts as such, too.
            Some(Place::Node(place)) => {
                matches!(place.atom(), Atom::Any(_) | Atom::Scalar(Scalar::Untyped))
            }
            _ => false,
        }
    }
}

impl Fields<'_> {
    /// Whether keys that are no field are taken.
    pub(crate) fn takes_any(self) -> bool {
        self.ty.preserve_unknown_fields || self.ty.fields.is_empty()
    }
}

impl Properties<'_> {
    fn is_empty(self) -> bool {
        self.object.is_none() && self.place.node.properties.is_empty()
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
        && match form {
            Form::Typed => !names.fields().iter().any(|field| field.always),
            Form::Plain => true,
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
        let there = map.lookup(names.len());
        let mut fields = Vec::with_capacity(names.len());
        for name in names {
            let Some(value) = there.get(name).or_else(|| self.key_default(name)) else {
                return Err(ItemKeyError::NoKey(name.to_string()));
            };
            let known = self.names().and_then(|names| names.field(name));
            let key = known.map_or_else(|| Key::from(name.clone()), |field| field.name.clone());
            fields.push((key, value.clone()));
        }
        Ok(Element::Keyed(fields.into_iter().collect::<Keys>()))
    }

    /// What items are if they are maps.
    fn names(self) -> Option<Names<'s>> {
        match self.inner.atom() {
            Atom::Map(names) => Some(names),
            Atom::Any(anything) => Some(anything.names()),
            Atom::Scalar(_) | Atom::List(_) => None,
        }
    }

    /// The value of a key field that an item does not have.
    fn key_default(self, name: &str) -> Option<&'s Value> {
        let names = self.names()?;
        let Some(field) = names.field(name) else {
            let Names::Properties(properties) = names else { return None };
            let default = properties.place.node.property(name)?.default.as_ref()?.value();
            return Some(default).filter(|default| !default.is_null());
        };
        let is_empty_by_default = |ty: &Type| EMPTY_KEYS.contains(&(ty.name.as_str(), field.name.as_str()));
        match (&field.options.default, names) {
            (Some(value), _) => Some(value),
            (None, Names::Fields(fields)) if is_empty_by_default(fields.ty) => Some(&NO_TEXT),
            (None, Names::Fields(_)) => unwritten(field).filter(|value| !value.is_null()),
            (None, _) => None,
        }
    }
}

/// Keys that count as empty where they are absent, by type and field. For all but server-side apply that is
/// no different from being absent.
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
