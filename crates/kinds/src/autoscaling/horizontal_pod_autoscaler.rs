//! `horizontalpodautoscalers`.

use crate::{Kind, Subresource, Version, WithStatus};

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "autoscaling",
    resource: "horizontalpodautoscalers",
    singular: "horizontalpodautoscaler",
    kind: "HorizontalPodAutoscaler",
    short_names: &["hpa"],
    categories: &["all"],
    versions: &[Version { name: "v2", ..Version::V1 }, Version { stored: false, ..Version::V1 }],
    subresources: &[Subresource::STATUS],
    strategy: &WithStatus,
    ..Kind::PLAIN
};
