//! The vocabulary that every other crate speaks: the value tree, field paths, names, labels and selectors,
//! quantities and times. No IO, no schema, no knowledge of any kind.

#![deny(clippy::indexing_slicing)]

pub mod boolean;
pub mod duration;
pub mod excerpt;
pub mod field;
pub mod field_path;
pub mod field_selector;
pub mod float;
pub mod foreign;
pub mod formats;
pub mod int_or_string;
pub mod json_path;
pub mod json_pointer;
mod key;
pub mod label;
mod list;
mod map;
pub mod name;
pub mod netip;
pub mod path;
pub mod path_set;
pub mod quantity;
pub mod quote;
pub mod semver;
pub mod shape;
mod shared;
mod text;
pub mod time;
pub mod url;
mod value;

pub use key::Key;
pub use list::List;
pub use map::{Lookup, Map};
pub use shared::IntoIter;
pub use text::Text;
pub use value::{RawJson, Value};
