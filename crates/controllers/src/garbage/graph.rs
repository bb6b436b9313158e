//! What depends on what, by uid, and which owners wait for their dependents.
//!
//! Only objects that have owners are in it, once for each owner. It is kept from the index records of
//! changes. Decoded are only the finalizers of objects that are being deleted. Objects of other API servers
//! are in it too, from the changes of the mirror.
//!
//! 1. An object that gets an owner is due, unless a glance finds all its owners: otherwise its next look
//!    finds out which are there.
//! 2. When an object is gone, its dependents are due.
//! 3. An owner that waits has in `left` every dependent that was not found to let it go since the dependent's
//!    last change. All of them are due when the owner starts to wait, each again when it changes, and the
//!    owner when none is left.

use super::find::{Found, find};
use super::metadata::{Metadata, Policy};
use super::observed::Observed;
use crate::queue::Queue;
pub(super) use crate::uid::Uid;
use aggregation::{Mirror, RemoteObject};
use cache::{Cursor, Resource, Update};
use registry::{Catalog, Served};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::Bound;
use std::sync::Arc;

/// The most uids of removed objects that are kept; then the set is cleared.
const REMEMBERED: usize = 4096;
/// The most objects that are checked directly after a change; more are added to the queue.
const GLANCES: usize = 64;

/// An object, by its type's prefix in the store and its key within the type.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Item {
    pub(super) prefix: Arc<str>,
    pub(super) key: Arc<str>,
}

impl Item {
    /// The namespace and the name of the object.
    pub(super) fn names(&self) -> (&str, &str) {
        self.key.split_once('/').unwrap_or(("", &self.key))
    }
}

/// A type that is followed.
struct Followed {
    prefix: Arc<str>,
    served: Arc<Served>,
    cursor: Cursor,
}

/// The followed types, and what is known of their objects.
pub(super) struct Graph {
    types: HashMap<Arc<str>, Followed>,
    edges: Edges,
    /// The catalog; `None` before [`Graph::set_catalog`].
    catalog: Option<Arc<Catalog>>,
    /// The objects of other API servers.
    mirror: Option<Arc<Mirror>>,
}

impl Graph {
    /// An empty graph, which adds objects that are due to a queue.
    pub(super) fn new(queue: Arc<Queue<Item>>, mirror: Option<Arc<Mirror>>) -> Self {
        let edges = Edges {
            queue,
            dependents: BTreeSet::new(),
            waiting: HashMap::new(),
            unresolved: HashSet::new(),
            absent: HashSet::new(),
            loaded: HashSet::new(),
            owned: Vec::new(),
        };
        Self { types: HashMap::new(), edges, catalog: None, mirror }
    }

    /// Follows a type from its state on.
    pub(super) fn add(&mut self, prefix: &Arc<str>, served: Arc<Served>, resource: Arc<Resource>) {
        self.types.insert(
            prefix.clone(),
            Followed { prefix: prefix.clone(), served, cursor: Cursor::new(resource) },
        );
        self.advance(prefix);
    }

    /// Follows a type no more.
    pub(super) fn remove(&mut self, prefix: &str) {
        self.types.remove(prefix);
        self.edges.clear(prefix);
    }

    /// Knows the newest changes of a type.
    pub(super) fn advance(&mut self, prefix: &str) {
        let Self { types, edges, .. } = self;
        if let Some(followed) = types.get_mut(prefix) {
            followed.advance(edges);
        }
        self.glance();
    }

    /// Knows everything that was acknowledged.
    pub(super) fn advance_all(&mut self) {
        let Self { types, edges, .. } = self;
        for followed in types.values_mut().filter(|followed| !followed.cursor.is_current()) {
            followed.advance(edges);
        }
        self.glance();
    }

    /// Makes the objects that got owners due, unless all their owners are there.
    fn glance(&mut self) {
        let is_few = self.edges.owned.len() <= GLANCES;
        while let Some(item) = self.edges.owned.pop() {
            let mut due = Due { item: Some(item), queue: self.edges.queue.clone() };
            if is_few && due.item.as_ref().is_some_and(|item| self.has_its_owners(item)) {
                due.item = None;
            }
        }
        self.edges.owned = Vec::new();
    }

