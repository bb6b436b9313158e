//! Sets of paths, as managed fields record ownership: a tree whose levels are sorted by element.
//!
//! Invariants:
//! 1. The nodes of a level are in strictly ascending order of their elements.
//! 2. Every node is a member, or has children that are not empty, or both.
//!
//! Looking a path up allocates nothing. Levels are shared between clones and between the results of
//! operations, and are copied only when one of them is changed. A set is as deep as the paths in it; what is
//! read from text is at most 512 levels deep, like objects.

mod algebra;
mod build;
mod iter;
mod matcher;
#[cfg(test)]
mod tests;
mod text;
mod texts;

pub use build::Builder;
pub use iter::{Entry, Iter};
pub use matcher::{Matcher, Pattern};
pub use texts::{Texts, Untaken};

use crate::path::{Element, ElementRef};
use std::sync::Arc;

/// A set of paths.
///
/// A path in it says nothing about the paths that it begins with: `a.b` may be in the set without `a`.
///
/// ```
/// use object::path::Element;
/// use object::path_set::Set;
/// let set = Set::from_json(r#"{"f:spec":{"f:ports":{".":{},"k:{\"port\":80}":{}}}}"#).unwrap();
/// let ports = [Element::field("spec"), Element::field("ports")];
/// assert!(set.has(&ports));
/// assert!(!set.has(&ports[..1]));
/// let paths: Vec<_> = set.iter().map(|path| path.to_string()).collect();
/// assert_eq!(paths, [".spec.ports", ".spec.ports[port=80]"]);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Set {
    nodes: Vec<Node>,
}

/// An element, whether the path to it is in the set, and its children.
#[derive(Clone, Debug)]
struct Node {
    element: Element,
    member: bool,
    children: Option<Arc<Set>>,
}

impl Set {
    /// A set without paths; allocates nothing.
    pub const fn new() -> Self {
        Self { nodes: Vec::new() }
    }

    /// Whether there are no paths.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// How many paths there are; counts them.
    pub fn len(&self) -> usize {
        let of = |node: &Node| usize::from(node.member) + node.children.as_ref().map_or(0, |set| set.len());
        self.nodes.iter().map(of).sum()
    }

    /// Inserts a path. The path to the whole object is not a member of any set.
    ///
    /// A level costs time in the square of its size to fill out of order; use a [`Builder`] for what a client
    /// sent.
    pub fn insert(&mut self, path: &[Element]) {
        let Some((last, parents)) = path.split_last() else { return };
        let mut set = self;
        for element in parents {
            set = Arc::make_mut(set.node_mut(element).children.get_or_insert_default());
        }
        set.node_mut(last).member = true;
    }

    /// Whether a path is in the set.
    pub fn has(&self, path: &[Element]) -> bool {
        let Some((last, parents)) = path.split_last() else { return false };
        let found = parents.iter().try_fold(self, |set, element| set.child(element));
        found.is_some_and(|set| set.has_member(last))
    }

    /// Whether the path of this one element is in the set.
    pub fn has_member<'e>(&self, element: impl Into<ElementRef<'e>>) -> bool {
        self.node(element.into()).is_some_and(|node| node.member)
    }

    /// The paths of the set that begin with an element, without that element.
    pub fn child<'e>(&self, element: impl Into<ElementRef<'e>>) -> Option<&Set> {
        self.node(element.into())?.children.as_deref()
    }

    /// The entry of an element.
    pub fn entry<'e>(&self, element: impl Into<ElementRef<'e>>) -> Option<Entry<'_>> {
        self.node(element.into()).map(Entry::from)
    }

    #[inline]
    fn node(&self, element: ElementRef<'_>) -> Option<&Node> {
        self.nodes.get(self.place(element).ok()?)
    }

    #[allow(clippy::indexing_slicing, reason = "`place` was found, or is that of the node just inserted")]
    fn node_mut(&mut self, element: &Element) -> &mut Node {
        let after_all = self.nodes.last().is_none_or(|last| last.element < *element);
        let place = if after_all { Err(self.nodes.len()) } else { self.place(element.borrowed()) };
        let place = place.unwrap_or_else(|place| {
            self.nodes.insert(place, Node { element: element.clone(), member: false, children: None });
            place
        });
        &mut self.nodes[place]
    }

    #[inline]
    fn place(&self, element: ElementRef<'_>) -> Result<usize, usize> {
        self.nodes.binary_search_by(|node| node.element.borrowed().cmp(&element))
    }

    /// The set as the children of a node.
    fn into_children(self) -> Option<Arc<Set>> {
        (!self.is_empty()).then(|| Arc::new(self))
    }
}

/// The same paths.
impl PartialEq for Set {
    fn eq(&self, other: &Self) -> bool {
        let same_children = |a: &Option<Arc<Set>>, b: &Option<Arc<Set>>| match (a, b) {
            (Some(a), Some(b)) => Arc::ptr_eq(a, b) || a == b,
            (None, None) => true,
            _ => false,
        };
        let same = |(a, b): (&Node, &Node)| {
            a.member == b.member && a.element == b.element && same_children(&a.children, &b.children)
        };
        self.nodes.len() == other.nodes.len() && self.nodes.iter().zip(&other.nodes).all(same)
    }
}

impl Eq for Set {}

impl<'p> FromIterator<&'p [Element]> for Set {
    fn from_iter<I: IntoIterator<Item = &'p [Element]>>(paths: I) -> Self {
        let mut set = Set::new();
        for path in paths {
            set.insert(path);
        }
        set
    }
}
