//! `networkpolicies`.

use crate::Kind;

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "networking.k8s.io",
    resource: "networkpolicies",
    singular: "networkpolicy",
    kind: "NetworkPolicy",
    short_names: &["netpol"],
    ..Kind::PLAIN
};
