//! The kinds of `authentication.k8s.io`.

use crate::Kind;

mod self_subject_review;
mod token_review;

/// The rows, in the order of discovery.
pub(crate) const KINDS: &[&Kind] = &[&self_subject_review::KIND, &token_review::KIND];
