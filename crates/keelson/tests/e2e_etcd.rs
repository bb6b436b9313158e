//! Objects in a real etcd: laid out as the reference lays them out, and shared by several servers.

#![allow(clippy::expect_used, clippy::panic, clippy::print_stdout, clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::{Etcd, Server, Signal};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const SERVICES: &str = "/api/v1/namespaces/default/services";
const PATIENCE: Duration = Duration::from_secs(60);

fn binary() -> PathBuf {
    testkit::server_binary(env!("CARGO_BIN_EXE_keelson"))
}

fn etcd() -> Etcd {
    Etcd::start("etcd", 1, &[]).unwrap()
}

fn server(etcd: &Etcd, flags: &[&str]) -> Server {
    let servers = format!("--etcd-servers={}", etcd.endpoints().join(","));
    let flags: Vec<&str> = [servers.as_str()].into_iter().chain(flags.iter().copied()).collect();
    Server::start(&binary(), &flags).unwrap()
}

fn config_map(name: &str) -> Value {
    json!({"metadata": {"name": name}, "data": {"k": "v"}})
}

fn create(server: &Server, path: &str, body: &Value) -> Value {
    let (status, answer) = server.call("POST", path, body).unwrap();
    assert_eq!(status, 201, "{answer}");
    answer
}

fn get(server: &Server, path: &str) -> Value {
    let (status, answer) = server.call("GET", path, &Value::Null).unwrap();
    assert_eq!(status, 200, "{answer}");
    answer
}

/// Waits until something holds.
fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < PATIENCE, "{what} within {PATIENCE:?}");
        sleep(Duration::from_millis(50));
    }
}

