//! Objects in a real etcd: laid out as the reference lays them out, and shared by several servers.

#![allow(clippy::expect_used, clippy::panic, clippy::print_stdout, clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::{Etcd, Proxy, ProxyMode, Server, Signal};

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
fn eventually(what: &str, holds: impl FnMut() -> bool) {
    testkit::eventually(what, PATIENCE, holds);
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

fn define_widgets(server: &Server) {
    let embedded = json!({"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true});
    let definition = json!({"metadata": {"name": "widgets.example.com"}, "spec": {"group": "example.com", "scope": "Namespaced",
        "names": {"plural": "widgets", "kind": "Widget"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema":
            {"type": "object", "properties": {"embedded": embedded}}}}]}});
    create(server, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition);
}

#[test]
fn custom_objects_are_written_as_cbor_behind_its_gate_and_read_from_both() {
    const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";
    let etcd = etcd();
    let stored =
        |name: &str| etcd.value(&format!("/registry/example.com/widgets/default/{name}")).unwrap().unwrap();
    let widget =
        |name: &str| json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}});
    let plain = server(&etcd, &[]);
    define_widgets(&plain);
    create(&plain, WIDGETS, &widget("json"));
    assert!(stored("json").starts_with(b"{"));
    drop(plain);
    let gated = server(&etcd, &["--feature-gates=CBORServingAndStorage=true"]);
    create(&gated, WIDGETS, &widget("cbor"));
    assert!(stored("cbor").starts_with(&[0xd9, 0xd9, 0xf7]), "{:?}", stored("cbor"));
    assert_eq!(get(&gated, WIDGETS)["items"].as_array().unwrap().len(), 2);
    // A write of the same object is written in the other encoding.
    let same = get(&gated, &format!("{WIDGETS}/json"));
    assert_eq!(gated.call("PUT", &format!("{WIDGETS}/json"), &same).unwrap().0, 200);
    assert!(stored("json").starts_with(&[0xd9, 0xd9, 0xf7]));
    drop(gated);
    let plain = server(&etcd, &[]);
    for name in ["json", "cbor"] {
        assert_eq!(get(&plain, &format!("{WIDGETS}/{name}"))["metadata"]["name"], name);
    }
}

#[test]
fn custom_objects_with_malformed_metadata_are_served_repaired_and_deleted() {
    const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";
    let etcd = etcd();
    let server = server(&etcd, &[]);
    define_widgets(&server);
    let malformed = json!({"name": "a", "namespace": "default", "unknown": 42, "generation": null,
        "annotations": {"foo": 42, "bar": "abc"}, "labels": {"invalid": "x y"}});
    let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": malformed,
        "embedded": {"apiVersion": "foo/v1", "kind": "Foo", "metadata": {"unknown": 42, "annotations": {"foo": 42}, "labels": {"invalid": "x y"}}}});
    let (key, one) = ("/registry/example.com/widgets/default/a", format!("{WIDGETS}/a"));
    let put = || {
        etcd.put(key, widget.to_string().as_bytes()).unwrap();
        eventually("the object is there", || server.call("GET", &one, &Value::Null).unwrap().0 == 200);
    };
    put();
    assert_eq!(server.call("DELETE", &one, &Value::Null).unwrap().0, 200);
    assert!(etcd.value(key).unwrap().is_none());
    put();
    let mut read = get(&server, &one);
    let metadata = &read["metadata"];
    assert_eq!([&metadata["unknown"], &metadata["annotations"]], [&Value::Null; 2], "{read}");
    assert_eq!(
        [&metadata["generation"], &metadata["labels"]["invalid"]],
        [&json!(1), &json!("x y")],
        "{read}"
    );
    assert_eq!(read["embedded"]["metadata"], json!({"labels": {"invalid": "x y"}}), "{read}");
    assert_eq!(get(&server, &format!("{WIDGETS}?labelSelector=invalid"))["items"][0], read);
    // What is invalid and not malformed has to be put right by a write.
    let update = |object: &Value| server.call("PUT", &one, object).unwrap().0;
    read["metadata"]["labels"]["something"] = json!("changed");
    assert_eq!(update(&read), 422);
    read["metadata"]["labels"]["invalid"] = json!("fixed");
    assert_eq!(update(&read), 422);
    read["embedded"]["metadata"]["labels"]["invalid"] = json!("fixed");
    assert_eq!(update(&read), 200);
    let mut wrong = get(&server, &one);
    wrong["embedded"]["metadata"]["labels"]["invalid"] = json!(42);
    assert_eq!(update(&wrong), 400);
}

