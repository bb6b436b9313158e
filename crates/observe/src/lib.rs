//! What is noted of one request while it is handled, for metrics, audit, traces and the log.
//!
//! An [`Observation`] is made when a request arrives. It travels with the user of the request
//! (`auth::Authenticated`), with the proof that the request is authorized (`auth::Authorized`) and with the
//! attributes that admission sees, so that every part that does work for a request can note what it did.
//! The layers of the server read it when the response is sent. Work of the server itself has none: then
//! nothing is kept.
//!
//! 1. Clones share what they note.
//! 2. What nobody will read is not kept: annotations without an audit level, texts of steps that are not
//!    slow.
//! 3. What one request can make this keep is bounded.

mod annotations;
mod commits;
mod kept;
mod steps;
mod times;
mod trace;

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Instant, SystemTime};

pub use annotations::{Annotations, MOST_ANNOTATIONS};
pub use commits::Commit;
use commits::CommitHook;
pub use kept::{Identity, Kept};
pub use steps::{MOST_STEPS, Step, StepKind};
pub use times::{Part, Times};
pub use trace::{Field, FieldValue, SpanContext, Trace};

/// How much audit keeps of a request, in ascending order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum AuditLevel {
    /// Nothing.
    #[default]
    None,
    /// Who did what when, and the annotations.
    Metadata,
    /// The object of the request too.
    Request,
    /// The object of the response too.
    RequestResponse,
}

impl AuditLevel {
    const ALL: [Self; 4] = [Self::None, Self::Metadata, Self::Request, Self::RequestResponse];

    /// The word for it in policies and events.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "None",
            Self::Metadata => "Metadata",
            Self::Request => "Request",
            Self::RequestResponse => "RequestResponse",
        }
    }
}

/// What is noted of one request.
#[derive(Clone, Debug, Default)]
pub struct Observation(Option<Arc<Noted>>);

#[derive(Debug)]
struct Noted {
    audit_id: Box<str>,
    arrived: Instant,
    arrived_at: SystemTime,
    times: Times,
    /// An [`AuditLevel`].
    level: AtomicU8,
    annotations: Annotations,
    kept: Mutex<Kept>,
    steps: steps::Steps,
    trace: OnceLock<Box<Trace>>,
    commits: OnceLock<CommitHook>,
}

impl Observation {
    /// That of the server's own work: nothing is kept.
    pub const fn none() -> Self {
        Self(None)
    }

    /// That of a request that arrives now, with the id by which audit names it.
    pub fn begin(audit_id: impl Into<Box<str>>) -> Self {
        Self(Some(Arc::new(Noted {
            audit_id: audit_id.into(),
            arrived: Instant::now(),
            arrived_at: clock::system(),
            times: Times::default(),
            level: AtomicU8::default(),
            annotations: Annotations::default(),
            kept: Mutex::default(),
            steps: steps::Steps::default(),
            trace: OnceLock::new(),
            commits: OnceLock::new(),
        })))
    }

    /// The id by which audit names the request; empty for the server's own work.
    pub fn audit_id(&self) -> &str {
        self.0.as_ref().map_or("", |noted| &noted.audit_id)
    }

    /// When the request arrived; `None` for the server's own work.
    pub fn arrived(&self) -> Option<Instant> {
        self.0.as_ref().map(|noted| noted.arrived)
    }

    /// When the request arrived, by the clock of the machine; `None` for the server's own work.
    pub fn arrived_at(&self) -> Option<SystemTime> {
        self.0.as_ref().map(|noted| noted.arrived_at)
    }

    /// How much audit keeps of the request.
    pub fn audit_level(&self) -> AuditLevel {
        let level = self.0.as_ref().map_or(0, |noted| noted.level.load(Ordering::Relaxed));
        AuditLevel::ALL.get(usize::from(level)).copied().unwrap_or_default()
    }

    /// Decides how much audit keeps of the request.
    pub fn set_audit_level(&self, level: AuditLevel) {
        if let Some(noted) = &self.0 {
            noted.level.store(level as u8, Ordering::Relaxed);
        }
    }

