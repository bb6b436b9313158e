//! One HTTP/2 connection to one member of etcd.
//!
//! 1. Dialing is bounded by the caller; the files of TLS are read for each connection, so that renewed ones
//!    are used.
//! 2. A connection whose peer answers no ping for [`KEEP_ALIVE_TIMEOUT`] is closed, and all its requests
//!    fail.
//! 3. A request that was never handed to the connection fails with [`Unsent`].

use super::{
    Tls,
    target::{Address, Target},
};
use http::{Request, Response, Uri};
use hyper::{
    body::Incoming,
    client::conn::http2::{self, SendRequest},
};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use outbound::{Identity, Trust};
use rustls::{ClientConfig, pki_types::ServerName};
use std::{
    future::Future,
    io,
    path::Path,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};
use tokio::{
    net::{TcpStream, UnixStream},
    task::AbortHandle,
};
use tonic::body::Body;

/// How often a connection that is in use is pinged; the reference's value.
const KEEP_ALIVE: Duration = Duration::from_secs(30);
/// How long the answer to a ping may take; the reference's value.
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(10);
/// How many bytes of one answer may be under way.
const STREAM_WINDOW: u32 = 4 << 20;
/// How many bytes of all answers may be under way.
const CONNECTION_WINDOW: u32 = 4 * STREAM_WINDOW;

/// A connection that is open, or was.
#[derive(Clone)]
pub(super) struct Connection {
    sender: SendRequest<Body>,
    origin: Uri,
    driver: AbortHandle,
}

/// The connection was closed before the request was handed to it.
#[derive(Debug, thiserror::Error)]
#[error("the connection is closed: {0}")]
pub(super) struct Unsent(hyper::Error);

impl Connection {
    /// Opens a connection. Its work is done by a task of the runtime that this is called in.
    pub(super) async fn open(target: &Target, tls: &Tls) -> io::Result<Self> {
        let server_name = target.server_name(tls)?;
        match &target.address {
            Address::Tcp { host, port } => {
                let stream = TcpStream::connect((host.as_str(), *port)).await?;
                stream.set_nodelay(true)?;
                Self::secure(stream, server_name, target, tls).await
            }
            Address::Unix(path) => {
                Self::secure(UnixStream::connect(path).await?, server_name, target, tls).await
            }
        }
    }

    async fn secure<S>(
        stream: S,
        server_name: Option<ServerName<'static>>,
        target: &Target,
        tls: &Tls,
    ) -> io::Result<Self>
    where
        S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + Unpin + 'static,
    {
        match server_name {
            None => Self::handshake(stream, target).await,
            Some(name) => {
                let connector = tokio_rustls::TlsConnector::from(Arc::new(config(tls)?));
                Self::handshake(connector.connect(name, stream).await?, target).await
            }
        }
    }

    async fn handshake<S>(stream: S, target: &Target) -> io::Result<Self>
    where
        S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + Unpin + 'static,
    {
        let (sender, driver) = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .keep_alive_interval(KEEP_ALIVE)
            .keep_alive_timeout(KEEP_ALIVE_TIMEOUT)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(io::Error::other)?;
        // The error of the connection is in the errors of its requests.
        let driver = tasks::once(async move { drop(driver.await) }).abort_handle();
        Ok(Self { sender, origin: target.origin.clone(), driver })
    }

    pub(super) fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }

    /// Closes the connection: all its requests fail at once.
    pub(super) fn close(&self) {
        self.driver.abort();
    }

    /// A client for one request.
    pub(super) fn grpc(&self) -> tonic::client::Grpc<Self> {
        let client = tonic::client::Grpc::with_origin(self.clone(), self.origin.clone());
        client.max_decoding_message_size(usize::MAX)
    }
}

impl tower_service::Service<Request<Body>> for Connection {
    type Response = Response<Incoming>;
    type Error = Box<dyn std::error::Error + Send + Sync>;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.sender.poll_ready(context).map_err(|error| Unsent(error).into())
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let answer = self.sender.try_send_request(request);
        Box::pin(async move {
            answer.await.map_err(|mut failed| match failed.take_message() {
                Some(_) => Unsent(failed.into_error()).into(),
                None => failed.into_error().into(),
            })
        })
    }
}

/// TLS with the files as they are now.
fn config(tls: &Tls) -> io::Result<ClientConfig> {
    let trust = match &tls.ca {
        Some(path) => Trust::from_pem(&read(path)?).map_err(|error| unusable(path, error))?,
        None => Trust::System,
    };
    let identity = match (&tls.cert, &tls.key) {
        (Some(cert), Some(key)) => {
            let identity = Identity::from_pem(&read(cert)?, &read(key)?);
            Some(Arc::new(identity.map_err(|error| unusable(cert, error))?))
        }
        (None, None) => None,
        _ => return Err(io::Error::other("a client certificate needs its key, and a key its certificate")),
    };
    let tls = outbound::Tls { trust, server_name: None, identity };
    let mut config = tls.config_by_system_time().map_err(io::Error::other)?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(config)
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    std::fs::read(path).map_err(|error| unusable(path, error))
}

fn unusable(path: &Path, why: impl std::fmt::Display) -> io::Error {
    io::Error::other(format!("{}: {why}", path.display()))
}
