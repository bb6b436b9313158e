//! The calls of a KMS plugin, version 2: gRPC over a Unix socket.

use std::collections::BTreeMap;
use std::error::Error as _;
use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Uri;
use http::uri::PathAndQuery;
use hyper_util::rt::TokioIo;
use object::excerpt::excerpt;
use prost::Message;
use tokio::net::UnixStream;
use tokio::time::{sleep, timeout};
use tonic::client::Grpc;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status};
use tonic_prost::ProstCodec;
use tower_service::Service;
use zeroize::Zeroize as _;

use crate::families::KMS;

/// How long to wait before connecting is tried again.
const RECONNECT: Duration = Duration::from_millis(100);

/// Has no fields.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct StatusRequest {}

/// The status of the plugin.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct StatusResponse {
    /// `v2` or `v2beta1`.
    #[prost(string, tag = "1")]
    pub(crate) version: String,
    /// `ok`, or what is wrong.
    #[prost(string, tag = "2")]
    pub(crate) healthz: String,
    /// The key that encrypts now.
    #[prost(string, tag = "3")]
    pub(crate) key_id: String,
}

/// The bytes to decrypt.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct DecryptRequest {
    #[prost(bytes = "bytes", tag = "1")]
    pub(crate) ciphertext: Bytes,
    #[prost(string, tag = "2")]
    pub(crate) uid: String,
    #[prost(string, tag = "3")]
    pub(crate) key_id: String,
    #[prost(btree_map = "string, bytes", tag = "4")]
    pub(crate) annotations: BTreeMap<String, Vec<u8>>,
}

/// A key in plain bytes.
#[derive(Clone, PartialEq, Message)]
#[prost(skip_debug)]
pub(crate) struct DecryptResponse {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) plaintext: Vec<u8>,
}

/// A key in plain bytes.
#[derive(Clone, PartialEq, Message)]
#[prost(skip_debug)]
pub(crate) struct EncryptRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) plaintext: Vec<u8>,
    #[prost(string, tag = "2")]
    pub(crate) uid: String,
}

/// An encrypted key, and annotations that the plugin needs to decrypt it.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct EncryptResponse {
    #[prost(bytes = "bytes", tag = "1")]
    pub(crate) ciphertext: Bytes,
    #[prost(string, tag = "2")]
    pub(crate) key_id: String,
    #[prost(btree_map = "string, bytes", tag = "3")]
    pub(crate) annotations: BTreeMap<String, Vec<u8>>,
}

impl fmt::Debug for DecryptResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DecryptResponse").finish_non_exhaustive()
    }
}

impl fmt::Debug for EncryptRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EncryptRequest").field("uid", &self.uid).finish_non_exhaustive()
    }
}

impl Drop for DecryptResponse {
    fn drop(&mut self) {
        self.plaintext.zeroize();
    }
}

impl Drop for EncryptRequest {
    fn drop(&mut self) {
        self.plaintext.zeroize();
    }
}

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CallError {
    /// The plugin answered with an error.
    #[error("{0}")]
    Answered(String),
    /// The plugin could not be reached, or did not answer in time.
    #[error("{0}")]
    Unanswered(String),
}

/// A client of one plugin. It connects with the first call, and again when the connection is lost. A call
/// waits for a plugin that cannot be reached, up to the time-out.
#[derive(Clone)]
pub(crate) struct Client {
    /// The name of the plugin.
    name: Arc<str>,
    channel: Channel,
    timeout: Duration,
}

impl Client {
    /// Has to be called on a runtime.
    pub(crate) fn new(name: &str, socket: String, timeout: Duration) -> Self {
        let endpoint = Endpoint::from(Uri::from_static("http://localhost"));
        let channel = endpoint.connect_with_connector_lazy(Dial { socket });
        Self { name: name.into(), channel, timeout }
    }

    pub(crate) fn timeout(&self) -> Duration {
        self.timeout
    }

    pub(crate) async fn status(&self) -> Result<StatusResponse, CallError> {
        self.call("/v2.KeyManagementService/Status", StatusRequest {}).await
    }

    pub(crate) async fn encrypt(&self, request: EncryptRequest) -> Result<EncryptResponse, CallError> {
        self.call("/v2.KeyManagementService/Encrypt", request).await
    }

    pub(crate) async fn decrypt(&self, request: DecryptRequest) -> Result<DecryptResponse, CallError> {
        self.call("/v2.KeyManagementService/Decrypt", request).await
    }

    /// Calls again while the plugin cannot be reached: all calls may be repeated.
    async fn call<Q, A>(&self, method: &'static str, request: Q) -> Result<A, CallError>
    where
        Q: Message + Clone + 'static,
        A: Message + Default + 'static,
    {
        let mut unreachable = None;
        let answer = timeout(self.timeout, async {
            loop {
                let status = match self.call_once(method, request.clone()).await {
                    Ok(answer) => return Ok(answer),
                    Err(status) => status,
                };
                // An error that the plugin itself returned has no source.
                if status.source().is_none() {
                    return Err(status);
                }
                unreachable = Some(status);
                sleep(RECONNECT).await;
            }
        });
        let begin = Instant::now();
        let outcome = answer.await;
        let code = match &outcome {
            Ok(Ok(_)) => "OK".to_owned(),
            Ok(Err(status)) => format!("{:?}", status.code()),
            Err(_) => "DeadlineExceeded".to_owned(),
        };
        KMS.with([&code, method, &self.name]).observe_time(begin.elapsed());
        match outcome {
            Ok(answer) => answer.map_err(|status| CallError::Answered(rpc_error(&status))),
            Err(_) => {
                let late = || Status::deadline_exceeded("context deadline exceeded");
                Err(CallError::Unanswered(rpc_error(&unreachable.unwrap_or_else(late))))
            }
        }
    }

    async fn call_once<Q, A>(&self, method: &'static str, request: Q) -> Result<A, Status>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let mut grpc = Grpc::new(self.channel.clone());
        grpc.ready().await.map_err(|error| Status::from_error(error.into()))?;
        let codec = ProstCodec::<Q, A>::default();
        let answer = grpc.unary(Request::new(request), PathAndQuery::from_static(method), codec).await?;
        Ok(answer.into_inner())
    }
}

/// As clients of Go show it.
fn rpc_error(status: &Status) -> String {
    let code = match status.code() {
        Code::Cancelled => "Canceled".to_owned(),
        code => format!("{code:?}"),
    };
    format!("rpc error: code = {code} desc = {}", excerpt(&status.message()))
}

/// Opens connections to one socket. A name that begins with `@` is not a file, but one of Linux' abstract
/// sockets.
struct Dial {
    socket: String,
}

impl Service<Uri> for Dial {
    type Response = TokioIo<UnixStream>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let socket = self.socket.clone();
        Box::pin(async move {
            let path = socket.strip_prefix('@').map(|name| format!("\0{name}"));
            let connected = UnixStream::connect(path.as_ref().unwrap_or(&socket)).await;
            let failed =
                |error: io::Error| io::Error::new(error.kind(), format!("dial unix {socket}: {error}"));
            connected.map(TokioIo::new).map_err(failed)
        })
    }
}