    /// Notes something about the request for those who audit the cluster. What was noted under a key stays.
    pub fn annotate(&self, key: &str, value: &str) {
        if let Some(noted) = &self.0
            && self.audit_level() > AuditLevel::None
        {
            noted.annotations.add(key, value);
        }
    }

    /// The annotations so far, sorted by their keys.
    pub fn annotations(&self) -> Vec<(Box<str>, Box<str>)> {
        self.0.as_ref().map(|noted| noted.annotations.sorted()).unwrap_or_default()
    }

    /// Keeps more of the request for audit, if there is an audit level.
    pub fn keep(&self, keep: impl FnOnce(&mut Kept)) {
        if let Some(noted) = &self.0
            && self.audit_level() > AuditLevel::None
        {
            keep(&mut noted.kept.lock().unwrap_or_else(PoisonError::into_inner));
        }
    }

    /// What audit keeps besides the annotations.
    pub fn kept(&self) -> Kept {
        let kept = self.0.as_ref().map(|noted| noted.kept.lock().unwrap_or_else(PoisonError::into_inner));
        kept.map(|kept| kept.clone()).unwrap_or_default()
    }

    /// The time that parts of the work took.
    pub fn times(&self) -> Option<&Times> {
        self.0.as_ref().map(|noted| &noted.times)
    }

    /// Waits for `work`, and notes that a part of the request took that long.
    pub async fn timed<T>(&self, part: Part, work: impl Future<Output = T>) -> T {
        let Some(times) = self.times() else { return work.await };
        let begin = Instant::now();
        let done = work.await;
        times.add(part, begin.elapsed());
        done
    }

    /// Notes that a step of the request is done, for traces and the log line of a slow request.
    pub fn step(&self, text: &'static str) {
        if let Some(noted) = &self.0 {
            noted.steps.add(text, None);
        }
    }

    /// Notes that a step of the request is done, with a number such as a length.
    pub fn step_with(&self, text: &'static str, field: &'static str, number: usize) {
        if let Some(noted) = &self.0 {
            noted.steps.add(text, Some((field, number as u64)));
        }
    }

    /// Begins a span: a part of the request with steps of its own. What is noted until it ends belongs to it.
    /// Its fields are asked for if the request is traced.
    pub fn span(&self, name: &'static str, fields: impl FnOnce() -> Vec<Field>) -> Span {
        self.begin_span(name, fields, true)
    }

    /// Begins a span of which several run at the same time: only its own [`Span::step`] belongs to it.
    pub fn parallel_span(&self, name: &'static str, fields: impl FnOnce() -> Vec<Field>) -> Span {
        self.begin_span(name, fields, false)
    }

    fn begin_span(&self, name: &'static str, fields: impl FnOnce() -> Vec<Field>, nests: bool) -> Span {
        let number = self.0.as_ref().and_then(|noted| {
            let fields = self.trace().is_some_and(Trace::is_recorded).then(fields);
            noted.steps.begin(name, fields, nests)
        });
        Span { observation: self.clone(), number }
    }

    /// The steps that are done, in their order.
    pub fn steps(&self) -> Vec<Step> {
        self.0.as_ref().map(|noted| noted.steps.all()).unwrap_or_default()
    }

    /// The fields of spans, by their numbers.
    pub fn span_fields(&self) -> Vec<(u16, Vec<Field>)> {
        self.0.as_ref().map(|noted| noted.steps.fields()).unwrap_or_default()
    }

    /// Puts the request in a trace: once, before its first span.
    pub fn set_trace(&self, trace: Trace) {
        if let Some(noted) = &self.0 {
            let _ = noted.trace.set(Box::new(trace));
        }
    }

    /// Has a function called at each commit of the request, before and after. One function at most.
    pub fn at_commits(&self, call: impl Fn(Commit) + Send + Sync + 'static) {
        if let Some(noted) = &self.0 {
            let _ = noted.commits.set(CommitHook(Box::new(call)));
        }
    }

