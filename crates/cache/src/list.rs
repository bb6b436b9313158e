//! Reading: one object, or many of a type, as fresh or as exact as asked.

use crate::{
    Entry, Error, Filter,
    families::{self, Counts},
    filter::{Keys, Selection},
    log::KeyState,
    resource::Resource,
    tree,
    view::View,
};
use std::{num::NonZeroUsize, sync::Arc, time::Instant, vec};
use store::{Corrupt, Revision};

/// How fresh the state has to be that a reader is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Freshness {
    /// The state has every change that was acknowledged before the request, by any process that shares the
    /// store.
    #[default]
    MostRecent,
    /// The state in memory, without a question to the store.
    Any,
    /// At least this revision.
    NotOlderThan(Revision),
}

/// The state of a type that a list shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mode {
    /// A current state. With [`Freshness::Any`] the limit is ignored, as the API has it.
    Current(Freshness),
    /// The state of exactly this revision.
    Exact(Revision),
    /// The rest of a list that was given in part.
    Continue {
        /// The revision of the list; `None` continues at the most recent state, which differs from that of
        /// the earlier parts.
        revision: Option<Revision>,
        /// Where to go on: the [`next`](List::next) of the part before.
        start: String,
    },
}

impl Default for Mode {
    fn default() -> Self {
        Self::Current(Freshness::MostRecent)
    }
}

/// A request for the objects of a type.
#[derive(Clone, Debug, Default)]
pub struct Query {
    /// The state to show.
    pub mode: Mode,
    /// The objects to return.
    pub filter: Filter,
    /// The most objects to return.
    pub limit: Option<NonZeroUsize>,
}

impl Query {
    /// The objects that a filter picks, in a current state.
    pub fn new(freshness: Freshness, filter: Filter) -> Self {
        Self { mode: Mode::Current(freshness), filter, limit: None }
    }

    /// At most so many objects; zero for no limit.
    #[must_use]
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = NonZeroUsize::new(limit);
        self
    }

    /// In another state.
    #[must_use]
    pub fn mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }
}

/// The answer to a [`Query`]: an iterator over shared entries in the order of their keys, and the metadata of
/// the list.
///
/// The list holds its state in memory, but no entry that was already returned.
#[derive(Debug)]
pub struct List {
    /// The revision of the state that is shown.
    pub revision: Revision,
    /// Where the rest starts, if there may be more.
    pub next: Option<String>,
    /// How many objects are left after these; only if there are any, and the query has no selectors.
    pub remaining: Option<usize>,
    /// Objects in this part of the keys whose bytes are damaged; whether they match is not known.
    pub damaged: Vec<Arc<Corrupt>>,
    items: Items,
    counted: Option<Counted>,
}

/// Counts a list when it ends.
#[derive(Debug)]
struct Counted {
    counts: Arc<Counts>,
    looked_at: usize,
    returned: usize,
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.counts.listed(self.looked_at, self.returned);
    }
}

#[derive(Debug)]
enum Items {
    Lazy { range: tree::Range, selection: Option<Box<Selection>> },
    Ready(vec::IntoIter<Arc<Entry>>),
}

impl List {
    /// An empty list that belongs to no revision.
    pub fn none() -> Self {
        let items = Items::Ready(Vec::new().into_iter());
        Self {
            revision: Revision::ZERO,
            next: None,
            remaining: None,
            damaged: Vec::new(),
            items,
            counted: None,
        }
    }
}

impl List {
    /// The list twice. Both have a pointer for each object.
    pub fn twice(self) -> [Self; 2] {
        let (revision, next) = (self.revision, self.next.clone());
        let (remaining, damaged) = (self.remaining, self.damaged.clone());
        let entries: Vec<_> = self.collect();
        let list = |next, damaged, entries: Vec<_>| Self {
            revision,
            next,
            remaining,
            damaged,
            items: Items::Ready(entries.into_iter()),
            counted: None,
        };
        [list(next.clone(), damaged.clone(), entries.clone()), list(next, damaged, entries)]
    }
}

impl Iterator for List {
    type Item = Arc<Entry>;

    fn next(&mut self) -> Option<Arc<Entry>> {
        let next = match &mut self.items {
            Items::Lazy { range, selection: None } => range.next(),
            Items::Lazy { range, selection: Some(selection) } => {
                range.next_where(|entry| selection.matches_in_scope(entry))
            }
            Items::Ready(entries) => entries.next(),
        };
        if let Some(counted) = self.counted.as_mut().filter(|_| next.is_some()) {
            counted.returned += 1;
        }
        next
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        match &self.items {
            Items::Lazy { range, selection: None } => range.size_hint(),
            Items::Lazy { range, selection: Some(_) } => (0, range.size_hint().1),
            Items::Ready(entries) => entries.size_hint(),
        }
    }
}

impl Resource {
    /// The object with a name, if there is one.
    pub async fn get(
        &self,
        namespace: &str,
        name: &str,
        freshness: Freshness,
    ) -> Result<Option<Arc<Entry>>, Error> {
        self.freshen(freshness).await?;
        match self.lookup(namespace, name) {
            Err(Error::Unavailable(_)) => {
                self.core().unavailable.try_again(self.core().options.wait).await;
                self.lookup(namespace, name)
            }
            found => found,
        }
    }

