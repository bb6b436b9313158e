//! The loop: nodes and pods are looked at when they have changed, and brought to their next state.

use crate::addresses::{self, Pool, Range};
use crate::options::Options;
use crate::pod_status::{self, Next, Place};
use crate::schedule::Schedule;
use crate::{create, heartbeat, is_fake, may_be_fake, node_status};
use auth::SystemIdentity;
use cache::{Cache, Cursor, Entry, Update};
use clock::{Instant, sleep_until};
use controllers::{StartFrom, StockLease, follow};
use object::{Map, Text, Value};
use registry::{Address, Client, DeleteOptions, Registry};
use schema::status::Reason;
use schema::view::View as _;
use schema::views::core::v1;
use schema::{Status, stored};
use std::collections::{BTreeSet, HashMap};
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tasks::{Ended, Name, Task};
use tokio::sync::Notify;
use tokio::task::{Id, JoinSet};

/// How many nodes and pods are written at the same time.
const AT_ONCE: usize = 128;
/// The manager of the fields that a kubelet writes.
const FIELD_MANAGER: &str = "kubelet";
/// The pause before another attempt to renew the Lease of a node.
const RETRY: Duration = Duration::from_secs(5);
/// Where nodes that the server did not make are numbered from.
const OTHERS: usize = 500_000;

/// Something to look at.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Key {
    /// A node, by name.
    Node(Text),
    /// A pod, by namespace and name.
    Pod(Text, Text),
}

/// A node that is played here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Node {
    address: Ipv4Addr,
    range: Option<Range>,
}

/// What is known of nodes and pods.
pub(crate) struct State {
    schedule: Schedule<Key>,
    pub(crate) nodes: HashMap<Text, Node>,
    pool: Pool,
    /// The pods of nodes that are not played here (yet), by node.
    elsewhere: HashMap<Text, BTreeSet<(Text, Text)>>,
    pub(crate) stock: StockLease,
    others: usize,
}

/// The state, and who waits for it.
pub(crate) struct Shared {
    state: Mutex<State>,
    due: Notify,
    pub(crate) stock_changed: Notify,
}

impl Shared {
    fn new(cache: &Cache) -> Arc<Self> {
        let mut pool = Pool::default();
        // Addresses that pods have are known before the first one is given.
        if let Some(pods) = cache.resource("pods") {
            Cursor::new(pods).advance(|update| {
                if let Update::Change { after: Some(pod), .. } = update {
                    note_address(&mut pool, pod);
                }
            });
        }
        let state = State {
            schedule: Schedule::default(),
            nodes: HashMap::new(),
            pool,
            elsewhere: HashMap::new(),
            stock: heartbeat::stock_lease(),
            others: 0,
        };
        Arc::new(Self { state: Mutex::new(state), due: Notify::new(), stock_changed: Notify::new() })
    }

    /// The state.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn note_address(pool: &mut Pool, pod: &Entry) {
    if let Some(address) = pod.field("status.podIP").and_then(|address| address.parse().ok())
        && pod.field("spec.hostNetwork").is_none_or(|host| host != "true")
    {
        pool.note(pod.uid(), address);
    }
}

/// Plays the nodes that exist on paper, and makes those that the options ask for. It runs until the result is
/// dropped.
pub fn start(registry: &Arc<Registry>, options: &Options) -> Task {
    let (registry, options) = (registry.clone(), options.clone());
    tasks::spawn(Name::FakeNodes, move || {
        let (registry, options) = (registry.clone(), options.clone());
        async move {
            run(&registry, options).await;
            Ended::Done
        }
    })
}

async fn run(registry: &Arc<Registry>, options: Options) {
    let client = Client::new(registry.clone(), SystemIdentity::ApiServer, FIELD_MANAGER);
    let shared = Shared::new(registry.cache());
    let Some(_followers) = follow_all(&shared, registry.cache()) else { return };
    let heartbeats = heartbeat::run(shared.clone(), client.clone());
    let worker = Arc::new(Worker { client: client.clone(), shared, options: options.clone() });
    let creating = async {
        create::create(&client, &options).await;
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = work(worker) => {}
        () = creating => {}
        () = heartbeats => {}
    }
}

