//! The options of a run, as parsed from the command line.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::time::Duration;

use server::tls::{Oldest, Protocols};

use crate::flags::RuntimeConfig;

/// The options of a run.
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
    pub(crate) request_timeout: Duration,
    pub(crate) stall_timeout: Duration,
    pub(crate) shortest_watch: Duration,
    pub(crate) storage: Storage,
    pub(crate) retention: Duration,
    pub(crate) advertise_address: Option<IpAddr>,
    pub(crate) external_hostname: Option<String>,
    pub(crate) service_range: ServiceRange,
    /// The value of `--runtime-config`; [`Options::selection`] is its meaning.
    pub(crate) runtime_config: RuntimeConfig,
    pub(crate) selection: registry::Selection,
    /// The values of `--feature-gates`; [`Options::gates`] is their meaning.
    pub(crate) feature_gates: Vec<String>,
    pub(crate) gates: Gates,
    pub(crate) priority_and_fairness: bool,
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
    /// `--controllers`, if it was given.
    pub(crate) controllers: Option<Vec<String>>,
    pub(crate) service_accounts: ServiceAccountOptions,
    pub(crate) audiences: Vec<String>,
    pub(crate) bootstrap_tokens: bool,
    pub(crate) log_format: LogFormat,
    pub(crate) verbosity: u8,
    pub(crate) show: Show,
}

/// Where objects are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Storage {
    /// In the data directory.
    Embedded,
    /// In memory, until the process ends.
    Memory,
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
    pub(crate) settings: admission::plugins::Settings,
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

impl Options {
    /// The audiences of the server: those given, or its issuers.
    pub(crate) fn audiences(&self) -> Vec<String> {
        if self.audiences.is_empty() { self.service_accounts.issuers() } else { self.audiences.clone() }
    }
}

/// The address range of services.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ServiceRange {
    /// Its first address, which no service has.
    pub(crate) base: IpAddr,
    /// How many leading bits its addresses share.
    pub(crate) prefix: u8,
}

impl Default for ServiceRange {
    fn default() -> Self {
        Self { base: IpAddr::V4(Ipv4Addr::new(10, 0, 0, 0)), prefix: 24 }
    }
}

impl ServiceRange {
    /// Parses `10.0.0.0/16`; the first of several ranges counts.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let first = text.split(',').next().unwrap_or_default().trim();
        let read = || {
            let (address, bits) = first.split_once('/')?;
            let address: IpAddr = address.parse().ok()?;
            let prefix: u8 = bits.parse().ok()?;
            let width: u8 = if address.is_ipv4() { 32 } else { 128 };
            let base = match address {
                IpAddr::V4(v4) => IpAddr::V4((u32::from(v4) & mask(prefix, 32) as u32).into()),
                IpAddr::V6(v6) => IpAddr::V6((u128::from(v6) & mask(prefix, 128)).into()),
            };
            (prefix + 3 <= width).then_some(Self { base, prefix })
        };
        read().ok_or_else(|| "not a range of at least eight addresses, such as 10.0.0.0/16".into())
    }

    /// The address of the service `kubernetes`: the first that a service can have.
    pub(crate) fn first(&self) -> IpAddr {
        match self.base {
            IpAddr::V4(v4) => IpAddr::V4((u32::from(v4) + 1).into()),
            IpAddr::V6(v6) => IpAddr::V6((u128::from(v6) + 1).into()),
        }
    }
}

/// The leading `prefix` of `width` bits.
fn mask(prefix: u8, width: u8) -> u128 {
    let all = u128::MAX >> (128 - u32::from(width));
    if prefix == 0 { 0 } else { all & (all << (width - prefix.min(width))) }
}

impl std::fmt::Display for ServiceRange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.base, self.prefix)
    }
}

/// The feature gates with an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Gates {
    pub(crate) watch_list: bool,
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
impl Options {
    /// The usual options with these authorization modes.
    pub(crate) fn with_modes(modes: &[&str]) -> Self {
        let modes = modes.iter().map(|mode| (*mode).to_owned()).collect();
        let authorization = AuthorizationOptions { modes: Some(modes), ..AuthorizationOptions::default() };
        Self { authorization, ..Self::default() }
    }
}

impl Options {
    /// Whether a controller runs, by its name or its alias: the first entry that names it decides, otherwise whether `*` is there.
    pub(crate) fn runs_controller(&self, name: &str, alias: &str) -> bool {
        let Some(given) = &self.controllers else { return true };
        let is_it = |entry: &str| entry == name || entry == alias;
        let named = given.iter().find(|entry| is_it(entry.strip_prefix('-').unwrap_or(entry)));
        named.map_or_else(|| given.iter().any(|entry| entry == "*"), |entry| !entry.starts_with('-'))
    }
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
            request_timeout: Duration::from_secs(60),
            stall_timeout: Duration::from_secs(30),
            shortest_watch: Duration::from_secs(1800),
            storage: Storage::Embedded,
            retention: Duration::from_secs(300),
            advertise_address: None,
            external_hostname: None,
            service_range: ServiceRange::default(),
            runtime_config: RuntimeConfig::default(),
            selection: registry::Selection::default(),
            feature_gates: Vec::new(),
            gates: Gates::default(),
            priority_and_fairness: true,
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
            controllers: None,
            service_accounts: ServiceAccountOptions::default(),
            audiences: Vec::new(),
            bootstrap_tokens: false,
            log_format: LogFormat::Text,
            verbosity: 0,
            show: Show::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controllers_run_by_name_or_by_star() {
        let runs = |given: &[&str]| {
            let controllers = Some(given.iter().map(|entry| (*entry).to_owned()).collect());
            Options { controllers, ..Options::default() }.runs_controller("a-controller", "a")
        };
        assert!(Options::default().runs_controller("a-controller", "a"));
        for given in [&["*"][..], &["a-controller"], &["a"], &["-b", "*"], &["b", "a", "-a"]] {
            assert!(runs(given), "{given:?}");
        }
        for given in [&["-*"][..], &["b"], &["*", "-a"], &["-a-controller", "*", "a"], &[]] {
            assert!(!runs(given), "{given:?}");
        }
    }

    #[test]
    fn range_has_a_base_and_a_first_address() {
        let range = ServiceRange::parse("10.96.7.9/12,fd00::/108").unwrap();
        assert_eq!(
            (range.to_string().as_str(), range.first().to_string().as_str()),
            ("10.96.0.0/12", "10.96.0.1")
        );
        let range = ServiceRange::parse("fd00::7/108").unwrap();
        assert_eq!(
            (range.to_string().as_str(), range.first().to_string().as_str()),
            ("fd00::/108", "fd00::1")
        );
        for bad in ["", "10.0.0.0", "10.0.0.0/31", "x/8", "10.0.0.0/40", "fd00::/127"] {
            assert!(ServiceRange::parse(bad).is_err(), "{bad}");
        }
    }
}
