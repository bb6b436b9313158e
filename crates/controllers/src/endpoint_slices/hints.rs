//! Topology aware hints, which the annotation `service.kubernetes.io/topology-mode` asks for: each zone gets
//! a share of the endpoints by its share of the CPUs of all nodes.

use super::plan::{AddressType, Plan};
use super::slice::Slice;
use super::traffic::for_zone;
use super::{ZONE, endpoint};
use crate::EventType;
use crate::objects::annotation;
use crate::service_pods::Key;
use cache::Entry;
use object::label::Labels as _;
use object::quantity::Quantity;
use object::{Map, Text};
use schema::view::View as _;
use schema::views::core::v1::Node;
use schema::views::discovery::v1::Endpoint;
use schema::{Builder, Part, Ref, Type, stored};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

/// By how much more an endpoint may be used than the average one.
const OVERLOAD: f64 = 0.2;
/// Nodes with one of these labels run no endpoints.
const EXCLUDED: [&str; 2] = ["node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"];

/// Whether a service asks for topology aware hints.
pub(super) fn are_enabled(service: &Map) -> bool {
    let is_auto = |value: &str| matches!(value, "Auto" | "auto");
    match annotation(service, "service.kubernetes.io/topology-aware-hints") {
        "" => is_auto(annotation(service, "service.kubernetes.io/topology-mode")),
        value => is_auto(value),
    }
}

/// An event about the hints of a service.
#[derive(Debug, PartialEq)]
pub(super) struct ServiceHints {
    pub(super) event_type: EventType,
    pub(super) reason: &'static str,
    pub(super) message: String,
}

impl ServiceHints {
    fn disabled(why: &str, address_type: AddressType) -> Self {
        Self::new(EventType::Warning, "TopologyAwareHintsDisabled", why, address_type)
    }

    fn new(event_type: EventType, reason: &'static str, text: &str, address_type: AddressType) -> Self {
        Self { event_type, reason, message: format!("{text}, addressType: {}", address_type.as_str()) }
    }
}

/// The zones of the nodes, and the hints of the services that have some.
#[derive(Default)]
pub(super) struct Hints(Mutex<State>);

#[derive(Default)]
struct State {
    nodes: HashMap<Text, NodeZone>,
    /// The endpoints for each zone, by service and address type.
    services: HashMap<Key, BTreeMap<AddressType, Counts>>,
    /// The services that were told that they have hints.
    populated: BTreeSet<Key>,
}

type Counts = BTreeMap<String, usize>;

/// What a node adds to its zone.
#[derive(Clone, Debug, PartialEq)]
struct NodeZone {
    zone: String,
    millis: i64,
}

/// The number of endpoints for a zone.
#[derive(Clone, Copy, Debug)]
struct Allocation {
    most: usize,
    desired: f64,
}

