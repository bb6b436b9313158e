//! The spans of one request, made of what was noted while it was handled.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use observe::{Field, FieldValue, Observation, Part, SpanContext, StepKind, Trace};

use crate::otlp::{Event, KeyValue, Link, Span, Status};

/// The parts of the code that make spans, by the names of the reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Scope {
    /// The span of the request.
    Http,
    /// Those of its steps.
    Steps,
    /// Those of the layers around the API.
    Layers,
}

impl Scope {
    pub(crate) const ALL: [Self; 3] = [Self::Http, Self::Steps, Self::Layers];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Http => "go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp",
            Self::Steps => "k8s.io/component-base/tracing",
            Self::Layers => "k8s.op/apiserver/pkg/endpoints/filterlatency",
        }
    }
}

/// The kinds of spans.
const INTERNAL: i32 = 1;
const SERVER: i32 = 2;
/// The flags of a span whose parent is known to be of this process, or of another one.
const PARENT_IS_LOCAL: u32 = 0x100;
const PARENT_IS_REMOTE: u32 = 0x300;
/// The code of a failed request.
const ERROR: i32 = 2;
/// The number of the span of authentication: no step has it.
const AUTHENTICATION: u16 = u16::MAX;

/// A request whose response was sent.
#[derive(Clone, Debug)]
pub struct Request {
    /// The method, and for a resource its route.
    pub name: String,
    /// The attributes of the span.
    pub attributes: Vec<Field>,
    /// Whether the server failed: a status of 500 and more.
    pub has_failed: bool,
    /// When it ended.
    pub ended: Instant,
}

impl Request {
    /// All spans of the request, that of the request itself first. None if it is not recorded.
    pub(crate) fn spans(self, observation: &Observation) -> Vec<(Scope, Span)> {
        let (Some(trace), Some(arrived), Some(arrived_at)) =
            (observation.trace(), observation.arrived(), observation.arrived_at())
        else {
            return Vec::new();
        };
        let Some(context) = trace.context.filter(|context| context.is_sampled) else { return Vec::new() };
        let clock = Clock { arrived, arrived_at };
        let state = trace.state.as_deref().unwrap_or_default();
        let begin = |context: SpanContext, name: &str, parent: Option<SpanContext>, kind| Span {
            trace_id: context.trace.to_vec(),
            span_id: context.span.to_vec(),
            trace_state: state.to_owned(),
            parent_span_id: parent.map(|parent| parent.span.to_vec()).unwrap_or_default(),
            name: name.to_owned(),
            kind,
            flags: PARENT_IS_LOCAL,
            ..Span::default()
        };
        let mut server = begin(context, &self.name, trace.parent, SERVER);
        server.start_time_unix_nano = clock.nanos(arrived);
        server.end_time_unix_nano = clock.nanos(self.ended);
        server.attributes = self.attributes.iter().map(attribute).collect();
        server.status = self.has_failed.then_some(Status { code: ERROR });
        if trace.parent.is_some() {
            server.flags = PARENT_IS_REMOTE;
        }
        server.links.extend(trace.link.map(|link| Link {
            trace_id: link.trace.to_vec(),
            span_id: link.span.to_vec(),
            trace_state: String::new(),
            flags: PARENT_IS_REMOTE,
        }));
        let mut all = vec![(Scope::Http, server)];
        let took = observation.times().map(|times| times.of(Part::Authentication)).unwrap_or_default();
        if let Some(own) = trace.span(AUTHENTICATION).filter(|_| !took.is_zero()) {
            let mut authentication = begin(own, "authentication", Some(context), INTERNAL);
            authentication.start_time_unix_nano = clock.nanos(arrived);
            authentication.end_time_unix_nano = clock.nanos(arrived + took);
            all.push((Scope::Layers, authentication));
        }
        all.extend(steps(observation, trace, context, &clock, self.ended, begin));
        all
    }
}

