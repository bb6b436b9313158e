//! An ordered set of entries that shares structure between versions: a B+ tree whose nodes are reference
//! counted.
//!
//! A clone is one pointer, and stays as it is while the original goes on: nodes that a clone can still see
//! are copied before they change, the others change in place. Every branch knows how many entries lie below
//! it, so that places are counted without walking.
//!
//! 1. Entries lie in the order of their [`Sort`] keys, each key once.
//! 2. `Child::len` and `Child::first` are those of the node below.
//! 3. No node is empty, but for the root of an empty tree; all leaves lie equally deep.

mod items;

use crate::Entry;
use items::{Items, Position, Positioned};
use std::{collections::HashMap, mem, sync::Arc};

/// The most entries in a leaf, and children in a branch.
const WIDTH: usize = 32;
/// Neighbours that together have no more than this become one.
const MERGED: usize = WIDTH * 3 / 4;

/// The order of the entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Their key.
    Key,
    /// The value of a declared field, then their key.
    Field(usize),
}

/// A place in the order: the value of the field (empty where there is none), then the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Sort<'a> {
    pub(crate) value: &'a [u8],
    pub(crate) key: &'a [u8],
}

impl Order {
    pub(crate) fn of(self, entry: &Entry) -> Sort<'_> {
        let value = match self {
            Self::Key => &[][..],
            Self::Field(at) => entry.field_at(at),
        };
        Sort { value, key: entry.key().as_bytes() }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Tree {
    order: Order,
    len: usize,
    root: Arc<Node>,
}

#[derive(Clone, Debug)]
enum Node {
    Leaf(Items<Arc<Entry>>),
    Branch(Items<Child>),
}

#[derive(Clone, Debug)]
struct Child {
    first: Arc<Entry>,
    len: usize,
    node: Arc<Node>,
}

impl Positioned for Child {
    fn entry(&self) -> &Arc<Entry> {
        &self.first
    }
}

impl Tree {
    pub(crate) fn new(order: Order) -> Self {
        Self { order, len: 0, root: Arc::new(Node::Leaf(Items::new(order, Vec::new()))) }
    }

