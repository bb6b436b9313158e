//! Where events go: the log and the webhook, each in its mode.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use tasks::{Ended, Name, Task};

use crate::buffer::{Buffer, Limits};
use crate::event::{Annotations, Event};
use crate::file::{Output, Rotated};
use crate::metrics;
use crate::options::{BatchOptions, Error, Format, Mode, Options};
use crate::webhook::Webhook;

/// How long a failure counts without a success after it.
const FAILING: Duration = Duration::from_secs(60);

/// All backends.
#[derive(Debug, Default)]
pub(crate) struct Backends {
    all: Vec<Backend>,
    tasks: Mutex<Vec<Task>>,
}

#[derive(Debug)]
struct Backend {
    /// The most bytes of an event.
    most_bytes: Option<usize>,
    sink: Arc<Sink>,
    delivery: Delivery,
}

#[derive(Debug)]
enum Delivery {
    /// By the request. A webhook gets what comes from requests that have ended through the buffer.
    Direct { is_strict: bool, late: Option<Arc<Buffer>> },
    /// Through a buffer.
    Batch(Arc<Buffer>),
}

/// What takes events.
#[derive(Debug)]
pub(crate) enum Sink {
    Log { output: Output, format: Format, state: State },
    Webhook { webhook: Box<Webhook>, state: State },
}

/// Whether a sink works.
#[derive(Debug, Default)]
pub(crate) struct State {
    failed: Mutex<Option<(Instant, String)>>,
    logged: AtomicU64,
}

impl State {
    fn succeeded(&self) {
        *self.failed.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    fn failed(&self, plugin: &str, why: String, events: usize) {
        lost(plugin, &why, events, &self.logged);
        *self.failed.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), why));
    }

    fn failure(&self) -> Option<String> {
        let failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        failed.as_ref().filter(|(at, _)| at.elapsed() < FAILING).map(|(_, why)| why.clone())
    }
}

/// Counts events that may be lost, and logs that about once a second.
pub(crate) fn lost(plugin: &str, why: &str, events: usize, logged: &AtomicU64) {
    metrics::ERRORS.with([plugin]).add(events as u64);
    let now = clock::system().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    if logged.swap(now, Ordering::Relaxed) != now {
        log::error!(plugin, error = why, events; "audit events may be lost");
    }
}

impl Sink {
    pub(crate) const fn plugin(&self) -> &'static str {
        match self {
            Self::Log { .. } => "log",
            Self::Webhook { .. } => "webhook",
        }
    }

    fn state(&self) -> &State {
        match self {
            Self::Log { state, .. } | Self::Webhook { state, .. } => state,
        }
    }

    fn note<E: std::fmt::Display>(&self, outcome: Result<(), E>, events: usize) -> bool {
        match outcome {
            Ok(()) => self.state().succeeded(),
            Err(error) => {
                self.state().failed(self.plugin(), error.to_string(), events);
                return false;
            }
        }
        true
    }

    /// Takes events, each of which counts for itself in a log.
    pub(crate) async fn take(&self, events: &[Event]) -> bool {
        match self {
            Self::Log { output, format, .. } => {
                tasks::off_worker(|| events.iter().all(|event| self.write(output, *format, event)))
            }
            Self::Webhook { webhook, .. } => self.note(webhook.send(events).await, events.len()),
        }
    }

    fn write(&self, output: &Output, format: Format, event: &Event) -> bool {
        let line = match format {
            Format::Json => Some(&event.json),
            Format::Legacy => event.line.as_ref(),
        };
        let outcome = line.map_or(Err(io::ErrorKind::InvalidData.into()), |line| output.write(line));
        self.note(outcome, 1)
    }
}

/// What is wrong with a backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Why, for people.
    pub why: String,
    /// Whether requests are refused for that.
    pub refuses_requests: bool,
}

impl Backends {
    /// Opens the backends, and starts what runs beside requests. Needs a runtime.
    pub(crate) fn open(options: &Options) -> Result<Self, Error> {
        let mut backends = Self::default();
        if let Some(path) = &options.log.path {
            let log = &options.log;
            let output = Output::open(log, path).map_err(|error| Error::Log(path.clone(), error))?;
            let format = log.format().unwrap_or(Format::Json);
            let sink = Arc::new(Sink::Log { output, format, state: State::default() });
            backends.keep_tidy(&sink);
            let most_bytes = log.truncate.enabled.then_some(log.truncate.max_event_size);
            backends.add(sink, &log.batch, most_bytes, 1);
        }
        if let Some(path) = &options.webhook.config_file {
            let webhook = &options.webhook;
            let sender = Webhook::open(path, webhook.initial_backoff)?;
            let sink = Arc::new(Sink::Webhook { webhook: Box::new(sender), state: State::default() });
            let most_bytes = webhook.truncate.enabled.then_some(webhook.truncate.max_event_size);
            backends.add(sink, &webhook.batch, most_bytes, MOST_BATCHES_UNDER_WAY);
        }
        Ok(backends)
    }

    fn add(&mut self, sink: Arc<Sink>, batch: &BatchOptions, most_bytes: Option<i64>, under_way: usize) {
        let delivery = match batch.mode() {
            Some(Mode::Batch) => Delivery::Batch(self.buffer(&sink, Limits::of(batch, under_way))),
            mode => Delivery::Direct {
                is_strict: mode == Some(Mode::BlockingStrict),
                late: matches!(*sink, Sink::Webhook { .. })
                    .then(|| self.buffer(&sink, Limits::of_late_events(under_way))),
            },
        };
        let most_bytes = most_bytes.map(|most| usize::try_from(most).unwrap_or_default());
        self.all.push(Backend { most_bytes, sink, delivery });
    }

