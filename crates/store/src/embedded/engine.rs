//! The storage engine: one fjall database with one keyspace, and what this crate needs of it.
//!
//! 1. The engine is written by one thread, the committer.
//! 2. A panic inside the engine, which damaged files can cause, is an error like any other here.
//! 3. A write never waits inside the engine for background work that may have died: it waits here, where a dead engine
//!    is noticed.
//!
//! Sizes are chosen for small memory: a 16 MiB memtable, an 8 MiB block cache, one background thread (a second one
//! would spin while the first compacts). Values from 512 bytes on lie in files of their own, so that compaction moves
//! only the small rows.

use super::{
    layout::{self, Version},
    media::Media,
};
use crate::Revision;
use bytes::Bytes;
use fjall::{
    Database, Keyspace, KeyspaceCreateOptions, KvSeparationOptions, PersistMode, Readable, Snapshot,
};
use std::{
    any::Any,
    cell::RefCell,
    io,
    ops::Bound,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    thread,
    time::Duration,
};

const MEMTABLE: u64 = 16 << 20;
const BLOCK_CACHE: u64 = 8 << 20;
const JOURNALS: u64 = 128 << 20;
const SEPARATED: u32 = 512;
const BLOB_FILE: u64 = 64 << 20;

/// Background work that may be outstanding before a write waits for it.
const MAX_SEALED: usize = 2;
const MAX_L0: usize = 18;
const WAIT: Duration = Duration::from_millis(2);

/// An open database.
pub(super) struct Engine {
    database: Database,
    rows: Keyspace,
}

/// Rows to write together.
#[derive(Default)]
pub(super) struct Rows {
    puts: Vec<(Vec<u8>, Vec<u8>)>,
    removals: Vec<Vec<u8>>,
    bytes: usize,
}

/// Whether a write has to be on disk before it returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Durability {
    /// On disk.
    Synced,
    /// Whenever: losing it is harmless.
    Lazy,
}

/// Why the engine could not read.
#[derive(Debug)]
pub(super) enum ReadError {
    /// The bytes on disk are not what was written.
    Damaged(String),
    /// The disk does not answer.
    Io(io::Error),
}

/// Why the engine could not write.
#[derive(Debug)]
pub(super) enum WriteError {
    /// The write itself failed.
    Io(io::Error),
    /// The write went through, but the disk did not confirm it.
    Sync(io::Error),
    /// Background work failed earlier, and the engine has stopped.
    Stopped,
}

impl Rows {
    pub(super) fn put(&mut self, key: Vec<u8>, row: Vec<u8>) {
        self.bytes += key.len() + row.len();
        self.puts.push((key, row));
    }

