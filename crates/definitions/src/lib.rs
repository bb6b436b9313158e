//! Custom resource definitions: what is served by them, and what becomes of them.
//!
//! | module | what |
//! |---|---|
//! | [`kind`] | from a definition to the kind that the registry serves |
//! | `columns` | its tables |
//! | [`conversion`] | the author's webhook between versions |
//! | `definition` | what of a definition matters to the others, and where it is found |
//! | `names` | which names a definition gets |
//! | `conditions` | what its conditions say |
//! | [`SharedKinds`] | what forks take over of the compiled kinds of their server |
//! | `cleanup` | the end of a definition and its objects |
//! | [`Definitions`] | the loop that serves definitions and writes their status |
//! | [`Handled`] | lets the writer of a definition wait until it is served |

#![deny(clippy::indexing_slicing)]

mod cleanup;
mod columns;
mod conditions;
pub mod conversion;
mod definition;
mod definitions;
mod families;
mod handled;
pub mod kind;
mod names;
mod shared;

pub use definitions::Definitions;
pub use families::register_families;
pub use handled::Handled;
pub use shared::{Inherited, SharedKinds};

/// The group of definitions.
pub const GROUP: &str = "apiextensions.k8s.io";
/// The resource of definitions.
pub const RESOURCE: &str = "customresourcedefinitions";
