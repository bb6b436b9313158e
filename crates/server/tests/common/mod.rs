//! A server on a free port of the loopback address, and TLS clients for it.

#![allow(dead_code)]

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use auth::{Authenticators, Authorizer, ClientAuthority};
use bytes::Bytes;
use http::header::HOST;
use http::{Method, Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use pki::{Material, Names, Pki};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion};
use server::health::{Check, Checks};
use server::tls::{Acceptor, Identity, TlsConfig};
use server::version::Info;
use server::{Handler, Lifecycle, Limits, OptionalLayers, Outcome, PortUse, Server};
use testkit::Folder;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// The timeout of every wait.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// A running server.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    pub(crate) lifecycle: Lifecycle,
    pub(crate) identity: Arc<Identity>,
    pub(crate) material: Material,
    /// Those whose authorities TLS names to clients.
    pub(crate) authenticators: Arc<Authenticators>,
    pub(crate) ended: JoinHandle<Outcome>,
    _folder: Folder,
}

/// Starts a server around `api`.
pub(crate) fn start<H: Handler>(api: H, limits: Limits, delay: Duration) -> Running {
    start_with(api, limits, delay, TlsConfig::default())
}

/// Starts a server around `api`, with a TLS configuration.
pub(crate) fn start_with<H: Handler>(api: H, limits: Limits, delay: Duration, tls: TlsConfig) -> Running {
    start_with_layers(api, limits, delay, tls, |_| OptionalLayers::default())
}

/// Starts a server around `api`, with a TLS configuration and optional layers. With the layer `retry_after`,
/// it refuses requests before it stops to listen.
pub(crate) fn start_with_layers<H: Handler>(
    api: H,
    limits: Limits,
    delay: Duration,
    tls: TlsConfig,
    layers: impl FnOnce(&Lifecycle) -> OptionalLayers,
) -> Running {
    let folder = Folder::new().unwrap();
    let names = Names::of_this_host("10.0.0.1".parse().unwrap());
    let material = Pki::new(folder.path()).ensure(&names, clock::now()).unwrap();
    let identity = Identity::new(material.serving.clone()).unwrap();
    let authorities = vec![CertificateDer::from_pem_slice(material.authority.as_bytes()).unwrap()];
    let named = Authenticators {
        certificates: Some(ClientAuthority::new(authorities).unwrap()),
        ..Default::default()
    };
    let authenticators = Arc::new(named);
    let tls = Acceptor::new(identity.clone(), tls, authenticators.clone()).unwrap();
    let lifecycle = Lifecycle::new();
    let mut checks = Checks::new();
    checks.add(Check::ping()).unwrap();
    checks.add(Check::shutdown(lifecycle.clone())).unwrap();
    let (everybody, info) = (Authorizer::always_allow(), Arc::new(Info::default()));
    let layers = layers(&lifecycle);
    let refuses = layers.retry_after.is_some();
    let handler = server::stack(api, Arc::default(), &everybody, Arc::new(checks), info, layers);
    let address = "127.0.0.1:0".parse().unwrap();
    let server = Server::listen(address, PortUse::Exclusive, limits, lifecycle.clone()).unwrap();
    let server = server.with_shutdown_delay(delay);
    let server = if refuses { server.refusing_first() } else { server };
    let address = server.address();
    let ended = tokio::spawn(server.run(tls, handler));
    Running { address, lifecycle, identity, material, authenticators, ended, _folder: folder }
}

impl Running {
    pub(crate) fn client_config(&self, alpn: &[u8]) -> ClientConfig {
        self.client_config_for(alpn, rustls::ALL_VERSIONS)
    }

