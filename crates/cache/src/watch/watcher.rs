//! The cursor of one watcher.

use super::{
    Batch, Bookmarks, Chunk, EventType, InlineVec, Mark, Start, WatchOptions, chunks::Span,
    watcher_index::Subscription, watcher_set::WatcherSet,
};
use crate::families::{INIT_EVENTS, TERMINATED_WATCHERS};
use crate::{
    Encoding, Entry, Error,
    filter::{Scope, Selection},
    log::{KeyState, Piece, PieceRange, Transition},
    open,
    resource::{Era, Resource},
    tree,
};
use bytes::Bytes;
use std::{future::poll_fn, mem, ops::ControlFlow, sync::Arc, time::Instant};
use store::{Follow, Follower, Revision};

/// The most items of a batch; more if the changes of one revision are more.
const ITEMS: usize = 256;
/// The most changes that are compared with the selection for one batch.
const LOOKS: usize = 8192;
/// The most pieces of the log that are taken from it at once.
const PIECES: usize = 8;
/// The most revisions of a watcher set that are looked up in the log at once.
const NOTED: usize = 64;
/// About how many bytes of objects a batch has if its encoding is shared as a chunk. Larger chunks would not
/// be kept.
const SHARED: usize = 48 * 1024;

/// A stream of events, pulled batch by batch. Dropping it ends the watch.
pub struct Watcher {
    resource: Arc<Resource>,
    selection: Box<Selection>,
    /// Whether the selection matches every object, so that objects need not be compared with it.
    everything: bool,
    subscription: Subscription,
    /// Whether the watcher gets every event of its set, so that it shares encoded chunks with the other
    /// watchers of the set.
    shares_chunks: bool,
    /// Every matching event up to here was delivered.
    cursor: Revision,
    /// Whether the watcher has read every change since the signal of its waiter was last cleared: it waits
    /// for the signal before it reads again.
    has_caught_up: bool,
    /// The span of the last batch, if other watchers may share its encoding ([`Watcher::keep`]).
    shareable: Option<Span>,
    phase: Phase,
    bookmarks: Bookmarks,
    /// The era that the cursor belongs to.
    era: Era,
}

/// The events that a watcher delivers together.
#[derive(Clone, Debug)]
pub enum Delivery {
    /// Items that the caller has to encode.
    Batch(Batch),
    /// Events that another watcher has encoded.
    Chunk(Chunk),
}

enum Phase {
    /// Waiting for the revision to start after. At the deadline the store is asked for its newest revision.
    Ahead { deadline: Instant },
    /// Delivering the initial state.
    Initial { range: tree::Range, mark: bool },
    /// Reading changes that are older than the log from the store.
    History(Box<dyn Follower>),
    /// Reading the log.
    Live,
}

/// The outcome of one read.
enum Read {
    /// The items, and whether there may be more to read.
    Items { items: Batch, more: bool },
    /// The log does not reach back to the cursor.
    Behind,
    /// The watcher cannot be notified of the next change.
    Failed(Error),
}

