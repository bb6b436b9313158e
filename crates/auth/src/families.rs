//! The families that this crate counts in.

use std::sync::{Arc, LazyLock, OnceLock};
use std::time::Duration;

use metrics::{Counter, CounterVec, GaugeVec, Histogram, HistogramVec, Stability};

use crate::authorize::{Decision, Verdict};

metrics::families! {
    /// Authenticated requests, by what kind of name their user has.
    pub(crate) static USERS: CounterVec<1> = CounterVec::new(
        "authenticated_user_requests",
        "Counter of authenticated requests broken out by username.",
        Stability::Alpha,
        ["username"],
    );
    /// Authentications of requests, by their outcome.
    pub(crate) static ATTEMPTS: CounterVec<1> = CounterVec::new(
        "authentication_attempts",
        "Counter of authenticated attempts.",
        Stability::Alpha,
        ["result"],
    );
    /// How long authentications took.
    pub(crate) static DURATIONS: HistogramVec<1> = HistogramVec::new(
        "authentication_duration_seconds",
        "Authentication duration in seconds broken out by result.",
        Stability::Alpha,
        ["result"],
        &[0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.024, 2.048, 4.096, 8.192, 16.384],
    );
    /// Looks for tokens among the answers of webhooks.
    pub(crate) static TOKEN_REQUESTS: CounterVec<1> = CounterVec::new(
        "authentication_token_cache_request_total",
        "",
        Stability::Alpha,
        ["status"],
    );
    /// Questions to webhooks about tokens.
    pub(crate) static TOKEN_FETCHES: CounterVec<1> = CounterVec::new(
        "authentication_token_cache_fetch_total",
        "",
        Stability::Alpha,
        ["status"],
    );
    /// How long looks for tokens took, with the question to the webhook.
    pub(crate) static TOKEN_REQUEST_DURATIONS: HistogramVec<1> = HistogramVec::new(
        "authentication_token_cache_request_duration_seconds",
        "",
        Stability::Alpha,
        ["status"],
        &[],
    );
    /// Questions to webhooks that are open.
    pub(crate) static TOKEN_FETCHES_OPEN: GaugeVec<1> = GaugeVec::new(
        "authentication_token_cache_active_fetch_count",
        "",
        Stability::Alpha,
        ["status"],
    );
    /// How long the certificates of clients are valid yet.
    pub(crate) static CERTIFICATES: HistogramVec<0> = HistogramVec::new(
        "apiserver_client_certificate_expiration_seconds",
        "Distribution of the remaining lifetime on the certificate used to authenticate a request.",
        Stability::Alpha,
        [],
        &[0.0, 1800.0, 3600.0, 7200.0, 21_600.0, 43_200.0, 86_400.0, 172_800.0, 345_600.0, 604_800.0, 2_592_000.0, 7_776_000.0, 15_552_000.0, 31_104_000.0],
    );
    /// How long tokens of issuers took.
    pub(crate) static JWT_DURATIONS: HistogramVec<2> = HistogramVec::new(
        "apiserver_authentication_jwt_authenticator_latency_seconds",
        "Latency of jwt authentication operations in seconds. This is the time spent authenticating a token for cache miss only (i.e. when the token is not found in the cache).",
        Stability::Alpha,
        ["jwt_issuer_hash", "result"],
        &[0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0],
    );
    /// Authorizations of requests, by their outcome.
    pub(crate) static AUTHORIZATIONS: CounterVec<1> = CounterVec::new(
        "authorization_attempts_total",
        "Counter of authorization attempts broken down by result. It can be either 'allowed', 'denied', 'no-opinion' or 'error'.",
        Stability::Alpha,
        ["result"],
    );
    /// How long authorizations took.
    pub(crate) static AUTHORIZATION_DURATIONS: HistogramVec<1> = HistogramVec::new(
        "authorization_duration_seconds",
        "Authorization duration in seconds broken out by result.",
        Stability::Alpha,
        ["result"],
        &[0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.024, 2.048, 4.096, 8.192, 16.384],
    );
    /// Decisions, by the mode that made them.
    pub(crate) static DECISIONS: CounterVec<3> = CounterVec::new(
        "apiserver_authorization_decisions_total",
        "Total number of terminal decisions made by an authorizer split by authorizer type, name, and decision.",
        Stability::Alpha,
        ["decision", "name", "type"],
    );
    /// Conditions of webhooks that failed.
    pub(crate) static MATCH_ERRORS: CounterVec<2> = CounterVec::new(
        "apiserver_authorization_match_condition_evaluation_errors_total",
        "Total number of errors when an authorization webhook encounters a match condition error split by authorizer type and name.",
        Stability::Alpha,
        ["name", "type"],
    );
    /// Requests that conditions kept from webhooks.
    pub(crate) static MATCH_EXCLUSIONS: CounterVec<2> = CounterVec::new(
        "apiserver_authorization_match_condition_exclusions_total",
        "Total number of exclusions when an authorization webhook is skipped because match conditions exclude it.",
        Stability::Alpha,
        ["name", "type"],
    );
    /// How long conditions of webhooks took.
    pub(crate) static MATCH_DURATIONS: HistogramVec<2> = HistogramVec::new(
        "apiserver_authorization_match_condition_evaluation_seconds",
        "Authorization match condition evaluation time in seconds, split by authorizer type and name.",
        Stability::Alpha,
        ["name", "type"],
        &[0.001, 0.005, 0.01, 0.025, 0.1, 0.2, 0.25],
    );
    /// How long webhooks took.
    pub(crate) static WEBHOOK_DURATIONS: HistogramVec<2> = HistogramVec::new(
        "apiserver_authorization_webhook_duration_seconds",
        "Request latency in seconds.",
        Stability::Alpha,
        ["name", "result"],
        &[0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0],
    );
    /// Questions to webhooks, by their outcome.
    pub(crate) static WEBHOOK_EVALUATIONS: CounterVec<2> = CounterVec::new(
        "apiserver_authorization_webhook_evaluations_total",
        "Round-trips to authorization webhooks.",
        Stability::Alpha,
        ["name", "result"],
    );
    /// Questions to webhooks that failed and left the decision to others.
    pub(crate) static WEBHOOK_FAIL_OPEN: CounterVec<2> = CounterVec::new(
        "apiserver_authorization_webhook_evaluations_fail_open_total",
        "NoOpinion results due to webhook timeout or error.",
        Stability::Alpha,
        ["name", "result"],
    );
    /// Uses of tokens of Secrets.
    pub(crate) static LEGACY: CounterVec<0> = CounterVec::new(
        "serviceaccount_legacy_tokens_total",
        "Cumulative legacy service account tokens used",
        Stability::Alpha,
        [],
    );
    /// Those of Secrets that were made with their account.
    pub(crate) static LEGACY_AUTO: CounterVec<0> = CounterVec::new(
        "serviceaccount_legacy_auto_token_uses_total",
        "Cumulative auto-generated legacy tokens used",
        Stability::Alpha,
        [],
    );
    /// Those of other Secrets.
    pub(crate) static LEGACY_MANUAL: CounterVec<0> = CounterVec::new(
        "serviceaccount_legacy_manual_token_uses_total",
        "Cumulative manually created legacy tokens used",
        Stability::Alpha,
        [],
    );
    /// Those of Secrets that were marked invalid.
    pub(crate) static LEGACY_INVALID: CounterVec<0> = CounterVec::new(
        "serviceaccount_invalid_legacy_auto_token_uses_total",
        "Cumulative invalid auto-generated legacy tokens used",
        Stability::Alpha,
        [],
    );
    /// Uses of bound tokens that should have been renewed.
    pub(crate) static STALE: CounterVec<0> = CounterVec::new(
        "serviceaccount_stale_tokens_total",
        "Cumulative stale projected service account tokens used",
        Stability::Alpha,
        [],
    );
    /// Uses of other bound tokens.
    pub(crate) static VALID: CounterVec<0> = CounterVec::new(
        "serviceaccount_valid_tokens_total",
        "Cumulative valid projected service account tokens used",
        Stability::Alpha,
        [],
    );
}

