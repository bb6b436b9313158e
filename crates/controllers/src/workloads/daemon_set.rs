//! The controller `daemonset-controller`: one pod on every node that fits, in the newest revision of a
//! template.
//!
//! A step of a set looks at all nodes. It makes and deletes pods so that each node that fits has one
//! ([`manage`]), replaces pods of old revisions ([`rolling`]), and writes the status.

mod backoff;
mod manage;
mod revisions;
mod rolling;
mod template;
#[cfg(test)]
mod tests;

use super::dependents::{Dependent, Dependents};
use super::following::{Owners, follow_dependents, follow_owners};
use super::history::{self, REVISION_LABEL};
use super::node_fit::{NodeFacts, matches_affinity};
use super::owner::{ObjectKey, Owner, OwnerKind, label_selector};
use super::pods::Pods;
use super::{catch_up, pod};
use crate::events::Reporter;
use crate::follow::{StartFrom, follow};
use crate::objects::decode;
use crate::queue::{Queue, Reconcile, RequeueAfter};
use crate::{Context, Controller, EventType, Recorder};
use backoff::Backoff;
use cache::{Entry, Filter, Freshness, Query, Resource, Update};
use object::label::{Labels as _, Selector};
use object::time::Time;
use object::{Map, Value};
use registry::Client;
use schema::status::Reason;
use schema::view::View;
use schema::views::apps::v1::{DaemonSet, DaemonSetSpec, DaemonSetStatus};
use schema::views::core::v1::{Pod, PodSpec, Toleration};
use schema::{Builder, Part, Ref, Status, Type};
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};
use std::time::SystemTime;

pub(crate) const CONTROLLER: Controller = Controller {
    name: "daemonset-controller",
    alias: "daemonset",
    account: "daemon-set-controller",
    stores: crate::Stores::Own,
    run: |context| Box::pin(run(context)),
};

static KIND: OwnerKind = OwnerKind {
    group: "apps",
    version: "v1",
    kind: "DaemonSet",
    resource: "daemonsets",
    prefix: "daemonsets.apps",
    schema: DaemonSet::schema,
    selector: label_selector,
};

/// The name of the controller in its events.
const COMPONENT: &str = "daemonset-controller";
/// How many sets are worked on at the same time.
const AT_ONCE: usize = 4;

/// The fields of a pod that say which node it was made for, and when.
static PART: LazyLock<Ref<Type>> = LazyLock::new(|| {
    let parts = [
        Part("metadata", &[Part("creationTimestamp", &[])]),
        Part("spec", &[Part("affinity", &[Part("nodeAffinity", &[])])]),
    ];
    Builder::part_of(Pod::schema(), &parts).build()
});

async fn run(context: Context) {
    let (Some(resource), Some(nodes)) = (context.resource(KIND.prefix), context.resource("nodes")) else {
        return;
    };
    let reporter = Reporter::start(&Recorder::new(context.client.clone(), COMPONENT));
    let (Some(pods), Some(revisions)) =
        (Pods::new(&context, reporter.clone()), context.dependents(history::PREFIX))
    else {
        return;
    };
    catch_up(&[&resource, pods.resource(), &nodes, revisions.resource()]).await;
    let queue: Arc<Queue<ObjectKey>> = Arc::default();
    let owners = Owners::new(&KIND);
    let _pods = follow_dependents(&owners, pods.resource().clone(), &queue);
    let _revisions = follow_dependents(&owners, revisions.resource().clone(), &queue);
    let _nodes = follow(nodes.clone(), StartFrom::Now, {
        let (queue, owners) = (queue.clone(), owners.clone());
        move |update| {
            if may_fit_otherwise(&update) {
                queue.extend(owners.keys());
            }
        }
    });
    let _own = follow_owners(&owners, resource.clone(), &queue);
    let client = context.client.clone();
    let backoff = Backoff::default();
    let worker = DaemonSets { client, reporter, pods, resource, nodes, revisions, backoff };
    queue.work(&context, AT_ONCE, Arc::new(worker)).await;
}

/// Whether a change of a node can matter to daemon sets.
fn may_fit_otherwise(update: &Update<'_>) -> bool {
    let Update::Change { before: Some(before), after: Some(after) } = update else { return true };
    let read = |entry: &Arc<Entry>| NodeFacts::read(entry.clone()).ok();
    match (read(before), read(after)) {
        (Some(before), Some(after)) => !before.fits_like(&after),
        _ => true,
    }
}

