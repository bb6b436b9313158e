//! Collects the descriptions of the API's types and fields, and stores them compressed, one block for each
//! package.
//!
//! The texts are those of the crate `k8s-openapi`, which carries them as JSON schemas made from the
//! reference's own OpenAPI document. It has no types for lists, watch events and the options of requests; the
//! texts of those come from the comments in the source of the crate `k8s-pb` (see [`comments`]).
//!
//! A block is deflated text: records that end in `\x1e`, each of them type, field and description, divided by
//! `\x1f`. Names are in lower case, because `k8s-pb` spells them in Rust's way; the field is empty for the
//! type itself.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a build script speaks to cargo on its output, and reports what is wrong by stopping the build"
)]

mod comments;

use flate2::Compression;
use flate2::write::DeflateEncoder;
use schemars::SchemaGenerator;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::{env, fs};

/// Descriptions by type and field, of one package.
type Texts = BTreeMap<(String, String), String>;

/// The packages, by their OpenAPI names.
type Packages = BTreeMap<String, Texts>;

fn main() {
    println!("cargo::rerun-if-changed=build");
    // The versions of both crates.
    println!("cargo::rerun-if-changed=../../Cargo.lock");
    let mut packages = Packages::new();
    for (name, schema) in &definitions() {
        let Some((package, ty)) = name.rsplit_once('.') else { continue };
        add_schema(packages.entry(package.to_owned()).or_default(), ty, schema);
    }
    match comments::read() {
        Ok(found) => {
            for (package, texts) in found {
                let known = packages.entry(package).or_default();
                for (key, text) in texts {
                    known.entry(key).or_insert(text);
                }
            }
        }
        Err(why) => println!(
            "cargo::warning=OpenAPI will lack the descriptions of lists, watch events and request options: the source of the crate k8s-pb was not found ({why})"
        ),
    }
    write(&packages);
}

fn add_schema(texts: &mut Texts, ty: &str, schema: &Value) {
    let mut add = |field: &str, described: &Value| {
        if let Some(text) = described.get("description").and_then(Value::as_str) {
            texts.insert((ty.to_lowercase(), field.to_lowercase()), text.to_owned());
        }
    };
    add("", schema);
    for (field, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        add(field, property);
    }
}

fn write(packages: &Packages) {
    let out = env::var("OUT_DIR").unwrap();
    let mut index = String::from("&[\n");
    for (package, texts) in packages.iter().filter(|(_, texts)| !texts.is_empty()) {
        let mut block = String::new();
        for ((ty, field), text) in texts {
            assert!(!text.contains(['\x1e', '\x1f']), "{package}.{ty}.{field} has a dividing character");
            write!(block, "{ty}\x1f{field}\x1f{text}\x1e").unwrap();
        }
        let mut deflated = DeflateEncoder::new(Vec::new(), Compression::best());
        deflated.write_all(block.as_bytes()).unwrap();
        fs::write(Path::new(&out).join(format!("{package}.deflate")), deflated.finish().unwrap()).unwrap();
        writeln!(
            index,
            "({package:?}, include_bytes!(concat!(env!(\"OUT_DIR\"), \"/{package}.deflate\")) as &[u8]),"
        )
        .unwrap();
    }
    index.push(']');
    fs::write(Path::new(&out).join("descriptions.rs"), index).unwrap();
}

/// The schemas of everything that the given types reach.
macro_rules! reached_from {
    ($($($part:ident)::+: [$($ty:ident),+ $(,)?],)+) => {
        fn definitions() -> Map<String, Value> {
            let mut generator = SchemaGenerator::default();
            $({
                use k8s_openapi::$($part)::+ as package;
                $(let _ = generator.subschema_for::<package::$ty>();)+
            })+
            generator.take_definitions(true)
        }
    };
}

reached_from! {
    api::admissionregistration::v1: [MutatingWebhookConfiguration, ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding, ValidatingWebhookConfiguration],
    api::admissionregistration::v1alpha1: [MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding],
    api::admissionregistration::v1beta1: [ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding],
    api::apiserverinternal::v1alpha1: [StorageVersion],
    api::apps::v1: [ControllerRevision, DaemonSet, Deployment, ReplicaSet, StatefulSet],
    api::authentication::v1: [SelfSubjectReview, TokenRequest, TokenReview],
    api::authorization::v1: [LocalSubjectAccessReview, SelfSubjectAccessReview, SelfSubjectRulesReview, SubjectAccessReview],
    api::autoscaling::v1: [HorizontalPodAutoscaler, Scale],
    api::autoscaling::v2: [HorizontalPodAutoscaler],
    api::batch::v1: [CronJob, Job],
    api::certificates::v1: [CertificateSigningRequest],
    api::certificates::v1alpha1: [ClusterTrustBundle],
    api::certificates::v1beta1: [ClusterTrustBundle],
    api::coordination::v1: [Lease],
    api::coordination::v1alpha2: [LeaseCandidate],
    api::coordination::v1beta1: [LeaseCandidate],
    api::core::v1: [
        Binding, ComponentStatus, ConfigMap, Endpoints, Event, LimitRange, Namespace, Node, PersistentVolume,
        Pod, PodTemplate, ReplicationController, ResourceQuota, Secret, Service, ServiceAccount,
    ],
    api::discovery::v1: [EndpointSlice],
    api::events::v1: [Event],
    api::flowcontrol::v1: [FlowSchema, PriorityLevelConfiguration],
    api::networking::v1: [IPAddress, Ingress, IngressClass, NetworkPolicy, ServiceCIDR],
    api::networking::v1beta1: [IPAddress, ServiceCIDR],
    api::node::v1: [RuntimeClass],
    api::policy::v1: [Eviction, PodDisruptionBudget],
    api::rbac::v1: [ClusterRole, ClusterRoleBinding, Role, RoleBinding],
    api::resource::v1alpha3: [DeviceClass, DeviceTaintRule, ResourceClaim, ResourceClaimTemplate, ResourceSlice],
    api::resource::v1beta1: [DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice],
    api::resource::v1beta2: [DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice],
    api::scheduling::v1: [PriorityClass],
    api::storage::v1: [CSIDriver, CSINode, CSIStorageCapacity, StorageClass, VolumeAttachment],
    api::storage::v1alpha1: [VolumeAttributesClass],
    api::storage::v1beta1: [VolumeAttributesClass],
    apiextensions_apiserver::pkg::apis::apiextensions::v1: [CustomResourceDefinition],
    apimachinery::pkg::apis::meta::v1: [APIGroupList, APIResourceList, APIVersions, Patch, Status],
    apimachinery::pkg::version: [Info],
    kube_aggregator::pkg::apis::apiregistration::v1: [APIService],
}
