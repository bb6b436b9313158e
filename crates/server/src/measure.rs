//! `/metrics` and `/metrics/slis`, and how many requests are handled at once.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::{Instant, UNIX_EPOCH};

use auth::Authorizer;
use bytes::Bytes;
use flowcontrol::{Counted, RequestKind};
use http::header::{ACCEPT, CONTENT_ENCODING, CONTENT_TYPE, HeaderName};
use http::{HeaderValue, Method};
use metrics::{CounterVec, GaugeVec, Kind, Observed, Registry, Stability};

use crate::api::compress::Compressor;
use crate::cost;
use crate::count;
use crate::families;
use crate::handler::{Handler, Layer};
use crate::layers::permit;
use crate::request_info::RequestInfo;
use crate::{Body, Error, Request, Response};

const PROCESS_START: HeaderName = HeaderName::from_static("process-start-time-unix");

/// The families of `/metrics/slis`.
static INDICATORS: Registry = Registry::new();

metrics::families! {
    /// The outcome of the last run of each health check.
    static HEALTH_CHECK: GaugeVec<2> = GaugeVec::new(
        "kubernetes_healthcheck",
        "This metric records the result of a single healthcheck.",
        Stability::Stable,
        ["name", "type"],
    );
    /// How often health checks ran, with which outcome.
    static HEALTH_CHECKS: CounterVec<3> = CounterVec::new(
        "kubernetes_healthchecks_total",
        "This metric records the results of all healthcheck.",
        Stability::Stable,
        ["name", "status", "type"],
    );
}

/// The most requests that were handled at once in the last second.
static IN_FLIGHT: Observed = Observed::new(
    Kind::Gauge,
    "apiserver_current_inflight_requests",
    "Maximal number of currently used inflight request limit of this apiserver per request kind in last second.",
    Stability::Stable,
    &["request_kind"],
);

/// The most requests that waited at once in the last second.
static IN_QUEUE: Observed = Observed::new(
    Kind::Gauge,
    "apiserver_current_inqueue_requests",
    "Maximal number of queued requests in this apiserver per request kind in last second.",
    Stability::Alpha,
    &["request_kind"],
);

/// Serves the families of this crate, and of health checks.
pub fn register_families() {
    IN_QUEUE.observe(|samples| {
        let now = seconds();
        samples.sample(&["mutating"], f64::from(MUTATING_WAITING.most(now)));
        samples.sample(&["readOnly"], f64::from(READING_WAITING.most(now)));
    });
    IN_FLIGHT.observe(|samples| {
        let now = seconds();
        samples.sample(&["mutating"], f64::from(MUTATING.most(now)));
        samples.sample(&["readOnly"], f64::from(READING.most(now)));
    });
    families::begin();
    metrics::MAIN.register(families::FAMILIES);
    flowcontrol::register_families();
    metrics::MAIN.register(cost::families::FAMILIES);
    metrics::MAIN.register(&[&IN_FLIGHT, &IN_QUEUE]);
    metrics::MAIN.at_reset(count::forget_cells);
    INDICATORS.register(FAMILIES);
}

/// Counts the outcome of a health check.
pub(crate) fn health_check(name: &str, endpoint: &str, passed: bool) {
    HEALTH_CHECK.with([name, endpoint]).set(f64::from(u8::from(passed)));
    HEALTH_CHECKS.with([name, if passed { "success" } else { "error" }, endpoint]).inc();
}

/// Answers `/metrics` and `/metrics/slis`. A DELETE lets all families begin anew.
#[derive(Debug, Clone)]
pub(crate) struct Metrics {
    pub(crate) authorizer: Authorizer,
}

impl Layer for Metrics {
    async fn around<H: Handler>(&self, request: Request, next: &H) -> Result<Response, Error> {
        let registry = match request.raw_path() {
            "/metrics" => &metrics::MAIN,
            "/metrics/slis" => &INDICATORS,
            _ => return next.handle(request).await,
        };
        permit(&self.authorizer, &request).await?;
        if *request.method() == Method::DELETE {
            registry.reset();
            let mut response = Response::new(Body::from("metrics reset\n"));
            let media_type = HeaderValue::from_static("text/plain; charset=utf-8");
            response.headers_mut().insert(CONTENT_TYPE, media_type);
            return Ok(response);
        }
        let (format, escaping) = metrics::negotiate(request.header(ACCEPT));
        let text = registry.expose(format);
        let compressed = request.context.preferences.gzip().then(|| compressed(&text)).flatten();
        let is_compressed = compressed.is_some();
        let mut response = Response::new(Body::from(compressed.unwrap_or_else(|| text.into())));
        let headers = response.headers_mut();
        if is_compressed {
            headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        if let Ok(media_type) = HeaderValue::from_str(&metrics::content_type(format, escaping)) {
            headers.insert(CONTENT_TYPE, media_type);
        }
        headers.insert(PROCESS_START, HeaderValue::from(process_start()));
        Ok(response)
    }
}

fn compressed(text: &str) -> Option<Bytes> {
    let mut compressor = Compressor::new();
    // Writing into memory does not fail. If it did, the response would not be compressed.
    let first = compressor.push(text.as_bytes()).ok()?;
    let rest = compressor.finish().ok()?;
    Some([first, rest].concat().into())
}

/// When the process began to serve, in seconds since 1970.
fn process_start() -> u64 {
    static BEGUN: std::sync::OnceLock<u64> = std::sync::OnceLock::new();
    *BEGUN.get_or_init(|| clock::system().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs()))
}

