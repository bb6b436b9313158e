//! Connections to pods, nodes and services: where a request leads, after admission has agreed to it.
//!
//! 1. The query is read as options ([`parameters`]); admission sees them as the object of an operation
//!    `CONNECT`.
//! 2. The object is looked up, and from it and the options the [`Location`] is made ([`location`]): a
//!    kubelet, or the target itself.
//!
//! What is sent there, and how, is left to the layer above. The log of a pod is read, not connected to:
//! admission is not asked.

mod location;
mod parameters;

pub use location::is_proxyable;

use crate::convert::map;
use crate::{Pairs, Registry, Target, WriteRequest};
use admission::{Operation, Warnings};
use kinds::{BodyType, Connect, SubresourceAction};
use object::{Map, Value};
use schema::Status;

/// How a connection is asked for.
pub struct ConnectOptions<'a> {
    /// The query.
    pub query: &'a Pairs<'a>,
    /// The part of the path for the target of a proxy, with its first slash; empty if there is none.
    pub path: &'a str,
    /// Where warnings for the client are collected.
    pub warnings: Warnings,
}

/// Where a connection leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// Which server it is.
    pub backend: Backend,
    /// Whether TLS is spoken.
    pub tls: bool,
    /// The name or address of the server.
    pub host: String,
    /// The port; the usual one of the protocol if there is none.
    pub port: Option<u16>,
    /// The path, not encoded. Empty for the root of a proxy that was asked for without a slash at the end.
    pub path: String,
    /// The query.
    pub query: String,
    /// The streams of a command.
    pub command: Option<CommandStreams>,
}

/// Which server a connection leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// A kubelet, which is verified and gets the certificate of this server.
    Kubelet,
    /// A kubelet for its log alone: the caller does without verification.
    UnverifiedKubelet,
    /// The kubelet of a node that is the target itself. Its address has to be one that is proxied to.
    ProxiedKubelet,
    /// A port of a node other than that of its kubelet. The address of the node has to be one that is proxied
    /// to.
    Node,
    /// A pod.
    Pod,
}

/// The streams of a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommandStreams {
    /// Input.
    pub stdin: bool,
    /// Output.
    pub stdout: bool,
    /// Output of errors.
    pub stderr: bool,
    /// A terminal.
    pub tty: bool,
}

/// How the kubelets of nodes are found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KubeletAddresses {
    /// The types of node addresses that are used, the best first.
    pub types: Vec<String>,
    /// The port of nodes that do not say theirs.
    pub port: u16,
}

impl Default for KubeletAddresses {
    fn default() -> Self {
        let types = ["Hostname", "InternalDNS", "InternalIP", "ExternalDNS", "ExternalIP"];
        Self { types: types.map(str::to_owned).to_vec(), port: 10250 }
    }
}

impl Location {
    /// Host and port, as in a URL.
    pub fn authority(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        self.port.map_or(host.clone(), |port| format!("{host}:{port}"))
    }
}

impl Registry {
    /// Where a connection leads; nowhere if it is to the log of a pod without a node.
    pub async fn connect(
        &self,
        target: &Target<'_>,
        options: &ConnectOptions<'_>,
    ) -> Result<Option<Location>, Status> {
        let Some(SubresourceAction::Connect(connect)) =
            target.subresource.map(|subresource| &subresource.action)
        else {
            return Err(Status::unknown_resource());
        };
        let asked = match connect {
            Connect::Log => parameters::read("PodLogOptions", options)?.into(),
            _ => self.admit(target, options).await?,
        };
        let asked = map(&asked)?;
        match connect {
            Connect::Log => self.log_location(target, asked).await,
            Connect::PortForward => self.port_forward_location(target, asked).await.map(Some),
            Connect::Exec | Connect::Attach => self.command_location(target, asked).await.map(Some),
            Connect::Proxy => self.proxy_location(target, asked).await.map(Some),
        }
    }

    /// The options, as admission leaves them.
    async fn admit(&self, target: &Target<'_>, options: &ConnectOptions<'_>) -> Result<Value, Status> {
        if options.query.iter().any(|(name, _)| name == "dryRun") {
            return Err(Status::bad_request("dryRun is not supported"));
        }
        let kind = match target.subresource.map(|subresource| &subresource.body) {
            Some(BodyType::Options(kind)) => kind.as_str(),
            _ => return Err(Status::unknown_resource()),
        };
        let mut asked: Map = parameters::read(kind, options)?;
        asked.insert("kind", kind);
        asked.insert("apiVersion", target.served.api_version.clone());
        let mut asked = Value::from(asked);
        let request = WriteRequest::connect(target, &options.warnings);
        let attributes = request.attributes(Operation::Connect, None);
        let admission = &self.config().admission;
        admission.mutate(&attributes, Some(&mut asked)).await?;
        admission.validate(&attributes, Some(&asked)).await?.committed().await;
        Ok(asked)
    }
}

#[cfg(test)]
mod tests;
