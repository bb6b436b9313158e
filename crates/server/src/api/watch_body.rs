//! The answer to a watch: events as they come, written together where several are there, and sent at once.
//!
//! 1. The objects of events are kept writings, shared by all watchers that are told of them. Watchers of the same objects in
//!    the same form share all they send: one of them writes it.
//! 2. A watch holds one batch of its watcher and one chunk, however far behind its client is.
//! 3. It ends, between two events, when its time is up, when the server drains, when its kind is not served any more or in
//!    another form, and when its client goes.
//! 4. What goes wrong after its start is its last event.

mod event;

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use cache::Encoding;
use cache::watch::{Batch, Delivery, Item, Watcher};
use http::StatusCode;
use http_body::Frame;
use registry::Watch;
use schema::Status;

use super::compress;
use super::represent::View;
use crate::body::StreamError;
use crate::rare::Rare;
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
    async fn send(&self, bytes: Bytes) {
        if bytes.is_empty() {
            return;
        }
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(bytes);
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
    Told(Result<Delivery, cache::Error>),
    AlmostUp,
    TimeUp,
}

/// How long before the end a client is told how far it has come.
const BEFORE_END: Duration = Duration::from_secs(2);

async fn run(mut watcher: Watcher, mut events: Events, until: Until, slot: Arc<Slot>) {
    let Until { timeout, bookmarks, lifecycle } = until;
    let early = timeout.checked_sub(BEFORE_END).filter(|early| bookmarks && !early.is_zero());
    let mut almost_up = Rare::new(tokio::time::sleep(early.unwrap_or_default()));
    let mut asks = early.is_some();
    let served = events.served().clone();
    let mut time_up = Rare::new(async {
        tokio::select! {
            () = lifecycle.reached(Phase::Draining) => {}
            () = tokio::time::sleep(timeout) => {}
            () = served.retired() => {}
        }
    });
    let encoding = events.encoding();
    loop {
        let next = tokio::select! {
            biased;
            () = &mut time_up => Next::TimeUp,
            () = &mut almost_up, if asks => Next::AlmostUp,
            told = next(&mut watcher, encoding) => Next::Told(told),
        };
        match next {
            Next::TimeUp => return,
            Next::AlmostUp => {
                asks = false;
                watcher.ask_for_bookmark();
            }
            Next::Told(Ok(Delivery::Chunk(chunk))) => {
                events.told(chunk.last);
                slot.send(chunk.bytes).await;
            }
            Next::Told(Ok(Delivery::Batch(batch))) => {
                let end = match send(batch, &mut events, &slot).await {
                    Ok(Sent::Whole(bytes)) => {
                        if let Some(encoding) = encoding {
                            watcher.keep(encoding, &bytes);
                        }
                        slot.send(bytes).await;
                        continue;
                    }
                    Ok(Sent::InParts) => continue,
                    Err(end) => end,
                };
                if let Some(status) = end {
                    slot.send(events.error(&status)).await;
                }
                return;
            }
            // Nobody is to blame, and the client starts anew elsewhere.
            Next::Told(Err(cache::Error::Closed | cache::Error::Removed { .. })) => return,
            Next::Told(Err(error)) => return slot.send(events.error(&registry::status(error))).await,
        }
    }
}

async fn next(watcher: &mut Watcher, encoding: Option<Encoding>) -> Result<Delivery, cache::Error> {
    match encoding {
        Some(encoding) => watcher.next_written(encoding).await,
        None => watcher.next().await.map(Delivery::Batch),
    }
}

async fn end(status: Status, events: Events, slot: Arc<Slot>) {
    slot.send(events.error(&status)).await;
}

/// What became of a batch.
enum Sent {
    /// It is yet to be sent, as one chunk.
    Whole(Bytes),
    /// It was sent, in several chunks.
    InParts,
}

/// Writes a batch, and sends it if it does not fit in one chunk. Fails where the watch has to end: with what is told, if
/// anything is.
async fn send(batch: Batch, events: &mut Events, slot: &Slot) -> Result<Sent, Option<Status>> {
    if events.served().read_waits() {
        let entries = batch.iter().filter_map(|item| match item {
            Item::Event(event) => Some(event.entry.clone()),
            Item::Bookmark { .. } => None,
        });
        events.convert_ahead(&entries.collect::<Vec<_>>()).await.map_err(Some)?;
    }
    let mut buffer = Vec::with_capacity(events.size_of(&batch).min(CHUNK + CHUNK / 4));
    let mut in_parts = false;
    for item in batch.iter() {
        if buffer.len() >= CHUNK {
            slot.send(std::mem::take(&mut buffer).into()).await;
            in_parts = true;
        }
        match item {
            Item::Event(event) => events.event(&event, &mut buffer)?,
            Item::Bookmark { revision, mark } => events.bookmark(revision, mark, &mut buffer)?,
        }
    }
    match in_parts {
        false => Ok(Sent::Whole(buffer.into())),
        true => {
            slot.send(buffer.into()).await;
            Ok(Sent::InParts)
        }
    }
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
