//! One type, all objects under one key prefix: its state, its log, and its watchers.
//!
//! 1. State and log change together, under one lock, all changes of a revision at a time: what a reader sees
//!    of the type is the state at one revision.
//! 2. The lock is held for the time of a look-up, a few pointers' copy, or the application of a revision;
//!    never while anything is decoded, sent, or waited for.

use crate::{
    CacheOptions, Entry, Error, Spec,
    apply::Applier,
    encodings::Encodings,
    entry::within,
    families::{Counts, INITIALIZATIONS},
    log::{KeyState, Log, Released, Transition},
    memory::Budgets,
    open::{self, Opened, Rounds},
    progress::Progress,
    snapshots::Snapshots,
    view::View,
    watch::{Waiter, WatcherIndex},
};
use crossbeam_utils::sync::ShardedLock;
use std::{
    sync::{
        Arc, PoisonError,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::Instant,
};
use store::{Revision, Store, Unavailable, Unreadable};
use tokio::sync::Notify;

/// The part of a cache that all its resource types share.
pub(crate) struct Core {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) options: CacheOptions,
    pub(crate) progress: Progress,
    pub(crate) encodings: Encodings,
    /// What logs and states of the past may take at present.
    pub(crate) budgets: Budgets,
    /// The bytes in the logs of all types.
    pub(crate) log_bytes: AtomicUsize,
    /// The bytes of all states that were superseded so far.
    pub(crate) superseded_bytes: AtomicU64,
    pub(crate) applier: Applier,
    /// The rounds that open values that cannot be decrypted, of all types.
    pub(crate) unavailable: Rounds,
    /// A type has begun to lag.
    pub(crate) lagging: Notify,
    /// A change was applied by half: everything has to be loaded again.
    pub(crate) broken: Notify,
}

impl Core {
    /// What the types of a cache share at first, when it has the state of `revision`.
    pub(crate) fn new(
        store: Arc<dyn Store>,
        lineage: u64,
        revision: Revision,
        options: CacheOptions,
    ) -> Self {
        Self {
            progress: Progress::new(lineage, revision),
            encodings: Encodings::new(options.encodings),
            budgets: Budgets::new(&options),
            log_bytes: AtomicUsize::new(0),
            superseded_bytes: AtomicU64::new(0),
            applier: Applier::default(),
            unavailable: Rounds::default(),
            lagging: Notify::new(),
            broken: Notify::new(),
            options,
            store,
        }
    }

    /// Waits until a revision that was committed is announced, or the store has begun a later lineage.
    pub(crate) async fn reach(&self, lineage: u64, revision: Revision) -> Result<(), Error> {
        if !self.progress.has_reached(lineage, revision) {
            self.catch_up();
        }
        self.progress.reach(lineage, revision).await
    }

    /// Waits until a revision is announced, at most for the time that the options say.
    pub(crate) async fn wait_for(&self, lineage: u64, revision: Revision) -> Result<(), Error> {
        if self.progress.has_reached(lineage, revision) {
            return Ok(());
        }
        match tokio::time::timeout(self.options.wait, self.reach(lineage, revision)).await {
            Ok(reached) => reached,
            Err(_) => Err(Error::TooLarge { requested: revision, current: self.progress.revision() }),
        }
    }
}

/// One type of a [`Cache`](crate::Cache): all objects under one key prefix.
pub struct Resource {
    spec: Arc<Spec>,
    core: Arc<Core>,
    state: ShardedLock<State>,
    snapshots: Snapshots,
    watcher_index: WatcherIndex,
    counts: Arc<Counts>,
    /// The lineage of the store that the state belongs to. Changes under the lock of the state.
    lineage: AtomicU64,
    /// How often existing objects became readable, which no change in the log shows. With the lineage it is
    /// the [`Era`]. Changes under the lock of the state.
    openings: AtomicU64,
    /// While the type lags: the revision up to which it is complete; otherwise the largest number.
    complete_to: AtomicU64,
    /// Notifies tasks that wait for a lagging type when it has advanced.
    advanced: Notify,
    removed: AtomicBool,
}

/// A period in which revisions can be compared, and every change of the state is a change with a revision.
/// Watches and cursors of an earlier era end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Era {
    /// The lineage of the store.
    pub(crate) lineage: u64,
    /// How often existing objects became readable, which no change in the log shows.
    pub(crate) openings: u64,
}

struct State {
    view: View,
    log: Log,
}

/// A change that is to be applied to the state.
pub(crate) struct ToApply {
    pub(crate) key: Arc<str>,
    pub(crate) after: KeyState,
}

