//! `ingressclasses`.

use crate::{Kind, Scope};

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "networking.k8s.io",
    resource: "ingressclasses",
    singular: "ingressclass",
    kind: "IngressClass",
    scope: Scope::Cluster,
    ..Kind::PLAIN
};
