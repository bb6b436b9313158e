//! Lists: merged by a key or as sets, put into order, cleared of elements.

use super::meta::Meta;
use super::order::{Identity, Positions, key_of, normalize, require_key};
use super::{
    DIRECTIVE, Doc, SET_ORDER, bad_element_order, bad_type, merge_map, no_list_of_lists, no_merge_key,
    not_comparable, unknown_directive, without_directives,
};
use crate::Error;
use crate::go::{self, GoKind};
use crate::node::{Node, Opened};
use object::{Key, Map, Value};
use std::collections::{HashMap, HashSet};

/// The elements of a list.
pub(crate) fn items(mut node: Node<'_>) -> Vec<Node<'_>> {
    match node.open() {
        Opened::List(items) => std::mem::take(items),
        _ => Vec::new(),
    }
}

fn plain<'a>(value: &Value) -> Vec<Node<'a>> {
    value.as_list().unwrap_or_default().iter().cloned().map(Node::plain).collect()
}

/// Merges a list into another, or, with `deletes`, removes its elements from the other.
pub(crate) fn merge<'a>(
    original: Vec<Node<'a>>,
    patch: &mut Value,
    element: Meta<'a>,
    key: &str,
    deletes: bool,
) -> Result<Vec<Node<'a>>, Error> {
    merge_in_place(original, patch, element, key, deletes).map(|merged| merged.items)
}

/// A merged list.
struct Merged<'a> {
    items: Vec<Node<'a>>,
    /// What the reference has in the place of the original list afterwards, if that has changed: it deletes
    /// elements in place, and elements that are added take the room of deleted ones. `$setElementOrder` takes
    /// this for the order of the server.
    original: Option<Vec<Node<'a>>>,
}

fn merge_in_place<'a>(
    original: Vec<Node<'a>>,
    patch: &mut Value,
    element: Meta<'a>,
    key: &str,
    deletes: bool,
) -> Result<Merged<'a>, Error> {
    let unchanged = |items| Merged { items, original: None };
    let new = patch.as_list().unwrap_or_default();
    if original.is_empty() && new.is_empty() {
        return Ok(unchanged(original));
    }
    let kind = element_kind(&original, new)?;
    if kind != GoKind::Map {
        let named: HashSet<Identity> = new.iter().map(Identity::of_value).collect();
        if deletes {
            let kept = original.into_iter().filter(|node| !named.contains(&Identity::of(node)));
            return Ok(unchanged(kept.collect()));
        }
        return merge_scalars(original, plain(patch), &named, key, kind).map(unchanged);
    }
    if key.is_empty() {
        let name = element.kind();
        return Err(Error::Internal(format!("cannot merge lists without merge key for {name}")));
    }
    let Specials { original, mut ordinary, deletions } = specials(original, patch, key)?;
    let order = ordinary.iter().map(|(_, value)| Node::plain(value.clone())).collect::<Vec<_>>();
    let server_order = original.clone();
    let merged = merge_by_key(original, &mut ordinary, element, key)?;
    let added = merged.get(server_order.len()..).unwrap_or_default();
    let original = deletions.map(|deletions| deletions.refill(added));
    if let Some(patch) = patch.as_list_mut() {
        for (at, value) in ordinary {
            if let Some(place) = patch.get_mut(at) {
                *place = value;
            }
        }
    }
    let Parts { named, others } = partition(merged, &order, key)?;
    let items = normalize(named, others, &order, &server_order, key, kind)?;
    Ok(Merged { items, original })
}

/// A set of scalars and more of them.
fn merge_scalars<'a>(
    original: Vec<Node<'a>>,
    new: Vec<Node<'a>>,
    named: &HashSet<Identity>,
    key: &str,
    kind: GoKind,
) -> Result<Vec<Node<'a>>, Error> {
    let mut seen = HashSet::new();
    let all = original.iter().chain(&new).filter(|node| seen.insert(Identity::of(node))).cloned();
    let merged: Vec<Node<'a>> = all.collect();
    if !key.is_empty() {
        let Parts { named, others } = partition(merged, &new, key)?;
        return normalize(named, others, &new, &original, key, kind);
    }
    let (there, others) = merged.into_iter().partition(|node| named.contains(&Identity::of(node)));
    normalize(there, others, &new, &original, key, kind)
}

