//! `statefulsets`.

use crate::{Kind, ScalePaths, Subresource, WithStatus};

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "apps",
    resource: "statefulsets",
    singular: "statefulset",
    kind: "StatefulSet",
    short_names: &["sts"],
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
