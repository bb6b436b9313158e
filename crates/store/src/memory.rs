//! The contract without a disk, for tests and throw-away servers.
//!
//! Everything lives under one lock that is held for the time of a copy of pointers, never while a visitor or
//! a writer runs. History is kept for the retention time: a revision that is older can no longer be read or
//! followed. Its memory is freed a few steps at a time by the commits themselves, so an idle store keeps what
//! it has.
//!
//! A store can begin with entries that it shares with others, its [`Base`]: an entry is copied from there
//! when it is changed for the first time, and stays there for everyone else.
//!
//! 1. A key in `keys` has all its versions there, the one of the base included, as far as history reaches.
//!    The base is asked for all other keys.
//! 2. A deleted key stays in `keys` if the base has it.

mod base;
mod budget;

use crate::{
    BoxFuture, Change, ChangeKind, Committed, Entry, Error, Event, Follow, Follower, Head, Health, Key, Op,
    Revision, Store, StoredEntry, Unavailable, Value, Visitor, backup,
    change::VALUE_LIMIT,
    feed::{Batch, Feed, History, check_reach},
};
pub use base::Base;
use base::Changed;
pub use budget::{Budget, Held};
use bytes::Bytes;
use std::{
    collections::{BTreeMap, VecDeque},
    future::ready,
    ops::Bound,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// How far the times of revisions are noted apart.
const TICK: Duration = Duration::from_millis(100);
/// How many superseded versions one commit drops, beyond those it adds.
const STEPS: usize = 64;

/// How a [`Memory`] store behaves.
#[derive(Clone, Debug)]
pub struct MemoryOptions {
    /// For how long history is kept.
    pub retention: Duration,
    /// The most bytes in one value.
    pub value_limit: usize,
    /// What this store and others may hold together beside what they began with; `None` for no bound. Past
    /// it, changes that store something fail with [`Error::OverBudget`].
    pub budget: Option<Arc<Budget>>,
}

impl Default for MemoryOptions {
    fn default() -> Self {
        Self { retention: Duration::from_secs(300), value_limit: VALUE_LIMIT, budget: None }
    }
}

/// A store that lives as long as its process.
pub struct Memory {
    shared: Arc<Shared>,
    options: MemoryOptions,
}

struct Shared {
    state: Mutex<State>,
    feed: Arc<Feed>,
}

struct State {
    /// The versions of each key, oldest first; never empty.
    keys: BTreeMap<Key, Vec<Version>>,
    revision: Revision,
    compacted: Revision,
    /// The changes whose predecessors are still kept, in order.
    log: VecDeque<Logged>,
    /// Revisions and when they were committed, at most a few per second.
    clock: VecDeque<Tick>,
    base: Option<Arc<dyn Base>>,
    held: Held,
    open: bool,
}

#[derive(Clone)]
struct Version {
    head: Head,
    value: Option<Value>,
}

struct Logged {
    revision: Revision,
    key: Key,
}

struct Tick {
    first: Revision,
    at: Instant,
}

impl Default for Memory {
    fn default() -> Self {
        Self::new(MemoryOptions::default())
    }
}

impl Memory {
    /// An empty store.
    #[must_use]
    pub fn new(options: MemoryOptions) -> Self {
        Self::with_state(BTreeMap::new(), Revision::ZERO, None, options)
    }

    /// A store that begins with the entries of a base at a revision, which is not before that of any of them;
    /// its history starts there.
    #[must_use]
    pub fn over(base: Arc<dyn Base>, at: Revision, options: MemoryOptions) -> Self {
        Self::with_state(BTreeMap::new(), at, Some(base), options)
    }

    /// About how many bytes of memory the store and the cache above take for what differs from its base, the
    /// history included.
    #[must_use]
    pub fn own_bytes(&self) -> usize {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner).held.bytes()
    }

    /// A store with the contents of a backup without missing entries; its history starts at the backup's
    /// revision.
    pub fn restore(path: &Path, options: MemoryOptions) -> Result<Self, Error> {
        let mut keys = BTreeMap::new();
        let report = backup::read_file(path, &mut |entry| {
            let Entry { key, head, value } = entry?;
            keys.insert(key, vec![Version { head, value: Some(Ok(value)) }]);
            Ok(())
        })?;
        Ok(Self::with_state(keys, report.revision, None, options))
    }

    fn with_state(
        keys: BTreeMap<Key, Vec<Version>>,
        revision: Revision,
        base: Option<Arc<dyn Base>>,
        options: MemoryOptions,
    ) -> Self {
        let state = State {
            keys,
            revision,
            compacted: revision,
            log: VecDeque::new(),
            clock: VecDeque::new(),
            base,
            held: Held::new(options.budget.clone()),
            open: true,
        };
        let feed = Arc::new(Feed::new(revision, usize::MAX));
        Self { shared: Arc::new(Shared { state: Mutex::new(state), feed }), options }
    }

    /// Commits changes of different keys under one revision, and refuses those whose preconditions do not
    /// hold. The revision has to be newer than all before.
    pub(crate) fn commit_at(
        &self,
        changes: Vec<Change>,
        revision: impl FnOnce(Revision) -> Revision,
    ) -> Vec<Result<Committed, Error>> {
        let mut state = match self.shared.lock() {
            Ok(state) => state,
            Err(error) => return changes.iter().map(|_| Err(error.clone())).collect(),
        };
        let checked: Vec<_> = changes.iter().map(|change| self.check(&state, change)).collect();
        if checked.iter().all(Result::is_err) {
            return checked.into_iter().map(|checked| checked.and(Err(Error::Closed))).collect();
        }
        let revision = revision(state.revision);
        state.revision = revision;
        state.tick(revision, Instant::now());
        let mut events = Vec::with_capacity(changes.len());
        let mut commit = |change: Change| {
            let event = state.apply(change, revision);
            let (create_revision, previous) = (event.head.create_revision, event.previous.clone());
            events.push(event);
            Committed { revision, create_revision, previous }
        };
        let committed = changes.into_iter().zip(checked);
        let outcome: Vec<_> = committed.map(|(change, checked)| checked.map(|()| commit(change))).collect();
        self.shared.feed.publish(events, revision);
        self.expire(&mut state);
        state.sweep(STEPS + 2 * outcome.len());
        outcome
    }

    /// Raises the newest revision without a change.
    #[cfg(feature = "contract")]
    pub(crate) fn skip(&self, revisions: u64) {
        let Ok(mut state) = self.shared.lock() else { return };
        state.revision = Revision(state.revision.0 + revisions);
        let newest = state.revision;
        state.tick(newest, Instant::now());
        self.shared.feed.publish(Vec::new(), newest);
    }

    fn check(&self, state: &State, change: &Change) -> Result<(), Error> {
        change.check_size(self.options.value_limit)?;
        change.check(state.live_head(&change.key).as_ref()).map_err(|mut conflict| {
            if let Some(found) = &mut conflict.found
                && change.wants_found_value()
            {
                found.value = state.live(&change.key).map(|(_, value)| value);
            }
            Error::from(conflict)
        })?;
        match &change.op {
            Op::Put(value) => state.held.check(budget::size(change.key.as_bytes().len(), value.len())),
            Op::Delete => Ok(()),
        }
    }

    /// Drops the history that is older than the retention time.
    fn expire(&self, state: &mut State) {
        let Some(expired) = Instant::now().checked_sub(self.options.retention) else { return };
        let floor = state.newest_at(expired);
        if floor > state.compacted {
            state.compacted = floor;
            self.shared.feed.trim(floor);
        }
    }

    /// The state, without what has expired.
    fn current(&self) -> Result<MutexGuard<'_, State>, Error> {
        let mut state = self.shared.lock()?;
        self.expire(&mut state);
        Ok(state)
    }
}

