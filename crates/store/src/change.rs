//! Changes, their preconditions, and the rules every store applies to them.

use crate::{Conflict, Error, Head, Key, Revision, StoredEntry};
use bytes::Bytes;
use std::time::Duration;

/// One change: what to do with a key, and under which condition.
#[derive(Clone, Debug)]
pub struct Change {
    /// The key to change.
    pub key: Key,
    /// What to do with it.
    pub op: Op,
    /// The precondition.
    pub expect: Expect,
    /// How much of the entry before the outcome carries.
    pub returning: Returning,
    /// The time after which the store may remove the entry. Only a store that
    /// [expires](crate::Store::expires) entries uses it.
    pub lifetime: Option<Duration>,
}

/// What a change does.
#[derive(Clone, Debug)]
pub enum Op {
    /// Stores these bytes.
    Put(Bytes),
    /// Removes the key, which must exist.
    Delete,
}

/// What a change expects of the current revision of its key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Expect {
    /// No precondition: a put creates or replaces, a delete removes any entry.
    #[default]
    Any,
    /// The key does not exist.
    Absent,
    /// The key exists with this mod revision.
    At(Revision),
}

/// How much of the previous entry the outcome of a change carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Returning {
    /// The head only, which costs nothing.
    #[default]
    Head,
    /// The value too, which may cost a read.
    Value,
}

/// The outcome of a committed change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    /// The revision of the change.
    pub revision: Revision,
    /// The create revision of the entry that was written or deleted.
    pub create_revision: Revision,
    /// The entry that was there before.
    pub previous: Option<StoredEntry>,
}

/// The most bytes in one value, unless the options of a store say otherwise.
pub(crate) const VALUE_LIMIT: usize = 3 * 1024 * 1024;

impl Change {
    /// Stores `value` under `key`, whatever was there.
    #[must_use]
    pub fn put(key: Key, value: impl Into<Bytes>) -> Self {
        Self::new(key, Op::Put(value.into()))
    }

    /// Removes `key`, which must exist.
    #[must_use]
    pub fn delete(key: Key) -> Self {
        Self::new(key, Op::Delete)
    }

    fn new(key: Key, op: Op) -> Self {
        Self { key, op, expect: Expect::default(), returning: Returning::default(), lifetime: None }
    }

    /// Adds the precondition that the key does not exist.
    #[must_use]
    pub fn create_only(mut self) -> Self {
        self.expect = Expect::Absent;
        self
    }

    /// Adds the precondition that the key exists with this mod revision.
    #[must_use]
    pub fn expect_revision(mut self, revision: Revision) -> Self {
        self.expect = Expect::At(revision);
        self
    }

    /// Lets the store remove the entry after this time.
    #[must_use]
    pub fn expire_after(mut self, lifetime: Duration) -> Self {
        self.lifetime = Some(lifetime);
        self
    }

    /// Asks for the value of the previous entry in the outcome.
    #[must_use]
    pub fn returning_value(mut self) -> Self {
        self.returning = Returning::Value;
        self
    }

    /// Refuses a value that is too large.
    pub(crate) fn check_size(&self, limit: usize) -> Result<(), Error> {
        match &self.op {
            Op::Put(value) if value.len() > limit => {
                Err(Error::TooLarge { what: "a value", size: value.len(), limit })
            }
            _ => Ok(()),
        }
    }

    /// Checks the precondition against the current entry.
    pub(crate) fn check(&self, found: Option<&Head>) -> Result<(), Box<Conflict>> {
        let is_delete = matches!(self.op, Op::Delete);
        let holds = match (self.expect, found) {
            (Expect::Any, found) => found.is_some() || !is_delete,
            (Expect::Absent, found) => found.is_none() && !is_delete,
            (Expect::At(expected), Some(head)) => head.mod_revision == expected,
            (Expect::At(_), None) => false,
        };
        if holds {
            return Ok(());
        }
        let found = found.map(|head| StoredEntry { head: *head, value: None });
        Err(Box::new(Conflict { key: self.key.clone(), found }))
    }

    /// Whether a conflict of this change carries the current value: not if the change may only create.
    pub(crate) fn wants_found_value(&self) -> bool {
        self.expect != Expect::Absent
    }
}
