//! The body of an answer on its way to the client, of which a copy is recorded.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body as _, Frame, SizeHint};
use hyper::body::Incoming;
use serde_json::Value;

use crate::body;
use crate::file::{Answered, Body, Sent};
use crate::recorder::Recorder;

/// The longest body that is recorded.
const LONGEST: usize = 16 << 20;
/// The longest event that is recorded.
const LONGEST_EVENT: usize = 16 << 20;

/// A body that is recorded while it is sent.
pub(crate) struct Tee {
    inner: Incoming,
    copy: Copy,
    recorder: Arc<Recorder>,
}

/// What of it was seen so far.
enum Copy {
    /// An answer, which is recorded as a whole. Nothing once that is done.
    Whole { exchange: Option<Box<(Sent, Answered)>>, bytes: Vec<u8>, count: u64 },
    /// Events, each recorded by itself.
    Events { watch: u64, path: String, rest: Vec<u8>, has_ended: bool },
}

impl Tee {
    /// The body of an answer.
    pub(crate) fn whole(inner: Incoming, recorder: Arc<Recorder>, request: Sent, answer: Answered) -> Self {
        let exchange = Some(Box::new((request, answer)));
        let mut tee = Self { inner, copy: Copy::Whole { exchange, bytes: Vec::new(), count: 0 }, recorder };
        if tee.inner.is_end_stream() {
            // Nobody asks for a body that is empty.
            tee.end();
        }
        tee
    }

    /// The events of a watch.
    pub(crate) fn events(inner: Incoming, recorder: Arc<Recorder>, request: Sent, answer: Answered) -> Self {
        let path = request.path.clone();
        let watch = recorder.watch(request, answer);
        Self { inner, copy: Copy::Events { watch, path, rest: Vec::new(), has_ended: false }, recorder }
    }

    fn see(&mut self, piece: &Bytes) {
        match &mut self.copy {
            Copy::Whole { bytes, count, .. } => {
                *count += piece.len() as u64;
                if bytes.len() + piece.len() <= LONGEST {
                    bytes.extend_from_slice(piece);
                }
            }
            Copy::Events { watch, path, rest, .. } => {
                rest.extend_from_slice(piece);
                while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                    let after = rest.split_off(end + 1);
                    let line = std::mem::replace(rest, after);
                    if let Ok(event) = serde_json::from_slice::<Value>(&line) {
                        self.recorder.event(*watch, path, event);
                    }
                }
                if rest.len() > LONGEST_EVENT {
                    rest.clear();
                }
            }
        }
    }

    /// Records what is left, once.
    fn end(&mut self) {
        match &mut self.copy {
            Copy::Whole { exchange, bytes, count } => {
                let Some(exchange) = exchange.take() else { return };
                let (request, mut answer) = *exchange;
                let content_type = answer.headers.get("content-type").map(String::as_str).unwrap_or_default();
                answer.body = match bytes.len() as u64 == *count {
                    true => body::read(bytes, content_type),
                    false => Body::Omitted(*count),
                };
                self.recorder.exchange(request, answer);
            }
            Copy::Events { watch, has_ended, .. } => {
                if !std::mem::replace(has_ended, true) {
                    self.recorder.end(*watch);
                }
            }
        }
    }
}

impl http_body::Body for Tee {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let polled = Pin::new(&mut self.inner).poll_frame(context);
        match &polled {
            Poll::Ready(Some(Ok(frame))) => {
                if let Some(piece) = frame.data_ref() {
                    self.see(piece);
                }
                // The client may act on the last piece as soon as it has it.
                if self.inner.is_end_stream() {
                    self.end();
                }
            }
            Poll::Ready(_) => self.end(),
            Poll::Pending => {}
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

impl Drop for Tee {
    /// A client that has heard enough drops the body.
    fn drop(&mut self) {
        self.end();
    }
}
