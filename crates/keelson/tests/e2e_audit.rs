//! The audit log of a real server: in files and at a webhook, on a full disk, at a shutdown and at a kill.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::https::{Authority, HttpsServer, Reply};
use testkit::{Folder, Server};

const PATIENCE: Duration = Duration::from_secs(20);
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";

fn binary() -> PathBuf {
    testkit::server_binary(env!("CARGO_BIN_EXE_keelson"))
}

/// A folder with a policy.
struct Audit {
    folder: Folder,
}

impl Audit {
    fn new(rules: &str) -> Self {
        let folder = Folder::new().unwrap();
        let policy = format!("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: {rules}\n");
        fs::write(folder.path().join("policy.yaml"), policy).unwrap();
        Self { folder }
    }

    fn flags(&self, more: &[&str]) -> Vec<String> {
        let folder = self.folder.path().display();
        let mut flags = vec![
            format!("--audit-policy-file={folder}/policy.yaml"),
            format!("--audit-log-path={folder}/audit.log"),
        ];
        flags.extend(more.iter().map(ToString::to_string));
        flags
    }

    fn start(&self, more: &[&str]) -> Server {
        let flags = self.flags(more);
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        Server::start(&binary(), &flags).unwrap()
    }

    fn text(&self) -> String {
        fs::read_to_string(self.folder.path().join("audit.log")).unwrap()
    }

    /// The events of requests for a path.
    fn events(&self, path: &str) -> Vec<Value> {
        let events =
            self.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect::<Vec<Value>>();
        events.into_iter().filter(|event| event["requestURI"] == path).collect()
    }
}

fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"k": "v"}})
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn the_log_has_each_request_before_its_answer() {
    let audit = Audit::new("[{level: RequestResponse, omitManagedFields: true}]");
    let server = audit.start(&[]);
    let (code, _) = server.call("POST", CONFIG_MAPS, &config_map("a")).unwrap();
    assert_eq!(code, 201);
    let events = audit.events(CONFIG_MAPS);
    let created: Vec<&Value> = events.iter().filter(|event| event["verb"] == "create").collect();
    assert_eq!(created.len(), 2, "{created:?}");
    assert_eq!(created[0]["stage"], "RequestReceived");
    assert_eq!(created[1]["stage"], "ResponseComplete");
    assert_eq!(created[1]["responseStatus"]["code"], 201);
    assert_eq!(created[1]["objectRef"]["name"], "a");
    assert_eq!(created[1]["requestObject"]["data"]["k"], "v");
    assert_eq!(created[1]["responseObject"]["metadata"]["managedFields"], Value::Null);
    assert_eq!(created[1]["annotations"]["authorization.k8s.io/decision"], "allow");

    let path = format!("{CONFIG_MAPS}/none");
    assert_eq!(server.text("GET", &path, "").unwrap().0, 404);
    let events = audit.events(&path);
    assert_eq!(events[1]["responseStatus"]["reason"], "NotFound");
    assert_eq!(events[1]["responseObject"]["kind"], "Status");

    // A watch has an event when it begins, and one when it ends.
    let path = format!("{CONFIG_MAPS}?watch=1&timeoutSeconds=1");
    assert_eq!(server.text("GET", &path, "").unwrap().0, 200);
    wait_until("the watch has ended", || audit.events(&path).len() == 3);
    let stages: Vec<Value> = audit.events(&path).iter().map(|event| event["stage"].clone()).collect();
    assert_eq!(stages, ["RequestReceived", "ResponseStarted", "ResponseComplete"]);
}

#[test]
fn secrets_are_not_in_the_log_at_metadata() {
    let audit = Audit::new("[{level: Metadata}]");
    let server = audit.start(&[]);
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"p": "planted"}});
    assert_eq!(server.call("POST", SECRETS, &secret).unwrap().0, 201);
    assert_eq!(server.call("POST", SECRETS, &secret).unwrap().0, 409);
    let path = format!("{SECRETS}/s");
    assert_eq!(server.text("GET", &path, "").unwrap().0, 200);
    assert_eq!(server.text("GET", SECRETS, "").unwrap().0, 200);
    assert_eq!(server.text("DELETE", &path, "").unwrap().0, 200);
    assert_eq!(audit.events(&path).len(), 4);
    let text = audit.text();
    for planted in ["planted", "cGxhbnRlZ", server.token()] {
        assert!(!text.contains(planted), "{planted}");
    }
    assert!(!text.contains("requestObject") && !text.contains("responseObject"));
}

