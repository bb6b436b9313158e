//! The controller `node-lifecycle-controller`: notices nodes that do not report any more, and puts the taints
//! on nodes that their conditions stand for.
//!
//! A node is alive while its status or its Lease in `kube-node-lease` is renewed. A Lease that lasts longer
//! than the grace period counts until its end, so that a node that exists on paper needs no heartbeats.

mod taints;
mod zones;

use crate::follow::{StartFrom, follow};
use crate::objects::{decode, edit, unless_changed};
use crate::pod_ends::unless_gone;
use crate::queue::{Queue, Reconcile, RequeueAfter};
use crate::workloads::pod;
use crate::{Context, Controller, EventType, Recorder, Subject};
use cache::{Entry, Filter, Freshness, Query, Resource, Update};
use clock::Instant;
use object::field_selector::Selector;
use object::label::Labels as _;
use object::time::{MicroTime, Time};
use object::{Map, Text, Value};
use registry::{Address, Client, Patch};
use schema::view::View as _;
use schema::views::coordination::v1::Lease;
use schema::views::core::v1::{Node, NodeCondition, Pod};
use schema::{Status, json};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use taints::Health;
use zones::Zones;

pub(crate) const CONTROLLER: Controller = Controller {
    name: "node-lifecycle-controller",
    alias: "nodelifecycle",
    account: "node-controller",
    stores: crate::Stores::Own,
    run: |context| Box::pin(run(context)),
};

/// The component of events.
const COMPONENT: &str = "node-controller";
/// How long a node may be silent.
const GRACE: Duration = Duration::from_secs(50);
/// The same for a node that has never reported.
const STARTUP_GRACE: Duration = Duration::from_secs(60);
const LEASES: &str = "kube-node-lease";
const EXCLUDED: &str = "node.kubernetes.io/exclude-disruption";

/// A key of the work queue.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Item {
    Node(Text),
    /// A pod that was put on a node that is not ready.
    Pod(Text, Text),
}

/// What is known of a node.
struct Known {
    uid: String,
    /// When the node reported last.
    alive: Instant,
    /// The time and status in its condition.
    heartbeat: Option<(String, String)>,
    /// Until when its Lease lasts.
    leased: Option<Instant>,
    is_ready: bool,
}

#[derive(Default)]
struct State {
    nodes: HashMap<Text, Known>,
    zones: Zones,
}

