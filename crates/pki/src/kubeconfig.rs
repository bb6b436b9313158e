//! The kubeconfig: the server's URL, its authority, and the client's credentials.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use schema::json;

use super::{Error, Pair, file};

/// A kubeconfig with everything embedded: it needs no other file.
#[derive(Clone)]
pub struct Kubeconfig<'a> {
    /// The server's URL.
    pub server: String,
    /// The certificates in PEM that the server's certificate is verified with.
    pub authority: &'a str,
    /// The user's name.
    pub user: &'a str,
    /// The client certificate.
    pub client: &'a Pair,
    /// The token, for clients without support for certificates.
    pub token: Option<&'a str>,
}

/// The server of a kubeconfig.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cluster {
    /// Its URL.
    pub server: String,
    /// The certificates in PEM that its certificate is verified with.
    pub authority: String,
}

impl Cluster {
    /// The server of a kubeconfig that [`Kubeconfig::write`] wrote; `None` if there is none.
    pub fn read(path: &Path) -> Result<Option<Self>, Error> {
        let Some(text) = file::read_private(path)? else { return Ok(None) };
        let value = |key: &str| text.lines().find_map(|line| line.trim().strip_prefix(key)).map(str::trim);
        let authority = value("certificate-authority-data:").and_then(|data| STANDARD.decode(data).ok());
        let authority = authority.and_then(|pem| String::from_utf8(pem).ok());
        Ok(value("server:")
            .zip(authority)
            .map(|(server, authority)| Self { server: server.into(), authority }))
    }

    /// A kubeconfig without a user, for clients that bring credentials of their own. Its cluster has no name,
    /// by which they find it.
    pub fn to_yaml(&self) -> String {
        format!(
            "\
apiVersion: v1
kind: Config
clusters:
- name: \"\"
  cluster:
    server: {server}
    certificate-authority-data: {authority}
",
            server = self.server,
            authority = STANDARD.encode(&self.authority),
        )
    }
}

impl Kubeconfig<'_> {
    /// The YAML text.
    pub fn to_yaml(&self) -> String {
        format!(
            "\
apiVersion: v1
kind: Config
clusters:
- name: keelson
  cluster:
    server: {server}
    certificate-authority-data: {authority}
users:
- name: {user}
  user:
    client-certificate-data: {certificate}
    client-key-data: {key}
{token}\
contexts:
- name: keelson
  context:
    cluster: keelson
    user: {user}
current-context: keelson
",
            server = self.server,
            authority = STANDARD.encode(self.authority),
            user = json::string(self.user),
            certificate = STANDARD.encode(&self.client.certificate),
            key = STANDARD.encode(&self.client.key),
            token = self.token.map(|token| format!("    token: {token}\n")).unwrap_or_default(),
        )
    }

    /// Writes it to `path` with mode 0600, unless the file has the same content.
    pub fn write(&self, path: &Path) -> Result<(), Error> {
        let text = self.to_yaml();
        if file::read_private(path)?.as_deref() == Some(text.as_str()) {
            return Ok(());
        }
        file::write_private(path, &text)
    }
}
