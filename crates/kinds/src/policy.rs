//! The kinds of `policy`.

use crate::Kind;

mod pod_disruption_budget;

/// The rows, in the order of discovery.
pub(crate) const KINDS: &[&Kind] = &[&pod_disruption_budget::KIND];
