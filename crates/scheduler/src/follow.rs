//! Follows the changes that the scheduler has to know of, and says which of them may help waiting pods.

use crate::cluster::Cluster;
use crate::filter::{Filter, Filters, could_fit};
use crate::node::Facts;
use crate::pod::Pod;
use crate::queue::Queue;
use cache::{Cache, Entry, Update};
use clock::Instant;
use controllers::{StartFrom, StockLease, follow};
use object::Text;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tasks::Task;
use tokio::sync::Notify;

/// The filters that may say something else after a change of a node.
const BY_NODE: Filters = Filters::of(&[
    Filter::NodeUnschedulable,
    Filter::NodeName,
    Filter::TaintToleration,
    Filter::NodeAffinity,
    Filter::NodePorts,
    Filter::NodeResourcesFit,
    Filter::VolumeRestrictions,
    Filter::VolumeBinding,
    Filter::VolumeZone,
    Filter::PodTopologySpread,
    Filter::InterPodAffinity,
]);
/// After a node is gone: domains have gone with it.
const BY_LOST_NODE: Filters = Filters::of(&[Filter::PodTopologySpread]);
/// After a pod has left a node.
const BY_LOST_POD: Filters = Filters::of(&[
    Filter::NodePorts,
    Filter::NodeResourcesFit,
    Filter::VolumeRestrictions,
    Filter::PodTopologySpread,
    Filter::InterPodAffinity,
]);
/// After a pod has come to a node, or its labels have changed.
const BY_POD: Filters = Filters::of(&[Filter::PodTopologySpread, Filter::InterPodAffinity]);
/// After the requests of a pod on a node have become smaller.
const BY_SMALLER_POD: Filters = Filters::of(&[Filter::NodeResourcesFit]);
/// After a change of claims, volumes or classes.
const BY_STORAGE: Filters =
    Filters::of(&[Filter::VolumeRestrictions, Filter::VolumeBinding, Filter::VolumeZone]);

/// The state of the scheduler.
pub(crate) struct State {
    pub(crate) cluster: Cluster,
    pub(crate) queue: Queue,
    pub(crate) stock: StockLease,
    /// Where the search for nodes goes on, so that all are looked at in turn.
    pub(crate) next_node: usize,
}

/// The state, and who waits for it to change.
pub(crate) struct Shared {
    state: Mutex<State>,
    /// Something may be due.
    pub(crate) changed: Notify,
    /// A claim has changed.
    pub(crate) claims: Notify,
}

impl Shared {
    /// The state of a cluster without objects; `None` if a type is missing.
    pub(crate) fn new(cache: &Cache) -> Option<Arc<Self>> {
        let state = State {
            cluster: Cluster::new(cache)?,
            queue: Queue::default(),
            stock: StockLease::new("kube-scheduler"),
            next_node: 0,
        };
        Some(Arc::new(Self { state: Mutex::new(state), changed: Notify::new(), claims: Notify::new() }))
    }

