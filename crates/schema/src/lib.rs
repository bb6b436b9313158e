//! Types as data, and everything that is derived from them.
//!
//! Every type of the API is a [`Type`]: built-in types are static tables made from the files in `types/`
//! (their notation is described in `build/main.rs`), custom types are made at run time by a [`Builder`], with
//! a [`structural`] schema for what their definitions say. From a type derive decoding and encoding
//! ([`json`], [`yaml`], [`protobuf`], [`cbor`]), [defaulting](default), [validation](validate()), the merge
//! rules of server-side apply and strategic merge patch ([`Topology`], [`Patch`]), the names in OpenAPI, and
//! the typed [`views`] through which strategies read an object.
//!
//! Decoders accept bytes from any client: [`Limits`] bounds their time and memory.

#![deny(clippy::indexing_slicing)]

mod builder;
pub mod builtin;
pub mod cbor;
pub mod config_file;
mod decode;
mod defaults;
pub mod json;
mod lookup;
mod model;
pub mod protobuf;
mod scalar;
pub mod semantic;
mod slots;
mod stack;
pub mod status;
pub mod stored;
pub mod structural;
mod validate;
pub mod view;
pub mod yaml;

pub use builder::{Builder, FieldBuilder, Part, unstructured};
pub use decode::{Decoded, Error, Limits, Mismatch, Strict};
pub use defaults::default;
pub use model::{
    Alternative, Field, FieldOptions, Format, GroupVersionKind, Member, MessageField, Patch, Raw, Ref, Rule,
    Shape, Topology, Type, Union,
};
pub use status::Status;
pub use structural::Structural;
pub use validate::{bad_value, go_value, validate};

/// Typed views of the built-in types: `core::v1::Pod::of(map).spec().containers()`.
#[rustfmt::skip]
#[allow(clippy::should_implement_trait, reason = "methods have the names of fields")]
pub mod views {
    include!(concat!(env!("OUT_DIR"), "/views.rs"));
}
