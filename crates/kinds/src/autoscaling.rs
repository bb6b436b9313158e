//! The kinds of `autoscaling`.

use crate::Kind;

mod horizontal_pod_autoscaler;
mod v1;
mod v2beta;
mod validate;

#[cfg(test)]
mod tests;

/// The rows, in the order of discovery.
pub(crate) const KINDS: &[&Kind] = &[&horizontal_pod_autoscaler::KIND];
