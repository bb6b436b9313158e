//! A collector for tests: the real service over real gRPC, which keeps what it is sent.

#![allow(clippy::unwrap_used, clippy::panic, reason = "it is for tests")]

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tonic::server::Grpc;
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;
use tower_service::Service;

use crate::otlp::{EXPORT, ExportTraceServiceRequest, ExportTraceServiceResponse, KeyValue, Span, any_value};

/// A collector that takes what it is sent, for as long as the runtime runs.
#[derive(Clone)]
pub struct Collector {
    address: SocketAddr,
    batches: Arc<Mutex<Vec<ExportTraceServiceRequest>>>,
}

impl Collector {
    /// Listens on a port of its own. Has to be called on a runtime.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let collector = Self { address: listener.local_addr().unwrap(), batches: Arc::default() };
        let batches = collector.batches.clone();
        tasks::once(async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let batches = batches.clone();
                connections.spawn(async move {
                    let service = service_fn(|request| answer(batches.clone(), request));
                    let connection = http2::Builder::new(TokioExecutor::new());
                    let _ = connection.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        collector
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// All that it was sent.
    pub fn batches(&self) -> Vec<ExportTraceServiceRequest> {
        self.batches.lock().unwrap().clone()
    }

    /// All spans.
    pub fn spans(&self) -> Vec<Span> {
        let batches = self.batches();
        let resources = batches.into_iter().flat_map(|batch| batch.resource_spans);
        resources.flat_map(|resource| resource.scope_spans).flat_map(|scope| scope.spans).collect()
    }
}

impl Span {
    /// The text of an attribute, or its number as a text.
    pub fn attribute(&self, name: &str) -> Option<String> {
        text(&self.attributes, name)
    }
}

/// The text of an attribute, or its number as a text.
pub fn text(attributes: &[KeyValue], name: &str) -> Option<String> {
    let attribute = attributes.iter().find(|attribute| attribute.key == name)?;
    Some(match attribute.value.as_ref()?.value.as_ref()? {
        any_value::Value::Text(text) => text.clone(),
        any_value::Value::Number(number) => number.to_string(),
    })
}

async fn answer(
    batches: Arc<Mutex<Vec<ExportTraceServiceRequest>>>,
    request: http::Request<hyper::body::Incoming>,
) -> Result<http::Response<tonic::body::Body>, Infallible> {
    assert_eq!(request.uri().path(), EXPORT);
    let codec = ProstCodec::<ExportTraceServiceResponse, ExportTraceServiceRequest>::default();
    Ok(Grpc::new(codec).unary(Export(batches), request).await)
}

struct Export(Arc<Mutex<Vec<ExportTraceServiceRequest>>>);

impl Service<Request<ExportTraceServiceRequest>> for Export {
    type Response = Response<ExportTraceServiceResponse>;
    type Error = Status;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Status>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Status>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<ExportTraceServiceRequest>) -> Self::Future {
        self.0.lock().unwrap().push(request.into_inner());
        Box::pin(async { Ok(Response::new(ExportTraceServiceResponse {})) })
    }
}
