//! The meter of one request: what it costs, from its user on until its response is sent.

use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use auth::User;
use bytes::Bytes;
use http::HeaderValue;
use http_body::{Frame, SizeHint};
use registry::Served;

use super::Shared;
use super::table::{Spent, Who};
use crate::body::StreamError;

/// How often what a long response costs goes into the table.
const EACH: Duration = Duration::from_secs(5);

/// The meter of a request. Clones share it; what is on it goes into the table when the last one is dropped.
/// One that is not connected counts nothing.
#[derive(Clone, Debug, Default)]
pub(crate) struct Meter(Option<Arc<Counts>>);

/// What is on a meter and not in the table yet.
pub(super) struct Counts {
    shared: Arc<Shared>,
    user: Arc<User>,
    agent: Option<HeaderValue>,
    /// The kind whose objects are asked for.
    served: OnceLock<Arc<Served>>,
    busy: AtomicU64,
    requests: AtomicU64,
    sent_bytes: AtomicU64,
    read_objects: AtomicU64,
    delivered_events: AtomicU64,
    refusals: AtomicU64,
    /// Whether it is among the open ones, which are asked when the table is shown.
    is_open: AtomicBool,
}

impl fmt::Debug for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Counts").field("user", &self.user.name).finish_non_exhaustive()
    }
}

impl Meter {
    pub(super) fn new(shared: &Arc<Shared>, user: &Arc<User>, agent: Option<&HeaderValue>) -> Self {
        Self(Some(Arc::new(Counts {
            shared: Arc::clone(shared),
            user: Arc::clone(user),
            agent: agent.cloned(),
            served: OnceLock::new(),
            busy: AtomicU64::new(0),
            requests: AtomicU64::new(1),
            sent_bytes: AtomicU64::new(0),
            read_objects: AtomicU64::new(0),
            delivered_events: AtomicU64::new(0),
            refusals: AtomicU64::new(0),
            is_open: AtomicBool::new(false),
        })))
    }

    fn add(&self, count: impl FnOnce(&Counts) -> &AtomicU64, amount: u64) {
        if let Some(counts) = &self.0 {
            count(counts).fetch_add(amount, Relaxed);
        }
    }

    /// The request is about objects of this kind.
    pub(crate) fn asks_for(&self, served: &Arc<Served>) {
        if let Some(counts) = &self.0 {
            counts.served.get_or_init(|| Arc::clone(served));
        }
    }

    /// Objects were read.
    pub(crate) fn read(&self, objects: u64) {
        self.add(|counts| &counts.read_objects, objects);
    }

    /// Events were delivered.
    pub(crate) fn delivered(&self, events: u64) {
        self.add(|counts| &counts.delivered_events, events);
    }

    /// Bytes of the response's body are sent.
    pub(super) fn sent(&self, bytes: usize) {
        self.add(|counts| &counts.sent_bytes, bytes as u64);
    }

    /// The response is 429.
    pub(super) fn refused(&self) {
        self.add(|counts| &counts.refusals, 1);
    }

    /// Does a part of the work, and counts its time.
    pub(super) fn busy<T>(&self, work: impl FnOnce() -> T) -> T {
        let begin = Instant::now();
        let done = work();
        self.busy_until(begin, Instant::now());
        done
    }

    fn busy_until(&self, begin: Instant, end: Instant) {
        let time = end.saturating_duration_since(begin).as_nanos();
        self.add(|counts| &counts.busy, u64::try_from(time).unwrap_or(u64::MAX));
    }

    /// Has the table ask this meter whenever it is shown.
    pub(super) fn open(&self) {
        if let Some(counts) = &self.0 {
            counts.is_open.store(true, Relaxed);
            counts.shared.open().insert(Arc::as_ptr(counts) as usize, Arc::downgrade(counts));
        }
    }
}

impl Counts {
    /// Puts what is on the meter into the table.
    pub(super) fn settle(&self, now: Instant) {
        let take = |count: &AtomicU64| count.swap(0, Relaxed);
        self.enter(
            Spent {
                busy: take(&self.busy),
                requests: take(&self.requests),
                sent_bytes: take(&self.sent_bytes),
                read_objects: take(&self.read_objects),
                delivered_events: take(&self.delivered_events),
                refusals: take(&self.refusals),
            },
            now,
        );
    }

    fn enter(&self, spent: Spent, now: Instant) {
        if spent == Spent::default() {
            return;
        }
        let agent = self.agent.as_ref().and_then(|agent| agent.to_str().ok()).unwrap_or_default();
        let (group, resource) =
            self.served.get().map_or(("", ""), |served| (&*served.group, &*served.resource));
        self.shared.table().add(Who::new(&self.user.name, agent, group, resource), spent, now);
    }
}

impl Drop for Counts {
    fn drop(&mut self) {
        if *self.is_open.get_mut() {
            self.shared.open().remove(&(std::ptr::from_ref(self) as usize));
        }
        // Nobody else counts on it any more.
        let spent = Spent {
            busy: *self.busy.get_mut(),
            requests: *self.requests.get_mut(),
            sent_bytes: *self.sent_bytes.get_mut(),
            read_objects: *self.read_objects.get_mut(),
            delivered_events: *self.delivered_events.get_mut(),
            refusals: *self.refusals.get_mut(),
        };
        self.enter(spent, Instant::now());
    }
}

/// A body that is made while it is sent, with the meter of its request.
pub(super) struct MeteredBody {
    body: Pin<Box<dyn http_body::Body<Data = Bytes, Error = StreamError> + Send>>,
    meter: Meter,
    settled: Instant,
}

impl MeteredBody {
    pub(super) fn new(
        body: Pin<Box<dyn http_body::Body<Data = Bytes, Error = StreamError> + Send>>,
        meter: Meter,
    ) -> Self {
        meter.open();
        Self { body, meter, settled: Instant::now() }
    }
}

impl http_body::Body for MeteredBody {
    type Data = Bytes;
    type Error = StreamError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, StreamError>>> {
        let this = self.get_mut();
        let begin = Instant::now();
        let polled = this.body.as_mut().poll_frame(cx);
        let now = Instant::now();
        this.meter.busy_until(begin, now);
        if let Poll::Ready(Some(Ok(frame))) = &polled {
            this.meter.sent(frame.data_ref().map_or(0, Bytes::len));
        }
        if now.saturating_duration_since(this.settled) >= EACH {
            this.settled = now;
            if let Some(counts) = &this.meter.0 {
                counts.settle(now);
            }
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
