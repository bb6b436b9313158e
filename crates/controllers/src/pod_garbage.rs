//! The controller `pod-garbage-collector-controller`: deletes pods that nobody ends otherwise. These are the
//! pods of nodes that do not exist, pods that are being deleted without a node or on a node that is out of
//! service, and the oldest of too many pods that have ended.

use crate::follow::{StartFrom, follow};
use crate::objects::decode;
use crate::pod_ends::{self, Disruption, Phase, unless_gone};
use crate::queue::{Queue, Reconcile, RequeueAfter};
use crate::workloads::pod;
use crate::{Context, Controller};
use cache::{Cursor, Entry, Filter, Freshness, Query, Resource, Update};
use object::Text;
use object::field_selector::Selector;
use registry::Client;
use schema::view::View as _;
use schema::views::core::v1::{Node, Pod};
use schema::{Builder, Part, Ref, Status, Type, stored};
use std::cmp::Reverse;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

pub(crate) const CONTROLLER: Controller = Controller {
    name: "pod-garbage-collector-controller",
    alias: "podgc",
    account: "pod-garbage-collector",
    stores: crate::Stores::Own,
    run: |context| Box::pin(run(context, Settings::STOCK)),
};

const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

/// When pods are garbage.
#[derive(Clone, Copy)]
struct Settings {
    /// How many pods that have ended are kept.
    ended: usize,
    /// How long a node has to be missing.
    quarantine: Duration,
}

impl Settings {
    const STOCK: Self = Self { ended: 12_500, quarantine: Duration::from_secs(40) };
}

/// A key of the work queue.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Item {
    /// A pod that is being deleted, by namespace and name.
    Deleting(Text, Text),
    /// The pods that have ended are too many.
    Ended,
    /// A node that does not exist.
    Missing(Text),
    /// A node whose pods may be deleted by force.
    OutOfService(Text),
}

async fn run(context: Context, settings: Settings) {
    let (Some(pods), Some(nodes)) = (context.resource("pods"), context.resource("nodes")) else { return };
    let (queue, ended) = (Arc::<Queue<Item>>::default(), Arc::<AtomicUsize>::default());
    let _pods = follow(pods.clone(), StartFrom::State, {
        let (queue, ended, nodes) = (queue.clone(), ended.clone(), nodes.clone());
        move |update| match update {
            Update::Reset => ended.store(0, Ordering::Relaxed),
            Update::Change { before, after } => {
                match (before.is_some_and(|pod| has_ended(pod)), after.is_some_and(|pod| has_ended(pod))) {
                    (true, false) => drop(ended.fetch_sub(1, Ordering::Relaxed)),
                    (false, true) if ended.fetch_add(1, Ordering::Relaxed) >= settings.ended => {
                        queue.add(Item::Ended);
                    }
                    _ => {}
                }
                let Some(pod) = after else { return };
                let node = pod::node(pod);
                if pod.is_deleting() {
                    queue.add(Item::Deleting(pod.namespace().into(), pod.name().into()));
                }
                if !node.is_empty() && matches!(nodes.lookup("", node), Ok(None)) {
                    queue.add_after(Item::Missing(node.into()), settings.quarantine);
                }
            }
        }
    });
    let _nodes = follow(nodes.clone(), StartFrom::State, {
        let (queue, pods) = (queue.clone(), pods.clone());
        move |update| match update {
            Update::Reset => missing(&pods, |node| queue.add_after(Item::Missing(node), settings.quarantine)),
            Update::Change { after: Some(node), .. } if crate::objects::mentions(node, OUT_OF_SERVICE) => {
                queue.add(Item::OutOfService(node.name().into()));
            }
            Update::Change { before: Some(node), after: None } => {
                queue.add_after(Item::Missing(node.name().into()), settings.quarantine);
            }
            Update::Change { .. } => {}
        }
    });
    let worker = Worker { client: context.client.clone(), pods, nodes, ended, settings };
    queue.work(&context, 4, Arc::new(worker)).await;
}

/// Reports the nodes of all pods: some may have been deleted meanwhile.
fn missing(pods: &Arc<Resource>, report: impl Fn(Text)) {
    Cursor::new(pods.clone()).advance(|update| {
        if let Update::Change { after: Some(pod), .. } = update
            && !pod::node(pod).is_empty()
        {
            report(pod::node(pod).into());
        }
    });
}

fn has_ended(pod: &Entry) -> bool {
    !matches!(pod.field("status.phase"), Some("Pending" | "Running" | "Unknown"))
}

struct Worker {
    client: Client,
    pods: Arc<Resource>,
    nodes: Arc<Resource>,
    ended: Arc<AtomicUsize>,
    settings: Settings,
}

impl Reconcile for Worker {
    type Key = Item;