    /// Whether a look at an object would find nothing to do. The owners are there, and if they go, that is a
    /// change to come.
    fn has_its_owners(&self, item: &Item) -> bool {
        let (Some(catalog), Some(followed)) = (&self.catalog, self.types.get(&item.prefix)) else {
            return false;
        };
        let (namespace, name) = item.names();
        let Ok(Some(entry)) = followed.cursor.resource().lookup(namespace, name) else { return false };
        let Ok(metadata) = Metadata::read(&entry) else { return false };
        let is_followed = |prefix: &str| self.types.contains_key(prefix);
        let mut owners = metadata.owners();
        !entry.is_deleting()
            && owners.all(|owner| matches!(find(catalog, is_followed, namespace, owner), Ok(Found::Solid)))
    }

    /// The prefixes of all followed types, with where their objects are.
    pub(super) fn resources(&self) -> HashMap<Arc<str>, Arc<Resource>> {
        let resource =
            |(prefix, followed): (&Arc<str>, &Followed)| (prefix.clone(), followed.cursor.resource().clone());
        self.types.iter().map(resource).collect()
    }

    /// Fails if an object of a followed type cannot be decrypted at present.
    pub(super) fn check_available(&self) -> Result<(), cache::Error> {
        self.types.values().try_for_each(|followed| followed.cursor.resource().check_available())
    }

    /// How a followed type is served.
    pub(super) fn served(&self, prefix: &str) -> Option<Arc<Served>> {
        self.types.get(prefix).map(|followed| followed.served.clone())
    }

    /// A followed type is served in another way from now on.
    pub(super) fn serve(&mut self, prefix: &str, served: Arc<Served>) {
        if let Some(followed) = self.types.get_mut(prefix) {
            followed.served = served;
        }
    }

    /// An object of another API server was made, changed or removed.
    pub(super) fn change_remote(
        &mut self,
        prefix: &Arc<str>,
        before: Option<&RemoteObject>,
        after: Option<&RemoteObject>,
    ) {
        if !self.types.contains_key(prefix) {
            self.edges.change(prefix, before, after);
        }
        self.glance();
    }

    /// Forgets the objects of a kind that no other API server has any more.
    pub(super) fn remove_remote(&mut self, prefix: &str) {
        if !self.types.contains_key(prefix) {
            self.edges.clear(prefix);
        }
    }

    /// Whether an object has dependents.
    pub(super) fn has_dependents(&self, uid: &Uid) -> bool {
        self.edges.dependents_of(uid).next().is_some()
    }

    /// Whether a dependent of an object waits for its own dependents to be deleted.
    pub(super) fn has_waiting_dependent(&self, uid: &Uid) -> bool {
        let is_waiting = |item: &Item| {
            let (namespace, name) = item.names();
            let waits = |object: &dyn Observed| {
                object.is_deleting() && self.policy(&object.uid().into()) == Some(Policy::Foreground)
            };
            match (self.types.get(&item.prefix), &self.mirror) {
                (Some(followed), _) => {
                    let entry = followed.cursor.resource().lookup(namespace, name).ok().flatten();
                    entry.is_some_and(|entry| waits(&*entry))
                }
                (None, Some(mirror)) => {
                    let object = mirror.lookup(&item.prefix, namespace, name);
                    object.is_some_and(|object| waits(&*object))
                }
                (None, None) => false,
            }
        };
        self.edges.dependents_of(uid).any(is_waiting)
    }

    /// The policy that an owner waits for.
    pub(super) fn policy(&self, uid: &Uid) -> Option<Policy> {
        self.edges.waiting.get(uid).map(|waiting| waiting.policy)
    }

    /// Whether an owner waits, and none of its dependents is left to wait for.
    pub(super) fn is_free(&self, uid: &Uid) -> bool {
        self.edges.waiting.get(uid).is_some_and(|waiting| waiting.left.is_empty())
    }

