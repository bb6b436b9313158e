//! One group version of a server behind this one.

use std::fmt;
use std::sync::Arc;

use auth::User;
use http::header::HOST;
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderValue, Request, Response, Uri};
use hyper::body::Incoming;
use object::Text;
use outbound::{CertificateFiles, ForwardBody, ForwardTo, Forwarder, Guard, ResolveService, Trust};

use crate::documents::{V2, V3};
use crate::headers;
use crate::registration::{Registration, RemoteSpec, ServiceKey};

/// A group version that another server serves, with what is known of it.
#[derive(Clone)]
pub struct Remote {
    pub(crate) registration: Arc<Registration>,
    spec: Arc<RemoteOf>,
    backend: Arc<Backend>,
    /// Its part of aggregated discovery.
    pub(crate) discovery: Arc<str>,
    /// What it says of itself as OpenAPI v2; `None` as long as nobody has told.
    pub(crate) v2: Option<Arc<V2>>,
    /// What it says of itself as OpenAPI v3; `None` as long as nobody has told.
    pub(crate) v3: Option<Arc<V3>>,
}

/// The names of a group version.
#[derive(Debug, PartialEq, Eq)]
struct RemoteOf {
    group: Text,
    version: Text,
}

/// The way to a server.
pub(crate) struct Backend {
    service: ServiceKey,
    resolve: ResolveService,
    clients: Result<Clients, String>,
}

struct Clients {
    requests: Forwarder,
    upgrades: Forwarder,
}

/// What a request to a server is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// A request with an answer.
    Request,
    /// A request to speak another protocol than HTTP.
    Upgrade,
}

/// Why a request was not answered by its server, in the words of the reference.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The server is not available, or its service has no address.
    #[error("service unavailable")]
    Unavailable,
    /// The connection cannot be set up as its API service says.
    #[error("{0}")]
    Setup(String),
    /// There was no answer.
    #[error("error trying to reach service: {0}")]
    Unreachable(String),
}

impl Refusal {
    /// The status code.
    pub fn code(&self) -> u16 {
        match self {
            Self::Unavailable | Self::Unreachable(_) => 503,
            Self::Setup(_) => 500,
        }
    }
}

impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Remote").field("name", &self.registration.name).finish_non_exhaustive()
    }
}

impl Remote {
    /// The group version of a registration with a server, reached by `known` if that is the same way.
    pub(crate) fn new(
        registration: &Arc<Registration>,
        spec: &RemoteSpec,
        known: Option<&Self>,
        config: &crate::Config,
    ) -> Self {
        let same = known.filter(|known| {
            known.registration.remote.as_ref().is_some_and(|before| before.is_reached_as(spec))
        });
        let names = RemoteOf { group: spec.group.as_str().into(), version: spec.version.as_str().into() };
        let stale = || crate::discovery::empty(&spec.version, crate::discovery::Freshness::Stale).into();
        Self {
            registration: registration.clone(),
            spec: Arc::new(names),
            backend: match same {
                Some(known) => known.backend.clone(),
                None => Arc::new(Backend::new(spec, config)),
            },
            discovery: known.map_or_else(stale, |known| known.discovery.clone()),
            v2: known.and_then(|known| known.v2.clone()),
            v3: known.and_then(|known| known.v3.clone()),
        }
    }

    /// The name of its API service.
    pub fn name(&self) -> &str {
        &self.registration.name
    }

    /// The group.
    pub fn group(&self) -> &str {
        &self.spec.group
    }

    /// The version.
    pub fn version(&self) -> &str {
        &self.spec.version
    }

    /// Its priorities.
    pub fn priorities(&self) -> crate::Priorities {
        let Registration { group_priority, version_priority, .. } = *self.registration;
        crate::Priorities { group: group_priority, version: version_priority }
    }

    /// Its part of aggregated discovery, as JSON.
    pub fn discovery(&self) -> &Arc<str> {
        &self.discovery
    }

    /// Its OpenAPI v2 document, if one is known.
    pub fn v2(&self) -> Option<&Arc<V2>> {
        self.v2.as_ref()
    }

    /// Its OpenAPI v3 documents, if they are known.
    pub fn v3(&self) -> Option<&Arc<V3>> {
        self.v3.as_ref()
    }

