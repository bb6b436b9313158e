//! Subsets of Endpoints: addresses that offer the same ports stand together.

use object::{List, Map, Value};
use schema::view::View as _;
use schema::views::core::v1::{EndpointAddress, EndpointPort, EndpointSubset};
use std::collections::BTreeMap;

/// The most addresses of Endpoints.
const CAPACITY: usize = 1000;

/// A pod offers a port of a service.
pub(crate) struct Offer {
    pub(crate) address: Map,
    pub(crate) is_ready: bool,
    /// The port; `None` for a service without ports.
    pub(crate) port: Option<Map>,
}

/// The identity of an address: IP and uid of the pod.
type AddressKey = (String, String);
/// The addresses that offer a port, and whether they are ready.
type States = BTreeMap<AddressKey, bool>;
/// The identity of a port.
type PortKey = (String, i64, String, String);

fn address_key(address: &Map) -> AddressKey {
    let address = EndpointAddress::of(address);
    let uid = address.target_ref().map(|target| target.uid()).unwrap_or_default();
    (address.ip().to_owned(), uid.to_owned())
}

fn port_key(port: &Map) -> PortKey {
    let port = EndpointPort::of(port);
    let app_protocol = port.app_protocol().unwrap_or_default();
    (port.name().to_owned(), port.port(), port.protocol().to_owned(), app_protocol.to_owned())
}

/// The smallest number of subsets that says the same: ports with the same addresses in the same state share a
/// subset.
pub(crate) fn packed(offers: &[Offer]) -> Vec<Map> {
    let mut addresses: BTreeMap<AddressKey, &Map> = BTreeMap::new();
    let mut by_port: BTreeMap<Option<PortKey>, (Option<&Map>, States)> = BTreeMap::new();
    for offer in offers {
        let key = address_key(&offer.address);
        addresses.entry(key.clone()).or_insert(&offer.address);
        let (_, states) = by_port
            .entry(offer.port.as_ref().map(port_key))
            .or_insert_with(|| (offer.port.as_ref(), States::new()));
        let is_ready = states.entry(key).or_insert(true);
        *is_ready &= offer.is_ready;
    }
    let mut by_addresses: BTreeMap<States, Vec<&Map>> = BTreeMap::new();
    for (port, states) in by_port.into_values() {
        by_addresses.entry(states).or_default().extend(port);
    }
    let subset = |(states, ports): (States, Vec<&Map>)| {
        let with = |wanted: bool| -> List {
            let keys = states.iter().filter(|(_, is_ready)| **is_ready == wanted);
            keys.filter_map(|(key, _)| addresses.get(key))
                .map(|address| Value::from((*address).clone()))
                .collect()
        };
        let lists = [
            ("addresses", with(true)),
            ("notReadyAddresses", with(false)),
            ("ports", ports.into_iter().cloned().map(Value::from).collect()),
        ];
        lists.into_iter().filter(|(_, list)| !list.is_empty()).collect::<Map>()
    };
    by_addresses.into_iter().map(subset).collect()
}

/// Puts subsets, addresses and ports into the order of their names and numbers.
pub(crate) fn sort(subsets: &mut [Map]) {
    for subset in subsets.iter_mut() {
        for key in ["addresses", "notReadyAddresses"] {
            sort_list(subset, key, |item| item.as_map().map(address_key));
        }
        sort_list(subset, "ports", |item| item.as_map().map(port_key));
    }
    subsets.sort_by_cached_key(|subset| {
        let subset = EndpointSubset::of(subset);
        let ports: Vec<PortKey> = subset.ports().iter().map(|port| port_key(port.map())).collect();
        let all = subset.addresses().iter().chain(subset.not_ready_addresses().iter());
        (ports, all.map(|address| address_key(address.map())).min())
    });
}

fn sort_list<K: Ord>(subset: &mut Map, key: &str, by: impl Fn(&Value) -> K) {
    if let Some(list) = subset.get_mut(key).and_then(Value::as_list_mut) {
        list.sort_by_cached_key(by);
    }
}

/// Removes the resource versions of pods: a pod that changed in something else is no other endpoint.
pub(crate) fn forget_versions(subsets: &mut [Map]) {
    for subset in subsets {
        for key in ["addresses", "notReadyAddresses"] {
            let list = subset.get_mut(key).and_then(Value::as_list_mut);
            for address in list.into_iter().flat_map(|list| list.iter_mut()) {
                let target = address.as_map_mut().and_then(|address| address.get_mut("targetRef"));
                if let Some(target) = target.and_then(Value::as_map_mut) {
                    target.remove("resourceVersion");
                }
            }
        }
    }
}

/// At most [`CAPACITY`] addresses, ready ones first, each subset with its share; and whether some were left
/// out.
pub(crate) fn truncated(mut subsets: Vec<Map>) -> (Vec<Map>, bool) {
    let count = |key: &str| -> usize { subsets.iter().map(|subset| len(subset, key)).sum() };
    let (ready, not_ready) = (count("addresses"), count("notReadyAddresses"));
    if ready + not_ready <= CAPACITY {
        return (subsets, false);
    }
    let (key, most, total) = match ready > CAPACITY {
        true => ("addresses", CAPACITY, ready),
        false => ("notReadyAddresses", CAPACITY - ready, not_ready),
    };
    let mut left = most;
    for subset in &mut subsets {
        let share = (len(subset, key) * most).div_ceil(total.max(1)).min(left);
        if key == "addresses" {
            subset.remove("notReadyAddresses");
        }
        keep_first(subset, key, share);
        left -= share.min(len(subset, key));
    }
    subsets.retain(|subset| len(subset, "addresses") + len(subset, "notReadyAddresses") > 0);
    (subsets, true)
}

fn len(subset: &Map, key: &str) -> usize {
    subset.get(key).and_then(Value::as_list).map_or(0, <[Value]>::len)
}

fn keep_first(subset: &mut Map, key: &'static str, count: usize) {
    let Some(list) = subset.get(key).and_then(Value::as_list) else { return };
    let kept: List = list.iter().take(count).cloned().collect();
    match kept.is_empty() {
        true => drop(subset.remove(key)),
        false => drop(subset.insert(key, kept)),
    }
}
