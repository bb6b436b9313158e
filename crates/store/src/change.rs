//! Changes, their preconditions, and the rules every store applies to a group.

use crate::{Conflict, Error, Head, Key, Revision, Stored, Tag};
use bytes::Bytes;
use std::collections::HashSet;

/// One change of a group: what to do with a key, and under which condition.
#[derive(Clone, Debug)]
pub struct Change {
    /// The key to change.
    pub key: Key,
    /// What to do with it.
    pub op: Op,
    /// What has to hold.
    pub guard: Guard,
    /// What the outcome should tell of the entry that was there before.
    pub returning: Returning,
}

/// What a change does.
#[derive(Clone, Debug)]
pub enum Op {
    /// Stores a value and its tag.
    Put {
        /// The bytes to store, as they are.
        value: Bytes,
        /// The mark to keep beside them.
        tag: Tag,
    },
    /// Removes the key, which must exist.
    Delete,
}

/// The precondition of a change.
#[derive(Clone, Debug, Default)]
pub struct Guard {
    /// What is expected of the current revision.
    pub revision: Expect,
    /// The tag that the current entry must carry.
    pub tag: Option<Tag>,
}

/// What a change expects of the current revision of its key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Expect {
    /// Nothing: a put creates or replaces, a delete removes what there is.
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
    /// Its head, which costs nothing.
    #[default]
    Head,
    /// Its value too, which may cost a read.
    Value,
}

/// What became of one change of a committed group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    /// The revision of this change.
    pub revision: Revision,
    /// The create revision of the entry that was written or deleted.
    pub create_revision: Revision,
    /// The entry that was there before.
    pub previous: Option<Stored>,
}

/// The sizes that a store accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most bytes in one value.
    pub value: usize,
    /// The most bytes of values in one group.
    pub group: usize,
    /// The most changes in one group.
    pub changes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { value: 3 * 1024 * 1024, group: 8 * 1024 * 1024, changes: 4096 }
    }
}

impl Change {
    /// Stores `value` under `key`, whatever was there.
    #[must_use]
    pub fn put(key: Key, value: impl Into<Bytes>) -> Self {
        let op = Op::Put { value: value.into(), tag: Tag::default() };
        Self { key, op, guard: Guard::default(), returning: Returning::default() }
    }

    /// Removes `key`, which must exist.
    #[must_use]
    pub fn delete(key: Key) -> Self {
        Self { key, op: Op::Delete, guard: Guard::default(), returning: Returning::default() }
    }

    /// Keeps `mark` beside the value of a put; a delete has none to keep.
    #[must_use]
    pub fn tag(mut self, mark: impl Into<Tag>) -> Self {
        if let Op::Put { tag, .. } = &mut self.op {
            *tag = mark.into();
        }
        self
    }

    /// Only if the key does not exist.
    #[must_use]
    pub fn create_only(mut self) -> Self {
        self.guard.revision = Expect::Absent;
        self
    }

    /// Only if the key exists with this mod revision.
    #[must_use]
    pub fn expect_revision(mut self, revision: Revision) -> Self {
        self.guard.revision = Expect::At(revision);
        self
    }

    /// Only if the key exists with this tag.
    #[must_use]
    pub fn expect_tag(mut self, tag: impl Into<Tag>) -> Self {
        self.guard.tag = Some(tag.into());
        self
    }

    /// Asks for the value of the previous entry in the outcome.
    #[must_use]
    pub fn returning_value(mut self) -> Self {
        self.returning = Returning::Value;
        self
    }

    /// The bytes this change adds to the store.
    pub(crate) fn value_len(&self) -> usize {
        match &self.op {
            Op::Put { value, .. } => value.len(),
            Op::Delete => 0,
        }
    }
}

impl Limits {
    /// Refuses a group that is too large, or names a key twice, before it is queued.
    pub(crate) fn check(&self, group: &[Change]) -> Result<(), Error> {
        let too_large = |what, size, limit| Err(Error::TooLarge { what, size, limit });
        if group.len() > self.changes {
            return too_large("a group's number of changes", group.len(), self.changes);
        }
        let mut total = 0usize;
        let mut keys = HashSet::with_capacity(if group.len() > 1 { group.len() } else { 0 });
        for (index, change) in group.iter().enumerate() {
            let size = change.value_len();
            if size > self.value {
                return too_large("a value", size, self.value);
            }
            if let Op::Put { tag, .. } = &change.op
                && tag.0.len() > Tag::MAX_LEN
            {
                return too_large("a tag", tag.0.len(), Tag::MAX_LEN);
            }
            total = total.saturating_add(size);
            if group.len() > 1 && !keys.insert(&change.key) {
                return Err(Error::RepeatedKey { index, key: change.key.clone() });
            }
        }
        if total > self.group {
            return too_large("a group", total, self.group);
        }
        Ok(())
    }
}

impl Guard {
    /// Judges the guard of change `index` against the entry that is there.
    pub(crate) fn check(
        &self,
        index: usize,
        change: &Change,
        found: Option<&Head>,
    ) -> Result<(), Box<Conflict>> {
        let holds = match (self.revision, found) {
            (Expect::Any, found) => found.is_some() || !matches!(change.op, Op::Delete),
            (Expect::Absent, found) => found.is_none() && !matches!(change.op, Op::Delete),
            (Expect::At(expected), Some(head)) => head.mod_revision == expected,
            (Expect::At(_), None) => false,
        };
        let tagged = match (&self.tag, found) {
            (None, _) => true,
            (Some(expected), Some(head)) => head.tag == *expected,
            (Some(_), None) => false,
        };
        if holds && tagged {
            return Ok(());
        }
        let found = found.map(|head| Stored { head: head.clone(), value: None });
        Err(Box::new(Conflict { index, key: change.key.clone(), found }))
    }

    /// Whether a refusal of this guard tells the value that was found: not for create-only.
    pub(crate) fn tells_value(&self) -> bool {
        self.revision != Expect::Absent
    }
}
