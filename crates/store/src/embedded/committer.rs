//! The committing thread: the only writer of the engine.
//!
//! It takes every change that is waiting, judges each against the heads and the changes before it, writes all
//! of them as one batch with one sync, and only then makes them visible and answers. A refused change is
//! answered with its batch too: the change that it conflicts with may be in the same batch, and is not
//! durable before the sync.
//!
//! When a write fails, nothing of its batch is acknowledged: the writers of accepted changes get an error
//! with an unknown outcome, those of refused ones an error that says so. The store takes no writes until
//! [`recovery`](super::recovery) has made the engine usable again. A write is acknowledged only if the
//! journal is still at the path where it was opened.
//!
//! A panic, maybe in the middle of a batch, is such a failure too: the thread is run again, and starts from
//! the state on disk.
//!
//! When the disk is full, the [`reserve`](super::reserve) is released, and only deletes and the removal of
//! expired history are written until it can be made again.

use super::{
    clock,
    engine::{Durability, Engine, Rows, WriteError},
    files::Watermark,
    layout::{self, Logged, Reach},
    queue::Receiver,
    reader::{Job, Reply},
    recovery::{self, Journal},
    reserve::{self, Reserve},
    shared::Shared,
};
use crate::{
    Change, ChangeKind, Committed, Conflict, Error, Event, Fate, Head, Health, Key, Op, Returning, Revision,
    StoredEntry, feed::check_reach, waiting::size,
};
use bytes::Bytes;
use std::{
    cell::Cell,
    collections::HashMap,
    io,
    sync::{
        Arc, PoisonError,
        mpsc::{RecvTimeoutError, Sender},
    },
    time::{Duration, Instant},
};
use tokio::sync::oneshot;

/// A batch with this many bytes takes no further change.
const BATCH_BYTES: usize = 4 << 20;
/// The most changes in a batch, accepted or refused.
const BATCH_CHANGES: usize = 4096;
/// The first and the longest pause between attempts to recover.
const RETRY: Duration = Duration::from_millis(50);
const RETRY_MAX: Duration = Duration::from_secs(2);
/// An empty journal whose file is at least this long is replaced.
pub(super) const LONG_JOURNAL: u64 = 2 << 20;
/// The free space beside the reserve that is required before all writes are accepted again.
const HEADROOM: u64 = 4 << 20;

/// What the committer is asked to do.
pub(super) enum Command {
    /// Commit a change.
    Commit { change: Change, reply: Reply },
    /// Give up history before a revision.
    Compact { to: Revision, reply: oneshot::Sender<Result<(), Error>> },
    /// Remove rows that history no longer needs, up to a revision.
    Sweep { removals: Vec<Vec<u8>>, swept: Revision, done: Sender<()> },
    /// Check whether the files are at their paths, and whether a full disk has room again.
    Check { done: Sender<()> },
    /// Give back the space of the journal, and of the files that merging has replaced.
    Release { done: Sender<()> },
    /// Stop accepting writes and recover: a merge found rows in the engine that cannot be read. Recovery
    /// opens the engine again, and rebuilds it if rows are damaged.
    Rebuild,
    /// End.
    Close,
}

/// The committing thread's own state.
pub(super) struct Committer {
    pub(super) shared: Arc<Shared>,
    pub(super) commands: Receiver,
    pub(super) reader: Sender<Job>,
    pub(super) watermark: Watermark,
    pub(super) journal: Cell<Journal>,
    pub(super) reserve: Reserve,
    pub(super) condition: Condition,
    /// About how many bytes a flush would write.
    pub(super) unflushed: u64,
    /// A command that was received while a batch was collected; it is run after the batch.
    pub(super) carried: Option<Command>,
    pub(super) has_run: bool,
}

/// What the committer can do at present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Condition {
    /// Everything.
    Working,
    /// The reserve is released: deletes and reclaiming, of which deletes may write this many bytes more.
    Full { left: u64 },
    /// Nothing, until the engine was opened again.
    Broken,
}

/// A change on its way through a batch.
struct Pending {
    verdict: Verdict,
    reply: Reply,
}

enum Verdict {
    /// The precondition holds. Has the key if the value of the previous entry has to be read.
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
    /// Runs until the store is closed. A run after one that panicked begins with what is on disk.
    pub(super) fn run(&mut self) {
        if std::mem::replace(&mut self.has_run, true) {
            self.fail(WriteError::Sync(io::Error::other("the committing thread panicked")));
        }
        loop {
            self.commands.finished();
            if self.condition == Condition::Broken && matches!(self.recover(), Flow::End) {
                break;
            }
            let Some(command) = self.carried.take().or_else(|| self.commands.recv()) else { break };
            if matches!(self.handle(command), Flow::End) {
                break;
            }
        }
    }

