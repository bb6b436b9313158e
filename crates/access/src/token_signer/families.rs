//! The families that the client of the signer of tokens counts in.

use metrics::{CounterVec, GaugeVec, HistogramVec, Stability};

metrics::families! {
    /// When keys were last fetched.
    pub(super) static FETCHED_AT: GaugeVec<0> = GaugeVec::new(
        "apiserver_externaljwt_fetch_keys_success_timestamp",
        "Unix Timestamp in seconds of the last successful FetchKeys request",
        Stability::Alpha,
        [],
    );
    /// The time that the program gave for its keys.
    pub(super) static DATA_TIME: GaugeVec<0> = GaugeVec::new(
        "apiserver_externaljwt_fetch_keys_data_timestamp",
        "Unix Timestamp in seconds of the last successful FetchKeys data_timestamp value returned by the external signer",
        Stability::Alpha,
        [],
    );
    /// Questions for the keys, by how they ended.
    pub(super) static FETCHED: CounterVec<1> = CounterVec::new(
        "apiserver_externaljwt_fetch_keys_request_total",
        "Total attempts at syncing supported JWKs",
        Stability::Alpha,
        ["code"],
    );
    /// Tokens that were to be signed, by how that ended.
    pub(super) static SIGNED: CounterVec<1> = CounterVec::new(
        "apiserver_externaljwt_sign_request_total",
        "Total attempts at signing JWT",
        Stability::Alpha,
        ["code"],
    );
    /// How long calls took.
    pub(super) static REQUESTS: HistogramVec<2> = HistogramVec::new(
        "apiserver_externaljwt_request_duration_seconds",
        "Request duration and time for calls to external-jwt-signer",
        Stability::Alpha,
        ["code", "method"],
        &[0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0],
    );
}
