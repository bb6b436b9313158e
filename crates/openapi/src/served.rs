//! Which resources are served.

use kinds::{Kind, ResourceType, Version};
use object::Text;
use std::cmp::Ordering;
use std::sync::Arc;

/// The served resource types, which the documents describe.
pub struct Served {
    resources: Vec<Arc<ResourceType>>,
}

/// A group with its versions, the preferred one first.
pub(crate) struct Group<'a> {
    pub(crate) name: &'a Text,
    pub(crate) versions: Vec<&'a Text>,
}

impl Served {
    /// Built-in and custom resource types; discovery lists groups in the order of their first resource type.
    pub fn new(resources: impl IntoIterator<Item = Arc<ResourceType>>) -> Self {
        Self { resources: resources.into_iter().collect() }
    }

    /// The groups in the order of discovery.
    pub(crate) fn groups(&self) -> Vec<Group<'_>> {
        let mut groups: Vec<Group<'_>> = Vec::new();
        for resource in &self.resources {
            let (name, version) = (&resource.group, &resource.version);
            match groups.iter_mut().find(|group| group.name == name) {
                Some(group) if group.versions.contains(&version) => {}
                Some(group) => group.versions.push(version),
                None => groups.push(Group { name, versions: vec![version] }),
            }
        }
        for group in &mut groups {
            group.versions.sort_by(|a, b| preferred_first(a, b));
        }
        groups
    }

    /// All groups but the core group.
    pub(crate) fn named_groups(&self) -> impl Iterator<Item = Group<'_>> {
        self.groups().into_iter().filter(|group| !group.name.is_empty())
    }

    /// The resources of a group version, by name.
    pub(crate) fn of(&self, group: &str, version: &str) -> Vec<&ResourceType> {
        let mut found: Vec<_> = self
            .resources
            .iter()
            .filter(|resource| resource.group == group && resource.version == version)
            .map(|resource| &**resource)
            .collect();
        found.sort_by_key(|resource| &resource.resource);
        found
    }

    /// Built-in resources.
    pub fn builtin(pairs: impl IntoIterator<Item = (&'static Kind, &'static Version)>) -> Self {
        let resolved = pairs.into_iter().filter_map(|(kind, version)| ResourceType::builtin(kind, version));
        Self::new(resolved.map(Arc::new))
    }

    /// The built-in resources that are served without `--runtime-config`.
    pub fn by_default() -> Self {
        Self::builtin(versions_of_all_kinds().filter(|(_, version)| version.by_default))
    }

    /// All built-in resources in all versions.
    pub fn everything() -> Self {
        Self::builtin(versions_of_all_kinds())
    }
}

fn versions_of_all_kinds() -> impl Iterator<Item = (&'static Kind, &'static Version)> {
    kinds::all().flat_map(|kind| kind.versions.iter().map(move |version| (kind, version)))
}

/// `v2` before `v1` before `v2beta1` before `v1beta2` before `v1alpha1`; names of another form follow, by their text.
fn preferred_first(a: &str, b: &str) -> Ordering {
    match (rank(a), rank(b)) {
        (Some(a), Some(b)) => b.cmp(&a),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => a.cmp(b),
    }
}

/// Stability, major number, minor number: the larger, the better.
fn rank(version: &str) -> Option<(u8, u64, u64)> {
    let rest = version.strip_prefix('v')?;
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (major, rest) = rest.split_at_checked(end)?;
    let major = major.parse().ok()?;
    if rest.is_empty() {
        return Some((2, major, 0));
    }
    if let Some(minor) = rest.strip_prefix("beta") {
        return Some((1, major, minor.parse().ok()?));
    }
    Some((0, major, rest.strip_prefix("alpha")?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_sort_by_stability_then_number() {
        let mut versions = vec!["v1alpha1", "other", "v1", "v2beta1", "v10", "v1beta2", "v2"];
        versions.sort_by(|a, b| preferred_first(a, b));
        assert_eq!(versions, ["v10", "v2", "v1", "v2beta1", "v1beta2", "v1alpha1", "other"]);
    }

    #[test]
    fn discovery_lists_groups_in_registration_order() {
        let served = Served::by_default();
        let names: Vec<_> = served.groups().iter().map(|group| group.name.to_string()).collect();
        assert_eq!(names[..4], ["", "apiregistration.k8s.io", "apps", "events.k8s.io"]);
        let groups = served.groups();
        let autoscaling = groups.iter().find(|group| group.name == "autoscaling").unwrap();
        assert_eq!(autoscaling.versions, ["v2", "v1"]);
    }
}
