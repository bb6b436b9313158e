//! The metadata of the objects that other servers have, kept by a list and a watch of each kind.
//!
//! 1. **Kinds.** Kept are those that can be deleted, listed and watched, each in the preferred version, as
//!    in the reference. A kind stays while the discovery of its group fails; it goes with its API service.
//! 2. **A dead server** costs nothing but the attempts to reach it, with growing pauses, one for each kind.
//!    Its objects stay as they were last seen.
//! 3. **Order.** Subscribers get the changes of a kind one after another. A new subscriber gets all objects
//!    first.
//! 4. **Memory** is bounded by the number of objects of a kind.
//! 5. No lock is held while a subscriber is called but that of the list of subscribers: a subscriber may
//!    read the mirror, and may not subscribe.

mod follower;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use object::{Text, Value};
use registry::Client;
use tasks::{Ended, Name, Task};
use tokio::task::{AbortHandle, JoinSet};

use crate::content::text;
use crate::{Aggregation, RemoteResource, RemoteResources};

/// The most objects of a kind that are kept. More are not known, and count as absent until somebody asks.
const MOST_OBJECTS: usize = 1 << 20;

/// The metadata of an object that another server has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteObject {
    /// Namespace and name, with a slash between them; the name alone if the object is in no namespace.
    pub key: Text,
    /// The uid.
    pub uid: Text,
    /// The uids of the owners.
    pub owners: Box<[Text]>,
    /// The finalizers.
    pub finalizers: Box<[Text]>,
    /// Whether the object has a `deletionTimestamp`.
    pub is_deleting: bool,
}

impl RemoteObject {
    /// What counts of an object; `None` if the object has no name.
    pub fn read(object: &Value) -> Option<Self> {
        let metadata = object.get("metadata")?;
        let list = |key: &str| metadata.get(key).and_then(Value::as_list).unwrap_or_default().iter();
        let name = Some(text(metadata, "name")).filter(|name| !name.is_empty())?;
        let key = match text(metadata, "namespace") {
            "" => name.into(),
            namespace => format!("{namespace}/{name}").as_str().into(),
        };
        Some(Self {
            key,
            uid: text(metadata, "uid").into(),
            owners: list("ownerReferences").map(|owner| text(owner, "uid").into()).collect(),
            finalizers: list("finalizers").filter_map(Value::as_str).map(Into::into).collect(),
            is_deleting: !text(metadata, "deletionTimestamp").is_empty(),
        })
    }

    /// Namespace and name.
    pub fn names(&self) -> (&str, &str) {
        self.key.split_once('/').unwrap_or(("", &self.key))
    }
}

/// A change that a subscriber gets. `prefix` names the kind (`widgets.example.com`).
#[derive(Clone, Copy, Debug)]
pub enum MirrorChange<'a> {
    /// An object was made, changed or removed.
    Object {
        /// The kind.
        prefix: &'a Arc<str>,
        /// The object before.
        before: Option<&'a RemoteObject>,
        /// The object now.
        after: Option<&'a RemoteObject>,
    },
    /// All objects of the kind are known from now on.
    Synced {
        /// The kind.
        prefix: &'a Arc<str>,
    },
    /// The kind is served no more. Its objects are not known to be removed.
    Gone {
        /// The kind.
        prefix: &'a Arc<str>,
    },
    /// Kinds came, went, or can be told apart from unknown ones again.
    Kinds,
}

/// What is known of a kind by its group, version and kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Known {
    /// Another server has it.
    Kind(RemoteResource),
    /// No other server has it, or it cannot be known, because the discovery of the group version fails.
    Unknown,
}

type Report = Arc<dyn Fn(MirrorChange<'_>) + Send + Sync>;

/// The objects of all kinds. Dropping the last reference ends what keeps it.
pub struct Mirror {
    shared: Arc<Shared>,
    _task: Task,
}

impl std::fmt::Debug for Mirror {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mirror").finish_non_exhaustive()
    }
}

/// A subscriber gets changes until this is dropped.
#[must_use]
#[derive(Debug)]
pub struct Subscription {
    mirror: Arc<Mirror>,
    number: u64,
}

impl Drop for Subscription {
    fn drop(&mut self) {
        lock(&self.mirror.shared.subscribers).reports.remove(&self.number);
    }
}

#[derive(Default)]
struct Shared {
    subscribers: Mutex<Subscribers>,
    state: Mutex<State>,
}

#[derive(Default)]
struct Subscribers {
    last: u64,
    reports: BTreeMap<u64, Report>,
}

