//! Connections to pods, nodes and services: admission, and the location of the backend.
//!
//! 1. The query is parsed as options ([`parameters`]), such as `PodExecOptions`. Admission sees them as the
//!    object of the operation `CONNECT`.
//! 2. The [`Location`] follows from the object and the options ([`location`]): a kubelet, or the pod, node or
//!    service itself.
//!
//! The crate `server` opens the connection. The log of a pod is a read, which has no admission.

mod location;
mod parameters;

pub use location::is_proxyable;

use crate::convert::map;
use crate::{Pairs, Registry, Target, WriteRequest};
use admission::{Operation, Warnings};
use kinds::{Action, Connect, SubresourceBody};
use object::{Map, Value};
use schema::Status;

/// The options of a connection.
pub struct ConnectOptions<'a> {
    /// The query.
    pub query: &'a Pairs<'a>,
    /// The part of the path for the target of a proxy, with its first slash; empty if there is none.
    pub path: &'a str,
    /// Where warnings for the client are collected.
    pub warnings: Warnings,
}

/// The address of a backend, with the path and query to send to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// The kind of server.
    pub backend: Backend,
    /// Whether the connection uses TLS.
    pub tls: bool,
    /// The name or address of the server.
    pub host: String,
    /// The port; `None` for the default port of the protocol.
    pub port: Option<u16>,
    /// The path, not percent-encoded. Empty if the path of a proxy request ends without a slash after
    /// `proxy`.
    pub path: String,
    /// The query.
    pub query: String,
    /// The streams of a command.
    pub command: Option<CommandStreams>,
}

/// The kind of server that a connection leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// A kubelet. Its certificate is verified, and it gets the client certificate of this server.
    Kubelet,
    /// A kubelet whose certificate is not verified: `insecureSkipTLSVerifyBackend` of a log.
    UnverifiedKubelet,
    /// The kubelet of a node, as the target of a proxy. Its address must be [`is_proxyable`].
    ProxiedKubelet,
    /// Another port of a node, as the target of a proxy. Its address must be [`is_proxyable`].
    Node,
    /// A pod.
    Pod,
    /// Nothing: the host is the name of a node that exists on paper, the path that of a container there, the
    /// query the words of a command. The log of a container and commands have this location.
    Paper,
}

/// The streams of a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommandStreams {
    /// Standard input.
    pub stdin: bool,
    /// Standard output.
    pub stdout: bool,
    /// Standard error.
    pub stderr: bool,
    /// A terminal.
    pub tty: bool,
}

/// The address types and the port of kubelets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KubeletAddresses {
    /// The types of node addresses, the preferred one first: `--kubelet-preferred-address-types`.
    pub types: Vec<String>,
    /// The port of nodes whose status has none.
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
    /// The location of a connection; `None` for the log of a pod without a node.
    pub async fn connect(
        &self,
        target: &Target<'_>,
        options: &ConnectOptions<'_>,
    ) -> Result<Option<Location>, Status> {
        let Some(Action::Connect(connect)) = target.subresource.map(|subresource| &subresource.action) else {
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

    /// The options after admission.
    async fn admit(&self, target: &Target<'_>, options: &ConnectOptions<'_>) -> Result<Value, Status> {
        if options.query.iter().any(|(name, _)| name == "dryRun") {
            return Err(Status::bad_request("dryRun is not supported"));
        }
        let kind = match target.subresource.map(|subresource| &subresource.body) {
            Some(SubresourceBody::Options(kind)) => *kind,
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
