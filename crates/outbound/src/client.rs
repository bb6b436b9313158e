//! HTTP over TLS, with one TLS identity. Connections are kept and shared by all requests to the same address.

use crate::Error;
use crate::families;
use crate::held::{self, Held};
use crate::tls::{Tls, TlsError};
use crate::trace;
use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, LOCATION, RETRY_AFTER, USER_AGENT};
use http::{HeaderValue, Method, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::pki_types::ServerName;
use std::error::Error as StdError;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout, timeout_at};
use tower_service::Service;

/// The longest time for a connection, from the lookup of its name to the end of the TLS handshake.
const CONNECT: Duration = Duration::from_secs(10);
/// How long an unused connection is kept.
pub(crate) const IDLE: Duration = Duration::from_secs(90);
/// The most unused connections that are kept for an address.
pub(crate) const MOST_IDLE: usize = 25;
/// The most requests of a client that are under way at a time; more wait, inside their deadlines. Without
/// HTTP/2 each has a connection.
const MOST_REQUESTS: usize = 200;
/// After this silence an HTTP/2 connection is pinged.
const PING_AFTER: Duration = Duration::from_secs(30);
/// How long the answer to a ping may take.
const PING_TIMEOUT: Duration = Duration::from_secs(15);
/// The most bytes of the headers of an answer.
pub(crate) const MOST_HEADER_BYTES: u32 = 64 << 10;

const AGENT: &str = concat!("keelson/", env!("CARGO_PKG_VERSION"));

/// The bounds of a request.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// When the whole answer has to be received.
    pub deadline: Instant,
    /// The most bytes of the body of the answer.
    pub most_bytes: usize,
}

impl Bounds {
    /// The bounds of a request that starts now.
    pub fn within(timeout: Duration, most_bytes: usize) -> Self {
        Self { deadline: Instant::now() + timeout, most_bytes }
    }
}

/// An answer.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status code.
    pub status: StatusCode,
    /// The content type; empty without one.
    pub content_type: String,
    /// When the server wants to be asked again.
    pub retry_after: Option<Duration>,
    /// The body.
    pub body: Bytes,
}

/// Finds the address of a server, as host and port, whenever a connection is opened: that of a service of the
/// cluster.
pub type Resolve = Arc<dyn Fn() -> Result<String, String> + Send + Sync>;

/// A client. Clones share its connections.
#[derive(Clone)]
pub struct Client {
    http: legacy::Client<Connector, Full<Bytes>>,
    under_way: Arc<Semaphore>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").finish_non_exhaustive()
    }
}

impl Client {
    /// A client with a TLS identity. It has no connections yet.
    pub fn new(tls: &Tls) -> Result<Self, TlsError> {
        Self::with_resolver(tls, None)
    }

    /// A client whose connections go to the address that `resolve` finds, whatever the host in the address of
    /// a request.
    pub fn with_resolver(tls: &Tls, resolve: Option<Resolve>) -> Result<Self, TlsError> {
        let connector = Connector::new(tls, resolve, Versions::All)?;
        let http = legacy::Client::builder(TokioExecutor::new())
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .pool_max_idle_per_host(MOST_IDLE)
            .http2_keep_alive_interval(PING_AFTER)
            .http2_keep_alive_timeout(PING_TIMEOUT)
            .http2_max_header_list_size(MOST_HEADER_BYTES)
            .http1_max_buf_size(MOST_HEADER_BYTES as usize)
            .build(connector);
        Ok(Self { http, under_way: Arc::new(Semaphore::new(MOST_REQUESTS)) })
    }

    /// Asks for a document.
    pub async fn get(&self, url: &Uri, accept: &'static str, bounds: Bounds) -> Result<Answer, Error> {
        let request = Request::get(url).header(ACCEPT, accept);
        self.send("Get", request, Bytes::new(), bounds).await
    }

