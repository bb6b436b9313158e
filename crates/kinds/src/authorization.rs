//! The kinds of `authorization.k8s.io`.

use crate::Kind;

mod local_subject_access_review;
mod self_subject_access_review;
mod self_subject_rules_review;
mod subject_access_review;

/// The rows, in the order of discovery.
pub(crate) const KINDS: &[&Kind] = &[
    &local_subject_access_review::KIND,
    &self_subject_access_review::KIND,
    &self_subject_rules_review::KIND,
    &subject_access_review::KIND,
];
