//! A request as handlers see it: its head, its body, and the peer of the connection.

use std::fmt;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use auth::{Authenticators, Certified};
use bytes::Bytes;
use http::header::HeaderName;
use http::request::Parts;
use http::{HeaderMap, Method, Uri};
use http_body::{Frame, SizeHint};
use observe::Observation;
use rustls::ProtocolVersion;
use rustls::pki_types::CertificateDer;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::connections::Connections;
use crate::cost::Meter;
use crate::negotiate::{ClientPreferences, ErrorFormat, Negotiator};
use crate::request_info;
use crate::unsent::Unsent;
use crate::{Limits, Query, Status, deadline};

/// One request.
#[derive(Debug)]
pub struct Request {
    /// Method, URI, version, headers.
    pub head: Parts,
    /// The body; read it with [`crate::body::read`].
    pub body: RequestBody,
    /// The other end of the connection, shared by all its requests.
    pub peer: Arc<Peer>,
    /// The facts about the request that layers and the API share.
    pub(crate) context: RequestContext,
}

/// The facts about a request that layers and the API share. They are found once, when the request arrives.
#[derive(Debug)]
pub(crate) struct RequestContext {
    /// What is noted of the request while it is handled.
    pub(crate) observation: Observation,
    /// What the request costs; its layer connects it.
    pub(crate) meter: Meter,
    /// The audit events of the request, if there are any.
    pub(crate) trail: Option<Arc<audit::Trail>>,
    /// When the request arrived; its timeout counts from here.
    pub(crate) received: Instant,
    /// The decoded path; `None` if a percent escape is invalid.
    pub(crate) path: Option<Arc<str>>,
    /// The URI as the client wrote it, if the one in the head is what follows the root of a fork.
    pub(crate) whole_uri: Option<Box<Uri>>,
    /// The query parameter `timeout`, or the 400 for an invalid one.
    pub(crate) timeout: Result<Option<Duration>, Box<Status>>,
    /// The formats that the client accepts.
    pub(crate) preferences: ClientPreferences,
    /// The format of a `Status` that refuses the request. The layers around the API never answer in CBOR, as
    /// in the reference; the API sets its own format if CBOR is enabled.
    pub(crate) error_format: ErrorFormat,
}

impl RequestContext {
    fn of(head: &Parts) -> Self {
        let query = Query::new(head.uri.query().unwrap_or_default());
        let preferences = ClientPreferences::of(&head.headers, query);
        Self {
            observation: Observation::begin(audit_id(&head.headers)),
            meter: Meter::default(),
            trail: None,
            received: Instant::now(),
            path: request_info::decode(head.uri.path()).map(Arc::from),
            whole_uri: None,
            timeout: deadline::requested(query).map_err(Box::new),
            error_format: Negotiator::default().error_format(&preferences),
            preferences,
        }
    }
}

pub(crate) const AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");

/// The id by which audit names a request: its own, or a new one.
fn audit_id(headers: &HeaderMap) -> Box<str> {
    let given = headers.get(AUDIT_ID).and_then(|id| id.to_str().ok());
    match given.filter(|id| !id.is_empty() && id.len() <= 64) {
        Some(id) => id.into(),
        None => Box::from(&*object::name::random_uid()),
    }
}

impl Request {
    /// A request from the parts hyper gives.
    pub fn new(request: http::Request<hyper::body::Incoming>, peer: Arc<Peer>) -> Self {
        let (head, body) = request.into_parts();
        Self { context: RequestContext::of(&head), head, body: RequestBody::Incoming(body), peer }
    }

    /// A request of this process, without a socket.
    pub fn in_process(request: http::Request<Bytes>, peer: Arc<Peer>) -> Self {
        let (head, bytes) = request.into_parts();
        Self { context: RequestContext::of(&head), head, body: RequestBody::Whole(Some(bytes)), peer }
    }

    /// The method.
    pub fn method(&self) -> &Method {
        &self.head.method
    }

    /// The URI as the client wrote it; within a fork, what follows the root of the fork.
    pub fn uri(&self) -> &Uri {
        &self.head.uri
    }

    /// The URI as the client wrote it, also within a fork.
    pub(crate) fn whole_uri(&self) -> &Uri {
        self.context.whole_uri.as_deref().unwrap_or(&self.head.uri)
    }

    /// The request as the handler sees it whose root is at the first `root` bytes of the path.
    pub(crate) fn below(mut self, root: usize) -> Self {
        let whole = self.head.uri.clone();
        let path = whole.path().get(root..).filter(|path| !path.is_empty()).unwrap_or("/");
        let written = match whole.query() {
            Some(query) => format!("{path}?{query}"),
            None => path.to_owned(),
        };
        let mut parts = whole.clone().into_parts();
        // A part of a valid path is a valid path.
        parts.path_and_query = written.parse().ok();
        if let Ok(uri) = Uri::from_parts(parts) {
            self.context.path = request_info::decode(uri.path()).map(Arc::from);
            self.context.whole_uri = Some(Box::new(whole));
            self.head.uri = uri;
        }
        self
    }

    /// The path as the client wrote it: still percent-encoded.
    pub fn raw_path(&self) -> &str {
        self.head.uri.path()
    }

    /// The query parameters, decoded.
    pub fn query(&self) -> Query<'_> {
        Query::new(self.head.uri.query().unwrap_or_default())
    }

    /// The headers.
    pub fn headers(&self) -> &HeaderMap {
        &self.head.headers
    }

    /// The text of a header; empty if it is not there, or not text.
    pub fn header(&self, name: HeaderName) -> &str {
        self.head.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }
}

