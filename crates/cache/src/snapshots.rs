//! States of past revisions: those that a limited list has begun to return are kept for a while; any other
//! state that history still reaches is built again.
//!
//! A kept state shares unchanged entries with the current one, so it costs only what has changed since. A
//! state that is not kept is built from the nearest newer state by undoing the log, or, where the log in
//! memory does not reach, loaded from the store's history.
//!
//! A state can be read for as long as the store's history reaches its revision, however often it was used: a
//! kept state is dropped with that history.

use crate::{
    Entry, Error,
    entry::within,
    log::{KeyState, Log, Transition},
    open,
    resource::{Era, Resource},
    view::{Loaded, View},
};
use std::{
    ops::ControlFlow,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};
use store::Revision;

/// Up to how many changes are undone on the thread of the reader.
const FEW: usize = 256;

pub(crate) struct Snapshots {
    kept: Mutex<Vec<KeptSnapshot>>,
    retention: Duration,
    most: usize,
    /// One state is made at a time; a reader that waits here finds it kept.
    making: tokio::sync::Mutex<()>,
}

struct KeptSnapshot {
    view: View,
    used: Instant,
}

impl Snapshots {
    pub(crate) fn new(retention: Duration, most: usize) -> Self {
        Self { kept: Mutex::default(), retention, most, making: tokio::sync::Mutex::default() }
    }

    /// Keeps a state for the retention time after its last use, if it is still current when
    /// [`Snapshots::clear`] cannot run.
    pub(crate) fn keep(&self, view: View, is_current: impl FnOnce() -> bool) {
        let mut kept = self.kept();
        if !is_current() {
            return;
        }
        let used = Instant::now();
        match kept.iter_mut().find(|kept| kept.view.revision == view.revision) {
            Some(same) => same.used = used,
            None => kept.push(KeptSnapshot { view, used }),
        }
        let over = kept.len() > self.most;
        drop(kept);
        if over {
            self.drop_one();
        }
    }

    /// Drops states that were not used for the retention time, and those that the store's history no longer
    /// reaches.
    pub(crate) fn expire(&self, now: Instant, compacted: Revision) {
        let mut kept = self.kept();
        kept.retain(|kept| {
            kept.view.revision >= compacted && now.saturating_duration_since(kept.used) < self.retention
        });
        if kept.is_empty() {
            kept.shrink_to_fit();
        }
    }

    /// The most bytes that the kept states alone keep from being freed: those superseded since the oldest
    /// kept state that are not in the log, and those loaded for each.
    pub(crate) fn bytes(&self, now: &View, log: &Log) -> u64 {
        let kept = self.kept();
        let oldest = kept.iter().map(|kept| kept.view.superseded).min().unwrap_or(now.superseded);
        let superseded = now.superseded.saturating_sub(oldest).saturating_sub(log.bytes() as u64);
        superseded + kept.iter().map(|kept| kept.view.own_bytes).sum::<u64>()
    }

    /// Drops the least recently used state; false if none is kept. A continue token of that state stays
    /// valid: the state is built again.
    pub(crate) fn drop_one(&self) -> bool {
        let mut kept = self.kept();
        let idle = (0..kept.len()).min_by_key(|at| kept.get(*at).map(|kept| kept.used));
        idle.map(|idle| kept.swap_remove(idle)).is_some()
    }

    /// Forgets everything.
    pub(crate) fn clear(&self) {
        self.kept().clear();
    }

    pub(crate) fn len(&self) -> usize {
        self.kept().len()
    }

    fn get(&self, revision: Revision) -> Option<View> {
        let mut kept = self.kept();
        let found = kept.iter_mut().find(|kept| kept.view.revision == revision)?;
        found.used = Instant::now();
        Some(found.view.clone())
    }

    /// The kept state that is nearest to a revision among those after it.
    fn newer(&self, revision: Revision) -> Option<View> {
        let kept = self.kept();
        let newer = kept.iter().filter(|kept| kept.view.revision > revision);
        newer.min_by_key(|kept| kept.view.revision).map(|kept| kept.view.clone())
    }

