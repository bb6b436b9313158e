//! The contents of journals, also those after damage.
//!
//! fjall stops at the first record that is not whole. This module searches for the next whole record, and for
//! whole rows in between: a record has a checksum, and so has a row. Values are JSON or encrypted, so what a
//! client wrote does not have the shape of a record or of a row.

use super::super::{
    journal::{self, BATCH, ITEM, Item, change},
    layout::{self, Logged},
};
use crate::Revision;
use bytes::Bytes;
use std::{
    collections::{BTreeMap, HashMap},
    fs, io,
    ops::Range,
    path::{Path, PathBuf},
};

/// The keyspace of fjall that has the rows.
const ROWS: u64 = 1;

/// What all journals of an engine hold.
#[derive(Default)]
pub(super) struct Journals {
    /// The rows that are not in tables yet, by their keys: `None` for a removed row.
    pub(super) rows: BTreeMap<Bytes, Option<Bytes>>,
    /// Of each key, the newest version that was removed because it was superseded, or was a delete.
    pub(super) removed: HashMap<Bytes, Revision>,
    /// What could not be read, in order.
    pub(super) gaps: Vec<Gap>,
    /// The newest change in a whole record.
    pub(super) newest: Revision,
}

/// A part of a journal that is not as it was written.
pub(super) struct Gap {
    pub(super) journal: PathBuf,
    pub(super) bytes: Range<usize>,
    /// How many rows in it are whole.
    pub(super) rows: usize,
    /// The newest change before it, if a journal has one.
    pub(super) after: Option<Revision>,
    /// The first change after it, if a journal has one.
    pub(super) before: Option<Revision>,
    /// Whether all rows of this part are in tables.
    pub(super) is_flushed: bool,
    /// Whether no whole record follows it.
    pub(super) is_last: bool,
}

/// A part of a journal.
enum Piece {
    Record { bytes: Range<usize>, number: u64 },
    Damaged(Range<usize>),
}

impl Journals {
    /// Reads the journals of an engine, of which records up to `flushed` are in tables.
    pub(super) fn read(engine: &Path, flushed: Option<u64>) -> io::Result<Self> {
        let mut journals = Self::default();
        let mut last = None;
        for path in journal::all(engine)? {
            let bytes = Bytes::from(fs::read(&path)?);
            for piece in pieces(&bytes, last) {
                match piece {
                    Piece::Damaged(range) => {
                        let rows = journals.rescue(&bytes, range.clone());
                        let after = (journals.newest > Revision::ZERO).then_some(journals.newest);
                        journals.gaps.push(Gap {
                            journal: path.clone(),
                            bytes: range,
                            rows,
                            after,
                            before: None,
                            is_flushed: false,
                            is_last: true,
                        });
                    }
                    Piece::Record { bytes: range, number } => {
                        last = Some(number);
                        let first = journals.add(&bytes, range, flushed < last);
                        for gap in journals.gaps.iter_mut().filter(|gap| gap.before.is_none()) {
                            gap.is_flushed |= flushed >= last;
                            gap.is_last = false;
                            gap.before = first;
                        }
                    }
                }
            }
        }
        Ok(journals)
    }

    /// Adds a whole record; its rows only if they are `new`. Returns its first change.
    fn add(&mut self, bytes: &Bytes, record: Range<usize>, new: bool) -> Option<Revision> {
        let mut first = None;
        for item in journal::items(bytes.get(record).unwrap_or_default()) {
            if item.keyspace != ROWS {
                continue;
            }
            if item.row.is_some()
                && let Some(change) = change(item.key)
            {
                first = first.or(Some(change)).min(Some(change));
                self.newest = self.newest.max(change);
            }
            self.put(bytes, &item, new);
        }
        first
    }

    /// Adds the whole rows in a damaged part, and the removals; returns the number of rows.
    fn rescue(&mut self, bytes: &Bytes, damaged: Range<usize>) -> usize {
        let (mut at, mut rows) = (damaged.start, 0);
        while at < damaged.end {
            let rest = bytes.get(at..damaged.end).unwrap_or_default();
            let found = (rest.first() == Some(&ITEM)).then(|| journal::item(rest)).flatten();
            match found.filter(|item| item.keyspace == ROWS && is_sound(bytes, item)) {
                Some(item) => {
                    rows += usize::from(item.row.is_some());
                    self.put(bytes, &item, true);
                    at += item.len;
                }
                None => at += 1,
            }
        }
        rows
    }

    fn put(&mut self, bytes: &Bytes, item: &Item<'_>, new: bool) {
        let key = bytes.slice_ref(item.key);
        if item.row.is_none()
            && let Some((key, revision)) = layout::parse_index_key(&key)
        {
            let removed = self.removed.entry(key).or_default();
            *removed = revision.max(*removed);
        }
        if new {
            self.rows.insert(key, item.row.map(|row| bytes.slice_ref(row)));
        }
    }

    /// Whether journals remove a row of the tables, or put it again.
    pub(super) fn has(&self, row_key: &[u8]) -> bool {
        self.rows.contains_key(row_key)
    }

    /// The rows of a kind that are put.
    pub(super) fn puts(&self, kind: u8) -> impl Iterator<Item = (&Bytes, &Bytes)> {
        let from = Bytes::copy_from_slice(&[kind]);
        let rows = self.rows.range(from..).take_while(move |(key, _)| key.first() == Some(&kind));
        rows.filter_map(|(key, row)| Some((key, row.as_ref()?)))
    }

    /// The changes that are put.
    pub(super) fn changes(&self) -> impl Iterator<Item = Logged> {
        self.puts(layout::LOG).filter_map(|(key, row)| layout::parse_log_row(key, row))
    }
}

/// Whether bytes that look like an item are one: the checksum of the row is right, or a row is removed.
fn is_sound(bytes: &Bytes, item: &Item<'_>) -> bool {
    let key = bytes.slice_ref(item.key);
    let version = layout::parse_index_key(&key);
    match item.row.map(|row| bytes.slice_ref(row)) {
        None => version.is_some() || change(&key).is_some(),
        Some(row) => match version {
            Some((_, revision)) => layout::parse_version_row(&key, revision, row).is_some(),
            None => change(&key).is_some() && layout::parse_log_row(&key, &row).is_some(),
        },
    }
}

/// The parts of a journal, in order; records are numbered from `last` on. The zeros that are allocated for
/// later records are no part.
fn pieces(bytes: &[u8], mut last: Option<u64>) -> Vec<Piece> {
    let end = journal::used(bytes);
    let whole = |at: usize, last: Option<u64>| {
        let found =
            bytes.get(at..end).filter(|rest| rest.first() == Some(&BATCH)).and_then(journal::whole)?;
        (Some(found.number) > last).then_some(found)
    };
    let (mut pieces, mut at) = (Vec::new(), 0);
    while at < end {
        let next = (at..end).find_map(|start| Some((start, whole(start, last)?)));
        let damaged_to = next.map_or(end, |(start, _)| start);
        if damaged_to > at {
            pieces.push(Piece::Damaged(at..damaged_to));
        }
        let Some((start, record)) = next else { break };
        at = start + record.len;
        last = Some(record.number);
        pieces.push(Piece::Record { bytes: start..at, number: record.number });
    }
    pieces
}
