//! Keeps IPAddress objects and the cluster IPs of services in agreement, and finds node ports that services
//! should not have.
//!
//! A service is written after the IPAddress objects of its addresses, and gives them back after it was
//! removed. A crash in between leaves an IPAddress without a service; writes past the server, or of old
//! servers, leave services without IPAddress. This loop looks at every service and every IPAddress at the
//! start, and at those that change, and
//!
//! - makes the IPAddress that a service lacks, and makes one anew that belongs to something else or lacks its
//!   labels;
//! - removes an IPAddress of the allocator whose service is gone or has other addresses: at once if an
//!   earlier process made it and no other server can be about to use it, otherwise after a minute, and never
//!   while a write is about it.
//!
//! An address or a node port that two services have stays as it is, and so does one that is out of range:
//! people have to decide. A service whose address is in no ServiceCIDR is looked at again when one of those
//! changes; until the default one is there, at the first start on a store, nobody is told. Findings are
//! logged, and told as events of the service or the IPAddress.

use clock::{Instant, timeout_at};
use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::{EventType, Recorder, Subject};
use allocation::{Owner, PortFault, Services, is_managed, owner};
use cache::watch::{self, Start, WatchOptions};
use cache::{Cache, Cursor, Entry, Resource, Update};
use object::Map;
use registry::Client;
use schema::Status;
use schema::status::Reason;
use schema::stored;
use schema::view::View as _;
use schema::views::core::v1::Service;
use schema::views::networking::v1beta1::IPAddress;
use schema::{Builder, Part, Ref, Type};
use store::Revision;
use tokio::time::sleep;

/// The component of events about addresses.
pub const COMPONENT: &str = "ipallocator-repair-controller";
/// The component of events about node ports.
const PORT_COMPONENT: &str = "portallocator-repair-controller";
/// The ServiceCIDR of the configured ranges, which the server makes.
const DEFAULT_CIDR: &str = "kubernetes";
/// How long to wait after a failure.
const PAUSE: Duration = Duration::from_secs(1);
/// How long an IPAddress of this process may be without its service.
const GRACE: Duration = Duration::from_secs(60);
/// The least time between two rounds, in which changes are collected.
const COLLECT: Duration = Duration::from_millis(20);
/// The number of items after which other tasks may run.
const AT_ONCE: usize = 64;
/// The fields of a service that are decoded.
const PART: &[Part] = &[Part(
    "spec",
    &[
        Part("type", &[]),
        Part("clusterIP", &[]),
        Part("clusterIPs", &[]),
        Part("ports", &[Part("nodePort", &[])]),
        Part("healthCheckNodePort", &[]),
    ],
)];

/// The revision up to which all objects were made by processes that have ended: zero if other servers use the
/// same store, because they may be about to use what they made.
pub fn earlier(cache: &Cache) -> Revision {
    if cache.store().is_shared() { Revision::ZERO } else { cache.committed() }
}

/// Runs until the process ends. Objects up to the revision `before` were made by an earlier process.
pub async fn run(cache: Arc<Cache>, services: Services, before: Revision, client: Client) {
    let (Some(objects), Some(addresses), Some(cidrs)) = (
        cache.resource("services"),
        cache.resource("ipaddresses.networking.k8s.io"),
        cache.resource("servicecidrs.networking.k8s.io"),
    ) else {
        return;
    };
    let mut repair = Repair {
        services,
        recorder: Recorder::new(client.clone(), COMPONENT),
        port_recorder: Recorder::new(client, PORT_COMPONENT),
        before,
        part: Builder::part_of(Service::schema(), PART).build(),
        objects: Cursor::new(objects),
        addresses: Cursor::new(addresses),
        cidrs: Cursor::new(cidrs),
        out_of_range: HashSet::new(),
        due: HashMap::new(),
    };
    while watch::resubscribe_after("services and their addresses", repair.follow().await).await {}
}

/// An object that is checked.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Item {
    Service(Owner),
    /// An IPAddress, by its name.
    Address(String),
}

