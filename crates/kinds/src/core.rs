//! The kinds of the core group.

use crate::Kind;

mod affinity;
mod app_armor;
mod binding;
mod component_status;
mod config_map;
mod endpoints;
pub(crate) mod event;
mod image;
mod limit_range;
mod load_balancer;
mod local_path;
mod namespace;
mod node;
mod node_rules;
pub(crate) mod node_selector;
pub(crate) mod persistent_volume;
pub(crate) mod persistent_volume_claim;
mod pod;
mod pod_columns;
mod pod_defaults;
pub(crate) mod pod_gates;
pub(crate) mod pod_rules;
pub(crate) mod pod_spec;
mod pod_template;
pub(crate) mod pod_warnings;
mod qos;
mod replication_controller;
mod resource_quota;
pub(crate) mod resources;
mod secret;
mod service;
mod service_account;
mod service_addresses;
mod service_rules;
#[cfg(test)]
mod service_tests;
mod service_update;
pub(crate) mod tolerations;
pub(crate) mod volume_sources;

pub use qos::class as pod_qos_class;
pub use service_addresses::validate as validate_service_addresses;
pub use service_update::keep_allocated;

/// The rows, in the order of discovery.
pub(crate) const KINDS: &[&Kind] = &[
    &binding::KIND,
    &component_status::KIND,
    &config_map::KIND,
    &endpoints::KIND,
    &event::KIND,
    &limit_range::KIND,
    &namespace::KIND,
    &node::KIND,
    &persistent_volume_claim::KIND,
    &persistent_volume::KIND,
    &pod::KIND,
    &pod_template::KIND,
    &replication_controller::KIND,
    &resource_quota::KIND,
    &secret::KIND,
    &service_account::KIND,
    &service::KIND,
];
