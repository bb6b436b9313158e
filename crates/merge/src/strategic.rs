//! Strategic merge patch: objects are merged field by field, lists as the schema says.
//!
//! The schema names the lists that are merged and the key of their elements ([`schema::Patch`]). A patch can
//! say more: `$patch` (`replace`, `delete`) in an object or an element, `$retainKeys`, and beside a list its
//! `$deleteFromPrimitiveList/` and `$setElementOrder/`. Keys are looked at in their sorted order, where the
//! reference takes any, so that the reported error is deterministic.
//!
//! The patch is changed as it is applied (directives and nulls are removed), because the errors of the
//! reference show the rest of the patch.

mod list;
mod meta;
mod order;
mod restore;

use crate::go::{self, GoKind};
use crate::merge_patch::OBJECT;
use crate::node::{Doc, Node, Opened};
use crate::result::{refuse_strictly, set_kind};
use crate::{Error, FieldValidation, Patched};
use meta::Meta;
use object::{Key, Map, Value};
use schema::{Limits, Ref, Type, json};

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM: &str = "$deleteFromPrimitiveList";
const SET_ORDER: &str = "$setElementOrder";

/// Applies a strategic merge patch.
pub fn apply(
    ty: &Ref<Type>,
    current: &Value,
    patch: &[u8],
    validation: FieldValidation,
    limits: &Limits,
) -> Result<Patched, Error> {
    let decoded =
        json::decode_shape(&OBJECT, patch, limits).map_err(|error| Error::BadRequest(error.to_string()))?;
    let mut strict: Vec<String> = match validation {
        FieldValidation::Ignore => Vec::new(),
        _ => decoded.strict.iter().map(ToString::to_string).collect(),
    };
    let mut patch = match decoded.value {
        Value::Null => Map::new().into(),
        value => value,
    };
    let patched = merge_map(Node::root(ty, current), &mut patch, Meta::of(ty))?;
    let mut unknown = Vec::new();
    let restored = restore::object(ty, patched, limits.depth, &mut unknown);
    let mut map = restored.map_err(|detail| Error::Invalid { value: go::show(&patch), detail })?;
    if validation != FieldValidation::Ignore {
        unknown.sort();
        strict.extend(unknown);
    }
    refuse_strictly(&strict, validation, || go::show(&patch))?;
    set_kind(ty, &mut map);
    Ok(Patched { ty: ty.clone(), value: map.into(), strict })
}

/// Errors that the reference maps to a status of their own.
fn bad_primitive_list() -> Error {
    Error::BadRequest("invalid patch format of primitive list".into())
}

fn bad_retain_keys() -> Error {
    Error::BadRequest("invalid patch format of retainKeys".into())
}

fn bad_element_order() -> Error {
    Error::BadRequest("invalid patch format of setElementOrder list".into())
}

fn no_list_of_lists() -> Error {
    Error::Unprocessable("lists of lists are not supported".into())
}

/// Where the reference stops with a panic: see `docs/differences.md`.
fn not_comparable() -> Error {
    Error::Unprocessable("the patch compares values that cannot be compared".into())
}

fn no_merge_key(element: &Value, key: &str) -> Error {
    Error::Internal(format!("map: {} does not contain declared merge key: {key}", go::show(element)))
}

fn bad_type(wanted: GoKind, found: GoKind) -> Error {
    Error::Internal(format!("expected a {}, but received a {}", wanted.type_name(), found.type_name()))
}

/// Merges an object into another.
fn merge_map<'a>(mut original: Node<'a>, patch: &mut Value, meta: Meta<'a>) -> Result<Node<'a>, Error> {
    if let Some(directive) = patch.get(DIRECTIVE) {
        return match directive.as_str() {
            Some("replace") => {
                if let Some(map) = patch.as_map_mut() {
                    map.remove(DIRECTIVE);
                }
                Ok(Node::plain(patch.clone()))
            }
            Some("delete") => Ok(Node::Doc(Doc::new())),
            _ => Err(unknown_directive(directive, patch)),
        };
    }
    let (Opened::Doc(doc), Some(patch)) = (original.open(), patch.as_map_mut()) else { return Ok(original) };
    retain_keys(doc, patch)?;
    list::set_orders(doc, patch, meta)?;
    patch.sort_keys();
    for (name, new) in patch.iter_mut() {
        let (name, deletes) = match name.strip_prefix(DELETE_FROM) {
            None => (name.clone(), false),
            Some(rest) => (Key::from(rest.strip_prefix('/').ok_or_else(bad_primitive_list)?), true),
        };
        // A directive without a name counts for the key that it is.
        let name = if deletes && name.is_empty() { Key::from(format!("{DELETE_FROM}/")) } else { name };
        if new.is_null() {
            doc.remove(name.as_str());
            continue;
        }
        merge_entry(doc, name, new, meta, deletes)?;
    }
    Ok(original)
}

