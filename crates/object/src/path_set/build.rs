//! Sets built a level at a time, in any order of the elements.

use super::{Node, Set};
use crate::path::{Element, strict};
use std::sync::Arc;

/// Collects one level of a set. Unlike [`Set::insert`], it takes no more time when elements come out of
/// order.
///
/// ```
/// use object::path::Element;
/// use object::path_set::Builder;
/// let mut labels = Builder::new();
/// labels.member(Element::field("tier"));
/// labels.member(Element::field("app"));
/// let mut metadata = Builder::new();
/// metadata.member(Element::field("labels"));
/// metadata.children(Element::field("labels"), labels.finish());
/// assert_eq!(metadata.finish().to_json(), r#"{"f:labels":{".":{},"f:app":{},"f:tier":{}}}"#);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Builder {
    nodes: Vec<Node>,
}

impl Builder {
    /// A level without elements; allocates nothing.
    pub const fn new() -> Self {
        Self { nodes: Vec::new() }
    }

    /// Puts the path of this one element in.
    pub fn member(&mut self, element: Element) {
        match self.last(&element) {
            Some(last) => last.member = true,
            None => self.nodes.push(Node { element, member: true, children: None }),
        }
    }

    /// Puts the paths of a set in, behind an element.
    pub fn children(&mut self, element: Element, set: Set) {
        let Some(children) = set.into_children() else { return };
        match self.last(&element) {
            Some(last) => join(last, false, Some(children)),
            None => self.nodes.push(Node { element, member: false, children: Some(children) }),
        }
    }

    /// Puts the path of this one element in, and the paths of a set behind it.
    pub fn member_and_children(&mut self, element: Element, set: Set) {
        let children = set.into_children();
        match self.last(&element) {
            Some(last) => join(last, true, children),
            None => self.nodes.push(Node { element, member: true, children }),
        }
    }

    /// The set of what was put in.
    pub fn finish(self) -> Set {
        let mut nodes = self.nodes;
        if !nodes.is_sorted_by(|a, b| a.element < b.element) {
            nodes = settle(nodes, join);
        }
        Set { nodes }
    }

    fn last(&mut self, element: &Element) -> Option<&mut Node> {
        self.nodes.last_mut().filter(|last| last.element == *element)
    }
}

/// Sorts nodes; those of one element are made one, in the order they came in.
pub(super) fn settle(mut nodes: Vec<Node>, join: fn(&mut Node, bool, Option<Arc<Set>>)) -> Vec<Node> {
    nodes.sort_by(|a, b| match (&a.element, &b.element) {
        (Element::Field(a), Element::Field(b)) => a.as_str().cmp(b.as_str()),
        (a, b) => strict(a.borrowed(), b.borrowed()),
    });
    nodes.dedup_by(|node, last| {
        let is_same = last.element == node.element;
        if is_same {
            join(last, node.member, node.children.take());
        }
        is_same
    });
    nodes
}

fn join(node: &mut Node, member: bool, children: Option<Arc<Set>>) {
    node.member |= member;
    node.children = match (node.children.take(), children) {
        (Some(a), Some(b)) => a.union(&b).into_children(),
        (a, b) => a.or(b),
    };
}
