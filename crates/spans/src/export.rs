//! The queue of spans, and the task that sends them to a collector.
//!
//! Batches, bounds and times are those of the reference: a batch has at most [`BATCH`] requests and is sent
//! after [`LONGEST_WAIT`]; a collector that does not take it is asked again for [`PATIENCE`].

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use http::uri::PathAndQuery;
use hyper_util::rt::TokioIo;
use object::excerpt::excerpt;
use observe::Observation;
use tokio::net::UnixStream;
use tokio::sync::{Mutex, mpsc, oneshot};
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tonic::client::Grpc;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};
use tonic_prost::ProstCodec;
use tower_service::Service;

use crate::otlp::{
    EXPORT, ExportTraceServiceRequest, ExportTraceServiceResponse, InstrumentationScope, KeyValue, Resource,
    ResourceSpans, ScopeSpans, Span,
};
use crate::request::{Request, Scope};
use crate::sampler::Sampler;
use crate::{Configuration, Error};

/// The most requests whose spans wait.
const QUEUE: usize = 2048;
/// The most requests in a batch.
const BATCH: usize = 512;
/// The longest that spans wait for a batch to fill.
const LONGEST_WAIT: Duration = Duration::from_secs(5);
/// How long one call may take.
const CALL: Duration = Duration::from_secs(10);
/// How long a batch is tried again.
const PATIENCE: Duration = Duration::from_secs(60);
/// The first pause before that.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// The name of all servers of this API.
const SERVICE: &str = "apiserver";

enum Item {
    Spans(Vec<(Scope, Span)>),
    /// Sends what is there, and says so.
    Flush(oneshot::Sender<()>),
}

/// Records requests, and sends their spans to a collector.
pub struct Tracer {
    sampler: Sampler,
    channel: Channel,
    resource: Resource,
    sender: mpsc::Sender<Item>,
    receiver: Mutex<mpsc::Receiver<Item>>,
    /// The requests whose spans were dropped.
    dropped: AtomicU64,
}

impl std::fmt::Debug for Tracer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tracer").field("sampler", &self.sampler).finish_non_exhaustive()
    }
}

impl Tracer {
    /// A tracer of the server with this name among all servers. It connects with the first batch. Has to be
    /// called on a runtime.
    pub fn new(configuration: &Configuration, instance: &str) -> Result<Arc<Self>, Error> {
        let (sender, receiver) = mpsc::channel(QUEUE);
        Ok(Arc::new(Self {
            sampler: Sampler::PerMillion(configuration.rate),
            channel: channel(&configuration.endpoint)?,
            resource: Resource {
                attributes: vec![
                    KeyValue::text("service.instance.id", instance),
                    KeyValue::text("service.name", SERVICE),
                ],
            },
            sender,
            receiver: Mutex::new(receiver),
            dropped: AtomicU64::new(0),
        }))
    }

    /// Which requests are recorded.
    pub fn sampler(&self) -> Sampler {
        self.sampler
    }

