//! The garbage collector: what kubectl asks for, long chains, many dependents, and a crash in the middle.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::http::{Connection, Target};
use testkit::{Cli, Folder, Process, Server, Signal, TOKEN, tool};

const PATIENCE: Duration = Duration::from_secs(60);
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PODS: &str = "/api/v1/namespaces/default/pods";
const APPS: &str = "/apis/apps/v1/namespaces/default";

fn binary() -> PathBuf {
    testkit::server_binary(env!("CARGO_BIN_EXE_keelson"))
}

/// The administrator, on one connection.
struct Admin<'a> {
    target: &'a Target,
    connection: Connection,
}

impl<'a> Admin<'a> {
    fn new(target: &'a Target) -> Self {
        Self { target, connection: target.connect(PATIENCE).unwrap() }
    }

    fn call(&mut self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let kind = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {TOKEN}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\r\n{body}",
            self.target.authority(),
            body.len()
        );
        self.connection.allow(PATIENCE);
        self.connection.send(request.as_bytes()).unwrap();
        let mut head = self.connection.head(method).unwrap();
        let answer = self.connection.body(&mut head).unwrap();
        (head.status, serde_json::from_slice(&answer).unwrap_or_default())
    }

    /// Makes an object; its reference for dependents.
    fn create(&mut self, path: &str, object: &Value) -> Value {
        let (status, made) = self.call("POST", path, object);
        assert_eq!(status, 201, "{made}");
        reference(&made)
    }

    /// Makes a config map with a label.
    fn map(&mut self, name: &str, owners: &[&Value]) -> Value {
        self.create(MAPS, &json!({"metadata": metadata(name, owners)}))
    }

    /// Makes a pod, as soon as there is the service account that it needs.
    fn pod(&mut self, name: &str, owners: &[&Value]) {
        let spec = json!({"containers": [{"name": "c", "image": "i"}]});
        let pod = json!({"metadata": metadata(name, owners), "spec": spec});
        until("a pod", || match self.call("POST", PODS, &pod) {
            (201, _) => true,
            (403, _) => false,
            (status, refused) => panic!("{status} {refused}"),
        });
    }

    fn delete(&mut self, path: &str, policy: &str) {
        let (status, answer) = self.call("DELETE", path, &json!({"propagationPolicy": policy}));
        assert!(matches!(status, 200 | 202), "{answer}");
    }

    /// The names of the test's own objects, at most so many.
    fn names(&mut self, path: &str, limit: usize) -> Vec<String> {
        let (status, list) =
            self.call("GET", &format!("{path}?labelSelector=app%3Dtest&limit={limit}"), &Value::Null);
        assert_eq!(status, 200, "{list}");
        let items = list["items"].as_array().unwrap().iter();
        items.map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    }

    fn get(&mut self, path: &str) -> Value {
        self.call("GET", path, &Value::Null).1
    }

    /// Waits until none of the test's own objects is there, and gives the time that took.
    fn until_gone(&mut self, path: &str) -> Duration {
        let begin = Instant::now();
        until("an end", || self.names(path, 1).is_empty());
        begin.elapsed()
    }
}

fn metadata(name: &str, owners: &[&Value]) -> Value {
    json!({"name": name, "labels": {"app": "test"}, "ownerReferences": owners})
}

fn reference(object: &Value) -> Value {
    json!({
        "apiVersion": object["apiVersion"],
        "kind": object["kind"],
        "name": object["metadata"]["name"],
        "uid": object["metadata"]["uid"],
        "blockOwnerDeletion": true,
    })
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < PATIENCE, "there is never {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The processor time that a server has used so far.
fn cpu_time(server: &Server) -> Duration {
    let id = server.process().unwrap().id();
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    let ticks: u64 = [11, 12].into_iter().map(|at: usize| fields[at].parse::<u64>().unwrap()).sum();
    Duration::from_millis(ticks * 10)
}

/// Makes many config maps of an owner, over several connections.
fn fan_out(target: &Target, owner: &Value, prefix: &str, count: usize) {
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let mut admin = Admin::new(target);
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= count {
                        return;
                    }
                    admin.map(&format!("{prefix}-{number}"), &[owner]);
                }
            });
        }
    });
}