/// What all elements are. They must not differ, and must not be lists.
fn element_kind(original: &[Node<'_>], new: &[Value]) -> Result<GoKind, Error> {
    let mut kinds = original.iter().map(GoKind::of).chain(new.iter().map(GoKind::of_value));
    let first = match kinds.next() {
        Some(GoKind::Nil) => return Err(not_comparable()),
        Some(GoKind::List) => return Err(no_list_of_lists()),
        Some(kind) => kind,
        None => return Err(Error::Internal("no elements in any of the given slices".into())),
    };
    if kinds.all(|kind| kind == first) {
        return Ok(first);
    }
    let original: Value = original.iter().map(Node::to_value).collect();
    let both: Value = [original, new.to_vec().into()].into_iter().collect();
    Err(Error::Internal(format!("list element types are not identical: {}", go::show(&both))))
}

/// The result of applying the elements with directives.
struct Specials<'a> {
    original: Vec<Node<'a>>,
    /// The elements without a directive, and their indexes in the patch.
    ordinary: Vec<(usize, Value)>,
    /// None if nothing was deleted.
    deletions: Option<Deletions<'a>>,
}

fn specials<'a>(original: Vec<Node<'a>>, patch: &Value, key: &str) -> Result<Specials<'a>, Error> {
    let mut ordinary = Vec::new();
    let mut deleted = Vec::new();
    let mut replace = false;
    let there = Positions::of(&original, key);
    for (at, element) in patch.as_list().unwrap_or_default().iter().enumerate() {
        let Some(directive) = element.get(DIRECTIVE) else {
            ordinary.push((at, element.clone()));
            continue;
        };
        match directive.as_str() {
            Some("delete") => {
                let value = element.get(key).ok_or_else(|| no_merge_key(element, key))?;
                let identity = Identity::of_value(value);
                there.find(&identity)?;
                deleted.push(identity);
            }
            Some("replace") => replace = true,
            Some("merge") => {
                return Err(Error::Internal("merging lists cannot yet be specified in the patch".into()));
            }
            _ => return Err(unknown_directive(directive, element)),
        }
    }
    let deletions = if deleted.is_empty() { None } else { Deletions::of(&original, &deleted, key) };
    if replace {
        let original = ordinary.into_iter().map(|(_, element)| Node::plain(element)).collect();
        return Ok(Specials { original, ordinary: Vec::new(), deletions });
    }
    let original = deletions.as_ref().map_or(original, |deletions| deletions.kept.clone());
    Ok(Specials { original, ordinary, deletions })
}

/// A list from which elements were deleted one by one, each time moving those behind it forward.
struct Deletions<'a> {
    kept: Vec<Node<'a>>,
    /// The elements in the freed room behind `kept`: each deletion leaves the element there that was last
    /// before it.
    freed: Vec<Node<'a>>,
}