fn follow_all(shared: &Arc<Shared>, cache: &Cache) -> Option<[Task; 3]> {
    let of = |prefix: &str, report: fn(&Shared, Update<'_>)| {
        let (resource, shared) = (cache.resource(prefix)?, shared.clone());
        Some(follow(resource, StartFrom::State, move |update| {
            report(&shared, update);
            shared.due.notify_one();
        }))
    };
    Some([
        of("nodes", node_changed)?,
        of("pods", pod_changed)?,
        of("leases.coordination.k8s.io", lease_changed)?,
    ])
}

fn lease_changed(shared: &Shared, update: Update<'_>) {
    if shared.lock().stock.update(&update) {
        shared.stock_changed.notify_one();
    }
}

fn node_changed(shared: &Shared, update: Update<'_>) {
    let (before, after) = match update {
        Update::Reset => return,
        Update::Change { before, after } => (before, after),
    };
    let name = before.or(after).map(|entry| Text::from(entry.name())).unwrap_or_default();
    let map = after
        .filter(|entry| may_be_fake(entry))
        .and_then(|entry| stored::logged(entry, stored::decode(v1::Node::schema(), entry.bytes())))
        .filter(is_fake);
    let mut state = shared.lock();
    match map {
        Some(node) => state.play(name, &node),
        None => drop(state.nodes.remove(&name)),
    }
}

