//! Patches and server-side apply as pure functions: the patch formats here, managed fields and apply in
//! [`managed`], the mutations of admission policies in [`mutation`].
//!
//! One module per format: [`json_patch`] (RFC 6902), [`merge_patch`] (RFC 7386) and [`strategic`]. Each takes
//! the current object as the tree of its type and the bytes of the patch, and returns a tree of the type, or
//! an [`Error`] with the status and message of the reference.
//!
//! A patch is defined on the JSON of the object, including fields that are written although they are empty.
//! That JSON is not made: a node is a typed part of the object, or a part of the patch as text, and is opened
//! only where the patch leads into it. Untouched parts are moved to the result as they are; parts of the
//! patch are decoded by the schema of their final path. Only if a part does not decode cleanly is the whole
//! document written and read again as the reference reads it, because its errors show the whole document.
//!
//! Left to others: defaults, the comparison of names and resource versions, and whether the object is valid.
//! Everything here is bounded by [`schema::Limits`], whatever the patch says.

#![deny(clippy::indexing_slicing)]

mod error;
mod go;
pub mod json_patch;
pub mod managed;
pub mod merge_patch;
pub mod mutation;
mod node;
mod result;
pub mod strategic;

pub use error::{Error, Status};
pub use result::UNKNOWN_CONVERSION;

use object::Value;
use schema::{Limits, Ref, Type};

/// The formats that a client names by content type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patch {
    /// `application/json-patch+json`.
    Json,
    /// `application/merge-patch+json`.
    Merge,
    /// `application/strategic-merge-patch+json`: built-in types only.
    Strategic,
}

/// How unknown and duplicate fields are treated: the parameter `fieldValidation`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FieldValidation {
    /// The fields are dropped.
    Ignore,
    /// The fields are dropped, and named in [`Patched::strict`].
    #[default]
    Warn,
    /// The patch is refused.
    Strict,
}

/// The outcome of a patch.
#[derive(Clone, Debug)]
pub struct Patched {
    /// The type of the object: that of the request, or of another version that the patch set in `apiVersion`.
    pub ty: Ref<Type>,
    /// The object, with `apiVersion` and `kind` of its type. Defaults are not applied.
    pub value: Value,
    /// The warnings for the client about dropped fields, only with [`FieldValidation::Warn`].
    pub strict: Vec<String>,
}

/// Applies a patch of any format.
///
/// ```
/// use merge::{FieldValidation, Patch};
/// use schema::{Limits, Ref, builtin, json};
/// let ty = Ref::Static(builtin::by_kind("", "v1", "ConfigMap").unwrap());
/// let text = br#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a"},"data":{"x":"1","y":"2"}}"#;
/// let current = json::decode_shape(&schema::Shape::Struct(ty.clone()), text, &Limits::default()).unwrap().value;
/// let patch = br#"{"data":{"x":null,"z":"3"},"bogus":1}"#;
/// let patched =
///     merge::apply(Patch::Merge, &ty, &current, patch, FieldValidation::Warn, &Limits::default()).unwrap();
/// assert_eq!(patched.value.get("data").unwrap().get("x"), None);
/// assert_eq!(patched.strict, [r#"unknown field "bogus""#]);
/// ```
pub fn apply(
    format: Patch,
    ty: &Ref<Type>,
    current: &Value,
    patch: &[u8],
    validation: FieldValidation,
    limits: &Limits,
) -> Result<Patched, Error> {
    match format {
        Patch::Json => json_patch::apply(ty, current, patch, validation, limits),
        Patch::Merge => merge_patch::apply(ty, current, patch, validation, limits),
        Patch::Strategic => strategic::apply(ty, current, patch, validation, limits),
    }
}
