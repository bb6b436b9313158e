//! For end-to-end tests: the real server as a child process with a folder of its own, and the real clients.
//!
//! Everything stays on the loopback address, on ports the system picks; a server and its folder go away when
//! their value is dropped. Paths of clients come from [`tool`].

mod cli;
mod etcd;
mod extension;
pub mod http;
pub mod https;
mod kubelet;
mod process;
mod proxy;
mod server;
mod websocket;

pub use cli::{Cli, Said, Stream, Terminal};
pub use etcd::Etcd;
pub use extension::{Behaviour, ExtensionRequest, ExtensionServer};
pub use kubelet::{Kubelet, KubeletRequest};
pub use nix::sys::signal::Signal;
pub use process::{Error, Exit, Folder, Process};
pub use proxy::{Mode as ProxyMode, Proxy};
pub use server::{Server, TOKEN};
pub use websocket::{Message, Received, WebSocket};

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant, UNIX_EPOCH};

/// Waits until something holds, and panics if that takes longer than `patience`.
pub fn eventually(what: &str, patience: Duration, mut holds: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < patience, "{what} within {patience:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The path of a real client or server, as `cargo xtask tools` fetches them.
pub fn tool(name: &str) -> Result<PathBuf, xtask::tools::Error> {
    xtask::tools::path(name)
}

/// The server to test: the one that `KEELSON_BIN` names, or else `built`, which is what cargo built for the
/// test.
pub fn server_binary(built: &str) -> PathBuf {
    std::env::var_os("KEELSON_BIN").map_or_else(|| built.into(), PathBuf::from)
}

/// The server to test where cargo did not build one for the test: the one that `KEELSON_BIN` names, or else
/// the one in `target/release`.
pub fn release_binary() -> PathBuf {
    std::env::var_os("KEELSON_BIN").map_or_else(|| xtask::target().join("release/keelson"), PathBuf::from)
}

/// A name that no other test, and no earlier run on the same server, uses: `prefix` and some digits.
pub fn unique(prefix: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let time = clock::system().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() % 100_000_000;
    format!("{prefix}-{time:08}-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// The files below a folder that contain a text.
pub fn files_with(folder: &Path, text: &str) -> std::io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(files_with(&path, text)?);
        } else if path.is_file()
            && std::fs::read(&path)?.windows(text.len()).any(|part| part == text.as_bytes())
        {
            found.push(path);
        }
    }
    Ok(found)
}
