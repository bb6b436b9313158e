//! The steps of a request and the spans that they belong to, for the log line of a slow request and for
//! traces.
//!
//! Spans nest: the first one is the verb of the request, and what begins while another one is open is a
//! part of it. Steps belong to the span that is open, so a handler notes them without having the span at
//! hand.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use crate::trace::Field;

/// The most steps of a request that are kept, spans included.
pub const MOST_STEPS: usize = 64;

/// Something that happened in a request.
#[derive(Clone, Debug)]
pub struct Step {
    /// What was done, or the name of a span.
    pub text: &'static str,
    /// When it was done.
    pub done: Instant,
    /// What kind of step it is.
    pub kind: StepKind,
    /// A number that belongs to it, such as a length.
    pub number: Option<(&'static str, u64)>,
}

/// The kinds of steps. Spans are numbered in the order of their begin, from zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepKind {
    /// A span begins, in another one or in that of the request.
    Begin {
        /// The enclosing span; `None` if it is that of the request.
        parent: Option<u16>,
    },
    /// Something is done in a span; in that of the request if there is none.
    Done {
        /// The span.
        span: Option<u16>,
    },
    /// A span ends.
    End {
        /// The span.
        span: u16,
    },
}

/// The steps of a request.
#[derive(Debug, Default)]
pub(crate) struct Steps(Mutex<Noted>);

#[derive(Debug, Default)]
struct Noted {
    all: Vec<Step>,
    /// The spans that are open, the innermost last.
    open: Vec<u16>,
    /// The number of spans so far.
    spans: u16,
    /// The fields of spans, for a request that is traced.
    fields: Vec<(u16, Vec<Field>)>,
}

/// A request has a handful of steps; their memory is taken at once.
const USUAL_STEPS: usize = 16;

impl Noted {
    fn push(&mut self, text: &'static str, kind: StepKind, number: Option<(&'static str, u64)>) -> bool {
        if self.all.is_empty() {
            self.all.reserve_exact(USUAL_STEPS);
        }
        // An end always has its place, beside the beginnings.
        let most = if matches!(kind, StepKind::End { .. }) { 2 * MOST_STEPS } else { MOST_STEPS };
        let fits = self.all.len() < most;
        if fits {
            self.all.push(Step { text, done: Instant::now(), kind, number });
        }
        fits
    }
}

impl Steps {
    pub(crate) fn add(&self, text: &'static str, number: Option<(&'static str, u64)>) {
        let mut noted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let span = noted.open.last().copied();
        noted.push(text, StepKind::Done { span }, number);
    }

    /// Begins a span. `None` if there are too many steps.
    pub(crate) fn begin(&self, name: &'static str, fields: Option<Vec<Field>>, nests: bool) -> Option<u16> {
        let mut noted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let parent = noted.open.last().copied();
        if !noted.push(name, StepKind::Begin { parent }, None) {
            return None;
        }
        let span = noted.spans;
        noted.spans += 1;
        if nests {
            noted.open.push(span);
        }
        if let Some(fields) = fields {
            noted.fields.push((span, fields));
        }
        Some(span)
    }

    pub(crate) fn add_to(&self, span: u16, text: &'static str) {
        let mut noted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        noted.push(text, StepKind::Done { span: Some(span) }, None);
    }

    pub(crate) fn end(&self, span: u16) {
        let mut noted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        noted.open.retain(|open| *open != span);
        noted.push("", StepKind::End { span }, None);
    }

    pub(crate) fn all(&self) -> Vec<Step> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).all.clone()
    }

    /// The fields of the spans that have some.
    pub(crate) fn fields(&self) -> Vec<(u16, Vec<Field>)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).fields.clone()
    }
}
