//! The options of a run, as parsed from the command line.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::time::Duration;

use access::AccessOptions;
use admission::config::AdmissionOptions;
use kinds::Privileged;
use server::tls::{Oldest, Protocols};
use storage::StorageOptions;
use system::ServiceOptions;

use crate::flags::RuntimeConfig;

/// The options of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServerOptions {
    pub(crate) bind_address: IpAddr,
    pub(crate) secure_port: u16,
    pub(crate) tls_cert_file: Option<PathBuf>,
    pub(crate) tls_private_key_file: Option<PathBuf>,
    pub(crate) oldest_tls: Oldest,
    pub(crate) protocols: Protocols,
    pub(crate) streams: Option<u32>,
    pub(crate) shutdown_delay: Duration,
    pub(crate) request_timeout: Duration,
    pub(crate) stall_timeout: Duration,
    pub(crate) shortest_watch: Duration,
    pub(crate) storage: StorageOptions,
    pub(crate) advertise_address: Option<IpAddr>,
    pub(crate) external_hostname: Option<String>,
    pub(crate) services: ServiceOptions,
    /// The value of `--runtime-config`; [`ServerOptions::selection`] is its meaning.
    pub(crate) runtime_config: RuntimeConfig,
    pub(crate) selection: registry::Selection,
    /// The values of `--feature-gates`; [`ServerOptions::gates`] is their meaning.
    pub(crate) feature_gates: Vec<String>,
    pub(crate) gates: Gates,
    pub(crate) priority_and_fairness: bool,
    /// Whether containers may be privileged.
    pub(crate) privileged: Privileged,
    pub(crate) access: AccessOptions,
    pub(crate) kubelets: KubeletOptions,
    pub(crate) admission: AdmissionOptions,
    /// Which controllers run.
    pub(crate) controllers: controllers::Selection,
    pub(crate) signing: SigningOptions,
    pub(crate) log_format: logging::Format,
    pub(crate) verbosity: u8,
    pub(crate) show: Show,
}

/// The flags `--cluster-signing-*`: the authority of certificate signing requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SigningOptions {
    pub(crate) certificate: Option<PathBuf>,
    pub(crate) key: Option<PathBuf>,
    /// The longest life of a certificate.
    pub(crate) duration: Duration,
}

impl Default for SigningOptions {
    fn default() -> Self {
        Self { certificate: None, key: None, duration: Duration::from_secs(365 * 24 * 3600) }
    }
}

/// The flags `--kubelet-*`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KubeletOptions {
    pub(crate) certificate_authority: Option<PathBuf>,
    pub(crate) client_certificate: Option<PathBuf>,
    pub(crate) client_key: Option<PathBuf>,
    /// `--kubelet-preferred-address-types`, if it was given.
    pub(crate) address_types: Option<Vec<String>>,
    pub(crate) port: u16,
}

impl Default for KubeletOptions {
    fn default() -> Self {
        Self {
            certificate_authority: None,
            client_certificate: None,
            client_key: None,
            address_types: None,
            port: 10250,
        }
    }
}

/// The feature gates with an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Gates {
    pub(crate) watch_list: bool,
    /// `AllowUnsafeMalformedObjectDeletion`.
    pub(crate) unsafe_delete: bool,
    pub(crate) cbor: bool,
    pub(crate) compression: bool,
    /// `StructuredAuthenticationConfiguration`.
    pub(crate) authentication_config: bool,
    /// `AnonymousAuthConfigurableEndpoints`.
    pub(crate) anonymous_config: bool,
    /// Those of admission plugins.
    pub(crate) admission: admission::plugins::Gates,
}

impl Default for Gates {
    fn default() -> Self {
        Self {
            watch_list: false,
            unsafe_delete: false,
            cbor: false,
            compression: true,
            authentication_config: true,
            anonymous_config: true,
            admission: admission::plugins::Gates::default(),
        }
    }
}

/// What to print instead of running the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Show {
    Nothing,
    Help,
    Version,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            bind_address: IpAddr::V4(Ipv4Addr::LOCALHOST),
            secure_port: 6443,
            tls_cert_file: None,
            tls_private_key_file: None,
            oldest_tls: Oldest::default(),
            protocols: Protocols::default(),
            streams: None,
            shutdown_delay: Duration::ZERO,
            request_timeout: Duration::from_secs(60),
            stall_timeout: Duration::from_secs(30),
            shortest_watch: Duration::from_secs(1800),
            storage: StorageOptions::default(),
            advertise_address: None,
            external_hostname: None,
            services: ServiceOptions::default(),
            runtime_config: RuntimeConfig::default(),
            selection: registry::Selection::default(),
            feature_gates: Vec::new(),
            gates: Gates::default(),
            priority_and_fairness: true,
            privileged: Privileged::Allowed,
            access: AccessOptions::default(),
            kubelets: KubeletOptions::default(),
            admission: AdmissionOptions::default(),
            controllers: controllers::Selection::default(),
            signing: SigningOptions::default(),
            log_format: logging::Format::Text,
            verbosity: 0,
            show: Show::Nothing,
        }
    }
}