impl State {
    fn play(&mut self, name: Text, node: &Map) {
        let view = v1::Node::of(node);
        let addresses = view.status().addresses();
        let own = addresses.iter().find(|address| address.r#type() == "InternalIP");
        let known = self.nodes.get(&name).map(|node| node.address);
        let address = own.and_then(|own| own.address().parse().ok()).or(known).unwrap_or_else(|| {
            let number = create::number(&name).unwrap_or_else(|| {
                self.others += 1;
                OTHERS + self.others
            });
            addresses::of_node(number)
        });
        let range = Range::parse(view.spec().pod_cidr());
        let is_new = self.nodes.insert(name.clone(), Node { address, range }).is_none();
        for (namespace, pod) in self.elsewhere.remove(&name).unwrap_or_default() {
            self.schedule.add(Key::Pod(namespace, pod));
        }
        if is_new || node_status::needs_status(node) || node_status::is_tainted(node) {
            self.schedule.add(Key::Node(name));
        }
    }
}

fn pod_changed(shared: &Shared, update: Update<'_>) {
    let (before, after) = match update {
        Update::Reset => {
            shared.lock().elsewhere.clear();
            return;
        }
        Update::Change { before, after } => (before, after),
    };
    let Some(entry) = after.or(before) else { return };
    let Some(node) = entry.field("spec.nodeName").filter(|node| !node.is_empty()) else { return };
    let key = (Text::from(entry.namespace()), Text::from(entry.name()));
    let mut state = shared.lock();
    if let Some(gone) = before.filter(|before| after.is_none_or(|after| after.uid() != before.uid())) {
        state.pool.release(gone.uid());
    }
    let is_played = state.nodes.contains_key(node);
    match after {
        Some(_) if is_played => state.schedule.add(Key::Pod(key.0, key.1)),
        Some(_) => drop(state.elsewhere.entry(node.into()).or_default().insert(key)),
        None => {
            if let Some(pods) = state.elsewhere.get_mut(node) {
                pods.remove(&key);
                if pods.is_empty() {
                    state.elsewhere.remove(node);
                }
            }
        }
    }
}

struct Worker {
    client: Client,
    shared: Arc<Shared>,
    options: Options,
}

async fn work(worker: Arc<Worker>) {
    let mut running = JoinSet::new();
    let mut keys: HashMap<Id, Key> = HashMap::new();
    loop {
        let (taken, due) = {
            let mut state = worker.shared.lock();
            let taken = if running.len() < AT_ONCE { state.schedule.take(Instant::now()) } else { None };
            (taken, state.schedule.next_due())
        };
        if let Some(key) = taken {
            let (worker, started) = (worker.clone(), key.clone());
            let handle = running.spawn(async move { worker.look_at(&started).await });
            keys.insert(handle.id(), key);
            continue;
        }
        let is_full = running.len() >= AT_ONCE;
        let wait = async {
            match due {
                Some(at) => sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            Some(ended) = running.join_next_with_id() => {
                let (id, outcome) = match ended {
                    Ok((id, outcome)) => (id, outcome),
                    Err(error) => (error.id(), Err(Status::internal_error(&error.to_string()))),
                };
                let Some(key) = keys.remove(&id) else { continue };
                if let Err(error) = &outcome && error.reason != Reason::Conflict {
                    log::warn!(key:?, error:% = error.message; "a node or pod that exists on paper could not be written");
                }
                worker.shared.lock().schedule.finish(key, outcome);
            }
            () = worker.shared.due.notified(), if !is_full => {}
            () = wait, if !is_full => {}
        }
    }
}

impl Worker {
    /// Brings something to its next state; returns when it is to be looked at again by itself.
    async fn look_at(&self, key: &Key) -> Result<Option<Duration>, Status> {
        let outcome = match key {
            Key::Node(name) => self.look_at_node(name).await,
            Key::Pod(namespace, name) => self.look_at_pod(namespace, name).await,
        };
        match outcome {
            Err(error) if error.reason == Reason::NotFound => Ok(None),
            outcome => outcome,
        }
    }

    async fn look_at_node(&self, name: &str) -> Result<Option<Duration>, Status> {
        let Some(Node { address, .. }) = self.shared.lock().nodes.get(name).copied() else { return Ok(None) };
        let place = Address::core("nodes", "").named(name);
        let set = |node: &mut Map| {
            if node_status::needs_status(node) {
                node_status::set(node, &self.options.capacity, address);
            }
        };
        self.client.modify(place.subresource("status"), set).await?;
        self.client.modify(place, node_status::untaint).await?;
        let is_renewed = heartbeat::renew(&self.client, name).await;
        // Nodes that were made together do not stay together.
        Ok(Some(if is_renewed { heartbeat::RENEWAL.mul_f64(0.8 + 0.2 * fastrand::f64()) } else { RETRY }))
    }

    async fn look_at_pod(&self, namespace: &str, name: &str) -> Result<Option<Duration>, Status> {
        let address = Address::core("pods", namespace).named(name);
        let object = self.client.get(address).await?;
        let Value::Map(mut pod) = object else { return Ok(None) };
        let view = v1::Pod::of(&pod);
        let uid = view.metadata().uid().to_owned();
        let place = {
            let mut state = self.shared.lock();
            let Some(node) = state.nodes.get(view.spec().node_name()).copied() else { return Ok(None) };
            let own = match view.spec().host_network() {
                true => Some(node.address),
                false => state.pool.take(&uid, node.range),
            };
            let Some(own) = own else {
                return Err(Status::internal_error("there are no free addresses for pods"));
            };
            Place { host: node.address, pod: own }
        };
        match pod_status::advance(&mut pod, place) {
            Next::Nothing => Ok(None),
            Next::After(left) => Ok(Some(left)),
            Next::Write => {
                self.client.update(address.subresource("status"), pod.into()).await?;
                // The change leads to the next look.
                Ok(None)
            }
            Next::Remove => {
                let options = DeleteOptions {
                    grace_period_seconds: Some(0),
                    uid: Some(uid),
                    ..DeleteOptions::default()
                };
                self.client.delete(address, &options).await.map(|()| None)
            }
        }
    }
}

#[cfg(test)]
mod tests;
