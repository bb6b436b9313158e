//! Events that one watcher has encoded, for the other watchers of its set to send as they are.
//!
//! Watchers of the same objects in the same encoding send the same bytes. The first one reads the log and
//! encodes; the others take its bytes.
//!
//! 1. A chunk has every event of its set after `from` up to `to`, and no other. No event lies before `first`:
//!    a watcher with any cursor in `[from, first)` continues with it.
//! 2. Only watchers that ask for nothing but the keys of their set take or give chunks.
//! 3. A set keeps the newest chunks, up to some bytes, none that is large, and none for long: they serve
//!    watchers that were woken together, also with different cursors. A later watcher reads the log.
//!
//! ```text
//! events of the set    12        15 16               21
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

/// About how many bytes of chunks a set keeps, and how many chunks. A watcher that keeps up writes event by
/// event, and one that does not should find all of them.
const ROOM: usize = 1024 * 1024;
const KEPT: usize = 256;
/// The largest that are kept.
const LARGEST: usize = 128 * 1024;
/// A chunk is not evicted before this age: the watchers of a set come one after the other, and would evict
/// what the next one needs.
const NEW: Duration = Duration::from_millis(5);
/// A chunk of this age is dropped at the next tick.
const AGE: Duration = Duration::from_secs(1);

/// Events that were written together.
#[derive(Clone, Debug)]
pub struct Chunk {
    /// The revision of the last of them.
    pub last: Revision,
    /// The events.
    pub bytes: Bytes,
    /// How many they are.
    pub events: u32,
    pub(super) to: Revision,
}

/// The span of a batch whose encoding can be shared: the changes after `from` up to `to`, of which `first`
/// and `last` are the first and the last event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) from: Revision,
    pub(super) first: Revision,
    pub(super) last: Revision,
    pub(super) to: Revision,
    /// How many events.
    pub(super) events: u32,
}

/// The chunks of a set that were written last.
#[derive(Debug, Default)]
pub(super) struct Chunks(ShardedLock<KeptChunks>);

#[derive(Debug, Default)]
struct KeptChunks {
    /// In the order of their first events. All chunks that continue one cursor have the same first event: the
    /// next one after the cursor.
    kept: VecDeque<KeptChunk>,
    bytes: usize,
}

#[derive(Debug)]
struct KeptChunk {
    encoding: Encoding,
    from: Revision,
    first: Revision,
    at: Instant,
    chunk: Chunk,
}

impl KeptChunk {
    fn continues(&self, encoding: Encoding, cursor: Revision) -> bool {
        self.encoding == encoding && self.from <= cursor && cursor < self.first
    }
}

impl KeptChunks {
    /// The index of the chunk that continues `cursor`; if there is none, where it would be.
    fn find(&self, encoding: Encoding, cursor: Revision) -> Result<usize, usize> {
        let place = self.kept.partition_point(|kept| kept.first <= cursor);
        let next = self.kept.get(place).map(|kept| kept.first);
        let mut like =
            (place..).zip(self.kept.range(place..)).take_while(|(_, kept)| Some(kept.first) == next);
        like.find(|(_, kept)| kept.continues(encoding, cursor)).map(|(at, _)| at).ok_or(place)
    }

