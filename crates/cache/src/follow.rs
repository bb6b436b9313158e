//! The task that keeps a cache in step with its store: it loads types, expires logs, snapshots and chunks,
//! and applies changes that no writer or reader waits for.
//!
//! 1. A committed change is applied even if no writer and no reader waits for it.
//! 2. While writers apply their own changes, the task checks once a millisecond, and is not woken for every
//!    change.

use crate::{
    Error, Resource, Spec,
    apply::{self, Pending, Source},
    cache::Routes,
    lag::Next,
    load::{self, Everything},
    log::Log,
    memory,
    open::{self, Opened},
    resource::Core,
};
use std::{
    mem,
    sync::{Arc, PoisonError},
    time::{Duration, Instant},
};
use store::Follow;
use tasks::{Ended, Name};
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinSet,
};

/// How long to wait after the store could not be read, before it is tried again.
const RETRY: Duration = Duration::from_millis(500);
/// How long the task sleeps while writers apply changes themselves.
const LEAVE: Duration = Duration::from_millis(1);

/// How long to wait before values that could not be decrypted are tried again, if no reader asks.
const OPEN_AGAIN: Duration = Duration::from_secs(1);
/// The shortest pause between two rounds of opening such values.
const BETWEEN_ROUNDS: Duration = Duration::from_millis(200);

/// A command to the task.
pub(crate) enum Command {
    /// Load a type and serve it.
    Add { spec: Arc<Spec>, reply: oneshot::Sender<Result<Arc<Resource>, Error>> },
    /// Stop serving a type.
    Remove { prefix: String, reply: oneshot::Sender<bool> },
}

struct TypeLoaded {
    ticket: u64,
    spec: Arc<Spec>,
    outcome: Result<Everything, Error>,
}

/// The outcome of one step for a type that lags.
struct LagStep {
    prefix: String,
    outcome: StepOutcome,
}

enum StepOutcome {
    Opened(Opened),
    Loaded(Result<Everything, Error>),
}

struct Task {
    core: Arc<Core>,
    routes: Arc<Routes>,
    loads: JoinSet<TypeLoaded>,
    lag_steps: JoinSet<LagStep>,
    /// The round that opens values that cannot be decrypted; at most one at a time.
    round: JoinSet<()>,
    round_ended: Instant,
    /// The number of the last load that was begun.
    ticket: u64,
}

/// Starts the task, which runs until the cache is dropped or the store closed. Needs a runtime.
pub(crate) fn start(core: Arc<Core>, routes: Arc<Routes>, commands: mpsc::UnboundedReceiver<Command>) {
    let commands = Arc::new(tokio::sync::Mutex::new(commands));
    let closing = Arc::new(Closing { core, routes });
    let mut is_again = false;
    tasks::spawn(Name::CacheFollow, move || {
        let (closing, commands) = (closing.clone(), commands.clone());
        if mem::replace(&mut is_again, true) {
            apply::break_off(&closing.core, &closing.routes);
        }
        async move { run(&closing, &mut *commands.lock().await).await }
    })
    .detach();
}

async fn run(closing: &Closing, commands: &mut mpsc::UnboundedReceiver<Command>) -> Ended {
    let Closing { core, routes } = closing;
    let mut task = Task {
        core: core.clone(),
        routes: routes.clone(),
        loads: JoinSet::new(),
        lag_steps: JoinSet::new(),
        round: JoinSet::new(),
        round_ended: Instant::now(),
        ticket: 0,
    };
    loop {
        if core.progress.is_broken() && !task.reload(commands).await {
            return Ended::Done;
        }
        match task.follow(commands).await {
            Err(Stop::Store(store::Error::Closed)) | Ok(()) => return Ended::Done,
            Err(Stop::Broken) => {}
            Err(Stop::Store(_)) => {
                if !task.reload(commands).await {
                    return Ended::Done;
                }
            }
        }
    }
}

