//! The families that conversions are counted in.

use std::time::Duration;

use metrics::{CounterVec, HistogramVec, Stability};

metrics::families! {
    /// Conversions, by definition and versions.
    static CONVERSIONS: HistogramVec<4> = HistogramVec::new(
        "apiserver_crd_conversion_webhook_duration_seconds",
        "CRD webhook conversion duration in seconds",
        Stability::Alpha,
        ["crd_name", "from_version", "succeeded", "to_version"],
        &[0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.024, 2.048, 4.096, 8.192, 16.384],
    );
    /// Questions to webhooks.
    pub(crate) static REQUESTS: CounterVec<2> = CounterVec::new(
        "apiserver_conversion_webhook_request_total",
        "Counter for conversion webhook requests with success/failure and failure error type",
        Stability::Alpha,
        ["failure_type", "result"],
    );
    /// How long they took.
    static DURATIONS: HistogramVec<2> = HistogramVec::new(
        "apiserver_conversion_webhook_duration_seconds",
        "Conversion webhook request latency",
        Stability::Alpha,
        ["failure_type", "result"],
        &[0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 45.0, 60.0],
    );
}

/// What is wrong with a conversion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The webhook did not answer, or not with a review.
    Call,
    /// The answer is not one to the question.
    Malformed,
    /// The answer has other objects than were asked for.
    Partial,
    /// An object of the answer is another than the one that was asked for.
    Object,
}

impl Failure {
    fn as_str(self) -> &'static str {
        match self {
            Self::Call => "conversion_webhook_call_failure",
            Self::Malformed => "conversion_webhook_malformed_response_failure",
            Self::Partial => "conversion_webhook_partial_response_failure",
            Self::Object => "conversion_webhook_invalid_converted_object_failure",
        }
    }
}

/// A conversion: the definition, and the versions before and after it.
pub(crate) struct Conversion<'a> {
    pub(crate) definition: &'a str,
    pub(crate) from: &'a str,
    pub(crate) to: &'a str,
}

impl Conversion<'_> {
    /// Counts a question to the webhook.
    pub(crate) fn count(&self, took: Duration, failure: Option<Failure>) {
        let succeeded = if failure.is_none() { "true" } else { "false" };
        CONVERSIONS.with([self.definition, self.from, succeeded, self.to]).observe_time(took);
        let result = if failure.is_none() { "success" } else { "failure" };
        let labels = [failure.map_or("", Failure::as_str), result];
        REQUESTS.with(labels).inc();
        DURATIONS.with(labels).observe_time(took);
    }
}

/// Serves the families of this crate.
pub fn register_families() {
    metrics::MAIN.register(FAMILIES);
}
