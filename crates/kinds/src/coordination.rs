//! The kinds of `coordination.k8s.io`.

use crate::Kind;

mod lease;
mod lease_candidate;

/// The rows, in the order of discovery.
pub(crate) const KINDS: &[&Kind] = &[&lease::KIND, &lease_candidate::KIND];
