//! Namespaces that are deleted with everything in them.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::http::{Connection, Target};
use testkit::{Cli, Server};

const PATIENCE: Duration = Duration::from_secs(60);
const RANGE: &str = "--service-cluster-ip-range=10.0.0.0/16";
/// The controllers of workloads are not among these: the sets of the fixtures select the pods of each other.
const FLAGS: &[&str] =
    &[RANGE, "--controllers=namespace-controller,garbage-collector-controller,serviceaccount-controller"];
const NAMESPACE: &str = "busy";
/// Twenty types, by their paths and the names that their fixtures have.
const TYPES: &[(&str, &str)] = &[
    ("api/v1", "configmaps"),
    ("api/v1", "endpoints"),
    ("api/v1", "events"),
    ("api/v1", "pods"),
    ("api/v1", "podtemplates"),
    ("api/v1", "replicationcontrollers"),
    ("api/v1", "secrets"),
    ("api/v1", "serviceaccounts"),
    ("api/v1", "services"),
    ("apis/apps/v1", "apps/controllerrevisions"),
    ("apis/apps/v1", "apps/daemonsets"),
    ("apis/apps/v1", "apps/deployments"),
    ("apis/apps/v1", "apps/replicasets"),
    ("apis/apps/v1", "apps/statefulsets"),
    ("apis/autoscaling/v2", "autoscaling/horizontalpodautoscalers"),
    ("apis/batch/v1", "batch/cronjobs"),
    ("apis/batch/v1", "batch/jobs"),
    ("apis/networking.k8s.io/v1", "networking.k8s.io/networkpolicies"),
    ("apis/rbac.authorization.k8s.io/v1", "rbac.authorization.k8s.io/roles"),
    ("apis/coordination.k8s.io/v1", "coordination.k8s.io/leases"),
];

fn binary() -> PathBuf {
    testkit::server_binary(env!("CARGO_BIN_EXE_keelson"))
}

fn kubectl(server: &Server) -> Cli {
    Cli::new(testkit::tool("kubectl").unwrap(), server)
}

struct Caller {
    target: Target,
    connection: Connection,
}

impl Caller {
    fn new(server: &Server) -> Self {
        let target = server.target().unwrap();
        Self { connection: target.connect(PATIENCE).unwrap(), target }
    }

