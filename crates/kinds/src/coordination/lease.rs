//! `leases`.

use crate::Kind;

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "coordination.k8s.io",
    resource: "leases",
    singular: "lease",
    kind: "Lease",
    ..Kind::PLAIN
};
