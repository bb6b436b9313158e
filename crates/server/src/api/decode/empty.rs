//! Lists that a body sets to `[]`.
//!
//! A tree does not tell an empty list from null where the list is always written. To the reference they are different until
//! the object is stored: who sends `[]` owns the list. So where a tree lacks such a list, the body is asked.

use super::BodyFormat;
use object::Value;
use object::path::{Element, Path};
use schema::json::Node;
use schema::{Field, Limits, Shape, Type, builtin, json, yaml};
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::LazyLock;

/// The fields that lead to a list.
type Way = Vec<&'static Field>;

/// For each type of an object, the ways to the lists that are always written, through fields alone; by the type's address.
static WAYS: LazyLock<HashMap<usize, Vec<Way>>> = LazyLock::new(|| {
    let all = builtin::kinds().iter().map(|ty| {
        let mut ways = Vec::new();
        collect(ty, &mut Vec::new(), &mut Vec::new(), &mut ways);
        (address(ty), ways)
    });
    all.collect()
});

fn address(ty: &'static Type) -> usize {
    std::ptr::from_ref(ty).addr()
}

fn collect(ty: &'static Type, above: &mut Vec<usize>, way: &mut Way, ways: &mut Vec<Way>) {
    if above.contains(&address(ty)) {
        return;
    }
    above.push(address(ty));
    for field in ty.fields.iter() {
        way.push(field);
        match &field.shape {
            Shape::List(_) if field.always && !field.optional => ways.push(way.clone()),
            Shape::Struct(schema::Ref::Static(inner)) => collect(inner, above, way, ways),
            _ => {}
        }
        way.pop();
    }
    above.pop();
}

/// The lists of an object that its body sets to `[]` and its tree does not have.
pub(super) fn lists(ty: &'static Type, object: &Value, body: &[u8], format: BodyFormat) -> Vec<Path> {
    let ways = WAYS.get(&address(ty)).map(Vec::as_slice).unwrap_or_default();
    let mut missing = ways.iter().filter(|way| is_missing(way, object)).peekable();
    if missing.peek().is_none() {
        return Vec::new();
    }
    let limits = Limits { bytes: usize::MAX, ..Limits::REQUEST };
    let text = match format {
        BodyFormat::Json => json::text(body),
        BodyFormat::Yaml => match yaml::to_json(body, &limits) {
            Ok(document) => Cow::Owned(document.text),
            Err(_) => return Vec::new(),
        },
        BodyFormat::Protobuf | BodyFormat::Cbor => return Vec::new(),
    };
    let Ok(document) = Node::read(&text, &limits) else { return Vec::new() };
    let sent = missing.filter(|way| is_sent_empty(way, &document));
    sent.map(|way| way.iter().map(|field| Element::Field(field.name.clone())).collect()).collect()
}

/// Whether a list is not in a tree, though what it stands in is.
fn is_missing(way: &[&'static Field], object: &Value) -> bool {
    let mut value = Some(object);
    for field in way {
        value = match value.and_then(|value| value.get(&field.name)) {
            // A struct that is always there is left out of the tree where it is empty.
            None if field.optional => return false,
            found => found,
        };
    }
    value.is_none()
}

fn is_sent_empty(way: &[&'static Field], document: &Node<'_>) -> bool {
    let found = way.iter().try_fold(document, |node, field| match node {
        Node::Object(entries) => {
            entries.iter().rev().find(|entry| entry.key == field.name.as_str()).map(|entry| &entry.value)
        }
        _ => None,
    });
    matches!(found, Some(Node::List(items)) if items.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn empty(kind: [&str; 3], body: &str, format: BodyFormat) -> Vec<String> {
        let ty = builtin::by_kind(kind[0], kind[1], kind[2]).unwrap();
        let object = yaml::decode(ty, body.as_bytes(), &Limits::REQUEST).unwrap().value;
        lists(ty, &object, body.as_bytes(), format).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_list_that_is_sent_empty_is_told_from_one_that_is_not_sent() {
        let role = ["rbac.authorization.k8s.io", "v1", "Role"];
        assert_eq!(empty(role, r#"{"rules":[]}"#, BodyFormat::Json), [".rules"]);
        assert_eq!(empty(role, "rules: []", BodyFormat::Yaml), [".rules"]);
        for body in [r#"{"rules":null}"#, "{}", r#"{"rules":[{"verbs":[]}]}"#] {
            assert_eq!(empty(role, body, BodyFormat::Json), [""; 0], "{body}");
        }
    }

    #[test]
    fn a_list_within_an_empty_struct_is_found() {
        let node = ["storage.k8s.io", "v1", "CSINode"];
        assert_eq!(empty(node, r#"{"spec":{"drivers":[]}}"#, BodyFormat::Json), [".spec.drivers"]);
        let pod = ["", "v1", "Pod"];
        assert_eq!(
            empty(pod, r#"{"spec":{"containers":[],"tolerations":[]}}"#, BodyFormat::Json),
            [".spec.containers"]
        );
    }
}
