//! The clock of a server that a client moves: what the server decides by the time of day follows at once. The
//! clients of these tests have the time of the system.

#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)]

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use testkit::Server;
use testkit::http::Target;
use testkit::https::SigningRequest;

const CLOCK: &str = "/keelson/v1/clock";
const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";
const CRON_JOBS: &str = "/apis/batch/v1/namespaces/default/cronjobs";
const EVENTS: &str = "/api/v1/namespaces/default/events";
const ACCOUNT_TOKEN: &str = "/api/v1/namespaces/default/serviceaccounts/default/token";
const CSRS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
const PATIENCE: Duration = Duration::from_secs(60);

fn start(flags: &[&str]) -> Server {
    let flags = [&["--storage=memory", "--enable-fault-injection"][..], flags].concat();
    Server::start(&testkit::server_binary(env!("CARGO_BIN_EXE_keelson")), &flags).unwrap()
}

fn eventually(what: &str, holds: impl FnMut() -> bool) {
    testkit::eventually(what, PATIENCE, holds);
}

fn get(server: &Server, path: &str) -> Value {
    let (status, answer) = server.call("GET", path, &Value::Null).unwrap();
    assert_eq!(status, 200, "{path} {answer}");
    answer
}

fn is_gone(server: &Server, path: &str) -> bool {
    server.call("GET", path, &Value::Null).unwrap().0 == 404
}

fn create(server: &Server, path: &str, body: &Value) -> Value {
    let (status, answer) = server.call("POST", path, body).unwrap();
    assert_eq!(status, 201, "{path} {answer}");
    answer
}

fn put(server: &Server, path: &str, body: &Value) -> Value {
    let (status, answer) = server.call("PUT", path, body).unwrap();
    assert_eq!(status, 200, "{path} {answer}");
    answer
}

fn set_clock(server: &Server, body: &Value) -> Value {
    put(server, CLOCK, body)
}

/// Minutes of a time since the year 0, with months of 31 days.
fn minutes(time: &str) -> u64 {
    let part = |from: usize, to: usize| time.get(from..to).unwrap().parse::<u64>().unwrap();
    let days = (part(0, 4) * 12 + part(5, 7)) * 31 + part(8, 10);
    (days * 24 + part(11, 13)) * 60 + part(14, 16)
}

/// The status of a request with credentials of its own.
fn status(target: &Target, headers: &str) -> u16 {
    let mut connection = target.connect(PATIENCE).unwrap();
    let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let body = r#"{"kind":"SelfSubjectReview","apiVersion":"authentication.k8s.io/v1"}"#;
    let request = format!(
        "POST {path} HTTP/1.1\r\nHost: {}\r\n{headers}Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        target.authority(),
        body.len()
    );
    connection.send(request.as_bytes()).unwrap();
    connection.head("POST").unwrap().status
}

fn has_condition(object: &Value, condition: &str, status: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.iter().any(|one| one["type"] == condition && one["status"] == status)
}

#[test]
fn clock_is_shown_and_moved_by_those_who_may_and_only_with_the_flag() {
    let plain = Server::start(&testkit::server_binary(env!("CARGO_BIN_EXE_keelson")), &["--storage=memory"]);
    assert_eq!(plain.unwrap().text("GET", CLOCK, "").unwrap(), (404, "404 page not found\n".to_owned()));

    let server = start(&[]);
    let clock = get(&server, CLOCK);
    assert_eq!((&clock["rate"], &clock["offset"]), (&json!(1), &json!("0s")));
    assert_eq!(set_clock(&server, &json!({"step": "1h"}))["offset"], "1h0m0s");
    assert_eq!(set_clock(&server, &json!({"step": "-90m"}))["offset"], "-30m0s");
    let moved = set_clock(&server, &json!({"now": "2041-02-03T04:05:06Z"}));
    assert!(moved["now"].as_str().unwrap().starts_with("2041-02-03T04:05:0"), "{moved}");
    let made = create(&server, "/api/v1/namespaces/default/configmaps", &json!({"metadata": {"name": "a"}}));
    assert!(made["metadata"]["creationTimestamp"].as_str().unwrap().starts_with("2041-02-03T04:0"), "{made}");
    let fast = set_clock(&server, &json!({"rate": 60}));
    assert_eq!(fast["rate"], 60);
    let back = set_clock(&server, &json!({"reset": true}));
    assert_eq!((&back["rate"], &back["offset"]), (&json!(1), &json!("0s")));

    for (body, field) in [
        (json!({"step": "soon"}), "step"),
        (json!({"rate": 0}), "rate"),
        (json!({"rate": 100_000}), "rate"),
        (json!({"now": "0001-01-01T00:00:00Z"}), "now"),
        (json!({"speed": 1}), "speed"),
        (json!({"step": "1h", "reset": true}), "step"),
    ] {
        let (status, answer) = server.call("PUT", CLOCK, &body).unwrap();
        assert_eq!(status, 422, "{body}: {answer}");
        assert_eq!(answer["details"]["causes"][0]["field"], field, "{answer}");
    }
    assert_eq!(server.text("PUT", CLOCK, "[").unwrap().0, 400);
    assert_eq!(server.text("DELETE", CLOCK, "").unwrap().0, 405);
    // Nobody else may.
    let target = server.target().unwrap();
    let mut connection = target.connect(PATIENCE).unwrap();
    connection
        .send(format!("GET {CLOCK} HTTP/1.1\r\nHost: {}\r\n\r\n", target.authority()).as_bytes())
        .unwrap();
    assert_eq!(connection.head("GET").unwrap().status, 403);
}

