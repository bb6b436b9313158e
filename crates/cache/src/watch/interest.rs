//! Who waits for what: watchers in lanes, so that a change wakes those whom it could concern, and no others.
//!
//! A lane is one namespace, one key, or one value of an indexed field; whoever cannot be put into such a lane waits for
//! everything. A lane notes which changes of the log belong to it, so that its watchers look at those alone.
//!
//! 1. A watcher sits in exactly one lane, and every change that its filter could match is one of that lane.
//! 2. A lane knows all of its changes with revisions past `since`, but for those up to `pruned`.
//! 3. A change is in the log before it is in a lane, and in a lane before its watchers are woken.
//! 4. A lane is `touched` from its first change until that is announced, then `due` until its watchers are woken. So whoever is
//!    woken for a change finds it announced, also if someone else wakes while the next changes are noted.
//! 5. After its watchers were woken a lane rests for a moment: what becomes due meanwhile they are woken for when it is over, by
//!    the next change or by the clock. So where changes are rare watchers are woken at once, and where they are many, once
//!    for some of them.
//! 6. A lane has chunks only while several watch in it, and for a short time after.

use super::chunks::{Chunk, Chunks, Span};
use crate::{
    Encoding,
    filter::{Indexed, Scope, Selection},
    log::{Slot, Transition},
};
use bytes::Bytes;
use std::{
    collections::{HashMap, VecDeque},
    panic::{self, AssertUnwindSafe},
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};
use store::Revision;

/// So many watchers are woken by whoever has something for them; to wake more is a task of its own.
const FEW: usize = 4;

/// The lanes of a resource type.
pub(crate) struct Interest {
    everything: Arc<Lane>,
    /// How many lanes there are beside that of everything.
    lanes: AtomicUsize,
    tables: Mutex<Tables>,
    /// Who is due a bookmark when, the next one first.
    bookmarks: Mutex<VecDeque<(Instant, Weak<Waiter>)>>,
    /// The lanes that have chunks.
    sharing: Mutex<Vec<Weak<Lane>>>,
    woken: AtomicU64,
    /// For how long watchers are left alone after they were woken.
    rest: Duration,
    /// When it was made: times are counted from here.
    made: Instant,
}

/// Lanes by a text.
type Texts = HashMap<Box<str>, Arc<Lane>>;

/// Lanes by the values of one field.
struct Values {
    field: usize,
    lanes: HashMap<Box<[u8]>, Arc<Lane>>,
}

struct Tables {
    namespaces: Texts,
    keys: Texts,
    /// For each indexed field.
    fields: Vec<Values>,
    /// The lanes with changes that are yet to be announced, but for that of everything, which has every change.
    touched: Vec<Arc<Lane>>,
    /// The lanes with changes that were announced, whose watchers are to be woken by whoever was told of it.
    due: Vec<Arc<Lane>>,
    /// Whether someone is going to look whether lanes that rest are due.
    attended: bool,
    seats: usize,
}

/// Some of the changes of a type, and the watchers that wait for them.
pub(crate) struct Lane {
    /// Whether it has changes that are yet to be announced. Only who applies changes looks at it.
    touched: AtomicBool,
    /// Whether it is in the list of that name in [`Tables`], under whose lock it changes.
    due: AtomicBool,
    /// Until when its watchers are left alone, which were just woken; in [`Interest::time`]. Under the same lock.
    rests: AtomicU64,
    waiters: Mutex<Vec<Arc<Waiter>>>,
    /// How many waiters there are.
    seated: AtomicUsize,
    /// Made when the first is kept: most lanes have one watcher, and none.
    chunks: OnceLock<Box<Chunks>>,
    /// None in the lane of everything, whose changes are the log.
    changes: Option<Mutex<Changes>>,
}

pub(crate) struct Changes {
    pub(crate) since: Revision,
    pub(crate) pruned: Revision,
    pub(crate) revisions: VecDeque<Revision>,
}

/// A watcher that waits, as those see it who wake it.
#[derive(Default)]
pub(crate) struct Waiter {
    signaled: AtomicBool,
    bookmark: AtomicBool,
    waker: Mutex<Option<Waker>>,
    /// Its place among the waiters of the lane.
    place: AtomicUsize,
}

/// The place of a watcher in its lane. It has to be given back with [`Interest::leave`].
pub(crate) struct Seat {
    pub(crate) lane: Arc<Lane>,
    pub(crate) waiter: Arc<Waiter>,
}

