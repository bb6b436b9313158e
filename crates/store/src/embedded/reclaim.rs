//! The reclaiming thread: expires history, removes the versions that only history needed, and makes the
//! engine free the space, in small steps, also when nothing is written any more.
//!
//! A step reads a few rows of the log and hands their removals to the committer, which writes them between
//! commits and without a sync: a commit waits for at most one step. The engine keeps removed rows and their
//! values until it merges its files. By itself it merges only after many writes, so this thread requests a
//! merge when enough space can be freed ([`Ledger::is_due`]).
//!
//! A step waits for the reading thread to finish what it was asked before: an answer to a writer may still
//! need the value that its own change superseded. Such a request is made before `compacted` can pass that
//! change, so before the step.

use super::{
    clock::Times,
    committer::{Command, LONG_JOURNAL},
    engine::{Engine, ReadError},
    layout, queue,
    reader::Job,
    shared::Shared,
};
use crate::{ChangeKind, Revision};
use std::{
    collections::VecDeque,
    sync::{
        Arc, PoisonError,
        mpsc::{self, Receiver, RecvTimeoutError, Sender},
    },
    thread,
    time::{Duration, Instant},
};
use tokio::sync::oneshot;

/// How many rows of the log one step covers.
const STEP: usize = 256;
/// The pause between steps.
const PAUSE: Duration = Duration::from_millis(1);

/// The dead bytes that are worth a merge while the store is written to, and when it is not: so many at least,
/// and this part of all bytes.
const WORTH: Worth = Worth { bytes: 4 << 20, part: 4 };
const WORTH_WHEN_QUIET: Worth = Worth { bytes: 1 << 20, part: 16 };
const WORTH_WHEN_FULL: Worth = Worth { bytes: 1, part: 64 };
/// The store counts as idle if at most [`FEW`] bytes are written in the time [`QUIET`].
const FEW: u64 = 256 << 10;
const QUIET: Duration = Duration::from_secs(2);
/// The pause after a merge that failed.
const AFTER_FAILURE: Duration = Duration::from_secs(2);
/// One merge finds which values are dead, and the next rewrites the files that they are in.
const MERGES: usize = 3;

/// The reclaiming thread's connections.
pub(super) struct Reclaimer {
    pub(super) shared: Arc<Shared>,
    pub(super) commands: queue::Sender,
    pub(super) reader: Sender<Job>,
}

