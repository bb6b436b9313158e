//! The items of a node, and the first bytes of their keys.
//!
//! To look at an entry is to wait for memory, and once more for its key. So a node keeps what the places of
//! all its items begin with, and of each the eight bytes that follow: only items that are the same in these
//! are looked at.

use super::{Order, Sort};
use crate::Entry;
use std::{mem, ops::Deref, ptr, sync::Arc};

/// Something that lies at the place of an entry.
pub(super) trait Positioned {
    fn entry(&self) -> &Arc<Entry>;
}

impl Positioned for Arc<Entry> {
    fn entry(&self) -> &Arc<Entry> {
        self
    }
}

/// A place in the order, and the same as one text, which sorts as it does.
pub(super) struct Position<'a> {
    sort: Sort<'a>,
    text: Vec<u8>,
}

impl<'a> Position<'a> {
    pub(super) fn new(sort: Sort<'a>) -> Self {
        let Sort { value, key } = sort;
        let mut text = Vec::with_capacity(value.len() + 1 + key.len());
        if value.contains(&0) {
            text.extend(
                value.iter().flat_map(|byte| [*byte, 0xff].into_iter().take(1 + usize::from(*byte == 0))),
            );
        } else {
            text.extend_from_slice(value);
        }
        // A zero of the value is followed by a byte that no key begins with.
        text.push(0);
        text.extend_from_slice(key);
        Self { sort, text }
    }
}

/// Items in the order of their places.
///
/// 1. The text of each item's place starts with `common`.
/// 2. `heads` has what follows for each item, in the same order: eight bytes, with zeros where there are
///    fewer.
#[derive(Clone, Debug)]
pub(super) struct Items<T> {
    items: Vec<T>,
    common: Box<[u8]>,
    heads: Vec<u64>,
}

impl<T> Deref for Items<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.items
    }
}

impl<T: Positioned> Items<T> {
    /// Items that are in order.
    pub(super) fn new(order: Order, items: Vec<T>) -> Self {
        let mut new = Self { items, common: Box::default(), heads: Vec::new() };
        new.describe(order);
        new
    }

    /// Where the item of a place is, or would be.
    pub(super) fn find(&self, order: Order, place: &Position<'_>) -> Result<usize, usize> {
        let Some(rest) = place.text.strip_prefix(&*self.common) else {
            return Err(if *place.text < *self.common { 0 } else { self.items.len() });
        };
        let head = head(rest);
        let from = self.heads.partition_point(|own| *own < head);
        let same = self.heads.get(from..).unwrap_or_default().partition_point(|own| *own == head);
        let same = self.items.get(from..from + same).unwrap_or_default();
        let found = same.binary_search_by(|item| order.of(item.entry()).cmp(&place.sort));
        found.map(|at| from + at).map_err(|at| from + at)
    }

    /// Inserts an item at the index that [`Items::find`] returned.
    pub(super) fn insert(&mut self, order: Order, at: usize, item: T) {
        self.items.insert(at, item);
        match self.head_of(order, at) {
            Some(head) => self.heads.insert(at, head),
            None => self.describe(order),
        }
    }

    pub(super) fn remove(&mut self, at: usize) -> T {
        self.heads.remove(at);
        self.items.remove(at)
    }

    /// Puts an item in place of another that has the same place.
    pub(super) fn replace(&mut self, at: usize, item: T) -> Option<T> {
        self.items.get_mut(at).map(|own| mem::replace(own, item))
    }

    /// Changes an item, whose place may become another that lies between the same neighbours.
    pub(super) fn change<R>(
        &mut self,
        order: Order,
        at: usize,
        change: impl FnOnce(&mut T) -> R,
    ) -> Option<R> {
        let item = self.items.get_mut(at)?;
        // The entry is there while the item is changed, so that no other can be where it was.
        let before = Arc::as_ptr(item.entry());
        let result = change(item);
        if !ptr::eq(before, Arc::as_ptr(item.entry())) {
            match (self.head_of(order, at), self.heads.get_mut(at)) {
                (Some(head), Some(own)) => *own = head,
                _ => self.describe(order),
            }
        }
        Some(result)
    }

    /// Gives away the items from one on.
    pub(super) fn split_off(&mut self, order: Order, at: usize) -> Self {
        let right = self.items.split_off(at);
        self.describe(order);
        Self::new(order, right)
    }

    /// What the place of an item has after what is common; `None` if it does not start with that.
    fn head_of(&self, order: Order, at: usize) -> Option<u64> {
        let place = Position::new(order.of(self.items.get(at)?.entry()));
        Some(head(place.text.strip_prefix(&*self.common)?))
    }

    /// Restores both invariants.
    fn describe(&mut self, order: Order) {
        let text = |item: &T| Position::new(order.of(item.entry())).text;
        let ends = self.items.first().zip(self.items.last());
        let common = ends.map_or(Vec::new(), |(first, last)| {
            let (mut first, last) = (text(first), text(last));
            let common = first.iter().zip(&last).take_while(|(a, b)| a == b).count();
            first.truncate(common);
            first
        });
        self.common = common.into();
        let skip = self.common.len();
        self.heads.clear();
        self.heads.extend(self.items.iter().map(|item| head(text(item).get(skip..).unwrap_or_default())));
    }
}

impl<T: Positioned + Clone> Items<T> {
    /// Adds items that come after all others.
    pub(super) fn append(&mut self, order: Order, more: &[T]) {
        self.items.extend_from_slice(more);
        self.describe(order);
    }
}

fn head(text: &[u8]) -> u64 {
    match text.first_chunk() {
        Some(eight) => u64::from_be_bytes(*eight),
        None => text.iter().zip(0..8).fold(0, |head, (byte, at)| head | u64::from(*byte) << (56 - 8 * at)),
    }
}