    /// Takes the spans of a request whose response was sent.
    pub fn ended(&self, request: Request, observation: &Observation) {
        let spans = request.spans(observation);
        if !spans.is_empty() && self.sender.try_send(Item::Spans(spans)).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits until all spans that are there have been sent, or are lost.
    pub async fn flush(&self) {
        let (done, sent) = oneshot::channel();
        if self.sender.send(Item::Flush(done)).await.is_ok() {
            let _ = sent.await;
        }
    }

    /// Sends spans, for as long as the server runs.
    pub async fn run(&self) {
        let mut receiver = self.receiver.lock().await;
        loop {
            let mut batch = Vec::new();
            let mut flushed = Vec::new();
            let mut requests = 0;
            let mut until = None;
            while requests < BATCH && flushed.is_empty() {
                let next = match until {
                    None => receiver.recv().await,
                    Some(until) => match timeout_at(until, receiver.recv()).await {
                        Ok(next) => next,
                        Err(_) => break,
                    },
                };
                match next {
                    Some(Item::Spans(spans)) => {
                        batch.extend(spans);
                        requests += 1;
                        until.get_or_insert_with(|| Instant::now() + LONGEST_WAIT);
                    }
                    Some(Item::Flush(done)) => flushed.push(done),
                    None => return,
                }
            }
            if !batch.is_empty() {
                self.export(batch, requests).await;
            }
            for done in flushed {
                let _ = done.send(());
            }
        }
    }

    /// Sends a batch, again and again while the collector cannot take it.
    async fn export(&self, batch: Vec<(Scope, Span)>, requests: usize) {
        let request = self.message(batch);
        let begin = Instant::now();
        let mut pause = FIRST_PAUSE;
        loop {
            let status = match timeout(CALL, self.call(request.clone())).await {
                Ok(Ok(())) => break,
                Ok(Err(status)) => status,
                Err(_) => Status::deadline_exceeded("context deadline exceeded"),
            };
            if !may_repeat(status.code()) || begin.elapsed() > PATIENCE {
                let why = excerpt(&status.message()).to_string();
                log::warn!(requests, code:? = status.code(), error = why.as_str(); "spans could not be sent to the collector, and are lost");
                break;
            }
            sleep(pause).await;
            pause = (pause * 2).min(PATIENCE / 4);
        }
        let dropped = self.dropped.swap(0, Ordering::Relaxed);
        if dropped > 0 {
            log::warn!(requests = dropped; "spans were dropped, because the collector takes too few");
        }
    }

    fn message(&self, batch: Vec<(Scope, Span)>) -> ExportTraceServiceRequest {
        let mut scopes = Scope::ALL.map(|scope| ScopeSpans {
            scope: Some(InstrumentationScope { name: scope.name().to_owned() }),
            spans: Vec::new(),
        });
        for (scope, span) in batch {
            if let Some(scope) = scopes.get_mut(scope as usize) {
                scope.spans.push(span);
            }
        }
        ExportTraceServiceRequest {
            resource_spans: vec![ResourceSpans {
                resource: Some(self.resource.clone()),
                scope_spans: scopes.into_iter().filter(|scope| !scope.spans.is_empty()).collect(),
            }],
        }
    }

    async fn call(&self, request: ExportTraceServiceRequest) -> Result<(), Status> {
        let mut grpc = Grpc::new(self.channel.clone());
        grpc.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
        let codec = ProstCodec::<_, ExportTraceServiceResponse>::default();
        grpc.unary(tonic::Request::new(request), PathAndQuery::from_static(EXPORT), codec).await.map(drop)
    }
}

/// Whether a call that ended so may be repeated, by the rules of OTLP.
fn may_repeat(code: Code) -> bool {
    matches!(
        code,
        Code::Cancelled
            | Code::DeadlineExceeded
            | Code::Aborted
            | Code::OutOfRange
            | Code::Unavailable
            | Code::DataLoss
            | Code::ResourceExhausted
    )
}

/// A connection to an endpoint, which is opened when it is needed.
fn channel(endpoint: &str) -> Result<Channel, Error> {
    let socket = |path: &str| {
        let endpoint = Endpoint::from(Uri::from_static("http://localhost"));
        endpoint.connect_with_connector_lazy(Dial { socket: path.to_owned() })
    };
    if let Some(path) = endpoint.strip_prefix("unix-abstract:") {
        return Ok(socket(&format!("\0{}", path.trim_start_matches("//"))));
    }
    if let Some(path) = endpoint.strip_prefix("unix:") {
        return Ok(socket(path.strip_prefix("//").unwrap_or(path)));
    }
    // dns://resolver/host:port
    let address = match endpoint.split_once("//") {
        Some((_, rest)) => rest.split_once('/').map_or(rest, |(_, address)| address),
        None => endpoint.strip_prefix("dns:").unwrap_or(endpoint),
    };
    let invalid = |why: &dyn std::fmt::Display| Error::Invalid(format!("endpoint {endpoint:?}: {why}"));
    let endpoint = Endpoint::from_shared(format!("http://{address}")).map_err(|error| invalid(&error))?;
    Ok(endpoint.connect_timeout(CALL).connect_lazy())
}

/// Opens connections to one socket.
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
        Box::pin(async move { UnixStream::connect(socket).await.map(TokioIo::new) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use observe::{SpanContext, Trace};

    fn tracer(endpoint: &str) -> Result<Arc<Tracer>, Error> {
        Tracer::new(&Configuration { endpoint: endpoint.into(), rate: 1 }, "apiserver-test")
    }

    fn request() -> Request {
        Request {
            name: "GET".into(),
            attributes: Vec::new(),
            has_failed: false,
            ended: std::time::Instant::now(),
        }
    }

    #[tokio::test]
    async fn endpoints_have_the_forms_of_grpc() {
        for endpoint in
            ["localhost:4317", "dns:///a:1", "dns://1.1.1.1/a:1", "unix:///a", "unix:a", "unix-abstract:a"]
        {
            assert!(tracer(endpoint).is_ok(), "{endpoint}");
        }
        assert!(tracer("a b:1").is_err());
    }

    #[tokio::test]
    async fn a_full_queue_drops_spans_and_counts_them() {
        let tracer = tracer("localhost:1").unwrap();
        let observation = Observation::begin("id");
        let context = SpanContext { trace: [1; 16], span: [2; 8], is_sampled: true };
        observation.set_trace(Trace { context: Some(context), ..Trace::default() });
        for _ in 0..QUEUE + 3 {
            tracer.ended(request(), &observation);
        }
        assert_eq!(tracer.dropped.load(Ordering::Relaxed), 3);
    }
}