    fn handle(&mut self, command: Command) -> Flow {
        match command {
            Command::Commit { change, reply } => self.commit(change, reply),
            Command::Compact { to, reply } => {
                reply.send(self.compact(to)).ok();
            }
            Command::Sweep { removals, swept, done } => {
                self.sweep(removals, swept);
                drop(done);
            }
            Command::Check { done } => {
                self.check();
                drop(done);
            }
            Command::Release { done } => {
                self.release();
                drop(done);
            }
            Command::Rebuild => {
                self.fail(WriteError::Stopped);
            }
            Command::Close => return Flow::End,
        }
        Flow::Go
    }

    /// Commits `change` and every change that waits behind it, up to a command that is something else.
    fn commit(&mut self, change: Change, reply: Reply) {
        let mut bytes = size(&change);
        let mut waiting = vec![(change, reply)];
        while bytes < BATCH_BYTES && waiting.len() < BATCH_CHANGES {
            match self.commands.try_recv() {
                Some(Command::Commit { change, reply }) => {
                    bytes += size(&change);
                    waiting.push((change, reply));
                }
                Some(other) => {
                    self.carried = Some(other);
                    break;
                }
                None => break,
            }
        }
        if self.condition == Condition::Working
            && let Err(error) = self.set_aside(bytes as u64)
        {
            self.release_reserve(error);
        }
        if let Condition::Full { left } = self.condition {
            waiting = self.admit_while_full(waiting, left);
        }
        let mut batch = Batch::new(self.shared.feed.revision());
        for (change, reply) in waiting {
            batch.add(&self.shared, change, reply);
        }
        if batch.events.is_empty() {
            self.answer(batch.pending);
            return;
        }
        let first = batch.events.first().map(Event::revision).unwrap_or_default();
        let tick = {
            let clock = self.lock_clock();
            clock.due(first, clock.now(), self.shared.options.tick())
        };
        if let Some(tick) = tick {
            batch.rows.put(layout::numbered(layout::TICK, tick.first), tick.millis.to_le_bytes().into());
        }
        match self.write(batch.rows, Durability::Synced) {
            Ok(()) => {
                tasks::fault_point();
                if let Some(tick) = tick {
                    self.lock_clock().push(tick);
                }
                self.publish(batch.events, batch.overlay);
                self.answer(batch.pending);
            }
            Err(error) => self.refuse(batch.pending, error),
        }
    }

    /// Makes the reserve large enough for this many bytes more.
    fn set_aside(&mut self, bytes: u64) -> io::Result<()> {
        let need = reserve::needed(self.unflushed + bytes, self.shared.used());
        self.reserve.cover(need, self.shared.options.media.as_ref())
    }

    /// Gives the reserve to deletes and to reclaiming.
    fn release_reserve(&mut self, error: io::Error) {
        self.condition = Condition::Full { left: self.reserve.len() / 2 };
        self.reserve.shrink(0);
        self.shared.set_full(true);
        self.shared.set_health(Health::Failing(Error::io(error, Fate::NotWritten)));
    }

    /// Accepts all writes again if the reserve can be made again.
    fn restore_reserve(&mut self) {
        let need = reserve::needed(self.unflushed, self.shared.used());
        match self.reserve.cover(need + HEADROOM, self.shared.options.media.as_ref()) {
            Ok(()) => {
                self.reserve.shrink(need);
                self.condition = Condition::Working;
                self.shared.set_full(false);
                self.shared.set_health(Health::Good);
            }
            Err(error) => {
                self.reserve.shrink(0);
                self.shared.set_health(Health::Failing(Error::io(error, Fate::NotWritten)));
            }
        }
    }

    /// Refuses changes other than deletes, and deletes for which there is no room.
    fn admit_while_full(&mut self, waiting: Vec<(Change, Reply)>, left: u64) -> Vec<(Change, Reply)> {
        let mut left = left;
        let mut admitted = Vec::new();
        for (change, reply) in waiting {
            // The rows are written to the journal, and to tables.
            let cost = 2 * size(&change) as u64;
            if matches!(change.op, Op::Delete) && cost <= left {
                left -= cost;
                admitted.push((change, reply));
            } else {
                reply.send(Err(self.failing())).ok();
            }
        }
        self.condition = Condition::Full { left };
        admitted
    }

    fn check(&mut self) {
        let mut place = self.shared.directory.check_place();
        if let Some(engine) = self.shared.engine.read().unwrap_or_else(PoisonError::into_inner).as_ref() {
            place = place.and(engine.check_place());
        }
        if let Err(error) = place {
            self.fail(WriteError::Io(error));
        } else if matches!(self.condition, Condition::Full { .. }) {
            self.restore_reserve();
        }
    }