    /// The object with a name, if there is one, as it is in memory: [`Self::get`] with [`Freshness::Any`],
    /// for code that cannot wait.
    pub fn lookup(&self, namespace: &str, name: &str) -> Result<Option<Arc<Entry>>, Error> {
        self.check_served()?;
        match self.peek(&self.spec().key(namespace, name)) {
            KeyState::Entry(entry) => Ok(Some(entry)),
            KeyState::Unreadable(why) => Err(why.into()),
            KeyState::Absent => Ok(None),
        }
    }

    /// The objects that a query picks.
    ///
    /// Waits for a revision that is not there yet, up to the time-out of the cache, and then fails with
    /// [`Error::TooLarge`]. A state that is no longer kept is [`Error::Expired`] or
    /// [`Error::ContinueExpired`]. If an object cannot be decrypted at present, it is not known whether the
    /// object belongs to the list: [`Error::Unavailable`].
    pub async fn list(&self, query: Query) -> Result<List, Error> {
        let Query { mode, filter, mut limit } = query;
        let selection = Selection::new(self.spec(), filter);
        let era = self.era();
        let (view, start) = match mode {
            Mode::Current(freshness) => {
                if freshness == Freshness::Any {
                    limit = None;
                }
                (self.current(freshness).await?, None)
            }
            Mode::Exact(revision) => (self.exact(revision).await?, None),
            Mode::Continue { revision: None, start } => {
                (self.current(Freshness::MostRecent).await?, Some(start))
            }
            Mode::Continue { revision: Some(revision), start } => match self.exact(revision).await {
                Err(Error::Expired { .. }) => return Err(Error::ContinueExpired { start }),
                view => (view?, Some(start)),
            },
        };
        let mut list = List::new(&view, selection, start.as_deref(), limit)?;
        let looked_at = list.size_hint().1.unwrap_or_default();
        let counts = Arc::clone(self.counts());
        list.counted = Some(Counted { counts, looked_at, returned: 0 });
        if list.next.is_some() {
            self.keep(view, era);
        }
        Ok(list)
    }

    /// How many objects a list with a filter looks at: those of its namespace, or those that an index has for
    /// one of its fields.
    pub fn looked_at(&self, filter: Filter) -> usize {
        let selection = Selection::new(self.spec(), filter);
        let keys = selection.keys(None);
        self.with_state(|view, _| selection.narrow(view, &keys).len())
    }

    /// Waits until the state is fresh enough.
    pub async fn freshen(&self, freshness: Freshness) -> Result<(), Error> {
        self.check_served()?;
        let core = self.core();
        let (lineage, wanted) = match freshness {
            Freshness::MostRecent => {
                let newest = core.store.newest_revision().await;
                families::read_newest(self.spec().prefix(), newest.is_ok());
                (core.store.lineage(), newest?)
            }
            Freshness::NotOlderThan(revision) => (core.progress.lineage(), revision),
            Freshness::Any => return Ok(()),
        };
        let begin = Instant::now();
        let outcome = self.wait_for(lineage, wanted).await;
        families::waited(self.spec().prefix(), begin.elapsed());
        outcome
    }

    /// A current state, after one more attempt to decrypt what could not be decrypted before.
    pub(crate) async fn current(&self, freshness: Freshness) -> Result<View, Error> {
        self.freshen(freshness).await?;
        let view = self.view();
        if !view.has_unavailable() {
            return Ok(view);
        }
        self.core().unavailable.try_again(self.core().options.wait).await;
        Ok(self.view())
    }
}

impl List {
    /// A list of entries that the caller has.
    pub fn of(revision: Revision, entries: Vec<Arc<Entry>>) -> Self {
        let items = Items::Ready(entries.into_iter());
        Self { revision, next: None, remaining: None, damaged: Vec::new(), items, counted: None }
    }

    fn new(
        view: &View,
        selection: Selection,
        start: Option<&str>,
        limit: Option<NonZeroUsize>,
    ) -> Result<Self, Error> {
        let Keys { from, to } = selection.keys(start);
        let matching = selection.narrow(view, &Keys { from: from.clone(), to: to.clone() });
        let by_key = selection.selects_by_key_alone();
        let mut next = None;
        let mut remaining = None;
        let items = match limit.map(NonZeroUsize::get).filter(|limit| *limit < matching.len()) {
            Some(limit) if by_key => {
                let last = matching.tree.range(matching.from + limit - 1, matching.to).next();
                next = last.map(|last| after(&last));
                remaining = Some(matching.len() - limit);
                Items::Lazy {
                    range: matching.tree.range(matching.from, matching.from + limit),
                    selection: None,
                }
            }
            Some(limit) => {
                let mut range = matching.tree.range(matching.from, matching.to);
                let pick = || range.next_where(|entry| selection.matches_in_scope(entry));
                let picked: Vec<_> = std::iter::from_fn(pick).take(limit).collect();
                if picked.len() == limit && range.len() > 0 {
                    next = picked.last().map(|last| after(last));
                }
                Items::Ready(picked.into_iter())
            }
            None => {
                let range = matching.tree.range(matching.from, matching.to);
                Items::Lazy { range, selection: (!by_key).then(|| Box::new(selection)) }
            }
        };
        let damaged = view.damaged(&from, next.as_deref().or(to.as_deref()))?;
        Ok(Self { revision: view.revision, next, remaining, damaged, items, counted: None })
    }
}

/// The first key that can follow an entry's.
fn after(entry: &Entry) -> String {
    format!("{}\0", entry.key())
}
