//! Kubeconfig files: which server to talk to, and with which credentials.

use crate::credentials::{self, Credentials, Reread, Source};
use crate::endpoint::{Endpoint, Peer};
use crate::exec::{ExecSettings, GROUP, InteractiveMode, Plugin};
use crate::tls::{Identity, Tls, Trust};
use crate::upstream::Upstream;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderValue, Uri};
use object::quote::Quoted;
use object::{Map, Value};
use schema::view::View as _;
use schema::views::clientauthentication::v1::Cluster as PluginCluster;
use schema::views::clientcmd::v1::{AuthInfo, Cluster, Config, Context, ExecConfig, NamedExtension};
use schema::{Limits, yaml};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Why a kubeconfig cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KubeconfigError {
    /// The file cannot be read.
    #[error("the kubeconfig {} cannot be read: {cause}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        cause: std::io::Error,
    },
    /// The file cannot be used.
    #[error("the kubeconfig {} cannot be used: {why}", .path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// What is wrong with it, with its line where the reader knows it. It contains no credentials.
        why: String,
    },
}

/// The extension of a cluster that is passed on to plugins.
const EXEC_EXTENSION: &str = "client.authentication.k8s.io/exec";

/// A kubeconfig.
pub struct Kubeconfig {
    path: PathBuf,
    config: Value,
}

