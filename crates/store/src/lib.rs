//! The durable store of the control plane: keys, opaque values, one revision clock, and the history of
//! changes.
//!
//! This crate knows nothing of objects or kinds. A key is a path such as `pods/default/web-1`; a value is a
//! run of bytes that the layer above framed. [`Store`] is the contract; [`embedded`] keeps it on disk,
//! [`memory`] without one, [`etcd`] in a cluster that others may share, and the suite in `contract` (feature
//! `contract`) is run by every implementation. A store with a layout of its own keeps it behind a [`Codec`].
//!
//! # Guarantees
//!
//! 1. **Increasing.** A committed change gets a revision that is larger than that of every change before it,
//!    across all keys. Revisions may have gaps. Changes of different keys may share a revision if they are
//!    committed together; two changes of one key never do.
//! 2. **Atomic.** The changes of one revision become visible together. A follower receives them in one batch,
//!    and [`Store::known_revision`] never lies before a change that can be read.
//! 3. **Durable before visible.** A change can be read, followed, or counted in a revision only after it is
//!    durable (where the store is); the writer is answered after that.
//! 4. **Guarded.** A change's precondition is judged against the state that its revision follows directly. A
//!    refused change carries what was found in its place.
//! 5. **Ordered.** A follower receives changes in the order of revisions.
//! 6. **Reliable.** A follower misses nothing and receives nothing twice, across the seam between history and
//!    live commits, however slow it is, for as long as history reaches back to it.
//! 7. **Resumable.** A follower that starts again from the last revision it saw continues where it stopped,
//!    also after a restart of the process, for as long as that revision is not compacted. Any revision
//!    between the compacted and the newest one can be followed from and loaded at, also one in a gap.
//! 8. **Bookmarkable.** Each batch carries the revision up to which the follower is complete, also when
//!    nothing under its prefix changed. A follower comes to every revision that [`Store::newest_revision`]
//!    has answered, without further changes.
//! 9. **Filtered.** Prefixes select keys bytewise, and nothing else.
//! 10. **Exact.** [`Store::load`] at revision N sees precisely the changes with revisions up to N, or fails
//!     with [`Error::Compacted`] or [`Error::Future`].
//! 11. **Consistent.** [`Store::newest_revision`] is at least the revision of every change that was
//!     acknowledged before the question, by any process that shares the data.
//! 12. **Expiring.** History reaches back for the retention time: [`Store::compacted`] comes to be the
//!     revision that was the newest one a retention ago, also while nothing is written.
//! 13. **Damage stays where it is.** A stored value that fails its checksum is reported as [`Corrupt`] with
//!     its key; it is never served, and every other key stays readable and writable. A value that cannot be
//!     decrypted at present is [`Unavailable`], which is no damage.
//! 14. **Failing writes do not stop reads.** When the disk is full or broken, commits fail with
//!     [`Error::Full`] or [`Error::Io`], [`Store::health`] says so, and both recover by themselves with the
//!     disk. A disk that does not answer counts as failing after some seconds in which changes wait for it.
//! 15. **Withdrawn.** A change whose commit is dropped before the store has begun with it is not made, then
//!     or later, and holds no memory. One that was begun is finished. What waits is bounded: past that a
//!     commit fails with [`Error::Busy`], and nothing of it is written.
//!
//! # A worked example of revisions
//!
//! ```text
//!                     embedded, memory             a store with gaps and shared revisions
//! commit put a        -> revision 1                -> revision 4    a: create 4, mod 4
//! commit put b        -> revision 2                -> revision 4    b: create 4, mod 4 (together with a)
//! commit put a        -> revision 3                -> revision 7    a: create 4, mod 7
//! commit delete b     -> revision 4                -> revision 8    b: absent
//! load at             2 -> a (mod 1), b (mod 2)    4, 5 or 6 -> a (mod 4), b (mod 4)
//! follow from         3 -> delete b (4)            7 -> delete b (8)
//! compact to          4: load at 3 fails           8: load at 7 fails; load at 8 and follow from 8 work
//! ```
//!
//! # What it leaves to others
//!
//! Encoding of values and the splice of `resourceVersion` into them, indexes, selectors, fan-out to many
//! watchers: the crate above keeps one follower and serves all watchers from memory.

pub mod backup;
mod change;
mod codec;
#[cfg(feature = "contract")]
pub mod contract;
pub mod embedded;
mod entry;
mod error;
pub mod etcd;
mod families;
pub mod fault;
mod feed;
mod key;
pub mod memory;
mod waiting;

use std::ops::ControlFlow;

pub use change::{Change, Committed, Expect, Op, Returning};
pub use codec::{Codec, Coded, DecodeError, Patience};
pub use entry::{ChangeKind, Entry, Event, Head, Revision, StoredEntry, Value};
pub use error::{Conflict, Corrupt, Damage, Error, Fate, Unavailable, Unreadable};
pub use families::register_families;
pub use feed::{Batch, Follow, Follower, Previous};
pub use key::{InvalidKey, Key};

