//! The queue of the committer: commands, in the order in which they were sent.
//!
//! 1. The changes that wait are [bounded](crate::waiting); a commit past the bound is refused at once.
//! 2. A commit whose caller leaves before the committer has taken it is removed, with all that it holds. One
//!    that was taken is finished.
//! 3. Other commands are not counted: threads of the store send them, and wait for each.
//! 4. No lock is held while anything is written, so every question here is answered at once, also when the
//!    disk does not answer.

use super::committer::Command;
use crate::{
    Change, Committed, Error, Fate,
    waiting::{Waiting, size},
};
use std::{
    collections::BTreeMap,
    io,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc::RecvTimeoutError},
    time::{Duration, Instant},
};
use tokio::sync::oneshot;

/// How long the committer may take for what it has begun while changes wait, before the health of the store
/// is failing.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// A queue without commands.
pub(super) fn queue() -> (Sender, Receiver) {
    let queue = Arc::new(Queue { state: Mutex::new(State::default()), sent: Condvar::new() });
    queue.lock().senders = 1;
    (Sender(queue.clone()), Receiver(queue))
}

struct Queue {
    state: Mutex<State>,
    sent: Condvar,
}

#[derive(Default)]
struct State {
    /// By the order in which they were sent.
    commands: BTreeMap<u64, Command>,
    sent: u64,
    waiting: Waiting,
    /// How many changes the committer has taken and not answered yet.
    begun: usize,
    /// Since when the committer has finished nothing, although there are changes to commit.
    unfinished_since: Option<Instant>,
    senders: usize,
    /// Whether the receiver was dropped.
    is_closed: bool,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The error of a command that was taken and has no answer. The committer may have panicked after it was
    /// written.
    fn unanswered(&self) -> Error {
        if self.lock().is_closed {
            return Error::Closed;
        }
        Error::io(io::Error::other("a thread of the store panicked"), Fate::Unknown)
    }
}

impl State {
    fn push(&mut self, command: Command) -> u64 {
        self.sent += 1;
        self.commands.insert(self.sent, command);
        self.sent
    }

    fn pop(&mut self) -> Option<Command> {
        let (_, command) = self.commands.pop_first()?;
        if let Command::Commit { change, .. } = &command {
            self.waiting.remove(size(change));
            self.begun += 1;
        }
        Some(command)
    }

    fn is_idle(&self) -> bool {
        self.waiting.changes == 0 && self.begun == 0
    }
}

/// Sends commands to the committer.
pub(super) struct Sender(Arc<Queue>);

impl Clone for Sender {
    fn clone(&self) -> Self {
        self.0.lock().senders += 1;
        Self(self.0.clone())
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        self.0.lock().senders -= 1;
        self.0.sent.notify_one();
    }
}

impl Sender {
    /// Sends a command that is not a commit.
    pub(super) fn send(&self, command: Command) -> Result<(), Error> {
        let mut state = self.0.lock();
        if state.is_closed {
            return Err(Error::Closed);
        }
        state.push(command);
        drop(state);
        self.0.sent.notify_one();
        Ok(())
    }

    /// The error of a command that has no answer.
    pub(super) fn unanswered(&self) -> Error {
        self.0.unanswered()
    }

    /// Queues a change for the committer.
    pub(super) fn commit(&self, change: Change) -> Result<Commit, Error> {
        let (reply, answer) = oneshot::channel();
        let mut state = self.0.lock();
        if state.is_closed {
            return Err(Error::Closed);
        }
        state.waiting.add(size(&change))?;
        state.unfinished_since.get_or_insert_with(Instant::now);
        let number = state.push(Command::Commit { change, reply });
        drop(state);
        self.0.sent.notify_one();
        Ok(Commit { queue: self.0.clone(), number, answer })
    }

    /// The error of a committer that has not finished anything for too long, although there are changes to
    /// commit.
    pub(super) fn stalled(&self) -> Option<Error> {
        let state = self.0.lock();
        let silent = state.unfinished_since?.elapsed();
        let changes = state.waiting.changes + state.begun;
        (silent >= PATIENCE).then_some(Error::Stalled { seconds: silent.as_secs(), changes })
    }
}

/// A change that waits or is being committed. Dropped before the committer has taken the change, it takes the
/// change back.
pub(super) struct Commit {
    queue: Arc<Queue>,
    number: u64,
    answer: oneshot::Receiver<Result<Committed, Error>>,
}