/// Statistics of a resource type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// How many objects there are.
    pub entries: usize,
    /// How many changes are in the log in memory.
    pub log_changes: usize,
    /// The bytes of superseded states that the log holds.
    pub log_bytes: usize,
    /// The states of the past that are kept.
    pub snapshots: usize,
    /// The watchers.
    pub watchers: usize,
    /// How many times a watcher was woken, ever.
    pub woken: u64,
}

impl Resource {
    /// A type that was loaded.
    pub(crate) fn new(spec: Arc<Spec>, core: Arc<Core>, view: View, log: Log) -> Self {
        INITIALIZATIONS.with([spec.prefix()]).inc();
        Self::shared(spec, core, view, log)
    }

    /// A type whose state another cache has loaded.
    pub(crate) fn shared(spec: Arc<Spec>, core: Arc<Core>, view: View, log: Log) -> Self {
        let indexed = spec.fields().iter().enumerate().filter(|(_, field)| field.is_indexed());
        let watcher_index = WatcherIndex::new(indexed.map(|(at, _)| at));
        let snapshots = Snapshots::new(core.options.snapshot_retention, core.options.snapshots);
        core.log_bytes.fetch_add(log.bytes(), Ordering::Relaxed);
        if view.has_unavailable() {
            core.unavailable.note();
        }
        let counts = Arc::new(Counts::of(&spec));
        let state = ShardedLock::new(State { view, log });
        Self {
            spec,
            state,
            snapshots,
            watcher_index,
            counts,
            lineage: AtomicU64::new(core.progress.lineage()),
            openings: AtomicU64::new(0),
            complete_to: AtomicU64::new(u64::MAX),
            advanced: Notify::new(),
            removed: AtomicBool::new(false),
            core,
        }
    }

    /// The counters of the type.
    pub(crate) fn counts(&self) -> &Arc<Counts> {
        &self.counts
    }

    /// The newest announced revision of the store of this type.
    pub fn revision(&self) -> Revision {
        self.core.progress.revision()
    }

