//! The project's own commands, and the one place that knows where the real clients and servers for tests are.
//!
//! `cargo xtask test` is everything that checks the project; [`tools::path`] is how a test finds `kubectl`.
//! This crate depends on next to nothing, so that the first command of a newcomer is built in seconds.

pub mod command;
pub mod licenses;
pub mod test;
pub mod texts;
pub mod tools;

use std::path::{Path, PathBuf};

/// The folder of the workspace.
pub fn workspace() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().and_then(Path::parent).unwrap_or(here)
}

/// The folder that cargo builds into.
pub fn target() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(folder) => workspace().join(folder),
        None => workspace().join("target"),
    }
}
