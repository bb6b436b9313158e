//! Spans of requests, for a collector of OpenTelemetry.
//!
//! What happened in a request is noted in its `observe::Observation`. When its response has been sent,
//! [`Tracer`] makes spans of that, if the request is recorded ([`Sampler`]), and puts them in a bounded
//! queue; a supervised task sends them in batches over gRPC ([`Tracer::run`]).
//!
//! 1. Without a configuration nothing is recorded, and what a client says of its trace is handed on.
//! 2. A request never waits for a collector: what does not fit in the queue is dropped, counted and logged.
//! 3. Names and fields are those of the reference, so that its dashboards fit.

#[cfg(feature = "test-collector")]
pub mod collector;
mod config;
mod export;
mod otlp;
mod request;
mod sampler;

pub use config::{Configuration, Error};
pub use export::Tracer;
pub use otlp::{
    AnyValue, Event, ExportTraceServiceRequest, ExportTraceServiceResponse, InstrumentationScope, KeyValue,
    Link, Resource, ResourceSpans, ScopeSpans, Span, any_value,
};
pub use request::Request;
pub use sampler::{Caller, Incoming, Sampler};
