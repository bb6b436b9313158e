//! Which fields a way of writing an object takes back, whatever a client sends: nobody gets to own those through it.
//!
//! The hooks of a kind ([`crate::Strategy`]) do what this table says; managed fields have to know it before they run.

use crate::Kind;

/// A path: names of fields.
pub type FieldPath = &'static [&'static str];

const STATUS: FieldPath = &["status"];
const SPEC: FieldPath = &["spec"];
const METADATA: FieldPath = &["metadata"];

impl Kind {
    /// What is taken back, with all that is below, by writes through a subresource, or of the object itself (an empty name).
    pub fn resets(&self, subresource: &str) -> &'static [FieldPath] {
        match (self.group, self.resource, subresource) {
            ("certificates.k8s.io", "certificatesigningrequests", "") => &[SPEC, STATUS],
            ("certificates.k8s.io", "certificatesigningrequests", "status") => {
                &[SPEC, &["status", "conditions"]]
            }
            ("certificates.k8s.io", "certificatesigningrequests", "approval") => {
                &[SPEC, &["status", "certificate"]]
            }
            ("", "namespaces", "finalize") => &[STATUS],
            ("", "pods", "status") => {
                &[SPEC, &["metadata", "deletionTimestamp"], &["metadata", "ownerReferences"]]
            }
            ("apps", "deployments", "status") => &[SPEC, &["metadata", "labels"]],
            (group, resource, "status") if KEEPS_METADATA.contains(&(group, resource)) => &[METADATA, SPEC],
            (group, resource, "") if HAS_STATUS.contains(&(group, resource)) => &[STATUS],
            (group, resource, "status") if HAS_STATUS.contains(&(group, resource)) => &[SPEC],
            _ => &[],
        }
    }
}

/// Kinds whose status is written apart from the rest.
///
/// `servicecidrs` are not among them: the reference has them under a group that does not exist.
const HAS_STATUS: [(&str, &str); 25] = [
    ("", "namespaces"),
    ("", "nodes"),
    ("", "persistentvolumeclaims"),
    ("", "persistentvolumes"),
    ("", "pods"),
    ("", "replicationcontrollers"),
    ("", "resourcequotas"),
    ("", "services"),
    ("admissionregistration.k8s.io", "validatingadmissionpolicies"),
    ("apiextensions.k8s.io", "customresourcedefinitions"),
    ("apiregistration.k8s.io", "apiservices"),
    ("apps", "daemonsets"),
    ("apps", "deployments"),
    ("apps", "replicasets"),
    ("apps", "statefulsets"),
    ("autoscaling", "horizontalpodautoscalers"),
    ("batch", "cronjobs"),
    ("batch", "jobs"),
    ("flowcontrol.apiserver.k8s.io", "flowschemas"),
    ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations"),
    ("internal.apiserver.k8s.io", "storageversions"),
    ("networking.k8s.io", "ingresses"),
    ("policy", "poddisruptionbudgets"),
    ("resource.k8s.io", "resourceclaims"),
    ("storage.k8s.io", "volumeattachments"),
];

/// Those of them whose metadata is not written with the status.
const KEEPS_METADATA: [(&str, &str); 7] = [
    ("admissionregistration.k8s.io", "validatingadmissionpolicies"),
    ("apiextensions.k8s.io", "customresourcedefinitions"),
    ("apiregistration.k8s.io", "apiservices"),
    ("flowcontrol.apiserver.k8s.io", "flowschemas"),
    ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations"),
    ("internal.apiserver.k8s.io", "storageversions"),
    ("storage.k8s.io", "volumeattachments"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_a_kind_with_that_way_of_writing() {
        for (group, resource) in HAS_STATUS.iter().chain(&KEEPS_METADATA) {
            let kind = crate::all().find(|kind| kind.group == *group && kind.resource == *resource);
            let kind = kind.unwrap_or_else(|| panic!("{group} {resource}"));
            assert!(kind.subresource("status").is_some(), "{group} {resource}");
        }
    }

    #[test]
    fn a_status_cannot_be_owned_through_its_object_nor_the_spec_through_the_status() {
        let pods = crate::all().find(|kind| kind.group.is_empty() && kind.resource == "pods").unwrap();
        assert_eq!(pods.resets(""), &[STATUS]);
        assert!(pods.resets("status").contains(&SPEC) && !pods.resets("status").contains(&STATUS));
        let maps = crate::all().find(|kind| kind.resource == "configmaps").unwrap();
        assert!(maps.resets("").is_empty());
    }
}