fn merge_entry<'a>(
    doc: &mut Doc<'a>,
    name: Key,
    new: &mut Value,
    meta: Meta<'a>,
    deletes: bool,
) -> Result<(), Error> {
    let found = doc.get(name.as_str()).map(GoKind::of);
    let kind = GoKind::of_value(new);
    if found != Some(kind) {
        if !deletes {
            discard_nulls(new);
            put(doc, name, new);
        }
        return Ok(());
    }
    match kind {
        GoKind::Map => {
            let field = meta.field(&name)?;
            let original = doc.remove(name.as_str()).unwrap_or(Node::Nil);
            let merged = if field.options.patch.replace {
                Node::plain(new.clone())
            } else {
                merge_map(original, new, Meta::of_field(field))?
            };
            doc.insert(name, merged);
        }
        GoKind::List => {
            let (field, element) = meta.list_field(&name)?;
            let facts = &field.options.patch;
            // Lists of deletions count whatever the field's strategy is.
            let merged = if facts.merge || deletes {
                let original = doc.remove(name.as_str()).unwrap_or(Node::Nil);
                let merged = list::merge(list::items(original), new, element, &facts.key, deletes)?;
                Node::List(merged)
            } else {
                Node::plain(new.clone())
            };
            doc.insert(name, merged);
        }
        _ => put(doc, name, new),
    }
    Ok(())
}

/// Puts a value of the patch into the object, without its directives.
fn put(doc: &mut Doc<'_>, name: Key, new: &mut Value) {
    match without_directives(new) {
        Some(value) => {
            doc.insert(name, Node::plain(value));
        }
        None => {
            doc.remove(name.as_str());
        }
    }
}

/// `$retainKeys`: removes the fields that it does not name.
fn retain_keys(doc: &mut Doc<'_>, patch: &mut Map) -> Result<(), Error> {
    let Some(keys) = patch.remove(RETAIN_KEYS) else { return Ok(()) };
    let keys = keys.as_list().ok_or_else(bad_retain_keys)?;
    if keys.iter().any(|key| matches!(key, Value::Map(_) | Value::List(_))) {
        return Err(not_comparable());
    }
    let keys: std::collections::HashSet<&str> = keys.iter().filter_map(Value::as_str).collect();
    for (key, value) in patch.iter() {
        let counts = !value.is_null() && !key.starts_with(DELETE_FROM) && !key.starts_with(SET_ORDER);
        if counts && !keys.contains(key.as_str()) {
            return Err(bad_retain_keys());
        }
    }
    doc.retain(|key, _| keys.contains(key.as_str()));
    Ok(())
}

fn unknown_directive(directive: &Value, patch: &Value) -> Error {
    Error::Internal(format!(
        "unknown patch type: {} in map: {}",
        go::show_as_text(directive),
        go::show(patch)
    ))
}

/// Removes nulls from all objects of a value.
fn discard_nulls(value: &mut Value) {
    if let Some(map) = value.as_map_mut() {
        map.retain(|_, value| !value.is_null());
        map.iter_mut().for_each(|(_, value)| discard_nulls(value));
    } else if let Some(items) = value.as_list_mut() {
        items.iter_mut().for_each(discard_nulls);
    }
}

/// What is left of a value of the patch: objects with a directive go. As in the reference, the patch itself
/// loses them within its objects, while its lists stay as they are.
fn without_directives(value: &mut Value) -> Option<Value> {
    if let Some(map) = value.as_map_mut() {
        if map.contains_key(DIRECTIVE) {
            return None;
        }
        map.retain(|_, value| match without_directives(value) {
            Some(left) => {
                *value = left;
                true
            }
            None => false,
        });
        Some(value.clone())
    } else if let Some(items) = value.as_list_mut() {
        Some(items.iter_mut().filter_map(without_directives).collect())
    } else {
        Some(value.clone())
    }
}
