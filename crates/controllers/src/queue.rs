//! The work queue of a controller: a set of keys, each with the time when it is due. A bounded number of keys
//! is reconciled at the same time.
//!
//! A key that is added while it is being reconciled is reconciled once more afterwards, so no change is
//! missed. A key whose reconciliation failed is due again after a pause that grows with each failure in a
//! row. Keys are due by the clock of the server: one that is moved past that time makes them due.

use crate::Context;
use crate::families::QueueCounts;
use clock::{Instant, timeout_at};
use schema::Status;
use schema::status::Reason;
use std::collections::{BTreeSet, HashMap};
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::sleep;

/// The pause after the first failure.
const FIRST_PAUSE: Duration = Duration::from_millis(5);
/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// How often a queue checks whether the term, which is over, was renewed.
const TERM_LOOK: Duration = Duration::from_secs(1);
/// The number of failures in a row from which on failures of a key are logged: a single failure is mostly a
/// conflict of two writes.
const LOGGED_FROM: u32 = 3;

/// A key of a work queue.
pub(crate) trait Key: Clone + Debug + Eq + Ord + Hash + Send + 'static {}

impl<K: Clone + Debug + Eq + Ord + Hash + Send + 'static> Key for K {}

/// The time after which a key is reconciled again although nothing has changed; `None` for never.
pub(crate) type RequeueAfter = Option<Duration>;

/// A controller's reconcile function.
pub(crate) trait Reconcile: Send + Sync + 'static {
    /// The key of its work queue.
    type Key: Key;

    /// Brings the object that a key names to its desired state.
    fn reconcile(&self, key: &Self::Key) -> impl Future<Output = Result<RequeueAfter, Status>> + Send;
}

/// A work queue: the keys that are to be reconciled.
pub(crate) struct Queue<K> {
    state: Mutex<State<K>>,
    added: Notify,
    counts: QueueCounts,
}

struct State<K> {
    /// When a key is due.
    due: HashMap<K, Instant>,
    /// The same by time.
    order: BTreeSet<(Instant, K)>,
    /// The keys that are being reconciled; with the time when a key is due again, if it was added meanwhile.
    running: HashMap<K, Option<Instant>>,
    /// The number of failures in a row of each key.
    failures: HashMap<K, u32>,
}

impl<K: Key> Default for Queue<K> {
    fn default() -> Self {
        let state = State {
            due: HashMap::new(),
            order: BTreeSet::new(),
            running: HashMap::new(),
            failures: HashMap::new(),
        };
        Self { state: Mutex::new(state), added: Notify::new(), counts: QueueCounts::default() }
    }
}

impl<K: Key> Queue<K> {
    /// Adds a key that is due immediately.
    pub(crate) fn add(&self, key: K) {
        self.add_at(key, Instant::now());
    }

    /// Adds keys that are due immediately.
    pub(crate) fn extend(&self, keys: impl IntoIterator<Item = K>) {
        keys.into_iter().for_each(|key| self.add(key));
    }

    /// Adds a key that is due after a time; the earliest due time of a key counts.
    pub(crate) fn add_after(&self, key: K, after: Duration) {
        self.add_at(key, Instant::now() + after);
    }

    fn add_at(&self, key: K, at: Instant) {
        let (is_first, waiting) = {
            let mut state = self.lock();
            (state.add(key, at), state.due.len())
        };
        self.counts.added(waiting);
        if is_first {
            self.added.notify_one();
        }
    }

