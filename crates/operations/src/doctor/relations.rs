//! What can be wrong between objects: it is collected while they are read, and judged when all were.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::IpAddr;

use allocation::{MANAGED_BY, MANAGED_BY_LABEL, Owner, Services};
use kinds::object_meta;
use object::{Map, Text};
use schema::view::View as _;
use schema::views::apiextensions::v1::CustomResourceDefinition;
use schema::views::core::v1::Service;

use super::findings::{EntryId, Finding, Outcome};
use super::objects::{Address, Object};
use super::problems::{self, Problem};
use controllers::event_expiry;

/// The number of an entry.
type Place = usize;

/// What is known of all entries.
#[derive(Default)]
pub(super) struct Relations {
    /// The shown keys of all entries.
    entries: Vec<(Box<str>, EntryId)>,
    uids: HashMap<Text, Vec<Place>>,
    namespaces: HashSet<Box<str>>,
    within: BTreeMap<Box<str>, Vec<Place>>,
    events: HashSet<Place>,
    /// By the first segment of the keys of their objects; `None` if one cannot be read.
    definitions: HashMap<Box<str>, Option<Definition>>,
    custom: BTreeMap<Box<str>, Vec<CustomObject>>,
    services: HashMap<Owner, (Place, Vec<IpAddr>)>,
    /// Services that cannot be read.
    unread_services: HashSet<Owner>,
    ports: BTreeMap<u16, Vec<Place>>,
    addresses: BTreeMap<IpAddr, Allocated>,
}

struct Definition {
    kind: Text,
    versions: Vec<Text>,
    is_namespaced: bool,
}

struct CustomObject {
    place: Place,
    is_namespaced: bool,
    /// `None` if it cannot be read.
    type_meta: Option<[Text; 2]>,
}

/// An IPAddress.
struct Allocated {
    place: Place,
    /// `None` if it is not one that the server made for a service.
    owner: Option<Owner>,
    is_managed: bool,
}

impl Relations {
    /// Notes an entry, which may be unreadable.
    pub(super) fn add(&mut self, shown: &str, id: EntryId, address: &Address<'_>, object: Option<&Object>) {
        let place = self.entries.len();
        self.entries.push((shown.into(), id));
        let map = object.map(|object| &object.map);
        let uid = map.map(|map| object_meta::text(map, "uid")).unwrap_or_default();
        if !uid.is_empty() {
            self.uids.entry(uid.into()).or_default().push(place);
        }
        if !address.namespace.is_empty() {
            self.within.entry(address.namespace.into()).or_default().push(place);
        }
        let Some(builtin) = address.builtin else { return self.add_custom(place, address, map) };
        match (builtin.kind.group, builtin.kind.resource) {
            ("", "namespaces") => {
                self.namespaces.insert(address.name.into());
            }
            ("", event_expiry::EVENTS) => {
                self.events.insert(place);
            }
            ("", "services") => self.add_service(place, address, map),
            ("networking.k8s.io", "ipaddresses") => self.add_address(place, address, map),
            (definitions::GROUP, definitions::RESOURCE) => {
                self.definitions.insert(address.name.into(), map.map(Definition::read));
            }
            _ => {}
        }
    }

    fn add_custom(&mut self, place: Place, address: &Address<'_>, map: Option<&Map>) {
        let text =
            |map: &Map, key: &str| map.get(key).and_then(|value| value.as_str()).unwrap_or_default().into();
        let type_meta = map.map(|map| [text(map, "apiVersion"), text(map, "kind")]);
        let is_namespaced = !address.namespace.is_empty();
        let object = CustomObject { place, is_namespaced, type_meta };
        self.custom.entry(address.prefix.into()).or_default().push(object);
    }

    fn add_service(&mut self, place: Place, address: &Address<'_>, map: Option<&Map>) {
        let owner = Owner { namespace: address.namespace.to_owned(), name: address.name.to_owned() };
        let Some(map) = map else {
            self.unread_services.insert(owner);
            return;
        };
        let spec = Service::of(map).spec();
        if matches!(spec.r#type(), "NodePort" | "LoadBalancer") {
            let ports =
                spec.ports().iter().map(|port| port.node_port()).chain([spec.health_check_node_port()]);
            let ports: HashSet<u16> = ports.filter_map(|port| u16::try_from(port).ok()).collect();
            for port in ports.into_iter().filter(|port| *port != 0) {
                self.ports.entry(port).or_default().push(place);
            }
        }
        self.services.insert(owner, (place, Services::addresses_of(map)));
    }

    fn add_address(&mut self, place: Place, address: &Address<'_>, map: Option<&Map>) {
        let Ok(ip) = address.name.parse() else { return };
        let is_managed =
            map.is_some_and(|map| kinds::metadata(map).labels().get(MANAGED_BY_LABEL) == Some(MANAGED_BY));
        let owner = map.and_then(allocation::owner);
        self.addresses.insert(ip, Allocated { place, owner, is_managed });
    }

