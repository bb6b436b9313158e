//! What a client needs for a cluster: a server, or a fork of one.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use http::{Method, Request};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::{Value, json};

use crate::Error;

/// A cluster as its administrator sees it.
#[derive(Clone)]
pub(crate) struct Cluster {
    pub(crate) url: String,
    pub(crate) client: Client,
    pub(crate) kubeconfig: PathBuf,
}

impl Cluster {
    /// The cluster at `url`, with a kubeconfig in a folder.
    pub(crate) async fn new(url: &str, token: &str, ca: &Path, kubeconfig: PathBuf) -> Result<Self, Error> {
        let url = url.trim_end_matches('/').to_owned();
        let text = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "keelson",
            "clusters": [{"name": "keelson", "cluster": {"server": url, "certificate-authority": ca}}],
            "users": [{"name": "admin", "user": {"token": token}}],
            "contexts": [{"name": "keelson", "context": {"cluster": "keelson", "user": "admin"}}],
        });
        let mut file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&kubeconfig)?;
        // A text of JSON is one of YAML, too.
        file.write_all(text.to_string().as_bytes())?;
        let parsed = Kubeconfig::read_from(&kubeconfig)?;
        let config = Config::from_custom_kubeconfig(parsed, &KubeConfigOptions::default()).await?;
        Ok(Self { url, client: Client::try_from(config)?, kubeconfig })
    }

    /// Sends JSON, and reads the JSON of the answer; that of an empty answer is null.
    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, Error> {
        let bytes = body.map(Value::to_string).unwrap_or_default().into_bytes();
        let mut request = Request::builder().method(method).uri(path);
        if body.is_some() {
            request = request.header(http::header::CONTENT_TYPE, "application/json");
        }
        let text = self.client.request_text(request.body(bytes)?).await?;
        if text.is_empty() { Ok(Value::Null) } else { Ok(serde_json::from_str(&text)?) }
    }
}