impl Resource {
    /// Starts a watch.
    ///
    /// Fails with [`Error::TooOld`] if the changes after the revision asked for are gone, with
    /// [`Error::TooLarge`] if a state was asked for that did not come in time, and with [`Error::Damaged`] or
    /// [`Error::Unavailable`] if a part of it cannot be read.
    pub async fn watch(self: &Arc<Self>, request: WatchOptions) -> Result<Watcher, Error> {
        let WatchOptions { start, filter, bookmarks } = request;
        self.check_served()?;
        if let Start::State(freshness) | Start::StreamingList(freshness) = start {
            self.freshen(freshness).await?;
            if self.with_state(|view, _| view.has_unavailable()) {
                self.core().unavailable.try_again(self.core().options.wait).await;
            }
        }
        let era = self.era();
        let selection = Box::new(Selection::new(self.spec(), filter));
        let subscription =
            self.watcher_index().subscribe(&selection, || self.with_state(|view, _| view.revision));
        if bookmarks == Bookmarks::Periodic {
            self.schedule_bookmark(&subscription.waiter);
        }
        let (cursor, phase) = match start {
            Start::After(revision) if self.has_reached(era.lineage, revision) => (revision, Phase::Live),
            Start::After(revision) => {
                (revision, Phase::Ahead { deadline: Instant::now() + self.core().options.wait })
            }
            Start::State(_) | Start::StreamingList(_) => {
                let view = self.view();
                let keys = selection.keys(None);
                let damaged = view.damaged(&keys.from, keys.to.as_deref());
                if !matches!(&damaged, Ok(damaged) if damaged.is_empty()) {
                    self.watcher_index().unsubscribe(&selection, &subscription);
                    // A client would take an object that is missing from the state for deleted.
                    return Err(damaged.map_or_else(|error| error, Error::Damaged));
                }
                let entries = selection.narrow(&view, &keys);
                let mark = matches!(start, Start::StreamingList(_)) && bookmarks == Bookmarks::Periodic;
                (view.revision, Phase::Initial { range: entries.tree.range(entries.from, entries.to), mark })
            }
        };
        let mut watcher = Watcher {
            resource: self.clone(),
            everything: selection.is_everything(),
            shares_chunks: selection.is_scope_alone(),
            selection,
            subscription,
            cursor,
            has_caught_up: false,
            shareable: None,
            phase,
            bookmarks,
            era,
        };
        if matches!(start, Start::After(_)) && self.with_state(|_, log| cursor < log.start()) {
            watcher.open_history()?;
        }
        Ok(watcher)
    }
}

impl Watcher {
    /// Waits for the next batch. Safe to drop and call again: nothing is lost. One batch may be empty: the
    /// last one of the initial state.
    ///
    /// Ends with [`Error::TooOld`] if the watcher was so slow that what it has to read next is gone, with
    /// [`Error::Removed`] if the type was and the changes before that are delivered, with
    /// [`Error::Corrupt`], [`Error::Unavailable`] or [`Error::UnreadableDeleted`] at a change of an object
    /// that cannot be read, and with [`Error::Closed`].
    pub async fn next(&mut self) -> Result<Batch, Error> {
        loop {
            if let Delivery::Batch(batch) = self.delivery(None).await? {
                return Ok(batch);
            }
        }
    }

    /// Waits like [`Watcher::next`], and takes a chunk that another watcher has encoded, if there is one.
    /// Give the bytes of a batch to [`Watcher::keep`].
    pub async fn next_written(&mut self, encoding: Encoding) -> Result<Delivery, Error> {
        self.delivery(Some(encoding)).await
    }

    /// Whether [`Watcher::keep`] shares the bytes of the last batch.
    pub fn can_keep(&self) -> bool {
        self.shareable.is_some()
    }

    /// Shares the bytes of the last batch, all of them and nothing else, with the other watchers of the set.
    pub fn keep(&mut self, encoding: Encoding, bytes: &Bytes) {
        if let Some(span) = self.shareable.take() {
            let is_current = || self.resource.era() == self.era;
            let set = &self.subscription.set;
            self.resource.watcher_index().keep_chunk(set, (encoding, span), bytes, is_current);
        }
    }

