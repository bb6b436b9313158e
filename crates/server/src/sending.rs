//! The state of a response while it is sent: whether its peer reads it, and its deadline.
//!
//! hyper polls a body only while the peer reads the data before, so a body cannot end itself when its peer
//! stops reading. [`Sending`] is the state of a response outside of its body:
//! [`Connections`](crate::connections::Connections) checks all of them at intervals and ends the responses
//! that are overdue, together with everything that their bodies hold.
//!
//! 1. A response whose peer does not read its data for [`Limits::stalled`] ends, unless its client [may
//!    pause](MayPause). A watch without events is not stalled.
//! 2. A response that is not sent as a whole at its deadline ends. A request's time covers its response.
//! 3. A response that keeps superseded states of objects in memory ends when these may be more than
//!    [`Limits::pinned`].
//!
//! A response over HTTP/2 ends by a reset of its stream; one over HTTP/1.1 ends with its connection.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use cache::Cache;
use http_body::{Body as _, Frame, SizeHint};
use tokio::task::{AbortHandle, coop};
use tokio::time::Instant;

use crate::at_end::Ending;
use crate::body::StreamError;
use crate::connections::{InFlight, Link};
use crate::{Body, Limits, Response};

/// The most bytes that hyper gets at once. It holds them until the peer has read them.
const PIECE: usize = 128 << 10;

/// The bytes for one unit of tokio's cooperative budget of 128: a response whose peer reads fast sends half a
/// megabyte before its task yields.
const STEP: usize = 4 << 10;

/// The last byte of a larger piece of a response over HTTP/2 is held back, so that the response is in flight
/// until its peer has taken all but that byte. The most bytes of a DATA frame that every peer accepts.
const SMALL: usize = 16 << 10;

/// The least time for sending a response, however late it is made.
const LEAST: Duration = Duration::from_secs(5);

/// The deadline of a response, as an extension of it. Without one it is that of a request that takes
/// [`Limits::request`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct SendBy(pub(crate) Instant);

impl SendBy {
    /// The deadline of the response to a request that began at `start` and may take `time`. Called when the
    /// response is made.
    pub(crate) fn request(start: Instant, time: Duration) -> Self {
        Self((start + time).max(Instant::now() + LEAST))
    }

    /// No deadline: thirty years.
    pub(crate) fn never() -> Self {
        Self(Instant::now() + Duration::from_secs(30 * 365 * 24 * 3600))
    }
}

/// An extension of a response whose client may stop reading for a time: the response comes from a backend,
/// and holds no memory here.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MayPause;

/// An extension of a response that keeps a state of the cache in memory.
#[derive(Clone)]
pub(crate) struct Pins {
    cache: Arc<Cache>,
    /// [`Cache::superseded_bytes`] when it was made.
    since: u64,
}

impl Pins {
    /// The newest state of a cache.
    pub(crate) fn newest(cache: &Arc<Cache>) -> Self {
        Self { cache: Arc::clone(cache), since: cache.superseded_bytes() }
    }

    /// The most bytes that are in memory only because of this state and newer ones.
    fn bytes(&self) -> u64 {
        self.cache.superseded_bytes().saturating_sub(self.since)
    }
}

/// A point in time that may be unset.
#[derive(Debug)]
pub(crate) struct Stamp {
    epoch: Instant,
    /// Milliseconds after `epoch`, or `UNSET`.
    at: AtomicU64,
}

const UNSET: u64 = u64::MAX;

impl Stamp {
    /// An unset one. `epoch` is before every time that it will be set to.
    pub(crate) fn unset(epoch: Instant) -> Self {
        Self { epoch, at: AtomicU64::new(UNSET) }
    }

    /// Sets it to the current time.
    pub(crate) fn set(&self) {
        let now = self.epoch.elapsed().as_millis();
        self.at.store(u64::try_from(now).unwrap_or(UNSET), Ordering::Release);
    }

    /// Sets it to the current time if it is unset.
    pub(crate) fn set_if_unset(&self) {
        if self.at.load(Ordering::Acquire) == UNSET {
            self.set();
        }
    }

    /// Unsets it.
    pub(crate) fn unset_again(&self) {
        // A load is cheaper than a store.
        if self.at.load(Ordering::Acquire) != UNSET {
            self.at.store(UNSET, Ordering::Release);
        }
    }

