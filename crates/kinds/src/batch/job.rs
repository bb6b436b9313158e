//! `jobs`.

use crate::{Kind, Subresource, WithStatus};

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "batch",
    resource: "jobs",
    singular: "job",
    kind: "Job",
    categories: &["all"],
    subresources: &[Subresource::STATUS],
    strategy: &WithStatus,
    ..Kind::PLAIN
};