impl Interest {
    /// The lanes of a type with these indexed fields.
    pub(crate) fn new(indexed: impl Iterator<Item = usize>, rest: Duration) -> Self {
        let tables = Tables {
            namespaces: HashMap::new(),
            keys: HashMap::new(),
            fields: indexed.map(|field| Values { field, lanes: HashMap::new() }).collect(),
            touched: Vec::new(),
            due: Vec::new(),
            attended: false,
            seats: 0,
        };
        Self {
            everything: Arc::new(Lane::new(None)),
            lanes: AtomicUsize::new(0),
            tables: Mutex::new(tables),
            bookmarks: Mutex::default(),
            sharing: Mutex::default(),
            woken: AtomicU64::new(0),
            rest,
            made: Instant::now(),
        }
    }

    /// Seats a watcher. `newest` tells the newest revision in the log; it is asked while no lane can miss a change.
    pub(crate) fn sit(&self, selection: &Selection, newest: impl FnOnce() -> Revision) -> Seat {
        let mut tables = self.tables();
        tables.seats += 1;
        let make = || {
            // Before it asks: whoever applies a newer change has to find that there is a lane.
            self.lanes.fetch_add(1, Ordering::Relaxed);
            Arc::new(Lane::new(Some(newest())))
        };
        let lane = match tables.place(selection) {
            Place::Everything => self.everything.clone(),
            Place::Text(table, key) => table.entry(key.into()).or_insert_with(make).clone(),
            Place::Value(table, value) => table.entry(value.into()).or_insert_with(make).clone(),
        };
        let waiter = Arc::<Waiter>::default();
        lane.join(waiter.clone());
        Seat { lane, waiter }
    }

