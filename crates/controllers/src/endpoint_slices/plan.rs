//! Which slices of a service are created, updated and deleted.

use super::endpoint::{self, EndpointKey};
use super::slice::{PortKey, Slice};
use super::{MANAGED_BY, MOST_ENDPOINTS, SERVICE_NAME, is_owned_by};
use crate::service_pods::{HEADLESS, has_address};
use kinds::object_meta;
use object::name::{Mode, name_is_dns_subdomain};
use object::{List, Map, Value};
use schema::view::View as _;
use schema::views::core::v1::Service;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// A family of addresses; a slice has addresses of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum AddressType {
    Ipv4,
    Ipv6,
}

impl AddressType {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Ipv4 => "IPv4",
            Self::Ipv6 => "IPv6",
        }
    }

    pub(crate) fn read(text: &str) -> Option<Self> {
        [Self::Ipv4, Self::Ipv6].into_iter().find(|ty| ty.as_str() == text)
    }

    /// The types of a service. Without families that of its address, or both.
    pub(crate) fn of_service(service: &Map) -> Vec<Self> {
        let spec = Service::of(service).spec();
        let mut types: Vec<Self> = spec.ip_families().iter().filter_map(Self::read).collect();
        types.sort_unstable();
        types.dedup();
        match spec.cluster_ip() {
            _ if !types.is_empty() => types,
            "" | "None" => vec![Self::Ipv4, Self::Ipv6],
            address if address.contains(':') => vec![Self::Ipv6],
            _ => vec![Self::Ipv4],
        }
    }
}

/// The endpoints that a service should have, by their ports.
#[derive(Default)]
pub(crate) struct Wanted(BTreeMap<Vec<PortKey>, BTreeMap<EndpointKey, Map>>);

impl Wanted {
    /// The endpoints with the same ports.
    pub(crate) fn group(&mut self, ports: Vec<PortKey>) -> &mut BTreeMap<EndpointKey, Map> {
        self.0.entry(ports).or_default()
    }
}

/// The changes of the slices of a service.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    pub(crate) create: Vec<Slice>,
    pub(crate) update: Vec<Slice>,
    pub(crate) delete: Vec<Slice>,
    pub(crate) unchanged: Vec<Slice>,
}

impl Plan {
    /// The changes that lead from the slices of an address type to the endpoints that are wanted.
    pub(crate) fn make(
        service: &Map,
        address_type: AddressType,
        manager: &str,
        wanted: Wanted,
        existing: Vec<Slice>,
    ) -> Self {
        let mut plan = Self::default();
        let count = existing.len();
        let mut by_ports: BTreeMap<Vec<PortKey>, Vec<Slice>> = BTreeMap::new();
        for slice in existing {
            match is_owned_by(slice.object(), service) {
                true => by_ports.entry(slice.ports()).or_default().push(slice),
                false => plan.delete.push(slice),
            }
        }
        let maker = Maker { service, address_type, manager };
        for (ports, endpoints) in wanted.0 {
            let own = by_ports.remove(&ports).unwrap_or_default();
            plan.place(&maker, &ports, endpoints, own);
        }
        plan.delete.extend(by_ports.into_values().flatten());
        if plan.delete.len() == count && plan.create.is_empty() {
            plan.keep_placeholder(&maker);
        }
        plan
    }

    /// Places the endpoints of one group of ports: first where they are, then into slices that change in any
    /// case, then into one slice with enough room, then into new ones.
    fn place(
        &mut self,
        maker: &Maker<'_>,
        ports: &[PortKey],
        mut wanted: BTreeMap<EndpointKey, Map>,
        existing: Vec<Slice>,
    ) {
        let (mut update, mut unchanged) = (Vec::new(), Vec::new());
        for mut slice in existing {
            let before = slice.endpoints.len();
            let (mut kept, mut is_updated) = (Vec::with_capacity(before), false);
            for old in &slice.endpoints {
                let Some(new) = wanted.remove(&endpoint::key(old)) else { continue };
                is_updated |= !endpoint::is_equal(&new, old);
                kept.push(new);
            }
            is_updated |= kept.len() != before;
            let has_other_labels = maker.has_other_labels(&slice);
            if is_updated && kept.is_empty() {
                self.delete.push(slice);
                continue;
            }
            if !is_updated && !has_other_labels {
                unchanged.push(slice);
                continue;
            }
            if is_updated {
                slice.endpoints = kept;
            }
            slice.set_metadata("labels", maker.labels());
            update.push(slice);
        }
        update.sort_by_key(|slice| Reverse(slice.endpoints.len()));
        for slice in &mut update {
            fill(slice, &mut wanted);
        }
        while !wanted.is_empty() {
            match slice_with_room(&unchanged, wanted.len()) {
                Some(at) => {
                    let mut slice = unchanged.remove(at);
                    fill(&mut slice, &mut wanted);
                    update.push(slice);
                }
                None => {
                    let mut slice = maker.slice(ports);
                    fill(&mut slice, &mut wanted);
                    self.create.push(slice);
                }
            }
        }
        self.update.append(&mut update);
        self.unchanged.append(&mut unchanged);
    }

