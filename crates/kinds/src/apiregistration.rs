//! The kinds of `apiregistration.k8s.io`.

use crate::Kind;

mod api_service;

/// The rows, in the order of discovery.
pub(crate) const KINDS: &[&Kind] = &[&api_service::KIND];
