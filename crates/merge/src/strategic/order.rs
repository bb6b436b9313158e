//! The order of a merged list: the elements that the patch names in the order of the patch, and between them
//! the others, as the server had them.

use super::{DIRECTIVE, bad_type, no_merge_key, not_comparable};
use crate::Error;
use crate::go::GoKind;
use crate::node::Node;
use object::{Text, Value};
use schema::Shape;
use std::collections::HashMap;

/// A value that identifies an element.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Identity {
    /// Null.
    Nil,
    /// A boolean.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// Another number, by its bits; zero has one sign.
    Float(u64),
    /// Text.
    String(Text),
    /// A list, which cannot be compared.
    List,
    /// An object, which cannot be compared.
    Map,
}

impl Identity {
    /// Of a value without a type.
    pub(crate) fn of_value(value: &Value) -> Self {
        match value {
            Value::Null => Identity::Nil,
            Value::Bool(flag) => Identity::Bool(*flag),
            Value::Int(number) => Identity::Int(*number),
            Value::Float(number) => Identity::Float((number + 0.0).to_bits()),
            Value::String(text) => Identity::String(text.clone()),
            Value::List(_) => Identity::List,
            Value::Map(_) => Identity::Map,
            Value::Bytes(_) | Value::Raw(_) => {
                // Only a typed value is one of these.
                Identity::Nil
            }
        }
    }

    /// Of a node.
    pub(crate) fn of(node: &Node<'_>) -> Self {
        match node {
            Node::Doc(_) => Identity::Map,
            Node::List(_) => Identity::List,
            _ => Self::of_value(&node.to_value()),
        }
    }

    /// Whether it can be compared.
    pub(crate) fn is_comparable(&self) -> bool {
        !matches!(self, Identity::List | Identity::Map)
    }
}

/// The value at `key` of an element; `None` if it has no such key.
pub(crate) fn key_of(element: &Node<'_>, key: &str) -> Option<Identity> {
    match element {
        Node::Doc(doc) => doc.get(key).map(Identity::of),
        Node::Typed(place, Value::Map(map)) => match place.0 {
            Shape::Struct(ty) => match (map.get(key), ty.field(key)) {
                (Some(value), Some(field)) if !field.drops(value) => Some(Identity::of_value(value)),
                (_, Some(field)) if field.always => Some(Identity::of(&crate::node::absent(field))),
                _ => None,
            },
            _ => map.get(key).map(Identity::of_value),
        },
        _ => None,
    }
}

/// The first index of each identity.
#[derive(Default)]
pub(crate) struct Positions {
    first: HashMap<Identity, usize>,
}

