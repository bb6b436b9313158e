//! `deployments`.

use crate::{Kind, ScalePaths, Subresource, WithStatus};

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "apps",
    resource: "deployments",
    singular: "deployment",
    kind: "Deployment",
    short_names: &["deploy"],
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
