//! `cronjobs`.

use crate::{Kind, Subresource, WithStatus};

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "batch",
    resource: "cronjobs",
    singular: "cronjob",
    kind: "CronJob",
    short_names: &["cj"],
    categories: &["all"],
    subresources: &[Subresource::STATUS],
    strategy: &WithStatus,
    ..Kind::PLAIN
};
