//! A cursor in the changes of a resource type, for an index that is kept beside the cache.
//!
//! The owner of the index asks [`Cursor::is_current`] before it uses the index, and otherwise applies what
//! [`Cursor::advance`] reports. Nothing waits, and there is no task: an index that is asked after a write was
//! acknowledged has that write.

use crate::{Entry, Resource, log::KeyState, resource::Era};
use std::sync::Arc;
use store::Revision;

/// A place in the changes of a type.
pub struct Cursor {
    resource: Arc<Resource>,
    /// Every change up to this revision of an era was taken; `None` before the first.
    at: Option<(Era, Revision)>,
}

/// A report of a cursor.
pub enum Update<'a> {
    /// The index is to be emptied; all objects follow, as changes without a state before.
    Reset,
    /// An object was created, updated or deleted: its state before and after. A state that cannot be read is
    /// `None`.
    Change {
        /// The state before.
        before: Option<&'a Arc<Entry>>,
        /// The state after.
        after: Option<&'a Arc<Entry>>,
    },
}

impl Cursor {
    /// A cursor that has reported nothing.
    pub fn new(resource: Arc<Resource>) -> Self {
        Self { resource, at: None }
    }

    /// The resource type.
    pub fn resource(&self) -> &Arc<Resource> {
        &self.resource
    }

    /// Whether every change was reported.
    pub fn is_current(&self) -> bool {
        let newest = || self.resource.with_state(|view, _| (self.resource.era(), view.revision));
        self.at.is_some_and(|at| at >= newest())
    }

    /// Reports the changes since the last call, in order; if these are no longer in the log, or the last call
    /// did not end, a reset and all objects.
    pub fn advance(&mut self, mut report: impl FnMut(Update<'_>)) {
        // The pieces and the view are shared, so the lock is not held while changes are reported.
        let (era, ranges, view) = self.resource.with_state(|view, log| {
            let era = self.resource.era();
            let at = self.at.filter(|(reported, _)| *reported == era);
            let ranges = at.and_then(|(_, at)| log.ranges_if_complete(at)).map(Iterator::collect::<Vec<_>>);
            (era, ranges, view.clone())
        });
        // If `report` panics, the next call begins with a reset, so that no change is skipped.
        self.at = None;
        match ranges {
            None => {
                report(Update::Reset);
                for entry in view.entries().range(0, view.len()) {
                    report(Update::Change { before: None, after: Some(&entry) });
                }
            }
            Some(ranges) => {
                for change in
                    ranges.iter().flat_map(|range| range.places.clone().filter_map(|at| range.piece.get(at)))
                {
                    let (before, after) = (KeyState::entry(&change.before), KeyState::entry(&change.after));
                    if before.is_some() || after.is_some() {
                        report(Update::Change { before, after });
                    }
                }
            }
        }
        self.at = Some((era, view.revision));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cache, CacheOptions, Change, Spec};

    struct Index {
        cursor: Cursor,
        seen: Vec<String>,
    }

    impl Index {
        fn advance(&mut self) -> Vec<String> {
            let Self { cursor, seen } = self;
            seen.clear();
            let name = |entry: Option<&Arc<Entry>>| entry.map_or("-".to_owned(), |entry| entry.name().into());
            cursor.advance(|update| {
                seen.push(match update {
                    Update::Reset => "reset".to_owned(),
                    Update::Change { before, after } => format!("{} {}", name(before), name(after)),
                });
            });
            assert!(cursor.is_current());
            seen.clone()
        }
    }

    fn json(name: &str) -> String {
        format!(r#"{{"kind":"ConfigMap","apiVersion":"v1","metadata":{{"name":"{name}","namespace":"n"}}}}"#)
    }

    #[tokio::test]
    async fn cursor_reports_every_change_once_and_starts_anew_when_the_log_is_gone() {
        let store = Arc::new(store::memory::Memory::default());
        let specs = vec![Spec::namespaced("configmaps").unwrap(), Spec::namespaced("others").unwrap()];
        let cache = Cache::open(store, specs, CacheOptions::default()).await.unwrap();
        let (maps, other) = (cache.resource("configmaps").unwrap(), cache.resource("others").unwrap());
        cache.commit(Change::put(&maps, "n", "a", json("a"))).await.unwrap();
        let mut index = Index { cursor: Cursor::new(maps.clone()), seen: Vec::new() };
        assert!(!index.cursor.is_current());
        assert_eq!(index.advance(), ["reset", "- a"]);
        assert!(index.advance().is_empty());

        cache.commit(Change::put(&maps, "n", "b", json("b"))).await.unwrap();
        assert!(!index.cursor.is_current());
        cache.commit(Change::put(&maps, "n", "a", json("a"))).await.unwrap();
        cache.commit(Change::delete(&maps, "n", "b")).await.unwrap();
        assert_eq!(index.advance(), ["- b", "a a", "b -"]);

        cache.commit(Change::put(&maps, "n", "c", json("c"))).await.unwrap();
        cache.forget(cache.committed()).await.unwrap();
        assert_eq!(index.advance(), ["reset", "- a", "- c"]);

        // Dropping history in which the type did not change does not reset the cursor.
        cache.commit(Change::put(&other, "n", "x", json("x"))).await.unwrap();
        cache.forget(cache.committed()).await.unwrap();
        cache.commit(Change::put(&maps, "n", "d", json("d"))).await.unwrap();
        assert_eq!(index.advance(), ["- d"]);
    }
}
