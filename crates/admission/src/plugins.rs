//! The built-in plugins: one file for each, and their order.

mod always_admit;
mod always_deny;
mod always_pull_images;
mod certificate_approval;
mod certificate_signing;
mod certificate_subject_restriction;
mod cluster_trust_bundle_attest;
mod default_class;
mod default_ingress_class;
mod default_storage_class;
mod default_toleration_seconds;
mod deny_service_external_ips;
mod errors;
mod event_rate_limit;
mod extended_resource_toleration;
mod image_policy_webhook;
mod limit_pod_hard_anti_affinity_topology;
mod limit_ranger;
mod namespace_auto_provision;
mod namespace_exists;
mod namespace_lifecycle;
mod node_restriction;
mod owner_references_permission_enforcement;
mod persistent_volume_claim_resize;
mod pod;
mod pod_node_selector;
mod pod_security;
mod pod_sum;
mod pod_toleration_restriction;
mod pod_topology_labels;
mod priority;
mod resource_list;
mod resource_quota;
mod runtime_class;
mod service_account;
mod signers;
mod storage;
mod storage_object_in_use_protection;
mod taint_nodes_by_condition;
mod tolerations;

pub use always_admit::AlwaysAdmit;
pub use always_deny::AlwaysDeny;
pub use always_pull_images::AlwaysPullImages;
pub use certificate_approval::CertificateApproval;
pub use certificate_signing::CertificateSigning;
pub use certificate_subject_restriction::CertificateSubjectRestriction;
pub use cluster_trust_bundle_attest::ClusterTrustBundleAttest;
pub use default_ingress_class::DefaultIngressClass;
pub use default_storage_class::DefaultStorageClass;
pub use default_toleration_seconds::{DefaultTolerationSeconds, TolerationSeconds};
pub use deny_service_external_ips::DenyServiceExternalIPs;
pub use event_rate_limit::EventRateLimit;
pub use extended_resource_toleration::ExtendedResourceToleration;
pub use image_policy_webhook::ImagePolicyWebhook;
pub use limit_pod_hard_anti_affinity_topology::LimitPodHardAntiAffinityTopology;
pub use limit_ranger::LimitRanger;
pub use namespace_auto_provision::NamespaceAutoProvision;
pub use namespace_exists::NamespaceExists;
pub use namespace_lifecycle::NamespaceLifecycle;
pub use node_restriction::NodeRestriction;
pub use owner_references_permission_enforcement::OwnerReferencesPermissionEnforcement;
pub use persistent_volume_claim_resize::PersistentVolumeClaimResize;
pub use pod_node_selector::PodNodeSelector;
pub use pod_security::PodSecurity;
pub use pod_toleration_restriction::PodTolerationRestriction;
pub use pod_topology_labels::PodTopologyLabels;
pub use priority::Priority;
pub use resource_quota::{CountElsewhere, Quotas, ResourceQuota};
pub use runtime_class::RuntimeClass;
pub use service_account::ServiceAccount;
pub use storage_object_in_use_protection::StorageObjectInUseProtection;
pub use taint_nodes_by_condition::TaintNodesByCondition;

use crate::policy::{MutatingAdmissionPolicy, ValidatingAdmissionPolicy};
use crate::webhook::{self, Breakers, MutatingAdmissionWebhook, Places, ValidatingAdmissionWebhook};
use crate::{Plugin, Writer};
use auth::Authorizer;
use cache::{Cache, Resource};
use std::sync::Arc;

/// The arguments of [`Row::make`].
pub struct Parts<'a> {
    /// The cache.
    pub cache: &'a Cache,
    /// The authorizer of the server.
    pub authorizer: &'a Authorizer,
    /// The parts of plugins that the rest of the server uses too.
    pub shared: &'a Shared,
    /// The settings by flags.
    pub settings: PluginSettings,
    /// The plugin's part of the file of `--admission-control-config-file`.
    pub configuration: Option<&'a [u8]>,
}

/// The parts of plugins that the rest of the server uses too.
pub struct Shared {
    /// Writes objects for plugins.
    pub writer: Writer,
    /// The resource quotas, and what is charged to them.
    pub quotas: Quotas,
    /// The circuit breakers of webhooks.
    pub breakers: Breakers,
    /// The places for questions to webhooks.
    pub places: Places,
}

