//! `--runtime-config`: which versions and resources of the API are served.
//!
//! A key is `api/all`, `api/ga`, `api/beta`, `api/alpha`, a group version (`batch/v1`; `/v1` for the core
//! group) or one resource of it (`batch/v1/jobs`, `/v1/pods`). The more specific key wins. Errors have the
//! reference's texts.

use std::collections::BTreeMap;

use registry::{Emulation, Selection};

/// The keys that select versions by their maturity.
const LEVELS: [&str; 4] = ["api/all", "api/ga", "api/beta", "api/alpha"];

/// Group versions that the reference knows without serving them.
const KNOWN_NOT_SERVED: &[(&str, &str)] = &[
    ("admission.k8s.io", "v1"),
    ("admission.k8s.io", "v1beta1"),
    ("apiextensions.k8s.io", "v1beta1"),
    ("apiregistration.k8s.io", "v1beta1"),
    ("apps", "v1beta1"),
    ("apps", "v1beta2"),
    ("authentication.k8s.io", "v1alpha1"),
    ("authorization.k8s.io", "v1beta1"),
    ("autoscaling", "v2beta1"),
    ("autoscaling", "v2beta2"),
    ("batch", "v1beta1"),
    ("discovery.k8s.io", "v1beta1"),
    ("events.k8s.io", "v1beta1"),
    ("extensions", "v1beta1"),
    ("flowcontrol.apiserver.k8s.io", "v1beta1"),
    ("flowcontrol.apiserver.k8s.io", "v1beta2"),
    ("imagepolicy.k8s.io", "v1alpha1"),
    ("networking.k8s.io", "v1alpha1"),
    ("node.k8s.io", "v1alpha1"),
    ("node.k8s.io", "v1beta1"),
    ("policy", "v1beta1"),
    ("rbac.authorization.k8s.io", "v1alpha1"),
    ("rbac.authorization.k8s.io", "v1beta1"),
    ("scheduling.k8s.io", "v1alpha1"),
    ("scheduling.k8s.io", "v1beta1"),
    ("storagemigration.k8s.io", "v1alpha1"),
];

/// The pairs of all `--runtime-config` flags. A key that is given twice has the later value.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RuntimeConfig {
    pairs: BTreeMap<String, String>,
}

