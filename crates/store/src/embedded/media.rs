//! The interface between commits and the disk.

use std::{fmt, io};

/// Stands between the committer and the disk, and may fail or delay what passes. [`crate::fault::Faults`] is
/// the implementation for tests; a store in use has [`Disk`].
pub trait Media: Send + Sync + 'static {
    /// Called before a batch of this many bytes is written.
    fn write(&self, bytes: usize) -> io::Result<()>;

    /// Called after a batch was written and before it is synced.
    fn sync(&self) -> io::Result<()>;

    /// Called before this many bytes more are set aside.
    fn reserve(&self, bytes: u64) -> io::Result<()>;
}

/// Lets everything pass.
#[derive(Clone, Copy, Debug, Default)]
pub struct Disk;

impl Media for Disk {
    fn write(&self, _: usize) -> io::Result<()> {
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn reserve(&self, _: u64) -> io::Result<()> {
        Ok(())
    }
}

impl fmt::Debug for dyn Media {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Media")
    }
}
