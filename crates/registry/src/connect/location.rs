//! The location of a connection, from its object and its options.

use super::{Backend, CommandStreams, Location};
use crate::convert::map;
use crate::error::unknown_reason_500;
use crate::{Registry, Target};
use object::field::{self, Path};
use object::quote::Quoted;
use object::{Map, Value};
use schema::Status;
use schema::view::View as _;
use schema::views::core::v1::{
    EndpointAddress, Endpoints, Node, Pod, PodAttachOptions, PodExecOptions, PodLogOptions,
    PodPortForwardOptions, PodProxyOptions, Service,
};
use std::net::IpAddr;

/// The annotation of nodes that exist on paper, and its value.
const PAPER: (&str, &str) = ("kwok.x-k8s.io/node", "fake");

/// The address of a kubelet.
struct Kubelet {
    host: String,
    port: u16,
}

impl Kubelet {
    fn location(self, backend: Backend, path: String, query: Vec<(&str, String)>) -> Location {
        let Self { host, port } = self;
        Location { backend, tls: true, host, port: Some(port), path, query: encoded(query), command: None }
    }
}

impl Registry {
    /// The location of the log of a container; `None` for a pod without a node.
    pub(super) async fn log_location(
        &self,
        target: &Target<'_>,
        asked: &Map,
    ) -> Result<Option<Location>, Status> {
        let options = PodLogOptions::of(asked);
        check_log_options(target.name, options)?;
        let pod = self.pod(target, target.name).await?;
        let pod = Pod::of(map(&pod)?);
        let container = container(pod, options.container())?;
        if pod.spec().node_name().is_empty() {
            return Ok(None);
        }
        let node = pod.spec().node_name();
        if self.is_on_paper(target, node).await? {
            return Ok(Some(Location {
                path: container.to_owned(),
                ..at(Backend::Paper, false, node, None)
            }));
        }
        let kubelet = self.kubelet(target, node).await?;
        let mut query = Vec::new();
        for (name, is_set) in [
            ("follow", options.follow()),
            ("previous", options.previous()),
            ("timestamps", options.timestamps()),
        ] {
            query.extend(is_set.then(|| (name, "true".to_owned())));
        }
        for (name, number) in [
            ("sinceSeconds", options.since_seconds()),
            ("tailLines", options.tail_lines()),
            ("limitBytes", options.limit_bytes()),
        ] {
            query.extend(number.map(|number| (name, number.to_string())));
        }
        let time = asked.get("sinceTime").and_then(Value::as_str);
        query.extend(time.map(|time| ("sinceTime", time.to_owned())));
        let backend = match options.insecure_skip_tls_verify_backend() {
            true => Backend::UnverifiedKubelet,
            false => Backend::Kubelet,
        };
        let path = format!("/containerLogs/{}/{}/{container}", target.namespace, target.name);
        Ok(Some(kubelet.location(backend, path, query)))
    }

    /// The location of an exec or attach.
    pub(super) async fn command_location(
        &self,
        target: &Target<'_>,
        asked: &Map,
    ) -> Result<Location, Status> {
        // The options of both have the same fields but for the command.
        let options = PodAttachOptions::of(asked);
        let pod = self.pod(target, target.name).await?;
        let pod = Pod::of(map(&pod)?);
        let container = container(pod, options.container())?;
        let words = PodExecOptions::of(asked).command();
        let command = CommandStreams {
            stdin: options.stdin(),
            stdout: options.stdout(),
            stderr: options.stderr(),
            tty: options.tty(),
        };
        let node = pod.spec().node_name();
        if !node.is_empty() && self.is_on_paper(target, node).await? {
            return Ok(Location {
                path: container.to_owned(),
                query: words.iter().collect::<Vec<_>>().join(" "),
                command: Some(command),
                ..at(Backend::Paper, false, node, None)
            });
        }
        let kubelet = self.kubelet_of(target, pod).await?;
        let mut query = Vec::new();
        for (name, is_set) in [
            ("input", command.stdin),
            ("output", command.stdout),
            ("error", command.stderr),
            ("tty", command.tty),
        ] {
            query.extend(is_set.then(|| (name, "1".to_owned())));
        }
        query.extend(words.iter().map(|word| ("command", word.to_owned())));
        let path = format!("/{}/{}/{}/{container}", target.subresource_name(), target.namespace, target.name);
        let location = kubelet.location(Backend::Kubelet, path, query);
        Ok(Location { command: Some(command), ..location })
    }

