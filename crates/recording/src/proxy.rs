//! The proxy: each request is handed on with other credentials, and recorded with its answer.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use bytes::Bytes;
use http::header::{
    ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HeaderName,
    IF_NONE_MATCH, TE, TRAILER, TRANSFER_ENCODING, UPGRADE, USER_AGENT, WARNING,
};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use outbound::Upstream;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use crate::body;
use crate::file::{Answered, Body, Sent};
use crate::recorder::Recorder;
use crate::tee::Tee;

/// The longest body of a request; servers take less.
const LONGEST: usize = 64 << 20;
/// How long a client may take for the handshake, and for the head of a request.
const PATIENCE: Duration = Duration::from_secs(30);
/// The pause after a connection could not be accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Headers of one connection, which are not handed on.
static OF_THE_CONNECTION: [HeaderName; 7] = [
    CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
];
/// Headers of answers that are recorded.
static RECORDED: [HeaderName; 3] = [CONTENT_TYPE, WARNING, HeaderName::from_static("retry-after")];

type ProxyBody = UnsyncBoxBody<Bytes, Box<dyn std::error::Error + Send + Sync>>;

/// A proxy in front of a server.
pub(crate) struct Proxy {
    upstream: Upstream,
    recorder: Arc<Recorder>,
    token: String,
}

impl Proxy {
    /// A proxy for clients that have a token.
    pub(crate) fn new(upstream: Upstream, recorder: Recorder, token: String) -> Self {
        Self { upstream, recorder: Arc::new(recorder), token }
    }