    pub(crate) fn remote_spec(&self) -> Option<&RemoteSpec> {
        self.registration.remote.as_deref()
    }

    /// Whether the server answered when it was asked last.
    pub fn is_available(&self) -> bool {
        self.remote_spec().is_some_and(RemoteSpec::is_available)
    }

    /// The host and port of the server now, for a request of a client.
    pub fn address(&self) -> Result<String, Refusal> {
        if !self.is_available() {
            return Err(Refusal::Unavailable);
        }
        self.backend.address()
    }

    /// Sets who the user of a request is, and sends it to the server at an address. A connection that is
    /// opened for it holds the guard until it is closed.
    pub async fn send(
        &self,
        address: &str,
        mut request: Request<ForwardBody>,
        user: &User,
        uids: bool,
        kind: Use,
        guard: Option<Guard>,
    ) -> Result<Response<Incoming>, Refusal> {
        headers::set(request.headers_mut(), user, uids)
            .map_err(|invalid| Refusal::Unreachable(invalid.to_string()))?;
        self.backend.send(address, request, kind, guard).await
    }

    pub(crate) fn backend(&self) -> &Backend {
        &self.backend
    }
}

impl Backend {
    fn new(spec: &RemoteSpec, config: &crate::Config) -> Self {
        let clients = Clients::new(spec, config.certificate.clone());
        Self { service: spec.service.clone(), resolve: config.resolve.clone(), clients }
    }

    /// Host and port.
    pub(crate) fn address(&self) -> Result<String, Refusal> {
        if let Err(why) = &self.clients {
            return Err(Refusal::Setup(why.clone()));
        }
        (self.resolve)(&self.service.service()).map_err(|why| {
            let ServiceKey { namespace, name, .. } = &self.service;
            log::error!(namespace = namespace.as_str(), service = name.as_str(), why = why.as_str(); "a service behind an API service has no address");
            Refusal::Unavailable
        })
    }

    /// Sends a request, whose URI is a path and a query.
    pub(crate) async fn send(
        &self,
        address: &str,
        request: Request<ForwardBody>,
        kind: Use,
        guard: Option<Guard>,
    ) -> Result<Response<Incoming>, Refusal> {
        let clients = self.clients.as_ref().map_err(|why| Refusal::Setup(why.clone()))?;
        let client = match kind {
            Use::Request => &clients.requests,
            Use::Upgrade => &clients.upgrades,
        };
        let request = addressed(address, request).map_err(Refusal::Unreachable)?;
        client.send(request, guard).await.map_err(|why| Refusal::Unreachable(why.to_string()))
    }
}

impl Clients {
    fn new(spec: &RemoteSpec, certificate: Option<CertificateFiles>) -> Result<Self, String> {
        let trust = match (spec.skips_verification, spec.ca_bundle.as_slice()) {
            (true, _) => Trust::Anyone,
            (false, []) => Trust::System,
            (false, pem) => Trust::from_pem(pem).map_err(|_| {
                "unable to load root certificates: unable to parse bytes as PEM block".to_owned()
            })?,
        };
        let ServiceKey { namespace, name, .. } = &spec.service;
        let to = |http2| ForwardTo {
            trust: trust.clone(),
            server_name: Some(format!("{name}.{namespace}.svc")),
            certificate: certificate.clone(),
            http2,
        };
        let forwarder = |http2| Forwarder::new(to(http2)).map_err(|error| error.to_string());
        Ok(Self { requests: forwarder(true)?, upgrades: forwarder(false)? })
    }
}

/// A request with the address of its server.
pub(crate) fn addressed(
    address: &str,
    mut request: Request<ForwardBody>,
) -> Result<Request<ForwardBody>, String> {
    let authority: Authority = address.parse().map_err(|error| format!("{address}: {error}"))?;
    let host = HeaderValue::try_from(address).map_err(|error| error.to_string())?;
    let mut parts = std::mem::take(request.uri_mut()).into_parts();
    parts.scheme = Some(Scheme::HTTPS);
    parts.authority = Some(authority);
    parts.path_and_query.get_or_insert(PathAndQuery::from_static("/"));
    *request.uri_mut() = Uri::from_parts(parts).map_err(|error| error.to_string())?;
    request.headers_mut().insert(HOST, host);
    Ok(request)
}
