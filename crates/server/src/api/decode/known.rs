//! The kinds that the reference registers without serving them: the error for a body of such a kind differs
//! from that for an unregistered kind.

use std::borrow::Cow;

use schema::{Type, builtin};

/// The scheme in which the reference registers the kinds of objects; its errors contain it.
pub(super) const SCHEME: &str = "pkg/api/legacyscheme/scheme.go:30";
/// The scheme in which the reference registers the kinds of options.
pub(super) const META_SCHEME: &str =
    "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme/register.go:27";

/// A registered kind.
pub(super) struct KnownKind {
    /// The type, if Keelson has it.
    pub(super) ty: Option<&'static Type>,
    /// The name of the kind's package in errors: `v1`.
    pub(super) package: Cow<'static, str>,
    /// The internal type: `core.Pod`. Kinds with the same internal type convert to each other.
    pub(super) internal: String,
}

/// Versions that are not served any more, with the kinds that they had.
const RETIRED: &[(&str, &[&str], &[&str])] = &[
    ("admission.k8s.io", &["v1beta1"], &["AdmissionReview"]),
    (
        "admissionregistration.k8s.io",
        &["v1beta1"],
        &["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"],
    ),
    (
        "apps",
        &["v1beta1"],
        &["ControllerRevision", "Deployment", "DeploymentRollback", "Scale", "StatefulSet"],
    ),
    (
        "apps",
        &["v1beta2"],
        &["ControllerRevision", "DaemonSet", "Deployment", "ReplicaSet", "Scale", "StatefulSet"],
    ),
    ("authentication.k8s.io", &["v1alpha1"], &["SelfSubjectReview"]),
    ("authentication.k8s.io", &["v1beta1"], &["TokenReview"]),
    (
        "authorization.k8s.io",
        &["v1beta1"],
        &[
            "LocalSubjectAccessReview",
            "SelfSubjectAccessReview",
            "SelfSubjectRulesReview",
            "SubjectAccessReview",
        ],
    ),
    ("autoscaling", &["v2beta1", "v2beta2"], &["HorizontalPodAutoscaler"]),
    ("batch", &["v1beta1"], &["CronJob"]),
    ("certificates.k8s.io", &["v1alpha1"], &["ClusterTrustBundle"]),
    ("certificates.k8s.io", &["v1beta1"], &["CertificateSigningRequest", "ClusterTrustBundle"]),
    ("coordination.k8s.io", &["v1beta1"], &["Lease", "LeaseCandidate"]),
    ("discovery.k8s.io", &["v1beta1"], &["EndpointSlice"]),
    ("events.k8s.io", &["v1beta1"], &["Event"]),
    (
        "extensions",
        &["v1beta1"],
        &["DaemonSet", "Deployment", "DeploymentRollback", "Ingress", "NetworkPolicy", "ReplicaSet", "Scale"],
    ),
    ("flowcontrol.apiserver.k8s.io", &["v1beta1", "v1beta2"], &["FlowSchema", "PriorityLevelConfiguration"]),
    ("networking.k8s.io", &["v1alpha1"], &["IPAddress", "ServiceCIDR"]),
    ("networking.k8s.io", &["v1beta1"], &["Ingress", "IngressClass"]),
    ("node.k8s.io", &["v1alpha1", "v1beta1"], &["RuntimeClass"]),
    ("policy", &["v1beta1"], &["Eviction", "PodDisruptionBudget"]),
    (
        "rbac.authorization.k8s.io",
        &["v1alpha1", "v1beta1"],
        &["ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"],
    ),
    ("scheduling.k8s.io", &["v1alpha1", "v1beta1"], &["PriorityClass"]),
    ("storage.k8s.io", &["v1alpha1"], &["CSIStorageCapacity", "VolumeAttachment"]),
    (
        "storage.k8s.io",
        &["v1beta1"],
        &["CSIDriver", "CSINode", "CSIStorageCapacity", "StorageClass", "VolumeAttachment"],
    ),
    ("storagemigration.k8s.io", &["v1alpha1"], &["StorageVersionMigration"]),
];

/// Kinds that exist in the version of every group.
const IN_EVERY_GROUP: &[&str] = &[
    "CreateOptions",
    "DeleteOptions",
    "GetOptions",
    "ListOptions",
    "PatchOptions",
    "UpdateOptions",
    "WatchEvent",
];

/// Kinds that exist in responses only.
const ANSWERS: &[&str] = &["PartialObjectMetadata", "PartialObjectMetadataList", "Table"];

/// Kinds that are the same in every version.
const UNVERSIONED: &[&str] = &["APIGroup", "APIGroupList", "APIResourceList", "APIVersions", "Status"];

/// Whether a kind is the same in every version.
pub(super) fn is_unversioned(kind: &str) -> bool {
    UNVERSIONED.contains(&kind)
}

/// A kind, if it is registered in that version.
pub(super) fn find(group: &str, version: &str, kind: &str) -> Option<KnownKind> {
    let found = |ty, internal| KnownKind { ty, package: version.to_owned().into(), internal };
    // A transform of a response is not a kind of a body.
    if group == "meta.k8s.io" && ANSWERS.contains(&kind) {
        return None;
    }
    if let Some(ty) = builtin::by_kind(group, version, kind) {
        return Some(found(Some(ty), internal(group, kind)));
    }
    let is_retired = |kind: &str| {
        let mut rows =
            RETIRED.iter().filter(|(own, versions, _)| *own == group && versions.contains(&version));
        rows.any(|(_, _, kinds)| kinds.contains(&kind))
    };
    if is_retired(kind) {
        return Some(found(None, internal(group, kind)));
    }
    if let Some(item) = kind.strip_suffix("List")
        && (builtin::by_kind(group, version, item).is_some() || is_retired(item))
    {
        return Some(found(None, internal(group, kind)));
    }
    let is_version = RETIRED.iter().any(|(own, versions, _)| *own == group && versions.contains(&version))
        || builtin::kinds()
            .iter()
            .filter_map(|ty| ty.kind.as_ref())
            .any(|known| known.group == group && known.version == version);
    if is_unversioned(kind) || (is_version && IN_EVERY_GROUP.contains(&kind)) {
        return Some(KnownKind { ty: None, package: "v1".into(), internal: format!("v1.{kind}") });
    }
    None
}

/// The internal type of a kind: `core.Pod`.
pub(super) fn internal(group: &str, kind: &str) -> String {
    let package = match (group, kind) {
        (_, "Scale") => "autoscaling",
        ("events.k8s.io", _) => "core",
        ("extensions", "Ingress" | "NetworkPolicy") => "networking",
        ("extensions", _) => "apps",
        _ => internal_package(group),
    };
    format!("{package}.{kind}")
}

/// The package of a group's kinds in errors: `core`, `rbac`.
fn internal_package(group: &str) -> &str {
    match group {
        "" | "events.k8s.io" => "core",
        "internal.apiserver.k8s.io" => "apiserverinternal",
        other => other.split('.').next().unwrap_or(other),
    }
}

/// The Go type of a kind in errors about transforms: `*core.Pod`.
pub(crate) fn go_name(group: &str, kind: &str) -> String {
    format!("*{}.{kind}", internal_package(group))
}
