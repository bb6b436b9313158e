//! Watching: a stream of the changes of the objects that a filter picks.
//!
//! A [`Watcher`] is a cursor: it owns no queue, holds nothing back, and costs the same whether a million
//! changes or none have passed it. It reads the log of its type; older changes it reads from the store's
//! history; if they are compacted, it ends with [`Error::TooOld`](crate::Error::TooOld).
//!
//! The guarantees, by the names that etcd has for them:
//!
//! 1. **Ordered.** Events come in the order of revisions (the objects of an initial state: in the order of
//!    keys). Several may share one.
//! 2. **Unique.** No event comes twice.
//! 3. **Reliable.** Between two events that came, none is missing.
//! 4. **Atomic.** A batch has all matching changes of a revision, or none.
//! 5. **Resumable.** A new watcher that starts after the last revision of an old one goes on where that one
//!    stopped, also after a restart.
//! 6. **Bookmarkable.** A bookmark with revision N comes after everything up to N; changes of other types
//!    move it too.
//! 7. **Filtered.** An object is ADDED when it starts to match, DELETED when it stops, each with the revision
//!    of the change that did it; DELETED carries the last state that matched.
//!
//! ```text
//! revision  change                     watcher of app=web
//! 5         a created, app=web         ADDED    a, resourceVersion 5
//! 6         b created, app=db          -
//! 7         b changed to app=web       ADDED    b, resourceVersion 7
//! 8         a changed to app=db        DELETED  a with app=web, resourceVersion 8
//! 9         a deleted                  -
//! 10        b deleted                  DELETED  b, resourceVersion 10
//! ```

mod chunks;
mod following;
mod watcher;
mod watcher_index;
mod watcher_set;

pub use chunks::Chunk;
pub use following::resubscribe_after;
pub use watcher::{Delivery, Watcher};
#[cfg(test)]
pub(crate) use watcher_index::Subscription;
pub(crate) use watcher_index::WatcherIndex;
pub(crate) use watcher_set::Waiter;

use crate::{
    Entry, Filter, Freshness,
    log::{Piece, Transition},
};
use std::sync::Arc;
use store::Revision;

/// The annotation of the bookmark that ends the initial events of a streaming list; its value is `true`.
pub const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// Where a watch starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// With the changes after a revision. The watcher waits for a revision that is not committed yet.
    After(Revision),
    /// With the state, as ADDED events in the order of keys, and then its changes.
    State(Freshness),
    /// Like [`Start::State`], with a bookmark between the state and its changes if the watcher gets
    /// bookmarks.
    StreamingList(Freshness),
}

/// Whether a watcher gets bookmarks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Bookmarks {
    /// Never, not even at the end of the initial events of a streaming list.
    #[default]
    Never,
    /// At the end of the initial events of a streaming list, and about as often as the options of the cache
    /// say.
    Periodic,
}

/// The options of a watch.
#[derive(Clone, Debug)]
pub struct WatchOptions {
    /// Where to start.
    pub start: Start,
    /// The objects to watch.
    pub filter: Filter,
    /// Whether to send bookmarks.
    pub bookmarks: Bookmarks,
}

impl WatchOptions {
    /// Everything from a start, without bookmarks.
    pub fn new(start: Start) -> Self {
        Self { start, filter: Filter::default(), bookmarks: Bookmarks::default() }
    }

    /// Only what a filter picks.
    #[must_use]
    pub fn filter(mut self, filter: Filter) -> Self {
        self.filter = filter;
        self
    }

    /// With periodic bookmarks.
    #[must_use]
    pub fn with_bookmarks(mut self) -> Self {
        self.bookmarks = Bookmarks::Periodic;
        self
    }
}

/// The type of an event, as a watcher sees the change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventType {
    /// The object exists and matches, and did not before.
    Added,
    /// The object has changed.
    Modified,
    /// The object was deleted, or no longer matches.
    Deleted,
}

impl EventType {
    /// The name that the API uses.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }
}

/// One event. All watchers share its object.
#[derive(Clone, Copy, Debug)]
pub struct Event<'a> {
    /// The type of the event.
    pub kind: EventType,
    /// The object after the change; for a DELETED event its last state, with the revision of the change.
    pub entry: &'a Arc<Entry>,
}

impl Event<'_> {
    /// The revision of the change; for an initial event, of the last change of its object.
    pub fn revision(&self) -> Revision {
        self.entry.mod_revision()
    }
}

