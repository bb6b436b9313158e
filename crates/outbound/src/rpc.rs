//! Calls of programs on the same machine: gRPC over a Unix socket, as KMS plugins and signers of tokens
//! speak it.

use std::error::Error as _;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

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

/// How long to wait before connecting is tried again.
const RECONNECT: Duration = Duration::from_millis(100);

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("rpc error: code = {code} desc = {}", excerpt(.message))]
pub struct RpcError {
    /// The name of the code, as Go has it.
    pub code: String,
    /// The message.
    pub message: String,
    /// Whether the program answered; otherwise it could not be reached, or did not answer in time.
    pub is_answer: bool,
}

/// A client of one program. It connects with the first call, and again when the connection is lost. A call
/// waits for a program that cannot be reached, up to its time-out.
#[derive(Clone, Debug)]
pub struct RpcClient {
    channel: Channel,
}

impl RpcClient {
    /// A client of the program that listens at a socket: a path, or `@` and the name of an abstract socket.
    /// Has to be called on a runtime.
    pub fn new(socket: String) -> Self {
        let endpoint = Endpoint::from(Uri::from_static("http://localhost"));
        Self { channel: endpoint.connect_with_connector_lazy(Dial { socket }) }
    }

    /// Calls a method (`/v2.KeyManagementService/Status`), and again while the program cannot be reached:
    /// all calls may be repeated.
    pub async fn call<Q, A>(&self, method: &'static str, request: Q, within: Duration) -> Result<A, RpcError>
    where
        Q: Message + Clone + 'static,
        A: Message + Default + 'static,
    {
        let mut unreachable = None;
        let answer = timeout(within, async {
            loop {
                let status = match self.call_once(method, request.clone()).await {
                    Ok(answer) => return Ok(answer),
                    Err(status) => status,
                };
                // An error that the program itself returned has no source.
                if status.source().is_none() {
                    return Err(status);
                }
                unreachable = Some(status);
                sleep(RECONNECT).await;
            }
        });
        match answer.await {
            Ok(answer) => answer.map_err(|status| failed(&status, true)),
            Err(_) => {
                let late = || Status::deadline_exceeded("context deadline exceeded");
                Err(failed(&unreachable.unwrap_or_else(late), false))
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

fn failed(status: &Status, is_answer: bool) -> RpcError {
    let code = match status.code() {
        Code::Cancelled => "Canceled".to_owned(),
        code => format!("{code:?}"),
    };
    RpcError { code, message: status.message().to_owned(), is_answer }
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

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
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