    async fn delivery(&mut self, encoding: Option<Encoding>) -> Result<Delivery, Error> {
        self.shareable = None;
        loop {
            if mem::take(&mut self.has_caught_up) {
                let waiter = &self.subscription.waiter;
                poll_fn(|context| waiter.poll(context)).await;
            }
            self.subscription.waiter.clear();
            // What is in memory of the time before the end of the type is still delivered.
            let removed = match self.resource.check_served() {
                Err(error @ Error::Removed { .. })
                    if matches!(self.phase, Phase::Initial { .. } | Phase::Live) =>
                {
                    Some(error)
                }
                served => {
                    served?;
                    None
                }
            };
            let is_initial = matches!(self.phase, Phase::Initial { .. });
            let read = match &mut self.phase {
                Phase::Ahead { deadline } => {
                    let deadline = *deadline;
                    self.arrive(deadline).await?;
                    Read::Items { items: Batch::default(), more: true }
                }
                Phase::Initial { .. } => Read::Items { items: self.initial(), more: true },
                Phase::History(_) => {
                    let items = self.history().await.inspect_err(|error| self.count_end(error))?;
                    Read::Items { items, more: true }
                }
                Phase::Live => match encoding.and_then(|encoding| self.chunk(encoding)) {
                    Some(chunk) => {
                        self.check_era()?;
                        // Nobody signals a watcher of a removed type.
                        self.has_caught_up &= removed.is_none();
                        return Ok(Delivery::Chunk(chunk));
                    }
                    None => self.read(encoding.filter(|_| self.shares_chunks)),
                },
            };
            // After the read: then the changes that were read are of the era of the cursor.
            self.check_era()?;
            match read {
                Read::Behind => self.open_history().inspect_err(|error| self.count_end(error))?,
                Read::Failed(error) => return Err(error),
                // The initial state is over, and nothing was left of it.
                Read::Items { items, more: true } if is_initial && self.revision().is_some() => {
                    return Ok(Delivery::Batch(items));
                }
                // Many changes did not match: other tasks may run.
                Read::Items { items, more: true } if items.is_empty() => tokio::task::yield_now().await,
                Read::Items { items, more: true } => return Ok(Delivery::Batch(items)),
                Read::Items { items, more: false } if removed.is_some() => {
                    return match removed.filter(|_| items.is_empty()) {
                        Some(error) => Err(error),
                        None => Ok(Delivery::Batch(items)),
                    };
                }
                Read::Items { mut items, more: false } => {
                    self.has_caught_up = true;
                    if self.bookmark_due() {
                        self.shareable = None;
                        items.push_bookmark(self.cursor, Mark::Periodic);
                    }
                    if !items.is_empty() {
                        return Ok(Delivery::Batch(items));
                    }
                }
            }
        }
    }

    /// Counts the end of the watcher if it was too slow.
    fn count_end(&self, error: &Error) {
        if matches!(error, Error::TooOld { .. }) {
            TERMINATED_WATCHERS.with([self.resource.spec().prefix()]).inc();
        }
    }

    /// Fails if another era has begun than that of the cursor.
    fn check_era(&self) -> Result<(), Error> {
        if self.resource.era() == self.era {
            return Ok(());
        }
        let oldest = self.resource.with_state(|_, log| log.start());
        Err(Error::TooOld { requested: self.cursor, oldest })
    }

    /// Waits for the revision to start after. A revision that the store does not reach after a while comes
    /// from a lost lineage, and is too old.
    async fn arrive(&mut self, deadline: Instant) -> Result<(), Error> {
        let core = self.resource.core();
        let reach = self.resource.reach(self.era.lineage, self.cursor);
        match tokio::time::timeout_at(deadline.into(), reach).await {
            Ok(reached) => {
                reached?;
                self.phase = Phase::Live;
            }
            Err(_) => {
                if let Ok(newest) = core.store.newest_revision().await
                    && newest < self.cursor
                {
                    return Err(Error::TooOld { requested: self.cursor, oldest: newest });
                }
                self.phase = Phase::Ahead { deadline: Instant::now() + core.options.wait };
            }
        }
        Ok(())
    }

    /// The next chunk that another watcher has encoded.
    fn chunk(&mut self, encoding: Encoding) -> Option<Chunk> {
        if !self.shares_chunks {
            return None;
        }
        let chunk = self.subscription.set.chunk(encoding, self.cursor)?;
        self.cursor = chunk.to;
        // A change after the chunk is announced after this read, and the watcher is signaled after that.
        let announced = self.resource.announced();
        self.has_caught_up = announced <= chunk.to && !self.subscription.waiter.is_bookmark_due();
        Some(chunk)
    }

