//! `endpointslices`.

use crate::Kind;

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "discovery.k8s.io",
    resource: "endpointslices",
    singular: "endpointslice",
    kind: "EndpointSlice",
    ..Kind::PLAIN
};