#[test]
fn tokens_and_certificates_expire_at_a_step() {
    let server = start(&[]);
    eventually("the account is there", || {
        server.call("GET", "/api/v1/namespaces/default/serviceaccounts/default", &Value::Null).unwrap().0
            == 200
    });
    let request = json!({"spec": {"expirationSeconds": 3600}});
    let granted = create(&server, ACCOUNT_TOKEN, &request);
    let bearer = |granted: &Value| {
        format!("Authorization: Bearer {}\r\n", granted["status"]["token"].as_str().unwrap())
    };
    let target = server.target().unwrap();

    let signing = SigningRequest::new("jane", "developers").unwrap();
    let name = format!("{CSRS}/jane");
    create(
        &server,
        CSRS,
        &json!({
            "metadata": {"name": "jane"},
            "spec": {
                "request": STANDARD.encode(&signing.pem), "signerName": "kubernetes.io/kube-apiserver-client",
                "expirationSeconds": 3600, "usages": ["client auth", "digital signature"],
            },
        }),
    );
    let mut approved = get(&server, &name);
    approved["status"] = json!({"conditions": [{"type": "Approved", "status": "True", "reason": "Test"}]});
    put(&server, &format!("{name}/approval"), &approved);
    eventually("the certificate is issued", || get(&server, &name)["status"]["certificate"].is_string());
    let issued = get(&server, &name);
    let certificate = STANDARD.decode(issued["status"]["certificate"].as_str().unwrap()).unwrap();
    let jane = target.identified(&String::from_utf8(certificate).unwrap(), &signing.key).unwrap();

    assert_eq!((status(&target, &bearer(&granted)), status(&jane, "")), (201, 201));
    set_clock(&server, &json!({"step": "30m"}));
    assert_eq!((status(&target, &bearer(&granted)), status(&jane, "")), (201, 201));
    set_clock(&server, &json!({"step": "1h"}));
    assert_eq!((status(&target, &bearer(&granted)), status(&jane, "")), (401, 401));
    // The server goes on: what it makes now is valid now.
    let granted = create(&server, ACCOUNT_TOKEN, &request);
    assert_eq!(status(&target, &bearer(&granted)), 201);
    // And a token of the future is not valid yet.
    set_clock(&server, &json!({"reset": true}));
    assert_eq!(status(&target, &bearer(&granted)), 401);
}

#[test]
fn events_go_when_the_clock_passes_their_time() {
    let server = start(&["--event-ttl=1h"]);
    let event = |name: &str| {
        json!({
            "metadata": {"name": name}, "reason": "Test", "type": "Normal",
            "involvedObject": {"kind": "ConfigMap", "namespace": "default", "name": "a"},
        })
    };
    create(&server, EVENTS, &event("old"));
    set_clock(&server, &json!({"step": "30m"}));
    create(&server, EVENTS, &event("new"));
    set_clock(&server, &json!({"step": "32m"}));
    eventually("the event goes", || is_gone(&server, &format!("{EVENTS}/old")));
    assert_eq!(get(&server, &format!("{EVENTS}/new"))["reason"], "Test", "it is half as old");
    set_clock(&server, &json!({"step": "1h5m"}));
    eventually("the other goes", || is_gone(&server, &format!("{EVENTS}/new")));
}

fn job(name: &str, fields: &Value) -> Value {
    let mut job = json!({"metadata": {"name": name}, "spec": {"template": {"spec": {
        "restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}],
    }}}});
    for (key, value) in fields.as_object().unwrap() {
        job["spec"][key] = value.clone();
    }
    job
}

/// Ends the only pod of a job.
fn succeed(server: &Server, job: &str) {
    let pods = format!("/api/v1/namespaces/default/pods?labelSelector=job-name%3D{job}");
    eventually("the job has a pod", || {
        get(server, &pods)["items"].as_array().is_some_and(|pods| pods.len() == 1)
    });
    let name = get(server, &pods)["items"][0]["metadata"]["name"].as_str().unwrap().to_owned();
    let path = format!("/api/v1/namespaces/default/pods/{name}/status");
    let (status, answer) = server.call("PATCH", &path, &json!({"status": {"phase": "Succeeded"}})).unwrap();
    assert_eq!(status, 200, "{answer}");
    let path = format!("{JOBS}/{job}");
    eventually("the job is complete", || has_condition(&get(server, &path), "Complete", "True"));
}