    /// The state.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Notes a change of a type.
type Report = Box<dyn FnMut(&Shared, Update<'_>) + Send>;

/// Follows all types; the tasks end with the owner of the result. `None` if a type is missing.
pub(crate) fn all(shared: &Arc<Shared>, cache: &Cache) -> Option<Vec<Task>> {
    let of = |prefix: &str, mut report: Report| {
        let (resource, shared) = (cache.resource(prefix)?, shared.clone());
        Some(follow(resource, StartFrom::State, move |update| {
            report(&shared, update);
            shared.changed.notify_one();
        }))
    };
    Some(vec![
        of("leases.coordination.k8s.io", Box::new(lease))?,
        of("nodes", Box::new(node))?,
        of("pods", Box::new(pod))?,
        of(
            "persistentvolumeclaims",
            Box::new(|shared, update| {
                storage(shared, update);
                shared.claims.notify_waiters();
            }),
        )?,
        of("persistentvolumes", Box::new(storage))?,
        of("storageclasses.storage.k8s.io", Box::new(storage))?,
    ])
}

fn lease(shared: &Shared, update: Update<'_>) {
    shared.lock().stock.update(&update);
}

fn storage(shared: &Shared, update: Update<'_>) {
    if let Update::Change { after: Some(_), .. } = update {
        shared.lock().queue.change(BY_STORAGE, Instant::now(), |_| true);
    }
}

fn node(shared: &Shared, update: Update<'_>) {
    let (before, after) = match update {
        Update::Reset => return shared.lock().cluster.clear_nodes(),
        Update::Change { before, after } => (before, after),
    };
    match after {
        Some(entry) => {
            let Some(facts) = Facts::read(entry) else { return };
            let mut state = shared.lock();
            let State { cluster, queue, .. } = &mut *state;
            // A heartbeat changes nothing that a filter looks at.
            if cluster.node(&facts.name).is_some_and(|node| node.facts.as_deref() == Some(&facts)) {
                return;
            }
            cluster.set_node(entry.name(), Some(facts.clone()));
            let could_help = |key: &str| cluster.pod(key).is_some_and(|pod| could_fit(pod, &facts));
            queue.change(BY_NODE, Instant::now(), could_help);
        }
        None => {
            let Some(entry) = before else { return };
            let mut state = shared.lock();
            state.cluster.set_node(entry.name(), None);
            state.queue.change(BY_LOST_NODE, Instant::now(), |_| true);
        }
    }
}

fn pod(shared: &Shared, update: Update<'_>) {
    let (before, after) = match update {
        Update::Reset => {
            let mut state = shared.lock();
            state.cluster.clear_pods();
            return state.queue.clear();
        }
        Update::Change { before, after } => (before, after),
    };
    let now = Instant::now();
    let Some(entry) = after else {
        let Some(entry) = before else { return };
        let mut state = shared.lock();
        state.queue.remove(entry.key());
        let known = state.cluster.remove_pod(entry.key());
        if known.is_some_and(|pod| pod.is_on_a_node() || !pod.nominated.is_empty()) {
            state.queue.change(BY_LOST_POD, now, |_| true);
        }
        return;
    };
    let Some(pod) = Pod::read(entry) else { return };
    let mut state = shared.lock();
    let State { cluster, queue, .. } = &mut *state;
    let key = Text::from(pod.key());
    let known = cluster.set_pod(pod);
    let Some(pod) = cluster.pod(&key).cloned() else {
        // The pod is over: what it had is free.
        queue.remove(&key);
        if known.is_some_and(|known| known.is_on_a_node()) {
            queue.change(BY_LOST_POD, now, |_| true);
        }
        return;
    };
    if pod.is_on_a_node() {
        let is_bound = !entry.field("spec.nodeName").unwrap_or_default().is_empty();
        if is_bound {
            queue.remove(&key);
        }
        match known.filter(|known| known.is_on_a_node()) {
            None => queue.change(BY_POD, now, |_| true),
            Some(known) => {
                if !known.entry.labels().eq(pod.entry.labels())
                    || known.entry.is_deleting() != pod.entry.is_deleting()
                {
                    queue.change(BY_POD, now, |_| true);
                }
                if known.requests != pod.requests {
                    queue.change(BY_SMALLER_POD, now, |_| true);
                }
            }
        }
        return;
    }
    if !pod.is_waiting() || pod.is_gated || entry.is_deleting() {
        return queue.remove(&key);
    }
    let is_new = known.is_none_or(|known| known.uid() != pod.uid());
    if is_new {
        queue.remove(&key);
    }
    match queue.contains(&key) {
        false => queue.add(&key, pod.priority),
        true if is_changed(before, &pod) => queue.resume(&key, now),
        true => {}
    }
}

/// Whether a waiting pod was changed so that a filter may say something else.
fn is_changed(before: Option<&Arc<Entry>>, pod: &Pod) -> bool {
    let Some(before) = before.and_then(Pod::read) else { return true };
    before.requests != pod.requests
        || before.tolerations != pod.tolerations
        || before.is_gated != pod.is_gated
        || !before.entry.labels().eq(pod.entry.labels())
}