/// The spans of the steps.
fn steps(
    observation: &Observation,
    trace: &Trace,
    context: SpanContext,
    clock: &Clock,
    ended: Instant,
    begin: impl Fn(SpanContext, &str, Option<SpanContext>, i32) -> Span,
) -> Vec<(Scope, Span)> {
    let mut spans: Vec<Span> = Vec::new();
    let at = |span: u16| usize::from(span);
    for step in observation.steps() {
        let time = clock.nanos(step.done);
        match step.kind {
            StepKind::Begin { parent } => {
                let parent = parent.and_then(|parent| trace.span(parent)).unwrap_or(context);
                let number = u16::try_from(spans.len()).unwrap_or(u16::MAX);
                let mut span =
                    begin(trace.span(number).unwrap_or(context), step.text, Some(parent), INTERNAL);
                span.start_time_unix_nano = time;
                span.end_time_unix_nano = clock.nanos(ended);
                spans.push(span);
            }
            StepKind::Done { span } => {
                let attributes = step.number.map(|(key, number)| KeyValue::number(key, number));
                let event = Event {
                    time_unix_nano: time,
                    name: step.text.to_owned(),
                    attributes: attributes.into_iter().collect(),
                };
                if let Some(span) = span.and_then(|span| spans.get_mut(at(span))) {
                    span.events.push(event);
                }
            }
            StepKind::End { span } => {
                if let Some(span) = spans.get_mut(at(span)) {
                    span.end_time_unix_nano = time;
                }
            }
        }
    }
    for (span, fields) in observation.span_fields() {
        if let Some(span) = spans.get_mut(at(span)) {
            span.attributes = fields.iter().map(attribute).collect();
        }
    }
    spans.into_iter().map(|span| (Scope::Steps, span)).collect()
}

fn attribute((key, value): &Field) -> KeyValue {
    match value {
        FieldValue::Text(text) => KeyValue::text(key, &**text),
        FieldValue::Number(number) => KeyValue::number(key, *number),
    }
}

/// The time of the machine for moments after the arrival of a request.
struct Clock {
    arrived: Instant,
    arrived_at: SystemTime,
}

impl Clock {
    fn nanos(&self, moment: Instant) -> u64 {
        let since_epoch = self.arrived_at.duration_since(UNIX_EPOCH).unwrap_or_default();
        let nanos = since_epoch + moment.saturating_duration_since(self.arrived);
        u64::try_from(nanos.as_nanos()).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded() -> Observation {
        let observation = Observation::begin("id");
        let context = SpanContext { trace: [1; 16], span: [2; 8], is_sampled: true };
        let parent = SpanContext { span: [3; 8], ..context };
        observation.set_trace(Trace { context: Some(context), parent: Some(parent), ..Trace::default() });
        observation
    }

    fn ended() -> Request {
        Request {
            name: "GET /api/v1/nodes".into(),
            attributes: vec![("http.status_code", 200.into())],
            has_failed: false,
            ended: Instant::now(),
        }
    }

    #[test]
    fn spans_of_steps_are_parts_of_the_span_of_the_request() {
        let observation = recorded();
        {
            let _get = observation.span("Get", || vec![("name", "a".into())]);
            observation.step("About to Get from storage");
            let _inner = observation.span("cacher.Get", Vec::new);
            observation.step_with("read", "len", 7);
        }
        let spans = ended().spans(&observation);
        let names: Vec<_> = spans.iter().map(|(_, span)| span.name.as_str()).collect();
        assert_eq!(names, ["GET /api/v1/nodes", "Get", "cacher.Get"]);
        let [(_, server), (_, get), (_, inner)] = spans.as_slice() else { panic!("three spans") };
        assert_eq!(
            (server.parent_span_id.as_slice(), server.kind, server.flags),
            ([3; 8].as_slice(), 2, 0x300)
        );
        assert_eq!((&get.parent_span_id, &inner.parent_span_id), (&server.span_id, &get.span_id));
        assert_eq!(get.events[0].name, "About to Get from storage");
        assert_eq!(inner.events[0].attributes, [KeyValue::number("len", 7)]);
        assert_eq!(get.attributes, [KeyValue::text("name", "a")]);
        assert!(server.start_time_unix_nano <= get.start_time_unix_nano);
        assert!(inner.end_time_unix_nano <= get.end_time_unix_nano);
        assert!(get.end_time_unix_nano <= server.end_time_unix_nano);
        assert!(spans.iter().all(|(_, span)| span.trace_id == [1; 16]));
    }

    #[test]
    fn what_is_not_recorded_has_no_spans() {
        assert!(ended().spans(&Observation::begin("id")).is_empty());
        assert!(ended().spans(&Observation::none()).is_empty());
    }
}
