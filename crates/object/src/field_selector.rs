//! Selectors that pick objects by the values of a few of their fields:
//! `metadata.name=a,status.phase!=Failed`.
//!
//! A field that an object does not have counts as empty. Matching asks for values by field and allocates
//! nothing; a long selector asks for each field once. The caller decides which fields a kind has
//! ([`Selector::try_map`]).

use crate::Text;
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

/// Why a text is not a field selector.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A term has no operator.
    #[error("invalid selector: '{selector}'; can't understand '{term}'")]
    Term {
        /// The whole text.
        selector: String,
        /// The term.
        term: String,
    },
    /// A backslash before a character that needs none, or at the end.
    #[error("invalid field selector: invalid escape sequence: {0}")]
    Escape(String),
    /// A character that needs a backslash has none. The message names it by number.
    #[error("invalid field selector: unescaped character in value: {}", u32::from(*.0))]
    Unescaped(char),
}

/// How a requirement relates a field to its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operator {
    /// The field has the value.
    Equals,
    /// The field has another value.
    NotEquals,
}

/// A field, an operator and a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    /// Which field.
    pub field: Text,
    /// How field and value relate.
    pub operator: Operator,
    /// The value, without escapes.
    pub value: Text,
}

impl Requirement {
    /// Whether the requirement holds for the value of the field.
    pub fn matches_value(&self, value: Option<&str>) -> bool {
        let equal = value.unwrap_or_default() == self.value;
        equal == (self.operator == Operator::Equals)
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let operator = match self.operator {
            Operator::Equals => "=",
            Operator::NotEquals => "!=",
        };
        write!(f, "{}{operator}{}", self.field, escape(&self.value))
    }
}

/// A choice of objects by their fields: all requirements have to hold.
///
/// ```
/// use object::field_selector::Selector;
/// let selector = Selector::parse("spec.nodeName=a,metadata.name!=b").unwrap();
/// assert_eq!(selector.to_string(), "metadata.name!=b,spec.nodeName=a");
/// assert_eq!(selector.exact_value("spec.nodeName"), Some("a"));
/// assert!(selector.matches_with(|field| (field == "spec.nodeName").then_some("a")));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector {
    /// Sorted by their text; `None` for the selector that picks nothing.
    requirements: Option<Vec<Requirement>>,
    /// The requirements by field, if there are many.
    compiled: Option<Arc<[Rule]>>,
}

/// Up to this many requirements are checked one by one.
const FEW: usize = 8;

/// The condition of a selector on one field.
#[derive(Debug, PartialEq, Eq)]
struct Rule {
    field: Text,
    /// The field has this value.
    equal: Option<Text>,
    /// The field has none of these values, sorted.
    unequal: Vec<Text>,
    /// The requirements contradict each other: two different values.
    is_impossible: bool,
}

impl Rule {
    /// All rules of a selector.
    fn all(requirements: &[Requirement]) -> Arc<[Self]> {
        let mut sorted: Vec<&Requirement> = requirements.iter().collect();
        sorted.sort_by(|a, b| a.field.cmp(&b.field).then_with(|| a.value.cmp(&b.value)));
        sorted.chunk_by(|a, b| a.field == b.field).filter_map(Self::of).collect()
    }

    /// Of all requirements of one field, sorted by value.
    fn of(requirements: &[&Requirement]) -> Option<Self> {
        let values = |operator| {
            let own = requirements.iter().filter(move |each| each.operator == operator);
            own.map(|each| each.value.clone())
        };
        let mut equal: Vec<Text> = values(Operator::Equals).collect();
        equal.dedup();
        Some(Self {
            field: requirements.first()?.field.clone(),
            is_impossible: equal.len() > 1,
            equal: equal.into_iter().next(),
            unequal: values(Operator::NotEquals).collect(),
        })
    }

