//! The built-in kinds: one file for each, one folder for each API group.
//!
//! A [`Kind`] holds what a custom resource definition holds (names, scope, versions, verbs, subresources,
//! columns, selectable fields) and a [`Strategy`], its hooks in the write pipeline. Everything that serves a
//! kind derives from its row; nothing here handles a request.

mod addresses;
mod admissionregistration;
mod apiextensions;
mod apiregistration;
mod apiserverinternal;
mod apps;
mod authentication;
mod authorization;
mod autoscaling;
mod batch;
mod cells;
mod certificates;
mod checks;
mod conditions;
mod coordination;
mod core;
mod custom;
mod defaults;
mod discovery;
mod events;
mod flowcontrol;
mod int_or_percent;
mod kind;
pub mod label_selector;
mod life_cycle;
mod networking;
mod node;
pub mod object_meta;
mod object_options;
mod policy;
mod rbac;
mod references;
mod resets;
mod resource;
mod resource_type;
mod scheduling;
mod seen;
mod storage;
mod strategy;
mod table;
mod template;
mod version_order;
mod webhook_client;
mod workload;
pub mod x509;

pub use apiextensions::{Approval, NonStructural, note_stored_version};
pub use apiserverinternal::storage_version;
pub use batch::schedule;
pub use batch::time_zone::find as find_time_zone;
pub use certificates::CERTIFICATE_USAGES;
pub use core::{keep_allocated, pod_qos_class, validate_service_addresses};
pub use custom::CustomStrategy;
pub use flowcontrol::FLOW_CONTROL_DEFAULTS;
pub use int_or_percent::of as int_or_percent;
pub use kind::{
    Action, BuiltinConversion, Connect, Deleted, Dependents, Generation, Kind, MetadataRules, OldVersion,
    Refusal, ScalePaths, Scope, SelectableFields, SelectableRow, Storage, Subresource, SubresourceBody,
    Traffic, Verb, Version, WrittenPart, store_prefix,
};
pub use life_cycle::{LifeCycle, Release, Replacement};
pub use object_options::{Gates, ObjectOptions, Privileged};
pub use resets::{FieldPath, ResetFields, Resets};
pub use resource_type::{
    ColumnDefinition, DefinedSchema, Description, ResourceType, RowFn, SelectableField, api_version,
};
pub use scheduling::{SYSTEM_PRIORITY_CLASSES, SystemPriorityClass};
pub use strategy::{
    Caller, Check, Context, NameRule, NoHooks, Rules, Strategy, differs_but_for, keep, keep_all_but,
    keep_metadata, map_at,
};
pub(crate) use table::columns;
pub use table::{About, Cell, Column, Columns, Condition, Row, age, human_duration, metadata};
pub use version_order::preferred_first;

/// The groups in the order of discovery, each with its kinds.
const GROUPS: &[&[&Kind]] = &[
    core::KINDS,
    apiregistration::KINDS,
    apps::KINDS,
    events::KINDS,
    authentication::KINDS,
    authorization::KINDS,
    autoscaling::KINDS,
    batch::KINDS,
    certificates::KINDS,
    networking::KINDS,
    policy::KINDS,
    rbac::KINDS,
    storage::KINDS,
    admissionregistration::KINDS,
    apiextensions::KINDS,
    scheduling::KINDS,
    coordination::KINDS,
    node::KINDS,
    discovery::KINDS,
    resource::KINDS,
    flowcontrol::KINDS,
    apiserverinternal::KINDS,
];

/// Every kind: groups in the order of discovery, the kinds of a group by name.
pub fn all() -> impl Iterator<Item = &'static Kind> {
    GROUPS.iter().flat_map(|group| group.iter().copied())
}

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
