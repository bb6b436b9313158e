//! Following: a window of recent events in memory, the signal that wakes followers, and the follower that
//! reads the window where it can and history where it must.
//!
//! Invariants:
//!
//! 1. The window holds every event with a revision in `(start, newest]`. Revisions may have gaps, and events
//!    may share one.
//! 2. Progress is announced after the events it covers are in the window, and only at the end of a revision.
//! 3. A follower's cursor is the end of a revision; it moves only over events that it handed out or filtered.
//! 4. A follower owns nothing but its cursor: a slow one costs no memory, and falls back to history.

use crate::{BoxFuture, Error, Event, Key, Revision, Value};
use bytes::Bytes;
use std::{
    collections::VecDeque,
    ops::ControlFlow,
    sync::{Arc, Mutex, PoisonError},
};
use tokio::sync::watch;

/// The most events in one batch, unless more share a revision.
pub(crate) const BATCH_EVENTS: usize = 512;
/// The most bytes in one batch, unless the events of one revision have more.
pub(crate) const BATCH_BYTES: usize = 1024 * 1024;

/// What to follow.
#[derive(Clone, Debug)]
pub struct Follow {
    /// The last revision that was seen: the first event is the one after it.
    pub from: Revision,
    /// Only keys that start with these bytes.
    pub prefix: Bytes,
    /// How much of each previous entry an event carries.
    pub previous: Previous,
}

/// How much of the previous entry an [`Event`] carries at least.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Previous {
    /// Its head, which costs nothing.
    #[default]
    Head,
    /// Its value too, which may cost a read for each event.
    Value,
}

/// Some changes in the order of revisions: all of a revision, or none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// The changes under the prefix; empty when only others changed.
    pub events: Vec<Event>,
    /// The follower has now received every change under its prefix up to here: the place to resume from.
    pub revision: Revision,
}

/// A stream of committed changes, pulled batch by batch.
pub trait Follower: Send {
    /// Waits for the next batch. Safe to drop and call again: nothing is lost.
    ///
    /// Ends with [`Error::Compacted`] when the follower fell behind history, and with [`Error::Closed`] after
    /// the store was closed. A damaged piece of history ends it with [`Error::Unusable`]: load again, and
    /// follow from there.
    fn next(&mut self) -> BoxFuture<'_, Result<Batch, Error>>;

    /// The next batch if it is in memory; `None` if the caller has to wait for it with [`Follower::next`].
    fn try_next(&mut self) -> Option<Result<Batch, Error>>;
}

impl Follow {
    /// Everything after `from`.
    #[must_use]
    pub fn after(from: Revision) -> Self {
        Self { from, prefix: Bytes::new(), previous: Previous::default() }
    }

    /// Only keys that start with `prefix`.
    #[must_use]
    pub fn prefix(mut self, prefix: impl Into<Bytes>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// With the values of previous entries.
    #[must_use]
    pub fn with_previous_values(mut self) -> Self {
        self.previous = Previous::Value;
        self
    }
}

/// The source that a follower asks for what the window no longer holds.
pub(crate) trait History: Send + Sync {
    /// Events after `after` and up to `until`, a batch of them, ending at the end of a revision.
    fn read(
        &self,
        after: Revision,
        until: Revision,
        prefix: Bytes,
    ) -> BoxFuture<'static, Result<Batch, Error>>;

    /// The values that were written to keys by certain changes.
    fn values(&self, wanted: Vec<(Key, Revision)>) -> BoxFuture<'static, Result<Vec<Value>, Error>>;
}

/// How far the commits have come.
#[derive(Clone, Copy, Debug)]
struct Progress {
    revision: Revision,
    /// How often the feed was [started again](Feed::restart).
    generation: u64,
    open: bool,
}

/// The window of recent events, shared by the writer and all followers.
pub(crate) struct Feed {
    window: Mutex<Window>,
    progress: watch::Sender<Progress>,
}

struct Window {
    start: Revision,
    events: VecDeque<Event>,
    bytes: usize,
    bound: usize,
}

impl Feed {
    /// A window that starts after `revision` and keeps at most `bound` bytes.
    pub(crate) fn new(revision: Revision, bound: usize) -> Self {
        let window = Window { start: revision, events: VecDeque::new(), bytes: 0, bound };
        Self {
            window: Mutex::new(window),
            progress: watch::Sender::new(Progress { revision, generation: 0, open: true }),
        }
    }

    /// Adds the events of whole revisions, and announces the newest revision.
    pub(crate) fn publish(&self, events: Vec<Event>, newest: Revision) {
        self.window().extend(events);
        self.progress.send_modify(|progress| progress.revision = newest);
    }

    /// Forgets events up to `revision`.
    pub(crate) fn trim(&self, revision: Revision) {
        self.window().trim(revision);
    }

