//! Lists that a body sets to `[]`.
//!
//! A tree does not distinguish an empty list from null. The reference does, until the object is stored: a
//! manager that sends `[]` for a list without `omitempty` owns that list, and `managedFields: []` resets the
//! managed fields. So if the tree lacks such a list, this module looks for it in the body.

use super::BodyFormat;
use crate::negotiate::PatchType;
use object::Value;
use object::path::{Element, Path};
use schema::json::Node;
use schema::{Field, Limits, Ref, Shape, Type, builtin, json, yaml};
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::LazyLock;

/// The fields on the path to a list.
type FieldPath = Vec<&'static Field>;

/// For each type of an object, by its address: the paths to the lists that are always written, through struct
/// fields only.
static LIST_PATHS: LazyLock<HashMap<usize, Vec<FieldPath>>> = LazyLock::new(|| {
    let all = builtin::kinds().iter().map(|ty| {
        let mut list_paths = Vec::new();
        collect(ty, &mut Vec::new(), &mut Vec::new(), &mut list_paths);
        (address(ty), list_paths)
    });
    all.collect()
});

fn address(ty: &'static Type) -> usize {
    std::ptr::from_ref(ty).addr()
}

fn collect(
    ty: &'static Type,
    above: &mut Vec<usize>,
    field_path: &mut FieldPath,
    list_paths: &mut Vec<FieldPath>,
) {
    if above.contains(&address(ty)) {
        return;
    }
    above.push(address(ty));
    for field in ty.fields.iter() {
        field_path.push(field);
        match &field.shape {
            Shape::List(_) if field.always && !field.optional => list_paths.push(field_path.clone()),
            Shape::Struct(Ref::Static(inner)) => collect(inner, above, field_path, list_paths),
            _ => {}
        }
        field_path.pop();
    }
    above.pop();
}

/// The path of the managed fields.
const MANAGED: [&str; 2] = ["metadata", "managedFields"];

/// The lists of an object that its body sets to `[]` and its tree does not have.
pub(super) fn lists(ty: &Ref<Type>, object: &Value, body: &[u8], format: BodyFormat) -> Vec<Path> {
    let list_paths = match ty {
        Ref::Static(ty) => LIST_PATHS.get(&address(ty)).map(Vec::as_slice).unwrap_or_default(),
        // A custom resource has no fields that are always written.
        Ref::Shared(_) => &[],
    };
    let missing = list_paths.iter().filter(|field_path| is_missing(field_path, object));
    let missing =
        missing.map(|field_path| field_path.iter().map(|field| field.name.as_str()).collect::<Vec<_>>());
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
    missing
        .filter(|field_path| is_sent_empty(field_path, &document))
        .map(|field_path| path(&field_path))
        .collect()
}

/// The lists that a patch sets to `[]`, if that matters: the managed fields.
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

/// Whether a body may contain managed fields. Most do not, and are not parsed for them.
fn names_managed(body: &[u8]) -> bool {
    memchr::memmem::find(body, b"managedFields").is_some()
}

fn path(field_path: &[&str]) -> Path {
    field_path.iter().map(|name| Element::field(*name)).collect()
}

/// Whether a tree lacks a list, but has the struct that contains it.
fn is_missing(field_path: &[&'static Field], object: &Value) -> bool {
    let mut value = Some(object);
    for field in field_path {
        value = match value.and_then(|value| value.get(&field.name)) {
            // The tree omits an empty struct that is not optional.
            None if field.optional => return false,
            found => found,
        };
    }
    value.is_none()
}

fn is_sent_empty(field_path: &[&str], document: &Node<'_>) -> bool {
    matches!(at(document, field_path), Some(Node::List(items)) if items.is_empty())
}

/// The value at a path. The last of duplicate keys counts.
fn at<'d, 'n>(document: &'d Node<'n>, field_path: &[&str]) -> Option<&'d Node<'n>> {
    field_path.iter().try_fold(document, |node, name| match node {
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
    fn empty_list_is_distinguished_from_an_absent_list() {
        let role = ["rbac.authorization.k8s.io", "v1", "Role"];
        assert_eq!(empty(role, r#"{"rules":[]}"#, BodyFormat::Json), [".rules"]);
        assert_eq!(empty(role, "rules: []", BodyFormat::Yaml), [".rules"]);
        for body in [r#"{"rules":null}"#, "{}", r#"{"rules":[{"verbs":[]}]}"#] {
            assert_eq!(empty(role, body, BodyFormat::Json), [""; 0], "{body}");
        }
    }

    #[test]
    fn empty_list_in_an_empty_struct_is_found() {
        let node = ["storage.k8s.io", "v1", "CSINode"];
        assert_eq!(empty(node, r#"{"spec":{"drivers":[]}}"#, BodyFormat::Json), [".spec.drivers"]);
        let pod = ["", "v1", "Pod"];
        assert_eq!(
            empty(pod, r#"{"spec":{"containers":[],"tolerations":[]}}"#, BodyFormat::Json),
            [".spec.containers"]
        );
    }

    #[test]
    fn empty_managed_fields_are_distinguished_from_null() {
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
    fn last_operation_of_a_json_patch_decides_on_managed_fields() {
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
