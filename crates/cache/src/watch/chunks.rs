//! What one watcher has written, for the others of its lane to send as it is.
//!
//! Watchers of the same objects in the same form are told the same. Whoever comes first reads the log and writes the
//! events down; those who come after it take the bytes, and do neither.
//!
//! 1. A chunk has every event of its lane after `from` up to `to`, and no other. There is none before `first`: whoever
//!    has come to any place from `from` up to, but not including, `first` is told the same by it.
//! 2. Only watchers that ask for nothing but the keys of their lane take or give chunks.
//! 3. A lane keeps what was written last, up to some bytes, none that is large, and none for long: it serves those who
//!    were woken together, be they at different places. Whoever comes later reads the log.
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

/// About how many bytes of chunks a lane keeps, and how many chunks. A watcher that keeps up writes event by event, and one
/// that does not should find all of them.
const ROOM: usize = 1024 * 1024;
const KEPT: usize = 256;
/// The largest that are kept.
const LARGEST: usize = 128 * 1024;
/// A chunk stays for so long at the least: those for whom it was written come one after the other, and each would find gone what
/// the one before it let go for its own.
const NEW: Duration = Duration::from_millis(5);
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

/// The chunks of a lane that were written last.
#[derive(Debug, Default)]
pub(super) struct Chunks(ShardedLock<Shelf>);

#[derive(Debug, Default)]
struct Shelf {
    /// By their first events. Whoever stands before an event stands behind the one before it, so that all chunks that
    /// could come next have the same first event.
    kept: VecDeque<Kept>,
    bytes: usize,
}

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

impl Shelf {
    /// The place of the chunk that comes next for a watcher that has come to `cursor`; if there is none, of one like it.
    fn find(&self, encoding: Encoding, cursor: Revision) -> Result<usize, usize> {
        let place = self.kept.partition_point(|kept| kept.first <= cursor);
        let next = self.kept.get(place).map(|kept| kept.first);
        let mut like =
            (place..).zip(self.kept.range(place..)).take_while(|(_, kept)| Some(kept.first) == next);
        like.find(|(_, kept)| kept.continues(encoding, cursor)).map(|(at, _)| at).ok_or(place)
    }

    /// Lets go what was written longest ago until there is room, but nothing that is new: false if there is none.
    fn make_room(&mut self, bytes: usize, now: Instant) -> bool {
        while self.kept.len() >= KEPT || self.bytes + bytes > ROOM {
            let oldest = (0..).zip(&self.kept).min_by_key(|(_, kept)| kept.at);
            let Some((place, Kept { at, chunk, .. })) = oldest else { return true };
            if now.saturating_duration_since(*at) < NEW {
                return false;
            }
            self.bytes -= chunk.bytes.len();
            self.kept.remove(place);
        }
        true
    }
}

impl Chunks {
    /// What comes next for a watcher that has come to `cursor`.
    pub(super) fn take(&self, encoding: Encoding, cursor: Revision) -> Option<Chunk> {
        let shelf = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let place = shelf.find(encoding, cursor).ok()?;
        shelf.kept.get(place).map(|kept| kept.chunk.clone())
    }

    /// Where the first begins that lies ahead of a watcher that has come to `cursor`.
    pub(super) fn next(&self, encoding: Encoding, cursor: Revision) -> Option<Revision> {
        let shelf = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let place = shelf.kept.partition_point(|kept| kept.first <= cursor);
        let mut ahead = shelf.kept.range(place..).filter(|kept| kept.encoding == encoding);
        ahead.find(|kept| kept.from > cursor).map(|kept| kept.from)
    }

    /// Keeps what was written of a span, unless it is large; false if it is the only one.
    pub(super) fn keep(&self, encoding: Encoding, span: Span, bytes: Bytes, at: Instant) -> bool {
        if bytes.len() > LARGEST {
            return true;
        }
        let Span { from, first, last, to } = span;
        let mut shelf = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if shelf.find(encoding, from).is_ok() {
            return true;
        }
        let any = !shelf.kept.is_empty();
        if !shelf.make_room(bytes.len(), at) {
            return true;
        }
        shelf.bytes += bytes.len();
        let place = shelf.kept.partition_point(|kept| kept.first < first);
        shelf.kept.insert(place, Kept { encoding, from, first, at, chunk: Chunk { last, bytes, to } });
        any
    }