impl fmt::Debug for Kubeconfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kubeconfig").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Kubeconfig {
    /// Reads a file, in YAML or JSON. Fields that do not exist are ignored, as by all clients.
    pub fn read(path: &Path) -> Result<Self, KubeconfigError> {
        let text =
            std::fs::read(path).map_err(|cause| KubeconfigError::Read { path: path.to_owned(), cause })?;
        Self::parse(path, &text).map_err(|why| KubeconfigError::Invalid { path: path.to_owned(), why })
    }

    /// The server of the current context, with the credentials for it. Files that it names are read.
    pub fn endpoint(&self) -> Result<Endpoint, KubeconfigError> {
        self.try_endpoint().map_err(|why| KubeconfigError::Invalid { path: self.path.clone(), why })
    }

    /// A server that is not in the file, with the credentials of the user that is named like it: `HOST:PORT`,
    /// `*.` and the end of that, the same without the port 443, or `*`; else of the user of the current
    /// context, or none.
    pub fn endpoint_of(&self, peer: Peer) -> Result<Endpoint, KubeconfigError> {
        self.try_endpoint_of(peer).map_err(|why| KubeconfigError::Invalid { path: self.path.clone(), why })
    }

    fn parse(path: &Path, text: &[u8]) -> Result<Self, String> {
        let decoded =
            yaml::decode(Config::schema(), text, &Limits::REQUEST).map_err(|error| error.to_string())?;
        let named = |key: &str| decoded.value.get(key).and_then(Value::as_str).unwrap_or_default();
        match (named("kind"), named("apiVersion")) {
            ("" | "Config", "" | "v1") => {}
            (kind, version) => {
                return Err(format!(
                    "it is a {} in version {}, not a Config in version \"v1\"",
                    Quoted(kind),
                    Quoted(version)
                ));
            }
        }
        Ok(Self { path: path.to_owned(), config: decoded.value })
    }

    /// The same server, as one that requests of other clients are handed on to.
    pub fn upstream(&self) -> Result<Upstream, KubeconfigError> {
        let upstream = self.current().and_then(|CurrentServer { url, tls, shown }| {
            let Shown { credentials, certificate } = shown;
            Upstream::new(url, tls, credentials, certificate).map_err(|error| error.to_string())
        });
        upstream.map_err(|why| KubeconfigError::Invalid { path: self.path.clone(), why })
    }

    fn try_endpoint(&self) -> Result<Endpoint, String> {
        let CurrentServer { url, tls, shown } = self.current()?;
        let Shown { credentials, certificate } = shown;
        Endpoint::new(url, tls, credentials, certificate).map_err(|error| error.to_string())
    }

    /// The server of the current context.
    fn current(&self) -> Result<CurrentServer, String> {
        let empty = Map::new();
        let config = Config::of(self.config.as_map().unwrap_or(&empty));
        let name = config.current_context();
        if name.is_empty() {
            return Err("no current-context is set".to_owned());
        }
        let contexts = config.contexts().iter().map(|named| (named.name(), named.context()));
        let context: Context<'_> =
            only(contexts, name)?.ok_or_else(|| format!("context {} does not exist", Quoted(name)))?;
        let clusters = config.clusters().iter().map(|named| (named.name(), named.cluster()));
        let cluster: Cluster<'_> = only(clusters, context.cluster())?.ok_or_else(|| {
            format!("cluster {} was not found for context {}", Quoted(context.cluster()), Quoted(name))
        })?;
        let users = config.users().iter().map(|named| (named.name(), named.user()));
        let user: AuthInfo<'_> = only(users, context.user())?.ok_or_else(|| {
            format!("user {} was not found for context {}", Quoted(context.user()), Quoted(name))
        })?;
        let url = server(cluster, context.cluster())?;
        if url.scheme_str() == Some("http") {
            // As with every client, credentials are not sent in the clear.
            let tls = Tls { trust: Trust::Anyone, ..Tls::default() };
            let shown = Shown { credentials: Credentials::None, certificate: None };
            return Ok(CurrentServer { url, tls, shown });
        }
        let authorities = self.authorities(cluster)?;
        let trust = match (&authorities, cluster.insecure_skip_tls_verify()) {
            (Some(_), true) => {
                return Err(format!(
                    "cluster {}: a certificate authority and insecure-skip-tls-verify exclude each other",
                    Quoted(context.cluster())
                ));
            }
            (None, true) => Trust::Anyone,
            (None, false) => Trust::System,
            (Some(pem), false) => Trust::from_pem(pem)
                .map_err(|error| format!("cluster {}: {error}", Quoted(context.cluster())))?,
        };
        let server_name = cluster.tls_server_name();
        let tls = Tls {
            trust,
            server_name: (!server_name.is_empty()).then(|| server_name.to_owned()),
            identity: None,
        };
        let shown = self.shown(user, context.user(), cluster, authorities.as_deref())?;
        Ok(CurrentServer { url, tls, shown })
    }

    fn try_endpoint_of(&self, peer: Peer) -> Result<Endpoint, String> {
        let empty = Map::new();
        let config = Config::of(self.config.as_map().unwrap_or(&empty));
        let port = peer.url.port_u16().unwrap_or(443);
        let host = peer.url.host().unwrap_or_default();
        let users = || config.users().iter().map(|named| (named.name(), named.user()));
        let current = config.contexts().iter().find(|named| named.name() == config.current_context());
        let names = names_of(host, port).into_iter();
        let names = names.chain(current.map(|named| named.context().user().to_owned()));
        for name in names.filter(|name| !name.is_empty()) {
            let Some(user) = only(users(), &name)? else { continue };
            let mut cluster = Map::new();
            cluster.insert(Cluster::SERVER, peer.url.to_string());
            if let Some(name) = &peer.server_name {
                cluster.insert(Cluster::TLS_SERVER_NAME, name.as_str());
            }
            let authorities = (!peer.authorities.is_empty()).then_some(peer.authorities.as_slice());
            let Shown { credentials, certificate } =
                self.shown(user, &name, Cluster::of(&cluster), authorities)?;
            return Endpoint::of_peer(peer, credentials, certificate).map_err(|error| error.to_string());
        }
        Endpoint::without_credentials(peer).map_err(|error| error.to_string())
    }

    /// What a user shows to a server.
    fn shown(
        &self,
        user: AuthInfo<'_>,
        name: &str,
        cluster: Cluster<'_>,
        authorities: Option<&[u8]>,
    ) -> Result<Shown, String> {
        let of_user = |why: String| format!("user {}: {why}", Quoted(name));
        let certificate = self.certificate(user).map_err(of_user)?;
        let credentials = self.credentials(user).map_err(of_user)?;
        let credentials = match (credentials, user.exec()) {
            // Other credentials come before those of a plugin.
            (Credentials::None, Some(exec)) if certificate.is_none() => {
                let settings = self.plugin(exec, cluster, authorities).map_err(of_user)?;
                Credentials::Plugin(Arc::new(Plugin::new(settings)))
            }
            (credentials, _) => credentials,
        };
        let certificate = certificate.map(|(chain, key)| credentials::certificate(chain, key));
        Ok(Shown { credentials, certificate: certificate.transpose().map_err(of_user)? })
    }

    /// A path in the file, from the folder of the file.
    fn resolve(&self, path: &str) -> Option<PathBuf> {
        let folder = self.path.parent().unwrap_or(Path::new(""));
        (!path.is_empty()).then(|| folder.join(path))
    }

    fn authorities(&self, cluster: Cluster<'_>) -> Result<Option<Vec<u8>>, String> {
        let file = self.resolve(cluster.certificate_authority());
        if file.is_some() && !cluster.certificate_authority_data().is_empty() {
            return Err("certificate-authority-data and certificate-authority are both specified".to_owned());
        }
        Source::of(cluster.certificate_authority_data(), file).map(|source| source.read()).transpose()
    }

    fn certificate(&self, user: AuthInfo<'_>) -> Result<Option<(Source, Source)>, String> {
        let (chain, key) = (self.resolve(user.client_certificate()), self.resolve(user.client_key()));
        if chain.is_some() && !user.client_certificate_data().is_empty() {
            return Err("client-certificate-data and client-certificate are both specified".to_owned());
        }
        if key.is_some() && !user.client_key_data().is_empty() {
            return Err("client-key-data and client-key are both specified".to_owned());
        }
        let chain = Source::of(user.client_certificate_data(), chain);
        let key = Source::of(user.client_key_data(), key);
        match (chain, key) {
            (None, _) => Ok(None),
            (Some(_), None) => {
                Err("client-key-data or client-key must be specified with a client certificate".to_owned())
            }
            (Some(chain), Some(key)) => Ok(Some((chain, key))),
        }
    }

    fn credentials(&self, user: AuthInfo<'_>) -> Result<Credentials, String> {
        let has_password = !user.username().is_empty() || !user.password().is_empty();
        if has_password && !user.token().is_empty() {
            return Err("more than one authentication method found: [token basicAuth]".to_owned());
        }
        if user.auth_provider().is_some() {
            return Err("auth-provider is not supported; use exec".to_owned());
        }
        if !user.r#as().is_empty() {
            return Err("impersonation (as) is not supported".to_owned());
        }
        // A file may change, so that it counts more than a token beside it.
        if let Some(path) = self.resolve(user.token_file()) {
            return credentials::token_file(path).map(Credentials::TokenFile);
        }
        if !user.token().is_empty() {
            return credentials::bearer(user.token()).map(Credentials::Header);
        }
        if has_password {
            let pair = format!("{}:{}", user.username(), user.password());
            let mut value = HeaderValue::try_from(format!("Basic {}", STANDARD.encode(pair)))
                .map_err(|error| error.to_string())?;
            value.set_sensitive(true);
            return Ok(Credentials::Header(value));
        }
        Ok(Credentials::None)
    }

    fn plugin(
        &self,
        exec: ExecConfig<'_>,
        cluster: Cluster<'_>,
        authorities: Option<&[u8]>,
    ) -> Result<ExecSettings, String> {
        let version = exec.api_version();
        if exec.command().is_empty() {
            return Err("command must be specified to use exec authentication plugin".to_owned());
        }
        if version.is_empty() {
            return Err("apiVersion must be specified to use exec authentication plugin".to_owned());
        }
        let is_beta = match version.strip_prefix(GROUP) {
            Some("/v1") => false,
            Some("/v1beta1") => true,
            _ => return Err(format!("exec plugin: invalid apiVersion {}", Quoted(version))),
        };
        let mode = match exec.interactive_mode() {
            "" if is_beta => InteractiveMode::IfAvailable,
            "" => {
                return Err("interactiveMode must be specified to use exec authentication plugin".to_owned());
            }
            "Never" => InteractiveMode::Never,
            "IfAvailable" => InteractiveMode::IfAvailable,
            "Always" => InteractiveMode::Always,
            other => return Err(format!("invalid interactiveMode: {}", Quoted(other))),
        };
        let env: Vec<(String, String)> =
            exec.env().iter().map(|each| (each.name().to_owned(), each.value().to_owned())).collect();
        if env
            .iter()
            .any(|(name, value)| name.is_empty() || name.contains(['=', '\0']) || value.contains('\0'))
        {
            return Err("env variable name must be specified to use exec authentication plugin".to_owned());
        }
        // A name without a slash is looked up in PATH.
        let command = match exec.command().contains('/') {
            true => self.resolve(exec.command()).unwrap_or_default(),
            false => exec.command().into(),
        };
        Ok(ExecSettings {
            command,
            args: exec.args().iter().map(str::to_owned).collect(),
            env,
            api_version: version.to_owned(),
            mode,
            install_hint: exec.install_hint().to_owned(),
            cluster: exec.provide_cluster_info().then(|| plugin_cluster(cluster, authorities)),
        })
    }
}

