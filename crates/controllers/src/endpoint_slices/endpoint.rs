//! Endpoints of slices: made of pods, and compared.

use super::ZONE;
use super::plan::AddressType;
use super::slice::PortKey;
use crate::service_pods::Member;
use cache::Entry;
use object::label::Labels as _;
use object::{List, Map, Value};
use schema::view::View as _;
use schema::views::core::v1::Service;
use schema::views::discovery::v1::Endpoint;

/// The identity of an endpoint: everything else of it is updated in place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct EndpointKey {
    addresses: Vec<String>,
    hostname: String,
    namespace: String,
    name: String,
}

/// The identity of an endpoint.
pub(crate) fn key(endpoint: &Map) -> EndpointKey {
    let endpoint = Endpoint::of(endpoint);
    let mut addresses: Vec<String> = endpoint.addresses().iter().map(str::to_owned).collect();
    addresses.sort_unstable();
    let target = endpoint.target_ref();
    EndpointKey {
        addresses,
        hostname: endpoint.hostname().unwrap_or_default().to_owned(),
        namespace: target.map(|target| target.namespace()).unwrap_or_default().to_owned(),
        name: target.map(|target| target.name()).unwrap_or_default().to_owned(),
    }
}

/// Whether two endpoints of the same identity differ in nothing but hints.
pub(crate) fn is_equal(one: &Map, other: &Map) -> bool {
    let target = |endpoint: &Map| {
        let target = Endpoint::of(endpoint).target_ref();
        target.map(|target| {
            let mut target = target.map().clone();
            target.remove("resourceVersion");
            target
        })
    };
    let same = ["nodeName", "zone", "conditions"].iter().all(|key| one.get(key) == other.get(key));
    same && target(one) == target(other)
}

/// Whether an endpoint says that it is ready.
pub(crate) fn is_ready(endpoint: &Map) -> bool {
    Endpoint::of(endpoint).conditions().ready() == Some(true)
}

/// The endpoint of a pod; `None` if the pod has no address of the type.
pub(crate) fn of_pod(
    service: &Map,
    pod: &Member,
    node: Option<&Entry>,
    address_type: AddressType,
) -> Option<Map> {
    let wants_ipv6 = address_type == AddressType::Ipv6;
    let addresses = pod.addresses().into_iter().filter(|ip| ip.is_ipv6() == wants_ipv6);
    let addresses: List = addresses.map(|ip| Value::from(ip.to_string())).collect();
    if addresses.is_empty() {
        return None;
    }
    let service = Service::of(service);
    let (is_serving, is_terminating) = (pod.is_ready(), pod.is_deleting());
    let is_ready = service.spec().publish_not_ready_addresses() || is_serving && !is_terminating;
    let mut endpoint = Map::new();
    endpoint.insert("addresses", addresses);
    let conditions = [("ready", is_ready), ("serving", is_serving), ("terminating", is_terminating)];
    endpoint.insert("conditions", conditions.into_iter().collect::<Map>());
    endpoint.insert("targetRef", pod.reference());
    if let Some(hostname) = pod.hostname_for(service.metadata().name()) {
        endpoint.insert("hostname", hostname);
    }
    let node_name = pod.pod().spec().node_name();
    if !node_name.is_empty() {
        endpoint.insert("nodeName", node_name);
    }
    if let Some(zone) = node.and_then(|node| node.label(ZONE)).filter(|zone| !zone.is_empty()) {
        endpoint.insert("zone", zone);
    }
    Some(endpoint)
}

/// The ports that a pod offers to a service. Those that the pod does not have are left out.
pub(crate) fn ports(service: &Map, pod: &Member) -> Vec<PortKey> {
    let spec = Service::of(service).spec();
    let ports = spec.ports().iter().filter_map(|port| {
        Some(PortKey {
            name: Some(port.name().to_owned()),
            port: Some(pod.port(port)?),
            protocol: Some(port.protocol().to_owned()),
            app_protocol: port.app_protocol().map(str::to_owned),
        })
    });
    let mut ports: Vec<PortKey> = ports.collect();
    ports.sort();
    ports
}