#[derive(Default)]
struct State {
    /// The kinds of all versions, as discovery has them.
    known: RemoteResources,
    kinds: HashMap<Arc<str>, Kept>,
}

/// The objects of one kind.
struct Kept {
    of: RemoteResource,
    /// By namespace and name.
    objects: BTreeMap<Text, Arc<RemoteObject>>,
    /// Whether there was a complete list.
    is_synced: bool,
}

impl Aggregation {
    /// The mirror, which is started if it does not run. The servers are asked as the user of the client that
    /// is first.
    pub fn mirror(self: &Arc<Self>, client: &Client) -> Arc<Mirror> {
        let mut running = self.mirror.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(mirror) = running.upgrade() {
            return mirror;
        }
        let shared: Arc<Shared> = Arc::default();
        let task = tasks::spawn(Name::RemoteObjects, {
            let (aggregation, client, shared) = (Arc::downgrade(self), client.clone(), shared.clone());
            move || keep(aggregation.clone(), client.clone(), shared.clone())
        });
        let mirror = Arc::new(Mirror { shared, _task: task });
        *running = Arc::downgrade(&mirror);
        mirror
    }
}

impl Mirror {
    /// Reports all objects, and then each change.
    pub fn subscribe(
        self: &Arc<Self>,
        report: impl Fn(MirrorChange<'_>) + Send + Sync + 'static,
    ) -> Subscription {
        let mut subscribers = lock(&self.shared.subscribers);
        let known: Vec<(Arc<str>, Vec<Arc<RemoteObject>>, bool)> = {
            let state = lock(&self.shared.state);
            let kept = state.kinds.iter();
            kept.map(|(prefix, kept)| {
                (prefix.clone(), kept.objects.values().cloned().collect(), kept.is_synced)
            })
            .collect()
        };
        for (prefix, objects, is_synced) in &known {
            for object in objects {
                report(MirrorChange::Object { prefix, before: None, after: Some(object) });
            }
            if *is_synced {
                report(MirrorChange::Synced { prefix });
            }
        }
        subscribers.last += 1;
        let number = subscribers.last;
        subscribers.reports.insert(number, Arc::new(report));
        Subscription { mirror: self.clone(), number }
    }

    /// The kind of a reference.
    pub fn kind(&self, group: &str, version: &str, kind: &str) -> Known {
        let state = lock(&self.shared.state);
        let mut resources = state.known.resources.iter();
        let found = resources.find(|of| of.group == group && of.version == version && of.kind == kind);
        found.map_or(Known::Unknown, |of| Known::Kind(of.clone()))
    }

    /// How a kind is served whose objects are kept.
    pub fn resource(&self, prefix: &str) -> Option<RemoteResource> {
        lock(&self.shared.state).kinds.get(prefix).map(|kept| kept.of.clone())
    }

    /// An object, as it was last seen.
    pub fn lookup(&self, prefix: &str, namespace: &str, name: &str) -> Option<Arc<RemoteObject>> {
        let key = if namespace.is_empty() { name.into() } else { format!("{namespace}/{name}") };
        lock(&self.shared.state).kinds.get(prefix)?.objects.get(key.as_str()).cloned()
    }

    /// The namespace of the object of a kind that has a uid.
    pub fn namespace_of(&self, prefix: &str, uid: &str) -> Option<String> {
        let state = lock(&self.shared.state);
        let object = state.kinds.get(prefix)?.objects.values().find(|object| &*object.uid == uid)?;
        Some(object.names().0.to_owned())
    }

    /// How many objects of a kind a namespace has; `None` if that is not known.
    pub fn count(&self, prefix: &str, namespace: &str) -> Option<usize> {
        let state = lock(&self.shared.state);
        let kept = state.kinds.get(prefix).filter(|kept| kept.is_synced && kept.of.is_namespaced)?;
        // '0' follows '/'.
        let (first, after) = (format!("{namespace}/"), format!("{namespace}0"));
        let range = (Bound::Included(first.as_str()), Bound::Excluded(after.as_str()));
        Some(kept.objects.range::<str, _>(range).count())
    }
}

impl Shared {
    fn report(&self, change: MirrorChange<'_>) {
        lock(&self.subscribers).report(change);
    }