    pub(super) fn remove(&mut self, key: Vec<u8>) {
        self.bytes += key.len();
        self.removals.push(key);
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Engine {
    /// Opens or creates the database at `path`.
    pub(super) fn open(path: &Path) -> Result<Self, ReadError> {
        guarded(|| {
            let database = Database::builder(path)
                .cache_size(BLOCK_CACHE)
                .worker_threads(1)
                .max_journaling_size(JOURNALS)
                .open()?;
            let rows = database.keyspace("rows", || {
                let separation = KvSeparationOptions::default()
                    .separation_threshold(SEPARATED)
                    .file_target_size(BLOB_FILE)
                    .staleness_threshold(0.25)
                    .age_cutoff(1.0);
                KeyspaceCreateOptions::default()
                    .max_memtable_size(MEMTABLE)
                    .with_kv_separation(Some(separation))
            })?;
            Ok(Self { database, rows })
        })
    }

    /// Writes rows as one atomic batch.
    pub(super) fn write(
        &self,
        rows: Rows,
        durability: Durability,
        media: &dyn Media,
    ) -> Result<(), WriteError> {
        self.wait_for_room()?;
        media.write(rows.bytes).map_err(WriteError::Io)?;
        self.attempt(|| {
            let mut batch = self.database.batch().durability(Some(PersistMode::Buffer));
            for (key, row) in rows.puts {
                batch.insert(&self.rows, key, row);
            }
            for key in rows.removals {
                batch.remove(&self.rows, key);
            }
            batch.commit()
        })?;
        if durability == Durability::Synced {
            media.sync().map_err(WriteError::Sync)?;
            self.sync_with(PersistMode::SyncData)?;
        }
        Ok(())
    }

    /// Makes all that was written so far durable.
    pub(super) fn sync(&self) -> Result<(), WriteError> {
        self.sync_with(PersistMode::SyncAll)
    }

    fn sync_with(&self, mode: PersistMode) -> Result<(), WriteError> {
        self.attempt(|| self.database.persist(mode)).map_err(|error| match error {
            WriteError::Io(error) => WriteError::Sync(error),
            other => other,
        })
    }

    /// A view of the rows as they are now.
    pub(super) fn view(&self) -> View {
        View { snapshot: self.database.snapshot(), rows: self.rows.clone() }
    }

    /// Invariant 3: fjall itself sleeps until background work has caught up, even when that work has died.
    fn wait_for_room(&self) -> Result<(), WriteError> {
        loop {
            self.attempt(|| self.database.persist(PersistMode::Buffer))?;
            if self.rows.sealed_memtable_count() <= MAX_SEALED && self.rows.l0_table_count() < MAX_L0 {
                return Ok(());
            }
            thread::sleep(WAIT);
        }
    }

    fn attempt(&self, work: impl FnOnce() -> fjall::Result<()>) -> Result<(), WriteError> {
        match catch_unwind(AssertUnwindSafe(work)) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(fjall::Error::Poisoned)) => Err(WriteError::Stopped),
            Ok(Err(fjall::Error::Io(error) | fjall::Error::Storage(fjall::LsmError::Io(error)))) => {
                Err(WriteError::Io(error))
            }
            Ok(Err(other)) => Err(WriteError::Io(io::Error::other(other.to_string()))),
            Err(panic) => Err(WriteError::Io(io::Error::other(message(panic.as_ref())))),
        }
    }
}

/// The rows at one moment.
pub(super) struct View {
    snapshot: Snapshot,
    rows: Keyspace,
}

/// A row as it was read.
pub(super) struct Row {
    pub(super) key: Bytes,
    pub(super) row: Bytes,
}

/// Rows in order, ending after the first error.
pub(super) struct Scan(Option<Result<fjall::Iter, ReadError>>);

impl View {
    pub(super) fn get(&self, key: &[u8]) -> Result<Option<Bytes>, ReadError> {
        guarded(|| Ok(self.snapshot.get(&self.rows, key)?.map(Bytes::from)))
    }

    /// All rows whose keys start with `prefix`.
    pub(super) fn scan_prefix(&self, prefix: &[u8]) -> Scan {
        Scan(Some(guarded(|| Ok(self.snapshot.prefix(&self.rows, prefix)))))
    }

    /// All rows with keys in a range.
    pub(super) fn scan(&self, from: Bound<Vec<u8>>, to: Bound<Vec<u8>>) -> Scan {
        Scan(Some(guarded(|| Ok(self.snapshot.range(&self.rows, (from, to))))))
    }

    /// The last row of a kind that is ordered by revision.
    pub(super) fn last(&self, kind: u8) -> Result<Option<Bytes>, ReadError> {
        guarded(|| match self.snapshot.prefix(&self.rows, [kind]).next_back() {
            Some(guard) => Ok(Some(guard.key()?.into())),
            None => Ok(None),
        })
    }

    /// The versions whose row keys lie between two others, by key and newest first.
    pub(super) fn versions(&self, from: &[u8], to: &[u8]) -> Versions {
        Versions(self.scan(Bound::Included(from.into()), Bound::Excluded(to.into())))
    }