    /// Serves without an end.
    pub(crate) async fn run(self: Arc<Self>, listener: TcpListener, tls: TlsAcceptor) {
        loop {
            match listener.accept().await {
                Ok((socket, _)) => {
                    tasks::once(Arc::clone(&self).serve(socket, tls.clone()));
                }
                Err(error) => {
                    log::warn!(error:%; "a connection could not be accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    async fn serve(self: Arc<Self>, socket: TcpStream, tls: TlsAcceptor) {
        let _ = socket.set_nodelay(true);
        let Ok(Ok(stream)) = tokio::time::timeout(PATIENCE, tls.accept(socket)).await else { return };
        let service = hyper::service::service_fn(move |request| {
            let proxy = Arc::clone(&self);
            async move { Ok::<_, Infallible>(proxy.answer(request).await) }
        });
        let mut server = auto::Builder::new(TokioExecutor::new());
        server.http1().timer(TokioTimer::new()).header_read_timeout(PATIENCE);
        server.http2().timer(TokioTimer::new());
        if let Err(error) = server.serve_connection_with_upgrades(TokioIo::new(stream), service).await {
            log::debug!(error:%; "a connection ended with an error");
        }
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<ProxyBody> {
        if !self.is_allowed(request.headers()) {
            return refusal(StatusCode::UNAUTHORIZED, "the proxy takes the token of its own kubeconfig only");
        }
        let is_upgrade = request.headers().contains_key(UPGRADE);
        match self.forward(request, is_upgrade).await {
            Ok(response) => response,
            Err((status, why)) => {
                log::warn!(error = why.as_str(); "a request was not handed on, and is not in the recording");
                refusal(status, &why)
            }
        }
    }

    fn is_allowed(&self, headers: &HeaderMap) -> bool {
        let given = headers.get(AUTHORIZATION).map(HeaderValue::as_bytes).unwrap_or_default();
        let given = given.strip_prefix(b"Bearer ").unwrap_or_default();
        verify_slices_are_equal(given, self.token.as_bytes()).is_ok()
    }

    async fn forward(
        &self,
        mut request: Request<Incoming>,
        is_upgrade: bool,
    ) -> Result<Response<ProxyBody>, (StatusCode, String)> {
        let client_side = is_upgrade.then(|| hyper::upgrade::on(&mut request));
        let (mut parts, body) = request.into_parts();
        let body = Limited::new(body, LONGEST).collect().await.map_err(|error| {
            let is_long = error.downcast_ref::<LengthLimitError>().is_some();
            let status = if is_long { StatusCode::PAYLOAD_TOO_LARGE } else { StatusCode::BAD_REQUEST };
            (status, format!("the body of the request cannot be read: {error}"))
        })?;
        let bytes = body.to_bytes();
        let path = parts.uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
        let recorded = Sent {
            method: parts.method.to_string(),
            // The query of a command may have secrets.
            path: if is_upgrade { parts.uri.path().to_owned() } else { path },
            headers: request_headers(&parts.headers),
            body: body::read(&bytes, text(&parts.headers, &CONTENT_TYPE)),
        };
        forwarded(&mut parts.headers, is_upgrade);
        if !bytes.is_empty() {
            parts.headers.insert(CONTENT_LENGTH, HeaderValue::from(bytes.len()));
        }
        let whole = Full::new(bytes).map_err(|never| match never {});
        let sent = self.upstream.send(Request::from_parts(parts, UnsyncBoxBody::new(whole))).await;
        let mut response = sent.map_err(|error| (StatusCode::BAD_GATEWAY, error.to_string()))?;
        let answer = Answered {
            status: response.status().as_u16(),
            headers: answer_headers(response.headers()),
            body: Body::None,
        };
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            self.recorder.exchange(recorded, answer);
            if let Some(client_side) = client_side {
                join(client_side, hyper::upgrade::on(&mut response));
            }
            let (parts, _) = response.into_parts();
            return Ok(Response::from_parts(parts, empty()));
        }
        let is_watch = response.status() == StatusCode::OK && is_watch(&recorded);
        for name in &OF_THE_CONNECTION {
            response.headers_mut().remove(name);
        }
        let (parts, body) = response.into_parts();
        let recorder = Arc::clone(&self.recorder);
        let tee = match is_watch {
            true => Tee::events(body, recorder, recorded, answer),
            false => Tee::whole(body, recorder, recorded, answer),
        };
        Ok(Response::from_parts(parts, UnsyncBoxBody::new(tee.map_err(Into::into))))
    }
}

/// Carries bytes between two upgraded connections until one side ends.
fn join(client: hyper::upgrade::OnUpgrade, server: hyper::upgrade::OnUpgrade) {
    tasks::once(async move {
        let (Ok(client), Ok(server)) = tokio::join!(client, server) else { return };
        let (mut client, mut server) = (TokioIo::new(client), TokioIo::new(server));
        let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
    });
}

/// Changes the headers of a request for the next server: what it is asked for can be recorded.
fn forwarded(headers: &mut HeaderMap, is_upgrade: bool) {
    for name in &OF_THE_CONNECTION {
        if !(is_upgrade && (*name == CONNECTION || *name == UPGRADE)) {
            headers.remove(name);
        }
    }
    for name in [ACCEPT_ENCODING, IF_NONE_MATCH, CONTENT_LENGTH] {
        headers.remove(name);
    }
    if let Ok(accept) = HeaderValue::try_from(body::readable_accept(text(headers, &ACCEPT)))
        && !accept.is_empty()
    {
        headers.insert(ACCEPT, accept);
    }
}

/// The headers of a request that are recorded.
fn request_headers(headers: &HeaderMap) -> BTreeMap<String, String> {
    let mut recorded = BTreeMap::new();
    for name in headers.keys() {
        let is_recorded =
            [ACCEPT, CONTENT_TYPE, USER_AGENT].contains(name) || name.as_str().starts_with("impersonate-");
        if is_recorded {
            let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
            recorded.insert(name.to_string(), values.collect::<Vec<_>>().join(","));
        }
    }
    if let Some(accept) = recorded.get_mut(ACCEPT.as_str()) {
        *accept = body::readable_accept(accept);
    }
    recorded
}

/// The headers of an answer that are recorded.
pub(crate) fn answer_headers(headers: &HeaderMap) -> BTreeMap<String, String> {
    let value = |name: &HeaderName| {
        let values: Vec<&str> =
            headers.get_all(name).iter().filter_map(|value| value.to_str().ok()).collect();
        (!values.is_empty()).then(|| (name.to_string(), values.join(", ")))
    };
    RECORDED.iter().filter_map(value).collect()
}

/// Whether an answer is a stream of events.
pub(crate) fn is_watch(request: &Sent) -> bool {
    let (path, query) = request.path.split_once('?').unwrap_or((&request.path, ""));
    let is_on = |pair: &str| matches!(pair, "watch" | "watch=1" | "watch=true" | "watch=True" | "watch=TRUE");
    let mut parts = path.trim_start_matches('/').split('/');
    let in_path = match parts.next() {
        Some("api") => parts.nth(1) == Some("watch"),
        Some("apis") => parts.nth(2) == Some("watch"),
        _ => false,
    };
    request.method == "GET" && (in_path || query.split('&').any(is_on))
}

fn text<'h>(headers: &'h HeaderMap, name: &HeaderName) -> &'h str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

fn empty() -> ProxyBody {
    UnsyncBoxBody::new(Full::new(Bytes::new()).map_err(|never| match never {}))
}

/// An answer of the proxy itself, in the form of the API.
fn refusal(status: StatusCode, why: &str) -> Response<ProxyBody> {
    let body = serde_json::json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": format!("keelson record: {why}"),
        "reason": if status == StatusCode::UNAUTHORIZED { "Unauthorized" } else { "InternalError" },
        "code": status.as_u16(),
    });
    let body = Full::new(Bytes::from(body.to_string())).map_err(|never| match never {});
    let mut response = Response::new(UnsyncBoxBody::new(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(method: &str, path: &str) -> Sent {
        Sent { method: method.into(), path: path.into(), ..Sent::default() }
    }

    #[test]
    fn watches_are_told_from_lists() {
        for path in [
            "/api/v1/pods?watch=1",
            "/apis/apps/v1/deployments?limit=5&watch=true",
            "/api/v1/watch/pods",
            "/apis/a/v1/watch/b",
        ] {
            assert!(is_watch(&request("GET", path)), "{path}");
        }
        for (method, path) in [
            ("GET", "/api/v1/pods"),
            ("GET", "/api/v1/pods?watch=false"),
            ("POST", "/api/v1/pods?watch=1"),
            ("GET", "/api/v1/namespaces/watch"),
        ] {
            assert!(!is_watch(&request(method, path)), "{path}");
        }
    }

    #[test]
    fn credentials_and_headers_of_the_connection_are_not_recorded_or_handed_on() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("authorization", "Bearer secret"),
            ("connection", "upgrade"),
            ("upgrade", "SPDY/3.1"),
            ("accept-encoding", "gzip"),
            ("accept", "application/vnd.kubernetes.protobuf,application/json"),
            ("user-agent", "kubectl/v1.33"),
            ("impersonate-user", "jane"),
            ("impersonate-group", "a"),
            ("impersonate-group", "b"),
            ("cookie", "secret"),
        ] {
            headers.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        let recorded = request_headers(&headers);
        let names: Vec<&str> = recorded.keys().map(String::as_str).collect();
        assert_eq!(names, ["accept", "impersonate-group", "impersonate-user", "user-agent"]);
        assert_eq!((&*recorded["impersonate-group"], &*recorded["accept"]), ("a,b", "application/json"));
        let mut upgraded = headers.clone();
        forwarded(&mut upgraded, true);
        assert!(upgraded.contains_key(UPGRADE) && upgraded.contains_key(CONNECTION));
        forwarded(&mut headers, false);
        assert!(!headers.contains_key(UPGRADE) && !headers.contains_key(ACCEPT_ENCODING));
        assert_eq!(headers[ACCEPT], "application/json");
    }
}