    pub(crate) fn client_config_for(
        &self,
        alpn: &[u8],
        versions: &[&'static SupportedProtocolVersion],
    ) -> ClientConfig {
        self.client_builder(alpn, versions, None)
    }

    pub(crate) fn admin_config(&self, alpn: &[u8]) -> ClientConfig {
        self.client_builder(alpn, rustls::ALL_VERSIONS, Some(&self.material.admin))
    }

    fn client_builder(
        &self,
        alpn: &[u8],
        versions: &[&'static SupportedProtocolVersion],
        pair: Option<&pki::Pair>,
    ) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.material.authority.as_bytes()).unwrap()).unwrap();
        let builder =
            ClientConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
                .with_protocol_versions(versions)
                .unwrap()
                .with_root_certificates(roots);
        let mut config = match pair {
            None => builder.with_no_client_auth(),
            Some(pair) => {
                let chain = vec![CertificateDer::from_pem_slice(pair.certificate.as_bytes()).unwrap()];
                let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).unwrap();
                builder.with_client_auth_cert(chain, key).unwrap()
            }
        };
        if !alpn.is_empty() {
            config.alpn_protocols = vec![alpn.to_vec()];
        }
        config
    }

    pub(crate) async fn tls(&self, config: ClientConfig) -> TlsStream<TcpStream> {
        self.try_tls(config).await.unwrap()
    }

    pub(crate) async fn try_tls(&self, config: ClientConfig) -> std::io::Result<TlsStream<TcpStream>> {
        let socket = TcpStream::connect(self.address).await?;
        TlsConnector::from(Arc::new(config)).connect(ServerName::try_from("localhost").unwrap(), socket).await
    }

    pub(crate) async fn http1(&self) -> Http1 {
        self.http1_with(self.client_config(b"http/1.1")).await
    }

    pub(crate) async fn http1_with(&self, config: ClientConfig) -> Http1 {
        let io = TokioIo::new(self.tls(config).await);
        let (sender, connection) = http1::handshake(io).await.unwrap();
        Http1 { sender, ended: tokio::spawn(connection) }
    }

    pub(crate) async fn http2(&self) -> Http2 {
        let stream = self.tls(self.client_config(b"h2")).await;
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(b"h2".as_slice()));
        let (sender, connection) = http2::Builder::new(TokioExecutor::new())
            .max_header_list_size(1 << 20)
            .handshake(TokioIo::new(stream))
            .await
            .unwrap();
        Http2 { sender, ended: tokio::spawn(connection) }
    }

    /// Asks to stop and waits for the end.
    pub(crate) async fn stop(self) -> Outcome {
        self.lifecycle.request_stop();
        tokio::time::timeout(PATIENCE, self.ended).await.expect("the server stops").unwrap()
    }
}

/// An HTTP/1.1 connection.
pub(crate) struct Http1 {
    pub(crate) sender: http1::SendRequest<Full<Bytes>>,
    pub(crate) ended: JoinHandle<hyper::Result<()>>,
}

/// An HTTP/2 connection.
pub(crate) struct Http2 {
    pub(crate) sender: http2::SendRequest<Full<Bytes>>,
    pub(crate) ended: JoinHandle<hyper::Result<()>>,
}

pub(crate) fn request(method: Method, path: &str) -> Request<Full<Bytes>> {
    Request::builder().method(method).uri(path).header(HOST, "localhost").body(Full::default()).unwrap()
}

/// A request with an absolute URI, as HTTP/2 wants it.
pub(crate) fn request2(method: Method, path: &str) -> Request<Full<Bytes>> {
    Request::builder().method(method).uri(format!("https://localhost{path}")).body(Full::default()).unwrap()
}

/// A response that has arrived as a whole.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: http::HeaderMap,
    pub(crate) body: String,
}

pub(crate) async fn whole(response: Response<hyper::body::Incoming>) -> Answer {
    let (head, body) = response.into_parts();
    let bytes =
        tokio::time::timeout(PATIENCE, body.collect()).await.expect("the body ends").unwrap().to_bytes();
    Answer {
        status: head.status.as_u16(),
        headers: head.headers,
        body: String::from_utf8(bytes.to_vec()).unwrap(),
    }
}

impl Http1 {
    pub(crate) async fn ask(&mut self, method: Method, path: &str) -> Answer {
        self.try_ask(method, path).await.expect("an answer")
    }

    pub(crate) async fn try_ask(&mut self, method: Method, path: &str) -> hyper::Result<Answer> {
        self.sender.ready().await?;
        let answer = self.sender.send_request(request(method, path));
        Ok(whole(tokio::time::timeout(PATIENCE, answer).await.expect("an answer in time")?).await)
    }
}

impl Http2 {
    pub(crate) async fn ask(&mut self, method: Method, path: &str) -> Answer {
        self.sender.ready().await.unwrap();
        let answer = self.sender.send_request(request2(method, path));
        whole(tokio::time::timeout(PATIENCE, answer).await.expect("an answer in time").unwrap()).await
    }
}

/// Waits until the peer has closed the connection.
pub(crate) async fn closed<T>(ended: JoinHandle<T>) -> T {
    tokio::time::timeout(PATIENCE, ended).await.expect("the connection is closed").unwrap()
}