impl<'a> Deletions<'a> {
    /// Deletes all elements with these identities, one identity after the other; none if there are no such
    /// elements.
    fn of(original: &[Node<'a>], identities: &[Identity], key: &str) -> Option<Self> {
        let mut indexes: HashMap<Identity, Vec<usize>> = HashMap::new();
        for (at, element) in original.iter().enumerate() {
            if let Some(identity) = key_of(element, key) {
                indexes.entry(identity).or_default().push(at);
            }
        }
        let order = identities.iter().filter_map(|identity| indexes.remove(identity)).flatten();
        let mut deleted = HashSet::new();
        let mut freed = Vec::new();
        let mut last = original.len();
        for at in order {
            while last > 0 && deleted.contains(&(last - 1)) {
                last -= 1;
            }
            freed.extend(last.checked_sub(1).and_then(|last| original.get(last)).cloned());
            deleted.insert(at);
        }
        freed.reverse();
        let kept = original.iter().enumerate().filter(|(at, _)| !deleted.contains(at));
        let kept = kept.map(|(_, element)| element.clone()).collect();
        (!freed.is_empty()).then_some(Self { kept, freed })
    }

    /// The list at its old length, with the added elements in the freed room.
    fn refill(self, added: &[Node<'a>]) -> Vec<Node<'a>> {
        let added = added.iter().take(self.freed.len()).cloned();
        let left = self.freed.iter().skip(added.len()).cloned();
        self.kept.into_iter().chain(added).chain(left).collect()
    }
}

/// Merges each element into the one with the same key, or adds it.
fn merge_by_key<'a>(
    mut merged: Vec<Node<'a>>,
    new: &mut [(usize, Value)],
    element: Meta<'a>,
    key: &str,
) -> Result<Vec<Node<'a>>, Error> {
    let mut places = Positions::default();
    for (at, node) in merged.iter().enumerate() {
        if let Some(identity) = key_of(node, key) {
            places.add(identity, at);
        }
    }
    for (_, value) in new {
        let identity = Identity::of_value(value.get(key).ok_or_else(|| no_merge_key(value, key))?);
        match places.find(&identity)?.and_then(|at| merged.get_mut(at)) {
            Some(place) => *place = merge_map(std::mem::replace(place, Node::Nil), value, element)?,
            None => {
                places.add(identity, merged.len());
                merged.push(Node::plain(value.clone()));
            }
        }
    }
    Ok(merged)
}

/// Elements by whether another list has one of the same identity.
struct Parts<'a> {
    named: Vec<Node<'a>>,
    others: Vec<Node<'a>>,
}

fn partition<'a>(elements: Vec<Node<'a>>, by: &[Node<'a>], key: &str) -> Result<Parts<'a>, Error> {
    let odd = by.iter().position(|node| GoKind::of(node) != GoKind::Map);
    let mut places = Positions::default();
    for (at, node) in by.iter().enumerate().take(odd.unwrap_or(by.len())) {
        if let Some(identity) = key_of(node, key) {
            places.add(identity, at);
        }
    }
    let mut parts = Parts { named: Vec::new(), others: Vec::new() };
    for element in elements {
        let identity = require_key(&element, key)?;
        match (places.find(&identity)?, odd) {
            (Some(_), _) => parts.named.push(element),
            (None, Some(odd)) => return Err(Error::Internal(format!("value for key {odd} is not a map"))),
            (None, None) => parts.others.push(element),
        }
    }
    Ok(parts)
}

/// Applies the `$setElementOrder` lists of an object, with the lists that they order.
pub(crate) fn set_orders<'a>(doc: &mut Doc<'a>, patch: &mut Map, meta: Meta<'a>) -> Result<(), Error> {
    if !patch.keys().any(|key| key.starts_with(SET_ORDER)) {
        return Ok(());
    }
    let mut orders: Vec<(Key, Value)> = Vec::new();
    patch.retain(|key, order| {
        let is_order = key.starts_with(SET_ORDER);
        if is_order {
            orders.push((key.clone(), std::mem::take(order)));
        }
        !is_order
    });
    orders.sort_by(|a, b| a.0.cmp(&b.0));
    for (directive, order) in orders {
        set_order(doc, patch, meta, &directive, &order)?;
    }
    Ok(())
}