struct Repair {
    services: Services,
    recorder: Recorder,
    port_recorder: Recorder,
    before: Revision,
    /// The type of [`PART`].
    part: Ref<Type>,
    objects: Cursor,
    addresses: Cursor,
    cidrs: Cursor,
    /// The services with an address that is in no ServiceCIDR.
    out_of_range: HashSet<Owner>,
    /// The objects that are to be checked, and when.
    due: HashMap<Item, Instant>,
}

impl Repair {
    /// Repairs, until changes cannot be followed from where they were.
    async fn follow(&mut self) -> Result<(), cache::Error> {
        let watch = async |resource: &Arc<Resource>| {
            resource.watch(WatchOptions::new(Start::After(resource.revision()))).await
        };
        let mut objects = watch(self.objects.resource()).await?;
        let mut addresses = watch(self.addresses.resource()).await?;
        let mut cidrs = watch(self.cidrs.resource()).await?;
        loop {
            self.look();
            self.round().await;
            sleep(COLLECT).await;
            let change = async {
                tokio::select! {
                    changed = objects.next() => changed.map(drop),
                    changed = addresses.next() => changed.map(drop),
                    changed = cidrs.next() => changed.map(drop),
                }
            };
            match self.due.values().min().copied() {
                None => change.await?,
                Some(at) => timeout_at(at, change).await.unwrap_or(Ok(()))?,
            }
        }
    }

    /// Finds what has changed.
    fn look(&mut self) {
        let now = Instant::now();
        let Self { objects, addresses, cidrs, out_of_range, due, .. } = self;
        objects.advance(|update| {
            if let Update::Change { after: Some(entry), .. } = update {
                due.insert(Item::Service(owner_of(entry)), now);
            }
        });
        addresses.advance(|update| {
            if let Update::Change { after: Some(entry), .. } = update {
                due.insert(Item::Address(entry.name().to_owned()), now);
            }
        });
        cidrs.advance(|_| due.extend(out_of_range.drain().map(|owner| (Item::Service(owner), now))));
    }

    /// Looks at everything whose time has come. What fails is looked at again.
    async fn round(&mut self) {
        let now = Instant::now();
        let items: Vec<Item> = self.due.extract_if(|_, at| *at <= now).map(|(item, _)| item).collect();
        self.due.shrink_to_fit();
        for (place, item) in items.into_iter().enumerate() {
            if place % AT_ONCE == 0 {
                tokio::task::yield_now().await;
            }
            let outcome = match &item {
                Item::Service(owner) => self.check_service(owner).await,
                Item::Address(name) => self.check_address(name).await,
            };
            let again = outcome.unwrap_or_else(|error| {
                log::error!(item:? = item, error:% = error.message; "the address of a service could not be repaired");
                Some(PAUSE)
            });
            if let Some(after) = again {
                self.due.entry(item).or_insert_with(|| Instant::now() + after);
            }
        }
    }

    /// Tells people about the node ports that a service should not have.
    async fn check_ports(&self, service: &Map, owner: &Owner) {
        for (port, fault) in self.services.port_faults(service) {
            let (reason, message) = match fault {
                PortFault::OutOfRange(range) => (
                    "PortOutOfRange",
                    format!("Port {port} is not within the port range {range}; please recreate service"),
                ),
                PortFault::Shared => (
                    "PortAlreadyAllocated",
                    format!("Port {port} was assigned to multiple services; please recreate service"),
                ),
            };
            log::warn!(service:% = owner, reason, port; "a service should not have its node port; it should be made anew");
            self.tell_service(&self.port_recorder, owner, reason, &message).await;
        }
    }

