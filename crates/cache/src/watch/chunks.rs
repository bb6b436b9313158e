//! What one watcher has written, for the others of its lane to send as it is.
//!
//! Watchers of the same objects in the same form are told the same. Whoever comes first reads the log and writes the
//! events down; those who come after it take the bytes, and do neither.
//!
//! 1. A chunk has every event of its lane after `from` up to `to`, and no other. There is none before `first`: whoever
//!    has come to any place from `from` up to, but not including, `first` is told the same by it.
//! 2. Only watchers that ask for nothing but the keys of their lane take or give chunks.
//! 3. A lane keeps a few of the newest, none that is large, and none for long: they serve those who were woken together. Whoever comes
//!    later reads the log.
//!
//! ```text
//! events of the lane    12        15 16               21
//! chunk                    (13 ........... 18]              from 13, first 15, to 18
//! a watcher at          13 or 14 takes it and is at 18; one at 11, 12, 15 or 18 does not
//! ```

use crate::Encoding;
use bytes::Bytes;
use crossbeam_utils::sync::ShardedLock;
use std::{
    collections::VecDeque,
    sync::PoisonError,
    time::{Duration, Instant},
};
use store::Revision;

/// How many chunks a lane keeps.
const KEPT: usize = 8;
/// The largest that are kept.
const LARGEST: usize = 128 * 1024;
/// After what time a chunk is let go at the next look, if no newer one has taken its place.
const AGE: Duration = Duration::from_secs(1);

/// Events that were written together.
#[derive(Clone, Debug)]
pub struct Chunk {
    /// The revision of the last of them.
    pub last: Revision,
    /// The events.
    pub bytes: Bytes,
    pub(super) to: Revision,
}

/// What a batch that can be shared covers: the changes after `from` up to `to`, the first and the last event in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) from: Revision,
    pub(super) first: Revision,
    pub(super) last: Revision,
    pub(super) to: Revision,
}

/// The newest chunks of a lane.
#[derive(Debug, Default)]
pub(super) struct Chunks(ShardedLock<VecDeque<Kept>>);

#[derive(Debug)]
struct Kept {
    encoding: Encoding,
    from: Revision,
    first: Revision,
    at: Instant,
    chunk: Chunk,
}

impl Kept {
    fn continues(&self, encoding: Encoding, cursor: Revision) -> bool {
        self.encoding == encoding && self.from <= cursor && cursor < self.first
    }
}

impl Chunks {
    /// What comes next for a watcher that has come to `cursor`.
    pub(super) fn take(&self, encoding: Encoding, cursor: Revision) -> Option<Chunk> {
        let kept = self.0.read().unwrap_or_else(PoisonError::into_inner);
        kept.iter().rev().find(|kept| kept.continues(encoding, cursor)).map(|kept| kept.chunk.clone())
    }

    /// Keeps what was written of a span, unless it is large; false if it is the only one.
    pub(super) fn keep(&self, encoding: Encoding, span: Span, bytes: Bytes, at: Instant) -> bool {
        if bytes.len() > LARGEST {
            return true;
        }
        let Span { from, first, last, to } = span;
        let mut kept = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if kept.iter().any(|kept| kept.continues(encoding, from)) {
            return true;
        }
        let any = !kept.is_empty();
        if kept.len() >= KEPT {
            kept.pop_front();
        }
        kept.push_back(Kept { encoding, from, first, at, chunk: Chunk { last, bytes, to } });
        any
    }

    /// Lets go what is old; false if nothing is left.
    pub(super) fn expire(&self, now: Instant) -> bool {
        let mut kept = self.0.write().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|kept| now.saturating_duration_since(kept.at) < AGE);
        if kept.is_empty() {
            kept.shrink_to_fit();
        }
        !kept.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORM: Encoding = Encoding(1);

    fn span(from: u64, first: u64, last: u64, to: u64) -> Span {
        let [from, first, last, to] = [from, first, last, to].map(Revision);
        Span { from, first, last, to }
    }

    fn keep(chunks: &Chunks, span: Span, text: &'static str) -> bool {
        chunks.keep(FORM, span, Bytes::from_static(text.as_bytes()), Instant::now())
    }

    fn taken(chunks: &Chunks, cursor: u64) -> Option<String> {
        let chunk = chunks.take(FORM, Revision(cursor))?;
        Some(format!("{} to {}", String::from_utf8_lossy(&chunk.bytes), chunk.to))
    }

    #[test]
    fn whoever_stands_before_the_first_event_takes_it_and_no_one_else() {
        let chunks = Chunks::default();
        keep(&chunks, span(13, 15, 16, 18), "15,16");
        for cursor in 0..30 {
            let expected = (13..15).contains(&cursor).then(|| "15,16 to 18".to_owned());
            assert_eq!(taken(&chunks, cursor), expected, "at {cursor}");
        }
        assert!(chunks.take(Encoding(2), Revision(13)).is_none());
    }

    #[test]
    fn one_leads_to_the_next() {
        let chunks = Chunks::default();
        assert!(!keep(&chunks, span(1, 2, 2, 3), "2"));
        assert!(keep(&chunks, span(3, 5, 6, 6), "5,6"));
        assert!(keep(&chunks, span(3, 5, 7, 7), "not kept: there is one from there"));
        assert_eq!(taken(&chunks, 1).as_deref(), Some("2 to 3"));
        assert_eq!(taken(&chunks, 3).as_deref(), Some("5,6 to 6"));
        assert_eq!(taken(&chunks, 6), None);
    }

    #[test]
    fn few_are_kept_and_none_for_long() {
        let chunks = Chunks::default();
        for revision in 0..12 {
            keep(&chunks, span(revision, revision + 1, revision + 1, revision + 1), "x");
        }
        let left: Vec<u64> = (0..12).filter(|cursor| taken(&chunks, *cursor).is_some()).collect();
        assert_eq!(left, [4, 5, 6, 7, 8, 9, 10, 11]);
        assert!(chunks.expire(Instant::now()));
        assert!(!chunks.expire(Instant::now() + AGE));
        assert_eq!(taken(&chunks, 11), None);
    }
}
