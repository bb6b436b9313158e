//! The committing thread: the only writer of the engine.
//!
//! It takes every change that is waiting, judges each against the heads and the changes before it, writes all of them as
//! one batch with one sync, and only then makes them visible and answers. A refused change is answered with its batch
//! too, because what refused it may be a change of that very batch, which is not durable before the sync.
//!
//! When a write fails, nothing of its batch is acknowledged, every writer in it gets an error with an unknown outcome, and the
//! store takes no writes until [`recovery`](super::recovery) has made the engine usable again.

use super::{
    clock,
    engine::{Durability, Rows, WriteError},
    files::Watermark,
    layout::{self, Logged, Reach},
    reader::{Job, Reply},
    recovery::{self, Journal},
    shared::Shared,
};
use crate::{
    Change, Committed, Conflict, Error, Event, Fate, Head, Health, Key, Kind, Op, Returning, Revision,
    Stored, feed::check_reach,
};
use bytes::Bytes;
use std::{
    cell::Cell,
    collections::HashMap,
    io,
    sync::{
        Arc, PoisonError,
        mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError},
    },
    time::{Duration, Instant},
};
use tokio::sync::oneshot;

/// A batch takes no further change past this many bytes.
const BATCH_BYTES: usize = 4 << 20;
/// A batch takes no more changes, accepted or refused.
const BATCH_CHANGES: usize = 4096;
/// The first and the longest pause between attempts to recover.
const RETRY: Duration = Duration::from_millis(50);
const RETRY_MAX: Duration = Duration::from_secs(2);

/// What the committer is asked to do.
pub(super) enum Command {
    /// Commit a change.
    Commit { change: Change, reply: Reply },
    /// Give up history before a revision.
    Compact { to: Revision, reply: oneshot::Sender<Result<(), Error>> },
    /// Remove rows that history no longer needs, up to a revision.
    Sweep { removals: Vec<Vec<u8>>, swept: Revision, done: Sender<()> },
    /// End.
    Close,
}

/// The committing thread's own state.
pub(super) struct Committer {
    pub(super) shared: Arc<Shared>,
    pub(super) commands: Receiver<Command>,
    pub(super) reader: Sender<Job>,
    pub(super) watermark: Watermark,
    pub(super) journal: Cell<Journal>,
}

/// A change on its way through a batch.
struct Pending {
    verdict: Verdict,
    reply: Reply,
}

enum Verdict {
    /// With the key if the value of the previous entry has to be read.
    Accepted {
        outcome: Committed,
        wanted: Option<Key>,
    },
    Refused {
        conflict: Box<Conflict>,
        wants_value: bool,
    },
}

/// The changes of one batch and the rows that they write.
struct Batch {
    next: Revision,
    overlay: HashMap<Key, Option<Head>>,
    rows: Rows,
    events: Vec<Event>,
    pending: Vec<Pending>,
}

enum Flow {
    Go,
    End,
}

impl Committer {
    /// Runs until the store is closed.
    pub(super) fn run(mut self) {
        let mut carried = None;
        loop {
            let command = match carried.take() {
                Some(command) => command,
                None => match self.commands.recv() {
                    Ok(command) => command,
                    Err(_) => break,
                },
            };
            if matches!(self.handle(command, &mut carried), Flow::End) {
                break;
            }
            if !self.shared.health().is_good() && matches!(self.recover(carried.take()), Flow::End) {
                break;
            }
        }
    }

    fn handle(&mut self, command: Command, carried: &mut Option<Command>) -> Flow {
        match command {
            Command::Commit { change, reply } => self.commit(change, reply, carried),
            Command::Compact { to, reply } => {
                reply.send(self.compact(to)).ok();
            }
            Command::Sweep { removals, swept, done } => {
                self.sweep(removals, swept);
                drop(done);
            }
            Command::Close => return Flow::End,
        }
        Flow::Go
    }

    /// Commits `change` and every change that waits behind it; `carried` takes a command that is something else.
    fn commit(&mut self, change: Change, reply: Reply, carried: &mut Option<Command>) {
        let mut batch = Batch::new(self.shared.feed.revision());
        batch.add(&self.shared, change, reply);
        while batch.rows.bytes() < BATCH_BYTES && batch.pending.len() < BATCH_CHANGES {
            match self.commands.try_recv() {
                Ok(Command::Commit { change, reply }) => batch.add(&self.shared, change, reply),
                Ok(other) => {
                    *carried = Some(other);
                    break;
                }
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => break,
            }
        }
        if batch.events.is_empty() {
            self.answer(batch.pending);
            return;
        }
        let first = batch.events.first().map(Event::revision).unwrap_or_default();
        let tick = self.lock_clock().due(first, clock::now(), self.shared.options.tick());
        if let Some(tick) = tick {
            batch.rows.put(layout::numbered(layout::TICK, tick.first), tick.millis.to_le_bytes().into());
        }
        match self.write(batch.rows, Durability::Synced) {
            Ok(()) => {
                if let Some(tick) = tick {
                    self.lock_clock().push(tick);
                }
                self.publish(batch.events, batch.overlay);
                self.answer(batch.pending);
            }
            Err(error) => self.refuse(batch.pending, error),
        }
    }