struct DaemonSets {
    client: Client,
    reporter: Reporter,
    pods: Pods,
    resource: Arc<Resource>,
    nodes: Arc<Resource>,
    revisions: Arc<Dependents>,
    backoff: Backoff,
}

/// A pod of the set.
#[derive(Clone)]
struct Daemon {
    pod: Dependent,
    created: Time,
}

impl Daemon {
    fn is_terminating(&self) -> bool {
        self.pod.entry.is_deleting()
    }

    /// The order of the pods of one node: those that have the node already, then the oldest.
    fn order(&self) -> (bool, Time, &str) {
        (pod::node(&self.pod.entry).is_empty(), self.created, self.pod.name())
    }
}

/// The pods by the nodes that they run on or were made for.
type ByNode = BTreeMap<String, Vec<Daemon>>;

/// Whether a pod belongs on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fit {
    /// A pod belongs there.
    Run,
    /// A pod that is there may stay.
    Stay,
    /// No pod may be there.
    Leave,
}

/// One step of a set.
struct Step<'a> {
    controller: &'a DaemonSets,
    owner: Owner,
    /// The set.
    object: Map,
    selector: Selector,
    nodes: Vec<NodeFacts>,
    /// The template with the tolerations of daemons.
    template: Map,
    /// The hash of the newest revision.
    hash: String,
    now: SystemTime,
}

impl Reconcile for DaemonSets {
    type Key = ObjectKey;

    async fn reconcile(&self, (namespace, name): &ObjectKey) -> Result<RequeueAfter, Status> {
        let Some(entry) = self.resource.lookup(namespace, name).map_err(registry::status)? else {
            return Ok(None);
        };
        let object = decode(DaemonSet::schema(), &entry)?;
        let owner = Owner { kind: &KIND, entry };
        let Some(selector) = label_selector(&object) else {
            log::warn!(object:% = format_args!("{:?}", owner.entry); "a selector is not valid");
            return Ok(None);
        };
        if selector.is_everything() {
            let why = "This daemon set is selecting all pods. A non-empty selector is required.";
            self.reporter.report(&owner.subject(), EventType::Warning, "SelectingAll", why);
            return Ok(None);
        }
        if owner.is_deleting() {
            return Ok(None);
        }
        Box::pin(self.step(owner, object, selector)).await
    }
}

impl DaemonSets {
    async fn step(&self, owner: Owner, object: Map, selector: Selector) -> Result<RequeueAfter, Status> {
        let revisions::Chosen { hash, old } = self.choose_revision(&owner, &object, &selector).await?;
        let all = self.nodes.list(Query::new(Freshness::Any, Filter::default())).await;
        let nodes = all.map_err(registry::status)?.map(NodeFacts::read).collect::<Result<_, _>>()?;
        let template = template::complete(&template_of(&object), &hash, template::generation(&object));
        let now = clock::now();
        let step = Step { controller: self, owner, object, selector, nodes, template, hash, now };
        let changed = step.change(&old).await;
        let by_node = step.by_node().await?;
        step.write_status(&by_node).await?;
        let backoff = changed?;
        let pods = by_node.values().flatten().map(|daemon| &daemon.pod);
        let available = pod::next_available(pods, step.spec().min_ready_seconds(), step.now);
        Ok([backoff, available].into_iter().flatten().min())
    }
}

fn template_of(object: &Map) -> Map {
    let template = object.get("spec").and_then(|spec| spec.get("template"));
    template.and_then(Value::as_map).cloned().unwrap_or_default()
}

