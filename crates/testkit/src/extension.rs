//! A small extension API server: a group version with one namespaced kind, `Widget`, behind real TLS, over
//! HTTP/2 and HTTP/1.1.
//!
//! It takes users from the headers of a proxy that shows a certificate of an authority, has discovery in both
//! forms and OpenAPI v2 and v3, and serves get, list, watch, create, merge patches, delete and
//! deletecollection, with finalizers and preconditions. The
//! subresource `echo` of a widget sends back what it gets, over a WebSocket or any other protocol. It can be
//! made slow, broken or silent.

mod widgets;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Frame, Incoming};
use hyper::header::{ACCEPT, CONNECTION, CONTENT_TYPE, ETAG, HeaderValue, IF_NONE_MATCH, LOCATION, UPGRADE};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, Version};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;

use crate::https::{Authority, Pair};
use crate::{Server, unique};

type Failure = Box<dyn std::error::Error + Send + Sync>;

const DISCOVERY: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// How the server behaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Behaviour {
    /// As it should.
    Serving,
    /// It answers after a time.
    Slow(Duration),
    /// It answers everything with this status code.
    Failing(u16),
    /// It sends clients somewhere else.
    Redirecting,
}

/// A request that the server got.
#[derive(Clone, Debug)]
pub struct ExtensionRequest {
    /// The method.
    pub method: String,
    /// The path and query.
    pub uri: String,
    /// The headers, with their names in lower case.
    pub headers: Vec<(String, String)>,
    /// Whether it came over HTTP/2.
    pub is_http2: bool,
    /// Whether the client showed a certificate of the authority.
    pub is_certified: bool,
}

impl ExtensionRequest {
    /// The values of a header.
    pub fn all(&self, name: &str) -> Vec<&str> {
        let of = self.headers.iter().filter(|(own, _)| own == name);
        of.map(|(_, value)| value.as_str()).collect()
    }
}

/// A running server. It ends with the process.
#[derive(Clone)]
pub struct ExtensionServer {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
}

impl std::fmt::Debug for ExtensionServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ExtensionServer").field("address", &self.address).finish_non_exhaustive()
    }
}

struct State {
    group: String,
    behaviour: Behaviour,
    /// Whether there is OpenAPI v3 beside v2.
    has_v3: bool,
    /// Whether there is aggregated discovery.
    has_aggregated: bool,
    requests: Vec<ExtensionRequest>,
    /// By namespace and name.
    widgets: BTreeMap<(String, String), Value>,
    revision: u64,
    watchers: Vec<Watcher>,
}

/// A watch of a namespace; of all if it is empty.
struct Watcher {
    namespace: String,
    events: mpsc::UnboundedSender<Bytes>,
}

type Answer = Response<http_body_util::Either<Full<Bytes>, Events>>;

/// The body of a watch.
struct Events(mpsc::UnboundedReceiver<Bytes>);

impl hyper::body::Body for Events {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(cx).map(|event| event.map(|bytes| Ok(Frame::data(bytes))))
    }
}

