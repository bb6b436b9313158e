//! What expressions may use, by whether they are written or stored.

use cel::{Env, EnvSet, Release};

/// The oldest release that reads what this server writes.
const COMPATIBLE: Release = Release(32);

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
    EnvSet::base(COMPATIBLE, true)
}