/// The server of the current context, and what its user shows to it.
struct CurrentServer {
    url: Uri,
    tls: Tls,
    shown: Shown,
}

/// What a user shows to a server.
struct Shown {
    credentials: Credentials,
    certificate: Option<Reread<Identity>>,
}

/// The names of the users that are for a server, the best first.
fn names_of(host: &str, port: u16) -> Vec<String> {
    let mut names = Vec::new();
    let with_port = format!("{host}:{port}");
    let without_port = (port == 443).then_some(host);
    for target in std::iter::once(with_port.as_str()).chain(without_port) {
        names.push(target.to_owned());
        let ends = target.match_indices('.').filter_map(|(at, _)| target.get(at..));
        names.extend(ends.map(|end| format!("*{end}")));
    }
    names.push("*".to_owned());
    names
}

/// What a plugin is told about the server.
fn plugin_cluster(cluster: Cluster<'_>, authorities: Option<&[u8]>) -> Map {
    let mut told = Map::new();
    for key in [
        PluginCluster::SERVER,
        PluginCluster::TLS_SERVER_NAME,
        PluginCluster::INSECURE_SKIP_TLS_VERIFY,
        PluginCluster::DISABLE_COMPRESSION,
    ] {
        if let Some(value) = cluster.map().get(key.as_str()) {
            told.insert(key, value.clone());
        }
    }
    if let Some(pem) = authorities {
        told.insert(PluginCluster::CERTIFICATE_AUTHORITY_DATA, Value::Bytes(pem.into()));
    }
    let mut extensions = cluster.extensions().iter();
    if let Some(extension) = extensions.find(|extension| extension.name() == EXEC_EXTENSION)
        && let Some(value) = extension.map().get(NamedExtension::EXTENSION.as_str())
    {
        told.insert(PluginCluster::CONFIG, value.clone());
    }
    told
}

