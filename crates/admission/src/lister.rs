//! A lister, as in client-go: the objects of a kind for look-ups. An object is decoded once when it changes,
//! not for each write.

use cache::{Cursor, Entry, Resource, Update};
use object::{Map, Text};
use schema::Type;
use schema::stored;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The objects of one kind, each in the form `T` that its readers need. A look-up sees every write that was
/// acknowledged before it.
pub struct Lister<T> {
    ty: &'static Type,
    read: fn(&Map) -> Option<T>,
    state: Mutex<State<T>>,
}

struct State<T> {
    cursor: Cursor,
    /// By namespace, then by name.
    namespaces: BTreeMap<Text, BTreeMap<Text, Arc<T>>>,
    /// All objects in this order; `None` until [`Lister::all`] is called after a change.
    all: Option<Arc<[Arc<T>]>>,
}

impl<T> Lister<T> {
    /// The objects of a resource, which are of a type. Those of which `read` makes nothing, and those that
    /// cannot be decoded, count as absent.
    pub fn new(resource: Arc<Resource>, ty: &'static Type, read: fn(&Map) -> Option<T>) -> Self {
        let state = State { cursor: Cursor::new(resource), namespaces: BTreeMap::new(), all: None };
        Self { ty, read, state: Mutex::new(state) }
    }

    /// One object.
    pub fn get(&self, namespace: &str, name: &str) -> Option<Arc<T>> {
        self.current().namespaces.get(namespace).and_then(|objects| objects.get(name)).cloned()
    }

    /// The objects of a namespace, by name.
    pub fn in_namespace(&self, namespace: &str) -> Vec<Arc<T>> {
        let state = self.current();
        state.namespaces.get(namespace).map(|objects| objects.values().cloned().collect()).unwrap_or_default()
    }

    /// All objects, by namespace and name.
    pub fn all(&self) -> Arc<[Arc<T>]> {
        let mut state = self.current();
        let State { namespaces, all, .. } = &mut *state;
        all.get_or_insert_with(|| namespaces.values().flat_map(BTreeMap::values).cloned().collect()).clone()
    }

    /// Whether the kind has no objects.
    pub fn is_empty(&self) -> bool {
        self.current().namespaces.is_empty()
    }

    fn current(&self) -> MutexGuard<'_, State<T>> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let State { cursor, namespaces, all } = &mut *state;
        if !cursor.is_current() {
            *all = None;
            cursor.advance(|update| match update {
                Update::Reset => namespaces.clear(),
                Update::Change { before, after } => self.change(namespaces, before, after),
            });
        }
        state
    }

    fn change(
        &self,
        namespaces: &mut BTreeMap<Text, BTreeMap<Text, Arc<T>>>,
        before: Option<&Arc<Entry>>,
        after: Option<&Arc<Entry>>,
    ) {
        let now = after.and_then(|entry| stored::logged(entry, stored::decode(self.ty, entry.bytes())));
        let Some(entry) = after.or(before) else { return };
        match now.and_then(|object| (self.read)(&object)) {
            Some(object) => {
                let objects = namespaces.entry(entry.namespace().into()).or_default();
                objects.insert(entry.name().into(), Arc::new(object));
            }
            None => {
                if let Some(objects) = namespaces.get_mut(entry.namespace()) {
                    objects.remove(entry.name());
                    if objects.is_empty() {
                        namespaces.remove(entry.namespace());
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cache::{Cache, CacheOptions, Change, Spec};
    use object::Value;
    use schema::view::View as _;
    use schema::views::core::v1::ConfigMap;
    use store::memory::Memory;

    fn json(name: &str, value: &str) -> String {
        format!(
            r#"{{"kind":"ConfigMap","apiVersion":"v1","metadata":{{"name":"{name}","namespace":"n"}},"data":{{"k":"{value}"}}}}"#
        )
    }

    #[tokio::test]
    async fn look_ups_find_what_was_committed_before_them() {
        let specs = vec![Spec::namespaced("configmaps").unwrap()];
        let cache = Cache::open(Arc::new(Memory::default()), specs, CacheOptions::default()).await.unwrap();
        let maps = cache.resource("configmaps").unwrap();
        let known = Lister::new(maps.clone(), ConfigMap::schema(), |map| {
            let value = map.get("data")?.get("k").and_then(Value::as_str)?;
            (value != "none").then(|| value.to_owned())
        });
        let all = || known.all().iter().map(|value| value.to_string()).collect::<Vec<_>>();
        assert!(known.is_empty());
        for (name, value) in [("b", "1"), ("a", "2"), ("c", "none")] {
            cache.commit(Change::put(&maps, "n", name, json(name, value))).await.unwrap();
        }
        assert_eq!(all(), ["2", "1"]);
        assert_eq!(known.get("n", "b").as_deref().map(String::as_str), Some("1"));
        assert!(known.get("n", "c").is_none());
        cache.commit(Change::put(&maps, "n", "b", json("b", "3"))).await.unwrap();
        assert_eq!(
            known.in_namespace("n").iter().map(|value| value.as_str()).collect::<Vec<_>>(),
            ["2", "3"]
        );
        cache.commit(Change::delete(&maps, "n", "a")).await.unwrap();
        cache.commit(Change::put(&maps, "n", "b", json("b", "none"))).await.unwrap();
        assert!(known.is_empty());
        assert!(all().is_empty());
    }
}
