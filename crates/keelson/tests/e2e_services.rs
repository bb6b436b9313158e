//! Addresses and node ports of services, with the binary: across a crash, with several ranges, and with two
//! families.

#![allow(clippy::expect_used, clippy::panic, clippy::print_stdout, clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::http::{Connection, Target};
use testkit::{Folder, Process, Signal};

const PATIENCE: Duration = Duration::from_secs(30);
const SERVICES: &str = "/api/v1/namespaces/default/services";
const CIDRS: &str = "/apis/networking.k8s.io/v1/servicecidrs";
const ADDRESSES: &str = "/apis/networking.k8s.io/v1/ipaddresses";
const TOKEN: &str = "admintoken";

fn binary() -> PathBuf {
    testkit::server_binary(env!("CARGO_BIN_EXE_keelson"))
}

struct Server {
    process: Process,
    target: Target,
}

impl Server {
    /// Starts the server with the data of a folder.
    fn start(folder: &Folder, flags: &[&str]) -> Self {
        let tokens = folder.path().join("tokens.csv");
        std::fs::write(&tokens, format!("{TOKEN},admin,admin-uid,\"system:masters\"\n")).unwrap();
        let token_file = format!("--token-auth-file={}", tokens.display());
        let flags: Vec<&str> = flags.iter().copied().chain([token_file.as_str()]).collect();
        let data = folder.path().join("data");
        let process = Process::start(&binary(), &data, &flags).unwrap();
        let target = Target::new(process.url(), &data.join("pki/ca.crt")).unwrap();
        Self { process, target }
    }

    fn connect(&self) -> Connection {
        self.target.connect(PATIENCE).unwrap()
    }

    fn call(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        call(&self.target, &mut self.connect(), method, path, body).unwrap()
    }

    fn create(&self, path: &str, body: &Value) -> Value {
        let (status, answer) = self.call("POST", path, body);
        assert_eq!(status, 201, "{answer}");
        answer
    }

    fn list(&self, path: &str) -> Vec<Value> {
        let (status, answer) = self.call("GET", path, &Value::Null);
        assert_eq!(status, 200, "{answer}");
        answer["items"].as_array().unwrap().clone()
    }

    /// The services of all namespaces by their addresses.
    fn services(&self) -> BTreeMap<String, String> {
        let mut found = BTreeMap::new();
        for service in self.list("/api/v1/services") {
            for ip in service["spec"]["clusterIPs"].as_array().into_iter().flatten() {
                let name = service["metadata"]["name"].as_str().unwrap().to_owned();
                let before = found.insert(ip.as_str().unwrap().to_owned(), name.clone());
                assert_eq!(before, None, "{ip} was given twice, also to {name}");
            }
        }
        found
    }

    /// The addresses that are taken, with the names of their services.
    fn taken(&self) -> BTreeMap<String, String> {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let addresses = self.list(ADDRESSES);
        addresses
            .iter()
            .map(|ip| (text(&ip["metadata"]["name"]), text(&ip["spec"]["parentRef"]["name"])))
            .collect()
    }

