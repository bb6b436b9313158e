//! Checks that a configuration can be an object of a type, as far as server-side apply needs: that fields
//! exist, that values have the right type, and that list items have keys. The errors are those of the
//! reference.

use super::place::{Atom, Form, ItemKey, Items, ListType, Names, Place, Scalar, Seen, opened, unwritten};
use crate::go;
use crate::node::shape_of;
use object::excerpt::shorten;
use object::field::{MOST_ERRORS, MOST_TEXT, more};
use object::foreign::Foreign;
use object::path::Element;
use object::{Map, Value};
use schema::{Ref, Shape, Type, builtin};
use std::collections::{BTreeSet, HashSet};
use std::fmt;
use std::sync::{Arc, LazyLock};

/// The errors of a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Faults {
    list: Vec<Fault>,
    /// How many errors are only counted.
    left_out: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Fault {
    /// From the innermost element outwards. Faults at one place share the text.
    path: Vec<Arc<str>>,
    why: String,
}

impl Faults {
    fn push(&mut self, fault: impl FnOnce() -> Fault) {
        if self.list.len() < MOST_ERRORS {
            self.list.push(fault());
        } else {
            self.left_out += 1;
        }
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let write = |fault: &Fault, f: &mut fmt::Formatter<'_>| {
            fault.path.iter().rev().try_for_each(|part| f.write_str(part))?;
            let separator = if fault.path.is_empty() { "" } else { ": " };
            write!(f, "{separator}{}", fault.why)
        };
        if let ([only], 0) = (&self.list[..], self.left_out) {
            return write(only, f);
        }
        f.write_str("errors:")?;
        let mut room = MOST_TEXT;
        for (at, fault) in self.list.iter().enumerate() {
            if room == 0 {
                return write!(f, "\n  and {}", more(self.list.len() - at + self.left_out));
            }
            f.write_str("\n  ")?;
            write(fault, f)?;
            let length = fault.path.iter().map(|part| part.len()).sum::<usize>() + fault.why.len();
            room = room.saturating_sub(length);
        }
        if self.left_out > 0 {
            write!(f, "\n  and {}", more(self.left_out))?;
        }
        Ok(())
    }
}

/// Whether duplicate list items are allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Duplicates {
    Allowed,
    Refused,
}

/// Checks that the list items of an object have keys. The decoder has checked everything else.
pub(crate) fn check_typed(ty: &Ref<Type>, object: &Value, duplicates: Duplicates) -> Result<(), Faults> {
    if duplicates == Duplicates::Allowed
        && let Ref::Static(ty) = ty
        && !UNCERTAIN.contains(&std::ptr::from_ref::<Type>(ty).addr())
    {
        return Ok(());
    }
    check(Place::of(&shape_of(ty)), object, Form::Typed, duplicates)
}

/// The addresses of the built-in types in which a list item may lack its key. They are few.
static UNCERTAIN: LazyLock<HashSet<usize>> = LazyLock::new(|| {
    fn below(shape: &Shape) -> Option<&Type> {
        match shape {
            Shape::Struct(ty) | Shape::SchemaOr(_, ty) => Some(ty),
            Shape::List(inner) | Shape::Map(inner) => below(inner),
            _ => None,
        }
    }
    let address = |ty: &Type| std::ptr::from_ref(ty).addr();
    let mut uncertain = HashSet::new();
    loop {
        let before = uncertain.len();
        for ty in builtin::types() {
            let found = ty.fields.iter().any(|field| {
                let inner = below(&field.shape);
                !Place::field(field).items_have_keys()
                    || inner.is_some_and(|ty| uncertain.contains(&address(ty)))
            });
            if found {
                uncertain.insert(address(ty));
            }
        }
        if uncertain.len() == before {
            return uncertain;
        }
    }
});

/// Checks a whole object.
pub(crate) fn check(
    place: Place<'_>,
    object: &Value,
    form: Form,
    duplicates: Duplicates,
) -> Result<(), Faults> {
    let mut faults = Faults { list: Vec::new(), left_out: 0 };
    Checker { form, duplicates }.at(place, object, &mut faults);
    if faults.list.is_empty() { Ok(()) } else { Err(faults) }
}

#[derive(Clone, Copy)]
struct Checker {
    form: Form,
    duplicates: Duplicates,
}

impl Checker {
    fn at(self, place: Place<'_>, value: &Value, faults: &mut Faults) {
        let form = place.form(self.form);
        if form != self.form {
            return Self { form, ..self }.at(place, value, faults);
        }
        if self.form == Form::Plain
            && let Some(foreign) = Foreign::of(value)
        {
            return faults.push(|| Fault { path: Vec::new(), why: shorten(foreign_misfit(place, &foreign)) });
        }
        if self.form == Form::Typed && matches!(value, Value::Raw(_)) {
            return Self { form: Form::Plain, ..self }.at(place, &opened(value), faults);
        }
        let mut refuse = |why: String| faults.push(|| Fault { path: Vec::new(), why: shorten(why) });
        match place.see(Some(value)) {
            // The decoder has checked scalars.
            Seen::Scalar(_) if self.form == Form::Typed => {}
            Seen::Scalar(scalar) => {
                if let Some(why) = misfit(scalar, value) {
                    refuse(why);
                }
            }
            Seen::Map(names) => match value {
                Value::Null => {}
                Value::Map(map) => self.entries(names, map, faults),
                other => refuse(format!("expected map, got &{{{}}}", go::show(other))),
            },
            Seen::List(items) => match value {
                Value::Null => {}
                Value::List(list) => self.items(items, list, faults),
                other => refuse(format!("expected list, got &{{{}}}", go::show(other))),
            },
        }
    }