async fn run(context: Context) {
    let (Some(nodes), Some(pods), Some(leases)) =
        (context.resource("nodes"), context.resource("pods"), context.resource("leases.coordination.k8s.io"))
    else {
        return;
    };
    let (queue, state) = (Arc::<Queue<Item>>::default(), Arc::<Mutex<State>>::default());
    let _leases = follow(leases.clone(), StartFrom::Now, {
        let state = state.clone();
        move |update| {
            if let Update::Change { after: Some(lease), .. } = update
                && lease.namespace() == LEASES
                && let Some(known) = lock(&state).nodes.get_mut(lease.name())
            {
                known.alive = Instant::now();
                known.leased = lease_end(lease);
            }
        }
    });
    let _nodes = follow(nodes.clone(), StartFrom::State, {
        let queue = queue.clone();
        move |update| {
            if let Update::Change { before, after } = update {
                queue.extend(after.or(before).map(|node| Item::Node(node.name().into())));
            }
        }
    });
    let _pods = follow(pods.clone(), StartFrom::Now, {
        let (queue, state) = (queue.clone(), state.clone());
        move |update| {
            if let Update::Change { before, after: Some(after) } = update
                && before.is_none_or(|before| pod::node(before) != pod::node(after))
                && lock(&state).nodes.get(pod::node(after)).is_some_and(|node| !node.is_ready)
            {
                queue.add(Item::Pod(after.namespace().into(), after.name().into()));
            }
        }
    });
    let worker = Worker {
        client: context.client.clone(),
        recorder: Recorder::new(context.client.clone(), COMPONENT),
        queue: queue.clone(),
        nodes,
        pods,
        leases,
        state,
    };
    queue.work(&context, 8, Arc::new(worker)).await;
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// When a Lease ends.
fn lease_end(lease: &Entry) -> Option<Instant> {
    let decoded = decode(Lease::schema(), lease).ok()?;
    let spec = Lease::of(&decoded).spec();
    let renewed: MicroTime = spec.renew_time()?.parse().ok()?;
    let end = renewed.unix().saturating_add(spec.lease_duration_seconds()?);
    let left = u64::try_from(end.saturating_sub(Time::now().unix())).ok()?;
    Instant::now().checked_add(Duration::from_secs(left))
}

struct Worker {
    client: Client,
    recorder: Recorder,
    queue: Arc<Queue<Item>>,
    nodes: Arc<Resource>,
    pods: Arc<Resource>,
    leases: Arc<Resource>,
    state: Arc<Mutex<State>>,
}

impl Reconcile for Worker {
    type Key = Item;

    async fn reconcile(&self, item: &Item) -> Result<RequeueAfter, Status> {
        match item {
            Item::Node(name) => self.sync_node(name).await,
            Item::Pod(namespace, name) => {
                let pod = self.pods.lookup(namespace, name).map_err(registry::status)?;
                let is_unready = |pod: &Arc<Entry>| {
                    lock(&self.state).nodes.get(pod::node(pod)).is_some_and(|node| !node.is_ready)
                };
                match pod.filter(is_unready) {
                    Some(pod) => self.mark_unready(&pod).await.map(|()| None),
                    None => Ok(None),
                }
            }
        }
    }
}

fn ready(node: &Map) -> Option<NodeCondition<'_>> {
    Node::of(node).status().conditions().iter().find(|condition| condition.r#type() == "Ready")
}

/// What the condition `Ready` says.
fn health(node: &Map) -> Health {
    match ready(node).map(|condition| condition.status()) {
        Some("True") => Health::Ready,
        Some("False") => Health::NotReady,
        _ => Health::Unknown,
    }
}

impl Worker {
    async fn sync_node(&self, name: &Text) -> Result<RequeueAfter, Status> {
        let Some(entry) = self.nodes.lookup("", name).map_err(registry::status)? else {
            self.forget(name).await;
            return Ok(None);
        };
        let node = decode(Node::schema(), &entry)?;
        let observed = health(&node);
        let (is_new, deadline) = self.note(&entry, &node);
        if is_new {
            self.report(
                &entry,
                "RegisteredNode",
                &event(name, &format!("Registered Node {name} in Controller")),
            )
            .await;
        }
        let left = deadline.saturating_duration_since(Instant::now());
        // After a step of the clock, nodes that follow it are about to report.
        let left = if left.is_zero() { clock::is_settling().unwrap_or_default() } else { left };
        let mut again = (!left.is_zero()).then_some(left);
        if left.is_zero() && self.mark_unknown(&entry, &node).await? && observed == Health::Ready {
            self.report(&entry, "NodeNotReady", &format!("Node {name} status is now: NodeNotReady")).await;
            self.mark_pods_unready(name).await?;
        }
        if ready(&node).is_some() {
            if let Some(wait) = self.sync_taints(&entry, &node, observed).await? {
                again = Some(again.map_or(wait, |known| known.min(wait)));
            }
        } else {
            self.sync_taints(&entry, &node, Health::Ready).await?;
        }
        Ok(again)
    }

    /// Notes the state of a node. Returns whether it is new, and when it counts as silent.
    fn note(&self, entry: &Arc<Entry>, node: &Map) -> (bool, Instant) {
        let now = Instant::now();
        let condition = ready(node);
        let heartbeat = condition.map(|condition| {
            (condition.last_heartbeat_time().unwrap_or_default().to_owned(), condition.status().to_owned())
        });
        let is_ready = health(node) == Health::Ready;
        let zone = zones::zone(entry);
        let counts = entry.label(EXCLUDED).is_none().then_some((zone, is_ready));
        let mut state = lock(&self.state);
        let is_new = state.nodes.get(entry.name()).is_none_or(|known| known.uid != entry.uid());
        if is_new {
            let lease = self.leases.lookup(LEASES, entry.name()).ok().flatten();
            let alive = match &heartbeat {
                Some(_) => now,
                // A node that has never reported is as old as it is.
                None => now.checked_sub(age(node)).unwrap_or(now),
            };
            let known = Known {
                uid: entry.uid().to_owned(),
                alive,
                heartbeat: heartbeat.clone(),
                leased: lease.and_then(|lease| lease_end(&lease)),
                is_ready,
            };
            state.nodes.insert(entry.name().into(), known);
        }
        let changed = state.zones.set(entry.name(), counts);
        if changed.has_recovered {
            state.nodes.values_mut().for_each(|known| known.alive = now);
        }
        self.queue.extend(changed.nodes.into_iter().filter(|other| *other != entry.name()).map(Item::Node));
        let Some(known) = state.nodes.get_mut(entry.name()) else { return (is_new, now + GRACE) };
        if known.heartbeat != heartbeat {
            known.alive = now;
            known.heartbeat.clone_from(&heartbeat);
        }
        known.is_ready = is_ready;
        let grace = if heartbeat.is_some() { GRACE } else { STARTUP_GRACE };
        (is_new, (known.alive + grace).max(known.leased.unwrap_or(known.alive)))
    }

    async fn forget(&self, name: &Text) {
        let gone = {
            let mut state = lock(&self.state);
            let changed = state.zones.set(name, None);
            self.queue.extend(changed.nodes.into_iter().map(Item::Node));
            state.nodes.remove(name.as_str())
        };
        if let Some(known) = gone {
            let message = event(name, &format!("Removing Node {name} from Controller"));
            self.recorder
                .record(&subject(name, &known.uid), EventType::Normal, "RemovingNode", &message)
                .await;
        }
    }

    async fn report(&self, node: &Entry, reason: &str, message: &str) {
        self.recorder.record(&subject(node.name(), node.uid()), EventType::Normal, reason, message).await;
    }

    /// Says in the conditions that nothing is known of a node. False if they say so already.
    async fn mark_unknown(&self, entry: &Entry, node: &Map) -> Result<bool, Status> {
        let mut changed = node.clone();
        edit(&mut changed, "status", |status| taints::make_unknown(status, node));
        if changed == *node {
            return Ok(false);
        }
        let address = Address::core("nodes", "").named(entry.name()).subresource("status");
        self.client.update(address, changed.into()).await.map(|_| true)
    }

    /// Brings taints and labels up to date. Returns how long another taint has to wait.
    async fn sync_taints(&self, entry: &Entry, node: &Map, health: Health) -> Result<RequeueAfter, Status> {
        let mut wait = None;
        let eviction = {
            let mut state = lock(&self.state);
            match taints::eviction(node, health) {
                taints::Eviction::Limited => match state.zones.take(entry.name(), &zones::zone(entry)) {
                    zones::Permit::Now => taints::Eviction::Now,
                    zones::Permit::After(time) => {
                        wait = Some(time);
                        taints::Eviction::None
                    }
                    zones::Permit::Never => taints::Eviction::None,
                },
                _ if state.zones.all_are_disrupted() => taints::Eviction::Stopped,
                other => other,
            }
        };
        let address = Address::core("nodes", "").named(entry.name());
        let change = |node: &mut Map| taints::update(node, health, eviction);
        unless_changed(self.client.modify(address, change).await)?;
        Ok(wait)
    }

    async fn mark_pods_unready(&self, node: &str) -> Result<(), Status> {
        let fields = Selector::equal("spec.nodeName", node);
        let query = Query::new(Freshness::Any, Filter::all().fields(fields));
        for pod in self.pods.list(query).await.map_err(registry::status)? {
            self.mark_unready(&pod).await?;
        }
        Ok(())
    }

    /// Says in the status of a pod that it is not ready, because its node is not.
    async fn mark_unready(&self, pod: &Entry) -> Result<(), Status> {
        let decoded = decode(Pod::schema(), pod)?;
        let conditions = Pod::of(&decoded).status().conditions();
        let Some(_) = conditions.iter().find(|one| one.r#type() == "Ready" && one.status() == "True") else {
            return Ok(());
        };
        let patch = format!(
            r#"{{"metadata":{{"uid":{}}},"status":{{"conditions":[{{"type":"Ready","status":"False","lastTransitionTime":"{}"}}]}}}}"#,
            json::string(pod.uid()),
            Time::now()
        );
        let address = Address::core("pods", pod.namespace()).named(pod.name()).subresource("status");
        unless_gone(self.client.patch(address, Patch::Strategic, patch.as_bytes()).await.map(drop))?;
        let subject = Subject::of(pod, "v1", "Pod");
        self.recorder.record(&subject, EventType::Warning, "NodeNotReady", "Node is not ready").await;
        Ok(())
    }
}

fn subject(name: &str, uid: &str) -> Subject {
    Subject {
        api_version: "v1".to_owned(),
        kind: "Node".to_owned(),
        namespace: String::new(),
        name: name.to_owned(),
        uid: uid.to_owned(),
        resource_version: String::new(),
    }
}

fn event(node: &str, what: &str) -> String {
    format!("Node {node} event: {what}")
}

fn age(node: &Map) -> Duration {
    let created: Option<Time> = kinds::object_meta::text(node, "creationTimestamp").parse().ok();
    let seconds = created.map_or(0, |created| Time::now().unix() - created.unix());
    Duration::from_secs(u64::try_from(seconds).unwrap_or_default())
}

/// A text field of a value; empty if it is absent.
fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests;
