//! The life cycle of a version of a kind, as the reference declares it: the releases in which it is
//! introduced, deprecated and removed, and what replaces it.

use std::fmt;

/// A minor release of Kubernetes 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Release(pub u32);

impl Release {
    /// The release whose API is served. Whether a version is deprecated depends on it, whatever release is
    /// emulated.
    pub const OWN: Self = Self(33);
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "1.{}", self.0)
    }
}

/// What replaces a version of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replacement {
    /// Its group version.
    pub api_version: &'static str,
    /// Its kind.
    pub kind: &'static str,
}

/// The releases in which something changes for a version of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LifeCycle {
    /// The first release that has it.
    pub introduced: Release,
    /// The first release that warns of it.
    pub deprecated: Option<Release>,
    /// The first release that does not serve it any more.
    pub removed: Option<Release>,
    /// What to use instead.
    pub replacement: Option<Replacement>,
}

impl LifeCycle {
    /// A version that every release has.
    pub const ALWAYS: Self =
        Self { introduced: Release(0), deprecated: None, removed: None, replacement: None };

    /// Whether `release` does not serve it any more.
    pub fn is_removed_in(&self, release: Release) -> bool {
        self.removed.is_some_and(|removed| removed <= release)
    }

    /// Whether `release` warns of it.
    pub fn is_deprecated_in(&self, release: Release) -> bool {
        self.deprecated.is_some_and(|deprecated| deprecated <= release)
    }

    /// The warning for clients that use it: what is deprecated, since when, until when, and what to use.
    pub fn warning(&self, api_version: &str, kind: &str) -> Option<String> {
        let mut warning = format!("{api_version} {kind} is deprecated in v{}+", self.deprecated?);
        if let Some(removed) = self.removed {
            warning.push_str(&format!(", unavailable in v{removed}+"));
        }
        if let Some(Replacement { api_version, kind }) = self.replacement {
            warning.push_str(&format!("; use {api_version} {kind}"));
        }
        Some(warning)
    }
}
