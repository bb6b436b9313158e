//! The changes that a store has accepted and not answered yet: they are held in memory, so they are bounded.
//!
//! Usual load does not reach the bound. Every commit that waits has a caller that waits: 16,384 callers at
//! once, or 21 that write an object of the largest size within one sync. A store that works takes thousands
//! of changes and tens of megabytes a second, so the bound is what a store commits in a second or two; a
//! store that exceeds it does not keep up, and waiting longer would not help.

use crate::families::{REFUSED, WAITING, WAITING_BYTES};
use crate::{Change, Error, Op};

/// The most changes that wait.
pub(crate) const MOST_CHANGES: usize = 16_384;
/// The most bytes that they hold. One change is accepted whatever its size.
pub(crate) const MOST_BYTES: usize = 64 << 20;

/// What a change takes up beside its value and twice its key: its rows, or the place where it waits.
const OVERHEAD: usize = 100;

/// How many changes wait, and about how many bytes they hold. Both are in the metrics of the process while
/// the store has them.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Waiting {
    pub(crate) changes: usize,
    bytes: usize,
}

impl Waiting {
    /// Counts a change of this size in; [`Error::Busy`] if there are too many.
    pub(crate) fn add(&mut self, size: usize) -> Result<(), Error> {
        let bytes = self.bytes.saturating_add(size);
        if self.changes >= MOST_CHANGES || self.changes > 0 && bytes > MOST_BYTES {
            REFUSED.with([]).inc();
            return Err(Error::Busy { changes: self.changes, bytes: self.bytes });
        }
        self.set(self.changes + 1, bytes);
        Ok(())
    }

    /// Counts a change of this size out.
    pub(crate) fn remove(&mut self, size: usize) {
        self.set(self.changes.saturating_sub(1), self.bytes.saturating_sub(size));
    }

    #[allow(clippy::cast_precision_loss, reason = "both are bounded")]
    fn set(&mut self, changes: usize, bytes: usize) {
        WAITING.with([]).add(changes as f64 - self.changes as f64);
        WAITING_BYTES.with([]).add(bytes as f64 - self.bytes as f64);
        (self.changes, self.bytes) = (changes, bytes);
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.set(0, 0);
    }
}

/// About how many bytes a change holds, and writes.
pub(crate) fn size(change: &Change) -> usize {
    let value = match &change.op {
        Op::Put(value) => value.len(),
        Op::Delete => 0,
    };
    2 * change.key.as_bytes().len() + value + OVERHEAD
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_bounded_by_count_and_by_bytes() {
        let mut waiting = Waiting::default();
        waiting.add(2 * MOST_BYTES).unwrap();
        assert!(
            matches!(waiting.add(1), Err(Error::Busy { changes: 1, .. })),
            "one is accepted whatever its size"
        );
        waiting.remove(2 * MOST_BYTES);
        assert_eq!(waiting, Waiting::default());
        for _ in 0..MOST_CHANGES {
            waiting.add(1).unwrap();
        }
        assert!(waiting.add(1).is_err());
        waiting.remove(1);
        waiting.add(MOST_BYTES - MOST_CHANGES + 1).unwrap();
        let shown = || [&WAITING, &WAITING_BYTES].map(|family| family.with([]).value());
        assert_eq!(shown(), [MOST_CHANGES as f64, MOST_BYTES as f64]);
        drop(waiting);
        assert_eq!(shown(), [0.0, 0.0]);
        assert_eq!(REFUSED.with([]).value(), 2);
    }
}
