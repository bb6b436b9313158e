//! The kinds of `networking.k8s.io`.

use crate::Kind;

mod ingress;
mod ingress_class;
mod ingress_rules;
mod ip_address;
mod network_policy;
mod network_policy_rules;
mod service_cidr;

/// The rows, in the order of discovery.
pub(crate) const KINDS: &[&Kind] =
    &[&ingress_class::KIND, &ingress::KIND, &ip_address::KIND, &network_policy::KIND, &service_cidr::KIND];
