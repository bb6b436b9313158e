//! The controller `taint-eviction-controller`: deletes pods from nodes with taints of the effect `NoExecute`
//! that they do not tolerate, or no longer tolerate.

use crate::follow::{StartFrom, follow};
use crate::objects::mentions;
use crate::pod_ends::{self, Disruption, Phase, unless_gone};
use crate::queue::{Queue, Reconcile, RequeueAfter};
use crate::workloads::node_fit::{NO_EXECUTE, tolerates};
use crate::workloads::pod;
use crate::{Context, Controller, EventType, Recorder, Subject};
use cache::{Entry, Filter, Freshness, Query, Resource, Update};
use object::field_selector::Selector;
use object::{Map, Text};
use registry::Client;
use schema::view::View as _;
use schema::views::core::v1::{Node, Pod, Taint, Toleration};
use schema::{Builder, Part, Ref, Status, Type, stored};
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

pub(crate) const CONTROLLER: Controller = Controller {
    name: NAME,
    alias: NAME,
    account: "node-controller",
    stores: crate::Stores::Own,
    run: |context| Box::pin(run(context)),
};

const NAME: &str = "taint-eviction-controller";
const WHY: Disruption<'static> = Disruption {
    reason: "DeletionByTaintManager",
    message: "Taint manager: deleting due to NoExecute taint",
};

/// A pod, by its namespace and name.
type PodKey = (Text, Text);

/// A key of the work queue.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Item {
    Node(Text),
    Pod(PodKey),
}

async fn run(context: Context) {
    let (Some(pods), Some(nodes)) = (context.resource("pods"), context.resource("nodes")) else { return };
    let (queue, scheduled) = (Arc::<Queue<Item>>::default(), Arc::<Scheduled>::default());
    let _nodes = follow(nodes.clone(), StartFrom::State, {
        let queue = queue.clone();
        move |update| {
            if let Update::Change { before, after } = update {
                let is_tainted =
                    |node: Option<&Arc<Entry>>| node.is_some_and(|node| mentions(node, NO_EXECUTE));
                if (is_tainted(before) || is_tainted(after)) && taints(before) != taints(after) {
                    queue.extend(after.or(before).map(|node| Item::Node(node.name().into())));
                }
            }
        }
    });
    let _pods = follow(pods.clone(), StartFrom::State, {
        let (queue, scheduled, nodes) = (queue.clone(), scheduled.clone(), nodes.clone());
        move |update| {
            let Update::Change { before, after } = update else { return };
            let Some(pod) = after.or(before) else { return };
            let key: PodKey = (pod.namespace().into(), pod.name().into());
            let is_new = before.is_none_or(|before| {
                before.field("spec.nodeName") != pod.field("spec.nodeName") || before.uid() != pod.uid()
            });
            let is_tainted = |name: &str| {
                let node = nodes.lookup("", name).ok().flatten();
                node.is_some_and(|node| mentions(&node, NO_EXECUTE))
            };
            let concerns = match after {
                None => scheduled.has(&key),
                Some(pod) => {
                    (is_new || tolerations(before) != tolerations(after)) && is_tainted(pod::node(pod))
                }
            };
            if concerns {
                queue.add(Item::Pod(key));
            }
        }
    });
    let worker = Worker {
        client: context.client.clone(),
        recorder: Recorder::new(context.client.clone(), NAME),
        queue: queue.clone(),
        pods,
        nodes,
        scheduled,
    };
    queue.work(&context, 8, Arc::new(worker)).await;
}

/// The part of a node with its taints.
fn taints(node: Option<&Arc<Entry>>) -> Option<Map> {
    static PART: LazyLock<Ref<Type>> =
        LazyLock::new(|| Builder::part_of(Node::schema(), &[Part("spec", &[Part("taints", &[])])]).build());
    stored::decode_part(&PART, node?.bytes()).ok()
}

/// The part of a pod with its tolerations.
fn tolerations(pod: Option<&Arc<Entry>>) -> Option<Map> {
    static PART: LazyLock<Ref<Type>> = LazyLock::new(|| {
        Builder::part_of(Pod::schema(), &[Part("spec", &[Part("tolerations", &[])])]).build()
    });
    stored::decode_part(&PART, pod?.bytes()).ok()
}

