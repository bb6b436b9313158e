//! The policy of a namespace: for each mode a level and a version, by labels and defaults.

use object::field::{Error, List, Path};
use std::fmt;

/// How strict a policy is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    Privileged,
    Baseline,
    Restricted,
}

impl Level {
    const ALL: [(&'static str, Self); 3] =
        [("privileged", Self::Privileged), ("baseline", Self::Baseline), ("restricted", Self::Restricted)];

    pub(super) fn parse(text: &str) -> Result<Self, &'static str> {
        let found = Self::ALL.iter().find(|(name, _)| *name == text);
        found.map(|(_, level)| *level).ok_or("must be one of privileged, baseline, restricted")
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::ALL.iter().find(|(_, level)| level == self).map_or("", |(name, _)| *name);
        f.write_str(name)
    }
}

/// The version of the checks: `latest`, or that of a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    Latest,
    /// `v1.N`.
    Minor(u64),
}

impl Version {
    pub(super) fn parse(text: &str) -> Result<Self, &'static str> {
        if text == "latest" {
            return Ok(Self::Latest);
        }
        let digits = text.strip_prefix("v1.").unwrap_or_default();
        let is_number = !digits.is_empty()
            && digits.bytes().all(|byte| byte.is_ascii_digit())
            && (digits == "0" || !digits.starts_with('0'));
        // A number of this server's machine, as in the reference.
        let number = digits.parse::<i64>().ok().and_then(|number| u64::try_from(number).ok());
        number.filter(|_| is_number).map(Self::Minor).ok_or("must be \"latest\" or \"v1.x\"")
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Latest => f.write_str("latest"),
            Self::Minor(minor) => write!(f, "v1.{minor}"),
        }
    }
}

/// The level and version of a mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LevelVersion {
    pub(super) level: Level,
    pub(super) version: Version,
}

impl LevelVersion {
    pub(super) const PRIVILEGED: Self = Self { level: Level::Privileged, version: Version::Latest };

    /// The version that an evaluation is counted with: all that are not known yet count as one.
    pub(super) fn counted_version(self) -> String {
        match self.version {
            Version::Minor(minor) if minor > 33 => "future".into(),
            version => version.to_string(),
        }
    }

    fn is_equivalent(self, other: Self) -> bool {
        self == other || (self.level == Level::Privileged && other.level == Level::Privileged)
    }
}

impl fmt::Display for LevelVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.level, self.version)
    }
}

/// The policy of a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Policy {
    pub(super) enforce: LevelVersion,
    pub(super) audit: LevelVersion,
    pub(super) warn: LevelVersion,
}

pub(super) const PREFIX: &str = "pod-security.kubernetes.io/";

impl Policy {
    pub(super) const PRIVILEGED: Self = Self {
        enforce: LevelVersion::PRIVILEGED,
        audit: LevelVersion::PRIVILEGED,
        warn: LevelVersion::PRIVILEGED,
    };