    /// Reads every row, and fails at the first that cannot be read.
    pub(super) fn verify(&self) -> Result<(), ReadError> {
        for kind in [layout::INDEX, layout::LOG, layout::TICK] {
            for row in self.scan_prefix(&[kind]) {
                row?;
            }
        }
        self.get(layout::STATE).map(drop)
    }
}

/// Versions in order. The values of those that are not wanted are not read.
pub(super) struct Versions(Scan);

/// A version that was found.
pub(super) struct Found {
    pub(super) key: Bytes,
    pub(super) revision: Revision,
    /// The version, `None` if it fails its checksum, or why it cannot be read.
    pub(super) version: Result<Option<Version>, ReadError>,
}

impl Versions {
    /// The next version that is wanted by its key and revision. An error here ends the scan, and means that keys are
    /// unreadable; an error inside of [`Found`] is a matter of that version.
    pub(super) fn next(
        &mut self,
        mut want: impl FnMut(&[u8], Revision) -> bool,
    ) -> Option<Result<Found, ReadError>> {
        loop {
            let mut iter = match self.0.0.take()? {
                Ok(iter) => iter,
                Err(error) => return Some(Err(error)),
            };
            let asked = RefCell::new(None);
            let want = RefCell::new(&mut want);
            let next = guarded(|| {
                let Some(guard) = iter.next() else { return Ok(None) };
                let row = guard.into_inner_if(|row_key| {
                    let row_key = Bytes::from(row_key.clone());
                    let Some((key, revision)) = layout::parse_index_key(&row_key) else { return false };
                    let wanted = (want.borrow_mut())(&key, revision);
                    *asked.borrow_mut() = Some((row_key, key, revision));
                    wanted
                })?;
                Ok(Some(row.1))
            });
            let row = match (next, asked.into_inner()) {
                (Ok(None), _) => return None,
                (Ok(Some(_)), None) => {
                    return Some(Err(ReadError::Damaged("a row has an impossible key".into())));
                }
                (Err(error), None) => return Some(Err(error)),
                (Ok(Some(None)), Some(_)) => None,
                (Ok(Some(Some(row))), Some(asked)) => Some((Ok(Bytes::from(row)), asked)),
                (Err(error), Some(asked)) => Some((Err(error), asked)),
            };
            self.0.0 = Some(Ok(iter));
            if let Some((row, (row_key, key, revision))) = row {
                let version = row.map(|row| layout::parse_version_row(&row_key, revision, row));
                return Some(Ok(Found { key, revision, version }));
            }
        }
    }
}

impl Iterator for Scan {
    type Item = Result<Row, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut iter = match self.0.take()? {
            Ok(iter) => iter,
            Err(error) => return Some(Err(error)),
        };
        let next = guarded(|| iter.next().map(fjall::Guard::into_inner).transpose());
        let (key, row) = match next {
            Ok(row) => row?,
            Err(error) => return Some(Err(error)),
        };
        self.0 = Some(Ok(iter));
        Some(Ok(Row { key: key.into(), row: row.into() }))
    }
}

impl std::fmt::Display for ReadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Damaged(what) => f.write_str(what),
            Self::Io(error) => error.fmt(f),
        }
    }
}

impl From<fjall::Error> for ReadError {
    fn from(error: fjall::Error) -> Self {
        match error {
            fjall::Error::Io(error) | fjall::Error::Storage(fjall::LsmError::Io(error)) => match error.kind()
            {
                io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData | io::ErrorKind::NotFound => {
                    Self::Damaged(error.to_string())
                }
                _ => Self::Io(error),
            },
            other => Self::Damaged(other.to_string()),
        }
    }
}

fn guarded<T>(work: impl FnOnce() -> fjall::Result<T>) -> Result<T, ReadError> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(result) => result.map_err(ReadError::from),
        Err(panic) => Err(ReadError::Damaged(message(panic.as_ref()))),
    }
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    format!("the engine panicked: {}", text.unwrap_or("without a message"))
}