    /// Every address of a service has its IPAddress; the time until it has to be looked at again.
    async fn check_service(&mut self, owner: &Owner) -> Result<Option<Duration>, Status> {
        let Some(service) = self.service(owner) else { return Ok(None) };
        self.check_ports(&service, owner).await;
        let mut again = None;
        for ip in Services::addresses_of(&service) {
            if !self.services.is_in_range(ip) {
                self.out_of_range.insert(owner.clone());
                if matches!(self.cidrs.resource().lookup("", DEFAULT_CIDR), Ok(None)) {
                    continue;
                }
                log::warn!(service:% = owner, address:% = ip; "the address of a service is in no ServiceCIDR; the service should be made anew");
                let family = family(ip);
                let message = format!(
                    "Cluster IP [{family}]: {ip} is not within any configured Service CIDR; please recreate service"
                );
                self.tell_service(&self.recorder, owner, "ClusterIPOutOfRange", &message).await;
                continue;
            }
            if self.services.is_under_way(ip) {
                again = Some(PAUSE);
                continue;
            }
            match self.addresses.resource().lookup("", &ip.to_string()) {
                Ok(Some(found)) => self.check_parent(&found, ip, owner).await?,
                Ok(None) if self.has(owner, ip) => {
                    let message = format!("Cluster IP [{}]: {ip} is not allocated; repairing", family(ip));
                    self.tell_service(&self.recorder, owner, "ClusterIPNotAllocated", &message).await;
                    self.make(ip, owner).await?;
                }
                // One that cannot be read takes the address, too.
                Ok(None) | Err(_) => {}
            }
        }
        Ok(again)
    }

    /// The IPAddress of a service's address belongs to the service, and has its labels.
    async fn check_parent(&self, found: &Entry, ip: IpAddr, service: &Owner) -> Result<(), Status> {
        let parent = read(found).as_ref().and_then(owner);
        match parent.filter(|parent| parent != service) {
            Some(other) if self.has(&other, ip) => {
                log::error!(address:% = ip, service:% = service, other:% = other; "two services have the same address; one of them should be made anew");
                let family = family(ip);
                let message = format!(
                    "Cluster IP [{family}]:{ip} was assigned to multiple services; please recreate service"
                );
                self.tell_service(&self.recorder, service, "ClusterIPAlreadyAllocated", &message).await;
                return Ok(());
            }
            None if self.services.has_own_labels(found, ip) && parent_is(found, service) => return Ok(()),
            _ => {}
        }
        log::warn!(address:% = ip, service:% = service; "the address of a service belongs to something else; it is taken for the service");
        if !parent_is(found, service) {
            let (family, Owner { namespace, name }) = (family(ip), service);
            let message = format!(
                "the ClusterIP [{family}]: {ip} for Service {namespace}/{name} has a wrong reference; repairing"
            );
            self.tell_service(&self.recorder, service, "ClusterIPNotAllocated", &message).await;
        }
        self.services.remove_address(found).await?;
        self.make(ip, service).await
    }

    async fn make(&self, ip: IpAddr, owner: &Owner) -> Result<(), Status> {
        match self.services.make_address(ip, owner).await {
            Ok(()) => {
                log::warn!(address:% = ip, service:% = owner; "a service had no IPAddress for its address")
            }
            Err(error) if error.reason == Reason::AlreadyExists => {}
            Err(error) => return Err(error),
        }
        // The service may have gone meanwhile, before there was something to give back.
        if !self.has(owner, ip)
            && let Ok(Some(made)) = self.addresses.resource().lookup("", &ip.to_string())
            && parent_is(&made, owner)
            && !self.services.is_under_way(ip)
            && !self.has(owner, ip)
        {
            self.services.remove_address(&made).await?;
        }
        Ok(())
    }

