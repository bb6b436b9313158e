//! Types as data, and everything that is derived from them.
//!
//! Every type of the API is a [`Type`]: built-in ones are static tables made from the files in `types/` (their
//! notation is described in `build/main.rs`), others are made at run time by a [`Builder`]. From that one
//! description come decoding and encoding ([`json`], [`yaml`], [`protobuf`], [`cbor`]), [defaults](default),
//! [constraints](validate()), the merge facts ([`Topology`], [`Patch`]), the names in OpenAPI, and the typed
//! [`views`] through which hand-written rules read an object.
//!
//! Decoders take bytes from anyone: they answer in time and memory bounded by [`Limits`].

mod builder;
pub mod builtin;
pub mod cbor;
mod decode;
mod defaults;
pub mod json;
mod lookup;
mod model;
pub mod protobuf;
mod scalar;
mod slots;
mod stack;
pub mod status;
mod validate;
pub mod view;
pub mod yaml;

pub use builder::{Builder, FieldBuilder};
pub use decode::{Decoded, Error, Limits, Mismatch, Strict};
pub use defaults::default;
pub use model::{
    Alternative, Field, FieldOptions, Format, GroupVersionKind, Member, MessageField, Patch, Raw, Ref, Rule,
    Shape, Topology, Type, Union,
};
pub use status::Status;
pub use validate::validate;

/// Typed views of the built-in types: `core::v1::Pod::of(map).spec().containers()`.
#[rustfmt::skip]
#[allow(clippy::should_implement_trait, reason = "a method is called as its field is")]
pub mod views {
    include!(concat!(env!("OUT_DIR"), "/views.rs"));
}
