//! Connections to one server: HTTP/1.1 or HTTP/2 over TLS, each used for one request at a time.
//!
//! As little as possible happens here, so that the client is not what is measured: bodies are counted and
//! dropped unless somebody wants them, and nothing is parsed.

use super::{access::Access, settings::Protocol};
use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, Uri, header};
use http_body_util::{BodyExt as _, Full};
use hyper::{
    body::Incoming,
    client::conn::{http1, http2},
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::{
    ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, pem::PemObject as _},
};
use std::{sync::Arc, time::Duration};
use tokio::{net::TcpStream, time::timeout};
use tokio_rustls::TlsConnector;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The longest that a connection, or the head of a response, is waited for.
const PATIENCE: Duration = Duration::from_secs(90);

/// A server, and what is needed to connect to it.
#[derive(Clone)]
pub(crate) struct Endpoint {
    url: String,
    /// Host and port.
    authority: String,
    name: ServerName<'static>,
    tls: TlsConnector,
    credentials: Option<HeaderValue>,
    /// The user whom requests are made as, if it is not that of the credentials.
    user: Option<HeaderValue>,
    protocol: Protocol,
}

/// One request, to be sent as often as one likes.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) method: Method,
    /// With the query.
    pub(crate) path: String,
    pub(crate) accept: &'static str,
    pub(crate) content_type: &'static str,
    pub(crate) body: Bytes,
}

/// A response that has arrived as a whole.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) body: Bytes,
}

/// A connection; one that the server has closed is opened again for the next request.
pub(crate) struct Connection {
    endpoint: Arc<Endpoint>,
    sender: Sender,
}

enum Sender {
    Http1(http1::SendRequest<Full<Bytes>>),
    Http2(http2::SendRequest<Full<Bytes>>),
}

pub(crate) const JSON: &str = "application/json";

impl Call {
    pub(crate) fn get(path: String) -> Self {
        Self { method: Method::GET, path, accept: JSON, content_type: "", body: Bytes::new() }
    }

    pub(crate) fn delete(path: String) -> Self {
        Self { method: Method::DELETE, ..Self::get(path) }
    }

    pub(crate) fn post(path: String, body: impl Into<Bytes>) -> Self {
        Self { method: Method::POST, content_type: JSON, body: body.into(), ..Self::get(path) }
    }

    pub(crate) fn put(path: String, body: impl Into<Bytes>) -> Self {
        Self { method: Method::PUT, ..Self::post(path, body) }
    }

    pub(crate) fn patch(path: String, content_type: &'static str, body: impl Into<Bytes>) -> Self {
        Self { method: Method::PATCH, content_type, ..Self::post(path, body) }
    }

    pub(crate) fn accept(self, accept: &'static str) -> Self {
        Self { accept, ..self }
    }
}

impl Answer {
    /// What went wrong, in the server's words: the message of a Status, or else how the body begins.
    pub(crate) fn refusal(&self) -> String {
        let status = serde_json::from_slice::<serde_json::Value>(&self.body).ok();
        let message = status.as_ref().and_then(|status| status.get("message")).and_then(|m| m.as_str());
        let text = match message {
            Some(message) => message.to_owned(),
            None => String::from_utf8_lossy(&self.body).chars().take(300).collect(),
        };
        format!("{}: {}", self.status, text.trim().replace('\n', " "))
    }

    pub(crate) fn succeeded(self) -> Result<Self, Failure> {
        if self.status.is_success() { Ok(self) } else { Err(self.refusal().into()) }
    }

    pub(crate) fn json(&self) -> Result<serde_json::Value, Failure> {
        Ok(serde_json::from_slice(&self.body).map_err(|cause| format!("the answer is not JSON: {cause}"))?)
    }
}

impl Endpoint {
    pub(crate) fn new(access: &Access, protocol: Protocol) -> Result<Self, Failure> {
        let uri: Uri = access.url.parse().map_err(|cause| format!("{}: {cause}", access.url))?;
        let host = uri.host().filter(|_| uri.scheme_str() == Some("https"));
        let host =
            host.ok_or_else(|| format!("{}: a URL such as https://HOST:PORT is needed", access.url))?;
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let authority = match uri.port_u16() {
            Some(_) => uri.authority().map(ToString::to_string).unwrap_or_default(),
            None => format!("{}:443", uri.host().unwrap_or_default()),
        };
        let credentials = match &access.token {
            Some(token) => {
                let mut value = HeaderValue::from_str(&format!("Bearer {token}"))
                    .map_err(|_| "the token has characters that no header can have")?;
                value.set_sensitive(true);
                Some(value)
            }
            None => None,
        };
        Ok(Self {
            url: access.url.trim_end_matches('/').to_owned(),
            authority,
            name: ServerName::try_from(host)?,
            tls: TlsConnector::from(Arc::new(tls(access, protocol)?)),
            credentials,
            user: None,
            protocol,
        })
    }

