//! The loop: nodes and pods are looked at when they have changed, and brought to their next state.

use crate::addresses::{self, Pool, Range};
use crate::options::Options;
use crate::pod_status::{self, Next, Place};
use crate::schedule::Schedule;
use crate::stage_objects::{self, OtherKey};
use crate::staged::{Applying, Staged, Turn};
use crate::{create, heartbeat, is_fake, may_be_fake, metrics_api, node_status};
use auth::SystemIdentity;
use cache::{Cache, Cursor, Entry, Resource, Update};
use controllers::{Recorder, StartFrom, StockLease, follow};
use object::{Map, Text, Value};
use registry::{Address, Catalog, Client, DeleteOptions, Registry, Served};
use schema::status::Reason;
use schema::view::View as _;
use schema::views::core::v1;
use schema::{Status, stored};
use stages::{Stage, Target};
use std::collections::{BTreeSet, HashMap};
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tasks::{Ended, Name, Task};
use tokio::sync::Notify;
use tokio::task::{Id, JoinSet};
use tokio::time::{Instant, sleep_until};

/// The service account in `kube-system` that stages act as, but for those of pods and nodes.
const STAGES_ACCOUNT: &str = "kwok-controller";
/// The component of events.
const COMPONENT: &str = "kubelet";
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
    /// Another object that lives by stages.
    Other(OtherKey),
}

/// A node that is played here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Node {
    pub(crate) address: Ipv4Addr,
    pub(crate) range: Option<Range>,
}

/// What is known of nodes and pods.
pub(crate) struct State {
    schedule: Schedule<Key>,
    pub(crate) nodes: HashMap<Text, Node>,
    pub(crate) pool: Pool,
    /// The pods of nodes that are not played here (yet), by node.
    elsewhere: HashMap<Text, BTreeSet<(Text, Text)>>,
    pub(crate) stock: StockLease,
    others: usize,
    /// The stages by which objects live.
    staged: Staged<Key>,
    /// When the Leases of nodes that live by stages were renewed.
    renewed: HashMap<Text, Instant>,
    /// The kinds, neither pods nor nodes, whose stages have changed.
    restaged: BTreeSet<Target>,
}

/// The state, and who waits for it.
pub(crate) struct Shared {
    state: Mutex<State>,
    due: Notify,
    pub(crate) stock_changed: Notify,
    /// Whether there are nodes may have changed, which `metrics_api` asks.
    pub(crate) metrics_due: Notify,
    /// The kinds with stages have changed.
    restaged: Notify,
    cache: Arc<Cache>,
}

impl Shared {
    fn new(cache: &Arc<Cache>) -> Arc<Self> {
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
            staged: Staged::default(),
            renewed: HashMap::new(),
            restaged: BTreeSet::new(),
        };
        Arc::new(Self {
            state: Mutex::new(state),
            due: Notify::new(),
            stock_changed: Notify::new(),
            metrics_due: Notify::new(),
            restaged: Notify::new(),
            cache: cache.clone(),
        })
    }

    /// Forgets all stages.
    pub(crate) fn clear_stages(&self) {
        let changed = self.lock().staged.clear();
        self.look_at_all(&changed);
    }

    /// Has all objects of some kinds looked at, whose stages have changed.
    pub(crate) fn look_at_all(&self, targets: &[Target]) {
        for target in targets {
            if *target == stage_objects::nodes() {
                let mut state = self.lock();
                let names: Vec<Text> = state.nodes.keys().cloned().collect();
                names.into_iter().for_each(|name| state.schedule.add(Key::Node(name)));
            } else if *target == stage_objects::pods() {
                let Some(pods) = self.cache.resource("pods") else { continue };
                Cursor::new(pods).advance(|update| {
                    if let Update::Change { after: Some(pod), .. } = update {
                        let mut state = self.lock();
                        if state.nodes.contains_key(pod.field("spec.nodeName").unwrap_or_default()) {
                            state.schedule.add(Key::Pod(pod.namespace().into(), pod.name().into()));
                        }
                    }
                });
            } else {
                self.lock().restaged.insert(target.clone());
                self.restaged.notify_one();
            }
        }
        self.due.notify_one();
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
    stage_objects::load(&client, &shared);
    let Some(_followers) = follow_all(&shared, registry.cache()) else { return };
    let heartbeats = heartbeat::run(shared.clone(), client.clone());
    let metrics = metrics_api::run(client.clone(), shared.clone());
    let recorder = Recorder::new(client.clone(), COMPONENT);
    let following = stage_objects::run(client.clone(), recorder.clone(), shared.clone());
    let others = follow_others(client.clone(), shared.clone());
    let identity = SystemIdentity::Controller(STAGES_ACCOUNT);
    let of_others = Client::new(registry.clone(), identity, FIELD_MANAGER);
    let worker = Arc::new(Worker {
        client: client.clone(),
        shared,
        options: options.clone(),
        recorder,
        others: of_others,
    });
    let creating = async {
        create::create(&client, &options).await;
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = work(worker) => {}
        () = creating => {}
        () = heartbeats => {}
        () = serving(metrics) => {}
        () = following => {}
        () = others => {}
    }
}