/// The other end of a connection.
pub struct Peer {
    /// The remote address of the connection.
    pub address: SocketAddr,
    /// The certificates the peer presented, its own first; empty when it presented none.
    ///
    /// TLS has verified that the peer owns the key of the first one, and nothing else: neither its issuer,
    /// nor its dates, nor its purpose.
    pub certificates: Vec<CertificateDer<'static>>,
    /// The version of TLS that was agreed on.
    pub tls: Option<ProtocolVersion>,
    /// The verified certificates, from the first request on.
    pub(crate) certified: Mutex<Option<Arc<Certified>>>,
    /// Whether any request of the connection was authenticated.
    pub(crate) authenticated: AtomicBool,
    /// The budget of unsent bytes, shared by all connections of the server.
    pub(crate) unsent: Arc<Unsent>,
    /// All connections of the server; `None` for a request of this process.
    pub(crate) connections: Option<Arc<Connections>>,
}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Peer").field("address", &self.address).field("tls", &self.tls).finish_non_exhaustive()
    }
}

impl Peer {
    /// A peer without TLS, at `address`.
    pub fn plain(address: SocketAddr) -> Self {
        Self {
            address,
            certificates: Vec::new(),
            tls: None,
            certified: Mutex::default(),
            authenticated: AtomicBool::new(false),
            unsent: Arc::new(Unsent::new(&Limits::default())),
            connections: None,
        }
    }

    /// Verifies the certificates: once, and again when the authorities have changed.
    pub(crate) fn certify(&self, authenticators: &Authenticators) -> Option<Arc<Certified>> {
        if self.certificates.is_empty() {
            return None;
        }
        let mut known = self.certified.lock().unwrap_or_else(PoisonError::into_inner);
        *known = authenticators.certify(&self.certificates, known.as_ref());
        known.clone()
    }

    /// Whether any request of the connection was authenticated.
    pub(crate) fn is_authenticated(&self) -> bool {
        self.authenticated.load(Ordering::Acquire)
    }

    /// Notes that a request of the connection was authenticated.
    pub(crate) fn set_authenticated(&self) {
        if !self.is_authenticated() {
            self.authenticated.store(true, Ordering::Release);
        }
    }
}

/// The body of a request.
#[derive(Debug)]
pub enum RequestBody {
    /// Arriving over a connection.
    Incoming(hyper::body::Incoming),
    /// Arriving over a connection. The layer `UnwantedBody` gets back the part that the handlers do not read.
    Lent(Lent),
    /// In memory; `None` once it has been read.
    Whole(Option<Bytes>),
}

/// A body that is sent back to its owner when it is dropped.
#[derive(Debug)]
pub struct Lent {
    body: Option<hyper::body::Incoming>,
    back: Option<oneshot::Sender<hyper::body::Incoming>>,
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let (Some(body), Some(back)) = (self.body.take(), self.back.take()) {
            // Fails if the owner does not wait any more.
            let _ = back.send(body);
        }
    }
}

impl RequestBody {
    /// Lends a body that is arriving. The receiver gets it back when the borrower drops it. `None` if the
    /// body has ended.
    pub(crate) fn lend(&mut self) -> Option<oneshot::Receiver<hyper::body::Incoming>> {
        if http_body::Body::is_end_stream(self) {
            return None;
        }
        match std::mem::replace(self, Self::Whole(None)) {
            Self::Incoming(body) => {
                let (back, receiver) = oneshot::channel();
                *self = Self::Lent(Lent { body: Some(body), back: Some(back) });
                Some(receiver)
            }
            other => {
                *self = other;
                None
            }
        }
    }
}

impl http_body::Body for RequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        match self.get_mut() {
            Self::Incoming(incoming) => Pin::new(incoming).poll_frame(cx),
            Self::Lent(lent) => match &mut lent.body {
                Some(incoming) => Pin::new(incoming).poll_frame(cx),
                None => Poll::Ready(None),
            },
            Self::Whole(bytes) => {
                Poll::Ready(bytes.take().filter(|b| !b.is_empty()).map(|b| Ok(Frame::data(b))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Incoming(incoming) => incoming.is_end_stream(),
            Self::Lent(lent) => lent.body.as_ref().is_none_or(|incoming| incoming.is_end_stream()),
            Self::Whole(bytes) => bytes.as_ref().is_none_or(Bytes::is_empty),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Incoming(incoming) => incoming.size_hint(),
            Self::Lent(lent) => lent.body.as_ref().map(http_body::Body::size_hint).unwrap_or_default(),
            Self::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |b| b.len() as u64)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_below_a_root_has_the_rest_of_the_path() {
        let root = "/keelson/v1/forks/a/server".len();
        for (uri, path, decoded) in [
            ("/keelson/v1/forks/a/server", "/", "/"),
            ("/keelson/v1/forks/a/server?x=1", "/?x=1", "/"),
            (
                "https://h:1/keelson/v1/forks/a/server/api/v1/pods/%61?watch=1",
                "/api/v1/pods/%61?watch=1",
                "/api/v1/pods/a",
            ),
        ] {
            let request = http::Request::builder().uri(uri).body(Bytes::new()).unwrap();
            let peer = Arc::new(Peer::plain(([127, 0, 0, 1], 1).into()));
            let request = Request::in_process(request, peer).below(root);
            assert_eq!(request.uri().path_and_query().unwrap(), path);
            assert_eq!(request.context.path.as_deref(), Some(decoded));
            assert_eq!(request.whole_uri().to_string(), uri);
        }
    }
}