    fn allows(&self, value: &str) -> bool {
        !self.is_impossible
            && self.equal.as_ref().is_none_or(|equal| equal == value)
            && self.unequal.binary_search_by(|own| own.as_str().cmp(value)).is_err()
    }
}

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

    /// The selector that asks for one value of one field.
    pub fn equal(field: impl Into<Text>, value: impl Into<Text>) -> Self {
        Self::of(field.into(), Operator::Equals, value.into())
    }

    /// The selector that asks for any other value of one field.
    pub fn not_equal(field: impl Into<Text>, value: impl Into<Text>) -> Self {
        Self::of(field.into(), Operator::NotEquals, value.into())
    }

    fn of(field: Text, operator: Operator, value: Text) -> Self {
        Self::new(vec![Requirement { field, operator, value }])
    }

    fn new(requirements: Vec<Requirement>) -> Self {
        let compiled = (requirements.len() > FEW).then(|| Rule::all(&requirements));
        Self { requirements: Some(requirements), compiled }
    }

    /// Reads the text form: terms split by commas, each `field=value`, `field==value` or `field!=value`. In a
    /// value, comma, equals sign and backslash are escaped by a backslash.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let mut terms = split_terms(text);
        terms.sort_unstable();
        let mut requirements = Vec::with_capacity(terms.len());
        for term in terms.into_iter().filter(|term| !term.is_empty()) {
            let Some((field, operator, value)) = split_term(term) else {
                return Err(Error::Term { selector: text.to_owned(), term: term.to_owned() });
            };
            let value = unescape(value)?;
            requirements.push(Requirement { field: field.into(), operator, value: value.into() });
        }
        requirements.retain(|each| !(each.field.is_empty() && each.value.is_empty()));
        Ok(Self::new(requirements))
    }

    /// Turns each field and value into another, such as an old name of a field into its new one, or refuses
    /// it. A requirement whose field and value both become empty is dropped.
    ///
    /// ```
    /// use object::field_selector::Selector;
    /// let selector = Selector::parse("name=a").unwrap();
    /// let renamed: Result<_, ()> = selector.try_map(|_, value| Ok(("metadata.name".into(), value.clone())));
    /// assert_eq!(renamed.unwrap().to_string(), "metadata.name=a");
    /// ```
    pub fn try_map<E>(
        &self,
        mut map: impl FnMut(&Text, &Text) -> Result<(Text, Text), E>,
    ) -> Result<Self, E> {
        let Some(requirements) = &self.requirements else { return Ok(Self::nothing()) };
        let mut mapped = Vec::with_capacity(requirements.len());
        for requirement in requirements {
            let (field, value) = map(&requirement.field, &requirement.value)?;
            if !field.is_empty() || !value.is_empty() {
                mapped.push(Requirement { field, operator: requirement.operator, value });
            }
        }
        Ok(Self::new(mapped))
    }

    /// Adds the requirements of another selector.
    pub fn and(self, other: Self) -> Self {
        match (self.requirements, other.requirements) {
            (Some(mut all), Some(more)) => {
                all.extend(more);
                Self::new(all)
            }
            _ => Self::nothing(),
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

    /// The requirements; `None` if the selector picks nothing.
    pub fn requirements(&self) -> Option<&[Requirement]> {
        self.requirements.as_deref()
    }

    /// Whether the selector picks an object whose fields a function looks up.
    pub fn matches_with<'a>(&self, lookup: impl Fn(&str) -> Option<&'a str>) -> bool {
        match (&self.compiled, &self.requirements) {
            (Some(rules), _) => rules.iter().all(|rule| rule.allows(lookup(&rule.field).unwrap_or_default())),
            (None, Some(requirements)) => {
                requirements.iter().all(|each| each.matches_value(lookup(&each.field)))
            }
            (None, None) => false,
        }
    }

    /// The value that the selector requires of a field, for a look-up in an index.
    pub fn exact_value(&self, field: &str) -> Option<&str> {
        self.requirements
            .iter()
            .flatten()
            .find(|each| each.operator == Operator::Equals && each.field == field)
            .map(|each| each.value.as_str())
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

/// Puts the backslashes into a value that the text form needs.
///
/// ```
/// assert_eq!(object::field_selector::escape("a=b,c"), r"a\=b\,c");
/// ```
pub fn escape(value: &str) -> Cow<'_, str> {
    if !value.contains(['\\', ',', '=']) {
        return Cow::Borrowed(value);
    }
    let mut out = String::with_capacity(value.len() + 4);
    for character in value.chars() {
        if matches!(character, '\\' | ',' | '=') {
            out.push('\\');
        }
        out.push(character);
    }
    Cow::Owned(out)
}

/// Takes the backslashes of the text form out of a value.
pub fn unescape(value: &str) -> Result<Cow<'_, str>, Error> {
    if !value.contains(['\\', ',', '=']) {
        return Ok(Cow::Borrowed(value));
    }
    let mut out = String::with_capacity(value.len());
    let mut characters = value.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => match characters.next() {
                Some(escaped @ ('\\' | ',' | '=')) => out.push(escaped),
                Some(other) => return Err(Error::Escape(format!("\\{other}"))),
                None => return Err(Error::Escape("\\".to_owned())),
            },
            ',' | '=' => return Err(Error::Unescaped(character)),
            _ => out.push(character),
        }
    }
    Ok(Cow::Owned(out))
}

