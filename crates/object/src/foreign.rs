//! Values of expressions that JSON cannot hold, such as a point in time, where a tree of plain JSON is made
//! of an expression's value.
//!
//! The reference keeps such values as they are in its trees, and refuses them when it compares the tree with
//! a schema, in errors that show them as Go does. A tree has such a value as [`Value::Bytes`], which plain
//! JSON has nowhere.

use crate::Value;

/// A value that JSON cannot hold, as Go shows it.
///
/// ```
/// use object::{Value, foreign::Foreign};
/// let (type_name, text) = ("time.Duration".to_owned(), "1s".to_owned());
/// let second = Foreign { type_name, text, source: "1000000000".to_owned() };
/// let value = Value::from(second.clone());
/// assert_eq!(Foreign::of(&value), Some(second));
/// assert_eq!(Foreign::of(&Value::from("1s")), None);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Foreign {
    /// Go's name of its type: `%T`.
    pub type_name: String,
    /// Its text: `%v`.
    pub text: String,
    /// Its text in the syntax of Go: `%#v`.
    pub source: String,
}

/// What stands between the three texts.
const SEPARATOR: char = '\0';

impl Foreign {
    /// The value that a tree of plain JSON has at a place; `None` if JSON can hold it.
    pub fn of(value: &Value) -> Option<Self> {
        let Value::Bytes(bytes) = value else { return None };
        let mut parts = str::from_utf8(bytes).ok()?.split(SEPARATOR).map(str::to_owned);
        Some(Self { type_name: parts.next()?, text: parts.next()?, source: parts.next()? })
    }
}

impl From<Foreign> for Value {
    fn from(foreign: Foreign) -> Self {
        let Foreign { type_name, text, source } = foreign;
        let parts = [type_name, text.replace(SEPARATOR, "\u{fffd}"), source];
        Value::Bytes(parts.join("\0").into_bytes().into())
    }
}
