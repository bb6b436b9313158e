//! What the command line has decided.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::time::Duration;

use server::tls::{Oldest, Protocols};

/// The settings of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) data_dir: PathBuf,
    pub(crate) bind_address: IpAddr,
    pub(crate) secure_port: u16,
    pub(crate) tls_cert_file: Option<PathBuf>,
    pub(crate) tls_private_key_file: Option<PathBuf>,
    pub(crate) oldest_tls: Oldest,
    pub(crate) protocols: Protocols,
    pub(crate) streams: Option<u32>,
    pub(crate) shutdown_delay: Duration,
    pub(crate) log_format: LogFormat,
    pub(crate) verbosity: u8,
    pub(crate) show: Show,
}

/// The form of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogFormat {
    Text,
    Json,
}

/// What is wanted instead of a running server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Show {
    Nothing,
    Help,
    Version,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            data_dir: PathBuf::from("./keelson-data"),
            bind_address: IpAddr::V4(Ipv4Addr::LOCALHOST),
            secure_port: 6443,
            tls_cert_file: None,
            tls_private_key_file: None,
            oldest_tls: Oldest::default(),
            protocols: Protocols::default(),
            streams: None,
            shutdown_delay: Duration::ZERO,
            log_format: LogFormat::Text,
            verbosity: 0,
            show: Show::Nothing,
        }
    }
}
