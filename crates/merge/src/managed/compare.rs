//! The differences between two objects of a type.

use super::place::{
    Finder, Form, ItemKey, ItemKeyError, Items, ListType, Names, Place, Seen, equal, is_empty, opened,
    unwritten,
};
use object::path::Element;
use object::path_set::{Builder, Set};
use object::{Key, Map, Value};
use std::collections::BTreeMap;

/// The differences between an object and a later state. A duplicate list item may be both removed and added;
/// no other path is in two of the sets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Comparison {
    /// The paths that only the earlier object has.
    pub(crate) removed: Set,
    /// The paths that both have, with different values.
    pub(crate) modified: Set,
    /// The paths that only the later object has.
    pub(crate) added: Set,
}

impl Comparison {
    /// Whether nothing is different.
    pub(crate) fn is_same(&self) -> bool {
        self.removed.is_empty() && self.modified.is_empty() && self.added.is_empty()
    }

    /// The differences outside of these fields.
    pub(crate) fn without(&self, fields: &Set) -> Self {
        let without = |set: &Set| set.recursive_difference(fields);
        Self {
            removed: without(&self.removed),
            modified: without(&self.modified),
            added: without(&self.added),
        }
    }
}

/// Compares two objects.
pub(crate) fn compare(
    place: Place<'_>,
    old: &Value,
    new: &Value,
    form: Form,
) -> Result<Comparison, ItemKeyError> {
    let (mut level, mut marks) = (Level::default(), Marks::default());
    at(place, Some(old), Some(new), form, &mut level, &mut marks)?;
    Ok(level.finish())
}

/// The differences below one place.
#[derive(Default)]
struct Level {
    removed: Builder,
    modified: Builder,
    added: Builder,
}

impl Level {
    fn finish(self) -> Comparison {
        Comparison {
            removed: self.removed.finish(),
            modified: self.modified.finish(),
            added: self.added.finish(),
        }
    }

    /// Adds the differences at an element.
    fn take(&mut self, element: impl FnOnce() -> Element, marks: Marks, below: Level) {
        let below = below.finish();
        if below.is_same() && marks == Marks::default() {
            return;
        }
        let element = element();
        for (builder, set, marked) in [
            (&mut self.removed, below.removed, marks.removed),
            (&mut self.modified, below.modified, marks.modified),
            (&mut self.added, below.added, marks.added),
        ] {
            if marked {
                builder.member(element.clone());
            }
            if !set.is_empty() {
                builder.children(element.clone(), set);
            }
        }
    }
}

/// The result for the place itself.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Marks {
    removed: bool,
    modified: bool,
    added: bool,
}

impl Marks {
    fn missing(&mut self, old: Option<&Value>, new: Option<&Value>) {
        self.added |= old.is_none();
        self.removed |= old.is_some() && new.is_none();
    }

    fn leaf(&mut self, old: Option<&Value>, new: Option<&Value>) {
        match (old, new) {
            (Some(old), Some(new)) => self.modified |= !equal(old, new),
            _ => self.missing(old, new),
        }
    }
}

fn at(
    place: Place<'_>,
    old: Option<&Value>,
    new: Option<&Value>,
    form: Form,
    level: &mut Level,
    marks: &mut Marks,
) -> Result<(), ItemKeyError> {
    let form = place.form(form);
    if form == Form::Typed && (is_raw(old) || is_raw(new)) {
        let (old, new) = (old.map(opened), new.map(opened));
        return at(place, old.as_deref(), new.as_deref(), Form::Plain, level, marks);
    }
    let seen = match (old, new) {
        (old, None) => [None, Some(place.see(old))],
        (None, new) => [None, Some(place.see(new))],
        (old, new) => {
            let (before, after) = (place.see(old), place.see(new));
            if before.is_like(&after) { [None, Some(after)] } else { [Some(before), Some(after)] }
        }
    };
    let mut is_leaf = false;
    for seen in seen.into_iter().flatten() {
        is_leaf = match seen {
            Seen::Scalar(_) => true,
            Seen::Map(names) => !maps(names, old, new, form, level)?,
            Seen::List(items) => !lists(items, old, new, form, level)?,
        };
        if is_leaf {
            marks.leaf(old, new);
        }
    }
    if !is_leaf {
        marks.missing(old, new);
    }
    Ok(())
}