    fn kept(&self) -> MutexGuard<'_, Vec<KeptSnapshot>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How to make a state that is not kept.
enum Recipe {
    /// Undo these changes, newest first.
    Undo { from: View, changes: Vec<Transition> },
    /// Load it from the store's history, sharing what has not changed since.
    Load { share: View },
}

impl Resource {
    /// The state at exactly a revision; [`Error::Expired`] if the store's history no longer reaches it.
    pub(crate) async fn exact(&self, revision: Revision) -> Result<View, Error> {
        self.check_served()?;
        let era = self.era();
        self.wait_for(era.lineage, revision).await?;
        if revision < self.core().store.compacted() {
            return Err(Error::Expired { requested: revision });
        }
        if let Some(view) = self.snapshots().get(revision) {
            return Ok(view);
        }
        let recipe = match self.recipe(revision) {
            Recipe::Undo { from, changes } if changes.len() <= FEW => {
                return Ok(undo(from, &changes, revision));
            }
            recipe => recipe,
        };
        let _one = self.snapshots().making.lock().await;
        if let Some(view) = self.snapshots().get(revision) {
            return Ok(view);
        }
        let view = match recipe {
            Recipe::Undo { from, changes } => spawn(move || Ok(undo(from, &changes, revision))).await?,
            Recipe::Load { share } => {
                let store = self.core().store.clone();
                let spec = self.spec().clone();
                spawn(move || load(&*store, &spec, revision, &share)).await?
            }
        };
        self.keep(view.clone(), era);
        Ok(view)
    }

    /// Keeps a state of an era that a token names; others make room for it.
    pub(crate) fn keep(&self, view: View, era: Era) {
        self.snapshots().keep(view, || self.era() == era);
        while self.snapshots().len() > 1 && self.snapshot_bytes() > self.core().budgets.snapshots() as u64 {
            self.snapshots().drop_one();
        }
    }

    fn recipe(&self, revision: Revision) -> Recipe {
        let newer = self.snapshots().newer(revision);
        self.with_state(|view, log| {
            let Some(changes) = log.after(revision) else { return Recipe::Load { share: view.clone() } };
            let from = newer.filter(|newer| newer.revision < view.revision).unwrap_or_else(|| view.clone());
            let changes = changes.take_while(|change| change.revision <= from.revision).cloned().collect();
            Recipe::Undo { from, changes }
        })
    }
}

async fn spawn(make: impl FnOnce() -> Result<View, Error> + Send + 'static) -> Result<View, Error> {
    tokio::task::spawn_blocking(make).await.unwrap_or(Err(Error::Closed))
}

fn undo(mut view: View, changes: &[Transition], revision: Revision) -> View {
    for change in changes.iter().rev() {
        view.undo(change);
    }
    view.revision = revision;
    view
}

fn load(
    store: &dyn store::Store,
    spec: &Arc<crate::Spec>,
    revision: Revision,
    share: &View,
) -> Result<View, Error> {
    let mut loaded = Vec::new();
    let mut own_bytes = 0;
    let prefix = format!("{}/", spec.prefix());
    let outcome = store.load(prefix.as_bytes(), Some(revision), &mut |found| {
        let shared = |key: &str| share.get(key);
        let found = read(spec, found, shared);
        if let Loaded::Entry(entry) = &found {
            let is_shared = shared(entry.key()).entry().is_some_and(|shared| Arc::ptr_eq(shared, entry));
            own_bytes += if is_shared { 0 } else { entry.size() as u64 };
        }
        loaded.push(found);
        ControlFlow::Continue(())
    });
    let opened = open::loaded(store, spec, &mut loaded);
    own_bytes += opened.iter().map(|entry| entry.size() as u64).sum::<u64>();
    match outcome {
        Err(store::Error::Compacted { requested, .. }) => Err(Error::Expired { requested }),
        Err(error) => Err(error.into()),
        Ok(_) => {
            let mut view = View::new(spec, revision, loaded);
            view.superseded = share.superseded;
            view.own_bytes = own_bytes;
            Ok(view)
        }
    }
}

/// The object of a loaded entry of the store. An entry of the same revision that `known` returns is shared.
pub(crate) fn read(
    spec: &Arc<crate::Spec>,
    found: Result<store::Entry, store::Unreadable>,
    known: impl FnOnce(&str) -> KeyState,
) -> Loaded {
    let read = found.and_then(|found| {
        if let Some(key) = within(spec, &found.key)
            && let KeyState::Entry(entry) = known(key)
            && entry.mod_revision() == found.head.mod_revision
        {
            return Ok(entry);
        }
        Ok(Arc::new(Entry::read(spec, &found.key, &found.head, &found.value)?))
    });
    match read {
        Ok(entry) => Loaded::Entry(entry),
        Err(why) => {
            let key = within(spec, why.key()).map_or_else(|| why.key().to_string().into(), Into::into);
            Loaded::Unreadable { key, why }
        }
    }
}
