//! What lists and maps are stored in: a vector in one shared piece of memory, which a change to one of its
//! clones copies first.
//!
//! Much of the work of decoding and dropping an object is allocation, so counter, length and values lie in
//! one piece, where an `Arc<Vec<T>>` has two. Room for more values is filled with default ones, which have to
//! be cheap.

use std::fmt;
use std::ops::{Deref, Range};
use triomphe::{Arc, HeaderSlice};

/// Values in order. Without values it takes no memory.
pub(crate) struct Shared<T> {
    piece: Option<Arc<Piece<T>>>,
}

/// The header is the number of values, which is at most the length of the slice; what lies behind them is
/// room.
type Piece<T> = HeaderSlice<usize, [T]>;

impl<T> Shared<T> {
    pub(crate) const fn new() -> Self {
        Self { piece: None }
    }

    /// The values of an iterator that knows how many there are, without room for more.
    #[inline]
    pub(crate) fn of(values: impl ExactSizeIterator<Item = T>) -> Self {
        let count = values.len();
        Self { piece: (count > 0).then(|| Arc::from_header_and_iter(count, values)) }
    }

    /// How many values the piece can hold.
    fn room(&self) -> usize {
        self.piece.as_ref().map_or(0, |piece| piece.slice.len())
    }

    /// The piece, if it is not shared.
    #[inline]
    fn own(&mut self) -> Option<&mut Piece<T>> {
        self.piece.as_mut().and_then(Arc::get_mut)
    }
}

impl<T: Clone + Default> Shared<T> {
    pub(crate) fn with_capacity(capacity: usize) -> Self {
        let mut shared = Self::new();
        shared.move_to(capacity);
        shared
    }

    /// The values, to be changed in place.
    #[inline]
    pub(crate) fn make_mut(&mut self) -> &mut [T] {
        if self.piece.as_ref().is_some_and(|piece| !piece.is_unique()) {
            *self = Self::of(self.iter().cloned());
        }
        let Some(piece) = self.own() else { return &mut [] };
        piece.slice.get_mut(..piece.header).unwrap_or_default()
    }

    pub(crate) fn push(&mut self, value: T) {
        let count = self.len();
        if self.own().is_none_or(|piece| piece.slice.len() == count) {
            let room = self.room();
            self.move_to(if room > count { room } else { (2 * count).max(4) });
        }
        if let Some(piece) = self.own()
            && let Some(slot) = piece.slice.get_mut(count)
        {
            *slot = value;
            piece.header = count + 1;
        }
    }

    /// Puts a value before the one at `place`, or at the end.
    pub(crate) fn insert(&mut self, place: usize, value: T) {
        self.push(value);
        if let Some(rest) = self.make_mut().get_mut(place..) {
            rest.rotate_right(1);
        }
    }

    /// Takes the value at `place` out, if there is one.
    pub(crate) fn remove(&mut self, place: usize) -> Option<T> {
        let last = self.len().checked_sub(1)?;
        if place > last {
            return None;
        }
        self.make_mut().get_mut(place..)?.rotate_left(1);
        let piece = self.own()?;
        piece.header = last;
        piece.slice.get_mut(last).map(std::mem::take)
    }

    /// Keeps the first `length` values.
    pub(crate) fn truncate(&mut self, length: usize) {
        if length < self.len() {
            self.make_mut().iter_mut().skip(length).for_each(|value| *value = T::default());
            if let Some(piece) = self.own() {
                piece.header = length;
            }
        }
    }

    /// Keeps the values for which `keep` says so, in their order.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(&mut T) -> bool) {
        let values = self.make_mut();
        let mut kept = 0;
        for at in 0..values.len() {
            if values.get_mut(at).is_some_and(&mut keep) {
                values.swap(kept, at);
                kept += 1;
            }
        }
        self.truncate(kept);
    }

    /// Goes to a piece of its own with that much room, which is at least for the values there are.
    fn move_to(&mut self, room: usize) {
        let count = self.len();
        let mut values = std::mem::take(self).into_iter();
        let slots = (0..room).map(|_| values.next().unwrap_or_default());
        self.piece = (room > 0).then(|| Arc::from_header_and_iter(count, slots));
    }
}

impl<T> Deref for Shared<T> {
    type Target = [T];
    #[inline]
    fn deref(&self) -> &[T] {
        let Some(piece) = &self.piece else { return &[] };
        piece.slice.get(..piece.header).unwrap_or_default()
    }
}

