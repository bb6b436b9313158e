//! Everything that can go wrong with a store.

use crate::{Head, Key, Revision, StoredEntry};
use bytes::Bytes;
use std::{
    fmt, io,
    path::{Path, PathBuf},
    sync::Arc,
};

/// An error of a store. Cheap to clone, because one failed write answers many writers.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A precondition did not hold; nothing was changed.
    #[error(transparent)]
    Conflict(#[from] Box<Conflict>),
    /// The revision asked for is older than history reaches.
    #[error("revision {requested} is compacted: history reaches back to {compacted}")]
    Compacted {
        /// The revision asked for.
        requested: Revision,
        /// The oldest revision that can be loaded and followed.
        compacted: Revision,
    },
    /// The revision asked for is not committed yet.
    #[error("revision {requested} is not there yet: the newest is {current}")]
    Future {
        /// The revision asked for.
        requested: Revision,
        /// The newest one.
        current: Revision,
    },
    /// The stored bytes of an entry are damaged.
    #[error(transparent)]
    Corrupt(#[from] Corrupt),
    /// The stored bytes of an entry cannot be decrypted at present.
    #[error(transparent)]
    Unavailable(#[from] Arc<Unavailable>),
    /// Something is larger than the store accepts.
    #[error("{what} of {size} is larger than the limit of {limit}")]
    TooLarge {
        /// What is too large.
        what: &'static str,
        /// Its size.
        size: usize,
        /// The limit.
        limit: usize,
    },
    /// The server of the store refuses a write as too large, with these words.
    #[error("{0}")]
    RequestTooLarge(String),
    /// The codec of the store cannot write an entry.
    #[error("{key} cannot be encoded for the store: {reason}")]
    Unencodable {
        /// The key of the entry.
        key: Key,
        /// Why not.
        reason: String,
    },
    /// The disk is full.
    #[error("the disk of the store is full ({source}); {fate}")]
    Full {
        /// Whether the change was written.
        fate: Fate,
        /// The cause.
        #[source]
        source: Arc<io::Error>,
    },
    /// Reading or writing failed.
    #[error("the store cannot read or write its data ({source}); {fate}")]
    Io {
        /// Whether the change was written, if the operation was a write.
        fate: Fate,
        /// The cause.
        #[source]
        source: Arc<io::Error>,
    },
    /// More changes wait to be committed than the store holds in memory. The refused change was not begun.
    #[error("{changes} changes of {bytes} bytes wait to be committed already; nothing was written")]
    Busy {
        /// How many wait.
        changes: usize,
        /// About how many bytes they hold.
        bytes: usize,
    },
    /// A store in memory may hold no more, together with others. Nothing was written.
    #[error("{used} of {limit} bytes of memory are used already; nothing was written")]
    OverBudget {
        /// The bytes that are used.
        used: usize,
        /// The most bytes that may be used.
        limit: usize,
    },
    /// A write does not end. Only the [health](crate::Store::health) of the store has this error; commits go
    /// on waiting.
    #[error("the disk has not answered for {seconds} s, and {changes} changes wait to be committed")]
    Stalled {
        /// For how long nothing was committed.
        seconds: u64,
        /// How many changes wait.
        changes: usize,
    },
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
    /// Another process uses the data directory.
    #[error("the data directory {} is in use by another process", path.display())]
    Locked {
        /// The data directory.
        path: PathBuf,
    },
    /// The data was written by a newer version of this software.
    #[error(
        "the data in {} has format {found}, but this version understands formats up to {supported}: \
         start the newer version, or restore a backup into an empty directory", path.display()
    )]
    NewerFormat {
        /// The data directory or backup file.
        path: PathBuf,
        /// The format found.
        found: u32,
        /// The newest format this version understands.
        supported: u32,
    },
    /// The data was written in a format that this version no longer reads.
    #[error(
        "the data in {} has format {found}, but this version reads format {supported} alone: start with an empty directory",
        path.display()
    )]
    OlderFormat {
        /// The data directory or backup file.
        path: PathBuf,
        /// The format found.
        found: u32,
        /// The format that this version reads.
        supported: u32,
    },
    /// The files cannot be used as a store.
    #[error("{} cannot be used: {damage}", path.display())]
    Unusable {
        /// The data directory or file.
        path: PathBuf,
        /// What is wrong with it.
        damage: Damage,
    },
}

/// Whether a failed write may have been committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The change was not written, and will not be.
    NotWritten,
    /// The change may or may not have reached the disk. If it did, it becomes visible to readers and
    /// followers once the store has recovered; otherwise it never does.
    Unknown,
}

/// What makes a directory or file unusable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Damage {
    /// The directory is empty or missing.
    #[error("it holds no store")]
    Absent,
    /// There are files, but not those of a store.
    #[error("it is not empty and holds no store")]
    NotAStore,
    /// A part of a store is missing, and other parts of it are there.
    #[error(
        "it holds parts of a store, but {0} is missing: restore a backup into an empty directory, or move this one \
         away to start without its objects"
    )]
    Missing(String),
    /// The file or directory exists already.
    #[error("it exists already")]
    Exists,
    /// Acknowledged changes are missing: files were damaged, removed, or replaced by older ones.
    #[error(
        "revision {acknowledged} was acknowledged, but the files end at {found}: they are damaged or incomplete; \
         restore a backup, or ask `keelson doctor --salvage --dry-run` what can be saved"
    )]
    Lost {
        /// The newest revision that was acknowledged.
        acknowledged: Revision,
        /// The newest revision found.
        found: Revision,
    },
    /// The files of the storage engine cannot be read.
    #[error(
        "the storage engine cannot read its files ({0}); restore a backup, or ask `keelson doctor --salvage --dry-run` \
         what can be saved"
    )]
    Engine(String),
    /// A store is being made in this directory, and was not finished.
    #[error(
        "a restore or a migration into it was interrupted: run that command again, or remove the directory"
    )]
    Unfinished,
    /// A backup file is cut short or altered.
    #[error("the backup is damaged: {0}")]
    Backup(&'static str),
}