    /// The time, if it is set.
    pub(crate) fn get(&self) -> Option<Instant> {
        let at = self.at.load(Ordering::Acquire);
        (at != UNSET).then(|| self.epoch + Duration::from_millis(at))
    }

    /// The time since it was set, if it is set.
    pub(crate) fn elapsed(&self, now: Instant) -> Option<Duration> {
        self.get().map(|at| now.saturating_duration_since(at))
    }
}

/// Why a response is ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Overdue {
    /// The peer does not read.
    Stalled,
    /// The deadline has passed.
    Late,
    /// The response holds too many superseded states of objects.
    Pinning,
}

impl Overdue {
    /// The value of a label.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Stalled => "stalled",
            Self::Late => "late",
            Self::Pinning => "pinning",
        }
    }

    /// For the log.
    pub(crate) fn reason(self) -> &'static str {
        match self {
            Self::Stalled => "a response was ended: its peer does not take it",
            Self::Late => "a response was ended: its time was up before it was sent",
            Self::Pinning => "a response was ended: it holds too many superseded objects in memory",
        }
    }
}

/// The state of a response that is being sent.
pub(crate) struct Sending {
    /// Since when the peer has not read the data that hyper has.
    waiting: Stamp,
    deadline: Instant,
    pins: Option<Pins>,
    may_pause: bool,
    /// The task of the HTTP/2 stream.
    stream: Option<Stream>,
    /// Whether the server has ended it.
    is_aborted: AtomicBool,
}

impl Sending {
    /// Why the response must end now, if it must.
    pub(crate) fn overdue(&self, now: Instant, limits: &Limits) -> Option<Overdue> {
        // Over HTTP/1.1 hyper holds several pieces; there the socket shows whether the peer takes data.
        let stalled = self.stream.is_some()
            && !self.may_pause
            && self.waiting.elapsed(now).is_some_and(|waiting| waiting >= limits.stalled);
        if stalled {
            Some(Overdue::Stalled)
        } else if self.deadline <= now {
            Some(Overdue::Late)
        } else if self.pins.as_ref().is_some_and(|pins| pins.bytes() > limits.pinned) {
            Some(Overdue::Pinning)
        } else {
            None
        }
    }

    /// Notes that the server ends the response.
    pub(crate) fn abort(&self) {
        self.is_aborted.store(true, Ordering::Release);
    }

    /// Whether the client may stop reading.
    pub(crate) fn may_pause(&self) -> bool {
        self.may_pause
    }

    /// Since when the peer has not read the data of the response.
    pub(crate) fn waiting(&self) -> Option<Instant> {
        self.stream.as_ref().and_then(|_| self.waiting.get())
    }

    /// The task to end, if the response does not end with its connection.
    pub(crate) fn stream(&self) -> Option<&Stream> {
        self.stream.as_ref()
    }
}

/// The task of an HTTP/2 stream, from within.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stream(Arc<OnceLock<AbortHandle>>);

impl Stream {
    /// Ends the task. The peer gets a reset of its stream.
    pub(crate) fn reset(&self) {
        if let Some(task) = self.0.get() {
            task.abort();
        }
    }

    /// The stream of the current task; `None` for HTTP/1.1.
    fn current() -> Option<Self> {
        STREAM.try_with(Self::clone).ok()
    }
}

tokio::task_local! {
    static STREAM: Stream;
}

/// Runs each HTTP/2 stream as a task that can be ended from outside.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StreamExecutor;

impl<F> hyper::rt::Executor<F> for StreamExecutor
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, future: F) {
        let stream = Stream::default();
        let task = tasks::once(STREAM.scope(stream.clone(), future));
        // Set once, here.
        let _ = stream.0.set(task.abort_handle());
    }
}

/// The body of a response. Its request is in flight until the body is sent or dropped.
pub(crate) struct Tracked {
    body: Body,
    /// Data of the body that hyper has not been given yet.
    rest: Bytes,
    /// When a byte in the middle was last held back.
    probed: Option<Instant>,
    /// The least time between two such bytes.
    probing: Duration,
    /// `None` if hyper gets the body as a whole: then the socket alone shows whether the peer reads.
    sending: Option<Arc<Sending>>,
    in_flight: InFlight,
    ending: Ending,
}