impl ExtensionServer {
    /// Serves a group on a free port with a certificate. `proxies` are the authorities, in PEM, of those
    /// whose headers say who the user is.
    pub fn start(serving: &Pair, proxies: &str, group: &str) -> std::io::Result<Self> {
        let tls = TlsAcceptor::from(Arc::new(config(serving, proxies)?));
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0))?;
        listener.set_nonblocking(true)?;
        let state = State {
            group: group.to_owned(),
            behaviour: Behaviour::Serving,
            has_v3: true,
            has_aggregated: true,
            requests: Vec::new(),
            widgets: BTreeMap::new(),
            revision: 1,
            watchers: Vec::new(),
        };
        let server = Self { address: listener.local_addr()?, state: Arc::new(Mutex::new(state)) };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        std::thread::spawn({
            let server = server.clone();
            move || runtime.block_on(server.serve(listener, tls))
        });
        Ok(server)
    }

    /// Starts one behind a server: with the authority that this publishes, and a service in the namespace
    /// `default`. Returns it with the APIService that leads to it, which is not made yet.
    pub fn behind(server: &Server, group: &str) -> Result<(Self, Value), Failure> {
        let call = |method, path: &str, object: &Value| -> Result<Value, Failure> {
            match server.call(method, path, object)? {
                (200..300, object) => Ok(object),
                (code, said) => Err(format!("{method} {path}: {code} {said}").into()),
            }
        };
        let path = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";
        let map = call("GET", path, &Value::Null)?;
        let proxies = map.pointer("/data/requestheader-client-ca-file").and_then(Value::as_str);
        let authority = Authority::new()?;
        let service = unique("extension");
        let serving = authority.issue(&[&format!("{service}.default.svc")])?;
        let extension = Self::start(&serving, proxies.ok_or("no authority is published")?, group)?;
        let spec = json!({"type": "ExternalName", "externalName": "localhost"});
        let object = json!({"metadata": {"name": service}, "spec": spec});
        call("POST", "/api/v1/namespaces/default/services", &object)?;
        let registration = json!({
            "metadata": {"name": format!("v1.{group}")},
            "spec": {"group": group, "version": "v1", "groupPriorityMinimum": 2000, "versionPriority": 15,
                "caBundle": STANDARD.encode(&authority.certificate),
                "service": {"namespace": "default", "name": service, "port": extension.port()}},
        });
        Ok((extension, registration))
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Changes how the server behaves.
    pub fn behave(&self, behaviour: Behaviour) {
        self.state().behaviour = behaviour;
    }

    /// Takes the newer documents away: aggregated discovery and OpenAPI v3.
    pub fn be_old(&self) {
        let mut state = self.state();
        (state.has_v3, state.has_aggregated) = (false, false);
    }

    /// The requests so far.
    pub fn requests(&self) -> Vec<ExtensionRequest> {
        self.state().requests.clone()
    }

    /// The names of all widgets, each as `namespace/name`.
    pub fn widgets(&self) -> Vec<String> {
        self.state().widgets.keys().map(|(namespace, name)| format!("{namespace}/{name}")).collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn serve(self, listener: std::net::TcpListener, tls: TlsAcceptor) {
        let Ok(listener) = TcpListener::from_std(listener) else { return };
        while let Ok((socket, _)) = listener.accept().await {
            let (server, tls) = (self.clone(), tls.clone());
            tokio::spawn(async move {
                let Ok(stream) = tls.accept(socket).await else { return };
                let is_certified = stream.get_ref().1.peer_certificates().is_some();
                let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2".as_slice());
                let service = service_fn(move |request| {
                    let server = server.clone();
                    async move { Ok::<_, Infallible>(server.answer(request, is_certified).await) }
                });
                // A client that goes away is no error of the test.
                if is_http2 {
                    let connection = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                    let _ = connection.serve_connection(TokioIo::new(stream), service).await;
                } else {
                    let connection = hyper::server::conn::http1::Builder::new();
                    let _ = connection.serve_connection(TokioIo::new(stream), service).with_upgrades().await;
                }
            });
        }
    }

    async fn answer(&self, mut request: Request<Incoming>, is_certified: bool) -> Answer {
        let headers = request.headers().iter().map(|(name, value)| {
            (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned())
        });
        let noted = ExtensionRequest {
            method: request.method().to_string(),
            uri: request.uri().path_and_query().map(ToString::to_string).unwrap_or_default(),
            headers: headers.collect(),
            is_http2: request.version() == Version::HTTP_2,
            is_certified,
        };
        self.state().requests.push(noted);
        let behaviour = self.state().behaviour.clone();
        match behaviour {
            Behaviour::Serving => {}
            Behaviour::Slow(time) => tokio::time::sleep(time).await,
            Behaviour::Failing(code) => return plain(code, "failing\n"),
            Behaviour::Redirecting => {
                let mut answer = plain(302, "elsewhere\n");
                let to = HeaderValue::from_static("/elsewhere");
                answer.headers_mut().insert(LOCATION, to);
                return answer;
            }
        }
        if !is_certified || !request.headers().contains_key("x-remote-user") {
            return status(401, "Unauthorized", "Unauthorized");
        }
        let path = request.uri().path().to_owned();
        if path.ends_with("/echo") {
            return echo(&mut request);
        }
        let body = match request.method() {
            &Method::POST | &Method::PATCH | &Method::DELETE => {
                let body = request.body_mut().collect().await.map(|body| body.to_bytes());
                serde_json::from_slice(&body.unwrap_or_default()).unwrap_or_default()
            }
            _ => Value::Null,
        };
        self.state().answer(&request, &path, body)
    }
}

impl State {
    fn answer(&mut self, request: &Request<Incoming>, path: &str, body: Value) -> Answer {
        let root = format!("/apis/{}/v1", self.group);
        let accept = request.headers().get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
        match path {
            "/apis" if self.has_aggregated && accept.contains("as=APIGroupDiscoveryList") => {
                let known = request.headers().get(IF_NONE_MATCH);
                if known.is_some_and(|known| known == "\"discovery\"") {
                    return plain(304, "");
                }
                let mut answer = json_answer(200, &self.aggregated());
                let headers = answer.headers_mut();
                headers.insert(CONTENT_TYPE, HeaderValue::from_static(DISCOVERY));
                headers.insert(ETAG, HeaderValue::from_static("\"discovery\""));
                answer
            }
            "/openapi/v2" => json_answer(200, &self.swagger()),
            "/openapi/v3" if self.has_v3 => {
                let own = format!("apis/{}/v1", self.group);
                let url = format!("/openapi/v3/{own}?hash=1");
                json_answer(200, &json!({"paths": {own: {"serverRelativeURL": url}}}))
            }
            _ if path == root => json_answer(200, &self.resources()),
            _ if self.has_v3 && path == format!("/openapi/v3{root}") => json_answer(200, &self.openapi()),
            _ => match path.strip_prefix(&format!("{root}/")) {
                Some(rest) => {
                    let parts: Vec<&str> = rest.split('/').collect();
                    let query = request.uri().query().unwrap_or_default();
                    let value = |name: &str| {
                        let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
                        pairs.find(|(own, _)| *own == name).map(|(_, value)| value.to_owned())
                    };
                    let is_watch = matches!(value("watch").as_deref(), Some("1" | "true"));
                    let since = value("resourceVersion").and_then(|text| text.parse().ok()).unwrap_or(0);
                    let watch = is_watch.then_some(since);
                    match parts.as_slice() {
                        ["widgets"] => self.collection(request.method(), "", watch, body),
                        ["namespaces", namespace, "widgets"] => {
                            self.collection(request.method(), namespace, watch, body)
                        }
                        ["namespaces", namespace, "widgets", name] => {
                            self.object(request.method(), namespace, name, &body)
                        }
                        _ => status(404, "NotFound", "the server could not find the requested resource"),
                    }
                }
                None => plain(404, "404 page not found\n"),
            },
        }
    }

    fn collection(&mut self, method: &Method, namespace: &str, watch: Option<u64>, body: Value) -> Answer {
        let keys: Vec<(String, String)> = self
            .widgets
            .keys()
            .filter(|(own, _)| namespace.is_empty() || own == namespace)
            .cloned()
            .collect();
        match *method {
            Method::GET if let Some(since) = watch => {
                let (events, receiver) = mpsc::unbounded_channel();
                let newer = |widget: &&Value| {
                    let version = widget.pointer("/metadata/resourceVersion").and_then(Value::as_str);
                    version
                        .and_then(|version| version.parse::<u64>().ok())
                        .is_some_and(|version| version > since)
                };
                for widget in keys.iter().filter_map(|key| self.widgets.get(key)).filter(newer) {
                    let _ = events.send(event("ADDED", widget));
                }
                self.watchers.push(Watcher { namespace: namespace.to_owned(), events });
                let mut answer = Response::new(http_body_util::Either::Right(Events(receiver)));
                answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
                answer
            }
            Method::GET => {
                let items: Vec<&Value> = keys.iter().filter_map(|key| self.widgets.get(key)).collect();
                let list = json!({
                    "kind": "WidgetList", "apiVersion": format!("{}/v1", self.group),
                    "metadata": {"resourceVersion": self.revision.to_string()}, "items": items,
                });
                json_answer(200, &list)
            }
            Method::POST => self.create(namespace, body),
            Method::DELETE => {
                for (namespace, name) in keys {
                    self.object(&Method::DELETE, &namespace, &name, &Value::Null);
                }
                json_answer(200, &json!({"kind": "Status", "apiVersion": "v1", "status": "Success"}))
            }
            _ => status(405, "MethodNotAllowed", "the server does not allow this method"),
        }
    }

    fn resources(&self) -> Value {
        json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": format!("{}/v1", self.group), "resources": [{
            "name": "widgets", "singularName": "widget", "namespaced": true, "kind": "Widget", "shortNames": ["wi"],
            "verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "watch"],
        }]})
    }

    fn aggregated(&self) -> Value {
        json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": [{
            "metadata": {"name": self.group, "creationTimestamp": null},
            "versions": [{"version": "v1", "freshness": "Current", "resources": [{
                "resource": "widgets", "responseKind": {"group": self.group, "version": "v1", "kind": "Widget"},
                "scope": "Namespaced", "singularResource": "widget", "shortNames": ["wi"],
                "verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "watch"],
            }]}],
        }]})
    }

    fn kind(&self) -> Value {
        json!({"group": self.group, "version": "v1", "kind": "Widget"})
    }

    fn schema(&self, reference: &str) -> Value {
        json!({"type": "object", "description": "A Widget is what the test serves.", "properties": {
            "apiVersion": {"type": "string"}, "kind": {"type": "string"},
            "metadata": {"$ref": format!("{reference}io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta")},
            "size": {"type": "integer", "format": "int64", "description": "How large the widget is."},
        }, "x-kubernetes-group-version-kind": [self.kind()]})
    }

    /// The paths of widgets, with a reference to their schema in each answer.
    fn paths(&self, answer: &Value) -> Value {
        let root = format!("/apis/{}/v1", self.group);
        let get = |action: &str| {
            json!({"operationId": format!("{action}Widget"), "produces": ["application/json"], "responses": {"200": answer},
                "x-kubernetes-action": action, "x-kubernetes-group-version-kind": self.kind()})
        };
        json!({
            format!("{root}/namespaces/{{namespace}}/widgets"): {"get": get("list")},
            format!("{root}/namespaces/{{namespace}}/widgets/{{name}}"): {"get": get("get")},
        })
    }

    fn swagger(&self) -> Value {
        let answer = json!({"description": "OK", "schema": {"$ref": "#/definitions/test.Widget"}});
        json!({"swagger": "2.0", "info": {"title": "test", "version": "1"}, "paths": self.paths(&answer), "definitions": {
            "test.Widget": self.schema("#/definitions/"),
            "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta": {"type": "object", "description": "Another one."},
        }})
    }

    fn openapi(&self) -> Value {
        let reference = json!({"$ref": "#/components/schemas/test.Widget"});
        let answer = json!({"description": "OK", "content": {"application/json": {"schema": reference}}});
        json!({"openapi": "3.0.0", "info": {"title": "test", "version": "1"}, "paths": self.paths(&answer),
        "components": {"schemas": {
            "test.Widget": self.schema("#/components/schemas/"),
            "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta": {"type": "object"},
        }}})
    }
}

