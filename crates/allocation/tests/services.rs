//! Services through the whole pipeline: what they are given, what is refused, and that nothing stays taken.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use admission::plugins::NamespaceLifecycle;
use admission::{Attributes, Chain, Operation, Plugin, Reservation};
use allocation::{AddressRange, Config, PortRange, PortRecord, Services};
use auth::{Authenticated, SystemIdentity};
use cache::Cache;
use object::{Map, Value};
use registry::{
    Address, Client, DeleteOptions, ListOptions, Registry, Target, WriteHooks, WriteOptions, specs,
};
use schema::{Limits, Status, json};
use store::contract::Intercepted;
use store::memory::Memory;
use store::{Fate, Store};
use tasks::Deferred;

const SERVICES: Address<'static> = Address::core("services", "n");
const CIDRS: Address<'static> = Address::v1("networking.k8s.io", "servicecidrs", "");
const IPS: Address<'static> = Address::v1("networking.k8s.io", "ipaddresses", "");

/// A plugin that takes some time, and refuses services with the label `refuse`, in the step before the
/// commit.
struct Refuses;

impl Plugin for Refuses {
    fn handles(&self, operation: Operation) -> bool {
        matches!(operation, Operation::Create | Operation::Update)
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'_>,
        object: Option<&'a Value>,
    ) -> Deferred<'a, Result<Option<Reservation>, Status>> {
        if !attributes.is_about("", "services") {
            return Deferred::Now(Ok(None));
        }
        Deferred::later(async move {
            tokio::time::sleep(Duration::from_millis(fastrand::u64(..3))).await;
            let labels = object.and_then(|object| object.get("metadata")).and_then(|meta| meta.get("labels"));
            match labels.and_then(|labels| labels.get("refuse")) {
                Some(_) => Err(attributes.forbidden(object, "no")),
                None => Ok(None),
            }
        })
    }
}

#[derive(Clone)]
struct Server {
    registry: Arc<Registry>,
    client: Client,
    services: Services,
}

impl Server {
    /// A server with ranges by flags, and one ServiceCIDR that has them.
    async fn start(ranges: &[&str], ports: &str) -> Self {
        Self::on(Arc::new(Memory::default()), ranges, ports).await.with_range(ranges).await
    }

    /// Two servers on one store, which know of each other.
    async fn start_two(ranges: &[&str], ports: &str) -> [Self; 2] {
        let store = Arc::new(Memory::default());
        let shared = async || {
            let record = PortRecord::new(store.clone(), "/registry").unwrap();
            Self::with_record(store.clone(), ranges, ports, Some(record)).await
        };
        [shared().await.with_range(ranges).await, shared().await]
    }

