//! What the controllers of endpoints have in common: which services a pod belongs to, when a change of a pod
//! matters to them, and what a pod offers to a service.

mod trigger_time;

pub(crate) use trigger_time::TriggerTimes;

use crate::Context;
use crate::follow::{StartFrom, follow};
use crate::queue::Queue;
use crate::selectors::Selectors;
use cache::{Entry, Filter, Freshness, Query, Resource, Update};
use kinds::object_meta;
use object::label::Selector;
use object::name::address::parse_lenient;
use object::time::Time;
use object::{Map, Text, Value};
use schema::view::View as _;
use schema::views::core::v1::{Pod, Service, ServicePort};
use schema::{Builder, Part, Ref, Status, Type, stored};
use std::sync::{Arc, LazyLock};
use std::time::Duration;
use tasks::Task;

/// The annotation with the time of the change that made a controller write an object.
pub(crate) const TRIGGER_TIME: &str = "endpoints.kubernetes.io/last-change-trigger-time";
/// The label of objects that belong to a service without an address of its own.
pub(crate) const HEADLESS: &str = "service.kubernetes.io/headless";
/// How long changes of the pods of a service are collected.
const COLLECT: Duration = Duration::from_millis(10);

/// A service, by its namespace and name.
pub(crate) type Key = (Text, Text);

const CONTAINER: &[Part] = &[Part("name", &[]), Part("ports", &[]), Part("restartPolicy", &[])];

/// The fields of a pod that are decoded.
static POD: LazyLock<Ref<Type>> = LazyLock::new(|| {
    let metadata = Part("metadata", &[Part("name", &[]), Part("namespace", &[]), Part("uid", &[])]);
    let spec = Part(
        "spec",
        &[
            Part("containers", CONTAINER),
            Part("initContainers", CONTAINER),
            Part("nodeName", &[]),
            Part("hostname", &[]),
            Part("subdomain", &[]),
        ],
    );
    let status = Part(
        "status",
        &[Part("phase", &[]), Part("podIP", &[]), Part("podIPs", &[]), Part("conditions", &[])],
    );
    Builder::part_of(Pod::schema(), &[metadata, spec, status]).build()
});

/// A pod of a service.
pub(crate) struct Member {
    entry: Arc<Entry>,
    pod: Map,
}

/// The services, and the pods that they select.
pub(crate) struct ServicePods {
    pub(crate) queue: Arc<Queue<Key>>,
    services: Arc<Resource>,
    pods: Arc<Resource>,
    selectors: Arc<Selectors>,
    #[expect(dead_code, reason = "they end with their owner")]
    followers: [Task; 2],
}

impl ServicePods {
    /// Makes all services due, and from now on each that changes or whose pods change. `None` if services or
    /// pods are not served.
    pub(crate) fn follow(context: &Context) -> Option<Self> {
        let (services, pods) = (context.resource("services")?, context.resource("pods")?);
        let (queue, selectors) = (Arc::<Queue<Key>>::default(), Arc::<Selectors>::default());
        let of_pods = follow(pods.clone(), StartFrom::Now, {
            let (queue, selectors) = (queue.clone(), selectors.clone());
            move |update| match update {
                Update::Reset => queue.extend(selectors.all()),
                Update::Change { before, after } => {
                    for name in affected(&selectors, before, after) {
                        queue.add_after(name, COLLECT);
                    }
                }
            }
        });
        let of_services = follow(services.clone(), StartFrom::State, {
            let (queue, selectors) = (queue.clone(), selectors.clone());
            move |update| match update {
                Update::Reset => selectors.clear(),
                Update::Change { before, after } => {
                    let Some(service) = after.or(before) else { return };
                    let key: Key = (service.namespace().into(), service.name().into());
                    selectors.set(&key, after.and_then(|after| selector_of(after)));
                    queue.add(key);
                }
            }
        });
        Some(Self { queue, services, pods, selectors, followers: [of_services, of_pods] })
    }

    /// A service, with its bytes decoded.
    pub(crate) fn service(&self, key: &Key) -> Result<Option<(Arc<Entry>, Map)>, Status> {
        let entry = self.services.lookup(&key.0, &key.1).map_err(registry::status)?;
        entry
            .map(|entry| crate::objects::decode(Service::schema(), &entry).map(|service| (entry, service)))
            .transpose()
    }

    /// The pods that a service selects, in the order of their names.
    pub(crate) async fn members(&self, key: &Key, service: &Map) -> Result<Vec<Member>, Status> {
        let selector = Selector::from_labels(Service::of(service).spec().selector().iter());
        let filter = Filter::namespace(key.0.as_str()).labels(selector);
        let list = self.pods.list(Query::new(Freshness::Any, filter)).await.map_err(registry::status)?;
        list.map(Member::read).collect()
    }

    /// The services with a selector.
    pub(crate) fn selectors(&self) -> &Selectors {
        &self.selectors
    }
}

/// The selector of a service; `None` if it selects nothing.
fn selector_of(entry: &Entry) -> Option<Selector> {
    static PART: LazyLock<Ref<Type>> = LazyLock::new(|| {
        Builder::part_of(Service::schema(), &[Part("spec", &[Part("selector", &[])])]).build()
    });
    let service = stored::logged(entry, stored::decode_part(&PART, entry.bytes()))?;
    let selector = Service::of(&service).spec().selector();
    (!selector.is_empty()).then(|| Selector::from_labels(selector.iter()))
}

