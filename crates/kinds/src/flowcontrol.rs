//! The kinds of `flowcontrol.apiserver.k8s.io`.

use crate::Kind;

mod flow_schema;
mod priority_level_configuration;

/// The rows, in the order of discovery.
pub(crate) const KINDS: &[&Kind] = &[&flow_schema::KIND, &priority_level_configuration::KIND];
