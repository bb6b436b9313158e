//! `--emulated-version`: the release whose API and feature gates a server has. What is accepted and what the
//! errors say is as in the reference.

use std::fmt;

use super::number::{Grammar, numbers, shown};

/// The component that the flag is about; the others that the reference could have are of other servers.
const COMPONENT: &str = "kube";

/// A release that a server emulates: its own, or an older one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct EmulatedVersion {
    /// `1`, unless the command line says otherwise.
    pub major: u64,
    /// The minor version.
    pub minor: u64,
}

impl EmulatedVersion {
    /// The release of this server.
    pub const OWN: Self = Self { major: 1, minor: 33 };
    /// The oldest release that is emulated.
    pub const OLDEST: Self = Self { major: 1, minor: 31 };

    /// Reads the values of the flag, `component=version` or a version. Whether the version can be emulated is
    /// for [`Self::errors`] to say: the reference reads the feature gates first.
    pub fn parse(values: &[String]) -> Result<Self, String> {
        let mut own: Option<Vec<u64>> = None;
        let mut unknown = None;
        for value in values {
            let (component, text) = value
                .split_once('=')
                .map_or((COMPONENT, value.as_str()), |(component, text)| (component.trim(), text.trim()));
            let version = numbers(text, Grammar::Semantic).or_else(|_| numbers(text, Grammar::Generic))?;
            if version.get(2).is_some_and(|patch| *patch != 0) {
                return Err(format!("patch version not allowed, got: {component}={}", shown(&version)));
            }
            if component != COMPONENT {
                unknown = Some(component);
            } else if let Some(before) = own.replace(version.clone()) {
                let (before, version) = (shown(&before), shown(&version));
                return Err(format!("duplicate version flag, kube={before} and kube={version}"));
            }
        }
        if let Some(component) = unknown {
            return Err(format!("component not registered: {component}"));
        }
        let numbers = own.as_ref().and_then(|version| version.first_chunk());
        Ok(numbers.map_or(Self::OWN, |[major, minor]| Self { major: *major, minor: *minor }))
    }

    /// The oldest release that has to be able to read what this server writes: the one before, if it is one
    /// that is emulated.
    #[must_use]
    pub fn min_compatible(self) -> Self {
        Self { minor: self.minor.saturating_sub(1), ..self }.max(Self::OLDEST)
    }

    /// Whether this is the release of the server, so that nothing is emulated.
    pub fn is_own(self) -> bool {
        self == Self::OWN
    }

    /// Why the version cannot be emulated.
    pub fn errors(self) -> Vec<String> {
        let (oldest, own, compatible) = (Self::OLDEST, Self::OWN, self.min_compatible());
        let mut errors = Vec::new();
        if self > own || self < oldest {
            errors.push(format!("emulation version {self} is not between [{oldest}, {own}.0]"));
        }
        if compatible > self || compatible < oldest {
            errors.push(format!(
                "minCompatibilityVersion version {compatible} is not between [{oldest}, {self}]"
            ));
        }
        errors
    }
}

impl Default for EmulatedVersion {
    fn default() -> Self {
        Self::OWN
    }
}

impl fmt::Display for EmulatedVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(values: &str) -> Result<EmulatedVersion, String> {
        EmulatedVersion::parse(&values.split(',').map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn releases_since_1_31_are_emulated() {
        for (values, minor, compatible) in [
            ("1.33", 33, 32),
            ("kube=1.33", 33, 32),
            ("v1.33.0", 33, 32),
            (" kube = v1.32", 32, 31),
            ("1.31", 31, 31),
        ] {
            let version = parse(values).unwrap();
            assert_eq!((version.major, version.minor), (1, minor), "{values}");
            assert_eq!(version.min_compatible().minor, compatible, "{values}");
            assert_eq!(version.errors(), Vec::<String>::new(), "{values}");
        }
        assert_eq!(EmulatedVersion::parse(&[]), Ok(EmulatedVersion::OWN));
    }

    #[test]
    fn other_releases_are_refused() {
        for (values, errors) in [
            ("1.34", &["emulation version 1.34 is not between [1.31, 1.33.0]"][..]),
            ("2.0", &["emulation version 2.0 is not between [1.31, 1.33.0]"]),
            (
                "1.29",
                &[
                    "emulation version 1.29 is not between [1.31, 1.33.0]",
                    "minCompatibilityVersion version 1.31 is not between [1.31, 1.29]",
                ],
            ),
        ] {
            assert_eq!(parse(values).unwrap().errors(), errors, "{values}");
        }
    }

    #[test]
    fn malformed_values_are_refused() {
        for (values, error) in [
            ("foo=1.33", "component not registered: foo"),
            ("1.33.1", "patch version not allowed, got: kube=1.33.1"),
            ("kube=1.33,kube=1.32", "duplicate version flag, kube=1.33 and kube=1.32"),
            ("x", r#"could not parse "x" as version"#),
        ] {
            assert_eq!(parse(values), Err(error.to_owned()), "{values}");
        }
    }
}
