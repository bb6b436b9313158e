//! What the server says about its own API: OpenAPI documents, discovery, and the descriptions of types and fields.
//!
//! Everything is derived from the rows of `kinds` and the types of `schema`, for the resources that a [`Served`] names:
//!
//! - [`discovery`]: which groups, versions and resources there are;
//! - [`v3`]: one OpenAPI document for each group version, and the index of them;
//! - [`v2`]: one Swagger document of everything, as JSON and as Protobuf;
//! - [`description()`]: what the reference's documentation says of a type or a field.
//!
//! Documents are made when they are asked for, and nothing is kept: their texts lie compressed in the program, and who
//! serves a document often keeps its bytes, compressed, and its [`hash`]. Nothing here fails: what a document cannot
//! describe is left out.

mod descriptions;
pub mod discovery;
mod operations;
mod parameters;
mod schemas;
mod served;
mod tree;
pub mod v2;
pub mod v3;

pub use descriptions::description;
pub use served::Served;
pub use tree::hash;