fn event(kind: &str, widget: &Value) -> Bytes {
    format!("{}\n", json!({"type": kind, "object": widget})).into()
}

fn json_answer(code: u16, value: &Value) -> Answer {
    let mut answer = plain(code, &format!("{value}\n"));
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    answer
}

fn status(code: u16, reason: &str, message: &str) -> Answer {
    json_answer(
        code,
        &json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message, "reason": reason, "code": code}),
    )
}

fn plain(code: u16, text: &str) -> Answer {
    let mut answer = Response::new(http_body_util::Either::Left(Full::new(Bytes::from(text.to_owned()))));
    *answer.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    answer
}

/// Switches protocols, and sends back what comes: the messages of a WebSocket, or bytes as they are.
fn echo(request: &mut Request<Incoming>) -> Answer {
    let header =
        |name: &str| request.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let (protocol, key) = (header("upgrade").to_owned(), header("sec-websocket-key").to_owned());
    if protocol.is_empty() {
        return status(400, "BadRequest", "an upgrade is needed");
    }
    let upgrade = hyper::upgrade::on(request);
    let is_socket = protocol.eq_ignore_ascii_case("websocket");
    tokio::spawn(async move {
        let Ok(upgraded) = upgrade.await else { return };
        let mut stream = TokioIo::new(upgraded);
        let _ = match is_socket {
            true => echo_messages(&mut stream).await,
            false => {
                let (mut read, mut write) = tokio::io::split(stream);
                tokio::io::copy(&mut read, &mut write).await.map(drop)
            }
        };
    });
    let mut answer = plain(101, "");
    let headers = answer.headers_mut();
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    if let Ok(protocol) = protocol.parse() {
        headers.insert(UPGRADE, protocol);
    }
    let accepted = format!("{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11");
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA1_FOR_LEGACY_USE_ONLY, accepted.as_bytes());
    if is_socket && let Ok(accept) = STANDARD.encode(digest.as_ref()).parse() {
        headers.insert("sec-websocket-accept", accept);
    }
    answer
}