impl RuntimeConfig {
    /// Adds `key=value,key`; a key alone has an empty value.
    pub(super) fn extend(&mut self, value: &str) {
        for pair in value.split(',').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            self.pairs.insert(key.trim().to_owned(), value.trim().to_owned());
        }
    }

    /// Why the pairs are invalid. With priority and fairness on, its API cannot be turned off.
    pub(super) fn errors(&self, priority_and_fairness: bool) -> Vec<String> {
        let config = self.current();
        let conflict = if priority_and_fairness { config.flow_control_conflict() } else { None };
        conflict.into_iter().chain(config.unknown()).collect()
    }

    /// What is to be served, with an emulated release.
    pub(super) fn selection(&self, emulation: Emulation) -> Result<Selection, String> {
        self.current().selected(Selection::of(emulation))
    }

    /// With the present key of the core group for its old ones, and without the key that means nothing any
    /// more. As in the reference, an old key of one resource is for the whole group version.
    fn current(&self) -> Self {
        let is_core = |key: &str| {
            let version = key.strip_prefix("api/").unwrap_or(key);
            version == "v1" || version.starts_with("v1/")
        };
        let named = |(key, value): (&String, &String)| match is_core(key) {
            true => ("/v1".to_owned(), value.clone()),
            false => (key.clone(), value.clone()),
        };
        Self { pairs: self.pairs.iter().filter(|(key, _)| *key != "api/legacy").map(named).collect() }
    }

    /// As in the reference, any part of the pairs' text counts: `api/all=falsehood` is a conflict too.
    fn flow_control_conflict(&self) -> Option<String> {
        let pairs: Vec<String> = self.pairs.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let text = pairs.join(",");
        for key in ["flowcontrol.apiserver.k8s.io/v1", "api/ga", "api/all"] {
            if text.contains(&format!("{key}=false")) {
                return Some(format!(
                    "--runtime-config={key}=false conflicts with --enable-priority-and-fairness=true"
                ));
            }
            if text.contains(&format!("{key}=true")) {
                return None;
            }
        }
        None
    }

    /// The error about keys that name nothing.
    fn unknown(&self) -> Option<String> {
        if self.pairs.len() == 1 && self.pairs.get("api/all").is_some_and(|value| value == "false") {
            return Some("invalid key with only api/all=false".into());
        }
        let mut groups = Vec::new();
        for key in self.specific_keys() {
            match Specific::parse(key) {
                None => return Some(format!("runtime-config invalid key {key}")),
                Some(specific) if !specific.has_known_group() => groups.push(specific.group),
                Some(_) => {}
            }
        }
        (!groups.is_empty()).then(|| format!("unknown api groups {}", groups.join(",")))
    }

    fn selected(&self, mut selection: Selection) -> Result<Selection, String> {
        for key in LEVELS {
            match self.pairs.get(key).map(String::as_str) {
                None => {}
                Some("true") => selection.set(key, true),
                Some("false") => selection.set(key, false),
                Some(other) => return Err(format!("invalid value {key}={other}")),
            }
        }
        for key in self.specific_keys() {
            let Some(specific) = Specific::parse(key) else { continue };
            let api_version = kinds::api_version(specific.group, specific.version);
            if !specific.has_known_version() {
                return Err(format!("group version {api_version} that has not been registered"));
            }
            let on = self.value(key)?;
            match specific.resource {
                None => selection.set(api_version, on),
                Some(resource) if resource.to_lowercase() != resource => {
                    return Err(format!(
                        "invalid key {key}: group/version/resource and resource is always lowercase plural, not {}",
                        object::quote::quote(resource)
                    ));
                }
                Some(resource) => selection.set(format!("{api_version}/{resource}"), on),
            }
        }
        Ok(selection)
    }

    fn specific_keys(&self) -> impl Iterator<Item = &String> {
        self.pairs.keys().filter(|key| !LEVELS.contains(&key.as_str()))
    }

    fn value(&self, key: &str) -> Result<bool, String> {
        match self.pairs.get(key).map(String::as_str).unwrap_or_default() {
            "" => Ok(true),
            value => super::value::parse_bool(value)
                .map_err(|error| format!("invalid value of {key}: {value}, err: {error}")),
        }
    }
}

/// A key that names a group version or a resource.
struct Specific<'a> {
    group: &'a str,
    version: &'a str,
    resource: Option<&'a str>,
}

impl<'a> Specific<'a> {
    fn parse(key: &'a str) -> Option<Self> {
        let mut tokens = key.split('/');
        let (group, version, resource) = (tokens.next()?, tokens.next()?, tokens.next());
        tokens.next().is_none().then_some(Self { group, version, resource })
    }

    fn has_known_group(&self) -> bool {
        kinds::all().any(|kind| kind.group == self.group)
            || KNOWN_NOT_SERVED.iter().any(|(group, _)| *group == self.group)
    }

