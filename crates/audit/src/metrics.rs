//! What is counted of audit.

use ::metrics::{CounterVec, Stability};

::metrics::families! {
    /// Events.
    pub static EVENTS: CounterVec<0> = CounterVec::new(
        "apiserver_audit_event_total",
        "Counter of audit events generated and sent to the audit backend.",
        Stability::Alpha,
        [],
    );
    /// Events that may be lost, by the part that failed.
    pub static ERRORS: CounterVec<1> = CounterVec::new(
        "apiserver_audit_error_total",
        "Counter of audit events that failed to be audited properly. Plugin identifies the plugin affected by the error.",
        Stability::Alpha,
        ["plugin"],
    );
    /// Requests, by their level.
    pub static LEVELS: CounterVec<1> = CounterVec::new(
        "apiserver_audit_level_total",
        "Counter of policy levels for audit events (1 per request).",
        Stability::Alpha,
        ["level"],
    );
    /// Requests that were refused because their event could not be written.
    pub static REJECTED: CounterVec<0> = CounterVec::new(
        "apiserver_audit_requests_rejected_total",
        "Counter of apiserver requests rejected due to an error in audit logging backend.",
        Stability::Alpha,
        [],
    );
}
