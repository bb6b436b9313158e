//! Forks of a server.

use std::path::Path;

use http::Method;
use kube::Client;
use serde::Deserialize;
use serde_json::json;

use crate::cluster::Cluster;
use crate::{Error, Server};

/// Where forks are made.
const FORKS: &str = "/keelson/v1/forks";

/// A cluster with the objects that its server had at one moment, and everything else of its own. It goes with
/// [`Fork::discard`], or with the server.
pub struct Fork {
    cluster: Cluster,
    server: Cluster,
    name: String,
    revision: String,
}

impl std::fmt::Debug for Fork {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fork").field("name", &self.name).field("url", &self.url()).finish_non_exhaustive()
    }
}

/// What the server says of a fork that it has made.
#[derive(Deserialize)]
struct Made {
    name: String,
    server: String,
    revision: serde_json::Value,
}

impl Fork {
    pub(crate) async fn make(server: &Server, name: Option<&str>) -> Result<Self, Error> {
        let body = name.map_or_else(|| json!({}), |name| json!({"name": name}));
        let made = server.cluster.send(Method::POST, FORKS, Some(&body)).await?;
        let Made { name, server: url, revision } = serde_json::from_value(made)?;
        let kubeconfig = server.folder.path().join(format!("kubeconfig-{name}"));
        let cluster = Cluster::new(&url, &server.token, &server.ca, kubeconfig).await?;
        let revision = revision.as_str().map_or_else(|| revision.to_string(), str::to_owned);
        Ok(Self { cluster, server: server.cluster.clone(), name, revision })
    }

    /// A client for its administrator.
    pub fn client(&self) -> Client {
        self.cluster.client.clone()
    }

    /// Where it serves.
    pub fn url(&self) -> &str {
        &self.cluster.url
    }

    /// A kubeconfig for its administrator.
    pub fn kubeconfig(&self) -> &Path {
        &self.cluster.kubeconfig
    }

    /// Its name among the forks of the server.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The revision of the server that it began with.
    pub fn revision(&self) -> &str {
        &self.revision
    }

    /// Puts everything back to where it was when the fork was made.
    pub async fn reset(&self) -> Result<(), Error> {
        self.server.send(Method::POST, &format!("{FORKS}/{}/reset", self.name), None).await.map(drop)
    }

    /// Ends the cluster.
    pub async fn discard(self) -> Result<(), Error> {
        self.server.send(Method::DELETE, &format!("{FORKS}/{}", self.name), None).await.map(drop)
    }
}