/// Splits at the commas that are not escaped.
fn split_terms(text: &str) -> Vec<&str> {
    let mut escaped = false;
    text.split(|character| match character {
        _ if escaped => {
            escaped = false;
            false
        }
        '\\' => {
            escaped = true;
            false
        }
        _ => character == ',',
    })
    .collect()
}

/// Splits at the first operator; a field has no escapes.
fn split_term(term: &str) -> Option<(&str, Operator, &str)> {
    let at = term.find('=')?;
    let (before, after) = (term.get(..at)?, term.get(at + 1..)?);
    match before.strip_suffix('!') {
        Some(field) => Some((field, Operator::NotEquals, after)),
        None => Some((before, Operator::Equals, after.strip_prefix('=').unwrap_or(after))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_selector_matches_nothing() {
        let nothing = Selector::nothing();
        assert!(!nothing.matches_with(|_| None));
        assert!(nothing.is_nothing() && !nothing.is_everything());
        assert!(nothing.clone().and(Selector::everything()).is_nothing());
        assert_eq!(nothing.try_map(|_, _| Err(())), Ok(Selector::nothing()));
        assert_eq!(nothing.exact_value("a"), None);
        assert_eq!(nothing.to_string(), "");
    }

    #[test]
    fn terms_are_joined_in_their_order() {
        let selector = Selector::equal("b", "1").and(Selector::not_equal("a", "x,y"));
        assert_eq!(selector.to_string(), r"b=1,a!=x\,y");
        assert_eq!(selector.requirements().unwrap().len(), 2);
        assert!(selector.matches_with(|field| Some(if field == "b" { "1" } else { "x" })));
    }

    #[test]
    fn mapping_may_refuse_or_drop() {
        let selector = Selector::parse("a=1,b=2").unwrap();
        let refused = selector.try_map(|field, _| Err::<(Text, Text), _>(field.clone()));
        assert_eq!(refused, Err("a".into()));
        let dropped: Result<_, ()> = selector.try_map(|field, value| {
            Ok(if field == "a" { Default::default() } else { (field.clone(), value.clone()) })
        });
        assert_eq!(dropped.unwrap().to_string(), "b=2");
    }

    #[test]
    fn escapes_survive_the_round_trip() {
        for value in ["", "plain", r"\", ",=", r"a\b,c=d", "é,é"] {
            assert_eq!(unescape(&escape(value)).unwrap(), value);
        }
    }

    #[test]
    fn long_selectors_match_as_their_requirements_do() {
        let values = [None, Some("1"), Some("2"), Some("")];
        for text in ["a=1", "a!=1,b=2", "a=1,a=2", "a!=1,a!=2,b!=", "a=,b!=2", "a=1,b!=1,b!=2"] {
            let short = Selector::parse(text).unwrap();
            let long = Selector::parse(&[text; 9].join(",")).unwrap();
            assert!(short.compiled.is_none() && long.compiled.is_some());
            for (a, b) in values.iter().flat_map(|a| values.iter().map(move |b| (*a, *b))) {
                let lookup = |field: &str| if field == "a" { a } else { b };
                assert_eq!(short.matches_with(lookup), long.matches_with(lookup), "{text} {a:?} {b:?}");
            }
        }
    }
}
