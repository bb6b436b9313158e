//! Disk space that is set aside, so that deletes and reclaiming go on when the disk is full.
//!
//! The reserve is a file without contents whose blocks are allocated. It covers the space that freeing space
//! needs: a flush of the rows in memory, and a merge of the tables. The committer grows the reserve before a
//! write that makes it too small, so a disk that fills up is noticed while there is still room, and releases
//! the reserve when the disk is full.

use super::{files::Directory, media::Media};
use crate::backup::private;
use nix::fcntl::posix_fallocate;
use std::{fs::File, io};

/// The least size of the reserve.
const BASE: u64 = 1 << 20;
/// The most that is set aside for merging.
const MOST_FOR_MERGING: u64 = 64 << 20;
/// The reserve grows and shrinks by multiples of this.
const STEP: u64 = 2 << 20;

/// The file `reserve`.
pub(super) struct Reserve {
    file: File,
    len: u64,
}

/// How much has to be set aside for a flush of `unflushed` bytes and an engine that takes up `used` bytes.
pub(super) fn needed(unflushed: u64, used: u64) -> u64 {
    (BASE + unflushed + (used / 8).min(MOST_FOR_MERGING)).next_multiple_of(STEP)
}

impl Reserve {
    pub(super) fn open(directory: &Directory) -> io::Result<Self> {
        let file = private().create(true).truncate(false).open(directory.path().join("reserve"))?;
        let len = file.metadata()?.len();
        Ok(Self { file, len })
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Sets aside at least `need` bytes. Fails only when the disk is full: a file system that cannot allocate
    /// ahead has no reserve.
    pub(super) fn cover(&mut self, need: u64, media: &dyn Media) -> io::Result<()> {
        let Some(missing) = need.checked_sub(self.len).filter(|missing| *missing > 0) else { return Ok(()) };
        let allocated = media.reserve(missing).and_then(|()| {
            let (from, missing) = (self.len.try_into(), missing.try_into());
            let (Ok(from), Ok(missing)) = (from, missing) else { return Ok(()) };
            posix_fallocate(&self.file, from, missing).map_err(io::Error::from)
        });
        match allocated {
            Ok(()) => self.len = need,
            Err(error) => {
                // An allocation that failed may have taken what was left.
                self.file.set_len(self.len).ok();
                if is_full(&error) {
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Gives back what is more than `need`.
    pub(super) fn shrink(&mut self, need: u64) {
        if self.len > need && self.file.set_len(need).is_ok() {
            self.len = need;
        }
    }
}

/// Whether an error says that there is no space left.
pub(super) fn is_full(error: &io::Error) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        embedded::media::Disk,
        fault::{Cause, Fault, Faults, Lasting},
    };
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn the_reserve_takes_real_space_and_gives_it_back() {
        let folder = tempfile::tempdir().unwrap();
        let mut reserve = Reserve::open(&Directory::lock(folder.path()).unwrap()).unwrap();
        let allocated = || std::fs::metadata(folder.path().join("reserve")).unwrap().blocks() * 512;
        reserve.cover(needed(0, 0), &Disk).unwrap();
        assert!(allocated() >= BASE, "{}", allocated());
        reserve.cover(needed(10 << 20, 80 << 20), &Disk).unwrap();
        assert!(allocated() >= 21 << 20, "{}", allocated());
        reserve.shrink(0);
        assert_eq!((reserve.len(), allocated()), (0, 0));
    }

    #[test]
    fn only_a_full_disk_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let mut reserve = Reserve::open(&Directory::lock(folder.path()).unwrap()).unwrap();
        let faults = Faults::default();
        faults.inject(Fault::Reserve(Cause::Full), Lasting::Times(1));
        assert!(is_full(&reserve.cover(STEP, &faults).unwrap_err()));
        faults.inject(Fault::Reserve(Cause::Broken), Lasting::Times(1));
        reserve.cover(STEP, &faults).unwrap();
        assert_eq!(reserve.len(), 0);
    }
}
