//! The files beside the engine's own: the lock, the format, the watermark, and the marks of unfinished work.
//!
//! ```text
//! lock        held by the process that uses the directory
//! creating    written first and removed last when a store is made: the rest is incomplete, and was never used
//! format      the version of the layout
//! watermark   the newest acknowledged revision, so that lost files are noticed
//! reserve     space that is set aside
//! restoring   present while the store is made from a backup or another store, and says which: the rest is incomplete
//! db/         the storage engine
//! db.rebuild/ a copy without damaged rows, on its way to becoming db/
//! db.damaged/ the damaged engine that db.rebuild/ replaces
//! db.salvage/ the tables of db/ while a salvage reads them
//! ```
//!
//! 1. A new store never replaces existing files. A store is made in a directory without any of these names,
//!    or with `creating`; any other incomplete directory is refused.
//! 2. `creating` is gone before the first change is acknowledged.
//! 3. Everything is made for its owner alone.

use super::{
    engine::{self, Engine, ReadError},
    journal,
};
use crate::{
    Damage, Error, Revision,
    backup::{private, sync_dir},
};
use std::{
    fs::{self, DirBuilder, File, Metadata, Permissions, TryLockError},
    io::{self, Read, Seek, SeekFrom, Write},
    os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
};
use xxhash_rust::xxh3::xxh3_64;

/// The newest layout that this version reads and writes.
pub(super) const FORMAT: u32 = 2;

const FORMAT_TEXT: &str = "keelson store ";

/// Names that a directory without a store may hold.
const NEUTRAL: &[&str] = &["lock", "lost+found"];
/// Names that say that there is a store, or was one.
const PARTS: &[&str] = &[
    "db",
    "db.damaged",
    "db.rebuild",
    "db.salvage",
    "format",
    "format.new",
    "probe",
    "reserve",
    "watermark",
];

/// A data directory that this process has locked.
pub(super) struct Directory {
    path: PathBuf,
    lock: File,
    place: Place,
}

/// What an existing directory holds.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Contents {
    /// No store, or one that was never used.
    Nothing,
    /// A complete store.
    Store,
}

/// The identity of a file: the numbers of its device and its inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    device: u64,
    inode: u64,
}

impl Place {
    pub(super) fn of(metadata: &Metadata) -> Self {
        Self { device: metadata.dev(), inode: metadata.ino() }
    }
}

