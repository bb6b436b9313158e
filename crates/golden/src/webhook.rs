//! The webhook that recorded exchanges about admission name: `webhook.py` beside the file, on a port of its
//! own.

use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Where scenarios look for it.
const ADDRESS: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 18443);
/// How long it may take to start.
const PATIENCE: Duration = Duration::from_secs(20);

/// A webhook that runs; it ends with this.
pub struct Webhook(Child);

impl Webhook {
    /// Starts the webhook of a file of exchanges if they need one.
    pub fn for_file(file: &Path) -> Result<Option<Self>, String> {
        let text = std::fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
        if !text.contains(&ADDRESS.to_string()) {
            return Ok(None);
        }
        if TcpStream::connect(ADDRESS).is_ok() {
            return Err(format!("another program listens on {ADDRESS}, where the webhook has to be"));
        }
        let script = file.with_file_name("webhook.py");
        let child = Command::new("python3").arg(&script).stdout(Stdio::null()).spawn();
        let mut webhook = Self(child.map_err(|error| format!("{}: {error}", script.display()))?);
        let deadline = Instant::now() + PATIENCE;
        while TcpStream::connect(ADDRESS).is_err() {
            if let Ok(Some(status)) = webhook.0.try_wait() {
                return Err(format!("{} ended: {status}", script.display()));
            }
            if Instant::now() > deadline {
                return Err(format!("{} does not listen", script.display()));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(Some(webhook))
    }
}

impl Drop for Webhook {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