    /// The same server, asked as another user.
    pub(crate) fn acting_as(&self, user: &'static str) -> Self {
        Self { user: Some(HeaderValue::from_static(user)), ..self.clone() }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Opens a connection, or says why that server cannot be reached.
    pub(crate) async fn connect(self: &Arc<Self>) -> Result<Connection, Failure> {
        let sender = timeout(PATIENCE, self.open()).await.unwrap_or_else(|_| Err("no answer".into()));
        let sender = sender.map_err(|cause| format!("{} cannot be reached: {cause}", self.url))?;
        Ok(Connection { endpoint: self.clone(), sender })
    }

    async fn open(&self) -> Result<Sender, Failure> {
        let socket = TcpStream::connect(&self.authority).await?;
        socket.set_nodelay(true)?;
        let stream = self.tls.connect(self.name.clone(), socket).await?;
        let chosen = stream.get_ref().1.alpn_protocol().map(<[u8]>::to_vec);
        let io = TokioIo::new(stream);
        match self.protocol {
            Protocol::Http1 => {
                let (sender, connection) = http1::handshake(io).await?;
                tokio::spawn(connection);
                Ok(Sender::Http1(sender))
            }
            Protocol::Http2 if chosen.as_deref() != Some(b"h2") => Err("it does not speak HTTP/2".into()),
            Protocol::Http2 => {
                let (sender, connection) = http2::Builder::new(TokioExecutor::new())
                    .initial_stream_window_size(16 << 20)
                    .initial_connection_window_size(32 << 20)
                    .handshake(io)
                    .await?;
                tokio::spawn(connection);
                Ok(Sender::Http2(sender))
            }
        }
    }

    fn request(&self, call: &Call) -> Result<Request<Full<Bytes>>, Failure> {
        let builder = Request::builder().method(call.method.clone());
        let mut builder = match self.protocol {
            Protocol::Http1 => builder.uri(&call.path).header(header::HOST, &self.authority),
            Protocol::Http2 => builder.uri(format!("https://{}{}", self.authority, call.path)),
        };
        builder = builder.header(header::USER_AGENT, "bench").header(header::ACCEPT, call.accept);
        if !call.content_type.is_empty() {
            builder = builder.header(header::CONTENT_TYPE, call.content_type);
        }
        if let Some(credentials) = &self.credentials {
            builder = builder.header(header::AUTHORIZATION, credentials);
        }
        if let Some(user) = &self.user {
            builder = builder.header("impersonate-user", user);
        }
        Ok(builder.body(Full::new(call.body.clone()))?)
    }
}

impl Connection {
    /// Sends a request and waits for the head of its response.
    pub(crate) async fn send(&mut self, call: &Call) -> Result<Response<Incoming>, Failure> {
        let request = self.endpoint.request(call)?;
        if self.sender.ready().await.is_err() {
            self.sender = self.endpoint.connect().await?.sender;
            self.sender.ready().await?;
        }
        let response = timeout(PATIENCE, self.sender.send(request)).await;
        let response = response.map_err(|_| format!("no answer within {} s", PATIENCE.as_secs()))?;
        Ok(response.map_err(|cause| format!("the connection failed: {}", reasons(&cause)))?)
    }

    /// One more stream of the same connection, over HTTP/2.
    pub(crate) fn another(&self) -> Option<Self> {
        match &self.sender {
            Sender::Http1(_) => None,
            Sender::Http2(sender) => {
                Some(Self { endpoint: self.endpoint.clone(), sender: Sender::Http2(sender.clone()) })
            }
        }
    }

    /// Sends a request and waits for all of its response.
    pub(crate) async fn ask(&mut self, call: &Call) -> Result<Answer, Failure> {
        let (head, body) = self.send(call).await?.into_parts();
        let body =
            body.collect().await.map_err(|cause| format!("the body broke off: {}", reasons(&cause)))?;
        Ok(Answer { status: head.status, body: body.to_bytes() })
    }

    /// Sends a request and counts the bytes of the response's body; any status but success is an error.
    pub(crate) async fn count(&mut self, call: &Call) -> Result<u64, Failure> {
        let (head, mut body) = self.send(call).await?.into_parts();
        let (mut bytes, mut refusal) = (0, Vec::new());
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|cause| format!("the body broke off: {}", reasons(&cause)))?;
            if let Some(data) = frame.data_ref() {
                bytes += data.len() as u64;
                if !head.status.is_success() {
                    refusal.extend_from_slice(data);
                }
            }
        }
        Answer { status: head.status, body: refusal.into() }.succeeded()?;
        Ok(bytes)
    }
}

impl Sender {
    async fn ready(&mut self) -> hyper::Result<()> {
        match self {
            Self::Http1(sender) => sender.ready().await,
            Self::Http2(sender) => sender.ready().await,
        }
    }

    async fn send(&mut self, request: Request<Full<Bytes>>) -> hyper::Result<Response<Incoming>> {
        match self {
            Self::Http1(sender) => sender.send_request(request).await,
            Self::Http2(sender) => sender.send_request(request).await,
        }
    }
}

/// An error with its causes.
fn reasons(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text += &format!(": {error}");
        cause = error.source();
    }
    text
}

fn tls(access: &Access, protocol: Protocol) -> Result<ClientConfig, Failure> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder =
        ClientConfig::builder_with_provider(provider.clone()).with_protocol_versions(rustls::ALL_VERSIONS)?;
    let builder = match &access.authority {
        Some(pem) => {
            let mut roots = RootCertStore::empty();
            for certificate in CertificateDer::pem_slice_iter(pem) {
                roots.add(certificate?)?;
            }
            builder.with_root_certificates(roots)
        }
        None => builder.dangerous().with_custom_certificate_verifier(Arc::new(Anyone(provider))),
    };
    let mut config = match &access.client {
        Some(pair) => {
            let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pair.certificate).collect();
            builder.with_client_auth_cert(chain?, PrivateKeyDer::from_pem_slice(&pair.key)?)?
        }
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = match protocol {
        Protocol::Http1 => vec![b"http/1.1".to_vec()],
        Protocol::Http2 => vec![b"h2".to_vec()],
    };
    Ok(config)
}

/// Trusts any server that holds the key of the certificate it shows.
#[derive(Debug)]
struct Anyone(Arc<CryptoProvider>);

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
