//! The kinds of `internal.apiserver.k8s.io`.

use crate::Kind;

pub mod storage_version;

/// The rows, in the order of discovery.
pub(crate) const KINDS: &[&Kind] = &[&storage_version::KIND];