    /// Notes whether a dependent blocks the deletion of an owner.
    pub(super) fn note(&mut self, item: &Item, owner: &Uid, blocks: bool) {
        if self.policy(owner) != Some(Policy::Foreground) {
            return;
        }
        let edges = &mut self.edges;
        if !blocks {
            edges.release(owner, item);
        } else if edges.dependents.contains(&(owner.clone(), item.clone())) {
            edges.hold(owner, item);
        }
    }

    /// Notes an object with an owner of a kind that is not served. It is due when the catalog changes.
    pub(super) fn keep_unresolved(&mut self, item: &Item) {
        self.edges.unresolved.insert(item.clone());
    }

    /// Sets the catalog.
    pub(super) fn set_catalog(&mut self, catalog: Arc<Catalog>) {
        self.catalog = Some(catalog);
    }

    /// Adds the objects with owners of kinds that were not served to the queue: the catalog has changed.
    pub(super) fn retry_unresolved(&mut self) {
        let Edges { unresolved, queue, .. } = &mut self.edges;
        unresolved.drain().for_each(|item| queue.add(item));
    }

    /// Whether the object with a uid is known to be removed.
    pub(super) fn is_absent(&self, uid: &Uid) -> bool {
        self.edges.absent.contains(uid)
    }

    /// How many pairs of owner and dependent there are.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.edges.dependents.len()
    }
}

impl Followed {
    fn advance(&mut self, edges: &mut Edges) {
        let Self { prefix, cursor, .. } = self;
        cursor.advance(|update| match update {
            Update::Reset => edges.reset(prefix),
            Update::Change { before, after } => {
                edges.change(prefix, before.map(|entry| &**entry), after.map(|entry| &**entry));
            }
        });
    }
}

/// An object that becomes due when this is dropped, also by a panic.
struct Due {
    item: Option<Item>,
    queue: Arc<Queue<Item>>,
}

impl Drop for Due {
    fn drop(&mut self) {
        if let Some(item) = self.item.take() {
            self.queue.add(item);
        }
    }
}

/// The owners and dependents of all followed types.
struct Edges {
    queue: Arc<Queue<Item>>,
    /// Owners with their dependents.
    dependents: BTreeSet<(Uid, Item)>,
    /// The owners that wait for their dependents.
    waiting: HashMap<Uid, Waiting>,
    /// The objects with owners of a kind that is not served.
    unresolved: HashSet<Item>,
    /// The uids of some objects that were removed.
    absent: HashSet<Uid>,
    /// The types that were ever followed.
    loaded: HashSet<Arc<str>>,
    /// The objects that got owners, and have to be checked.
    owned: Vec<Item>,
}

/// An owner that waits for its dependents.
struct Waiting {
    item: Item,
    policy: Policy,
    left: HashSet<Item>,
}

impl Edges {
    /// The dependents of an object.
    fn dependents_of(&self, uid: &Uid) -> impl Iterator<Item = &Item> {
        let first = (uid.clone(), Item { prefix: "".into(), key: "".into() });
        let range = self.dependents.range((Bound::Included(first), Bound::Unbounded));
        range.take_while(move |(owner, _)| owner == uid).map(|(_, item)| item)
    }

    /// The objects of a type follow.
    fn reset(&mut self, prefix: &Arc<str>) {
        if self.loaded.insert(prefix.clone()) {
            return;
        }
        self.clear(prefix);
        // Which owners were removed meanwhile is not known.
        self.dependents.iter().for_each(|(_, item)| self.queue.add(item.clone()));
    }

    /// Forgets the objects of a type.
    fn clear(&mut self, prefix: &str) {
        self.dependents.retain(|(_, item)| *item.prefix != *prefix);
        self.unresolved.retain(|item| *item.prefix != *prefix);
        self.waiting.retain(|_, waiting| *waiting.item.prefix != *prefix);
        for waiting in self.waiting.values_mut() {
            waiting.left.retain(|item| *item.prefix != *prefix);
            self.queue.add(waiting.item.clone());
        }
    }

