//! Merge patch (RFC 7386): objects are merged, null removes a key, any other value replaces the old one.
//!
//! As in the reference, nulls are also removed from added values, objects within lists included, unless a
//! list replaces an object: then the list is left as it is.

use crate::node::{Doc, Node, Opened};
use crate::result::finish;
use crate::{Error, FieldValidation, Patched};
use object::Value;
use schema::{Limits, Ref, Shape, Type, json};

/// The shape of a patch that is an object.
pub(crate) static OBJECT: Shape = Shape::Map(Ref::Static(&Shape::Any));

/// Applies a merge patch.
pub fn apply(
    ty: &Ref<Type>,
    current: &Value,
    patch: &[u8],
    validation: FieldValidation,
    limits: &Limits,
) -> Result<Patched, Error> {
    let bad = || Error::BadRequest("Invalid JSON Patch".into());
    let mut strict = Vec::new();
    if validation != FieldValidation::Ignore {
        let decoded = json::decode_shape(&OBJECT, patch, limits)
            .map_err(|error| Error::BadRequest(format!("error decoding patch: {error}")))?;
        strict.extend(decoded.strict.iter().map(ToString::to_string));
    }
    let text = json::text(patch);
    let mut patch = match json::Node::read(&text, limits).map_err(|_| bad())? {
        json::Node::Null | json::Node::Scalar(_) => return Err(bad()),
        node => Node::Text(node),
    };
    let root = match patch.open() {
        Opened::Doc(patch) => {
            let mut root = Node::root(ty, current);
            if let Node::Doc(doc) = &mut root {
                merge_docs(doc, std::mem::take(patch));
            }
            root
        }
        _ => {
            prune(&mut patch);
            patch
        }
    };
    finish(ty, &root, strict, validation, limits)
}

fn merge_docs<'a>(doc: &mut Doc<'a>, patch: Doc<'a>) {
    for (key, mut new) in patch {
        if new.is_null() {
            doc.remove(key.as_str());
            continue;
        }
        let place = doc.entry(key).or_insert(Node::Nil);
        if place.is_null() {
            prune(&mut new);
            *place = new;
        } else {
            merge(place, new);
        }
    }
}

fn merge<'a>(current: &mut Node<'a>, mut patch: Node<'a>) {
    match (current.open_doc(), patch.open_doc()) {
        (Some(doc), Some(patch)) => merge_docs(doc, std::mem::take(patch)),
        (Some(_), None) => *current = patch,
        (None, _) => {
            prune(&mut patch);
            *current = patch;
        }
    }
}

/// Removes the nulls from all objects.
fn prune(node: &mut Node<'_>) {
    match node.open() {
        Opened::Doc(doc) => {
            doc.retain(|_, value| !value.is_null());
            doc.values_mut().for_each(prune);
        }
        Opened::List(items) => items.iter_mut().for_each(prune),
        Opened::Scalar => {}
    }
}
