//! `csistoragecapacities`.

use super::ConditionalUpdate;
use crate::Kind;

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "storage.k8s.io",
    resource: "csistoragecapacities",
    singular: "csistoragecapacity",
    kind: "CSIStorageCapacity",
    strategy: &ConditionalUpdate,
    ..Kind::PLAIN
};
