//! How far the changes have been applied, across all types, and the tasks that wait for a revision.
//!
//! A revision is announced after every change up to it is in the state and the log of its type, or was put
//! off by a type that lags (`lag`): the announced revision is one that every other type can serve. Only tasks
//! that wait for it, or for an older one, are woken.
//!
//! Revisions are compared within a lineage of the store: any revision of a later lineage comes after all of
//! an earlier one.

use crate::Error;
use std::{
    collections::BTreeMap,
    future::Future,
    pin::Pin,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Context, Poll, Waker},
};
use store::Revision;

pub(crate) struct Progress {
    lineage: AtomicU64,
    revision: AtomicU64,
    closed: AtomicBool,
    broken: AtomicBool,
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    next: u64,
    wakers: BTreeMap<(u64, u64), Waker>,
}

impl Progress {
    pub(crate) fn new(lineage: u64, revision: Revision) -> Self {
        Self {
            lineage: AtomicU64::new(lineage),
            revision: AtomicU64::new(revision.0),
            closed: AtomicBool::new(false),
            broken: AtomicBool::new(false),
            waiting: Mutex::default(),
        }
    }

    pub(crate) fn revision(&self) -> Revision {
        Revision(self.revision.load(Ordering::Acquire))
    }

    /// The lineage of the store that the revision belongs to.
    pub(crate) fn lineage(&self) -> u64 {
        self.lineage.load(Ordering::Acquire)
    }

    /// Starts a lineage, with nothing announced. Tasks that wait for a revision of an earlier one are woken,
    /// and go on.
    pub(crate) fn restart(&self, lineage: u64) {
        // In this order: a revision that is read after the lineage is not one of an earlier lineage.
        self.revision.store(0, Ordering::Release);
        self.lineage.store(lineage, Ordering::Release);
        let woken = std::mem::take(&mut self.waiting().wakers);
        woken.into_values().for_each(Waker::wake);
    }

    /// Announces a revision. The tasks that waited for it are woken when the result is dropped.
    pub(crate) fn announce(&self, revision: Revision) -> Reached {
        self.revision.fetch_max(revision.0, Ordering::AcqRel);
        let mut waiting = self.waiting();
        let later = waiting.wakers.split_off(&(revision.0.saturating_add(1), 0));
        Reached(std::mem::replace(&mut waiting.wakers, later))
    }

    /// Ends all waits.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        let woken = std::mem::take(&mut self.waiting().wakers);
        woken.into_values().for_each(Waker::wake);
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Marks the states in memory as broken until all types are loaded again. Tasks that wait for a revision
    /// keep waiting.
    pub(crate) fn set_broken(&self) {
        self.broken.store(true, Ordering::Release);
    }

    /// Everything was loaded again.
    pub(crate) fn set_whole(&self) {
        self.broken.store(false, Ordering::Release);
    }

    pub(crate) fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Acquire)
    }

    /// Whether a revision of a lineage is announced, or any of a later lineage.
    pub(crate) fn has_reached(&self, lineage: u64, revision: Revision) -> bool {
        let current = self.lineage();
        current > lineage || current == lineage && self.revision() >= revision
    }

    /// Waits until a revision of a lineage is announced, or any of a later lineage.
    pub(crate) fn reach(&self, lineage: u64, revision: Revision) -> Reach<'_> {
        Reach { progress: self, lineage, revision, place: None }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The tasks whose revision is announced. Dropping the value wakes them.
#[must_use = "dropping it at once wakes the waiting tasks before anything else is done"]
pub(crate) struct Reached(BTreeMap<(u64, u64), Waker>);

impl Drop for Reached {
    fn drop(&mut self) {
        std::mem::take(&mut self.0).into_values().for_each(Waker::wake);
    }
}

/// The wait for a revision.
pub(crate) struct Reach<'a> {
    progress: &'a Progress,
    lineage: u64,
    revision: Revision,
    place: Option<(u64, u64)>,
}

impl Future for Reach<'_> {
    type Output = Result<(), Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        if self.progress.has_reached(self.lineage, self.revision) {
            return Poll::Ready(Ok(()));
        }
        let mut waiting = self.progress.waiting();
        if self.progress.has_reached(self.lineage, self.revision) {
            return Poll::Ready(Ok(()));
        }
        if self.progress.is_closed() {
            return Poll::Ready(Err(Error::Closed));
        }
        let place = self.place.unwrap_or((self.revision.0, waiting.next));
        waiting.next = waiting.next.wrapping_add(u64::from(self.place.is_none()));
        waiting.wakers.insert(place, context.waker().clone());
        drop(waiting);
        self.place = Some(place);
        Poll::Pending
    }
}

impl Drop for Reach<'_> {
    fn drop(&mut self) {
        if let Some(place) = self.place {
            self.progress.waiting().wakers.remove(&place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, atomic::AtomicUsize};
    use std::task::Wake;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn an_announcement_wakes_only_waits_for_that_revision_or_older() {
        let progress = Progress::new(0, Revision(5));
        let counts: Vec<Arc<Count>> = (0..3).map(|_| Arc::default()).collect();
        let mut waits: Vec<_> =
            [5, 6, 8].map(|revision| Box::pin(progress.reach(0, Revision(revision)))).into();
        let poll = |waits: &mut Vec<Pin<Box<Reach<'_>>>>, at: usize| {
            let waker = Waker::from(counts[at].clone());
            waits[at].as_mut().poll(&mut Context::from_waker(&waker)).is_ready()
        };
        assert_eq!([0, 1, 2].map(|at| poll(&mut waits, at)), [true, false, false]);
        let woken = || [0, 1, 2].map(|at| counts[at].0.load(Ordering::SeqCst));
        let reached = progress.announce(Revision(7));
        assert_eq!((progress.revision(), woken()), (Revision(7), [0, 0, 0]));
        drop(reached);
        assert_eq!(woken(), [0, 1, 0]);
        assert_eq!([1, 2].map(|at| poll(&mut waits, at)), [true, false]);
        waits.clear();
        assert!(progress.waiting().wakers.is_empty());
    }

    #[test]
    fn a_later_lineage_ends_the_waits_of_an_earlier_one() {
        let progress = Progress::new(0, Revision(5));
        let waker = Waker::noop();
        let mut waits: Vec<_> = [(0, 6), (1, 3)]
            .map(|(lineage, revision)| Box::pin(progress.reach(lineage, Revision(revision))))
            .into();
        let mut poll = || {
            let mut poll = |at: usize| waits[at].as_mut().poll(&mut Context::from_waker(waker)).is_ready();
            [poll(0), poll(1)]
        };
        assert_eq!(poll(), [false, false]);
        progress.restart(1);
        assert_eq!((poll(), progress.revision()), ([true, false], Revision(0)));
        drop(progress.announce(Revision(3)));
        assert_eq!(poll(), [true, true]);
    }

    #[test]
    fn closing_ends_the_waits() {
        let progress = Progress::new(0, Revision(5));
        let count = Arc::<Count>::default();
        let waker = Waker::from(count.clone());
        let mut wait = Box::pin(progress.reach(0, Revision(6)));
        assert!(wait.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        progress.close();
        assert_eq!(count.0.load(Ordering::SeqCst), 1);
        assert!(matches!(
            wait.as_mut().poll(&mut Context::from_waker(&waker)),
            Poll::Ready(Err(Error::Closed))
        ));
    }
}
