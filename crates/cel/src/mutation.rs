//! What the expressions of a `MutatingAdmissionPolicy` have beside those of other policies: the types of an
//! apply configuration (`Object`, `Object.spec`, ...) and of an operation of a JSON patch (`JSONPatch`), and
//! what their values are as JSON.
//!
//! The types of apply configurations know nothing of the object: each has every field, of any type. Whether
//! the configuration fits the schema of the object is found out when it is merged into it. Until then its
//! values are what the reference has them be in Go, which shows in three places:
//!
//! | place | what an `Object` is there |
//! |---|---|
//! | [`Converter::configuration`] | plain JSON; what is no JSON in Go is [`object::foreign::Foreign`] |
//! | [`Converter::json`] | JSON, in which all numbers are floating point numbers; what is no JSON is an error |
//! | `Object{a: 1}.a` | a field of the plain JSON, as a value of expressions |
//!
//! Go's JSON has lists and maps of one level only: what an expression writes within them is no JSON. The
//! reference refuses it in an apply configuration (`Object{metadata: {"labels": {"a": "b"}}}`), and so does
//! this module. `Object` and its kin can be nested.

mod foreign;
mod native;
mod refusal;
mod room;
mod select;
mod type_names;
mod types;

pub use native::Converter;
pub(crate) use select::{field, has_field, part};
pub(crate) use types::is_object;
pub use types::{JSON_PATCH, MutationTypes, OBJECT, Operation, apply_configuration, json_patch};

#[cfg(test)]
mod tests;
