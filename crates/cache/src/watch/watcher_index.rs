//! Which watchers a change concerns: each watcher subscribes to one set, and a change wakes the watchers of
//! its sets.
//!
//! A set is one namespace, one key, or one value of an indexed field. A watcher that fits none of them
//! subscribes to the set of everything. A set knows which changes of the log belong to it, so its watchers
//! look at those alone.
//!
//! 1. A watcher subscribes to exactly one set, and every change that its filter could match is in that set.
//! 2. A change is in the log before it is in a set, and in a set before the watchers of the set are woken.

use super::{
    chunks::Span,
    watcher_set::{Changes, Waiter, WatcherSet},
};
use crate::{
    Encoding,
    filter::{Indexed, Scope, Selection},
    log::{KeyState, Transition},
};
use bytes::Bytes;
use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Instant,
};
use store::Revision;

/// The watchers of a resource type, in sets.
pub(crate) struct WatcherIndex {
    everything: Arc<WatcherSet>,
    /// The number of sets, without that of everything.
    sets: AtomicUsize,
    tables: Mutex<Tables>,
    /// The next bookmark of each watcher that gets them, the earliest first.
    bookmarks: Mutex<VecDeque<(Instant, Weak<Waiter>)>>,
    /// The sets that have chunks.
    sharing: Mutex<Vec<Weak<WatcherSet>>>,
    woken: AtomicU64,
}

/// Sets by a text.
type Texts = HashMap<Box<str>, Arc<WatcherSet>>;

/// Sets by the values of one field.
struct Values {
    field: usize,
    sets: HashMap<Box<[u8]>, Arc<WatcherSet>>,
}

struct Tables {
    namespaces: Texts,
    keys: Texts,
    /// For each indexed field.
    fields: Vec<Values>,
    /// The sets with changes that are not announced yet, without that of everything: it has every change.
    dirty: Vec<Arc<WatcherSet>>,
    /// The sets with announced changes whose watchers are not woken yet.
    wake_pending: Vec<Arc<WatcherSet>>,
    subscriptions: usize,
}

/// A watcher in its set. [`WatcherIndex::unsubscribe`] ends it.
pub(crate) struct Subscription {
    pub(crate) set: Arc<WatcherSet>,
    pub(crate) waiter: Arc<Waiter>,
}

impl WatcherIndex {
    /// The sets of a type with these indexed fields.
    pub(crate) fn new(indexed: impl Iterator<Item = usize>) -> Self {
        let tables = Tables {
            namespaces: HashMap::new(),
            keys: HashMap::new(),
            fields: indexed.map(|field| Values { field, sets: HashMap::new() }).collect(),
            dirty: Vec::new(),
            wake_pending: Vec::new(),
            subscriptions: 0,
        };
        Self {
            everything: Arc::new(WatcherSet::new(None)),
            sets: AtomicUsize::new(0),
            tables: Mutex::new(tables),
            bookmarks: Mutex::default(),
            sharing: Mutex::default(),
            woken: AtomicU64::new(0),
        }
    }

    /// Adds a watcher. `newest` returns the newest revision in the log; it is called while no set can miss a
    /// change.
    pub(crate) fn subscribe(&self, selection: &Selection, newest: impl FnOnce() -> Revision) -> Subscription {
        let mut tables = self.tables();
        tables.subscriptions += 1;
        let make = || {
            // Before `newest` is called: the task that applies a newer change has to see that there is a set.
            self.sets.fetch_add(1, Ordering::Relaxed);
            Arc::new(WatcherSet::new(Some(newest())))
        };
        let set = match tables.set_of(selection) {
            SetKey::Everything => self.everything.clone(),
            SetKey::Text(table, key) => table.entry(key.into()).or_insert_with(make).clone(),
            SetKey::Value(table, value) => table.entry(value.into()).or_insert_with(make).clone(),
        };
        let waiter = Arc::<Waiter>::default();
        set.add(waiter.clone());
        Subscription { set, waiter }
    }