impl Tracked {
    /// The response to a request that began at `start`. Called by the task that sends it.
    pub(crate) fn new(
        mut response: Response,
        in_flight: InFlight,
        start: Instant,
        limits: &Limits,
    ) -> http::Response<Self> {
        let stream = Stream::current();
        let is_one_piece = match response.body() {
            Body::Empty => true,
            Body::Whole(bytes) => bytes.len() <= PIECE,
            Body::Shared(_) | Body::Stream(_) => false,
        };
        let sending = (stream.is_some() || !is_one_piece).then(|| {
            let extensions = response.extensions_mut();
            let deadline = extensions.remove().unwrap_or_else(|| SendBy::request(start, limits.request)).0;
            let sending = Arc::new(Sending {
                waiting: Stamp::unset(start),
                deadline,
                pins: extensions.remove(),
                may_pause: extensions.remove::<MayPause>().is_some(),
                stream,
                is_aborted: AtomicBool::new(false),
            });
            in_flight.link().begin_sending(&sending);
            sending
        });
        let probing = limits.stalled / 4;
        let mut ending = Ending::of(&mut response);
        ending.sent.is_complete = response.body().is_end_stream();
        response.map(|body| Self {
            body,
            rest: Bytes::new(),
            probed: None,
            probing,
            sending,
            in_flight,
            ending,
        })
    }

    /// The next piece of `rest`.
    fn piece(&mut self) -> Bytes {
        let len = self.rest.len();
        let len = if self.holds_back(len) { len - 1 } else { len };
        self.rest.split_to(len.min(PIECE))
    }

    /// Whether the last of `len` bytes is held back. Over HTTP/2 hyper takes a piece when the one before is
    /// sent: without another piece there would be no knowing whether the peer takes data. This is done for
    /// larger pieces, at the end of a response and from time to time in the middle. A smaller piece, such as
    /// the event of a watch, is one DATA frame.
    fn holds_back(&mut self, len: usize) -> bool {
        if len <= SMALL || self.stream().is_none() {
            return false;
        }
        if self.body.is_end_stream() {
            return true;
        }
        let now = Instant::now();
        let is_due = self.probed.is_none_or(|probed| now.saturating_duration_since(probed) >= self.probing);
        if is_due {
            self.probed = Some(now);
        }
        is_due
    }

    /// The HTTP/2 stream.
    fn stream(&self) -> Option<&Stream> {
        self.sending.as_ref().and_then(|sending| sending.stream())
    }

    fn link(&self) -> &Link {
        self.in_flight.link()
    }
}

/// Pending if the task has used up its cooperative budget before it sends these bytes.
fn poll_turn(cx: &mut Context<'_>, bytes: usize) -> Poll<()> {
    for _ in 0..bytes / STEP {
        ready!(coop::poll_proceed(cx)).made_progress();
    }
    Poll::Ready(())
}

impl Drop for Tracked {
    fn drop(&mut self) {
        if let Some(sending) = &self.sending {
            self.ending.sent.is_aborted = sending.is_aborted.load(Ordering::Acquire);
            self.link().end_sending(sending);
        }
    }
}

impl http_body::Body for Tracked {
    type Data = Bytes;
    type Error = StreamError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, StreamError>>> {
        let this = self.get_mut();
        if this.rest.is_empty() {
            match Pin::new(&mut this.body).poll_frame(cx) {
                Poll::Pending => {
                    if let Some(sending) = &this.sending {
                        sending.waiting.unset_again();
                    }
                    return Poll::Pending;
                }
                Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) => this.rest = data,
                    Err(frame) => return Poll::Ready(Some(Ok(frame))),
                },
                end @ Poll::Ready(_) => {
                    this.ending.sent.is_complete = matches!(end, Poll::Ready(None));
                    return end;
                }
            }
        }
        ready!(poll_turn(cx, this.rest.len().min(PIECE)));
        // Over HTTP/1.1 the socket shows whether the peer takes data.
        if let Some(sending) = this.sending.as_ref().filter(|sending| sending.stream.is_some()) {
            sending.waiting.set();
        }
        let piece = this.piece();
        this.ending.sent.bytes += piece.len() as u64;
        this.ending.sent.is_complete = this.is_end_stream();
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests;
