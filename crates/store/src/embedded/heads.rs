//! The heads of all live entries, in memory: what preconditions are judged against.

use super::{
    engine::{ReadError, View},
    layout::{self, Logged},
};
use crate::{Head, Key, Kind, Revision, Tag};
use bytes::Bytes;
use std::{collections::BTreeMap, ops::Bound};

/// Keys and heads without values, packed: two allocations for each entry.
#[derive(Default)]
pub(super) struct Heads(BTreeMap<Box<[u8]>, Packed>);

struct Packed {
    create_revision: Revision,
    mod_revision: Revision,
    tag: Box<[u8]>,
}

impl Heads {
    pub(super) fn get(&self, key: &[u8]) -> Option<Head> {
        self.0.get(key).map(Packed::head)
    }

    pub(super) fn put(&mut self, key: &[u8], head: &Head) {
        match self.0.get_mut(key) {
            Some(packed) => packed.set(head),
            None => {
                self.0.insert(key.into(), Packed::new(head));
            }
        }
    }

    pub(super) fn remove(&mut self, key: &[u8]) {
        self.0.remove(key);
    }

    /// A copy of the heads under a prefix.
    pub(super) fn under(&self, prefix: &[u8]) -> BTreeMap<Bytes, Option<Head>> {
        let range = self.0.range::<[u8], _>((Bound::Included(prefix), Bound::Unbounded));
        let under = range.take_while(|(key, _)| key.starts_with(prefix));
        under.map(|(key, packed)| (Bytes::copy_from_slice(key), Some(packed.head()))).collect()
    }

    /// Applies one change of the log.
    pub(super) fn apply(&mut self, logged: &Logged) {
        match logged.kind {
            Kind::Put => self.put(logged.key.as_bytes(), &logged.head),
            Kind::Delete => self.remove(logged.key.as_bytes()),
        }
    }

    /// Reads the heads of everything that is live.
    ///
    /// The log tells them; where it is damaged, the versions themselves do.
    pub(super) fn read(view: &View, compacted: Revision) -> Result<Self, ReadError> {
        Self::from_log(view, compacted).or_else(|_| Self::from_versions(view))
    }

    /// From `compacted` on, the log has every change; before it, only those that are still live.
    fn from_log(view: &View, compacted: Revision) -> Result<Self, ReadError> {
        let mut heads = Self::default();
        let mut newest = compacted;
        for row in view.scan_prefix(&[layout::LOG]) {
            let row = row?;
            let logged = layout::parse_log_row(&row.key, &row.row).ok_or_else(|| damaged("the log"))?;
            let revision = logged.head.mod_revision;
            if revision > compacted && revision != newest.next() {
                return Err(ReadError::Damaged(format!("the log has no change {}", newest.next())));
            }
            newest = newest.max(revision);
            heads.apply(&logged);
        }
        Ok(heads)
    }

    fn from_versions(view: &View) -> Result<Self, ReadError> {
        let mut heads = Self::default();
        let mut seen = Bytes::new();
        let mut versions = view.versions(b"");
        while let Some(version) = versions.next(|key, _| key != seen) {
            let found = version?;
            let version = found.version?.ok_or_else(|| damaged("a version"))?;
            if version.kind == Kind::Put {
                heads.put(&found.key, &version.head);
            }
            seen = found.key;
        }
        Ok(heads)
    }
}

impl Packed {
    fn new(head: &Head) -> Self {
        let Head { create_revision, mod_revision, tag } = head;
        Self { create_revision: *create_revision, mod_revision: *mod_revision, tag: tag.0.as_ref().into() }
    }

    fn set(&mut self, head: &Head) {
        self.create_revision = head.create_revision;
        self.mod_revision = head.mod_revision;
        if *self.tag != *head.tag.0 {
            self.tag = head.tag.0.as_ref().into();
        }
    }

    fn head(&self) -> Head {
        Head {
            create_revision: self.create_revision,
            mod_revision: self.mod_revision,
            tag: Tag(Bytes::copy_from_slice(&self.tag)),
        }
    }
}

fn damaged(what: &str) -> ReadError {
    ReadError::Damaged(format!("a row of {what} fails its checksum"))
}

/// A key that was read from the store's own rows.
pub(super) fn trusted(key: Bytes) -> Result<Key, ReadError> {
    Key::new(key).map_err(|error| ReadError::Damaged(error.to_string()))
}