    /// Starts again at a revision that may be older than the newest: all followers end, because revisions
    /// after it will be given to other changes than those that they have seen.
    pub(crate) fn restart(&self, revision: Revision) {
        // Under the lock, so that a follower that has read the new window sees that it was started again.
        let mut window = self.window();
        *window = Window { start: revision, events: VecDeque::new(), bytes: 0, bound: window.bound };
        self.progress.send_modify(|progress| {
            progress.revision = revision;
            progress.generation += 1;
        });
    }

    /// The newest revision announced.
    pub(crate) fn revision(&self) -> Revision {
        self.progress.borrow().revision
    }

    /// How often the feed was [started again](Feed::restart).
    pub(crate) fn generation(&self) -> u64 {
        self.progress.borrow().generation
    }

    /// Waits until the feed was started again since `generation`; fails when it was closed.
    pub(crate) async fn restarted(&self, generation: u64) -> Result<(), Error> {
        let is_news = |progress: &Progress| !progress.open || progress.generation != generation;
        let news = self.progress.subscribe().wait_for(is_news).await.map(|progress| progress.open);
        if news.is_ok_and(|open| open) { Ok(()) } else { Err(Error::Closed) }
    }

    /// Waits until a revision after `after` is announced, or the feed was started again; fails when the feed
    /// was closed.
    pub(crate) fn changed(&self, after: Revision) -> BoxFuture<'static, Result<(), Error>> {
        let mut progress = self.progress.subscribe();
        let generation = progress.borrow().generation;
        Box::pin(async move {
            let is_news = |progress: &Progress| {
                !progress.open || progress.revision > after || progress.generation != generation
            };
            let news = progress.wait_for(is_news).await;
            if news.is_ok_and(|progress| progress.open) { Ok(()) } else { Err(Error::Closed) }
        })
    }

    /// Ends all followers.
    pub(crate) fn close(&self) {
        self.progress.send_modify(|progress| progress.open = false);
    }

    /// The value that a change of a key wrote, if the window still holds it.
    pub(crate) fn value(&self, key: &Key, revision: Revision) -> Option<Value> {
        self.window().find(key, revision).map(|event| event.value.clone())
    }

    /// A follower of this feed; the caller has checked that `follow.from` is within reach.
    pub(crate) fn follow(self: &Arc<Self>, follow: Follow, history: Arc<dyn History>) -> Box<dyn Follower> {
        let progress = self.progress.subscribe();
        let generation = progress.borrow().generation;
        Box::new(Tail { feed: self.clone(), progress, generation, follow, history })
    }

    fn window(&self) -> std::sync::MutexGuard<'_, Window> {
        self.window.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Window {
    fn extend(&mut self, events: Vec<Event>) {
        for event in events {
            self.bytes += event.size();
            self.events.push_back(event);
        }
        while self.bytes > self.bound {
            self.drop_front();
        }
    }

    fn trim(&mut self, revision: Revision) {
        while self.events.front().is_some_and(|event| event.revision() <= revision) {
            self.drop_front();
        }
        self.start = self.start.max(revision);
    }

    fn drop_front(&mut self) {
        if let Some(event) = self.events.pop_front() {
            self.bytes = self.bytes.saturating_sub(event.size());
            self.start = event.revision();
        }
    }

    /// The events after a revision.
    fn after(&self, revision: Revision) -> impl Iterator<Item = &Event> {
        let from = self.events.partition_point(|event| event.revision() <= revision);
        self.events.range(from..)
    }

    fn find(&self, key: &Key, revision: Revision) -> Option<&Event> {
        let before = Revision(revision.0.checked_sub(1)?);
        let mut same = self.after(before).take_while(|event| event.revision() == revision);
        same.find(|event| event.key == *key)
    }

    /// A batch after `cursor` and up to `until`, or `None` if the window starts after `cursor`.
    fn read(&self, cursor: Revision, until: Revision, prefix: &[u8]) -> Option<Batch> {
        if cursor < self.start {
            return None;
        }
        let mut batch = BatchBuilder::new(cursor);
        for event in self.after(cursor).take_while(|event| event.revision() <= until) {
            let is_followed = event.key.as_bytes().starts_with(prefix);
            if batch.push(event.revision(), || is_followed.then(|| event.clone())).is_break() {
                return Some(batch.full());
            }
        }
        Some(batch.complete(until))
    }
}

/// Gathers events into a batch that ends at the end of a revision.
pub(crate) struct BatchBuilder {
    batch: Batch,
    bytes: usize,
    seen: usize,
}

impl BatchBuilder {
    pub(crate) fn new(cursor: Revision) -> Self {
        Self { batch: Batch { events: Vec::new(), revision: cursor }, bytes: 0, seen: 0 }
    }

