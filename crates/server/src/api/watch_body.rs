//! The response to a watch. Events that are available together are encoded and sent together.
//!
//! 1. The objects of events are cached encodings, shared by all watches. Watches of the same objects in the
//!    same format share whole chunks: one of them encodes, the others send its bytes.
//! 2. A watch holds one batch of its watcher and one chunk, however slow its client is. A large object that
//!    is sent as it is stored is not copied, unless the chunk with it is shared.
//! 3. A watch ends between two events: at its timeout, when the server drains, when its kind is removed or
//!    changed, or when the client disconnects. If its client does not read, it is cut off shortly after its
//!    timeout.
//! 4. Up to [`LARGE`] bytes of a batch are encoded on the event loop; if more are not in the cache, they are
//!    encoded beside it.
//! 5. A chunk that is not shared [counts](crate::unsent) for the user until it is sent.
//! 6. An error after the start of the response is sent as the last event.
//! 7. Over a WebSocket ([`socket`]) each event is a chunk, and a message; with faults ([`faulty`]) each event
//!    is a chunk as well.

mod event;
mod faulty;
mod socket;

use std::future::Future;
use std::iter::Peekable;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use cache::Encoding;
use cache::watch::{Batch, Delivery, Item, Watcher};
use http::{HeaderMap, StatusCode};
use http_body::Frame;
use registry::Watch;
use schema::Status;
use streams::websocket;
use tokio::time::Instant;

use super::compress;
use super::represent::ObjectEncoder;
use crate::body::StreamError;
use crate::fairness::WatchSeats;
use crate::inject::WatchFaults;
use crate::large::LARGE;
use crate::memory::Reserved;
use crate::poll_when_woken::PollWhenWoken;
use crate::sending::SendBy;
use crate::unsent::Payer;
use crate::{Body, Lifecycle, Response};
use event::Events;
use faulty::Faulty;
use socket::Framing;

/// The approximate size of a chunk.
const CHUNK: usize = 64 * 1024;

/// When a chunk has enough events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ChunkSize {
    /// At [`CHUNK`] bytes.
    Usual,
    /// After each event.
    Event,
}

impl ChunkSize {
    fn bytes(self) -> usize {
        match self {
            Self::Usual => CHUNK,
            Self::Event => 1,
        }
    }
}

/// The time after its timeout at which a watch ends whose client does not read: its body is not polled.
const GRACE: Duration = Duration::from_secs(1);

