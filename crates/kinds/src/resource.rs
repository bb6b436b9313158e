//! The kinds of `resource.k8s.io`.

use crate::Kind;

mod device_class;
mod device_taint_rule;
mod resource_claim;
mod resource_claim_template;
mod resource_slice;

/// The rows, in the order of discovery.
pub(crate) const KINDS: &[&Kind] = &[
    &device_class::KIND,
    &resource_claim::KIND,
    &resource_claim_template::KIND,
    &resource_slice::KIND,
    &device_taint_rule::KIND,
];
