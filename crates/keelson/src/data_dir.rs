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
//! 1. Everything in it belongs to its owner alone. The process makes files so ([`make_private`]); what is found open to
//!    others is closed to them.
//! 2. The store is made first. A directory with other parts and without a store has lost it, unless it says `memory`.

use std::fs::{self, DirBuilder, Metadata, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use nix::sys::stat::{Mode, umask};
use nix::unistd::geteuid;
use store::embedded;

use crate::options::Storage;

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
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("the data directory {} cannot be used: {cause}", .path.display())]
    Unusable { path: PathBuf, cause: io::Error },
    #[error(
        "the data directory {} was used before, but \"store\" is missing from it: restore a backup, or move the directory \
         away to start without its objects", .path.display()
    )]
    StoreIsMissing { path: PathBuf },
}

/// Has the process make all its files for their owner alone.
pub(crate) fn make_private() {
    umask(Mode::from_bits_truncate(OTHERS));
}

/// A data directory.
#[derive(Debug, Clone)]
pub(crate) struct DataDir(PathBuf);

impl DataDir {
    /// Makes the directory if need be, closes it to others, and looks whether its store is there.
    pub(crate) fn open(path: &Path, storage: Storage) -> Result<Self, Error> {
        let directory = Self::at(path)?;
        directory.prepare(storage)?;
        Ok(directory)
    }

    /// A directory that is neither made nor looked at.
    pub(crate) fn at(path: &Path) -> Result<Self, Error> {
        let absolute = std::path::absolute(path);
        absolute.map(Self).map_err(|cause| Error::Unusable { path: path.to_owned(), cause })
    }

    pub(crate) fn store(&self) -> PathBuf {
        self.0.join(STORE)
    }

    pub(crate) fn pki(&self) -> PathBuf {
        self.0.join(PKI)
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.0.join(KUBECONFIG)
    }

    /// The socket at which a command asks the server that uses the directory.
    pub(crate) fn control(&self) -> PathBuf {
        self.0.join(CONTROL)
    }

    fn prepare(&self, storage: Storage) -> Result<(), Error> {
        let prepare = || {
            DirBuilder::new().recursive(true).mode(0o700).create(&self.0)?;
            self.tighten()?;
            let was_used = self.kubeconfig().try_exists()? || self.pki().try_exists()?;
            let without_store = embedded::is_vacant(&self.store())?;
            let memory = self.0.join(MEMORY);
            match storage {
                Storage::Memory | Storage::Etcd if without_store && !was_used => {
                    fs::write(memory, "the objects were elsewhere\n").map(|()| true)
                }
                Storage::Embedded if without_store => Ok(!was_used || memory.try_exists()?),
                _ => Ok(true),
            }
        };
        match prepare() {
            Ok(true) => Ok(()),
            Ok(false) => Err(Error::StoreIsMissing { path: self.0.clone() }),
            Err(cause) => Err(Error::Unusable { path: self.0.clone(), cause }),
        }
    }

    /// Whether a directory that has no store was used with one.
    pub(crate) fn has_lost_store(&self) -> bool {
        (self.kubeconfig().exists() || self.pki().exists()) && !self.0.join(MEMORY).exists()
    }

    /// Notes that there is a store now, so that its loss is noticed.
    pub(crate) fn store_was_opened(&self) -> Result<(), Error> {
        match fs::remove_file(self.0.join(MEMORY)) {
            Err(cause) if cause.kind() != ErrorKind::NotFound => {
                Err(Error::Unusable { path: self.0.clone(), cause })
            }
            _ => Ok(()),
        }
    }

    /// Closes to others what is the server's. A directory that holds other things too stays as it is.
    fn tighten(&self) -> io::Result<()> {
        let mut found = Found::default();
        let mut is_own = true;
        for entry in fs::read_dir(&self.0)? {
            let name = entry?.file_name();
            let is_part = [KUBECONFIG, PKI, STORE, MEMORY, CONTROL].iter().any(|part| name == *part);
            is_own &= is_part || name == "lost+found";
            if is_part {
                found.tighten(&self.0.join(name), 0);
            }
        }
        let top = fs::metadata(&self.0)?;
        if is_own {
            found.close(&self.0, &top);
        } else if top.mode() & OTHERS != 0 {
            log::warn!(
                path:% = self.0.display();
                "the data directory is open to others, and stays so because it holds files of others; its own are closed"
            );
        }
        if top.uid() != geteuid().as_raw() {
            log::warn!(path:% = self.0.display(), user = top.uid(); "the data directory belongs to another user, who can read it");
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
