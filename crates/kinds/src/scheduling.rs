//! The kinds of `scheduling.k8s.io`.

use crate::Kind;

mod priority_class;

pub use priority_class::{SYSTEM_PRIORITY_CLASSES, SystemPriorityClass};

/// The rows, in the order of discovery.
pub(crate) const KINDS: &[&Kind] = &[&priority_class::KIND];
