//! Which resources are served.

use kinds::{Kind, Release, ResourceType, Version, preferred_first};
use object::Text;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

/// The served resource types, which the documents describe.
pub struct ServedResources {
    groups: Vec<Group>,
    /// Where each group is in the list.
    places: HashMap<Text, usize>,
}

/// A group with its versions, the preferred one first.
pub(crate) struct Group {
    pub(crate) name: Text,
    pub(crate) versions: Vec<GroupVersion>,
}

/// A version of a group with its resources, by name.
pub(crate) struct GroupVersion {
    pub(crate) name: Text,
    pub(crate) resources: Vec<Arc<ResourceType>>,
}

impl GroupVersion {
    /// Whether the resources of the version are custom ones: no group version has both.
    pub(crate) fn is_custom(&self) -> bool {
        self.resources.iter().all(|resource| resource.is_custom())
    }
}

impl ServedResources {
    /// Built-in and custom resource types; discovery lists groups in the order of their first resource type.
    pub fn new(resources: impl IntoIterator<Item = Arc<ResourceType>>) -> Self {
        let mut served = Self { groups: Vec::new(), places: HashMap::new() };
        for resource in resources {
            let next = served.groups.len();
            let place = *served.places.entry(resource.group.clone()).or_insert(next);
            if place == next {
                served.groups.push(Group { name: resource.group.clone(), versions: Vec::new() });
            }
            let Some(Group { versions, .. }) = served.groups.get_mut(place) else { continue };
            match versions.iter_mut().find(|version| version.name == resource.version) {
                Some(version) => version.resources.push(resource),
                None => {
                    versions.push(GroupVersion { name: resource.version.clone(), resources: vec![resource] });
                }
            }
        }
        for group in &mut served.groups {
            // In a group with built-in kinds, the versions of custom ones are preferred.
            group.versions.sort_by(|a, b| {
                b.is_custom().cmp(&a.is_custom()).then_with(|| preferred_first(&a.name, &b.name))
            });
            for version in &mut group.versions {
                version.resources.sort_by(|a, b| a.resource.cmp(&b.resource));
            }
        }
        served
    }

    /// The groups in the order of discovery.
    pub(crate) fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// All groups but the core group.
    pub(crate) fn named_groups(&self) -> impl Iterator<Item = &Group> {
        self.groups.iter().filter(|group| !group.name.is_empty())
    }

    /// A group by its name.
    pub(crate) fn group(&self, name: &str) -> Option<&Group> {
        self.groups.get(*self.places.get(name)?)
    }

    /// A version of a group.
    pub(crate) fn version(&self, group: &str, version: &str) -> Option<&GroupVersion> {
        self.group(group)?.versions.iter().find(|known| known.name == version)
    }

    /// The group versions for the lists of discovery, with those that other servers serve (each a group and a
    /// version), in the order of their priorities: of a group among all groups, and of a version in its
    /// group. The resources of none of them are known.
    pub fn listed_with<'a>(
        &'a self,
        foreign: impl IntoIterator<Item = (&'a str, &'a str)>,
        priorities: impl Fn(&str, &str) -> [i64; 2],
    ) -> Self {
        let mut groups: Vec<Group> = Vec::new();
        let own = self.groups.iter().flat_map(|group| {
            group.versions.iter().map(|version| (group.name.as_str(), version.name.as_str()))
        });
        for (group, version) in own.chain(foreign) {
            let known = groups.iter_mut().find(|known| known.name == group);
            let version = GroupVersion { name: version.into(), resources: Vec::new() };
            match known {
                None => groups.push(Group { name: group.into(), versions: vec![version] }),
                Some(known) if known.versions.iter().any(|other| other.name == version.name) => {}
                Some(known) => known.versions.push(version),
            }
        }
        for Group { name, versions } in &mut groups {
            versions.sort_by(|a, b| {
                let [[_, a_priority], [_, b_priority]] =
                    [a, b].map(|version| priorities(name, &version.name));
                b_priority.cmp(&a_priority).then_with(|| preferred_first(&a.name, &b.name))
            });
        }
        // The core group and that of API services come first.
        groups.sort_by_cached_key(|group| {
            let of_versions = group.versions.iter().map(|version| priorities(&group.name, &version.name)[0]);
            let is_first = group.name.is_empty() || group.name == "apiregistration.k8s.io";
            (!is_first, Reverse(of_versions.max()), group.name.clone())
        });
        let places = groups.iter().enumerate().map(|(at, group)| (group.name.clone(), at)).collect();
        Self { groups, places }
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

    /// All built-in resources in all versions, but for those that only older releases serve.
    pub fn everything() -> Self {
        Self::builtin(
            versions_of_all_kinds().filter(|(_, version)| !version.life.is_removed_in(Release::OWN)),
        )
    }
}

fn versions_of_all_kinds() -> impl Iterator<Item = (&'static Kind, &'static Version)> {
    kinds::all().flat_map(|kind| kind.versions.iter().map(move |version| (kind, version)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn discovery_lists_groups_in_registration_order() {
        let served = ServedResources::by_default();
        let names: Vec<_> = served.groups().iter().map(|group| group.name.to_string()).collect();
        assert_eq!(names[..4], ["", "apiregistration.k8s.io", "apps", "events.k8s.io"]);
        let autoscaling = served.group("autoscaling").unwrap();
        assert_eq!(
            autoscaling.versions.iter().map(|version| &*version.name).collect::<Vec<_>>(),
            ["v2", "v1"]
        );
    }
}
