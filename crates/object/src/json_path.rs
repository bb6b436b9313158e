//! JSONPath as the reference's client library understands it:
//! `.status.conditions[?(@.type=="Ready")].status`.
//!
//! A path is parsed once and evaluated often. Evaluation walks the tree without copying it and takes up at
//! most two million values on the way, whatever the path asks for. A map gives its values in the order they
//! lie.
//!
//! Of the template language around paths only one thing is here: several actions, as in `.a}{.b`, are
//! evaluated, and the first one's values count. The loops of that language find nothing.

mod compare;
mod evaluate;
mod parse;
#[cfg(test)]
mod tests;
mod unquote;

pub use evaluate::Failure;
pub use parse::Error;

use crate::{Key, Text, Value};
use std::borrow::Cow;
use std::fmt;

/// A parsed path.
///
/// ```
/// use object::json_path::{JsonPath, Missing};
/// use object::{Map, Value};
/// let ready: Value = Map::from_iter([("type", "Ready"), ("status", "True")]).into();
/// let object: Value = Map::from_iter([("conditions", Value::from_iter([ready]))]).into();
/// let path = JsonPath::parse(r#".conditions[?(@.type=="Ready")].status"#).unwrap();
/// let found = path.find(&object, Missing::Allowed).unwrap();
/// assert_eq!(found.len(), 1);
/// assert_eq!(found[0].as_str(), Some("True"));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct JsonPath {
    text: Box<str>,
    /// The steps of each action. There is at least one.
    actions: Vec<Vec<Step>>,
}

/// Whether a path may name a field that is absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// The path finds nothing.
    Allowed,
    /// An absent field is an error.
    Refused,
}

/// A step that is applied to the values found so far.
#[derive(Clone, Debug, PartialEq)]
enum Step {
    /// The value at a key of each map.
    Field(Key),
    /// Some items of each list.
    Slice(Slice),
    /// The items of each list that a condition holds for.
    Filter(Box<Filter>),
    /// Everything that each value holds.
    Wildcard,
    /// Each value that holds something, and all such values in it.
    Recursive,
    /// What each of several paths finds.
    Union(Vec<Vec<Step>>),
    /// One text, whatever was found.
    Text(Text),
    /// A number in place of each value.
    Int(i64),
    /// A number in place of each value.
    Float(f64),
    /// A truth value in place of each value.
    Bool(bool),
    /// A word of the template language.
    Identifier(Text),
}

impl Step {
    fn name(&self) -> Option<&str> {
        match self {
            Self::Field(name) => Some(name),
            _ => None,
        }
    }
}

/// Bounds and step of a slice.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Slice {
    start: Option<i64>,
    end: End,
    step: Option<i64>,
}

/// Where a slice ends.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    /// With the list.
    Open,
    /// Before this item.
    At(i64),
    /// After the item that the slice starts with.
    Single(i64),
}

/// A condition on the items of a list.
#[derive(Clone, Debug, PartialEq)]
struct Filter {
    left: Vec<Step>,
    condition: Condition,
}

#[derive(Clone, Debug, PartialEq)]
enum Condition {
    /// The left side finds something.
    Exists,
    /// Both sides find one value each, and the comparison of the two holds.
    Compare { operator: Text, right: Vec<Step> },
}

impl JsonPath {
    /// Parses a path, without the braces around one in a template.
    pub fn parse(text: &str) -> Result<Self, Error> {
        Ok(Self { text: text.into(), actions: parse::parse(text)? })
    }

    /// The path as it was given.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The values that the path finds. Those that are not in the tree, but in the path, are owned.
    pub fn find<'v>(&self, root: &'v Value, missing: Missing) -> Result<Vec<Cow<'v, Value>>, Failure> {
        let mut left = usize::MAX;
        evaluate::find(&self.actions, root, missing, &mut left)
    }

    /// The first value that the path finds; none where it fails.
    pub fn first<'v>(&self, root: &'v Value) -> Option<Cow<'v, Value>> {
        match self.simple() {
            Some(mut names) => names.try_fold(root, Value::get).map(Cow::Borrowed),
            None => self.find(root, Missing::Allowed).ok()?.into_iter().next(),
        }
    }

    /// The first value that the path finds, for one of many paths: they take up at most `left` values
    /// together. Where there are none left, it finds nothing.
    pub fn first_within<'v>(&self, root: &'v Value, left: &mut usize) -> Option<Cow<'v, Value>> {
        let Some(names) = self.simple() else {
            return evaluate::find(&self.actions, root, Missing::Allowed, left).ok()?.into_iter().next();
        };
        let mut value = root;
        for name in names {
            let map = value.as_map()?;
            // A key is found by a scan.
            *left = left.checked_sub(1 + map.len() / 8)?;
            value = map.get(name)?;
        }
        Some(Cow::Borrowed(value))
    }

    /// The names that a path consists of, if there is nothing else in it.
    ///
    /// ```
    /// use object::json_path::JsonPath;
    /// let names = |text| JsonPath::parse(text).unwrap().simple().map(|names| names.map(str::to_owned).collect());
    /// assert_eq!(names(".spec.nodeName"), Some(vec!["spec".to_owned(), "nodeName".to_owned()]));
    /// assert_eq!(names(".spec.containers[0]"), None);
    /// ```
    pub fn simple(&self) -> Option<impl Iterator<Item = &str>> {
        let [steps] = self.actions.as_slice() else { return None };
        steps.iter().all(|step| step.name().is_some()).then(|| steps.iter().filter_map(Step::name))
    }
}

impl fmt::Display for JsonPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