    /// Every event up to this revision was delivered: the place to resume from. `None` during the initial
    /// events.
    pub fn revision(&self) -> Option<Revision> {
        (!matches!(self.phase, Phase::Initial { .. })).then_some(self.cursor)
    }

    /// Asks for a bookmark, if the watcher gets any at all: the next batch ends with one.
    pub fn ask_for_bookmark(&self) {
        self.subscription.waiter.ask_for_bookmark();
    }

    /// The next part of the initial state.
    fn initial(&mut self) -> Batch {
        let Phase::Initial { range, mark } = &mut self.phase else { return Batch::default() };
        let mut items = Batch::default();
        for entry in range.by_ref().take(LOOKS) {
            if self.selection.matches(&entry) {
                items.push_event(EventType::Added, entry);
            }
            if items.len() >= ITEMS {
                break;
            }
        }
        let events = items.len() as u64;
        if range.len() == 0 {
            let mark = *mark;
            self.phase = Phase::Live;
            if mark {
                items.push_bookmark(self.cursor, Mark::InitialEventsEnd);
            }
        }
        INIT_EVENTS.with([self.resource.spec().prefix()]).add(events);
        items
    }

    /// Reads the next batch from the log. A batch whose encoding is to be shared is at most as large as a
    /// chunk, and ends before the next chunk of its encoding.
    fn read(&mut self, shared: Option<Encoding>) -> Read {
        let Self { resource, selection, everything, subscription, cursor, .. } = self;
        let selection = (!*everything).then_some(&**selection);
        let next_chunk = shared.and_then(|encoding| subscription.set.next_chunk(encoding, *cursor));
        let mut reader = Reader {
            selection,
            items: Batch::default(),
            span: None,
            cursor: *cursor,
            looks: 0,
            error: None,
            room: shared.map(|_| SHARED),
            next_chunk: next_chunk.unwrap_or(Revision(u64::MAX)),
        };
        let since = subscription.set.changes().map(|changes| changes.since);
        let outcome = match since {
            None => reader.scan(resource, None),
            Some(since) => reader.watcher_set(resource, &subscription.set, since),
        };
        let from = mem::replace(cursor, reader.cursor);
        if self.shares_chunks && outcome.is_some() {
            let events = u32::try_from(reader.items.len()).unwrap_or(u32::MAX);
            self.shareable =
                reader.span.map(|[first, last]| Span { from, first, last, to: reader.cursor, events });
        }
        if let Some(error) = reader.error {
            return Read::Failed(error);
        }
        match outcome {
            None if reader.items.is_empty() => Read::Behind,
            None => Read::Items { items: reader.items, more: true },
            Some(more) => Read::Items { items: reader.items, more },
        }
    }

    /// Continues with the store's history, for changes that are older than the log.
    fn open_history(&mut self) -> Result<(), Error> {
        let spec = self.resource.spec();
        let prefix = match self.selection.scope() {
            Scope::All => format!("{}/", spec.prefix()),
            Scope::Namespace(namespace) => format!("{}/{namespace}/", spec.prefix()),
            Scope::Key(key) => format!("{}/{key}", spec.prefix()),
        };
        let follow = Follow::after(self.cursor).prefix(prefix).with_previous_values();
        let follower = self.resource.core().store.follow(follow).map_err(|error| self.ended(error))?;
        self.phase = Phase::History(follower);
        Ok(())
    }

