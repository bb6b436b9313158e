//! Watching: a stream of what becomes of the objects that a filter picks.
//!
//! A [`Watcher`] is a cursor: it owns no queue, holds nothing back, and costs the same whether a million changes or none
//! have passed it. What it reads is the log of its type; what the log has let go it reads from the store's history; and
//! what history has let go ends it with [`Error::TooOld`](crate::Error::TooOld).
//!
//! The guarantees, by the names that etcd has for them:
//!
//! 1. **Ordered.** Events come in the order of revisions (the objects of an initial state: in the order of keys).
//! 2. **Unique.** No event comes twice.
//! 3. **Reliable.** Between two events that came, none is missing.
//! 4. **Atomic.** A batch ends where a group of changes ends, unless the group is larger than a batch.
//! 5. **Resumable.** A new watcher that starts after the last revision of an old one goes on where that one stopped, also
//!    after a restart.
//! 6. **Bookmarkable.** A bookmark with revision N comes after everything up to N; changes of other types move it too.
//! 7. **Filtered.** An object is ADDED when it starts to match, DELETED when it stops, each with the revision of the
//!    change that did it; DELETED carries the last state that matched.
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
mod interest;
mod watcher;

pub use chunks::Chunk;
#[cfg(test)]
pub(crate) use interest::Seat;
pub(crate) use interest::{Interest, Waiter};
pub use watcher::{Told, Watcher};

use crate::{Entry, Filter, Freshness};
use bytes::Bytes;
use std::sync::Arc;
use store::Revision;

/// The annotation of the bookmark that ends the initial events of a streaming list; its value is `true`.
pub const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// Where a watch starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// With the changes after a revision, whose state the watcher knows. One that is not there yet is waited for.
    After(Revision),
    /// With the state, as ADDED events in the order of keys, and then its changes.
    State(Freshness),
    /// Like [`Start::State`], with a bookmark between the state and its changes.
    StreamingList(Freshness),
}

/// Whether a watcher is told, now and then, how far it has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Bookmarks {
    /// Never, but for the bookmark that ends the initial events of a streaming list.
    #[default]
    Never,
    /// About as often as the options of the cache say.
    Periodic,
}

/// What to watch.
#[derive(Clone, Debug)]
pub struct Request {
    /// Where to start.
    pub start: Start,
    /// Which objects.
    pub filter: Filter,
    /// Whether to send bookmarks.
    pub bookmarks: Bookmarks,
}

impl Request {
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

/// What became of an object, as a watcher sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// It is there and was not before.
    Added,
    /// It is another than before.
    Modified,
    /// It is gone.
    Deleted,
}

impl Kind {
    /// The name that the API uses.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }

    /// What stands before the object in the JSON of an event.
    fn json_head(self) -> &'static [u8] {
        match self {
            Self::Added => br#"{"type":"ADDED","object":"#,
            Self::Modified => br#"{"type":"MODIFIED","object":"#,
            Self::Deleted => br#"{"type":"DELETED","object":"#,
        }
    }
}

/// One event. Its object is shared by all watchers that are told of it.
#[derive(Clone, Debug)]
pub struct Event {
    /// What became of the object.
    pub kind: Kind,
    /// The object: as it is now, or, if it is gone, as it was last, with the revision of the change.
    pub entry: Arc<Entry>,
}

impl Event {
    /// The revision of the change; for an initial event, of the last change of its object.
    pub fn revision(&self) -> Revision {
        self.entry.mod_revision()
    }

    /// The event as a line of JSON, in pieces: what comes before the object, the object's shared bytes, what comes
    /// after it. The bytes keep the entry, so that its count is not touched once more: thousands of watchers do this at
    /// the same time.
    pub fn into_json(self) -> [Bytes; 3] {
        let head = Bytes::from_static(self.kind.json_head());
        [head, Bytes::from_owner(Object(self.entry)), Bytes::from_static(b"}\n")]
    }
}

/// The bytes of an entry, which they keep.
struct Object(Arc<Entry>);

impl AsRef<[u8]> for Object {
    fn as_ref(&self) -> &[u8] {
        self.0.bytes()
    }
}

/// Why a bookmark comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// It was time for one.
    Periodic,
    /// The initial events of a streaming list are through: the one that carries [`INITIAL_EVENTS_END`].
    InitialEventsEnd,
}

/// What a watcher is told.
#[derive(Clone, Debug)]
pub enum Item {
    /// Something became of an object.
    Event(Event),
    /// Everything up to a revision has been told.
    Bookmark {
        /// The revision.
        revision: Revision,
        /// Why it comes.
        mark: Mark,
    },
}

/// Some items in their order; never empty. One item alone, which is the rule, takes no allocation.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    first: Option<Item>,
    rest: Vec<Item>,
}

impl Batch {
    /// The items in their order.
    pub fn iter(&self) -> impl Iterator<Item = &Item> {
        self.first.iter().chain(&self.rest)
    }

    pub(crate) fn push(&mut self, item: Item) {
        match self.first {
            None => self.first = Some(item),
            Some(_) => self.rest.push(item),
        }
    }

    /// Makes room for so many items.
    fn expect(&mut self, items: usize) {
        self.rest.reserve_exact(items.saturating_sub(self.len().max(1)));
    }

    /// The revisions of the first and the last event; `None` unless there are events, and nothing else.
    fn revisions(&self) -> Option<[Revision; 2]> {
        let revision = |item: &Item| match item {
            Item::Event(event) => Some(event.revision()),
            Item::Bookmark { .. } => None,
        };
        let first = self.first.as_ref()?;
        Some([revision(first)?, revision(self.rest.last().unwrap_or(first))?])
    }

    pub(crate) fn len(&self) -> usize {
        usize::from(self.first.is_some()) + self.rest.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_none()
    }
}

impl FromIterator<Item> for Batch {
    fn from_iter<I: IntoIterator<Item = Item>>(items: I) -> Self {
        let mut items = items.into_iter();
        Self { first: items.next(), rest: items.collect() }
    }
}

impl IntoIterator for Batch {
    type Item = Item;
    type IntoIter = std::iter::Chain<std::option::IntoIter<Item>, std::vec::IntoIter<Item>>;

    fn into_iter(self) -> Self::IntoIter {
        self.first.into_iter().chain(self.rest)
    }
}
