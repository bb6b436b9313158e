//! The mutations of a `MutatingAdmissionPolicy`: an apply configuration or a JSON patch that an expression
//! made, applied to an object.
//!
//! A configuration is merged by the type of the object as by server-side apply, but nobody owns its fields:
//! managed fields stay as they are, nothing conflicts, and nothing is removed. It may not have lists, maps
//! and structs that are atomic, whose other fields it would remove.
//!
//! Left to others: defaults of the result, and whether names and versions may change.

mod atomic;

use crate::json_patch::{Outcome, run};
use crate::managed::{check_configuration, check_object, decode, merge_configuration};
use crate::node::{Node, UNBOUNDED};
use crate::result::{UNKNOWN_CONVERSION, finish};
use crate::{FieldValidation, json_patch};
use object::Value;
use schema::{Limits, Ref, Shape, Type, json};

/// What is done to an object.
#[derive(Clone, Debug, PartialEq)]
pub enum Mutation {
    /// A configuration is merged into the object. It is plain JSON, without kind and version; what the
    /// expression made that is no JSON is [`object::foreign::Foreign`].
    ApplyConfiguration(Value),
    /// Operations are carried out one after the other.
    JsonPatch(Vec<Operation>),
}

/// An operation of a JSON patch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Operation {
    /// `add`, `remove`, `replace`, `move`, `copy`, `test`.
    pub op: String,
    /// Where the operation is carried out: `/spec/replicas`.
    pub path: String,
    /// Where a value is moved or copied from; empty for none.
    pub from: String,
    /// The value, if there is one.
    pub value: Option<Value>,
}

/// Why a mutation was not carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The policy is at fault: its `failurePolicy` says what becomes of the request.
    #[error("{0}")]
    Failed(String),
    /// The request fails with an internal error (500), whatever the policy says.
    #[error("{0}")]
    Internal(String),
}

/// Applies a mutation to an object of a type. A JSON patch with a test that fails changes nothing.
///
/// ```
/// use merge::mutation::{Mutation, apply};
/// use object::{Map, Value};
/// use schema::{Ref, builtin};
/// let ty = Ref::Static(builtin::by_kind("", "v1", "ConfigMap").unwrap());
/// let map = |key: &'static str, value: Value| -> Value { Map::from_iter([(key, value)]).into() };
/// let object = map("data", map("a", "1".into()));
///
/// let configuration = map("data", map("b", "2".into()));
/// let mutated = apply(&ty, &object, Mutation::ApplyConfiguration(configuration)).unwrap();
/// assert_eq!(mutated.get("data").unwrap().get("a").unwrap().as_str(), Some("1"));
/// assert_eq!(mutated.get("data").unwrap().get("b").unwrap().as_str(), Some("2"));
///
/// let configuration = map("data", map("b", 2.into()));
/// let refused = apply(&ty, &object, Mutation::ApplyConfiguration(configuration)).unwrap_err();
/// assert_eq!(
///     refused.to_string(),
///     "error applying patch: failed to convert patch object to typed object: \
///      .data.b: expected string, got &value.valueUnstructured{Value:2}"
/// );
/// ```
pub fn apply(ty: &Ref<Type>, object: &Value, mutation: Mutation) -> Result<Value, Error> {
    match mutation {
        Mutation::ApplyConfiguration(configuration) => {
            merge(ty, object, configuration).map_err(Error::Failed)
        }
        Mutation::JsonPatch(operations) => patch(ty, object, operations),
    }
}

fn merge(ty: &Ref<Type>, object: &Value, mut configuration: Value) -> Result<Value, String> {
    let failed = |why: String| format!("error applying patch: {why}");
    if let (Some(map), Some(kind)) = (configuration.as_map_mut(), &ty.kind) {
        map.insert("apiVersion", kind.api_version());
        map.insert("kind", kind.kind.clone());
    }
    check_configuration(ty, &configuration)
        .map_err(|why| failed(format!("failed to convert patch object to typed object: {why}")))?;
    atomic::refuse(ty, &configuration).map_err(|why| {
        failed(format!("invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: {why}"))
    })?;
    check_object(ty, object)
        .map_err(|why| failed(format!("failed to convert original object to typed object: {why}")))?;
    let merged = merge_configuration(ty, object, &configuration)
        .map_err(|why| failed(format!("failed to merge patch: {why}")))?;
    let api_version = ty.kind.as_ref().map(|kind| kind.api_version()).unwrap_or_default();
    decode(ty, &api_version, &merged)
}

fn patch(ty: &Ref<Type>, object: &Value, operations: Vec<Operation>) -> Result<Value, Error> {
    let limits = &Limits::REQUEST;
    let operations = operations.into_iter().map(json_patch::Operation::of).collect();
    let root = match run(ty, object, operations, limits) {
        Outcome::Patched(root) => without_malformed_metadata(ty, with_version(ty, root)),
        Outcome::FailedTest(_) => return Ok(object.clone()),
        Outcome::Failed(why) => return Err(Error::Failed(format!("JSON Patch: {why}"))),
    };
    // Unknown fields of a custom object are dropped, where the reference keeps them until it stores the
    // object.
    let validation = match ty.custom {
        Some(_) => FieldValidation::Ignore,
        None => FieldValidation::Strict,
    };
    let patched = finish(ty, &root, Vec::new(), validation, limits).map_err(|error| match error {
        crate::Error::Invalid { detail, .. } if detail.ends_with(UNKNOWN_CONVERSION) => Error::Failed(detail),
        crate::Error::Invalid { detail, .. } => Error::Internal(detail),
        other => Error::Internal(other.to_string()),
    })?;
    Ok(patched.value)
}

/// A document of a custom type without the fields of its metadata that are of a wrong type: they are lost
/// when the reference stores the object.
fn without_malformed_metadata<'a>(ty: &'a Type, mut root: Node<'a>) -> Node<'a> {
    let metadata = match ty.field("metadata").map(|field| &field.shape) {
        Some(Shape::Struct(metadata)) if ty.custom.is_some() => metadata,
        _ => return root,
    };
    if let Some(doc) = root.open_doc().and_then(|doc| doc.get_mut("metadata")?.open_doc()) {
        doc.retain(|key, node| {
            let Some(field) = metadata.field(key.as_str()) else { return true };
            node.is_null() || json::decode_shape(&field.shape, node.to_text().as_bytes(), &UNBOUNDED).is_ok()
        });
    }
    root
}

/// A document of a built-in type with its version, if an operation has removed it.
fn with_version<'a>(ty: &'a Type, mut root: Node<'a>) -> Node<'a> {
    if let (Some(kind), None, Some(doc)) = (&ty.kind, &ty.custom, root.open_doc()) {
        let version = || Node::plain(kind.api_version().into());
        let is_text = |node: &Node<'_>| !node.is_null() && node.to_value().as_str() != Some("");
        match doc.get_mut("apiVersion") {
            Some(node) if is_text(node) => {}
            Some(node) => *node = version(),
            None => {
                doc.insert("apiVersion".into(), version());
            }
        }
    }
    root
}