#[test]
fn a_strict_log_on_a_full_disk_refuses_requests_and_a_lax_one_does_not() {
    let quiet = "{level: None, nonResourceURLs: [/readyz*, /livez*, /metrics]}";
    for (mode, expected, is_ready) in [("blocking-strict", 500, false), ("blocking", 200, true)] {
        let audit = Audit::new(&format!(
            "[{quiet}, {{level: Metadata, users: [admin, kubernetes-admin]}}, {{level: Metadata}}]"
        ));
        let server = audit.start(&["--audit-log-path=/dev/full", &format!("--audit-log-mode={mode}")]);
        let (code, body) = server.text("GET", CONFIG_MAPS, "").unwrap();
        assert_eq!(code, expected, "{body}");
        if expected == 500 {
            assert!(body.contains("failed to store audit event"), "{body}");
        }
        let (code, body) = server.text("GET", "/readyz?verbose", "").unwrap();
        assert_eq!(code == 200, is_ready, "{body}");
        assert!(body.contains("audit"), "{body}");
    }
}

#[test]
fn a_kill_loses_no_event_of_an_answered_request_in_strict_mode() {
    let audit = Audit::new("[{level: Metadata}]");
    let server = audit.start(&["--audit-log-mode=blocking-strict"]);
    for number in 0..50 {
        assert_eq!(server.call("POST", CONFIG_MAPS, &config_map(&format!("c{number}"))).unwrap().0, 201);
    }
    drop(server.kill().unwrap());
    let created = audit
        .events(CONFIG_MAPS)
        .into_iter()
        .filter(|event| event["stage"] == "ResponseComplete" && event["responseStatus"]["code"] == 201);
    assert_eq!(created.count(), 50);
}

#[test]
fn a_webhook_gets_batches_and_what_is_left_at_the_end() {
    let authority = Authority::new().unwrap();
    let serving = authority.issue(&["127.0.0.1"]).unwrap();
    let other = HttpsServer::start(&serving, None, |_| Reply::ok("{}")).unwrap();
    let audit = Audit::new("[{level: None, users: [\"system:anonymous\"]}, {level: Metadata}]");
    let kubeconfig = audit.folder.path().join("webhook");
    other.kubeconfig(&kubeconfig, "/events", &authority, "{token: hush-own}").unwrap();
    let file = format!("--audit-webhook-config-file={}", kubeconfig.display());
    let server =
        audit.start(&[&file, "--audit-webhook-batch-max-wait=1h", "--audit-webhook-batch-max-size=10"]);
    for number in 0..7 {
        assert_eq!(server.call("POST", CONFIG_MAPS, &config_map(&format!("c{number}"))).unwrap().0, 201);
    }
    wait_until("a batch was sent", || !other.requests().is_empty());
    server.stop().unwrap();
    let mut events = Vec::new();
    for request in other.requests() {
        assert_eq!(request.header("authorization"), "Bearer hush-own");
        let list: Value = serde_json::from_str(&request.body).unwrap();
        assert_eq!((&list["kind"], &list["apiVersion"]), (&json!("EventList"), &json!("audit.k8s.io/v1")));
        let items = list["items"].as_array().unwrap().clone();
        assert!(items.len() <= 10);
        events.extend(items);
    }
    let created = |event: &&Value| event["verb"] == "create" && event["requestURI"] == CONFIG_MAPS;
    assert_eq!(events.iter().filter(created).count(), 14);
}

#[test]
fn a_policy_that_is_wrong_stops_the_start() {
    let audit = Audit::new("[{level: Everything}]");
    let flags = audit.flags(&[]);
    let output = std::process::Command::new(binary())
        .args(flags)
        .arg(format!("--data-dir={}", audit.folder.path().join("data").display()))
        .output()
        .unwrap();
    assert!(!output.status.success());
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains("loading audit policy file: rules[0].level: Unsupported value"), "{text}");
}
