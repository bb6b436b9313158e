//! The controller `endpoints-controller`: keeps the Endpoints of each service that selects pods.

pub(crate) mod subsets;

use crate::follow::{StartFrom, follow};
use crate::objects::{annotation, is_namespace_terminating, unless_changed};
use crate::queue::{Reconcile, RequeueAfter};
use crate::service_pods::{
    HEADLESS, Key, Member, ServicePods, TriggerTimes, created, has_address, set_trigger_time,
};
use crate::{Context, Controller, EventType, Recorder, Subject};
use cache::{Cursor, Entry, Resource, Update};
use kinds::object_meta;
use object::{List, Map, Value};
use registry::{Address, Client, DeleteOptions};
use schema::Status;
use schema::status::Reason;
use schema::view::View as _;
use schema::views::core::v1::{Endpoints, Service};
use std::sync::Arc;
use subsets::Offer;

pub(crate) const CONTROLLER: Controller = Controller {
    name: "endpoints-controller",
    alias: "endpoint",
    account: NAME,
    stores: crate::Stores::Own,
    run: |context| Box::pin(run(context)),
};

/// The name of the controller in labels and events.
const NAME: &str = "endpoint-controller";
const MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";
const OVER_CAPACITY: &str = "endpoints.kubernetes.io/over-capacity";
/// The annotation of Endpoints that an election of leaders uses; they belong to no service.
pub(crate) const LEADER: &str = "control-plane.alpha.kubernetes.io/leader";

async fn run(context: Context) {
    let Some(endpoints) = context.resource("endpoints") else { return };
    let Some(service_pods) = ServicePods::follow(&context) else { return };
    let queue = service_pods.queue.clone();
    let _endpoints = follow(endpoints.clone(), StartFrom::Now, {
        let (queue, endpoints) = (queue.clone(), endpoints.clone());
        move |update| match update {
            Update::Reset => queue.extend(left_over(&endpoints)),
            Update::Change { before: Some(gone), after: None } => {
                queue.add((gone.namespace().into(), gone.name().into()));
            }
            Update::Change { .. } => {}
        }
    });
    queue.extend(left_over(&endpoints));
    let worker = Worker {
        client: context.client.clone(),
        recorder: Recorder::new(context.client.clone(), NAME),
        context: context.clone(),
        service_pods,
        endpoints,
        trigger_times: TriggerTimes::default(),
    };
    queue.work(&context, 5, Arc::new(worker)).await;
}

/// All Endpoints but those of elections: their service may be gone.
fn left_over(endpoints: &Arc<Resource>) -> Vec<Key> {
    let mut found = Vec::new();
    Cursor::new(endpoints.clone()).advance(|update| {
        if let Update::Change { after: Some(entry), .. } = update
            && !crate::objects::mentions(entry, LEADER)
        {
            found.push((entry.namespace().into(), entry.name().into()));
        }
    });
    found
}

struct Worker {
    client: Client,
    recorder: Recorder,
    context: Context,
    service_pods: ServicePods,
    endpoints: Arc<Resource>,
    trigger_times: TriggerTimes,
}

impl Reconcile for Worker {
    type Key = Key;

    async fn reconcile(&self, key: &Key) -> Result<RequeueAfter, Status> {
        let Some((_, service)) = self.service_pods.service(key)? else {
            self.trigger_times.forget(key);
            self.remove(key).await?;
            return Ok(None);
        };
        let spec = Service::of(&service).spec();
        if spec.r#type() == "ExternalName" || spec.selector().is_empty() {
            return Ok(None);
        }
        let pods = self.service_pods.members(key, &service).await?;
        let triggered = self.trigger_times.compute(key, created(&service), &pods);
        let (mut subsets, is_truncated) = subsets::truncated(subsets::packed(&offers(&service, &pods)));
        subsets::sort(&mut subsets);
        let current = self.endpoints.lookup(&key.0, &key.1).map_err(registry::status)?;
        let current = match current {
            None => None,
            Some(entry) => Some((crate::objects::decode(Endpoints::schema(), &entry)?, entry)),
        };
        if let Some((object, _)) = &current
            && is_up_to_date(object, &service, &subsets, is_truncated)
        {
            return Ok(None);
        }
        let mut object = current.as_ref().map_or_else(Map::new, |(object, _)| object.clone());
        fill(&mut object, key, &service, subsets, is_truncated);
        set_trigger_time(&mut object, triggered);
        let outcome = match &current {
            None => self.create(key, object).await,
            Some((_, entry)) => self.update(key, entry, object).await,
        };
        outcome.map(|()| None)
    }
}