    /// Gives a seat back; a lane without watchers is forgotten.
    pub(crate) fn leave(&self, selection: &Selection, seat: &Seat) {
        let mut tables = self.tables();
        tables.seats = tables.seats.saturating_sub(1);
        if seat.lane.part(&seat.waiter) > 0 {
            return;
        }
        match tables.place(selection) {
            Place::Everything => return,
            Place::Text(table, key) => {
                table.remove(key);
                shrink(table);
            }
            Place::Value(table, value) => {
                table.remove(value);
                shrink(table);
            }
        }
        self.lanes.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether there are lanes that changes have to be noted in. To be asked under the lock that readers of a change have to take:
    /// a lane that is made later begins after it.
    pub(crate) fn has_lanes(&self) -> bool {
        self.lanes.load(Ordering::Relaxed) > 0
    }

    /// Notes that there are changes, and those that are given in their lanes, which forget what the log no longer holds.
    pub(crate) fn note(&self, changes: &[Transition], log_start: Revision) {
        if self.everything.seated() > 0 {
            self.everything.touched.store(true, Ordering::Relaxed);
        }
        if changes.is_empty() {
            return;
        }
        let mut tables = self.tables();
        let Tables { namespaces, keys, fields, touched, .. } = &mut *tables;
        let lanes = Lanes { namespaces, keys, fields };
        for change in changes {
            lanes.each(change, |lane| {
                lane.note(change.revision, log_start);
                if !lane.touched.swap(true, Ordering::Relaxed) {
                    touched.push(lane.clone());
                }
            });
        }
    }

    /// Follows the announcement of all changes that were noted: wakes the watchers of their lanes, if they are few and rested. The
    /// others are due; true if [`Interest::wake`] has to be called for them, which nobody is about to do yet.
    pub(crate) fn announced(&self, now: Instant) -> bool {
        let everything = self.everything.touched.load(Ordering::Relaxed).then_some(&self.everything);
        if everything.is_none() && !self.has_lanes() {
            return false;
        }
        let now = self.time(now);
        let mut tables = self.tables();
        let Tables { touched, due, attended, .. } = &mut *tables;
        let (were_due, mut rested) = (due.len(), Vec::new());
        for lane in everything.into_iter().chain(&*touched) {
            lane.touched.store(false, Ordering::Relaxed);
            match lane.is_rested(now) {
                true => rested.push(lane.clone()),
                false => lane.become_due(due),
            }
        }
        touched.clear();
        let is_unattended = due.len() > were_due && !*attended;
        let are_resting = due.len();
        if rested.iter().map(|lane| lane.seated()).sum::<usize>() <= FEW {
            rested.iter().for_each(|lane| lane.leave_alone(self.rested_at(now)));
        } else {
            rested.drain(..).for_each(|lane| lane.become_due(due));
        }
        let has_more = is_unattended || due.len() > are_resting;
        *attended |= has_more;
        drop(tables);
        self.wake_lanes(&rested);
        has_more
    }

    /// Wakes the watchers that are due to be, if they are rested, and tells when to look again; `None` if there is nothing to
    /// look for before the next announcement.
    pub(crate) fn wake(&self, now: Instant) -> Option<Instant> {
        let (rested, next) = {
            let now = self.time(now);
            let mut tables = self.tables();
            let (mut rested, mut resting) = (Vec::new(), Vec::new());
            for lane in std::mem::take(&mut tables.due) {
                // Some have been woken since they became due, by whoever had something more for them.
                if !lane.due.swap(false, Ordering::Relaxed) {
                    continue;
                }
                match lane.is_rested(now) {
                    true => rested.push(lane),
                    false => resting.push(lane),
                }
            }
            rested.iter().for_each(|lane| lane.leave_alone(self.rested_at(now)));
            let next = resting.iter().chain(&rested).map(|lane| lane.rests.load(Ordering::Relaxed)).min();
            let next = next.map(|next| self.made + Duration::from_nanos(next));
            tables.attended = next.is_some();
            resting.into_iter().for_each(|lane| lane.become_due(&mut tables.due));
            (rested, next)
        };
        self.wake_lanes(&rested);
        next
    }

    /// Wakes the watchers that are due to be, rested or not: there is no one to do it later.
    pub(crate) fn wake_at_once(&self) {
        let due = {
            let mut tables = self.tables();
            tables.attended = false;
            tables.due.iter().for_each(|lane| lane.due.store(false, Ordering::Relaxed));
            std::mem::take(&mut tables.due)
        };
        self.wake_lanes(&due);
    }

    fn wake_lanes(&self, lanes: &[Arc<Lane>]) {
        let woken: u64 = lanes.iter().map(|lane| lane.wake()).sum();
        self.woken.fetch_add(woken, Ordering::Relaxed);
    }

    /// Makes a watcher due a bookmark at a time, which must not lie before those of others.
    pub(crate) fn schedule_bookmark(&self, at: Instant, waiter: &Arc<Waiter>) {
        self.bookmarks().push_back((at, Arc::downgrade(waiter)));
    }

    /// Wakes those who are due a bookmark.
    pub(crate) fn wake_for_bookmarks(&self, now: Instant) {
        let due: Vec<_> = {
            let mut bookmarks = self.bookmarks();
            let due = bookmarks.partition_point(|(at, _)| *at <= now);
            bookmarks.drain(..due).collect()
        };
        for waiter in due.iter().filter_map(|(_, waiter)| waiter.upgrade()) {
            waiter.bookmark.store(true, Ordering::Release);
            waiter.wake();
        }
    }

    /// Keeps what a watcher has written of a span for the others of its lane, if there are any.
    pub(super) fn keep_chunk(&self, lane: &Arc<Lane>, encoding: Encoding, span: Span, bytes: &Bytes) {
        if lane.seated() > 1
            && !lane.chunks.get_or_init(Box::default).keep(encoding, span, bytes.clone(), Instant::now())
        {
            self.sharing().push(Arc::downgrade(lane));
        }
    }

    /// Lets go chunks that are old.
    pub(crate) fn expire_chunks(&self, now: Instant) {
        self.sharing().retain(|lane| {
            lane.upgrade().is_some_and(|lane| lane.chunks.get().is_some_and(|chunks| chunks.expire(now)))
        });
    }

    fn sharing(&self) -> MutexGuard<'_, Vec<Weak<Lane>>> {
        self.sharing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn bookmarks(&self) -> MutexGuard<'_, VecDeque<(Instant, Weak<Waiter>)>> {
        self.bookmarks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes everyone.
    pub(crate) fn wake_all(&self) {
        for lane in self.tables().all().chain([&self.everything]) {
            lane.wake();
        }
    }

    /// Forgets what the lanes noted, because changes up to `since` were lost, and wakes everyone.
    pub(crate) fn restart(&self, since: Revision) {
        for mut changes in self.tables().all().filter_map(|lane| lane.changes()) {
            changes.since = since;
            changes.revisions.clear();
        }
        self.wake_all();
    }

    /// How many watchers there are.
    pub(crate) fn watchers(&self) -> usize {
        self.tables().seats
    }

    /// How many times a watcher was woken.
    pub(crate) fn woken(&self) -> u64 {
        self.woken.load(Ordering::Relaxed)
    }

    /// A time, in nanoseconds.
    fn time(&self, at: Instant) -> u64 {
        at.saturating_duration_since(self.made).as_nanos() as u64
    }

    /// When watchers will be rested that are woken now.
    fn rested_at(&self, now: u64) -> u64 {
        now + self.rest.as_nanos() as u64
    }

    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The table in which the lane of a selection is, and its key there.
enum Place<'t, 's> {
    Everything,
    Text(&'t mut Texts, &'s str),
    Value(&'t mut HashMap<Box<[u8]>, Arc<Lane>>, &'s [u8]),
}

impl Tables {
    /// All lanes but that of everything.
    fn all(&self) -> impl Iterator<Item = &Arc<Lane>> {
        let texts = self.namespaces.values().chain(self.keys.values());
        texts.chain(self.fields.iter().flat_map(|values| values.lanes.values()))
    }

    /// The narrowest lane of a selection.
    fn place<'t, 's>(&'t mut self, selection: &'s Selection) -> Place<'t, 's> {
        match (selection.scope(), selection.indexed()) {
            (Scope::Key(key), _) => Place::Text(&mut self.keys, key),
            (scope, Some(Indexed { field, value })) => {
                match self.fields.iter_mut().find(|values| values.field == *field) {
                    Some(values) => Place::Value(&mut values.lanes, value.as_bytes()),
                    None => match scope {
                        Scope::Namespace(namespace) => Place::Text(&mut self.namespaces, namespace),
                        _ => Place::Everything,
                    },
                }
            }
            (Scope::Namespace(namespace), None) => Place::Text(&mut self.namespaces, namespace),
            (Scope::All, None) => Place::Everything,
        }
    }
}

/// The tables, to be looked up in.
struct Lanes<'a> {
    namespaces: &'a Texts,
    keys: &'a Texts,
    fields: &'a [Values],
}

impl Lanes<'_> {
    /// Visits the lanes that a change belongs to, each once.
    fn each(&self, change: &Transition, mut visit: impl FnMut(&Arc<Lane>)) {
        let key = &*change.key;
        self.keys.get(key).into_iter().for_each(&mut visit);
        if !self.namespaces.is_empty()
            && let Some((namespace, _)) = key.split_once('/')
        {
            self.namespaces.get(namespace).into_iter().for_each(&mut visit);
        }
        for Values { field, lanes } in self.fields.iter().filter(|values| !values.lanes.is_empty()) {
            let value = |slot| Slot::entry(slot).map(|entry| entry.field_at(*field));
            let (before, after) = (value(&change.before), value(&change.after));
            let before = before.filter(|before| Some(*before) != after);
            before.into_iter().chain(after).filter_map(|value| lanes.get(value)).for_each(&mut visit);
        }
    }
}