/// A deployment with a replica set and two pods, as controllers make them; none of these runs here.
fn deployment(admin: &mut Admin<'_>, name: &str) {
    let selector = json!({"matchLabels": {"app": "test"}});
    let template = json!({"metadata": {"labels": {"app": "test"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let spec = json!({"selector": selector, "template": template});
    let owner =
        admin.create(&format!("{APPS}/deployments"), &json!({"metadata": metadata(name, &[]), "spec": spec}));
    let replicas = admin.create(
        &format!("{APPS}/replicasets"),
        &json!({"metadata": metadata(name, &[&owner]), "spec": spec}),
    );
    for number in 0..2 {
        admin.pod(&format!("{name}-{number}"), &[&replicas]);
    }
}

#[test]
fn kubectl_deletes_in_the_background_in_the_foreground_and_with_orphans() {
    let server = Server::start(&binary(), &["--controllers=*,-deployment,-replicaset"]).unwrap();
    let kubectl = Cli::new(tool("kubectl").unwrap(), &server);
    let target = server.target().unwrap();
    let mut admin = Admin::new(&target);
    let (deployments, replica_sets) = (format!("{APPS}/deployments"), format!("{APPS}/replicasets"));

    deployment(&mut admin, "background");
    kubectl.ok(&["delete", "deployment", "background", "--cascade=background"]).unwrap();
    admin.until_gone(&replica_sets);
    admin.until_gone(PODS);

    deployment(&mut admin, "foreground");
    let pod = format!("{PODS}/foreground-0");
    admin.call("PATCH", &pod, &json!({"metadata": {"finalizers": ["example.com/hold"]}}));
    kubectl.ok(&["delete", "deployment", "foreground", "--cascade=foreground", "--wait=false"]).unwrap();
    until("one pod", || admin.names(PODS, 3) == ["foreground-0"]);
    for path in [&deployments, &replica_sets] {
        let waits = admin.get(&format!("{path}/foreground"));
        assert_eq!(waits["metadata"]["finalizers"], json!(["foregroundDeletion"]), "{waits}");
    }
    kubectl.ok(&["patch", "pod", "foreground-0", "-p", r#"{"metadata":{"finalizers":null}}"#]).unwrap();
    kubectl.ok(&["wait", "--for=delete", "deployment/foreground", "--timeout=30s"]).unwrap();
    assert_eq!(admin.names(&replica_sets, 1), [""; 0]);
    assert_eq!(admin.names(PODS, 1), [""; 0]);

    deployment(&mut admin, "orphan");
    kubectl.ok(&["delete", "deployment", "orphan", "--cascade=orphan"]).unwrap();
    assert_eq!(admin.names(&deployments, 1), [""; 0]);
    let left = admin.get(&format!("{replica_sets}/orphan"));
    assert_eq!(left["metadata"]["ownerReferences"], Value::Null, "{left}");
    assert_eq!(left["metadata"]["deletionTimestamp"], Value::Null, "{left}");
    assert_eq!(admin.names(PODS, 3), ["orphan-0", "orphan-1"]);
}

#[test]
fn owner_in_another_namespace_is_reported_by_an_event() {
    let server = Server::start(&binary(), &[]).unwrap();
    let kubectl = Cli::new(tool("kubectl").unwrap(), &server);
    let target = server.target().unwrap();
    let mut admin = Admin::new(&target);
    let owner = admin.map("owner", &[]);
    kubectl.ok(&["create", "namespace", "other"]).unwrap();
    let maps = "/api/v1/namespaces/other/configmaps";
    admin.create(maps, &json!({"metadata": metadata("child", &[&owner])}));
    admin.until_gone(maps);
    let mut events = String::new();
    until("an event", || {
        events = kubectl.ok(&["get", "events", "-n", "other", "--no-headers"]).unwrap();
        events.contains("OwnerRefInvalidNamespace")
    });
    let message = format!(
        "ownerRef [v1/ConfigMap, namespace: other, name: owner, uid: {}] does not exist in namespace \"other\"",
        owner["uid"].as_str().unwrap()
    );
    assert!(
        events.contains("Warning") && events.contains("configmap/child") && events.contains(&message),
        "{events}"
    );
}

#[test]
fn chains_of_depth_100_are_collected() {
    let server = Server::start(&binary(), &[]).unwrap();
    let target = server.target().unwrap();
    let mut admin = Admin::new(&target);
    for policy in ["Background", "Foreground"] {
        let mut owner = admin.map("link-0", &[]);
        for depth in 1..100 {
            owner = admin.map(&format!("link-{depth}"), &[&owner]);
        }
        admin.delete(&format!("{MAPS}/link-0"), policy);
        let took = admin.until_gone(MAPS);
        println!("a chain of depth 100 is gone after {took:?} ({policy})");
    }
}

#[test]
fn fan_out_of_10000_is_collected() {
    let server = Server::start(&binary(), &[]).unwrap();
    let target = server.target().unwrap();
    let mut admin = Admin::new(&target);
    for policy in ["Background", "Foreground"] {
        let owner = admin.map("owner", &[]);
        fan_out(&target, &owner, "child", 10_000);
        let memory = server.process().map_or(0, |process| process.resident_memory().unwrap_or_default());
        admin.delete(&format!("{MAPS}/owner"), policy);
        let took = admin.until_gone(MAPS);
        println!("10,000 dependents are gone after {took:?} ({policy}); {} MB before", memory >> 20);
    }
    let owner = admin.map("owner", &[]);
    fan_out(&target, &owner, "orphan", 1_000);
    admin.delete(&format!("{MAPS}/owner"), "Orphan");
    until("no owner", || admin.get(&format!("{MAPS}/owner"))["code"] == 404);
    let (_, list) = admin.call("GET", &format!("{MAPS}?labelSelector=app%3Dtest"), &Value::Null);
    let items = list["items"].as_array().unwrap();
    assert_eq!(items.len(), 1_000);
    assert!(items.iter().all(|item| item["metadata"]["ownerReferences"].is_null()));
}

#[test]
fn collector_keeps_up_with_churn() {
    let server = Server::start(&binary(), &[]).unwrap();
    let target = server.target().unwrap();
    let mut admin = Admin::new(&target);
    admin.pod("first", &[]);
    admin.delete(&format!("{PODS}/first"), "Background");
    let (made, begin, used) = (AtomicUsize::new(0), Instant::now(), cpu_time(&server));
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (made, target) = (&made, &target);
            scope.spawn(move || {
                let mut admin = Admin::new(target);
                for round in 0.. {
                    if begin.elapsed() > Duration::from_secs(5) {
                        return;
                    }
                    let name = format!("churn-{thread}-{round}");
                    let owner = admin.map(&name, &[]);
                    for number in 0..10 {
                        admin.pod(&format!("{name}-{number}"), &[&owner]);
                    }
                    made.fetch_add(10, Ordering::Relaxed);
                    admin.delete(&format!("{MAPS}/{name}"), "Background");
                }
            });
        }
    });
    let took = begin.elapsed();
    let left = admin.names(PODS, 100_000).len();
    let after = admin.until_gone(PODS);
    let made = made.into_inner();
    let used = cpu_time(&server) - used;
    println!(
        "{made} pods with owners in {took:?}; {left} are left at the end, gone after {after:?}; CPU {used:?}"
    );
    assert!(left < made / 4, "{left} of {made} pods wait to be collected");
}

#[test]
fn crash_in_the_middle_loses_nothing() {
    let folder = Folder::new().unwrap();
    let tokens = folder.path().join("tokens.csv");
    std::fs::write(&tokens, format!("{TOKEN},admin,admin-uid,\"system:masters\"\n")).unwrap();
    let token_file = format!("--token-auth-file={}", tokens.display());
    let data = folder.path().join("data");
    let start = || {
        let process = Process::start(&binary(), &data, &[&token_file]).unwrap();
        let target = Target::new(process.url(), &data.join("pki/ca.crt")).unwrap();
        (process, target)
    };
    let (process, target) = start();
    let mut admin = Admin::new(&target);
    let policies = ["Background", "Foreground", "Orphan"];
    for policy in policies {
        let name = policy.to_lowercase();
        let owner = admin.map(&name, &[]);
        fan_out(&target, &owner, &name, 1_000);
    }
    for policy in policies {
        admin.delete(&format!("{MAPS}/{}", policy.to_lowercase()), policy);
    }
    process.signal(Signal::SIGKILL).unwrap();
    process.wait().unwrap();

    let (_process, target) = start();
    let mut admin = Admin::new(&target);
    println!("{} objects are left after the crash", admin.names(MAPS, 10_000).len());
    until("orphans alone", || {
        let (_, list) = admin.call("GET", &format!("{MAPS}?labelSelector=app%3Dtest"), &Value::Null);
        let items = list["items"].as_array().unwrap();
        let is_orphan = |item: &Value| {
            item["metadata"]["name"].as_str().unwrap().starts_with("orphan-")
                && item["metadata"]["ownerReferences"].is_null()
        };
        items.len() == 1_000 && items.iter().all(is_orphan)
    });
}
