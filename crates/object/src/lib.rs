//! The vocabulary that every other crate speaks: the value tree, field paths, names, labels and selectors,
//! quantities and times. No IO, no schema, no knowledge of any kind.

pub mod duration;
pub mod field;
pub mod field_selector;
pub mod int_or_string;
pub mod label;
pub mod name;
pub mod quantity;
pub mod quote;
pub mod time;