    /// Waits until every address belongs to a service, and every service has its addresses.
    fn agrees(&self) {
        let begin = Instant::now();
        while self.taken() != self.services() {
            assert!(begin.elapsed() < PATIENCE, "{:?}\n{:?}", self.taken(), self.services());
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

fn call(
    target: &Target,
    connection: &mut Connection,
    method: &str,
    path: &str,
    body: &Value,
) -> Result<(u16, Value), testkit::http::Error> {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let kind = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {TOKEN}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\r\n{body}",
        target.authority(),
        body.len()
    );
    connection.send(request.as_bytes())?;
    let mut head = connection.head(method)?;
    let answer = connection.body(&mut head)?;
    Ok((head.status, serde_json::from_slice(&answer).unwrap_or_default()))
}

fn service(name: &str, spec: Value) -> Value {
    json!({"metadata": {"name": name}, "spec": spec})
}

fn node_port(name: &str) -> Value {
    service(name, json!({"type": "NodePort", "ports": [{"port": 80}]}))
}

#[test]
fn crash_in_the_middle_of_writes_leaks_nothing_and_gives_nothing_twice() {
    let folder = Folder::new().unwrap();
    let flags = ["--service-cluster-ip-range=10.0.0.0/18"];
    let mut number = AtomicUsize::new(0);
    let acknowledged = Mutex::new(BTreeMap::new());
    for _ in 0..3 {
        let server = Server::start(&folder, &flags);
        server.agrees();
        // What was acknowledged before the crash is there, as it was.
        let there: BTreeSet<String> = server.services().into_values().collect();
        for (name, address) in acknowledged.lock().unwrap().iter() {
            assert!(there.contains(name), "{name} with {address} is gone");
        }
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let Ok(mut connection) = server.target.connect(PATIENCE) else { return };
                    loop {
                        let name = format!("s{}", number.fetch_add(1, Ordering::Relaxed));
                        match call(&server.target, &mut connection, "POST", SERVICES, &node_port(&name)) {
                            Ok((201, made)) => {
                                let address = made["spec"]["clusterIP"].as_str().unwrap().to_owned();
                                acknowledged.lock().unwrap().insert(name.clone(), address);
                            }
                            // There are 2,768 node ports.
                            Ok((500, full)) if full.to_string().contains("range is full") => return,
                            Ok((status, refused)) => panic!("{status} {refused}"),
                            Err(_) => return,
                        }
                        // Some go again; what is about to go is not waited for.
                        if name.ends_with('7') {
                            acknowledged.lock().unwrap().remove(&name);
                            let path = format!("{SERVICES}/{name}");
                            if call(&server.target, &mut connection, "DELETE", &path, &Value::Null).is_err() {
                                return;
                            }
                        }
                    }
                });
            }
            std::thread::sleep(Duration::from_millis(400));
            server.process.signal(Signal::SIGKILL).unwrap();
        });
        println!("{} services were made before the crash", number.get_mut());
    }
    let server = Server::start(&folder, &flags);
    server.agrees();
    let services = server.list("/api/v1/services");
    let ports: Vec<u64> =
        services.iter().filter_map(|service| service["spec"]["ports"][0]["nodePort"].as_u64()).collect();
    assert_eq!(ports.iter().collect::<BTreeSet<_>>().len(), ports.len(), "a port was given twice");
    // Ports of before are known.
    let taken = json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": ports[0]}]});
    let (status, refused) = server.call("POST", SERVICES, &service("late", taken));
    assert_eq!(status, 422, "{refused}");
    assert!(
        refused["message"].as_str().unwrap().ends_with("provided port is already allocated"),
        "{refused}"
    );
    // Everything can be given back.
    let (status, _) = server.call("DELETE", SERVICES, &Value::Null);
    assert_eq!(status, 200);
    let own = BTreeMap::from([("10.0.0.1".to_owned(), "kubernetes".to_owned())]);
    let begin = Instant::now();
    while server.taken() != own {
        assert!(begin.elapsed() < PATIENCE, "{:?}", server.taken());
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn second_range_gives_addresses_when_the_first_is_full() {
    let folder = Folder::new().unwrap();
    let server = Server::start(
        &folder,
        &["--service-cluster-ip-range=10.0.0.0/29", "--service-node-port-range=31000-31001"],
    );
    // Six addresses, one of them for the API's own service.
    for name in ["a", "b", "c", "d", "e"] {
        server.create(SERVICES, &service(name, json!({"ports": [{"port": 80}]})));
    }
    let (status, full) = server.call("POST", SERVICES, &service("f", json!({"ports": [{"port": 80}]})));
    assert_eq!(
        (status, full["message"].as_str().unwrap()),
        (500, "Internal error occurred: failed to allocate a serviceIP: range is full")
    );
    server.create(CIDRS, &json!({"metadata": {"name": "more"}, "spec": {"cidrs": ["10.9.0.0/24"]}}));
    let made = server.create(SERVICES, &service("f", json!({"ports": [{"port": 80}]})));
    assert!(made["spec"]["clusterIP"].as_str().unwrap().starts_with("10.9.0."), "{made}");
    server.create(SERVICES, &service("g", json!({"ports": [{"port": 80}], "clusterIP": "10.9.0.7"})));
    for name in ["h", "i"] {
        server.create(SERVICES, &node_port(name));
    }
    let (status, full) = server.call("POST", SERVICES, &node_port("j"));
    assert_eq!(
        (status, full["message"].as_str().unwrap()),
        (500, "Internal error occurred: failed to allocate a nodePort: range is full")
    );
    server.agrees();
    server.process.terminate().unwrap();
}

#[test]
fn services_have_addresses_of_two_families() {
    let folder = Folder::new().unwrap();
    let single = Server::start(&folder, &["--service-cluster-ip-range=10.0.0.0/24"]);
    single.create(SERVICES, &service("a", json!({"ports": [{"port": 80}]})));
    single.process.terminate().unwrap();
    let ranges = "--service-cluster-ip-range=10.0.0.0/24,fd00::/112";
    let dual = Server::start(&folder, &[ranges, "--kubernetes-service-node-port=30443"]);
    let (_, cidr) = dual.call("GET", &format!("{CIDRS}/kubernetes"), &Value::Null);
    assert_eq!(cidr["spec"]["cidrs"], json!(["10.0.0.0/24", "fd00::/112"]));
    let path = format!("{SERVICES}/a");
    let (status, a) = dual.call("PATCH", &path, &json!({"spec": {"ipFamilyPolicy": "PreferDualStack"}}));
    assert_eq!((status, &a["spec"]["ipFamilies"]), (200, &json!(["IPv4", "IPv6"])), "{a}");
    let made = dual.create(
        SERVICES,
        &service("b", json!({"ports": [{"port": 80}], "ipFamilyPolicy": "RequireDualStack", "ipFamilies": ["IPv6", "IPv4"]})),
    );
    let first = made["spec"]["clusterIP"].as_str().unwrap();
    assert!(first.starts_with("fd00::"), "{made}");
    dual.agrees();
    assert_eq!(dual.taken().len(), 5);
    // The service of the API is there again when somebody removes it, now with its port.
    let (status, _) = dual.call("DELETE", &format!("{SERVICES}/kubernetes"), &Value::Null);
    assert_eq!(status, 200);
    let begin = Instant::now();
    loop {
        let (status, own) = dual.call("GET", &format!("{SERVICES}/kubernetes"), &Value::Null);
        if status == 200 {
            assert_eq!(own["spec"]["clusterIPs"], json!(["10.0.0.1"]), "{own}");
            assert_eq!(own["spec"]["ports"][0]["nodePort"], json!(30443), "{own}");
            break;
        }
        assert!(begin.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(100));
    }
    let (_, endpoints) = dual.call("GET", "/api/v1/namespaces/default/endpoints/kubernetes", &Value::Null);
    assert!(endpoints["subsets"][0]["addresses"][0]["ip"].is_string(), "{endpoints}");
}

#[test]
fn a_server_whose_own_addresses_are_refused_serves_all_the_same() {
    let folder = Folder::new().unwrap();
    let own = format!("{SERVICES}/kubernetes");
    let loopback = Server::start(&folder, &["--advertise-address=127.0.0.1"]);
    assert_eq!(loopback.call("GET", &own, &Value::Null).0, 200);
    let endpoints = "/api/v1/namespaces/default/endpoints/kubernetes";
    assert_eq!(loopback.call("GET", endpoints, &Value::Null).0, 404);
    // Somebody else takes the address of the service.
    assert_eq!(loopback.call("DELETE", &own, &Value::Null).0, 200);
    loopback.create(SERVICES, &service("other", json!({"ports": [{"port": 80}], "clusterIP": "10.0.0.1"})));
    loopback.process.terminate().unwrap();
    // The controller of endpoints removes those without a service.
    let flags = ["--advertise-address=192.0.2.7", "--controllers=*,-endpoints-controller"];
    let robbed = Server::start(&folder, &flags);
    assert_eq!(robbed.call("GET", &own, &Value::Null).0, 404);
    let (_, advertised) = robbed.call("GET", endpoints, &Value::Null);
    assert_eq!(advertised["subsets"][0]["addresses"][0]["ip"], "192.0.2.7", "{advertised}");
}
