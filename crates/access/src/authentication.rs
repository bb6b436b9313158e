//! Who users are, by the flags of a run: the methods of authentication. What they may do is in
//! [`crate::authorization`].

use std::path::{Path, PathBuf};
use std::sync::Arc;

use auth::service_account::ServiceAccountTokens;
use auth::webhook_token::{self, WebhookTokens};
use auth::{
    Anonymous, AuthenticateToken, Authenticators, BootstrapTokens, Certificates, ClientAuthority, Proxy,
    StaticToken, Tokens, User,
};
use cache::Cache;
use http::HeaderName;
use object::quote::quote;
use outbound::{Backoff, Kubeconfig};
use pki::{ADMIN_GROUP, ADMIN_USER};
use rustls::pki_types::CertificateDer;
use schema::json;

use crate::authorization;
use crate::oidc;
use crate::reload;
use crate::{AccessOptions, ProxyOptions, TokenWebhookOptions};

/// Why a configuration of access cannot be used.
#[expect(missing_docs, reason = "the message of a variant says what it is")]
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the file {} cannot be read: {cause}", .path.display())]
    File { path: PathBuf, cause: std::io::Error },
    #[error("the token file {} cannot be used: {cause}", .path.display())]
    Tokens { path: PathBuf, cause: auth::TokenFileError },
    #[error("error reading policy file {}, {cause}", .path.display())]
    Policies { path: PathBuf, cause: auth::abac::PolicyFileError },
    #[error("{} holds no certificates that can be trusted: {why}", .path.display())]
    Authorities { path: PathBuf, why: String },
    /// A flag that is wrong, or cannot take effect.
    #[error("{0}")]
    Flag(String),
    #[error("the authorization configuration {} cannot be used: {why}", .path.display())]
    Authorization { path: PathBuf, why: String },
    #[error("the authentication configuration {} cannot be used: {why}", .path.display())]
    Authentication { path: PathBuf, why: String },
    #[error(transparent)]
    Oidc(#[from] auth::oidc::Error),
    #[error(transparent)]
    Kubeconfig(#[from] outbound::KubeconfigError),
    #[error(transparent)]
    Random(#[from] auth::webhook_token::NoRandomNumbers),
    #[error("the objects that decide about access are not there: {0}")]
    Missing(&'static str),
}

/// The files with authorities of certificates, as they are at the start.
pub struct AuthorityFiles {
    /// `--client-ca-file`.
    client: Option<String>,
    /// `--requestheader-client-ca-file`.
    proxy: Option<String>,
}

impl AuthorityFiles {
    /// Reads the files.
    pub fn read(options: &AccessOptions) -> Result<Self, Error> {
        Ok(Self {
            client: options.client_ca_file.as_deref().map(read).transpose()?,
            proxy: options.proxy.client_ca_file.as_deref().map(read).transpose()?,
        })
    }

    /// The authorities of client certificates, in PEM.
    pub fn client_authorities(&self, own: &str) -> String {
        format!("{own}{}", self.client.as_deref().unwrap_or_default())
    }

    /// What servers behind this one need to know of the proxies that it trusts, or else, of this server as
    /// the proxy before them.
    pub fn proxy_info(&self, options: &ProxyOptions, own: Option<&OwnProxy>) -> Vec<(&'static str, String)> {
        let list = |values: &[String]| json::string_list(values.iter().map(String::as_str));
        let Some(authorities) = &self.proxy else {
            return own.map(OwnProxy::info).unwrap_or_default();
        };
        let mut info = vec![
            ("requestheader-client-ca-file", authorities.clone()),
            ("requestheader-allowed-names", list(&options.allowed_names)),
            ("requestheader-extra-headers-prefix", list(&options.extra_prefixes)),
            ("requestheader-group-headers", list(&options.group_headers)),
            ("requestheader-username-headers", list(&options.username_headers)),
        ];
        if !options.uid_headers.is_empty() {
            info.push(("requestheader-uid-headers", list(&options.uid_headers)));
        }
        info
    }
}

/// This server as the proxy before others.
#[derive(Debug, Clone)]
pub struct OwnProxy {
    /// The authority of its certificate, in PEM.
    pub authority: String,
    /// The name in its certificate.
    pub name: &'static str,
    /// Whether it tells the uids of users.
    pub uids: bool,
}

impl OwnProxy {
    fn info(&self) -> Vec<(&'static str, String)> {
        let list = |value: &str| json::string_list([value]);
        let mut info = vec![
            ("requestheader-client-ca-file", self.authority.clone()),
            ("requestheader-allowed-names", list(self.name)),
            ("requestheader-extra-headers-prefix", list("X-Remote-Extra-")),
            ("requestheader-group-headers", list("X-Remote-Group")),
            ("requestheader-username-headers", list("X-Remote-User")),
        ];
        if self.uids {
            info.push(("requestheader-uid-headers", list("X-Remote-Uid")));
        }
        info
    }
}

/// What the server made for its administrator and its own clients.
#[derive(Clone, Copy)]
pub struct OwnCredentials<'a> {
    /// The authority of client certificates, in PEM.
    pub client_authority: &'a str,
    /// The token of the administrator.
    pub admin_token: &'a str,
}

/// The methods of authentication: the authority of the data directory, `--client-ca-file`, the kubeconfig's
/// token, `--token-auth-file`, `--requestheader-*`, service account tokens, bootstrap tokens, issuers,
/// webhooks.
pub fn authenticators(
    options: &AccessOptions,
    files: &AuthorityFiles,
    own: OwnCredentials<'_>,
    cache: &Cache,
    service_accounts: ServiceAccountTokens,
) -> Result<Arc<Authenticators>, Error> {
    let user = User { name: ADMIN_USER.into(), groups: vec![ADMIN_GROUP.into()], ..User::default() };
    let mut tokens = Tokens::new(vec![StaticToken::new(own.admin_token, user)]);
    if let Some(path) = &options.token_auth_file {
        let parsed = Tokens::parse(&read(path)?);
        tokens.extend(parsed.map_err(|cause| Error::Tokens { path: path.clone(), cause })?);
    }
    let own = own.client_authority.to_owned();
    let given = files.client.as_deref();
    let path = options.client_ca_file.clone().unwrap_or_else(|| PathBuf::from("pki/ca.crt"));
    if let Some(given) = given {
        authorities(&path, given)?;
    }
    let trusted = authorities(&path, &format!("{own}\n{}", given.unwrap_or_default()))?;
    let certificates =
        ClientAuthority::new(trusted).map_err(|error| Error::Authorities { path, why: error.to_string() })?;
    let audiences = options.audiences();
    let mut methods: Vec<Arc<dyn AuthenticateToken>> = vec![Arc::new(tokens.method(audiences.clone()))];
    methods.extend(by_objects(options, cache, service_accounts)?);
    let oidc = oidc::start(options, &audiences)?;
    methods.extend(oidc.issuers.map(|issuers| Arc::new(issuers) as Arc<dyn AuthenticateToken>));
    // Last: what other methods know needs no question to another server.
    methods.extend(token_webhook(&options.token_webhook, &audiences)?);
    let authenticators = Arc::new(Authenticators {
        proxy: proxy(&options.proxy, files.proxy.as_deref())?,
        certificates: Some(certificates),
        tokens: methods,
        audiences,
        anonymous: oidc.anonymous.unwrap_or_else(|| anonymous(options)),
    });
    if let Some((path, content)) = options.client_ca_file.clone().zip(given) {
        reload_authorities(&path, content.to_owned(), authenticators.clone(), move |methods, content| {
            (methods.certificates.as_ref().map(ClientAuthority::authorities), format!("{own}\n{content}"))
        });
    }
    if let Some((path, content)) = options.proxy.client_ca_file.as_ref().zip(files.proxy.clone()) {
        reload_authorities(path, content, authenticators.clone(), |methods, content| {
            (methods.proxy.as_ref().map(|proxy| &proxy.authorities), content.to_owned())
        });
    }
    Ok(authenticators)
}

/// The methods that look up objects: service account tokens and bootstrap tokens.
pub fn by_objects(
    options: &AccessOptions,
    cache: &Cache,
    service_accounts: ServiceAccountTokens,
) -> Result<Vec<Arc<dyn AuthenticateToken>>, Error> {
    let mut methods: Vec<Arc<dyn AuthenticateToken>> = vec![Arc::new(service_accounts)];
    if options.bootstrap_tokens {
        let secrets = cache.resource("secrets").ok_or(Error::Missing("secrets"))?;
        methods.push(Arc::new(BootstrapTokens::new(secrets, options.audiences())));
    }
    Ok(methods)
}

/// The webhook of the flags `--authentication-token-webhook-*`.
fn token_webhook(
    options: &TokenWebhookOptions,
    audiences: &[String],
) -> Result<Option<Arc<dyn AuthenticateToken>>, Error> {
    let Some(path) = &options.config_file else { return Ok(None) };
    let unsupported = |_| {
        let version = quote(&options.version);
        let supported = "supported versions are \"v1\", \"v1beta1\"";
        Error::Flag(format!("unsupported authentication webhook version {version}, {supported}"))
    };
    let config = webhook_token::Config {
        version: options.version.parse().map_err(unsupported)?,
        cache_ttl: options.cache_ttl,
        audiences: audiences.to_vec(),
        backoff: Backoff::default(),
    };
    let server = Kubeconfig::read(path)?.endpoint()?;
    Ok(Some(Arc::new(WebhookTokens::new(server, config)?)))
}

/// Whether requests without credentials are let in: as with the reference, not where everybody may do
/// everything.
fn anonymous(options: &AccessOptions) -> Anonymous {
    let is_open = authorization::modes(options).any(|mode| mode == "AlwaysAllow");
    match options.anonymous {
        Some(false) => Anonymous::Refused,
        _ if is_open => {
            log::warn!(
                "requests without credentials are refused, because the authorization mode AlwaysAllow would let them do everything"
            );
            Anonymous::Refused
        }
        _ => Anonymous::Allowed,
    }
}

/// Reads the authorities of a file again when it changes. `which` says whose they are, and all that are
/// trusted then.
fn reload_authorities(
    path: &Path,
    content: String,
    authenticators: Arc<Authenticators>,
    which: impl for<'a> Fn(&'a Authenticators, &str) -> (Option<&'a Certificates>, String) + Send + 'static,
) {
    let shown = path.to_owned();
    reload::on_change(path, content.into_bytes(), move |content| {
        let content = std::str::from_utf8(content).map_err(|error| error.to_string())?;
        let (certificates, all) = which(&authenticators, content);
        // The part that can change has to have some by itself.
        authorities(&shown, content).map_err(|error| error.to_string())?;
        let trusted = authorities(&shown, &all).map_err(|error| error.to_string())?;
        match certificates {
            Some(certificates) => certificates.replace(trusted).map_err(|error| error.to_string()),
            None => Ok(()),
        }
    });
}

/// The authenticating proxy of the flags `--requestheader-*`, with the content of the file with its
/// authorities.
fn proxy(options: &ProxyOptions, file: Option<&str>) -> Result<Option<Proxy>, Error> {
    let lists = [
        ("requestheader-username-headers", &options.username_headers),
        ("requestheader-group-headers", &options.group_headers),
        ("requestheader-extra-headers-prefix", &options.extra_prefixes),
        ("requestheader-allowed-names", &options.allowed_names),
        ("requestheader-uid-headers", &options.uid_headers),
    ];
    for (flag, values) in lists {
        if values.iter().any(|value| value.trim().is_empty()) {
            return Err(Error::Flag(format!("empty value in {}", quote(flag))));
        }
    }
    let has = |values: &[String], name: &str| values.iter().any(|value| value.eq_ignore_ascii_case(name));
    if !options.uid_headers.is_empty() && !has(&options.uid_headers, "X-Remote-Uid") {
        let why = "--requestheader-uid-headers is set without specifying the standard X-Remote-Uid header - API aggregation will not work";
        return Err(Error::Flag(why.into()));
    }
    for ((flag, values), standard) in lists.iter().zip(["X-Remote-User", "X-Remote-Group", "X-Remote-Extra-"])
    {
        if !values.is_empty() && !has(values, standard) {
            log::warn!(
                "--{flag} has not the standard header {standard}, which servers behind this one expect"
            );
        }
    }
    let Some((path, file)) = options.client_ca_file.as_ref().zip(file) else {
        return match lists.iter().find(|(_, values)| !values.is_empty()) {
            Some((flag, _)) => {
                Err(Error::Flag(format!("--{flag} has no effect without --requestheader-client-ca-file")))
            }
            None => Ok(None),
        };
    };
    if options.username_headers.is_empty() {
        let why = "--requestheader-client-ca-file has no effect without --requestheader-username-headers";
        return Err(Error::Flag(why.into()));
    }
    let trusted = authorities(path, file)?;
    let authorities = Certificates::new(trusted)
        .map_err(|error| Error::Authorities { path: path.clone(), why: error.to_string() })?;
    let names = |values: &[String]| values.iter().map(|value| header(value)).collect::<Result<Vec<_>, _>>();
    Ok(Some(Proxy {
        authorities,
        allowed_names: options.allowed_names.clone(),
        username_headers: names(&options.username_headers)?,
        uid_headers: names(&options.uid_headers)?,
        group_headers: names(&options.group_headers)?,
        extra_prefixes: options.extra_prefixes.iter().map(|prefix| prefix.to_ascii_lowercase()).collect(),
    }))
}

fn header(name: &str) -> Result<HeaderName, Error> {
    name.parse().map_err(|_| Error::Flag(format!("{} is not the name of a header", quote(name))))
}

/// The certificates of a text in PEM, of which there has to be one.
fn authorities(path: &Path, pem: &str) -> Result<Vec<CertificateDer<'static>>, Error> {
    let unusable = |why: String| Error::Authorities { path: path.to_owned(), why };
    let unreadable = |error| unusable(format!("no certificate could be read: {error}"));
    let found = pki::certificates(pem).map_err(unreadable)?;
    if found.is_empty() { Err(unusable("there are none in it".into())) } else { Ok(found) }
}

pub(crate) fn read(path: &Path) -> Result<String, Error> {
    std::fs::read_to_string(path).map_err(|cause| Error::File { path: path.to_owned(), cause })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anonymous_requests_are_refused_where_everybody_may_do_everything() {
        assert_eq!(anonymous(&AccessOptions::default()), Anonymous::Allowed);
        assert_eq!(anonymous(&AccessOptions::with_modes(&["RBAC", "AlwaysAllow"])), Anonymous::Refused);
        let refused = AccessOptions { anonymous: Some(false), ..AccessOptions::default() };
        assert_eq!(anonymous(&refused), Anonymous::Refused);
    }

    #[test]
    fn flags_of_the_token_webhook_that_cannot_take_effect_are_errors() {
        let old = TokenWebhookOptions {
            config_file: Some("x".into()),
            version: "v2".into(),
            ..TokenWebhookOptions::default()
        };
        assert!(token_webhook(&old, &[]).map(drop).unwrap_err().to_string().contains("version \"v2\""));
        let missing = TokenWebhookOptions { config_file: Some("/nowhere".into()), ..Default::default() };
        let error = token_webhook(&missing, &[]).map(drop).unwrap_err().to_string();
        assert!(error.starts_with("the kubeconfig /nowhere cannot be read: "), "{error}");
    }

    #[test]
    fn flags_of_a_proxy_that_cannot_take_effect_are_errors() {
        let names = || vec!["X-Remote-User".to_owned()];
        let error = |options: ProxyOptions| proxy(&options, Some("")).map(drop).unwrap_err().to_string();
        let alone = ProxyOptions { username_headers: names(), ..ProxyOptions::default() };
        assert!(error(alone).contains("without --requestheader-client-ca-file"));
        let nameless = ProxyOptions { client_ca_file: Some("x".into()), ..ProxyOptions::default() };
        assert!(error(nameless).contains("without --requestheader-username-headers"));
        let empty = ProxyOptions { group_headers: vec![" ".into()], ..ProxyOptions::default() };
        assert_eq!(error(empty), "empty value in \"requestheader-group-headers\"");
        let uid = ProxyOptions { uid_headers: vec!["X-Uid".into()], ..ProxyOptions::default() };
        assert!(error(uid).contains("standard X-Remote-Uid header"));
        assert!(proxy(&ProxyOptions::default(), None).unwrap().is_none());
    }
}
