//! The kinds of `apps`.

use crate::Kind;

mod controller_revision;
mod daemon_set;
mod deployment;
mod replica_set;
mod stateful_set;

/// The rows, in the order of discovery.
pub(crate) const KINDS: &[&Kind] = &[
    &controller_revision::KIND,
    &daemon_set::KIND,
    &deployment::KIND,
    &replica_set::KIND,
    &stateful_set::KIND,
];