    /// What is wrong.
    pub(super) fn check(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        self.check_uids(&mut findings);
        self.check_namespaces(&mut findings);
        self.check_custom(&mut findings);
        self.check_addresses(&mut findings);
        for (port, places) in self.ports.iter().filter(|(_, places)| places.len() > 1) {
            self.find_shared(&problems::SHARED_PORT, &format!("node port {port}"), places, &mut findings);
        }
        findings
    }

    fn check_uids(&self, findings: &mut Vec<Finding>) {
        for (uid, places) in self.uids.iter().filter(|(_, places)| places.len() > 1) {
            self.find_shared(&problems::SHARED_UID, &format!("uid {uid}"), places, findings);
        }
    }

    fn check_namespaces(&self, findings: &mut Vec<Finding>) {
        for (namespace, places) in &self.within {
            if self.namespaces.contains(namespace) {
                continue;
            }
            for place in places {
                let problem = match self.events.contains(place) {
                    true => &problems::EVENT_WITHOUT_NAMESPACE,
                    false => &problems::WITHOUT_NAMESPACE,
                };
                findings.extend(self.finding(
                    problem,
                    *place,
                    format!("there is no namespace {namespace:?}"),
                ));
            }
        }
    }

    fn check_custom(&self, findings: &mut Vec<Finding>) {
        for (prefix, objects) in &self.custom {
            let Some(definition) = self.definitions.get(prefix) else {
                let says = format!("there is no definition {prefix}");
                let found = objects
                    .iter()
                    .filter_map(|object| self.finding(&problems::UNKNOWN_TYPE, object.place, says.clone()));
                findings.extend(found);
                continue;
            };
            for CustomObject { place, is_namespaced, type_meta } in objects {
                let Some(definition) = definition else { continue };
                if *is_namespaced != definition.is_namespaced {
                    let says = "its key has a namespace where its definition says otherwise";
                    findings.extend(self.finding(&problems::MISNAMED, *place, says.into()));
                }
                if let Some([api_version, kind]) = type_meta
                    && !definition.has(api_version, kind)
                {
                    let says = format!(
                        "it says that it is {kind} of {api_version}, which its definition does not have"
                    );
                    findings.extend(self.finding(&problems::WRONG_TYPE, *place, says));
                }
            }
        }
    }

    fn check_addresses(&self, findings: &mut Vec<Finding>) {
        let mut holders: BTreeMap<IpAddr, Vec<Place>> = BTreeMap::new();
        for (place, addresses) in self.services.values() {
            for address in addresses {
                holders.entry(*address).or_default().push(*place);
            }
        }
        for (ip, places) in &mut holders {
            places.sort_unstable();
            if places.len() > 1 {
                self.find_shared(&problems::SHARED_ADDRESS, &format!("cluster IP {ip}"), places, findings);
            } else if !self.addresses.contains_key(ip) {
                let says = format!("its cluster IP {ip} has no IPAddress");
                let found = places.iter().filter_map(|place| {
                    self.finding(&problems::SERVICE_WITHOUT_ADDRESS, *place, says.clone())
                });
                findings.extend(found);
            }
        }
        for (ip, Allocated { place, owner, is_managed }) in &self.addresses {
            let has_it = |owner: &Owner| {
                let service = self.services.get(owner);
                self.unread_services.contains(owner)
                    || service.is_some_and(|(_, addresses)| addresses.contains(ip))
            };
            if *is_managed && !owner.as_ref().is_some_and(has_it) {
                let says = match owner {
                    Some(owner) => format!("there is no service {owner} with this cluster IP"),
                    None => "spec.parentRef names no service".to_owned(),
                };
                findings.extend(self.finding(&problems::ADDRESS_WITHOUT_SERVICE, *place, says));
            }
        }
    }

    /// A finding for each of several entries that have the same.
    fn find_shared(
        &self,
        problem: &'static Problem,
        what: &str,
        places: &[Place],
        findings: &mut Vec<Finding>,
    ) {
        for place in places {
            let other =
                places.iter().find(|other| *other != place).and_then(|other| self.entries.get(*other));
            let other = other.map_or("another", |(key, _)| key);
            findings.extend(self.finding(problem, *place, format!("{other} has {what}, too")));
        }
    }

    fn finding(&self, problem: &'static Problem, place: Place, says: String) -> Option<Finding> {
        let (key, id) = self.entries.get(place)?;
        Some(Finding { problem, key: key.to_string(), says, entry: Some(*id), outcome: Outcome::NotAsked })
    }
}

impl Definition {
    fn read(map: &Map) -> Self {
        let spec = CustomResourceDefinition::of(map).spec();
        let version = |name: &str| kinds::api_version(spec.group(), name);
        Self {
            kind: spec.names().kind().into(),
            versions: spec.versions().iter().map(|one| version(one.name())).collect(),
            is_namespaced: spec.scope() != "Cluster",
        }
    }

    fn has(&self, api_version: &Text, kind: &Text) -> bool {
        self.kind == *kind && self.versions.contains(api_version)
    }
}