impl Lane {
    fn new(since: Option<Revision>) -> Self {
        let changes =
            since.map(|since| Changes { since, pruned: Revision::ZERO, revisions: VecDeque::new() });
        Self {
            touched: AtomicBool::new(false),
            due: AtomicBool::new(false),
            rests: AtomicU64::new(0),
            waiters: Mutex::default(),
            seated: AtomicUsize::new(0),
            chunks: OnceLock::new(),
            changes: changes.map(Mutex::new),
        }
    }

    /// What another watcher of the lane has written of what comes after `cursor`.
    pub(super) fn chunk(&self, encoding: Encoding, cursor: Revision) -> Option<Chunk> {
        self.chunks.get()?.take(encoding, cursor)
    }

    /// Where the next chunk begins for a watcher that has come to `cursor`, and has to read the log up to there.
    pub(super) fn next_chunk(&self, encoding: Encoding, cursor: Revision) -> Option<Revision> {
        self.chunks.get()?.next(encoding, cursor)
    }

    /// The changes that it notes; `None` in the lane of everything.
    pub(crate) fn changes(&self) -> Option<MutexGuard<'_, Changes>> {
        self.changes.as_ref().map(|changes| changes.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn seated(&self) -> usize {
        self.seated.load(Ordering::Relaxed)
    }

    fn is_rested(&self, now: u64) -> bool {
        self.rests.load(Ordering::Relaxed) <= now
    }

    /// Notes that its watchers are woken now, and left alone until then.
    fn leave_alone(&self, until: u64) {
        self.due.store(false, Ordering::Relaxed);
        self.rests.store(until, Ordering::Relaxed);
    }

    fn become_due(self: &Arc<Self>, due: &mut Vec<Arc<Self>>) {
        if !self.due.load(Ordering::Relaxed) {
            self.due.store(true, Ordering::Relaxed);
            due.push(self.clone());
        }
    }

    fn note(&self, revision: Revision, log_start: Revision) {
        let Some(mut changes) = self.changes() else { return };
        while let Some(oldest) = changes.revisions.front().copied()
            && oldest <= log_start
        {
            changes.pruned = oldest;
            changes.revisions.pop_front();
        }
        if revision > changes.since {
            changes.revisions.push_back(revision);
        }
    }

    fn join(&self, waiter: Arc<Waiter>) {
        let mut waiters = self.waiters();
        waiter.place.store(waiters.len(), Ordering::Relaxed);
        waiters.push(waiter);
        self.seated.store(waiters.len(), Ordering::Relaxed);
    }

    /// Removes a waiter and tells how many are left.
    fn part(&self, waiter: &Arc<Waiter>) -> usize {
        let mut waiters = self.waiters();
        let place = waiter.place.load(Ordering::Relaxed);
        if waiters.get(place).is_some_and(|own| Arc::ptr_eq(own, waiter)) {
            waiters.swap_remove(place);
            if let Some(moved) = waiters.get(place) {
                moved.place.store(place, Ordering::Relaxed);
            }
        }
        if waiters.len() < waiters.capacity() / 4 {
            let room = waiters.len() * 2;
            waiters.shrink_to(room);
        }
        self.seated.store(waiters.len(), Ordering::Relaxed);
        waiters.len()
    }

    /// Wakes the waiters and tells how many there were to be woken.
    fn wake(&self) -> u64 {
        self.waiters().iter().map(|waiter| u64::from(waiter.wake())).sum()
    }

    fn waiters(&self) -> MutexGuard<'_, Vec<Arc<Waiter>>> {
        self.waiters.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiter {
    /// Signals that there is something to read; false if that was known.
    fn wake(&self) -> bool {
        if self.signaled.swap(true, Ordering::AcqRel) {
            return false;
        }
        if let Some(waker) = &*self.waker.lock().unwrap_or_else(PoisonError::into_inner) {
            // What a waker does is its owner's business, and so is its panic: others have yet to be woken.
            panic::catch_unwind(AssertUnwindSafe(|| waker.wake_by_ref())).ok();
        }
        true
    }

    /// Forgets signals; what they told of is read next.
    pub(crate) fn clear(&self) {
        self.signaled.swap(false, Ordering::AcqRel);
    }

    /// Makes a bookmark due.
    pub(crate) fn ask_for_bookmark(&self) {
        self.bookmark.store(true, Ordering::Release);
        self.signaled.store(true, Ordering::Release);
    }

    /// Whether a bookmark is due; if so, it is not any more.
    pub(crate) fn take_bookmark(&self) -> bool {
        self.bookmark.load(Ordering::Acquire) && self.bookmark.swap(false, Ordering::AcqRel)
    }

    /// Whether a bookmark is due.
    pub(crate) fn is_due_bookmark(&self) -> bool {
        self.bookmark.load(Ordering::Acquire)
    }

    /// Ready when there was a signal since [`Waiter::clear`].
    pub(crate) fn poll(&self, context: &mut Context<'_>) -> Poll<()> {
        if self.signaled.load(Ordering::Acquire) {
            return Poll::Ready(());
        }
        let mut waker = self.waker.lock().unwrap_or_else(PoisonError::into_inner);
        match &*waker {
            Some(own) if own.will_wake(context.waker()) => {}
            _ => *waker = Some(context.waker().clone()),
        }
        drop(waker);
        match self.signaled.load(Ordering::Acquire) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }
}

fn shrink<K: std::hash::Hash + Eq>(table: &mut HashMap<K, Arc<Lane>>) {
    if table.len() < table.capacity() / 4 {
        table.shrink_to(table.len() * 2);
    }
}