#[test]
fn objects_lie_as_the_reference_lays_them_out() {
    let etcd = etcd();
    let server = server(&etcd, &[]);
    create(&server, CONFIG_MAPS, &config_map("a"));
    let definition = json!({"metadata": {"name": "widgets.example.com"}, "spec": {"group": "example.com", "scope": "Namespaced",
        "names": {"plural": "widgets", "kind": "Widget"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema":
            {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}});
    create(&server, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition);
    let widget =
        json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"}, "z": 1, "b": 2});
    create(&server, "/apis/example.com/v1/namespaces/default/widgets", &widget);

    let stored = |key: &str| etcd.value(key).unwrap();
    let map = stored("/registry/configmaps/default/a").unwrap();
    assert!(map.starts_with(b"k8s\0\n\x0f\n\x02v1\x12\tConfigMap"), "{map:?}");
    let definition =
        stored("/registry/apiextensions.k8s.io/customresourcedefinitions/widgets.example.com").unwrap();
    assert!(
        definition.starts_with(
            br#"{"kind":"CustomResourceDefinition","apiVersion":"apiextensions.k8s.io/v1beta1""#
        )
    );
    let widget = String::from_utf8(stored("/registry/example.com/widgets/default/a").unwrap()).unwrap();
    assert!(
        widget.starts_with(r#"{"apiVersion":"example.com/v1","b":2,"kind":"Widget","metadata":{"#),
        "{widget}"
    );
    assert!(widget.ends_with("\"z\":1}\n") && !widget.contains("resourceVersion"), "{widget}");
    assert!(stored("/registry/minions/absent").is_none());
    assert!(stored("/registry/services/specs/default/kubernetes").is_some());
}

#[test]
fn a_restart_finds_everything_and_watches_go_on() {
    let etcd = etcd();
    let first = server(&etcd, &[]);
    let before = create(&first, CONFIG_MAPS, &config_map("a"));
    create(&first, CONFIG_MAPS, &config_map("b"));
    first.terminate().unwrap();
    let second = server(&etcd, &[]);
    assert_eq!(get(&second, &format!("{CONFIG_MAPS}/a")), before);
    let since = before["metadata"]["resourceVersion"].as_str().unwrap();
    // The second server has another authority, and publishes it.
    let others = "fieldSelector=metadata.name!=kube-root-ca.crt";
    let path = format!("{CONFIG_MAPS}?watch=true&timeoutSeconds=1&resourceVersion={since}&{others}");
    let names = watched(&second, &path);
    assert_eq!(names, ["ADDED b"]);
}

/// The events of a watch until it ends.
fn watched(server: &Server, path: &str) -> Vec<String> {
    let (status, text) = server.text("GET", path, "").unwrap();
    assert_eq!(status, 200, "{text}");
    let events = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let told = events.map(|event| {
        let name = event["object"]["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        format!("{} {name}", event["type"].as_str().unwrap())
    });
    told.collect()
}

#[test]
fn several_servers_are_one_control_plane() {
    let etcd = etcd();
    let one = server(&etcd, &["--advertise-address=10.1.0.1"]);
    let other = server(&etcd, &["--advertise-address=10.1.0.2"]);

    // What one wrote, the other shows at once.
    for round in 0..50 {
        let made = create(&one, CONFIG_MAPS, &config_map(&format!("a-{round:02}")));
        assert_eq!(get(&other, &format!("{CONFIG_MAPS}/a-{round:02}")), made);
        let listed = get(&other, &format!("{CONFIG_MAPS}?fieldSelector=metadata.name=a-{round:02}"));
        assert_eq!(listed["items"].as_array().unwrap().len(), 1);
    }
    // A list goes on, and a watch starts, on any of them.
    let page = get(&one, &format!("{CONFIG_MAPS}?limit=30"));
    let token = page["metadata"]["continue"].as_str().unwrap();
    create(&one, CONFIG_MAPS, &config_map("a-99"));
    let rest = get(&other, &format!("{CONFIG_MAPS}?limit=30&continue={token}"));
    assert_eq!(rest["metadata"]["resourceVersion"], page["metadata"]["resourceVersion"]);
    let names = |list: &Value| {
        list["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|item| item["metadata"]["name"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert!(!names(&rest).contains(&"a-99".to_owned()), "the state is that of the first page");
    let since = page["metadata"]["resourceVersion"].as_str().unwrap();
    let told = watched(&other, &format!("{CONFIG_MAPS}?watch=true&timeoutSeconds=1&resourceVersion={since}"));
    assert_eq!(told, ["ADDED a-99"]);

    // An address is given once.
    let addresses: Vec<String> = std::thread::scope(|scope| {
        let threads: Vec<_> = [(&one, "one"), (&other, "other")].into_iter().map(|(server, who)| {
            scope.spawn(move || {
                let service = |n| json!({"metadata": {"name": format!("{who}-{n}")}, "spec": {"ports": [{"port": 80}]}});
                let made = (0..30).map(|n| create(server, SERVICES, &service(n)));
                made.map(|made| made["spec"]["clusterIP"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
            })
        }).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(addresses.iter().collect::<BTreeSet<_>>().len(), 60);

    // The service leads to both, and when one ends, to the other.
    let endpoints = |server: &Server| {
        let endpoints = get(server, "/api/v1/namespaces/default/endpoints/kubernetes");
        let addresses = endpoints["subsets"][0]["addresses"].as_array().cloned().unwrap_or_default();
        addresses.iter().map(|address| address["ip"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    eventually("both servers are endpoints", || endpoints(&one) == ["10.1.0.1", "10.1.0.2"]);
    let leases =
        get(&other, "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/keelson-controllers");
    assert!(leases["spec"]["holderIdentity"].is_string());
    one.terminate().unwrap();
    eventually("the other one is the only endpoint", || endpoints(&other) == ["10.1.0.2"]);

    // Controllers run on the one that is left: a namespace goes away.
    create(&other, "/api/v1/namespaces", &json!({"metadata": {"name": "gone"}}));
    assert_eq!(other.call("DELETE", "/api/v1/namespaces/gone", &Value::Null).unwrap().0, 200);
    eventually("the namespace is gone", || {
        other.call("GET", "/api/v1/namespaces/gone", &Value::Null).unwrap().0 == 404
    });
}

#[test]
fn an_etcd_that_does_not_answer_is_told_and_comes_back() {
    let etcd = etcd();
    let server = server(&etcd, &[]);
    create(&server, CONFIG_MAPS, &config_map("before"));
    etcd.signal(0, Signal::SIGSTOP).unwrap();
    let begin = Instant::now();
    let (status, answer) =
        server.call("POST", &format!("{CONFIG_MAPS}?timeout=5s"), &config_map("during")).unwrap();
    assert!(status >= 500, "{answer}");
    assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", begin.elapsed());
    eventually("readiness tells it", || server.text("GET", "/readyz", "").unwrap().0 == 500);
    // What is in memory is still served to those who do not ask for the newest.
    get(&server, &format!("{CONFIG_MAPS}/before?resourceVersion=0"));
    etcd.signal(0, Signal::SIGCONT).unwrap();
    eventually("the server is ready again", || server.text("GET", "/readyz", "").unwrap().0 == 200);
    create(&server, CONFIG_MAPS, &config_map("after"));
    get(&server, &format!("{CONFIG_MAPS}/before"));
}

#[test]
fn a_server_without_its_etcd_says_so() {
    let folder = testkit::Folder::new().unwrap();
    let flags = ["--etcd-servers=http://127.0.0.1:1"];
    let refused =
        testkit::Process::start(&binary(), &folder.path().join("data"), &flags).unwrap_err().to_string();
    assert!(refused.contains("http://127.0.0.1:1 cannot be used as the store"), "{refused}");
}
