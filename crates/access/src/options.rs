//! The options about who may do what, as the flags of a server give them.

use std::path::PathBuf;
use std::time::Duration;

/// Who users are, and what they may do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AccessOptions {
    /// `--token-auth-file`.
    pub token_auth_file: Option<PathBuf>,
    /// `--authentication-token-webhook-*`.
    pub token_webhook: TokenWebhookOptions,
    /// `--authentication-config`.
    pub authentication_config: Option<PathBuf>,
    /// `--oidc-*`.
    pub oidc: OidcOptions,
    /// `--client-ca-file`.
    pub client_ca_file: Option<PathBuf>,
    /// `--anonymous-auth`, if it was given.
    pub anonymous: Option<bool>,
    /// `--requestheader-*`.
    pub proxy: ProxyOptions,
    /// `--authorization-*`.
    pub authorization: AuthorizationOptions,
    /// `--service-account-*`.
    pub service_accounts: ServiceAccountOptions,
    /// `--api-audiences`.
    pub audiences: Vec<String>,
    /// `--enable-bootstrap-token-auth`.
    pub bootstrap_tokens: bool,
    /// The gate `AnonymousAuthConfigurableEndpoints` is off.
    pub anonymous_is_fixed: bool,
    /// The gate `DynamicResourceAllocation`.
    pub dynamic_resource_allocation: bool,
    /// `ClusterTrustBundle`.
    pub trust_bundles: bool,
    /// The gate `AuthorizeNodeWithSelectors` is off.
    pub nodes_need_no_selectors: bool,
}

impl AccessOptions {
    /// The audiences of the server: those given, or its issuers.
    pub fn audiences(&self) -> Vec<String> {
        if self.audiences.is_empty() { self.service_accounts.issuers() } else { self.audiences.clone() }
    }
}

#[cfg(test)]
impl AccessOptions {
    /// The usual options with these authorization modes.
    pub fn with_modes(modes: &[&str]) -> Self {
        let modes = modes.iter().map(|mode| (*mode).to_owned()).collect();
        let authorization = AuthorizationOptions { modes: Some(modes), ..AuthorizationOptions::default() };
        Self { authorization, ..Self::default() }
    }
}

/// The flags `--requestheader-*`: an authenticating proxy.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProxyOptions {
    /// The authorities of the proxy.
    pub client_ca_file: Option<PathBuf>,
    /// The names that its certificate may have; none for all.
    pub allowed_names: Vec<String>,
    /// The headers with the name of the user.
    pub username_headers: Vec<String>,
    /// The headers with the uid of the user.
    pub uid_headers: Vec<String>,
    /// The headers with the groups of the user.
    pub group_headers: Vec<String>,
    /// The prefixes of headers with other attributes of the user.
    pub extra_prefixes: Vec<String>,
}

/// The flags `--authorization-*`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuthorizationOptions {
    /// `--authorization-mode`, if it was given.
    pub modes: Option<Vec<String>>,
    /// The policies of the mode ABAC.
    pub policy_file: Option<PathBuf>,
    /// The configuration file.
    pub config_file: Option<PathBuf>,
    /// The webhook of the mode Webhook.
    pub webhook: AuthorizationWebhookOptions,
}

/// The flags `--authorization-webhook-*`, as far as they were given.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuthorizationWebhookOptions {
    /// The configuration file.
    pub config_file: Option<PathBuf>,
    /// The version of the reviews.
    pub version: Option<String>,
    /// How long a permission is kept.
    pub authorized_ttl: Option<Duration>,
    /// How long a refusal is kept.
    pub unauthorized_ttl: Option<Duration>,
}

/// The flags `--authentication-token-webhook-*`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenWebhookOptions {
    /// The configuration file.
    pub config_file: Option<PathBuf>,
    /// The version of the reviews.
    pub version: String,
    /// How long answers are kept.
    pub cache_ttl: Duration,
}

impl Default for TokenWebhookOptions {
    fn default() -> Self {
        Self { config_file: None, version: "v1beta1".to_owned(), cache_ttl: Duration::from_secs(120) }
    }
}

/// The flags `--oidc-*`, as far as they were given.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OidcOptions {
    /// The issuer.
    pub issuer_url: Option<String>,
    /// The audience that tokens must have.
    pub client_id: Option<String>,
    /// The authorities of the issuer.
    pub ca_file: Option<PathBuf>,
    /// The claim with the name of the user.
    pub username_claim: Option<String>,
    /// The prefix of names.
    pub username_prefix: Option<String>,
    /// The claim with the groups of the user.
    pub groups_claim: Option<String>,
    /// The prefix of groups.
    pub groups_prefix: Option<String>,
    /// The accepted algorithms of signatures.
    pub signing_algs: Option<Vec<String>>,
    /// Claims and their texts, by `--oidc-required-claim`.
    pub required_claims: Vec<(String, String)>,
}

/// The flags `--service-account-*`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceAccountOptions {
    /// The first issues tokens, all are accepted; none for [`Self::ISSUER`].
    pub issuers: Vec<String>,
    /// The keys that tokens are verified with.
    pub key_files: Vec<PathBuf>,
    /// The key that tokens are signed with.
    pub signing_key_file: Option<PathBuf>,
    /// The plugin that signs tokens.
    pub signing_endpoint: Option<String>,
    /// Whether legacy tokens are looked up.
    pub lookup: bool,
    /// Zero for no limit.
    pub longest: Duration,
    /// Whether tokens of pods are extended.
    pub extends: bool,
    /// Where the keys of the issuer are published.
    pub jwks_uri: Option<String>,
    /// `ExternalServiceAccountTokenSigner`.
    pub has_external_signers: bool,
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
            has_external_signers: false,
        }
    }
}

impl ServiceAccountOptions {
    /// The issuer if none is given.
    pub const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";

    /// The issuers.
    pub fn issuers(&self) -> Vec<String> {
        if self.issuers.is_empty() { vec![Self::ISSUER.to_owned()] } else { self.issuers.clone() }
    }
}
