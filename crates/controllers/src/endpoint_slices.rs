//! The controller `endpointslice-controller`: keeps the EndpointSlices of each service that selects pods, at
//! most [`MOST_ENDPOINTS`] endpoints in each.
//!
//! Endpoints stay in the slice in which they are, so that a change of one pod writes one slice. `plan` says
//! which slices change, `hints` and `traffic` add the zones and nodes for which endpoints are.

pub(crate) mod endpoint;
mod hints;
pub(crate) mod plan;
pub(crate) mod slice;
mod traffic;

use crate::follow::{StartFrom, follow};
use crate::objects::is_namespace_terminating;
use crate::queue::{Queue, Reconcile, RequeueAfter};
use crate::service_pods::{Key, Member, ServicePods, TriggerTimes, created, set_trigger_time};
use crate::{Context, Controller, EventType, Recorder, Subject};
use cache::{Entry, Filter, Freshness, Query, Resource, Update};
use hints::{Hints, ServiceHints};
use kinds::object_meta;
use object::label::Selector;
use object::time::Time;
use object::{Map, Text};
use plan::{AddressType, Plan, Wanted};
use registry::{Address, Client, DeleteOptions};
use schema::Status;
use schema::status::Reason;
use schema::view::View as _;
use schema::views::core::v1::Service;
use schema::views::discovery::v1::EndpointSlice;
use slice::Slice;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

pub(crate) const CONTROLLER: Controller = Controller {
    name: "endpointslice-controller",
    alias: "endpointslice",
    account: "endpointslice-controller",
    stores: crate::Stores::Own,
    run: |context| Box::pin(run(context)),
};

/// The controller in the label of its slices.
const MANAGER: &str = "endpointslice-controller.k8s.io";
/// The component of events.
const COMPONENT: &str = "endpoint-slice-controller";
/// The label with the controller of a slice.
pub(crate) const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
/// The label with the service of a slice.
pub(crate) const SERVICE_NAME: &str = "kubernetes.io/service-name";
/// The label of a node with its zone.
pub(crate) const ZONE: &str = "topology.kubernetes.io/zone";
/// The most endpoints of a slice.
pub(crate) const MOST_ENDPOINTS: usize = 100;
/// How long changes of the slices of a service by others are collected.
pub(crate) const COLLECT: Duration = Duration::from_secs(1);

/// Slices, as addresses.
pub(crate) const fn slices_of(namespace: &str) -> Address<'_> {
    Address::v1("discovery.k8s.io", "endpointslices", namespace)
}

async fn run(context: Context) {
    let (Some(slices), Some(nodes)) =
        (context.resource("endpointslices.discovery.k8s.io"), context.resource("nodes"))
    else {
        return;
    };
    let Some(service_pods) = ServicePods::follow(&context) else { return };
    let queue = service_pods.queue.clone();
    let worker = Arc::new(Worker {
        client: context.client.clone(),
        recorder: Recorder::new(context.client.clone(), COMPONENT),
        service_pods,
        slices: slices.clone(),
        nodes: nodes.clone(),
        trigger_times: TriggerTimes::default(),
        hints: Hints::default(),
        missing_nodes: Mutex::default(),
    });
    let _slices = follow(slices, StartFrom::Now, {
        let worker = worker.clone();
        move |update| match update {
            Update::Reset => worker.service_pods.queue.extend(worker.service_pods.selectors().all()),
            Update::Change { before, after } => {
                for slice in before.into_iter().chain(after) {
                    queue_service(&worker.service_pods.queue, slice, MANAGER);
                }
            }
        }
    });
    let _nodes = follow(nodes.clone(), StartFrom::State, {
        let worker = worker.clone();
        move |update| worker.node_changed(update)
    });
    queue.work(&context, 5, worker).await;
}

/// Makes the service of a slice due, if the slice belongs to a controller.
pub(crate) fn queue_service(queue: &Queue<Key>, slice: &Arc<Entry>, manager: &str) {
    use object::label::Labels as _;
    if slice.label(MANAGED_BY) == Some(manager)
        && let Some(service) = slice.label(SERVICE_NAME).filter(|service| !service.is_empty())
    {
        queue.add_after((slice.namespace().into(), service.into()), COLLECT);
    }
}

struct Worker {
    client: Client,
    recorder: Recorder,
    service_pods: ServicePods,
    slices: Arc<Resource>,
    nodes: Arc<Resource>,
    trigger_times: TriggerTimes,
    hints: Hints,
    /// The services with pods on nodes that do not exist.
    missing_nodes: Mutex<HashMap<Text, HashSet<Key>>>,
}

