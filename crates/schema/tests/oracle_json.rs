//! An independent reader and writer of the same JSON: the types of `k8s-openapi`.
//!
//! serde decodes the output of this crate into the typed struct; this crate decodes the output of serde to
//! the same object.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "this is test code")]

mod generate;

use generate::{Random, complete_instance, seed};
use object::{Map, Value};
use schema::{Limits, Ref, Shape, builtin, json};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Instances of each kind in a run.
const EACH: u64 = 8;

fn check<T: Serialize + DeserializeOwned>(name: &str, seed: u64) {
    let ty = builtin::by_name(name).unwrap_or_else(|| panic!("no type {name}"));
    for round in 0..EACH {
        let value = complete_instance(ty, &mut Random::new(seed.wrapping_add(round)));
        let mut text = Vec::new();
        json::encode(ty, &value, &mut text);
        let typed: T = serde_json::from_slice(&text)
            .unwrap_or_else(|error| panic!("{name}: {error}: {}", String::from_utf8_lossy(&text)));
        let back = serde_json::to_vec(&typed).expect("typed objects can be written");
        let read = json::decode(ty, &back, &Limits::default()).map(|decoded| {
            let mut value = decoded.value;
            bare(&Shape::Struct(Ref::Static(ty)), &mut value);
            value
        });
        assert_eq!(read.as_ref(), Ok(&value), "KEELSON_SEED={seed} replays {name}");
    }
}

/// The object without kind and API version of nested objects, which the typed structs add.
fn bare(shape: &Shape, value: &mut Value) {
    match shape {
        Shape::Struct(ty) => {
            for (key, value) in value.as_map_mut().into_iter().flat_map(Map::iter_mut) {
                let Some(field) = ty.field(key) else { continue };
                bare_within(&field.shape, value);
            }
        }
        Shape::List(inner) => {
            value.as_list_mut().into_iter().flatten().for_each(|value| bare_within(inner, value))
        }
        _ => {}
    }
}

fn bare_within(shape: &Shape, value: &mut Value) {
    if let (Shape::Struct(ty), Some(map)) = (shape, value.as_map_mut())
        && ty.kind.is_some()
    {
        map.retain(|key, _| !matches!(key.as_str(), "kind" | "apiVersion"));
    }
    bare(shape, value);
}

macro_rules! kinds {
    ($($name:literal => $typed:ty,)*) => {
        /// Every kind that both crates have.
        const KINDS: &[(&str, fn(&str, u64))] = &[$(($name, check::<$typed>)),*];
    };
}

#[test]
fn objects_round_trip_through_k8s_openapi_types() {
    let seed = seed();
    for (name, check) in KINDS {
        check(name, seed);
    }
}