impl Positions {
    /// Of the elements of a list, by a key or, without one, by themselves. What has no such key counts as
    /// null.
    pub(crate) fn of(elements: &[Node<'_>], key: &str) -> Self {
        let mut places = Self::default();
        for (at, element) in elements.iter().enumerate() {
            places.add(identity(element, key), at);
        }
        places
    }

    /// Adds one.
    pub(crate) fn add(&mut self, identity: Identity, at: usize) {
        self.first.entry(identity).or_insert(at);
    }

    /// The first index of an identity. Lists and objects cannot be compared with each other.
    pub(crate) fn find(&self, identity: &Identity) -> Result<Option<usize>, Error> {
        match self.first.get(identity) {
            Some(_) if !identity.is_comparable() => Err(not_comparable()),
            found => Ok(found.copied()),
        }
    }
}

fn identity(element: &Node<'_>, key: &str) -> Identity {
    if GoKind::of(element) == GoKind::Map {
        key_of(element, key).unwrap_or(Identity::Nil)
    } else {
        Identity::of(element)
    }
}

/// Merges the elements that the patch names with those it does not, which are in the order of the server.
pub(crate) fn normalize<'a>(
    named: Vec<Node<'a>>,
    others: Vec<Node<'a>>,
    patch_order: &[Node<'a>],
    server_order: &[Node<'a>],
    key: &str,
    kind: GoKind,
) -> Result<Vec<Node<'a>>, Error> {
    let named = sort(named, patch_order, key, kind)?;
    let others = sort(others, server_order, key, kind)?;
    let places = Positions::of(server_order, key);
    let find = |node: &Node<'_>| places.find(&identity(node, key));
    let mut merged = Vec::with_capacity(named.len() + others.len());
    let (mut named, mut others) = (named.into_iter().peekable(), others.into_iter().peekable());
    while let (Some(other), Some(name)) = (others.peek(), named.peek()) {
        let before = match (find(other)?, find(name)?) {
            (Some(other), Some(name)) => other < name,
            _ => false,
        };
        merged.extend(if before { others.next() } else { named.next() });
    }
    merged.extend(named);
    merged.extend(others);
    Ok(merged)
}

/// Sorts elements by their places in another list; those that are to be deleted come last.
fn sort<'a>(
    elements: Vec<Node<'a>>,
    order: &[Node<'a>],
    key: &str,
    kind: GoKind,
) -> Result<Vec<Node<'a>>, Error> {
    let mut deleted = Vec::new();
    let mut kept = elements;
    if kind == GoKind::Map {
        for element in kept.iter().chain(order) {
            require_key(element, key)?;
        }
        let is_deleted = |node: &Node<'_>| key_of(node, DIRECTIVE) == Some(Identity::String("delete".into()));
        (deleted, kept) = kept.into_iter().partition(is_deleted);
    }
    let places = Positions::of(order, key);
    let placed = kept.into_iter().map(|node| Ok((places.find(&identity(&node, key))?, node)));
    let mut placed: Vec<(Option<usize>, Node<'a>)> = placed.collect::<Result<_, Error>>()?;
    if placed.iter().all(|(place, _)| place.is_some()) {
        placed.sort_by_key(|(place, _)| *place);
    } else {
        stable_sort(&mut placed, |a, b| match (a.0, b.0) {
            (Some(a), Some(b)) => a < b,
            _ => true,
        });
    }
    Ok(placed.into_iter().map(|(_, node)| node).chain(deleted).collect())
}

/// Checks that an element is an object with the key.
pub(crate) fn require_key(element: &Node<'_>, key: &str) -> Result<Identity, Error> {
    match GoKind::of(element) {
        GoKind::Map => key_of(element, key).ok_or_else(|| no_merge_key(&element.to_value(), key)),
        other => Err(bad_type(GoKind::Map, other)),
    }
}

/// The reference's stable sort, step by step. It is given an order that is none when an element has no place,
/// and what comes out then depends on the steps: insertion in blocks of twenty, which are merged.
fn stable_sort<T>(items: &mut [T], before: impl Fn(&T, &T) -> bool + Copy) {
    const BLOCK: usize = 20;
    items.chunks_mut(BLOCK).for_each(|block| insertion_sort(block, before));
    let mut size = BLOCK;
    while size < items.len() {
        for pair in items.chunks_mut(2 * size).filter(|pair| pair.len() > size) {
            merge_in_place(pair, size, before);
        }
        size *= 2;
    }
}

fn insertion_sort<T>(items: &mut [T], before: impl Fn(&T, &T) -> bool) {
    for end in 1..items.len() {
        for at in (1..=end).rev() {
            match items.get(at - 1..=at) {
                Some([left, right]) if before(right, left) => items.swap(at - 1, at),
                _ => break,
            }
        }
    }
}

/// Merges two sorted halves by rotation, after Kim and Kutzner's SymMerge.
fn merge_in_place<T>(items: &mut [T], middle: usize, before: impl Fn(&T, &T) -> bool + Copy) {
    let length = items.len();
    let is_before = |items: &[T], a: usize, b: usize| match (items.get(a), items.get(b)) {
        (Some(a), Some(b)) => before(a, b),
        _ => false,
    };
    if middle == 0 || middle >= length {
        return;
    }
    if middle == 1 {
        let (mut low, mut high) = (middle, length);
        while low < high {
            let half = (low + high) / 2;
            if is_before(items, half, 0) { low = half + 1 } else { high = half }
        }
        if let Some(part) = items.get_mut(..low) {
            part.rotate_left(1);
        }
        return;
    }
    if length - middle == 1 {
        let (mut low, mut high) = (0, middle);
        while low < high {
            let half = (low + high) / 2;
            if is_before(items, middle, half) { high = half } else { low = half + 1 }
        }
        if let Some(part) = items.get_mut(low..) {
            part.rotate_right(1);
        }
        return;
    }
    let half = length / 2;
    let sum = half + middle;
    let (mut start, mut limit) = if middle > half { (sum - length, half) } else { (0, middle) };
    let last = sum - 1;
    while start < limit {
        let probe = (start + limit) / 2;
        if is_before(items, last - probe, probe) { limit = probe } else { start = probe + 1 }
    }
    let end = sum - start;
    if start < middle
        && middle < end
        && let Some(part) = items.get_mut(start..end)
    {
        part.rotate_left(middle - start);
    }
    let (left, right) = items.split_at_mut(half);
    if 0 < start && start < half {
        merge_in_place(left, start, before);
    }
    if half < end && end < length {
        merge_in_place(right, end - half, before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stable_sort_keeps_equal_items_in_order() {
        let mut items: Vec<(usize, usize)> = (0..200).map(|at| (at * 37 % 11, at)).collect();
        let mut expected = items.clone();
        expected.sort_by_key(|item| item.0);
        stable_sort(&mut items, |a, b| a.0 < b.0);
        assert_eq!(items, expected);
    }

    #[test]
    fn stable_sort_without_an_order_reverses_blocks_of_twenty() {
        let mut items: Vec<usize> = (0..20).collect();
        stable_sort(&mut items, |_, _| true);
        assert_eq!(items, (0..20).rev().collect::<Vec<_>>());
    }
}
