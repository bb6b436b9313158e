//! KWOK's `Stage` objects (`kwok.x-k8s.io/v1alpha1`): which stage is next for an object, when, and what it
//! does. No IO, and nothing of any kind: `nodes` follows the objects and writes.
//!
//! 1. A [`Stage`] is read once. What it asks for and this crate does not know is refused then, with its
//!    place in the object, and not when an object comes.
//! 2. Everything that a stage does to an object is an [`Action`], made from the object as it is.
//! 3. The work for one object is bounded: [`template`] and [`query`] have limits, and an error for what
//!    exceeds them.
//!
//! Conditions can be CEL, over the object as `self`. Queries (`key`, `jq`, `expressionFrom`) are a part of
//! jq: paths with `[]`, and `select`. Templates are a part of Go's, with the functions that the stages shipped
//! with KWOK use and some of sprig.

#![deny(clippy::indexing_slicing)]
#![cfg_attr(test, allow(clippy::indexing_slicing, reason = "an index out of range fails the test"))]

mod action;
mod choose;
mod expression;
pub mod query;
mod select;
mod stage;
pub mod template;

pub use action::{Action, PatchKind};
pub use choose::choose;
pub use stage::{Stage, Target};
pub use template::Functions;
