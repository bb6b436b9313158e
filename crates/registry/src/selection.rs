//! Which versions of built-in kinds are served: the defaults, changed by `--runtime-config`, within what
//! the emulated release has.
//!
//! The key of `--runtime-config` with the most to say counts: a resource before its group version, that
//! before `api/ga`, `api/beta` or `api/alpha`, and these before `api/all`. A version that the emulated
//! release does not serve any more is not served, whatever is set; one that it does not have yet only as
//! [`Emulation`] says.

use kinds::{Kind, Release, Version, preferred_first};
use object::Text;
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// The served versions of built-in kinds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    rules: BTreeMap<String, bool>,
    emulation: Emulation,
    /// The groups and names of resources whose feature gates are off.
    without_gate: Vec<(&'static str, &'static str)>,
}

/// The release that is emulated, and what is served of later ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Emulation {
    /// The release.
    pub release: Release,
    /// `--emulation-forward-compatible`: where a version of a resource is served, later ones that are more
    /// stable are too. Alpha versions do not count.
    pub is_forward_compatible: bool,
    /// `--runtime-config-emulation-forward-compatible`: what `--runtime-config` enables by its name is
    /// served, whatever release introduced it.
    pub serves_what_is_named: bool,
}

impl Default for Emulation {
    /// Nothing is emulated.
    fn default() -> Self {
        Self { release: Release::OWN, is_forward_compatible: false, serves_what_is_named: false }
    }
}

/// Why a version that `--runtime-config` names cannot be served: the emulated release does not have it yet.
/// The texts are those of the reference.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotYet {
    /// A resource is named.
    #[error(
        "cannot enable resource {api_version}, Resource={resource} in runtime-config because it is introduced at {introduced} after the current version {release}. Consider setting --runtime-config-emulation-forward-compatible=true"
    )]
    Resource {
        /// Its group version.
        api_version: Text,
        /// Its name.
        resource: &'static str,
        /// The release that introduced it.
        introduced: Release,
        /// The release that is emulated.
        release: Release,
    },
    /// A group version without older resources is named.
    #[error(
        "cannot enable version {api_version} in runtime-config because all the resources have been introduced after the current version {release}. Consider setting --runtime-config-emulation-forward-compatible=true"
    )]
    Version {
        /// The group version.
        api_version: Text,
        /// The release that is emulated.
        release: Release,
    },
}

impl Selection {
    /// The defaults of a release.
    pub fn of(emulation: Emulation) -> Self {
        Self { rules: BTreeMap::new(), emulation, without_gate: Vec::new() }
    }

    /// Enables or disables the versions that a key of `--runtime-config` names: `api/all`, `api/ga`,
    /// `api/beta`, `api/alpha`, a group version (`batch/v1`), or one resource of it (`batch/v1/jobs`).
    pub fn set(&mut self, key: impl Into<String>, on: bool) {
        self.rules.insert(key.into(), on);
    }

    /// Leaves out a resource, because its feature gate is off.
    pub fn leave_out(&mut self, group: &'static str, resource: &'static str) {
        self.without_gate.push((group, resource));
    }

    /// Whether a kind is served in a version.
    pub fn serves(&self, kind: &Kind, version: &Version) -> bool {
        let life = &version.life;
        !self.without_gate.contains(&(kind.group, kind.resource))
            && self.is_enabled(kind, version)
            && !life.is_removed_in(self.emulation.release)
            && (life.introduced <= self.emulation.release || self.serves_later(kind, version))
    }

    /// Whether everything that `--runtime-config` names can be served.
    pub fn check(&self) -> Result<(), NotYet> {
        let release = self.emulation.release;
        let mut empty: Option<NotYet> = None;
        for kind in kinds::all() {
            for version in kind.versions.iter().filter(|version| version.life.introduced > release) {
                if !self.is_enabled(kind, version) || self.serves(kind, version) {
                    continue;
                }
                let api_version = kinds::api_version(kind.group, version.name);
                if self.resource_rule(kind, version) == Some(true) {
                    let (resource, introduced) = (kind.resource, version.life.introduced);
                    return Err(NotYet::Resource { api_version, resource, introduced, release });
                }
                if self.version_rule(kind, version) == Some(true) && !self.serves_any_of(kind, version) {
                    empty.get_or_insert(NotYet::Version { api_version, release });
                }
            }
        }
        empty.map_or(Ok(()), Err)
    }

