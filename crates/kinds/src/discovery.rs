//! The kinds of `discovery.k8s.io`.

use crate::Kind;

mod endpoint_slice;
mod endpoint_slice_rules;

/// The rows, in the order of discovery.
pub(crate) const KINDS: &[&Kind] = &[&endpoint_slice::KIND];