#[test]
fn objects_of_older_servers_are_read_and_written_again_in_the_storage_version() {
    const BUDGET: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets/a";
    let etcd = etcd();
    let metadata =
        json!({"name": "a", "namespace": "default", "uid": "u", "creationTimestamp": "2020-01-01T00:00:00Z"});
    let budget = json!({"kind": "PodDisruptionBudget", "apiVersion": "policy/v1beta1", "metadata": metadata,
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}}});
    etcd.put("/registry/poddisruptionbudgets/default/a", budget.to_string().as_bytes()).unwrap();
    let service = json!({"kind": "Service", "apiVersion": "v1", "metadata": metadata,
        "spec": {"clusterIP": "10.0.0.77", "ports": [{"port": 80}]}});
    etcd.put("/registry/services/specs/default/a", service.to_string().as_bytes()).unwrap();
    let server = server(&etcd, &[]);

    let list = get(&server, "/apis/policy/v1/poddisruptionbudgets");
    assert_eq!(list["items"][0]["spec"]["minAvailable"], 1, "{list}");
    let mut budget = get(&server, BUDGET);
    assert_eq!(budget["apiVersion"], "policy/v1");
    budget["spec"]["minAvailable"] = 2.into();
    assert_eq!(server.call("PUT", BUDGET, &budget).unwrap().0, 200);
    let stored = etcd.value("/registry/poddisruptionbudgets/default/a").unwrap().unwrap();
    assert!(stored.starts_with(b"k8s\0") && stored.windows(11).any(|window| window == b"policy/v1\x12\x13"));

    let path = format!("{SERVICES}/a");
    let mut service = get(&server, &path);
    assert_eq!(service["spec"]["clusterIPs"], json!(["10.0.0.77"]));
    assert_eq!(service["spec"]["ipFamilies"], json!(["IPv4"]));
    service["metadata"]["labels"] = json!({"a": "b"});
    let (code, answer) = server.call("PUT", &path, &service).unwrap();
    assert_eq!(code, 200, "{answer}");
}

#[test]
fn an_object_that_fits_without_its_managed_fields_is_stored() {
    let etcd = etcd();
    let server = server(&etcd, &[]);
    let mut map = config_map("a");
    for number in 0..9_999 {
        let key = format!("this-key-is-very-long-so-as-to-create-a-very-large-serialized-fieldset-{number}");
        map["data"][key] = "A".into();
    }
    let made = create(&server, CONFIG_MAPS, &map);
    assert_eq!(made["metadata"]["managedFields"], Value::Null);
    let path = format!("{CONFIG_MAPS}/a");
    assert_eq!(get(&server, &path)["data"].as_object().unwrap().len(), 10_000);
}

#[test]
fn an_object_that_is_too_large_for_etcd_is_refused_in_its_words() {
    let etcd = etcd();
    let server = server(&etcd, &[]);
    let refused = |count: usize| {
        let finalizers: Vec<_> =
            (0..count).map(|n| format!("example.com/{}-{n:06}", "x".repeat(50))).collect();
        let map = json!({"metadata": {"name": "a", "finalizers": finalizers}});
        let (code, status) = server.call("POST", CONFIG_MAPS, &map).unwrap();
        (code, status.get("reason").cloned(), status["message"].as_str().unwrap_or_default().to_owned())
    };
    assert_eq!(refused(25_000), (500, None, "etcdserver: request is too large".to_owned()));
    let (code, reason, message) = refused(35_000);
    let start = "rpc error: code = ResourceExhausted desc = trying to send message larger than max (2";
    assert!(message.starts_with(start) && message.ends_with(" vs. 2097152)"), "{message}");
    assert_eq!((code, reason), (500, None));
    let (code, _, message) = refused(45_000);
    assert_eq!((code, message.as_str()), (413, "Request entity too large: limit is 3145728"));
}

