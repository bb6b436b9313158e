//! The files beside the engine's own: the lock, the format, the watermark, and the marks of unfinished work.
//!
//! ```text
//! lock        held by the process that uses the directory
//! format      the version of the layout, written last when a store is made: without it there is no store
//! watermark   the newest acknowledged revision, so that lost files are noticed
//! restoring   present while a backup is being restored: the rest is incomplete
//! db/         the storage engine
//! db.rebuild/ a copy without damaged rows, on its way to becoming db/
//! ```

use super::{engine::ReadError, journal};
use crate::{Damage, Error, Revision, backup::sync_dir};
use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, Read, Seek, SeekFrom, Write},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};
use xxhash_rust::xxh3::xxh3_64;

/// The newest layout that this version reads and writes.
pub(super) const FORMAT: u32 = 2;

const FORMAT_TEXT: &str = "keelson store ";

/// A data directory that this process has locked.
pub(super) struct Directory {
    path: PathBuf,
    lock: File,
}

/// What an existing directory holds.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Contents {
    /// Nothing that was ever used.
    Nothing,
    /// A complete store.
    Store,
}

impl Directory {
    /// Makes the directory if need be, and locks it until [`Directory::unlock`] or the end of the value.
    pub(super) fn lock(path: &Path) -> Result<Self, Error> {
        fs::create_dir_all(path).map_err(Error::read)?;
        let mut options = OpenOptions::new();
        let lock = options.read(true).write(true).create(true).truncate(false).open(path.join("lock"));
        let lock = lock.map_err(Error::read)?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { path: path.into(), lock }),
            Err(TryLockError::WouldBlock) => Err(Error::Locked { path: path.into() }),
            Err(TryLockError::Error(error)) => Err(Error::read(error)),
        }
    }

    /// Lets another process have the directory.
    pub(super) fn unlock(&self) {
        self.lock.unlock().ok();
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

    fn damaged_engine(&self) -> PathBuf {
        self.path.join("db.damaged")
    }

    /// Tells whether there is a store, after finishing or undoing what a crash left half done.
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
        let settled = (|| {
            if !self.engine().try_exists()? && self.rebuilt_engine().try_exists()? {
                fs::rename(self.rebuilt_engine(), self.engine())?;
                sync_dir(&self.path)?;
            }
            remove_dir(&self.rebuilt_engine())?;
            remove_dir(&self.damaged_engine())
        })();
        settled.map_err(Error::read)?;
        Ok(Contents::Store)
    }

    /// A crash before the format was written leaves an engine that never acknowledged anything.
    fn settle_without_format(&self) -> Result<Contents, Error> {
        for entry in fs::read_dir(&self.path).map_err(Error::read)? {
            let name = entry.map_err(Error::read)?.file_name();
            if !["lock", "db", "watermark", "format.new", "lost+found"].iter().any(|ours| name == *ours) {
                return Err(self.unusable(Damage::NotAStore));
            }
        }
        let removed = remove_dir(&self.engine()).and_then(|()| remove_file(&self.path.join("watermark")));
        removed.map_err(Error::read)?;
        Ok(Contents::Nothing)
    }

    /// Declares the store complete.
    pub(super) fn write_format(&self) -> Result<(), Error> {
        let write = || {
            let new = self.path.join("format.new");
            let mut file = File::create(&new)?;
            writeln!(file, "{FORMAT_TEXT}{FORMAT}")?;
            file.sync_all()?;
            fs::rename(&new, self.path.join("format"))?;
            sync_dir(&self.path)
        };
        write().map_err(Error::read)
    }

    /// Marks the directory as incomplete until [`Directory::end_restore`].
    pub(super) fn begin_restore(&self) -> Result<(), Error> {
        if !self.exists("restoring")? && self.settle()? == Contents::Store {
            return Err(self.unusable(Damage::Exists));
        }
        let begin = || {
            File::create(self.path.join("restoring"))?.sync_all()?;
            sync_dir(&self.path)?;
            remove_dir(&self.engine())?;
            remove_file(&self.path.join("watermark"))?;
            remove_file(&self.path.join("format"))
        };
        begin().map_err(Error::read)
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
    /// After a failed sync the system may keep pages in memory that never reached the disk, and call them clean. What
    /// the engine reads from them would then be lost by a power failure, although it was visible.
    pub(super) fn rewrite_journal(&self) -> io::Result<()> {
        let Some(journal) = journal::newest(&self.engine())? else { return Ok(()) };
        let copy = journal.with_extension("copy");
        let rewrite = || {
            copy_sparse(&mut File::open(&journal)?, &mut File::create(&copy)?)?;
            fs::rename(&copy, &journal)?;
            sync_dir(&self.engine())
        };
        rewrite().inspect_err(|_| {
            remove_file(&copy).ok();
        })
    }

    /// Tries whether the disk takes writes.
    pub(super) fn probe(&self) -> io::Result<()> {
        let path = self.path.join("probe");
        let probe = || {
            let mut file = File::create(&path)?;
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

    /// What the engine could not read, as an error of the store.
    pub(super) fn unreadable(&self, error: ReadError) -> Error {
        match error {
            ReadError::Damaged(what) => self.unusable(Damage::Engine(what)),
            ReadError::Io(error) => Error::read(error),
        }
    }

    pub(super) fn unusable(&self, damage: Damage) -> Error {
        Error::Unusable { path: self.path.clone(), damage }
    }
}

/// The newest acknowledged revision, kept outside of the engine.
///
/// It is written after the engine has synced a commit and before the writer is answered, without a sync of its own: a
/// crash of the process keeps it, a power failure may set it back, and it is never ahead of what was durable.
pub(super) struct Watermark(File);

impl Watermark {
    pub(super) fn open(directory: &Directory) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        Ok(Self(options.open(directory.path().join("watermark"))?))
    }

    /// The revision noted, or zero where there is none or it is damaged.
    pub(super) fn read(&self) -> io::Result<Revision> {
        let mut note = [0; 16];
        match self.0.read_exact_at(&mut note, 0) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(Revision::ZERO),
            read => read?,
        }
        let note = u128::from_le_bytes(note);
        let (revision, sum) = (note as u64, (note >> 64) as u64);
        Ok(if sum == xxh3_64(&revision.to_le_bytes()) { Revision(revision) } else { Revision::ZERO })
    }

    pub(super) fn write(&self, revision: Revision) -> io::Result<()> {
        let sum = xxh3_64(&revision.0.to_le_bytes());
        self.0.write_all_at(&(u128::from(sum) << 64 | u128::from(revision.0)).to_le_bytes(), 0)
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

fn remove_dir(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

fn remove_file(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}
