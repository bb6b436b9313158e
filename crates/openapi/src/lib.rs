//! The documents of the API: OpenAPI, discovery, and the descriptions of types and fields.
//!
//! Everything is derived from the rows of `kinds` and the types of `schema`, for the resources that a
//! [`ServedResources`] names:
//!
//! - [`discovery`]: which groups, versions and resources there are;
//! - [`v3`]: one OpenAPI document for each group version, as JSON and as Protobuf, and the index of them;
//! - [`v2`]: one Swagger document of everything, as JSON and as Protobuf;
//! - [`description()`]: the description of a type or a field, from the reference.
//!
//! Custom kinds are described from their definitions, as their authors wrote them.
//!
//! Documents are built on each call and not cached: descriptions are compressed in the binary, and the server
//! caches the bytes of a document and its [`hash`], or the compressed parts of one. Nothing here fails: a
//! document omits what it cannot describe.

#![deny(clippy::indexing_slicing)]

mod descriptions;
pub mod discovery;
mod gnostic;
mod operations;
mod parameters;
mod pieces;
mod schemas;
mod served;
mod tree;
pub mod v2;
pub mod v3;

pub use descriptions::description;
pub use served::ServedResources;
pub use tree::hash;