#[test]
fn services_of_older_servers_get_their_ip_addresses() {
    let etcd = etcd();
    let put = |name: &str, ip: &str| {
        let service = json!({"kind": "Service", "apiVersion": "v1", "metadata": {"name": name, "namespace": "default",
            "uid": "08675309-9376-9376-9376-086753099999", "creationTimestamp": "2025-01-01T00:00:00Z"},
            "spec": {"ports": [{"name": "test-port", "protocol": "TCP", "port": 81, "targetPort": 81}], "clusterIP": ip,
            "type": "ClusterIP", "sessionAffinity": "None"}, "status": {"loadBalancer": {}}});
        let key = format!("/registry/services/specs/default/{name}");
        etcd.put(&key, service.to_string().as_bytes()).unwrap();
        service
    };
    // Before there is a ServiceCIDR, and while the server runs.
    put("old", "10.0.0.11");
    let server = server(&etcd, &[]);
    put("new", "10.0.0.12");
    let mut updated = put("updated", "10.0.0.13");
    updated["spec"] = json!({"ports": [{"name": "test-port", "port": 81}], "clusterIP": "10.0.0.13"});
    let path = format!("{SERVICES}/updated");
    let mut answer = (0, Value::Null);
    eventually("the service is there to be updated", || {
        answer = server.call("PUT", &path, &updated).unwrap();
        answer.0 == 200
    });
    for ip in ["10.0.0.11", "10.0.0.12", "10.0.0.13"] {
        let path = format!("/apis/networking.k8s.io/v1/ipaddresses/{ip}");
        testkit::eventually(ip, Duration::from_secs(8), || {
            server.call("GET", &path, &Value::Null).unwrap().0 == 200
        });
    }
}

/// Conditions are written after the answer, and to a slow etcd that takes a while: a definition that changes
/// meanwhile is not in conflict with itself, and its end does not pass over objects that were made meanwhile.
#[test]
fn definitions_that_are_deleted_at_once_end_with_their_objects() {
    const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let etcd = etcd();
    let proxy = Proxy::start(etcd.endpoints()[0].trim_start_matches("http://")).unwrap();
    let server = Server::start(&binary(), &[&format!("--etcd-servers=http://{}", proxy.address())]).unwrap();
    proxy.set(ProxyMode::Delay(Duration::from_millis(40)));
    let names = ["as", "bs", "cs", "ds", "es", "fs"];
    for (number, name) in names.into_iter().enumerate() {
        let definition = json!({"metadata": {"name": format!("{name}.example.com"), "finalizers": ["example.com/mine"]},
            "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": name, "kind": format!("K{name}")},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}]}});
        create(&server, DEFINITIONS, &definition);
        if number % 2 == 1 {
            let object = json!({"apiVersion": "example.com/v1", "kind": format!("K{name}"), "metadata": {"name": "a"}});
            create(&server, &format!("/apis/example.com/v1/namespaces/default/{name}"), &object);
        }
        let one = format!("{DEFINITIONS}/{name}.example.com");
        assert_eq!(server.call("DELETE", &one, &Value::Null).unwrap().0, 200);
    }
    proxy.set(ProxyMode::Pass);
    for name in names {
        let one = format!("{DEFINITIONS}/{name}.example.com");
        eventually("the server has done its part of the end", || {
            get(&server, &one)["metadata"]["finalizers"] == json!(["example.com/mine"])
        });
        let ended = get(&server, &one);
        let conditions = ended["status"]["conditions"].as_array().unwrap();
        let reason =
            |kind: &str| &conditions.iter().find(|condition| condition["type"] == kind).unwrap()["reason"];
        assert_eq!(reason("NamesAccepted"), "NoConflicts", "{ended}");
        assert_eq!(reason("Established"), "InitialNamesAccepted", "{ended}");
        assert_eq!(reason("Terminating"), "InstanceDeletionCompleted", "{ended}");
        assert!(etcd.value(&format!("/registry/example.com/{name}/default/a")).unwrap().is_none());
    }
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

    // Servers behind them get to know the authorities of both.
    let info = get(&one, "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication");
    let authorities = info["data"]["client-ca-file"].as_str().unwrap();
    for server in [&one, &other] {
        assert!(authorities.contains(std::fs::read_to_string(server.ca()).unwrap().trim()), "{info}");
    }

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

    // A server that stops takes its address away itself, also the last one.
    other.terminate().unwrap();
    let endpoints = etcd.value("/registry/services/endpoints/default/kubernetes").unwrap().unwrap();
    assert!(!endpoints.windows(6).any(|part| part == b"10.1.0"), "{}", String::from_utf8_lossy(&endpoints));
    assert!(etcd.value("/registry/masterleases/10.1.0.2").unwrap().is_none());
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