    /// The policy of a namespace with these labels, and what is wrong with them. A wrong level is the
    /// strictest to enforce, and the laxest to audit and warn by.
    pub(super) fn of<'l>(labels: impl Iterator<Item = (&'l str, &'l str)>, defaults: &Self) -> (Self, List) {
        let mut policy = *defaults;
        let mut errors = List::new();
        let mut given: Vec<(&str, &str)> =
            labels.filter_map(|(key, value)| Some((key.strip_prefix(PREFIX)?, value))).collect();
        if given.is_empty() {
            return (policy, errors);
        }
        // The reference reads them in this order.
        const ORDER: [&str; 6] =
            ["enforce", "enforce-version", "audit", "audit-version", "warn", "warn-version"];
        given.sort_unstable_by_key(|(key, _)| ORDER.iter().position(|known| known == key));
        let (mut enforces, mut warns, mut has_warn_version) = (false, false, false);
        for (key, value) in given {
            let mut wrong = None;
            let mut level = |otherwise: Level| {
                Level::parse(value).unwrap_or_else(|why| {
                    wrong = Some(why);
                    otherwise
                })
            };
            match key {
                "enforce" => {
                    policy.enforce.level = level(Level::Restricted);
                    enforces = wrong.is_none();
                }
                "audit" => policy.audit.level = level(Level::Privileged),
                "warn" => {
                    policy.warn.level = level(Level::Privileged);
                    warns = true;
                }
                "enforce-version" | "audit-version" | "warn-version" => {
                    let version = Version::parse(value).unwrap_or_else(|why| {
                        wrong = Some(why);
                        Version::Latest
                    });
                    match key {
                        "enforce-version" => policy.enforce.version = version,
                        "audit-version" => policy.audit.version = version,
                        _ => {
                            policy.warn.version = version;
                            has_warn_version = true;
                        }
                    }
                }
                _ => continue,
            }
            if let Some(why) = wrong {
                let (metadata, key) = (Path::new("metadata"), format!("{PREFIX}{key}"));
                errors.push(Error::invalid(&metadata.child("labels").key(&key), value, why));
            }
        }
        // What is enforced is warned of, unless the labels say otherwise.
        if !warns && enforces && policy.enforce.level > policy.warn.level {
            policy.warn.level = policy.enforce.level;
            if !has_warn_version {
                policy.warn.version = policy.enforce.version;
            }
        }
        (policy, errors)
    }

    pub(super) fn is_privileged(&self) -> bool {
        self.is_equivalent(&Self::PRIVILEGED)
    }

    pub(super) fn is_equivalent(&self, other: &Self) -> bool {
        self.enforce.is_equivalent(other.enforce)
            && self.audit.is_equivalent(other.audit)
            && self.warn.is_equivalent(other.warn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(labels: &[(&str, &str)]) -> (String, Vec<String>) {
        let labels: Vec<(String, &str)> =
            labels.iter().map(|(key, value)| (format!("{PREFIX}{key}"), *value)).collect();
        let (policy, errors) =
            Policy::of(labels.iter().map(|(key, value)| (key.as_str(), *value)), &Policy::PRIVILEGED);
        let shown = format!("{} {} {}", policy.enforce, policy.audit, policy.warn);
        (shown, errors.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn labels_make_a_policy_and_what_is_enforced_is_warned_of() {
        let none = "privileged:latest privileged:latest privileged:latest";
        assert_eq!(of(&[]).0, none);
        assert_eq!(of(&[("other", "x")]), (none.to_owned(), vec![]));
        let enforced = of(&[("enforce-version", "v1.9"), ("enforce", "baseline")]);
        assert_eq!(enforced.0, "baseline:v1.9 privileged:latest baseline:v1.9");
        let warned = of(&[("enforce", "restricted"), ("warn", "baseline"), ("audit", "restricted")]);
        assert_eq!(warned.0, "restricted:latest restricted:latest baseline:latest");
        let version = of(&[("enforce", "restricted"), ("warn-version", "v1.1")]);
        assert_eq!(version.0, "restricted:latest privileged:latest restricted:v1.1");
    }

    #[test]
    fn wrong_labels_are_errors_and_enforce_the_most() {
        let (policy, errors) = of(&[("warn", "x"), ("enforce", "y"), ("audit-version", "v1.01")]);
        assert_eq!(policy, "restricted:latest privileged:latest privileged:latest");
        assert_eq!(
            errors,
            [
                r#"metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: "y": must be one of privileged, baseline, restricted"#,
                r#"metadata.labels[pod-security.kubernetes.io/audit-version]: Invalid value: "v1.01": must be "latest" or "v1.x""#,
                r#"metadata.labels[pod-security.kubernetes.io/warn]: Invalid value: "x": must be one of privileged, baseline, restricted"#,
            ]
        );
    }

    #[test]
    fn versions_are_those_of_releases() {
        for (text, wanted) in [
            ("latest", Some(Version::Latest)),
            ("v1.0", Some(Version::Minor(0))),
            ("v1.33", Some(Version::Minor(33))),
        ] {
            assert_eq!(Version::parse(text).ok(), wanted);
        }
        for text in ["", "1.1", "v1", "v1.", "v2.0", "v1.00", "v1.+1", "v1.99999999999999999999"] {
            assert!(Version::parse(text).is_err(), "{text}");
        }
    }
}