    /// An object was made, changed or removed.
    fn change<O: Observed>(&mut self, prefix: &Arc<str>, before: Option<&O>, after: Option<&O>) {
        match (before, after) {
            (Some(old), Some(new)) if old.uid() != new.uid() => {
                self.change(prefix, before, None);
                self.change(prefix, None, after);
            }
            (old, new) => {
                self.change_owners(prefix, old, new);
                match (old, new) {
                    (Some(old), None) => self.removed(old),
                    (_, Some(new)) if new.is_deleting() => self.deleting(prefix, new),
                    _ => {}
                }
            }
        }
    }

    fn change_owners<O: Observed>(&mut self, prefix: &Arc<str>, before: Option<&O>, after: Option<&O>) {
        let Some(object) = after.or(before) else { return };
        let has_owners = |object: Option<&O>| object.is_some_and(Observed::has_owners);
        if !has_owners(before) && !has_owners(after) {
            return;
        }
        let is_same = before.zip(after).is_some_and(|(before, after)| before.has_owners_of(after));
        if is_same && self.waiting.is_empty() {
            return;
        }
        let owners = |object: Option<&O>| object.map(Observed::owners).unwrap_or_default();
        let (old, new) = (owners(before), owners(after));
        let item = Item { prefix: prefix.clone(), key: object.key().into() };
        for owner in old.difference(&new) {
            self.dependents.remove(&(owner.clone(), item.clone()));
            self.release(owner, &item);
        }
        let (mut is_owned, mut is_due) = (false, false);
        for owner in &new {
            is_owned |= !is_same && self.dependents.insert((owner.clone(), item.clone()));
            // A change may be that it blocks the deletion of its owner, or does so no more.
            is_due |= self.hold(owner, &item);
        }
        if is_due {
            self.queue.add(item);
        } else if is_owned {
            self.owned.push(item);
        } else if after.is_none() {
            self.unresolved.remove(&item);
        }
    }

    /// An object is gone.
    fn removed(&mut self, object: &impl Observed) {
        let uid = Uid::from(object.uid());
        self.waiting.remove(&uid);
        let mut dependents = self.dependents_of(&uid).peekable();
        if dependents.peek().is_none() {
            return;
        }
        dependents.for_each(|item| self.queue.add(item.clone()));
        if self.absent.len() >= REMEMBERED {
            self.absent.clear();
        }
        self.absent.insert(uid);
    }

    /// An object is being deleted.
    fn deleting(&mut self, prefix: &Arc<str>, object: &impl Observed) {
        let uid = Uid::from(object.uid());
        let Some(policy) = object.awaits() else {
            self.waiting.remove(&uid);
            return;
        };
        let item = Item { prefix: prefix.clone(), key: object.key().into() };
        if self.waiting.get(&uid).is_none_or(|waiting| waiting.policy != policy) {
            let left: HashSet<Item> = self.dependents_of(&uid).cloned().collect();
            left.iter().for_each(|item| self.queue.add(item.clone()));
            self.waiting.insert(uid, Waiting { item: item.clone(), policy, left });
        }
        self.queue.add(item);
    }

    /// A dependent may keep an owner from going. Whether the owner waits.
    fn hold(&mut self, owner: &Uid, item: &Item) -> bool {
        let waiting = self.waiting.get_mut(owner);
        waiting.is_some_and(|waiting| {
            waiting.left.insert(item.clone());
            true
        })
    }

    /// A dependent does not keep an owner from going.
    fn release(&mut self, owner: &Uid, item: &Item) {
        if let Some(waiting) = self.waiting.get_mut(owner)
            && waiting.left.remove(item)
            && waiting.left.is_empty()
        {
            self.queue.add(waiting.item.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pair_of_owner_and_dependent_is_small() {
        assert_eq!(size_of::<(Uid, Item)>(), 56);
    }

    #[test]
    fn uids_are_told_apart_by_their_text() {
        let usual = Uid::from("0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9");
        assert_eq!(usual, Uid::Uuid(0x0a1b_2c3d_4e5f_6071_8293_a4b5_c6d7_e8f9_u128.to_be_bytes()));
        for other in [
            "",
            "u-1",
            "0A1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9",
            "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f",
            "0a1b2c3d04e5f-6071-8293-a4b5c6d7e8f9",
            "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8fé",
        ] {
            assert_eq!(Uid::from(other), Uid::Other(other.into()));
        }
    }
}