    fn entries(self, names: Names<'_>, map: &Map, faults: &mut Faults) {
        let mut entries: Vec<_> = map.iter().collect();
        if self.form == Form::Plain {
            // The reference stops at the first unknown field that it comes across, in any order.
            entries.sort_by(|a, b| a.0.cmp(b.0));
        }
        for (key, value) in entries {
            let part = || Element::Field(key.clone()).to_string();
            let Some(place) = names.place(key) else {
                faults
                    .push(|| Fault { path: vec![part().into()], why: "field not declared in schema".into() });
                return;
            };
            self.below(place, value, part, faults);
        }
        if self.form == Form::Typed {
            for field in names.fields() {
                if let Some(value @ Value::Map(_)) = unwritten(field)
                    && !map.contains_key(&field.name)
                {
                    self.below(Place::field(field), value, || format!(".{}", field.name), faults);
                }
            }
        }
    }

    fn items(self, items: Items<'_>, list: &[Value], faults: &mut Faults) {
        let mut seen = BTreeSet::new();
        for (at, item) in list.iter().enumerate() {
            let element = match items.list_type {
                ListType::Atomic => Element::Index(i64::try_from(at).unwrap_or(i64::MAX)),
                _ => match items.element(item) {
                    Ok(element) => element,
                    Err(why) => {
                        faults.push(|| Fault { path: Vec::new(), why: format!("element {at}: {why}") });
                        return;
                    }
                },
            };
            if self.duplicates == Duplicates::Refused && !matches!(items.list_type, ListType::Atomic) {
                let key = ItemKey(element.clone());
                if seen.contains(&key) {
                    let why = || shorten(format!("duplicate entries for key {element}"));
                    faults.push(|| Fault { path: Vec::new(), why: why() });
                }
                seen.insert(key);
            }
            self.below(items.inner, item, || shown(&element), faults);
        }
    }

    fn below(self, place: Place<'_>, value: &Value, part: impl Fn() -> String, faults: &mut Faults) {
        let before = faults.list.len();
        self.at(place, value, faults);
        if faults.list.len() > before {
            let part: Arc<str> = shorten(part()).into();
            faults.list.iter_mut().skip(before).for_each(|fault| fault.path.push(part.clone()));
        }
    }
}

/// The element of a list item, as errors show it.
fn shown(element: &Element) -> String {
    const UNDEFINED: &str = "{{undefined}}";
    match element {
        Element::Value(value) if Foreign::of(value).is_some() => format!("[={UNDEFINED}]"),
        Element::Keyed(keys) if keys.iter().any(|(_, value)| Foreign::of(value).is_some()) => {
            let mut parts = Vec::with_capacity(keys.len());
            for (name, value) in keys.iter() {
                let alone = Element::keyed([(name.clone(), value.clone())]).to_string();
                let alone = alone.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
                parts.push(match Foreign::of(value) {
                    Some(_) => format!("{name}={UNDEFINED}"),
                    None => alone.unwrap_or_default().to_owned(),
                });
            }
            format!("[{}]", parts.join(","))
        }
        element => element.to_string(),
    }
}

/// Why a value that is no JSON is not what is wanted.
fn foreign_misfit(place: Place<'_>, foreign: &Foreign) -> String {
    let Foreign { type_name, text, source } = foreign;
    match place.atom() {
        Atom::Scalar(Scalar::Numeric) => format!("expected numeric (int or float), got {type_name}"),
        Atom::Scalar(Scalar::String) => {
            format!("expected string, got &value.valueUnstructured{{Value:{source}}}")
        }
        Atom::Scalar(Scalar::Boolean) => format!("expected boolean, got &{{{text}}}"),
        Atom::Scalar(Scalar::Untyped) => format!("expected any scalar, got &{{{text}}}"),
        Atom::Map(_) | Atom::Any(_) => format!("expected map, got &{{{text}}}"),
        Atom::List(_) => format!("expected list, got &{{{text}}}"),
    }
}

/// Why a value is not the scalar that is wanted.
fn misfit(scalar: Scalar, value: &Value) -> Option<String> {
    let kind = go::GoKind::of_value(value);
    let is_number = matches!(value, Value::Int(_) | Value::Float(_));
    match scalar {
        _ if value.is_null() => None,
        Scalar::Numeric if !is_number => {
            Some(format!("expected numeric (int or float), got {}", kind.type_name()))
        }
        Scalar::String if kind != go::GoKind::String => {
            Some(format!("expected string, got &value.valueUnstructured{{Value:{}}}", go::show_source(value)))
        }
        Scalar::Boolean if kind != go::GoKind::Bool => {
            Some(format!("expected boolean, got &{{{}}}", go::show(value)))
        }
        Scalar::Untyped if matches!(value, Value::List(_) | Value::Map(_)) => {
            Some(format!("expected any scalar, got &{{{}}}", go::show(value)))
        }
        _ => None,
    }
}
