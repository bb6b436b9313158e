//! Priority and fairness, and plain limits of requests in flight: the binary beside a webhook that keeps a
//! write waiting.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

use std::fs;
use std::path::PathBuf;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use testkit::https::{Authority, HttpsServer, Reply, Request};
use testkit::{Folder, Server};

const PATIENCE: Duration = Duration::from_secs(30);
/// How long the webhook takes.
const SLOW: Duration = Duration::from_secs(3);

fn binary() -> PathBuf {
    testkit::server_binary(env!("CARGO_BIN_EXE_keelson"))
}

/// A server whose user jane may do everything, and whose writes of config maps named `slow` take a while.
struct Setup {
    server: Server,
    webhook: HttpsServer,
    _folder: Folder,
}

/// An answer: its status, its headers, its body.
struct Answer {
    status: u16,
    retry_after: Option<String>,
    level: Option<String>,
    schema: Option<String>,
    body: String,
}

fn admit(request: &Request) -> Reply {
    let review: Value = serde_json::from_str(&request.body).unwrap();
    let uid = &review["request"]["uid"];
    let answer = json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": {"uid": uid, "allowed": true},
    });
    let reply = Reply::ok(answer.to_string());
    match request.body.contains(r#""name":"slow""#) {
        true => Reply::After(SLOW, Box::new(reply)),
        false => reply,
    }
}

impl Setup {
    fn new(flags: &[&str]) -> Self {
        let authority = Authority::new().unwrap();
        let webhook = HttpsServer::start(&authority.issue(&["127.0.0.1"]).unwrap(), None, admit).unwrap();
        let folder = Folder::new().unwrap();
        let tokens = folder.path().join("tokens.csv");
        fs::write(&tokens, "jane-token,jane,jane-uid\n").unwrap();
        let tokens = format!("--token-auth-file={}", tokens.display());
        let server = Server::start(&binary(), &[&[tokens.as_str()], flags].concat()).unwrap();
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "jane"},
            "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "jane"}],
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        });
        let path = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
        assert_eq!(server.call("POST", path, &binding).unwrap().0, 201);
        let configuration = json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": "slow"},
            "webhooks": [{
                "name": "slow.example.com",
                "admissionReviewVersions": ["v1"],
                "sideEffects": "None",
                "timeoutSeconds": 20,
                "clientConfig": {
                    "url": webhook.url(),
                    "caBundle": STANDARD.encode(&authority.certificate),
                },
                "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["CREATE"]}],
            }],
        });
        let path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
        let (status, answer) = server.call("POST", path, &configuration).unwrap();
        assert_eq!(status, 201, "{answer}");
        Self { server, webhook, _folder: folder }
    }

    /// A request, on a connection of its own.
    fn ask(&self, token: &str, method: &str, path: &str, body: &str) -> Answer {
        ask(&self.server.target().unwrap(), token, method, path, body)
    }

    fn get(&self, token: &str, path: &str) -> Answer {
        self.ask(token, "GET", path, "")
    }

    /// A write of jane's that is under way: the webhook has it.
    fn slow_write(&self) -> JoinHandle<Answer> {
        let target = self.server.target().unwrap();
        let asked = self.webhook.requests().len();
        let write = thread::spawn(move || {
            let object = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"slow"}}"#;
            ask(&target, "jane-token", "POST", "/api/v1/namespaces/default/configmaps", object)
        });
        let begin = Instant::now();
        while self.webhook.requests().len() == asked {
            assert!(begin.elapsed() < PATIENCE, "the webhook was not asked");
            thread::sleep(Duration::from_millis(5));
        }
        write
    }

    fn create(&self, path: &str, object: &Value) {
        let (status, answer) = self.server.call("POST", path, object).unwrap();
        assert_eq!(status, 201, "{answer}");
    }
}