impl Shared {
    /// The shared parts of plugins over a cache.
    pub fn new(cache: &Cache, gates: Gates) -> Result<Self, String> {
        let quotas = Quotas::new(cache, gates)?;
        let (breakers, places) = (Breakers::default(), Places::default());
        Ok(Self { writer: Writer::default(), quotas, breakers, places })
    }
}

/// The settings of plugins by flags and feature gates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PluginSettings {
    /// The feature gates that plugins depend on.
    pub gates: Gates,
    /// How long pods tolerate a failing node by default.
    pub toleration: TolerationSeconds,
    /// The settings of webhooks.
    pub webhooks: webhook::WebhookSettings,
}

impl Parts<'_> {
    /// The objects of a resource: `pods`, `storageclasses.storage.k8s.io`.
    pub fn resource(&self, prefix: &str) -> Result<Arc<Resource>, String> {
        self.cache.resource(prefix).ok_or_else(|| format!("the resource {prefix} is missing"))
    }
}

/// The feature gates that plugins depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gates {
    /// `PodTopologyLabelsAdmission`.
    pub pod_topology_labels: bool,
    /// `UserNamespacesPodSecurityStandards`.
    pub user_namespaces_pod_security: bool,
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
    /// `MutatingAdmissionPolicy`.
    pub mutating_admission_policy: bool,
}

impl Default for Gates {
    fn default() -> Self {
        Self {
            pod_topology_labels: false,
            user_namespaces_pod_security: false,
            pod_level_resources: false,
            dynamic_resource_allocation: false,
            volume_attributes_class: false,
            node_audience_restriction: true,
            insecure_kubelet_requests: false,
            mutating_admission_policy: false,
        }
    }
}

/// A plugin that can be turned on and off.
pub struct Row {
    /// The name in flags.
    pub name: &'static str,
    /// Whether the plugin is on by default.
    pub by_default: bool,
    /// Makes the plugin; the error says what is wrong with its configuration.
    pub make: fn(&Parts<'_>) -> Result<Box<dyn Plugin>, String>,
}

/// All plugins, in the order in which they see a write.
pub const PLUGINS: &[Row] = &[
    row::<AlwaysAdmit>(false),
    row::<NamespaceAutoProvision>(false),
    row::<NamespaceLifecycle>(true),
    row::<NamespaceExists>(false),
    row::<LimitPodHardAntiAffinityTopology>(false),
    row::<LimitRanger>(true),
    row::<ServiceAccount>(true),
    row::<NodeRestriction>(true),
    row::<TaintNodesByCondition>(true),
    row::<AlwaysPullImages>(false),
    row::<ImagePolicyWebhook>(false),
    row::<PodSecurity>(true),
    row::<PodNodeSelector>(false),
    row::<Priority>(true),
    row::<DefaultTolerationSeconds>(true),
    row::<PodTolerationRestriction>(false),
    row::<EventRateLimit>(false),
    row::<ExtendedResourceToleration>(false),
    row::<DefaultStorageClass>(true),
    row::<StorageObjectInUseProtection>(true),
    row::<OwnerReferencesPermissionEnforcement>(false),
    row::<PersistentVolumeClaimResize>(true),
    row::<RuntimeClass>(true),
    row::<CertificateApproval>(true),
    row::<CertificateSigning>(true),
    row::<ClusterTrustBundleAttest>(true),
    row::<CertificateSubjectRestriction>(true),
    row::<DefaultIngressClass>(true),
    row::<DenyServiceExternalIPs>(false),
    row::<PodTopologyLabels>(true),
    row::<MutatingAdmissionPolicy>(true),
    row::<MutatingAdmissionWebhook>(true),
    row::<ValidatingAdmissionPolicy>(true),
    row::<ValidatingAdmissionWebhook>(true),
    row::<ResourceQuota>(true),
    row::<AlwaysDeny>(false),
];

/// A plugin that is made of the parts of a server.
pub trait Builtin: Plugin + Sized + 'static {
    /// The name in flags.
    const NAME: &'static str;

    /// Makes the plugin; the error says what is wrong with its configuration.
    fn make(parts: &Parts<'_>) -> Result<Self, String>;
}

const fn row<P: Builtin>(by_default: bool) -> Row {
    Row { name: P::NAME, by_default, make: |parts| Ok(Box::new(P::make(parts)?)) }
}