    /// Asks for a document, with credentials in the header `Authorization`.
    pub async fn get_authorized(
        &self,
        url: &Uri,
        authorization: &HeaderValue,
        accept: &'static str,
        bounds: Bounds,
    ) -> Result<Answer, Error> {
        let request = Request::get(url).header(ACCEPT, accept);
        self.send("Get", authorized(request, authorization), Bytes::new(), bounds).await
    }

    /// Sends JSON, with credentials in the header `Authorization` if there are some.
    pub async fn post_json(
        &self,
        url: &Uri,
        authorization: Option<&HeaderValue>,
        body: Bytes,
        bounds: Bounds,
    ) -> Result<Answer, Error> {
        let mut request = Request::builder()
            .method(Method::POST)
            .uri(url)
            .header(ACCEPT, "application/json, */*")
            .header(CONTENT_TYPE, "application/json");
        if let Some(value) = authorization {
            request = authorized(request, value);
        }
        self.send("Post", request, body, bounds).await
    }

    async fn send(
        &self,
        method: &'static str,
        request: http::request::Builder,
        body: Bytes,
        bounds: Bounds,
    ) -> Result<Answer, Error> {
        let uri = request.uri_ref().cloned().unwrap_or_default();
        let (url, size, begin) = (shown(&uri), body.len(), Instant::now());
        let request = trace::add(request)
            .header(USER_AGENT, AGENT)
            .body(Full::new(body))
            .map_err(|error| Error::Request(error.to_string()))?;
        let exchange = async {
            let waiting = families::WAITING.with([]).guard();
            // The semaphore is never closed.
            let _permit = self.under_way.acquire().await;
            drop(waiting);
            let _counted = families::UNDER_WAY.with([]).guard();
            let response = self.http.request(request).await.map_err(|error| {
                let (url, why) = (url.clone(), cause(&error));
                if error.is_connect() {
                    Error::Connect { method, url, why }
                } else if is_malformed(&error) {
                    let url = object::quote::quote(&url);
                    Error::Answer(format!("{method} {url}: malformed HTTP response: {why}"))
                } else {
                    Error::Lost { method, url, why }
                }
            })?;
            read(response, method, &url, bounds.most_bytes).await
        };
        let outcome = match timeout_at(bounds.deadline, exchange).await {
            Ok(outcome) => outcome,
            Err(_) => Err(Error::Timeout { method, url }),
        };
        let counted = outcome.as_ref().map(|answer| (answer.status.as_u16(), answer.body.len()));
        families::requested(method, &uri, size, begin.elapsed(), counted);
        outcome
    }
}

/// A request with credentials.
fn authorized(request: http::request::Builder, authorization: &HeaderValue) -> http::request::Builder {
    let mut value = authorization.clone();
    value.set_sensitive(true);
    request.header(AUTHORIZATION, value)
}

async fn read(
    response: Response<Incoming>,
    method: &'static str,
    url: &str,
    limit: usize,
) -> Result<Answer, Error> {
    let (head, body) = response.into_parts();
    let text = |name| head.headers.get(name).and_then(|value| value.to_str().ok());
    if head.status.is_redirection() && text(LOCATION).is_some() {
        let code = head.status.as_u16();
        let message =
            format!("{method} {}: redirects are not followed (status {code})", object::quote::quote(url));
        return Err(Error::Status { code, message, retry_after: None });
    }
    let body = Limited::new(body, limit).collect().await.map_err(|error| {
        if error.is::<http_body_util::LengthLimitError>() {
            return Error::TooLarge { method, url: url.to_owned(), limit };
        }
        Error::Lost { method, url: url.to_owned(), why: cause(&*error) }
    })?;
    Ok(Answer {
        status: head.status,
        content_type: text(CONTENT_TYPE).unwrap_or_default().to_owned(),
        retry_after: text(RETRY_AFTER).and_then(|value| value.parse().ok()).map(Duration::from_secs),
        body: body.to_bytes(),
    })
}