    async fn history(&mut self) -> Result<Batch, Error> {
        if self.resource.with_state(|_, log| self.cursor >= log.start()) {
            self.phase = Phase::Live;
            return Ok(Batch::default());
        }
        let Phase::History(follower) = &mut self.phase else { return Ok(Batch::default()) };
        let batch = match follower.next().await {
            Ok(batch) => open::batch(&self.resource.core().store, batch).await,
            Err(error) => return Err(self.ended(error)),
        };
        let mut items = Batch::default();
        for change in batch.events.into_iter().filter_map(|event| self.resource.transition(event)) {
            if let Some(error) = cannot_notify(Some(&self.selection), &change) {
                return Err(error);
            }
            if let Some(kind) = event_type(Some(&self.selection), &change)
                && let Some(entry) = change.object(kind)
            {
                items.push_event(kind, entry.clone());
            }
        }
        self.cursor = batch.revision;
        Ok(items)
    }

    /// The error of a watcher whose history ended with an error.
    fn ended(&self, error: store::Error) -> Error {
        let oldest = self.resource.core().store.compacted();
        match error {
            store::Error::Compacted { .. } | store::Error::Unusable { .. } | store::Error::Future { .. } => {
                Error::TooOld { requested: self.cursor, oldest: oldest.max(self.cursor.next()) }
            }
            other => other.into(),
        }
    }

    /// Whether it is time for a bookmark; if so, the next one is due an interval later.
    fn bookmark_due(&mut self) -> bool {
        let due = self.bookmarks == Bookmarks::Periodic && self.subscription.waiter.take_bookmark();
        if due {
            self.resource.schedule_bookmark(&self.subscription.waiter);
        }
        due
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.resource.watcher_index().unsubscribe(&self.selection, &self.subscription);
    }
}

/// Makes one batch of changes of the log.
struct Reader<'a> {
    /// `None` if everything matches.
    selection: Option<&'a Selection>,
    items: Batch,
    /// The revisions of the first and the last event.
    span: Option<[Revision; 2]>,
    cursor: Revision,
    looks: usize,
    /// Why the watcher cannot be notified of the next change.
    error: Option<Error>,
    /// How many bytes of objects may still be added to the batch; `None` for no limit.
    room: Option<usize>,
    /// The revision after which the next shared chunk begins: the batch ends there.
    next_chunk: Revision,
}

/// The batch is complete, and there are more changes.
struct BatchEnd;

