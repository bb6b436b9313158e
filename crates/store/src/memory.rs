//! The contract without a disk, for tests and throw-away servers.
//!
//! Everything lives under one lock that is held for the time of a copy of pointers, never while a visitor or
//! a writer runs. History is kept for the retention time: a revision that is older can no longer be read or
//! followed. Its memory is freed a few steps at a time by the commits themselves, so an idle store keeps what
//! it has.

use crate::{
    BoxFuture, Change, ChangeKind, Committed, Entry, Error, Event, Follow, Follower, Head, Health, Key, Op,
    Revision, Store, StoredEntry, Value, Visitor, backup,
    change::VALUE_LIMIT,
    feed::{Batch, Feed, History, check_reach},
};
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
}

impl Default for MemoryOptions {
    fn default() -> Self {
        Self { retention: Duration::from_secs(300), value_limit: VALUE_LIMIT }
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
    open: bool,
}

#[derive(Clone)]
struct Version {
    head: Head,
    value: Option<Bytes>,
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
        Self::with_state(BTreeMap::new(), Revision::ZERO, options)
    }

    /// A store with the contents of a backup without missing entries; its history starts at the backup's
    /// revision.
    pub fn restore(path: &Path, options: MemoryOptions) -> Result<Self, Error> {
        let mut keys = BTreeMap::new();
        let report = backup::read_file(path, &mut |entry| {
            let Entry { key, head, value } = entry?;
            keys.insert(key, vec![Version { head, value: Some(value) }]);
            Ok(())
        })?;
        Ok(Self::with_state(keys, report.revision, options))
    }

    fn with_state(keys: BTreeMap<Key, Vec<Version>>, revision: Revision, options: MemoryOptions) -> Self {
        let state = State {
            keys,
            revision,
            compacted: revision,
            log: VecDeque::new(),
            clock: VecDeque::new(),
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
        let live = state.live(&change.key);
        change.check(live.map(|(head, _)| head)).map_err(|mut conflict| {
            if let (Some(found), Some((_, value))) = (&mut conflict.found, live)
                && change.wants_found_value()
            {
                found.value = Some(Ok(value.clone()));
            }
            conflict.into()
        })
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
    fn live(&self, key: &Key) -> Option<(&Head, &Bytes)> {
        let newest = self.keys.get(key)?.last()?;
        newest.value.as_ref().map(|value| (&newest.head, value))
    }

    fn apply(&mut self, change: Change, revision: Revision) -> Event {
        let previous = self
            .live(&change.key)
            .map(|(head, value)| StoredEntry { head: *head, value: Some(Ok(value.clone())) });
        let create_revision = previous.as_ref().map_or(revision, |previous| previous.head.create_revision);
        let (kind, value) = match change.op {
            Op::Put(value) => (ChangeKind::Put, Some(value)),
            Op::Delete => (ChangeKind::Delete, None),
        };
        let head = Head { create_revision, mod_revision: revision };
        let version = Version { head, value: value.clone() };
        self.keys.entry(change.key.clone()).or_default().push(version);
        self.log.push_back(Logged { revision, key: change.key.clone() });
        let value = Ok(value.unwrap_or_default());
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
            versions.drain(..current.unwrap_or(0));
            if let [only] = versions.as_slice()
                && only.value.is_none()
            {
                self.keys.remove(&logged.key);
            }
        }
    }

    /// The entries under a prefix at a revision, as pointers.
    fn at(&self, prefix: &[u8], at: Revision) -> Vec<Entry> {
        let prefix_key = Key::new(Bytes::copy_from_slice(prefix));
        let from = prefix_key.as_ref().map_or(Bound::Unbounded, Bound::Included);
        let range = self.keys.range::<Key, _>((from, Bound::Unbounded));
        let under = range.take_while(|(key, _)| key.as_bytes().starts_with(prefix));
        under
            .filter_map(|(key, versions)| {
                let version = versions.iter().rfind(|version| version.head.mod_revision <= at)?;
                let value = version.value.clone()?;
                Some(Entry { key: key.clone(), head: version.head, value })
            })
            .collect()
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
                    value.map(Ok).ok_or(Error::Compacted { requested: *revision, compacted })
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

    fn get(&self, key: &Key) -> Result<Option<Entry>, Error> {
        let state = self.shared.lock()?;
        let live = state.live(key);
        Ok(live.map(|(head, value)| Entry { key: key.clone(), head: *head, value: value.clone() }))
    }

    fn load(&self, prefix: &[u8], at: Option<Revision>, visit: &mut Visitor<'_>) -> Result<Revision, Error> {
        let (entries, at) = {
            let state = self.current()?;
            let at = at.unwrap_or(state.revision);
            check_reach(at, state.compacted, state.revision)?;
            (state.at(prefix, at), at)
        };
        for entry in entries {
            if visit(Ok(entry)).is_break() {
                break;
            }
        }
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
