//! One requirement of a label selector.

use crate::Text;
use crate::field::{Aggregate, BadValue, Error, List, Path};
use crate::name;
use crate::quote::{parse_i64, quote_each};
use std::fmt;

/// Up to how many values are compared one by one.
const FEW: usize = 8;

/// How a requirement relates a label to its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operator {
    /// The label has one of the values.
    In,
    /// The label is missing or has none of the values.
    NotIn,
    /// The label has the value, written `=`.
    Equals,
    /// The label has the value, written `==`.
    DoubleEquals,
    /// The label is missing or has another value.
    NotEquals,
    /// The label exists.
    Exists,
    /// The label is missing.
    DoesNotExist,
    /// The label is an integer above the value.
    GreaterThan,
    /// The label is an integer below the value.
    LessThan,
}

/// A key, an operator and values.
///
/// ```
/// use object::label::{Operator, Requirement};
/// let requirement = Requirement::new("tier", Operator::In, &["web", "api"]).unwrap();
/// assert!(requirement.matches_value(Some("api")));
/// assert!(!requirement.matches_value(None));
/// assert_eq!(requirement.to_string(), "tier in (api,web)");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    pub(super) key: Text,
    pub(super) operator: Operator,
    /// Sorted.
    pub(super) values: Vec<Text>,
    /// The value as a number, for the operators that compare numbers.
    pub(super) bound: i64,
}

impl Requirement {
    /// Builds a requirement, and checks that its parts are well formed and go together.
    pub fn new(key: &str, operator: Operator, values: &[&str]) -> Result<Self, Aggregate> {
        Self::new_at(&Path::UNSET, key, operator, values)
    }

    /// Builds a requirement of a selector that is the value of a field, which errors name.
    pub fn new_at(
        path: &Path<'_>,
        key: &str,
        operator: Operator,
        values: &[&str],
    ) -> Result<Self, Aggregate> {
        let mut errors = List::new();
        let values_path = path.child("values");
        errors.extend(check_key(&path.child("key"), key));
        if let Some(detail) = wrong_count(operator, values.len()) {
            errors.push(Error::invalid(&values_path, go_slice(values), detail));
        }
        let compares = matches!(operator, Operator::GreaterThan | Operator::LessThan);
        for (index, value) in values.iter().enumerate() {
            if compares && parse_i64(value).is_err() {
                let detail = "for 'Gt', 'Lt' operators, the value must be an integer";
                errors.push(Error::invalid(&values_path.index(index), *value, detail));
            }
        }
        for (index, value) in values.iter().enumerate() {
            let messages = name::label_value(value);
            if !messages.is_empty() {
                let item = values_path.index(index);
                errors.push(Error::invalid(&item.key(key), *value, messages.join("; ")));
            }
        }
        match Aggregate::new(errors) {
            Some(aggregate) => Err(aggregate),
            None => Ok(Self::unchecked(key, operator, values)),
        }
    }

    /// The requirement of exactly one value, unchecked.
    pub(super) fn equals(key: &str, value: &str) -> Self {
        Self::unchecked(key, Operator::Equals, &[value])
    }

    fn unchecked(key: &str, operator: Operator, values: &[&str]) -> Self {
        let bound = match (operator, values) {
            (Operator::GreaterThan | Operator::LessThan, [value]) => parse_i64(value).unwrap_or(0),
            _ => 0,
        };
        let mut values: Vec<Text> = values.iter().map(|&value| value.into()).collect();
        values.sort();
        Self { key: key.into(), operator, values, bound }
    }

    /// The key of the label.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// How label and values relate.
    pub fn operator(&self) -> Operator {
        self.operator
    }

    /// The values, sorted.
    pub fn values(&self) -> &[Text] {
        &self.values
    }

    /// Whether the requirement holds for the value of the label, or for its absence.
    pub fn matches_value(&self, value: Option<&str>) -> bool {
        match (self.operator, value) {
            (Operator::Exists, value) => value.is_some(),
            (Operator::DoesNotExist, value) => value.is_none(),
            (Operator::In | Operator::Equals | Operator::DoubleEquals, Some(value)) => self.has(value),
            (Operator::NotIn | Operator::NotEquals, Some(value)) => !self.has(value),
            (Operator::NotIn | Operator::NotEquals, None) => true,
            (Operator::GreaterThan, Some(value)) => parse_i64(value).is_ok_and(|number| number > self.bound),
            (Operator::LessThan, Some(value)) => parse_i64(value).is_ok_and(|number| number < self.bound),
            (_, None) => false,
        }
    }

    /// The values of which the label has to have one, if it has to.
    pub(super) fn demanded_values(&self) -> Option<&[Text]> {
        match self.operator {
            Operator::In | Operator::Equals | Operator::DoubleEquals => Some(&self.values),
            _ => None,
        }
    }

    fn has(&self, value: &str) -> bool {
        if self.values.len() <= FEW {
            return self.values.iter().any(|own| own == value);
        }
        self.values.binary_search_by(|own| own.as_str().cmp(value)).is_ok()
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, operator, values, .. } = self;
        let values = values.join(",");
        match operator {
            Operator::In => write!(f, "{key} in ({values})"),
            Operator::NotIn => write!(f, "{key} notin ({values})"),
            Operator::Equals => write!(f, "{key}={values}"),
            Operator::DoubleEquals => write!(f, "{key}=={values}"),
            Operator::NotEquals => write!(f, "{key}!={values}"),
            Operator::Exists => write!(f, "{key}"),
            Operator::DoesNotExist => write!(f, "!{key}"),
            Operator::GreaterThan => write!(f, "{key}>{values}"),
            Operator::LessThan => write!(f, "{key}<{values}"),
        }
    }
}

/// The errors of a key, as one error.
pub(super) fn check_key(path: &Path<'_>, key: &str) -> Option<Error> {
    let messages = name::label_key(key);
    (!messages.is_empty()).then(|| Error::invalid(path, key, messages.join("; ")))
}

fn wrong_count(operator: Operator, count: usize) -> Option<&'static str> {
    match operator {
        Operator::In | Operator::NotIn if count == 0 => {
            Some("for 'in', 'notin' operators, values set can't be empty")
        }
        Operator::Equals | Operator::DoubleEquals | Operator::NotEquals if count != 1 => {
            Some("exact-match compatibility requires one single value")
        }
        Operator::Exists | Operator::DoesNotExist if count != 0 => {
            Some("values set must be empty for exists and does not exist")
        }
        Operator::GreaterThan | Operator::LessThan if count != 1 => {
            Some("for 'Gt', 'Lt' operators, exactly one value is required")
        }
        _ => None,
    }
}

/// Texts as a Go literal.
fn go_slice(values: &[&str]) -> BadValue {
    BadValue::Raw(match values {
        [] => "[]string(nil)".to_owned(),
        values => format!("[]string{{{}}}", quote_each(values.iter().copied())),
    })
}
