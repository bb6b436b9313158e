//! The families that the server counts requests and connections in.

use metrics::{CounterVec, GaugeVec, HistogramVec, Stability};

metrics::families! {
    /// Requests for versions of kinds that have an end.
    pub(crate) static DEPRECATED: GaugeVec<5> = GaugeVec::new(
        "apiserver_requested_deprecated_apis",
        "Gauge of deprecated APIs that have been requested, broken out by API group, version, resource, subresource, and removed_release.",
        Stability::Stable,
        ["group", "removed_release", "resource", "subresource", "version"],
    );
    /// Requests, by what they asked for and the code of the response.
    pub(crate) static REQUESTS: CounterVec<9> = CounterVec::new(
        "apiserver_request_total",
        "Counter of apiserver requests broken out for each verb, dry run value, group, version, resource, scope, component, and HTTP response code.",
        Stability::Stable,
        ["code", "component", "dry_run", "group", "resource", "scope", "subresource", "verb", "version"],
    );
    /// Watches and connections that are open.
    pub(crate) static LONG_RUNNING: GaugeVec<7> = GaugeVec::new(
        "apiserver_longrunning_requests",
        "Gauge of all active long-running apiserver requests broken out by verb, group, version, resource, scope and component. Not all requests are tracked this way.",
        Stability::Stable,
        ["component", "group", "resource", "scope", "subresource", "verb", "version"],
    );
    /// From the arrival of a request until its response was sent.
    pub(crate) static DURATIONS: HistogramVec<8> = HistogramVec::new(
        "apiserver_request_duration_seconds",
        "Response latency distribution in seconds for each verb, dry run value, group, version, resource, subresource, scope and component.",
        Stability::Stable,
        ["component", "dry_run", "group", "resource", "scope", "subresource", "verb", "version"],
        &[0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0],
    );
    /// As `SLI_DURATIONS`, under the name of old.
    pub(crate) static SLO_DURATIONS: HistogramVec<7> = HistogramVec::new(
        "apiserver_request_slo_duration_seconds",
        "Response latency distribution (not counting webhook duration and priority & fairness queue wait times) in seconds for each verb, group, version, resource, subresource, scope and component.",
        Stability::Alpha,
        ["component", "group", "resource", "scope", "subresource", "verb", "version"],
        &[0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0],
    ).deprecated_since("1.27.0");
    /// As `DURATIONS`, without the time of webhooks and queues.
    pub(crate) static SLI_DURATIONS: HistogramVec<7> = HistogramVec::new(
        "apiserver_request_sli_duration_seconds",
        "Response latency distribution (not counting webhook duration and priority & fairness queue wait times) in seconds for each verb, group, version, resource, subresource, scope and component.",
        Stability::Alpha,
        ["component", "group", "resource", "scope", "subresource", "verb", "version"],
        &[0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0],
    );
    /// As the reference has it: the values of `fieldValidation`, without times.
    pub(crate) static FIELD_VALIDATIONS: HistogramVec<1> = HistogramVec::new(
        "field_validation_request_duration_seconds",
        "Response latency distribution in seconds for each field validation value",
        Stability::Alpha,
        ["field_validation"],
        &[0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0],
    );
    /// The sizes of responses to reads.
    pub(crate) static RESPONSE_SIZES: HistogramVec<7> = HistogramVec::new(
        "apiserver_response_sizes",
        "Response size distribution in bytes for each group, version, verb, resource, subresource, scope and component.",
        Stability::Stable,
        ["component", "group", "resource", "scope", "subresource", "verb", "version"],
        &[1000.0, 10_000.0, 100_000.0, 1_000_000.0, 10_000_000.0, 100_000_000.0, 1_000_000_000.0],
    );
    /// Handshakes that failed.
    pub(crate) static TLS_ERRORS: CounterVec<0> = CounterVec::new(
        "apiserver_tls_handshake_errors_total",
        "Number of requests dropped with 'TLS handshake error from' error",
        Stability::Alpha,
        [],
    );
    /// Events that watches sent.
    pub(crate) static WATCH_EVENTS: CounterVec<3> = CounterVec::new(
        "apiserver_watch_events_total",
        "Number of events sent in watch clients",
        Stability::Alpha,
        ["group", "kind", "version"],
    );
    /// The sizes of events that watches sent.
    pub(crate) static WATCH_EVENT_SIZES: HistogramVec<3> = HistogramVec::new(
        "apiserver_watch_events_sizes",
        "Watch event size distribution in bytes",
        Stability::Alpha,
        ["group", "kind", "version"],
        &[1024.0, 2048.0, 4096.0, 8192.0, 16_384.0, 32_768.0, 65_536.0, 131_072.0],
    );
    /// Requests that ended because their time was up, or because there were too many.
    pub(crate) static TERMINATIONS: CounterVec<8> = CounterVec::new(
        "apiserver_request_terminations_total",
        "Number of requests which apiserver terminated in self-defense.",
        Stability::Alpha,
        ["code", "component", "group", "resource", "scope", "subresource", "verb", "version"],
    );
    /// Requests of the user that the server itself is.
    pub(crate) static SELF_REQUESTS: CounterVec<3> = CounterVec::new(
        "apiserver_selfrequest_total",
        "Counter of apiserver self-requests broken out for each verb, API resource and subresource.",
        Stability::Alpha,
        ["resource", "subresource", "verb"],
    );
    /// How long layers took before they handed a request on.
    pub(crate) static FILTERS: HistogramVec<1> = HistogramVec::new(
        "apiserver_request_filter_duration_seconds",
        "Request filter latency distribution in seconds, for each filter type",
        Stability::Alpha,
        ["filter"],
        &[0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 5.0, 10.0, 15.0, 30.0],
    );
    /// Responses whose sending was given up.
    pub(crate) static ABORTS: CounterVec<6> = CounterVec::new(
        "apiserver_request_aborts_total",
        "Number of requests which apiserver aborted possibly due to a timeout, for each group, version, verb, resource, subresource and scope",
        Stability::Alpha,
        ["group", "resource", "scope", "subresource", "verb", "version"],
    );
    /// Handlers that went on after their request had timed out. Here they end with it.
    pub(crate) static POST_TIMEOUTS: CounterVec<2> = CounterVec::new(
        "apiserver_request_post_timeout_total",
        "Tracks the activity of the request handlers after the associated requests have been timed out by the apiserver",
        Stability::Alpha,
        ["source", "status"],
    );
    /// The sizes of bodies of writes.
    pub(crate) static BODY_SIZES: HistogramVec<2> = HistogramVec::new(
        "apiserver_request_body_size_bytes",
        "Apiserver request body size in bytes broken out by resource and verb.",
        Stability::Alpha,
        ["resource", "verb"],
        &[50_000.0, 150_000.0, 250_000.0, 350_000.0, 450_000.0, 550_000.0, 650_000.0, 750_000.0, 850_000.0, 950_000.0, 1_050_000.0, 1_150_000.0, 1_250_000.0, 1_350_000.0, 1_450_000.0, 1_550_000.0, 1_650_000.0, 1_750_000.0, 1_850_000.0, 1_950_000.0, 2_050_000.0, 2_150_000.0, 2_250_000.0, 2_350_000.0, 2_450_000.0, 2_550_000.0, 2_650_000.0, 2_750_000.0, 2_850_000.0, 2_950_000.0, 3_050_000.0],
    );
    /// How long the initial events of streaming lists took.
    pub(crate) static WATCH_LISTS: HistogramVec<4> = HistogramVec::new(
        "apiserver_watch_list_duration_seconds",
        "Response latency distribution in seconds for watch list requests broken by group, version, resource and scope.",
        Stability::Alpha,
        ["group", "resource", "scope", "version"],
        &[0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 2.0, 4.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0],
    );
    /// How often the aggregated discovery document was made.
    pub(crate) static DISCOVERIES: CounterVec<0> = CounterVec::new(
        "aggregator_discovery_aggregation_count_total",
        "Counter of number of times discovery was aggregated",
        Stability::Alpha,
        [],
    );
    /// Commands over WebSocket, by the code of the response.
    pub(crate) static STREAM_TRANSLATIONS: CounterVec<1> = CounterVec::new(
        "apiserver_stream_translator_requests_total",
        "Total number of requests that were handled by the StreamTranslatorProxy, which processes streaming RemoteCommand/V5",
        Stability::Alpha,
        ["code"],
    );
    /// Forwarded ports over WebSocket, by the code of the response.
    pub(crate) static STREAM_TUNNELS: CounterVec<1> = CounterVec::new(
        "apiserver_stream_tunnel_requests_total",
        "Total number of requests that were handled by the StreamTunnelProxy, which processes streaming PortForward/V2",
        Stability::Alpha,
        ["code"],
    );
    /// Requests for logs, by whether the kubelet is verified.
    pub(crate) static POD_LOGS: CounterVec<1> = CounterVec::new(
        "kube_apiserver_pod_logs_insecure_backend_total",
        "Total number of requests for pods/logs sliced by usage type: enforce_tls, skip_tls_allowed, skip_tls_denied",
        Stability::Alpha,
        ["usage"],
    );
    /// Open connections: of clients, and to backends for them.
    pub(crate) static CONNECTIONS: GaugeVec<1> = GaugeVec::new(
        "keelson_connections",
        "Number of open connections, of clients and to backends (kubelets, pods, services) for clients.",
        Stability::Unstated,
        ["kind"],
    );
    /// Connections that got no place.
    pub(crate) static CONNECTIONS_REFUSED: CounterVec<1> = CounterVec::new(
        "keelson_connections_refused_total",
        "Number of connections that were refused because there was no place for them.",
        Stability::Unstated,
        ["kind"],
    );
    /// Connections that were closed for others, or because their peers did not read.
    pub(crate) static CONNECTIONS_CLOSED: CounterVec<1> = CounterVec::new(
        "keelson_connections_closed_total",
        "Number of connections that were closed to make a place for another, or because their peers did not read.",
        Stability::Unstated,
        ["reason"],
    );
    /// What responses hold for their clients alone.
    pub(crate) static UNSENT: GaugeVec<0> = GaugeVec::new(
        "keelson_unsent_bytes",
        "Bytes of responses that are in memory for one client alone, and that the client has not read yet.",
        Stability::Unstated,
        [],
    );
    /// Requests over the budget of unsent bytes.
    pub(crate) static UNSENT_REFUSED: CounterVec<0> = CounterVec::new(
        "keelson_unsent_refused_requests_total",
        "Number of requests that were refused because too many bytes for their user were unsent.",
        Stability::Unstated,
        [],
    );
    /// Responses that were ended before they were sent.
    pub(crate) static RESPONSES_ENDED: CounterVec<1> = CounterVec::new(
        "keelson_responses_ended_total",
        "Number of responses that were ended before they were sent: their clients did not read, their time was up, or they held too many superseded objects.",
        Stability::Unstated,
        ["reason"],
    );
    /// Logs that a kubelet did not give because it was not verified.
    pub(crate) static POD_LOG_TLS: CounterVec<0> = CounterVec::new(
        "kube_apiserver_pod_logs_backend_tls_failure_total",
        "Total number of requests for pods/logs that failed due to kubelet server TLS verification",
        Stability::Alpha,
        [],
    );
}

/// Serves families from the start whose label values are all known.
pub(crate) fn begin() {
    for kind in ["client", "backend"] {
        CONNECTIONS.with([kind]);
        CONNECTIONS_REFUSED.with([kind]);
    }
    for reason in ["replaced", "stalled"] {
        CONNECTIONS_CLOSED.with([reason]);
    }
    for reason in ["stalled", "late", "pinning"] {
        RESPONSES_ENDED.with([reason]);
    }
}