/// Serves metrics for ever; without API services there are none.
async fn serving(metrics: impl Future<Output = ()>) {
    metrics.await;
    std::future::pending::<()>().await;
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

/// Follows the objects of kinds that live by stages, but for pods and nodes.
async fn follow_others(client: Client, shared: Arc<Shared>) {
    let mut catalog = client.registry().follow_catalog();
    let mut following: HashMap<Target, (Arc<Resource>, Task)> = HashMap::new();
    loop {
        let current = catalog.borrow_and_update().clone();
        let (targets, changed) = {
            let mut state = shared.lock();
            (state.staged.targets(), std::mem::take(&mut state.restaged))
        };
        following.retain(|target, _| targets.contains(target) && !changed.contains(target));
        let own = [stage_objects::nodes(), stage_objects::pods()];
        for target in targets.into_iter().filter(|target| !own.contains(target)) {
            let resource = served(&current, &target).and_then(|served| served.stored.as_ref());
            let Some(resource) = resource.map(|stored| stored.resource.clone()) else {
                following.remove(&target);
                continue;
            };
            if following.get(&target).is_some_and(|(known, _)| Arc::ptr_eq(known, &resource)) {
                continue;
            }
            let task = follow(resource.clone(), StartFrom::State, {
                let (shared, target) = (shared.clone(), target.clone());
                move |update| {
                    if let Update::Change { after: Some(entry), .. } = update {
                        let (namespace, name) = (entry.namespace().into(), entry.name().into());
                        let key = OtherKey { target: target.clone(), namespace, name };
                        shared.lock().schedule.add(Key::Other(key));
                        shared.due.notify_one();
                    }
                }
            });
            following.insert(target, (resource, task));
        }
        tokio::select! {
            // The registry is there as long as this is.
            _ = catalog.changed() => {}
            () = shared.restaged.notified() => {}
        }
    }
}

/// A kind, as it is served.
fn served<'c>(catalog: &'c Catalog, target: &Target) -> Option<&'c Arc<Served>> {
    catalog.served().find(|served| *served.api_version == *target.api_version && *served.kind == *target.kind)
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
    let had_nodes = !state.nodes.is_empty();
    match map {
        Some(node) => state.play(name, &node),
        None => drop(state.nodes.remove(&name)),
    }
    if had_nodes == state.nodes.is_empty() {
        shared.metrics_due.notify_one();
    }
}

impl State {
    /// Puts a stage in the place of the one of this name, or removes that; returns the kinds that have other
    /// stages now.
    pub(crate) fn set_stage(&mut self, name: &str, stage: Option<Stage>) -> Vec<Target> {
        self.staged.set(name, stage)
    }

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
        let is_staged = self.staged.has("v1", "Node");
        if is_new || is_staged || node_status::needs_status(node) || node_status::is_tainted(node) {
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
    recorder: Recorder,
    /// Changes objects that are neither pods nor nodes.
    others: Client,
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
            Key::Other(other) => self.look_at_other(other).await,
        };
        match outcome {
            Err(error) if error.reason == Reason::NotFound => {
                self.shared.lock().staged.forget(key);
                Ok(None)
            }
            outcome => outcome,
        }
    }

    /// Brings an object that lives by stages to the next one.
    async fn stage(
        &self,
        key: &Key,
        target: &Target,
        address: Address<'_>,
        node: &str,
        object: &Value,
    ) -> Result<Option<Duration>, Status> {
        let turn = self.shared.lock().staged.turn(key, target, object, Instant::now());
        match turn {
            Turn::Rest => Ok(None),
            Turn::Wait(left) => Ok(Some(left)),
            Turn::Apply(stage) => {
                let Self { recorder, shared, .. } = self;
                let client = if matches!(key, Key::Other(_)) { &self.others } else { &self.client };
                let applying = Applying { client, recorder, shared, target, address, node };
                applying.apply(&stage, object).await
            }
        }
    }

    async fn look_at_other(&self, other: &OtherKey) -> Result<Option<Duration>, Status> {
        let catalog = self.client.registry().catalog();
        let Some(served) = served(&catalog, &other.target) else { return Ok(None) };
        let address = Address {
            group: &served.group,
            version: &served.version,
            resource: &served.resource,
            subresource: "",
            namespace: &other.namespace,
            name: &other.name,
        };
        let object = self.client.get(address).await?;
        self.stage(&Key::Other(other.clone()), &other.target, address, "", &object).await
    }

    /// Brings a node that lives by stages to the next one, and keeps its Lease.
    async fn stage_node(&self, name: &str) -> Result<Option<Duration>, Status> {
        let address = Address::core("nodes", "").named(name);
        let node = self.client.get(address).await?;
        let key = Key::Node(name.into());
        let wait = self.stage(&key, &stage_objects::nodes(), address, name, &node).await?;
        if node.as_map().is_some_and(|node| !node_status::needs_status(node)) {
            self.client.modify(address, node_status::untaint).await?;
        }
        let now = Instant::now();
        let renewed = self.shared.lock().renewed.get(name).copied();
        let due = renewed.map_or(now, |renewed| renewed + heartbeat::RENEWAL.mul_f64(0.8));
        let lease = match due.checked_duration_since(now).filter(|left| !left.is_zero()) {
            Some(left) => left,
            None if heartbeat::renew(&self.client, name).await => {
                self.shared.lock().renewed.insert(name.into(), now);
                heartbeat::RENEWAL.mul_f64(0.8)
            }
            None => RETRY,
        };
        Ok(Some(wait.map_or(lease, |wait| wait.min(lease))))
    }

    async fn look_at_node(&self, name: &str) -> Result<Option<Duration>, Status> {
        let Some(Node { address, .. }) = self.shared.lock().nodes.get(name).copied() else { return Ok(None) };
        if self.shared.lock().staged.has("v1", "Node") {
            return self.stage_node(name).await;
        }
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
        if self.shared.lock().staged.has("v1", "Pod") {
            let node = object.get("spec").and_then(|spec| spec.get("nodeName")).and_then(Value::as_str);
            let node = node.unwrap_or_default();
            if !self.shared.lock().nodes.contains_key(node) {
                return Ok(None);
            }
            let key = Key::Pod(namespace.into(), name.into());
            return self.stage(&key, &stage_objects::pods(), address, node, &object).await;
        }
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