/// Runs until `wake` is closed; a message on it starts a round at once.
pub(super) fn run(reclaimer: &Reclaimer, wake: &Receiver<()>) {
    let Reclaimer { shared, commands, .. } = reclaimer;
    let mut ledger = Ledger::new(shared.feed.revision(), shared.written());
    loop {
        match wake.recv_timeout(shared.options.tick()) {
            Ok(()) | Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        tasks::fault_point();
        if shared.can_reclaim() {
            expire(shared, commands);
            while shared.can_reclaim() && step(reclaimer).is_some() {
                thread::sleep(PAUSE);
            }
        }
        if shared.can_reclaim() {
            give_back(reclaimer, &mut ledger);
        }
        reclaimer.ask(|done| Command::Check { done });
    }
}

/// Makes the engine free the space of removed rows, if there is enough of it.
fn give_back(reclaimer: &Reclaimer, ledger: &mut Ledger) {
    let shared = &reclaimer.shared;
    let Some(sizes) = reclaimer.with_engine(|engine| Sizes::of(engine, shared.is_full())) else { return };
    shared.set_used(sizes.used);
    ledger.note(shared.feed.revision(), shared.written(), Instant::now());
    let due = ledger.is_due(shared.reach().swept, sizes, Instant::now());
    if due == Due::Nothing {
        return;
    }
    // An error of the engine is left to the committer, which can recover.
    reclaimer.with_engine(|engine| engine.flush().is_ok());
    reclaimer.ask(|done| Command::Release { done });
    if due == Due::Merge {
        match merge(reclaimer) {
            Some(Ok(())) => ledger.merged(shared.reach().swept),
            Some(Err(error)) => {
                ledger.failed(Instant::now());
                if !matches!(error, ReadError::Io(_)) {
                    reclaimer.commands.send(Command::Rebuild).ok();
                }
            }
            None => {}
        }
    }
    if let Some(sizes) = reclaimer.with_engine(|engine| Sizes::of(engine, shared.is_full())) {
        shared.set_used(sizes.used);
    }
}

/// Merges until no file of values has many dead bytes; `None` if the engine is closed.
fn merge(reclaimer: &Reclaimer) -> Option<Result<(), ReadError>> {
    for _ in 0..MERGES {
        if let Err(error) = reclaimer.with_engine(Engine::merge)? {
            return Some(Err(error));
        }
        reclaimer.ask(|done| Command::Release { done });
        let is_done = |engine: &Engine| engine.stale() < WORTH_WHEN_QUIET.of(engine.table_bytes());
        if reclaimer.with_engine(is_done)? {
            break;
        }
    }
    Some(Ok(()))
}

impl Reclaimer {
    fn with_engine<T>(&self, work: impl FnOnce(&Engine) -> T) -> Option<T> {
        self.shared.engine.read().unwrap_or_else(PoisonError::into_inner).as_ref().map(work)
    }

    /// Sends a command to the committer and waits until it is done. The caller must not hold the engine: the
    /// committer may have to replace it.
    fn ask(&self, command: impl FnOnce(mpsc::Sender<()>) -> Command) {
        let (done, finished) = mpsc::channel();
        if self.commands.send(command(done)).is_ok() {
            finished.recv().err();
        }
    }
}

/// How many bytes are worth work.
#[derive(Clone, Copy)]
struct Worth {
    bytes: u64,
    part: u64,
}

impl Worth {
    fn of(self, used: u64) -> u64 {
        self.bytes.max(used / self.part)
    }
}

/// What the engine takes up.
#[derive(Clone, Copy)]
struct Sizes {
    used: u64,
    journal: u64,
    is_full: bool,
}

impl Sizes {
    fn of(engine: &Engine, is_full: bool) -> Self {
        Self { used: engine.table_bytes(), journal: engine.journal_bytes(), is_full }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Due {
    Nothing,
    /// Flush, and replace the journal.
    Flush,
    /// Flush, replace the journal, and merge.
    Merge,
}

/// How many bytes were written up to which revision, and so about how many are dead once history before it is
/// removed.
struct Ledger {
    marks: VecDeque<Mark>,
    /// The bytes that the last merge could give back.
    merged: u64,
    /// The total of written bytes when the store was last seen busy.
    busy: u64,
    busy_at: Instant,
    failed_at: Option<Instant>,
}

struct Mark {
    revision: Revision,
    written: u64,
}

impl Ledger {
    fn new(revision: Revision, written: u64) -> Self {
        Self {
            marks: VecDeque::from([Mark { revision, written }]),
            merged: 0,
            busy: written,
            busy_at: Instant::now(),
            failed_at: None,
        }
    }

    fn note(&mut self, revision: Revision, written: u64, now: Instant) {
        if self.marks.back().is_none_or(|last| last.revision < revision) {
            self.marks.push_back(Mark { revision, written });
        }
        if written >= self.busy + FEW {
            (self.busy, self.busy_at) = (written, now);
        }
    }

    /// The work that is due when superseded versions up to a revision are removed.
    fn is_due(&self, swept: Revision, sizes: Sizes, now: Instant) -> Due {
        let is_quiet = now.saturating_duration_since(self.busy_at) >= QUIET;
        let worth = match (sizes.is_full, is_quiet) {
            (true, _) => WORTH_WHEN_FULL,
            (false, true) => WORTH_WHEN_QUIET,
            (false, false) => WORTH,
        };
        let may_merge =
            self.failed_at.is_none_or(|failed| now.saturating_duration_since(failed) >= AFTER_FAILURE);
        if may_merge && self.dead(swept) >= worth.of(sizes.used) {
            Due::Merge
        } else if sizes.journal >= LONG_JOURNAL && (is_quiet || sizes.is_full) {
            Due::Flush
        } else {
            Due::Nothing
        }
    }

    fn dead(&self, swept: Revision) -> u64 {
        let last = self.marks.iter().rfind(|mark| mark.revision <= swept);
        last.map_or(0, |mark| mark.written.saturating_sub(self.merged))
    }

    fn merged(&mut self, swept: Revision) {
        let passed = self.marks.partition_point(|mark| mark.revision <= swept);
        if let Some(last) = self.marks.drain(..passed).next_back() {
            self.merged = last.written;
        }
        self.failed_at = None;
    }

    fn failed(&mut self, now: Instant) {
        self.failed_at = Some(now);
    }
}

/// Gives up the history that is older than the retention time.
fn expire(shared: &Shared, commands: &queue::Sender) {
    let times = Times { retention: shared.options.retention, interval: shared.options.tick() };
    // Before the clock is read: a later revision may have a later tick.
    let newest = shared.feed.revision();
    let clock = shared.clock.lock().unwrap_or_else(PoisonError::into_inner);
    let expired = clock.expired(clock.now(), newest, times);
    drop(clock);
    if expired > shared.compacted() {
        let (reply, done) = oneshot::channel();
        if commands.send(Command::Compact { to: expired, reply }).is_ok() {
            done.blocking_recv().ok();
        }
    }
}

/// Removes what the next few changes have superseded; `None` when there is nothing to do, or no way to do it.
fn step(Reclaimer { shared, commands, reader }: &Reclaimer) -> Option<()> {
    let reach = shared.reach();
    if reach.swept >= reach.compacted {
        return None;
    }
    let rows = shared.log(reach.swept, reach.compacted, STEP).ok()?;
    let swept =
        if rows.len() < STEP { Some(reach.compacted) } else { rows.last().map(|l| l.head.mod_revision) };
    let mut removals = Vec::new();
    let mut remove = |key: &[u8], revision: Revision| {
        removals.push(layout::index_key(key, revision));
        removals.push(layout::numbered(layout::LOG, revision));
    };
    for logged in &rows {
        let key = logged.key.as_bytes();
        if let Some(previous) = &logged.previous {
            remove(key, previous.mod_revision);
        }
        if logged.kind == ChangeKind::Delete {
            remove(key, logged.head.mod_revision);
        }
    }
    let (passed, barrier) = mpsc::channel();
    reader.send(Job::Barrier { passed }).ok()?;
    barrier.recv().err();
    let (done, finished) = mpsc::channel();
    commands.send(Command::Sweep { removals, swept: swept?, done }).ok()?;
    finished.recv().err();
    (shared.reach().swept > reach.swept).then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING_MUCH: Sizes = Sizes { used: 10 << 20, journal: 1 << 20, is_full: false };

    #[test]
    fn a_merge_is_due_when_enough_is_dead() {
        let (start, busy) = (Instant::now(), Duration::from_millis(10));
        let mut ledger = Ledger::new(Revision(10), 0);
        ledger.note(Revision(20), 3 << 20, start);
        ledger.note(Revision(30), 5 << 20, start);
        assert_eq!(ledger.is_due(Revision(29), NOTHING_MUCH, start + busy), Due::Nothing, "3 MiB are dead");
        assert_eq!(ledger.is_due(Revision(30), NOTHING_MUCH, start + busy), Due::Merge, "5 MiB are dead");
        let large = Sizes { used: 1 << 30, ..NOTHING_MUCH };
        assert_eq!(ledger.is_due(Revision(30), large, start + busy), Due::Nothing, "that is little of 1 GiB");
        assert_eq!(
            ledger.is_due(Revision(20), NOTHING_MUCH, start + QUIET),
            Due::Merge,
            "nothing is written"
        );
        let full = Sizes { is_full: true, ..large };
        assert_eq!(ledger.is_due(Revision(10), full, start + busy), Due::Nothing, "nothing is dead");
        ledger.merged(Revision(30));
        assert_eq!(ledger.is_due(Revision(30), NOTHING_MUCH, start + QUIET), Due::Nothing);
    }

    #[test]
    fn bytes_of_an_opened_store_may_be_dead_once_its_history_is() {
        let ledger = Ledger::new(Revision(10), 100 << 20);
        let now = Instant::now();
        let sizes = Sizes { used: 100 << 20, ..NOTHING_MUCH };
        assert_eq!(ledger.is_due(Revision(9), sizes, now), Due::Nothing);
        assert_eq!(ledger.is_due(Revision(10), sizes, now), Due::Merge);
    }

    #[test]
    fn a_long_journal_is_replaced_when_nothing_is_written() {
        let now = Instant::now();
        let mut ledger = Ledger::new(Revision(10), 0);
        let long = Sizes { journal: LONG_JOURNAL, ..NOTHING_MUCH };
        ledger.note(Revision(20), FEW, now);
        assert_eq!(ledger.is_due(Revision(9), long, now), Due::Nothing);
        assert_eq!(ledger.is_due(Revision(9), long, now + QUIET), Due::Flush);
        ledger.note(Revision(21), FEW + 10, now + QUIET);
        assert_eq!(ledger.is_due(Revision(9), long, now + QUIET), Due::Flush, "a few bytes are nothing");
    }

    #[test]
    fn a_merge_that_failed_is_not_tried_again_at_once() {
        let now = Instant::now();
        let mut ledger = Ledger::new(Revision(10), 100 << 20);
        ledger.failed(now);
        assert_eq!(ledger.is_due(Revision(10), NOTHING_MUCH, now), Due::Nothing);
        assert_eq!(ledger.is_due(Revision(10), NOTHING_MUCH, now + AFTER_FAILURE), Due::Merge);
    }
}
