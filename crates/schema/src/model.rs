//! The model of a type, for built-in types (static, made by the build script from `types/`) and for custom
//! types (shared, made at run time by [`crate::Builder`]).
//!
//! Three rules that the encodings rely on:
//!
//! 1. *A tree is unique.* The tree of an object never holds a value that means the same as an absent field:
//!    null, and the empty value of a field that is not [`Field::optional`]. Decoders leave those out,
//!    encoders write them where the API does ([`Field::always`]). Equal objects are equal trees.
//! 2. *Fields are in JSON order*, inlined ones where the inlined type is; [`Type::wire`] says how the same
//!    fields nest in Protobuf.
//! 3. *[`Field`] holds what every decode reads*; [`FieldOptions`] holds the rest.

use crate::lookup::Lookup;
use crate::structural::Structural;
use object::{Key, Map, Text, Value};
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// A reference to a part of the model: static data, or shared on the heap.
pub enum Ref<T: ?Sized + 'static> {
    /// Built in.
    Static(&'static T),
    /// Made at run time.
    Shared(Arc<T>),
}

impl<T: ?Sized> Deref for Ref<T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        match self {
            Ref::Static(part) => part,
            Ref::Shared(part) => part,
        }
    }
}

impl<T: ?Sized> Clone for Ref<T> {
    fn clone(&self) -> Self {
        match self {
            Ref::Static(part) => Ref::Static(part),
            Ref::Shared(part) => Ref::Shared(part.clone()),
        }
    }
}

impl<T: ?Sized> From<&'static T> for Ref<T> {
    fn from(part: &'static T) -> Self {
        Ref::Static(part)
    }
}

impl<T: ?Sized> From<&Ref<T>> for Ref<T> {
    fn from(part: &Ref<T>) -> Self {
        part.clone()
    }
}

impl fmt::Debug for Ref<Type> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// A type with named fields.
pub struct Type {
    /// `core.v1.Container`.
    pub name: Text,
    /// The name in OpenAPI documents: `io.k8s.api.core.v1.Container`.
    pub openapi: Text,
    /// The name in decoding errors: `Container`.
    pub struct_name: Text,
    /// Group, version and kind, for the type of an object.
    pub kind: Option<GroupVersionKind>,
    /// All fields in JSON order, inlined ones included.
    pub fields: Ref<[Field]>,
    /// The same fields as Protobuf nests them, by ascending number.
    pub wire: Ref<[MessageField]>,
    /// Server-side apply merges a value of this type as a whole.
    pub atomic: bool,
    /// The fields that exclude each other, by the value of a discriminator.
    pub union: Option<Union>,
    /// Whether unknown fields are preserved instead of pruned and reported.
    pub preserve_unknown_fields: bool,
    /// The structural schema of a custom kind: all fields but `kind`, `apiVersion` and `metadata` are in this
    /// schema alone.
    pub custom: Option<Arc<Structural>>,
    /// Whether this type or a type that it refers to declares a default.
    pub has_defaults: bool,
    /// Whether this type or a type that it refers to declares a rule.
    pub has_rules: bool,
    /// The index in `fields` by name.
    pub(crate) lookup: Lookup,
    /// The indexes of the fields that are [`Field::always`] written, ascending.
    pub(crate) always: Ref<[u16]>,
    /// The names of `fields` of a built-in type. Decoded keys point to these same texts.
    pub(crate) names: &'static [&'static str],
}

/// Shows only the name, because types refer to each other in cycles.
impl fmt::Debug for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl Type {
    /// The number of the schema that objects are decoded by: that of a custom kind, otherwise one.
    pub fn schema_number(&self) -> u32 {
        self.custom.as_ref().map_or(1, |custom| custom.number())
    }

    /// The field called `name`.
    #[inline]
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.position(name).and_then(|at| self.fields.get(at))
    }

    /// The index of the field whose key is `key`, at `from` or after it. A key that a decoder took from this
    /// type is found by the address of its text, without comparing the text.
    #[inline(always)]
    pub(crate) fn position_from(&self, from: usize, key: &Key) -> Option<usize> {
        let text = key.as_str().as_ptr();
        let ahead = self.names.get(from..).unwrap_or_default();
        match ahead.iter().position(|name| std::ptr::eq(name.as_ptr(), text)) {
            Some(steps) => Some(from + steps),
            None => self.position_by_text(from, key),
        }
    }

    #[inline(never)]
    fn position_by_text(&self, from: usize, key: &Key) -> Option<usize> {
        self.position(key).filter(|at| *at >= from)
    }

    /// The index of the field called `name`.
    #[inline]
    pub fn position(&self, name: &str) -> Option<usize> {
        self.lookup.find(name, |at| self.fields.get(at).is_some_and(|field| field.name == name))
    }
}

