//! The paths of a set one after the other.

use super::{Node, Set};
use crate::path::{Element, Path};

/// The entry of a set at one element.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'s> {
    /// The element.
    pub element: &'s Element,
    /// Whether the path to the element is in the set.
    pub is_member: bool,
    /// The paths below the element, without the element.
    pub children: Option<&'s Set>,
}

impl<'s> From<&'s Node> for Entry<'s> {
    fn from(node: &'s Node) -> Self {
        Self { element: &node.element, is_member: node.member, children: node.children.as_deref() }
    }
}

impl Set {
    /// The first elements of the paths, in order.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = Entry<'_>> + DoubleEndedIterator {
        self.nodes.iter().map(Entry::from)
    }

    /// The paths: those of one level in order, then those that go on from them.
    pub fn iter(&self) -> Iter<'_> {
        Iter { levels: vec![Level { members: &self.nodes, parents: &self.nodes }], prefix: Path::new() }
    }
}

impl<'s> IntoIterator for &'s Set {
    type Item = Path;
    type IntoIter = Iter<'s>;
    fn into_iter(self) -> Iter<'s> {
        self.iter()
    }
}

/// The paths of a set.
#[derive(Clone, Debug)]
pub struct Iter<'s> {
    levels: Vec<Level<'s>>,
    /// The way from the first level to the last of `levels`.
    prefix: Path,
}

/// What is left of a level: first its members are returned, then the levels below.
#[derive(Clone, Debug)]
struct Level<'s> {
    members: &'s [Node],
    parents: &'s [Node],
}

impl Iterator for Iter<'_> {
    type Item = Path;

    fn next(&mut self) -> Option<Path> {
        loop {
            let level = self.levels.last_mut()?;
            while let Some(node) = level.members.split_off_first() {
                if node.member {
                    let mut path = Vec::with_capacity(self.prefix.len() + 1);
                    path.extend_from_slice(&self.prefix);
                    path.push(node.element.clone());
                    return Some(path.into());
                }
            }
            let below = std::iter::from_fn(|| level.parents.split_off_first())
                .find_map(|node| node.children.as_ref().map(|set| (&node.element, set)));
            match below {
                Some((element, set)) => {
                    self.prefix.push(element.clone());
                    self.levels.push(Level { members: &set.nodes, parents: &set.nodes });
                }
                None => {
                    self.levels.pop();
                    self.prefix.pop();
                }
            }
        }
    }
}
