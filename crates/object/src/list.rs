//! The list of the value tree: one shared piece of memory, which a change to one of its clones copies first.

use crate::Value;
use crate::shared::{IntoIter, Shared};
use std::fmt;
use std::ops::{Deref, DerefMut};

/// Values in order. A clone shares the values until either of the two is changed.
///
/// It reads like a slice. To borrow it as a slice that can be changed copies values that are shared.
#[derive(Clone, Default, PartialEq)]
pub struct List {
    values: Shared<Value>,
}

impl List {
    /// A list without values; allocates nothing.
    pub const fn new() -> Self {
        Self { values: Shared::new() }
    }

    /// The values of an iterator of known length.
    #[inline]
    pub fn of(values: impl IntoIterator<Item = Value, IntoIter: ExactSizeIterator>) -> Self {
        Self { values: Shared::of(values.into_iter()) }
    }

    /// Puts a value at the end.
    #[inline]
    pub fn push(&mut self, value: Value) {
        self.values.push(value);
    }

    /// Keeps the values for which `keep` says so.
    pub fn retain(&mut self, mut keep: impl FnMut(&Value) -> bool) {
        self.values.retain(|value| keep(&*value));
    }
}

impl Deref for List {
    type Target = [Value];
    #[inline]
    fn deref(&self) -> &[Value] {
        &self.values
    }
}

impl DerefMut for List {
    #[inline]
    fn deref_mut(&mut self) -> &mut [Value] {
        self.values.make_mut()
    }
}

impl fmt::Debug for List {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.values.fmt(f)
    }
}

impl From<Vec<Value>> for List {
    fn from(values: Vec<Value>) -> Self {
        Self::of(values)
    }
}

impl FromIterator<Value> for List {
    fn from_iter<I: IntoIterator<Item = Value>>(values: I) -> Self {
        values.into_iter().collect::<Vec<_>>().into()
    }
}

impl Extend<Value> for List {
    fn extend<I: IntoIterator<Item = Value>>(&mut self, values: I) {
        self.values.extend(values);
    }
}

impl IntoIterator for List {
    type Item = Value;
    type IntoIter = IntoIter<Value>;
    fn into_iter(self) -> Self::IntoIter {
        self.values.into_iter()
    }
}

impl<'l> IntoIterator for &'l List {
    type Item = &'l Value;
    type IntoIter = std::slice::Iter<'l, Value>;
    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<'l> IntoIterator for &'l mut List {
    type Item = &'l mut Value;
    type IntoIter = std::slice::IterMut<'l, Value>;
    fn into_iter(self) -> Self::IntoIter {
        self.iter_mut()
    }
}