    /// Removes an IPAddress that belongs to nobody; the time until it has to be looked at again.
    async fn check_address(&self, name: &str) -> Result<Option<Duration>, Status> {
        let Ok(Some(entry)) = self.addresses.resource().lookup("", name) else { return Ok(None) };
        let Some(ip) = name.parse().ok().filter(|_| is_managed(&entry)) else { return Ok(None) };
        // Asked before the service is: a write that ends in between has its service then.
        if self.services.is_under_way(ip) {
            return Ok(Some(PAUSE));
        }
        let parent = read(&entry).as_ref().and_then(owner);
        if parent.as_ref().is_some_and(|parent| self.may_have(parent, ip)) {
            return Ok(None);
        }
        let age = age(&entry);
        if parent.is_some() && entry.create_revision() > self.before && age < GRACE {
            return Ok(Some(GRACE - age));
        }
        log::warn!(address = name; "an address belongs to no service and is released");
        let (reason, message) = self.fault(&entry, parent.as_ref());
        let subject = Subject::of(&entry, "networking.k8s.io/v1", "IPAddress");
        self.recorder.record(&subject, EventType::Warning, reason, &message).await;
        self.services.remove_address(&entry).await?;
        Ok(None)
    }

    /// The reason and the message of the event about an IPAddress that belongs to nobody.
    fn fault(&self, entry: &Entry, parent: Option<&Owner>) -> (&'static str, String) {
        let address = entry.name();
        let Some(Owner { namespace, name }) = parent else {
            let read = read(entry).unwrap_or_default();
            let [group, resource, namespace, name] = match IPAddress::of(&read).spec().parent_ref() {
                Some(parent) => [parent.group(), parent.resource(), parent.namespace(), parent.name()],
                None => [""; 4],
            };
            let message = format!(
                "IPAddress {address} appears to have been modified, not referencing a Service \
                 &ParentReference{{Group:{group},Resource:{resource},Namespace:{namespace},Name:{name},}}: cleaning up"
            );
            return ("IPAddressNotAllocated", message);
        };
        match self.objects.resource().lookup(namespace, name) {
            Ok(None) => (
                "IPAddressNotAllocated",
                format!(
                    "IPAddress: {address} for Service {namespace}/{name} appears to have leaked: cleaning up"
                ),
            ),
            _ => (
                "IPAddressWrongReference",
                format!(
                    "IPAddress: {address} for Service {namespace}/{name} has a wrong reference; cleaning up"
                ),
            ),
        }
    }

    /// Tells people what is wrong with a service.
    async fn tell_service(&self, recorder: &Recorder, service: &Owner, reason: &str, message: &str) {
        let found = self.objects.resource().lookup(&service.namespace, &service.name);
        if let Ok(Some(entry)) = found {
            let subject = Subject::of(&entry, "v1", "Service");
            recorder.record(&subject, EventType::Warning, reason, message).await;
        }
    }

    fn has(&self, owner: &Owner, ip: IpAddr) -> bool {
        self.addresses_of(owner).is_some_and(|ips| ips.contains(&ip))
    }

    /// Whether a service has an address, or cannot be read.
    fn may_have(&self, owner: &Owner, ip: IpAddr) -> bool {
        match self.objects.resource().lookup(&owner.namespace, &owner.name) {
            Ok(None) => false,
            Ok(Some(_)) => self.addresses_of(owner).is_none_or(|ips| ips.contains(&ip)),
            Err(_) => true,
        }
    }

    /// The addresses of a service; `None` if it is not there or cannot be read.
    fn addresses_of(&self, owner: &Owner) -> Option<Vec<IpAddr>> {
        Some(Services::addresses_of(&self.service(owner)?))
    }

    /// The part of a service that is read; `None` if it is not there or cannot be read.
    fn service(&self, owner: &Owner) -> Option<Map> {
        let entry = self.objects.resource().lookup(&owner.namespace, &owner.name).ok()??;
        stored::logged(&entry, stored::decode_part(&self.part, entry.bytes()))
    }
}

fn family(ip: IpAddr) -> &'static str {
    if ip.is_ipv4() { "IPv4" } else { "IPv6" }
}

fn owner_of(service: &Entry) -> Owner {
    Owner { namespace: service.namespace().to_owned(), name: service.name().to_owned() }
}

fn read(address: &Entry) -> Option<Map> {
    stored::logged(address, stored::decode(IPAddress::schema(), address.bytes()))
}

fn parent_is(address: &Entry, service: &Owner) -> bool {
    read(address).as_ref().and_then(owner).as_ref() == Some(service)
}

