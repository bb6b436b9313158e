//! Labels and the selectors that pick objects by them.
//!
//! A [`Selector`] is read from text ([`Selector::parse`]) or built from the structured form of a document
//! ([`Selector::from_structured`]). Both give the same sorted list of [`Requirement`]s, and its text is the
//! canonical one. Matching asks for label values by key, so that whatever holds labels can be matched without
//! building a map, and allocates nothing. A long selector goes through the labels instead, and looks them up
//! in itself.

mod compiled;
mod parse;
mod requirement;
mod set;
#[cfg(test)]
mod tests;

pub use requirement::{Operator, Requirement};
pub use set::Set;

use crate::Text;
use crate::field;
use crate::quote::Quoted;
use compiled::Compiled;
use std::fmt;
use std::sync::Arc;

/// A set of labels that can be looked up by key.
pub trait Labels {
    /// The value of a label, if the object has it.
    fn label(&self, key: &str) -> Option<&str>;

    /// Whether `each` says yes to the key and value of every label. No label follows one it says no to.
    fn all_labels(&self, each: &mut dyn FnMut(&str, &str) -> bool) -> bool;
}

/// Why a selector cannot be had.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Error {
    /// A requirement of a selector's text is wrong.
    #[error("unable to parse requirement: {0}")]
    InRequirement(#[source] Box<Error>),
    /// Something else should have come next.
    #[error("found '{found}', expected: {expected}")]
    Unexpected {
        /// What came.
        found: String,
        /// What should have come.
        expected: &'static str,
    },
    /// The values of a set have to be in parentheses.
    #[error("found '{found}' expected: '('")]
    NoSet {
        /// What came.
        found: String,
    },
    /// A key is malformed.
    #[error(transparent)]
    Key(#[from] field::Error),
    /// A key, an operator and values do not go together.
    #[error(transparent)]
    Requirement(#[from] field::Aggregate),
    /// An operator of the structured form does not exist.
    #[error("{} is not a valid label selector operator", Quoted(.0))]
    Operator(String),
}

/// One expression of the structured form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expression<'a> {
    /// The key of the label.
    pub key: &'a str,
    /// `In`, `NotIn`, `Exists` or `DoesNotExist`.
    pub operator: &'a str,
    /// The values, for the operators that take some.
    pub values: Vec<&'a str>,
}

/// A choice of objects by their labels: all requirements have to hold.
///
/// ```
/// use object::label::{Selector, Set};
/// let selector = Selector::parse("tier in (web, api),app=shop,!canary").unwrap();
/// assert_eq!(selector.to_string(), "app=shop,!canary,tier in (api,web)");
/// let labels: Set = [("app", "shop"), ("tier", "web")].into_iter().collect();
/// assert!(selector.matches(&labels));
/// assert_eq!(selector.exact_value("app"), Some("shop"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector {
    /// Sorted by key; `None` for the selector that picks nothing.
    requirements: Option<Vec<Requirement>>,
    /// The requirements by key, if there are many.
    compiled: Option<Arc<Compiled>>,
}

/// Up to this many requirements are checked one by one.
const FEW: usize = 8;

/// Everything.
impl Default for Selector {
    fn default() -> Self {
        Self::everything()
    }
}

impl Selector {
    /// The selector that picks every object.
    pub const fn everything() -> Self {
        Self { requirements: Some(Vec::new()), compiled: None }
    }

    /// The selector that picks no object.
    pub const fn nothing() -> Self {
        Self { requirements: None, compiled: None }
    }

    /// Reads the text form: requirements split by commas, each `key`, `!key`, `key=value`, `key==value`,
    /// `key!=value`, `key in (a,b)`, `key notin (a,b)`, `key>1` or `key<1`.
    pub fn parse(text: &str) -> Result<Self, Error> {
        Self::parse_at(&field::Path::UNSET, text)
    }

    /// Reads the text form of a selector that is the value of a field, which errors name.
    pub fn parse_at(path: &field::Path<'_>, text: &str) -> Result<Self, Error> {
        parse::parse(path, text).map(Self::new)
    }