fn set_order<'a>(
    doc: &mut Doc<'a>,
    patch: &mut Map,
    meta: Meta<'a>,
    directive: &str,
    order: &Value,
) -> Result<(), Error> {
    let Some(order_list) = order.as_list() else {
        return Err(bad_type(GoKind::List, GoKind::of_value(order)));
    };
    let name = directive
        .strip_prefix(SET_ORDER)
        .and_then(|rest| rest.strip_prefix('/'))
        .ok_or_else(bad_element_order)?;
    let is_list =
        |kind: GoKind| if kind == GoKind::List { Ok(()) } else { Err(bad_type(GoKind::List, kind)) };
    let original = match doc.get(name) {
        Some(node) => {
            is_list(GoKind::of(node))?;
            Some(items(node.clone()))
        }
        None => None,
    };
    patch.get(name).map_or(Ok(()), |list| is_list(GoKind::of_value(list)))?;
    let (field, element) = meta.list_field(name)?;
    let facts = &field.options.patch;
    let new = patch.get(name).and_then(Value::as_list).unwrap_or_default();
    agree(new, order_list, &facts.key)?;

    let has_new = patch.contains_key(name);
    let mut server_order = original.clone().unwrap_or_default();
    let kind = element_kind(&server_order, new);
    let merged = match (original, has_new) {
        (None, false) => return Ok(()),
        (Some(original), false) => original,
        (None, true) => {
            let mut new = patch.get(name).cloned().unwrap_or_default();
            plain(&without_directives(&mut new).unwrap_or_default())
        }
        (Some(original), true) => {
            let mut list = patch.get(name).cloned().unwrap_or_default();
            if facts.merge {
                let merged = merge_in_place(original, &mut list, element, &facts.key, false)?;
                server_order = merged.original.unwrap_or(server_order);
                merged.items
            } else {
                plain(&list)
            }
        }
    };
    let order = plain(order);
    let Parts { named, others } = if facts.key.is_empty() {
        let ids: HashSet<Identity> = order.iter().map(Identity::of).collect();
        if ids.iter().any(|identity| !identity.is_comparable())
            || merged.iter().any(|node| !Identity::of(node).is_comparable())
        {
            return Err(not_comparable());
        }
        let (named, others) = merged.into_iter().partition(|node| ids.contains(&Identity::of(node)));
        Parts { named, others }
    } else {
        partition(merged, &order, &facts.key)?
    };
    let both = normalize(named, others, &order, &server_order, &facts.key, kind?)?;
    doc.insert(Key::from(name), Node::List(both));
    patch.remove(name);
    Ok(())
}

/// Checks that the elements of the patch have the order that `$setElementOrder` asks for.
fn agree(new: &[Value], order: &[Value], key: &str) -> Result<(), Error> {
    if new.is_empty() || order.is_empty() {
        return Ok(());
    }
    let mut ordinary = Vec::with_capacity(new.len());
    for element in new {
        if !key.is_empty() {
            let Some(map) = element.as_map() else {
                return Err(bad_type(GoKind::Map, GoKind::of_value(element)));
            };
            if map.get(DIRECTIVE).and_then(Value::as_str) == Some("delete") {
                continue;
            }
        }
        ordinary.push(element);
    }
    let has_directive = |element: &Value| element.get(DIRECTIVE).is_some();
    let mut order_left = order.iter();
    let mut ordinary = ordinary.into_iter().peekable();
    // The reference passes over directives only while there is order left to compare with.
    while let Some(element) = ordinary.peek() {
        if order_left.len() == 0 {
            break;
        }
        if has_directive(element) {
            ordinary.next();
            continue;
        }
        let Some(wanted) = order_left.next() else { break };
        if same(element, wanted, key)? {
            ordinary.next();
        }
    }
    if ordinary.peek().is_none() {
        return Ok(());
    }
    let (new, order): (Value, Value) = (new.to_vec().into(), order.to_vec().into());
    Err(Error::Internal(format!(
        "The order in patch list:\n{}\n doesn't match {SET_ORDER} list:\n{}\n",
        go::show(&new),
        go::show(&order)
    )))
}

/// Whether two elements have the same key, or, without a key, are the same.
fn same(left: &Value, right: &Value, key: &str) -> Result<bool, Error> {
    let identity = |element: &Value| {
        if key.is_empty() {
            return Ok(Identity::of_value(element));
        }
        let Some(map) = element.as_map() else {
            return Err(bad_type(GoKind::Map, GoKind::of_value(element)));
        };
        map.get(key).map(Identity::of_value).ok_or_else(|| no_merge_key(element, key))
    };
    let (left, right) = (identity(left)?, identity(right)?);
    if left == right && !left.is_comparable() {
        return Err(not_comparable());
    }
    Ok(left == right)
}