    fn compact(&mut self, to: Revision) -> Result<(), Error> {
        let reach = self.shared.reach();
        check_reach(to, Revision::ZERO, self.shared.feed.revision())?;
        if to <= reach.compacted {
            return Ok(());
        }
        let mut rows = Rows::default();
        rows.put(layout::STATE.into(), layout::state_row(&Reach { compacted: to, ..reach }));
        self.write(rows, Durability::Synced).map_err(|error| self.fail(error))?;
        self.shared.raise_compacted(to);
        self.shared.feed.trim(to);
        Ok(())
    }

    fn sweep(&mut self, removals: Vec<Vec<u8>>, swept: Revision) {
        let reach = Reach { swept, ..self.shared.reach() };
        let mut rows = Rows::default();
        removals.into_iter().for_each(|row| rows.remove(row));
        for tick in self.lock_clock().take_before(reach.compacted) {
            rows.remove(layout::numbered(layout::TICK, tick.first));
        }
        rows.put(layout::STATE.into(), layout::state_row(&reach));
        match self.write(rows, Durability::Lazy) {
            Ok(()) => self.shared.set_swept(swept),
            Err(error) => {
                self.fail(error);
            }
        }
    }

    fn write(&self, rows: Rows, durability: Durability) -> Result<(), WriteError> {
        let engine = self.shared.engine.read().unwrap_or_else(PoisonError::into_inner);
        match engine.as_ref() {
            Some(engine) => engine.write(rows, durability, self.shared.options.media.as_ref()),
            None => Err(WriteError::Stopped),
        }
    }

    /// Makes durable changes visible. The heads stay locked until the revision is announced, so that no reader sees an
    /// entry that is newer than the newest revision.
    fn publish(&self, events: Vec<Event>, overlay: HashMap<Key, Option<Head>>) {
        let Some(newest) = events.last().map(Event::revision) else { return };
        // The watermark only guards against lost files: a commit that is durable without it stays acknowledged.
        self.watermark.write(newest).ok();
        let mut heads = self.shared.heads.write().unwrap_or_else(PoisonError::into_inner);
        for (key, head) in overlay {
            match head {
                Some(head) => heads.put(key.as_bytes(), &head),
                None => heads.remove(key.as_bytes()),
            }
        }
        self.shared.feed.publish(events, newest);
    }

    fn answer(&self, pending: Vec<Pending>) {
        for Pending { verdict, reply } in pending {
            match verdict {
                Verdict::Accepted { outcome, wanted: None } => {
                    reply.send(Ok(outcome)).ok();
                }
                Verdict::Accepted { outcome, wanted: Some(key) } => {
                    self.reader.send(Job::Committed { outcome, key, reply }).ok();
                }
                Verdict::Refused { conflict, wants_value: false } => {
                    reply.send(Err(conflict.into())).ok();
                }
                Verdict::Refused { conflict, wants_value: true } => {
                    self.reader.send(Job::Refused { conflict, reply }).ok();
                }
            }
        }
    }

    /// Answers the writers of a failed batch: the outcome of accepted changes is unknown, refused ones changed nothing.
    fn refuse(&self, pending: Vec<Pending>, error: WriteError) {
        let error = self.fail(error);
        for Pending { verdict, reply } in pending {
            let fate = match verdict {
                Verdict::Accepted { .. } => Fate::Unknown,
                Verdict::Refused { .. } => Fate::NotWritten,
            };
            reply.send(Err(error.with_fate(fate))).ok();
        }
    }

    /// Stops taking writes; the health that is set here ends only with a recovery.
    fn fail(&self, error: WriteError) -> Error {
        if !matches!(error, WriteError::Io(_)) {
            self.journal.set(Journal::Suspect);
        }
        let cause = match error {
            WriteError::Io(error) | WriteError::Sync(error) => error,
            WriteError::Stopped => match self.probe() {
                Err(error) => error,
                Ok(()) => {
                    io::Error::other("the storage engine has stopped after an error in its background work")
                }
            },
        };
        let error = Error::io(cause, Fate::Unknown);
        self.shared.set_health(Health::Failing(error.with_fate(Fate::NotWritten)));
        error
    }

    fn probe(&self) -> io::Result<()> {
        recovery::probe(&self.shared)
    }