/// The services to which a change of a pod matters.
fn affected(selectors: &Selectors, before: Option<&Arc<Entry>>, after: Option<&Arc<Entry>>) -> Vec<Key> {
    let matching = |pod: Option<&Arc<Entry>>| pod.map(|pod| selectors.matching(pod)).unwrap_or_default();
    let (old, new) = (matching(before), matching(after));
    if old.is_empty() && new.is_empty() {
        return Vec::new();
    }
    let is_same = match (before, after) {
        (Some(before), Some(after)) if before.uid() == after.uid() => is_same_offer(before, after),
        _ => false,
    };
    let mut affected = old.clone();
    affected.extend(new.iter().filter(|key| !old.contains(key)).cloned());
    if is_same {
        affected.retain(|key| old.contains(key) != new.contains(key));
    }
    affected
}

/// Whether a pod offers the same before and after a change, whichever services it belongs to.
fn is_same_offer(before: &Arc<Entry>, after: &Arc<Entry>) -> bool {
    let (Ok(before), Ok(after)) = (Member::read(before.clone()), Member::read(after.clone())) else {
        return false;
    };
    before.entry.is_deleting() == after.entry.is_deleting()
        && before.is_ready() == after.is_ready()
        && before.is_terminal() == after.is_terminal()
        && before.addresses() == after.addresses()
        && before.pod().spec().hostname() == after.pod().spec().hostname()
        && before.pod().spec().subdomain() == after.pod().spec().subdomain()
        && before.pod().spec().node_name() == after.pod().spec().node_name()
}

impl Member {
    fn read(entry: Arc<Entry>) -> Result<Self, Status> {
        let pod = crate::objects::decode_part(&POD, &entry)?;
        Ok(Self { entry, pod })
    }

    pub(crate) fn pod(&self) -> Pod<'_> {
        Pod::of(&self.pod)
    }

    pub(crate) fn name(&self) -> &str {
        self.entry.name()
    }

    pub(crate) fn is_deleting(&self) -> bool {
        self.entry.is_deleting()
    }

    fn condition_ready(&self) -> Option<schema::views::core::v1::PodCondition<'_>> {
        self.pod().status().conditions().iter().find(|condition| condition.r#type() == "Ready")
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.condition_ready().is_some_and(|condition| condition.status() == "True")
    }

    fn is_terminal(&self) -> bool {
        crate::workloads::pod::is_finished(&self.entry)
    }

    /// When the pod became ready, or stopped to be.
    pub(crate) fn trigger_time(&self) -> Option<Time> {
        self.condition_ready()?.last_transition_time()?.parse().ok()
    }

    /// The addresses of the pod in their canonical form.
    pub(crate) fn addresses(&self) -> Vec<std::net::IpAddr> {
        let addresses = self.pod().status().pod_ips();
        let parsed = addresses.iter().filter_map(|address| parse_lenient(address.ip()));
        parsed.map(|address| address.to_canonical()).collect()
    }

    /// Whether the pod has an address, and can still run.
    pub(crate) fn may_be_endpoint(&self) -> bool {
        let status = self.pod().status();
        let has_address = !status.pod_ip().is_empty() || !status.pod_ips().is_empty();
        has_address && !self.is_terminal()
    }

    /// The host name under which a headless service publishes the pod.
    pub(crate) fn hostname_for(&self, service: &str) -> Option<&str> {
        let spec = self.pod().spec();
        (!spec.hostname().is_empty() && spec.subdomain() == service).then(|| spec.hostname())
    }

    /// The reference to the pod.
    pub(crate) fn reference(&self) -> Map {
        [
            ("kind", "Pod"),
            ("namespace", self.entry.namespace()),
            ("name", self.entry.name()),
            ("uid", self.entry.uid()),
        ]
        .into_iter()
        .collect()
    }

    /// The port of the pod that a port of a service leads to. A name is looked up in the containers, and in
    /// the init containers that go on running. `None` if no container has such a port.
    pub(crate) fn port(&self, port: ServicePort<'_>) -> Option<i64> {
        let name = match port.target_port() {
            Some(Value::String(name)) => name.as_str(),
            target => return target.and_then(Value::as_i64),
        };
        let spec = self.pod().spec();
        let sidecars = spec.init_containers().iter().filter(|one| one.restart_policy() == Some("Always"));
        spec.containers()
            .iter()
            .chain(sidecars)
            .flat_map(|container| container.ports().iter())
            .find(|own| own.name() == name && own.protocol() == port.protocol())
            .map(|own| own.container_port())
    }
}

/// Whether the service has an address of its own.
pub(crate) fn has_address(service: &Map) -> bool {
    !matches!(Service::of(service).spec().cluster_ip(), "" | "None")
}

/// When a service was created.
pub(crate) fn created(service: &Map) -> Option<Time> {
    object_meta::text(service, "creationTimestamp").parse().ok()
}

/// Sets the annotation with the time of the change that is written, or removes it.
pub(crate) fn set_trigger_time(object: &mut Map, time: Option<Time>) {
    match time {
        Some(time) => crate::objects::annotate(object, TRIGGER_TIME, &time.text()),
        None => crate::objects::remove_annotation(object, TRIGGER_TIME),
    }
}

#[cfg(test)]
pub(crate) mod tests;