impl<T> Clone for Shared<T> {
    #[inline]
    fn clone(&self) -> Self {
        Self { piece: self.piece.clone() }
    }
}

impl<T> Default for Shared<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// Clones are equal without a comparison of their values.
impl<T: PartialEq> PartialEq for Shared<T> {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(&**self, &**other) || **self == **other
    }
}

impl<T: fmt::Debug> fmt::Debug for Shared<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: Clone + Default> Extend<T> for Shared<T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, values: I) {
        values.into_iter().for_each(|value| self.push(value));
    }
}

impl<T: Clone + Default> IntoIterator for Shared<T> {
    type Item = T;
    type IntoIter = IntoIter<T>;
    fn into_iter(self) -> IntoIter<T> {
        IntoIter { left: 0..self.len(), values: self }
    }
}

/// The values of a [`List`](crate::List), or the entries of a [`Map`](crate::Map): moved out where they are
/// not shared, else cloned.
pub struct IntoIter<T> {
    values: Shared<T>,
    left: Range<usize>,
}

impl<T: Clone + Default> IntoIter<T> {
    fn take(&mut self, at: usize) -> Option<T> {
        if let Some(piece) = self.values.own() {
            return piece.slice.get_mut(at).map(std::mem::take);
        }
        self.values.get(at).cloned()
    }
}

impl<T: Clone + Default> Iterator for IntoIter<T> {
    type Item = T;

    #[inline]
    fn next(&mut self) -> Option<T> {
        let at = self.left.next()?;
        self.take(at)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.left.size_hint()
    }
}

impl<T: Clone + Default> DoubleEndedIterator for IntoIter<T> {
    fn next_back(&mut self) -> Option<T> {
        let at = self.left.next_back()?;
        self.take(at)
    }
}

impl<T: Clone + Default> ExactSizeIterator for IntoIter<T> {}

#[cfg(test)]
mod tests {
    use super::*;

    type Words = Shared<String>;

    fn words(text: &str) -> Words {
        Words::of(text.split(' ').map(String::from).collect::<Vec<_>>().into_iter())
    }

    /// Every change, to a piece of its own and to a shared one, beside the same change of a `Vec`.
    #[test]
    fn each_change_is_that_of_a_vec_and_leaves_clones_alone() {
        type Change = (fn(&mut Words), fn(&mut Vec<String>));
        let changes: [Change; 9] = [
            (|w| w.push("x".into()), |v| v.push("x".into())),
            (|w| w.insert(0, "x".into()), |v| v.insert(0, "x".into())),
            (|w| w.insert(2, "x".into()), |v| v.insert(2, "x".into())),
            (|w| w.insert(99, "x".into()), |v| v.push("x".into())),
            (|w| assert_eq!(w.remove(1), Some("b".into())), |v| drop(v.remove(1))),
            (|w| assert_eq!(w.remove(3), None), |_| ()),
            (|w| w.truncate(1), |v| v.truncate(1)),
            (|w| w.retain(|word| word != "b"), |v| v.retain(|word| word != "b")),
            (|w| w.make_mut().reverse(), |v| v.reverse()),
        ];
        for (change, same) in changes {
            let (mut own, original) = (words("a b c"), words("a b c"));
            let (mut clone, mut expected) = (original.clone(), original.to_vec());
            change(&mut own);
            change(&mut clone);
            same(&mut expected);
            assert_eq!(*own, *expected);
            assert_eq!(*clone, *expected);
            assert_eq!(*original, ["a", "b", "c"]);
            for (more, length) in (0..9).zip(expected.len() + 1..) {
                own.push(more.to_string());
                assert_eq!((own.len(), own.last()), (length, Some(&more.to_string())));
            }
        }
    }

    #[test]
    fn shared_values_can_be_iterated_by_value() {
        let original = words("a b c");
        assert_eq!(original.clone().into_iter().rev().collect::<Vec<_>>(), ["c", "b", "a"]);
        let mut moved = original.into_iter();
        assert_eq!((moved.next(), moved.len(), moved.next_back()), (Some("a".into()), 2, Some("c".into())));
    }

    #[test]
    fn capacity_is_allocated_once() {
        let mut shared = Words::with_capacity(3);
        assert!(shared.is_empty());
        let address = shared.as_ptr();
        shared.extend(["a", "b", "c"].map(String::from));
        assert_eq!((shared.as_ptr(), shared.len()), (address, 3));
        assert_eq!(Words::with_capacity(0), Words::new());
        assert_eq!(Words::new().remove(0), None);
    }
}
