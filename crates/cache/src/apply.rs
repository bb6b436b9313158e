//! Applying committed changes, under one lock.
//!
//! A writer that has committed a change, or a reader that waits for one, tries to take the lock and applies
//! all pending batches itself. So no writer waits for another task to be scheduled. The following task
//! (`follow`) applies changes that no writer or reader waits for, and batches that have to be read from the
//! store's history.
//!
//! 1. Changes are applied here and nowhere else, in the order of revisions, all changes of a revision
//!    together.
//! 2. A revision is announced after every change up to it was applied, whichever types they belong to, or put
//!    off by a type that lags (`lag`).
//! 3. The lock holder applies all pending batches and checks again after unlocking. So a task that finds the
//!    lock taken need not wait for it.
//! 4. The types of a batch are queued for the waking task after the batch was announced, and before the
//!    writers that wait for it are woken.
//! 5. If a panic interrupts the application of a change, nothing is read until everything was loaded again:
//!    no reader sees half of a change.

use crate::{
    Error, Resource, Spec,
    cache::Routes,
    lag::Lag,
    load, open,
    resource::{Core, ToApply},
    waking::Waking,
};
use std::{
    collections::HashMap,
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, atomic::Ordering},
    thread,
};
use store::{Batch, Event, Follower};
use tokio::sync::oneshot;

/// The lock under which changes are applied.
#[derive(Default)]
pub(crate) struct Applier {
    /// `None` before the cache follows its store, and after the cache was closed.
    work: Mutex<Option<Work>>,
}

/// The state that applying changes needs: the source of changes, and the types that are loaded or lag.
pub(crate) struct Work {
    routes: Arc<Routes>,
    /// The types that are being loaded, by their prefixes.
    pub(crate) pending: HashMap<String, Pending>,
    /// The types that lag, by their prefixes.
    pub(crate) lagging: HashMap<String, Lag>,
    source: Source,
    waking: Waking,
}

/// Where changes come from.
pub(crate) enum Source {
    Follower(Box<dyn Follower>),
    /// The follower ended with this error.
    Failed(store::Error),
    /// The following task holds the follower, or is about to open another one.
    Away,
}

/// A type that is being loaded, and its changes since the load began.
pub(crate) struct Pending {
    pub(crate) ticket: u64,
    pub(crate) spec: Arc<Spec>,
    pub(crate) reply: oneshot::Sender<Result<Arc<Resource>, Error>>,
    pub(crate) events: Vec<Event>,
}

impl Applier {
    /// Starts the waking task; changes are applied once there is a follower. Needs a runtime.
    pub(crate) fn open(&self, routes: Arc<Routes>) {
        let work = Work {
            pending: HashMap::new(),
            lagging: HashMap::new(),
            source: Source::Away,
            waking: Waking::start(routes.clone()),
            routes,
        };
        *self.lock() = Some(work);
    }

    /// Takes the state out of the lock, so that it is dropped outside of it.
    pub(crate) fn close(&self) -> Option<Work> {
        self.lock().take()
    }

    /// Runs `act` under the lock; `None` after [`Applier::close`].
    pub(crate) fn with<T>(&self, act: impl FnOnce(&mut Work) -> T) -> Option<T> {
        self.lock().as_mut().map(act)
    }

    /// Clears the poison of the lock: the state that a panic left behind is loaded again before it is used.
    pub(crate) fn clear_poison(&self) {
        self.work.clear_poison();
    }

    fn lock(&self) -> MutexGuard<'_, Option<Work>> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Core {
    /// Applies all pending batches that are in memory, unless another task holds the lock. True if it applied
    /// any.
    pub(crate) fn catch_up(&self) -> bool {
        let mut has_applied = false;
        while self.is_behind() {
            let mut work = match self.applier.work.try_lock() {
                Ok(work) => work,
                Err(TryLockError::WouldBlock | TryLockError::Poisoned(_)) => break,
            };
            let Some(work) = &mut *work else { break };
            let Some(batch) = work.next() else { break };
            work.apply(self, batch);
            has_applied = true;
        }
        has_applied
    }

    /// Whether the store has changes that are not applied yet.
    pub(crate) fn is_behind(&self) -> bool {
        self.store.known_revision() > self.progress.revision()
    }
}

impl Work {
    /// Sets where changes come from, and returns the previous source.
    pub(crate) fn replace_source(&mut self, source: Source) -> Source {
        mem::replace(&mut self.source, source)
    }

    /// The next batch, if it is in memory. The following task reads batches from history.
    fn next(&mut self) -> Option<Batch> {
        let Source::Follower(follower) = &mut self.source else { return None };
        match follower.try_next()? {
            Ok(batch) => Some(batch),
            Err(error) => {
                self.source = Source::Failed(error);
                None
            }
        }
    }

    pub(crate) fn apply(&mut self, core: &Core, batch: Batch) {
        let routes = self.routes.clone();
        let _halfway = Halfway { core, routes: &routes };
        let mut dirty: Vec<Arc<Resource>> = Vec::new();
        self.put_off(core, &batch);
        let mut events = batch.events.into_iter().peekable();
        while let Some(revision) = events.peek().map(Event::revision) {
            let mut changes: Vec<(Arc<Resource>, Vec<ToApply>)> = Vec::new();
            while let Some(event) = events.next_if(|event| event.revision() == revision) {
                let Some((resource, applied)) = self.read(event) else { continue };
                match changes.iter_mut().find(|(own, _)| Arc::ptr_eq(own, &resource)) {
                    Some((_, changes)) => changes.push(applied),
                    None => changes.push((resource, vec![applied])),
                }
            }
            for (resource, changes) in changes {
                resource.apply(revision, changes);
                if !dirty.iter().any(|own| Arc::ptr_eq(own, &resource)) {
                    dirty.push(resource);
                }
            }
        }
        self.trim(core);
        let reached = core.progress.announce(batch.revision);
        for resource in dirty {
            self.waking.wake(resource);
        }
        drop(reached);
    }

