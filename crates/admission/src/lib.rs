//! Admission: what happens to a write between permission and storage.
//!
//! 1. **Two steps.** Mutating admission ([`Chain::mutate`]) runs when the new state of an object is known and before the kind
//!    prepares and validates it; validating admission ([`Chain::validate`]) runs when it is complete, and sees what will be stored.
//! 2. **Proof by type.** An [`Admitted`] is made only by [`Chain::validate`], and committing a change demands one.
//! 3. **Nothing leaks.** What a plugin or a kind reserves for a write is a [`Reservation`] in the [`Admitted`]. It is kept if the
//!    change was committed, and released if it was not, or if the request ended before the commit began.
//!
//! The order of the steps around admission, and what is done again after a conflict, is the registry's.

mod attributes;
mod chain;
mod namespace_lifecycle;
mod warnings;

pub use attributes::{Attributes, Operation};
pub use chain::{Admitted, Chain, Plugin, Reservation};
pub use namespace_lifecycle::NamespaceLifecycle;
pub use warnings::Warnings;
