//! The storage engine: one fjall database with one keyspace, and what this crate needs of it.
//!
//! 1. The engine is written by one thread, the committer.
//! 2. A panic inside the engine, which damaged files can cause, is an error like any other here.
//! 3. A write never waits inside the engine for background work that may have died: it waits here, where a
//!    dead engine is noticed.
//! 4. While `flushed` is there, everything is in tables, and the journal may be missing. It is removed before
//!    anything is written.
//!
//! Sizes are chosen for small memory: a 16 MiB memtable, an 8 MiB block cache, one background thread (a
//! second one would spin while the first compacts). Values from 512 bytes on lie in files of their own, so
//! that compaction moves only the small rows.
//!
//! fjall itself starts a new journal after 64 MB, and merges tables when there are four new ones. Both depend
//! on writes; [`Engine::flush`], [`Engine::merge`] and [`Engine::close_without_journal`] give space back
//! without any.

use super::{
    files::{Copied, Place, copy_folder, moved, remove_file},
    journal,
    layout::{self, Version},
    media::Media,
};
use crate::families::{BATCHES, SYNCS, WRITTEN};
use crate::{
    Revision,
    backup::{private, sync_dir},
};
use bytes::Bytes;
use fjall::{
    AbstractTree, Database, Keyspace, KeyspaceCreateOptions, KvSeparationOptions, PersistMode, Readable,
    Snapshot,
};
use std::{
    any::Any,
    cell::RefCell,
    fs, io,
    ops::Bound,
    os::unix::fs::MetadataExt,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

const MEMTABLE: u64 = 16 << 20;
const BLOCK_CACHE: u64 = 8 << 20;
const JOURNALS: u64 = 64 << 20;
const SEPARATED: u32 = 512;
const BLOB_FILE: u64 = 64 << 20;

/// Background work that may be outstanding before a write waits for it.
const MAX_SEALED: usize = 2;
const MAX_L0: usize = 18;
const WAIT: Duration = Duration::from_millis(2);

/// The files of a database. If one is missing, fjall would make a new one, or take rows for garbage. The
/// keyspaces are fjall's own and `rows`.
const PARTS: &[&str] = &[
    "version",
    "keyspaces/0/current",
    "keyspaces/0/tables",
    "keyspaces/1/current",
    "keyspaces/1/tables",
    "keyspaces/1/blobs",
];

/// The mark that everything is in tables.
pub(super) const FLUSHED: &str = "flushed";

/// The parts of a database that are not written again once they are there.
const UNCHANGING: &[&str] = &["tables", "blobs"];

/// An open database.
pub(super) struct Engine {
    path: PathBuf,
    database: Database,
    rows: Keyspace,
    journal: Mutex<OpenJournal>,
}

/// The journal that is written.
struct OpenJournal {
    path: PathBuf,
    place: Place,
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
    /// At any later time: losing the write is harmless.
    Lazy,
}

/// Why the engine could not read.
#[derive(Debug)]
pub(super) enum ReadError {
    /// The bytes on disk are not what was written.
    Damaged(String),
    /// A file is not there.
    Missing(String),
    /// Reading failed.
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
    /// Creates a database at `path`, where nothing is.
    pub(super) fn create(path: &Path) -> Result<Self, ReadError> {
        if path.try_exists().map_err(ReadError::Io)? {
            return Err(ReadError::Damaged(format!("{} exists already", path.display())));
        }
        Self::open_or_create(path)
    }

    /// Opens the database at `path`.
    pub(super) fn open(path: &Path) -> Result<Self, ReadError> {
        if let Some(missing) = missing_part(path).map_err(ReadError::Io)? {
            return Err(ReadError::Missing(missing));
        }
        let is_new = journal::newest(path).map_err(ReadError::Io)?.is_none();
        let engine = Self::open_or_create(path)?;
        if is_new {
            // fjall reads its sequence numbers from the journal alone.
            let next = engine.rows.tree.get_highest_seqno().map_or(0, |highest| highest + 1);
            engine.database.supervisor.seqno.fetch_max(next);
            engine.database.supervisor.snapshot_tracker.set(next);
        }
        let flushed = path.join(FLUSHED);
        if flushed.try_exists().map_err(ReadError::Io)? {
            remove_file(&flushed).and_then(|()| sync_dir(path)).map_err(ReadError::Io)?;
        }
        Ok(engine)
    }

    fn open_or_create(path: &Path) -> Result<Self, ReadError> {
        let (database, rows) = guarded(|| open_rows(path))?;
        let journal = Mutex::new(OpenJournal::newest(path).map_err(ReadError::Io)?);
        Ok(Self { path: path.into(), database, rows, journal })
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
        BATCHES.with([]).inc();
        WRITTEN.with([]).add(rows.bytes as u64);
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
            let begin = Instant::now();
            media.sync().map_err(WriteError::Sync)?;
            self.sync_with(PersistMode::SyncData)?;
            SYNCS.with([]).observe_time(begin.elapsed());
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

    /// Fails if the journal is not where it was opened: what is written to it would be lost.
    pub(super) fn check_place(&self) -> io::Result<()> {
        let mut journal = self.journal.lock().unwrap_or_else(PoisonError::into_inner);
        match fs::metadata(&journal.path) {
            Ok(found) if Place::of(&found) == journal.place => return Ok(()),
            Ok(_) => return Err(moved()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        // fjall may have started another journal.
        match OpenJournal::newest(&self.path) {
            Ok(newest) if journal::is_later(&newest.path, &journal.path) => {
                *journal = newest;
                Ok(())
            }
            Ok(_) => Err(moved()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(moved()),
            Err(error) => Err(error),
        }
    }

    /// The number of the newest record that is in tables, with all before it.
    pub(super) fn persisted(&self) -> Option<u64> {
        self.rows.tree.get_highest_persisted_seqno()
    }

    /// The bytes that journals take up on disk.
    pub(super) fn journal_bytes(&self) -> u64 {
        let journals = journal::all(&self.path).unwrap_or_default();
        journals.iter().filter_map(|journal| Some(fs::metadata(journal).ok()?.blocks() * 512)).sum()
    }

    /// The bytes that tables and files of values take up.
    pub(super) fn table_bytes(&self) -> u64 {
        self.rows.disk_space()
    }

    /// The bytes of values that are dead, as far as merging has found them.
    pub(super) fn stale(&self) -> u64 {
        self.rows.fragmented_blob_bytes()
    }

    /// About how many bytes are in memory and in the journal only.
    pub(super) fn unflushed(&self) -> u64 {
        let sealed = u64::try_from(self.rows.sealed_memtable_count()).unwrap_or_default();
        self.rows.tree.active_memtable().size() + sealed * MEMTABLE
    }

    /// Writes what is in memory now to tables.
    pub(super) fn flush(&self) -> Result<(), WriteError> {
        self.attempt(|| self.rows.rotate_memtable().map(drop))?;
        while self.rows.sealed_memtable_count() > 0 {
            self.attempt(|| self.database.persist(PersistMode::Buffer))?;
            thread::sleep(WAIT);
        }
        Ok(())
    }

    /// Merges all tables, and rewrites the files of values of which merging has found a quarter to be dead.
    pub(super) fn merge(&self) -> Result<(), ReadError> {
        guarded(|| self.rows.major_compact())
    }

    /// Whether the journal holds nothing that is not in tables.
    pub(super) fn is_flushed(&self) -> bool {
        self.unflushed() == 0 && self.database.journal_count() == 1
    }

    /// Closes an engine that [is flushed](Self::is_flushed), and removes its journal. The next open starts
    /// another journal.
    pub(super) fn close_without_journal(self) -> io::Result<()> {
        let path = self.path.clone();
        private().create(true).truncate(true).open(path.join(FLUSHED))?.sync_all()?;
        sync_dir(&path)?;
        drop(self);
        for journal in journal::all(&path)? {
            fs::remove_file(journal)?;
        }
        sync_dir(&path)
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

/// The part of a database at `path` that is missing.
pub(super) fn missing_part(path: &Path) -> io::Result<Option<String>> {
    if let Some(missing) = missing_beside_journal(path)? {
        return Ok(Some(missing));
    }
    Ok((!has_journal(path)?).then(|| "the journal in \"db\"".into()))
}

/// The part of a database at `path` that is missing, apart from its journal.
pub(super) fn missing_beside_journal(path: &Path) -> io::Result<Option<String>> {
    if !path.try_exists()? {
        return Ok(Some("the directory \"db\"".into()));
    }
    for part in PARTS {
        if !path.join(part).try_exists()? {
            return Ok(Some(format!("\"db/{part}\"")));
        }
    }
    Ok(None)
}

/// Whether the journal of a database at `path` exists, or may be missing.
pub(super) fn has_journal(path: &Path) -> io::Result<bool> {
    Ok(path.join(FLUSHED).try_exists()? || journal::newest(path)?.is_some())
}

/// Makes a database from the tables of another one, without its journals. Files that are never written again
/// are hard links where the file system supports them.
pub(super) fn copy_tables(from: &Path, to: &Path) -> io::Result<()> {
    copy_folder(from, to, &|path| match path.extension() {
        Some(extension) if extension == "jnl" => Copied::Not,
        _ if path
            .parent()
            .and_then(Path::file_name)
            .is_some_and(|name| UNCHANGING.iter().any(|part| name == *part)) =>
        {
            Copied::Linked
        }
        _ => Copied::Anew,
    })?;
    private().create(true).truncate(true).open(to.join(FLUSHED)).map(drop)
}

fn open_rows(path: &Path) -> fjall::Result<(Database, Keyspace)> {
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
        KeyspaceCreateOptions::default().max_memtable_size(MEMTABLE).with_kv_separation(Some(separation))
    })?;
    Ok((database, rows))
}

impl OpenJournal {
    fn newest(engine: &Path) -> io::Result<Self> {
        let path = journal::newest(engine)?.ok_or_else(moved)?;
        let place = Place::of(&fs::metadata(&path)?);
        Ok(Self { path, place })
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
    /// The next version that is wanted by its key and revision. An error here ends the scan, and means that
    /// keys are unreadable; an error inside of [`Found`] concerns that version only.
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
            Self::Missing(what) => write!(f, "{what} is missing"),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embedded::Disk;

    fn write(engine: &Engine, value: Option<&str>) {
        let mut rows = Rows::default();
        match value {
            Some(value) => rows.put(b"m".into(), value.into()),
            None => rows.remove(b"m".into()),
        }
        engine.write(rows, Durability::Synced, &Disk).unwrap();
    }

    fn value(engine: &Engine) -> Option<Bytes> {
        engine.view().get(b"m").unwrap()
    }

    /// The numbers by which the engine orders writes go on where the tables end.
    #[test]
    fn writes_after_the_journal_was_replaced_count() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("db");
        let engine = Engine::create(&path).unwrap();
        for n in 0..100 {
            write(&engine, Some(&format!("{n}")));
        }
        assert!(!engine.is_flushed());
        engine.flush().unwrap();
        assert!(engine.is_flushed());
        engine.close_without_journal().unwrap();
        assert_eq!(missing_part(&path).unwrap(), None, "the mark says that there may be no journal");

        let engine = Engine::open(&path).unwrap();
        assert!(!path.join(FLUSHED).exists());
        assert_eq!(value(&engine).unwrap(), "99");
        write(&engine, Some("later"));
        assert_eq!(value(&engine).unwrap(), "later");
        drop(engine);
        let engine = Engine::open(&path).unwrap();
        assert_eq!(value(&engine).unwrap(), "later");
        write(&engine, None);
        engine.flush().unwrap();
        engine.merge().unwrap();
        engine.close_without_journal().unwrap();
        let engine = Engine::open(&path).unwrap();
        assert_eq!(value(&engine), None);
        drop(engine);
        fs::remove_file(journal::newest(&path).unwrap().unwrap()).unwrap();
        assert!(matches!(Engine::open(&path), Err(ReadError::Missing(_))), "without the mark, it is missed");
    }
}