/// An address without a user and password.
pub(crate) fn shown(url: &Uri) -> String {
    let host = url.authority().map(http::uri::Authority::as_str).unwrap_or_default();
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
    let path = url.path_and_query().map(http::uri::PathAndQuery::as_str).unwrap_or_default();
    format!("{}://{host}{path}", url.scheme_str().unwrap_or_default())
}

/// The innermost cause of an error, which is the most specific one.
pub(crate) fn cause(error: &(dyn StdError + 'static)) -> String {
    let mut inner = error;
    while let Some(next) = inner.source() {
        inner = next;
    }
    crate::refused::words(inner).unwrap_or_else(|| inner.to_string())
}

/// Whether the answer is not HTTP.
fn is_malformed(error: &legacy::Error) -> bool {
    error.source().and_then(|source| source.downcast_ref()).is_some_and(hyper::Error::is_parse)
}

/// Opens connections, each in a bounded time.
#[derive(Clone)]
pub(crate) struct Connector {
    https: HttpsConnector<HttpConnector>,
    resolve: Option<Resolve>,
}

/// The versions of HTTP that are offered to servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Versions {
    /// HTTP/2 and HTTP/1.1.
    All,
    /// HTTP/1.1, which has upgrades.
    Http1,
}

impl Connector {
    pub(crate) fn new(tls: &Tls, resolve: Option<Resolve>, versions: Versions) -> Result<Self, TlsError> {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_keepalive(Some(PING_AFTER));
        let mut builder = HttpsConnectorBuilder::new().with_tls_config(tls.config()?).https_or_http();
        if let Some(name) = &tls.server_name {
            let fixed = ServerName::try_from(name.clone()).map_err(|_| TlsError::ServerName(name.clone()))?;
            builder = builder.with_server_name_resolver(FixedServerNameResolver::new(fixed));
        }
        let https = match versions {
            Versions::All => builder.enable_all_versions().wrap_connector(tcp),
            Versions::Http1 => builder.enable_http1().wrap_connector(tcp),
        };
        Ok(Self { https, resolve })
    }
}

impl Service<Uri> for Connector {
    type Response = Held;
    type Error = Box<dyn StdError + Send + Sync>;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.https.poll_ready(context)
    }

    fn call(&mut self, url: Uri) -> Self::Future {
        let url = match &self.resolve {
            None => url,
            Some(resolve) => match resolved(url, resolve) {
                Ok(url) => url,
                Err(why) => return Box::pin(std::future::ready(Err(why.into()))),
            },
        };
        let address = address(&url);
        let guard = held::take_guard();
        let connecting = self.https.call(url);
        Box::pin(async move {
            match timeout(CONNECT, connecting).await {
                Ok(Ok(stream)) => Ok(Held::new(stream, guard)),
                Ok(Err(error)) => Err(match refused(&*error) {
                    Some(why) => format!("dial tcp {address}: connect: {why}").into(),
                    None => error,
                }),
                Err(_) => Err(format!("no connection within {} s", CONNECT.as_secs()).into()),
            }
        })
    }
}

/// An address with the host and port that were found for it.
fn resolved(url: Uri, resolve: &Resolve) -> Result<Uri, String> {
    let authority = resolve()?;
    let mut parts = url.into_parts();
    parts.authority = Some(authority.parse().map_err(|error| format!("{authority}: {error}"))?);
    Uri::from_parts(parts).map_err(|error| error.to_string())
}

/// Host and port.
fn address(url: &Uri) -> String {
    let port = url.port_u16().unwrap_or(if url.scheme_str() == Some("http") { 80 } else { 443 });
    format!("{}:{port}", url.host().unwrap_or_default())
}

/// The error of the system about a connection that could not be opened, in the words of the reference.
fn refused(error: &(dyn StdError + 'static)) -> Option<String> {
    if error.to_string() != "tcp connect error" {
        return None;
    }
    let why = cause(error);
    let why = why.split(" (os error").next().unwrap_or_default();
    Some(why.to_ascii_lowercase())
}