    /// Whether anything of the group version of a kind is served.
    fn serves_any_of(&self, kind: &Kind, version: &Version) -> bool {
        let in_group = kinds::all().filter(|other| other.group == kind.group);
        in_group
            .filter_map(|other| other.version(version.name).map(|version| (other, version)))
            .any(|(other, version)| self.serves(other, version))
    }

    /// Whether a version is served that is introduced after the emulated release.
    fn serves_later(&self, kind: &Kind, version: &Version) -> bool {
        let is_named = || {
            let is_on = |rule: Option<bool>| rule == Some(true);
            is_on(self.resource_rule(kind, version)) || is_on(self.version_rule(kind, version))
        };
        let has_less_stable = || less_stable(kind.versions, version).any(|other| self.serves(kind, other));
        (self.emulation.is_forward_compatible && has_less_stable())
            || (self.emulation.serves_what_is_named && is_named())
    }

    fn is_enabled(&self, kind: &Kind, version: &Version) -> bool {
        let is_forward_compatible = self.emulation.is_forward_compatible;
        self.resource_rule(kind, version).or_else(|| self.version_rule(kind, version)).unwrap_or_else(|| {
            let is_named = |other| self.resource_rule(kind, other) == Some(true);
            (is_forward_compatible && less_stable(kind.versions, version).any(is_named))
                || self.default_of(version)
                || (is_forward_compatible && self.enables_less_stable(kind.group, version))
        })
    }

    /// Whether a less stable version of a group is enabled.
    fn enables_less_stable(&self, group: &str, version: &Version) -> bool {
        kinds::all().filter(|kind| kind.group == group).any(|kind| {
            less_stable(kind.versions, version)
                .any(|other| self.version_rule(kind, other).unwrap_or_else(|| self.default_of(other)))
        })
    }

    /// What is set for a resource.
    fn resource_rule(&self, kind: &Kind, version: &Version) -> Option<bool> {
        let group_version = kinds::api_version(kind.group, version.name);
        self.rule(&format!("{group_version}/{}", kind.resource))
    }

    /// What is set for the group version of a kind.
    fn version_rule(&self, kind: &Kind, version: &Version) -> Option<bool> {
        self.rule(&kinds::api_version(kind.group, version.name))
    }

    /// What is set for versions that are as stable as this one, or the default of this one.
    fn default_of(&self, version: &Version) -> bool {
        let level = if is_alpha(version) {
            "api/alpha"
        } else if version.name.contains("beta") {
            "api/beta"
        } else {
            "api/ga"
        };
        self.rule(level).or_else(|| self.rule("api/all")).unwrap_or(version.by_default)
    }

    fn rule(&self, key: &str) -> Option<bool> {
        self.rules.get(key).copied()
    }
}

fn is_alpha(version: &Version) -> bool {
    version.name.contains("alpha")
}