fn ask(target: &testkit::http::Target, token: &str, method: &str, path: &str, body: &str) -> Answer {
    let mut connection = target.connect(PATIENCE).unwrap();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{body}",
        target.authority(),
        body.len()
    );
    connection.send(request.as_bytes()).unwrap();
    let mut head = connection.head(method).unwrap();
    let header = |name: &str| head.header(name).map(str::to_owned);
    let (retry_after, level) = (header("retry-after"), header("x-kubernetes-pf-prioritylevel-uid"));
    let schema = header("x-kubernetes-pf-flowschema-uid");
    let body = connection.body(&mut head).unwrap();
    let body = String::from_utf8_lossy(&body).into_owned();
    Answer { status: head.status, retry_after, level, schema, body }
}

const NODES: &str = "/api/v1/nodes";
const LEVELS: &str = "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations";
const SCHEMAS: &str = "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas";
const DUMP: &str = "/debug/api_priority_and_fairness/dump_requests?includeRequestDetails=1";

/// The words of a line.
fn words_of(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

/// A level with one seat, and a schema that sends jane there.
fn give_jane_one_seat(setup: &Setup, response: &Value) {
    setup.create(
        LEVELS,
        &json!({
            "apiVersion": "flowcontrol.apiserver.k8s.io/v1",
            "kind": "PriorityLevelConfiguration",
            "metadata": {"name": "narrow"},
            "spec": {"type": "Limited", "limited": {
                "nominalConcurrencyShares": 1, "lendablePercent": 0, "borrowingLimitPercent": 0, "limitResponse": response,
            }},
        }),
    );
    setup.create(
        SCHEMAS,
        &json!({
            "apiVersion": "flowcontrol.apiserver.k8s.io/v1",
            "kind": "FlowSchema",
            "metadata": {"name": "jane"},
            "spec": {
                "priorityLevelConfiguration": {"name": "narrow"},
                "matchingPrecedence": 100,
                "distinguisherMethod": {"type": "ByUser"},
                "rules": [{
                    "subjects": [{"kind": "User", "user": {"name": "jane"}}],
                    "resourceRules": [{
                        "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": true, "namespaces": ["*"],
                    }],
                }],
            },
        }),
    );
    // The configuration is followed: soon it counts.
    let uid =
        setup.server.call("GET", &format!("{LEVELS}/narrow"), &Value::Null).unwrap().1["metadata"]["uid"]
            .clone();
    let begin = Instant::now();
    while setup.get("jane-token", NODES).level.as_deref() != uid.as_str() {
        assert!(begin.elapsed() < PATIENCE, "the level of jane is not in use");
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_level_without_queues_refuses_what_has_no_seat_and_others_go_on() {
    let setup = Setup::new(&["--max-requests-inflight=2", "--max-mutating-requests-inflight=2", "-v=2"]);
    give_jane_one_seat(&setup, &json!({"type": "Reject"}));
    let write = setup.slow_write();
    let refused = setup.get("jane-token", NODES);
    assert_eq!(refused.status, 429);
    let lines: Vec<&str> = refused.body.lines().collect();
    assert_eq!(
        lines,
        [
            "Too many requests, please try again later.",
            "There are no free seats, and requests of the priority level do not wait.",
            "Priority level \"narrow\": 1 of the 4 seats of the server, 1 taken, 0 requests wait.",
            "Flow \"jane\" of flow schema \"jane\": 1 of the seats taken. Other flows: 0.",
            // Jane may get `/debug/cost`.
            "Most seats: jane/jane: 1.",
        ]
    );
    assert_eq!(refused.retry_after.as_deref(), Some("1"));
    assert!(refused.level.is_some() && refused.schema.is_some());
    // The log names those who hold the seats.
    let begin = Instant::now();
    while setup.server.logged(r#"holders="jane/jane: 1""#) == 0 {
        assert!(begin.elapsed() < PATIENCE, "the refusal is not in the log");
        thread::sleep(Duration::from_millis(10));
    }
    // The administrator never waits, and sees who holds the seat.
    let dump = setup.get(setup.server.token(), DUMP);
    assert_eq!(dump.status, 200);
    let held = dump.body.lines().find(|line| line.starts_with("narrow,")).unwrap();
    let costs = setup.get(setup.server.token(), "/debug/cost");
    assert!(costs.body.contains("jane/jane: 1"), "{}", costs.body);
    let lists = costs.body.lines().find(|line| line.starts_with("jane ") && line.contains(" nodes "));
    // Without a user agent: user, resource, five other sums, refusals.
    assert_eq!(words_of(lists.unwrap())[7], "1", "{}", costs.body);
    assert!(held.contains("jane,") && held.contains("create,") && held.contains("configmaps,"), "{held}");
    assert_eq!(write.join().unwrap().status, 201);
    assert_eq!(setup.get("jane-token", NODES).status, 200);
    // Only those who may see it.
    assert_eq!(setup.get("", "/debug/api_priority_and_fairness/dump_queues").status, 403);
    let levels = setup.get(setup.server.token(), "/debug/api_priority_and_fairness/dump_priority_levels");
    assert!(levels.body.lines().any(|line| line.starts_with("catch-all,")), "{}", levels.body);
}

#[test]
fn requests_wait_in_queues_for_their_turn() {
    let setup = Setup::new(&["--max-requests-inflight=2", "--max-mutating-requests-inflight=2"]);
    let queues = json!({"type": "Queue", "queuing": {"queues": 1, "handSize": 1, "queueLengthLimit": 1}});
    give_jane_one_seat(&setup, &queues);
    let write = setup.slow_write();
    let target = setup.server.target().unwrap();
    let begin = Instant::now();
    let waiting = thread::spawn(move || ask(&target, "jane-token", "GET", NODES, ""));
    while !setup.get(setup.server.token(), DUMP).body.contains("list,") {
        assert!(begin.elapsed() < SLOW, "the request does not wait");
        thread::sleep(Duration::from_millis(10));
    }
    // The queue is full.
    let refused = setup.get("jane-token", NODES);
    assert_eq!(refused.status, 429);
    assert!(refused.body.contains("as many requests of the flow wait as may"), "{}", refused.body);
    assert_eq!(write.join().unwrap().status, 201);
    assert_eq!(waiting.join().unwrap().status, 200);
    assert!(begin.elapsed() > SLOW / 3);
}

#[test]
fn a_watch_keeps_its_seat_only_until_it_has_begun() {
    let setup = Setup::new(&["--max-requests-inflight=2", "--max-mutating-requests-inflight=2"]);
    give_jane_one_seat(&setup, &json!({"type": "Reject"}));
    let target = setup.server.target().unwrap();
    let mut connection = target.connect(PATIENCE).unwrap();
    let request = format!(
        "GET {NODES}?watch=1 HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer jane-token\r\n\r\n",
        target.authority()
    );
    connection.send(request.as_bytes()).unwrap();
    assert_eq!(connection.head("GET").unwrap().status, 200);
    let begin = Instant::now();
    while setup.get("jane-token", NODES).status != 200 {
        assert!(begin.elapsed() < PATIENCE, "the watch keeps its seat");
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn without_fairness_writes_have_a_limit_of_their_own() {
    let flags = ["--enable-priority-and-fairness=false", "--max-mutating-requests-inflight=1"];
    let setup = Setup::new(&flags);
    let write = setup.slow_write();
    let object = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"other"}}"#;
    let refused = setup.ask("jane-token", "POST", "/api/v1/namespaces/default/configmaps", object);
    assert_eq!((refused.status, refused.retry_after.as_deref(), refused.level), (429, Some("1"), None));
    assert_eq!(
        refused.body,
        "Too many requests, please try again later.\n\
         As many writes are handled as the server handles at the same time.\n"
    );
    // Reads have another limit, and masters none.
    assert_eq!(setup.get("jane-token", NODES).status, 200);
    let path = "/api/v1/namespaces/default/configmaps";
    assert_eq!(setup.ask(setup.server.token(), "POST", path, object).status, 201);
    assert_eq!(write.join().unwrap().status, 201);
    assert_eq!(setup.get(setup.server.token(), DUMP).status, 404);
}
