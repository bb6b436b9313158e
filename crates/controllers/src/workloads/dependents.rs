//! The objects of a type by the uids of their owners, and those without a controller by their namespaces.
//!
//! All controllers share the index of a type ([`Indexes`]). It is a cursor in the log of the type: who asks
//! it has every write that was acknowledged before. A controller that has written something and then looks
//! at its dependents therefore finds what it has written, so that nothing has to be expected and remembered
//! from one reconciliation to the next, as it is where informers lag behind the writes.

use crate::uid::Uid;
use cache::{Cache, Cursor, Entry, Resource, Update};
use kinds::object_meta;
use object::time::Time;
use object::{Text, Value};
use registry::status;
use schema::view::View as _;
use schema::views::core::v1::{ConfigMap, Pod};
use schema::{Builder, Part, Ref, Status, Type, stored};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak};
use store::Revision;

const CONDITION: &[Part] = &[Part("type", &[]), Part("status", &[]), Part("lastTransitionTime", &[])];
const OWNERS: Part = Part("metadata", &[Part("ownerReferences", &[])]);

/// The fields of a pod that are decoded for [`Facts`].
static POD: LazyLock<Ref<Type>> = LazyLock::new(|| {
    Builder::part_of(Pod::schema(), &[OWNERS, Part("status", &[Part("conditions", CONDITION)])]).build()
});

/// The fields of any other object that are decoded for [`Facts`]: they are the same in every kind.
static ANY: LazyLock<Ref<Type>> = LazyLock::new(|| Builder::part_of(ConfigMap::schema(), &[OWNERS]).build());

/// What controllers ask of every dependent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    /// The uid of the controller.
    pub(crate) controller: Option<Uid>,
    /// Since when the pod is ready; `None` if it is not. [`Time::ZERO`] if it does not say since when.
    pub(crate) ready_since: Option<Time>,
}

impl Facts {
    fn read(entry: &Entry) -> Result<Self, Status> {
        let ty = if entry.spec().prefix() == "pods" { &POD } else { &ANY };
        let object = crate::objects::decode_part(ty, entry)?;
        let pod = Pod::of(&object);
        let mut owners = pod.metadata().owner_references().iter();
        let controller = owners.find(|owner| owner.controller() == Some(true));
        let ready = pod.status().conditions().iter().find(|condition| condition.r#type() == "Ready");
        let ready_since = ready.filter(|ready| ready.status() == "True").map(|ready| {
            let since = ready.last_transition_time();
            since.and_then(|since| since.parse().ok()).unwrap_or(Time::ZERO)
        });
        Ok(Self { controller: controller.map(|owner| owner.uid().into()), ready_since })
    }
}

/// An object that has owners, or could have.
#[derive(Clone, Debug)]
pub(crate) struct Dependent {
    /// The object.
    pub(crate) entry: Arc<Entry>,
    /// What is known of it.
    pub(crate) facts: Facts,
}

impl Dependent {
    /// The dependent of an entry.
    pub(crate) fn read(entry: Arc<Entry>) -> Result<Self, Status> {
        let facts = Facts::read(&entry)?;
        Ok(Self { entry, facts })
    }

    /// The name.
    pub(crate) fn name(&self) -> &str {
        self.entry.name()
    }
}

/// The index of one type.
pub(crate) struct Dependents {
    resource: Arc<Resource>,
    state: Mutex<State>,
}

struct State {
    cursor: Cursor,
    index: Index,
}

/// Facts at a revision of the object.
type Known = Option<Box<(Revision, Facts)>>;

/// Objects by their keys in the type.
#[derive(Default)]
struct Index {
    owned: HashMap<Uid, BTreeMap<Text, Known>>,
    /// By namespace.
    uncontrolled: HashMap<Text, BTreeSet<Text>>,
}

impl Index {
    fn apply(&mut self, update: Update<'_>) {
        let Update::Change { before, after } = update else { return *self = Self::default() };
        let is_same = |before: &Entry, after: &Entry| {
            before.owners().eq(after.owners()) && is_uncontrolled(before) == is_uncontrolled(after)
        };
        if before.zip(after).is_some_and(|(before, after)| is_same(before, after)) {
            return;
        }
        if let Some(before) = before {
            self.remove(before);
        }
        if let Some(after) = after {
            self.add(after);
        }
    }

    fn add(&mut self, entry: &Entry) {
        for uid in entry.owners() {
            self.owned.entry(uid.into()).or_default().insert(entry.key().into(), None);
        }
        if is_uncontrolled(entry) {
            self.uncontrolled.entry(entry.namespace().into()).or_default().insert(entry.key().into());
        }
    }

