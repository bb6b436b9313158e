//! The log of a resource type: its changes in the order of revisions, the newest window of them in memory.
//!
//! 1. The log holds every change of its type with a revision in `(start, newest]`, each once, in order.
//! 2. A change that was pushed never changes; it only leaves at the old end, together with its neighbours.
//! 3. The changes of one revision lie in one piece.
//! 4. Readers hold pieces, and not the entries in them: a watcher does not change the reference counts of
//!    entries, and does not hold the lock of the log while it reads.
//!
//! Entries in the log are the ones of the state: what a change adds to memory is the state that it replaced.

use crate::{Entry, Spec};
use std::{
    collections::VecDeque,
    ops::Range,
    sync::{Arc, OnceLock},
    time::Instant,
};
use store::{Head, Key, Revision, Unavailable, Unreadable, Value};

/// The most changes in a piece, unless more share a revision.
const CHANGES: usize = 64;
/// A piece with more bytes than this gets no more changes.
const BYTES: usize = 64 << 10;

/// The state of a key.
#[derive(Clone, Debug)]
pub(crate) enum KeyState {
    /// The key has no object.
    Absent,
    /// An object.
    Entry(Arc<Entry>),
    /// Bytes that cannot be read.
    Unreadable(Unreadable),
}

impl KeyState {
    /// The state of a key with this stored value.
    pub(crate) fn read(spec: &Arc<Spec>, key: &Key, head: &Head, value: &Value) -> Self {
        let read = match value {
            Ok(value) => Entry::read(spec, key, head, value).map_err(Unreadable::from),
            Err(unreadable) => Err(unreadable.clone()),
        };
        read.map_or_else(Self::Unreadable, |entry| Self::Entry(Arc::new(entry)))
    }

    /// Bytes that cannot be decrypted at present.
    pub(crate) fn unavailable(&self) -> Option<&Arc<Unavailable>> {
        match self {
            Self::Unreadable(Unreadable::Unavailable(unavailable)) => Some(unavailable),
            _ => None,
        }
    }

    pub(crate) fn entry(&self) -> Option<&Arc<Entry>> {
        match self {
            Self::Entry(entry) => Some(entry),
            _ => None,
        }
    }

    pub(crate) fn size(&self) -> usize {
        self.entry().map_or(0, |entry| entry.size())
    }
}

/// One change of a key: what it held before and after.
#[derive(Clone, Debug)]
pub(crate) struct Transition {
    pub(crate) revision: Revision,
    pub(crate) key: Arc<str>,
    pub(crate) before: KeyState,
    pub(crate) after: KeyState,
    tombstone: OnceLock<Arc<Entry>>,
}

impl Transition {
    /// A change of a key.
    pub(crate) fn new(revision: Revision, key: Arc<str>, before: KeyState, after: KeyState) -> Self {
        Self { revision, key, before, after, tombstone: OnceLock::new() }
    }

    /// The state before, with the revision of this change: the object of a DELETED event. Built once.
    pub(crate) fn tombstone(&self) -> Option<&Arc<Entry>> {
        let before = self.before.entry()?;
        Some(self.tombstone.get_or_init(|| Arc::new(before.tombstone(self.revision))))
    }

    /// The memory that the change keeps from being freed: the state before, counted twice where a tombstone
    /// is likely to be built.
    fn size(&self) -> usize {
        let copies = if matches!(self.after, KeyState::Entry(_)) { 1 } else { 2 };
        size_of::<OnceLock<Self>>() + self.key.len() + copies * self.before.size()
    }
}

/// Consecutive changes. A piece is only appended to.
#[derive(Debug)]
pub(crate) struct Piece {
    changes: Box<[OnceLock<Transition>]>,
}

impl Piece {
    fn new(capacity: usize) -> Self {
        Self { changes: (0..capacity).map(|_| OnceLock::new()).collect() }
    }

    /// A change by its place.
    pub(crate) fn get(&self, at: usize) -> Option<&Transition> {
        self.changes.get(at)?.get()
    }
}

/// Consecutive changes of a piece of the log.
pub(crate) struct PieceRange {
    pub(crate) piece: Arc<Piece>,
    pub(crate) places: Range<usize>,
}

/// A piece of the log, with the values that a search needs.
#[derive(Debug)]
struct KeptPiece {
    piece: Arc<Piece>,
    len: usize,
    /// The revision of its last change.
    last: Revision,
    /// When the last change was added.
    at: Instant,
    bytes: usize,
}

impl KeptPiece {
    fn has_room(&self, changes: usize) -> bool {
        self.len + changes <= self.piece.changes.len() && self.bytes < BYTES
    }

    fn push(&mut self, change: Transition, at: Instant) {
        let Some(place) = self.piece.changes.get(self.len) else { return };
        self.bytes += change.size();
        self.last = change.revision;
        self.at = at;
        self.len += 1;
        place.get_or_init(|| change);
    }

    fn range((part, places): (&Self, Range<usize>)) -> PieceRange {
        PieceRange { piece: part.piece.clone(), places }
    }

    /// The place of the first change after a revision.
    fn place(&self, revision: Revision) -> usize {
        let changes = self.piece.changes.get(..self.len).unwrap_or_default();
        changes.partition_point(|change| change.get().is_some_and(|change| change.revision <= revision))
    }
}

