//! The label selectors of some objects, by namespace: which of them select a pod.

use cache::Entry;
use object::Text;
use object::label::Selector;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The selectors of objects, by namespace and name.
#[derive(Default)]
pub(crate) struct Selectors(Mutex<HashMap<Text, BTreeMap<Text, Selector>>>);

impl Selectors {
    fn lock(&self) -> MutexGuard<'_, HashMap<Text, BTreeMap<Text, Selector>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the selector of an object. `None` for an object that selects nothing, or is gone.
    pub(crate) fn set(&self, (namespace, name): &(Text, Text), selector: Option<Selector>) {
        let mut all = self.lock();
        match selector {
            Some(selector) => {
                all.entry(namespace.clone()).or_default().insert(name.clone(), selector);
            }
            None => {
                if let Some(own) = all.get_mut(namespace) {
                    own.remove(name);
                    if own.is_empty() {
                        all.remove(namespace);
                    }
                }
            }
        }
    }

    /// The objects that select another one.
    pub(crate) fn matching(&self, entry: &Entry) -> Vec<(Text, Text)> {
        let all = self.lock();
        let own = all.get_key_value(entry.namespace());
        let matching = own.into_iter().flat_map(|(namespace, own)| {
            let matching = own.iter().filter(|(_, selector)| selector.matches(entry));
            matching.map(|(name, _)| (namespace.clone(), name.clone()))
        });
        matching.collect()
    }

    /// All objects that select something.
    pub(crate) fn all(&self) -> Vec<(Text, Text)> {
        let all = self.lock();
        let keys = all.iter().flat_map(|(namespace, own)| own.keys().map(move |name| (namespace, name)));
        keys.map(|(namespace, name)| (namespace.clone(), name.clone())).collect()
    }

    /// Forgets all.
    pub(crate) fn clear(&self) {
        self.lock().clear();
    }
}
