//! What writes make of an object, as pure functions: the patch formats here, and in [`managed`] the owners of
//! fields and server-side apply.
//!
//! One module per format: [`json_patch`] (RFC 6902), [`merge_patch`] (RFC 7386) and [`strategic`]. Each takes
//! the current object as the tree of its type and the bytes of the patch, and answers with a tree of the type
//! or with the [`Error`] that the reference's client would see: its status, its words.
//!
//! What a patch means is defined on the JSON of the object, with the fields that are written though they are
//! empty. That JSON is not made: a node is a part of the object, still typed, or a part of the patch, still
//! text, and is opened only where the patch leads into it. Parts that nothing touched go over into the result
//! as they are; parts of the patch are decoded by the schema at the place where they end up. Only where that
//! meets anything but a clean value is the whole written out and read again as the reference reads it,
//! because its errors show the whole.
//!
//! Left to others: defaults, the comparison of names and resource versions, and whether the object is valid.
//! Everything here is bounded by [`schema::Limits`], whatever the patch says.

#![deny(clippy::indexing_slicing)]

mod error;
mod go;
pub mod json_patch;
pub mod managed;
pub mod merge_patch;
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

/// What becomes of unknown and duplicate fields: the parameter `fieldValidation`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FieldValidation {
    /// They are dropped.
    Ignore,
    /// They are dropped, and named in [`Patched::strict`].
    #[default]
    Warn,
    /// They are refused.
    Strict,
}

/// The outcome of a patch.
#[derive(Clone, Debug)]
pub struct Patched {
    /// The type of the object: the one that was asked for, or another version of it that the patch put into
    /// `apiVersion`.
    pub ty: Ref<Type>,
    /// The object, with `apiVersion` and `kind` of its type. Defaults are not applied.
    pub value: Value,
    /// What was dropped, in the words of the warnings that the client gets. Filled with
    /// [`FieldValidation::Warn`] only.
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
