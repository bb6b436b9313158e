//! What tells a controller of changes: of its own objects, and of those that they control or could control.

use super::dependents::is_uncontrolled;
use super::owner::{ObjectKey, OwnerKind};
use crate::follow::{StartFrom, follow};
use crate::queue::Queue;
use crate::uid::Uid;
use cache::{Entry, Resource, Update};
use object::Text;
use object::label::Selector;
use schema::{Builder, Part, Ref, Type, stored};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tasks::Task;

const SELECTOR: Part = Part("spec", &[Part("selector", &[])]);

/// The objects of a kind by their uids, and what they select.
pub(crate) struct Owners {
    kind: &'static OwnerKind,
    /// The type of the fields that are decoded.
    part: Ref<Type>,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    by_uid: HashMap<Uid, ObjectKey>,
    /// By namespace and name.
    selectors: HashMap<Text, BTreeMap<Text, Selector>>,
}

impl Owners {
    /// None so far.
    pub(crate) fn new(kind: &'static OwnerKind) -> Arc<Self> {
        let part = Builder::part_of((kind.schema)(), &[SELECTOR]).build();
        Arc::new(Self { kind, part, known: Mutex::default() })
    }

    /// Notes a change of an object of the kind.
    pub(crate) fn note(&self, update: &Update<'_>) {
        let Update::Change { before, after } = update else { return *self.lock() = Known::default() };
        let selector = after.and_then(|entry| {
            let object = stored::logged(entry, stored::decode_part(&self.part, entry.bytes()))?;
            (self.kind.selector)(&object)
        });
        let mut known = self.lock();
        if let Some(before) = before
            && after.is_none_or(|after| after.uid() != before.uid())
        {
            known.remove(before);
        }
        if let Some(after) = after {
            known.add(after, selector);
        }
    }

    /// The keys of the objects that a change of another object concerns: its owners before and after, and
    /// those that may adopt it.
    pub(crate) fn affected(&self, update: &Update<'_>) -> Vec<ObjectKey> {
        let known = self.lock();
        match update {
            // Changes may be missing.
            Update::Reset => known.by_uid.values().cloned().collect(),
            Update::Change { before, after } => {
                let owners = before.iter().chain(after).flat_map(|entry| entry.owners());
                let mut keys: Vec<_> =
                    owners.filter_map(|uid| known.by_uid.get(&uid.into()).cloned()).collect();
                if let Some(after) = after.filter(|after| may_be_adopted(*before, after)) {
                    let selectors = known.selectors.get(after.namespace()).into_iter().flatten();
                    let matching = selectors.filter(|(_, selector)| selector.matches(&**after));
                    keys.extend(matching.map(|(name, _)| (after.namespace().into(), name.clone())));
                }
                keys
            }
        }
    }

    /// The keys of the objects that select another one by its labels.
    pub(crate) fn selecting(&self, entry: &Entry) -> Vec<ObjectKey> {
        let known = self.lock();
        let selectors = known.selectors.get(entry.namespace()).into_iter().flatten();
        let matching = selectors.filter(|(_, selector)| selector.matches(entry));
        matching.map(|(name, _)| (entry.namespace().into(), name.clone())).collect()
    }

    /// The key of the object with a uid.
    pub(crate) fn key(&self, uid: &str) -> Option<ObjectKey> {
        self.lock().by_uid.get(&uid.into()).cloned()
    }

    /// The keys of all objects.
    pub(crate) fn keys(&self) -> Vec<ObjectKey> {
        self.lock().by_uid.values().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    fn add(&mut self, entry: &Entry, selector: Option<Selector>) {
        let (namespace, name) = (Text::from(entry.namespace()), Text::from(entry.name()));
        if let Some(selector) = selector {
            self.selectors.entry(namespace.clone()).or_default().insert(name.clone(), selector);
        }
        self.by_uid.insert(entry.uid().into(), (namespace, name));
    }

    fn remove(&mut self, entry: &Entry) {
        self.by_uid.remove(&entry.uid().into());
        if let Some(selectors) = self.selectors.get_mut(entry.namespace()) {
            selectors.remove(entry.name());
            if selectors.is_empty() {
                self.selectors.remove(entry.namespace());
            }
        }
    }
}

/// Whether a change of an object without controller can make an owner adopt it.
fn may_be_adopted(before: Option<&Arc<Entry>>, after: &Entry) -> bool {
    is_uncontrolled(after)
        && !after.is_deleting()
        && before.is_none_or(|before| {
            !before.labels().eq(after.labels()) || !is_uncontrolled(before) || before.uid() != after.uid()
        })
}

/// Puts the objects of a kind into a queue: each at the start and when it changes.
pub(crate) fn follow_owners(
    owners: &Arc<Owners>,
    resource: Arc<Resource>,
    queue: &Arc<Queue<ObjectKey>>,
) -> Task {
    let (owners, queue) = (owners.clone(), queue.clone());
    follow(resource, StartFrom::State, move |update| {
        owners.note(&update);
        if let Update::Change { after: Some(after), .. } = update {
            queue.add((after.namespace().into(), after.name().into()));
        }
    })
}

/// Puts the objects of a kind into a queue when what they control, or could control, changes.
pub(crate) fn follow_dependents(
    owners: &Arc<Owners>,
    resource: Arc<Resource>,
    queue: &Arc<Queue<ObjectKey>>,
) -> Task {
    let (owners, queue) = (owners.clone(), queue.clone());
    follow(resource, StartFrom::Now, move |update| queue.extend(owners.affected(&update)))
}
