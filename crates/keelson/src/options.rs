//! The options of a run, as parsed from the command line.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::time::Duration;

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
    pub(crate) token_auth_file: Option<PathBuf>,
    pub(crate) token_webhook: TokenWebhookOptions,
    /// `--authentication-config`.
    pub(crate) authentication_config: Option<PathBuf>,
    pub(crate) oidc: OidcOptions,
    pub(crate) client_ca_file: Option<PathBuf>,
    /// `--anonymous-auth`, if it was given.
    pub(crate) anonymous: Option<bool>,
    pub(crate) proxy: ProxyOptions,
    pub(crate) kubelets: KubeletOptions,
    pub(crate) authorization: AuthorizationOptions,
    pub(crate) admission: AdmissionOptions,
    /// Which controllers run.
    pub(crate) controllers: controllers::Selection,
    pub(crate) signing: SigningOptions,
    pub(crate) service_accounts: ServiceAccountOptions,
    pub(crate) audiences: Vec<String>,
    pub(crate) bootstrap_tokens: bool,
    pub(crate) log_format: LogFormat,
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

/// The flags `--requestheader-*`: an authenticating proxy.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ProxyOptions {
    pub(crate) client_ca_file: Option<PathBuf>,
    pub(crate) allowed_names: Vec<String>,
    pub(crate) username_headers: Vec<String>,
    pub(crate) uid_headers: Vec<String>,
    pub(crate) group_headers: Vec<String>,
    pub(crate) extra_prefixes: Vec<String>,
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

/// The flags `--authorization-*`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct AuthorizationOptions {
    /// `--authorization-mode`, if it was given.
    pub(crate) modes: Option<Vec<String>>,
    pub(crate) policy_file: Option<PathBuf>,
    pub(crate) config_file: Option<PathBuf>,
    pub(crate) webhook: AuthorizationWebhookOptions,
}

/// The flags of admission, as far as they were given.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct AdmissionOptions {
    /// `--admission-control`: these plugins and no others.
    pub(crate) only: Option<Vec<String>>,
    pub(crate) enabled: Option<Vec<String>>,
    pub(crate) disabled: Option<Vec<String>>,
    pub(crate) config_file: Option<PathBuf>,
    /// What other flags and gates say about plugins.
    pub(crate) settings: admission::plugins::PluginSettings,
}

/// The flags `--authorization-webhook-*`, as far as they were given.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct AuthorizationWebhookOptions {
    pub(crate) config_file: Option<PathBuf>,
    pub(crate) version: Option<String>,
    pub(crate) authorized_ttl: Option<Duration>,
    pub(crate) unauthorized_ttl: Option<Duration>,
}

/// The flags `--authentication-token-webhook-*`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TokenWebhookOptions {
    pub(crate) config_file: Option<PathBuf>,
    pub(crate) version: String,
    pub(crate) cache_ttl: Duration,
}

impl Default for TokenWebhookOptions {
    fn default() -> Self {
        Self { config_file: None, version: "v1beta1".to_owned(), cache_ttl: Duration::from_secs(120) }
    }
}

/// The flags `--oidc-*`, as far as they were given.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct OidcOptions {
    pub(crate) issuer_url: Option<String>,
    pub(crate) client_id: Option<String>,
    pub(crate) ca_file: Option<PathBuf>,
    pub(crate) username_claim: Option<String>,
    pub(crate) username_prefix: Option<String>,
    pub(crate) groups_claim: Option<String>,
    pub(crate) groups_prefix: Option<String>,
    pub(crate) signing_algs: Option<Vec<String>>,
    /// Claims and their texts, by `--oidc-required-claim`.
    pub(crate) required_claims: Vec<(String, String)>,
}

/// The flags `--service-account-*`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServiceAccountOptions {
    /// The first issues tokens, all are accepted; none for [`Self::ISSUER`].
    pub(crate) issuers: Vec<String>,
    pub(crate) key_files: Vec<PathBuf>,
    pub(crate) signing_key_file: Option<PathBuf>,
    pub(crate) signing_endpoint: Option<String>,
    pub(crate) lookup: bool,
    /// Zero for no limit.
    pub(crate) longest: Duration,
    pub(crate) extends: bool,
    pub(crate) jwks_uri: Option<String>,
}

impl ServiceAccountOptions {
    /// The issuer if none is given.
    pub(crate) const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";

    /// The issuers.
    pub(crate) fn issuers(&self) -> Vec<String> {
        if self.issuers.is_empty() { vec![Self::ISSUER.to_owned()] } else { self.issuers.clone() }
    }
}

impl Default for ServiceAccountOptions {
    fn default() -> Self {
        Self {
            issuers: Vec::new(),
            key_files: Vec::new(),
            signing_key_file: None,
            signing_endpoint: None,
            lookup: true,
            longest: Duration::ZERO,
            extends: true,
            jwks_uri: None,
        }
    }
}

impl ServerOptions {
    /// The audiences of the server: those given, or its issuers.
    pub(crate) fn audiences(&self) -> Vec<String> {
        if self.audiences.is_empty() { self.service_accounts.issuers() } else { self.audiences.clone() }
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

/// The format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogFormat {
    Text,
    Json,
}

/// What to print instead of running the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Show {
    Nothing,
    Help,
    Version,
}

#[cfg(test)]
impl ServerOptions {
    /// The usual options with these authorization modes.
    pub(crate) fn with_modes(modes: &[&str]) -> Self {
        let modes = modes.iter().map(|mode| (*mode).to_owned()).collect();
        let authorization = AuthorizationOptions { modes: Some(modes), ..AuthorizationOptions::default() };
        Self { authorization, ..Self::default() }
    }
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
            token_auth_file: None,
            token_webhook: TokenWebhookOptions::default(),
            authentication_config: None,
            oidc: OidcOptions::default(),
            client_ca_file: None,
            anonymous: None,
            proxy: ProxyOptions::default(),
            kubelets: KubeletOptions::default(),
            authorization: AuthorizationOptions::default(),
            admission: AdmissionOptions::default(),
            controllers: controllers::Selection::default(),
            signing: SigningOptions::default(),
            service_accounts: ServiceAccountOptions::default(),
            audiences: Vec::new(),
            bootstrap_tokens: false,
            log_format: LogFormat::Text,
            verbosity: 0,
            show: Show::Nothing,
        }
    }
}
