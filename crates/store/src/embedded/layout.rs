//! The rows of the embedded store, all in one ordered keyspace.
//!
//! ```text
//! i key 0x00 !revision   a version; versions of a key lie newest first     xxh3 of the rest, head, value
//! l revision             a change, in the order of commits                 head, previous, key
//! t revision             when this revision was committed                  milliseconds since 1970
//! m                      how far history reaches                           compacted, swept
//! ```
//!
//! Numbers in row keys are big-endian, so that rows lie in order. A value is stored once, in its `i` row; the
//! engine keeps large ones in files of their own, and moves only their places when it merges. The `l` row of
//! a live entry stays as long as the entry: all heads can be read from the log without touching values, and
//! each kind of row can stand in for the other when one is damaged. Every row ends or starts with a checksum
//! of its key and contents.
//!
//! Worked example: `put a` (1), `put a` (2), `delete a` (3), compacted to 2:
//!
//! ```text
//! i a 0 !3 -> delete   i a 0 !2 -> put, create 1, value    (i a 0 !1 is swept: no revision from 2 on shows it)
//! l 2 -> put a         l 3 -> delete a, previous 2         (l 1 is swept with it)
//! ```

use crate::{ChangeKind, Event, Head, Key, Revision, StoredEntry, Value};
use bytes::Bytes;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

pub(super) const INDEX: u8 = b'i';
pub(super) const LOG: u8 = b'l';
pub(super) const TICK: u8 = b't';
pub(super) const STATE: &[u8] = b"m";

const DELETE: u8 = 1;

/// How far history reaches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Reach {
    /// The oldest revision that is served; also the least that the newest revision can be, because the row of
    /// a delete is removed from the log once it is compacted.
    pub(super) compacted: Revision,
    /// Superseded versions are removed up to here; at most `compacted`.
    pub(super) swept: Revision,
}

/// A row of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Logged {
    pub(super) key: Key,
    pub(super) kind: ChangeKind,
    pub(super) head: Head,
    pub(super) previous: Option<Head>,
}

impl Logged {
    pub(super) fn event(self, value: Value) -> Event {
        Event {
            key: self.key,
            kind: self.kind,
            head: self.head,
            value,
            previous: self.previous.map(|head| StoredEntry { head, value: None }),
        }
    }
}

/// What the row keys of all versions of keys with this prefix start with.
pub(super) fn index_prefix(prefix: &[u8]) -> Vec<u8> {
    [&[INDEX], prefix].concat()
}

/// The first row key after all that start with this prefix, which starts with a kind of row.
pub(super) fn successor(prefix: &[u8]) -> Vec<u8> {
    let kept = prefix.iter().rposition(|byte| *byte != u8::MAX).unwrap_or_default();
    let mut row = prefix.get(..=kept).unwrap_or_default().to_vec();
    if let Some(last) = row.last_mut() {
        *last = last.saturating_add(1);
    }
    row
}

/// The row key of a version.
pub(super) fn index_key(key: &[u8], revision: Revision) -> Vec<u8> {
    let mut row = Vec::with_capacity(key.len() + 10);
    row.push(INDEX);
    row.extend(key);
    row.push(0);
    row.extend((!revision.0).to_be_bytes());
    row
}

/// The key and revision in the row key of a version.
pub(super) fn parse_index_key(row: &Bytes) -> Option<(Bytes, Revision)> {
    let end = row.len().checked_sub(9)?;
    let (head, revision) = row.split_at_checked(end + 1)?;
    let revision = Revision(!u64::from_be_bytes(revision.try_into().ok()?));
    (head.first() == Some(&INDEX) && head.last() == Some(&0) && end > 1)
        .then(|| (row.slice(1..end), revision))
}

/// The row key of a kind of row that is ordered by revision.
pub(super) fn numbered(kind: u8, revision: Revision) -> Vec<u8> {
    let mut row = Vec::with_capacity(9);
    row.push(kind);
    row.extend(revision.0.to_be_bytes());
    row
}

/// The revision in a row key that [`numbered`] made.
pub(super) fn parse_numbered(row: &[u8]) -> Option<Revision> {
    let (_, revision) = row.split_first()?;
    Some(Revision(u64::from_be_bytes(revision.try_into().ok()?)))
}

