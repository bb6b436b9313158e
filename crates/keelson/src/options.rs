//! The options of a run, as parsed from the command line.

use std::net::{IpAddr, Ipv4Addr};
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use access::AccessOptions;
use admission::config::AdmissionOptions;
use audit::Auditor;
use kinds::ObjectOptions;
use registry::GarbageCollection;
use server::tls::{NamedFiles, TlsConfig};
use server::version::EmulatedVersion;
use server::{
    Audit, Cors, Goaway, InFlight, Lifecycle, OptionalLayers, PortUse, RetryAfter, TransportSecurity,
};
use storage::StorageOptions;
use system::ServiceOptions;

use crate::debugging;
use crate::flags::{GateState, MetricsOptions, RuntimeConfig};
use crate::memory::MemoryLimit;

/// The options of a run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ServerOptions {
    pub(crate) bind_address: IpAddr,
    pub(crate) secure_port: u16,
    pub(crate) tls_cert_file: Option<PathBuf>,
    pub(crate) tls_private_key_file: Option<PathBuf>,
    /// `--tls-sni-cert-key`.
    pub(crate) named_certificates: Vec<NamedFiles>,
    /// `--cert-dir`: where the serving certificate is if no file is given, and what else is made.
    pub(crate) cert_dir: Option<PathBuf>,
    /// `--data-dir`; [`StorageOptions::data_dir`] is its meaning.
    pub(crate) data_dir: Option<PathBuf>,
    pub(crate) tls: TlsConfig,
    pub(crate) port_use: PortUse,
    pub(crate) cors_origins: Vec<String>,
    pub(crate) transport_security: Vec<String>,
    pub(crate) goaway_chance: f64,
    pub(crate) sends_retry_after: bool,
    /// `--audit-*`.
    pub(crate) audit: audit::Options,
    pub(crate) watch_grace: Duration,
    pub(crate) livez_grace: Duration,
    pub(crate) stream_bytes_per_second: Option<NonZeroU64>,
    pub(crate) streams: Option<u32>,
    pub(crate) shutdown_delay: Duration,
    pub(crate) request_timeout: Duration,
    pub(crate) stall_timeout: Duration,
    pub(crate) memory_limit: MemoryLimit,
    pub(crate) shortest_watch: Duration,
    pub(crate) storage: StorageOptions,
    pub(crate) advertise_address: Option<IpAddr>,
    pub(crate) external_hostname: Option<String>,
    pub(crate) services: ServiceOptions,
    /// What is said of servers of other versions.
    pub(crate) peers: Peers,
    /// The value of `--runtime-config`; [`ServerOptions::selection`] is its meaning.
    pub(crate) runtime_config: RuntimeConfig,
    pub(crate) selection: registry::Selection,
    pub(crate) watch_caches: registry::WatchCaches,
    /// The values of `--feature-gates`; [`ServerOptions::gates`] is their meaning.
    pub(crate) feature_gates: Vec<String>,
    pub(crate) gates: Gates,
    /// All gates of the emulated release, as they are set.
    pub(crate) gate_states: Vec<GateState>,
    pub(crate) priority_and_fairness: bool,
    pub(crate) in_flight: InFlight,
    pub(crate) metrics: MetricsOptions,
    /// What objects may have.
    pub(crate) objects: ObjectOptions,
    pub(crate) access: AccessOptions,
    pub(crate) kubelets: KubeletOptions,
    pub(crate) aggregation: AggregationOptions,
    /// `--egress-selector-config-file`.
    pub(crate) egress_selector: Option<PathBuf>,
    pub(crate) admission: AdmissionOptions,
    /// Which controllers run.
    pub(crate) controllers: controllers::Selection,
    /// Whether pods are assigned to nodes; `None` for what fits the store.
    pub(crate) scheduler: Option<bool>,
    /// Whether nodes that exist on paper are played; `None` for what fits the store.
    pub(crate) plays_nodes: Option<bool>,
    /// The nodes that exist on paper.
    pub(crate) nodes: nodes::Options,
    pub(crate) signing: SigningOptions,
    pub(crate) garbage_collection: GarbageCollection,
    /// The version that is reported, if it is not that of the API.
    pub(crate) version: Option<String>,
    pub(crate) emulation: EmulationOptions,
    /// The release that [`ServerOptions::emulation`] means.
    pub(crate) emulated: EmulatedVersion,
    pub(crate) log_format: logging::Format,
    pub(crate) verbosity: u32,
    pub(crate) modules: logging::Modules,
    pub(crate) debugging: DebugOptions,
    pub(crate) show: Show,
}

/// The flags about the emulation of older releases.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct EmulationOptions {
    /// `--emulated-version`.
    pub(crate) versions: Vec<String>,
    /// `--emulation-forward-compatible`.
    pub(crate) forward_compatible: bool,
    /// `--runtime-config-emulation-forward-compatible`.
    pub(crate) runtime_config_forward_compatible: bool,
}

