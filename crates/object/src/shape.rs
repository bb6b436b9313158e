//! What a schema says of the values of a tree, as far as an expression sees it.
//!
//! A tree does not say whether a text is a duration, or whether the order of a list counts; its schema does.
//! A reader of trees that has no schema sees them as plain JSON.

use crate::Text;

/// The schema of one value.
pub trait Shape: Send + Sync {
    /// What the value is.
    fn form(&self) -> Form<'_>;

    /// Whether the value can be null.
    fn is_nullable(&self) -> bool;

    /// The schema of the value at a key of an object or a map: of the property of that name, or of all
    /// values. `None` for a key that the schema does not know.
    fn field(&self, key: &str) -> Option<&dyn Shape>;

    /// The schema of the items of a list.
    fn items(&self) -> Option<&dyn Shape>;
}

/// The forms of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form<'s> {
    /// An integer or a string: `x-kubernetes-int-or-string`.
    IntOrString,
    /// An object with named properties, whose names are escaped in expressions ([`Shape::field`]).
    Object,
    /// An object whose keys are data.
    Map,
    /// A list, and what makes its items distinct.
    List(ListForm<'s>),
    /// A text.
    String,
    /// A text in base64.
    Bytes,
    /// A text that is a duration.
    Duration,
    /// A text that is a date.
    Date,
    /// A text that is a point in time.
    DateTime,
    /// A boolean.
    Boolean,
    /// A whole number.
    Integer,
    /// A number.
    Number,
    /// Of no known type; kept as it is and only compared: `x-kubernetes-preserve-unknown-fields`.
    Preserved,
    /// Of no type at all: an expression cannot read it.
    Unknown,
}

/// How items of a list are told apart: `x-kubernetes-list-type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListForm<'s> {
    /// By their place.
    Atomic,
    /// By their value; order does not count.
    Set,
    /// By the values of these properties; order does not count.
    Map(&'s [Text]),
}