impl Worker {
    /// A node came, went or changed: services that wait for it are due, and those whose hints do not fit the
    /// zones any more.
    fn node_changed(&self, update: Update<'_>) {
        let Update::Change { before, after } = update else {
            self.hints.forget_nodes();
            return;
        };
        if let (None, Some(node)) = (before, after) {
            let mut missing = self.missing_nodes.lock().unwrap_or_else(PoisonError::into_inner);
            self.service_pods.queue.extend(missing.remove(node.name()).into_iter().flatten());
        }
        let overloaded = self.hints.set_node(before.or(after).map(|node| node.name()), after);
        self.service_pods.queue.extend(overloaded);
    }

    /// The slices of a service that this controller made and that are not being deleted.
    async fn existing(&self, key: &Key) -> Result<Vec<Slice>, Status> {
        let labels = [(SERVICE_NAME, key.1.as_str()), (MANAGED_BY, MANAGER)];
        let filter = Filter::namespace(key.0.as_str()).labels(Selector::from_labels(labels));
        let list = self.slices.list(Query::new(Freshness::Any, filter)).await.map_err(registry::status)?;
        list.filter(|slice| !slice.is_deleting()).map(|slice| Slice::read(&slice)).collect()
    }

    /// The endpoints of the pods of a service, and what was passed over.
    fn wanted(
        &self,
        key: &Key,
        service: &Map,
        pods: &[Member],
        address_type: AddressType,
    ) -> Result<(Wanted, Vec<String>), Status> {
        let (mut wanted, mut errors) = (Wanted::default(), Vec::new());
        let publishes = Service::of(service).spec().publish_not_ready_addresses();
        for pod in pods.iter().filter(|pod| pod.may_be_endpoint()) {
            let group = wanted.group(endpoint::ports(service, pod));
            let node_name = pod.pod().spec().node_name();
            let node = match node_name {
                "" => None,
                name => self.nodes.lookup("", name).map_err(registry::status)?,
            };
            if node.is_none() && !publishes {
                let mut missing = self.missing_nodes.lock().unwrap_or_else(PoisonError::into_inner);
                missing.entry(node_name.into()).or_default().insert(key.clone());
                errors.push(format!(
                    "skipping Pod {} for Service {}/{}: Node {node_name} Not Found",
                    pod.name(),
                    key.0,
                    key.1
                ));
                continue;
            }
            if let Some(endpoint) = endpoint::of_pod(service, pod, node.as_deref(), address_type) {
                group.insert(endpoint::key(&endpoint), endpoint);
            }
        }
        Ok((wanted, errors))
    }
}

impl Reconcile for Worker {
    type Key = Key;

    async fn reconcile(&self, key: &Key) -> Result<RequeueAfter, Status> {
        let Some((entry, service)) = self.service_pods.service(key)? else {
            self.trigger_times.forget(key);
            self.hints.forget(key);
            return Ok(None);
        };
        let spec = Service::of(&service).spec();
        if spec.r#type() == "ExternalName" || spec.selector().is_empty() {
            return Ok(None);
        }
        let pods = self.service_pods.members(key, &service).await?;
        let existing = self.existing(key).await?;
        let triggered = self.trigger_times.compute(key, created(&service), &pods);
        let subject = Subject::of(&entry, "v1", "Service");
        let (errors, failed) =
            self.reconcile_service(key, &service, &subject, &pods, existing, triggered).await?;
        let failed = failed.filter(|error| error.reason != Reason::Conflict || errors.is_empty());
        let mut texts = errors;
        texts.extend(
            failed.iter().filter(|error| error.reason != Reason::Conflict).map(|error| error.message.clone()),
        );
        if !texts.is_empty() {
            let all = match texts.as_slice() {
                [one] => one.clone(),
                several => format!("[{}]", several.join(", ")),
            };
            let why = format!("Error updating Endpoint Slices for Service {}/{}: {all}", key.0, key.1);
            self.recorder.record(&subject, EventType::Warning, "FailedToUpdateEndpointSlices", &why).await;
        }
        failed.map_or(Ok(None), Err)
    }
}