/// A boxed future, so that [`Store`] and [`Follower`] can be used as trait objects.
pub use tasks::BoxFuture;

/// What [`Store::load`] calls for each entry, in key order; an `Err` is an entry whose stored bytes cannot be
/// read.
pub type Visitor<'a> = dyn FnMut(Result<Entry, Unreadable>) -> ControlFlow<()> + 'a;

/// [Opens](Store::open) an entry that a load could not decrypt without waiting; returns any other as it is.
/// Blocking.
pub fn opened(store: &dyn Store, entry: Result<Entry, Unreadable>) -> Result<Entry, Unreadable> {
    match entry {
        Err(Unreadable::Unavailable(unavailable)) => {
            let value = store.open(&unavailable)?;
            Ok(Entry { key: unavailable.key.clone(), head: unavailable.head, value })
        }
        entry => entry,
    }
}

/// Whether the store takes writes at present.
#[derive(Clone, Debug)]
pub enum Health {
    /// Writes work.
    Good,
    /// Writes fail with this error until the cause is gone; reads go on.
    Failing(Error),
    /// The store was closed.
    Closed,
}

impl Health {
    /// Whether writes work.
    #[must_use]
    pub fn is_good(&self) -> bool {
        matches!(self, Self::Good)
    }
}

/// The contract every store keeps; the numbered guarantees are at the top of this crate.
///
/// The asynchronous methods never block the thread that polls them. The plain ones ([`get`](Store::get),
/// [`load`](Store::load), [`close`](Store::close)) may read files: call those that touch
/// more than one entry from a thread that may block.
pub trait Store: Send + Sync + 'static {
    /// Commits a change. Deleting a key that is absent is a conflict. A future that is dropped withdraws its
    /// change, unless the store has begun to write it.
    fn commit(&self, change: Change) -> BoxFuture<'static, Result<Committed, Error>>;

    /// The newest revision that this process knows: at least that of every commit it was answered, and of
    /// every batch that a follower was given. Zero or one in a store that never held anything.
    fn known_revision(&self) -> Revision;

    /// Asks for the newest committed revision, of this process or another that shares the data. It may be a
    /// question to a quorum: the store bounds its time, and fails if there is no answer.
    fn newest_revision(&self) -> BoxFuture<'static, Result<Revision, Error>>;

    /// Which history the revisions belong to. It is raised when shared data was replaced by an older state of
    /// itself, or by other data: followers then end with [`Error::Compacted`], and revisions from before
    /// cannot be compared with those from now on.
    fn lineage(&self) -> u64 {
        0
    }

    /// Waits until there are changes after a revision to follow, or the [lineage](Store::lineage) is raised;
    /// fails with [`Error::Closed`] after the store was closed.
    fn changed(&self, after: Revision) -> BoxFuture<'static, Result<(), Error>>;

    /// The oldest revision that history reaches: loads and follows work from here on. Goes by the age of
    /// revisions.
    fn compacted(&self) -> Revision;

    /// Reads the bytes of an entry that could not be decrypted, once more. Loads, followers and commits do
    /// not wait for a KMS plugin: this does, for as long as the configuration of the plugin says. Blocking.
    fn open(&self, unavailable: &Unavailable) -> Value {
        Err(unavailable.clone().into())
    }

    /// The current entry of a key. Blocking, one read; waits for a KMS plugin as [`open`](Store::open) does.
    fn get(&self, key: &Key) -> Result<Option<Entry>, Error>;

    /// Visits every live entry whose key starts with `prefix`, in key order, at exactly one revision, and
    /// returns that revision: `at`, or the newest known one. Behind a codec, only keys with the same first
    /// segment are in order. Blocking; memory is bounded by one entry at a time, and the visitor should be
    /// quick, because space cannot be reclaimed under it.
    fn load(&self, prefix: &[u8], at: Option<Revision>, visit: &mut Visitor<'_>) -> Result<Revision, Error>;

    /// Follows the committed changes after a revision.
    fn follow(&self, follow: Follow) -> Result<Box<dyn Follower>, Error>;

    /// Gives up history before `to`, so that `to` becomes [`compacted`](Store::compacted); the space is
    /// reclaimed in the background. Going back is a no-op.
    fn compact(&self, to: Revision) -> BoxFuture<'static, Result<(), Error>>;

    /// Whether other processes may write to the data while this one does.
    fn is_shared(&self) -> bool;

    /// Whether the store removes entries by itself when their [lifetime](Change::lifetime) is over.
    fn expires(&self) -> bool {
        false
    }

    /// Whether writes work at present. It never waits for a disk or a peer.
    fn health(&self) -> Health;

    /// Ends the store: waits for the commits under way, closes the files, and lets followers end with
    /// [`Error::Closed`]. Blocking, and idempotent.
    fn close(&self);
}
