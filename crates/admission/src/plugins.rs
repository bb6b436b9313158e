//! The built-in plugins: one file for each, and their order.

mod namespace_lifecycle;

pub use namespace_lifecycle::NamespaceLifecycle;

use crate::{Plugin, Writer};
use auth::Authorizer;
use cache::{Cache, Resource};
use std::sync::Arc;

/// What plugins are made of.
pub struct Parts<'a> {
    /// The objects.
    pub cache: &'a Cache,
    /// Decides what callers may do.
    pub authorizer: &'a Authorizer,
    /// The way to write objects.
    pub writer: &'a Writer,
    /// The feature gates that plugins depend on.
    pub gates: Gates,
    /// The plugin's part of the file of `--admission-control-config-file`.
    pub configuration: Option<&'a [u8]>,
}

impl Parts<'_> {
    /// The objects of a resource: `pods`, `storageclasses.storage.k8s.io`.
    pub fn resource(&self, prefix: &str) -> Result<Arc<Resource>, String> {
        self.cache.resource(prefix).ok_or_else(|| format!("the resource {prefix} is missing"))
    }
}

/// The feature gates that plugins depend on, as they are by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gates {
    /// `PodTopologyLabelsAdmission`.
    pub pod_topology_labels: bool,
    /// `PodLevelResources`.
    pub pod_level_resources: bool,
    /// `DynamicResourceAllocation`.
    pub dynamic_resource_allocation: bool,
    /// `VolumeAttributesClass`.
    pub volume_attributes_class: bool,
    /// `ServiceAccountNodeAudienceRestriction`.
    pub node_audience_restriction: bool,
    /// `AllowInsecureKubeletCertificateSigningRequests`.
    pub insecure_kubelet_requests: bool,
}

impl Default for Gates {
    fn default() -> Self {
        Self {
            pod_topology_labels: false,
            pod_level_resources: false,
            dynamic_resource_allocation: false,
            volume_attributes_class: false,
            node_audience_restriction: true,
            insecure_kubelet_requests: false,
        }
    }
}

/// A plugin that can be turned on and off.
pub struct Row {
    /// The name in flags.
    pub name: &'static str,
    /// Whether it is on without flags.
    pub by_default: bool,
    /// Makes it, or says what is wrong with its configuration.
    pub make: fn(&Parts<'_>) -> Result<Box<dyn Plugin>, String>,
}

/// All plugins, in the order in which they see a write.
pub const PLUGINS: &[Row] = &[row::<NamespaceLifecycle>(true)];

/// Plugins that the reference has, and this server not yet: their names are known, and have no effect.
pub const WITHOUT_EFFECT: &[&str] = &["MutatingAdmissionPolicy", "ValidatingAdmissionPolicy"];

/// A plugin that is made of the parts of a server.
pub trait Builtin: Plugin + Sized + 'static {
    /// The name in flags.
    const NAME: &'static str;

    /// Makes it, or says what is wrong with its configuration.
    fn make(parts: &Parts<'_>) -> Result<Self, String>;
}

const fn row<P: Builtin>(by_default: bool) -> Row {
    Row { name: P::NAME, by_default, make: |parts| Ok(Box::new(P::make(parts)?)) }
}