/// The CPUs and the zone of a node; `None` if the node does not count.
fn zone_of(node: &Entry) -> Option<NodeZone> {
    static PART: LazyLock<Ref<Type>> = LazyLock::new(|| {
        let status = Part("status", &[Part("allocatable", &[]), Part("conditions", &[])]);
        Builder::part_of(Node::schema(), &[status]).build()
    });
    if EXCLUDED.iter().any(|label| node.label(label).is_some()) {
        return None;
    }
    let decoded = stored::logged(node, stored::decode_part(&PART, node.bytes()))?;
    let status = Node::of(&decoded).status();
    let ready = status.conditions().iter().find(|condition| condition.r#type() == "Ready")?;
    if ready.status() != "True" {
        return None;
    }
    let cpu = status.allocatable().get("cpu").and_then(|cpu| cpu.parse::<Quantity>().ok());
    let zone = node.label(ZONE).unwrap_or_default().to_owned();
    Some(NodeZone { zone, millis: cpu.map_or(0, |cpu| cpu.milli_value()) })
}

impl State {
    /// The share of each zone in the CPUs; `None` unless every node has a zone and CPUs, and there are two
    /// zones at least.
    fn ratios(&self) -> Option<BTreeMap<String, f64>> {
        let mut zones: BTreeMap<&str, f64> = BTreeMap::new();
        for NodeZone { zone, millis } in self.nodes.values() {
            if zone.is_empty() || *millis == 0 {
                return None;
            }
            *zones.entry(zone).or_default() += *millis as f64;
        }
        let total: f64 = zones.values().sum();
        let ratios = || zones.iter().map(|(zone, share)| ((*zone).to_owned(), share / total)).collect();
        (total > 0.0 && zones.len() > 1).then(ratios)
    }

    /// How many endpoints each zone gets; a text says why there are no hints.
    fn allocations(&self, count: usize) -> Result<BTreeMap<String, Allocation>, String> {
        let Some(ratios) = self.ratios() else {
            return Err(
                "Insufficient Node information: allocatable CPU or zone not specified on one or more nodes"
                    .to_owned(),
            );
        };
        let zones = ratios.len();
        if zones > count {
            return Err(format!("Insufficient number of endpoints ({count} endpoints, {zones} zones)"));
        }
        let least: BTreeMap<&str, usize> =
            ratios.iter().map(|(zone, ratio)| (zone.as_str(), least(*ratio, count))).collect();
        let Some(spare) = count.checked_sub(least.values().sum()) else {
            return Err(format!(
                "Unable to allocate minimum required endpoints to each zone without exceeding overload threshold ({count} endpoints, {zones} zones)"
            ));
        };
        let allocation = |(zone, ratio): (&String, &f64)| {
            let least = least.get(zone.as_str()).copied().unwrap_or_default();
            let desired = (ratio * count as f64).max(least as f64);
            (zone.clone(), Allocation { most: least + spare, desired })
        };
        Ok(ratios.iter().map(allocation).collect())
    }

    /// The services with too few endpoints for a zone.
    fn overloaded(&self) -> Vec<Key> {
        let ratios = self.ratios();
        let is_overloaded = |counts: &Counts| {
            let total: usize = counts.values().sum();
            !counts.is_empty()
                && ratios.as_ref().is_none_or(|ratios| {
                    ratios
                        .iter()
                        .any(|(zone, ratio)| counts.get(zone).is_none_or(|own| *own < least(*ratio, total)))
                })
        };
        let overloaded = self.services.iter().filter(|(_, types)| types.values().any(is_overloaded));
        overloaded.map(|(key, _)| key.clone()).collect()
    }

    fn remove(&mut self, key: &Key, address_type: AddressType) {
        if let Some(types) = self.services.get_mut(key) {
            types.remove(&address_type);
            if types.is_empty() {
                self.services.remove(key);
            }
        }
        self.populated.remove(key);
    }
}

/// The fewest endpoints with which those of a zone are not overloaded.
fn least(ratio: f64, count: usize) -> usize {
    (ratio * count as f64 * (1.0 / (1.0 + OVERLOAD))).ceil() as usize
}

impl Hints {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All nodes are reported again.
    pub(super) fn forget_nodes(&self) {
        self.lock().nodes.clear();
    }

    /// Notes a node. Returns the services whose hints do not fit any more.
    pub(super) fn set_node(&self, name: Option<&str>, node: Option<&Arc<Entry>>) -> Vec<Key> {
        let Some(name) = name else { return Vec::new() };
        let zone = node.and_then(|node| zone_of(node));
        let mut state = self.lock();
        if state.nodes.get(name) == zone.as_ref() {
            return Vec::new();
        }
        match zone {
            Some(zone) => drop(state.nodes.insert(name.into(), zone)),
            None => drop(state.nodes.remove(name)),
        }
        state.overloaded()
    }

    /// Forgets a service that is gone.
    pub(super) fn forget(&self, key: &Key) {
        let mut state = self.lock();
        state.services.remove(key);
        state.populated.remove(key);
    }

    /// Forgets an address type that a service does not have any more.
    pub(super) fn forget_type(&self, key: &Key, address_type: AddressType) {
        self.lock().remove(key, address_type);
    }

    /// The service does not ask for hints.
    pub(super) fn disabled(&self, key: &Key, address_type: AddressType) -> Option<ServiceHints> {
        let mut state = self.lock();
        let was_populated = state.populated.contains(key);
        state.remove(key, address_type);
        was_populated.then(|| ServiceHints::disabled("Topology Aware Hints has been disabled", address_type))
    }

    /// Puts hints on the endpoints of a service. Returns events.
    pub(super) fn add(&self, key: &Key, address_type: AddressType, plan: &mut Plan) -> Vec<ServiceHints> {
        let mut state = self.lock();
        match allocate(&state, plan) {
            Err(why) => {
                state.remove(key, address_type);
                plan.remove_hints();
                vec![ServiceHints::disabled(&why, address_type)]
            }
            Ok(counts) => {
                state.services.entry(key.clone()).or_default().insert(address_type, counts);
                let is_new = state.populated.insert(key.clone());
                let text = "Topology Aware Hints has been enabled";
                let enabled =
                    || ServiceHints::new(EventType::Normal, "TopologyAwareHintsEnabled", text, address_type);
                is_new.then(enabled).into_iter().collect()
            }
        }
    }
}

/// Gives each zone its endpoints: those in it first; zones with too many give some to those with too few.
fn allocate(state: &State, plan: &mut Plan) -> Result<Counts, String> {
    let slices = plan.create.iter().chain(&plan.update).chain(&plan.unchanged);
    let ready = slices.flat_map(|slice| &slice.endpoints).filter(|one| endpoint::is_ready(one)).count();
    let allocations = state.allocations(ready)?;
    let mut counts = Counts::new();
    for slice in std::mem::take(&mut plan.unchanged) {
        match hints_of(&slice, &counts, &allocations) {
            None => plan.update.push(slice),
            Some(own) => {
                own.into_iter().for_each(|(zone, count)| *counts.entry(zone).or_default() += count);
                plan.unchanged.push(slice);
            }
        }
    }
    for endpoint in plan.written().filter(|one| endpoint::is_ready(one)) {
        let zone = Endpoint::of(endpoint).zone().unwrap_or_default().to_owned();
        if zone.is_empty() {
            return Err("One or more endpoints do not have a zone specified".to_owned());
        }
        endpoint.insert("hints", for_zone(&zone));
        *counts.entry(zone).or_default() += 1;
    }
    let (mut giving, mut receiving) = exchanges(&allocations, &counts);
    for endpoint in plan.written().filter(|one| endpoint::is_ready(one)) {
        let own = Endpoint::of(endpoint).zone().unwrap_or_default().to_owned();
        let Some(to_give) = giving.get_mut(&own) else { continue };
        let Some(mut receiver) = receiving.first_entry() else { break };
        let other = receiver.key().clone();
        endpoint.insert("hints", for_zone(&other));
        *to_give -= 1;
        *receiver.get_mut() -= 1;
        if *to_give == 0 {
            giving.remove(&own);
        }
        if *receiver.get() == 0 {
            receiver.remove();
        }
        *counts.entry(other).or_default() += 1;
        if let Some(count) = counts.get_mut(&own) {
            *count = count.saturating_sub(1);
        }
    }
    if counts.is_empty() { Err("No hints allocated for zones".to_owned()) } else { Ok(counts) }
}

/// The hints of a slice that does not change; `None` if they are not complete, or too many for a zone.
fn hints_of(slice: &Slice, counts: &Counts, allocations: &BTreeMap<String, Allocation>) -> Option<Counts> {
    let mut own = Counts::new();
    for endpoint in slice.endpoints.iter().filter(|one| endpoint::is_ready(one)) {
        let zones = Endpoint::of(endpoint).hints()?.for_zones();
        if zones.is_empty() {
            return None;
        }
        for zone in zones.iter() {
            allocations.get(zone.name())?;
            *own.entry(zone.name().to_owned()).or_default() += 1;
        }
    }
    let before = |zone: &str| counts.get(zone).copied().unwrap_or_default();
    let fits = |(zone, count): (&String, &usize)| {
        allocations.get(zone).is_some_and(|allocation| count + before(zone) <= allocation.most)
    };
    own.iter().all(fits).then_some(own)
}

/// How many endpoints each zone gives to others, and gets from others.
fn exchanges(allocations: &BTreeMap<String, Allocation>, counts: &Counts) -> (Counts, Counts) {
    let (mut excess, mut lack) = (BTreeMap::new(), BTreeMap::new());
    for (zone, allocation) in allocations {
        let own = counts.get(zone).copied().unwrap_or_default() as f64;
        if own > allocation.desired {
            excess.insert(zone.clone(), own - allocation.desired);
        } else if own < allocation.desired {
            lack.insert(zone.clone(), allocation.desired - own);
        }
    }
    let (mut giving, mut receiving) = (Counts::new(), Counts::new());
    while let (Some((giver, give)), Some((receiver, get))) = (most(&mut excess), most(&mut lack)) {
        if *give < 0.5 || *get < 0.5 || *give < 1.0 && *get < 1.0 {
            break;
        }
        *giving.entry(giver).or_default() += 1;
        *receiving.entry(receiver).or_default() += 1;
        *give -= 1.0;
        *get -= 1.0;
    }
    (giving, receiving)
}

fn most(zones: &mut BTreeMap<String, f64>) -> Option<(String, &mut f64)> {
    let most = zones.iter_mut().filter(|(_, amount)| **amount > 0.0);
    most.max_by(|(_, one), (_, other)| one.total_cmp(other)).map(|(zone, amount)| (zone.clone(), amount))
}
