//! Several errors: collected in a list, and as one aggregate.

use super::Error;
use std::collections::HashSet;
use std::fmt;
use std::ops::Deref;

/// The most errors that a list keeps.
pub const MOST_ERRORS: usize = 1_000;
/// The most bytes of text in the errors that a list keeps.
pub const MOST_TEXT: usize = 128 << 10;

/// Errors in the order they were found. Past [`MOST_ERRORS`] and [`MOST_TEXT`] they are only counted.
///
/// ```
/// use object::field::{Error, List, MOST_ERRORS, Path};
/// let mut errors = List::new();
/// errors.extend((0..MOST_ERRORS + 5).map(|at| Error::required(&Path::new("a").index(at), "")));
/// assert_eq!((errors.len(), errors.left_out()), (MOST_ERRORS, 5));
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct List {
    errors: Vec<Error>,
    bytes: usize,
    left_out: usize,
}

impl List {
    /// No errors.
    pub const fn new() -> Self {
        Self { errors: Vec::new(), bytes: 0, left_out: 0 }
    }

    /// Adds an error.
    pub fn push(&mut self, error: Error) {
        self.push_with(|| error);
    }

    /// Adds an error that is only made if it is kept.
    pub fn push_with(&mut self, make: impl FnOnce() -> Error) {
        if self.left_out > 0 || self.errors.len() >= MOST_ERRORS || self.bytes >= MOST_TEXT {
            self.left_out += 1;
            return;
        }
        let error = make();
        self.bytes += error.text_len();
        self.errors.push(error);
    }

    /// Adds the errors of another list, and the number of errors that it has left out.
    pub fn append(&mut self, other: List) {
        let left_out = other.left_out;
        self.extend(other.errors);
        self.left_out += left_out;
    }

    /// Counts errors that were never made.
    pub fn leave_out(&mut self, count: usize) {
        self.left_out += count;
    }

    /// How many errors were only counted.
    pub fn left_out(&self) -> usize {
        self.left_out
    }

    /// The errors that were kept.
    pub fn into_vec(self) -> Vec<Error> {
        self.errors
    }
}

impl Deref for List {
    type Target = [Error];

    fn deref(&self) -> &[Error] {
        &self.errors
    }
}

impl Extend<Error> for List {
    fn extend<I: IntoIterator<Item = Error>>(&mut self, errors: I) {
        errors.into_iter().for_each(|error| self.push(error));
    }
}

impl FromIterator<Error> for List {
    fn from_iter<I: IntoIterator<Item = Error>>(errors: I) -> Self {
        let mut list = Self::new();
        list.extend(errors);
        list
    }
}

/// The errors of several rules.
impl FromIterator<List> for List {
    fn from_iter<I: IntoIterator<Item = List>>(lists: I) -> Self {
        let mut all = Self::new();
        lists.into_iter().for_each(|list| all.append(list));
        all
    }
}

impl From<Error> for List {
    fn from(error: Error) -> Self {
        Self::from_iter([error])
    }
}

impl<'a> IntoIterator for &'a List {
    type Item = &'a Error;
    type IntoIter = std::slice::Iter<'a, Error>;

    fn into_iter(self) -> Self::IntoIter {
        self.errors.iter()
    }
}

/// Several errors as one, without repeats of the same text. There is at least one.
///
/// ```
/// use object::field::{Aggregate, Error, List, Path};
/// let missing = |name| Error::required(&Path::new(name), "");
/// let aggregate = Aggregate::new(List::from_iter([missing("a"), missing("b"), missing("a")])).unwrap();
/// assert_eq!(aggregate.to_string(), "[a: Required value, b: Required value]");
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Aggregate(List);

impl Aggregate {
    /// Gathers errors; an empty list is no error.
    pub fn new(errors: List) -> Option<Self> {
        let mut seen = HashSet::new();
        let mut kept = errors;
        if kept.len() > 1 {
            kept.errors.retain(|error| seen.insert(error.to_string()));
        }
        (!kept.is_empty()).then_some(Self(kept))
    }

    /// The errors that are left, in order.
    pub fn errors(&self) -> &[Error] {
        &self.0
    }
}

impl fmt::Display for Aggregate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let ([only], 0) = (&self.0[..], self.0.left_out) {
            return write!(f, "{only}");
        }
        f.write_str("[")?;
        for (index, error) in self.0.iter().enumerate() {
            let separator = if index > 0 { ", " } else { "" };
            write!(f, "{separator}{error}")?;
        }
        if self.0.left_out > 0 {
            write!(f, ", and {}", more(self.0.left_out))?;
        }
        f.write_str("]")
    }
}

impl std::error::Error for Aggregate {}

/// Errors that are only counted, in words: `5 more errors`.
pub fn more(count: usize) -> String {
    format!("{count} more error{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::Path;

    const PATH: Path<'static> = Path::new("f");

    #[test]
    fn an_aggregate_of_one_has_no_brackets() {
        let twice = List::from_iter([Error::required(&PATH, ""), Error::required(&PATH, "")]);
        let aggregate = Aggregate::new(twice).unwrap();
        assert_eq!(aggregate.to_string(), "f: Required value");
        assert_eq!(aggregate.errors().len(), 1);
        assert_eq!(Aggregate::new(List::new()), None);
    }

    #[test]
    fn errors_past_the_bounds_are_counted_and_not_made() {
        let mut many = List::new();
        for at in 0..MOST_ERRORS {
            many.push(Error::required(&PATH.index(at), ""));
        }
        many.push_with(|| unreachable!("it is not kept"));
        let all: List = [List::from(Error::required(&PATH, "")), many].into_iter().collect();
        assert_eq!((all.len(), all.left_out()), (MOST_ERRORS, 2));
        let text = Aggregate::new(all).unwrap().to_string();
        assert!(text.ends_with("f[998]: Required value, and 2 more errors]"), "{text}");
    }

    #[test]
    fn long_values_fill_a_list_sooner() {
        let mut errors = List::new();
        for _ in 0..MOST_ERRORS {
            errors.push(Error::invalid(&PATH, "x".repeat(1 << 20), "too large"));
        }
        assert!(errors.len() < 5 && errors.len() + errors.left_out() == MOST_ERRORS, "{}", errors.len());
        assert!(Aggregate::new(errors).unwrap().to_string().len() < 2 * MOST_TEXT);
    }

    #[test]
    fn paths_values_and_reasons_are_cut() {
        let long = "x".repeat(1 << 20);
        let error = Error::invalid(&PATH.key(&long), long.as_str(), long.clone());
        assert!(error.to_string().len() < 200_000);
        assert!(error.body().contains("more bytes"));
    }
}