    /// The location of a port forward.
    pub(super) async fn port_forward_location(
        &self,
        target: &Target<'_>,
        asked: &Map,
    ) -> Result<Location, Status> {
        let pod = self.pod(target, target.name).await?;
        let kubelet = self.kubelet_of(target, Pod::of(map(&pod)?)).await?;
        let ports: Vec<String> =
            PodPortForwardOptions::of(asked).ports().iter().map(|port| port.to_string()).collect();
        let query = if ports.is_empty() { Vec::new() } else { vec![("port", ports.join(","))] };
        let path = format!("/portForward/{}/{}", target.namespace, target.name);
        Ok(kubelet.location(Backend::Kubelet, path, query))
    }

    /// The location of the target of a proxy.
    pub(super) async fn proxy_location(&self, target: &Target<'_>, asked: &Map) -> Result<Location, Status> {
        // The options of all proxies are the same.
        let path = join(PodProxyOptions::of(asked).path());
        let location = match target.served.resource.as_str() {
            "pods" => self.pod_location(target).await?,
            "nodes" => self.node_location(target).await?,
            _ => self.service_location(target).await?,
        };
        Ok(Location { path, ..location })
    }

    async fn pod_location(&self, target: &Target<'_>) -> Result<Location, Status> {
        let ProxyName { tls, name, port } = ProxyName::of("pod", target.name)?;
        let pod = self.pod(target, name).await?;
        let pod = Pod::of(map(&pod)?);
        let port = match port {
            "" => {
                let mut all = pod.spec().containers().iter().map(|container| container.ports());
                let first = all.find_map(|ports| ports.get(0));
                first.and_then(|port| u16::try_from(port.container_port()).ok())
            }
            port => Some(number(target.name, "pod", port)?),
        };
        let address = pod.status().pod_ips().get(0).map_or("", |address| address.ip());
        if !address.parse().is_ok_and(is_proxyable) {
            return Err(Status::bad_request("address not allowed"));
        }
        Ok(at(Backend::Pod, tls, address, port))
    }

    async fn node_location(&self, target: &Target<'_>) -> Result<Location, Status> {
        let ProxyName { tls, name, port } = ProxyName::of("node", target.name)?;
        let Kubelet { host, port: own } = self.kubelet(target, name).await?;
        if port.is_empty() || port == own.to_string() {
            return Ok(at(Backend::ProxiedKubelet, true, &host, Some(own)));
        }
        Ok(at(Backend::Node, tls, &host, Some(number(target.name, "node", port)?)))
    }

    async fn service_location(&self, target: &Target<'_>) -> Result<Location, Status> {
        let ProxyName { tls, name, port } = ProxyName::of("service", target.name)?;
        let service;
        let port = match port.parse::<i64>() {
            Ok(number) => {
                service = self.core_object(target, "services", target.namespace, name).await?;
                let mut ports = Service::of(map(&service)?).spec().ports().iter();
                let own = ports.find(|port| port.port() == number);
                own.map(|port| port.name()).ok_or_else(|| {
                    let name = Quoted(name);
                    Status::service_unavailable(format!("no service port {number} found for service {name}"))
                })?
            }
            Err(_) => port,
        };
        let endpoints = self.core_object(target, "endpoints", target.namespace, name).await?;
        let none = |name: &str| {
            Status::service_unavailable(format!("no endpoints available for service {}", Quoted(name)))
        };
        let subsets = Endpoints::of(map(&endpoints)?).subsets();
        if subsets.is_empty() {
            return Err(none(name));
        }
        for subset in from_random(subsets.len()).filter_map(|at| subsets.get(at)) {
            let Some(port) = subset.ports().iter().find(|own| own.name() == port) else { continue };
            let addresses = subset.addresses();
            for address in from_random(addresses.len()).filter_map(|at| addresses.get(at)) {
                if self.is_of_pod(target, address).await {
                    return Ok(at(Backend::Pod, tls, address.ip(), u16::try_from(port.port()).ok()));
                }
            }
        }
        Err(none(target.name))
    }

