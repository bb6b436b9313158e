//! Hints by the `trafficDistribution` of a service: each endpoint is for its own zone, or its own node.

use super::endpoint::is_ready;
use super::hints::are_enabled;
use super::plan::Plan;
use object::{List, Map, Value};
use schema::view::View as _;
use schema::views::core::v1::Service;
use schema::views::discovery::v1::Endpoint;

/// Where the endpoints should be that a client reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Preference {
    SameZone,
    SameNode,
}

/// The preference of a service. The annotation of topology aware hints is stronger. Which values a service
/// may have is for the validation of services.
pub(super) fn preference(service: &Map) -> Option<Preference> {
    match Service::of(service).spec().traffic_distribution() {
        _ if are_enabled(service) => None,
        Some("PreferClose" | "PreferSameZone") => Some(Preference::SameZone),
        Some("PreferSameNode") => Some(Preference::SameNode),
        _ => None,
    }
}

/// Puts the right hints on the ready endpoints of all slices.
pub(super) fn add_hints(preference: Preference, plan: &mut Plan) {
    let is_wrong = |one: &Map| is_ready(one) && one.get("hints") != hints(preference, one).as_ref();
    let (changed, unchanged): (Vec<_>, Vec<_>) = std::mem::take(&mut plan.unchanged)
        .into_iter()
        .partition(|slice| slice.endpoints.iter().any(is_wrong));
    plan.unchanged = unchanged;
    plan.update.extend(changed);
    for endpoint in plan.written().filter(|endpoint| is_ready(endpoint)) {
        match hints(preference, endpoint) {
            Some(hints) => drop(endpoint.insert("hints", hints)),
            None => drop(endpoint.remove("hints")),
        }
    }
}

/// The hints that a ready endpoint should have.
fn hints(preference: Preference, endpoint: &Map) -> Option<Value> {
    let endpoint = Endpoint::of(endpoint);
    let node = endpoint.node_name().filter(|_| preference == Preference::SameNode);
    let lists = [("forZones", endpoint.zone()), ("forNodes", node)];
    let hints: Map = lists.into_iter().filter_map(|(key, name)| Some((key, names(name?)))).collect();
    (!hints.is_empty()).then(|| hints.into())
}

fn names(name: &str) -> List {
    List::of([Value::from([("name", name)].into_iter().collect::<Map>())])
}

/// Hints for one zone.
pub(super) fn for_zone(zone: &str) -> Value {
    [("forZones", names(zone))].into_iter().collect::<Map>().into()
}
