//! The watchers that wait for the same part of a type, and the changes of that part.
//!
//! 1. A set knows the revisions of all its changes after `since`, except those up to `pruned`.
//! 2. A set is `dirty` from its first change until that change is announced, then `wake_pending` until its
//!    watchers are woken. So a watcher that is woken for a change can read it, even while the next changes
//!    are applied.
//! 3. A set has chunks only while it has several watchers, and for about a second after.

use super::chunks::{Chunk, Chunks, Span};
use crate::Encoding;
use bytes::Bytes;
use std::{
    collections::VecDeque,
    panic::{self, AssertUnwindSafe},
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context, Poll, Waker},
    time::Instant,
};
use store::Revision;

/// The watchers of one namespace, one key, one value of an indexed field, or of everything.
pub(crate) struct WatcherSet {
    /// Whether the set has changes that are not announced yet. Only the holder of the lock under which
    /// changes are applied reads this.
    pub(super) dirty: AtomicBool,
    /// Whether the set is in `wake_pending` of the index, or its watchers are just being woken.
    pub(super) wake_pending: AtomicBool,
    waiters: Mutex<Vec<Arc<Waiter>>>,
    /// The number of waiters, to read without their lock.
    subscribers: AtomicUsize,
    /// Made with the first chunk: most sets have one watcher, and no chunk.
    chunks: OnceLock<Box<Chunks>>,
    /// None in the set of everything: its changes are the log.
    changes: Option<Mutex<Changes>>,
}

/// The revisions of the changes of a set.
pub(crate) struct Changes {
    pub(crate) since: Revision,
    pub(crate) pruned: Revision,
    pub(crate) revisions: VecDeque<Revision>,
}

/// The wake-up of one watcher.
#[derive(Default)]
pub(crate) struct Waiter {
    signaled: AtomicBool,
    bookmark: AtomicBool,
    waker: Mutex<Option<Waker>>,
    /// Its index in the waiters of its set.
    index: AtomicUsize,
}

impl WatcherSet {
    pub(super) fn new(since: Option<Revision>) -> Self {
        let changes =
            since.map(|since| Changes { since, pruned: Revision::ZERO, revisions: VecDeque::new() });
        Self {
            dirty: AtomicBool::new(false),
            wake_pending: AtomicBool::new(false),
            waiters: Mutex::default(),
            subscribers: AtomicUsize::new(0),
            chunks: OnceLock::new(),
            changes: changes.map(Mutex::new),
        }
    }

    /// The chunk that continues at `cursor`, if another watcher of the set has written it.
    pub(super) fn chunk(&self, encoding: Encoding, cursor: Revision) -> Option<Chunk> {
        self.chunks.get()?.take(encoding, cursor)
    }

    /// Where the first chunk after `cursor` begins: a watcher without a chunk reads the log up to there.
    pub(super) fn next_chunk(&self, encoding: Encoding, cursor: Revision) -> Option<Revision> {
        self.chunks.get()?.next(encoding, cursor)
    }

    /// Keeps what a watcher has written of a span, if the set has other watchers; false if it is the first
    /// chunk.
    pub(super) fn keep_chunk(&self, encoding: Encoding, span: Span, bytes: &Bytes) -> bool {
        self.subscribers() < 2
            || self.chunks.get_or_init(Box::default).keep(encoding, span, bytes.clone(), Instant::now())
    }

    /// Drops all chunks.
    pub(super) fn clear_chunks(&self) {
        if let Some(chunks) = self.chunks.get() {
            chunks.clear();
        }
    }

    /// Drops old chunks; false if none is left.
    pub(super) fn expire_chunks(&self, now: Instant) -> bool {
        self.chunks.get().is_some_and(|chunks| chunks.expire(now))
    }

    /// The revisions of its changes; `None` in the set of everything.
    pub(crate) fn changes(&self) -> Option<MutexGuard<'_, Changes>> {
        self.changes.as_ref().map(|changes| changes.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn subscribers(&self) -> usize {
        self.subscribers.load(Ordering::Relaxed)
    }

    /// Adds a change, and removes those that the log no longer holds.
    pub(super) fn note(&self, revision: Revision, log_start: Revision) {
        let Some(mut changes) = self.changes() else { return };
        while let Some(oldest) = changes.revisions.front().copied()
            && oldest <= log_start
        {
            changes.pruned = oldest;
            changes.revisions.pop_front();
        }
        // Changes that share a revision are looked at together.
        if revision > changes.since && changes.revisions.back() != Some(&revision) {
            changes.revisions.push_back(revision);
        }
    }

    pub(super) fn add(&self, waiter: Arc<Waiter>) {
        let mut waiters = self.waiters();
        waiter.index.store(waiters.len(), Ordering::Relaxed);
        waiters.push(waiter);
        self.subscribers.store(waiters.len(), Ordering::Relaxed);
    }

    /// Removes a waiter and returns how many are left.
    pub(super) fn remove(&self, waiter: &Arc<Waiter>) -> usize {
        let mut waiters = self.waiters();
        let index = waiter.index.load(Ordering::Relaxed);
        if waiters.get(index).is_some_and(|own| Arc::ptr_eq(own, waiter)) {
            waiters.swap_remove(index);
            if let Some(moved) = waiters.get(index) {
                moved.index.store(index, Ordering::Relaxed);
            }
        }
        if waiters.len() < waiters.capacity() / 4 {
            let room = waiters.len() * 2;
            waiters.shrink_to(room);
        }
        self.subscribers.store(waiters.len(), Ordering::Relaxed);
        waiters.len()
    }

    /// Wakes the watchers and returns how many were not awake.
    pub(super) fn wake(&self) -> u64 {
        self.waiters().iter().map(|waiter| u64::from(waiter.wake())).sum()
    }

    fn waiters(&self) -> MutexGuard<'_, Vec<Arc<Waiter>>> {
        self.waiters.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiter {
    /// Signals that there is something to read; false if the watcher was signaled already.
    pub(super) fn wake(&self) -> bool {
        if self.signaled.swap(true, Ordering::AcqRel) {
            return false;
        }
        if let Some(waker) = &*self.waker.lock().unwrap_or_else(PoisonError::into_inner) {
            // A waker that panics must not keep the other watchers from being woken.
            panic::catch_unwind(AssertUnwindSafe(|| waker.wake_by_ref())).ok();
        }
        true
    }

    /// Makes a bookmark due and wakes the watcher.
    pub(super) fn wake_for_bookmark(&self) {
        self.bookmark.store(true, Ordering::Release);
        self.wake();
    }

    /// Resets the signal. The caller reads after this.
    pub(crate) fn clear(&self) {
        self.signaled.swap(false, Ordering::AcqRel);
    }

    /// Makes a bookmark due; the watcher itself calls this, and then reads.
    pub(crate) fn ask_for_bookmark(&self) {
        self.bookmark.store(true, Ordering::Release);
        self.signaled.store(true, Ordering::Release);
    }

    /// Whether a bookmark is due; resets that.
    pub(crate) fn take_bookmark(&self) -> bool {
        self.bookmark.load(Ordering::Acquire) && self.bookmark.swap(false, Ordering::AcqRel)
    }

    /// Whether a bookmark is due.
    pub(crate) fn is_bookmark_due(&self) -> bool {
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