impl Shared {
    fn lock(&self) -> Result<MutexGuard<'_, State>, Error> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.open { Ok(state) } else { Err(Error::Closed) }
    }
}

impl State {
    /// The revisions of the current entry of a key.
    fn live_head(&self, key: &Key) -> Option<Head> {
        match self.keys.get(key) {
            Some(versions) => {
                versions.last().filter(|newest| newest.value.is_some()).map(|newest| newest.head)
            }
            None => self.base.as_ref()?.head(key),
        }
    }

    /// The current entry of a key.
    fn live(&self, key: &Key) -> Option<(Head, Value)> {
        match self.keys.get(key) {
            Some(versions) => versions.last().and_then(|newest| Some((newest.head, newest.value.clone()?))),
            None => self.base.as_ref()?.get(key),
        }
    }

    fn push(&mut self, key: &Key, version: Version) {
        self.held.add(version.size(key));
        self.keys.entry(key.clone()).or_default().push(version);
    }

    fn apply(&mut self, change: Change, revision: Revision) -> Event {
        let live = self.live(&change.key);
        if let Some((head, value)) = live.clone().filter(|_| !self.keys.contains_key(&change.key)) {
            self.push(&change.key, Version { head, value: Some(value) });
        }
        let previous = live.map(|(head, value)| StoredEntry { head, value: Some(value) });
        let create_revision = previous.as_ref().map_or(revision, |previous| previous.head.create_revision);
        let (kind, value) = match change.op {
            Op::Put(value) => (ChangeKind::Put, Some(Ok(value))),
            Op::Delete => (ChangeKind::Delete, None),
        };
        let head = Head { create_revision, mod_revision: revision };
        let version = Version { head, value: value.clone() };
        self.push(&change.key, version);
        self.log.push_back(Logged { revision, key: change.key.clone() });
        let value = value.unwrap_or_else(|| Ok(Bytes::new()));
        Event { key: change.key, kind, head, value, previous }
    }

