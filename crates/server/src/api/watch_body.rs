//! The answer to a watch: events as they come, written together where several are there, and sent at once.
//!
//! 1. The objects of events are kept writings, shared by all watchers that are told of them.
//! 2. A watch holds one batch of its watcher and one chunk, however far behind its client is.
//! 3. It ends, between two events, when its time is up, when the server drains, and when its client goes.
//! 4. What goes wrong after its start is its last event.

mod event;

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use cache::watch::{Batch, Item, Watcher};
use http::StatusCode;
use http_body::Frame;
use registry::Watch;
use schema::Status;

use super::compress;
use super::represent::View;
use crate::body::StreamError;
use crate::{Body, Lifecycle, Phase, Response};
use event::Events;

/// About how much is sent at a time.
const CHUNK: usize = 64 * 1024;

/// When a watch ends, if nothing else ends it.
pub(crate) struct Until {
    /// After this time.
    pub(crate) timeout: Duration,
    /// Whether the client takes bookmarks: it gets one shortly before the end, if there is something new to tell.
    pub(crate) bookmarks: bool,
    /// When the server drains.
    pub(crate) lifecycle: Lifecycle,
}

/// The answer to a watch. The form must be one that streams: what [`Accept::stream`](super::negotiate::Accept::stream) gave,
/// with its media type.
pub(crate) fn respond(view: View, media_type: &'static str, watch: Watch, until: Until) -> Response {
    let slot = Arc::new(Slot::default());
    let events = Events::new(view);
    let run: Run = match watch {
        Watch::Running(watcher) => Box::pin(run(watcher, events, until, Arc::clone(&slot))),
        Watch::Ended(status) => Box::pin(end(status, events, Arc::clone(&slot))),
    };
    let body = WatchBody { run: Some(run), slot };
    compress::response(StatusCode::OK, media_type, Body::Stream(Box::pin(body)), false)
}

type Run = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Where a running watch lays down what is to be sent.
#[derive(Default)]
struct Slot(Mutex<Option<Bytes>>);

impl Slot {
    fn take(&self) -> Option<Bytes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Lays bytes down, and waits until they are taken.
    async fn send(&self, bytes: Vec<u8>) {
        if bytes.is_empty() {
            return;
        }
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(bytes.into());
        std::future::poll_fn(|_| {
            // Whoever polls takes what there is before polling again.
            let taken = self.0.lock().unwrap_or_else(PoisonError::into_inner).is_none();
            if taken { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}

/// What ended a wait.
enum Next {
    Batch(Result<Batch, cache::Error>),
    AlmostUp,
    TimeUp,
}

/// How long before the end a client is told how far it has come.
const BEFORE_END: Duration = Duration::from_secs(2);

async fn run(mut watcher: Watcher, mut events: Events, until: Until, slot: Arc<Slot>) {
    let mut time_up = pin!(tokio::time::sleep(until.timeout));
    let early = until.timeout.checked_sub(BEFORE_END).filter(|early| until.bookmarks && !early.is_zero());
    let mut almost_up = pin!(tokio::time::sleep(early.unwrap_or_default()));
    let mut asks = early.is_some();
    let mut draining = pin!(until.lifecycle.reached(Phase::Draining));
    loop {
        let next = tokio::select! {
            biased;
            () = &mut draining => Next::TimeUp,
            () = &mut time_up => Next::TimeUp,
            () = &mut almost_up, if asks => Next::AlmostUp,
            batch = watcher.next() => Next::Batch(batch),
        };
        match next {
            Next::TimeUp => return,
            Next::AlmostUp => {
                asks = false;
                watcher.ask_for_bookmark();
            }
            Next::Batch(Ok(batch)) => {
                if let Err(end) = send(batch, &mut events, &slot).await {
                    if let Some(status) = end {
                        slot.send(events.error(&status)).await;
                    }
                    return;
                }
            }
            // Nobody is to blame, and the client starts anew elsewhere.
            Next::Batch(Err(cache::Error::Closed)) => return,
            Next::Batch(Err(error)) => return slot.send(events.error(&registry::status(error))).await,
        }
    }
}

async fn end(status: Status, events: Events, slot: Arc<Slot>) {
    slot.send(events.error(&status)).await;
}

/// Sends a batch, in as few chunks as it fits in. Fails where the watch has to end: with what is told, if anything is.
async fn send(batch: Batch, events: &mut Events, slot: &Slot) -> Result<(), Option<Status>> {
    let mut buffer = Vec::new();
    for item in batch {
        match item {
            Item::Event(event) => events.event(&event, &mut buffer)?,
            Item::Bookmark { revision, mark } => events.bookmark(revision, mark, &mut buffer)?,
        }
        if buffer.len() >= CHUNK {
            slot.send(std::mem::take(&mut buffer)).await;
        }
    }
    slot.send(buffer).await;
    Ok(())
}

/// The body of a watch.
struct WatchBody {
    /// None when it is over.
    run: Option<Run>,
    slot: Arc<Slot>,
}

impl http_body::Body for WatchBody {
    type Data = Bytes;
    type Error = StreamError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, StreamError>>> {
        let this = self.get_mut();
        let Some(run) = &mut this.run else { return Poll::Ready(None) };
        let over = run.as_mut().poll(cx).is_ready();
        if over {
            this.run = None;
        }
        match this.slot.take() {
            Some(bytes) => Poll::Ready(Some(Ok(Frame::data(bytes)))),
            None if over => Poll::Ready(None),
            None => Poll::Pending,
        }
    }
}

#[cfg(test)]
mod tests;
