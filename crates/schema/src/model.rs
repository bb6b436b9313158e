//! What a type is: the one form for built-in types (static, made by the build script from `types/`) and for
//! types that are made at run time (shared, made by [`crate::Builder`]).
//!
//! Three ideas carry the encodings:
//!
//! 1. *A tree is unique.* The tree of an object never holds a value that its field cannot tell from an absent
//!    one: null, and the empty value of a field that is not [`Field::optional`]. Decoders leave those out,
//!    encoders write them where the API does ([`Field::always`]). Equal objects are equal trees.
//! 2. *Fields stand in the order in which they are written in JSON*, inlined ones in the place of the type that
//!    they come from; [`Type::wire`] says how the same fields nest in Protobuf.
//! 3. *What every decode needs lies in [`Field`]*, what only some callers ask for in [`FieldOptions`].

use crate::lookup::Lookup;
use object::{Key, Map, Text, Value};
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// A part of the model: in the program's own data, or shared on the heap.
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
    /// Group, version and kind, for a type that is an object of its own.
    pub kind: Option<GroupVersionKind>,
    /// All fields in JSON order, inlined ones included.
    pub fields: Ref<[Field]>,
    /// The same fields as Protobuf nests them, by rising number.
    pub wire: Ref<[MessageField]>,
    /// Server-side apply treats the whole as one value.
    pub atomic: bool,
    /// Which fields exclude each other, by the value of a discriminator.
    pub union: Option<Union>,
    /// Whether keys that are no field are kept in the tree instead of being reported.
    pub open: bool,
    /// Whether this type or one below it declares a default.
    pub has_defaults: bool,
    /// Whether this type or one below it declares a rule.
    pub has_rules: bool,
    /// From a field's name to its place in `fields`.
    pub(crate) lookup: Lookup,
    /// The places of the fields that are [`Field::always`] written, rising.
    pub(crate) always: Ref<[u16]>,
    /// The names of `fields` once more, for built-in types: the very texts that decoded keys point to.
    pub(crate) names: &'static [&'static str],
}

/// Types refer to each other in circles, so only the name is shown.
impl fmt::Debug for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl Type {
    /// The field called `name`.
    #[inline]
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.position(name).and_then(|at| self.fields.get(at))
    }

    /// The place of the field whose key is `key`, at `from` or after it. Keys that a decoder took from this type
    /// are told by where their text lies, without reading it.
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

    /// The place of the field called `name`.
    #[inline]
    pub fn position(&self, name: &str) -> Option<usize> {
        self.lookup.find(name, |at| self.fields.get(at).is_some_and(|field| field.name == name))
    }
}

/// The name under which an object states what it is.
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
    /// The field whose value says which member may be set.
    pub discriminator: Text,
    /// The members.
    pub members: Ref<[Member]>,
    /// Whether [`crate::validate()`] holds an object to it; otherwise rules written by hand do, in words of their own.
    pub checked: bool,
}

/// One member of a [`Union`].
pub struct Member {
    /// The discriminator's value.
    pub value: Text,
    /// The field that goes with it.
    pub field: Text,
}

/// One field of a type.
#[derive(Clone)]
pub struct Field {
    /// The name in JSON.
    pub name: Key,
    /// `,"name":`, ready to be written after another field. That of a built-in field is filled up to
    /// [`Field::PADDED`] bytes, so that it can be copied without a look at its length.
    pub(crate) quoted: Ref<str>,
    /// The length of `quoted` without the filling.
    pub(crate) quoted_length: usize,
    /// The number in Protobuf; 0 when it has none.
    pub number: u32,
    /// Empty and absent are different things: the field is a pointer in the reference.
    pub optional: bool,
    /// A list that Protobuf carries in a message of its own.
    pub boxed: bool,
    /// Written in JSON even when absent, as null or as the empty value.
    pub always: bool,
    /// What stands there.
    pub shape: Shape,
    /// The rest.
    pub options: Ref<FieldOptions>,
}

impl Field {
    /// As many bytes have the quoted names of built-in fields at least.
    pub(crate) const PADDED: usize = 32;

    /// Whether `value` is no different from an absent one here.
    #[inline]
    pub fn drops(&self, value: &Value) -> bool {
        if self.optional { value.is_null() } else { self.shape.is_empty_value(value) }
    }
}