    /// Changes an object of a kind, and reports that. Nothing is reported if nothing is different.
    fn set(&self, prefix: &Arc<str>, key: &str, after: Option<RemoteObject>) {
        let subscribers = lock(&self.subscribers);
        let after = after.map(Arc::new);
        let before = {
            let mut state = lock(&self.state);
            let Some(kept) = state.kinds.get_mut(prefix) else { return };
            match &after {
                Some(object)
                    if kept.objects.len() >= MOST_OBJECTS && !kept.objects.contains_key(&object.key) =>
                {
                    return;
                }
                Some(object) => kept.objects.insert(object.key.clone(), object.clone()),
                None => kept.objects.remove(key),
            }
        };
        if before != after {
            let change = MirrorChange::Object { prefix, before: before.as_deref(), after: after.as_deref() };
            subscribers.report(change);
        }
    }

    /// Removes the objects that a complete list did not have.
    fn synced(&self, prefix: &Arc<str>, listed: &HashSet<Text>) {
        let gone: Vec<Text> = {
            let state = lock(&self.state);
            let Some(kept) = state.kinds.get(prefix) else { return };
            kept.objects.keys().filter(|key| !listed.contains(&**key)).cloned().collect()
        };
        gone.iter().for_each(|key| self.set(prefix, key, None));
        let is_first = {
            let mut state = lock(&self.state);
            state.kinds.get_mut(prefix).is_some_and(|kept| !std::mem::replace(&mut kept.is_synced, true))
        };
        if is_first {
            self.report(MirrorChange::Synced { prefix });
        }
    }

    /// Takes what discovery has now. Returns the kinds that are to be followed.
    fn set_known(&self, known: RemoteResources, preferred: &RemoteResources) -> Vec<RemoteResource> {
        let is_followed = |of: &&RemoteResource| ["delete", "list", "watch"].iter().all(|verb| of.has(verb));
        let mut wanted: HashMap<Arc<str>, RemoteResource> = preferred
            .resources
            .iter()
            .filter(is_followed)
            .map(|of| (of.prefix().into(), of.clone()))
            .collect();
        let (gone, is_changed) = {
            let mut state = lock(&self.state);
            for (prefix, kept) in &state.kinds {
                let version = format!("{}/{}", kept.of.group, kept.of.version);
                if preferred.stale.contains(&version) {
                    wanted.entry(prefix.clone()).or_insert_with(|| kept.of.clone());
                }
            }
            let gone: Vec<Arc<str>> =
                state.kinds.keys().filter(|prefix| !wanted.contains_key(&**prefix)).cloned().collect();
            for prefix in &gone {
                state.kinds.remove(prefix);
            }
            for (prefix, of) in &wanted {
                let new = || Kept { of: of.clone(), objects: BTreeMap::new(), is_synced: false };
                state.kinds.entry(prefix.clone()).or_insert_with(new).of = of.clone();
            }
            let is_changed = state.known != known;
            state.known = known;
            (gone, is_changed)
        };
        for prefix in &gone {
            self.report(MirrorChange::Gone { prefix });
        }
        if is_changed {
            self.report(MirrorChange::Kinds);
        }
        wanted.into_values().collect()
    }
}

impl Subscribers {
    fn report(&self, change: MirrorChange<'_>) {
        self.reports.values().for_each(|report| report(change));
    }
}

/// Follows the kinds that there are.
async fn keep(aggregation: Weak<Aggregation>, client: Client, shared: Arc<Shared>) -> Ended {
    let Some(aggregation) = aggregation.upgrade() else { return Ended::Done };
    let mut changes = aggregation.changes();
    let mut running: HashMap<Arc<str>, (RemoteResource, AbortHandle)> = HashMap::new();
    let mut followers = JoinSet::new();
    loop {
        changes.mark_unchanged();
        let table = aggregation.table();
        let wanted = shared.set_known(table.resources(), &table.preferred());
        let wanted: HashMap<Arc<str>, RemoteResource> =
            wanted.into_iter().map(|of| (of.prefix().into(), of)).collect();
        running.retain(|prefix, (of, follower)| {
            let stays = wanted.get(prefix) == Some(of) && !follower.is_finished();
            if !stays {
                follower.abort();
            }
            stays
        });
        for (prefix, of) in wanted {
            running.entry(prefix).or_insert_with_key(|prefix| {
                let follower = follower::Follower::new(&aggregation, &client, &shared, prefix.clone(), &of);
                (of, followers.spawn(follower.run()))
            });
        }
        tokio::select! {
            changed = changes.changed() => if changed.is_err() { return Ended::Done },
            Some(Err(error)) = followers.join_next() => if error.is_panic() {
                // The supervisor of this task logs the panic, and starts it again.
                std::panic::resume_unwind(error.into_panic());
            },
        }
        // Changes come in groups.
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
