//! The state of a resource type at one revision: all entries in the order of their keys, the secondary
//! indexes, and what could not be read. A clone is cheap, and stays as it is.

use crate::{
    Entry, Error, Spec,
    log::{KeyState, Transition},
    tree::{Order, Sort, Tree},
};
use std::{collections::BTreeMap, sync::Arc};
use store::{Corrupt, Revision, Unavailable, Unreadable};

/// 1. `indexes` hold the same entries as `entries`, in other orders.
/// 2. A key is in `entries`, in `unreadable`, or in neither.
/// 3. Every change of the type up to `revision` is in, and none after it.
#[derive(Clone, Debug)]
pub(crate) struct View {
    pub(crate) revision: Revision,
    /// A running total of the bytes of superseded object states. The difference between two views is the most
    /// that the older view keeps from being freed.
    pub(crate) superseded: u64,
    /// The bytes that it shares with no newer view, because they were loaded for it.
    pub(crate) own_bytes: u64,
    /// The bytes of all entries.
    bytes: u64,
    entries: Tree,
    indexes: Vec<Index>,
    unreadable: Arc<BTreeMap<Box<str>, Unreadable>>,
}

#[derive(Clone, Debug)]
struct Index {
    field: usize,
    tree: Tree,
}

impl View {
    /// A state that was loaded.
    pub(crate) fn new(spec: &Spec, revision: Revision, loaded: Vec<Loaded>) -> Self {
        let mut entries = Vec::with_capacity(loaded.len());
        let mut unreadable = BTreeMap::new();
        for found in loaded {
            match found {
                Loaded::Entry(entry) => entries.push(entry),
                Loaded::Unreadable { key, why } => {
                    unreadable.insert(key, why);
                }
            }
        }
        let indexed = spec.fields().iter().enumerate().filter(|(_, field)| field.is_indexed());
        let index =
            |(field, _)| Index { field, tree: Tree::from_entries(Order::Field(field), entries.clone()) };
        let indexes = indexed.map(index).collect();
        Self {
            revision,
            superseded: 0,
            own_bytes: 0,
            bytes: entries.iter().map(|entry| entry.bytes().len() as u64).sum(),
            indexes,
            entries: Tree::from_entries(Order::Key, entries),
            unreadable: Arc::new(unreadable),
        }
    }

