//! The data directory: who may read it, and whether its store is there.
//!
//! ```text
//! kubeconfig   the administrator's
//! pki/         certificates of the server's own making, the administrator's token, the key of service account tokens
//! store/       the objects
//! control      the socket at which commands ask the server
//! memory       the directory was only ever used with objects in memory
//! ```
//!
//! 1. Everything in it belongs to its owner alone. The process makes files so ([`make_private`]); what is
//!    found open to others is closed to them.
//! 2. The store is made first. A directory with other parts and without a store has lost it, unless it says
//!    `memory`.
//! 3. Keys are made next, and before anything is written to the store. A store with objects and without keys
//!    has lost them ([`Stores::pki`](crate::Stores::pki)).
//! 4. A server has a shared lock on the directory for as long as it runs. A command that replaces keys has it
//!    alone ([`DataDir::lock_alone`]).

use std::fs::{self, DirBuilder, File, Metadata, Permissions, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::sys::stat::{Mode, umask};
use nix::unistd::geteuid;
use store::embedded;

use crate::Backend;

const KUBECONFIG: &str = "kubeconfig";
const PKI: &str = "pki";
const STORE: &str = "store";
const MEMORY: &str = "memory";
const CONTROL: &str = "control";

/// The access of everybody but the owner.
const OTHERS: u32 = 0o077;
/// The most files that are looked at, and how deep.
const MOST_FILES: usize = 100_000;
const DEEPEST: usize = 8;

/// Why a data directory cannot be used.
#[expect(missing_docs, reason = "the message of a variant says what it is")]
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the data directory {} cannot be used: {cause}", .path.display())]
    Unusable { path: PathBuf, cause: io::Error },
    #[error(
        "the data directory {} was used before, but \"store\" is missing from it: restore a backup, or move the directory \
         away to start without its objects", .path.display()
    )]
    StoreIsMissing { path: PathBuf },
    #[error("a command is replacing keys of the data directory {}: wait for its end", .path.display())]
    KeysAreReplaced { path: PathBuf },
}

/// Has the process make all its files for their owner alone.
pub fn make_private() {
    umask(Mode::from_bits_truncate(OTHERS));
}

/// A data directory.
#[derive(Debug, Clone)]
pub struct DataDir {
    path: PathBuf,
    /// The lock of a server, until it ends.
    _lock: Option<Arc<File>>,
}

