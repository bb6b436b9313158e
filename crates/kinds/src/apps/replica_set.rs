//! `replicasets`.

use crate::{Kind, ScalePaths, Subresource, WithStatus};

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "apps",
    resource: "replicasets",
    singular: "replicaset",
    kind: "ReplicaSet",
    short_names: &["rs"],
    categories: &["all"],
    subresources: &[Subresource::scale(&SCALE), Subresource::STATUS],
    strategy: &WithStatus,
    ..Kind::PLAIN
};

const SCALE: ScalePaths = ScalePaths {
    wanted: &["spec", "replicas"],
    there: &["status", "replicas"],
    selector: &["spec", "selector"],
};
