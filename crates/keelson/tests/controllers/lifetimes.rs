//! What ends by itself, and what stays until it is not used any more: finished jobs, events, claims, ranges
//! of services.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::http::{Connection, Head, Target};

/// The longest that something may take.
const PATIENCE: Duration = Duration::from_secs(60);
const PODS: &str = "/api/v1/namespaces/default/pods";
const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
const VOLUMES: &str = "/api/v1/persistentvolumes";
const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";
const EVENTS: &str = "/api/v1/namespaces/default/events";
const SERVICES: &str = "/api/v1/namespaces/default/services";
const CIDRS: &str = "/apis/networking.k8s.io/v1/servicecidrs";

fn binary() -> PathBuf {
    testkit::server_binary(env!("CARGO_BIN_EXE_keelson"))
}

/// A server, and its administrator.
pub(super) struct Server {
    server: testkit::Server,
    target: Target,
}

impl Server {
    pub(super) fn start(flags: &[&str]) -> Self {
        let flags: Vec<&str> = flags.iter().copied().chain(["--storage=memory"]).collect();
        let server = testkit::Server::start(&binary(), &flags).unwrap();
        Self { target: server.target().unwrap(), server }
    }

    fn send(&self, method: &str, path: &str, body: &Value) -> (Connection, Head) {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let kind = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\r\n{body}",
            self.target.authority(),
            self.server.token(),
            body.len()
        );
        let mut connection = self.target.connect(PATIENCE).unwrap();
        connection.send(request.as_bytes()).unwrap();
        let head = connection.head(method).unwrap();
        (connection, head)
    }

    fn call(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let (mut connection, mut head) = self.send(method, path, body);
        let answer = connection.body(&mut head).unwrap();
        (head.status, serde_json::from_slice(&answer).unwrap_or_default())
    }

    pub(super) fn create(&self, path: &str, body: &Value) -> Value {
        let (status, answer) = self.call("POST", path, body);
        assert_eq!(status, 201, "{answer}");
        answer
    }

    fn patch(&self, path: &str, body: &Value) {
        let (status, answer) = self.call("PATCH", path, body);
        assert_eq!(status, 200, "{answer}");
    }

    fn delete(&self, path: &str) {
        let (status, answer) = self.call("DELETE", path, &Value::Null);
        assert_eq!(status, 200, "{answer}");
    }

    /// An object; null if it is not there.
    fn get(&self, path: &str) -> Value {
        match self.call("GET", path, &Value::Null) {
            (404, _) => Value::Null,
            (status, object) => {
                assert_eq!(status, 200, "{object}");
                object
            }
        }
    }

    /// Waits until an object is as it should be; how long that took.
    pub(super) fn until(&self, path: &str, holds: impl Fn(&Value) -> bool) -> Duration {
        let begin = Instant::now();
        loop {
            let object = self.get(path);
            if holds(&object) {
                return begin.elapsed();
            }
            assert!(begin.elapsed() < PATIENCE, "{object}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn is_terminating(object: &Value) -> bool {
    object["metadata"]["deletionTimestamp"].is_string()
}

fn now() -> String {
    object::time::Time::now().to_string()
}

#[test]
fn claim_stays_while_a_pod_uses_it_and_its_volume_while_it_is_bound() {
    // The test says itself which phase the volume is in.
    let server = Server::start(&["--controllers=*,-persistentvolume-binder-controller"]);
    server.until("/api/v1/namespaces/default/serviceaccounts/default", Value::is_object);
    let claim = json!({"metadata": {"name": "data"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    server.create(CLAIMS, &claim);
    let volume = json!({"metadata": {"name": "disk"}, "spec": {"capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}}});
    server.create(VOLUMES, &volume);
    server.patch(&format!("{VOLUMES}/disk/status"), &json!({"status": {"phase": "Bound"}}));
    let pod = json!({"metadata": {"name": "user"}, "spec": {"nodeName": "node", "containers": [{"name": "c", "image": "i"}],
        "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]}});
    server.create(PODS, &pod);

    let (claim, volume) = (format!("{CLAIMS}/data"), format!("{VOLUMES}/disk"));
    server.delete(&claim);
    server.delete(&volume);
    std::thread::sleep(Duration::from_secs(2));
    assert!(is_terminating(&server.get(&claim)) && is_terminating(&server.get(&volume)));
    server.delete(&format!("{PODS}/user?gracePeriodSeconds=0"));
    let took = server.until(&claim, Value::is_null);
    println!("the claim was gone {took:?} after its pod");
    server.patch(&format!("{VOLUMES}/disk/status"), &json!({"status": {"phase": "Released"}}));
    server.until(&volume, Value::is_null);
}

#[test]
fn finished_job_is_deleted_after_its_time_to_live() {
    // The test says itself when the job has finished.
    let server = Server::start(&["--controllers=*,-job-controller"]);
    let job = json!({"metadata": {"name": "short"}, "spec": {"ttlSecondsAfterFinished": 1, "template": {"spec": {
        "restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}});
    server.create(JOBS, &job);
    let path = format!("{JOBS}/short");
    std::thread::sleep(Duration::from_secs(2));
    assert!(!is_terminating(&server.get(&path)), "it has not finished");
    let condition = |kind: &str| json!({"type": kind, "status": "True", "lastTransitionTime": now(), "lastProbeTime": now()});
    let finished = json!({"status": {"succeeded": 1, "startTime": now(), "completionTime": now(),
        "conditions": [condition("SuccessCriteriaMet"), condition("Complete")]}});
    server.patch(&format!("{path}/status"), &finished);
    // Its dependents go first.
    let took = server.until(&path, Value::is_null);
    println!("the job was deleted {took:?} after it finished");
    assert!(took < Duration::from_secs(5));
}

#[test]
fn events_expire_and_watchers_see_it() {
    // It is the server's own function, not a controller.
    let server = Server::start(&["--event-ttl=2s", "--controllers=-*"]);
    let event = |name: &str| {
        json!({"metadata": {"name": name, "finalizers": ["example.com/kept"]}, "reason": "Test",
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": "p"}})
    };
    let made = server.create(EVENTS, &event("one"));
    let from = made["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    let begin = Instant::now();
    // A write is a new beginning.
    server.create(EVENTS, &event("two"));
    std::thread::sleep(Duration::from_millis(1200));
    server.patch(&format!("{EVENTS}/two"), &json!({"count": 2}));
    let watch = format!("{EVENTS}?watch=true&resourceVersion={from}");
    let (mut connection, mut head) = server.send("GET", &watch, &Value::Null);
    let (mut rest, mut ends) = (Vec::new(), Vec::new());
    while ends.len() < 2 {
        let line = connection.line(&mut head, &mut rest).unwrap().unwrap();
        let change: Value = serde_json::from_slice(&line).unwrap();
        if change["type"] == "DELETED" {
            ends.push((change["object"]["metadata"]["name"].as_str().unwrap().to_owned(), begin.elapsed()));
        }
    }
    println!("events were gone after {ends:?}");
    for ((name, end), (expected, seconds)) in ends.iter().zip([("one", 2.0), ("two", 3.2)]) {
        assert_eq!(name, expected);
        let late = end.as_secs_f64() - seconds;
        assert!((-0.1..1.5).contains(&late), "{name} was gone after {end:?}");
    }
    assert_eq!(server.get(EVENTS)["items"], json!([]));
}

#[test]
fn service_cidr_stays_until_its_addresses_are_gone() {
    let server = Server::start(&["--service-cluster-ip-range=10.0.0.0/24"]);
    let ready = |cidr: &Value| -> String {
        let conditions = cidr["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let ready = conditions.iter().find(|condition| condition["type"] == "Ready");
        ready.map_or(String::new(), |ready| {
            format!("{} {}", ready["status"], ready["reason"]).replace('"', "")
        })
    };
    server.create(CIDRS, &json!({"metadata": {"name": "more"}, "spec": {"cidrs": ["10.77.0.0/24"]}}));
    let path = format!("{CIDRS}/more");
    server.until(&path, |cidr| ready(cidr) == "True ");
    let finalizers = json!(["networking.k8s.io/service-cidr-finalizer"]);
    for name in ["more", "kubernetes"] {
        server.until(&format!("{CIDRS}/{name}"), |cidr| cidr["metadata"]["finalizers"] == finalizers);
    }
    let service =
        json!({"metadata": {"name": "web"}, "spec": {"clusterIP": "10.77.0.9", "ports": [{"port": 80}]}});
    server.create(SERVICES, &service);
    server.delete(&path);
    server.until(&path, |cidr| ready(cidr) == "False Terminating");
    let other =
        json!({"metadata": {"name": "late"}, "spec": {"clusterIP": "10.77.0.10", "ports": [{"port": 80}]}});
    assert_eq!(server.call("POST", SERVICES, &other).0, 422);
    // An unused range that is deleted later goes first.
    let unused = format!("{CIDRS}/unused");
    server.create(CIDRS, &json!({"metadata": {"name": "unused"}, "spec": {"cidrs": ["10.78.0.0/24"]}}));
    server.until(&unused, |cidr| ready(cidr) == "True ");
    server.delete(&unused);
    server.until(&unused, Value::is_null);
    assert!(is_terminating(&server.get(&path)));
    server.delete(&format!("{SERVICES}/web"));
    let took = server.until(&path, Value::is_null);
    println!("the range was gone {took:?} after its last address");
}
