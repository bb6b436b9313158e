//! The configuration of the plugin: the policy of namespaces without labels, and who is exempt.

use super::policy::{Level, LevelVersion, Policy, Version};
use object::field::{Aggregate, Error, List, Path};
use object::{Map, name};
use schema::config_file;
use schema::view::{Items, View as _};
use schema::views::podsecurity::v1::PodSecurityConfiguration;
use std::collections::BTreeSet;

const VERSIONS: [&str; 3] = [
    "pod-security.admission.config.k8s.io/v1",
    "pod-security.admission.config.k8s.io/v1beta1",
    "pod-security.admission.config.k8s.io/v1alpha1",
];

/// The configuration of the plugin.
pub(super) struct Config {
    pub(super) defaults: Policy,
    pub(super) users: BTreeSet<String>,
    pub(super) namespaces: BTreeSet<String>,
    pub(super) runtime_classes: BTreeSet<String>,
}

impl Config {
    /// Reads a configuration, or says what is wrong with it. Without one nothing is checked that labels do
    /// not ask for.
    pub(super) fn parse(text: Option<&[u8]>) -> Result<Self, String> {
        let decoded = match text {
            Some(text) => {
                let ty = PodSecurityConfiguration::schema();
                config_file::decode(text, "PodSecurityConfiguration", &VERSIONS, ty)?
            }
            None => Map::new().into(),
        };
        let empty = Map::new();
        let configuration = PodSecurityConfiguration::of(decoded.as_map().unwrap_or(&empty));
        let (defaults, exemptions) = (configuration.defaults(), configuration.exemptions());
        let mut errors = List::new();
        let defaults = Policy {
            enforce: mode("enforce", defaults.enforce(), defaults.enforce_version(), &mut errors),
            warn: mode("warn", defaults.warn(), defaults.warn_version(), &mut errors),
            audit: mode("audit", defaults.audit(), defaults.audit_version(), &mut errors),
        };
        let namespace = |text: &str| joined(name::dns1123_label(text));
        let class = |text: &str| joined(name::name_is_dns_subdomain(text, name::Mode::Name));
        let user = |text: &str| text.is_empty().then(|| "username must not be empty".to_owned());
        let config = Self {
            defaults,
            namespaces: exempt("namespaces", exemptions.namespaces(), namespace, &mut errors),
            runtime_classes: exempt("runtimeClasses", exemptions.runtime_classes(), class, &mut errors),
            users: exempt("usernames", exemptions.usernames(), user, &mut errors),
        };
        match Aggregate::new(errors) {
            Some(errors) => Err(errors.to_string()),
            None => Ok(config),
        }
    }
}

fn joined(messages: name::Messages) -> Option<String> {
    let texts: Vec<&str> = messages.iter().map(|message| &**message).collect();
    (!texts.is_empty()).then(|| texts.join(", "))
}

/// The level and version of a mode; privileged if the level is empty.
fn mode(name: &str, level: &str, version: &str, errors: &mut List) -> LevelVersion {
    let path = Path::new("defaults");
    let mut asked = LevelVersion::PRIVILEGED;
    if !level.is_empty() {
        match Level::parse(level) {
            Ok(level) => asked.level = level,
            Err(why) => errors.push(Error::invalid(&path.child(name), level, why)),
        }
    }
    if !version.is_empty() {
        match Version::parse(version) {
            Ok(version) => asked.version = version,
            Err(why) => {
                let name = format!("{name}-version");
                errors.push(Error::invalid(&path.child(&name), version, why));
            }
        }
    }
    asked
}

/// The names of a list, each of which is valid and there once.
fn exempt(
    list: &'static str,
    names: Items<'_, &str>,
    fault: impl Fn(&str) -> Option<String>,
    errors: &mut List,
) -> BTreeSet<String> {
    let path = Path::new("exemptions");
    let path = path.child(list);
    let mut valid = BTreeSet::new();
    for (at, name) in names.iter().enumerate() {
        if let Some(why) = fault(name) {
            errors.push(Error::invalid(&path.index(at), name, why));
        } else if !valid.insert(name.to_owned()) {
            errors.push(Error::duplicate(&path.index(at), name));
        }
    }
    valid
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(rest: &str) -> Result<Config, String> {
        let text = format!("apiVersion: {}\nkind: PodSecurityConfiguration\n{rest}", VERSIONS[0]);
        Config::parse(Some(text.as_bytes()))
    }

    #[test]
    fn defaults_and_exemptions_are_read() {
        let config = parse("defaults: {enforce: baseline, enforce-version: v1.20, warn: restricted}\nexemptions: {usernames: [u], namespaces: [m], runtimeClasses: [r]}\n").unwrap();
        let Policy { enforce, audit, warn } = config.defaults;
        assert_eq!(format!("{enforce} {audit} {warn}"), "baseline:v1.20 privileged:latest restricted:latest");
        let all = [&config.users, &config.namespaces, &config.runtime_classes].map(|names| names.len());
        assert_eq!(all, [1, 1, 1]);
        assert_eq!(Config::parse(None).unwrap().defaults, Policy::PRIVILEGED);
    }

    #[test]
    fn wrong_configurations_are_refused() {
        let refused = parse("defaults: {enforce: x, audit-version: z}\nexemptions: {usernames: [''], namespaces: [A, a, a]}\n").err().unwrap();
        for part in [
            "defaults.enforce: Invalid value",
            "defaults.audit-version: Invalid value",
            "exemptions.usernames[0]: Invalid value: \"\": username must not be empty",
            "exemptions.namespaces[0]: Invalid value: \"A\"",
            "exemptions.namespaces[2]: Duplicate value: \"a\"",
        ] {
            assert!(refused.contains(part), "{refused}");
        }
        assert!(parse("default: {}\n").err().unwrap().contains("unknown field"));
    }
}
