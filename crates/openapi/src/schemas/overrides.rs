//! Facts about built-in fields that only OpenAPI documents need; the type files of `schema` do not have them.

use object::{Text, Value};
use schema::{Field, Type};

/// The enum values of a field, or of the elements of a list or map.
pub(super) fn values<'a>(ty: &Type, field: &'a Field) -> Vec<&'a str> {
    if !field.options.values.is_empty() {
        return field.options.values.iter().map(Text::as_str).collect();
    }
    let found = ELEMENTS.iter().find(|(places, _)| contains(places, ty, field));
    found.map(|(_, values)| values.to_vec()).unwrap_or_default()
}

/// The default of a field whose default is the empty value.
pub(super) fn default(ty: &Type, field: &Field) -> Option<Value> {
    contains(EMPTY_BY_DEFAULT, ty, field).then(|| super::zero(&field.shape)).flatten()
}

/// Whether the reference marks an atomic struct as an atomic list.
pub(super) fn counts_as_list(ty: &Type, field: &Field) -> bool {
    contains(ATOMIC_STRUCTS_CALLED_LISTS, ty, field)
}

/// The name of a type in `schema`, and the name of a field.
type TypeField = (&'static str, &'static str);

fn contains(places: &[TypeField], ty: &Type, field: &Field) -> bool {
    places.contains(&(ty.name.as_str(), field.name.as_str()))
}

const ATOMIC_STRUCTS_CALLED_LISTS: &[TypeField] = &[("meta.v1.Status", "details")];

const EMPTY_BY_DEFAULT: &[TypeField] = &[
    ("core.v1.AzureDiskVolumeSource", "readOnly"),
    ("core.v1.ConfigMapEnvSource", "name"),
    ("core.v1.ConfigMapKeySelector", "name"),
    ("core.v1.ConfigMapProjection", "name"),
    ("core.v1.ConfigMapVolumeSource", "name"),
    ("core.v1.GRPCAction", "service"),
    ("core.v1.LocalObjectReference", "name"),
    ("core.v1.ReplicationControllerSpec", "minReadySeconds"),
    ("core.v1.SecretEnvSource", "name"),
    ("core.v1.SecretKeySelector", "name"),
    ("core.v1.SecretProjection", "name"),
];

/// The enum values of elements of lists and maps.
const ELEMENTS: &[(&[TypeField], &[&str])] = &[
    (
        &[
            ("core.v1.PersistentVolumeClaimSpec", "accessModes"),
            ("core.v1.PersistentVolumeClaimStatus", "accessModes"),
            ("core.v1.PersistentVolumeSpec", "accessModes"),
        ],
        &["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"],
    ),
    (
        &[
            ("admissionregistration.v1.NamedRuleWithOperations", "operations"),
            ("admissionregistration.v1.RuleWithOperations", "operations"),
            ("admissionregistration.v1alpha1.NamedRuleWithOperations", "operations"),
            ("admissionregistration.v1beta1.NamedRuleWithOperations", "operations"),
        ],
        &["*", "CONNECT", "CREATE", "DELETE", "UPDATE"],
    ),
    (
        &[
            ("admissionregistration.v1.ValidatingAdmissionPolicyBindingSpec", "validationActions"),
            ("admissionregistration.v1beta1.ValidatingAdmissionPolicyBindingSpec", "validationActions"),
        ],
        &["Audit", "Deny", "Warn"],
    ),
    (
        &[("core.v1.ResourceQuotaSpec", "scopes")],
        &[
            "BestEffort",
            "CrossNamespacePodAffinity",
            "NotBestEffort",
            "NotTerminating",
            "PriorityClass",
            "Terminating",
            "VolumeAttributesClass",
        ],
    ),
    (
        &[("core.v1.PersistentVolumeClaimStatus", "allocatedResourceStatuses")],
        &[
            "ControllerResizeInProgress",
            "ControllerResizeInfeasible",
            "NodeResizeInProgress",
            "NodeResizeInfeasible",
            "NodeResizePending",
        ],
    ),
    (&[("core.v1.ServiceSpec", "ipFamilies")], &["", "IPv4", "IPv6"]),
    (&[("networking.v1.NetworkPolicySpec", "policyTypes")], &["Egress", "Ingress"]),
    (&[("certificates.v1.CertificateSigningRequestSpec", "usages")], kinds::CERTIFICATE_USAGES),
];

/// The groups that the scheme of the reference's client library does not have.
pub(super) const GROUPS_OF_SERVERS: &[&str] =
    &["admission.k8s.io", "apiextensions.k8s.io", "apiregistration.k8s.io", "imagepolicy.k8s.io"];

/// All group versions of the reference, served or not.
pub(super) const GROUP_VERSIONS: &[(&str, &[&str])] = &[
    ("", &["v1"]),
    ("admission.k8s.io", &["v1", "v1beta1"]),
    ("admissionregistration.k8s.io", &["v1", "v1alpha1", "v1beta1"]),
    ("apiextensions.k8s.io", &["v1", "v1beta1"]),
    ("apiregistration.k8s.io", &["v1", "v1beta1"]),
    ("apps", &["v1", "v1beta1", "v1beta2"]),
    ("authentication.k8s.io", &["v1", "v1alpha1", "v1beta1"]),
    ("authorization.k8s.io", &["v1", "v1beta1"]),
    ("autoscaling", &["v1", "v2", "v2beta1", "v2beta2"]),
    ("batch", &["v1", "v1beta1"]),
    ("certificates.k8s.io", &["v1", "v1alpha1", "v1beta1"]),
    ("coordination.k8s.io", &["v1", "v1alpha2", "v1beta1"]),
    ("discovery.k8s.io", &["v1", "v1beta1"]),
    ("events.k8s.io", &["v1", "v1beta1"]),
    ("extensions", &["v1beta1"]),
    ("flowcontrol.apiserver.k8s.io", &["v1", "v1beta1", "v1beta2", "v1beta3"]),
    ("imagepolicy.k8s.io", &["v1alpha1"]),
    ("internal.apiserver.k8s.io", &["v1alpha1"]),
    ("networking.k8s.io", &["v1", "v1alpha1", "v1beta1"]),
    ("node.k8s.io", &["v1", "v1alpha1", "v1beta1"]),
    ("policy", &["v1", "v1beta1"]),
    ("rbac.authorization.k8s.io", &["v1", "v1alpha1", "v1beta1"]),
    ("resource.k8s.io", &["v1alpha3", "v1beta1", "v1beta2"]),
    ("scheduling.k8s.io", &["v1", "v1alpha1", "v1beta1"]),
    ("storage.k8s.io", &["v1", "v1alpha1", "v1beta1"]),
    ("storagemigration.k8s.io", &["v1alpha1"]),
];