    /// Refuses writes and tries to recover, until that works or the store is closed.
    fn recover(&mut self, carried: Option<Command>) -> Flow {
        if let Some(command) = carried
            && matches!(self.turn_away(command), Flow::End)
        {
            return Flow::End;
        }
        let mut pause = RETRY;
        let mut attempt_at = Instant::now() + pause;
        loop {
            let left = attempt_at.saturating_duration_since(Instant::now());
            match self.commands.recv_timeout(left) {
                Ok(command) => {
                    if matches!(self.turn_away(command), Flow::End) {
                        return Flow::End;
                    }
                }
                Err(RecvTimeoutError::Disconnected) => return Flow::End,
                Err(RecvTimeoutError::Timeout) => match recovery::attempt(&self.shared, self.journal.get()) {
                    Ok(survivors) => {
                        self.adopt(survivors);
                        self.journal.set(Journal::Sound);
                        self.shared.set_health(Health::Good);
                        return Flow::Go;
                    }
                    Err(error) => {
                        self.shared.set_health(Health::Failing(error));
                        pause = (2 * pause).min(RETRY_MAX);
                        attempt_at = Instant::now() + pause;
                    }
                },
            }
        }
    }

    /// Answers a command while writes fail.
    fn turn_away(&self, command: Command) -> Flow {
        match command {
            Command::Commit { reply, .. } => {
                reply.send(Err(self.failing())).ok();
            }
            Command::Compact { reply, .. } => {
                reply.send(Err(self.failing())).ok();
            }
            Command::Sweep { done, .. } => drop(done),
            Command::Close => return Flow::End,
        }
        Flow::Go
    }

    fn failing(&self) -> Error {
        match self.shared.health() {
            Health::Failing(error) => error,
            _ => Error::Closed,
        }
    }

    /// Makes visible what a failed write left on disk after all.
    fn adopt(&self, survivors: Vec<Event>) {
        let overlay = survivors.iter().map(|event| {
            let head = (event.kind == Kind::Put).then_some(event.head);
            (event.key.clone(), head)
        });
        let overlay = overlay.collect();
        self.publish(survivors, overlay);
    }

    fn lock_clock(&self) -> std::sync::MutexGuard<'_, clock::Clock> {
        self.shared.clock.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Batch {
    fn new(current: Revision) -> Self {
        Self {
            next: current.next(),
            overlay: HashMap::new(),
            rows: Rows::default(),
            events: Vec::new(),
            pending: Vec::new(),
        }
    }

    /// Judges a change, and stages it if its precondition holds.
    fn add(&mut self, shared: &Shared, change: Change, reply: Reply) {
        let found = match self.overlay.get(&change.key) {
            Some(staged) => *staged,
            None => shared.head(change.key.as_bytes()),
        };
        let verdict = match change.check(found.as_ref()) {
            Err(conflict) => {
                let wants_value = change.wants_found_value() && conflict.found.is_some();
                Verdict::Refused { conflict, wants_value }
            }
            Ok(()) => {
                let is_wanted = change.returning == Returning::Value && found.is_some();
                let wanted = is_wanted.then(|| change.key.clone());
                Verdict::Accepted { outcome: self.stage(change, found), wanted }
            }
        };
        self.pending.push(Pending { verdict, reply });
    }

    fn stage(&mut self, change: Change, previous: Option<Head>) -> Committed {
        let revision = self.next;
        self.next = revision.next();
        let create_revision = previous.map_or(revision, |head| head.create_revision);
        let (kind, value) = match change.op {
            Op::Put(value) => (Kind::Put, value),
            Op::Delete => (Kind::Delete, Bytes::new()),
        };
        let head = Head { create_revision, mod_revision: revision };
        let logged = Logged { key: change.key.clone(), kind, head, previous };
        put_rows(&mut self.rows, &logged, (kind == Kind::Put).then_some(&value));
        self.overlay.insert(change.key, (kind == Kind::Put).then_some(head));
        self.events.push(logged.event(Ok(value)));
        Committed { revision, create_revision, previous: previous.map(|head| Stored { head, value: None }) }
    }
}

/// The rows of one change; a put without a value is an entry whose value is lost.
pub(super) fn put_rows(rows: &mut Rows, logged: &Logged, value: Option<&[u8]>) {
    let key = logged.key.as_bytes();
    let revision = logged.head.mod_revision;
    let version_key = layout::index_key(key, revision);
    let version_row = layout::version_row(&version_key, logged.kind, &logged.head, value);
    rows.put(version_key, version_row);
    let log_key = layout::numbered(layout::LOG, revision);
    let log_row = layout::log_row(&log_key, logged);
    rows.put(log_key, log_row);
}