/// A precondition that did not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The key of the change.
    pub key: Key,
    /// The current entry, or `None` if the key is absent. Its value is there unless the change was
    /// create-only.
    pub found: Option<StoredEntry>,
}

impl std::error::Error for Conflict {}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the precondition on key {} does not hold: ", self.key)?;
        match &self.found {
            Some(found) => write!(f, "it exists at revision {}", found.head.mod_revision),
            None => write!(f, "it does not exist"),
        }
    }
}

/// An entry whose stored bytes are damaged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the stored object {key} (revision {revision}) is corrupt: {reason}")]
pub struct Corrupt {
    /// The key of the entry.
    pub key: Key,
    /// The revision that wrote it.
    pub revision: Revision,
    /// What is wrong with the bytes.
    pub reason: String,
}

/// An entry whose stored bytes cannot be decrypted at present: a KMS plugin does not answer, or the key is
/// not configured. The entry is there, and nothing says that it is damaged: it must not be replaced.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("the stored object {key} (revision {}) cannot be decrypted: {reason}", .head.mod_revision)]
pub struct Unavailable {
    /// The key of the entry.
    pub key: Key,
    /// Its revisions.
    pub head: Head,
    /// Why it cannot be decrypted.
    pub reason: String,
    /// The bytes as they are stored, for [`Store::open`](crate::Store::open).
    pub stored: Bytes,
}

/// Leaves out the bytes.
impl fmt::Debug for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, head, reason, .. } = self;
        let mut shown = f.debug_struct("Unavailable");
        shown.field("key", key).field("head", head).field("reason", reason).finish_non_exhaustive()
    }
}

/// Why a stored value cannot be read. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// Its bytes are damaged: writing the entry again is the way to repair it.
    #[error(transparent)]
    Corrupt(Arc<Corrupt>),
    /// Its bytes cannot be decrypted at present.
    #[error(transparent)]
    Unavailable(Arc<Unavailable>),
}

impl Unreadable {
    /// The key of the entry.
    pub fn key(&self) -> &Key {
        match self {
            Self::Corrupt(corrupt) => &corrupt.key,
            Self::Unavailable(unavailable) => &unavailable.key,
        }
    }

    /// Why it cannot be read.
    pub fn reason(&self) -> &str {
        match self {
            Self::Corrupt(corrupt) => &corrupt.reason,
            Self::Unavailable(unavailable) => &unavailable.reason,
        }
    }

    /// The revision that wrote the entry.
    pub fn revision(&self) -> Revision {
        match self {
            Self::Corrupt(corrupt) => corrupt.revision,
            Self::Unavailable(unavailable) => unavailable.head.mod_revision,
        }
    }
}

impl From<Corrupt> for Unreadable {
    fn from(corrupt: Corrupt) -> Self {
        Self::Corrupt(Arc::new(corrupt))
    }
}

impl From<Unavailable> for Unreadable {
    fn from(unavailable: Unavailable) -> Self {
        Self::Unavailable(Arc::new(unavailable))
    }
}

impl From<Unreadable> for Error {
    fn from(unreadable: Unreadable) -> Self {
        match unreadable {
            Unreadable::Corrupt(corrupt) => Arc::unwrap_or_clone(corrupt).into(),
            Unreadable::Unavailable(unavailable) => unavailable.into(),
        }
    }
}

impl Error {
    /// Wraps an IO error; that of a full disk becomes [`Error::Full`].
    pub(crate) fn io(source: io::Error, fate: Fate) -> Self {
        let source = Arc::new(source);
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
                Self::Full { fate, source }
            }
            _ => Self::Io { fate, source },
        }
    }

    /// The error of files in a format other than the one that this version reads.
    pub(crate) fn other_format(path: &Path, found: u32, supported: u32) -> Self {
        let path = path.into();
        match found > supported {
            true => Self::NewerFormat { path, found, supported },
            false => Self::OlderFormat { path, found, supported },
        }
    }

    /// An IO error of a read or of preparatory work, where no write is at stake.
    pub(crate) fn read(source: io::Error) -> Self {
        Self::io(source, Fate::NotWritten)
    }

    /// The same error with another fate, for writers that were refused because an earlier write failed.
    pub(crate) fn with_fate(&self, fate: Fate) -> Self {
        match self {
            Self::Full { source, .. } => Self::Full { fate, source: source.clone() },
            Self::Io { source, .. } => Self::Io { fate, source: source.clone() },
            other => other.clone(),
        }
    }
}

impl fmt::Display for Fate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotWritten => "nothing was written",
            Self::Unknown => "whether the write survives is unknown until the store has recovered",
        })
    }
}