    /// How many keys wait.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.lock().due.len()
    }

    /// Reconciles keys that are due, at most `at_once` at the same time, for as long as this future is
    /// polled. No reconciliation begins after the term of the server.
    pub(crate) async fn work<R: Reconcile<Key = K>>(
        &self,
        context: &Context,
        at_once: usize,
        worker: Arc<R>,
    ) {
        self.counts.name(context.name);
        let mut steps = JoinSet::new();
        let mut keys: HashMap<Id, (K, u64)> = HashMap::new();
        loop {
            let wake = self.lock().next_due();
            let now = Instant::now();
            if steps.len() < at_once && wake.is_some_and(|at| at <= now) {
                if context.term.is_over() {
                    sleep(TERM_LOOK).await;
                    continue;
                }
                let taken = {
                    let mut state = self.lock();
                    state.take(now).map(|key| (key, state.due.len()))
                };
                if let Some((key, waiting)) = taken {
                    let due_for = wake.map(|at| now.saturating_duration_since(at)).unwrap_or_default();
                    let work = self.counts.begun(due_for, waiting);
                    let (worker, started) = (worker.clone(), key.clone());
                    let handle = steps.spawn(async move { worker.reconcile(&started).await });
                    keys.insert(handle.id(), (key, work));
                }
                continue;
            }
            let is_full = steps.len() >= at_once;
            tokio::select! {
                Some(step) = steps.join_next_with_id() => {
                    let (id, outcome) = match step {
                        Ok((id, outcome)) => (id, outcome),
                        Err(error) => (error.id(), Err(panicked(&error))),
                    };
                    if let Some((key, work)) = keys.remove(&id) {
                        self.counts.ended(work, outcome.is_err());
                        self.finish(context, key, outcome);
                    }
                }
                () = self.wait_until(wake), if !is_full => {}
            }
        }
    }

    /// Waits until a time, or until something was added.
    async fn wait_until(&self, at: Option<Instant>) {
        match at {
            // Either outcome leads to another look.
            Some(at) => drop(timeout_at(at, self.added.notified()).await),
            None => self.added.notified().await,
        }
    }

    /// Notes the outcome of a reconciliation: a key that failed, or wants to be reconciled again, is added.
    fn finish(&self, context: &Context, key: K, outcome: Result<RequeueAfter, Status>) {
        let mut state = self.lock();
        let added = state.running.remove(&key).flatten();
        let again = match outcome {
            Ok(again) => {
                context.counters.count_done();
                state.failures.remove(&key);
                again.map(|after| Instant::now() + after)
            }
            Err(error) => {
                context.counters.count_failed();
                let failures = state.failures.entry(key.clone()).or_default();
                *failures = failures.saturating_add(1);
                let failures = *failures;
                if failures >= LOGGED_FROM && error.reason != Reason::Conflict {
                    log::warn!(controller = context.name, key:?, failures, error:% = error.message; "a step failed and is tried again");
                }
                Some(Instant::now() + pause(failures))
            }
        };
        if let Some(at) = [added, again].into_iter().flatten().min() {
            state.add(key, at);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<K>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Key> State<K> {
    /// Adds a key; true if the key is due before all others.
    fn add(&mut self, key: K, at: Instant) -> bool {
        if let Some(added) = self.running.get_mut(&key) {
            *added = Some(added.map_or(at, |known| known.min(at)));
            return false;
        }
        match self.due.get(&key) {
            Some(known) if *known <= at => return false,
            Some(known) => drop(self.order.remove(&(*known, key.clone()))),
            None => {}
        }
        let is_first = self.next_due().is_none_or(|first| at < first);
        self.due.insert(key.clone(), at);
        self.order.insert((at, key));
        is_first
    }

    fn next_due(&self) -> Option<Instant> {
        self.order.first().map(|(at, _)| *at)
    }

    /// The first key that is due by `now`; the key counts as being reconciled from here on.
    fn take(&mut self, now: Instant) -> Option<K> {
        if self.next_due()? > now {
            return None;
        }
        let (_, key) = self.order.pop_first()?;
        self.due.remove(&key);
        if self.due.is_empty() {
            self.due.shrink_to_fit();
        }
        self.running.insert(key.clone(), None);
        Some(key)
    }
}

fn pause(failures: u32) -> Duration {
    FIRST_PAUSE.saturating_mul(1 << failures.saturating_sub(1).min(20)).min(LONGEST_PAUSE)
}

fn panicked(error: &JoinError) -> Status {
    Status::internal_error(&error.to_string())
}

#[cfg(test)]
mod tests;