/// The contents of an `i` row. A put without a value is an entry whose value is lost: it reads as damaged.
pub(super) fn version_row(row_key: &[u8], kind: ChangeKind, head: &Head, value: Option<&[u8]>) -> Vec<u8> {
    let len = value.map_or(0, <[u8]>::len);
    let mut row = Vec::with_capacity(17 + len);
    row.extend([0; 8]);
    row.push(if kind == ChangeKind::Delete { DELETE } else { 0 });
    row.extend(head.create_revision.0.to_le_bytes());
    row.extend(value.unwrap_or_default());
    if value.is_some() || kind == ChangeKind::Delete {
        let sum = version_sum(row_key, row.get(8..).unwrap_or_default());
        row.splice(..8, sum);
    }
    row
}

/// A version as it was read.
pub(super) struct Version {
    pub(super) kind: ChangeKind,
    pub(super) head: Head,
    pub(super) value: Bytes,
}

/// Reads an `i` row without copying its value; `None` if it is damaged.
pub(super) fn parse_version_row(row_key: &[u8], revision: Revision, row: Bytes) -> Option<Version> {
    let (sum, contents) = row.split_at_checked(8)?;
    if sum != version_sum(row_key, contents) {
        return None;
    }
    let mut row = Parser(row.slice(8..));
    let kind = kind(row.u8()?);
    Some(Version { kind, head: row.head(revision)?, value: row.0 })
}

/// The contents of an `l` row.
pub(super) fn log_row(row_key: &[u8], logged: &Logged) -> Vec<u8> {
    let key = logged.key.as_bytes();
    let mut row = Vec::with_capacity(21 + key.len());
    row.push(if logged.kind == ChangeKind::Delete { DELETE } else { 0 });
    row.extend(logged.head.create_revision.0.to_le_bytes());
    row.extend(logged.previous.as_ref().map_or(0, |previous| previous.mod_revision.0).to_le_bytes());
    row.extend(key);
    seal(row_key, row)
}

/// Reads an `l` row; `None` if it is damaged.
pub(super) fn parse_log_row(row_key: &[u8], row: &Bytes) -> Option<Logged> {
    let revision = parse_numbered(row_key)?;
    let mut row = Parser(unseal(row_key, row)?);
    let flags = row.u8()?;
    let head = row.head(revision)?;
    let mod_revision = Revision(row.u64()?);
    let previous = (mod_revision != Revision::ZERO)
        .then_some(Head { create_revision: head.create_revision, mod_revision });
    let key = Key::new(row.0).ok()?;
    Some(Logged { key, kind: kind(flags), head, previous })
}

/// The contents of the `m` row.
pub(super) fn state_row(reach: &Reach) -> Vec<u8> {
    let numbers = [reach.compacted, reach.swept];
    seal(STATE, numbers.iter().flat_map(|number| number.0.to_le_bytes()).collect())
}

/// Reads the `m` row; `None` if it is damaged.
pub(super) fn parse_state_row(row: &Bytes) -> Option<Reach> {
    let mut row = Parser(unseal(STATE, row)?);
    let reach = Reach { compacted: Revision(row.u64()?), swept: Revision(row.u64()?) };
    row.end()?;
    Some(reach)
}

fn version_sum(row_key: &[u8], contents: &[u8]) -> [u8; 8] {
    xxh3_64_with_seed(contents, xxh3_64(row_key)).to_le_bytes()
}

fn kind(flags: u8) -> ChangeKind {
    if flags & DELETE == 0 { ChangeKind::Put } else { ChangeKind::Delete }
}

fn row_sum(row_key: &[u8], row: &[u8]) -> [u8; 4] {
    let [a, b, c, d, ..] = version_sum(row_key, row);
    [a, b, c, d]
}

fn seal(row_key: &[u8], mut row: Vec<u8>) -> Vec<u8> {
    let sum = row_sum(row_key, &row);
    row.extend(sum);
    row
}

fn unseal(row_key: &[u8], row: &Bytes) -> Option<Bytes> {
    let body = row.len().checked_sub(4)?;
    let (contents, sum) = row.split_at_checked(body)?;
    (sum == row_sum(row_key, contents)).then(|| row.slice(..body))
}

struct Parser(Bytes);

impl Parser {
    fn take(&mut self, len: usize) -> Option<Bytes> {
        (len <= self.0.len()).then(|| self.0.split_to(len))
    }

    fn u8(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }

    fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.as_ref().try_into().ok()?))
    }

    fn head(&mut self, mod_revision: Revision) -> Option<Head> {
        Some(Head { create_revision: Revision(self.u64()?), mod_revision })
    }

    fn end(&self) -> Option<()> {
        self.0.is_empty().then_some(())
    }
}

#[cfg(test)]
mod tests;