/// Whether a directory is missing, or holds nothing of a store: then opening it makes an empty one.
pub(super) fn is_vacant(path: &Path) -> io::Result<bool> {
    let entries = match fs::read_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
        entries => entries?,
    };
    for entry in entries {
        let name = entry?.file_name();
        if !NEUTRAL.iter().any(|neutral| name == *neutral) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// What an unfinished store in a directory is being made from.
pub(super) fn restoring(path: &Path) -> io::Result<Option<String>> {
    match fs::read_to_string(path.join("restoring")) {
        Ok(source) => Ok(Some(source)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => Ok(Some(String::new())),
        Err(error) => Err(error),
    }
}

/// The error of files that are not where they were opened.
pub(super) fn moved() -> io::Error {
    io::Error::new(
        io::ErrorKind::NotFound,
        "the data directory, or a file in it, was removed or replaced while it was in use",
    )
}

impl Directory {
    /// Makes the directory if need be, and locks it until [`Directory::unlock`] or the end of the value.
    pub(super) fn lock(path: &Path) -> Result<Self, Error> {
        DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(Error::read)?;
        // If the directory belongs to another user, that user decides who may read it.
        fs::set_permissions(path, Permissions::from_mode(0o700)).ok();
        let lock = private().create(true).truncate(false).open(path.join("lock")).map_err(Error::read)?;
        let place = Place::of(&lock.metadata().map_err(Error::read)?);
        match lock.try_lock() {
            Ok(()) => Ok(Self { path: path.into(), lock, place }),
            Err(TryLockError::WouldBlock) => Err(Error::Locked { path: path.into() }),
            Err(TryLockError::Error(error)) => Err(Error::read(error)),
        }
    }

    /// Releases the lock of the directory.
    pub(super) fn unlock(&self) {
        self.lock.unlock().ok();
    }

    /// Fails if another directory, or none, is at the path now.
    pub(super) fn check_place(&self) -> io::Result<()> {
        match fs::metadata(self.path.join("lock")) {
            Ok(found) if Place::of(&found) == self.place => Ok(()),
            Ok(_) => Err(moved()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(moved()),
            Err(error) => Err(error),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn engine(&self) -> PathBuf {
        self.path.join("db")
    }

    pub(super) fn rebuilt_engine(&self) -> PathBuf {
        self.path.join("db.rebuild")
    }

    pub(super) fn salvaged_tables(&self) -> PathBuf {
        self.path.join("db.salvage")
    }

    fn damaged_engine(&self) -> PathBuf {
        self.path.join("db.damaged")
    }

    /// Returns whether there is a store, after finishing or undoing an operation that a crash interrupted.
    pub(super) fn settle(&self) -> Result<Contents, Error> {
        if self.exists("restoring")? {
            return Err(self.unusable(Damage::Unfinished));
        }
        let Some(format) = self.format()? else {
            return self.settle_without_format();
        };
        if format != FORMAT {
            return Err(Error::other_format(&self.path, format, FORMAT));
        }
        self.settle_rebuild().map_err(Error::read)?;
        if let Some(missing) = engine::missing_part(&self.engine()).map_err(Error::read)? {
            return Err(self.unusable(Damage::Missing(missing)));
        }
        if !self.exists("watermark")? {
            return Err(self.missing("the file \"watermark\""));
        }
        self.end_creation()?;
        Ok(Contents::Store)
    }

    /// Checks that there is a store that a salvage can read: its journal and its watermark may be missing.
    pub(super) fn settle_damaged(&self) -> Result<(), Error> {
        if self.exists("restoring")? {
            return Err(self.unusable(Damage::Unfinished));
        }
        match self.format()? {
            Some(FORMAT) => {}
            Some(other) => return Err(Error::other_format(&self.path, other, FORMAT)),
            None if is_vacant(&self.path).map_err(Error::read)? => return Err(self.unusable(Damage::Absent)),
            None => return Err(self.missing("the file \"format\"")),
        }
        self.settle_rebuild().map_err(Error::read)?;
        match engine::missing_beside_journal(&self.engine()).map_err(Error::read)? {
            Some(missing) => Err(self.unusable(Damage::Missing(missing))),
            None => Ok(()),
        }
    }

    /// Makes a copy of the whole store in a new directory; the engine is closed, and will be replaced.
    pub(super) fn copy_aside(&self, to: &Path) -> io::Result<()> {
        DirBuilder::new().mode(0o700).create(to)?;
        copy_folder(&self.engine(), &to.join("db"), &|_| Copied::Linked)?;
        for name in ["format", "watermark"] {
            let from = self.path.join(name);
            if from.try_exists()? {
                copy_file(&from, &to.join(name))?;
            }
        }
        sync_dir(to)?;
        to.parent().map_or(Ok(()), sync_dir)
    }

    /// Finishes a swap that a crash interrupted: both the rebuilt engine and the damaged one may exist.
    fn settle_rebuild(&self) -> io::Result<()> {
        let (rebuilt, damaged) = (self.rebuilt_engine(), self.damaged_engine());
        if !self.engine().try_exists()? {
            if !rebuilt.try_exists()? || !damaged.try_exists()? {
                return Ok(());
            }
            fs::rename(&rebuilt, self.engine())?;
            sync_dir(&self.path)?;
        }
        remove_dir(&self.salvaged_tables())?;
        remove_dir(&rebuilt)?;
        remove_dir(&damaged)
    }

    /// Examines a directory without `format`. A crash before the format was written leaves `creating`, and a
    /// store that never acknowledged a change.
    fn settle_without_format(&self) -> Result<Contents, Error> {
        if self.exists("creating")? {
            if self.exists("watermark")? && Watermark::open(self)?.read()? > Revision::ZERO {
                return Err(self.missing("the file \"format\""));
            }
            self.remove_parts().map_err(Error::read)?;
            return Ok(Contents::Nothing);
        }
        let mut foreign = false;
        for entry in fs::read_dir(&self.path).map_err(Error::read)? {
            let name = entry.map_err(Error::read)?.file_name();
            if PARTS.iter().any(|part| name == *part) {
                return Err(self.missing("the file \"format\""));
            }
            foreign |= !NEUTRAL.iter().any(|neutral| name == *neutral);
        }
        if foreign { Err(self.unusable(Damage::NotAStore)) } else { Ok(Contents::Nothing) }
    }

    /// Makes an empty store where [`Directory::settle`] has found nothing.
    pub(super) fn create(&self) -> Result<(), Error> {
        let begin = || {
            private().create(true).truncate(true).open(self.path.join("creating"))?.sync_all()?;
            sync_dir(&self.path)?;
            self.path.parent().map_or(Ok(()), sync_dir)
        };
        begin().map_err(Error::read)?;
        Engine::create(&self.engine()).map_err(|error| self.unreadable(error))?;
        Watermark::create(self, Revision::ZERO)?;
        self.write_format()?;
        self.end_creation()
    }

    fn end_creation(&self) -> Result<(), Error> {
        if !self.exists("creating")? {
            return Ok(());
        }
        remove_file(&self.path.join("creating")).and_then(|()| sync_dir(&self.path)).map_err(Error::read)
    }

    fn remove_parts(&self) -> io::Result<()> {
        remove_dir(&self.engine())?;
        remove_file(&self.path.join("watermark"))?;
        remove_file(&self.path.join("format"))
    }

    /// Declares the store complete.
    pub(super) fn write_format(&self) -> Result<(), Error> {
        let write = || {
            let new = self.path.join("format.new");
            let mut file = private().create(true).truncate(true).open(&new)?;
            writeln!(file, "{FORMAT_TEXT}{FORMAT}")?;
            file.sync_all()?;
            fs::rename(&new, self.path.join("format"))?;
            sync_dir(&self.path)
        };
        write().map_err(Error::read)
    }

    /// What an unfinished store is being made from.
    pub(super) fn restoring(&self) -> Result<Option<String>, Error> {
        restoring(&self.path).map_err(Error::read)
    }

    /// Marks the directory as incomplete until [`Directory::end_restore`]; says what its store is made from.
    pub(super) fn begin_restore(&self, source: &str) -> Result<(), Error> {
        if !self.exists("restoring")? && self.settle()? == Contents::Store {
            return Err(self.unusable(Damage::Exists));
        }
        let begin = || {
            self.mark_restoring("")?;
            self.remove_parts()?;
            self.mark_restoring(source)
        };
        begin().map_err(Error::read)
    }

    fn mark_restoring(&self, source: &str) -> io::Result<()> {
        let mut mark = private().create(true).truncate(true).open(self.path.join("restoring"))?;
        mark.write_all(source.as_bytes())?;
        mark.sync_all()?;
        sync_dir(&self.path)
    }

    /// Makes the next restore start over, whatever its source is.
    pub(super) fn forget_source(&self) -> Result<(), Error> {
        self.mark_restoring("").map_err(Error::read)
    }

    /// Declares a restored store complete.
    pub(super) fn end_restore(&self) -> Result<(), Error> {
        self.write_format()?;
        remove_file(&self.path.join("restoring")).and_then(|()| sync_dir(&self.path)).map_err(Error::read)
    }

    /// Puts the rebuilt engine in the place of the damaged one; both are closed.
    pub(super) fn swap_rebuilt(&self) -> io::Result<()> {
        remove_dir(&self.damaged_engine())?;
        fs::rename(self.engine(), self.damaged_engine())?;
        fs::rename(self.rebuilt_engine(), self.engine())?;
        sync_dir(&self.path)?;
        remove_dir(&self.damaged_engine())
    }

    /// Writes the newest journal of the closed engine anew, to pages that the disk has to take again.
    ///
    /// After a failed sync the system may keep pages in memory that never reached the disk, and call them
    /// clean. What the engine reads from them would then be lost by a power failure, although it was visible.
    pub(super) fn rewrite_journal(&self) -> io::Result<()> {
        let Some(journal) = journal::newest(&self.engine())? else { return Ok(()) };
        let copy = journal.with_extension("copy");
        let rewrite = || {
            let mut to = private().create(true).truncate(true).open(&copy)?;
            copy_sparse(&mut File::open(&journal)?, &mut to)?;
            fs::rename(&copy, &journal)?;
            sync_dir(&self.engine())
        };
        rewrite().inspect_err(|_| {
            remove_file(&copy).ok();
        })
    }

    /// Checks whether the disk takes writes.
    pub(super) fn probe(&self) -> io::Result<()> {
        let path = self.path.join("probe");
        let probe = || {
            let mut file = private().create(true).truncate(true).open(&path)?;
            file.write_all(&vec![0x5a; 1 << 20])?;
            file.sync_all()
        };
        let probed = probe();
        let removed = remove_file(&path);
        probed.and(removed)
    }

    fn format(&self) -> Result<Option<u32>, Error> {
        let text = match fs::read_to_string(self.path.join("format")) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => String::new(),
            Err(error) => return Err(Error::read(error)),
        };
        let number = text.strip_prefix(FORMAT_TEXT).and_then(|number| number.trim_end().parse().ok());
        match number {
            Some(number) => Ok(Some(number)),
            None => Err(self.unusable(Damage::Engine("the file \"format\" cannot be understood".into()))),
        }
    }

    fn exists(&self, name: &str) -> Result<bool, Error> {
        self.path.join(name).try_exists().map_err(Error::read)
    }

    /// Turns a read error of the engine into an error of the store.
    pub(super) fn unreadable(&self, error: ReadError) -> Error {
        match error {
            ReadError::Damaged(what) => self.unusable(Damage::Engine(what)),
            ReadError::Missing(what) => self.unusable(Damage::Missing(what)),
            ReadError::Io(error) => Error::read(error),
        }
    }

    fn missing(&self, what: &str) -> Error {
        self.unusable(Damage::Missing(what.into()))
    }

    pub(super) fn unusable(&self, damage: Damage) -> Error {
        Error::Unusable { path: self.path.clone(), damage }
    }
}

/// The newest acknowledged revision, kept outside of the engine, twice: damage to one leaves the other.
///
/// It is written after the engine has synced a commit and before the writer is answered, without a sync of
/// its own: a crash of the process keeps it, a power failure may set it back, and it is never ahead of what
/// was durable.
pub(super) struct Watermark {
    file: File,
    path: PathBuf,
}

impl Watermark {
    /// Opens the watermark of a complete store.
    pub(super) fn open(directory: &Directory) -> Result<Self, Error> {
        let file = private().open(directory.path().join("watermark")).map_err(Error::read)?;
        Ok(Self { file, path: directory.path().into() })
    }

    /// Makes the watermark of a new store.
    pub(super) fn create(directory: &Directory, revision: Revision) -> Result<(), Error> {
        let create = || {
            let file = private().create(true).truncate(true).open(directory.path().join("watermark"))?;
            let watermark = Self { file, path: directory.path().into() };
            watermark.write(revision)?;
            watermark.file.sync_all()
        };
        create().map_err(Error::read)
    }

    /// The revision noted.
    pub(super) fn read(&self) -> Result<Revision, Error> {
        let mut bytes = Vec::new();
        (&self.file).take(32).read_to_end(&mut bytes).map_err(Error::read)?;
        let notes = bytes.chunks_exact(16).filter_map(|note| {
            let note = u128::from_le_bytes(note.try_into().ok()?);
            let (revision, sum) = (note as u64, (note >> 64) as u64);
            (sum == xxh3_64(&revision.to_le_bytes())).then_some(Revision(revision))
        });
        let damage = || Damage::Engine("the file \"watermark\" cannot be understood".into());
        notes.max().ok_or_else(|| Error::Unusable { path: self.path.clone(), damage: damage() })
    }

    pub(super) fn write(&self, revision: Revision) -> io::Result<()> {
        let sum = xxh3_64(&revision.0.to_le_bytes());
        let note = (u128::from(sum) << 64 | u128::from(revision.0)).to_le_bytes();
        self.file.write_all_at([note, note].as_flattened(), 0)
    }
}

fn copy_sparse(from: &mut File, to: &mut File) -> io::Result<()> {
    let mut chunk = vec![0; 1 << 20];
    let mut len = 0u64;
    loop {
        let read = from.read(&mut chunk)?;
        let Some(bytes) = chunk.get(..read).filter(|bytes| !bytes.is_empty()) else { break };
        if bytes.iter().any(|byte| *byte != 0) {
            to.seek(SeekFrom::Start(len))?;
            to.write_all(bytes)?;
        }
        len += read as u64;
    }
    to.set_len(len)?;
    to.sync_all()
}

/// How a file gets into the copy of its folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Copied {
    /// As a hard link, where the file system supports it.
    Linked,
    /// As a copy.
    Anew,
    /// Not at all.
    Not,
}

/// Copies a folder to a path that does not exist.
pub(super) fn copy_folder(from: &Path, to: &Path, how: &dyn Fn(&Path) -> Copied) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type()?.is_dir() {
            copy_folder(&from, &to, how)?;
            continue;
        }
        match how(&from) {
            Copied::Linked if fs::hard_link(&from, &to).is_ok() => {}
            Copied::Linked | Copied::Anew => copy_file(&from, &to)?,
            Copied::Not => {}
        }
    }
    sync_dir(to)
}

fn copy_file(from: &Path, to: &Path) -> io::Result<()> {
    let mut file = private().create_new(true).open(to)?;
    copy_sparse(&mut File::open(from)?, &mut file)
}

pub(super) fn remove_dir(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

pub(super) fn remove_file(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}
