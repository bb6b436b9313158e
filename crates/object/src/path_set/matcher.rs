//! Patterns that pick paths out of a set by how they begin.

use super::{Node, Set};
use crate::path::Element;
use std::cmp::Ordering;
use std::sync::Arc;

/// A pattern for one element of a path.
#[derive(Clone, Debug)]
pub enum Pattern {
    /// Anything.
    Any,
    /// This element.
    Element(Element),
}

impl Pattern {
    fn matches(&self, element: &Element) -> bool {
        match self {
            Self::Any => true,
            Self::Element(own) => own == element,
        }
    }

    /// Anything comes first, and is not even equal to itself.
    fn compare(&self, other: &Pattern) -> Ordering {
        match (self, other) {
            (Self::Any, Self::Element(_)) => Ordering::Less,
            (_, Self::Any) => Ordering::Greater,
            (Self::Element(a), Self::Element(b)) => a.cmp(b),
        }
    }
}

impl From<Element> for Pattern {
    fn from(element: Element) -> Self {
        Self::Element(element)
    }
}

/// The field of that name.
impl From<&str> for Pattern {
    fn from(name: &str) -> Self {
        Self::Element(Element::field(name))
    }
}

/// A choice of paths.
///
/// ```
/// use object::path_set::{Matcher, Pattern, Set};
/// let matcher = Matcher::prefix(["spec".into(), Pattern::Any, "image".into()]);
/// let set = Set::from_json(r#"{"f:kind":{},"f:spec":{".":{},"f:a":{"f:image":{},"f:name":{}}}}"#).unwrap();
/// assert_eq!(set.matching(&matcher).to_json(), r#"{"f:spec":{".":{},"f:a":{"f:image":{}}}}"#);
/// ```
#[derive(Clone, Debug)]
pub struct Matcher {
    /// In the order of their patterns; none at all for the matcher that picks every path.
    branches: Option<Vec<Branch>>,
}

/// The first branch that an element matches counts.
#[derive(Clone, Debug)]
struct Branch {
    pattern: Pattern,
    rest: Matcher,
}

impl Matcher {
    /// Picks every path.
    pub const fn everything() -> Self {
        Self { branches: None }
    }

    /// Picks the paths that begin like this, and those that this begins with.
    pub fn prefix(patterns: impl IntoIterator<Item = Pattern, IntoIter: DoubleEndedIterator>) -> Self {
        patterns
            .into_iter()
            .rev()
            .fold(Self::everything(), |rest, pattern| Self { branches: Some(vec![Branch { pattern, rest }]) })
    }

    /// Picks what one of two matchers picks.
    ///
    /// Where both take any element at one place, what the other one says about the steps behind it is lost,
    /// as in the reference.
    pub fn merge(self, other: Self) -> Self {
        let (Some(mut merged), Some(others)) = (self.branches, other.branches) else {
            return Self::everything();
        };
        let own = merged.len();
        for branch in others {
            let found = find(merged.get(..own).unwrap_or_default(), &branch.pattern);
            match found.and_then(|at| merged.get_mut(at)) {
                Some(same) => {
                    let rest = std::mem::replace(&mut same.rest, Self::everything());
                    same.rest = rest.merge(branch.rest);
                }
                None => merged.push(branch),
            }
        }
        insertion_sort(&mut merged);
        Self { branches: Some(merged) }
    }
}

impl Set {
    /// The paths that a matcher picks.
    pub fn matching(&self, matcher: &Matcher) -> Set {
        let Some(branches) = &matcher.branches else { return self.clone() };
        let nodes = self.nodes.iter().filter_map(|node| {
            let branch = branches.iter().find(|branch| branch.pattern.matches(&node.element))?;
            let children: Option<Arc<Set>> = match (&node.children, &branch.rest.branches) {
                (Some(set), Some(_)) => set.matching(&branch.rest).into_children(),
                (children, _) => children.clone(),
            };
            let keep = node.member || children.is_some();
            keep.then(|| Node { element: node.element.clone(), member: node.member, children })
        });
        Set { nodes: nodes.collect() }
    }
}

/// Searches for a pattern as the reference does, whose comparison is reversed, so that it may miss one of
/// several.
fn find(branches: &[Branch], pattern: &Pattern) -> Option<usize> {
    let order = |at: usize| branches.get(at).map(|branch| branch.pattern.compare(pattern));
    let (mut low, mut high) = (0, branches.len());
    while low < high {
        let middle = low.midpoint(high);
        if order(middle).is_some_and(Ordering::is_gt) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    order(low).is_some_and(Ordering::is_eq).then_some(low)
}

/// The order is not total, so it is not handed to a library's sort. Matchers are written by hand, and short.
fn insertion_sort(branches: &mut [Branch]) {
    for end in 1..branches.len() {
        for at in (1..=end).rev() {
            let Some([before, after]) = branches.get_mut(at - 1..=at) else { break };
            if after.pattern.compare(&before.pattern).is_ge() {
                break;
            }
            std::mem::swap(before, after);
        }
    }
}