impl DataDir {
    /// Makes the directory if need be, closes it to others, and looks whether its store is there.
    pub fn open(path: &Path, backend: Backend) -> Result<Self, Error> {
        let mut directory = Self::at(path)?;
        directory.prepare(backend)?;
        let unusable = |cause| Error::Unusable { path: directory.path.clone(), cause };
        let lock = File::open(&directory.path).map_err(unusable)?;
        match lock.try_lock_shared() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(Error::KeysAreReplaced { path: directory.path }),
            // The embedded store cannot do without locks and says so; servers with objects elsewhere can.
            Err(TryLockError::Error(error)) => log::warn!(error:%; "the data directory cannot be locked"),
        }
        directory._lock = Some(Arc::new(lock));
        Ok(directory)
    }

    /// A directory that is neither made nor looked at.
    pub fn at(path: &Path) -> Result<Self, Error> {
        let absolute = std::path::absolute(path);
        let absolute = absolute.map_err(|cause| Error::Unusable { path: path.to_owned(), cause })?;
        Ok(Self { path: absolute, _lock: None })
    }

    /// Locks the directory against all servers, until the value is dropped; `None` if one uses it.
    pub fn lock_alone(&self) -> io::Result<Option<File>> {
        let lock = File::open(&self.path)?;
        match lock.try_lock() {
            Ok(()) => Ok(Some(lock)),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// The path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The path of the store.
    pub fn store(&self) -> PathBuf {
        self.path.join(STORE)
    }

    /// The path of the keys and certificates.
    pub fn pki(&self) -> PathBuf {
        self.path.join(PKI)
    }

    /// The path of the administrator's kubeconfig.
    pub fn kubeconfig(&self) -> PathBuf {
        self.path.join(KUBECONFIG)
    }

    /// The kubeconfigs of forks, of which none outlives the server.
    pub fn forks(&self) -> PathBuf {
        self.path.join("forks")
    }

    /// The kubeconfig of a fork.
    pub fn fork_kubeconfig(&self, name: &str) -> PathBuf {
        self.forks().join(format!("{name}.kubeconfig"))
    }

    /// The socket at which a command asks the server that uses the directory.
    pub fn control(&self) -> PathBuf {
        self.path.join(CONTROL)
    }

    fn prepare(&self, backend: Backend) -> Result<(), Error> {
        let prepare = || {
            DirBuilder::new().recursive(true).mode(0o700).create(&self.path)?;
            self.tighten()?;
            let was_used = self.kubeconfig().try_exists()? || self.pki().try_exists()?;
            let without_store = embedded::is_vacant(&self.store())?;
            let memory = self.path.join(MEMORY);
            match backend {
                Backend::Memory | Backend::Etcd if without_store && !was_used => {
                    fs::write(memory, "the objects were elsewhere\n").map(|()| true)
                }
                Backend::Embedded if without_store => Ok(!was_used || memory.try_exists()?),
                _ => Ok(true),
            }
        };
        match prepare() {
            Ok(true) => Ok(()),
            Ok(false) => Err(Error::StoreIsMissing { path: self.path.clone() }),
            Err(cause) => Err(Error::Unusable { path: self.path.clone(), cause }),
        }
    }

    /// Whether a directory that has no store was used with one.
    pub fn has_lost_store(&self) -> bool {
        (self.kubeconfig().exists() || self.pki().exists()) && !self.path.join(MEMORY).exists()
    }

    /// Notes that there is a store now, so that its loss is noticed.
    pub fn store_was_opened(&self) -> Result<(), Error> {
        match fs::remove_file(self.path.join(MEMORY)) {
            Err(cause) if cause.kind() != ErrorKind::NotFound => {
                Err(Error::Unusable { path: self.path.clone(), cause })
            }
            _ => Ok(()),
        }
    }

    /// Closes to others what is the server's. A directory that holds other things too stays as it is.
    fn tighten(&self) -> io::Result<()> {
        let mut found = Found::default();
        let mut is_own = true;
        for entry in fs::read_dir(&self.path)? {
            let name = entry?.file_name();
            let is_part = [KUBECONFIG, PKI, STORE, MEMORY, CONTROL].iter().any(|part| name == *part);
            is_own &= is_part || name == "lost+found";
            if is_part {
                found.tighten(&self.path.join(name), 0);
            }
        }
        let top = fs::metadata(&self.path)?;
        if is_own {
            found.close(&self.path, &top);
        } else if top.mode() & OTHERS != 0 {
            log::warn!(
                path:% = self.path.display();
                "the data directory is open to others, and stays so because it holds files of others; its own are closed"
            );
        }
        if top.uid() != geteuid().as_raw() {
            log::warn!(path:% = self.path.display(), user = top.uid(); "the data directory belongs to another user, who can read it");
        }
        found.log();
        Ok(())
    }
}

/// What was open to others.
#[derive(Default)]
struct Found {
    seen: usize,
    closed: usize,
    /// The first that was closed.
    first: Option<PathBuf>,
}

impl Found {
    fn tighten(&mut self, path: &Path, depth: usize) {
        self.seen += 1;
        if self.seen > MOST_FILES || depth > DEEPEST {
            return;
        }
        // Links are not followed: what they lead to is not the server's.
        let Ok(metadata) = fs::symlink_metadata(path) else { return };
        if metadata.is_symlink() {
            return;
        }
        self.close(path, &metadata);
        if metadata.is_dir() {
            for entry in fs::read_dir(path).into_iter().flatten().flatten() {
                self.tighten(&entry.path(), depth + 1);
            }
        }
    }

    fn close(&mut self, path: &Path, metadata: &Metadata) {
        if metadata.mode() & OTHERS == 0 {
            return;
        }
        let kept = metadata.mode() & if metadata.is_dir() { 0o700 } else { 0o600 };
        match fs::set_permissions(path, Permissions::from_mode(kept)) {
            Ok(()) => {
                self.closed += 1;
                self.first.get_or_insert_with(|| path.to_owned());
            }
            Err(error) => log::error!(
                path:% = path.display(), error:%;
                "a file of the data directory is open to others, and cannot be closed"
            ),
        }
    }

    fn log(&self) {
        if let Some(first) = &self.first {
            log::warn!(
                files = self.closed, first:% = first.display();
                "files of the data directory were open to others; they are not any more"
            );
        }
        if self.seen > MOST_FILES {
            log::warn!(files = self.seen; "the data directory has too many files; some may be open to others");
        }
    }
}