    /// The type that an event belongs to, and what it changes there.
    fn read(&mut self, event: Event) -> Option<(Arc<Resource>, ToApply)> {
        let prefix = str::from_utf8(load::prefix_of(&event.key)).ok()?;
        if let Some(pending) = self.pending.get_mut(prefix) {
            pending.events.push(event);
            return None;
        }
        if let Some(lag) = self.lagging.get_mut(prefix)
            && event.revision() >= lag.from()
        {
            lag.push(event);
            return None;
        }
        let resource = self.route(prefix)?;
        if resource.with_state(|view, _| event.revision() <= view.revision) {
            return None;
        }
        let applied = resource.to_apply(&event)?;
        Some((resource, applied))
    }

    fn route(&self, prefix: &str) -> Option<Arc<Resource>> {
        self.routes.read().unwrap_or_else(PoisonError::into_inner).get(prefix).cloned()
    }

    /// Puts off the changes of types that begin to lag, from the first value that cannot be decrypted without
    /// waiting.
    fn put_off(&mut self, core: &Core, batch: &Batch) {
        for event in batch.events.iter().filter(|event| open::unavailable(&event.value).is_some()) {
            let Ok(prefix) = str::from_utf8(load::prefix_of(&event.key)) else { continue };
            if self.pending.contains_key(prefix) || self.lagging.contains_key(prefix) {
                continue;
            }
            if let Some(resource) = self.route(prefix) {
                self.lagging.insert(prefix.to_owned(), Lag::begin(resource, event.revision()));
                core.lagging.notify_one();
            }
        }
    }

    /// Queues the watchers of a type to be woken.
    pub(crate) fn wake(&self, resource: Arc<Resource>) {
        self.waking.wake(resource);
    }

    /// Trims the logs to somewhat less than their budget, the largest log first.
    pub(crate) fn trim(&self, core: &Core) {
        let budget = core.budgets.log();
        let total = || core.log_bytes.load(Ordering::Relaxed);
        if total() <= budget {
            return;
        }
        let resources: Vec<Arc<Resource>> =
            self.routes.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect();
        let room = budget - budget / 8;
        while let Some(excess) = total().checked_sub(room).filter(|excess| *excess > 0)
            && let Some(largest) = resources.iter().max_by_key(|resource| resource.log_bytes())
            && largest.log_bytes() > 0
        {
            largest.trim(excess.min(largest.log_bytes().div_ceil(4)));
        }
    }
}

/// A guard: if a panic drops it, all types are loaded again.
struct Halfway<'a> {
    core: &'a Core,
    routes: &'a Routes,
}

impl Drop for Halfway<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            break_off(self.core, self.routes);
        }
    }
}

/// Refuses reads and ends all watches until the following task has loaded all types again.
pub(crate) fn break_off(core: &Core, routes: &Routes) {
    core.progress.set_broken();
    wake_all(routes);
    core.broken.notify_one();
}

fn wake_all(routes: &Routes) {
    for resource in routes.read().unwrap_or_else(PoisonError::into_inner).values() {
        resource.watcher_index().wake_all();
    }
}

/// Ends all waits and wakes all watchers: the cache no longer follows its store.
pub(crate) fn close(core: &Core, routes: &Routes) {
    core.progress.close();
    wake_all(routes);
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic, reason = "test code")]

    use super::*;
    use crate::{
        Cache, CacheOptions, Change, Freshness,
        watch::{Start, WatchOptions},
    };
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use store::memory::Memory;

    #[tokio::test]
    async fn after_a_panic_halfway_everything_is_loaded_again() {
        let specs = [Spec::cluster("nodes").unwrap()];
        let cache = Cache::open(Arc::new(Memory::default()), specs, CacheOptions::default()).await.unwrap();
        let nodes = cache.resource("nodes").unwrap();
        let write =
            |name: &str| Change::put(&nodes, "", name, format!(r#"{{"metadata":{{"name":"{name}"}}}}"#));
        cache.commit(write("a")).await.unwrap();
        let mut watcher = nodes.watch(WatchOptions::new(Start::After(cache.revision()))).await.unwrap();
        let core = cache.core();
        let halfway = AssertUnwindSafe(|| {
            core.applier.with(|work| {
                let _halfway = Halfway { core, routes: &work.routes };
                panic!("a change is half applied");
            })
        });
        catch_unwind(halfway).unwrap_err();
        assert!(cache.is_recovering());
        assert!(matches!(nodes.get("", "a", Freshness::Any).await, Err(Error::Recovering)));
        assert!(matches!(watcher.next().await, Err(Error::Recovering)));
        while cache.is_recovering() {
            tokio::task::yield_now().await;
        }
        assert!(nodes.get("", "a", Freshness::MostRecent).await.unwrap().is_some());
        cache.commit(write("b")).await.unwrap();
        assert!(nodes.get("", "b", Freshness::MostRecent).await.unwrap().is_some());
    }
}
