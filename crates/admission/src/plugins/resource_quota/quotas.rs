//! The quotas of all namespaces, and the charges of writes that are under way.
//!
//! 1. Charges to the quotas of a namespace, and corrections of them, are made one after another.
//! 2. A write is under way from before its first charge is written until it is settled: committed and
//!    visible, or given up.
//!
//! What is used of a quota is therefore never less than what the objects use that are there, together with
//! those that may still come.

use super::quota::Quota;
use crate::plugins::Gates;
use crate::{Lister, Settled};
use cache::Cache;
use object::{Text, Value};
use schema::view::View as _;
use schema::views::core::v1::ResourceQuota;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// How many objects a namespace has of a kind that another API server has (`widgets.example.com`); `None` if
/// that is not known.
pub type CountElsewhere = dyn Fn(&str, &str) -> Option<usize> + Send + Sync;

/// The quotas, shared by the plugin that charges them and by what corrects them. Clones share it.
#[derive(Clone)]
pub struct Quotas(Arc<Shared>);

pub(super) struct Shared {
    pub(super) known: Lister<Quota>,
    pub(super) gates: Gates,
    /// Counts the objects of other API servers.
    elsewhere: Mutex<Option<Arc<CountElsewhere>>>,
    /// The namespaces in use. Each is there as long as a [`Namespace`] of it.
    namespaces: Mutex<HashMap<Text, Arc<State>>>,
    /// Namespaces with charges for writes that were given up, once [`Quotas::abandoned`] has asked for them.
    abandoned: Mutex<Option<HashSet<Text>>>,
    has_abandoned: Notify,
}

/// A namespace that is charged.
#[derive(Default)]
struct State {
    turn: tokio::sync::Mutex<()>,
    under_way: Mutex<UnderWay>,
}

/// The writes that are under way, by numbers.
#[derive(Default)]
struct UnderWay {
    last: u64,
    writes: BTreeMap<u64, Arc<Pending>>,
}

/// A write that is under way.
pub(super) struct Pending {
    /// Where the object is in the cache.
    pub(super) prefix: String,
    pub(super) name: String,
    /// The object, as it will be.
    pub(super) object: Value,
}

impl Quotas {
    /// The quotas of a cache.
    pub fn new(cache: &Cache, gates: Gates) -> Result<Self, String> {
        let resource = cache.resource("resourcequotas").ok_or("the resource resourcequotas is missing")?;
        let known = Lister::new(resource, ResourceQuota::schema(), |object| Some(Quota::read(object)));
        Ok(Self(Arc::new(Shared {
            known,
            gates,
            elsewhere: Mutex::default(),
            namespaces: Mutex::default(),
            abandoned: Mutex::default(),
            has_abandoned: Notify::new(),
        })))
    }

    /// Counts the objects of other API servers in this way from now on.
    pub fn count_elsewhere(&self, count: Arc<CountElsewhere>) {
        *lock(&self.0.elsewhere) = Some(count);
    }

    /// How many objects of another API server a namespace has.
    pub(super) fn counted_elsewhere(&self, prefix: &str, namespace: &str) -> Option<usize> {
        let count = lock(&self.0.elsewhere).clone();
        count.and_then(|count| count(prefix, namespace))
    }

    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.0
    }

    /// The feature gates that decide what counts.
    pub(super) fn gates(&self) -> Gates {
        self.0.gates
    }

    /// Waits for namespaces whose quotas were charged for writes that were then given up: what is used of
    /// them is too much. Each is told once, from the first call on.
    pub async fn abandoned(&self) -> HashSet<Text> {
        loop {
            let told = self.0.has_abandoned.notified();
            {
                let mut abandoned = lock(&self.0.abandoned);
                let namespaces = abandoned.get_or_insert_default();
                if !namespaces.is_empty() {
                    return mem::take(namespaces);
                }
            }
            told.await;
        }
    }

    /// A namespace, for its charges.
    pub(super) fn namespace(&self, name: &str) -> Namespace {
        let state = lock(&self.0.namespaces).entry(name.into()).or_default().clone();
        Namespace { shared: self.0.clone(), name: name.into(), state }
    }

    #[cfg(test)]
    pub(super) fn namespaces_in_use(&self) -> usize {
        lock(&self.0.namespaces).len()
    }
}

impl Shared {
    fn abandon(&self, namespace: &Text) {
        if let Some(abandoned) = &mut *lock(&self.abandoned) {
            abandoned.insert(namespace.clone());
            self.has_abandoned.notify_one();
        }
    }
}

/// A namespace whose quotas are charged or corrected, and which has to be kept for that.
pub(super) struct Namespace {
    shared: Arc<Shared>,
    name: Text,
    state: Arc<State>,
}

impl Namespace {
    /// Waits for the turn to charge or correct the quotas.
    pub(super) async fn turn(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.state.turn.lock().await
    }

    /// Notes a write that will be charged.
    pub(super) fn begin(self, pending: Pending) -> Charged {
        let number = {
            let mut under_way = lock(&self.state.under_way);
            under_way.last += 1;
            let number = under_way.last;
            under_way.writes.insert(number, Arc::new(pending));
            number
        };
        Charged { namespace: self, number, stays: false }
    }

    /// The writes that are under way.
    pub(super) fn under_way(&self) -> Vec<Arc<Pending>> {
        lock(&self.state.under_way).writes.values().cloned().collect()
    }
}

impl Clone for Namespace {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone(), name: self.name.clone(), state: self.state.clone() }
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let mut namespaces = lock(&self.shared.namespaces);
        drop(mem::take(&mut self.state));
        // That of the map is the last: another is made only while the map is locked, or of another.
        if namespaces.get(&self.name).is_some_and(|state| Arc::strong_count(state) == 1) {
            namespaces.remove(&self.name);
        }
    }
}

/// A write that is under way, and that quotas may have been charged for.
pub(super) struct Charged {
    namespace: Namespace,
    number: u64,
    /// Whether the charge stays, because the write may have been committed.
    stays: bool,
}

impl Charged {
    /// Ends it.
    pub(super) fn settle(mut self, settled: Settled) {
        self.stays = settled != Settled::Abandoned;
    }
}

impl Drop for Charged {
    fn drop(&mut self) {
        lock(&self.namespace.state.under_way).writes.remove(&self.number);
        if !self.stays {
            self.namespace.shared.abandon(&self.namespace.name);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