/// When a watch ends without an error.
pub(crate) struct EndConditions {
    /// The timeout.
    pub(crate) timeout: Duration,
    /// Whether the client asked for bookmarks. It gets one shortly before the timeout, if there is a newer
    /// revision.
    pub(crate) bookmarks: bool,
    /// The watch ends when the server drains.
    pub(crate) lifecycle: Lifecycle,
    /// The seats of the request, which are free when the watch has begun.
    pub(crate) seats: Option<WatchSeats>,
    /// The memory that was reserved for its start.
    pub(crate) reserved: Option<Reserved>,
    /// When the request arrived, and the scope that it is counted with.
    pub(crate) asked: (Instant, &'static str),
    /// The faults that the watch meets.
    pub(crate) faults: Option<WatchFaults>,
}

/// The response to a watch. Format and media type must come from
/// [`Accept::stream`](crate::negotiate::Accept::stream). `headers` are those of the request, which may ask
/// for a WebSocket.
pub(crate) fn respond(
    encoder: ObjectEncoder,
    media_type: &'static str,
    watch: Watch,
    end_conditions: EndConditions,
    headers: &HeaderMap,
) -> Response {
    let seats = end_conditions.seats.clone();
    let send_by = SendBy(Instant::now() + end_conditions.timeout + GRACE);
    let slot = Arc::new(ChunkSlot { next: Mutex::default(), payer: encoder.payer.clone() });
    let framing = websocket::is_request(headers).then(|| Framing::of(encoder.accept.format));
    let faults = end_conditions.faults.filter(|faults| *faults != WatchFaults::default());
    let is_single = framing.is_some() || faults.is_some();
    let size = if is_single { ChunkSize::Event } else { ChunkSize::Usual };
    let mut events = Events::new(encoder, end_conditions.asked, size);
    let faults = faults.map(|faults| Box::new(Faulty::new(faults, &mut events)));
    let run: WatchFuture = match watch {
        Watch::Running(watcher) => Box::pin(run(watcher, events, end_conditions, Arc::clone(&slot))),
        Watch::Ended(status) => Box::pin(end(status, events, Arc::clone(&slot))),
    };
    let body = WatchBody { chunks: Chunks { run: Some(run), slot }, faults };
    let mut response = match framing {
        Some(framing) => socket::respond(headers, body, framing, send_by.0),
        None => {
            let body = Body::Stream(Box::pin(body));
            let mut response = compress::response(StatusCode::OK, media_type, body, false);
            response.extensions_mut().insert(send_by);
            response
        }
    };
    if let Some(seats) = seats {
        response.extensions_mut().insert(seats);
    }
    response
}

type WatchFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The next chunk of a watch: written by the watch's future, taken by the body that polls it.
struct ChunkSlot {
    next: Mutex<Option<Bytes>>,
    payer: Payer,
}

impl ChunkSlot {
    fn take(&self) -> Option<Bytes> {
        self.next.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Sends bytes that are in memory for this watch alone.
    async fn send_own(&self, bytes: Bytes) {
        self.send(self.payer.charge_bytes(bytes)).await;
    }

    /// Puts bytes into the slot, and waits until the body has taken them.
    async fn send(&self, bytes: Bytes) {
        if bytes.is_empty() {
            return;
        }
        *self.next.lock().unwrap_or_else(PoisonError::into_inner) = Some(bytes);
        std::future::poll_fn(|_| {
            // `poll_frame` empties the slot after each poll, so this future needs no waker.
            let taken = self.next.lock().unwrap_or_else(PoisonError::into_inner).is_none();
            if taken { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}

/// The next thing that happens to a watch.
enum Next {
    Delivered(Result<Delivery, cache::Error>),
    TimeoutNear,
    /// The kind is no longer served.
    Retired,
    End,
}

/// The time before the timeout at which the client gets a bookmark.
const BEFORE_END: Duration = Duration::from_secs(2);

async fn run(mut watcher: Watcher, mut events: Events, end_conditions: EndConditions, slot: Arc<ChunkSlot>) {
    let EndConditions { timeout, bookmarks, lifecycle, mut seats, mut reserved, .. } = end_conditions;
    let _running = lifecycle.watches.begin();
    let early = timeout.checked_sub(BEFORE_END).filter(|early| bookmarks && !early.is_zero());
    let mut timeout_near = PollWhenWoken::new(tokio::time::sleep(early.unwrap_or_default()));
    let mut wants_bookmark = early.is_some();
    let served = events.served().clone();
    let mut end = PollWhenWoken::new(async {
        tokio::select! {
            () = lifecycle.watch_end() => Next::End,
            () = tokio::time::sleep(timeout) => Next::End,
            () = served.retired() => Next::Retired,
        }
    });
    let mut is_retired = false;
    let encoding = events.encoding();
    loop {
        // The objects of the start were sent: from now on the watch costs only what it gets.
        if watcher.revision().is_some() {
            seats.take().iter().for_each(WatchSeats::free);
            reserved.take().iter().for_each(Reserved::free);
        }
        let next = tokio::select! {
            biased;
            next = &mut end, if !is_retired => next,
            () = &mut timeout_near, if wants_bookmark => Next::TimeoutNear,
            delivery = next(&mut watcher, encoding) => Next::Delivered(delivery),
            () = std::future::ready(()), if is_retired => Next::End,
        };
        match next {
            Next::End => return,
            // The changes before the end of the kind are still delivered.
            Next::Retired => is_retired = true,
            Next::TimeoutNear => {
                wants_bookmark = false;
                watcher.ask_for_bookmark();
            }
            Next::Delivered(Ok(Delivery::Chunk(chunk))) => {
                events.sent_up_to(chunk.last);
                events.count(chunk.events, chunk.bytes.len());
                slot.send(chunk.bytes).await;
            }
            Next::Delivered(Ok(Delivery::Batch(batch))) => {
                let shared = encoding.filter(|_| watcher.can_keep());
                let error = match send(batch, &mut events, &slot, shared.is_some()).await {
                    Ok(Sent::Whole(bytes)) => {
                        match shared {
                            Some(encoding) => {
                                watcher.keep(encoding, &bytes);
                                slot.send(bytes).await;
                            }
                            None => slot.send_own(bytes).await,
                        }
                        continue;
                    }
                    Ok(Sent::InParts) => continue,
                    Err(error) => error,
                };
                if let Some(status) = error {
                    slot.send(events.error(&status)).await;
                }
                return;
            }
            // Not an error: the client starts a new watch.
            Next::Delivered(Err(cache::Error::Closed | cache::Error::Removed { .. })) => return,
            Next::Delivered(Err(error)) => return slot.send(events.error(&registry::status(error))).await,
        }
    }
}

async fn next(watcher: &mut Watcher, encoding: Option<Encoding>) -> Result<Delivery, cache::Error> {
    match encoding {
        Some(encoding) => watcher.next_written(encoding).await,
        None => watcher.next().await.map(Delivery::Batch),
    }
}

async fn end(status: Status, events: Events, slot: Arc<ChunkSlot>) {
    slot.send(events.error(&status)).await;
}

/// The result of [`send`].
enum Sent {
    /// The batch is one chunk, which is not sent yet.
    Whole(Bytes),
    /// The batch was sent in several chunks.
    InParts,
}

/// Encodes a batch, and sends it if it does not fit in one chunk; one that is shared has its large objects in
/// the chunk. An error ends the watch; its status, if any, is the last event.
async fn send(
    batch: Batch,
    events: &mut Events,
    slot: &ChunkSlot,
    is_shared: bool,
) -> Result<Sent, Option<Status>> {
    let is_whole = is_shared || events.chunk_size() == ChunkSize::Event;
    if events.served().read_waits() {
        let entries = batch.iter().filter_map(|item| match item {
            Item::Event(event) => Some(event.entry.clone()),
            Item::Bookmark { .. } => None,
        });
        events.convert_ahead(&entries.collect::<Vec<_>>()).await.map_err(Some)?;
    }
    let size = events.size_of(&batch);
    let mut buffer = Vec::with_capacity(size.min(CHUNK + CHUNK / 4));
    // A batch that is small altogether needs no look into the cache.
    let mut allowance = if size > LARGE { LARGE } else { usize::MAX };
    let mut items = batch.iter().peekable();
    let mut in_parts = false;
    loop {
        let mut filled = fill(&mut items, events, &mut buffer, &mut allowance, is_whole)?;
        while let Filled::Large(bytes) = filled {
            let permit = events.large().permit(bytes).await;
            filled = permit
                .run(|mut allowance| fill(&mut items, events, &mut buffer, &mut allowance, is_shared))?;
        }
        match filled {
            Filled::Stored(object) => {
                slot.send_own(std::mem::take(&mut buffer).into()).await;
                slot.send(object).await;
                slot.send(Bytes::from_static(event::AFTER_STORED)).await;
            }
            Filled::End if !in_parts => return Ok(Sent::Whole(buffer.into())),
            Filled::End => {
                slot.send_own(buffer.into()).await;
                return Ok(Sent::InParts);
            }
            Filled::Chunk | Filled::Large(_) => slot.send_own(std::mem::take(&mut buffer).into()).await,
        }
        in_parts = true;
    }
}

/// Why [`fill`] returned.
enum Filled {
    /// There is a chunk, and more to come.
    Chunk,
    /// The chunk is followed by a large object as it is stored, and by the end of its event.
    Stored(Bytes),
    /// The next object has so many bytes, which are to be encoded beside the event loop.
    Large(usize),
    /// All events are encoded.
    End,
}

/// Encodes events up to the end of a chunk, and at most as many bytes of objects as `allowance` says, which
/// is reduced by them. With `is_whole` large objects are in the chunk.
fn fill<'b>(
    items: &mut Peekable<impl Iterator<Item = Item<'b>>>,
    events: &mut Events,
    buffer: &mut Vec<u8>,
    allowance: &mut usize,
    is_whole: bool,
) -> Result<Filled, Option<Status>> {
    while let Some(item) = items.peek() {
        if buffer.len() >= events.chunk_size().bytes() {
            return Ok(Filled::Chunk);
        }
        match item {
            Item::Event(event) => {
                if !is_whole && event.entry.bytes().len() > CHUNK && events.sends_stored(event) {
                    let object = event.entry.bytes().clone();
                    events.begin_stored(event, buffer);
                    items.next();
                    return Ok(Filled::Stored(object));
                }
                if *allowance < usize::MAX && !events.is_kept(event) {
                    let bytes = event.entry.bytes().len();
                    let Some(left) = allowance.checked_sub(bytes) else { return Ok(Filled::Large(bytes)) };
                    *allowance = left;
                }
                events.event(event, buffer)?;
            }
            Item::Bookmark { revision, mark } => events.bookmark(*revision, *mark, buffer)?,
        }
        items.next();
    }
    Ok(Filled::End)
}

/// The body of a watch.
struct WatchBody {
    chunks: Chunks,
    /// The faults that the watch meets.
    faults: Option<Box<Faulty>>,
}

/// The chunks of a watch.
struct Chunks {
    /// `None` after the watch has ended.
    run: Option<WatchFuture>,
    slot: Arc<ChunkSlot>,
}

impl Chunks {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let Some(run) = &mut self.run else { return Poll::Ready(None) };
        let has_ended = run.as_mut().poll(cx).is_ready();
        if has_ended {
            self.run = None;
        }
        match self.slot.take() {
            Some(bytes) => Poll::Ready(Some(bytes)),
            None if has_ended => Poll::Ready(None),
            None => Poll::Pending,
        }
    }
}

impl http_body::Body for WatchBody {
    type Data = Bytes;
    type Error = StreamError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, StreamError>>> {
        let this = self.get_mut();
        match &mut this.faults {
            None => this.chunks.poll(cx).map(|bytes| Some(Ok(Frame::data(bytes?)))),
            Some(faults) => faults.poll(&mut this.chunks, cx).map(|bytes| Some(bytes?.map(Frame::data))),
        }
    }
}

#[cfg(test)]
mod tests;