impl Worker {
    /// Brings the slices of all address types up to date. Returns what was passed over, and the error of the
    /// last write that failed.
    async fn reconcile_service(
        &self,
        key: &Key,
        service: &Map,
        subject: &Subject,
        pods: &[Member],
        existing: Vec<Slice>,
        triggered: Option<Time>,
    ) -> Result<(Vec<String>, Option<Status>), Status> {
        let (mut errors, mut failed) = (Vec::new(), None);
        let types = AddressType::of_service(service);
        let (unwanted, mut existing): (Vec<Slice>, Vec<Slice>) = existing
            .into_iter()
            .partition(|slice| !types.iter().any(|ty| slice.address_type() == ty.as_str()));
        for &address_type in &types {
            let (own, others) =
                existing.into_iter().partition(|slice| slice.address_type() == address_type.as_str());
            existing = others;
            let (wanted, passed_over) = self.wanted(key, service, pods, address_type)?;
            errors.extend(passed_over);
            let mut plan = Plan::make(service, address_type, MANAGER, wanted, own);
            let mut events = Vec::new();
            let distribution = traffic::preference(service);
            if hints::are_enabled(service) {
                events = self.hints.add(key, address_type, &mut plan);
            } else {
                events.extend(self.hints.disabled(key, address_type));
                if distribution.is_none() {
                    plan.remove_hints();
                }
            }
            if let Some(preference) = distribution.filter(|_| !hints::are_enabled(service)) {
                traffic::add_hints(preference, &mut plan);
            }
            if let Err(error) = self.write(key, service, plan, triggered).await {
                failed = Some(error);
            }
            for ServiceHints { event_type, reason, message } in events {
                self.recorder.record(subject, event_type, reason, &message).await;
            }
        }
        for slice in unwanted {
            if let Some(address_type) = AddressType::read(slice.address_type()) {
                self.hints.forget_type(key, address_type);
            }
            if let Err(mut error) = self.delete(key, &slice).await {
                error.message = format!(
                    "error deleting {} EndpointSlice for Service {}/{}: {}",
                    slice.name(),
                    key.0,
                    key.1,
                    error.message
                );
                failed = Some(error);
            }
        }
        Ok((errors, failed))
    }

    async fn write(
        &self,
        key: &Key,
        service: &Map,
        plan: Plan,
        triggered: Option<Time>,
    ) -> Result<(), Status> {
        write(&self.client, key, service, plan, triggered).await
    }

    async fn delete(&self, key: &Key, slice: &Slice) -> Result<(), Status> {
        delete(&self.client, key, slice).await
    }
}

async fn delete(client: &Client, key: &Key, slice: &Slice) -> Result<(), Status> {
    let outcome = client.delete(slices_of(&key.0).named(slice.name()), &DeleteOptions::default()).await;
    outcome.or_else(|error| if error.reason == Reason::NotFound { Ok(()) } else { Err(error) })
}

/// Writes what a plan says. Slices are created unless the service is being deleted.
async fn write(
    client: &Client,
    key: &Key,
    service: &Map,
    mut plan: Plan,
    triggered: Option<Time>,
) -> Result<(), Status> {
    plan.reuse_slices(service);
    let of = |verb: &str, name: &str, mut error: Status| {
        let space = if name.is_empty() { "" } else { " " };
        let message = &error.message;
        error.message =
            format!("failed to {verb}{space}{name} EndpointSlice for Service {}/{}: {message}", key.0, key.1);
        error
    };
    if !object_meta::is_deleting(service) {
        for slice in plan.create {
            let mut object = slice.into_object();
            set_trigger_time(&mut object, triggered);
            match client.create(slices_of(&key.0), object.into()).await {
                Err(error) if is_namespace_terminating(&error) => return Ok(()),
                outcome => outcome.map_err(|error| of("create", "", error))?,
            };
        }
    }
    for slice in plan.update {
        let name = slice.name().to_owned();
        let mut object = slice.into_object();
        set_trigger_time(&mut object, triggered);
        let outcome = client.update(slices_of(&key.0).named(&name), object.into()).await;
        outcome.map_err(|error| of("update", &name, error))?;
    }
    for slice in plan.delete {
        delete(client, key, &slice).await.map_err(|error| of("delete", slice.name(), error))?;
    }
    Ok(())
}

/// Whether a slice belongs to a service, by its owners.
fn is_owned_by(slice: &Map, service: &Map) -> bool {
    let uid = object_meta::text(service, "uid");
    let mut owners = EndpointSlice::of(slice).metadata().owner_references().iter();
    owners.any(|owner| owner.uid() == uid && owner.kind() == "Service" && owner.api_version() == "v1")
}

#[cfg(test)]
mod tests;