#[test]
fn finished_jobs_go_and_deadlines_pass_at_a_step() {
    let server = start(&[]);
    create(&server, JOBS, &job("short", &json!({"ttlSecondsAfterFinished": 3600})));
    create(&server, JOBS, &job("late", &json!({"activeDeadlineSeconds": 5400})));
    succeed(&server, "short");
    set_clock(&server, &json!({"step": "30m"}));
    assert_eq!(get(&server, &format!("{JOBS}/short"))["status"]["succeeded"], 1);
    set_clock(&server, &json!({"step": "31m"}));
    eventually("the finished job goes", || is_gone(&server, &format!("{JOBS}/short")));
    let late = format!("{JOBS}/late");
    assert!(!has_condition(&get(&server, &late), "Failed", "True"));
    set_clock(&server, &json!({"step": "1h"}));
    eventually("the deadline passes", || has_condition(&get(&server, &late), "Failed", "True"));
}

#[test]
fn cron_jobs_are_due_when_the_clock_comes_to_their_time() {
    let server = start(&[]);
    set_clock(&server, &json!({"now": "2031-06-01T10:00:00Z"}));
    let template = job("x", &json!({}))["spec"].clone();
    create(
        &server,
        CRON_JOBS,
        &json!({
            "metadata": {"name": "yearly"},
            "spec": {"schedule": "30 4 1 7 *", "timeZone": "Etc/UTC", "jobTemplate": {"spec": template}},
        }),
    );
    let path = format!("{CRON_JOBS}/yearly");
    set_clock(&server, &json!({"now": "2031-07-01T04:29:30Z"}));
    assert_eq!(get(&server, &path)["status"]["lastScheduleTime"], Value::Null);
    set_clock(&server, &json!({"step": "1m"}));
    eventually("the job is made", || {
        get(&server, &path)["status"]["lastScheduleTime"] == "2031-07-01T04:30:00Z"
    });
}

#[test]
fn nodes_without_heartbeats_are_noticed_at_a_step_and_nodes_on_paper_stay_ready() {
    let server = start(&["--fake-nodes=2"]);
    let name = "/api/v1/nodes/by-hand";
    create(
        &server,
        "/api/v1/nodes",
        &json!({
            "metadata": {"name": "by-hand"}, "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        }),
    );
    let now = get(&server, CLOCK)["now"].clone();
    create(
        &server,
        LEASES,
        &json!({
            "metadata": {"name": "by-hand"},
            "spec": {"holderIdentity": "by-hand", "leaseDurationSeconds": 40, "renewTime": now},
        }),
    );
    let nodes = || get(&server, "/api/v1/nodes")["items"].as_array().unwrap().clone();
    let ready = |status: &str| nodes().iter().filter(|node| has_condition(node, "Ready", status)).count();
    eventually("all nodes are ready", || ready("True") == 3);
    set_clock(&server, &json!({"step": "2h"}));
    eventually("the node is noticed", || has_condition(&get(&server, name), "Ready", "Unknown"));
    assert_eq!(ready("True"), 2, "nodes on paper follow the clock: {:?}", nodes());
    let taints = get(&server, name)["spec"]["taints"].to_string();
    assert!(taints.contains("node.kubernetes.io/unreachable"), "{taints}");
}

#[test]
fn everything_goes_faster_with_the_rate() {
    let server = start(&["--event-ttl=2h"]);
    create(&server, JOBS, &job("short", &json!({"ttlSecondsAfterFinished": 36_000})));
    succeed(&server, "short");
    create(
        &server,
        EVENTS,
        &json!({
            "metadata": {"name": "old"}, "reason": "Test", "type": "Normal",
            "involvedObject": {"kind": "ConfigMap", "namespace": "default", "name": "a"},
        }),
    );
    let template = job("x", &json!({}))["spec"].clone();
    create(
        &server,
        CRON_JOBS,
        &json!({
            "metadata": {"name": "hourly"},
            "spec": {"schedule": "0 * * * *", "concurrencyPolicy": "Replace", "jobTemplate": {"spec": template}},
        }),
    );
    let granted = create(&server, ACCOUNT_TOKEN, &json!({"spec": {"expirationSeconds": 7200}}));
    let before = minutes(get(&server, CLOCK)["now"].as_str().unwrap());
    set_clock(&server, &json!({"rate": 3600}));
    eventually("the finished job goes", || is_gone(&server, &format!("{JOBS}/short")));
    eventually("the event goes", || is_gone(&server, &format!("{EVENTS}/old")));
    let path = format!("{CRON_JOBS}/hourly");
    eventually("the cron job is due", || get(&server, &path)["status"]["lastScheduleTime"].is_string());
    let target = server.target().unwrap();
    let bearer = format!("Authorization: Bearer {}\r\n", granted["status"]["token"].as_str().unwrap());
    eventually("the token expires", || status(&target, &bearer) == 401);
    let stopped = set_clock(&server, &json!({"rate": 1}));
    assert!(minutes(stopped["now"].as_str().unwrap()) - before >= 600, "{stopped}");
    // The server is well.
    assert_eq!(server.text("GET", "/readyz", "").unwrap().0, 200);
}