impl Step<'_> {
    fn spec(&self) -> DaemonSetSpec<'_> {
        DaemonSet::of(&self.object).spec()
    }

    /// Makes, replaces and deletes pods, then revisions that nothing uses.
    async fn change(&self, old: &[history::Revision]) -> Result<RequeueAfter, Status> {
        let again = self.manage().await?;
        if self.spec().update_strategy().r#type() == "RollingUpdate" {
            self.roll().await?;
        }
        self.clean_up(old).await?;
        Ok(again)
    }

    /// All pods that the set controls, after it has adopted and released pods.
    async fn claim(&self) -> Result<Vec<Dependent>, Status> {
        self.controller.pods.claim(&self.owner, &self.selector, |_| true).await
    }

    /// The pods of the set by their nodes, without those that have ended and are being deleted.
    async fn by_node(&self) -> Result<ByNode, Status> {
        let mut by_node = ByNode::new();
        for pod in self.claim().await? {
            if pod.entry.is_deleting() && !pod::is_terminating(&pod.entry) {
                continue;
            }
            let decoded = crate::objects::decode_part(&PART, &pod.entry)?;
            let node = match pod::node(&pod.entry) {
                "" => template::bound_to(&decoded),
                node => Some(node),
            };
            let Some(node) = node.map(str::to_owned) else { continue };
            let created = Pod::of(&decoded).metadata().creation_timestamp();
            let created = created.and_then(|at| at.parse().ok()).unwrap_or(Time::ZERO);
            by_node.entry(node).or_default().push(Daemon { pod, created });
        }
        for daemons in by_node.values_mut() {
            daemons.sort_by(|one, other| one.order().cmp(&other.order()));
        }
        Ok(by_node)
    }

    fn node(&self, name: &str) -> Option<&NodeFacts> {
        self.nodes.iter().find(|node| node.name() == name)
    }

    fn fit(&self, node: &NodeFacts) -> Fit {
        let empty = Map::new();
        let spec = self.template.get("spec").and_then(Value::as_map).unwrap_or(&empty);
        let spec = PodSpec::of(spec);
        let is_named = ["", node.name()].contains(&spec.node_name());
        if !is_named || !matches_affinity(spec, &node.entry) {
            return Fit::Leave;
        }
        let tolerations: Vec<Toleration<'_>> = spec.tolerations().iter().collect();
        if node.is_tolerated(&tolerations, &["NoExecute", "NoSchedule"]) {
            return Fit::Run;
        }
        if node.is_tolerated(&tolerations, &["NoExecute"]) { Fit::Stay } else { Fit::Leave }
    }

    fn is_updated(&self, pod: &Entry) -> bool {
        template::is_updated(|key| pod.label(key), &self.hash, template::generation(&self.object))
    }

    fn is_available(&self, pod: &Dependent) -> bool {
        pod.is_available(self.spec().min_ready_seconds(), self.now)
    }

    async fn write_status(&self, by_node: &ByNode) -> Result<(), Status> {
        let [mut desired, mut current, mut misscheduled, mut ready, mut updated, mut available] = [0i64; 6];
        for node in &self.nodes {
            let daemon = by_node.get(node.name()).and_then(|daemons| daemons.first());
            match (self.fit(node), daemon) {
                (Fit::Run, None) => desired += 1,
                (Fit::Run, Some(daemon)) => {
                    desired += 1;
                    current += 1;
                    ready += i64::from(daemon.pod.is_ready());
                    available += i64::from(self.is_available(&daemon.pod));
                    updated += i64::from(self.is_updated(&daemon.pod.entry));
                }
                (_, Some(_)) => misscheduled += 1,
                (_, None) => {}
            }
        }
        let counts = [
            ("desiredNumberScheduled", desired),
            ("currentNumberScheduled", current),
            ("numberMisscheduled", misscheduled),
            ("numberReady", ready),
            ("updatedNumberScheduled", updated),
            ("numberAvailable", available),
            ("numberUnavailable", desired - available),
        ];
        let generation = DaemonSet::of(&self.object).metadata().generation();
        let old = DaemonSet::of(&self.object).status();
        let is_same = counts.iter().all(|(field, count)| super::status::number(old.map(), field) == *count);
        if is_same && old.observed_generation() >= generation {
            return Ok(());
        }
        let with_status = |mut object: Map| {
            let mut status = object.get("status").and_then(Value::as_map).cloned().unwrap_or_default();
            status.insert("observedGeneration", generation);
            counts.iter().for_each(|(field, count)| drop(status.insert(*field, *count)));
            object.insert("status", status);
            Value::from(object)
        };
        let client = &self.controller.client;
        let address = self.owner.address().subresource("status");
        match client.update(address, with_status(self.object.clone())).await {
            Ok(_) => return Ok(()),
            Err(error) if error.reason == Reason::NotFound => return Ok(()),
            Err(_) => {}
        }
        // Mostly, another client has changed the set meanwhile.
        let newest = match client.get(self.owner.address()).await {
            Err(error) if error.reason == Reason::NotFound => return Ok(()),
            newest => newest?,
        };
        let newest = newest.as_map().cloned().unwrap_or_default();
        client.update(address, with_status(newest)).await.map(drop)
    }
}

/// The count of collisions of a set, if it has had one.
fn collisions(object: &Map) -> Option<i64> {
    let status: DaemonSetStatus<'_> = DaemonSet::of(object).status();
    status.collision_count()
}