    /// The same state as the first one of another cache, at a revision that is not before any of its entries.
    pub(crate) fn as_first(&self, revision: Revision) -> Self {
        Self { revision, superseded: 0, own_bytes: 0, ..self.clone() }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The bytes of all entries.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn get(&self, key: &str) -> KeyState {
        match self.entries.get(Sort { value: b"", key: key.as_bytes() }) {
            Some(entry) => KeyState::Entry(entry.clone()),
            None => {
                self.unreadable.get(key).map_or(KeyState::Absent, |why| KeyState::Unreadable(why.clone()))
            }
        }
    }

    /// Sets what a key holds, and returns what it held before.
    pub(crate) fn set(&mut self, key: &str, state: KeyState) -> KeyState {
        let unreadable = match self.unreadable.contains_key(key) {
            true => Arc::make_mut(&mut self.unreadable).remove(key),
            false => None,
        };
        let before = match state {
            KeyState::Entry(entry) => {
                let before = self.entries.insert(entry.clone());
                let freed = before.as_ref().map_or(0, |before| before.bytes().len() as u64);
                self.bytes = (self.bytes + entry.bytes().len() as u64).saturating_sub(freed);
                for index in &mut self.indexes {
                    let order = Order::Field(index.field);
                    if let Some(before) =
                        before.as_deref().filter(|before| order.of(before) != order.of(&entry))
                    {
                        index.tree.remove(order.of(before));
                    }
                    index.tree.insert(entry.clone());
                }
                before
            }
            KeyState::Unreadable(why) => {
                Arc::make_mut(&mut self.unreadable).insert(key.into(), why);
                self.remove(key)
            }
            KeyState::Absent => self.remove(key),
        };
        let unreadable = unreadable.map_or(KeyState::Absent, KeyState::Unreadable);
        before.map_or(unreadable, KeyState::Entry)
    }

    fn remove(&mut self, key: &str) -> Option<Arc<Entry>> {
        let removed = self.entries.remove(Sort { value: b"", key: key.as_bytes() })?;
        self.bytes = self.bytes.saturating_sub(removed.bytes().len() as u64);
        for index in &mut self.indexes {
            index.tree.remove(Order::Field(index.field).of(&removed));
        }
        Some(removed)
    }

    /// Goes back before a change.
    pub(crate) fn undo(&mut self, change: &Transition) {
        self.superseded = self.superseded.saturating_sub(change.before.size() as u64);
        self.set(&change.key, change.before.clone());
    }

    pub(crate) fn entries(&self) -> &Tree {
        &self.entries
    }

    /// The entries in the order of a field, if it is indexed.
    pub(crate) fn index(&self, field: usize) -> Option<&Tree> {
        self.indexes.iter().find(|index| index.field == field).map(|index| &index.tree)
    }

    /// The values that cannot be read.
    pub(crate) fn unreadable(&self) -> Vec<Unreadable> {
        self.unreadable.values().cloned().collect()
    }

    /// The damaged values under keys from `from` up to `to`; an error if a value there cannot be decrypted at
    /// present.
    pub(crate) fn damaged(&self, from: &str, to: Option<&str>) -> Result<Vec<Arc<Corrupt>>, Error> {
        let reached = |key: &str| key >= from && to.is_none_or(|to| key < to);
        let here = self.unreadable.iter().filter(|(key, _)| reached(key));
        here.map(|(_, why)| match why {
            Unreadable::Corrupt(corrupt) => Ok(corrupt.clone()),
            Unreadable::Unavailable(unavailable) => Err(Error::Unavailable(unavailable.clone())),
        })
        .collect()
    }

    /// Whether anything cannot be decrypted at present.
    pub(crate) fn has_unavailable(&self) -> bool {
        self.unreadable.values().any(|why| matches!(why, Unreadable::Unavailable(_)))
    }

    /// The values that cannot be decrypted at present.
    pub(crate) fn unavailable(&self) -> Vec<Arc<Unavailable>> {
        let unavailable = |why: &Unreadable| match why {
            Unreadable::Unavailable(unavailable) => Some(unavailable.clone()),
            Unreadable::Corrupt(_) => None,
        };
        self.unreadable.values().filter_map(unavailable).collect()
    }
}

/// A loaded object or unreadable value.
#[derive(Debug)]
pub(crate) enum Loaded {
    /// An object.
    Entry(Arc<Entry>),
    /// Bytes that cannot be read, under a key within the type.
    Unreadable { key: Box<str>, why: Unreadable },
}

impl Loaded {
    /// Bytes that cannot be decrypted at present.
    pub(crate) fn unavailable(&self) -> Option<&Arc<Unavailable>> {
        match self {
            Self::Unreadable { why: Unreadable::Unavailable(unavailable), .. } => Some(unavailable),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Field, testing};

    fn spec() -> Arc<Spec> {
        Arc::new(Spec::namespaced("pods").unwrap().field(Field::new("spec.nodeName").indexed()))
    }

    fn pod(spec: &Arc<Spec>, name: &str, node: &str, revision: u64) -> Arc<Entry> {
        let json =
            format!(r#"{{"metadata":{{"name":"{name}","namespace":"n"}},"spec":{{"nodeName":"{node}"}}}}"#);
        testing::entry(spec, &json, revision)
    }

    fn on(view: &View, node: &str) -> Vec<String> {
        let tree = view.index(0).unwrap();
        let all = tree.range(0, tree.len()).filter(|entry| entry.field("spec.nodeName") == Some(node));
        all.map(|entry| entry.name().to_owned()).collect()
    }

    #[test]
    fn indexes_follow_the_entries() {
        let spec = spec();
        let mut view = View::new(&spec, Revision(1), vec![Loaded::Entry(pod(&spec, "a", "n1", 1))]);
        let kept = view.clone();
        view.set("n/b", KeyState::Entry(pod(&spec, "b", "n1", 2)));
        view.set("n/a", KeyState::Entry(pod(&spec, "a", "n2", 3)));
        assert_eq!((on(&view, "n1"), on(&view, "n2")), (vec!["b".to_owned()], vec!["a".to_owned()]));
        view.set("n/b", KeyState::Absent);
        assert_eq!((view.len(), on(&view, "n1").len()), (1, 0));
        assert_eq!((kept.len(), on(&kept, "n1").len(), on(&kept, "n2").len()), (1, 1, 0));
    }

    #[test]
    fn an_unreadable_object_is_not_an_entry() {
        let spec = spec();
        let mut view = View::new(&spec, Revision(1), vec![Loaded::Entry(pod(&spec, "a", "n1", 1))]);
        let key = store::Key::try_from("pods/n/a").unwrap();
        let corrupt = store::Corrupt { key, revision: Revision(2), reason: "torn".into() };
        assert!(matches!(view.set("n/a", KeyState::Unreadable(corrupt.into())), KeyState::Entry(_)));
        assert_eq!(
            (view.len(), on(&view, "n1").len(), view.damaged("n/", Some("n0")).unwrap().len()),
            (0, 0, 1)
        );
        assert!(matches!(view.get("n/a"), KeyState::Unreadable(_)));
        assert!(matches!(
            view.set("n/a", KeyState::Entry(pod(&spec, "a", "n1", 3))),
            KeyState::Unreadable(_)
        ));
        assert_eq!((view.len(), view.unreadable().len()), (1, 0));
    }
}