    /// Whether both types are in one store, so that the revisions of their objects can be compared.
    pub fn shares_store_with(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.core, &other.core)
    }

    /// The specification of the type.
    pub fn spec(&self) -> &Arc<Spec> {
        &self.spec
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.with_state(|view, _| view.len())
    }

    /// How many objects there are, and their bytes.
    pub fn size(&self) -> (usize, u64) {
        self.with_state(|view, _| (view.len(), view.bytes()))
    }

    /// Whether there are no objects.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The statistics of the type.
    pub fn stats(&self) -> Stats {
        let snapshots = self.snapshots.len();
        let (watchers, woken) = (self.watcher_index.watchers(), self.watcher_index.woken());
        self.with_state(|view, log| Stats {
            entries: view.len(),
            log_changes: log.len(),
            log_bytes: log.bytes(),
            snapshots,
            watchers,
            woken,
        })
    }

    /// The objects whose stored bytes cannot be read.
    pub fn unreadable(&self) -> Vec<Unreadable> {
        self.with_state(|view, _| view.unreadable())
    }

    /// Fails if an object cannot be decrypted at present: then it is not known which objects are absent.
    pub fn check_available(&self) -> Result<(), Error> {
        let first = self.with_state(|view, _| view.unavailable().into_iter().next());
        first.map_or(Ok(()), |unavailable| Err(Error::Unavailable(unavailable)))
    }

    /// The objects whose stored bytes cannot be decrypted at present.
    pub(crate) fn unavailable(&self) -> Vec<Arc<Unavailable>> {
        self.with_state(|view, _| view.unavailable())
    }

    pub(crate) fn core(&self) -> &Core {
        &self.core
    }

    pub(crate) fn snapshots(&self) -> &Snapshots {
        &self.snapshots
    }

    pub(crate) fn watcher_index(&self) -> &WatcherIndex {
        &self.watcher_index
    }

    pub(crate) fn with_state<T>(&self, look: impl FnOnce(&View, &Log) -> T) -> T {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        look(&state.view, &state.log)
    }

    /// The era that its state belongs to; for one that fits the state, read it under the state's lock.
    pub(crate) fn era(&self) -> Era {
        let (lineage, openings) = (&self.lineage, &self.openings);
        Era { lineage: lineage.load(Ordering::Acquire), openings: openings.load(Ordering::Acquire) }
    }

    /// The newest revision that the type is complete for: the announced one, unless it lags.
    pub(crate) fn announced(&self) -> Revision {
        // In this order: a change that the type has put off is announced after that.
        let announced = self.core.progress.revision();
        announced.min(Revision(self.complete_to.load(Ordering::Acquire)))
    }

    /// Whether the type is complete for a revision of a lineage, or is of a later lineage.
    pub(crate) fn has_reached(&self, lineage: u64, revision: Revision) -> bool {
        self.core.progress.has_reached(lineage, revision)
            && (self.core.progress.lineage() > lineage
                || revision.0 <= self.complete_to.load(Ordering::Acquire))
    }

    /// Waits until the type is complete for a revision of a lineage, or is of a later lineage.
    pub(crate) async fn reach(&self, lineage: u64, revision: Revision) -> Result<(), Error> {
        self.core.reach(lineage, revision).await?;
        loop {
            let advanced = self.advanced.notified();
            if self.has_reached(lineage, revision) {
                return Ok(());
            }
            self.check_served()?;
            advanced.await;
        }
    }

    /// Waits as [`reach`](Self::reach), at most for the time that the options say.
    pub(crate) async fn wait_for(&self, lineage: u64, revision: Revision) -> Result<(), Error> {
        if self.has_reached(lineage, revision) {
            return Ok(());
        }
        match tokio::time::timeout(self.core.options.wait, self.reach(lineage, revision)).await {
            Ok(reached) => reached,
            Err(_) if self.core.progress.has_reached(lineage, revision) => {
                Err(Error::Lagging { prefix: self.spec.prefix().to_owned() })
            }
            Err(_) => Err(Error::TooLarge { requested: revision, current: self.core.progress.revision() }),
        }
    }

    /// The type is complete up to a revision only, or `None` for everything that is announced.
    pub(crate) fn set_complete_to(&self, revision: Option<Revision>) {
        self.complete_to.store(revision.map_or(u64::MAX, |revision| revision.0), Ordering::Release);
        self.advanced.notify_waiters();
    }

    /// The current state of a key.
    pub(crate) fn peek(&self, key: &str) -> KeyState {
        self.with_state(|view, _| view.get(key))
    }

    /// The state, at the newest revision that it is complete for.
    pub(crate) fn view(&self) -> View {
        self.with_state(|view, _| {
            let mut view = view.clone();
            view.revision = view.revision.max(self.announced());
            view
        })
    }

    /// Refuses to go on after the type was removed or the cache closed.
    pub(crate) fn check_served(&self) -> Result<(), Error> {
        if self.removed.load(Ordering::Acquire) {
            return Err(Error::Removed { prefix: self.spec.prefix().to_owned() });
        }
        match (self.core.progress.is_closed(), self.core.progress.is_broken()) {
            (true, _) => Err(Error::Closed),
            (false, true) => Err(Error::Recovering),
            (false, false) => Ok(()),
        }
    }

    /// The outcome of the change of a key in a revision: the state that a put made, or that a delete ended.
    pub(crate) fn outcome(&self, key: &str, revision: Revision) -> Option<Arc<Entry>> {
        self.with_state(|view, log| match log.get(key, revision) {
            Some(change) if matches!(change.after, KeyState::Absent) => change.tombstone().cloned(),
            Some(change) => change.after.entry().cloned(),
            None => view.get(key).entry().filter(|entry| entry.mod_revision() == revision).cloned(),
        })
    }

    /// Reads an event of the store; `None` if its key cannot be one of this type.
    pub(crate) fn to_apply(&self, event: &store::Event) -> Option<ToApply> {
        let key = within(&self.spec, &event.key)?;
        Some(ToApply { key: key.into(), after: self.read(event) })
    }

    /// The state of a key after an event of the store.
    fn read(&self, event: &store::Event) -> KeyState {
        match event.kind {
            store::ChangeKind::Delete => KeyState::Absent,
            store::ChangeKind::Put => KeyState::read(&self.spec, &event.key, &event.head, &event.value),
        }
    }

    /// Reads an event of the store that comes with its previous value.
    pub(crate) fn transition(&self, event: store::Event) -> Option<Transition> {
        let key = within(&self.spec, &event.key)?.into();
        let before = match &event.previous {
            Some(store::StoredEntry { head, value: Some(value) }) => {
                KeyState::read(&self.spec, &event.key, head, value)
            }
            _ => KeyState::Absent,
        };
        Some(Transition::new(event.revision(), key, before, self.read(&event)))
    }

    /// Applies the changes of a revision, which is newer than all before.
    pub(crate) fn apply(&self, revision: Revision, changes: Vec<ToApply>) {
        self.counts.applied(changes.len());
        let now = Instant::now();
        let (noted, log_start) = {
            let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
            let State { view, log } = &mut *state;
            let bytes = log.bytes();
            let apply = |ToApply { key, after }| {
                if after.unavailable().is_some() {
                    self.core.unavailable.note();
                }
                let before = view.set(&key, after.clone());
                view.superseded += before.size() as u64;
                Transition::new(revision, key, before, after)
            };
            let changes: Vec<Transition> = changes.into_iter().map(apply).collect();
            let noted = if self.watcher_index.has_sets() { changes.clone() } else { Vec::new() };
            log.push(changes, now);
            view.revision = revision;
            self.core.log_bytes.fetch_add(log.bytes() - bytes, Ordering::Relaxed);
            self.core.superseded_bytes.fetch_add((log.bytes() - bytes) as u64, Ordering::Relaxed);
            (noted, log.start())
        };
        self.watcher_index.note(&noted, log_start);
    }

    /// Removes the oldest changes of the log, at least so many bytes of them, or all.
    pub(crate) fn trim(&self, excess: usize) {
        self.release(|log| log.trim(None, excess));
    }

    /// Removes the changes of the log up to a revision.
    pub(crate) fn forget(&self, to: Revision) {
        self.release(|log| log.forget(to));
    }

    /// The bytes in its log.
    pub(crate) fn log_bytes(&self) -> usize {
        self.with_state(|_, log| log.bytes())
    }

    /// Starts again from a state that was loaded, after the changes up to it were lost. In another lineage,
    /// nothing is left of what is named by revisions, and all watchers end.
    pub(crate) fn reset(&self, view: View, lineage: u64) {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        self.freed(state.log.bytes());
        let since = view.revision;
        *state = State { log: Log::new(since), view };
        if state.view.has_unavailable() {
            self.core.unavailable.note();
        }
        let before = self.lineage.swap(lineage, Ordering::AcqRel);
        drop(state);
        if before != lineage {
            self.snapshots.clear();
            self.watcher_index.clear_chunks();
        }
        self.watcher_index.restart(since);
    }

    /// Adds objects to the state that could not be decrypted before. No change in the log shows that, so a
    /// new era begins.
    pub(crate) fn take_opened(&self, values: &[Arc<Unavailable>], opened: &Opened) {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        let mut number = 0;
        for value in values {
            let Some(key) = within(&self.spec, &value.key) else { continue };
            let is_there = |state: &KeyState| {
                state.unavailable().is_some_and(|now| now.head.mod_revision == value.head.mod_revision)
            };
            let read = open::key_state(&self.spec, value, opened);
            if read.unavailable().is_none() && is_there(&state.view.get(key)) {
                state.view.set(key, read);
                number += 1;
            }
        }
        if state.view.has_unavailable() {
            self.core.unavailable.note_remaining();
        }
        if number == 0 {
            return;
        }
        let since = state.view.revision;
        self.freed(state.log.bytes());
        state.log = Log::new(since);
        self.openings.fetch_add(1, Ordering::AcqRel);
        drop(state);
        self.snapshots.clear();
        self.watcher_index.clear_chunks();
        self.watcher_index.restart(since);
        log::info!(resource = self.spec.prefix(), objects = number; "stored objects can be decrypted now");
    }

    /// The bytes that only its snapshots keep from being freed, at most.
    pub(crate) fn snapshot_bytes(&self) -> u64 {
        self.with_state(|view, log| self.snapshots.bytes(view, log))
    }

    /// Drops what is older than its retention, and wakes watchers for their bookmarks.
    pub(crate) fn tick(&self, now: Instant) {
        self.snapshots.expire(now, self.core.store.compacted());
        self.watcher_index.wake_for_bookmarks(now);
        self.watcher_index.expire_chunks(now);
        if let Some(expired) = now.checked_sub(self.core.options.log_retention)
            && self.with_state(|_, log| log.is_expired(expired))
        {
            self.release(|log| log.trim(Some(expired), 0));
        }
    }

    /// Makes a watcher due a bookmark an interval from now.
    pub(crate) fn schedule_bookmark(&self, waiter: &Arc<Waiter>) {
        let at = Instant::now() + self.core.options.bookmark_interval;
        self.watcher_index.schedule_bookmark(at, waiter);
    }

    /// Ends the type: readers and watchers get [`Error::Removed`].
    pub(crate) fn remove(&self) {
        self.removed.store(true, Ordering::Release);
        self.snapshots.clear();
        self.watcher_index.wake_all();
    }

    /// Removes changes from the log, and drops them outside of its lock.
    fn release(&self, act: impl FnOnce(&mut Log) -> Released) {
        let released = act(&mut self.state.write().unwrap_or_else(PoisonError::into_inner).log);
        self.freed(released.bytes);
    }

    fn freed(&self, bytes: usize) {
        self.core.log_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Drop for Resource {
    fn drop(&mut self) {
        self.freed(self.with_state(|_, log| log.bytes()));
    }
}