/// The group, version and kind of an object.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupVersionKind {
    /// The API group; empty for the core group.
    pub group: Text,
    /// `v1`, `v1beta1`, ...
    pub version: Text,
    /// `Pod`.
    pub kind: Text,
}

impl GroupVersionKind {
    /// `v1` or `apps/v1`, as in `apiVersion`.
    pub fn api_version(&self) -> Text {
        if self.group.is_empty() {
            self.version.clone()
        } else {
            format!("{}/{}", self.group, self.version).into()
        }
    }
}

/// A discriminated union.
#[derive(Clone)]
pub struct Union {
    /// The field whose value names the member that may be set.
    pub discriminator: Text,
    /// The members.
    pub members: Ref<[Member]>,
    /// Whether [`crate::validate()`] checks it; if not, a strategy does, with its own messages.
    pub checked: bool,
}

/// One member of a [`Union`].
pub struct Member {
    /// The discriminator's value.
    pub value: Text,
    /// The field that this value allows.
    pub field: Text,
}

/// One field of a type.
#[derive(Clone)]
pub struct Field {
    /// The name in JSON.
    pub name: Key,
    /// `,"name":`, ready to be written after another field. For a built-in field it is padded to
    /// [`Field::PADDED`] bytes, so that a copy has a fixed length.
    pub(crate) quoted: Ref<str>,
    /// The length of `quoted` without the padding.
    pub(crate) quoted_length: usize,
    /// The Protobuf field number; 0 if it has none.
    pub number: u32,
    /// An empty value differs from an absent one: the field is a pointer in the reference.
    pub optional: bool,
    /// A list that Protobuf wraps in a message of its own.
    pub boxed: bool,
    /// Written in JSON even when absent, as null or as the empty value.
    pub always: bool,
    /// The shape of the value.
    pub shape: Shape,
    /// The options that only some callers need.
    pub options: Ref<FieldOptions>,
}

impl Field {
    /// The minimum length of the quoted names of built-in fields, in bytes.
    pub(crate) const PADDED: usize = 32;

    /// Whether `value` means the same as an absent field.
    #[inline]
    pub fn drops(&self, value: &Value) -> bool {
        if self.optional { value.is_null() } else { self.shape.is_empty_value(value) }
    }
}

/// A field of a Protobuf message: one field, or the message of an inlined type.
pub enum MessageField {
    /// A field.
    Field {
        /// Its number.
        number: u32,
        /// Its index in [`Type::fields`].
        index: u16,
    },
    /// Fields of an inlined type: flat in JSON, a message of their own in Protobuf.
    Inline {
        /// The message's field number.
        number: u32,
        /// The fields of the message, by ascending number.
        fields: Ref<[MessageField]>,
    },
}

impl MessageField {
    /// The Protobuf field number.
    #[inline]
    pub fn number(&self) -> u32 {
        match self {
            MessageField::Field { number, .. } | MessageField::Inline { number, .. } => *number,
        }
    }
}

/// The shape of a value: its JSON type, or its type with named fields.
#[derive(Clone)]
pub enum Shape {
    /// `true` or `false`.
    Bool,
    /// A whole number of 32 bits.
    Int32,
    /// A whole number of 64 bits.
    Int64,
    /// A number.
    Float64,
    /// Text.
    String,
    /// Binary data: base64 in JSON.
    Bytes,
    /// A time in whole seconds.
    Time,
    /// A time in microseconds.
    MicroTime,
    /// A duration.
    Duration,
    /// A quantity of a resource.
    Quantity,
    /// A whole number of 32 bits, or text.
    IntOrString,
    /// Any JSON, kept as text.
    Raw(Raw),
    /// Any JSON, kept as a tree.
    Any,
    /// Fields of a type.
    Struct(Ref<Type>),
    /// A list.
    List(Ref<Shape>),
    /// A map from strings.
    Map(Ref<Shape>),
    /// A JSON schema, or an alternative to it.
    SchemaOr(Alternative, Ref<Type>),
}

/// The Protobuf message that carries raw JSON, and its type in the reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Raw {
    /// An object of any kind.
    Extension,
    /// Any JSON value.
    Json,
    /// A set of field paths.
    Fields,
}

/// The alternatives to a JSON schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alternative {
    /// `true` or `false`.
    Bool,
    /// A list of schemas.
    Schemas,
    /// A list of property names.
    Strings,
}