/// Sends back each message, unmasked. Messages are short.
async fn echo_messages(stream: &mut TokioIo<hyper::upgrade::Upgraded>) -> std::io::Result<()> {
    loop {
        let mut head = [0; 2];
        stream.read_exact(&mut head).await?;
        let [first, second] = head;
        let length = usize::from(second & 0x7f);
        let mut mask = [0; 4];
        stream.read_exact(&mut mask).await?;
        let mut payload = vec![0; length];
        stream.read_exact(&mut payload).await?;
        payload.iter_mut().zip(mask.iter().cycle()).for_each(|(byte, mask)| *byte ^= mask);
        stream.write_all(&[first, second & 0x7f]).await?;
        stream.write_all(&payload).await?;
        stream.flush().await?;
        if first & 0xf == 8 {
            return Ok(());
        }
    }
}

fn config(serving: &Pair, proxies: &str) -> std::io::Result<ServerConfig> {
    let other = |error: String| std::io::Error::other(error);
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(CertificateDer::pem_slice_iter(proxies.as_bytes()).flatten());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone())
        .allow_unauthenticated()
        .build()
        .map_err(|error| other(error.to_string()))?;
    let chain = CertificateDer::pem_slice_iter(serving.certificate.as_bytes()).flatten().collect();
    let key =
        PrivateKeyDer::from_pem_slice(serving.key.as_bytes()).map_err(|error| other(error.to_string()))?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| other(error.to_string()))?
        .with_client_cert_verifier(verifier)
        .with_single_cert(chain, key)
        .map_err(|error| other(error.to_string()))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}
