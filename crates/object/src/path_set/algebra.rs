//! Operations on two sets. Each walks both once, level by level, or looks a small one up in a large one; what
//! only one of them has is shared, not copied.

use super::{Node, Set};
use std::cmp::Ordering;
use std::sync::Arc;

impl Set {
    /// The paths that are in one of the sets or in both.
    pub fn union(&self, other: &Set) -> Set {
        let nodes = Join::new(self, other).map(|pair| match pair {
            Pair::Left(node) | Pair::Right(node) => node.clone(),
            Pair::Both(a, b) => Node {
                // Of equal numbers of different texts, the reference writes this one.
                element: if a.children.is_some() { &a.element } else { &b.element }.clone(),
                member: a.member || b.member,
                children: match (&a.children, &b.children) {
                    (Some(a), Some(b)) if !Arc::ptr_eq(a, b) => a.union(b).into_children(),
                    (a, b) => a.as_ref().or(b.as_ref()).cloned(),
                },
            },
        });
        Set { nodes: nodes.collect() }
    }

    /// The paths that are in any of the sets. However many there are, the cost grows with their size, not
    /// with its square.
    ///
    /// ```
    /// use object::path_set::Set;
    /// let sets = ["a", "b", "a"].map(|name| Set::from_json(&format!(r#"{{"f:{name}":{{}}}}"#)).unwrap());
    /// assert_eq!(Set::union_of(sets.to_vec()).to_json(), r#"{"f:a":{},"f:b":{}}"#);
    /// ```
    pub fn union_of(mut sets: Vec<Set>) -> Set {
        while sets.len() > 1 {
            sets = sets
                .chunks(2)
                .map(|pair| match pair {
                    [a, b] => a.union(b),
                    rest => rest.first().cloned().unwrap_or_default(),
                })
                .collect();
        }
        sets.pop().unwrap_or_default()
    }

    /// The paths that are in both sets.
    pub fn intersection(&self, other: &Set) -> Set {
        self.select(other, |a, b| {
            let b = b?;
            let children = match (&a.children, &b.children) {
                (Some(a), Some(b)) => a.intersection(b).into_children(),
                _ => None,
            };
            node(a, a.member && b.member, children)
        })
    }

    /// The paths that are in this set and not in the other. A path that begins with one of the other's stays.
    pub fn difference(&self, other: &Set) -> Set {
        self.select(other, |a, b| {
            let Some(b) = b else { return Some(a.clone()) };
            let children = match (&a.children, &b.children) {
                (Some(a), Some(b)) => a.difference(b).into_children(),
                (children, _) => children.clone(),
            };
            node(a, a.member && !b.member, children)
        })
    }

    /// The paths of this set that are not in the other and do not begin with one of the other's.
    pub fn recursive_difference(&self, other: &Set) -> Set {
        self.select(other, |a, b| {
            let Some(b) = b else { return Some(a.clone()) };
            if b.member {
                return None;
            }
            let children = match (&a.children, &b.children) {
                (Some(a), Some(b)) => a.recursive_difference(b).into_children(),
                (children, _) => children.clone(),
            };
            node(a, a.member, children)
        })
    }

    /// The paths that no other path of the set begins with.
    pub fn leaves(&self) -> Set {
        let leaf = |node: &Node| Node {
            element: node.element.clone(),
            member: node.children.is_none(),
            children: node.children.as_ref().map(|set| Arc::new(set.leaves())),
        };
        Set { nodes: self.nodes.iter().map(leaf).collect() }
    }

    /// What is made of the nodes of this set, each with its counterpart in the other.
    fn select(&self, other: &Set, keep: impl Fn(&Node, Option<&Node>) -> Option<Node>) -> Set {
        // A small set is looked up in a large one, so that many small ones cost no more than their size.
        let nodes = if self.nodes.len().saturating_mul(MUCH_LARGER) < other.nodes.len() {
            let counterpart = |a: &Node| other.node(a.element.borrowed());
            self.nodes.iter().filter_map(|a| keep(a, counterpart(a))).collect()
        } else {
            let pairs = Join::new(self, other).filter_map(|pair| match pair {
                Pair::Left(a) => keep(a, None),
                Pair::Right(_) => None,
                Pair::Both(a, b) => keep(a, Some(b)),
            });
            pairs.collect()
        };
        Set { nodes }
    }
}

/// From this ratio of sizes on, to look nodes up takes less than to walk past them.
const MUCH_LARGER: usize = 16;

/// A node like another, unless it would be neither a member nor have children.
fn node(like: &Node, member: bool, children: Option<Arc<Set>>) -> Option<Node> {
    (member || children.is_some()).then(|| Node { element: like.element.clone(), member, children })
}

enum Pair<'s> {
    Left(&'s Node),
    Right(&'s Node),
    Both(&'s Node, &'s Node),
}

/// The nodes of two levels side by side.
struct Join<'s> {
    left: &'s [Node],
    right: &'s [Node],
}

impl<'s> Join<'s> {
    fn new(left: &'s Set, right: &'s Set) -> Self {
        Self { left: &left.nodes, right: &right.nodes }
    }
}

impl<'s> Iterator for Join<'s> {
    type Item = Pair<'s>;

    fn next(&mut self) -> Option<Pair<'s>> {
        let order = match (self.left.first(), self.right.first()) {
            (Some(a), Some(b)) => a.element.cmp(&b.element),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => return None,
        };
        Some(match order {
            Ordering::Less => Pair::Left(self.left.split_off_first()?),
            Ordering::Greater => Pair::Right(self.right.split_off_first()?),
            Ordering::Equal => Pair::Both(self.left.split_off_first()?, self.right.split_off_first()?),
        })
    }
}