    fn call(&mut self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            self.target.authority(),
            testkit::TOKEN,
            body.len()
        );
        self.connection.allow(PATIENCE);
        self.connection.send(request.as_bytes()).unwrap();
        let mut head = self.connection.head(method).unwrap();
        let answer = self.connection.body(&mut head).unwrap();
        (head.status, serde_json::from_slice(&answer).unwrap_or_default())
    }

    fn phase(&mut self) -> Option<String> {
        let (status, namespace) = self.call("GET", &format!("/api/v1/namespaces/{NAMESPACE}"), &Value::Null);
        (status != 404).then(|| namespace["status"]["phase"].as_str().unwrap().to_owned())
    }

    fn until_gone(&mut self) {
        let begin = Instant::now();
        while self.phase().is_some() {
            assert!(begin.elapsed() < PATIENCE, "the namespace does not go");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Makes so many objects of each type.
fn fill(server: &Server, of_each: usize) {
    let fixtures: Value = serde_json::from_str(include_str!("../kinds/fixtures.json")).unwrap();
    std::thread::scope(|scope| {
        for some in TYPES.chunks(5) {
            let fixtures = fixtures.as_array().unwrap();
            scope.spawn(move || {
                let mut caller = Caller::new(server);
                for (group_version, name) in some {
                    let fixture = fixtures.iter().find(|fixture| fixture["resource"] == *name).unwrap();
                    let text = fixture["object"].to_string().replace("{ns}", NAMESPACE);
                    let mut object: Value = serde_json::from_str(&text).unwrap();
                    let resource = name.rsplit('/').next().unwrap();
                    let path = format!("/{group_version}/namespaces/{NAMESPACE}/{resource}");
                    for number in 0..of_each {
                        if object["metadata"].is_null() {
                            object["metadata"] = json!({});
                        }
                        object["metadata"]["name"] = format!("o-{number}").into();
                        let (status, answer) = caller.call("POST", &path, &object);
                        assert_eq!(status, 201, "{answer}");
                    }
                }
            });
        }
    });
}

/// What is there of all types that can be listed, by kubectl.
fn everything(server: &Server) -> String {
    let kubectl = kubectl(server);
    let types = kubectl.ok(&["api-resources", "--verbs=list", "--namespaced", "-o", "name"]).unwrap();
    let types: Vec<&str> = types.lines().collect();
    kubectl.ok(&["get", &types.join(","), "--namespace", NAMESPACE, "-o", "name"]).unwrap()
}

#[test]
fn namespace_with_10_000_objects_of_20_types_goes() {
    let server = Server::start(&binary(), FLAGS).unwrap();
    let kubectl = kubectl(&server);
    kubectl.ok(&["create", "namespace", NAMESPACE]).unwrap();
    fill(&server, 500);
    assert!(everything(&server).lines().count() >= 10_000);
    let begin = Instant::now();
    assert_eq!(
        kubectl.ok(&["delete", "namespace", NAMESPACE, "--wait"]).unwrap(),
        format!("namespace \"{NAMESPACE}\" deleted\n")
    );
    println!("kubectl delete namespace with 10,000 objects of 20 types: {:?}", begin.elapsed());
    assert!(begin.elapsed() < Duration::from_secs(20), "it took {:?}", begin.elapsed());
    assert_eq!(everything(&server), "");
}

#[test]
fn killed_servers_finish_deleting_namespaces_after_their_start() {
    let without_controllers = [RANGE, "--controllers=-*"];
    let mut server = Server::start(&binary(), FLAGS).unwrap();
    let mut was_in_the_middle = false;
    for pause in [2, 10, 50] {
        kubectl(&server).ok(&["create", "namespace", NAMESPACE]).unwrap();
        fill(&server, 100);
        let mut caller = Caller::new(&server);
        let (status, _) = caller.call("DELETE", &format!("/api/v1/namespaces/{NAMESPACE}"), &Value::Null);
        assert_eq!(status, 200);
        std::thread::sleep(Duration::from_millis(pause));
        server = server.crash(&binary(), &without_controllers).unwrap();
        let left = everything(&server).lines().count();
        println!("{pause} ms after the deletion of 2,000 objects began, kubectl lists {left}");
        was_in_the_middle |= left > 0;
        server = server.crash(&binary(), FLAGS).unwrap();
        Caller::new(&server).until_gone();
        assert_eq!(everything(&server), "");
    }
    assert!(was_in_the_middle);
}

#[test]
fn namespaces_stay_without_their_controller() {
    for flag in ["--controllers=-*", "--controllers=*,-namespace-controller"] {
        let server = Server::start(&binary(), &[flag]).unwrap();
        kubectl(&server).ok(&["create", "namespace", NAMESPACE]).unwrap();
        kubectl(&server).ok(&["delete", "namespace", NAMESPACE, "--wait=false"]).unwrap();
        std::thread::sleep(Duration::from_secs(1));
        assert_eq!(Caller::new(&server).phase().as_deref(), Some("Terminating"), "{flag}");
        let server = server.crash(&binary(), &[]).unwrap();
        Caller::new(&server).until_gone();
    }
}

#[test]
fn finalizers_hold_namespaces_as_kubectl_shows_it() {
    let server = Server::start(&binary(), &["--storage=memory"]).unwrap();
    let kubectl = kubectl(&server);
    kubectl.ok(&["create", "namespace", NAMESPACE]).unwrap();
    let held = json!({"metadata": {"name": "held", "finalizers": ["example.com/held"]}});
    let path = format!("/api/v1/namespaces/{NAMESPACE}/configmaps");
    assert_eq!(Caller::new(&server).call("POST", &path, &held).0, 201);
    kubectl.ok(&["delete", "namespace", NAMESPACE, "--wait=false"]).unwrap();
    let wait =
        ["wait", "namespace", NAMESPACE, "--for=condition=NamespaceFinalizersRemaining", "--timeout=30s"];
    kubectl.ok(&wait).unwrap();
    let described = kubectl.ok(&["describe", "namespace", NAMESPACE]).unwrap();
    for line in [
        "Some resources are remaining: configmaps. has 1 resource instances",
        "Some content in the namespace has finalizers remaining: example.com/held in 1 resource instances",
    ] {
        assert!(described.contains(line), "{described}");
    }
    let release = ["patch", "configmap", "held", "--namespace", NAMESPACE, "--type=json"];
    let patch = ["-p", r#"[{"op":"remove","path":"/metadata/finalizers"}]"#];
    kubectl.ok(&[release.as_slice(), &patch].concat()).unwrap();
    kubectl.ok(&["wait", "namespace", NAMESPACE, "--for=delete", "--timeout=30s"]).unwrap();
}
