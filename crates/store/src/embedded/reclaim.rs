//! The reclaiming thread: gives up history past its time, and removes what it alone kept, in small steps.
//!
//! A step reads a few rows of the log and hands their removals to the committer, which writes them between commits and
//! without a sync: a commit waits for at most one step. The engine then reclaims the space of removed rows when it
//! merges its files, in its own thread.
//!
//! A step waits for the reading thread to finish what it was asked before: an answer to a writer may still need the value
//! that its own change superseded. Such a request is made before `compacted` can pass that change, so before the step.

use super::{
    clock::{self, Times},
    committer::Command,
    layout,
    reader::Job,
    shared::Shared,
};
use crate::{Kind, Revision};
use std::{
    sync::{
        Arc, PoisonError,
        mpsc::{self, Receiver, RecvTimeoutError, Sender},
    },
    thread,
    time::Duration,
};
use tokio::sync::oneshot;

/// How many rows of the log one step covers.
const STEP: usize = 256;
/// The pause between steps.
const PAUSE: Duration = Duration::from_millis(1);

/// The reclaiming thread's connections.
pub(super) struct Reclaimer {
    pub(super) shared: Arc<Shared>,
    pub(super) commands: Sender<Command>,
    pub(super) reader: Sender<Job>,
}

/// Runs until `wake` is closed; a message on it starts a round at once.
pub(super) fn run(reclaimer: &Reclaimer, wake: &Receiver<()>) {
    let Reclaimer { shared, commands, .. } = reclaimer;
    loop {
        match wake.recv_timeout(shared.options.tick()) {
            Ok(()) | Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        if shared.health().is_good() {
            expire(shared, commands);
            while shared.health().is_good() && step(reclaimer).is_some() {
                thread::sleep(PAUSE);
            }
        }
    }
}

/// Gives up the history that is older than the retention time.
fn expire(shared: &Shared, commands: &Sender<Command>) {
    let times = Times { retention: shared.options.retention, interval: shared.options.tick() };
    // Before the clock is read: a later revision may have a later tick.
    let newest = shared.feed.revision();
    let clock = shared.clock.lock().unwrap_or_else(PoisonError::into_inner);
    let expired = clock.expired(clock::now(), newest, times);
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
        if logged.kind == Kind::Delete {
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