    fn remove(&mut self, entry: &Entry) {
        for uid in entry.owners().map(Uid::from) {
            if let Some(owned) = self.owned.get_mut(&uid) {
                owned.remove(entry.key());
                if owned.is_empty() {
                    self.owned.remove(&uid);
                }
            }
        }
        if let Some(uncontrolled) = self.uncontrolled.get_mut(entry.namespace()) {
            uncontrolled.remove(entry.key());
            if uncontrolled.is_empty() {
                self.uncontrolled.remove(entry.namespace());
            }
        }
    }
}

/// Whether an object has no controller. The text cannot be part of another text in JSON, where quotes are
/// escaped; an object that has it elsewhere, in JSON of its own, has to have owners to be mistaken.
pub(super) fn is_uncontrolled(entry: &Entry) -> bool {
    entry.owners().len() == 0 || !crate::objects::mentions(entry, r#""controller":true"#)
}

impl Dependents {
    fn new(resource: Arc<Resource>) -> Self {
        let state = State { cursor: Cursor::new(resource.clone()), index: Index::default() };
        Self { resource, state: Mutex::new(state) }
    }

    /// The type.
    pub(crate) fn resource(&self) -> &Arc<Resource> {
        &self.resource
    }

    /// The objects of a namespace whose controller has a uid, by their names.
    pub(crate) fn controlled(&self, namespace: &str, uid: &str) -> Result<Vec<Dependent>, Status> {
        let uid = Uid::from(uid);
        let owned: Vec<(Text, Known)> = {
            let state = self.advanced();
            let owned = state.index.owned.get(&uid).into_iter().flatten();
            owned.map(|(key, known)| (key.clone(), known.clone())).collect()
        };
        let mut found = Vec::with_capacity(owned.len());
        let mut learned = Vec::new();
        for (key, known) in owned {
            let Some(entry) = self.lookup(namespace, &key)? else { continue };
            let dependent = match known {
                Some(known) if known.0 == entry.mod_revision() => Dependent { entry, facts: known.1 },
                _ => {
                    let dependent = Dependent::read(entry)?;
                    learned.push((key, dependent.clone()));
                    dependent
                }
            };
            if dependent.facts.controller.as_ref() == Some(&uid) {
                found.push(dependent);
            }
        }
        if !learned.is_empty() {
            let mut state = self.lock();
            if let Some(owned) = state.index.owned.get_mut(&uid) {
                for (key, Dependent { entry, facts }) in learned {
                    if let Some(known) = owned.get_mut(&key) {
                        *known = Some(Box::new((entry.mod_revision(), facts)));
                    }
                }
            }
        }
        Ok(found)
    }

    /// The objects of a namespace that have no controller and pass a test, by their names.
    pub(crate) fn uncontrolled(
        &self,
        namespace: &str,
        passes: impl Fn(&Entry) -> bool,
    ) -> Result<Vec<Dependent>, Status> {
        let keys: Vec<Text> = {
            let state = self.advanced();
            state.index.uncontrolled.get(namespace).into_iter().flatten().cloned().collect()
        };
        let mut found = Vec::new();
        for key in keys {
            let Some(entry) = self.lookup(namespace, &key)?.filter(|entry| passes(entry)) else { continue };
            let dependent = Dependent::read(entry)?;
            if dependent.facts.controller.is_none() {
                found.push(dependent);
            }
        }
        Ok(found)
    }

    /// An object as it is now; `None` if it is gone, or is another one of the same name.
    pub(crate) fn newest(&self, entry: &Entry) -> Result<Option<Dependent>, Status> {
        let newest = self.resource.lookup(entry.namespace(), entry.name()).map_err(status)?;
        newest.filter(|newest| newest.uid() == entry.uid()).map(Dependent::read).transpose()
    }

    fn lookup(&self, namespace: &str, key: &str) -> Result<Option<Arc<Entry>>, Status> {
        match key.split_once('/') {
            Some((own, name)) if own == namespace => self.resource.lookup(own, name).map_err(status),
            _ => Ok(None),
        }
    }

    fn advanced(&self) -> MutexGuard<'_, State> {
        let mut state = self.lock();
        let State { cursor, index } = &mut *state;
        if !cursor.is_current() {
            cursor.advance(|update| index.apply(update));
        }
        state
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The indexes that controllers share: each for as long as a controller has it.
#[derive(Clone, Default)]
pub struct Indexes(Arc<Mutex<HashMap<String, Weak<Dependents>>>>);

impl Indexes {
    /// The index of a type by its prefix in the store.
    pub(crate) fn of(&self, cache: &Cache, prefix: &str) -> Option<Arc<Dependents>> {
        let resource = cache.resource(prefix)?;
        let mut indexes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = indexes.get(prefix).and_then(Weak::upgrade);
        if let Some(known) = known.filter(|known| Arc::ptr_eq(&known.resource, &resource)) {
            return Some(known);
        }
        let index = Arc::new(Dependents::new(resource));
        indexes.insert(prefix.to_owned(), Arc::downgrade(&index));
        Some(index)
    }
}

/// The controller of an object, as the object names it.
pub(crate) struct Controller {
    /// The kind.
    pub(crate) kind: String,
    /// The name.
    pub(crate) name: String,
    /// The uid.
    pub(crate) uid: String,
}

/// The controller of an object of any kind; `None` if it has none.
pub(crate) fn controller_of(entry: &Entry) -> Option<Controller> {
    let object = stored::logged(entry, stored::decode_part(&ANY, entry.bytes()))?;
    let mut owners = ConfigMap::of(&object).metadata().owner_references().iter();
    let owner = owners.find(|owner| owner.controller() == Some(true))?;
    let [kind, name, uid] = [owner.kind(), owner.name(), owner.uid()].map(str::to_owned);
    Some(Controller { kind, name, uid })
}

/// The owner references of a decoded object.
pub(crate) fn owner_references(object: &object::Map) -> &[Value] {
    let metadata = object_meta::metadata(object);
    metadata.and_then(|metadata| metadata.get("ownerReferences")).and_then(Value::as_list).unwrap_or_default()
}