impl Shape {
    /// Whether the reference keeps the value of a field of this shape if the field is repeated with null.
    pub(crate) fn keeps_on_null(&self) -> bool {
        !matches!(self, Shape::List(_) | Shape::Map(_) | Shape::Bytes | Shape::Any)
    }

    /// The meaning of null as an element of a list or a value of a map.
    pub fn empty_element(&self) -> Value {
        match self {
            Shape::Bool => Value::Bool(false),
            Shape::Int32 | Shape::Int64 | Shape::IntOrString => Value::Int(0),
            Shape::Float64 => Value::Float(0.0),
            Shape::String => Value::String(Text::default()),
            Shape::Quantity => Value::String(Text::known("0")),
            Shape::Duration => Value::String(Text::known("0s")),
            Shape::Bytes => Value::Bytes(Arc::from([])),
            Shape::Struct(_) | Shape::Map(_) => Map::new().into(),
            Shape::List(_) => Vec::new().into(),
            Shape::Time | Shape::MicroTime | Shape::Raw(_) | Shape::Any | Shape::SchemaOr(..) => Value::Null,
        }
    }

    /// Whether `value` is the empty value of this shape.
    #[inline(always)]
    pub fn is_empty_value(&self, value: &Value) -> bool {
        match value {
            Value::Null => !matches!(self, Shape::Any),
            Value::Bool(flag) => !flag,
            Value::Int(number) => *number == 0,
            Value::Float(number) => *number == 0.0,
            Value::String(text) => match self {
                Shape::Quantity => text == "0",
                Shape::Duration => text == "0s",
                Shape::IntOrString => false,
                _ => text.is_empty(),
            },
            Value::Bytes(bytes) => bytes.is_empty(),
            Value::Raw(_) => false,
            Value::List(list) => list.is_empty(),
            Value::Map(map) => map.is_empty(),
        }
    }
}

/// The options of a field in the type files.
#[derive(Clone)]
pub struct FieldOptions {
    /// The type's name in decoding errors: `int32`, `[]v1.Container`, `v1.PullPolicy`.
    pub go: Text,
    /// Whether OpenAPI lists the field as required.
    pub required: bool,
    /// The enum values in OpenAPI.
    pub values: Ref<[Text]>,
    /// The default.
    pub default: Option<Value>,
    /// How server-side apply merges a list, a map or a struct.
    pub topology: Topology,
    /// How strategic merge patch merges the field.
    pub patch: Patch,
    /// Constraints on the value, checked by [`crate::validate()`].
    pub rules: Ref<[Rule]>,
}

/// How server-side apply merges a value.
#[derive(Clone)]
pub enum Topology {
    /// By the shape: structs and maps field by field unless the type is atomic, lists as one value.
    Natural,
    /// Field by field, even if the type is atomic.
    Granular,
    /// As one value.
    Atomic,
    /// A list of distinct scalars: `listType=set`.
    Set,
    /// A list of structs with these key fields: `listType=map`.
    Keyed(Ref<[Text]>),
}

/// How strategic merge patch merges a value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Patch {
    /// Elements are merged: structs by `key`, scalars without one.
    pub merge: bool,
    /// The merge key.
    pub key: Text,
    /// Fields that the patch does not name are dropped.
    pub retain_keys: bool,
    /// The value is replaced as a whole.
    pub replace: bool,
}

/// A constraint that the type file declares for a field.
#[derive(Clone, Debug, PartialEq)]
pub enum Rule {
    /// Must be set and not empty.
    Required,
    /// Must be one of [`FieldOptions::values`] when it is not empty.
    Listed,
    /// Must not be less.
    Min(i64),
    /// Must not be more.
    Max(i64),
    /// Must be between the two, both included.
    Between(i64, i64),
    /// At most this many bytes of text.
    MaxLength(usize),
    /// At most this many elements or entries.
    MaxItems(usize),
    /// At least this many elements or entries.
    MinItems(usize),
    /// Text of a named format.
    Format(Format),
    /// Must not change once the object exists.
    Immutable,
    /// No two elements may have the same value in this field, or, without one, be equal.
    Unique(Option<Text>),
}

/// The named formats of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A DNS label as of RFC 1123.
    Dns1123Label,
    /// A DNS subdomain as of RFC 1123.
    Dns1123Subdomain,
    /// A DNS label as of RFC 1035.
    Dns1035Label,
    /// A name with an optional DNS prefix.
    QualifiedName,
    /// The value of a label.
    LabelValue,
    /// A name that is a valid path segment.
    PathSegment,
    /// A key of a config map.
    ConfigMapKey,
    /// The name of an environment variable.
    EnvVarName,
    /// The name of a port.
    PortName,
    /// An IP address.
    Ip,
}
