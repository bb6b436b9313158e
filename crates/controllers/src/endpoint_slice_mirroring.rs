//! The controller `endpointslice-mirroring-controller`: mirrors the Endpoints that people write for a service
//! without a selector to EndpointSlices, one for each subset and family of addresses.

use crate::endpoint_slices::endpoint::{self, EndpointKey};
use crate::endpoint_slices::plan::prefix;
use crate::endpoint_slices::slice::{PortKey, Slice};
use crate::endpoint_slices::{MANAGED_BY, SERVICE_NAME, queue_service, slices_of};
use crate::endpoints::LEADER;
use crate::endpoints::subsets::{self, Offer};
use crate::follow::{StartFrom, follow};
use crate::objects::{decode, is_namespace_terminating};
use crate::queue::{Queue, Reconcile, RequeueAfter};
use crate::service_pods::{Key, TRIGGER_TIME};
use crate::{Context, Controller, EventType, Recorder, Subject};
use cache::{Entry, Filter, Freshness, Query, Resource, Update};
use kinds::object_meta;
use object::label::Selector;
use object::name::address::parse_lenient;
use object::{List, Map, Value};
use registry::{Client, DeleteOptions};
use schema::Status;
use schema::status::Reason;
use schema::view::View as _;
use schema::views::core::v1::{EndpointAddress, EndpointSubset, Endpoints, Service};
use std::collections::BTreeMap;
use std::sync::Arc;

pub(crate) const CONTROLLER: Controller = Controller {
    name: "endpointslice-mirroring-controller",
    alias: "endpointslicemirroring",
    account: "endpointslicemirroring-controller",
    stores: crate::Stores::Own,
    run: |context| Box::pin(run(context)),
};

/// The controller in the label of its slices.
const MANAGER: &str = "endpointslicemirroring-controller.k8s.io";
/// The component of events.
const COMPONENT: &str = "endpoint-slice-mirroring-controller";
/// The label of Endpoints that are not mirrored.
const SKIP: &str = "endpointslice.kubernetes.io/skip-mirror";
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// The most addresses of a subset that are mirrored.
const MOST_ADDRESSES: usize = 1000;

async fn run(context: Context) {
    let (Some(endpoints), Some(services), Some(slices)) = (
        context.resource("endpoints"),
        context.resource("services"),
        context.resource("endpointslices.discovery.k8s.io"),
    ) else {
        return;
    };
    let queue: Arc<Queue<Key>> = Arc::default();
    let add = |queue: &Arc<Queue<Key>>| {
        let queue = queue.clone();
        move |update: Update<'_>| {
            if let Update::Change { before, after } = update
                && let Some(entry) = after.or(before)
            {
                queue.add((entry.namespace().into(), entry.name().into()));
            }
        }
    };
    let _endpoints = follow(endpoints.clone(), StartFrom::State, add(&queue));
    let _services = follow(services.clone(), StartFrom::Now, add(&queue));
    let _slices = follow(slices.clone(), StartFrom::Now, {
        let queue = queue.clone();
        move |update| {
            if let Update::Change { before, after } = update {
                for slice in before.into_iter().chain(after) {
                    queue_service(&queue, slice, MANAGER);
                }
            }
        }
    });
    let worker = Worker {
        client: context.client.clone(),
        recorder: Recorder::new(context.client.clone(), COMPONENT),
        endpoints,
        services,
        slices,
    };
    queue.work(&context, 5, Arc::new(worker)).await;
}

struct Worker {
    client: Client,
    recorder: Recorder,
    endpoints: Arc<Resource>,
    services: Arc<Resource>,
    slices: Arc<Resource>,
}

