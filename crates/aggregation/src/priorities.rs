//! The priorities of group versions, which say in which order discovery lists them.

/// The priorities of a group version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Priorities {
    /// That of its group among all groups.
    pub group: i64,
    /// That of the version in the group.
    pub version: i64,
}

/// A group: its name, its priority among all groups, and the priorities of its versions.
struct Row(&'static str, i64, &'static [(&'static str, i64)]);

/// The priorities of groups and versions with custom kinds alone.
const CUSTOM: Priorities = Priorities { group: 1_000, version: 100 };

/// The priorities of the reference. A version without custom kinds that is not in here gets no APIService.
const ROWS: &[Row] = &[
    Row("", 18_000, &[("v1", 1)]),
    Row("apps", 17_800, &[("v1", 15)]),
    Row("events.k8s.io", 17_750, &[("v1", 15)]),
    Row("authentication.k8s.io", 17_700, &[("v1", 15), ("v1beta1", 9), ("v1alpha1", 1)]),
    Row("authorization.k8s.io", 17_600, &[("v1", 15)]),
    Row("autoscaling", 17_500, &[("v2", 30), ("v1", 15)]),
    Row("batch", 17_400, &[("v1", 15)]),
    Row("certificates.k8s.io", 17_300, &[("v1", 15), ("v1beta1", 9), ("v1alpha1", 1)]),
    Row("networking.k8s.io", 17_200, &[("v1", 15), ("v1beta1", 9), ("v1alpha1", 1)]),
    Row("policy", 17_100, &[("v1", 15)]),
    Row("rbac.authorization.k8s.io", 17_000, &[("v1", 15)]),
    Row("storage.k8s.io", 16_800, &[("v1", 15), ("v1beta1", 9), ("v1alpha1", 1)]),
    Row("apiextensions.k8s.io", 16_700, &[("v1", 15)]),
    Row("admissionregistration.k8s.io", 16_700, &[("v1", 15), ("v1beta1", 12), ("v1alpha1", 9)]),
    Row("scheduling.k8s.io", 16_600, &[("v1", 15)]),
    Row("coordination.k8s.io", 16_500, &[("v1", 15), ("v1beta1", 13), ("v1alpha2", 12)]),
    Row("node.k8s.io", 16_300, &[("v1", 15)]),
    Row("discovery.k8s.io", 16_200, &[("v1", 15)]),
    Row("resource.k8s.io", 16_200, &[("v1beta2", 15), ("v1beta1", 9), ("v1alpha3", 1)]),
    Row("flowcontrol.apiserver.k8s.io", 16_100, &[("v1", 21), ("v1beta3", 18)]),
    Row("internal.apiserver.k8s.io", 16_000, &[("v1alpha1", 9)]),
];

/// The priorities of a group version of built-in kinds; `None` if it gets no API service.
pub fn builtin(group: &str, version: &str) -> Option<Priorities> {
    let Row(_, of_group, versions) = ROWS.iter().find(|row| row.0 == group)?;
    let (_, of_version) = versions.iter().find(|(known, _)| *known == version)?;
    Some(Priorities { group: *of_group, version: *of_version })
}

/// The priorities of a group version that this server serves.
pub fn of(group: &str, version: &str) -> Priorities {
    builtin(group, version).unwrap_or(CUSTOM)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_versions_but_those_of_api_services_have_a_priority() {
        for kind in kinds::all().filter(|kind| kind.group != crate::API_SERVICES.group) {
            for version in kind.versions {
                assert!(builtin(kind.group, version.name).is_some(), "{} {}", kind.group, version.name);
            }
        }
    }
}
