//! The log of a resource type: its changes in the order of revisions, the newest window of them in memory.
//!
//! 1. The log holds every change of its type with a revision in `(start, newest]`, each once, in order.
//! 2. A change that was pushed never changes; it only leaves at the old end.
//!
//! Entries in the log are the ones of the state: what a change adds to memory is the state that it replaced.

use crate::{Entry, Spec};
use std::{
    collections::VecDeque,
    sync::{Arc, OnceLock},
    time::Instant,
};
use store::{Corrupt, Head, Key, Revision, Value};

/// What a key holds.
#[derive(Clone, Debug)]
pub(crate) enum Slot {
    /// Nothing.
    Absent,
    /// An object.
    Entry(Arc<Entry>),
    /// Bytes that cannot be read.
    Damaged(Arc<Corrupt>),
}

impl Slot {
    /// What the bytes of a stored value are.
    pub(crate) fn read(spec: &Arc<Spec>, key: &Key, head: &Head, value: &Value) -> Self {
        let read = match value {
            Ok(value) => Entry::read(spec, key, head, value),
            Err(corrupt) => Err(corrupt.clone()),
        };
        read.map_or_else(|corrupt| Self::Damaged(Arc::new(corrupt)), |entry| Self::Entry(Arc::new(entry)))
    }

    pub(crate) fn entry(&self) -> Option<&Arc<Entry>> {
        match self {
            Self::Entry(entry) => Some(entry),
            _ => None,
        }
    }

    fn size(&self) -> usize {
        self.entry().map_or(0, |entry| entry.size())
    }
}

/// One change of a key: what it held before and after.
#[derive(Clone, Debug)]
pub(crate) struct Transition {
    pub(crate) revision: Revision,
    /// The revision of the last change of its type in the same group.
    pub(crate) group: Revision,
    pub(crate) key: Arc<str>,
    pub(crate) before: Slot,
    pub(crate) after: Slot,
    departed: OnceLock<Arc<Entry>>,
}

impl Transition {
    /// A change that is a group of its own.
    pub(crate) fn new(revision: Revision, key: Arc<str>, before: Slot, after: Slot) -> Self {
        Self { revision, group: revision, key, before, after, departed: OnceLock::new() }
    }

    /// The same change as part of a group that ends later.
    pub(crate) fn in_group(self, end: Revision) -> Self {
        Self { group: end, ..self }
    }

    /// The state before, with this change's revision: what a watcher is told that loses the object. Made once.
    pub(crate) fn departed(&self) -> Option<&Arc<Entry>> {
        let before = self.before.entry()?;
        Some(self.departed.get_or_init(|| Arc::new(before.departed(self.revision))))
    }

    /// The memory it keeps from being freed: the state before, twice where a departed copy is likely to be made.
    fn size(&self) -> usize {
        let copies = if matches!(self.after, Slot::Entry(_)) { 1 } else { 2 };
        size_of::<Step>() + self.key.len() + copies * self.before.size()
    }
}

/// The newest window of changes.
#[derive(Debug)]
pub(crate) struct Log {
    start: Revision,
    steps: VecDeque<Step>,
    bytes: usize,
}

#[derive(Debug)]
struct Step {
    change: Transition,
    at: Instant,
}

impl Log {
    /// A log that knows nothing of what came up to `start`.
    pub(crate) fn new(start: Revision) -> Self {
        Self { start, steps: VecDeque::new(), bytes: 0 }
    }

