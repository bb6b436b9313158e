//! Values of expressions.
//!
//! A value of an object is a reference into its tree, with the shape that a schema gives it; what an
//! expression makes is shared. A clone copies at most a pointer and a count.

mod convert;
mod entries;
mod equal;
mod formats;
mod json;
mod list;
mod map;
mod meter;
mod order;
mod same;
#[cfg(test)]
mod tests;
mod text;
pub(crate) mod time;
pub(crate) mod zone;

pub use entries::Entries;
pub(crate) use entries::{whole, whole_unsigned};
pub(crate) use equal::equal;
pub(crate) use formats::base64;
pub use list::Merged;
pub(crate) use map::of_shape;
pub use meter::Meter;
pub(crate) use text::double;

use crate::Type;
use object::shape::Shape;
use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// A value.
#[derive(Clone, Debug)]
pub enum Value<'a> {
    /// `null`.
    Null,
    /// A boolean.
    Bool(bool),
    /// A signed whole number.
    Int(i64),
    /// An unsigned whole number.
    Uint(u64),
    /// A floating point number.
    Double(f64),
    /// A text.
    String(Str<'a>),
    /// Bytes.
    Bytes(Bytes<'a>),
    /// A length of time, in nanoseconds, as Go has it.
    Duration(i64),
    /// A point in time.
    Timestamp(Timestamp),
    /// A type.
    Type(Type),
    /// A list.
    List(List<'a>),
    /// A map, or an object of a schema.
    Map(Map<'a>),
    /// A message that an expression made, with its type and its fields.
    Struct(Arc<Struct<'a>>),
    /// Named values that are found out when they are asked for.
    Fields(&'a dyn Fields),
    /// A value or none, of the type `optional_type`.
    Optional(Option<Arc<Value<'a>>>),
    /// A value of a library: a quantity, an address, an authorizer.
    Opaque(Arc<dyn Opaque>),
    /// A value of a tree of no known type, which is only compared.
    Preserved(&'a object::Value),
}

/// A text that is borrowed or shared.
#[derive(Clone)]
pub enum Str<'a> {
    /// Of a tree or of the activation.
    Borrowed(&'a str),
    /// Of a constant, or made by the expression.
    Shared(Arc<str>),
}

/// Bytes that are borrowed or shared.
#[derive(Clone, Debug)]
pub enum Bytes<'a> {
    /// Of a tree or of the activation.
    Borrowed(&'a [u8]),
    /// Of a constant, or made by the expression.
    Shared(Arc<[u8]>),
}

/// A point in time: seconds since 1970 and the nanoseconds after, from 0001-01-01T00:00:00Z to
/// 9999-12-31T23:59:59.999999999Z. Its text has the offset that it was written with; it is compared without.
#[derive(Clone, Copy, Debug)]
pub struct Timestamp {
    /// Seconds since 1970.
    pub seconds: i64,
    /// Nanoseconds of the second.
    pub nanos: u32,
    /// Minutes east of UTC that its text has.
    pub offset: i16,
}

/// A list.
#[derive(Clone)]
pub enum List<'a> {
    /// A list of a tree, and its shape; without one it is plain JSON.
    Tree(&'a [object::Value], Option<&'a dyn Shape>),
    /// Elements that an expression made.
    Elements(Arc<Vec<Value<'a>>>),
    /// Texts that a function of a library made, such as `split`: a `[]string` in Go, which the reference does
    /// not take everywhere where it takes a list of texts.
    Texts(Arc<Vec<Str<'a>>>),
    /// Two lists, one after the other, and how long they are together.
    Concat(Arc<(List<'a>, List<'a>, usize)>),
    /// A list of a schema, to which another one was added.
    Merged(Arc<Merged<'a>>),
}

/// A map.
#[derive(Clone)]
pub enum Map<'a> {
    /// A map of a tree, and its shape; without one it is plain JSON.
    Tree(&'a object::Map, Option<&'a dyn Shape>),
    /// Entries that an expression made.
    Entries(Arc<Entries<'a>>),
}

/// A message that an expression made.
#[derive(Clone, Debug)]
pub struct Struct<'a> {
    /// The name of its type.
    pub name: Arc<str>,
    /// The fields that it has.
    pub fields: Vec<(Arc<str>, Value<'a>)>,
}

/// Named values that are found out when they are asked for, such as the variables of a policy.
pub trait Fields: fmt::Debug + Send + Sync {
    /// The type of the whole.
    fn type_of(&self) -> Type;
    /// The value of a field; `None` if there is no such field.
    fn field(&self, name: &str) -> Option<crate::Outcome<'_>>;
}

/// A value of a library.
pub trait Opaque: fmt::Debug + Send + Sync {
    /// Its type.
    fn type_of(&self) -> Type;
    /// Whether it equals another value of a library; `None` if the two cannot be compared, which is an error.
    fn equals(&self, other: &dyn Opaque) -> Option<bool>;
    /// Its size where costs count one; otherwise a value counts as 1.
    fn size(&self) -> Option<u64> {
        None
    }
    /// The length of the longest pattern that it checks texts with, which `validate` costs.
    fn pattern_size(&self) -> Option<u64> {
        None
    }
    /// What the reference makes it of; `None` if it makes it of nothing that can be asked for.
    fn native(&self) -> Option<Native> {
        None
    }
    /// The value itself, for the library that knows its type.
    fn as_any(&self) -> &dyn Any;
}

/// What the reference makes a value of a library of.
#[derive(Clone, Debug)]
pub struct Native {
    /// Go's name of its type.
    pub type_name: &'static str,
    /// What errors of conversions call the value.
    pub name: &'static str,
    /// Its text.
    pub text: String,
    /// Whether it is a value of expressions itself.
    pub is_value: bool,
}

impl Native {
    /// What has a text, and is no value of expressions itself.
    pub(crate) fn of(type_name: &'static str, name: &'static str, shown: &impl fmt::Display) -> Self {
        Self { type_name, name, text: shown.to_string(), is_value: false }
    }
}

impl Str<'_> {
    /// The text.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Borrowed(text) => text,
            Self::Shared(text) => text,
        }
    }
}

impl<'a> From<&'a str> for Str<'a> {
    fn from(text: &'a str) -> Self {
        Self::Borrowed(text)
    }
}

impl From<String> for Str<'_> {
    fn from(text: String) -> Self {
        Self::Shared(text.into())
    }
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(text: &'a str) -> Self {
        Self::String(Str::Borrowed(text))
    }
}

impl From<String> for Value<'_> {
    fn from(text: String) -> Self {
        Self::String(text.into())
    }
}

impl fmt::Debug for Str<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl Bytes<'_> {
    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        match self {
            Self::Borrowed(bytes) => bytes,
            Self::Shared(bytes) => bytes,
        }
    }
}

impl fmt::Debug for List<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tree(items, _) => f.debug_list().entries(*items).finish(),
            Self::Elements(elements) => fmt::Debug::fmt(elements, f),
            Self::Texts(texts) => fmt::Debug::fmt(texts, f),
            Self::Concat(parts) => f.debug_list().entry(&parts.0).entry(&parts.1).finish(),
            Self::Merged(merged) => fmt::Debug::fmt(merged, f),
        }
    }
}

impl fmt::Debug for Map<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tree(map, _) => fmt::Debug::fmt(map, f),
            Self::Entries(entries) => fmt::Debug::fmt(entries, f),
        }
    }
}
