//! The kinds of `scheduling.k8s.io`.

use crate::Kind;

mod priority_class;

/// The rows, in the order of discovery.
pub(crate) const KINDS: &[&Kind] = &[&priority_class::KIND];
