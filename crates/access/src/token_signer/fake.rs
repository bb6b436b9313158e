//! A signer of tokens for tests: real gRPC over a real socket, with faults on demand.

#![allow(clippy::unwrap_used, clippy::panic, clippy::missing_panics_doc, reason = "it is for tests")]

use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use auth::jwt::SigningKey;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
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

use super::messages::{
    FetchKeysRequest, FetchKeysResponse, Key, MetadataRequest, MetadataResponse, SignJwtRequest,
    SignJwtResponse, Timestamp,
};

/// A key of the program.
#[derive(Clone)]
pub struct FakeKey {
    /// Its id.
    pub id: String,
    /// Signs by it.
    pub key: Arc<SigningKey>,
    /// Whether it is said to verify tokens from before only.
    pub is_excluded: bool,
}

impl FakeKey {
    /// A new key.
    pub fn new(id: &str) -> Self {
        let key = SigningKey::from_pem(SigningKey::generate().unwrap().as_bytes()).unwrap();
        Self { id: id.to_owned(), key: Arc::new(key), is_excluded: false }
    }
}

/// How the program answers.
#[derive(Clone)]
pub struct Behaviour {
    /// The keys that it publishes.
    pub keys: Vec<FakeKey>,
    /// The key that it signs by.
    pub signs_by: FakeKey,
    /// The header of tokens, if it is another one than that of the key.
    pub header: Option<String>,
    /// When to ask again, in seconds.
    pub refresh: i64,
    /// The time of the keys, in seconds since 1970.
    pub time: i64,
    /// The longest lifetime of tokens, in seconds.
    pub longest: i64,
    /// What every call is refused with.
    pub refuses: Option<String>,
}

/// A program that serves until it is dropped.
pub struct FakeSigner {
    socket: PathBuf,
    shared: Arc<Shared>,
    task: Option<AbortHandle>,
}

struct Shared {
    behaviour: Mutex<Behaviour>,
    fetches: AtomicUsize,
}

impl FakeSigner {
    /// A program with one key, of the id `one`. Has to be called on a runtime.
    pub fn start(socket: &Path) -> Self {
        let key = FakeKey::new("one");
        let behaviour = Behaviour {
            keys: vec![key.clone()],
            signs_by: key,
            header: None,
            refresh: 3600,
            time: 1_700_000_000,
            longest: 24 * 3600,
            refuses: None,
        };
        let shared = Arc::new(Shared { behaviour: Mutex::new(behaviour), fetches: AtomicUsize::new(0) });
        let mut signer = Self { socket: socket.to_owned(), shared, task: None };
        signer.serve();
        signer
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

    /// How often the keys were asked for.
    pub fn fetches(&self) -> usize {
        self.shared.fetches.load(Ordering::SeqCst)
    }
}

impl Drop for FakeSigner {
    fn drop(&mut self) {
        self.stop();
    }
}

fn sign(behaviour: &Behaviour, claims: &str) -> SignJwtResponse {
    let FakeKey { id, key, .. } = &behaviour.signs_by;
    let header = format!(r#"{{"alg":"{}","kid":"{id}","typ":"JWT"}}"#, key.algorithm().name());
    let header = URL_SAFE_NO_PAD.encode(behaviour.header.as_ref().unwrap_or(&header));
    let signature = key.sign_text(&format!("{header}.{claims}")).unwrap();
    SignJwtResponse { header, signature }
}

async fn answer(
    shared: Arc<Shared>,
    request: http::Request<hyper::body::Incoming>,
) -> Result<http::Response<tonic::body::Body>, std::convert::Infallible> {
    let behaviour = shared.behaviour.lock().unwrap().clone();
    let refused = behaviour.refuses.clone().map_or(Ok(()), |why| Err(Status::internal(why)));
    Ok(match request.uri().path() {
        "/v1alpha1.ExternalJWTSigner/Sign" => {
            unary(request, move |request: SignJwtRequest| {
                refused.clone().map(|()| sign(&behaviour, &request.claims))
            })
            .await
        }
        "/v1alpha1.ExternalJWTSigner/FetchKeys" => {
            shared.fetches.fetch_add(1, Ordering::SeqCst);
            unary(request, move |_: FetchKeysRequest| {
                let keys = behaviour.keys.iter().map(|key| Key {
                    key_id: key.id.clone(),
                    key: key.key.public_der().unwrap(),
                    exclude_from_oidc_discovery: key.is_excluded,
                });
                refused.clone().map(|()| FetchKeysResponse {
                    keys: keys.collect(),
                    data_timestamp: Some(Timestamp { seconds: behaviour.time, nanos: 0 }),
                    refresh_hint_seconds: behaviour.refresh,
                })
            })
            .await
        }
        "/v1alpha1.ExternalJWTSigner/Metadata" => {
            unary(request, move |_: MetadataRequest| {
                let longest = behaviour.longest;
                refused.clone().map(|()| MetadataResponse { max_token_expiration_seconds: longest })
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