    fn has_known_version(&self) -> bool {
        let served = |kind: &kinds::Kind| {
            kind.group == self.group && kind.versions.iter().any(|version| version.name == self.version)
        };
        kinds::all().any(served) || KNOWN_NOT_SERVED.contains(&(self.group, self.version))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(value: &str) -> Result<Selection, String> {
        let mut config = RuntimeConfig::default();
        config.extend(value);
        crate::flags::emulation::aggregate(config.errors(false))?;
        config.selection(Emulation::default())
    }

    fn serves(value: &str, group: &str, version: &str, resource: &str) -> bool {
        let selection = resolve(value).unwrap();
        let kind = kinds::all().find(|kind| kind.group == group && kind.resource == resource).unwrap();
        let version = kind.versions.iter().find(|known| known.name == version).unwrap();
        selection.serves(kind, version)
    }

    #[test]
    fn more_specific_key_wins() {
        for (value, jobs) in [
            ("", true),
            ("api/ga=false", false),
            ("api/all=false,api/ga=true", true),
            ("batch/v1=false", false),
            ("api/ga=false,batch/v1", true),
            ("batch/v1=F,batch/v1/jobs=1", true),
            ("batch/v1/jobs=false", false),
            ("batch/v1/jobs=false,batch/v1/jobs=true", true),
        ] {
            assert_eq!(serves(value, "batch", "v1", "jobs"), jobs, "{value}");
        }
        assert!(serves("batch/v1/jobs=false", "batch", "v1", "cronjobs"));
    }

    #[test]
    fn core_group_has_an_empty_name() {
        assert!(!serves("/v1=false", "", "v1", "pods"));
        assert!(!serves("/v1/pods=false", "", "v1", "pods"));
        assert!(serves("/v1/pods=false", "", "v1", "services"));
    }

    #[test]
    fn old_keys_of_the_core_group_mean_the_whole_of_it_and_legacy_means_nothing() {
        for key in ["v1", "api/v1", "v1/pods", "api/v1/pods"] {
            assert!(serves(key, "", "v1", "pods"), "{key}");
            assert!(!serves(&format!("{key}=false"), "", "v1", "services"), "{key}");
        }
        assert_eq!(resolve("api/legacy=maybe"), resolve(""));
    }

    #[test]
    fn unknown_keys_and_bad_values_are_refused() {
        for (value, error) in [
            ("api/all=false", "invalid key with only api/all=false"),
            ("v2=true", "runtime-config invalid key v2"),
            ("a/b/c/d=true", "runtime-config invalid key a/b/c/d"),
            ("api/v2=true", "unknown api groups api"),
            ("foo/v1=true,bar/v1/x=true", "unknown api groups bar,foo"),
            ("batch/v7=true", "group version batch/v7 that has not been registered"),
            ("/v2=true", "group version v2 that has not been registered"),
            ("api/all=1", "invalid value api/all=1"),
            ("api/beta", "invalid value api/beta="),
            (
                "batch/v1=x",
                r#"invalid value of batch/v1: x, err: strconv.ParseBool: parsing "x": invalid syntax"#,
            ),
            (
                "batch/v1/Jobs=true",
                r#"invalid key batch/v1/Jobs: group/version/resource and resource is always lowercase plural, not "Jobs""#,
            ),
        ] {
            assert_eq!(resolve(value), Err(error.to_owned()), "{value}");
        }
    }

    #[test]
    fn known_versions_that_are_not_served_are_listed_only_if_no_kind_has_them() {
        let kind_has = |&&(group, version): &&(&str, &str)| {
            kinds::all().any(|kind| kind.group == group && kind.versions.iter().any(|v| v.name == version))
        };
        assert_eq!(KNOWN_NOT_SERVED.iter().filter(kind_has).collect::<Vec<_>>(), Vec::<&(&str, &str)>::new());
    }

    #[test]
    fn versions_that_the_reference_knows_without_serving_are_accepted() {
        for value in ["extensions/v1beta1=true", "storagemigration.k8s.io/v1alpha1=true"] {
            assert!(resolve(value).is_ok(), "{value}");
        }
    }

    #[test]
    fn priority_and_fairness_needs_its_api() {
        let resolve = |value: &str| {
            let mut config = RuntimeConfig::default();
            config.extend(value);
            crate::flags::emulation::aggregate(config.errors(true))
        };
        let conflict = "--runtime-config=api/all=false conflicts with --enable-priority-and-fairness=true";
        assert_eq!(
            resolve("api/all=false"),
            Err(format!("[{conflict}, invalid key with only api/all=false]"))
        );
        assert_eq!(resolve("api/all=false,/v1=true"), Err(conflict.to_owned()));
        assert!(resolve("api/all=false,flowcontrol.apiserver.k8s.io/v1=true").is_ok());
        assert!(resolve("api/all=false,api/ga=true").is_ok());
    }
}