/// What each pod offers to a service.
fn offers(service: &Map, pods: &[Member]) -> Vec<Offer> {
    let service = Service::of(service);
    let spec = service.spec();
    let wants_ipv6 = spec.ip_families().get(0) == Some("IPv6");
    let mut offers = Vec::new();
    for pod in pods {
        if !pod.may_be_endpoint() || pod.is_deleting() && !spec.publish_not_ready_addresses() {
            continue;
        }
        let Some(ip) = pod.addresses().into_iter().find(|ip| ip.is_ipv6() == wants_ipv6) else { continue };
        let mut address = Map::new();
        address.insert("ip", ip.to_string());
        if let Some(hostname) = pod.hostname_for(service.metadata().name()) {
            address.insert("hostname", hostname);
        }
        address.insert("nodeName", pod.pod().spec().node_name());
        address.insert("targetRef", pod.reference());
        let is_ready = spec.publish_not_ready_addresses() || pod.is_ready();
        if spec.ports().is_empty() && spec.cluster_ip() == "None" {
            offers.push(Offer { address: address.clone(), is_ready, port: None });
        }
        for port in spec.ports().iter() {
            let Some(number) = pod.port(port) else { continue };
            let mut offered = Map::new();
            if !port.name().is_empty() {
                offered.insert("name", port.name());
            }
            offered.insert("port", number);
            offered.insert("protocol", port.protocol());
            if let Some(protocol) = port.app_protocol() {
                offered.insert("appProtocol", protocol);
            }
            offers.push(Offer { address: address.clone(), is_ready, port: Some(offered) });
        }
    }
    offers
}

fn is_up_to_date(object: &Map, service: &Map, wanted: &[Map], is_truncated: bool) -> bool {
    let mut current: Vec<Map> = Endpoints::of(object).subsets().iter().map(|one| one.map().clone()).collect();
    subsets::sort(&mut current);
    subsets::forget_versions(&mut current);
    current == wanted
        && has_labels_of(object, service)
        && is_truncated != annotation(object, OVER_CAPACITY).is_empty()
}

/// Whether the labels are those of the service, and those that the controller sets.
fn has_labels_of(object: &Map, service: &Map) -> bool {
    let (own, wanted) = (Endpoints::of(object).metadata().labels(), Service::of(service).metadata().labels());
    let is_own = |key: &str| matches!(key, HEADLESS | MANAGED_BY);
    own.get(MANAGED_BY) == Some(NAME)
        && own.iter().filter(|(key, _)| !is_own(key)).all(|(key, value)| wanted.get(key) == Some(value))
        && wanted.iter().filter(|(key, _)| !is_own(key)).all(|(key, _)| own.get(key).is_some())
}

fn fill(object: &mut Map, key: &Key, service: &Map, subsets: Vec<Map>, is_truncated: bool) {
    let metadata = object.get_or_insert_with("metadata", || Map::new().into());
    if let Some(metadata) = metadata.as_map_mut() {
        metadata.insert("namespace", key.0.clone());
        metadata.insert("name", key.1.clone());
        let mut labels = Service::of(service).metadata().labels().map().clone();
        if has_address(service) {
            labels.remove(HEADLESS);
        } else {
            labels.insert(HEADLESS, "");
        }
        labels.insert(MANAGED_BY, NAME);
        metadata.insert("labels", labels);
    }
    match subsets.is_empty() {
        true => drop(object.remove("subsets")),
        false => {
            object.insert("subsets", subsets.into_iter().map(Value::from).collect::<List>());
        }
    }
    match is_truncated {
        true => crate::objects::annotate(object, OVER_CAPACITY, "truncated"),
        false => crate::objects::remove_annotation(object, OVER_CAPACITY),
    }
}

impl Worker {
    /// Removes the Endpoints of a service that is gone.
    async fn remove(&self, key: &Key) -> Result<(), Status> {
        if self.endpoints.lookup(&key.0, &key.1).map_err(registry::status)?.is_none() {
            return Ok(());
        }
        let address = Address::core("endpoints", &key.0).named(&key.1);
        unless_changed(self.client.delete(address, &DeleteOptions::default()).await)
    }

    async fn create(&self, key: &Key, object: Map) -> Result<(), Status> {
        let address = Address::core("endpoints", &key.0);
        let Err(error) = self.client.create(address, object.into()).await else { return Ok(()) };
        if is_namespace_terminating(&error) {
            return Ok(());
        }
        let subject = Subject {
            api_version: "v1".to_owned(),
            kind: "Endpoints".to_owned(),
            namespace: key.0.to_string(),
            name: key.1.to_string(),
            uid: String::new(),
            resource_version: String::new(),
        };
        let why = format!("Failed to create endpoint for service {}/{}: {}", key.0, key.1, error.message);
        self.recorder.record(&subject, EventType::Warning, "FailedToCreateEndpoint", &why).await;
        Err(error)
    }

    async fn update(&self, key: &Key, current: &Arc<Entry>, object: Map) -> Result<(), Status> {
        let address = Address::core("endpoints", &key.0).named(&key.1);
        let desired = desired(&object);
        let written = self
            .context
            .corrections
            .write(current, desired, self.client.update(address, object.into()))
            .await;
        let Err(error) = written else { return Ok(()) };
        if error.reason != Reason::Conflict {
            let why = format!("Failed to update endpoint {}/{}: {}", key.0, key.1, error.message);
            let subject = Subject::of(current, "v1", "Endpoints");
            self.recorder.record(&subject, EventType::Warning, "FailedToUpdateEndpoint", &why).await;
        }
        Err(error)
    }
}

/// What the controller wants of Endpoints, as text.
fn desired(object: &Map) -> String {
    let labels = object_meta::metadata(object).and_then(|metadata| metadata.get("labels"));
    format!("{labels:?} {:?}", object.get("subsets"))
}

#[cfg(test)]
mod tests;
