//! Paths as managed fields know them: the elements that lead from an object to one of its fields, list items
//! identified by their keys or values where the list has such.
//!
//! [`Element`]s have the order and the equality of the reference, on which the text of a set of paths
//! depends: a whole number and a fraction are one number if their 64-bit floats are equal. For whole numbers
//! past 2⁵³ that makes "equal" not transitive, so elements are never handed to a sort as they are.
//!
//! The key fields of a list and their defaults are in the schema.

mod order;
mod resolve;
pub(crate) mod scan;
#[cfg(test)]
mod tests;
pub(crate) mod text;

pub(crate) use order::strict;
pub use scan::Error as JsonError;
pub use text::Error;

use crate::{Key, Value};
use std::cmp::Ordering;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// One step of a path.
///
/// ```
/// use object::path::Element;
/// let port: Element = r#"k:{"protocol":"TCP","containerPort":80}"#.parse().unwrap();
/// assert_eq!(port, Element::keyed([("containerPort", 80.into()), ("protocol", "TCP".into())]));
/// assert_eq!(port.text(), r#"k:{"containerPort":80,"protocol":"TCP"}"#);
/// assert_eq!(port.to_string(), r#"[containerPort=80,protocol="TCP"]"#);
/// ```
#[derive(Clone, Debug)]
pub enum Element {
    /// The field of a map.
    Field(Key),
    /// The list item whose fields have these values.
    Keyed(Keys),
    /// The list item that is this value.
    Value(Value),
    /// The list item at this index. A negative index has a text, but matches no item.
    Index(i64),
}

impl Element {
    /// The field of a map.
    pub fn field(name: impl Into<Key>) -> Self {
        Self::Field(name.into())
    }

    /// The list item whose fields have these values.
    pub fn keyed<K: Into<Key>>(fields: impl IntoIterator<Item = (K, Value)>) -> Self {
        Self::Keyed(fields.into_iter().collect())
    }

    /// The element without what it owns.
    #[inline]
    pub fn borrowed(&self) -> ElementRef<'_> {
        match self {
            Self::Field(name) => ElementRef::Field(name),
            Self::Keyed(keys) => ElementRef::Keyed(keys),
            Self::Value(value) => ElementRef::Value(value),
            Self::Index(index) => ElementRef::Index(*index),
        }
    }
}

/// The key fields of a list item, in the order of their names.
#[derive(Clone, Debug)]
pub struct Keys(Arc<[(Key, Value)]>);

impl Deref for Keys {
    type Target = [(Key, Value)];
    #[inline]
    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl<K: Into<Key>> FromIterator<(K, Value)> for Keys {
    fn from_iter<I: IntoIterator<Item = (K, Value)>>(fields: I) -> Self {
        let mut fields: Vec<_> = fields.into_iter().map(|(name, value)| (name.into(), value)).collect();
        if !fields.is_sorted_by(|a, b| a.0 <= b.0) {
            fields.sort_by(|a, b| a.0.cmp(&b.0));
        }
        Self(fields.into())
    }
}

/// An [`Element`] that borrows what it says, to look for one without building it.
#[derive(Clone, Copy, Debug)]
pub enum ElementRef<'a> {
    /// The field of a map.
    Field(&'a str),
    /// The list item whose fields have these values; they are in the order of their names.
    Keyed(&'a [(Key, Value)]),
    /// The list item that is this value.
    Value(&'a Value),
    /// The list item at this place.
    Index(i64),
}

impl<'a> From<&'a Element> for ElementRef<'a> {
    #[inline]
    fn from(element: &'a Element) -> Self {
        element.borrowed()
    }
}

/// The field of that name.
impl<'a> From<&'a str> for ElementRef<'a> {
    #[inline]
    fn from(name: &'a str) -> Self {
        Self::Field(name)
    }
}

impl ElementRef<'_> {
    /// The element with its own copies.
    pub fn to_owned(self) -> Element {
        match self {
            Self::Field(name) => Element::Field(name.into()),
            Self::Keyed(fields) => Element::Keyed(Keys(fields.into())),
            Self::Value(value) => Element::Value(value.clone()),
            Self::Index(index) => Element::Index(index),
        }
    }

    /// An order that is total, also where numbers past 2⁵³ are concerned: a whole number comes before a
    /// fraction that is equal to it. For maps and sorts.
    pub fn total_cmp(self, other: Self) -> Ordering {
        order::strict(self, other)
    }
}

impl Ord for ElementRef<'_> {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Field(a), Self::Field(b)) => a.cmp(b),
            _ => order::elements(*self, *other, order::values),
        }
    }
}

impl PartialOrd for ElementRef<'_> {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for ElementRef<'_> {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for ElementRef<'_> {}

impl Ord for Element {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        self.borrowed().cmp(&other.borrowed())
    }
}

impl PartialOrd for Element {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Element {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.borrowed() == other.borrowed()
    }
}

impl Eq for Element {}

/// As messages show it.
impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        text::display(self, f)
    }
}

/// The elements from an object to one of its fields.
///
/// ```
/// use object::path::{Element, Path};
/// use object::{Map, Value};
/// let path = Path::from_iter([
///     Element::field("containers"),
///     Element::keyed([("name", "web".into())]),
///     Element::field("image"),
/// ]);
/// assert_eq!(path.to_string(), r#".containers[name="web"].image"#);
///
/// let web: Value = Map::from_iter([("name", "web"), ("image", "nginx")]).into();
/// let pod: Value = Map::from_iter([("containers", Value::from_iter([web]))]).into();
/// assert_eq!(path.get(&pod), Some(&"nginx".into()));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Path(Vec<Element>);

impl Path {
    /// The path to the whole object.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Appends an element.
    pub fn push(&mut self, element: Element) {
        self.0.push(element);
    }

    /// Removes the last element.
    pub fn pop(&mut self) -> Option<Element> {
        self.0.pop()
    }

    /// The value at the path.
    pub fn get<'v>(&self, root: &'v Value) -> Option<&'v Value> {
        resolve::get(self, root)
    }

    /// The value at the path, mutable. Shared parts on the way are copied, if there is such a value.
    pub fn get_mut<'v>(&self, root: &'v mut Value) -> Option<&'v mut Value> {
        resolve::get_mut(self, root)
    }
}

impl Deref for Path {
    type Target = [Element];
    #[inline]
    fn deref(&self) -> &[Element] {
        &self.0
    }
}

impl From<Vec<Element>> for Path {
    fn from(elements: Vec<Element>) -> Self {
        Self(elements)
    }
}

impl FromIterator<Element> for Path {
    fn from_iter<I: IntoIterator<Item = Element>>(elements: I) -> Self {
        Self(elements.into_iter().collect())
    }
}

/// The text of the path in messages about conflicts.
impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|element| element.fmt(f))
    }
}
