//! The fields and elements that a decoder has read, until their struct or list is complete. Those of the
//! innermost struct or list are on top.
//!
//! Each value is written to its final slot in the stack. To build a value elsewhere and move it right after
//! costs a store forwarding stall: a tenth of the time of a decoder.

use object::{Key, Text, Value};

/// A stack of values.
pub(crate) struct Stack<T> {
    /// The values, then default values as spare slots.
    slots: Vec<T>,
    count: usize,
}

impl<T: Default> Stack<T> {
    /// The number of values.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Adds a default value; the caller [`put`]s the real one.
    #[inline]
    #[allow(
        clippy::indexing_slicing,
        reason = "`grow` made a slot; a checked access would need a value to fall back to"
    )]
    pub(crate) fn push_default(&mut self) -> &mut T {
        if self.count == self.slots.len() {
            self.grow();
        }
        self.count += 1;
        &mut self.slots[self.count - 1]
    }

    #[cold]
    fn grow(&mut self) {
        self.slots.resize_with((2 * self.slots.len()).max(32), T::default);
    }

    /// The values from `base` on.
    #[inline]
    pub(crate) fn own(&mut self, base: usize) -> &mut [T] {
        self.slots.get_mut(base..self.count).unwrap_or_default()
    }

    /// Removes and returns the values from `base` on.
    #[inline]
    pub(crate) fn take(&mut self, base: usize) -> impl ExactSizeIterator<Item = T> {
        let end = std::mem::replace(&mut self.count, base);
        self.slots.get_mut(base..end).unwrap_or_default().iter_mut().map(std::mem::take)
    }
}

impl Stack<(Key, Value)> {
    /// Adds a field with a null value; the caller [`put`]s the real one.
    #[inline]
    pub(crate) fn field(&mut self, name: &Key) -> &mut Value {
        let (key, value) = self.push_default();
        key.clone_from(name);
        value
    }

    /// Adds a field with a text value that `write` fills.
    #[inline]
    pub(crate) fn text_field(&mut self, name: &Key, write: impl FnOnce(&mut Text)) {
        let value = self.field(name);
        put(value, Value::String(Text::EMPTY));
        if let Value::String(text) = value {
            write(text);
        }
    }

    /// Removes the field called `name` among those from `base` on.
    pub(crate) fn remove(&mut self, base: usize, name: &Key) -> Option<Value> {
        let own = self.own(base);
        let place = own.iter().position(|(key, _)| key == name)?;
        own.get_mut(place..)?.rotate_left(1);
        let (_, value) = std::mem::take(own.last_mut()?);
        self.count -= 1;
        Some(value)
    }
}

/// Overwrites a default value. A default value needs no drop; without the drop the compiler writes the new
/// value straight to the slot.
#[inline(always)]
pub(crate) fn put<T>(place: &mut T, value: T) {
    std::mem::forget(std::mem::replace(place, value));
}

impl<T> Default for Stack<T> {
    fn default() -> Self {
        Self { slots: Vec::new(), count: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(stack: &mut Stack<Value>, base: usize) -> Vec<i64> {
        stack.take(base).filter_map(|value| value.as_i64()).collect()
    }

    #[test]
    fn take_returns_the_values_added_since_base() {
        let mut stack = Stack::default();
        for round in 0..3 {
            for number in 0..100 {
                put(stack.push_default(), Value::Int(number));
            }
            assert_eq!(numbers(&mut stack, 40), (40..100).collect::<Vec<_>>());
            put(stack.push_default(), Value::Int(round));
            assert_eq!(numbers(&mut stack, 0), (0..40).chain([round]).collect::<Vec<_>>());
            assert_eq!((stack.len(), numbers(&mut stack, 0)), (0, vec![]));
        }
    }

    #[test]
    fn removed_field_leaves_a_null_value_for_the_next_field() {
        let mut fields = Stack::default();
        for name in ["a", "b", "c"] {
            fields.text_field(&Key::from(name), |text| text.set_lossy(name.as_bytes()));
        }
        assert_eq!(fields.remove(1, &Key::known("a")), None);
        assert_eq!(fields.remove(1, &Key::known("b")), Some("b".into()));
        assert_eq!(*fields.field(&Key::known("d")), Value::Null);
        let left: Vec<_> = fields.take(0).collect();
        let expected = [("a", "a".into()), ("c", "c".into()), ("d", Value::Null)];
        assert_eq!(left, expected.map(|(name, value)| (Key::known(name), value)));
    }
}
