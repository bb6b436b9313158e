//! The families that requests to other servers are counted in. The host is one of the configuration.

use std::time::Duration;

use http::Uri;
use metrics::{CounterVec, GaugeVec, HistogramVec, Stability};

use crate::Error;

metrics::families! {
    /// Requests.
    pub(crate) static REQUESTS: CounterVec<3> = CounterVec::new(
        "rest_client_requests_total",
        "Number of HTTP requests, partitioned by status code, method, and host.",
        Stability::Alpha,
        ["code", "host", "method"],
    );
    /// How long requests took.
    pub(crate) static DURATIONS: HistogramVec<2> = HistogramVec::new(
        "rest_client_request_duration_seconds",
        "Request latency in seconds. Broken down by verb, and host.",
        Stability::Alpha,
        ["host", "verb"],
        &[0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0],
    );
    /// The sizes of requests.
    pub(crate) static REQUEST_SIZES: HistogramVec<2> = HistogramVec::new(
        "rest_client_request_size_bytes",
        "Request size in bytes. Broken down by verb and host.",
        Stability::Alpha,
        ["host", "verb"],
        &[64.0, 256.0, 512.0, 1024.0, 4096.0, 16_384.0, 65_536.0, 262_144.0, 1_048_576.0, 4_194_304.0, 16_777_216.0],
    );
    /// The sizes of responses.
    pub(crate) static RESPONSE_SIZES: HistogramVec<2> = HistogramVec::new(
        "rest_client_response_size_bytes",
        "Response size in bytes. Broken down by verb and host.",
        Stability::Alpha,
        ["host", "verb"],
        &[64.0, 256.0, 512.0, 1024.0, 4096.0, 16_384.0, 65_536.0, 262_144.0, 1_048_576.0, 4_194_304.0, 16_777_216.0],
    );
    /// Requests that were sent again.
    pub(crate) static RETRIES: CounterVec<3> = CounterVec::new(
        "rest_client_request_retries_total",
        "Number of request retries, partitioned by status code, verb, and host.",
        Stability::Alpha,
        ["code", "host", "verb"],
    );
    /// Programs for credentials that were run.
    pub(crate) static EXEC_CALLS: CounterVec<2> = CounterVec::new(
        "rest_client_exec_plugin_call_total",
        "Number of calls to an exec plugin, partitioned by the type of event encountered (no_error, plugin_execution_error, plugin_not_found_error, client_internal_error) and an optional exit code. The exit code will be set to 0 if and only if the plugin call was successful.",
        Stability::Alpha,
        ["call_status", "code"],
    );
    /// How long the certificates of programs for credentials are valid.
    pub(crate) static EXEC_TTL: GaugeVec<0> = GaugeVec::new(
        "rest_client_exec_plugin_ttl_seconds",
        "Gauge of the shortest TTL (time-to-live) of the client certificate(s) managed by the auth exec plugin. The value is in seconds until certificate expiry (negative if already expired). If auth exec plugins are unused or manage no TLS certificates, the value will be +INF.",
        Stability::Alpha,
        [],
    );
    /// How old certificates were that programs for credentials replaced.
    pub(crate) static EXEC_ROTATIONS: HistogramVec<0> = HistogramVec::new(
        "rest_client_exec_plugin_certificate_rotation_age",
        "Histogram of the number of seconds the last auth exec plugin client certificate lived before being rotated. If auth exec plugin client certificates are unused, histogram will contain no data.",
        Stability::Alpha,
        [],
        &[600.0, 1800.0, 3600.0, 14_400.0, 86_400.0, 604_800.0, 2_592_000.0, 7_776_000.0, 15_552_000.0, 31_104_000.0, 124_416_000.0],
    );
    /// Requests that have a place among those of their client.
    pub(crate) static UNDER_WAY: GaugeVec<0> = GaugeVec::new(
        "keelson_outbound_requests",
        "Number of requests to other servers (webhooks, issuers of tokens) that are under way.",
        Stability::Unstated,
        [],
    );
    /// Requests that wait for a place.
    pub(crate) static WAITING: GaugeVec<0> = GaugeVec::new(
        "keelson_outbound_waiting_requests",
        "Number of requests to other servers (webhooks, issuers of tokens) that wait until others have ended.",
        Stability::Unstated,
        [],
    );
    /// As in the reference: certificates with SHA-1 signatures. They are always refused.
    pub(crate) static WEBHOOK_SHA1: CounterVec<0> = CounterVec::new(
        "apiserver_webhooks_x509_insecure_sha1_total",
        "Counts the number of requests to servers with insecure SHA1 signatures in their serving certificate OR the number of connection failures due to the insecure SHA1 signatures (either/or, based on the runtime environment)",
        Stability::Alpha,
        [],
    );
    /// As in the reference: certificates without alternative names. They are always refused.
    pub(crate) static WEBHOOK_SAN: CounterVec<0> = CounterVec::new(
        "apiserver_webhooks_x509_missing_san_total",
        "Counts the number of requests to servers missing SAN extension in their serving certificate OR the number of connection failures due to the lack of x509 certificate SAN extension missing (either/or, based on the runtime environment)",
        Stability::Alpha,
        [],
    );
}

/// Counts a request, and its answer: the code and the size.
#[allow(clippy::cast_precision_loss, reason = "sizes")]
pub(crate) fn requested(
    method: &str,
    url: &Uri,
    sent: usize,
    took: Duration,
    answer: Result<(u16, usize), &Error>,
) {
    let host = url.authority().map(http::uri::Authority::as_str).unwrap_or_default();
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
    let method = method.to_ascii_uppercase();
    let code = match answer {
        Ok((code, _)) => code.to_string(),
        Err(Error::Status { code, .. }) => code.to_string(),
        Err(_) => "<error>".to_owned(),
    };
    REQUESTS.with([&code, host, &method]).inc();
    DURATIONS.with([host, &method]).observe_time(took);
    REQUEST_SIZES.with([host, &method]).observe(sent as f64);
    if let Ok((_, size)) = answer {
        RESPONSE_SIZES.with([host, &method]).observe(size as f64);
    }
}

/// Serves the families of this crate.
pub fn register_families() {
    EXEC_TTL.with([]).set(f64::INFINITY);
    metrics::MAIN.register(FAMILIES);
}