/// How a field nests in Protobuf.
pub enum MessageField {
    /// A field.
    Field {
        /// Its number.
        number: u32,
        /// Its place in [`Type::fields`].
        index: u16,
    },
    /// Fields of an inlined type: flat in JSON, a message of their own in Protobuf.
    Inline {
        /// The message's field number.
        number: u32,
        /// The fields in it, by rising number.
        fields: Ref<[MessageField]>,
    },
}

impl MessageField {
    /// The field number under which this part stands.
    #[inline]
    pub fn number(&self) -> u32 {
        match self {
            MessageField::Field { number, .. } | MessageField::Inline { number, .. } => *number,
        }
    }
}

/// What may stand at one place of an object.
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
    /// A length of time.
    Duration,
    /// An amount of a resource.
    Quantity,
    /// A whole number of 32 bits, or text.
    IntOrString,
    /// Any JSON, kept as text.
    Raw(Raw),
    /// Any JSON, kept as a tree.
    Any,
    /// Fields of a type.
    Struct(Ref<Type>),
    /// A sequence.
    List(Ref<Shape>),
    /// Values by key.
    Map(Ref<Shape>),
    /// A JSON schema where other things may stand as well.
    SchemaOr(Alternative, Ref<Type>),
}

/// Which message carries raw JSON in Protobuf, and how the reference names its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Raw {
    /// An object of any kind.
    Extension,
    /// Any JSON value.
    Json,
    /// A set of field paths.
    Fields,
}

/// What may stand in the place of a JSON schema.
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
    /// Whether the reference keeps an earlier value of this shape when null follows.
    pub(crate) fn keeps_on_null(&self) -> bool {
        !matches!(self, Shape::List(_) | Shape::Map(_) | Shape::Bytes | Shape::Any)
    }

    /// What null stands for as an element of a list or as a value of a map.
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

    /// Whether `value` is what a field of this shape has when nothing was set.
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

/// What is known of a field beyond its shape.
#[derive(Clone)]
pub struct FieldOptions {
    /// The type's name in decoding errors: `int32`, `[]v1.Container`, `v1.PullPolicy`.
    pub go: Text,
    /// OpenAPI lists the field as required.
    pub required: bool,
    /// The values that OpenAPI lists.
    pub values: Ref<[Text]>,
    /// What an absent field becomes.
    pub default: Option<Value>,
    /// How server-side apply merges a list, a map or a struct.
    pub topology: Topology,
    /// How strategic merge patch merges it.
    pub patch: Patch,
    /// Constraints on the value, checked by [`crate::validate()`].
    pub rules: Ref<[Rule]>,
}

/// How server-side apply merges what stands at a place.
#[derive(Clone)]
pub enum Topology {
    /// By the shape alone: structs and maps field by field unless their type says otherwise, lists as one value.
    Natural,
    /// Field by field, whatever the type says.
    Granular,
    /// As one value.
    Atomic,
    /// A list of distinct scalars.
    Set,
    /// A list of structs told apart by these fields.
    Keyed(Ref<[Text]>),
}

/// How strategic merge patch treats what stands at a place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Patch {
    /// Elements are merged; the key tells structs apart, none means a list of scalars.
    pub merge: bool,
    /// The field that tells the elements apart.
    pub key: Text,
    /// Keys that the patch does not name are dropped.
    pub retain_keys: bool,
    /// The whole is replaced.
    pub replace: bool,
}

/// A constraint that is declared beside the field.
#[derive(Clone, Debug, PartialEq)]
pub enum Rule {
    /// Must be there and not empty.
    Required,
    /// Must be one of [`FieldOptions::values`] when it is not empty.
    Listed,
    /// Must not be less.
    Min(i64),
    /// Must not be more.
    Max(i64),
    /// Must lie between the two, both included.
    Between(i64, i64),
    /// At most so many bytes of text.
    MaxLength(usize),
    /// At most so many elements or entries.
    MaxItems(usize),
    /// At least so many elements or entries.
    MinItems(usize),
    /// Text of a named form.
    Format(Format),
    /// Must not change once the object exists.
    Immutable,
    /// No two elements may have the same value in this field, or, without one, be equal.
    Unique(Option<Text>),
}

/// The named forms of text.
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
    /// A name that can stand in a path.
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