fn is_raw(value: Option<&Value>) -> bool {
    matches!(value, Some(Value::Raw(_)))
}

/// Compares maps entry by entry; `false` if they are to be compared as one value.
fn maps(
    names: Names<'_>,
    old: Option<&Value>,
    new: Option<&Value>,
    form: Form,
    level: &mut Level,
) -> Result<bool, ItemKeyError> {
    if names.is_atomic() {
        return Ok(false);
    }
    let (old, new) = (old.and_then(Value::as_map), new.and_then(Value::as_map));
    let is_nothing = |map: Option<&Map>| map.is_none_or(|map| is_empty(names, map, form));
    if is_nothing(old) && is_nothing(new) {
        return Ok(false);
    }
    let (before, after) = (Finder::of(old), Finder::of(new));
    let mut visit = |key: &Key, before: Option<&Value>, after: Option<&Value>| {
        if is_plainly_same(before, after) {
            return Ok(());
        }
        let field = names.field(key);
        let Some(place) = field.map(Place::field).or_else(|| names.place(key)) else { return Ok(()) };
        let written = |map: Option<&Map>| match (form, field) {
            (Form::Typed, Some(field)) if map.is_some() => unwritten(field),
            _ => None,
        };
        let (before, after) = (before.or_else(|| written(old)), after.or_else(|| written(new)));
        child(|| Element::Field(key.clone()), place, before, after, form, level)
    };
    for (key, value) in old.into_iter().flat_map(Map::iter) {
        visit(key, Some(value), after.get(key))?;
    }
    for (key, value) in new.into_iter().flat_map(Map::iter) {
        if before.get(key).is_none() {
            visit(key, None, Some(value))?;
        }
    }
    // What neither tree has is the same in both, if there are two.
    if form == Form::Typed && old.is_some() != new.is_some() {
        for field in names.fields().iter().filter(|field| field.always) {
            if before.get(&field.name).is_none() && after.get(&field.name).is_none() {
                visit(&field.name, None, None)?;
            }
        }
    }
    Ok(true)
}

/// Whether two values are known to be equal without a walk: most are scalars or shared.
fn is_plainly_same(old: Option<&Value>, new: Option<&Value>) -> bool {
    match (old, new) {
        (Some(Value::String(old)), Some(Value::String(new))) => old == new,
        (Some(Value::Bool(old)), Some(Value::Bool(new))) => old == new,
        (Some(Value::Int(old)), Some(Value::Int(new))) => old == new,
        (Some(Value::Map(old)), Some(Value::Map(new))) => {
            !old.is_empty() && std::ptr::eq(old.entries(), new.entries())
        }
        (Some(Value::List(old)), Some(Value::List(new))) => {
            !old.is_empty() && std::ptr::eq::<[Value]>(&**old, &**new)
        }
        _ => false,
    }
}

/// Compares the values at an element.
fn child(
    element: impl FnOnce() -> Element,
    place: Place<'_>,
    old: Option<&Value>,
    new: Option<&Value>,
    form: Form,
    level: &mut Level,
) -> Result<(), ItemKeyError> {
    let one_sided = match (old, new) {
        (None, None) => return Ok(()),
        (None, Some(new)) => Some((new, &mut level.added)),
        (Some(old), None) => Some((old, &mut level.removed)),
        (Some(_), Some(_)) => None,
    };
    if let Some((value, builder)) = one_sided {
        let mut below = Builder::new();
        whole(place, value, form, &mut below)?;
        builder.member_and_children(element(), below.finish());
        return Ok(());
    }
    let (mut below, mut marks) = (Level::default(), Marks::default());
    at(place, old, new, form, &mut below, &mut marks)?;
    level.take(element, marks, below);
    Ok(())
}