/// The pods that are going to be deleted, and when.
#[derive(Default)]
struct Scheduled(Mutex<HashMap<PodKey, Instant>>);

impl Scheduled {
    fn lock(&self) -> MutexGuard<'_, HashMap<PodKey, Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn has(&self, key: &PodKey) -> bool {
        self.lock().contains_key(key)
    }

    /// When a pod is to be deleted: what was said first holds.
    fn at(&self, key: &PodKey, after: Duration) -> Instant {
        *self.lock().entry(key.clone()).or_insert_with(|| Instant::now() + after)
    }

    fn cancel(&self, key: &PodKey) -> bool {
        self.lock().remove(key).is_some()
    }
}

struct Worker {
    client: Client,
    recorder: Recorder,
    queue: Arc<Queue<Item>>,
    pods: Arc<Resource>,
    nodes: Arc<Resource>,
    scheduled: Arc<Scheduled>,
}

/// How long a pod may stay on its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stay {
    Forever,
    For(Duration),
    /// Some taint is not tolerated.
    No,
}

/// How long a pod with tolerations may stay on a node with taints: as long as the shortest toleration says.
fn stay(taints: Option<&Map>, tolerations: Option<&Map>) -> Stay {
    let empty = Map::new();
    let taints = Node::of(taints.unwrap_or(&empty)).spec().taints();
    let tolerations = Pod::of(tolerations.unwrap_or(&empty)).spec().tolerations();
    let mut shortest = None;
    for taint in taints.iter().filter(|taint: &Taint<'_>| taint.effect() == NO_EXECUTE) {
        let fitting = tolerations.iter().find(|toleration: &Toleration<'_>| tolerates(*toleration, taint));
        let Some(toleration) = fitting else { return Stay::No };
        if let Some(seconds) = toleration.toleration_seconds() {
            let seconds = u64::try_from(seconds).unwrap_or_default();
            shortest = Some(shortest.map_or(seconds, |known: u64| known.min(seconds)));
        }
    }
    shortest.map_or(Stay::Forever, |seconds| Stay::For(Duration::from_secs(seconds)))
}

impl Reconcile for Worker {
    type Key = Item;

    async fn reconcile(&self, item: &Item) -> Result<RequeueAfter, Status> {
        match item {
            Item::Pod(key) => self.look_at(key).await,
            Item::Node(name) => {
                let fields = Selector::equal("spec.nodeName", name.clone());
                let query = Query::new(Freshness::Any, Filter::all().fields(fields));
                let pods = self.pods.list(query).await.map_err(registry::status)?;
                self.queue.extend(pods.map(|pod| Item::Pod((pod.namespace().into(), pod.name().into()))));
                Ok(None)
            }
        }
    }
}

impl Worker {
    async fn look_at(&self, key: &PodKey) -> Result<RequeueAfter, Status> {
        let Some(pod) = self.pods.lookup(&key.0, &key.1).map_err(registry::status)? else {
            self.cancel(key).await;
            return Ok(None);
        };
        let node = self.nodes.lookup("", pod::node(&pod)).map_err(registry::status)?;
        let stay = stay(taints(node.as_ref()).as_ref(), tolerations(Some(&pod)).as_ref());
        if pod.is_deleting() {
            self.scheduled.cancel(key);
            return Ok(None);
        }
        match stay {
            Stay::Forever => {
                self.cancel(key).await;
                Ok(None)
            }
            Stay::No | Stay::For(Duration::ZERO) => {
                self.cancel(key).await;
                self.evict(&pod).await.map(|()| None)
            }
            Stay::For(time) => {
                let left = self.scheduled.at(key, time).saturating_duration_since(Instant::now());
                if !left.is_zero() {
                    return Ok(Some(left));
                }
                self.evict(&pod).await?;
                self.scheduled.cancel(key);
                Ok(None)
            }
        }
    }

    async fn evict(&self, pod: &Entry) -> Result<(), Status> {
        let (namespace, name) = (pod.namespace(), pod.name());
        self.report(namespace, name, &format!("Marking for deletion Pod {namespace}/{name}")).await;
        unless_gone(pod_ends::mark(&self.client, pod, Phase::Kept, Some(WHY)).await)?;
        pod_ends::delete(&self.client, pod, None).await
    }

    /// The pod stays after all.
    async fn cancel(&self, key: &PodKey) {
        if self.scheduled.cancel(key) {
            let (namespace, name) = (&key.0, &key.1);
            self.report(namespace, name, &format!("Cancelling deletion of Pod {namespace}/{name}")).await;
        }
    }

    async fn report(&self, namespace: &str, name: &str, message: &str) {
        let subject = Subject {
            api_version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            uid: String::new(),
            resource_version: String::new(),
        };
        self.recorder.record(&subject, EventType::Normal, "TaintManagerEviction", message).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Fixture;
    use registry::{Address, Patch};

    impl Fixture {
        async fn tolerant_pod(&self, name: &str, tolerations: &str) {
            let text = format!(
                r#"{{"metadata":{{"name":"{name}"}},"spec":{{"nodeName":"node","tolerations":[{tolerations}],"containers":[{{"name":"c","image":"i"}}]}}}}"#
            );
            self.create(Address::core("pods", "n"), &text).await;
        }

        async fn set_taints(&self, taints: &str) {
            let patch = format!(r#"{{"spec":{{"taints":[{taints}]}}}}"#);
            let node = Address::core("nodes", "").named("node");
            self.client.patch(node, Patch::Merge, patch.as_bytes()).await.unwrap();
        }

        fn is_ending(&self, name: &str) -> bool {
            self.lookup("pods", "n", name).is_none_or(|pod| pod.is_deleting())
        }
    }

    const TAINT: &str = r#"{"key":"k","value":"v","effect":"NoExecute"}"#;
    const ALWAYS: &str = r#"{"key":"k","operator":"Exists","effect":"NoExecute"}"#;
    const AN_HOUR: &str =
        r#"{"key":"k","operator":"Equal","value":"v","effect":"NoExecute","tolerationSeconds":3600}"#;

    #[tokio::test(start_paused = true)]
    async fn pods_leave_tainted_nodes_when_they_do_not_tolerate_them_any_more() {
        let fixture = Fixture::new().await;
        fixture.namespace("n").await;
        fixture.zone_node("node", "z", "1").await;
        fixture.tolerant_pod("none", "").await;
        fixture.tolerant_pod("hour", AN_HOUR).await;
        fixture.tolerant_pod("always", ALWAYS).await;
        let _running = fixture.start(&CONTROLLER);
        fixture.set_taints(TAINT).await;
        fixture.until("an eviction", async || fixture.is_ending("none")).await;
        fixture.until_event("n", "TaintManagerEviction", "Marking for deletion Pod n/none").await;
        let pod = fixture.client.get(Address::core("pods", "n").named("none")).await.unwrap();
        let condition = Pod::of(pod.as_map().unwrap())
            .status()
            .conditions()
            .iter()
            .find(|one| one.r#type() == "DisruptionTarget")
            .map(|one| one.reason().to_owned());
        assert_eq!(condition.as_deref(), Some("DeletionByTaintManager"));
        tokio::time::sleep(Duration::from_secs(3500)).await;
        assert!(!fixture.is_ending("hour"));
        tokio::time::sleep(Duration::from_secs(120)).await;
        fixture.until("another eviction", async || fixture.is_ending("hour")).await;
        // A pod that comes later.
        fixture.tolerant_pod("late", "").await;
        fixture.until("a third eviction", async || fixture.is_ending("late")).await;
        assert!(!fixture.is_ending("always"));
    }

    #[tokio::test(start_paused = true)]
    async fn evictions_are_cancelled_when_the_taint_goes() {
        let fixture = Fixture::new().await;
        fixture.namespace("n").await;
        fixture.zone_node("node", "z", "1").await;
        fixture.tolerant_pod("hour", AN_HOUR).await;
        fixture.set_taints(TAINT).await;
        let _running = fixture.start(&CONTROLLER);
        tokio::time::sleep(Duration::from_secs(1800)).await;
        fixture.set_taints("").await;
        fixture.until_event("n", "TaintManagerEviction", "Cancelling deletion of Pod n/hour").await;
        tokio::time::sleep(Duration::from_secs(7200)).await;
        assert!(!fixture.is_ending("hour"));
    }
}