    async fn reconcile(&self, item: &Item) -> Result<RequeueAfter, Status> {
        match item {
            Item::Deleting(namespace, name) => {
                let Some(pod) = self.pods.lookup(namespace, name).map_err(registry::status)? else {
                    return Ok(None);
                };
                let node = pod::node(&pod);
                let is_garbage = match node {
                    "" => true,
                    node => self.is_out_of_service(node)?,
                };
                if pod.is_deleting() && is_garbage && !is_done_with(&pod) {
                    self.end(&pod, None).await?;
                }
            }
            Item::OutOfService(node) => {
                if self.is_out_of_service(node)? {
                    for pod in self.pods_of(node).await? {
                        if pod.is_deleting() && !is_done_with(&pod) {
                            self.end(&pod, None).await?;
                        }
                    }
                }
            }
            Item::Missing(node) => {
                if self.nodes.lookup("", node).map_err(registry::status)?.is_some() {
                    return Ok(None);
                }
                let why = Disruption { reason: "DeletionByPodGC", message: "PodGC: node no longer exists" };
                for pod in self.pods_of(node).await? {
                    if !is_done_with(&pod) {
                        self.end(&pod, Some(why)).await?;
                    }
                }
            }
            Item::Ended => self.end_oldest().await?,
        }
        Ok(None)
    }
}

/// Whether a pod only waits for its finalizers.
fn is_done_with(pod: &Entry) -> bool {
    pod.is_deleting()
        && pod::is_finished(pod)
        && crate::objects::mentions(pod, r#""deletionGracePeriodSeconds":0"#)
}

impl Worker {
    async fn pods_of(&self, node: &str) -> Result<Vec<Arc<Entry>>, Status> {
        let fields = Selector::equal("spec.nodeName", node);
        let query = Query::new(Freshness::Any, Filter::all().fields(fields));
        Ok(self.pods.list(query).await.map_err(registry::status)?.collect())
    }

    /// Whether a node is not ready and has the taint that says that it is out of service.
    fn is_out_of_service(&self, name: &str) -> Result<bool, Status> {
        let Some(node) = self.nodes.lookup("", name).map_err(registry::status)? else { return Ok(false) };
        if !crate::objects::mentions(&node, OUT_OF_SERVICE) {
            return Ok(false);
        }
        let node = decode(Node::schema(), &node)?;
        let node = Node::of(&node);
        let mut conditions = node.status().conditions().iter();
        let is_ready =
            conditions.any(|condition| condition.r#type() == "Ready" && condition.status() == "True");
        Ok(!is_ready && node.spec().taints().iter().any(|taint| taint.key() == OUT_OF_SERVICE))
    }

    /// Marks a pod as failed, and deletes it at once.
    async fn end(&self, pod: &Entry, why: Option<Disruption<'_>>) -> Result<(), Status> {
        if !pod::is_finished(pod) {
            unless_gone(pod_ends::mark(&self.client, pod, Phase::Failed, why).await)?;
        }
        pod_ends::delete(&self.client, pod, Some(0)).await
    }

    /// Deletes the oldest of the pods that have ended, evicted ones first.
    async fn end_oldest(&self) -> Result<(), Status> {
        let surplus = self.ended.load(Ordering::Relaxed).saturating_sub(self.settings.ended);
        if surplus == 0 {
            return Ok(());
        }
        let list = self.pods.list(Query::new(Freshness::Any, Filter::all())).await;
        let ended = list.map_err(registry::status)?.filter(|pod| has_ended(pod));
        let mut ended: Vec<Arc<Entry>> = ended.collect();
        ended.sort_by_cached_key(|pod| Age::of(pod));
        for pod in ended.into_iter().take(surplus) {
            if !is_done_with(&pod) {
                self.end(&pod, None).await?;
            }
        }
        Ok(())
    }
}

/// The order in which pods that have ended are deleted.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Age {
    was_evicted: Reverse<bool>,
    created: String,
    name: String,
}

impl Age {
    fn of(pod: &Entry) -> Self {
        static PART: LazyLock<Ref<Type>> = LazyLock::new(|| {
            let metadata = Part("metadata", &[Part("creationTimestamp", &[])]);
            Builder::part_of(Pod::schema(), &[metadata, Part("status", &[Part("reason", &[])])]).build()
        });
        let decoded = stored::logged(pod, stored::decode_part(&PART, pod.bytes())).unwrap_or_default();
        let view = Pod::of(&decoded);
        let has_failed = pod.field("status.phase") == Some("Failed");
        Self {
            was_evicted: Reverse(has_failed && view.status().reason() == "Evicted"),
            created: view.metadata().creation_timestamp().unwrap_or_default().to_owned(),
            name: pod.name().to_owned(),
        }
    }
}

#[cfg(test)]
mod tests;
