//! A watch that meets faults: it ends early, or its events come late. Each chunk is an event.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use faults::{WatchEnd, WatchEndsAfter};
use schema::Status;
use tokio::time::Sleep;

use super::Chunks;
use super::event::Events;
use crate::body::StreamError;
use crate::inject::WatchFaults;

/// The faults of a watch, and how far they are.
pub(super) struct Faulty {
    end: Option<End>,
    delay: Option<Duration>,
    /// An event that is not sent yet, and until when.
    held: Option<(Bytes, Pin<Box<Sleep>>)>,
    /// Whether the watch has ended by its fault.
    is_over: bool,
}

/// The end of a watch.
struct End {
    when: When,
    with: WatchEnd,
    /// The last event of an end with an error.
    error: Bytes,
}

enum When {
    Time(Pin<Box<Sleep>>),
    /// How many events are left.
    Events(u64),
}

impl Faulty {
    pub(super) fn new(faults: WatchFaults, events: &mut Events) -> Self {
        if faults.omits_bookmarks {
            events.omit_bookmarks();
        }
        let expired = Status::expired("The resourceVersion for the provided watch is too old.");
        let end = faults.end.map(|(after, with)| End {
            when: match after {
                WatchEndsAfter::Time(time) => When::Time(Box::pin(tokio::time::sleep(time))),
                WatchEndsAfter::Events(count) => When::Events(count),
            },
            with,
            error: events.error(&expired),
        });
        Self { end, delay: faults.delay, held: None, is_over: false }
    }

    /// The next event, or the end of the watch.
    pub(super) fn poll(
        &mut self,
        chunks: &mut Chunks,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, StreamError>>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        let is_due = self.end.as_mut().is_some_and(|end| match &mut end.when {
            When::Time(sleep) => sleep.as_mut().poll(cx).is_ready(),
            When::Events(left) => *left == 0,
        });
        if let Some(end) = self.end.take_if(|_| is_due) {
            self.is_over = true;
            chunks.run = None;
            return Poll::Ready(match end.with {
                WatchEnd::Silence => None,
                WatchEnd::Expired => Some(Ok(end.error)),
                WatchEnd::Cut => Some(Err("the watch was cut on demand".into())),
            });
        }
        let event = match (self.held.take(), self.delay) {
            (None, None) => ready!(chunks.poll(cx)),
            (held, delay) => ready!(self.poll_late(held, delay.unwrap_or_default(), chunks, cx)),
        };
        if event.is_some()
            && let Some(End { when: When::Events(left), .. }) = &mut self.end
        {
            *left = left.saturating_sub(1);
        }
        Poll::Ready(event.map(Ok))
    }

    /// The next event, some time after it was there. While it is held, the watch has no other: it costs no
    /// more memory than any watch.
    fn poll_late(
        &mut self,
        held: Option<(Bytes, Pin<Box<Sleep>>)>,
        delay: Duration,
        chunks: &mut Chunks,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Bytes>> {
        let (bytes, mut sleep) = match held {
            Some(held) => held,
            None => match ready!(chunks.poll(cx)) {
                Some(bytes) => (bytes, Box::pin(tokio::time::sleep(delay))),
                None => return Poll::Ready(None),
            },
        };
        match sleep.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Some(bytes)),
            Poll::Pending => {
                self.held = Some((bytes, sleep));
                Poll::Pending
            }
        }
    }
}
