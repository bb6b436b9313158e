//! A cache that begins with the state of another one at one revision, and shares it.
//!
//! 1. A [`Snapshot`] is a pointer for each type: what it costs is the number of types, not of objects.
//! 2. A cache [over](Cache::over) a snapshot has a store in memory of its own. Neither sees what the other
//!    commits: states of objects are shared for as long as they do not change.
//! 3. The history of such a cache starts at its first revision.

use crate::{
    Cache, CacheOptions, Entry, Error, Resource, Spec,
    log::{KeyState, Log},
    resource::Core,
    tree::Sort,
    view::View,
};
use std::{ops::ControlFlow, sync::Arc};
use store::{
    Head, Key, Revision, Store, Unavailable, Unreadable, Value, Visitor,
    memory::{Base, Memory, MemoryOptions},
};

/// The objects of all types of a cache at one revision.
pub struct Snapshot {
    revision: Revision,
    /// In the order of the keys of the store.
    types: Vec<TypeSnapshot>,
    store: Arc<dyn Store>,
}

struct TypeSnapshot {
    spec: Arc<Spec>,
    view: View,
}

impl TypeSnapshot {
    /// What the keys of the type start with.
    fn prefix(&self) -> impl Iterator<Item = u8> {
        self.spec.prefix().bytes().chain([b'/'])
    }

    fn key(&self, within: &str) -> Option<Key> {
        Key::try_from(format!("{}/{within}", self.spec.prefix())).ok()
    }

    /// Visits what lies under keys within the type that start with `prefix`.
    fn visit(&self, prefix: &[u8], visit: &mut Visitor<'_>) -> ControlFlow<()> {
        let unreadable = self.view.unreadable();
        let mut unreadable = unreadable.into_iter().filter(|found| {
            let within = found.key().as_bytes().get(self.spec.prefix().len() + 1..);
            within.is_some_and(|within| within.starts_with(prefix))
        });
        let mut next = unreadable.next();
        let from = self.view.entries().rank(Sort { value: b"", key: prefix });
        for entry in self.view.entries().range(from, self.view.len()) {
            if !entry.key().as_bytes().starts_with(prefix) {
                break;
            }
            let Some(key) = self.key(entry.key()) else { continue };
            while let Some(before) = next.take_if(|next| *next.key() < key) {
                visit(Err(before))?;
                next = unreadable.next();
            }
            visit(Ok(store::Entry { key, head: head(&entry), value: entry.framed() }))?;
        }
        next.into_iter().chain(unreadable).try_for_each(|found| visit(Err(found)))
    }
}

impl Snapshot {
    /// The revision.
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.types.iter().map(|each| each.view.len()).sum()
    }

    /// Whether there are no objects.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn find<'k>(&self, key: &'k Key) -> Option<(&TypeSnapshot, &'k str)> {
        let (prefix, within) = str::from_utf8(key.as_bytes()).ok()?.split_once('/')?;
        let wanted = || prefix.bytes().chain([b'/']);
        let at = self.types.binary_search_by(|each| each.prefix().cmp(wanted())).ok()?;
        Some((self.types.get(at)?, within))
    }
}

fn head(entry: &Entry) -> Head {
    Head { create_revision: entry.create_revision(), mod_revision: entry.mod_revision() }
}

fn head_of(unreadable: &Unreadable) -> Head {
    match unreadable {
        Unreadable::Unavailable(unavailable) => unavailable.head,
        // The revision of its creation is not known.
        Unreadable::Corrupt(corrupt) => {
            Head { create_revision: corrupt.revision, mod_revision: corrupt.revision }
        }
    }
}

impl Base for Snapshot {
    fn head(&self, key: &Key) -> Option<Head> {
        let (found, within) = self.find(key)?;
        match found.view.get(within) {
            KeyState::Absent => None,
            KeyState::Entry(entry) => Some(head(&entry)),
            KeyState::Unreadable(unreadable) => Some(head_of(&unreadable)),
        }
    }

    fn get(&self, key: &Key) -> Option<(Head, Value)> {
        let (found, within) = self.find(key)?;
        match found.view.get(within) {
            KeyState::Absent => None,
            KeyState::Entry(entry) => Some((head(&entry), Ok(entry.framed()))),
            KeyState::Unreadable(unreadable) => Some((head_of(&unreadable), Err(unreadable))),
        }
    }

    fn visit(&self, prefix: &[u8], visit: &mut Visitor<'_>) -> ControlFlow<()> {
        for each in &self.types {
            let own: Vec<u8> = each.prefix().collect();
            if own.starts_with(prefix) {
                each.visit(b"", visit)?;
            } else if let Some(within) = prefix.strip_prefix(own.as_slice()) {
                each.visit(within, visit)?;
            }
        }
        ControlFlow::Continue(())
    }

    fn open(&self, unavailable: &Unavailable) -> Value {
        self.store.open(unavailable)
    }
}

impl Cache {
    /// The state of all types of the first store, at the newest revision that every one can serve. Takes the
    /// time of a few pointers' copy for each type.
    ///
    /// Fails while a type lags, or everything is loaded again.
    pub fn snapshot(&self) -> Result<Snapshot, Error> {
        let core = self.core();
        // Under the lock by which changes are applied: all types are at the same revision.
        let taken = core.applier.with(|work| {
            if let Some(prefix) = work.lagging.keys().next() {
                return Err(Error::Lagging { prefix: prefix.clone() });
            }
            if core.progress.is_broken() {
                return Err(Error::Recovering);
            }
            let revision = core.progress.revision();
            let types = self.own_resources().into_iter().map(|resource| {
                let view = resource.with_state(|view, _| view.as_first(revision));
                TypeSnapshot { spec: resource.spec().clone(), view }
            });
            let mut types: Vec<_> = types.collect();
            types.sort_unstable_by(|one, other| one.prefix().cmp(other.prefix()));
            Ok(Snapshot { revision, types, store: core.store.clone() })
        });
        taken.unwrap_or(Err(Error::Closed))
    }

    /// A store in memory that begins with a snapshot; its first revision is `at`, or that of the snapshot if
    /// that is later.
    pub fn store_over(snapshot: &Arc<Snapshot>, at: Revision, options: MemoryOptions) -> Arc<Memory> {
        Arc::new(Memory::over(snapshot.clone(), at.max(snapshot.revision), options))
    }

    /// A cache over a store that was [made](Self::store_over) of a snapshot, and that nothing was written to
    /// since. Needs a runtime, on which its task runs.
    pub fn over(snapshot: &Snapshot, store: Arc<dyn Store>, options: CacheOptions) -> Self {
        let revision = store.known_revision();
        let lineage = store.lineage();
        let core = Arc::new(Core::new(store, lineage, revision, options));
        let resources = snapshot.types.iter().map(|TypeSnapshot { spec, view }| {
            let log = Log::new(revision);
            let resource = Resource::shared(spec.clone(), core.clone(), view.as_first(revision), log);
            (spec.prefix().to_owned(), Arc::new(resource))
        });
        let resources = resources.collect();
        Self::follow(core, resources)
    }
}