/// How many requests are handled, and the most in this second and in the one before.
struct Watermark {
    now: AtomicU32,
    /// The second, in the upper half, and the most in it.
    second: AtomicU64,
    /// The second before, with the most in it.
    before: AtomicU64,
}

static READING: Watermark = Watermark::new();
static MUTATING: Watermark = Watermark::new();
static READING_WAITING: Watermark = Watermark::new();
static MUTATING_WAITING: Watermark = Watermark::new();

/// Counts a request that waits for its seats until it is dropped.
pub(crate) struct InQueue {
    _watermark: InFlightRequest,
    _over_time: Counted,
}

impl InQueue {
    pub(crate) fn new(kind: RequestKind) -> Self {
        let watermark = match kind {
            RequestKind::ReadOnly => &READING_WAITING,
            RequestKind::Mutating => &MUTATING_WAITING,
        };
        Self {
            _watermark: watermark.begin(seconds()),
            _over_time: Counted::new(flowcontrol::Phase::Waiting, kind),
        }
    }
}

impl Watermark {
    const fn new() -> Self {
        Self { now: AtomicU32::new(0), second: AtomicU64::new(0), before: AtomicU64::new(0) }
    }

    fn begin(&'static self, second: u32) -> InFlightRequest {
        let now = self.now.fetch_add(1, Relaxed) + 1;
        let (this, mark) = (u64::from(second) << 32, u64::from(second) << 32 | u64::from(now));
        let known = self.second.fetch_max(mark, Relaxed);
        if known < this {
            self.before.store(known, Relaxed);
        }
        InFlightRequest(self)
    }

    /// The most in the second before this one.
    fn most(&self, second: u32) -> u32 {
        let now = self.now.load(Relaxed);
        let is_before = |mark: &u64| (mark >> 32) + 1 == u64::from(second);
        let marks = [self.second.load(Relaxed), self.before.load(Relaxed)];
        let most = marks.into_iter().find(is_before).map(|mark| u32::try_from(mark & u64::from(u32::MAX)));
        most.and_then(Result::ok).unwrap_or(0).max(now)
    }
}

/// A request that is handled.
struct InFlightRequest(&'static Watermark);

impl Drop for InFlightRequest {
    fn drop(&mut self) {
        self.0.now.fetch_sub(1, Relaxed);
    }
}

/// Seconds of a clock that does not go back.
fn seconds() -> u32 {
    static BEGIN: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    u32::try_from(BEGIN.get_or_init(Instant::now).elapsed().as_secs() + 1).unwrap_or(u32::MAX)
}

/// Counts the requests that are handled at once: watches until they begin, and no connections.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CountInFlight;

impl Layer for CountInFlight {
    async fn around<H: Handler>(&self, request: Request, next: &H) -> Result<Response, Error> {
        process_start();
        let _counted = watermark(&request).map(|watermark| watermark.begin(seconds()));
        next.handle(request).await
    }
}

/// Where a request is counted; `None` if it is long-running.
fn watermark(request: &Request) -> Option<&'static Watermark> {
    let path = request.context.path.as_deref()?;
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    // Connections are under subresources, at the end of long paths.
    if path.matches('/').count() > 5 {
        let info = RequestInfo::parse(request.method(), path, request.query()).ok()?;
        if crate::deadline::is_long_running(&info) && !info.subresource.is_empty() {
            return None;
        }
    }
    Some(if is_read { &READING } else { &MUTATING })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_of_the_second_before_is_shown() {
        static MARK: Watermark = Watermark::new();
        let three = [MARK.begin(7), MARK.begin(7), MARK.begin(7)];
        drop(three);
        assert_eq!((MARK.most(7), MARK.most(8), MARK.most(9)), (0, 3, 0));
        let two = [MARK.begin(8), MARK.begin(8)];
        assert_eq!((MARK.most(8), MARK.most(9)), (3, 2));
        drop(MARK.begin(9));
        assert_eq!(MARK.most(10), 3);
        drop(two);
        assert_eq!((MARK.most(10), MARK.most(11)), (3, 0));
    }
}