#[rustfmt::skip]
kinds! {
    "admissionregistration.v1.MutatingWebhookConfiguration" => k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration,
    "admissionregistration.v1.MutatingWebhookConfigurationList" => k8s_openapi::List<k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration>,
    "admissionregistration.v1.ValidatingAdmissionPolicy" => k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicy,
    "admissionregistration.v1.ValidatingAdmissionPolicyBinding" => k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicyBinding,
    "admissionregistration.v1.ValidatingAdmissionPolicyBindingList" => k8s_openapi::List<k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicyBinding>,
    "admissionregistration.v1.ValidatingAdmissionPolicyList" => k8s_openapi::List<k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicy>,
    "admissionregistration.v1.ValidatingWebhookConfiguration" => k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration,
    "admissionregistration.v1.ValidatingWebhookConfigurationList" => k8s_openapi::List<k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration>,
    "admissionregistration.v1alpha1.MutatingAdmissionPolicy" => k8s_openapi::api::admissionregistration::v1alpha1::MutatingAdmissionPolicy,
    "admissionregistration.v1alpha1.MutatingAdmissionPolicyBinding" => k8s_openapi::api::admissionregistration::v1alpha1::MutatingAdmissionPolicyBinding,
    "admissionregistration.v1alpha1.MutatingAdmissionPolicyBindingList" => k8s_openapi::List<k8s_openapi::api::admissionregistration::v1alpha1::MutatingAdmissionPolicyBinding>,
    "admissionregistration.v1alpha1.MutatingAdmissionPolicyList" => k8s_openapi::List<k8s_openapi::api::admissionregistration::v1alpha1::MutatingAdmissionPolicy>,
    "admissionregistration.v1beta1.ValidatingAdmissionPolicy" => k8s_openapi::api::admissionregistration::v1beta1::ValidatingAdmissionPolicy,
    "admissionregistration.v1beta1.ValidatingAdmissionPolicyBinding" => k8s_openapi::api::admissionregistration::v1beta1::ValidatingAdmissionPolicyBinding,
    "admissionregistration.v1beta1.ValidatingAdmissionPolicyBindingList" => k8s_openapi::List<k8s_openapi::api::admissionregistration::v1beta1::ValidatingAdmissionPolicyBinding>,
    "admissionregistration.v1beta1.ValidatingAdmissionPolicyList" => k8s_openapi::List<k8s_openapi::api::admissionregistration::v1beta1::ValidatingAdmissionPolicy>,
    "apiextensions.v1.CustomResourceDefinition" => k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    "apiextensions.v1.CustomResourceDefinitionList" => k8s_openapi::List<k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition>,
    "apiregistration.v1.APIService" => k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService,
    "apiregistration.v1.APIServiceList" => k8s_openapi::List<k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService>,
    "apiserverinternal.v1alpha1.StorageVersion" => k8s_openapi::api::apiserverinternal::v1alpha1::StorageVersion,
    "apiserverinternal.v1alpha1.StorageVersionList" => k8s_openapi::List<k8s_openapi::api::apiserverinternal::v1alpha1::StorageVersion>,
    "apps.v1.ControllerRevision" => k8s_openapi::api::apps::v1::ControllerRevision,
    "apps.v1.ControllerRevisionList" => k8s_openapi::List<k8s_openapi::api::apps::v1::ControllerRevision>,
    "apps.v1.DaemonSet" => k8s_openapi::api::apps::v1::DaemonSet,
    "apps.v1.DaemonSetList" => k8s_openapi::List<k8s_openapi::api::apps::v1::DaemonSet>,
    "apps.v1.Deployment" => k8s_openapi::api::apps::v1::Deployment,
    "apps.v1.DeploymentList" => k8s_openapi::List<k8s_openapi::api::apps::v1::Deployment>,
    "apps.v1.ReplicaSet" => k8s_openapi::api::apps::v1::ReplicaSet,
    "apps.v1.ReplicaSetList" => k8s_openapi::List<k8s_openapi::api::apps::v1::ReplicaSet>,
    "apps.v1.StatefulSet" => k8s_openapi::api::apps::v1::StatefulSet,
    "apps.v1.StatefulSetList" => k8s_openapi::List<k8s_openapi::api::apps::v1::StatefulSet>,
    "authentication.v1.SelfSubjectReview" => k8s_openapi::api::authentication::v1::SelfSubjectReview,
    "authentication.v1.TokenRequest" => k8s_openapi::api::authentication::v1::TokenRequest,
    "authentication.v1.TokenReview" => k8s_openapi::api::authentication::v1::TokenReview,
    "authorization.v1.LocalSubjectAccessReview" => k8s_openapi::api::authorization::v1::LocalSubjectAccessReview,
    "authorization.v1.SelfSubjectAccessReview" => k8s_openapi::api::authorization::v1::SelfSubjectAccessReview,
    "authorization.v1.SelfSubjectRulesReview" => k8s_openapi::api::authorization::v1::SelfSubjectRulesReview,
    "authorization.v1.SubjectAccessReview" => k8s_openapi::api::authorization::v1::SubjectAccessReview,
    "autoscaling.v1.HorizontalPodAutoscaler" => k8s_openapi::api::autoscaling::v1::HorizontalPodAutoscaler,
    "autoscaling.v1.HorizontalPodAutoscalerList" => k8s_openapi::List<k8s_openapi::api::autoscaling::v1::HorizontalPodAutoscaler>,
    "autoscaling.v1.Scale" => k8s_openapi::api::autoscaling::v1::Scale,
    "autoscaling.v2.HorizontalPodAutoscaler" => k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler,
    "autoscaling.v2.HorizontalPodAutoscalerList" => k8s_openapi::List<k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler>,
    "batch.v1.CronJob" => k8s_openapi::api::batch::v1::CronJob,
    "batch.v1.CronJobList" => k8s_openapi::List<k8s_openapi::api::batch::v1::CronJob>,
    "batch.v1.Job" => k8s_openapi::api::batch::v1::Job,
    "batch.v1.JobList" => k8s_openapi::List<k8s_openapi::api::batch::v1::Job>,
    "certificates.v1.CertificateSigningRequest" => k8s_openapi::api::certificates::v1::CertificateSigningRequest,
    "certificates.v1.CertificateSigningRequestList" => k8s_openapi::List<k8s_openapi::api::certificates::v1::CertificateSigningRequest>,
    "certificates.v1alpha1.ClusterTrustBundle" => k8s_openapi::api::certificates::v1alpha1::ClusterTrustBundle,
    "certificates.v1alpha1.ClusterTrustBundleList" => k8s_openapi::List<k8s_openapi::api::certificates::v1alpha1::ClusterTrustBundle>,
    "certificates.v1beta1.ClusterTrustBundle" => k8s_openapi::api::certificates::v1beta1::ClusterTrustBundle,
    "certificates.v1beta1.ClusterTrustBundleList" => k8s_openapi::List<k8s_openapi::api::certificates::v1beta1::ClusterTrustBundle>,
    "coordination.v1.Lease" => k8s_openapi::api::coordination::v1::Lease,
    "coordination.v1.LeaseList" => k8s_openapi::List<k8s_openapi::api::coordination::v1::Lease>,
    "coordination.v1alpha2.LeaseCandidate" => k8s_openapi::api::coordination::v1alpha2::LeaseCandidate,
    "coordination.v1alpha2.LeaseCandidateList" => k8s_openapi::List<k8s_openapi::api::coordination::v1alpha2::LeaseCandidate>,
    "coordination.v1beta1.LeaseCandidate" => k8s_openapi::api::coordination::v1beta1::LeaseCandidate,
    "coordination.v1beta1.LeaseCandidateList" => k8s_openapi::List<k8s_openapi::api::coordination::v1beta1::LeaseCandidate>,
    "core.v1.Binding" => k8s_openapi::api::core::v1::Binding,
    "core.v1.ComponentStatus" => k8s_openapi::api::core::v1::ComponentStatus,
    "core.v1.ComponentStatusList" => k8s_openapi::List<k8s_openapi::api::core::v1::ComponentStatus>,
    "core.v1.ConfigMap" => k8s_openapi::api::core::v1::ConfigMap,
    "core.v1.ConfigMapList" => k8s_openapi::List<k8s_openapi::api::core::v1::ConfigMap>,
    "core.v1.Endpoints" => k8s_openapi::api::core::v1::Endpoints,
    "core.v1.EndpointsList" => k8s_openapi::List<k8s_openapi::api::core::v1::Endpoints>,
    "core.v1.Event" => k8s_openapi::api::core::v1::Event,
    "core.v1.EventList" => k8s_openapi::List<k8s_openapi::api::core::v1::Event>,
    "core.v1.LimitRange" => k8s_openapi::api::core::v1::LimitRange,
    "core.v1.LimitRangeList" => k8s_openapi::List<k8s_openapi::api::core::v1::LimitRange>,
    "core.v1.Namespace" => k8s_openapi::api::core::v1::Namespace,
    "core.v1.NamespaceList" => k8s_openapi::List<k8s_openapi::api::core::v1::Namespace>,
    "core.v1.Node" => k8s_openapi::api::core::v1::Node,
    "core.v1.NodeList" => k8s_openapi::List<k8s_openapi::api::core::v1::Node>,
    "core.v1.PersistentVolume" => k8s_openapi::api::core::v1::PersistentVolume,
    "core.v1.PersistentVolumeClaim" => k8s_openapi::api::core::v1::PersistentVolumeClaim,
    "core.v1.PersistentVolumeClaimList" => k8s_openapi::List<k8s_openapi::api::core::v1::PersistentVolumeClaim>,
    "core.v1.PersistentVolumeList" => k8s_openapi::List<k8s_openapi::api::core::v1::PersistentVolume>,
    "core.v1.Pod" => k8s_openapi::api::core::v1::Pod,
    "core.v1.PodList" => k8s_openapi::List<k8s_openapi::api::core::v1::Pod>,
    "core.v1.PodTemplate" => k8s_openapi::api::core::v1::PodTemplate,
    "core.v1.PodTemplateList" => k8s_openapi::List<k8s_openapi::api::core::v1::PodTemplate>,
    "core.v1.ReplicationController" => k8s_openapi::api::core::v1::ReplicationController,
    "core.v1.ReplicationControllerList" => k8s_openapi::List<k8s_openapi::api::core::v1::ReplicationController>,
    "core.v1.ResourceQuota" => k8s_openapi::api::core::v1::ResourceQuota,
    "core.v1.ResourceQuotaList" => k8s_openapi::List<k8s_openapi::api::core::v1::ResourceQuota>,
    "core.v1.Secret" => k8s_openapi::api::core::v1::Secret,
    "core.v1.SecretList" => k8s_openapi::List<k8s_openapi::api::core::v1::Secret>,
    "core.v1.Service" => k8s_openapi::api::core::v1::Service,
    "core.v1.ServiceAccount" => k8s_openapi::api::core::v1::ServiceAccount,
    "core.v1.ServiceAccountList" => k8s_openapi::List<k8s_openapi::api::core::v1::ServiceAccount>,
    "core.v1.ServiceList" => k8s_openapi::List<k8s_openapi::api::core::v1::Service>,
    "discovery.v1.EndpointSlice" => k8s_openapi::api::discovery::v1::EndpointSlice,
    "discovery.v1.EndpointSliceList" => k8s_openapi::List<k8s_openapi::api::discovery::v1::EndpointSlice>,
    "events.v1.Event" => k8s_openapi::api::events::v1::Event,
    "events.v1.EventList" => k8s_openapi::List<k8s_openapi::api::events::v1::Event>,
    "flowcontrol.v1.FlowSchema" => k8s_openapi::api::flowcontrol::v1::FlowSchema,
    "flowcontrol.v1.FlowSchemaList" => k8s_openapi::List<k8s_openapi::api::flowcontrol::v1::FlowSchema>,
    "flowcontrol.v1.PriorityLevelConfiguration" => k8s_openapi::api::flowcontrol::v1::PriorityLevelConfiguration,
    "flowcontrol.v1.PriorityLevelConfigurationList" => k8s_openapi::List<k8s_openapi::api::flowcontrol::v1::PriorityLevelConfiguration>,
    "networking.v1.IPAddress" => k8s_openapi::api::networking::v1::IPAddress,
    "networking.v1.IPAddressList" => k8s_openapi::List<k8s_openapi::api::networking::v1::IPAddress>,
    "networking.v1.Ingress" => k8s_openapi::api::networking::v1::Ingress,
    "networking.v1.IngressClass" => k8s_openapi::api::networking::v1::IngressClass,
    "networking.v1.IngressClassList" => k8s_openapi::List<k8s_openapi::api::networking::v1::IngressClass>,
    "networking.v1.IngressList" => k8s_openapi::List<k8s_openapi::api::networking::v1::Ingress>,
    "networking.v1.NetworkPolicy" => k8s_openapi::api::networking::v1::NetworkPolicy,
    "networking.v1.NetworkPolicyList" => k8s_openapi::List<k8s_openapi::api::networking::v1::NetworkPolicy>,
    "networking.v1.ServiceCIDR" => k8s_openapi::api::networking::v1::ServiceCIDR,
    "networking.v1.ServiceCIDRList" => k8s_openapi::List<k8s_openapi::api::networking::v1::ServiceCIDR>,
    "networking.v1beta1.IPAddress" => k8s_openapi::api::networking::v1beta1::IPAddress,
    "networking.v1beta1.IPAddressList" => k8s_openapi::List<k8s_openapi::api::networking::v1beta1::IPAddress>,
    "networking.v1beta1.ServiceCIDR" => k8s_openapi::api::networking::v1beta1::ServiceCIDR,
    "networking.v1beta1.ServiceCIDRList" => k8s_openapi::List<k8s_openapi::api::networking::v1beta1::ServiceCIDR>,
    "node.v1.RuntimeClass" => k8s_openapi::api::node::v1::RuntimeClass,
    "node.v1.RuntimeClassList" => k8s_openapi::List<k8s_openapi::api::node::v1::RuntimeClass>,
    "policy.v1.Eviction" => k8s_openapi::api::policy::v1::Eviction,
    "policy.v1.PodDisruptionBudget" => k8s_openapi::api::policy::v1::PodDisruptionBudget,
    "policy.v1.PodDisruptionBudgetList" => k8s_openapi::List<k8s_openapi::api::policy::v1::PodDisruptionBudget>,
    "rbac.v1.ClusterRole" => k8s_openapi::api::rbac::v1::ClusterRole,
    "rbac.v1.ClusterRoleBinding" => k8s_openapi::api::rbac::v1::ClusterRoleBinding,
    "rbac.v1.ClusterRoleBindingList" => k8s_openapi::List<k8s_openapi::api::rbac::v1::ClusterRoleBinding>,
    "rbac.v1.ClusterRoleList" => k8s_openapi::List<k8s_openapi::api::rbac::v1::ClusterRole>,
    "rbac.v1.Role" => k8s_openapi::api::rbac::v1::Role,
    "rbac.v1.RoleBinding" => k8s_openapi::api::rbac::v1::RoleBinding,
    "rbac.v1.RoleBindingList" => k8s_openapi::List<k8s_openapi::api::rbac::v1::RoleBinding>,
    "rbac.v1.RoleList" => k8s_openapi::List<k8s_openapi::api::rbac::v1::Role>,
    "resource.v1alpha3.DeviceClass" => k8s_openapi::api::resource::v1alpha3::DeviceClass,
    "resource.v1alpha3.DeviceClassList" => k8s_openapi::List<k8s_openapi::api::resource::v1alpha3::DeviceClass>,
    "resource.v1alpha3.DeviceTaintRule" => k8s_openapi::api::resource::v1alpha3::DeviceTaintRule,
    "resource.v1alpha3.DeviceTaintRuleList" => k8s_openapi::List<k8s_openapi::api::resource::v1alpha3::DeviceTaintRule>,
    "resource.v1alpha3.ResourceClaim" => k8s_openapi::api::resource::v1alpha3::ResourceClaim,
    "resource.v1alpha3.ResourceClaimList" => k8s_openapi::List<k8s_openapi::api::resource::v1alpha3::ResourceClaim>,
    "resource.v1alpha3.ResourceClaimTemplate" => k8s_openapi::api::resource::v1alpha3::ResourceClaimTemplate,
    "resource.v1alpha3.ResourceClaimTemplateList" => k8s_openapi::List<k8s_openapi::api::resource::v1alpha3::ResourceClaimTemplate>,
    "resource.v1alpha3.ResourceSlice" => k8s_openapi::api::resource::v1alpha3::ResourceSlice,
    "resource.v1alpha3.ResourceSliceList" => k8s_openapi::List<k8s_openapi::api::resource::v1alpha3::ResourceSlice>,
    "resource.v1beta1.DeviceClass" => k8s_openapi::api::resource::v1beta1::DeviceClass,
    "resource.v1beta1.DeviceClassList" => k8s_openapi::List<k8s_openapi::api::resource::v1beta1::DeviceClass>,
    "resource.v1beta1.ResourceClaim" => k8s_openapi::api::resource::v1beta1::ResourceClaim,
    "resource.v1beta1.ResourceClaimList" => k8s_openapi::List<k8s_openapi::api::resource::v1beta1::ResourceClaim>,
    "resource.v1beta1.ResourceClaimTemplate" => k8s_openapi::api::resource::v1beta1::ResourceClaimTemplate,
    "resource.v1beta1.ResourceClaimTemplateList" => k8s_openapi::List<k8s_openapi::api::resource::v1beta1::ResourceClaimTemplate>,
    "resource.v1beta1.ResourceSlice" => k8s_openapi::api::resource::v1beta1::ResourceSlice,
    "resource.v1beta1.ResourceSliceList" => k8s_openapi::List<k8s_openapi::api::resource::v1beta1::ResourceSlice>,
    "resource.v1beta2.DeviceClass" => k8s_openapi::api::resource::v1beta2::DeviceClass,
    "resource.v1beta2.DeviceClassList" => k8s_openapi::List<k8s_openapi::api::resource::v1beta2::DeviceClass>,
    "resource.v1beta2.ResourceClaim" => k8s_openapi::api::resource::v1beta2::ResourceClaim,
    "resource.v1beta2.ResourceClaimList" => k8s_openapi::List<k8s_openapi::api::resource::v1beta2::ResourceClaim>,
    "resource.v1beta2.ResourceClaimTemplate" => k8s_openapi::api::resource::v1beta2::ResourceClaimTemplate,
    "resource.v1beta2.ResourceClaimTemplateList" => k8s_openapi::List<k8s_openapi::api::resource::v1beta2::ResourceClaimTemplate>,
    "resource.v1beta2.ResourceSlice" => k8s_openapi::api::resource::v1beta2::ResourceSlice,
    "resource.v1beta2.ResourceSliceList" => k8s_openapi::List<k8s_openapi::api::resource::v1beta2::ResourceSlice>,
    "scheduling.v1.PriorityClass" => k8s_openapi::api::scheduling::v1::PriorityClass,
    "scheduling.v1.PriorityClassList" => k8s_openapi::List<k8s_openapi::api::scheduling::v1::PriorityClass>,
    "storage.v1.CSIDriver" => k8s_openapi::api::storage::v1::CSIDriver,
    "storage.v1.CSIDriverList" => k8s_openapi::List<k8s_openapi::api::storage::v1::CSIDriver>,
    "storage.v1.CSINode" => k8s_openapi::api::storage::v1::CSINode,
    "storage.v1.CSINodeList" => k8s_openapi::List<k8s_openapi::api::storage::v1::CSINode>,
    "storage.v1.CSIStorageCapacity" => k8s_openapi::api::storage::v1::CSIStorageCapacity,
    "storage.v1.CSIStorageCapacityList" => k8s_openapi::List<k8s_openapi::api::storage::v1::CSIStorageCapacity>,
    "storage.v1.StorageClass" => k8s_openapi::api::storage::v1::StorageClass,
    "storage.v1.StorageClassList" => k8s_openapi::List<k8s_openapi::api::storage::v1::StorageClass>,
    "storage.v1.VolumeAttachment" => k8s_openapi::api::storage::v1::VolumeAttachment,
    "storage.v1.VolumeAttachmentList" => k8s_openapi::List<k8s_openapi::api::storage::v1::VolumeAttachment>,
    "storage.v1alpha1.VolumeAttributesClass" => k8s_openapi::api::storage::v1alpha1::VolumeAttributesClass,
    "storage.v1alpha1.VolumeAttributesClassList" => k8s_openapi::List<k8s_openapi::api::storage::v1alpha1::VolumeAttributesClass>,
    "storage.v1beta1.VolumeAttributesClass" => k8s_openapi::api::storage::v1beta1::VolumeAttributesClass,
    "storage.v1beta1.VolumeAttributesClassList" => k8s_openapi::List<k8s_openapi::api::storage::v1beta1::VolumeAttributesClass>,
}