    /// Notes the time of a revision, at most every tenth of a second.
    fn tick(&mut self, revision: Revision, now: Instant) {
        let recent = self.clock.back().is_some_and(|tick| now - tick.at < TICK);
        if !recent {
            self.clock.push_back(Tick { first: revision, at: now });
        }
    }

    /// The revision that was the newest one at a time, or one shortly before it.
    fn newest_at(&mut self, time: Instant) -> Revision {
        if self.clock.back().is_none_or(|last| last.at + TICK <= time) {
            self.clock.clear();
            return self.revision;
        }
        let mut newest = Revision::ZERO;
        while let Some(tick) = self.clock.front()
            && tick.at <= time
        {
            newest = tick.first;
            self.clock.pop_front();
        }
        newest
    }

    /// Drops up to `steps` versions that no revision in reach shows any more.
    fn sweep(&mut self, steps: usize) {
        for _ in 0..steps {
            match self.log.front() {
                Some(logged) if logged.revision <= self.compacted => {}
                _ => return,
            }
            let Some(logged) = self.log.pop_front() else { return };
            let Some(versions) = self.keys.get_mut(&logged.key) else { continue };
            let current = versions.iter().rposition(|version| version.head.mod_revision <= logged.revision);
            for dropped in versions.drain(..current.unwrap_or(0)) {
                self.held.remove(dropped.size(&logged.key));
            }
            if let [only] = versions.as_slice()
                && only.value.is_none()
                && self.base.as_ref().is_none_or(|base| base.head(&logged.key).is_none())
            {
                self.held.remove(only.size(&logged.key));
                self.keys.remove(&logged.key);
            }
        }
    }

    /// The keys under a prefix that are not as in the base, with their entries at a revision, as pointers.
    fn at(&self, prefix: &[u8], at: Revision) -> Vec<Changed> {
        let prefix_key = Key::new(Bytes::copy_from_slice(prefix));
        let from = prefix_key.as_ref().map_or(Bound::Unbounded, Bound::Included);
        let range = self.keys.range::<Key, _>((from, Bound::Unbounded));
        let under = range.take_while(|(key, _)| key.as_bytes().starts_with(prefix));
        under
            .map(|(key, versions)| {
                let version = versions.iter().rfind(|version| version.head.mod_revision <= at);
                let found = version.and_then(|version| Some((version.head, version.value.clone()?)));
                let entry =
                    |(head, value): (Head, Value)| value.map(|value| Entry { key: key.clone(), head, value });
                (key.clone(), found.map(entry))
            })
            .collect()
    }
}

