//! The heads of all live entries, in memory: what preconditions are judged against.

use super::{
    ahead,
    engine::{ReadError, View},
    layout::{self, Logged},
};
use crate::{ChangeKind, Head, Key, Revision};
use bytes::Bytes;
use std::{
    collections::BTreeMap,
    ops::{Bound, ControlFlow},
};

/// In how many parts the log is read, before and after the compacted revision.
const PARTS: u64 = 32;
/// The least number of changes in a part.
const LEAST_PART: u64 = 4096;

/// Keys and heads without values.
#[derive(Default)]
pub(super) struct Heads(BTreeMap<Box<[u8]>, Head>);

impl Heads {
    pub(super) fn get(&self, key: &[u8]) -> Option<Head> {
        self.0.get(key).copied()
    }

    pub(super) fn put(&mut self, key: &[u8], head: &Head) {
        match self.0.get_mut(key) {
            Some(own) => *own = *head,
            None => {
                self.0.insert(key.into(), *head);
            }
        }
    }

    pub(super) fn remove(&mut self, key: &[u8]) {
        self.0.remove(key);
    }

    /// A copy of the heads under a prefix.
    pub(super) fn under(&self, prefix: &[u8]) -> BTreeMap<Bytes, Option<Head>> {
        let under = self.range(prefix);
        under.map(|(key, head)| (Bytes::copy_from_slice(key), Some(*head))).collect()
    }

    /// The keys under a prefix, in order.
    pub(super) fn keys(&self, prefix: &[u8]) -> impl Iterator<Item = &[u8]> {
        self.range(prefix).map(|(key, _)| &**key)
    }

    fn range(&self, prefix: &[u8]) -> impl Iterator<Item = (&Box<[u8]>, &Head)> {
        let range = self.0.range::<[u8], _>((Bound::Included(prefix), Bound::Unbounded));
        range.take_while(move |(key, _)| key.starts_with(prefix))
    }

    /// Applies one change of the log.
    pub(super) fn apply(&mut self, logged: &Logged) {
        match logged.kind {
            ChangeKind::Put => self.put(logged.key.as_bytes(), &logged.head),
            ChangeKind::Delete => self.remove(logged.key.as_bytes()),
        }
    }

    /// Reads the heads of everything that is live.
    ///
    /// They are read from the log; where it is damaged, from the versions.
    pub(super) fn read(view: &View, compacted: Revision, newest: Revision) -> Result<Self, ReadError> {
        Self::from_log(view, compacted, newest).or_else(|_| Self::from_versions(view))
    }

    /// From `compacted` on, the log has every change; before it, only those that are still live.
    fn from_log(view: &View, compacted: Revision, newest: Revision) -> Result<Self, ReadError> {
        let mut heads = Self::default();
        let mut last = compacted;
        let mut outcome = Ok(());
        ahead::in_order(
            &parts_of_log(compacted, newest),
            |(after, until), mut sink| {
                let mut rows = view.log(*after, *until);
                let _ = rows.try_for_each(|logged| sink.put(logged, size_of::<Logged>()));
            },
            |logged| {
                outcome = logged.and_then(|logged| {
                    let revision = logged.head.mod_revision;
                    if revision > compacted && revision != last.next() {
                        return Err(ReadError::Damaged(format!("the log has no change {}", last.next())));
                    }
                    last = last.max(revision);
                    heads.apply(&logged);
                    Ok(())
                });
                if outcome.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            },
        );
        outcome.map(|()| heads)
    }

    fn from_versions(view: &View) -> Result<Self, ReadError> {
        let mut heads = Self::default();
        let mut seen = Bytes::new();
        let all = layout::index_prefix(b"");
        let mut versions = view.versions(&all, &layout::successor(&all));
        while let Some(version) = versions.next(|key, _| key != seen) {
            let found = version?;
            let damaged = || ReadError::Damaged("a row of a version fails its checksum".into());
            let version = found.version?.ok_or_else(damaged)?;
            if version.kind == ChangeKind::Put {
                heads.put(&found.key, &version.head);
            }
            seen = found.key;
        }
        Ok(heads)
    }
}

/// Splits the log into parts of about as many rows each: before `compacted` fewer are left of as many
/// changes.
fn parts_of_log(compacted: Revision, newest: Revision) -> Vec<(Revision, Revision)> {
    let marks = |from: u64, to: u64| {
        let step = (to.saturating_sub(from) / PARTS).max(LEAST_PART);
        (from..to).step_by(usize::try_from(step).unwrap_or(usize::MAX))
    };
    let starts = marks(0, compacted.0.max(1)).chain(marks(compacted.0, newest.0));
    let mut starts: Vec<Revision> = starts.map(Revision).collect();
    starts.dedup();
    let ends = starts.iter().copied().skip(1).chain([Revision(u64::MAX)]);
    starts.iter().copied().zip(ends).collect()
}

/// A key that was read from the store's own rows.
pub(super) fn trusted(key: Bytes) -> Result<Key, ReadError> {
    Key::new(key).map_err(|error| ReadError::Damaged(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_the_log_cover_it() {
        for (compacted, newest) in
            [(0, 0), (0, 1), (5, 5), (0, 5000), (4096, 4096), (9_000, 700_000), (1 << 60, 1 << 60)]
        {
            let parts = parts_of_log(Revision(compacted), Revision(newest));
            assert_eq!(parts.first().map(|part| part.0), Some(Revision(0)));
            assert_eq!(parts.last().map(|part| part.1), Some(Revision(u64::MAX)));
            assert!(parts.windows(2).all(|two| two[0].1 == two[1].0 && two[0].0 < two[0].1), "{parts:?}");
            assert!(parts.len() <= 2 * 33 + 1, "{}", parts.len());
        }
    }
}
