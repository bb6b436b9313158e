//! Who costs what: `/debug/cost` and the metrics of costs, beside users that read and watch.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::{Folder, Server};

const PATIENCE: Duration = Duration::from_secs(30);
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const COST: &str = "/debug/cost";

fn binary() -> PathBuf {
    testkit::server_binary(env!("CARGO_BIN_EXE_keelson"))
}

/// A server whose users jane and joe may read what `view` allows.
fn start() -> (Server, Folder) {
    let folder = Folder::new().unwrap();
    let tokens = folder.path().join("tokens.csv");
    fs::write(&tokens, "jane-token,jane,jane-uid\njoe-token,joe,joe-uid\n").unwrap();
    let server = Server::start(&binary(), &[&format!("--token-auth-file={}", tokens.display())]).unwrap();
    let user = |name: &str| json!({"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": name});
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "readers"},
        "subjects": [user("jane"), user("joe")],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
    });
    let path = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    assert_eq!(server.call("POST", path, &binding).unwrap().0, 201);
    // Controllers make the rules of `view`, and this object.
    let begin = Instant::now();
    while get(&server, "jane-token", "", &format!("{MAPS}/kube-root-ca.crt")).0 != 200 {
        assert!(begin.elapsed() < PATIENCE, "jane does not read what controllers make");
        std::thread::sleep(Duration::from_millis(20));
    }
    (server, folder)
}

/// A GET on a connection of its own: its code, its media type, its body.
fn get(server: &Server, token: &str, headers: &str, path: &str) -> (u16, String, String) {
    let target = server.target().unwrap();
    let mut connection = target.connect(PATIENCE).unwrap();
    let request = format!(
        "GET {path} HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {token}\r\n{headers}\r\n",
        target.authority()
    );
    connection.send(request.as_bytes()).unwrap();
    let mut head = connection.head("GET").unwrap();
    let media_type = head.header("content-type").unwrap_or_default().to_owned();
    let body = connection.body(&mut head).unwrap();
    (head.status, media_type, String::from_utf8(body).unwrap())
}

/// The table as JSON.
fn costs(server: &Server, query: &str) -> Value {
    let (code, media_type, body) =
        get(server, server.token(), "accept: application/json\r\n", &format!("{COST}{query}"));
    assert_eq!((code, media_type.as_str()), (200, "application/json"), "{body}");
    serde_json::from_str(&body).unwrap()
}

/// The sums since the start of a row.
fn total(costs: &Value, user: &str, agent: &str, resource: &str) -> Value {
    let rows = costs["rows"].as_array().unwrap();
    let names = [user, agent, resource].map(Value::from);
    let row = rows.iter().find(|row| [&row["user"], &row["userAgent"], &row["resource"]] == names.each_ref());
    row.map(|row| row["total"].clone()).unwrap_or_default()
}

fn create(server: &Server, name: &str) {
    let object = json!({"metadata": {"name": name}, "data": {"k": "v".repeat(1_000)}});
    assert_eq!(server.call("POST", MAPS, &object).unwrap().0, 201);
}

