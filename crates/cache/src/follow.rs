//! The one task that keeps a cache in step with its store.
//!
//! 1. Changes are applied here and nowhere else, in the order of revisions, a whole group at a time.
//! 2. A revision is announced after every change up to it was applied, whichever types they belong to.
//! 3. Watchers are woken once for a batch of changes, after it was announced, and before the writers are told: those are
//!    woken last, so that this thread goes on with them, and another takes the watchers.

use crate::{
    Error, Resource, Spec,
    cache::Routes,
    load::{self, Everything},
    log::Log,
    resource::{Applied, Core},
    waking::Waking,
};
use std::{
    collections::HashMap,
    mem,
    sync::{Arc, PoisonError, atomic::Ordering},
    time::{Duration, Instant},
};
use store::{Batch, Event, Follow, Follower, Revision};
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinSet,
};

/// How long to wait after the store could not be read, before it is tried again.
const RETRY: Duration = Duration::from_millis(500);

/// What the task is asked to do.
pub(crate) enum Command {
    /// Load a type and serve it.
    Add { spec: Arc<Spec>, reply: oneshot::Sender<Result<Arc<Resource>, Error>> },
    /// Stop serving a type.
    Remove { prefix: String, reply: oneshot::Sender<bool> },
}

/// A type that is being loaded, and what the store has told of it meanwhile.
struct Pending {
    ticket: u64,
    spec: Arc<Spec>,
    reply: oneshot::Sender<Result<Arc<Resource>, Error>>,
    events: Vec<Event>,
}

struct Loaded {
    ticket: u64,
    spec: Arc<Spec>,
    outcome: Result<Everything, Error>,
}

struct Task {
    core: Arc<Core>,
    routes: Arc<Routes>,
    waking: Waking,
    pending: HashMap<String, Pending>,
    loads: JoinSet<Loaded>,
    /// The number of the last load that was begun.
    ticket: u64,
    /// Up to where changes have been applied.
    revision: Revision,
}

/// Follows the store from a revision until the cache is dropped or the store closed.
pub(crate) async fn run(
    core: Arc<Core>,
    routes: Arc<Routes>,
    mut commands: mpsc::UnboundedReceiver<Command>,
    revision: Revision,
) {
    let waking = Waking::start();
    let mut task =
        Task { core, routes, waking, pending: HashMap::new(), loads: JoinSet::new(), ticket: 0, revision };
    let closed = Closing { core: task.core.clone(), routes: task.routes.clone() };
    while let Err(error) = task.follow(&mut commands).await {
        if matches!(error, store::Error::Closed) || !task.reload(&mut commands).await {
            break;
        }
    }
    drop(closed);
}

/// Tells everyone when the task ends, also if it does so by a panic.
struct Closing {
    core: Arc<Core>,
    routes: Arc<Routes>,
}

impl Drop for Closing {
    fn drop(&mut self) {
        self.core.progress.close();
        for resource in self.routes.read().unwrap_or_else(PoisonError::into_inner).values() {
            resource.interest().wake_all();
        }
    }
}