impl Version {
    /// About how many bytes of memory it takes.
    fn size(&self, key: &Key) -> usize {
        let value = self.value.as_ref().and_then(|value| value.as_ref().ok()).map_or(0, Bytes::len);
        budget::size(key.as_bytes().len(), value)
    }
}

impl History for Shared {
    fn read(&self, after: Revision, _: Revision, _: Bytes) -> BoxFuture<'static, Result<Batch, Error>> {
        let compacted = self.lock().map(|state| state.compacted);
        Box::pin(async move { Err(Error::Compacted { requested: after, compacted: compacted? }) })
    }

    fn values(&self, wanted: Vec<(Key, Revision)>) -> BoxFuture<'static, Result<Vec<Value>, Error>> {
        let found = self.lock().and_then(|state| {
            let compacted = state.compacted;
            wanted
                .iter()
                .map(|(key, revision)| {
                    let versions = state.keys.get(key).map_or(&[][..], Vec::as_slice);
                    let version = versions.iter().find(|version| version.head.mod_revision == *revision);
                    let value = version.and_then(|version| version.value.clone());
                    value.ok_or(Error::Compacted { requested: *revision, compacted })
                })
                .collect()
        });
        Box::pin(async move { found })
    }
}

impl Store for Memory {
    fn commit(&self, change: Change) -> BoxFuture<'static, Result<Committed, Error>> {
        let outcome = self.commit_at(vec![change], Revision::next).pop();
        Box::pin(ready(outcome.unwrap_or(Err(Error::Closed))))
    }

    fn known_revision(&self) -> Revision {
        self.shared.feed.revision()
    }

    fn newest_revision(&self) -> BoxFuture<'static, Result<Revision, Error>> {
        Box::pin(ready(Ok(self.shared.feed.revision())))
    }

    fn changed(&self, after: Revision) -> BoxFuture<'static, Result<(), Error>> {
        self.shared.feed.changed(after)
    }

    fn compacted(&self) -> Revision {
        let mut state = self.shared.state.lock().unwrap_or_else(PoisonError::into_inner);
        self.expire(&mut state);
        state.compacted
    }

    fn open(&self, unavailable: &Unavailable) -> Value {
        let base = self.shared.lock().ok().and_then(|state| state.base.clone());
        base.map_or_else(|| Err(unavailable.clone().into()), |base| base.open(unavailable))
    }

    fn get(&self, key: &Key) -> Result<Option<Entry>, Error> {
        let state = self.shared.lock()?;
        let live = state.live(key);
        drop(state);
        live.map(|(head, value)| Ok(Entry { key: key.clone(), head, value: value? })).transpose()
    }

    fn load(&self, prefix: &[u8], at: Option<Revision>, visit: &mut Visitor<'_>) -> Result<Revision, Error> {
        let (changed, base, at) = {
            let state = self.current()?;
            let at = at.unwrap_or(state.revision);
            check_reach(at, state.compacted, state.revision)?;
            (state.at(prefix, at), state.base.clone(), at)
        };
        base::merge(changed, base.as_deref(), prefix, visit);
        Ok(at)
    }

    fn follow(&self, follow: Follow) -> Result<Box<dyn Follower>, Error> {
        let state = self.current()?;
        check_reach(follow.from, state.compacted, state.revision)?;
        Ok(self.shared.feed.follow(follow, self.shared.clone()))
    }

    fn compact(&self, to: Revision) -> BoxFuture<'static, Result<(), Error>> {
        let done = self.shared.lock().and_then(|mut state| {
            check_reach(to, Revision::ZERO, state.revision)?;
            state.compacted = state.compacted.max(to);
            self.shared.feed.trim(state.compacted);
            state.sweep(usize::MAX);
            Ok(())
        });
        Box::pin(async move { done })
    }

    fn is_shared(&self) -> bool {
        false
    }

    fn health(&self) -> Health {
        if self.shared.lock().is_ok() { Health::Good } else { Health::Closed }
    }

    fn close(&self) {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner).open = false;
        self.shared.feed.close();
    }
}