    /// A service without endpoints has one slice without endpoints and ports.
    fn keep_placeholder(&mut self, maker: &Maker<'_>) {
        let is_placeholder = |slice: &Slice| {
            let labels = slice.view().metadata().labels().map();
            slice.endpoints.is_empty()
                && slice.view().ports().is_empty()
                && is_owned_by(slice.object(), maker.service)
                && *labels == maker.labels()
        };
        match self.delete.as_slice() {
            [one] if is_placeholder(one) => self.unchanged.append(&mut self.delete),
            _ => self.create.push(maker.slice(&[])),
        }
    }

    /// Turns creations into updates of slices that would be deleted.
    pub(crate) fn reuse_slices(&mut self, service: &Map) {
        let mut kept = Vec::new();
        for old in std::mem::take(&mut self.delete) {
            let fits = self.create.last().is_some_and(|new| new.address_type() == old.address_type());
            match self.create.pop_if(|_| fits && is_owned_by(old.object(), service)) {
                Some(mut new) => {
                    new.set_metadata("name", old.name());
                    self.update.push(new);
                }
                None => kept.push(old),
            }
        }
        self.delete = kept;
    }

    /// Removes the hints of all endpoints. Slices that had some are updated.
    pub(crate) fn remove_hints(&mut self) {
        let (changed, unchanged) = std::mem::take(&mut self.unchanged)
            .into_iter()
            .partition(|slice| slice.endpoints.iter().any(|endpoint| endpoint.contains_key("hints")));
        self.unchanged = unchanged;
        self.update.extend::<Vec<Slice>>(changed);
        for endpoint in self.written() {
            endpoint.remove("hints");
        }
    }

    /// The endpoints of slices that are created or updated.
    pub(crate) fn written(&mut self) -> impl Iterator<Item = &mut Map> {
        self.create.iter_mut().chain(&mut self.update).flat_map(|slice| &mut slice.endpoints)
    }
}

fn fill(slice: &mut Slice, wanted: &mut BTreeMap<EndpointKey, Map>) {
    while slice.endpoints.len() < MOST_ENDPOINTS
        && let Some((_, endpoint)) = wanted.pop_first()
    {
        slice.endpoints.push(endpoint);
    }
}

/// The slice that is closest to full with so many endpoints more.
fn slice_with_room(slices: &[Slice], count: usize) -> Option<usize> {
    if count >= MOST_ENDPOINTS {
        return None;
    }
    let room = |slice: &Slice| MOST_ENDPOINTS.checked_sub(count + slice.endpoints.len());
    let fitting = slices.iter().enumerate().filter_map(|(at, slice)| Some((room(slice)?, at)));
    // A slice without endpoints takes them too.
    fitting.min().map(|(_, at)| at)
}

/// Makes the slices of a service.
struct Maker<'a> {
    service: &'a Map,
    address_type: AddressType,
    manager: &'a str,
}

fn is_reserved(label: &str) -> bool {
    matches!(label, SERVICE_NAME | MANAGED_BY | HEADLESS)
}

impl Maker<'_> {
    /// The labels of a slice: those of the service, and those that say whose slice it is.
    fn labels(&self) -> Map {
        let service = Service::of(self.service).metadata();
        let own = service.labels().iter().filter(|(key, _)| !is_reserved(key));
        let mut labels: Map = own.collect();
        if !has_address(self.service) {
            labels.insert(HEADLESS, "");
        }
        labels.insert(SERVICE_NAME, service.name());
        labels.insert(MANAGED_BY, self.manager);
        labels
    }

    /// Whether the labels of the service changed. Reserved labels do not count.
    fn has_other_labels(&self, slice: &Slice) -> bool {
        let unreserved = |labels: &Map| -> Map {
            labels
                .iter()
                .filter(|(key, _)| !is_reserved(key))
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect()
        };
        unreserved(slice.view().metadata().labels().map()) != unreserved(&self.labels())
    }

    fn slice(&self, ports: &[PortKey]) -> Slice {
        let (name, uid) = (object_meta::text(self.service, "name"), object_meta::text(self.service, "uid"));
        let mut owner: Map =
            [("apiVersion", "v1"), ("kind", "Service"), ("name", name), ("uid", uid)].into_iter().collect();
        owner.insert("controller", true);
        owner.insert("blockOwnerDeletion", true);
        let mut metadata = Map::new();
        metadata.insert("generateName", prefix(name));
        metadata.insert("namespace", object_meta::text(self.service, "namespace"));
        metadata.insert("labels", self.labels());
        metadata.insert("ownerReferences", List::of([Value::from(owner)]));
        Slice::new(metadata, self.address_type.as_str(), ports)
    }
}

/// The start of the names of the slices of a service.
pub(crate) fn prefix(name: &str) -> String {
    let prefix = format!("{name}-");
    if name_is_dns_subdomain(&prefix, Mode::Prefix).is_empty() { prefix } else { name.to_owned() }
}
