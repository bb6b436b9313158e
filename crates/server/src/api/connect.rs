//! Connections to kubelets, pods and services: the log of a container, commands, forwarded ports, and the
//! proxies.
//!
//! The registry gives the location of the backend ([`registry::Location`]):
//!
//! | request | what is sent to the backend | module |
//! |---|---|---|
//! | log | GET; its body is the response | `log` |
//! | HTTP through a proxy | the request, and back the response, with links that lead through the proxy | `proxy`, `rewrite` |
//! | log and commands of a container that exists on paper | nothing | `paper` |
//! | any other upgrade | the request; after that bytes as they are | `upgrade` |
//! | WebSocket with `v5.channel.k8s.io`, for a command | SPDY, with the channels as streams | `upgrade` |
//! | WebSocket with `SPDY/3.1+...`, for ports | SPDY, whose bytes are the messages of the WebSocket | `upgrade` |
//!
//! Only a few pieces are buffered in each direction: a client that stops reading stops the backend. Streams
//! have no time limit, and end when one side ends or when the server stops. A backend has [`OPENING`] to
//! agree to an upgrade; a client that disconnects ends the attempt. Each connection to a backend has a
//! [`Place`] among all connections of the server.

mod log;
mod paper;
mod proxy;
mod rewrite;
mod upgrade;

pub(in crate::api) use proxy::{add_forwarded_for, forwarded_headers, remove_answered_headers};
pub(in crate::api) use upgrade::{opened, switching};

use std::borrow::Cow;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use http::header::UPGRADE;
use http::{HeaderMap, StatusCode, Uri};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use kinds::{Action, Connect};
use object::quote::Quoted;
use outbound::{CertificateFiles, ForwardBody, ForwardError, ForwardTo, Forwarder, Guard, TlsError, Trust};
use registry::{Backend, ConnectOptions, Location, Target, Warnings};
use streams::websocket;

use super::Api;
use crate::request_info::RequestInfo;
use crate::{Body, Details, Error, Request, RequestBody, Response, Status};

/// How long a backend may take to agree to an upgrade, from the opening of its connection on.
const OPENING: Duration = Duration::from_secs(30);

/// The HTTP clients for kubelets, and for the targets of proxies.
#[derive(Debug)]
pub struct Backends {
    kubelet: Forwarder,
    unverified_kubelet: Forwarder,
    other: Forwarder,
}

/// The TLS configuration of connections to kubelets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KubeletClient {
    /// The files of the client certificate and its key.
    pub certificate: Option<(PathBuf, PathBuf)>,
    /// The authorities of kubelet certificates, in PEM. Without them the certificates are not verified.
    pub authorities: Option<Vec<u8>>,
}

impl Backends {
    /// The clients.
    pub fn new(kubelet: KubeletClient) -> Result<Self, TlsError> {
        let KubeletClient { certificate, authorities } = kubelet;
        let certificate = certificate.map(|(chain, key)| CertificateFiles::open(chain, key)).transpose()?;
        let forwarder = |trust, certificate| {
            Forwarder::new(ForwardTo { trust, certificate, server_name: None, http2: false })
        };
        let trust = match authorities {
            Some(pem) => Trust::from_pem(&pem)?,
            None => Trust::Anyone,
        };
        Ok(Self {
            kubelet: forwarder(trust, certificate.clone())?,
            unverified_kubelet: forwarder(Trust::Anyone, certificate)?,
            other: forwarder(Trust::Anyone, None)?,
        })
    }

    fn of(&self, backend: Backend) -> &Forwarder {
        match backend {
            Backend::Kubelet | Backend::ProxiedKubelet => &self.kubelet,
            Backend::UnverifiedKubelet => &self.unverified_kubelet,
            Backend::Node | Backend::Pod | Backend::Paper => &self.other,
        }
    }

    /// Sends a request to a location. A connection that is opened for it holds the place until it is closed.
    async fn send(
        &self,
        location: &Location,
        request: http::Request<ForwardBody>,
        place: Place,
    ) -> Result<http::Response<Incoming>, ForwardError> {
        self.of(location.backend).send(request, place.0).await
    }
}

/// The place of a connection to a backend among all connections of the server.
#[derive(Debug, Default)]
pub(in crate::api) struct Place(pub(in crate::api) Option<Guard>);

impl Place {
    /// A place for a connection that is opened for the client of a request.
    pub(in crate::api) fn of(request: &Request) -> Result<Self, Status> {
        let Some(connections) = &request.peer.connections else { return Ok(Self(None)) };
        match connections.admit_backend(request.peer.address.ip()) {
            Some(place) => Ok(Self(Some(Box::new(place)))),
            None => {
                let why = "too many connections to pods, nodes and services are open, please try again later";
                let details = Details { retry_after_seconds: 1, ..Details::default() };
                Err(Status { details: Some(details.into()), ..Status::service_unavailable(why) })
            }
        }
    }
}

