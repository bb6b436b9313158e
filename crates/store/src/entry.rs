//! Revisions, entries, and the events of their changes.

use crate::{Key, Unreadable};
use bytes::Bytes;
use std::fmt;

/// The number of a commit: larger than that of every commit before it. Zero is before the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub u64);

impl Revision {
    /// Before the first change.
    pub const ZERO: Self = Self(0);

    /// The least revision after this one. The next commit may have a larger one.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The revisions of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The revision that created the key (again, after a delete).
    pub create_revision: Revision,
    /// The revision of the last change.
    pub mod_revision: Revision,
}

/// A live entry at some revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its key.
    pub key: Key,
    /// Its revisions.
    pub head: Head,
    /// The bytes as they were committed.
    pub value: Bytes,
}

/// The bytes of a stored value, or why they cannot be read.
pub type Value = Result<Bytes, Unreadable>;

/// The previous or current entry in an outcome, conflict or event: its head, and its value if requested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredEntry {
    /// Its revisions.
    pub head: Head,
    /// The value, if the caller requested it.
    pub value: Option<Value>,
}

/// The kind of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChangeKind {
    /// The key has a new value.
    Put,
    /// The key was deleted.
    Delete,
}

/// One committed change, as a follower receives it.
///
/// A put with `previous` absent created the key. A delete's own head carries the create revision of what was
/// deleted; its value is empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The key that changed.
    pub key: Key,
    /// Put or delete.
    pub kind: ChangeKind,
    /// Its revisions; `head.mod_revision` is the revision of this change.
    pub head: Head,
    /// The new value.
    pub value: Value,
    /// What the key held before.
    pub previous: Option<StoredEntry>,
}

impl Event {
    /// The revision of this change.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.head.mod_revision
    }

    pub(crate) fn size(&self) -> usize {
        let value = self.value.as_ref().map_or(0, Bytes::len);
        value + self.key.as_bytes().len() + size_of::<Self>()
    }
}
