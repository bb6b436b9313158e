//! For end-to-end tests: the real server as a child process with a folder of its own, and the real clients.
//!
//! Everything stays on the loopback address, on ports the system picks; a server and its folder go away with the value
//! that stands for them. Paths of clients come from [`tool`].

mod process;

pub use nix::sys::signal::Signal;
pub use process::{Error, Exit, Folder, Process};

use std::path::PathBuf;

/// The path of a real client or server, as `cargo xtask tools` fetches them.
pub fn tool(name: &str) -> Result<PathBuf, xtask::tools::Error> {
    xtask::tools::path(name)
}

/// The server to test: the one that `KEELSON_BIN` names, or else `built`, which is what cargo built for the test.
pub fn server_binary(built: &str) -> PathBuf {
    std::env::var_os("KEELSON_BIN").map_or_else(|| built.into(), PathBuf::from)
}