impl Task {
    /// Applies what the store tells; ends well when the cache was dropped.
    async fn follow(&mut self, commands: &mut mpsc::UnboundedReceiver<Command>) -> Result<(), store::Error> {
        let mut follower: Box<dyn Follower> = self.core.store.follow(Follow::after(self.revision))?;
        let mut tick = tokio::time::interval(self.core.options.tick());
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                command = commands.recv() => match command {
                    Some(command) => self.command(command),
                    None => return Ok(()),
                },
                Some(loaded) = self.loads.join_next() => {
                    if let Ok(loaded) = loaded {
                        self.install(loaded);
                    }
                }
                _ = tick.tick() => self.tick(),
                batch = follower.next() => self.apply(batch?),
            }
        }
    }

    fn apply(&mut self, batch: Batch) {
        let mut touched: Vec<Arc<Resource>> = Vec::new();
        let mut group: Vec<(Arc<Resource>, Vec<Applied>)> = Vec::new();
        for event in batch.events {
            let goes_on = event.group_goes_on;
            if let Some((resource, applied)) = self.read(event) {
                match group.iter_mut().find(|(own, _)| Arc::ptr_eq(own, &resource)) {
                    Some((_, changes)) => changes.push(applied),
                    None => group.push((resource, vec![applied])),
                }
            }
            if !goes_on {
                for (resource, changes) in group.drain(..) {
                    resource.apply(changes);
                    if !touched.iter().any(|own| Arc::ptr_eq(own, &resource)) {
                        touched.push(resource);
                    }
                }
            }
        }
        self.trim();
        self.revision = batch.revision;
        let reached = self.core.progress.announce(batch.revision);
        let now = Instant::now();
        for resource in touched {
            self.waking.wake(resource, now);
        }
        drop(reached);
    }

    /// The type that an event belongs to, and what it changes there.
    fn read(&mut self, event: Event) -> Option<(Arc<Resource>, Applied)> {
        let prefix = str::from_utf8(load::prefix_of(&event.key)).ok()?;
        if let Some(pending) = self.pending.get_mut(prefix) {
            pending.events.push(event);
            return None;
        }
        let resource = self.routes.read().unwrap_or_else(PoisonError::into_inner).get(prefix).cloned()?;
        if resource.with_state(|view, _| event.revision() <= view.revision) {
            return None;
        }
        let applied = resource.applied(&event)?;
        Some((resource, applied))
    }

    fn command(&mut self, command: Command) {
        match command {
            Command::Add { spec, reply } => {
                let prefix = spec.prefix().to_owned();
                let known = self.routes.read().unwrap_or_else(PoisonError::into_inner).contains_key(&prefix);
                if known || self.pending.contains_key(&prefix) {
                    reply.send(Err(Error::Exists { prefix })).ok();
                    return;
                }
                let ticket = self.load(spec.clone());
                self.pending.insert(prefix, Pending { ticket, spec, reply, events: Vec::new() });
            }
            Command::Remove { prefix, reply } => {
                let removed = self.routes.write().unwrap_or_else(PoisonError::into_inner).remove(&prefix);
                if let Some(resource) = &removed {
                    resource.remove();
                }
                let pending = self.pending.remove(&prefix);
                reply.send(removed.is_some() || pending.is_some()).ok();
                if let Some(pending) = pending {
                    pending.reply.send(Err(Error::Removed { prefix })).ok();
                }
            }
        }
    }

    /// Begins to load a type.
    fn load(&mut self, spec: Arc<Spec>) -> u64 {
        self.ticket += 1;
        let (store, ticket) = (self.core.store.clone(), self.ticket);
        self.loads.spawn(async move {
            let outcome = load::everything(store, vec![spec.clone()]).await;
            Loaded { ticket, spec, outcome }
        });
        ticket
    }

    /// Serves a type that was loaded, after what the store has told of it since.
    ///
    /// It may have been loaded at a later revision than the others are at: what the store is yet to tell of it up to
    /// there is in it already, and passed over.
    fn install(&mut self, loaded: Loaded) {
        let Loaded { ticket, spec, outcome } = loaded;
        if self.pending.get(spec.prefix()).is_none_or(|pending| pending.ticket != ticket) {
            return;
        }
        let Some(Pending { reply, events, .. }) = self.pending.remove(spec.prefix()) else { return };
        let view = match outcome.map(|everything| everything.views.into_iter().next()) {
            Ok(Some((_, view))) => view,
            Ok(None) => return,
            Err(error) => {
                reply.send(Err(error)).ok();
                return;
            }
        };
        let log = Log::new(view.revision);
        let resource = Arc::new(Resource::new(spec.clone(), self.core.clone(), view, log));
        let mut routes = self.routes.write().unwrap_or_else(PoisonError::into_inner);
        routes.insert(spec.prefix().to_owned(), resource.clone());
        drop(routes);
        let mut group = Vec::new();
        for event in events {
            if resource.with_state(|view, _| event.revision() > view.revision) {
                group.extend(resource.applied(&event));
            }
            if !event.group_goes_on {
                resource.apply(mem::take(&mut group));
            }
        }
        resource.apply(group);
        reply.send(Ok(resource)).ok();
    }

    /// Keeps the logs within their budget, with some room for what comes next; the largest gives first.
    fn trim(&self) {
        let budget = self.core.options.log_bytes;
        let total = || self.core.log_bytes.load(Ordering::Relaxed);
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

    fn tick(&self) {
        let now = Instant::now();
        for resource in self.routes.read().unwrap_or_else(PoisonError::into_inner).values() {
            resource.tick(now);
        }
    }

    /// Starts again from the newest state, after the store could not tell the changes up to it; false if there is
    /// nothing to go on with.
    async fn reload(&mut self, commands: &mut mpsc::UnboundedReceiver<Command>) -> bool {
        loop {
            let resources: Vec<Arc<Resource>> =
                self.routes.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect();
            let specs = resources.iter().map(|resource| resource.spec().clone()).collect();
            match load::everything(self.core.store.clone(), specs).await {
                Ok(Everything { revision, views }) => {
                    for (resource, (_, view)) in resources.iter().zip(views) {
                        resource.reset(view);
                    }
                    self.revision = self.revision.max(revision);
                    drop(self.core.progress.announce(revision));
                    self.load_again();
                    return true;
                }
                Err(Error::Closed) => return false,
                Err(_) => {}
            }
            match tokio::time::timeout(RETRY, commands.recv()).await {
                Ok(None) => return false,
                Ok(Some(command)) => self.command(command),
                Err(_) => {}
            }
        }
    }

    /// Loads what was being loaded once more: what the store has told of it meanwhile may have gaps.
    fn load_again(&mut self) {
        self.loads = JoinSet::new();
        let mut pending = mem::take(&mut self.pending);
        for pending in pending.values_mut() {
            pending.events.clear();
            pending.ticket = self.load(pending.spec.clone());
        }
        self.pending = pending;
    }
}