    /// Removes a watcher, and its set if that has no other.
    pub(crate) fn unsubscribe(&self, selection: &Selection, subscription: &Subscription) {
        let mut tables = self.tables();
        tables.subscriptions = tables.subscriptions.saturating_sub(1);
        if subscription.set.remove(&subscription.waiter) > 0 {
            return;
        }
        match tables.set_of(selection) {
            SetKey::Everything => return,
            SetKey::Text(table, key) => {
                table.remove(key);
                shrink(table);
            }
            SetKey::Value(table, value) => {
                table.remove(value);
                shrink(table);
            }
        }
        self.sets.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether there are sets besides that of everything. Call it under the lock of the log: a set that is
    /// made later starts after the change.
    pub(crate) fn has_sets(&self) -> bool {
        self.sets.load(Ordering::Relaxed) > 0
    }

    /// Adds changes to their sets. `changes` may be empty if there are no sets besides that of everything.
    pub(crate) fn note(&self, changes: &[Transition], log_start: Revision) {
        if self.everything.subscribers() > 0 {
            self.everything.dirty.store(true, Ordering::Relaxed);
        }
        if changes.is_empty() {
            return;
        }
        let mut tables = self.tables();
        let Tables { namespaces, keys, fields, dirty, .. } = &mut *tables;
        let sets = Sets { namespaces, keys, fields };
        for change in changes {
            sets.each(change, |set| {
                set.note(change.revision, log_start);
                if !set.dirty.swap(true, Ordering::Relaxed) {
                    dirty.push(set.clone());
                }
            });
        }
    }

    /// Call it after the changes that were noted are announced: the watchers of their sets have to be woken.
    /// True if the caller has to arrange for a call of [`WatcherIndex::wake`]; otherwise one is to come
    /// already.
    pub(crate) fn schedule_waking(&self) -> bool {
        let everything = self.everything.dirty.load(Ordering::Relaxed).then_some(&self.everything);
        if everything.is_none() && !self.has_sets() {
            return false;
        }
        let mut tables = self.tables();
        let Tables { dirty, wake_pending, .. } = &mut *tables;
        let is_scheduled = !wake_pending.is_empty();
        for set in everything.into_iter().chain(&*dirty) {
            set.dirty.store(false, Ordering::Relaxed);
            if !set.wake_pending.swap(true, Ordering::AcqRel) {
                wake_pending.push(set.clone());
            }
        }
        dirty.clear();
        !is_scheduled && !wake_pending.is_empty()
    }

    /// Wakes the watchers of all changes that were announced.
    pub(crate) fn wake(&self) {
        let sets = std::mem::take(&mut self.tables().wake_pending);
        for set in sets {
            // Before its watchers are woken: a set that `schedule_waking` leaves out because its
            // `wake_pending` is set is woken for it below.
            set.wake_pending.swap(false, Ordering::AcqRel);
            self.woken.fetch_add(set.wake(), Ordering::Relaxed);
        }
    }

    /// Schedules the next bookmark of a watcher, not before those that are scheduled.
    pub(crate) fn schedule_bookmark(&self, at: Instant, waiter: &Arc<Waiter>) {
        self.bookmarks().push_back((at, Arc::downgrade(waiter)));
    }

    /// Wakes the watchers whose bookmarks are due.
    pub(crate) fn wake_for_bookmarks(&self, now: Instant) {
        let due: Vec<_> = {
            let mut bookmarks = self.bookmarks();
            let due = bookmarks.partition_point(|(at, _)| *at <= now);
            bookmarks.drain(..due).collect()
        };
        for waiter in due.iter().filter_map(|(_, waiter)| waiter.upgrade()) {
            waiter.wake_for_bookmark();
        }
    }

    /// Keeps what a watcher has written of a span for the other watchers of its set, if it is still current
    /// when [`WatcherIndex::clear_chunks`] cannot run.
    pub(super) fn keep_chunk(
        &self,
        set: &Arc<WatcherSet>,
        chunk: (Encoding, Span),
        bytes: &Bytes,
        is_current: impl FnOnce() -> bool,
    ) {
        let mut sharing = self.sharing();
        let (encoding, span) = chunk;
        if is_current() && !set.keep_chunk(encoding, span, bytes) {
            sharing.push(Arc::downgrade(set));
        }
    }

    /// Drops all chunks.
    pub(crate) fn clear_chunks(&self) {
        let _sharing = self.sharing();
        for set in self.tables().all().chain([&self.everything]) {
            set.clear_chunks();
        }
    }

    /// Drops old chunks.
    pub(crate) fn expire_chunks(&self, now: Instant) {
        self.sharing().retain(|set| set.upgrade().is_some_and(|set| set.expire_chunks(now)));
    }

    fn sharing(&self) -> MutexGuard<'_, Vec<Weak<WatcherSet>>> {
        self.sharing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn bookmarks(&self) -> MutexGuard<'_, VecDeque<(Instant, Weak<Waiter>)>> {
        self.bookmarks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes all watchers.
    pub(crate) fn wake_all(&self) {
        for set in self.tables().all().chain([&self.everything]) {
            set.wake();
        }
    }

    /// Starts all sets again after changes up to `since` were lost, and wakes all watchers.
    pub(crate) fn restart(&self, since: Revision) {
        for mut changes in self.tables().all().filter_map(|set| set.changes()) {
            *changes = Changes { since, pruned: Revision::ZERO, revisions: VecDeque::new() };
        }
        self.wake_all();
    }

    /// How many watchers there are.
    pub(crate) fn watchers(&self) -> usize {
        self.tables().subscriptions
    }

    /// How many times a watcher was woken.
    pub(crate) fn woken(&self) -> u64 {
        self.woken.load(Ordering::Relaxed)
    }

    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The table that holds the set of a selection, and its key there.
enum SetKey<'t, 's> {
    Everything,
    Text(&'t mut Texts, &'s str),
    Value(&'t mut HashMap<Box<[u8]>, Arc<WatcherSet>>, &'s [u8]),
}

impl Tables {
    /// All sets but that of everything.
    fn all(&self) -> impl Iterator<Item = &Arc<WatcherSet>> {
        let texts = self.namespaces.values().chain(self.keys.values());
        texts.chain(self.fields.iter().flat_map(|values| values.sets.values()))
    }

    /// The narrowest set of a selection.
    fn set_of<'t, 's>(&'t mut self, selection: &'s Selection) -> SetKey<'t, 's> {
        match (selection.scope(), selection.indexed()) {
            (Scope::Key(key), _) => SetKey::Text(&mut self.keys, key),
            (scope, Some(Indexed { field, value })) => {
                match self.fields.iter_mut().find(|values| values.field == *field) {
                    Some(values) => SetKey::Value(&mut values.sets, value.as_bytes()),
                    None => match scope {
                        Scope::Namespace(namespace) => SetKey::Text(&mut self.namespaces, namespace),
                        _ => SetKey::Everything,
                    },
                }
            }
            (Scope::Namespace(namespace), None) => SetKey::Text(&mut self.namespaces, namespace),
            (Scope::All, None) => SetKey::Everything,
        }
    }
}

/// The tables, to be looked up in.
struct Sets<'a> {
    namespaces: &'a Texts,
    keys: &'a Texts,
    fields: &'a [Values],
}

impl Sets<'_> {
    /// Visits the sets that a change belongs to, each once.
    fn each(&self, change: &Transition, mut visit: impl FnMut(&Arc<WatcherSet>)) {
        let key = &*change.key;
        self.keys.get(key).into_iter().for_each(&mut visit);
        if !self.namespaces.is_empty()
            && let Some((namespace, _)) = key.split_once('/')
        {
            self.namespaces.get(namespace).into_iter().for_each(&mut visit);
        }
        for Values { field, sets } in self.fields.iter().filter(|values| !values.sets.is_empty()) {
            if [&change.before, &change.after]
                .into_iter()
                .any(|state| matches!(state, KeyState::Unreadable(_)))
            {
                // Its fields cannot be read.
                sets.values().for_each(&mut visit);
                continue;
            }
            let value = |state| KeyState::entry(state).map(|entry| entry.field_at(*field));
            let (before, after) = (value(&change.before), value(&change.after));
            let before = before.filter(|before| Some(*before) != after);
            before.into_iter().chain(after).filter_map(|value| sets.get(value)).for_each(&mut visit);
        }
    }
}

fn shrink<K: std::hash::Hash + Eq>(table: &mut HashMap<K, Arc<WatcherSet>>) {
    if table.len() < table.capacity() / 4 {
        table.shrink_to(table.len() * 2);
    }
}