/// The slices of one family of addresses and one group of ports, or what should be in them.
type ByPorts<T> = BTreeMap<(&'static str, Vec<PortKey>), T>;

impl Reconcile for Worker {
    type Key = Key;

    async fn reconcile(&self, key: &Key) -> Result<RequeueAfter, Status> {
        let existing = self.existing(key).await?;
        let Some((entry, endpoints)) = self.mirrored(key)? else {
            for slice in &existing {
                self.delete(key, slice).await?;
            }
            return Ok(None);
        };
        let (wanted, skipped) = wanted(&endpoints);
        let subject = Subject::of(&entry, "v1", "Endpoints");
        self.report(&subject, &skipped).await;
        self.write(key, &endpoints, wanted, existing).await.map(|()| None)
    }
}

impl Worker {
    /// The Endpoints, if they are to be mirrored.
    fn mirrored(&self, key: &Key) -> Result<Option<(Arc<Entry>, Map)>, Status> {
        use object::label::Labels as _;
        let Some(entry) = self.endpoints.lookup(&key.0, &key.1).map_err(registry::status)? else {
            return Ok(None);
        };
        if entry.label(SKIP) == Some("true") {
            return Ok(None);
        }
        let endpoints = decode(Endpoints::schema(), &entry)?;
        if Endpoints::of(&endpoints).metadata().annotations().get(LEADER).is_some() {
            return Ok(None);
        }
        let Some(service) = self.services.lookup(&key.0, &key.1).map_err(registry::status)? else {
            return Ok(None);
        };
        let service = decode(Service::schema(), &service)?;
        Ok(Service::of(&service).spec().selector().is_empty().then_some((entry, endpoints)))
    }

    async fn existing(&self, key: &Key) -> Result<Vec<Slice>, Status> {
        let labels = [(SERVICE_NAME, key.1.as_str()), (MANAGED_BY, MANAGER)];
        let filter = Filter::namespace(key.0.as_str()).labels(Selector::from_labels(labels));
        let list = self.slices.list(Query::new(Freshness::Any, filter)).await.map_err(registry::status)?;
        list.map(|slice| Slice::read(&slice)).collect()
    }

    async fn delete(&self, key: &Key, slice: &Slice) -> Result<(), Status> {
        let outcome =
            self.client.delete(slices_of(&key.0).named(slice.name()), &DeleteOptions::default()).await;
        outcome.or_else(|error| if error.reason == Reason::NotFound { Ok(()) } else { Err(error) })
    }

    async fn report(&self, subject: &Subject, skipped: &Skipped) {
        if skipped.invalid > 0 {
            let text =
                format!("Skipped {} invalid IP addresses when mirroring to EndpointSlices", skipped.invalid);
            self.recorder.record(subject, EventType::Warning, "InvalidIPAddress", &text).await;
        }
        if skipped.all > skipped.invalid {
            let text = format!(
                "A max of {MOST_ADDRESSES} addresses can be mirrored to EndpointSlices per Endpoints subset. {} addresses were skipped",
                skipped.all
            );
            self.recorder.record(subject, EventType::Warning, "TooManyAddressesToMirror", &text).await;
        }
    }

    /// Makes the slices those that are wanted. A slice that is not wanted any more is taken for a new one.
    async fn write(
        &self,
        key: &Key,
        endpoints: &Map,
        wanted: ByPorts<BTreeMap<EndpointKey, Map>>,
        existing: Vec<Slice>,
    ) -> Result<(), Status> {
        let mut by_ports: BTreeMap<(String, Vec<PortKey>), Vec<Slice>> = BTreeMap::new();
        for slice in existing {
            by_ports.entry((slice.address_type().to_owned(), slice.ports())).or_default().push(slice);
        }
        let (mut create, mut update, mut delete) = (Vec::new(), Vec::new(), Vec::new());
        for ((address_type, ports), wanted) in wanted {
            let own = by_ports.remove(&(address_type.to_owned(), ports.clone())).unwrap_or_default();
            let mut own = own.into_iter();
            let kept = if wanted.is_empty() { None } else { own.next() };
            delete.extend(own);
            if wanted.is_empty()
                || kept.as_ref().is_some_and(|slice| is_up_to_date(slice, endpoints, &wanted))
            {
                continue;
            }
            let mut slice = Slice::new(metadata(endpoints), address_type, &ports);
            slice.endpoints = wanted.into_values().collect();
            match kept {
                None => create.push(slice),
                Some(old) => {
                    slice.set_metadata("name", old.name());
                    update.push(slice);
                }
            }
        }
        delete.extend(by_ports.into_values().flatten());
        for mut slice in std::mem::take(&mut create) {
            match delete.iter().position(|old| old.address_type() == slice.address_type()) {
                None => create.push(slice),
                Some(at) => {
                    slice.set_metadata("name", delete.remove(at).name());
                    update.push(slice);
                }
            }
        }
        if !object_meta::is_deleting(endpoints) {
            for mut slice in create {
                slice.set_metadata("generateName", prefix(&key.1));
                match self.client.create(slices_of(&key.0), slice.into_object().into()).await {
                    Err(error) if is_namespace_terminating(&error) => return Ok(()),
                    outcome => drop(outcome?),
                }
            }
        }
        for slice in update {
            let name = slice.name().to_owned();
            self.client.update(slices_of(&key.0).named(&name), slice.into_object().into()).await?;
        }
        for slice in delete {
            self.delete(key, &slice).await?;
        }
        Ok(())
    }
}

/// How many addresses are not mirrored.
#[derive(Debug, Default, PartialEq)]
struct Skipped {
    invalid: usize,
    all: usize,
}

/// What the slices should have. Groups of ports without addresses of a family are empty.
fn wanted(endpoints: &Map) -> (ByPorts<BTreeMap<EndpointKey, Map>>, Skipped) {
    let mut packed = subsets::packed(&offers(endpoints));
    subsets::sort(&mut packed);
    let (mut wanted, mut skipped) = (ByPorts::new(), Skipped::default());
    for subset in &packed {
        let subset = EndpointSubset::of(subset);
        let ports: Vec<PortKey> = subset.ports().iter().map(port).collect();
        for address_type in ["IPv4", "IPv6"] {
            wanted.entry((address_type, ports.clone())).or_insert_with(BTreeMap::new);
        }
        let mut added = 0;
        let ready = subset.addresses().iter().map(|address| (address, true));
        let all = ready.chain(subset.not_ready_addresses().iter().map(|address| (address, false)));
        for (address, is_ready) in all {
            if added >= MOST_ADDRESSES {
                skipped.all += 1;
                continue;
            }
            let Some((address_type, endpoint)) = mirrored_address(address, is_ready) else {
                skipped.invalid += 1;
                skipped.all += 1;
                continue;
            };
            added += 1;
            let group = wanted.entry((address_type, ports.clone())).or_default();
            group.insert(endpoint::key(&endpoint), endpoint);
        }
    }
    (wanted, skipped)
}

/// The addresses and ports of Endpoints, one by one.
fn offers(endpoints: &Map) -> Vec<Offer> {
    let mut offers = Vec::new();
    for subset in Endpoints::of(endpoints).subsets().iter() {
        let ports: Vec<Option<Map>> = match subset.ports() {
            ports if ports.is_empty() => vec![None],
            ports => ports.iter().map(|port| Some(port.map().clone())).collect(),
        };
        for (list, is_ready) in [(subset.addresses(), true), (subset.not_ready_addresses(), false)] {
            for address in list.iter() {
                let offer = |port: &Option<Map>| Offer {
                    address: address.map().clone(),
                    is_ready,
                    port: port.clone(),
                };
                offers.extend(ports.iter().map(offer));
            }
        }
    }
    offers
}

fn port(port: schema::views::core::v1::EndpointPort<'_>) -> PortKey {
    PortKey {
        name: Some(port.name().to_owned()),
        port: Some(port.port()),
        protocol: Some(port.protocol().to_owned()),
        app_protocol: port.app_protocol().map(str::to_owned),
    }
}

/// An address as an endpoint, with its family. `None` if it is no IP address.
fn mirrored_address(address: EndpointAddress<'_>, is_ready: bool) -> Option<(&'static str, Map)> {
    let ip = parse_lenient(address.ip())?.to_canonical();
    let mut endpoint = Map::new();
    endpoint.insert("addresses", List::of([Value::from(ip.to_string())]));
    endpoint.insert("conditions", [("ready", is_ready)].into_iter().collect::<Map>());
    if let Some(target) = address.target_ref() {
        endpoint.insert("targetRef", target.map().clone());
    }
    if let Some(node) = address.node_name() {
        endpoint.insert("nodeName", node);
    }
    if !address.hostname().is_empty() {
        endpoint.insert("hostname", address.hostname());
    }
    Some((if ip.is_ipv6() { "IPv6" } else { "IPv4" }, endpoint))
}

/// The annotations that slices have too.
fn annotations(endpoints: &Map) -> Map {
    let mut annotations = Endpoints::of(endpoints).metadata().annotations().map().clone();
    annotations.remove(TRIGGER_TIME);
    annotations.remove(LAST_APPLIED);
    annotations
}

fn metadata(endpoints: &Map) -> Map {
    let (name, uid) = (object_meta::text(endpoints, "name"), object_meta::text(endpoints, "uid"));
    let mut labels = Endpoints::of(endpoints).metadata().labels().map().clone();
    labels.insert(SERVICE_NAME, name);
    labels.insert(MANAGED_BY, MANAGER);
    let mut owner: Map =
        [("apiVersion", "v1"), ("kind", "Endpoints"), ("name", name), ("uid", uid)].into_iter().collect();
    owner.insert("controller", true);
    owner.insert("blockOwnerDeletion", true);
    let mut metadata = Map::new();
    metadata.insert("namespace", object_meta::text(endpoints, "namespace"));
    metadata.insert("labels", labels);
    metadata.insert("ownerReferences", List::of([Value::from(owner)]));
    let annotations = annotations(endpoints);
    if !annotations.is_empty() {
        metadata.insert("annotations", annotations);
    }
    metadata
}

/// Whether a slice has the endpoints, labels, annotations and owner that it should have.
fn is_up_to_date(slice: &Slice, endpoints: &Map, wanted: &BTreeMap<EndpointKey, Map>) -> bool {
    let view = slice.view().metadata();
    let mut labels = view.labels().map().clone();
    labels.remove(MANAGED_BY);
    labels.remove(SERVICE_NAME);
    let own = Endpoints::of(endpoints).metadata();
    let is_of_another = view
        .owner_references()
        .iter()
        .any(|owner| owner.kind() == "Endpoints" && owner.name() == own.name() && owner.uid() != own.uid());
    let is_same = |old: &Map| wanted.get(&endpoint::key(old)).is_some_and(|new| endpoint::is_equal(new, old));
    slice.endpoints.len() == wanted.len()
        && slice.endpoints.iter().all(is_same)
        && labels == *own.labels().map()
        && annotations(endpoints) == *view.annotations().map()
        && !is_of_another
}

#[cfg(test)]
mod tests;