/// The cells of an outcome.
type Cells = (Arc<Counter>, Arc<Histogram>);

/// The outcome of an authentication.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Outcome {
    Success,
    Failure,
    Error,
}

/// Counts the authentication of a request. `user` is its name.
pub(crate) fn authenticated(outcome: Outcome, user: &str, took: Duration) {
    static CELLS: [OnceLock<Cells>; 3] = [const { OnceLock::new() }; 3];
    static OTHERS: LazyLock<Arc<Counter>> = LazyLock::new(|| USERS.with(["other"]));
    let [success, failure, error] = &CELLS;
    let (cells, result) = match outcome {
        Outcome::Success => {
            match user {
                "admin"
                | "client"
                | "kube_proxy"
                | "kubelet"
                | "system:serviceaccount:kube-system:default" => {
                    USERS.with([user]).inc();
                }
                _ if user.contains('@') => USERS.with(["email_id"]).inc(),
                _ => OTHERS.inc(),
            }
            (success, "success")
        }
        Outcome::Failure => (failure, "failure"),
        Outcome::Error => (error, "error"),
    };
    let (count, duration) = cells.get_or_init(|| (ATTEMPTS.with([result]), DURATIONS.with([result])));
    count.inc();
    duration.observe_time(took);
}

/// Counts the authorization of a request.
pub(crate) fn authorized(verdict: &Verdict, took: Duration) {
    static CELLS: [OnceLock<Cells>; 4] = [const { OnceLock::new() }; 4];
    let [allowed, denied, no_opinion, error] = &CELLS;
    let (cells, result) = match (verdict.decision, &verdict.error) {
        (Decision::Allow, _) => (allowed, "allowed"),
        (_, Some(_)) => (error, "error"),
        (Decision::Deny, None) => (denied, "denied"),
        (Decision::NoOpinion, None) => (no_opinion, "no-opinion"),
    };
    let make = || (AUTHORIZATIONS.with([result]), AUTHORIZATION_DURATIONS.with([result]));
    let (count, duration) = cells.get_or_init(make);
    count.inc();
    duration.observe_time(took);
}

/// Serves the families of this crate.
pub fn register_families() {
    metrics::MAIN.register(FAMILIES);
}