    /// Builds a selector from `matchLabels` and `matchExpressions`. Without any it picks everything; a
    /// document that has no selector at all picks [`nothing`](Self::nothing).
    ///
    /// ```
    /// use object::label::{Expression, Selector};
    /// let expression = Expression { key: "tier", operator: "NotIn", values: vec!["db", "cache"] };
    /// let selector = Selector::from_structured([("app", "shop")], [expression]).unwrap();
    /// assert_eq!(selector.to_string(), "app=shop,tier notin (cache,db)");
    /// ```
    pub fn from_structured<'a>(
        match_labels: impl IntoIterator<Item = (&'a str, &'a str)>,
        match_expressions: impl IntoIterator<Item = Expression<'a>>,
    ) -> Result<Self, Error> {
        let mut requirements = Vec::new();
        for (key, value) in match_labels {
            requirements.push(Requirement::new(key, Operator::Equals, &[value])?);
        }
        for Expression { key, operator, values } in match_expressions {
            let operator = match operator {
                "In" => Operator::In,
                "NotIn" => Operator::NotIn,
                "Exists" => Operator::Exists,
                "DoesNotExist" => Operator::DoesNotExist,
                other => return Err(Error::Operator(other.to_owned())),
            };
            requirements.push(Requirement::new(key, operator, &values)?);
        }
        Ok(Self::new(requirements))
    }

    /// Builds a selector for exactly these labels, without checking that they are valid labels.
    pub fn from_labels<'a>(labels: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        Self::new(labels.into_iter().map(|(key, value)| Requirement::equals(key, value)).collect())
    }

    fn new(mut requirements: Vec<Requirement>) -> Self {
        requirements.sort_by(|a, b| a.key().cmp(b.key()));
        let compiled = (requirements.len() > FEW).then(|| Arc::new(Compiled::of(&requirements)));
        Self { requirements: Some(requirements), compiled }
    }

    /// Adds a requirement. A selector that picks nothing goes on picking nothing.
    pub fn add(&mut self, requirement: Requirement) {
        if let Some(mut requirements) = self.requirements.take() {
            requirements.push(requirement);
            *self = Self::new(requirements);
        }
    }

    /// Whether the selector picks every object.
    pub fn is_everything(&self) -> bool {
        self.requirements.as_ref().is_some_and(Vec::is_empty)
    }

    /// Whether the selector picks no object.
    pub fn is_nothing(&self) -> bool {
        self.requirements.is_none()
    }

    /// The requirements, sorted by key; `None` if the selector picks nothing.
    pub fn requirements(&self) -> Option<&[Requirement]> {
        self.requirements.as_deref()
    }

    /// Whether the selector picks an object with these labels.
    pub fn matches(&self, labels: &(impl Labels + ?Sized)) -> bool {
        match &self.compiled {
            Some(compiled) => compiled.matches(labels),
            None => self.matches_with(|key| labels.label(key)),
        }
    }

    /// Reports whether it picks an object whose labels a function looks up.
    ///
    /// ```
    /// let selector = object::label::Selector::parse("a=1,!b").unwrap();
    /// assert!(selector.matches_with(|key| (key == "a").then_some("1")));
    /// ```
    pub fn matches_with<'a>(&self, lookup: impl Fn(&str) -> Option<&'a str>) -> bool {
        match (&self.compiled, &self.requirements) {
            (Some(compiled), _) => compiled.matches_with(lookup),
            (None, Some(requirements)) => {
                requirements.iter().all(|each| each.matches_value(lookup(each.key())))
            }
            (None, None) => false,
        }
    }

    /// The one value that the selector requires of a label, for a look-up in an index.
    pub fn exact_value(&self, key: &str) -> Option<&str> {
        self.sets_of(key).find_map(|values| match values {
            [only] => Some(only.as_str()),
            _ => None,
        })
    }

    /// The values, sorted, of which it demands one of a label, for look-ups in an index.
    ///
    /// ```
    /// let selector = object::label::Selector::parse("a in (2,1),a,b!=3").unwrap();
    /// assert_eq!(selector.demanded_values("a").unwrap(), ["1", "2"]);
    /// assert_eq!(selector.demanded_values("b"), None);
    /// ```
    pub fn demanded_values(&self, key: &str) -> Option<&[Text]> {
        self.sets_of(key).min_by_key(|values| values.len())
    }

    fn sets_of(&self, key: &str) -> impl Iterator<Item = &[Text]> {
        let requirements = self.requirements.as_deref().unwrap_or_default();
        requirements.iter().filter(move |each| each.key() == key).filter_map(Requirement::demanded_values)
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, requirement) in self.requirements.iter().flatten().enumerate() {
            let separator = if index > 0 { "," } else { "" };
            write!(f, "{separator}{requirement}")?;
        }
        Ok(())
    }
}