    /// Adds the event of a revision, or only the revision if the follower does not follow its key; breaks
    /// without adding it if the batch is full.
    pub(crate) fn push(
        &mut self,
        revision: Revision,
        event: impl FnOnce() -> Option<Event>,
    ) -> ControlFlow<()> {
        let is_full = self.batch.events.len() >= BATCH_EVENTS
            || self.seen >= 64 * BATCH_EVENTS
            || self.bytes >= BATCH_BYTES;
        if is_full && revision > self.batch.revision {
            return ControlFlow::Break(());
        }
        self.seen += 1;
        if let Some(event) = event() {
            self.bytes += event.size();
            self.batch.events.push(event);
        }
        self.batch.revision = revision;
        ControlFlow::Continue(())
    }

    /// The batch after [`BatchBuilder::push`] has broken: it ends with the last revision that was taken.
    pub(crate) fn full(self) -> Batch {
        self.batch
    }

    /// The batch when there is no further change up to `until`.
    pub(crate) fn complete(mut self, until: Revision) -> Batch {
        self.batch.revision = self.batch.revision.max(until);
        self.batch
    }
}

struct Tail {
    feed: Arc<Feed>,
    progress: watch::Receiver<Progress>,
    generation: u64,
    follow: Follow,
    history: Arc<dyn History>,
}

impl Tail {
    /// Fails after the feed was closed or started again.
    fn check(&self, progress: Progress) -> Result<(), Error> {
        if !progress.open {
            Err(Error::Closed)
        } else if progress.generation != self.generation {
            let (requested, compacted) = (self.follow.from, progress.revision);
            Err(Error::Compacted { requested, compacted })
        } else {
            Ok(())
        }
    }

    async fn pull(&mut self) -> Result<Batch, Error> {
        loop {
            let progress = *self.progress.borrow_and_update();
            self.check(progress)?;
            if self.follow.from < progress.revision {
                let mut batch = self.read(progress.revision).await?;
                self.check(*self.progress.borrow())?;
                if self.follow.previous == Previous::Value {
                    self.fill_previous(&mut batch).await?;
                }
                self.follow.from = batch.revision;
                return Ok(batch);
            }
            if self.progress.changed().await.is_err() {
                return Err(Error::Closed);
            }
        }
    }

    async fn read(&self, until: Revision) -> Result<Batch, Error> {
        let recent = self.feed.window().read(self.follow.from, until, &self.follow.prefix);
        match recent {
            Some(batch) => Ok(batch),
            None => self.history.read(self.follow.from, until, self.follow.prefix.clone()).await,
        }
    }

    async fn fill_previous(&self, batch: &mut Batch) -> Result<(), Error> {
        let places = self.fill_previous_from_window(batch);
        if places.is_empty() {
            return Ok(());
        }
        let wanted = |place: &usize| {
            let event = batch.events.get(*place)?;
            Some((event.key.clone(), event.previous.as_ref()?.head.mod_revision))
        };
        let wanted = places.iter().filter_map(wanted).collect();
        let values = self.history.values(wanted).await?;
        for (place, value) in places.into_iter().zip(values) {
            if let Some(previous) = batch.events.get_mut(place).and_then(|event| event.previous.as_mut()) {
                previous.value = Some(value);
            }
        }
        Ok(())
    }

    /// Fills in the previous values that the window holds, and returns the indexes of the other events.
    fn fill_previous_from_window(&self, batch: &mut Batch) -> Vec<usize> {
        let mut places = Vec::new();
        for (place, event) in batch.events.iter_mut().enumerate() {
            if let Some(previous) = &mut event.previous
                && previous.value.is_none()
            {
                previous.value = self.feed.value(&event.key, previous.head.mod_revision);
                if previous.value.is_none() {
                    places.push(place);
                }
            }
        }
        places
    }
}

impl Follower for Tail {
    fn next(&mut self) -> BoxFuture<'_, Result<Batch, Error>> {
        Box::pin(self.pull())
    }

    fn try_next(&mut self) -> Option<Result<Batch, Error>> {
        let progress = *self.progress.borrow_and_update();
        if let Err(error) = self.check(progress) {
            return Some(Err(error));
        }
        if self.follow.from >= progress.revision {
            return None;
        }
        let recent = self.feed.window().read(self.follow.from, progress.revision, &self.follow.prefix);
        let mut batch = recent?;
        if let Err(error) = self.check(*self.progress.borrow()) {
            return Some(Err(error));
        }
        if self.follow.previous == Previous::Value && !self.fill_previous_from_window(&mut batch).is_empty() {
            return None;
        }
        self.follow.from = batch.revision;
        Some(Ok(batch))
    }
}

/// Refuses a revision outside of `[compacted, current]`.
pub(crate) fn check_reach(requested: Revision, compacted: Revision, current: Revision) -> Result<(), Error> {
    if requested < compacted {
        Err(Error::Compacted { requested, compacted })
    } else if requested > current {
        Err(Error::Future { requested, current })
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
