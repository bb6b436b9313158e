//! Admission: what happens to a write between permission and storage.
//!
//! 1. **Two steps.** Mutating admission ([`Chain::mutate`]) runs when the new state of an object is known and
//!    before the kind prepares and validates it; validating admission ([`Chain::validate`]) runs when it is
//!    complete, and sees what will be stored.
//! 2. **Proof by type.** An [`Admitted`] is made only by [`Chain::validate`], and committing a change demands
//!    one.
//! 3. **Nothing leaks.** What a plugin or a kind reserves for a write is a [`Reservation`] in the
//!    [`Admitted`]. It is told whether the change was committed, also if the request ended before the commit
//!    began.
//! 4. **Plugins look things up** in the objects of a [`Lister`], or in the cache: what was acknowledged
//!    before a write counts for it.
//!
//! [`plugins::PLUGINS`] has all plugins in their order. The order of the steps around admission, and what is
//! done again after a conflict, is the registry's.

mod attributes;
mod chain;
mod conditions;
pub mod config;
mod evaluation;
mod families;
mod lister;
mod managed_fields;
mod matching;
pub mod plugins;
pub mod policy;
mod reinvocation;
#[cfg(test)]
mod testing;
mod versioned;
mod warnings;
pub mod webhook;
mod writer;

pub use attributes::{Attributes, Operation, Pick, Request, differ_in_ownership_only};
pub use chain::{Admitted, Chain, Immediate, Passes, Plugin, Reservation, Settled};
pub use families::register_families;
pub use lister::Lister;
pub use warnings::Warnings;
pub use writer::{Write, Writer};