/// The one item of a name; several are an error.
fn only<'a, T>(items: impl Iterator<Item = (&'a str, T)>, name: &str) -> Result<Option<T>, String> {
    let mut items = items.filter(|(own, _)| *own == name).map(|(_, item)| item);
    let first = items.next();
    match items.next() {
        Some(_) => Err(format!("duplicate name {} in list", Quoted(name))),
        None => Ok(first),
    }
}

/// The address of a server.
fn server(cluster: Cluster<'_>, name: &str) -> Result<Uri, String> {
    let text = cluster.server();
    if text.is_empty() {
        return Err(format!("no server found for cluster {}", Quoted(name)));
    }
    if !cluster.proxy_url().is_empty() {
        return Err(format!("cluster {}: proxy-url is not supported", Quoted(name)));
    }
    let invalid = |why: &str| format!("cluster {}: the server is not an address: {why}", Quoted(name));
    // As with every client, an address without a scheme is one of HTTP.
    let text = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
    let url: Uri = text.parse().map_err(|error: http::uri::InvalidUri| invalid(&error.to_string()))?;
    let authority = url.authority().map(http::uri::Authority::as_str).unwrap_or_default();
    match url.scheme_str() {
        _ if authority.contains('@') => Err(invalid("it has a user name; credentials belong to users")),
        Some("https") => Ok(url),
        Some("http") => {
            log::warn!(server = text.as_str(); "requests to a webhook are not encrypted and have no credentials, because its address is not one of HTTPS");
            Ok(url)
        }
        _ => Err(invalid("it has to start with https://")),
    }
}

#[cfg(test)]
mod tests;