    /// The engine keeps replaced files for readers of older states, and removes them when it flushes after a
    /// write: so one more write is made, which changes nothing.
    fn release(&mut self) {
        let mut rows = Rows::default();
        rows.put(layout::STATE.into(), layout::state_row(&self.shared.reach()));
        let released = self.write(rows, Durability::Lazy).and_then(|()| {
            let engine = self.shared.engine.read().unwrap_or_else(PoisonError::into_inner);
            let engine = engine.as_ref().ok_or(WriteError::Stopped)?;
            engine.flush()?;
            self.unflushed = engine.unflushed();
            Ok(engine.journal_bytes())
        });
        match released {
            Ok(journal) if journal < LONG_JOURNAL => {}
            Ok(_) => {
                if let Err(error) = recovery::replace_journal(&self.shared) {
                    self.fail(WriteError::Io(error));
                }
            }
            Err(error) => drop(self.fail(error)),
        }
        if self.condition == Condition::Working {
            self.reserve.shrink(reserve::needed(self.unflushed, self.shared.used()));
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
            Err(error) => drop(self.fail(error)),
        }
    }

    fn write(&mut self, rows: Rows, durability: Durability) -> Result<(), WriteError> {
        let engine = self.shared.engine.read().unwrap_or_else(PoisonError::into_inner);
        let engine = engine.as_ref().ok_or(WriteError::Stopped)?;
        self.shared.count_written(rows.bytes() as u64);
        let durability = if self.shared.options.syncs { durability } else { Durability::Lazy };
        engine.write(rows, durability, self.shared.options.media.as_ref())?;
        engine.check_place().map_err(WriteError::Io)?;
        self.unflushed = engine.unflushed();
        Ok(())
    }

    /// Makes durable changes visible. The heads stay locked until the revision is announced, so that no
    /// reader sees an entry that is newer than the newest revision.
    fn publish(&self, events: Vec<Event>, overlay: HashMap<Key, Option<Head>>) {
        let Some(newest) = events.last().map(Event::revision) else { return };
        // The watermark only guards against lost files: a commit that is durable without it stays
        // acknowledged.
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

    /// Answers the writers of a failed batch: the outcome of accepted changes is unknown, refused ones
    /// changed nothing.
    fn refuse(&mut self, pending: Vec<Pending>, error: WriteError) {
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
    fn fail(&mut self, error: WriteError) -> Error {
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
        let is_full = reserve::is_full(&cause);
        let error = Error::io(cause, Fate::Unknown);
        if is_full {
            self.reserve.shrink(0);
        }
        self.condition = Condition::Broken;
        self.shared.set_full(false);
        self.shared.set_health(Health::Failing(error.with_fate(Fate::NotWritten)));
        error
    }

    /// Checks whether the disk is why the engine has stopped: a flush may have found no room.
    fn probe(&mut self) -> io::Result<()> {
        recovery::probe(&self.shared)?;
        let before = self.reserve.len();
        let flush = before + self.unflushed + HEADROOM;
        let room = self.reserve.cover(flush, self.shared.options.media.as_ref());
        self.reserve.shrink(before);
        room
    }

    /// Refuses writes and tries to recover, until that works or the store is closed.
    fn recover(&mut self) -> Flow {
        if let Some(command) = self.carried.take()
            && matches!(self.turn_away(command), Flow::End)
        {
            return Flow::End;
        }
        let mut pause = RETRY;
        let mut attempt_at = Instant::now() + pause;
        loop {
            self.commands.finished();
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
                        self.resume();
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

    /// Continues with an engine that was opened again.
    fn resume(&mut self) {
        let engine = self.shared.engine.read().unwrap_or_else(PoisonError::into_inner);
        self.unflushed = engine.as_ref().map(Engine::unflushed).unwrap_or_default();
        drop(engine);
        let need = reserve::needed(self.unflushed, self.shared.used());
        self.condition = Condition::Full { left: need / 2 };
        self.shared.set_full(true);
        self.restore_reserve();
    }

    /// Refuses a command while writes fail.
    fn turn_away(&self, command: Command) -> Flow {
        match command {
            Command::Commit { reply, .. } => {
                reply.send(Err(self.failing())).ok();
            }
            Command::Compact { reply, .. } => {
                reply.send(Err(self.failing())).ok();
            }
            Command::Sweep { done, .. } | Command::Check { done } | Command::Release { done } => drop(done),
            Command::Rebuild => {}
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

    /// Makes the changes of a failed write visible that reached the disk nevertheless.
    fn adopt(&self, survivors: Vec<Event>) {
        let overlay = survivors.iter().map(|event| {
            let head = (event.kind == ChangeKind::Put).then_some(event.head);
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
            Op::Put(value) => (ChangeKind::Put, value),
            Op::Delete => (ChangeKind::Delete, Bytes::new()),
        };
        let head = Head { create_revision, mod_revision: revision };
        let logged = Logged { key: change.key.clone(), kind, head, previous };
        put_rows(&mut self.rows, &logged, (kind == ChangeKind::Put).then_some(&value));
        self.overlay.insert(change.key, (kind == ChangeKind::Put).then_some(head));
        self.events.push(logged.event(Ok(value)));
        Committed {
            revision,
            create_revision,
            previous: previous.map(|head| StoredEntry { head, value: None }),
        }
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