    /// The oldest revision that a reader can go on from.
    pub(crate) fn start(&self) -> Revision {
        self.start
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn len(&self) -> usize {
        self.steps.len()
    }

    pub(crate) fn push(&mut self, change: Transition, at: Instant) {
        self.bytes += change.size();
        self.steps.push_back(Step { change, at });
    }

    /// The changes after a revision, oldest first; `None` if the log does not reach back to it.
    pub(crate) fn after(
        &self,
        revision: Revision,
    ) -> Option<impl ExactSizeIterator<Item = &Transition> + DoubleEndedIterator> {
        (revision >= self.start).then(|| self.steps.range(self.place(revision)..).map(|step| &step.change))
    }

    /// The change with a revision.
    pub(crate) fn get(&self, revision: Revision) -> Option<&Transition> {
        let before = Revision(revision.0.checked_sub(1)?);
        let Step { change, .. } = self.steps.get(self.place(before))?;
        (change.revision == revision).then_some(change)
    }

    /// Whether anything is older than `expired`.
    pub(crate) fn is_expired(&self, expired: Instant) -> bool {
        self.steps.front().is_some_and(|step| step.at < expired)
    }

    /// Drops what is older than `expired`, and from the old end until `excess` bytes are freed; returns the bytes
    /// freed.
    pub(crate) fn trim(&mut self, expired: Option<Instant>, excess: usize) -> usize {
        let mut freed = 0;
        while let Some(step) = self.steps.front()
            && (freed < excess || expired.is_some_and(|expired| step.at < expired))
        {
            freed += step.change.size();
            self.start = step.change.revision;
            self.steps.pop_front();
        }
        self.dropped(freed);
        freed
    }

    /// Drops what came up to a revision, which readers can go on from; returns the bytes freed.
    pub(crate) fn forget(&mut self, to: Revision) -> usize {
        let freed = self.steps.drain(..self.place(to)).map(|step| step.change.size()).sum();
        self.start = self.start.max(to);
        self.dropped(freed);
        freed
    }

    fn dropped(&mut self, freed: usize) {
        self.bytes = self.bytes.saturating_sub(freed);
        if self.steps.len() < self.steps.capacity() / 4 {
            self.steps.shrink_to(self.steps.len() * 2);
        }
    }

    /// The place of the first change after a revision. Readers are mostly near the new end.
    fn place(&self, revision: Revision) -> usize {
        let len = self.steps.len();
        let mut reach = 1;
        while let Some(at) = len.checked_sub(reach)
            && self.steps.get(at).is_some_and(|step| step.change.revision > revision)
        {
            reach *= 2;
        }
        let (mut from, mut to) = (len.saturating_sub(reach), len.saturating_sub(reach / 2));
        while from < to {
            let middle = from + (to - from) / 2;
            match self.steps.get(middle) {
                Some(step) if step.change.revision <= revision => from = middle + 1,
                _ => to = middle,
            }
        }
        from
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn log(revisions: &[u64]) -> Log {
        let mut log = Log::new(Revision(10));
        for &revision in revisions {
            let change = Transition::new(Revision(revision), "a".into(), Slot::Absent, Slot::Absent);
            log.push(change, Instant::now());
        }
        log
    }

    fn after(log: &Log, revision: u64) -> Option<Vec<u64>> {
        Some(log.after(Revision(revision))?.map(|change| change.revision.0).collect())
    }

    #[test]
    fn readers_go_on_from_any_revision_in_reach() {
        let revisions: Vec<u64> = (0..100).map(|i| 12 + 3 * i).collect();
        let log = log(&revisions);
        assert_eq!(after(&log, 9), None);
        for from in 10..320 {
            let expected: Vec<u64> = revisions.iter().copied().filter(|r| *r > from).collect();
            assert_eq!(after(&log, from), Some(expected));
            assert_eq!(log.get(Revision(from)).is_some(), revisions.contains(&from));
        }
    }

    #[test]
    fn trimming_moves_the_start_to_what_was_dropped() {
        let mut log = log(&[11, 20, 30]);
        let one = log.bytes() / 3;
        assert_eq!(log.trim(None, 1), one);
        assert_eq!((log.start(), after(&log, 10), after(&log, 11)), (Revision(11), None, Some(vec![20, 30])));
        log.trim(Some(Instant::now() + Duration::from_secs(1)), 0);
        assert_eq!((log.start(), log.bytes(), log.len()), (Revision(30), 0, 0));
        assert_eq!(after(&log, 30), Some(vec![]));
        assert_eq!(after(&log, 99), Some(vec![]));
    }

    #[test]
    fn forgetting_moves_the_start_even_past_what_was_there() {
        let mut log = log(&[11, 20, 30]);
        let one = log.bytes() / 3;
        assert_eq!(log.forget(Revision(25)), 2 * one);
        assert_eq!((after(&log, 24), after(&log, 25)), (None, Some(vec![30])));
        assert_eq!(log.forget(Revision(5)), 0);
        assert_eq!(log.forget(Revision(40)), one);
        assert_eq!((log.start(), log.bytes(), log.len()), (Revision(40), 0, 0));
    }
}
