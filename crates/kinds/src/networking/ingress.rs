//! `ingresses`.

use crate::{Kind, Subresource, WithStatus};

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "networking.k8s.io",
    resource: "ingresses",
    singular: "ingress",
    kind: "Ingress",
    short_names: &["ing"],
    subresources: &[Subresource::STATUS],
    strategy: &WithStatus,
    ..Kind::PLAIN
};
