//! A set for lists that are short most of the time.

use std::collections::HashSet;
use std::hash::Hash;

/// How many values are compared one by one.
const FEW: usize = 8;

/// The values that a list had so far. The first few need no allocation.
#[derive(Debug)]
pub(crate) struct Seen<T> {
    few: [Option<T>; FEW],
    more: HashSet<T>,
}

impl<T: Copy + Eq + Hash> Seen<T> {
    /// No values.
    pub(crate) fn new() -> Self {
        Self { few: [None; FEW], more: HashSet::new() }
    }

    /// Adds a value, and reports whether it is new.
    pub(crate) fn insert(&mut self, value: T) -> bool {
        if self.contains(value) {
            return false;
        }
        match self.few.iter_mut().find(|slot| slot.is_none()) {
            Some(slot) => *slot = Some(value),
            None => {
                self.more.insert(value);
            }
        }
        true
    }

    /// Reports whether a value was added.
    pub(crate) fn contains(&self, value: T) -> bool {
        self.few.contains(&Some(value)) || (!self.more.is_empty() && self.more.contains(&value))
    }
}

impl<T: Copy + Eq + Hash> FromIterator<T> for Seen<T> {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        let mut seen = Self::new();
        for value in values {
            seen.insert(value);
        }
        seen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_new_once_in_short_and_long_lists() {
        let mut seen = Seen::new();
        for value in 0..3 * FEW {
            assert!(!seen.contains(value) && seen.insert(value) && !seen.insert(value));
        }
        assert!((0..3 * FEW).all(|value| seen.contains(value)));
        assert!(!seen.contains(3 * FEW));
    }
}
