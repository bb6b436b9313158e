//! The messages of `opentelemetry.proto.collector.trace.v1`, as far as they are used.

use prost::Message;

/// The path of the call that exports spans.
pub(crate) const EXPORT: &str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";

/// A batch of spans.
#[derive(Clone, PartialEq, Message)]
pub struct ExportTraceServiceRequest {
    /// The spans by what made them: one entry here.
    #[prost(message, repeated, tag = "1")]
    pub resource_spans: Vec<ResourceSpans>,
}

/// The answer to a batch; what a collector refuses is not sent again.
#[derive(Clone, PartialEq, Message)]
pub struct ExportTraceServiceResponse {}

/// The spans of a server.
#[derive(Clone, PartialEq, Message)]
pub struct ResourceSpans {
    /// The server.
    #[prost(message, optional, tag = "1")]
    pub resource: Option<Resource>,
    /// Its spans.
    #[prost(message, repeated, tag = "2")]
    pub scope_spans: Vec<ScopeSpans>,
}

/// A server.
#[derive(Clone, PartialEq, Message)]
pub struct Resource {
    /// `service.name` and `service.instance.id`.
    #[prost(message, repeated, tag = "1")]
    pub attributes: Vec<KeyValue>,
}

/// The spans of one part of the code.
#[derive(Clone, PartialEq, Message)]
pub struct ScopeSpans {
    /// The part.
    #[prost(message, optional, tag = "1")]
    pub scope: Option<InstrumentationScope>,
    /// Its spans.
    #[prost(message, repeated, tag = "2")]
    pub spans: Vec<Span>,
}

/// A part of the code.
#[derive(Clone, PartialEq, Message)]
pub struct InstrumentationScope {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
}

/// A span.
#[derive(Clone, PartialEq, Message)]
pub struct Span {
    /// The id of the trace.
    #[prost(bytes = "vec", tag = "1")]
    pub trace_id: Vec<u8>,
    /// The id of the span.
    #[prost(bytes = "vec", tag = "2")]
    pub span_id: Vec<u8>,
    /// The header `tracestate`.
    #[prost(string, tag = "3")]
    pub trace_state: String,
    /// The id of the enclosing span; empty for the first span of a trace.
    #[prost(bytes = "vec", tag = "4")]
    pub parent_span_id: Vec<u8>,
    /// The name.
    #[prost(string, tag = "5")]
    pub name: String,
    /// 1 for work within the server, 2 for a request to it, 3 for a request that it makes.
    #[prost(int32, tag = "6")]
    pub kind: i32,
    /// In nanoseconds since 1970.
    #[prost(fixed64, tag = "7")]
    pub start_time_unix_nano: u64,
    /// In nanoseconds since 1970.
    #[prost(fixed64, tag = "8")]
    pub end_time_unix_nano: u64,
    /// The attributes.
    #[prost(message, repeated, tag = "9")]
    pub attributes: Vec<KeyValue>,
    /// What happened.
    #[prost(message, repeated, tag = "11")]
    pub events: Vec<Event>,
    /// Spans that it belongs to in another way than as a part.
    #[prost(message, repeated, tag = "13")]
    pub links: Vec<Link>,
    /// Whether the request failed.
    #[prost(message, optional, tag = "15")]
    pub status: Option<Status>,
    /// The bits 8 and 9: the parent is known to be, and is, of another process.
    #[prost(fixed32, tag = "16")]
    pub flags: u32,
}

/// The outcome of a span.
#[derive(Clone, PartialEq, Message)]
pub struct Status {
    /// 2 for an error.
    #[prost(int32, tag = "3")]
    pub code: i32,
}

/// Something that happened in a span.
#[derive(Clone, PartialEq, Message)]
pub struct Event {
    /// In nanoseconds since 1970.
    #[prost(fixed64, tag = "1")]
    pub time_unix_nano: u64,
    /// What it was.
    #[prost(string, tag = "2")]
    pub name: String,
    /// Its attributes.
    #[prost(message, repeated, tag = "3")]
    pub attributes: Vec<KeyValue>,
}

/// A span of another trace.
#[derive(Clone, PartialEq, Message)]
pub struct Link {
    /// The id of its trace.
    #[prost(bytes = "vec", tag = "1")]
    pub trace_id: Vec<u8>,
    /// Its id.
    #[prost(bytes = "vec", tag = "2")]
    pub span_id: Vec<u8>,
    /// The header `tracestate`.
    #[prost(string, tag = "3")]
    pub trace_state: String,
    /// As the flags of a span.
    #[prost(fixed32, tag = "6")]
    pub flags: u32,
}

/// An attribute.
#[derive(Clone, PartialEq, Message)]
pub struct KeyValue {
    /// Its name.
    #[prost(string, tag = "1")]
    pub key: String,
    /// Its value.
    #[prost(message, optional, tag = "2")]
    pub value: Option<AnyValue>,
}

impl KeyValue {
    pub(crate) fn text(key: &str, value: impl Into<String>) -> Self {
        Self::new(key, any_value::Value::Text(value.into()))
    }

    pub(crate) fn number(key: &str, value: u64) -> Self {
        Self::new(key, any_value::Value::Number(i64::try_from(value).unwrap_or(i64::MAX)))
    }

    fn new(key: &str, value: any_value::Value) -> Self {
        Self { key: key.to_owned(), value: Some(AnyValue { value: Some(value) }) }
    }
}

/// The value of an attribute.
#[derive(Clone, PartialEq, Message)]
pub struct AnyValue {
    /// The value, of one of these types.
    #[prost(oneof = "any_value::Value", tags = "1, 3")]
    pub value: Option<any_value::Value>,
}

/// The types of values.
pub mod any_value {
    /// The types of values that are used.
    #[derive(Clone, PartialEq, prost::Oneof)]
    pub enum Value {
        /// A text.
        #[prost(string, tag = "1")]
        Text(String),
        /// A whole number.
        #[prost(int64, tag = "3")]
        Number(i64),
    }
}
