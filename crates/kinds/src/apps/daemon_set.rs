//! `daemonsets`.

use crate::{Kind, Subresource, WithStatus};

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "apps",
    resource: "daemonsets",
    singular: "daemonset",
    kind: "DaemonSet",
    short_names: &["ds"],
    categories: &["all"],
    subresources: &[Subresource::STATUS],
    strategy: &WithStatus,
    ..Kind::PLAIN
};
