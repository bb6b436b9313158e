//! The kinds of `events.k8s.io`.

use crate::Kind;

pub(crate) mod event;

/// The rows, in the order of discovery.
pub(crate) const KINDS: &[&Kind] = &[&event::KIND];
