//! The kinds of `node.k8s.io`.

use crate::Kind;

mod runtime_class;

/// The rows, in the order of discovery.
pub(crate) const KINDS: &[&Kind] = &[&runtime_class::KIND];
