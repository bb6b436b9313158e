//! Lists that a body sets to `[]`.
//!
//! A tree does not tell an empty list from null. To the reference they are different until the object is stored: who sends `[]`
//! for a list that is always written owns it, and managed fields that are sent so are forgotten. So where a tree lacks such a list,
//! the body is asked.

use super::BodyFormat;
use crate::api::negotiate::PatchType;
use object::Value;
use object::path::{Element, Path};
use schema::json::Node;
use schema::{Field, Limits, Ref, Shape, Type, builtin, json, yaml};
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
            Shape::Struct(Ref::Static(inner)) => collect(inner, above, way, ways),
            _ => {}
        }
        way.pop();
    }
    above.pop();
}

/// Where an object has its managed fields.
const MANAGED: [&str; 2] = ["metadata", "managedFields"];

/// The lists of an object that its body sets to `[]` and its tree does not have.
pub(super) fn lists(ty: &Ref<Type>, object: &Value, body: &[u8], format: BodyFormat) -> Vec<Path> {
    let ways = match ty {
        Ref::Static(ty) => WAYS.get(&address(ty)).map(Vec::as_slice).unwrap_or_default(),
        // Of a custom kind, nothing is written that is not there.
        Ref::Shared(_) => &[],
    };
    let missing = ways.iter().filter(|way| is_missing(way, object));
    let missing = missing.map(|way| way.iter().map(|field| field.name.as_str()).collect::<Vec<_>>());
    let has_managed = || MANAGED.iter().try_fold(object, |value, name| value.get(name)).is_some();
    let managed = (names_managed(body) && !has_managed()).then(|| MANAGED.to_vec());
    let mut missing = missing.chain(managed).peekable();
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
    missing.filter(|way| is_sent_empty(way, &document)).map(|way| path(&way)).collect()
}

/// The lists that a patch sets to `[]`, as far as that has a meaning: managed fields.
pub(crate) fn lists_emptied_by(format: PatchType, patch: &[u8]) -> Vec<Path> {
    if !names_managed(patch) {
        return Vec::new();
    }
    let text = json::text(patch);
    let Ok(document) = Node::read(&text, &Limits::REQUEST) else { return Vec::new() };
    let is_empty = match (format, &document) {
        (PatchType::Json, Node::List(operations)) => {
            let is_about = |operation: &&Node<'_>| matches!(at(operation, &["path"]), Some(Node::Scalar(text)) if text == r#""/metadata/managedFields""#);
            let last = operations.iter().rev().find(is_about);
            last.is_some_and(|operation| is_sent_empty(&["value"], operation))
        }
        (PatchType::Merge | PatchType::Strategic, document) => is_sent_empty(&MANAGED, document),
        _ => false,
    };
    if is_empty { vec![path(&MANAGED)] } else { Vec::new() }
}

/// Whether managed fields may be spoken of: most bodies are not read for them.
fn names_managed(body: &[u8]) -> bool {
    memchr::memmem::find(body, b"managedFields").is_some()
}

fn path(way: &[&str]) -> Path {
    way.iter().map(|name| Element::field(*name)).collect()
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

fn is_sent_empty(way: &[&str], document: &Node<'_>) -> bool {
    matches!(at(document, way), Some(Node::List(items)) if items.is_empty())
}

/// What stands at a place; of keys that are there twice the last counts.
fn at<'d, 'n>(document: &'d Node<'n>, way: &[&str]) -> Option<&'d Node<'n>> {
    way.iter().try_fold(document, |node, name| match node {
        Node::Object(entries) => {
            entries.iter().rev().find(|entry| entry.key == *name).map(|entry| &entry.value)
        }
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn empty(kind: [&str; 3], body: &str, format: BodyFormat) -> Vec<String> {
        let ty = builtin::by_kind(kind[0], kind[1], kind[2]).unwrap();
        let object = yaml::decode(ty, body.as_bytes(), &Limits::REQUEST).unwrap().value;
        lists(&ty.into(), &object, body.as_bytes(), format).iter().map(ToString::to_string).collect()
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

    #[test]
    fn managed_fields_that_are_sent_empty_are_told_from_none() {
        let map = ["", "v1", "ConfigMap"];
        for (body, expected) in [
            (r#"{"metadata":{"managedFields":[]}}"#, &[".metadata.managedFields"][..]),
            (r#"{"metadata":{"managedFields":null}}"#, &[]),
            (r#"{"metadata":{"managedFields":[{}]}}"#, &[]),
            (r#"{"metadata":{"name":"managedFields"}}"#, &[]),
        ] {
            assert_eq!(empty(map, body, BodyFormat::Json), expected, "{body}");
            assert_eq!(empty(map, body, BodyFormat::Yaml), expected, "{body}");
        }
    }

    #[test]
    fn a_patch_empties_managed_fields_with_its_last_word() {
        let set = r#"{"op":"replace","path":"/metadata/managedFields","value":[]}"#;
        let other = r#"{"op":"add","path":"/metadata/labels","value":{}}"#;
        let remove = r#"{"op":"remove","path":"/metadata/managedFields"}"#;
        for (format, patch, empties) in [
            (PatchType::Merge, r#"{"metadata":{"managedFields":[]}}"#.to_owned(), true),
            (PatchType::Strategic, r#"{"metadata":{"managedFields":[]}}"#.to_owned(), true),
            (PatchType::Merge, r#"{"metadata":{"managedFields":null}}"#.to_owned(), false),
            (PatchType::Json, format!("[{set},{other}]"), true),
            (PatchType::Json, format!("[{set},{remove}]"), false),
            (PatchType::Json, "[{]".to_owned(), false),
            (PatchType::Apply, r#"{"metadata":{"managedFields":[]}}"#.to_owned(), false),
        ] {
            assert_eq!(!lists_emptied_by(format, patch.as_bytes()).is_empty(), empties, "{patch}");
        }
    }
}