/// Why a bookmark comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// The bookmark interval has passed.
    Periodic,
    /// The initial events of a streaming list were sent: the bookmark carries [`INITIAL_EVENTS_END`].
    InitialEventsEnd,
}

/// One item of a watch.
#[derive(Clone, Copy, Debug)]
pub enum Item<'a> {
    /// An object was added, modified or deleted.
    Event(Event<'a>),
    /// Every event up to a revision was delivered.
    Bookmark {
        /// The revision.
        revision: Revision,
        /// Why the bookmark comes.
        mark: Mark,
    },
}

/// Items in their order; never delivered empty. A batch holds the pieces of the log that its items lie
/// in; a single item, the common case, takes no allocation.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    items: InlineVec<BatchItem>,
    pieces: InlineVec<Arc<Piece>>,
}

/// One item of a batch.
#[derive(Clone, Debug)]
enum BatchItem {
    /// A change of the log: the indexes of its piece in the batch, and of the change in the piece.
    Change {
        kind: EventType,
        piece: u32,
        at: u32,
    },
    /// An event that is not in the log: of the initial state or of the history in the store.
    Event {
        kind: EventType,
        entry: Arc<Entry>,
    },
    Bookmark {
        revision: Revision,
        mark: Mark,
    },
}

impl Batch {
    /// The items in their order.
    pub fn iter(&self) -> impl Iterator<Item = Item<'_>> {
        self.items.iter().filter_map(|item| self.resolve(item))
    }

    fn resolve<'a>(&'a self, item: &'a BatchItem) -> Option<Item<'a>> {
        Some(match item {
            BatchItem::Change { kind, piece, at } => {
                let change = self.pieces.get(*piece as usize)?.get(*at as usize)?;
                Item::Event(Event { kind: *kind, entry: change.object(*kind)? })
            }
            BatchItem::Event { kind, entry } => Item::Event(Event { kind: *kind, entry }),
            BatchItem::Bookmark { revision, mark } => Item::Bookmark { revision: *revision, mark: *mark },
        })
    }

    /// Adds the event of a change that lies at index `at` of a piece of the log.
    fn push_change(&mut self, kind: EventType, piece: &Arc<Piece>, at: usize) {
        if !self.pieces.last().is_some_and(|last| Arc::ptr_eq(last, piece)) {
            self.pieces.push(piece.clone());
        }
        let piece = self.pieces.len() - 1;
        self.items.push(BatchItem::Change { kind, piece: piece as u32, at: at as u32 });
    }

    fn push_event(&mut self, kind: EventType, entry: Arc<Entry>) {
        self.items.push(BatchItem::Event { kind, entry });
    }

    fn push_bookmark(&mut self, revision: Revision, mark: Mark) {
        self.items.push(BatchItem::Bookmark { revision, mark });
    }

    /// Makes room for so many items.
    fn reserve(&mut self, items: usize) {
        self.items.rest.reserve_exact(items.saturating_sub(self.items.len().max(1)));
    }

    fn len(&self) -> usize {
        self.items.len()
    }

    fn is_empty(&self) -> bool {
        self.items.first.is_none()
    }
}

impl Transition {
    /// The object of the event that this change is for a watcher.
    fn object(&self, kind: EventType) -> Option<&Arc<Entry>> {
        match kind {
            EventType::Added | EventType::Modified => self.after.entry(),
            EventType::Deleted => self.tombstone(),
        }
    }
}

/// A vector with its first item inline, so that a single item takes no allocation.
#[derive(Clone, Debug)]
struct InlineVec<T> {
    first: Option<T>,
    rest: Vec<T>,
}

impl<T> Default for InlineVec<T> {
    fn default() -> Self {
        Self { first: None, rest: Vec::new() }
    }
}

impl<T> FromIterator<T> for InlineVec<T> {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        let mut values = values.into_iter();
        Self { first: values.next(), rest: values.collect() }
    }
}

impl<T> InlineVec<T> {
    fn push(&mut self, value: T) {
        match self.first {
            None => self.first = Some(value),
            Some(_) => self.rest.push(value),
        }
    }

    fn iter(&self) -> impl Iterator<Item = &T> {
        self.first.iter().chain(&self.rest)
    }

    fn get(&self, at: usize) -> Option<&T> {
        match at.checked_sub(1) {
            None => self.first.as_ref(),
            Some(at) => self.rest.get(at),
        }
    }

    fn last(&self) -> Option<&T> {
        self.rest.last().or(self.first.as_ref())
    }

    fn len(&self) -> usize {
        usize::from(self.first.is_some()) + self.rest.len()
    }
}