    fn buffer(&self, sink: &Arc<Sink>, limits: Limits) -> Arc<Buffer> {
        let buffer = Arc::new(Buffer::new(limits));
        let (sink, taken) = (sink.clone(), buffer.clone());
        self.keep(tasks::spawn(Name::AuditBatches, move || {
            let (sink, buffer) = (sink.clone(), taken.clone());
            async move {
                buffer.send_batches(&sink).await;
                Ended::Done
            }
        }));
        buffer
    }

    fn keep_tidy(&self, sink: &Arc<Sink>) {
        let sink = sink.clone();
        // Ends with the process: there is always another file to close.
        tasks::spawn(Name::AuditLogFiles, move || {
            let sink = sink.clone();
            async move {
                if let Sink::Log { output: Output::File(file), .. } = &*sink {
                    tidy(file).await;
                }
                Ended::Done
            }
        })
        .detach();
    }

    fn keep(&self, task: Task) {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner).push(task);
    }

    /// Whether a backend wants events on one line.
    pub(crate) fn has_lines(&self) -> bool {
        self.all.iter().any(|backend| matches!(*backend.sink, Sink::Log { format: Format::Legacy, .. }))
    }

    /// Hands an event to all backends, and waits for those in blocking modes. False if one in strict mode
    /// does not have it.
    pub(crate) async fn process(&self, event: &Event, annotations: &Annotations) -> bool {
        let mut is_processed = true;
        for backend in &self.all {
            let Some(event) = backend.fit(event, annotations) else { continue };
            match &backend.delivery {
                Delivery::Batch(buffer) => {
                    buffer.push(event);
                }
                Delivery::Direct { is_strict, .. } => {
                    let is_taken = match &*backend.sink {
                        Sink::Log { output, format, .. } => backend.sink.write(output, *format, &event),
                        Sink::Webhook { .. } => backend.sink.take(std::slice::from_ref(&event)).await,
                    };
                    is_processed &= is_taken || !is_strict;
                }
            }
        }
        is_processed
    }

    /// Hands on an event of a request that has ended: nobody waits.
    pub(crate) fn process_late(&self, event: &Event, annotations: &Annotations) {
        for backend in &self.all {
            let Some(event) = backend.fit(event, annotations) else { continue };
            match (&backend.delivery, &*backend.sink) {
                (Delivery::Batch(buffer) | Delivery::Direct { late: Some(buffer), .. }, _) => {
                    buffer.push(event)
                }
                (Delivery::Direct { late: None, .. }, Sink::Log { output, format, .. }) => {
                    backend.sink.write(output, *format, &event);
                }
                (Delivery::Direct { late: None, .. }, Sink::Webhook { .. }) => {}
            }
        }
    }

    /// What is wrong with the backends now.
    pub(crate) fn failures(&self) -> Vec<Failure> {
        let failure = |backend: &Backend| {
            let why = backend.sink.state().failure()?;
            let refuses_requests = matches!(backend.delivery, Delivery::Direct { is_strict: true, .. });
            Some(Failure { why: format!("audit {}: {why}", backend.sink.plugin()), refuses_requests })
        };
        self.all.iter().filter_map(failure).collect()
    }

    /// Sends what is buffered. What is not sent within this time is lost.
    pub(crate) async fn close(&self, within: Duration) {
        let buffers = || {
            self.all.iter().filter_map(|backend| match &backend.delivery {
                Delivery::Batch(buffer) | Delivery::Direct { late: Some(buffer), .. } => {
                    Some((backend, buffer))
                }
                Delivery::Direct { late: None, .. } => None,
            })
        };
        buffers().for_each(|(_, buffer)| buffer.close());
        let tasks = std::mem::take(&mut *self.tasks.lock().unwrap_or_else(PoisonError::into_inner));
        let all_sent = async {
            for task in tasks {
                task.join().await;
            }
        };
        if tokio::time::timeout(within, all_sent).await.is_err() {
            let left: usize = buffers().map(|(_, buffer)| buffer.unsent()).sum();
            log::warn!(events = left; "audit events were not sent before the server stopped");
        }
    }
}

/// The most batches that are sent to a webhook at once.
const MOST_BATCHES_UNDER_WAY: usize = 16;

impl Backend {
    /// The event as the backend takes it; `None` if it is too large for that.
    fn fit(&self, event: &Event, annotations: &Annotations) -> Option<Event> {
        let Some(most) = self.most_bytes.filter(|most| event.json.len() > *most) else {
            return Some(event.clone());
        };
        let smaller = event.truncated(annotations).filter(|event| event.json.len() <= most);
        if smaller.is_none() {
            static LOGGED: AtomicU64 = AtomicU64::new(0);
            lost("truncate", "event is too large even after truncating", 1, &LOGGED);
        }
        smaller
    }
}

/// Removes and compresses files whenever one was closed.
async fn tidy(file: &Rotated) {
    loop {
        file.closed.notified().await;
        if let Err(error) = tasks::off_worker(|| file.tidy(clock::system())) {
            log::warn!(error:%; "old files of the audit log could not be compressed or removed");
        }
    }
}
