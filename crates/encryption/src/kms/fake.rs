//! A KMS plugin for tests: real gRPC over a real socket, with faults on demand. Its encryption is base64.

#![allow(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods, reason = "it is for tests")]

use std::collections::BTreeMap;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use tokio::net::UnixListener;
use tokio::task::{AbortHandle, JoinSet};
use tonic::server::Grpc;
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;
use tower_service::Service;

use super::api::{
    DecryptRequest, DecryptResponse, EncryptRequest, EncryptResponse, StatusRequest, StatusResponse,
};

/// How the plugin answers.
#[derive(Clone)]
pub struct Behaviour {
    /// The version of the status.
    pub version: &'static str,
    /// What the status says.
    pub healthz: &'static str,
    /// The key of the status.
    pub key_id: String,
    /// The key that encrypts, if it is not the one of the status.
    pub(crate) encrypts_with: Option<String>,
    pub(crate) annotations: BTreeMap<String, Vec<u8>>,
    /// Before each answer.
    pub delay: Duration,
    /// Before each answer to a question for a key.
    pub decrypt_delay: Duration,
    pub(crate) status: Option<Status>,
    pub(crate) encrypt: Option<Result<EncryptResponse, Status>>,
    pub(crate) decrypt: Option<Result<Vec<u8>, Status>>,
}

impl Default for Behaviour {
    fn default() -> Self {
        Self {
            version: "v2",
            healthz: "ok",
            key_id: "key-1".to_owned(),
            encrypts_with: None,
            annotations: BTreeMap::new(),
            delay: Duration::ZERO,
            decrypt_delay: Duration::ZERO,
            status: None,
            encrypt: None,
            decrypt: None,
        }
    }
}

/// A plugin that serves until it is dropped.
pub struct Fake {
    socket: PathBuf,
    shared: Arc<FakeShared>,
    task: Option<AbortHandle>,
}

#[derive(Default)]
struct FakeShared {
    behaviour: Mutex<Behaviour>,
    begun: AtomicUsize,
    statuses: AtomicUsize,
    encrypts: AtomicUsize,
    decrypts: AtomicUsize,
}

impl Fake {
    /// Has to be called on a runtime.
    pub fn start(socket: &Path) -> Self {
        let mut fake = Self { socket: socket.to_owned(), shared: Arc::default(), task: None };
        fake.serve();
        fake
    }

    /// Serves again after [`Self::stop`].
    pub fn serve(&mut self) {
        let _ = std::fs::remove_file(&self.socket);
        let listener = UnixListener::bind(&self.socket).unwrap();
        let shared = self.shared.clone();
        let task = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let shared = shared.clone();
                connections.spawn(async move {
                    let service = service_fn(|request| answer(shared.clone(), request));
                    let connection = http2::Builder::new(TokioExecutor::new());
                    let _ = connection.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        self.task = Some(task.abort_handle());
    }

    /// Closes all connections, and the socket.
    pub fn stop(&mut self) {
        if let Some(task) = self.task.take() {
            task.abort();
        }
        let _ = std::fs::remove_file(&self.socket);
    }

    /// Changes how it answers.
    pub fn set(&self, change: impl FnOnce(&mut Behaviour)) {
        change(&mut self.shared.behaviour.lock().unwrap());
    }

    /// Has it refuse every question for a key, or none.
    pub fn refuse_decrypts(&self, why: Option<&str>) {
        self.set(|behaviour| behaviour.decrypt = why.map(|why| Err(Status::internal(why))));
    }

    /// All calls, also those that are not answered yet.
    pub fn begun(&self) -> usize {
        self.shared.begun.load(Ordering::SeqCst)
    }

    /// The answers about its status.
    pub fn statuses(&self) -> usize {
        self.shared.statuses.load(Ordering::SeqCst)
    }

    /// The seeds that it encrypted.
    pub fn encrypts(&self) -> usize {
        self.shared.encrypts.load(Ordering::SeqCst)
    }

    /// The questions for a key.
    pub fn decrypts(&self) -> usize {
        self.shared.decrypts.load(Ordering::SeqCst)
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.stop();
    }
}

async fn answer(
    shared: Arc<FakeShared>,
    request: http::Request<hyper::body::Incoming>,
) -> Result<http::Response<tonic::body::Body>, std::convert::Infallible> {
    let behaviour = shared.behaviour.lock().unwrap().clone();
    shared.begun.fetch_add(1, Ordering::SeqCst);
    tokio::time::sleep(behaviour.delay).await;
    Ok(match request.uri().path() {
        "/v2.KeyManagementService/Status" => {
            shared.statuses.fetch_add(1, Ordering::SeqCst);
            unary(request, move |_: StatusRequest| match behaviour.status.clone() {
                Some(status) => Err(status),
                None => Ok(StatusResponse {
                    version: behaviour.version.to_owned(),
                    healthz: behaviour.healthz.to_owned(),
                    key_id: behaviour.key_id.clone(),
                }),
            })
            .await
        }
        "/v2.KeyManagementService/Encrypt" => {
            shared.encrypts.fetch_add(1, Ordering::SeqCst);
            unary(request, move |request: EncryptRequest| {
                let key_id = behaviour.encrypts_with.as_ref().unwrap_or(&behaviour.key_id);
                behaviour.encrypt.clone().unwrap_or_else(|| {
                    Ok(EncryptResponse {
                        ciphertext: STANDARD.encode(&request.plaintext).into(),
                        key_id: key_id.clone(),
                        annotations: behaviour.annotations.clone(),
                    })
                })
            })
            .await
        }
        "/v2.KeyManagementService/Decrypt" => {
            shared.decrypts.fetch_add(1, Ordering::SeqCst);
            tokio::time::sleep(behaviour.decrypt_delay).await;
            unary(request, move |request: DecryptRequest| {
                let plain = behaviour.decrypt.clone().unwrap_or_else(|| {
                    STANDARD
                        .decode(request.ciphertext)
                        .map_err(|error| Status::invalid_argument(error.to_string()))
                });
                plain.map(|plaintext| DecryptResponse { plaintext })
            })
            .await
        }
        other => panic!("{other}"),
    })
}

async fn unary<Q, A>(
    request: http::Request<hyper::body::Incoming>,
    function: impl Fn(Q) -> Result<A, Status> + Send + 'static,
) -> http::Response<tonic::body::Body>
where
    Q: Message + Default + Send + 'static,
    A: Message + Send + Sync + 'static,
{
    Grpc::new(ProstCodec::<A, Q>::default()).unary(Unary(function), request).await
}

struct Unary<F>(F);

impl<Q, A, F: Fn(Q) -> Result<A, Status>> Service<Request<Q>> for Unary<F>
where
    A: Send + 'static,
{
    type Response = Response<A>;
    type Error = Status;
    type Future = Pin<Box<dyn Future<Output = Result<Response<A>, Status>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Status>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Q>) -> Self::Future {
        let answer = (self.0)(request.into_inner()).map(Response::new);
        Box::pin(async move { answer })
    }
}