    /// Tells who asked for it that a commit begins, or is done.
    pub fn commit(&self, stage: Commit) {
        if let Some(CommitHook(call)) = self.0.as_ref().and_then(|noted| noted.commits.get()) {
            call(stage);
        }
    }

    /// The trace of the request, if it has one.
    pub fn trace(&self) -> Option<&Trace> {
        self.0.as_ref().and_then(|noted| noted.trace.get()).map(|trace| &**trace)
    }
}

/// A part of a request, until it is dropped.
#[derive(Debug)]
pub struct Span {
    observation: Observation,
    number: Option<u16>,
}

impl Span {
    /// Notes that a step of this span is done.
    pub fn step(&self, text: &'static str) {
        if let (Some(noted), Some(number)) = (&self.observation.0, self.number) {
            noted.steps.add_to(number, text);
        }
    }

    /// The headers by which a request to another server says that it is made within the span.
    pub fn headers(&self) -> Vec<(&'static str, String)> {
        self.observation.trace().map(|trace| trace.headers(self.number)).unwrap_or_default()
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        if let (Some(noted), Some(number)) = (&self.observation.0, self.number) {
            noted.steps.end(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn annotations_are_kept_once_there_is_a_level() {
        let observation = Observation::begin("id");
        observation.annotate("early", "lost");
        observation.set_audit_level(AuditLevel::Metadata);
        observation.annotate("key", "first");
        observation.clone().annotate("key", "second");
        observation.annotate("a", "b");
        let expected: Vec<(Box<str>, Box<str>)> =
            vec![("a".into(), "b".into()), ("key".into(), "first".into())];
        assert_eq!(observation.annotations(), expected);
        assert!(Observation::none().annotations().is_empty());
    }

    #[test]
    fn what_a_request_can_make_the_server_keep_is_bounded() {
        let observation = Observation::begin("id");
        observation.set_audit_level(AuditLevel::Metadata);
        for number in 0..10_000 {
            observation.annotate(&number.to_string(), "");
            observation.step("again");
        }
        assert_eq!(observation.annotations().len(), MOST_ANNOTATIONS);
        assert_eq!(observation.steps().len(), MOST_STEPS);
    }

    #[test]
    fn steps_belong_to_the_span_that_is_open() {
        let observation = Observation::begin("id");
        observation.step("before");
        let outer = observation.span("Get", Vec::new);
        let parallel = observation.parallel_span("call", Vec::new);
        observation.step("in Get");
        parallel.step("in call");
        drop(parallel);
        {
            let _inner = observation.span("cacher.Get", Vec::new);
            observation.step_with("in cacher", "len", 7);
        }
        drop(outer);
        let steps: Vec<_> = observation.steps().into_iter().map(|step| (step.text, step.kind)).collect();
        let done = |span| StepKind::Done { span };
        assert_eq!(
            steps,
            [
                ("before", done(None)),
                ("Get", StepKind::Begin { parent: None }),
                ("call", StepKind::Begin { parent: Some(0) }),
                ("in Get", done(Some(0))),
                ("in call", done(Some(1))),
                ("", StepKind::End { span: 1 }),
                ("cacher.Get", StepKind::Begin { parent: Some(0) }),
                ("in cacher", done(Some(2))),
                ("", StepKind::End { span: 2 }),
                ("", StepKind::End { span: 0 }),
            ]
        );
    }

    #[test]
    fn fields_of_spans_are_asked_for_when_the_request_is_traced() {
        let observation = Observation::begin("id");
        drop(observation.span("Get", || unreachable!()));
        let context = SpanContext { trace: [1; 16], span: [2; 8], is_sampled: true };
        observation.set_trace(Trace { context: Some(context), ..Trace::default() });
        drop(observation.span("Get", || vec![("name", "a".into())]));
        assert_eq!(observation.span_fields(), [(1, vec![("name", "a".into())])]);
    }
}
