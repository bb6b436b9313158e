//! Events that are written beside the work of a controller, which does not wait for them.
//!
//! The events about one object are written one after another, in their order. What does not fit in the
//! queues is dropped, as in the reference; so is what waits when the controller ends.

use super::{EventType, Recorder, Subject};
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use tasks::{Ended, Name, Task};
use tokio::sync::{Mutex, mpsc};

/// How many events are written at the same time, each about another object.
const AT_ONCE: usize = 8;
/// How many events wait in each queue.
const WAITING: usize = 1024;

/// Writes events beside the work of a controller, until the last clone is dropped.
#[derive(Clone)]
pub(crate) struct Reporter(Arc<Inner>);

struct Inner {
    hasher: RandomState,
    queues: Vec<mpsc::Sender<Report>>,
    _tasks: Vec<Task>,
}

/// An event that is to be written.
struct Report {
    subject: Subject,
    event_type: EventType,
    reason: &'static str,
    message: String,
}

impl Reporter {
    /// Writes events by a recorder.
    pub(crate) fn start(recorder: &Recorder) -> Self {
        let (queues, tasks) = (0..AT_ONCE).map(|_| queue(recorder.clone())).unzip();
        Self(Arc::new(Inner { hasher: RandomState::new(), queues, _tasks: tasks }))
    }

    /// Writes an event later.
    pub(crate) fn report(
        &self,
        subject: &Subject,
        event_type: EventType,
        reason: &'static str,
        message: impl Into<String>,
    ) {
        let inner = &self.0;
        let place = inner.hasher.hash_one((&subject.uid, &subject.name)) as usize % inner.queues.len().max(1);
        let report = Report { subject: subject.clone(), event_type, reason, message: message.into() };
        let is_queued = inner.queues.get(place).is_some_and(|queue| queue.try_send(report).is_ok());
        if !is_queued {
            log::debug!(reason; "an event is not written: too many wait");
        }
    }
}

fn queue(recorder: Recorder) -> (mpsc::Sender<Report>, Task) {
    let (sender, waiting) = mpsc::channel::<Report>(WAITING);
    let waiting = Arc::new(Mutex::new(waiting));
    let task = tasks::spawn(Name::ControllerEvents, move || {
        let (recorder, waiting) = (recorder.clone(), waiting.clone());
        async move {
            let mut waiting = waiting.lock().await;
            while let Some(Report { subject, event_type, reason, message }) = waiting.recv().await {
                recorder.record(&subject, event_type, reason, &message).await;
            }
            Ended::Done
        }
    });
    (sender, task)
}