/// The newest window of changes.
#[derive(Debug)]
pub(crate) struct Log {
    start: Revision,
    /// Every change after this revision is in the log. It is before `start` if dropped history had no change
    /// of the type.
    complete_after: Revision,
    parts: VecDeque<KeptPiece>,
    len: usize,
    bytes: usize,
}

/// Changes that left the log, to be dropped outside of its lock.
#[must_use = "its bytes are no longer those of the log"]
pub(crate) struct Released {
    pub(crate) bytes: usize,
    _parts: Vec<KeptPiece>,
}

impl Log {
    /// A log that knows nothing of what came up to `start`.
    pub(crate) fn new(start: Revision) -> Self {
        Self { start, complete_after: start, parts: VecDeque::new(), len: 0, bytes: 0 }
    }

    /// The oldest revision that a reader can go on from.
    pub(crate) fn start(&self) -> Revision {
        self.start
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Adds the changes of a type in one revision, which is newer than all before.
    pub(crate) fn push(&mut self, changes: Vec<Transition>, at: Instant) {
        let Some(last) = changes.last().map(|change| change.revision) else { return };
        self.len += changes.len();
        if self.parts.back().is_none_or(|part| !part.has_room(changes.len())) {
            // The log of a type that hardly changes is small.
            let capacity = self.len.next_power_of_two().clamp(4, CHANGES).max(changes.len());
            let piece = Arc::new(Piece::new(capacity));
            self.parts.push_back(KeptPiece { piece, len: 0, last, at, bytes: 0 });
        }
        let Some(part) = self.parts.back_mut() else { return };
        let before = part.bytes;
        changes.into_iter().for_each(|change| part.push(change, at));
        self.bytes += part.bytes - before;
    }

    /// The changes after a revision, oldest first; `None` if the log does not reach back to it.
    pub(crate) fn after(&self, revision: Revision) -> Option<impl Iterator<Item = &Transition>> {
        let places = (revision >= self.start).then(|| self.places(revision))?;
        Some(places.flat_map(|(part, places)| places.filter_map(|at| part.piece.get(at))))
    }

    /// The changes after a revision, in their pieces; `None` if the log does not reach back to it.
    pub(crate) fn ranges(&self, revision: Revision) -> Option<impl Iterator<Item = PieceRange>> {
        (revision >= self.start).then(|| self.places(revision).map(KeptPiece::range))
    }

    /// The same for a reader that needs no history, only every change: `None` if one of them left the log.
    pub(crate) fn ranges_if_complete(&self, revision: Revision) -> Option<impl Iterator<Item = PieceRange>> {
        (revision >= self.complete_after).then(|| self.places(revision).map(KeptPiece::range))
    }

    /// The changes of a revision, in their piece.
    pub(crate) fn range(&self, revision: Revision) -> Option<PieceRange> {
        let before = Revision(revision.0.checked_sub(1)?);
        let part = self.parts.get(self.part(before))?;
        let places = part.place(before)..part.place(revision);
        (!places.is_empty() && revision > self.start)
            .then(|| PieceRange { piece: part.piece.clone(), places })
    }

    /// The change of a key in a revision.
    pub(crate) fn get(&self, key: &str, revision: Revision) -> Option<&Transition> {
        let before = Revision(revision.0.checked_sub(1)?);
        let part = self.parts.get(self.part(before))?;
        let mut changes = (part.place(before)..part.place(revision)).filter_map(|at| part.piece.get(at));
        changes.find(|change| *change.key == *key)
    }

    /// Whether the oldest piece is older than `expired`.
    pub(crate) fn is_expired(&self, expired: Instant) -> bool {
        self.parts.front().is_some_and(|part| part.at < expired)
    }

    /// Drops what is older than `expired`, and from the old end until `excess` bytes are freed; whole pieces
    /// of both.
    pub(crate) fn trim(&mut self, expired: Option<Instant>, excess: usize) -> Released {
        let mut freed = 0;
        let goes = |part: &&KeptPiece| {
            let goes = freed < excess || expired.is_some_and(|expired| part.at < expired);
            freed += part.bytes;
            goes
        };
        let count = self.parts.iter().take_while(goes).count();
        self.release(count)
    }

    /// Forgets what came up to a revision, which readers can go on from.
    pub(crate) fn forget(&mut self, to: Revision) -> Released {
        let released = self.release(self.part(to));
        self.start = self.start.max(to);
        released
    }

    /// Drops the oldest parts.
    fn release(&mut self, count: usize) -> Released {
        let parts: Vec<KeptPiece> = self.parts.drain(..count).collect();
        let bytes = parts.iter().map(|part| part.bytes).sum();
        self.bytes -= bytes;
        self.len -= parts.iter().map(|part| part.len).sum::<usize>();
        if let Some(part) = parts.last() {
            self.start = self.start.max(part.last);
            self.complete_after = self.complete_after.max(part.last);
        }
        if self.parts.len() < self.parts.capacity() / 4 {
            self.parts.shrink_to(self.parts.len() * 2);
        }
        Released { bytes, _parts: parts }
    }

    /// The first part with changes after a revision.
    fn part(&self, revision: Revision) -> usize {
        self.parts.partition_point(|part| part.last <= revision)
    }

    /// Where the changes after a revision lie.
    fn places(&self, revision: Revision) -> impl Iterator<Item = (&KeptPiece, Range<usize>)> {
        self.parts.range(self.part(revision)..).enumerate().map(move |(number, part)| {
            let from = if number == 0 { part.place(revision) } else { 0 };
            (part, from..part.len)
        })
    }
}

#[cfg(test)]
mod tests;