    /// A tree of entries in any order, quickest in the order of keys; of several with the same key, one
    /// stays.
    pub(crate) fn from_entries(order: Order, mut entries: Vec<Arc<Entry>>) -> Self {
        if !entries.is_sorted_by(|a, b| a.key() < b.key()) {
            entries.sort_by(|a, b| a.key().cmp(b.key()));
            entries.dedup_by(|a, b| a.key() == b.key());
        }
        if order != Order::Key {
            entries = by_value(order, &entries);
        }
        let len = entries.len();
        let leaves = even_chunks(entries).into_iter().map(|chunk| Node::Leaf(Items::new(order, chunk)));
        let mut level: Vec<Child> = leaves.filter_map(Child::new).collect();
        while level.len() > 1 {
            let branches = even_chunks(level).into_iter().map(|chunk| Node::Branch(Items::new(order, chunk)));
            level = branches.filter_map(Child::new).collect();
        }
        match level.pop() {
            Some(root) => Self { order, len, root: root.node },
            None => Self::new(order),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn get(&self, at: Sort<'_>) -> Option<&Arc<Entry>> {
        let at = Position::new(at);
        let mut node = &*self.root;
        loop {
            match node {
                Node::Branch(children) => node = &children.get(child(self.order, children, &at))?.node,
                Node::Leaf(entries) => return entries.get(entries.find(self.order, &at).ok()?),
            }
        }
    }

    /// How many entries come before a place.
    pub(crate) fn rank(&self, at: Sort<'_>) -> usize {
        let at = Position::new(at);
        let mut node = &*self.root;
        let mut before = 0;
        loop {
            match node {
                Node::Branch(children) => {
                    let child = child(self.order, children, &at);
                    before += children.iter().take(child).map(|child| child.len).sum::<usize>();
                    match children.get(child) {
                        Some(child) => node = &child.node,
                        None => return before,
                    }
                }
                Node::Leaf(entries) => {
                    return before + entries.find(self.order, &at).unwrap_or_else(|at| at);
                }
            }
        }
    }

    /// Puts an entry in, and returns the one whose place it took.
    pub(crate) fn insert(&mut self, entry: Arc<Entry>) -> Option<Arc<Entry>> {
        let (order, own) = (self.order, entry.clone());
        let at = Position::new(order.of(&own));
        let Inserted { replaced, split } = insert(order, Arc::make_mut(&mut self.root), &at, entry);
        if let Some(right) = split
            && let Some(left) = Child::shared(self.root.clone())
        {
            self.root = Arc::new(Node::Branch(Items::new(order, vec![left, right])));
        }
        self.len += usize::from(replaced.is_none());
        replaced
    }

    pub(crate) fn remove(&mut self, at: Sort<'_>) -> Option<Arc<Entry>> {
        self.get(at)?;
        let removed = remove(self.order, Arc::make_mut(&mut self.root), &Position::new(at));
        while let Node::Branch(children) = &*self.root
            && let [only] = &**children
        {
            self.root = only.node.clone();
        }
        self.len -= usize::from(removed.is_some());
        removed
    }

    /// The entries from one rank up to another.
    pub(crate) fn range(&self, from: usize, to: usize) -> Range {
        let left = to.min(self.len).saturating_sub(from);
        let mut range = Range { stack: Vec::new(), left };
        if left > 0 {
            range.descend(self.root.clone(), from);
        }
        range
    }
}

/// Shared entries, one after the other; it holds the version of the tree that it was made of.
#[derive(Clone, Debug)]
pub(crate) struct Range {
    /// The way down to the next entry: each node with the place that comes next in it.
    stack: Vec<(Arc<Node>, usize)>,
    left: usize,
}

impl Range {
    fn descend(&mut self, mut node: Arc<Node>, mut skip: usize) {
        loop {
            let below = match &*node {
                Node::Leaf(_) => {
                    self.stack.push((node, skip));
                    return;
                }
                Node::Branch(children) => {
                    let mut place = 0;
                    for child in children.iter() {
                        if skip < child.len {
                            break;
                        }
                        skip -= child.len;
                        place += 1;
                    }
                    children.get(place).map(|child| (place, child.node.clone()))
                }
            };
            let Some((place, below)) = below else { return };
            self.stack.push((mem::replace(&mut node, below), place + 1));
        }
    }

    /// The next entry that a test picks. Those that are passed over are looked at where they are: to take a
    /// share in each would cost more than most tests.
    pub(crate) fn next_where(&mut self, test: impl Fn(&Entry) -> bool) -> Option<Arc<Entry>> {
        while self.left > 0 {
            let (node, place) = self.stack.last_mut()?;
            match &**node {
                Node::Leaf(entries) => {
                    let rest = entries.get(*place..).unwrap_or_default();
                    let rest = rest.get(..self.left).unwrap_or(rest);
                    let found = rest.iter().position(|entry| test(entry));
                    let passed = found.map_or(rest.len(), |at| at + 1);
                    *place += passed;
                    self.left -= passed;
                    match found.and_then(|at| rest.get(at)) {
                        Some(entry) => return Some(entry.clone()),
                        None => self.stack.pop(),
                    };
                }
                Node::Branch(children) => {
                    let below = children.get(*place).map(|child| child.node.clone());
                    *place += 1;
                    match below {
                        Some(below) => self.stack.push((below, 0)),
                        None => _ = self.stack.pop(),
                    }
                }
            }
        }
        None
    }
}

impl Iterator for Range {
    type Item = Arc<Entry>;

    fn next(&mut self) -> Option<Arc<Entry>> {
        self.left = self.left.checked_sub(1)?;
        loop {
            let (node, place) = self.stack.last_mut()?;
            let at = *place;
            *place += 1;
            let below = match &**node {
                Node::Leaf(entries) => match entries.get(at) {
                    Some(entry) => return Some(entry.clone()),
                    None => None,
                },
                Node::Branch(children) => children.get(at).map(|child| child.node.clone()),
            };
            match below {
                Some(below) => self.stack.push((below, 0)),
                None => {
                    self.stack.pop();
                }
            }
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Range {}

impl Node {
    fn first(&self) -> Option<&Arc<Entry>> {
        match self {
            Self::Leaf(entries) => entries.first(),
            Self::Branch(children) => children.first().map(|child| &child.first),
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Leaf(entries) => entries.len(),
            Self::Branch(children) => children.iter().map(|child| child.len).sum(),
        }
    }

    fn width(&self) -> usize {
        match self {
            Self::Leaf(entries) => entries.len(),
            Self::Branch(children) => children.len(),
        }
    }

    /// Gives away its right half if it is too wide.
    fn split(&mut self, order: Order) -> Option<Child> {
        let half = self.width() / 2;
        if self.width() <= WIDTH {
            return None;
        }
        Child::new(match self {
            Self::Leaf(entries) => Self::Leaf(entries.split_off(order, half)),
            Self::Branch(children) => Self::Branch(children.split_off(order, half)),
        })
    }

    fn append(&mut self, order: Order, right: &Self) {
        match (self, right) {
            (Self::Leaf(entries), Self::Leaf(more)) => entries.append(order, more),
            (Self::Branch(children), Self::Branch(more)) => children.append(order, more),
            _ => {}
        }
    }
}

impl Child {
    fn new(node: Node) -> Option<Self> {
        Self::shared(Arc::new(node))
    }

    fn shared(node: Arc<Node>) -> Option<Self> {
        Some(Self { first: node.first()?.clone(), len: node.len(), node })
    }

    /// Restores invariant 2 after the node has changed; false if nothing is left in it.
    fn refresh(&mut self) -> bool {
        match self.node.first() {
            Some(first) => {
                if !Arc::ptr_eq(&self.first, first) {
                    self.first = first.clone();
                }
                self.len = self.node.len();
                true
            }
            None => false,
        }
    }
}

struct Inserted {
    replaced: Option<Arc<Entry>>,
    split: Option<Child>,
}

/// The child in which a place lies: the last one that does not start after it.
fn child(order: Order, children: &Items<Child>, at: &Position<'_>) -> usize {
    children.find(order, at).unwrap_or_else(|after| after.saturating_sub(1))
}

fn insert(order: Order, node: &mut Node, at: &Position<'_>, entry: Arc<Entry>) -> Inserted {
    let replaced = match node {
        Node::Leaf(entries) => match entries.find(order, at) {
            Ok(found) => entries.replace(found, entry),
            Err(place) => {
                entries.insert(order, place, entry);
                None
            }
        },
        Node::Branch(children) => {
            let place = child(order, children, at);
            let inserted = children.change(order, place, |below| {
                let inserted = insert(order, Arc::make_mut(&mut below.node), at, entry);
                below.refresh();
                inserted
            });
            let Some(Inserted { replaced, split }) = inserted else {
                return Inserted { replaced: None, split: None };
            };
            if let Some(right) = split {
                children.insert(order, place + 1, right);
            }
            replaced
        }
    };
    Inserted { replaced, split: node.split(order) }
}

fn remove(order: Order, node: &mut Node, at: &Position<'_>) -> Option<Arc<Entry>> {
    match node {
        Node::Leaf(entries) => Some(entries.remove(entries.find(order, at).ok()?)),
        Node::Branch(children) => {
            let place = child(order, children, at);
            let (removed, is_left) = children.change(order, place, |below| {
                let removed = remove(order, Arc::make_mut(&mut below.node), at);
                (removed, below.refresh())
            })?;
            if is_left {
                merge_around(order, children, place);
            } else {
                children.remove(place);
            }
            removed
        }
    }
}

/// Joins a child with a neighbour if both are thin.
fn merge_around(order: Order, children: &mut Items<Child>, place: usize) {
    for left in [Some(place), place.checked_sub(1)].into_iter().flatten() {
        let widths = children.get(left..).unwrap_or_default();
        if let [one, two, ..] = widths
            && one.node.width() + two.node.width() <= MERGED
        {
            let right = children.remove(left + 1);
            children.change(order, left, |joined| {
                Arc::make_mut(&mut joined.node).append(order, &right.node);
                joined.refresh();
            });
            return;
        }
    }
}

/// Entries that are in the order of their keys, in the order of their values. There are few values for many
/// entries, as a rule, so the values alone are compared.
fn by_value(order: Order, entries: &[Arc<Entry>]) -> Vec<Arc<Entry>> {
    let mut groups: HashMap<&[u8], Vec<&Arc<Entry>>> = HashMap::new();
    for entry in entries {
        groups.entry(order.of(entry).value).or_default().push(entry);
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_unstable_by_key(|(value, _)| *value);
    groups.into_iter().flat_map(|(_, entries)| entries).cloned().collect()
}

/// Pieces of about three quarters of a node's width, so that the first changes split nothing.
fn even_chunks<T>(mut items: Vec<T>) -> Vec<Vec<T>> {
    let pieces = items.len().div_ceil(MERGED).max(1);
    let mut chunks: Vec<Vec<T>> = (1..=pieces)
        .rev()
        .map(|left| {
            let mut chunk = items.split_off(items.len() - items.len() / left);
            chunk.shrink_to_fit();
            chunk
        })
        .collect();
    chunks.reverse();
    chunks
}

#[cfg(test)]
mod tests;