/// Why the changes of the store cannot be followed from where they were.
enum Stop {
    /// The follower failed.
    Store(store::Error),
    /// A panic interrupted the application of a change.
    Broken,
}

impl From<store::Error> for Stop {
    fn from(error: store::Error) -> Self {
        Self::Store(error)
    }
}

/// Closes the cache when the task has ended for good.
struct Closing {
    core: Arc<Core>,
    routes: Arc<Routes>,
}

impl Drop for Closing {
    fn drop(&mut self) {
        drop(self.core.applier.close());
        apply::close(&self.core, &self.routes);
    }
}

impl Task {
    /// Applies the changes of the store. Returns `Ok` after the cache was dropped.
    async fn follow(&mut self, commands: &mut mpsc::UnboundedReceiver<Command>) -> Result<(), Stop> {
        let follower = self.core.store.follow(Follow::after(self.core.progress.revision()))?;
        // Neither the follower nor a signal is of a later lineage than the cache.
        self.check_lineage()?;
        self.core.applier.with(|work| work.replace_source(Source::Follower(follower)));
        let mut tick = tokio::time::interval(self.core.options.tick());
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            let changed = self.core.store.changed(self.core.progress.revision());
            self.check_lineage()?;
            tokio::select! {
                biased;
                () = self.core.broken.notified() => return Err(Stop::Broken),
                command = commands.recv() => match command {
                    Some(command) => self.command(command),
                    None => return Ok(()),
                },
                Some(loaded) = self.loads.join_next() => {
                    if let Ok(loaded) = loaded {
                        self.install(loaded);
                    }
                }
                () = self.core.lagging.notified() => self.begin_lag_steps(),
                Some(step) = self.lag_steps.join_next() => {
                    if let Ok(step) = step {
                        self.finish_lag_step(step);
                    }
                }
                () = self.core.unavailable.asked.notified(), if self.round.is_empty() => self.begin_round(),
                () = tokio::time::sleep_until((self.round_ended + OPEN_AGAIN).into()),
                    if self.round.is_empty() && self.core.unavailable.has_any() => self.begin_round(),
                Some(_) = self.round.join_next() => {
                    self.core.unavailable.end();
                    self.round_ended = Instant::now();
                }
                _ = tick.tick() => self.tick(),
                changed = changed => {
                    changed?;
                    self.catch_up().await?;
                }
            }
        }
    }

    /// Fails if the store has begun another lineage: everything has to be loaded again.
    fn check_lineage(&self) -> Result<(), store::Error> {
        let (requested, compacted) = (self.core.progress.revision(), self.core.store.compacted());
        match self.core.store.lineage() == self.core.progress.lineage() {
            true => Ok(()),
            false => Err(store::Error::Compacted { requested, compacted }),
        }
    }

    /// Applies pending changes, also those that have to be read from the store's history.
    async fn catch_up(&self) -> Result<(), store::Error> {
        if self.core.catch_up() {
            return Ok(());
        }
        if self.core.progress.is_closed() {
            return Err(store::Error::Closed);
        }
        let source = self.core.applier.with(|work| match self.core.is_behind() {
            true => work.replace_source(Source::Away),
            false => Source::Away,
        });
        match source {
            Some(Source::Follower(mut follower)) => {
                let batch = follower.next().await?;
                self.core.applier.with(|work| {
                    work.apply(&self.core, batch);
                    work.replace_source(Source::Follower(follower));
                });
            }
            Some(Source::Failed(error)) => return Err(error),
            Some(Source::Away) => tokio::time::sleep(LEAVE).await,
            None => return Err(store::Error::Closed),
        }
        Ok(())
    }

    fn command(&mut self, command: Command) {
        match command {
            Command::Add { spec, reply } => {
                let prefix = spec.prefix().to_owned();
                let known = self.routes.read().unwrap_or_else(PoisonError::into_inner).contains_key(&prefix);
                let ticket = self.ticket + 1;
                // Changes of the type are kept from now on, before its load begins.
                let is_new = self.core.applier.with(|work| {
                    if known || work.pending.contains_key(&prefix) {
                        reply.send(Err(Error::Exists { prefix })).ok();
                        return false;
                    }
                    let pending = Pending { ticket, spec: spec.clone(), reply, events: Vec::new() };
                    work.pending.insert(prefix, pending).is_none()
                });
                if is_new == Some(true) {
                    self.load(spec);
                }
            }
            Command::Remove { prefix, reply } => {
                let removed = self.routes.write().unwrap_or_else(PoisonError::into_inner).remove(&prefix);
                if let Some(resource) = &removed {
                    resource.remove();
                }
                let pending = self.core.applier.with(|work| {
                    work.lagging.remove(&prefix);
                    work.pending.remove(&prefix)
                });
                let pending = pending.flatten();
                reply.send(removed.is_some() || pending.is_some()).ok();
                if let Some(pending) = pending {
                    pending.reply.send(Err(Error::Removed { prefix })).ok();
                }
            }
        }
    }

    /// Begins to load a type, with the next ticket.
    fn load(&mut self, spec: Arc<Spec>) {
        self.ticket += 1;
        let (store, ticket) = (self.core.store.clone(), self.ticket);
        self.loads.spawn(async move {
            let outcome = load::everything(store, vec![spec.clone()]).await;
            TypeLoaded { ticket, spec, outcome }
        });
    }

    /// Serves a type that was loaded, with the changes that came since.
    ///
    /// The load may be of a later revision than the one announced for the other types: changes up to the
    /// revision of the load are skipped.
    fn install(&mut self, loaded: TypeLoaded) {
        let TypeLoaded { ticket, spec, outcome } = loaded;
        self.core.applier.with(|work| {
            if work.pending.get(spec.prefix()).is_none_or(|pending| pending.ticket != ticket) {
                return;
            }
            let Some(Pending { reply, events, .. }) = work.pending.remove(spec.prefix()) else { return };
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
            let loaded_at = resource.with_state(|view, _| view.revision);
            let newer: Vec<_> = events.into_iter().filter(|event| event.revision() > loaded_at).collect();
            for same_revision in newer.chunk_by(|one, next| one.revision() == next.revision()) {
                let changes = same_revision.iter().filter_map(|event| resource.to_apply(event));
                let revision = same_revision.first().map_or(loaded_at, store::Event::revision);
                resource.apply(revision, changes.collect());
            }
            reply.send(Ok(resource)).ok();
        });
    }

    /// Opens the values that lagging types wait for, or loads the types again.
    fn begin_lag_steps(&mut self) {
        let steps = self.core.applier.with(|work| {
            let next = |(prefix, lag): (&String, &mut crate::lag::Lag)| {
                Some((prefix.clone(), lag.resource().spec().clone(), lag.next()?))
            };
            work.lagging.iter_mut().filter_map(next).collect::<Vec<_>>()
        });
        for (prefix, spec, next) in steps.into_iter().flatten() {
            let store = self.core.store.clone();
            match next {
                Next::Open(values) => self.lag_steps.spawn(async move {
                    let opened = tokio::task::spawn_blocking(move || open::all(&*store, &values)).await;
                    LagStep { prefix, outcome: StepOutcome::Opened(opened.unwrap_or_default()) }
                }),
                Next::Load => self.lag_steps.spawn(async move {
                    let outcome = load::everything(store, vec![spec]).await;
                    if outcome.is_err() {
                        tokio::time::sleep(RETRY).await;
                    }
                    LagStep { prefix, outcome: StepOutcome::Loaded(outcome) }
                }),
            };
        }
    }

    fn finish_lag_step(&mut self, step: LagStep) {
        let LagStep { prefix, outcome } = step;
        let is_done = self.core.applier.with(|work| {
            let lag = work.lagging.get_mut(&prefix)?;
            let resource = lag.resource().clone();
            let is_done = match outcome {
                StepOutcome::Opened(opened) => lag.catch_up(&opened),
                StepOutcome::Loaded(loaded) => {
                    let view = loaded.ok().and_then(|loaded| loaded.views.into_iter().next());
                    if let Some((_, view)) = view {
                        resource.reset(view, self.core.progress.lineage());
                        lag.loaded()
                    } else {
                        lag.not_loaded();
                        false
                    }
                }
            };
            if is_done {
                work.lagging.remove(&prefix);
            }
            work.wake(resource);
            Some(is_done)
        });
        if is_done.flatten() == Some(false) {
            self.begin_lag_steps();
        }
    }

    /// Begins to open the values of all types that cannot be decrypted.
    fn begin_round(&mut self) {
        let (core, routes) = (self.core.clone(), self.routes.clone());
        let not_before = self.round_ended + BETWEEN_ROUNDS;
        self.round.spawn(async move {
            tokio::time::sleep_until(not_before.into()).await;
            core.unavailable.begin();
            if !core.unavailable.take() {
                return;
            }
            let resources: Vec<Arc<Resource>> =
                routes.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect();
            let found = resources.into_iter().map(|resource| (resource.unavailable(), resource));
            let found: Vec<_> = found.filter(|(values, _)| !values.is_empty()).collect();
            let all: Vec<_> = found.iter().flat_map(|(values, _)| values.iter().cloned()).collect();
            let store = core.store.clone();
            let opened = tokio::task::spawn_blocking(move || open::all(&*store, &all)).await;
            let opened = opened.unwrap_or_default();
            core.applier.with(|_| {
                found.iter().for_each(|(values, resource)| resource.take_opened(values, &opened));
            });
        });
    }

    fn tick(&self) {
        let now = Instant::now();
        let routes = self.routes.read().unwrap_or_else(PoisonError::into_inner);
        for resource in routes.values() {
            resource.tick(now);
        }
        self.core.encodings.expire(now, self.core.options.encoding_retention);
        let resources: Vec<Arc<Resource>> = routes.values().cloned().collect();
        drop(routes);
        memory::drop_snapshots(&self.core, &resources);
    }

    /// Loads all types again after the follower failed; false if the cache was dropped or the store closed.
    async fn reload(&mut self, commands: &mut mpsc::UnboundedReceiver<Command>) -> bool {
        self.core.applier.clear_poison();
        drop(self.core.applier.with(|work| work.replace_source(Source::Away)));
        loop {
            let resources: Vec<Arc<Resource>> =
                self.routes.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect();
            let specs = resources.iter().map(|resource| resource.spec().clone()).collect();
            let lineage = self.core.store.lineage();
            match load::everything(self.core.store.clone(), specs).await {
                Ok(_) if self.core.store.lineage() != lineage => continue,
                Ok(Everything { revision, views }) => {
                    let is_other = self.core.progress.lineage() != lineage;
                    if is_other {
                        // Readers of the newest state wait until all types are reset.
                        self.core.progress.restart(lineage);
                    }
                    drop(self.core.applier.with(|work| std::mem::take(&mut work.lagging)));
                    for (resource, (_, view)) in resources.iter().zip(views) {
                        resource.reset(view, lineage);
                        resource.set_complete_to(None);
                    }
                    if is_other {
                        self.core.encodings.clear();
                    }
                    self.core.progress.set_whole();
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

    /// Restarts the loads of types that were being loaded: the changes kept for these types may be
    /// incomplete.
    fn load_again(&mut self) {
        self.loads = JoinSet::new();
        let again = self.core.applier.with(|work| {
            let numbered = work.pending.values_mut().zip(self.ticket + 1..);
            let again = numbered.map(|(pending, ticket)| {
                pending.events.clear();
                pending.ticket = ticket;
                pending.spec.clone()
            });
            again.collect::<Vec<_>>()
        });
        again.into_iter().flatten().for_each(|spec| self.load(spec));
    }
}