/// Adds every path below a value that only one side has.
fn whole(place: Place<'_>, value: &Value, form: Form, level: &mut Builder) -> Result<(), ItemKeyError> {
    let form = place.form(form);
    if form == Form::Typed && matches!(value, Value::Raw(_)) {
        return whole(place, &opened(value), Form::Plain, level);
    }
    match (place.see(Some(value)), value) {
        (Seen::Map(names), Value::Map(map)) if !names.is_atomic() => {
            let mut visit = |key: &Key, value: &Value| {
                let Some(place) = names.place(key) else { return Ok(()) };
                let mut below = Builder::new();
                whole(place, value, form, &mut below)?;
                level.member_and_children(Element::Field(key.clone()), below.finish());
                Ok(())
            };
            map.iter().try_for_each(|(key, value)| visit(key, value))?;
            if form == Form::Typed {
                for field in names.fields() {
                    if let Some(value) = unwritten(field)
                        && !map.contains_key(&field.name)
                    {
                        visit(&field.name, value)?;
                    }
                }
            }
        }
        (Seen::List(items), Value::List(list)) if !matches!(items.list_type, ListType::Atomic) => {
            let mut items_by_key: BTreeMap<ItemKey, Option<&Value>> = BTreeMap::new();
            for item in list {
                items_by_key
                    .entry(ItemKey(items.element(item)?))
                    .and_modify(|first| *first = None)
                    .or_insert(Some(item));
            }
            for (ItemKey(element), item) in items_by_key {
                let mut below = Builder::new();
                // Duplicate items are owned as a whole.
                if let Some(item) = item {
                    whole(items.inner, item, form, &mut below)?;
                }
                level.member_and_children(element, below.finish());
            }
        }
        _ => {}
    }
    Ok(())
}

/// Compares lists item by item; `false` if they are to be compared as one value.
fn lists(
    items: Items<'_>,
    old: Option<&Value>,
    new: Option<&Value>,
    form: Form,
    level: &mut Level,
) -> Result<bool, ItemKeyError> {
    if matches!(items.list_type, ListType::Atomic) {
        return Ok(false);
    }
    let [old, new] = [old, new].map(|list| list.and_then(Value::as_list).unwrap_or_default());
    if old.is_empty() && new.is_empty() {
        return Ok(false);
    }
    if old == new {
        return Ok(true);
    }
    let mut items_by_key: BTreeMap<ItemKey, Sides<'_>> = BTreeMap::new();
    for item in old {
        items_by_key.entry(ItemKey(items.element(item)?)).or_default().old.push(item);
    }
    for item in new {
        items_by_key.entry(ItemKey(items.element(item)?)).or_default().new.push(item);
    }
    for (ItemKey(element), Sides { old, new }) in items_by_key {
        let mut compare = |old: Option<&Value>, new: Option<&Value>| {
            child(|| element.clone(), items.inner, old, new, form, level)
        };
        match (&old[..], &new[..]) {
            ([] | [_], [] | [_]) => compare(old.first().copied(), new.first().copied())?,
            ([_, _, ..], [_, _, ..]) => {
                let same = old.len() == new.len() && old.iter().zip(&new).all(|(old, new)| equal(old, new));
                if !same {
                    level.modified.member(element);
                }
            }
            // Duplicate items are owned as a whole.
            ([_, _, ..], new) => {
                if let Some(new) = new.first() {
                    compare(None, Some(new))?;
                }
                level.removed.member(element);
            }
            (old, _) => {
                if let Some(old) = old.first() {
                    compare(Some(old), None)?;
                }
                level.added.member(element);
            }
        }
    }
    Ok(true)
}

/// The items of one element in both lists.
#[derive(Default)]
struct Sides<'v> {
    old: Vec<&'v Value>,
    new: Vec<&'v Value>,
}