/// How long ago an object was made.
fn age(entry: &Entry) -> Duration {
    let read = read(entry).unwrap_or_default();
    let made = read.get("metadata").and_then(|meta| meta.get("creationTimestamp"));
    let made = made.and_then(object::Value::as_str).and_then(|text| text.parse::<object::time::Time>().ok());
    let seconds = made.map_or(0, |made| object::time::Time::now().unix() - made.unix());
    Duration::from_secs(u64::try_from(seconds).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use allocation::{AddressRange, Config, PortRange};
    use auth::SystemIdentity;
    use cache::Change;
    use registry::{Address, Registry, WriteHooks};
    use schema::views::core::v1::Event;
    use store::memory::Memory;

    const IPS: Address<'static> = Address::v1("networking.k8s.io", "ipaddresses", "");
    const SERVICES: Address<'static> = Address::core("services", "default");

    struct Server {
        cache: Arc<Cache>,
        client: Client,
        services: Services,
    }

    impl Server {
        async fn on(store: Arc<Memory>) -> Self {
            let cache = Cache::open(store, registry::specs().unwrap(), cache::CacheOptions::default());
            let cache = Arc::new(cache.await.unwrap());
            let config = Config {
                range: AddressRange::parse("10.0.0.0/24").unwrap(),
                secondary: None,
                ports: PortRange::default(),
            };
            let services = Services::new(&cache, &config, None).unwrap();
            let config = registry::Config {
                hooks: WriteHooks::default().with("", "services", Arc::new(services.clone())),
                ..registry::Config::new(&cache).unwrap()
            };
            let registry = Arc::new(Registry::new(cache.clone(), config).unwrap());
            services.connect(&registry);
            Self { cache, services, client: Client::new(registry, SystemIdentity::ApiServer, "test") }
        }

        /// What the events say, in order: reason, object, message.
        async fn told(&self) -> Vec<String> {
            let events = self.client.list_objects(Address::core("events", "default")).await.unwrap();
            let mut told: Vec<String> = events
                .iter()
                .map(|event| {
                    let event = Event::of(event.as_map().unwrap());
                    let component =
                        if event.reason().starts_with("Port") { PORT_COMPONENT } else { COMPONENT };
                    assert_eq!((event.r#type(), event.source().component()), ("Warning", component));
                    let about = event.involved_object();
                    format!("{} {}/{} {}", event.reason(), about.kind(), about.name(), event.message())
                })
                .collect();
            told.sort();
            told
        }

        async fn make(&self, address: Address<'_>, text: &str) {
            let object = self.client.decode(address, text).unwrap();
            self.client.create(address, object).await.unwrap();
        }

        async fn service(&self, name: &str, ip: &str) {
            let text = format!(
                r#"{{"metadata":{{"name":"{name}"}},"spec":{{"ports":[{{"port":80}}],"clusterIP":"{ip}"}}}}"#
            );
            self.make(SERVICES, &text).await;
        }

        async fn address(&self, ip: &str, managed_by: &str, parent: &str) {
            let text = format!(
                r#"{{"metadata":{{"name":"{ip}","labels":{{"ipaddress.kubernetes.io/managed-by":"{managed_by}",
                "ipaddress.kubernetes.io/ip-family":"IPv4"}}}},"spec":{{"parentRef":{parent}}}}}"#
            );
            self.make(IPS, &text).await;
        }

        /// Waits until these addresses are taken, each by a service.
        async fn until(&self, expected: &[&str]) {
            let addresses = self.cache.resource("ipaddresses.networking.k8s.io").unwrap();
            let taken = async || {
                let mut taken = Vec::new();
                for object in self.client.list_objects(IPS).await.unwrap() {
                    let name = object
                        .get("metadata")
                        .and_then(|meta| meta.get("name"))
                        .and_then(|name| name.as_str())
                        .unwrap()
                        .to_owned();
                    let entry = addresses.lookup("", &name).unwrap().unwrap();
                    let parent = read(&entry).as_ref().and_then(owner);
                    taken.push(format!("{name} {}", parent.map(|owner| owner.name).unwrap_or_default()));
                }
                taken
            };
            for _ in 0..1000 {
                if taken().await == expected {
                    return;
                }
                sleep(Duration::from_millis(50)).await;
            }
            panic!("{:?} is taken, not {expected:?}", taken().await);
        }
    }

    const SERVICE: &str = r#"{"resource":"services","namespace":"default","name":"NAME"}"#;

    #[tokio::test(start_paused = true)]
    async fn start_repairs_what_a_crash_left() {
        let store = Arc::new(Memory::default());
        let crashed = Server::on(store.clone()).await;
        crashed.make(Address::core("namespaces", ""), r#"{"metadata":{"name":"default"}}"#).await;
        let cidrs = Address::v1("networking.k8s.io", "servicecidrs", "");
        crashed.make(cidrs, r#"{"metadata":{"name":"kubernetes"},"spec":{"cidrs":["10.0.0.0/24"]}}"#).await;
        for (name, ip) in [("a", "10.0.0.1"), ("b", "10.0.0.2"), ("c", "10.0.0.3"), ("d", "10.0.0.4")] {
            crashed.service(name, ip).await;
        }
        // A create and a delete that were not finished; one of a service that has another address; one that
        // is not ours.
        let parent = |name: &str| SERVICE.replace("NAME", name);
        crashed.address("10.0.0.9", "ipallocator.k8s.io", &parent("gone")).await;
        crashed.address("10.0.0.10", "ipallocator.k8s.io", &parent("a")).await;
        crashed.address("10.0.0.11", "somebody", &parent("gone")).await;
        crashed
            .address(
                "10.0.0.12",
                "ipallocator.k8s.io",
                r#"{"resource":"gateways","group":"x.io","name":"g"}"#,
            )
            .await;
        // Written past the server: no address for b, one of something else for c, one without labels for d.
        let addresses = crashed.cache.resource("ipaddresses.networking.k8s.io").unwrap();
        for ip in ["10.0.0.2", "10.0.0.3", "10.0.0.4"] {
            crashed.cache.commit(Change::delete(&addresses, "", ip)).await.unwrap();
        }
        crashed.address("10.0.0.3", "somebody", r#"{"resource":"gateways","group":"x.io","name":"g"}"#).await;
        crashed.address("10.0.0.4", "", &parent("d")).await;
        let server = Server::on(store).await;
        let before = server.cache.committed();
        let task =
            tokio::spawn(run(server.cache.clone(), server.services.clone(), before, server.client.clone()));
        server.until(&["10.0.0.1 a", "10.0.0.11 gone", "10.0.0.2 b", "10.0.0.3 c", "10.0.0.4 d"]).await;
        task.abort();
        assert_eq!(
            server.told().await,
            [
                "ClusterIPNotAllocated Service/b Cluster IP [IPv4]: 10.0.0.2 is not allocated; repairing",
                "ClusterIPNotAllocated Service/c the ClusterIP [IPv4]: 10.0.0.3 for Service default/c has a wrong reference; repairing",
                "IPAddressNotAllocated IPAddress/10.0.0.12 IPAddress 10.0.0.12 appears to have been modified, not referencing a Service &ParentReference{Group:x.io,Resource:gateways,Namespace:,Name:g,}: cleaning up",
                "IPAddressNotAllocated IPAddress/10.0.0.9 IPAddress: 10.0.0.9 for Service default/gone appears to have leaked: cleaning up",
                "IPAddressWrongReference IPAddress/10.0.0.10 IPAddress: 10.0.0.10 for Service default/a has a wrong reference; cleaning up",
            ]
        );
    }

    #[tokio::test(start_paused = true)]
    async fn service_of_an_older_server_gets_its_address_when_there_is_a_range() {
        let server = Server::on(Arc::default()).await;
        server.make(Address::core("namespaces", ""), r#"{"metadata":{"name":"default"}}"#).await;
        // From a time before lists of addresses, written past the server.
        let services = server.cache.resource("services").unwrap();
        let text = r#"{"kind":"Service","apiVersion":"v1","metadata":{"name":"a","namespace":"default"},"spec":{"type":"ClusterIP","clusterIP":"10.0.0.11","ports":[{"port":80}]}}"#;
        server.cache.commit(Change::put(&services, "default", "a", text)).await.unwrap();
        let before = server.cache.committed();
        let task =
            tokio::spawn(run(server.cache.clone(), server.services.clone(), before, server.client.clone()));
        sleep(Duration::from_secs(5)).await;
        assert_eq!(server.told().await, Vec::<String>::new());
        let cidrs = Address::v1("networking.k8s.io", "servicecidrs", "");
        server.make(cidrs, r#"{"metadata":{"name":"kubernetes"},"spec":{"cidrs":["10.0.0.0/24"]}}"#).await;
        server.until(&["10.0.0.11 a"]).await;
        task.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn node_ports_out_of_range_or_of_several_services_are_told_as_events() {
        let server = Server::on(Arc::default()).await;
        server.make(Address::core("namespaces", ""), r#"{"metadata":{"name":"default"}}"#).await;
        // Written past the hook that gives node ports.
        let config = registry::Config::new(&server.cache).unwrap();
        let registry = Arc::new(Registry::new(server.cache.clone(), config).unwrap());
        let client = Client::new(registry, SystemIdentity::ApiServer, "test");
        for (name, port) in [("a", 30001), ("b", 30001), ("c", 80), ("d", 30002)] {
            let text = format!(
                r#"{{"metadata":{{"name":"{name}"}},"spec":{{"type":"NodePort","ports":[{{"port":80,"nodePort":{port}}}]}}}}"#
            );
            client.create(SERVICES, client.decode(SERVICES, &text).unwrap()).await.unwrap();
        }
        let before = server.cache.committed();
        let task =
            tokio::spawn(run(server.cache.clone(), server.services.clone(), before, server.client.clone()));
        for _ in 0..1000 {
            if server.told().await.len() == 3 {
                break;
            }
            sleep(Duration::from_millis(50)).await;
        }
        task.abort();
        assert_eq!(
            server.told().await,
            [
                "PortAlreadyAllocated Service/a Port 30001 was assigned to multiple services; please recreate service",
                "PortAlreadyAllocated Service/b Port 30001 was assigned to multiple services; please recreate service",
                "PortOutOfRange Service/c Port 80 is not within the port range 30000-32767; please recreate service",
            ]
        );
    }

    #[tokio::test]
    async fn address_of_this_process_has_a_minute() {
        let server = Server::on(Arc::default()).await;
        let before = server.cache.committed();
        server.address("10.0.0.9", "ipallocator.k8s.io", &SERVICE.replace("NAME", "gone")).await;
        let (objects, addresses) = (
            server.cache.resource("services").unwrap(),
            server.cache.resource("ipaddresses.networking.k8s.io").unwrap(),
        );
        let repair = Repair {
            services: server.services.clone(),
            recorder: Recorder::new(server.client.clone(), COMPONENT),
            port_recorder: Recorder::new(server.client.clone(), PORT_COMPONENT),
            before,
            part: Builder::part_of(Service::schema(), PART).build(),
            objects: Cursor::new(objects),
            addresses: Cursor::new(addresses),
            cidrs: Cursor::new(server.cache.resource("servicecidrs.networking.k8s.io").unwrap()),
            out_of_range: HashSet::new(),
            due: HashMap::new(),
        };
        let later = repair.check_address("10.0.0.9").await.unwrap().unwrap();
        assert!(later > GRACE / 2 && later <= GRACE, "{later:?}");
        server.until(&["10.0.0.9 gone"]).await;
        let earlier = Repair { before: server.cache.committed(), ..repair };
        assert!(earlier.check_address("10.0.0.9").await.unwrap().is_none());
        server.until(&[]).await;
    }
}