    /// Evicts the oldest chunks until there is room, but none that is new; false if there is no room.
    fn make_room(&mut self, bytes: usize, now: Instant) -> bool {
        while self.kept.len() >= KEPT || self.bytes + bytes > ROOM {
            let oldest = (0..).zip(&self.kept).min_by_key(|(_, kept)| kept.at);
            let Some((place, KeptChunk { at, chunk, .. })) = oldest else { return true };
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
    /// The chunk that continues `cursor`.
    pub(super) fn take(&self, encoding: Encoding, cursor: Revision) -> Option<Chunk> {
        let kept_chunks = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let place = kept_chunks.find(encoding, cursor).ok()?;
        kept_chunks.kept.get(place).map(|kept| kept.chunk.clone())
    }

    /// Where the first chunk begins that lies after `cursor`.
    pub(super) fn next(&self, encoding: Encoding, cursor: Revision) -> Option<Revision> {
        let kept_chunks = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let place = kept_chunks.kept.partition_point(|kept| kept.first <= cursor);
        let mut ahead = kept_chunks.kept.range(place..).filter(|kept| kept.encoding == encoding);
        ahead.find(|kept| kept.from > cursor).map(|kept| kept.from)
    }

    /// Keeps the bytes of a span, unless they are large; false if it is now the only chunk.
    pub(super) fn keep(&self, encoding: Encoding, span: Span, bytes: Bytes, at: Instant) -> bool {
        if bytes.len() > LARGEST {
            return true;
        }
        let Span { from, first, last, to, events } = span;
        let mut kept_chunks = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if kept_chunks.find(encoding, from).is_ok() {
            return true;
        }
        let any = !kept_chunks.kept.is_empty();
        if !kept_chunks.make_room(bytes.len(), at) {
            return true;
        }
        kept_chunks.bytes += bytes.len();
        let place = kept_chunks.kept.partition_point(|kept| kept.first < first);
        kept_chunks
            .kept
            .insert(place, KeptChunk { encoding, from, first, at, chunk: Chunk { last, bytes, events, to } });
        any
    }

    /// Drops all chunks.
    pub(super) fn clear(&self) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = KeptChunks::default();
    }

    /// Drops old chunks; false if none is left.
    pub(super) fn expire(&self, now: Instant) -> bool {
        let mut kept_chunks = self.0.write().unwrap_or_else(PoisonError::into_inner);
        kept_chunks.kept.retain(|kept| now.saturating_duration_since(kept.at) < AGE);
        kept_chunks.bytes = kept_chunks.kept.iter().map(|kept| kept.chunk.bytes.len()).sum();
        if kept_chunks.kept.is_empty() {
            kept_chunks.kept.shrink_to_fit();
        }
        !kept_chunks.kept.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORM: Encoding = Encoding(1);

    fn span(from: u64, first: u64, last: u64, to: u64) -> Span {
        let [from, first, last, to] = [from, first, last, to].map(Revision);
        Span { from, first, last, to, events: 1 }
    }

    fn keep(chunks: &Chunks, span: Span, text: &'static str) -> bool {
        chunks.keep(FORM, span, Bytes::from_static(text.as_bytes()), Instant::now())
    }

    fn taken(chunks: &Chunks, cursor: u64) -> Option<String> {
        let chunk = chunks.take(FORM, Revision(cursor))?;
        Some(format!("{} to {}", String::from_utf8_lossy(&chunk.bytes), chunk.to))
    }

    #[test]
    fn a_chunk_continues_cursors_from_its_start_up_to_its_first_event() {
        let chunks = Chunks::default();
        keep(&chunks, span(13, 15, 16, 18), "15,16");
        for cursor in 0..30 {
            let expected = (13..15).contains(&cursor).then(|| "15,16 to 18".to_owned());
            assert_eq!(taken(&chunks, cursor), expected, "at {cursor}");
        }
        assert!(chunks.take(Encoding(2), Revision(13)).is_none());
    }

    #[test]
    fn chunk_ends_where_the_next_begins() {
        let chunks = Chunks::default();
        assert!(!keep(&chunks, span(1, 2, 2, 3), "2"));
        assert!(keep(&chunks, span(3, 5, 6, 6), "5,6"));
        assert!(keep(&chunks, span(3, 5, 7, 7), "not kept: there is one with this start"));
        assert_eq!(taken(&chunks, 1).as_deref(), Some("2 to 3"));
        assert_eq!(taken(&chunks, 3).as_deref(), Some("5,6 to 6"));
        assert_eq!(taken(&chunks, 6), None);
    }

    #[test]
    fn a_chunk_is_found_by_its_first_event_in_any_order_of_writing() {
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
    fn a_cursor_between_chunks_reads_up_to_the_next_chunk() {
        let chunks = Chunks::default();
        keep(&chunks, span(2, 4, 9, 10), "4 to 9");
        keep(&chunks, span(10, 12, 12, 12), "12");
        keep(&chunks, span(9, 12, 12, 12), "12, written from 9");
        chunks.keep(Encoding(2), span(5, 6, 6, 6), Bytes::from_static(b"6, other form"), Instant::now());
        let next = |cursor| chunks.next(FORM, Revision(cursor)).map(|revision| revision.0);
        let expected = [(0, Some(2)), (1, Some(2)), (4, Some(9)), (8, Some(9)), (9, Some(10)), (12, None)];
        assert_eq!(expected.map(|(cursor, _)| (cursor, next(cursor))), expected);
    }

    #[test]
    fn chunks_younger_than_the_least_age_are_not_evicted() {
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
    fn the_oldest_chunk_is_evicted_and_all_expire() {
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