/// A watch that stays open, on a connection of its own: what it has told until it ended, its last line
/// included.
fn watch_until_its_end(server: &Server, path: &str) -> std::thread::JoinHandle<Vec<Value>> {
    let target = server.target().unwrap();
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\n\r\n",
        target.authority(),
        server.token()
    );
    let mut connection = target.connect(PATIENCE).unwrap();
    connection.send(request.as_bytes()).unwrap();
    let mut head = connection.head("GET").unwrap();
    assert_eq!(head.status, 200);
    std::thread::spawn(move || {
        let (mut told, mut rest) = (Vec::new(), Vec::new());
        while let Some(line) = connection.line(&mut head, &mut rest).unwrap() {
            told.push(serde_json::from_slice(&line).unwrap());
        }
        told
    })
}

#[test]
fn an_etcd_that_is_put_back_to_an_older_state_is_followed() {
    let mut etcd = etcd();
    let server = server(&etcd, &[]);
    let ready = |server: &Server| server.text("GET", "/readyz", "").unwrap().0 == 200;
    create(&server, CONFIG_MAPS, &config_map("old"));
    let published = format!("{CONFIG_MAPS}/kube-root-ca.crt");
    eventually("the authority is published", || server.text("GET", &published, "").unwrap().0 == 200);
    etcd.save(0).unwrap();
    etcd.launch(0).unwrap();
    etcd.wait_until_ready().unwrap();
    eventually("the server is ready after the copy", || ready(&server));
    let list = get(&server, CONFIG_MAPS);
    let since = list["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    let open = watch_until_its_end(&server, &format!("{CONFIG_MAPS}?watch=true&resourceVersion={since}"));
    let mut lost = Value::Null;
    for round in 0..200 {
        lost = create(&server, CONFIG_MAPS, &config_map(&format!("lost-{round}")));
    }
    let newest = lost["metadata"]["resourceVersion"].as_str().unwrap();

    etcd.restore(0).unwrap();
    etcd.launch(0).unwrap();
    etcd.wait_until_ready().unwrap();
    eventually("the server is ready after the restore", || ready(&server));
    let names = |list: &Value| {
        let items = list["items"].as_array().cloned().unwrap_or_default();
        items.iter().map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names(&get(&server, CONFIG_MAPS)), ["kube-root-ca.crt", "old"]);
    assert_eq!(
        names(&get(&server, &format!("{CONFIG_MAPS}?resourceVersion=0"))),
        ["kube-root-ca.crt", "old"]
    );
    let told = open.join().unwrap();
    let last = told.last().unwrap();
    assert_eq!(
        (last["type"].as_str(), last["object"]["code"].as_u64()),
        (Some("ERROR"), Some(410)),
        "{last}"
    );
    let again = watch_until_its_end(
        &server,
        &format!("{CONFIG_MAPS}?watch=true&resourceVersion={newest}&timeoutSeconds=20"),
    );
    let told = again.join().unwrap();
    assert_eq!((told.len(), told[0]["object"]["code"].as_u64()), (1, Some(410)), "{told:?}");

    // Writes work, revisions that are given again have other contents, and watches see them.
    let list = get(&server, CONFIG_MAPS);
    let since = list["metadata"]["resourceVersion"].as_str().unwrap();
    let mut written = Vec::new();
    for round in 0..20 {
        let body = json!({"metadata": {"name": format!("lost-{round}")}, "data": {"k": "again"}});
        written.push(create(&server, CONFIG_MAPS, &body));
        assert_eq!(written.last(), Some(&get(&server, &format!("{CONFIG_MAPS}/lost-{round}"))));
    }
    let path = format!("{CONFIG_MAPS}?watch=true&resourceVersion={since}&timeoutSeconds=2");
    let told = watch_until_its_end(&server, &path).join().unwrap();
    let told: Vec<_> = told.into_iter().map(|event| event["object"]["data"].clone()).collect();
    assert_eq!(told, written.iter().map(|written| written["data"].clone()).collect::<Vec<_>>());
    server.terminate().unwrap();
}

#[test]
fn a_server_without_its_etcd_says_so() {
    let folder = testkit::Folder::new().unwrap();
    let flags = ["--etcd-servers=http://127.0.0.1:1"];
    let refused =
        testkit::Process::start(&binary(), &folder.path().join("data"), &flags).unwrap_err().to_string();
    assert!(refused.contains("http://127.0.0.1:1 cannot be used as the store"), "{refused}");
}

#[test]
fn node_ports_are_on_the_record_that_all_servers_share() {
    let etcd = etcd();
    let one = server(&etcd, &["--service-node-port-range=30000-30039"]);
    let other = server(&etcd, &["--service-node-port-range=30000-30039"]);
    let made: Vec<i64> = std::thread::scope(|scope| {
        let threads = [(&one, "one"), (&other, "other")].map(|(server, who)| {
            scope.spawn(move || {
                let service = |n| {
                    json!({"metadata": {"name": format!("{who}-{n}")}, "spec": {"type": "NodePort", "ports": [{"port": 80}]}})
                };
                let made = (0..20).map(|n| create(server, SERVICES, &service(n)));
                made.map(|made| made["spec"]["ports"][0]["nodePort"].as_i64().unwrap()).collect::<Vec<_>>()
            })
        });
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(made.into_iter().collect::<BTreeSet<_>>().len(), 40);
    let record = || etcd.value("/registry/ranges/servicenodeports").unwrap().unwrap();
    let is_full =
        |record: &[u8]| record.ends_with(b"\x12\x0b30000-30039\x1a\x05\xff\xff\xff\xff\xff\x1a\0\"\0");
    assert!(is_full(&record()), "{:?}", record());
    let full = json!({"metadata": {"name": "a"}, "spec": {"type": "NodePort", "ports": [{"port": 80}]}});
    assert_eq!(one.call("POST", SERVICES, &full).unwrap().0, 500);
    let last = get(&one, &format!("{SERVICES}/one-0"))["spec"]["ports"][0]["nodePort"].clone();
    assert_eq!(one.call("DELETE", &format!("{SERVICES}/one-0"), &Value::Null).unwrap().0, 200);
    assert!(!is_full(&record()), "{:?}", record());
    assert_eq!(create(&other, SERVICES, &full)["spec"]["ports"][0]["nodePort"], last);

    // An address that another server may be about to use is not taken away by one that starts. This one
    // is of the part of the range that is given last, so that no service above has it.
    let address = json!({"metadata": {"name": "10.0.0.9", "labels": {"ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io"}},
        "spec": {"parentRef": {"resource": "services", "namespace": "default", "name": "coming"}}});
    create(&one, "/apis/networking.k8s.io/v1/ipaddresses", &address);
    let third = server(&etcd, &[]);
    sleep(Duration::from_secs(1));
    get(&third, "/apis/networking.k8s.io/v1/ipaddresses/10.0.0.9");
}