    async fn with_range(self, ranges: &[&str]) -> Self {
        let server = self;
        let list: Vec<String> = ranges.iter().map(|range| format!("\"{range}\"")).collect();
        server
            .make(
                CIDRS,
                &format!(r#"{{"metadata":{{"name":"kubernetes"}},"spec":{{"cidrs":[{}]}}}}"#, list.join(",")),
            )
            .await;
        server.make(Address::core("namespaces", ""), r#"{"metadata":{"name":"n"}}"#).await;
        server
    }

    async fn on(store: Arc<dyn Store>, ranges: &[&str], ports: &str) -> Self {
        Self::with_record(store, ranges, ports, None).await
    }

    async fn with_record(
        store: Arc<dyn Store>,
        ranges: &[&str],
        ports: &str,
        record: Option<PortRecord>,
    ) -> Self {
        let cache = Cache::open(store, specs().unwrap(), cache::CacheOptions::default());
        let cache = Arc::new(cache.await.unwrap());
        let mut ranges = ranges.iter().map(|range| AddressRange::parse(range).unwrap());
        let config = Config {
            range: ranges.next().unwrap(),
            secondary: ranges.next(),
            ports: PortRange::parse(ports).unwrap(),
        };
        let services = Services::new(&cache, &config, record).unwrap();
        let plugins: [Box<dyn Plugin>; 2] =
            [Box::new(NamespaceLifecycle::new(cache.resource("namespaces").unwrap())), Box::new(Refuses)];
        let config = registry::Config {
            admission: Chain::new(plugins),
            hooks: WriteHooks::default().with("", "services", Arc::new(services.clone())),
            ..registry::Config::new(&cache).unwrap()
        };
        let registry = Arc::new(Registry::new(cache, config).unwrap());
        services.connect(&registry);
        let client = Client::new(registry.clone(), SystemIdentity::ApiServer, "test");
        Self { registry, client, services }
    }

    async fn make(&self, address: Address<'_>, text: &str) -> Value {
        self.try_make(address, text).await.unwrap()
    }

    async fn try_make(&self, address: Address<'_>, text: &str) -> Result<Value, Status> {
        self.client.create(address, self.client.decode(address, text).unwrap()).await
    }

    /// A new service; what it says about addresses and ports, or the error.
    async fn create(&self, name: &str, spec: &str) -> String {
        match self.try_make(SERVICES, &service(name, spec)).await {
            Ok(service) => shown(&service),
            Err(error) => format!("{} {}", error.code, error.message),
        }
    }

    async fn write(
        &self,
        name: &str,
        text: &str,
        verb: &'static str,
        dry_run: bool,
    ) -> Result<Value, Status> {
        let target = auth::Target::Resource {
            group: String::new(),
            version: "v1".into(),
            resource: "services".into(),
            subresource: String::new(),
            namespace: "n".into(),
            name: name.into(),
        };
        let caller = Authenticated::system(SystemIdentity::ApiServer);
        let attributes = auth::Attributes::new(verb, target);
        let proof = self.registry.config().authorizer.authorize(caller, attributes).await.unwrap();
        let catalog = self.registry.catalog();
        let target = Target::find(&proof, &catalog).unwrap();
        let options = WriteOptions { dry_run, ..WriteOptions::default() };
        let answer = match verb {
            "patch" => {
                self.registry.patch(&target, registry::Patch::Merge, text.as_bytes(), &options).await?
            }
            _ => {
                let object = self.client.decode(SERVICES, text).unwrap();
                self.registry.create(&target, object, &options).await?
            }
        };
        Ok(match answer.content {
            registry::Content::Tree(tree) => tree,
            registry::Content::Entry(entry) => {
                json::decode(&catalog.find("", "v1", "services").unwrap().ty, entry.bytes(), &Limits::STORED)
                    .unwrap()
                    .value
            }
            registry::Content::Other { value, .. } => value,
        })
    }

    async fn patch(&self, name: &str, patch: &str) -> String {
        match self.write(name, patch, "patch", false).await {
            Ok(service) => shown(&service),
            Err(error) => format!("{} {}", error.code, error.message),
        }
    }

    async fn dry_run(&self, name: &str, text: &str, verb: &'static str) -> String {
        match self.write(name, text, verb, true).await {
            Ok(service) => shown(&service),
            Err(error) => format!("{} {}", error.code, error.message),
        }
    }

    async fn delete_all(&self) {
        let target = auth::Target::Resource {
            group: String::new(),
            version: "v1".into(),
            resource: "services".into(),
            subresource: String::new(),
            namespace: "n".into(),
            name: String::new(),
        };
        let caller = Authenticated::system(SystemIdentity::ApiServer);
        let attributes = auth::Attributes::new("deletecollection", target);
        let proof = self.registry.config().authorizer.authorize(caller, attributes).await.unwrap();
        let catalog = self.registry.catalog();
        let target = Target::find(&proof, &catalog).unwrap();
        let (list, delete) = (ListOptions::default(), DeleteOptions::default());
        self.registry.delete_collection(&target, &list, &delete).await.map(drop).unwrap();
    }

    async fn delete(&self, name: &str) {
        self.client.delete(SERVICES.named(name), &DeleteOptions::default()).await.unwrap();
    }

    /// The addresses that are taken, each with its service.
    async fn taken(&self) -> Vec<String> {
        let objects = self.client.list_objects(IPS).await.unwrap();
        let show = |object: &Value| {
            let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
            let parent = object.get("spec").and_then(|spec| spec.get("parentRef"));
            let name = text(object.get("metadata").and_then(|meta| meta.get("name")));
            format!("{name} {}", text(parent.and_then(|parent| parent.get("name"))))
        };
        objects.iter().map(show).collect()
    }
}

fn service(name: &str, spec: &str) -> String {
    format!(r#"{{"metadata":{{"name":"{name}","namespace":"n"}},"spec":{spec}}}"#)
}

/// Addresses, families and policy, node ports and health check node port.
fn shown(service: &Value) -> String {
    let spec = service.get("spec").and_then(Value::as_map).cloned().unwrap_or_default();
    let join = |key: &str| {
        let list = spec.get(key).and_then(Value::as_list);
        list.into_iter().flatten().filter_map(Value::as_str).collect::<Vec<_>>().join(",")
    };
    let ports = spec.get("ports").and_then(Value::as_list).into_iter().flatten();
    let ports: Vec<String> = ports
        .filter_map(|port| port.get("nodePort").and_then(Value::as_i64))
        .chain(spec.get("healthCheckNodePort").and_then(Value::as_i64))
        .map(|port| port.to_string())
        .collect();
    let text = |key: &str| spec.get(key).and_then(Value::as_str).unwrap_or_default();
    assert!(join("clusterIPs").starts_with(text("clusterIP")));
    format!("{} {} {} {}", join("clusterIPs"), join("ipFamilies"), text("ipFamilyPolicy"), ports.join(","))
        .trim()
        .to_owned()
}

fn ips(services: &[Value]) -> Vec<String> {
    let lists = services.iter().filter_map(|service| service.get("spec")?.get("clusterIPs")?.as_list());
    lists.flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

#[tokio::test]
async fn services_get_addresses_and_ports_and_give_them_back() {
    // Two addresses and three ports.
    let server = Server::start(&["10.0.0.0/30"], "30000-30002").await;
    assert_eq!(
        server.create("a", r#"{"ports":[{"port":80}],"clusterIP":"10.0.0.2"}"#).await,
        "10.0.0.2 IPv4 SingleStack"
    );
    assert_eq!(server.create("b", r#"{"ports":[{"port":80}]}"#).await, "10.0.0.1 IPv4 SingleStack");
    assert_eq!(server.taken().await, ["10.0.0.1 b", "10.0.0.2 a"]);
    assert_eq!(
        server.create("c", r#"{"ports":[{"port":80}]}"#).await,
        "500 Internal error occurred: failed to allocate a serviceIP: range is full"
    );
    for (ip, why) in [
        ("10.0.0.1", "provided IP is already allocated"),
        ("10.0.0.0", "the provided network does not match the current range"),
        ("10.0.0.3", "the provided network does not match the current range"),
        ("192.0.2.1", "the provided network does not match the current range"),
    ] {
        let expected = format!(
            r#"422 Service "c" is invalid: spec.clusterIPs: Invalid value: []string{{"{ip}"}}: failed to allocate IP {ip}: {why}"#
        );
        assert_eq!(
            server.create("c", &format!(r#"{{"ports":[{{"port":80}}],"clusterIP":"{ip}"}}"#)).await,
            expected
        );
    }
    server.delete("b").await;
    assert_eq!(server.taken().await, ["10.0.0.2 a"]);
    // Ports of one number share a node port; the load balancer's checks have their own.
    let shared = server
        .create(
            "l",
            r#"{"type":"LoadBalancer","externalTrafficPolicy":"Local","healthCheckNodePort":30001,"ports":[{"name":"a","port":80,"nodePort":30000},{"name":"b","port":80,"protocol":"UDP"}]}"#,
        )
        .await;
    assert_eq!(shared, "10.0.0.1 IPv4 SingleStack 30000,30000,30001");
    assert_eq!(server.patch("a", r#"{"spec":{"type":"NodePort"}}"#).await, "10.0.0.2 IPv4 SingleStack 30002");
    assert_eq!(
        server
            .patch(
                "l",
                r#"{"spec":{"ports":[{"name":"a","port":80,"nodePort":30000},{"name":"c","port":81}]}}"#
            )
            .await,
        "500 Internal error occurred: failed to allocate a nodePort: range is full"
    );
    assert_eq!(
        server.patch("l", r#"{"spec":{"ports":[{"name":"a","port":80,"nodePort":30002}]}}"#).await,
        r#"422 Service "l" is invalid: spec.ports[0].nodePort: Invalid value: 30002: provided port is already allocated"#
    );
    assert_eq!(server.patch("a", r#"{"spec":{"type":"ClusterIP"}}"#).await, "10.0.0.2 IPv4 SingleStack");
    assert_eq!(
        server.patch("l", r#"{"spec":{"ports":[{"name":"a","port":80,"nodePort":30002}]}}"#).await,
        "10.0.0.1 IPv4 SingleStack 30002,30001"
    );
    assert_eq!(
        server.patch("l", r#"{"spec":{"externalTrafficPolicy":"Cluster"}}"#).await,
        "10.0.0.1 IPv4 SingleStack 30002"
    );
    assert_eq!(
        server.patch("a", r#"{"spec":{"type":"NodePort","ports":[{"port":80,"nodePort":30001}]}}"#).await,
        "10.0.0.2 IPv4 SingleStack 30001"
    );
    assert_eq!(
        server.patch("a", r#"{"spec":{"type":"ExternalName","externalName":"x.example.com"}}"#).await,
        ""
    );
    assert_eq!(server.taken().await, ["10.0.0.1 l"]);
    assert_eq!(
        server.patch("a", r#"{"spec":{"type":"ClusterIP","externalName":null}}"#).await,
        "10.0.0.2 IPv4 SingleStack"
    );
}

#[tokio::test]
async fn refused_writes_and_dry_runs_take_nothing() {
    let server = Server::start(&["10.0.0.0/30"], "30000-30000").await;
    let spec = r#"{"type":"NodePort","ports":[{"port":80}],"clusterIP":"10.0.0.1"}"#;
    let free = async |why: &str| {
        assert!(server.taken().await.is_empty(), "{why}");
        assert_eq!(server.create("free", spec).await, "10.0.0.1 IPv4 SingleStack 30000", "{why}");
        server.delete("free").await;
    };
    let refused = service("a", spec).replace(r#""namespace""#, r#""labels":{"refuse":"x"},"namespace""#);
    assert_eq!(server.try_make(SERVICES, &refused).await.unwrap_err().code, 403);
    free("refused by admission").await;
    assert!(server.create("A_", spec).await.starts_with("422"));
    free("refused by validation").await;
    assert!(server.create("a", &spec.replace("80", r#"80,"nodePort":30001"#)).await.starts_with("422"));
    free("no such port").await;
    server.make(SERVICES, &service("a", r#"{"type":"ExternalName","externalName":"x.example.com"}"#)).await;
    assert!(server.create("a", spec).await.starts_with("409"));
    free("the name is taken").await;
    let patch = r#"{"metadata":{"labels":{"refuse":"x"}},"spec":{"type":"NodePort","ports":[{"port":80}],"clusterIP":"10.0.0.1"}}"#;
    assert!(server.patch("a", patch).await.starts_with("403"));
    free("refused by admission on update").await;
    for (text, verb, shown) in [
        (service("b", spec), "create", "10.0.0.1 IPv4 SingleStack 32769"),
        (service("b", r#"{"ports":[{"port":80}]}"#), "create", "10.0.0.0 IPv4 SingleStack"),
        (
            r#"{"spec":{"type":"ClusterIP","ports":[{"port":80}]}}"#.into(),
            "patch",
            "10.0.0.0 IPv4 SingleStack",
        ),
    ] {
        let name = if verb == "patch" { "a" } else { "" };
        assert_eq!(server.dry_run(name, &text, verb).await, shown);
    }
    free("dry run").await;
}

#[tokio::test]
async fn addresses_go_with_the_last_finalizer_and_with_a_collection() {
    let server = Server::start(&["10.0.0.0/28"], "30000-30010").await;
    let kept = service("a", r#"{"ports":[{"port":80}]}"#)
        .replace(r#""namespace""#, r#""finalizers":["x/y"],"namespace""#);
    server.make(SERVICES, &kept).await;
    server.make(Address::core("endpoints", "n"), r#"{"metadata":{"name":"a","namespace":"n"}}"#).await;
    server.delete("a").await;
    assert_eq!(server.taken().await.len(), 1);
    server.patch("a", r#"{"metadata":{"finalizers":null}}"#).await;
    assert!(server.taken().await.is_empty());
    let endpoints = server.client.get(Address::core("endpoints", "n").named("a")).await;
    assert_eq!(endpoints.unwrap_err().code, 404);
    for name in ["b", "c", "d"] {
        server.create(name, r#"{"ports":[{"port":80}]}"#).await;
    }
    assert_eq!(server.taken().await.len(), 3);
    server.delete_all().await;
    assert!(server.taken().await.is_empty());
}

#[tokio::test]
async fn services_change_between_one_and_two_families() {
    let server = Server::start(&["10.0.0.0/30", "fd00::/126"], "30000-30010").await;
    let ports = r#""ports":[{"port":80}]"#;
    assert_eq!(
        server
            .create("a", &format!(r#"{{{ports},"ipFamilyPolicy":"PreferDualStack","clusterIP":"10.0.0.1"}}"#))
            .await
            .split_once(',')
            .unwrap()
            .0,
        "10.0.0.1"
    );
    assert_eq!(server.taken().await.len(), 2);
    assert_eq!(
        server.patch("a", r#"{"spec":{"ipFamilyPolicy":"SingleStack"}}"#).await,
        "10.0.0.1 IPv4 SingleStack"
    );
    assert_eq!(server.taken().await, ["10.0.0.1 a"]);
    let upgrade = r#"{"spec":{"ipFamilyPolicy":"RequireDualStack","clusterIPs":["10.0.0.1","fd00::2"]}}"#;
    assert_eq!(server.patch("a", upgrade).await, "10.0.0.1,fd00::2 IPv4,IPv6 RequireDualStack");
    assert_eq!(server.taken().await, ["10.0.0.1 a", "fd00::2 a"]);
    assert_eq!(
        server.create("b", &format!(r#"{{{ports},"ipFamilies":["IPv6"],"clusterIP":"fd00::2"}}"#)).await,
        r#"422 Service "b" is invalid: spec.clusterIPs: Invalid value: []string{"fd00::2"}: failed to allocate IP fd00::2: provided IP is already allocated"#
    );
    // The second address is refused, so the first is given back.
    assert!(
        server
            .create("b", &format!(r#"{{{ports},"ipFamilyPolicy":"RequireDualStack","clusterIP":"10.0.0.2","clusterIPs":["10.0.0.2","fd00::2"]}}"#))
            .await
            .starts_with("422")
    );
    assert_eq!(server.taken().await, ["10.0.0.1 a", "fd00::2 a"]);
    server.delete("a").await;
    assert!(server.taken().await.is_empty());
}

#[tokio::test]
async fn addresses_come_from_ranges_of_sixty_four_bits() {
    let server = Server::start(&["2001:db8::/64"], "30000-30010").await;
    let ports = r#""ports":[{"port":80}]"#;
    assert_eq!(
        server.create("a", &format!(r#"{{{ports},"clusterIP":"2001:db8::ffff:ffff:ffff:ffff"}}"#)).await,
        "2001:db8::ffff:ffff:ffff:ffff IPv6 SingleStack"
    );
    let any = server.create("b", &format!("{{{ports}}}")).await;
    let (address, rest) = any.split_once(' ').unwrap();
    assert_eq!(rest, "IPv6 SingleStack");
    let address = address.parse().unwrap();
    assert!(AddressRange::parse("2001:db8::/64").unwrap().contains(address), "{address}");
    assert_eq!(server.taken().await.len(), 2);
    server.delete_all().await;
    assert!(server.taken().await.is_empty());
}

#[tokio::test]
async fn ranges_are_tried_in_their_order_while_they_are_ready() {
    let server = Server::start(&["10.0.0.0/30"], "30000-30010").await;
    // It has the addresses of the first range, too.
    server.make(CIDRS, r#"{"metadata":{"name":"a"},"spec":{"cidrs":["10.0.0.0/29"]}}"#).await;
    let not_ready = r#"{"metadata":{"name":"b"},"spec":{"cidrs":["10.0.1.0/30"]},"status":{"conditions":[{"type":"Ready","status":"False"}]}}"#;
    server.make(CIDRS, not_ready).await;
    let mut given = Vec::new();
    for name in ["s1", "s2", "s3", "s4", "s5", "s6"] {
        given.push(server.make(SERVICES, &service(name, r#"{"ports":[{"port":80}]}"#)).await);
    }
    let given = ips(&given);
    let first: BTreeSet<&str> = given.iter().take(2).map(String::as_str).collect();
    assert_eq!(first, BTreeSet::from(["10.0.0.1", "10.0.0.2"]));
    assert_eq!(given.iter().collect::<BTreeSet<_>>().len(), 6);
    assert!(server.create("full", r#"{"ports":[{"port":80}]}"#).await.ends_with("range is full"));
    assert!(
        server
            .create("named", r#"{"ports":[{"port":80}],"clusterIP":"10.0.1.1"}"#)
            .await
            .ends_with("the provided network does not match the current range")
    );
    let ready = |cidr: &mut Map| drop(cidr.remove("status"));
    server.client.modify(CIDRS.named("b").subresource("status"), ready).await.unwrap();
    assert_eq!(
        server.create("named", r#"{"ports":[{"port":80}],"clusterIP":"10.0.1.1"}"#).await,
        "10.0.1.1 IPv4 SingleStack"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_writes_get_nothing_twice_and_leave_nothing() {
    write_concurrently(&[Server::start(&["10.0.0.0/25"], "30000-30089").await]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_servers_give_nothing_twice_and_leave_nothing() {
    write_concurrently(&Server::start_two(&["10.0.0.0/25"], "30000-30089").await).await;
}

/// Writes services, some of which are refused or removed again.
async fn write_concurrently(servers: &[Server]) {
    const TASKS: usize = 200;
    let server = &servers[0];
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..TASKS {
        let server = servers[task % servers.len()].clone();
        tasks.spawn(async move {
            let name = format!("s{task}");
            for round in 0..4 {
                let refuse = if fastrand::u8(..3) == 0 { r#""labels":{"refuse":"x"},"# } else { "" };
                let named = if fastrand::u8(..4) == 0 { r#","clusterIP":"10.0.0.5""# } else { "" };
                let spec = format!(r#"{{"type":"NodePort","ports":[{{"port":80}}]{named}}}"#);
                let text =
                    service(&name, &spec).replace(r#""namespace""#, &format!(r#"{refuse}"namespace""#));
                let made = server.try_make(SERVICES, &text).await;
                let is_fine = |error: &Status| {
                    matches!(error.code, 403 | 422)
                        || (error.code == 500 && error.message.ends_with("range is full"))
                };
                if let Err(error) = &made {
                    assert!(is_fine(error), "{}", error.message);
                }
                if made.is_ok() && round < 3 {
                    server.delete(&name).await;
                }
            }
        });
    }
    while let Some(outcome) = tasks.join_next().await {
        outcome.unwrap();
    }
    let left = server.client.list_objects(SERVICES).await.unwrap();
    let ips = ips(&left);
    assert!(!left.is_empty());
    assert_eq!(ips.iter().collect::<BTreeSet<_>>().len(), left.len(), "an address was given twice");
    let ports: Vec<String> =
        left.iter().map(|service| shown(service).split(' ').next_back().unwrap().to_owned()).collect();
    assert_eq!(ports.iter().collect::<BTreeSet<_>>().len(), left.len(), "a port was given twice");
    let taken: BTreeSet<String> =
        server.taken().await.iter().map(|taken| taken.split(' ').next().unwrap().to_owned()).collect();
    assert_eq!(taken, ips.into_iter().collect(), "an address has leaked");
    // All ports can still be given.
    for service in &left {
        let name = service.get("metadata").and_then(|meta| meta.get("name")).and_then(Value::as_str).unwrap();
        server.delete(name).await;
    }
    for port in 0..90 {
        let shown = server.create(&format!("p{port}"), r#"{"type":"NodePort","ports":[{"port":80}]}"#).await;
        assert!(shown.starts_with("10."), "{shown}");
    }
}

#[tokio::test]
async fn ports_are_known_after_a_restart() {
    let store = Arc::new(Memory::default());
    let server = Server::on(store.clone(), &["10.0.0.0/24"], "30000-30001").await;
    server.make(CIDRS, r#"{"metadata":{"name":"kubernetes"},"spec":{"cidrs":["10.0.0.0/24"]}}"#).await;
    server.make(Address::core("namespaces", ""), r#"{"metadata":{"name":"n"}}"#).await;
    let node_port = r#"{"type":"NodePort","ports":[{"port":80,"nodePort":30000}]}"#;
    server.make(SERVICES, &service("a", node_port)).await;
    let again = Server::on(store, &["10.0.0.0/24"], "30000-30001").await;
    assert!(
        again
            .create("b", node_port)
            .await
            .ends_with("Invalid value: 30000: provided port is already allocated")
    );
    assert!(again.create("b", r#"{"type":"NodePort","ports":[{"port":80}]}"#).await.ends_with(" 30001"));
}

#[tokio::test]
async fn ports_on_record_are_taken_until_nobody_has_used_them_for_long() {
    let range = ["10.0.0.0/24"];
    let store = Arc::new(Memory::default());
    let record = || Some(PortRecord::new(store.clone(), "/registry").unwrap());
    let server = Server::with_record(store.clone(), &range, "30000-30009", record()).await;
    let server = server.with_range(&range).await;
    // One that knows of no others leaves its ports on record, and takes none there.
    let careless = Server::on(store.clone(), &range, "30000-30009").await;
    let port = |port: u16| format!(r#"{{"type":"NodePort","ports":[{{"port":80,"nodePort":{port}}}]}}"#);
    server.create("leaves", &port(30001)).await;
    careless.delete("leaves").await;
    careless.make(SERVICES, &service("takes", &port(30002))).await;
    let other = Server::with_record(store.clone(), &range, "30000-30009", record()).await;
    let taken = |port: u16| format!("Invalid value: {port}: provided port is already allocated");
    for number in [30001, 30002] {
        let refused = other.create("a", &port(number)).await;
        assert!(refused.ends_with(&taken(number)), "{refused}");
    }
    let refused = other.dry_run("a", &service("a", &port(30001)), "create").await;
    assert!(refused.ends_with(&taken(30001)), "{refused}");
    // What a service does not have any more is free for others at once.
    assert!(other.create("b", &port(30003)).await.ends_with(" 30003"));
    assert!(
        other.patch("b", r#"{"spec":{"ports":[{"port":80,"nodePort":30004}]}}"#).await.ends_with(" 30004")
    );
    assert!(server.create("c", &port(30003)).await.ends_with(" 30003"));
    assert!(other.patch("b", r#"{"spec":{"type":"ClusterIP"}}"#).await.starts_with("10."));
    assert!(
        server.patch("c", r#"{"spec":{"ports":[{"port":80,"nodePort":30004}]}}"#).await.ends_with(" 30004")
    );

    tokio::time::pause();
    tokio::spawn(server.services.clone().keep_port_record());
    tokio::time::sleep(Duration::from_secs(500)).await;
    assert!(other.create("a", &port(30001)).await.ends_with(&taken(30001)));
    tokio::time::sleep(Duration::from_secs(100)).await;
    assert!(other.create("a", &port(30001)).await.ends_with(" 30001"));
    careless.delete("takes").await;
    assert!(other.create("d", &port(30002)).await.ends_with(&taken(30002)), "it was put on record");
}

#[tokio::test]
async fn writes_that_may_have_happened_keep_what_they_took() {
    let range = ["10.0.0.0/24"];
    // While it is silent, the store does not say what became of the writes of services.
    let is_silent = Arc::new(AtomicBool::new(false));
    let silent = is_silent.clone();
    let store = Arc::new(Intercepted::new(Arc::new(Memory::default()), move |store, change| {
        let is_silent = silent.load(Ordering::SeqCst) && change.key.as_bytes().starts_with(b"services/");
        let committed = store.commit(change);
        Box::pin(async move {
            let committed = committed.await;
            let source = Arc::new(std::io::Error::other("no answer"));
            if is_silent { Err(store::Error::Io { fate: Fate::Unknown, source }) } else { committed }
        })
    }));
    let record = PortRecord::new(store.clone(), "/registry").unwrap();
    let server = Server::with_record(store.clone(), &range, "30000-30009", Some(record)).await;
    let server = server.with_range(&range).await;
    let spec = |ip: u8, port: u16| {
        format!(
            r#"{{"type":"NodePort","clusterIP":"10.0.0.{ip}","ports":[{{"port":80,"nodePort":{port}}}]}}"#
        )
    };
    server.create("goes", &spec(1, 30001)).await;
    is_silent.store(true, Ordering::SeqCst);
    let unknown = server.create("comes", &spec(2, 30002)).await;
    assert!(unknown.starts_with("500 "), "{unknown}");
    let gone = server.client.delete(SERVICES.named("goes"), &DeleteOptions::default()).await;
    assert_eq!(gone.unwrap_err().code, 500);
    is_silent.store(false, Ordering::SeqCst);
    assert_eq!(server.taken().await, ["10.0.0.1 goes", "10.0.0.2 comes"]);
    let left = server.client.list_objects(SERVICES).await.unwrap();
    assert_eq!(ips(&left), ["10.0.0.2"]);
    for (ip, port) in [(3, 30001), (3, 30002), (1, 30003), (2, 30003)] {
        let refused = server.create("other", &spec(ip, port)).await;
        assert!(
            refused.ends_with("provided port is already allocated")
                || refused.ends_with("provided IP is already allocated"),
            "{refused}"
        );
    }
}
