//! What expressions may use, by whether they are written or stored.

pub use cel::Release;
use cel::{Env, EnvSet};
use std::sync::OnceLock;

/// What new expressions may use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Compatibility {
    /// The oldest release that has to read what this server writes.
    pub release: Release,
    /// The gate `AuthorizeWithSelectors`: whether authorization checks have selectors, and, in configuration
    /// files, whether requests have.
    pub selectors: bool,
}

impl Default for Compatibility {
    /// That of a server that emulates nothing.
    fn default() -> Self {
        Self { release: Release(32), selectors: true }
    }
}

static COMPATIBILITY: OnceLock<Compatibility> = OnceLock::new();

/// Sets what new expressions may use, for the process: environments are shared by all that compile. Only the
/// first call counts, and only before anything is compiled.
pub fn set_compatibility(compatibility: Compatibility) {
    let _ = COMPATIBILITY.set(compatibility);
}

/// Whether authorization has selectors: the gate `AuthorizeWithSelectors`.
pub(crate) fn has_selectors() -> bool {
    COMPATIBILITY.get_or_init(Compatibility::default).selectors
}

/// What an expression may use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage {
    /// What the release before can read too: for expressions that are written.
    New,
    /// Everything: for expressions that are stored.
    Stored,
}

impl Stage {
    /// The environment of this stage.
    pub fn of(self, envs: &EnvSet) -> &Env {
        match self {
            Self::New => &envs.new,
            Self::Stored => &envs.stored,
        }
    }
}

/// The environments that those of every use of expressions extend.
pub fn base() -> EnvSet {
    let Compatibility { release, selectors } = *COMPATIBILITY.get_or_init(Compatibility::default);
    EnvSet::base(release, selectors)
}