impl ServerOptions {
    /// The layers that requests pass by these options. The error is about the value of a flag.
    pub(crate) fn layers(
        &self,
        lifecycle: &Lifecycle,
        auditor: Option<Arc<Auditor>>,
    ) -> Result<OptionalLayers, String> {
        let given = |values: &[String]| (!values.is_empty()).then(|| values.to_vec());
        Ok(OptionalLayers {
            cors: given(&self.cors_origins).map(|origins| Cors::new(&origins)).transpose()?,
            goaway: Goaway::new(self.goaway_chance),
            transport_security: given(&self.transport_security)
                .map(|directives| TransportSecurity::new(&directives))
                .transpose()?,
            retry_after: self.sends_retry_after.then(|| RetryAfter(lifecycle.clone())),
            audit: auditor.map(Audit::new),
            debug: debugging::endpoints(self),
            ..OptionalLayers::default()
        })
    }
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

/// The flags about other API servers behind this one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AggregationOptions {
    /// `--proxy-client-cert-file`.
    pub(crate) certificate: Option<PathBuf>,
    /// `--proxy-client-key-file`.
    pub(crate) key: Option<PathBuf>,
    /// `--aggregator-reject-forwarding-redirect`.
    pub(crate) refuses_redirects: bool,
}

impl Default for AggregationOptions {
    fn default() -> Self {
        Self { certificate: None, key: None, refuses_redirects: true }
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
    pub(crate) kms_v1: bool,
    /// `ExternalServiceAccountTokenSigner`.
    pub(crate) external_signers: bool,
    /// `APIServerTracing`.
    pub(crate) tracing: bool,
    /// `ComponentFlagz`.
    pub(crate) flagz: bool,
    /// `ComponentStatusz`.
    pub(crate) statusz: bool,
    /// `AuthorizeWithSelectors`.
    pub(crate) authorization_selectors: bool,
    /// `AuthorizeNodeWithSelectors`.
    pub(crate) node_selectors: bool,
    /// `RemoteRequestHeaderUID`.
    pub(crate) remote_uids: bool,
    /// `DisableAllocatorDualWrite`.
    pub(crate) service_ranges_of_any_size: bool,
    /// Those of kinds.
    pub(crate) objects: kinds::Gates,
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
            kms_v1: false,
            external_signers: false,
            tracing: true,
            flagz: false,
            statusz: false,
            authorization_selectors: true,
            node_selectors: true,
            remote_uids: true,
            service_ranges_of_any_size: false,
            objects: kinds::Gates::DEFAULT,
            admission: admission::plugins::Gates::default(),
        }
    }
}

/// The flags about profiles, traces and other ways to look inside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DebugOptions {
    pub(crate) profiling: bool,
    pub(crate) socket: Option<PathBuf>,
    pub(crate) serves_logs: bool,
    /// `--tracing-config-file`.
    pub(crate) tracing: Option<PathBuf>,
    /// All flags with their values, for `/flagz`.
    pub(crate) flags: Vec<(&'static str, String)>,
}

impl Default for DebugOptions {
    fn default() -> Self {
        Self { profiling: true, socket: None, serves_logs: false, tracing: None, flags: Vec::new() }
    }
}

/// What to print instead of running the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Show {
    Nothing,
    Help,
    Version,
    RawVersion,
}

/// Which of the flags about servers of other versions on the same store are given.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Peers {
    /// `--peer-ca-file`.
    pub(crate) ca_file: bool,
    /// `--peer-advertise-ip`.
    pub(crate) advertise_ip: bool,
    /// `--peer-advertise-port`.
    pub(crate) advertise_port: bool,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            bind_address: IpAddr::V4(Ipv4Addr::LOCALHOST),
            secure_port: 6443,
            tls_cert_file: None,
            tls_private_key_file: None,
            named_certificates: Vec::new(),
            cert_dir: None,
            data_dir: None,
            tls: TlsConfig::default(),
            port_use: PortUse::default(),
            cors_origins: Vec::new(),
            transport_security: Vec::new(),
            goaway_chance: 0.0,
            sends_retry_after: false,
            audit: audit::Options::default(),
            watch_grace: Duration::ZERO,
            livez_grace: Duration::ZERO,
            stream_bytes_per_second: None,
            streams: None,
            shutdown_delay: Duration::ZERO,
            request_timeout: Duration::from_secs(60),
            stall_timeout: Duration::from_secs(30),
            memory_limit: MemoryLimit::default(),
            shortest_watch: Duration::from_secs(1800),
            storage: StorageOptions::default(),
            advertise_address: None,
            external_hostname: None,
            services: ServiceOptions::default(),
            peers: Peers::default(),
            runtime_config: RuntimeConfig::default(),
            selection: registry::Selection::default(),
            watch_caches: registry::WatchCaches::default(),
            feature_gates: Vec::new(),
            gates: Gates::default(),
            gate_states: Vec::new(),
            priority_and_fairness: true,
            in_flight: InFlight::default(),
            metrics: MetricsOptions::default(),
            objects: ObjectOptions::default(),
            access: AccessOptions::default(),
            kubelets: KubeletOptions::default(),
            aggregation: AggregationOptions::default(),
            egress_selector: None,
            admission: AdmissionOptions::default(),
            controllers: controllers::Selection::default(),
            scheduler: None,
            plays_nodes: None,
            nodes: nodes::Options::default(),
            signing: SigningOptions::default(),
            garbage_collection: GarbageCollection::default(),
            version: None,
            emulation: EmulationOptions::default(),
            emulated: EmulatedVersion::OWN,
            log_format: logging::Format::Text,
            verbosity: 0,
            modules: logging::Modules::default(),
            debugging: DebugOptions::default(),
            show: Show::Nothing,
        }
    }
}