    /// Whether an address of a service is that of a pod of its namespace: requests are proxied only to those.
    async fn is_of_pod(&self, target: &Target<'_>, address: EndpointAddress<'_>) -> bool {
        let Some(pod) = address.target_ref() else { return false };
        if pod.namespace() != target.namespace {
            return false;
        }
        let Ok(found) = self.core_object(target, "pods", target.namespace, pod.name()).await else {
            return false;
        };
        let Some(pod) = found.as_map() else { return false };
        Pod::of(pod).status().pod_ips().iter().any(|own| own.ip() == address.ip())
    }

    async fn pod(&self, target: &Target<'_>, name: &str) -> Result<Value, Status> {
        self.core_object(target, "pods", target.namespace, name).await
    }

    /// An object of the core group. The 404 for a missing one names the resource of the request, as in the
    /// reference.
    async fn core_object(
        &self,
        target: &Target<'_>,
        resource: &str,
        namespace: &str,
        name: &str,
    ) -> Result<Value, Status> {
        Target { name, ..*target }.check_name()?;
        match self.lookup(target, resource, namespace, name).await? {
            Some(entry) => self.decoded(target, resource, &entry).await,
            None => Err(Status::not_found(&target.served.group, &target.served.resource, name)),
        }
    }

    async fn kubelet_of(&self, target: &Target<'_>, pod: Pod<'_>) -> Result<Kubelet, Status> {
        match pod.spec().node_name() {
            "" => {
                let why = format!("pod {} does not have a host assigned", target.name);
                Err(Status::bad_request(why))
            }
            node => self.kubelet(target, node).await,
        }
    }

    /// Whether a node exists on paper.
    async fn is_on_paper(&self, target: &Target<'_>, name: &str) -> Result<bool, Status> {
        if !self.config().paper_nodes {
            return Ok(false);
        }
        let node = self.core_object(target, "nodes", "", name).await?;
        let annotations = Node::of(map(&node)?).metadata().annotations();
        Ok(annotations.get(PAPER.0) == Some(PAPER.1))
    }