/// The versions that are less stable than another one, without alpha versions.
fn less_stable(versions: &'static [Version], than: &Version) -> impl Iterator<Item = &'static Version> {
    let than = than.name;
    versions
        .iter()
        .filter(move |other| !is_alpha(other) && preferred_first(than, other.name) == Ordering::Less)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn emulating(minor: u32) -> Emulation {
        Emulation { release: Release(minor), ..Emulation::default() }
    }

    fn selection(emulation: Emulation, rules: &[&str]) -> Selection {
        let mut selection = Selection::of(emulation);
        for rule in rules {
            let (key, on) = rule.split_once('=').unwrap();
            selection.set(key, on == "true");
        }
        selection
    }

    /// The versions in which a resource is served.
    fn versions(selection: &Selection, resource: &str) -> Vec<&'static str> {
        let kind = kinds::all().find(|kind| kind.resource == resource).unwrap();
        kind.versions.iter().filter(|one| selection.serves(kind, one)).map(|one| one.name).collect()
    }

    #[test]
    fn emulated_release_has_no_later_versions_and_no_removed_ones() {
        let served = |minor, resource| versions(&selection(emulating(minor), &["api/all=true"]), resource);
        for (resource, by_release) in [
            ("ipaddresses", [&["v1beta1"][..], &["v1beta1"], &["v1", "v1beta1"]]),
            ("flowschemas", [&["v1", "v1beta3"], &["v1"], &["v1"]]),
            ("selfsubjectreviews", [&["v1", "v1beta1"], &["v1", "v1beta1"], &["v1"]]),
            (
                "resourceclaims",
                [&["v1alpha3"], &["v1beta1", "v1alpha3"], &["v1beta2", "v1beta1", "v1alpha3"]],
            ),
            ("leasecandidates", [&[], &["v1alpha2"], &["v1beta1", "v1alpha2"]]),
            ("mutatingadmissionpolicies", [&[], &["v1alpha1"], &["v1alpha1"]]),
            ("storageversions", [&["v1alpha1"]; 3]),
        ] {
            for (minor, expected) in (31..).zip(by_release) {
                assert_eq!(served(minor, resource), expected, "{resource} in 1.{minor}");
            }
        }
        assert_eq!(versions(&selection(emulating(32), &[]), "ipaddresses"), Vec::<&str>::new());
    }

    #[test]
    fn forward_compatible_emulation_serves_what_is_more_stable_than_a_served_version() {
        let forward = Emulation { is_forward_compatible: true, ..emulating(32) };
        let served = |rules: &[&str], resource| versions(&selection(forward, rules), resource);
        assert_eq!(served(&["networking.k8s.io/v1beta1=true"], "ipaddresses"), ["v1", "v1beta1"]);
        assert_eq!(served(&["networking.k8s.io/v1beta1/ipaddresses=true"], "ipaddresses"), ["v1", "v1beta1"]);
        assert_eq!(served(&["resource.k8s.io/v1beta1=true"], "resourceclaims"), ["v1beta2", "v1beta1"]);
        let but_v1beta2 = ["resource.k8s.io/v1beta1=true", "resource.k8s.io/v1beta2=false"];
        assert_eq!(served(&but_v1beta2, "resourceclaims"), ["v1beta1"]);
        assert_eq!(served(&["resource.k8s.io/v1alpha3=true"], "resourceclaims"), ["v1alpha3"]);
        assert_eq!(served(&[], "ipaddresses"), Vec::<&str>::new());
    }

    #[test]
    fn versions_that_are_named_and_introduced_later_are_refused_or_served() {
        let version = "cannot enable version resource.k8s.io/v1beta2 in runtime-config because all the resources have been introduced after the current version 1.32. Consider setting --runtime-config-emulation-forward-compatible=true";
        let resource = "cannot enable resource networking.k8s.io/v1, Resource=ipaddresses in runtime-config because it is introduced at 1.33 after the current version 1.32. Consider setting --runtime-config-emulation-forward-compatible=true";
        for (rules, error) in [
            (&["resource.k8s.io/v1beta2=true"][..], Some(version)),
            (&["networking.k8s.io/v1/ipaddresses=true"], Some(resource)),
            // Others of the version are older.
            (&["networking.k8s.io/v1=true"], None),
            (&["api/beta=true"], None),
        ] {
            let refused = selection(emulating(32), rules).check().err().map(|error| error.to_string());
            assert_eq!(refused.as_deref(), error, "{rules:?}");
            let named = Emulation { serves_what_is_named: true, ..emulating(32) };
            assert_eq!(selection(named, rules).check(), Ok(()), "{rules:?}");
            assert_eq!(selection(emulating(33), rules).check(), Ok(()), "{rules:?}");
        }
        let named = Emulation { serves_what_is_named: true, ..emulating(32) };
        let all = selection(named, &["networking.k8s.io/v1=true", "resource.k8s.io/v1beta2=true"]);
        assert_eq!(versions(&all, "ipaddresses"), ["v1"]);
        assert_eq!(versions(&all, "resourceclaims"), ["v1beta2"]);
        assert_eq!(versions(&selection(named, &["api/beta=true"]), "leasecandidates"), Vec::<&str>::new());
    }
}