    /// Lets go what is old; false if nothing is left.
    pub(super) fn expire(&self, now: Instant) -> bool {
        let mut shelf = self.0.write().unwrap_or_else(PoisonError::into_inner);
        shelf.kept.retain(|kept| now.saturating_duration_since(kept.at) < AGE);
        shelf.bytes = shelf.kept.iter().map(|kept| kept.chunk.bytes.len()).sum();
        if shelf.kept.is_empty() {
            shelf.kept.shrink_to_fit();
        }
        !shelf.kept.is_empty()
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
    fn it_is_found_by_where_it_begins_whoever_wrote_it_and_when() {
        let chunks = Chunks::default();
        keep(&chunks, span(8, 9, 9, 9), "9");
        keep(&chunks, span(9, 11, 12, 12), "11,12");
        keep(&chunks, span(2, 4, 9, 10), "4 to 9, written late");
        chunks.keep(Encoding(2), span(3, 4, 4, 4), Bytes::from_static(b"4, other form"), Instant::now());
        let next = [2, 3, 4, 8, 9, 10, 11].map(|cursor| taken(&chunks, cursor));
        let early = Some("4 to 9, written late to 10".to_owned());
        let late = Some("11,12 to 12".to_owned());
        assert_eq!(next, [early.clone(), early, None, Some("9 to 9".into()), late.clone(), late, None]);
        let other = chunks.take(Encoding(2), Revision(3)).map(|chunk| chunk.to);
        assert_eq!((other, chunks.take(Encoding(2), Revision(2)).is_none()), (Some(Revision(4)), true));
    }

    #[test]
    fn whoever_stands_elsewhere_is_told_where_the_next_begins() {
        let chunks = Chunks::default();
        keep(&chunks, span(2, 4, 9, 10), "4 to 9");
        keep(&chunks, span(10, 12, 12, 12), "12");
        keep(&chunks, span(9, 12, 12, 12), "12, written by one who stands before 10");
        chunks.keep(Encoding(2), span(5, 6, 6, 6), Bytes::from_static(b"6, other form"), Instant::now());
        let next = |cursor| chunks.next(FORM, Revision(cursor)).map(|revision| revision.0);
        let expected = [(0, Some(2)), (1, Some(2)), (4, Some(9)), (8, Some(9)), (9, Some(10)), (12, None)];
        assert_eq!(expected.map(|(cursor, _)| (cursor, next(cursor))), expected);
    }

    #[test]
    fn what_is_new_does_not_make_room() {
        let chunks = Chunks::default();
        let begun = Instant::now();
        let each = Bytes::from(vec![b'x'; ROOM / 8]);
        let keep = |number: u64, at: Instant| {
            chunks.keep(FORM, span(number, number + 1, number + 1, number + 1), each.clone(), at)
        };
        for number in 0..12 {
            keep(number, begun);
        }
        let left = || (0..12).filter(|cursor| taken(&chunks, *cursor).is_some()).collect::<Vec<u64>>();
        assert_eq!(left(), [0, 1, 2, 3, 4, 5, 6, 7]);
        keep(8, begun + NEW);
        assert_eq!(left().last(), Some(&8));
    }

    #[test]
    fn what_was_written_longest_ago_makes_room_and_none_is_kept_for_long() {
        let chunks = Chunks::default();
        let begun = Instant::now();
        let at = |number: u64| begun + Duration::from_millis(number);
        let each = Bytes::from(vec![b'x'; ROOM / 8]);
        for number in 0..12 {
            chunks.keep(FORM, span(number, number + 1, number + 1, number + 1), each.clone(), at(number));
        }
        let left = || (0..12).filter(|cursor| taken(&chunks, *cursor).is_some()).collect::<Vec<u64>>();
        assert_eq!(left(), [4, 5, 6, 7, 8, 9, 10, 11]);
        chunks.keep(FORM, span(0, 1, 1, 1), each, at(12));
        assert_eq!(left(), [0, 5, 6, 7, 8, 9, 10, 11]);
        assert!(chunks.expire(at(11) + AGE));
        assert_eq!(left(), [0]);
        assert!(!chunks.expire(at(12) + AGE));
        for number in 0..2 * KEPT as u64 {
            keep(&chunks, span(number, number + 1, number + 1, number + 1), "x");
        }
        let left = (0..2 * KEPT as u64).filter(|cursor| taken(&chunks, *cursor).is_some()).count();
        assert_eq!(left, KEPT);
    }
}
