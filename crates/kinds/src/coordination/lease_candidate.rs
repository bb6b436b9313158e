//! `leasecandidates`.

use crate::{Kind, Version};

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "coordination.k8s.io",
    resource: "leasecandidates",
    singular: "leasecandidate",
    kind: "LeaseCandidate",
    versions: &[Version::on_request("v1beta1"), Version::on_request("v1alpha2")],
    ..Kind::PLAIN
};