impl Commit {
    pub(super) async fn answer(mut self) -> Result<Committed, Error> {
        (&mut self.answer).await.unwrap_or_else(|_| Err(self.queue.unanswered()))
    }
}

impl Drop for Commit {
    fn drop(&mut self) {
        let mut state = self.queue.lock();
        let withdrawn = state.commands.remove(&self.number);
        if let Some(Command::Commit { change, .. }) = &withdrawn {
            state.waiting.remove(size(change));
            if state.is_idle() {
                state.unfinished_since = None;
            }
        }
        drop(state);
    }
}

/// Where the committer takes its commands from.
pub(super) struct Receiver(Arc<Queue>);

impl Receiver {
    /// The next command; `None` if there will be no more.
    pub(super) fn recv(&self) -> Option<Command> {
        let mut state = self.0.lock();
        loop {
            if let Some(command) = state.pop() {
                return Some(command);
            }
            if state.senders == 0 {
                return None;
            }
            state = self.0.sent.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The next command, if one comes in this time.
    pub(super) fn recv_timeout(&self, patience: Duration) -> Result<Command, RecvTimeoutError> {
        let until = Instant::now() + patience;
        let mut state = self.0.lock();
        loop {
            if let Some(command) = state.pop() {
                return Ok(command);
            }
            if state.senders == 0 {
                return Err(RecvTimeoutError::Disconnected);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(RecvTimeoutError::Timeout);
            }
            let waited = self.0.sent.wait_timeout(state, left);
            state = waited.map_or_else(|poisoned| poisoned.into_inner().0, |(state, _)| state);
        }
    }

    /// The next command, if there is one.
    pub(super) fn try_recv(&self) -> Option<Command> {
        self.0.lock().pop()
    }

    /// Notes that all changes that were taken are answered.
    pub(super) fn finished(&self) {
        let mut state = self.0.lock();
        state.begun = 0;
        state.unfinished_since = (state.waiting.changes > 0).then(Instant::now);
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.is_closed = true;
        state.begun = 0;
        state.unfinished_since = None;
        state.waiting = Waiting::default();
        let left = std::mem::take(&mut state.commands);
        drop(state);
        drop(left);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Key;

    fn change(name: &str) -> Change {
        Change::put(Key::try_from(name).unwrap(), vec![0; 1 << 20])
    }

    fn key(command: Option<Command>) -> String {
        match command {
            Some(Command::Commit { change, .. }) => change.key.to_string(),
            _ => panic!("it is a commit"),
        }
    }

    #[test]
    fn commands_come_in_order_without_those_that_were_withdrawn() {
        let (sender, receiver) = queue();
        let kept = sender.commit(change("a")).unwrap();
        drop(sender.commit(change("b")).unwrap());
        sender.send(Command::Rebuild).unwrap();
        let also_kept = sender.commit(change("c")).unwrap();
        assert_eq!(key(receiver.recv()), "a");
        assert!(matches!(receiver.try_recv(), Some(Command::Rebuild)));
        assert_eq!(key(receiver.try_recv()), "c");
        assert!(receiver.try_recv().is_none());
        drop((kept, also_kept, sender));
        assert!(receiver.recv().is_none());
        assert!(matches!(receiver.recv_timeout(Duration::ZERO), Err(RecvTimeoutError::Disconnected)));
    }

    #[test]
    fn withdrawn_and_taken_changes_are_counted_out() {
        let (sender, receiver) = queue();
        let waiting: Vec<_> = (0..63).map(|_| sender.commit(change("a")).unwrap()).collect();
        assert!(matches!(sender.commit(change("a")), Err(Error::Busy { changes: 63, .. })));
        drop(waiting);
        assert_eq!(sender.0.lock().waiting, Waiting::default());
        assert_eq!(sender.0.lock().unfinished_since, None);
        let _waiting: Vec<_> = (0..63).map(|_| sender.commit(change("a")).unwrap()).collect();
        assert!(receiver.try_recv().is_some());
        sender.commit(change("a")).unwrap();
    }

    #[test]
    fn a_committer_that_is_gone_leaves_nobody_waiting() {
        let (sender, receiver) = queue();
        let waiting = sender.commit(change("a")).unwrap();
        drop(receiver);
        assert!(matches!(sender.commit(change("a")), Err(Error::Closed)));
        assert!(sender.send(Command::Close).is_err());
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        assert!(matches!(runtime.block_on(waiting.answer()), Err(Error::Closed)));
        assert!(sender.stalled().is_none());
    }
}
