//! A buffer of events for a backend, which takes them in batches.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, Semaphore};
use tokio::time::{Instant, timeout_at};

use crate::backend::{Sink, lost};
use crate::event::Event;
use crate::options::BatchOptions;
use crate::throttle::Throttle;

/// The most bytes of the events in a buffer, and of those in batches that are being sent.
const MOST_BYTES: usize = 128 << 20;
const PLUGIN: &str = "buffered";

/// The limits of a buffer and its batches.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) events: usize,
    pub(crate) batch: usize,
    pub(crate) wait: Duration,
    /// Batches per second, and at once.
    pub(crate) throttle: Option<(f64, f64)>,
    /// Batches that are sent at the same time.
    pub(crate) under_way: usize,
}

impl Limits {
    pub(crate) fn of(options: &BatchOptions, under_way: usize) -> Self {
        let number = |value: i64| usize::try_from(value).unwrap_or(1).max(1);
        Self {
            events: number(options.buffer_size),
            batch: number(options.max_size),
            wait: options.max_wait,
            throttle: options
                .throttle
                .then_some((f64::from(options.throttle_qps), options.throttle_burst as f64)),
            under_way,
        }
    }

    /// Those of events that come after their request has ended, for a backend that requests wait for.
    pub(crate) const fn of_late_events(under_way: usize) -> Self {
        Self { events: 10_000, batch: 1, wait: Duration::ZERO, throttle: None, under_way }
    }
}

/// Events that wait.
#[derive(Debug)]
pub(crate) struct Buffer {
    limits: Limits,
    waiting: Mutex<Waiting>,
    /// Notified when there are events, or the buffer is closed.
    changed: Notify,
    /// The bytes of events in the buffer and in batches.
    bytes: AtomicUsize,
    /// The events in the buffer and in batches.
    unsent: AtomicUsize,
    logged: AtomicU64,
}

#[derive(Debug, Default)]
struct Waiting {
    events: VecDeque<Event>,
    is_closed: bool,
}

impl Buffer {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            limits,
            waiting: Mutex::default(),
            changed: Notify::new(),
            bytes: AtomicUsize::new(0),
            unsent: AtomicUsize::new(0),
            logged: AtomicU64::new(0),
        }
    }

    /// Adds an event. One that does not fit is lost.
    pub(crate) fn push(&self, event: Event) {
        let size = event.size();
        let why = {
            let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            if waiting.is_closed {
                "audit backend shut down"
            } else if waiting.events.len() >= self.limits.events
                || self.bytes.load(Ordering::Relaxed).saturating_add(size) > MOST_BYTES
            {
                "audit buffer queue blocked"
            } else {
                self.bytes.fetch_add(size, Ordering::Relaxed);
                self.unsent.fetch_add(1, Ordering::Relaxed);
                waiting.events.push_back(event);
                let is_due = waiting.events.len() == 1 || waiting.events.len() >= self.limits.batch;
                drop(waiting);
                if is_due {
                    self.changed.notify_one();
                }
                return;
            }
        };
        lost(PLUGIN, why, 1, &self.logged);
    }

    /// Takes no more events; those that wait are sent.
    pub(crate) fn close(&self) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).is_closed = true;
        self.changed.notify_one();
    }

    /// The number of events that are not sent yet.
    pub(crate) fn unsent(&self) -> usize {
        self.unsent.load(Ordering::Relaxed)
    }

    /// Sends events until the buffer is closed and empty.
    pub(crate) async fn send_batches(self: &Arc<Self>, sink: &Arc<Sink>) {
        let mut throttle = self.limits.throttle.map(|(rate, burst)| Throttle::new(rate, burst));
        let most = u32::try_from(self.limits.under_way).unwrap_or(1);
        let places = Arc::new(Semaphore::new(self.limits.under_way));
        while let Some(batch) = self.next_batch().await {
            if let Some(throttle) = throttle.as_mut().filter(|_| !self.is_closed()) {
                throttle.turn().await;
            }
            if most <= 1 {
                self.send(sink, &batch).await;
                continue;
            }
            // Never closed.
            let Ok(place) = places.clone().acquire_owned().await else { return };
            let (buffer, sink) = (self.clone(), sink.clone());
            drop(tasks::once(async move {
                buffer.send(&sink, &batch).await;
                drop(place);
            }));
        }
        // All places are free when all batches are sent.
        drop(places.acquire_many(most).await);
    }

    async fn send(&self, sink: &Sink, batch: &[Event]) {
        let _ending = Ending { buffer: self, batch };
        sink.take(batch).await;
    }

    fn is_closed(&self) -> bool {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).is_closed
    }

    /// The next batch: as many events as it may have, or those that came within its time. `None` at the end.
    async fn next_batch(&self) -> Option<Vec<Event>> {
        let mut deadline = None;
        loop {
            let is_late = deadline.is_some_and(|deadline| deadline <= Instant::now());
            {
                let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
                let count = waiting.events.len();
                let is_due =
                    count >= self.limits.batch || self.limits.batch == 1 || is_late || waiting.is_closed;
                if count > 0 && is_due {
                    return Some(waiting.events.drain(..count.min(self.limits.batch)).collect());
                }
                if waiting.is_closed {
                    return None;
                }
                if count > 0 && deadline.is_none() {
                    deadline = Some(Instant::now() + self.limits.wait);
                }
            }
            match deadline {
                Some(deadline) => drop(timeout_at(deadline, self.changed.notified()).await),
                None => self.changed.notified().await,
            }
        }
    }
}

/// Counts the events of a batch as sent, in whichever way its sending ends.
struct Ending<'a> {
    buffer: &'a Buffer,
    batch: &'a [Event],
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        let bytes: usize = self.batch.iter().map(Event::size).sum();
        self.buffer.bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.buffer.unsent.fetch_sub(self.batch.len(), Ordering::Relaxed);
    }
}