/// 502 for a backend that switches to another protocol than the requested one.
pub(in crate::api) fn switched_unasked(asked: &HeaderMap, answered: &HeaderMap) -> Status {
    let protocol = |headers: &HeaderMap| match websocket::is_upgrade(headers) {
        true => headers.get(UPGRADE).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()),
        false => None,
    };
    let [answered, asked] = [answered, asked].map(|headers| protocol(headers).unwrap_or_default());
    let (answered, asked) = (Quoted(&answered), Quoted(&asked));
    Status {
        code: 502,
        ..failed(&format!("backend tried to switch protocol {answered} when {asked} was requested"))
    }
}

impl Api {
    /// Answers a request for a connection.
    pub(super) async fn connect(
        &self,
        request: &mut Request,
        target: &Target<'_>,
        info: &RequestInfo<'_>,
        warnings: Warnings,
    ) -> Result<Response, Error> {
        let path = proxied_path(info);
        let location = {
            let query: Vec<(Cow<'_, str>, Cow<'_, str>)> =
                request.query().pairs().map(|pair| (pair.name, pair.value)).collect();
            let options = ConnectOptions { query: &query, path: &path, warnings };
            self.registry.connect(target, &options).await?
        };
        let Some(location) = location else {
            let mut response = Response::new(Body::Empty);
            *response.status_mut() = StatusCode::NO_CONTENT;
            return Ok(response);
        };
        if location.backend == Backend::Paper {
            return self.on_paper(request, target, &location);
        }
        check_address(&location).await?;
        let place = Place::of(request)?;
        match target.subresource().map(|subresource| &subresource.action) {
            Some(Action::Connect(Connect::Log)) => self.log(request, &location, target.name(), place).await,
            Some(Action::Connect(Connect::Proxy)) => self.proxy(request, &location, info.path, place).await,
            Some(Action::Connect(connect)) => self.stream(request, location, *connect, place).await,
            _ => Err(Status::unknown_resource().into()),
        }
    }
}

/// The part of the path that is sent to the target of a proxy.
fn proxied_path(info: &RequestInfo<'_>) -> String {
    let mut path = info.path_rest.unwrap_or_default().to_owned();
    if !path.is_empty() && !path.starts_with('/') {
        path.insert(0, '/');
    }
    if info.path.ends_with('/') && !path.ends_with('/') {
        path.push('/');
    }
    path
}

/// Refuses to proxy to a node whose name resolves to an address that is not proxyable.
async fn check_address(location: &Location) -> Result<(), Status> {
    if !matches!(location.backend, Backend::Node | Backend::ProxiedKubelet) {
        return Ok(());
    }
    let addresses: Vec<IpAddr> = match location.host.parse() {
        Ok(address) => vec![address],
        Err(_) => {
            let found = tokio::net::lookup_host((location.host.as_str(), 0)).await;
            let found =
                found.map_err(|error| Status::bad_request(format!("lookup {}: {error}", location.host)))?;
            found.map(|address| address.ip()).collect()
        }
    };
    if addresses.is_empty() {
        return Err(Status::bad_request("no addresses for hostname"));
    }
    match addresses.into_iter().all(registry::is_proxyable) {
        true => Ok(()),
        false => Err(Status::bad_request("address not allowed")),
    }
}

/// The URI of a location, with a query.
fn uri(location: &Location, query: &str) -> Result<Uri, Status> {
    let mut path = escaped(&location.path);
    if path.is_empty() {
        path.push('/');
    }
    if !query.is_empty() {
        path = format!("{path}?{query}");
    }
    Uri::builder()
        .scheme(if location.tls { "https" } else { "http" })
        .authority(location.authority())
        .path_and_query(path)
        .build()
        .map_err(|error| failed(&error.to_string()))
}

/// Percent-encodes a path as the reference does.
pub(in crate::api) fn escaped(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => out.push(char::from(byte)),
            b'-' | b'_' | b'.' | b'~' | b'$' | b'&' | b'+' | b',' | b'/' | b':' | b';' | b'=' | b'@' => {
                out.push(char::from(byte));
            }
            other => out.push_str(&format!("%{other:02X}")),
        }
    }
    out
}

/// 500 without a reason and details.
fn failed(message: &str) -> Status {
    Status {
        code: 500,
        reason: crate::Reason::Unknown,
        message: message.to_owned(),
        details: None,
        token: String::new(),
    }
}

/// No body.
pub(in crate::api) fn empty() -> ForwardBody {
    http_body_util::Empty::new().map_err(|never| match never {}).boxed_unsync()
}

/// The body of a request, for the backend.
pub(in crate::api) fn handed_on(body: RequestBody) -> ForwardBody {
    body.map_err(Into::into).boxed_unsync()
}

#[cfg(test)]
mod tests;