    /// The kubelet of a node, at its preferred address.
    async fn kubelet(&self, target: &Target<'_>, name: &str) -> Result<Kubelet, Status> {
        if self.is_on_paper(target, name).await? {
            let why = format!("node {name} exists on paper: there is no container and no port to connect to");
            return Err(Status::bad_request(why));
        }
        let node = self.core_object(target, "nodes", "", name).await?;
        let status = Node::of(map(&node)?).status();
        let config = &self.config().kubelets;
        let addresses = status.addresses();
        let mut preferred = config.types.iter();
        let host = preferred.find_map(|wanted| addresses.iter().find(|own| own.r#type() == wanted));
        let Some(host) = host else {
            let known: Vec<String> =
                addresses.iter().map(|own| format!("{{{} {}}}", own.r#type(), own.address())).collect();
            let known = known.join(" ");
            return Err(unknown_reason_500(format!(
                "no preferred addresses found; known addresses: [{known}]"
            )));
        };
        let port = status.daemon_endpoints().kubelet_endpoint().port();
        let port = u16::try_from(port).ok().filter(|port| *port > 0).unwrap_or(config.port);
        Ok(Kubelet { host: host.address().to_owned(), port })
    }
}

/// The name in a path of a proxy: `name`, `name:port` or `scheme:name:port`.
struct ProxyName<'a> {
    tls: bool,
    name: &'a str,
    port: &'a str,
}

impl<'a> ProxyName<'a> {
    fn of(what: &str, written: &'a str) -> Result<Self, Status> {
        let parts: Vec<&str> = written.split(':').collect();
        let (scheme, name, port) = match *parts.as_slice() {
            [name] => ("", name, ""),
            [name, port] => ("", name, port),
            [scheme, name, port] => (scheme, name, port),
            _ => ("", "", ""),
        };
        if name.is_empty() || !matches!(scheme, "" | "http" | "https") {
            return Err(invalid(what, written));
        }
        Ok(Self { tls: scheme == "https", name, port })
    }
}

fn invalid(what: &str, written: &str) -> Status {
    Status::bad_request(format!("invalid {what} request {}", Quoted(written)))
}

/// The port number in a path. Any other text is refused, because it would become a part of the URL.
fn number(written: &str, what: &str, port: &str) -> Result<u16, Status> {
    let is_number = port.bytes().all(|byte| byte.is_ascii_digit());
    port.parse().ok().filter(|_| is_number).ok_or_else(|| invalid(what, written))
}

fn at(backend: Backend, tls: bool, host: &str, port: Option<u16>) -> Location {
    let (path, query) = (String::new(), String::new());
    Location { backend, tls, host: host.to_owned(), port, path, query, command: None }
}

/// Whether requests may be proxied to an address: not to loopback, link-local, multicast, broadcast and
/// unspecified addresses.
pub fn is_proxyable(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => {
            !(address.is_unspecified()
                || address.is_broadcast()
                || address.is_loopback()
                || address.is_multicast()
                || address.is_link_local())
        }
        IpAddr::V6(address) => {
            !(address.is_unspecified()
                || address.is_loopback()
                || address.is_multicast()
                || address.is_unicast_link_local())
        }
    }
}

/// All numbers below a bound, starting from a random one.
fn from_random(bound: usize) -> impl Iterator<Item = usize> {
    let first = if bound == 0 { 0 } else { fastrand::usize(..bound) };
    (first..bound).chain(0..first)
}

/// The requested container; without a name, the only container of the pod.
fn container<'a>(pod: Pod<'a>, asked: &'a str) -> Result<&'a str, Status> {
    let spec = pod.spec();
    let name = pod.metadata().name();
    let all = || {
        let init = spec.init_containers().iter().map(|container| container.name());
        let main = spec.containers().iter().map(|container| container.name());
        let ephemeral = spec.ephemeral_containers().iter().map(|container| container.name());
        init.chain(main).chain(ephemeral)
    };
    if !asked.is_empty() {
        return match all().any(|own| own == asked) {
            true => Ok(asked),
            false => Err(Status::bad_request(format!("container {asked} is not valid for pod {name}"))),
        };
    }
    let must = format!("a container name must be specified for pod {name}");
    match (spec.containers().len(), spec.containers().get(0)) {
        (1, Some(only)) => Ok(only.name()),
        (0, _) => Err(Status::bad_request(must)),
        _ => {
            let all: Vec<&str> = all().collect();
            Err(Status::bad_request(format!("{must}, choose one of: [{}]", all.join(" "))))
        }
    }
}

fn check_log_options(pod: &str, options: PodLogOptions<'_>) -> Result<(), Status> {
    let mut errors = field::List::new();
    if let Some(lines) = options.tail_lines().filter(|lines| *lines < 0) {
        let why = "must be greater than or equal to 0";
        errors.push(field::Error::invalid(&Path::new("tailLines"), lines, why));
    }
    let mut positive = |name: &'static str, number: Option<i64>| {
        if let Some(number) = number.filter(|number| *number < 1) {
            errors.push(field::Error::invalid(&Path::new(name), number, "must be greater than 0"));
        }
    };
    positive("limitBytes", options.limit_bytes());
    match (options.since_seconds(), options.since_time()) {
        (Some(_), Some(_)) => {
            let why = "at most one of `sinceTime` or `sinceSeconds` may be specified";
            errors.push(field::Error::forbidden(&Path::new(""), why));
        }
        (seconds, _) => positive("sinceSeconds", seconds),
    }
    if options.stream().is_some() {
        errors.push(field::Error::forbidden(&Path::new("stream"), "may not be specified"));
    }
    match errors.is_empty() {
        true => Ok(()),
        false => Err(Status::invalid("", "PodLogOptions", pod, &errors)),
    }
}

/// Encodes a query, sorted by name as in the reference.
fn encoded(mut query: Vec<(&str, String)>) -> String {
    query.sort_by_key(|(name, _)| *name);
    let pairs = query.iter().map(|(name, value)| {
        let mut pair = format!("{name}=");
        for byte in value.bytes() {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                    pair.push(char::from(byte));
                }
                b' ' => pair.push('+'),
                other => pair.push_str(&format!("%{other:02X}")),
            }
        }
        pair
    });
    pairs.collect::<Vec<_>>().join("&")
}

/// A path without empty segments, `.` and `..`; a slash at its end stays.
fn join(path: &str) -> String {
    if path.is_empty() {
        return String::new();
    }
    let mut segments: Vec<&str> = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => drop(segments.pop()),
            segment => segments.push(segment),
        }
    }
    let end = if path.ends_with('/') && !segments.is_empty() { "/" } else { "" };
    format!("/{}{end}", segments.join("/"))
}