impl Reader<'_> {
    /// Reads the changes of the log up to the revision `until`, or up to the newest, and returns whether
    /// there are more; `None` if the log does not reach back to the cursor. If there are no more, the cursor
    /// moves to the last revision that was read.
    fn scan(&mut self, resource: &Resource, until: Option<Revision>) -> Option<bool> {
        loop {
            let (ranges, until): (InlineVec<PieceRange>, Revision) = resource.with_state(|view, log| {
                let newest = || view.revision.max(resource.announced());
                let ranges = log.ranges(self.cursor)?.take(PIECES).collect();
                Some((ranges, until.unwrap_or_else(newest)))
            })?;
            match self.look(&ranges, until) {
                ControlFlow::Break(BatchEnd) => return Some(true),
                ControlFlow::Continue(()) if ranges.len() < PIECES || self.cursor >= until => {
                    self.cursor = self.cursor.max(until);
                    return Some(false);
                }
                ControlFlow::Continue(()) => {}
            }
        }
    }

    /// Adds the matching changes up to the revision `until` to the batch, and moves the cursor there if there
    /// are later changes. Breaks off where the batch ends.
    fn look(&mut self, ranges: &InlineVec<PieceRange>, until: Revision) -> ControlFlow<BatchEnd> {
        if self.selection.is_none() {
            let changes: usize = ranges.iter().map(|range| range.places.len()).sum();
            self.items.reserve((self.items.len() + changes).min(ITEMS));
        }
        for (piece, at) in ranges.iter().flat_map(|range| range.places.clone().map(|at| (&range.piece, at))) {
            let Some(change) = piece.get(at) else { continue };
            if change.revision > until {
                self.cursor = self.cursor.max(until);
                break;
            }
            if change.revision > self.cursor && self.ends_before(change.revision) {
                return ControlFlow::Break(BatchEnd);
            }
            if let Some(error) = cannot_notify(self.selection, change) {
                // Earlier events are delivered before the error, unless they have the same revision.
                if self.items.is_empty() || change.revision == self.cursor {
                    self.error = Some(error);
                }
                return ControlFlow::Break(BatchEnd);
            }
            self.take(change, piece, at);
        }
        ControlFlow::Continue(())
    }

    /// Reads the changes of a watcher set: changes from before the set was made by a scan of the log, later
    /// changes by the revisions that the set has noted.
    fn watcher_set(&mut self, resource: &Resource, set: &WatcherSet, since: Revision) -> Option<bool> {
        if self.cursor < since && self.scan(resource, Some(since))? {
            return Some(true);
        }
        let served = resource.announced();
        loop {
            let noted: Vec<Revision> = {
                let changes = set.changes()?;
                if self.cursor < changes.pruned {
                    return None;
                }
                let from = changes.revisions.partition_point(|revision| *revision <= self.cursor);
                changes.revisions.range(from..).copied().take(NOTED).collect()
            };
            if noted.is_empty() {
                self.cursor = self.cursor.max(served);
                return Some(false);
            }
            let ranges: Option<InlineVec<PieceRange>> =
                resource.with_state(|_, log| noted.iter().map(|revision| log.range(*revision)).collect());
            if self.look(&ranges?, Revision(u64::MAX)).is_break() {
                return Some(true);
            }
        }
    }

    fn take(&mut self, change: &Transition, piece: &Arc<Piece>, at: usize) {
        self.looks += 1;
        self.cursor = change.revision;
        if let Some(kind) = event_type(self.selection, change) {
            if let (Some(room), Some(object)) = (&mut self.room, change.object(kind)) {
                *room = room.saturating_sub(object.bytes().len());
            }
            let first = self.span.map_or(change.revision, |[first, _]| first);
            self.span = Some([first, change.revision]);
            self.items.push_change(kind, piece, at);
        }
    }

    /// Whether the batch ends before the next change, which has the revision `next`.
    fn ends_before(&mut self, next: Revision) -> bool {
        let reaches_chunk = next > self.next_chunk && !self.items.is_empty();
        if reaches_chunk {
            self.cursor = self.cursor.max(self.next_chunk);
        }
        let is_full = self.items.len() >= ITEMS || self.looks >= LOOKS || self.room == Some(0);
        reaches_chunk || is_full
    }
}

/// Why a watcher of a selection, or of everything, cannot be notified of a change: the change concerns an
/// unreadable object that the watcher may know or would have to see. An object that is readable again is
/// shown like any other.
fn cannot_notify(selection: Option<&Selection>, change: &Transition) -> Option<Error> {
    let error = match (&change.before, &change.after) {
        (_, KeyState::Unreadable(why)) => why.clone().into(),
        (KeyState::Unreadable(why), KeyState::Absent) => Error::UnreadableDeleted(why.clone()),
        (KeyState::Unreadable(why), KeyState::Entry(entry)) => match selection {
            Some(selection) if !selection.matches(entry) => why.clone().into(),
            _ => return None,
        },
        _ => return None,
    };
    selection.is_none_or(|selection| selection.has_key(&change.key)).then_some(error)
}

/// The type of the event by which a watcher of a selection, or of everything, is notified of a change.
fn event_type(selection: Option<&Selection>, change: &Transition) -> Option<EventType> {
    let matches = |entry: &Arc<Entry>| selection.is_none_or(|selection| selection.matches(entry));
    let matching = |state: &KeyState| state.entry().is_some_and(matches);
    match (matching(&change.before), matching(&change.after)) {
        (false, false) => None,
        (false, true) => Some(EventType::Added),
        (true, true) => Some(EventType::Modified),
        (true, false) => Some(EventType::Deleted),
    }
}
