//! `replicationcontrollers`.

use crate::{Kind, ScalePaths, Subresource, WithStatus};

/// The row.
pub(crate) const KIND: Kind = Kind {
    resource: "replicationcontrollers",
    singular: "replicationcontroller",
    kind: "ReplicationController",
    short_names: &["rc"],
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