#[test]
fn lists_and_watches_of_users_are_in_the_table_and_in_the_metrics() {
    let (server, _folder) = start();
    for number in 0..30 {
        create(&server, &format!("c{number}"));
    }
    let list = serde_json::from_str::<Value>(&get(&server, "joe-token", "", MAPS).2).unwrap();
    let count = list["items"].as_array().unwrap().len();
    let kubectl = "user-agent: kubectl/v1.33.7 (linux/amd64) kubernetes/abc\r\n";
    let mut bytes = 0;
    for _ in 0..5 {
        bytes += get(&server, "jane-token", kubectl, MAPS).2.len();
    }
    for name in ["c1", "c2"] {
        bytes += get(&server, "jane-token", kubectl, &format!("{MAPS}/{name}")).2.len();
    }
    // A watch of joe's that stays open: all objects, and three changes.
    let target = server.target().unwrap();
    let mut watch = target.connect(PATIENCE).unwrap();
    let request = format!(
        "GET {MAPS}?watch=1 HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer joe-token\r\nuser-agent: informer\r\n\r\n",
        target.authority()
    );
    watch.send(request.as_bytes()).unwrap();
    let mut head = watch.head("GET").unwrap();
    let mut rest = Vec::new();
    for _ in 0..count {
        watch.line(&mut head, &mut rest).unwrap().unwrap();
    }
    for name in ["d1", "d2", "d3"] {
        create(&server, name);
        watch.line(&mut head, &mut rest).unwrap().unwrap();
    }

    let shown = costs(&server, "");
    let jane = total(&shown, "jane", "kubectl", "configmaps");
    assert_eq!(
        [&jane["requests"], &jane["readObjects"], &jane["deliveredEvents"], &jane["sentBytes"]],
        [&json!(7), &json!(5 * count + 2), &json!(0), &json!(bytes)]
    );
    assert!(jane["cpuSeconds"].as_f64().unwrap() > 0.0);
    let joe = total(&shown, "joe", "informer", "configmaps");
    assert_eq!([&joe["requests"], &joe["deliveredEvents"]], [&json!(1), &json!(count + 3)], "{shown:#}");
    let by_user = costs(&server, "?by=user&top=2");
    assert_eq!(by_user["rows"].as_array().unwrap().len(), 2);
    assert!(costs(&server, "?by=resource")["rows"].to_string().contains("configmaps"));
    let level = shown["levels"].as_array().unwrap().iter().find(|level| level["name"] == "global-default");
    assert!(level.unwrap()["seats"].as_u64().unwrap() > 0);

    // The ten that cost most, and no more.
    for number in 0..15 {
        let agent = format!("user-agent: agent-{number}\r\n");
        assert_eq!(get(&server, "jane-token", &agent, MAPS).0, 200);
    }
    let metrics = get(&server, server.token(), "", "/metrics").2;
    for family in ["cpu_seconds", "sent_bytes", "read_objects", "delivered_events", "refusals"] {
        let start = format!("keelson_cost_{family}{{");
        assert_eq!(metrics.lines().filter(|line| line.starts_with(&start)).count(), 10, "{family}");
    }
    let start = r#"keelson_cost_read_objects{resource="configmaps",user="jane",user_agent="kubectl"} "#;
    let value = metrics.lines().find_map(|line| line.strip_prefix(start)).expect("jane costs most");
    let recent: f64 = value.parse().unwrap();
    assert!(recent > 0.0 && recent <= (5 * count + 2) as f64, "{recent}");
}

#[test]
fn only_those_who_may_get_the_path_see_the_table_and_kubectl_shows_it() {
    let (server, _folder) = start();
    assert_eq!(get(&server, "jane-token", "", COST).0, 403);
    assert_eq!(get(&server, "", "", COST).0, 403);
    assert_eq!(get(&server, server.token(), "", &format!("{COST}?top=x")).0, 400);
    assert_eq!(get(&server, server.token(), "", &format!("{COST}/x")).0, 404);
    let kubectl = |path: &str| {
        let output = Command::new(testkit::tool("kubectl").unwrap())
            .args(["get", "--raw", path, "--kubeconfig"])
            .arg(server.kubeconfig())
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let text = kubectl(COST);
    assert!(text.lines().any(|line| line.starts_with("USER ")), "{text}");
    assert!(text.lines().any(|line| line.starts_with("LEVEL ")), "{text}");
    let row = |line: &str| line.starts_with("jane ") && line.contains(" configmaps ");
    assert!(text.lines().any(row), "{text}");
    let json: Value = serde_json::from_str(&kubectl(&format!("{COST}?format=json"))).unwrap();
    assert!(json["all"]["total"]["requests"].as_u64().unwrap() > 0);
}
