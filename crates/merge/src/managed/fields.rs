//! The set of paths of an object, and a set of paths checked against a type.

use super::place::{Atom, Form, ItemKey, Items, ListType, Names, Place, Seen, opened, unwritten};
use object::path::Element;
use object::path_set::{Builder, Set};
use object::{Map, Value};
use std::collections::BTreeMap;

/// Every field and item of an object. Items without a key are left out; see [`super::check`].
pub(crate) fn fields(place: Place<'_>, object: &Value, form: Form) -> Set {
    let mut level = Builder::new();
    at(place, object, form, &mut level);
    level.finish()
}

/// Adds the paths below a value; returns whether the path of the value itself is to be added.
fn at(place: Place<'_>, value: &Value, form: Form, level: &mut Builder) -> bool {
    let form = place.form(form);
    if form == Form::Typed && matches!(value, Value::Raw(_)) {
        return at(place, &opened(value), Form::Plain, level);
    }
    match place.see(Some(value)) {
        Seen::Scalar(_) => true,
        Seen::Map(names) if names.is_atomic() => true,
        Seen::List(Items { list_type: ListType::Atomic, .. }) => true,
        Seen::Map(names) => {
            if let Some(map) = value.as_map() {
                entries(names, map, form, level);
            }
            false
        }
        Seen::List(items) => {
            list(items, value.as_list().unwrap_or_default(), form, level);
            false
        }
    }
}

fn entries(names: Names<'_>, map: &Map, form: Form, level: &mut Builder) {
    let mut visit = |key: &object::Key, value: &Value| {
        let Some(place) = names.place(key) else { return };
        let mut below = Builder::new();
        let is_leaf = at(place, value, form, &mut below);
        let is_empty = match value {
            Value::Null => true,
            Value::Map(map) => is_unwritten(place, map, form),
            _ => false,
        };
        let (element, below) = (Element::Field(key.clone()), below.finish());
        if is_leaf || is_empty || !names.declares(key) {
            level.member_and_children(element, below);
        } else {
            level.children(element, below);
        }
    };
    for (key, value) in map.iter() {
        visit(key, value);
    }
    if form == Form::Typed {
        for field in names.fields() {
            if let Some(value) = unwritten(field)
                && !map.contains_key(&field.name)
            {
                visit(&field.name, value);
            }
        }
    }
}

/// Whether a map is written as an empty one.
fn is_unwritten(place: Place<'_>, map: &Map, form: Form) -> bool {
    match place.see(Some(&Value::Null)) {
        Seen::Map(names) => super::place::is_empty(names, map, place.form(form)),
        _ => map.is_empty(),
    }
}

fn list(items: Items<'_>, list: &[Value], form: Form, level: &mut Builder) {
    let mut items_by_key: BTreeMap<ItemKey, (&Value, bool)> = BTreeMap::new();
    for item in list {
        let Ok(element) = items.element(item) else { continue };
        items_by_key.entry(ItemKey(element)).and_modify(|(_, again)| *again = true).or_insert((item, false));
    }
    for (ItemKey(element), (item, again)) in items_by_key {
        let mut below = Builder::new();
        // Duplicate items are owned as a whole.
        if !again {
            at(items.inner, item, form, &mut below);
        }
        level.member_and_children(element, below.finish());
    }
}

/// The set with every named field in it that leads to one of its paths.
pub(crate) fn with_named_fields(set: &Set, place: Option<Place<'_>>) -> Set {
    let atom = place.map(Place::atom);
    let mut level = Builder::new();
    for entry in set.entries() {
        let below = match (entry.element, atom) {
            (Element::Field(key), Some(atom)) => names_of(atom).and_then(|names| names.place(key)),
            (Element::Keyed(_), Some(atom)) => items_of(atom).map(|items| items.inner),
            _ => None,
        };
        let is_named = match entry.element {
            Element::Field(key) => atom.and_then(names_of).is_some_and(|names| names.declares(key)),
            _ => false,
        };
        if entry.is_member || (is_named && entry.children.is_some()) {
            level.member(entry.element.clone());
        }
        if let Some(children) = entry.children {
            level.children(entry.element.clone(), with_named_fields(children, below));
        }
    }
    level.finish()
}

fn names_of(atom: Atom<'_>) -> Option<Names<'_>> {
    match atom {
        Atom::Map(names) => Some(names),
        Atom::Any(anything) => Some(anything.names()),
        Atom::Scalar(_) | Atom::List(_) => None,
    }
}

fn items_of(atom: Atom<'_>) -> Option<Items<'_>> {
    match atom {
        Atom::List(items) => Some(items),
        Atom::Any(anything) => Some(anything.items()),
        Atom::Scalar(_) | Atom::Map(_) => None,
    }
}

/// The set as the type has it today: a value that was granular when the set was made, and is atomic now, is
/// owned as a whole. `None` if nothing is different.
pub(crate) fn reconciled(set: &Set, place: Place<'_>) -> Option<Set> {
    is_stale(set, place.atom()).then(|| rewritten(set, place.atom()))
}

fn is_stale(set: &Set, atom: Atom<'_>) -> bool {
    set.entries().any(|entry| match (entry.children, atom_below(atom, entry.element)) {
        (Some(children), Some(below)) => is_one_value(below) || is_stale(children, below),
        _ => false,
    })
}

fn rewritten(set: &Set, atom: Atom<'_>) -> Set {
    let mut level = Builder::new();
    for entry in set.entries() {
        let element = entry.element.clone();
        let children = match (entry.children, atom_below(atom, entry.element)) {
            (Some(_), Some(below)) if is_one_value(below) => {
                level.member(element);
                continue;
            }
            (Some(children), Some(below)) => rewritten(children, below),
            (children, _) => children.cloned().unwrap_or_default(),
        };
        match entry.is_member {
            true => level.member_and_children(element, children),
            false => level.children(element, children),
        }
    }
    level.finish()
}

/// The place of an element, if the type has it. What can be anything is a map here.
fn atom_below<'s>(atom: Atom<'s>, element: &Element) -> Option<Atom<'s>> {
    let place = match (names_of(atom), atom) {
        (Some(names), _) if names.is_deduced() => None,
        (Some(names), _) => match element {
            Element::Field(key) => names.place(key),
            _ => names.others(),
        },
        (None, Atom::List(items)) => Some(items.inner),
        (None, _) => None,
    };
    place.map(Place::atom)
}

/// Whether a value is owned as a whole.
fn is_one_value(atom: Atom<'_>) -> bool {
    match (names_of(atom), atom) {
        (Some(names), _) => names.is_atomic() && !names.is_deduced(),
        (None, Atom::List(items)) => matches!(items.list_type, ListType::Atomic),
        (None, _) => false,
    }
}
