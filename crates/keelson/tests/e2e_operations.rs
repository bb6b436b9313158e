//! The commands on what servers have stored: backup, restore and migrate, with real servers and a real etcd.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use store::embedded::{self, Embedded, Filling};
use store::{Change, Entry, Head, Key, Revision, Store as _};
use testkit::{Etcd, Folder, Server, files_with};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PATIENCE: Duration = Duration::from_secs(300);
/// What is looked for on the disk; in secrets it is base64.
const TEXT: &str = "a text that nobody else may read";

fn binary() -> PathBuf {
    testkit::server_binary(env!("CARGO_BIN_EXE_keelson"))
}

/// What a command said.
struct Said {
    is_success: bool,
    out: String,
    err: String,
}

fn keelson(arguments: &[&str]) -> Said {
    let output = Command::new(binary()).args(arguments).stdin(Stdio::null()).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Said { is_success: output.status.success(), out: text(output.stdout), err: text(output.stderr) }
}

/// Runs a command that has to succeed, and gives what it wrote to standard output.
fn succeed(arguments: &[&str]) -> String {
    let said = keelson(arguments);
    assert!(said.is_success, "{arguments:?}\n{}{}", said.out, said.err);
    said.out
}

/// Runs a command that has to fail, and gives what it wrote to standard error.
fn fail(arguments: &[&str]) -> String {
    let said = keelson(arguments);
    assert!(!said.is_success, "{arguments:?}\n{}", said.out);
    said.err
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn etcd() -> (Etcd, String) {
    let etcd = Etcd::start("etcd", 1, &["--unsafe-no-fsync"]).unwrap();
    let servers = format!("--etcd-servers={}", etcd.endpoints().join(","));
    (etcd, servers)
}

/// How many keys are under the prefix.
fn keys(etcd: &Etcd) -> usize {
    let question = format!(
        r#"{{"key":"{}","range_end":"{}","count_only":true}}"#,
        STANDARD.encode("/registry/"),
        STANDARD.encode("/registry0")
    );
    let answer: Value =
        serde_json::from_str(&etcd.ask(0, "POST", "/v3/kv/range", &question).unwrap()).unwrap();
    answer["count"].as_str().unwrap_or("0").parse().unwrap()
}

fn create(server: &Server, path: &str, body: &Value) -> Value {
    let (status, answer) = server.call("POST", path, body).unwrap();
    assert_eq!(status, 201, "{path} {answer}");
    answer
}

fn get(server: &Server, path: &str) -> Value {
    let (status, answer) = server.call("GET", path, &Value::Null).unwrap();
    assert_eq!(status, 200, "{path} {answer}");
    answer
}

fn revision(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

fn config_map(name: &str) -> Value {
    json!({"metadata": {"name": name}, "data": {"k": "v"}})
}

/// The objects of these types that tests have made, by path and name.
fn objects(server: &Server, paths: &[String]) -> BTreeMap<String, Value> {
    let mut objects = BTreeMap::new();
    for path in paths {
        for item in get(server, path)["items"].as_array().unwrap() {
            let name = item["metadata"]["name"].as_str().unwrap();
            if name.starts_with("t-") {
                objects.insert(format!("{path}/{name}"), item.clone());
            }
        }
    }
    objects
}

/// The same without their revisions.
fn without_revisions(mut objects: BTreeMap<String, Value>) -> BTreeMap<String, Value> {
    for object in objects.values_mut() {
        object["metadata"]["resourceVersion"].take();
    }
    objects
}

/// A client that has seen a revision of another history is told to start over.
fn assert_gone(server: &Server, seen: u64) {
    let (status, answer) = server
        .text("GET", &format!("{CONFIG_MAPS}?watch=true&timeoutSeconds=1&resourceVersion={seen}"), "")
        .unwrap();
    assert!(status == 410 || answer.contains("\"code\":410"), "{status} {answer}");
    let exact = format!("{CONFIG_MAPS}?resourceVersion={seen}&resourceVersionMatch=Exact");
    assert_eq!(server.text("GET", &exact, "").unwrap().0, 410);
}

fn copy_folder(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
    }
}

#[test]
fn a_backup_of_a_working_server_is_one_state_of_it() {
    let server = Server::start(&binary(), &[]).unwrap();
    let data = server.folder().join("data");
    let files = Folder::new().unwrap();
    let backup = files.path().join("backup");
    let (stop, acknowledged) = (AtomicBool::new(false), AtomicUsize::new(0));
    let before = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let number = acknowledged.load(Ordering::Relaxed);
                create(&server, CONFIG_MAPS, &config_map(&format!("t-{number:06}")));
                acknowledged.store(number + 1, Ordering::Relaxed);
            }
        });
        while acknowledged.load(Ordering::Relaxed) < 50 && !writer.is_finished() {
            sleep(Duration::from_millis(1));
        }
        let before = acknowledged.load(Ordering::Relaxed);
        let out = succeed(&["backup", text(&backup), "--data-dir", text(&data)]);
        assert!(out.contains(" objects, ") && out.contains("; revision "), "{out}");
        stop.store(true, Ordering::Relaxed);
        writer.join().unwrap();
        before
    });
    let last = create(&server, CONFIG_MAPS, &config_map("t-after"));
    let paths = [CONFIG_MAPS.to_owned()];
    let was = objects(&server, &paths);
    assert_eq!(std::fs::metadata(&backup).unwrap().mode() & 0o777, 0o600);
    assert!(fail(&["backup", text(&backup), "--data-dir", text(&data)]).contains("it exists already"));

    let folder = Folder::new().unwrap();
    let restored = folder.path().join("data");
    let out = succeed(&["restore", text(&backup), "--data-dir", text(&restored)]);
    assert!(out.contains("keelson renew-authority --new-key"), "{out}");
    assert!(out.contains("; revision 1000000"), "{out}");
    copy_folder(&data.join("pki"), &restored.join("pki"));
    let server = Server::at(folder, &binary(), &[]).unwrap();
    let found = objects(&server, &paths);
    assert!(found.len() >= before, "{} of {before}", found.len());
    for number in 0..found.len() {
        let name = format!("{CONFIG_MAPS}/t-{number:06}");
        assert_eq!(found.get(&name), was.get(&name), "{name}");
    }
    assert_gone(&server, revision(&last));
    assert_gone(&server, revision(found.values().next().unwrap()));
    assert!(revision(&create(&server, CONFIG_MAPS, &config_map("t-new"))) > 1_000_000_000);
}

#[test]
fn a_backup_of_a_stopped_server_is_restored_to_either_store() {
    let server = Server::start(&binary(), &[]).unwrap();
    for number in 0..20 {
        create(&server, CONFIG_MAPS, &config_map(&format!("t-{number}")));
    }
    let paths = [CONFIG_MAPS.to_owned()];
    let was = objects(&server, &paths);
    let newest = was.values().map(revision).max().unwrap();
    let folder = server.stop().unwrap();
    let data = folder.path().join("data");
    let backup = folder.path().join("backup");
    succeed(&["backup", text(&backup), "--data-dir", text(&data)]);

    // A damaged file is refused before anything is made of it.
    let damaged = folder.path().join("damaged");
    let mut bytes = std::fs::read(&backup).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&damaged, &bytes).unwrap();
    let absent = folder.path().join("absent");
    let (etcd, servers) = etcd();
    for target in [["--data-dir", text(&absent)], [servers.as_str(), "-v=0"]] {
        let refused = fail(&[&["restore", text(&damaged)][..], &target].concat());
        assert!(refused.contains("the backup is damaged"), "{refused}");
    }
    assert!(!absent.exists());
    assert_eq!(keys(&etcd), 0);
    let missing = folder.path().join("missing");
    assert!(fail(&["restore", text(&missing), "--data-dir", text(&absent)]).contains("No such file"));
    assert!(fail(&["restore", text(&backup), "--data-dir", text(&data)]).contains("it exists already"));
    let nothing = fail(&["backup", text(&missing), "--data-dir", text(&absent)]);
    assert!(nothing.contains("it holds no store") && !missing.exists(), "{nothing}");

    succeed(&["restore", text(&backup), "--data-dir", text(&absent), "--revision-gap", "100"]);
    let again = fail(&["restore", text(&backup), "--data-dir", text(&absent)]);
    assert!(again.contains("it exists already"), "{again}");
    // Its keys are missing: no server makes others by itself.
    let refused = testkit::Process::start(&binary(), &absent, &[]).unwrap_err().to_string();
    assert!(refused.contains("sa.key is missing or empty: put it back"), "{refused}");
    succeed(&["renew-service-account-key", "--data-dir", text(&absent)]);
    let refused = testkit::Process::start(&binary(), &absent, &[]).unwrap_err().to_string();
    assert!(refused.contains("ca.crt and its key are missing or empty: put both back"), "{refused}");
    let refused = fail(&["renew-authority", "--data-dir", text(&absent)]);
    assert!(refused.contains("it is not there"), "{refused}");
    succeed(&["renew-authority", "--new-key", "--data-dir", text(&absent)]);
    let restored = Folder::new().unwrap();
    std::fs::rename(&absent, restored.path().join("data")).unwrap();
    let server = Server::at(restored, &binary(), &[]).unwrap();
    assert_eq!(objects(&server, &paths), was);
    let in_use = server.folder().join("data");
    let refused = fail(&["restore", text(&backup), "--data-dir", text(&in_use)]);
    assert!(refused.contains("in use by another process"), "{refused}");

    let out = succeed(&["restore", text(&backup), &servers, "--revision-gap=1000"]);
    assert!(out.contains(" objects, ") && out.contains("; revision "), "{out}");
    assert!(fail(&["restore", text(&backup), &servers]).contains("is not empty"));
    let server = Server::start(&binary(), &[&servers]).unwrap();
    let found = objects(&server, &paths);
    assert!(found.values().map(revision).min().unwrap() > newest + 1000);
    assert_eq!(without_revisions(found), without_revisions(was));
    assert_gone(&server, newest);
}

/// Types, with the paths and the contents of their objects.
fn kinds() -> Vec<(&'static str, Value)> {
    let ports = json!([{"name": "http", "port": 80, "targetPort": "web"}]);
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i",
        "resources": {"limits": {"cpu": "1500m", "memory": "1Gi"}}, "env": [{"name": "E", "value": ""}]}],
        "volumes": [{"name": "v", "emptyDir": {}}]}});
    let rules = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]);
    vec![
        (CONFIG_MAPS, json!({"data": {"z": "1", "a": "2"}, "binaryData": {"b": "AAEC"}})),
        ("/api/v1/namespaces/default/secrets", json!({"data": {"k": STANDARD.encode(TEXT)}})),
        ("/api/v1/namespaces/default/serviceaccounts", json!({"secrets": [{"name": "t-0"}]})),
        ("/api/v1/namespaces/default/services", json!({"spec": {"ports": ports, "selector": {"a": "b"}}})),
        (
            "/api/v1/namespaces/default/limitranges",
            json!({"spec": {"limits": [{"type": "Container", "default": {"cpu": "100m"}}]}}),
        ),
        (
            "/api/v1/namespaces/default/events",
            json!({"involvedObject": {"namespace": "default"}, "reason": "r"}),
        ),
        (
            "/api/v1/namespaces/default/persistentvolumeclaims",
            json!({"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}),
        ),
        (
            "/apis/apps/v1/namespaces/default/deployments",
            json!({"spec": {"replicas": 0, "selector": {"matchLabels": {"a": "b"}}, "template": template}}),
        ),
        ("/api/v1/namespaces/default/podtemplates", json!({"template": template})),
        ("/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles", json!({"rules": rules})),
        ("/apis/rbac.authorization.k8s.io/v1/clusterroles", json!({"rules": rules})),
        (
            "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies",
            json!({"spec": {"podSelector": {}, "ingress": [{}]}}),
        ),
        (
            "/apis/networking.k8s.io/v1/namespaces/default/ingresses",
            json!({"spec": {"defaultBackend": {"service": {"name": "s", "port": {"number": 80}}}}}),
        ),
        ("/apis/scheduling.k8s.io/v1/priorityclasses", json!({"value": 7})),
        ("/apis/storage.k8s.io/v1/storageclasses", json!({"provisioner": "example.com/p"})),
        (
            "/apis/coordination.k8s.io/v1/namespaces/default/leases",
            json!({"spec": {"holderIdentity": "h", "renewTime": "2026-01-01T00:00:00.000000Z"}}),
        ),
        (
            "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices",
            json!({"addressType": "IPv4", "endpoints": []}),
        ),
        (
            "/apis/example.com/v1/namespaces/default/widgets",
            json!({"z": 1, "b": [1.5, {"y": null, "x": "t"}], "spec": {}}),
        ),
    ]
}

/// With it, no controller makes objects for those of a test, or changes them.
const STILL: &str = "--controllers=serviceaccount-controller";

/// Makes objects of many types, and gives their paths.
fn populate(server: &Server, each: usize) -> Vec<String> {
    let definition = json!({"metadata": {"name": "widgets.example.com"}, "spec": {"group": "example.com", "scope": "Namespaced",
        "names": {"plural": "widgets", "kind": "Widget"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema":
            {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}});
    create(server, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition);
    let widgets = "/apis/example.com/v1/namespaces/default/widgets";
    eventually("the custom type is served", || server.text("GET", widgets, "").unwrap().0 == 200);
    for (path, contents) in kinds() {
        for number in 0..each {
            let mut object = contents.clone();
            object["metadata"] =
                json!({"name": format!("t-{number}"), "labels": {"n": number.to_string(), "a": ""}});
            if path == widgets {
                object["apiVersion"] = "example.com/v1".into();
                object["kind"] = "Widget".into();
            }
            create(server, path, &object);
        }
    }
    kinds().into_iter().map(|(path, _)| path.to_owned()).collect()
}

/// Waits until something holds.
fn eventually(what: &str, holds: impl FnMut() -> bool) {
    testkit::eventually(what, PATIENCE, holds);
}

/// A configuration that encrypts secrets.
fn encryption(folder: &Folder) -> String {
    let key = json!({"name": "one", "secret": STANDARD.encode("0".repeat(32))});
    let config = json!({"kind": "EncryptionConfiguration", "apiVersion": "apiserver.config.k8s.io/v1",
        "resources": [{"resources": ["secrets"], "providers": [{"secretbox": {"keys": [key]}}, {"identity": {}}]}]});
    let path = folder.path().join("encryption.yaml");
    std::fs::write(&path, config.to_string()).unwrap();
    format!("--encryption-provider-config={}", path.display())
}

#[test]
fn objects_of_many_types_go_to_etcd_and_back() {
    let files = Folder::new().unwrap();
    let encryption = encryption(&files);
    let (etcd, servers) = etcd();
    let server = Server::start(&binary(), &[STILL, &encryption]).unwrap();
    let paths = populate(&server, 20);
    let was = objects(&server, &paths);
    assert_eq!(was.len(), 20 * paths.len());
    let newest = was.values().map(revision).max().unwrap();
    let data = server.folder().join("data");
    let to_etcd =
        ["migrate", "--from", "embedded", "--to=etcd", "--data-dir", text(&data), &servers, &encryption];
    let refused = fail(&to_etcd);
    assert!(refused.contains("stop it first"), "{refused}");
    let folder = server.stop().unwrap();

    // Without the keys nothing is written.
    let without = fail(&to_etcd[..7]);
    assert!(without.contains("secrets/default/t-0") && without.contains("nothing was written"), "{without}");
    assert_eq!(keys(&etcd), 0);
    let out = succeed(&to_etcd);
    assert!(out.contains(" objects, ") && out.contains("; revision "), "{out}");
    let secret = etcd.value("/registry/secrets/default/t-0").unwrap().unwrap();
    assert!(secret.starts_with(b"k8s:enc:secretbox:v1:one:"), "{secret:?}");
    assert!(etcd.value("/registry/keelson.dev/migration").unwrap().is_none());
    let lease = etcd.ask(0, "POST", "/v3/lease/leases", "{}").unwrap();
    assert!(lease.contains("\"ID\""), "events have a lifetime: {lease}");
    assert!(fail(&to_etcd).contains("is not empty"));

    let server = Server::at(folder, &binary(), &[STILL, &servers, &encryption]).unwrap();
    let in_etcd = objects(&server, &paths);
    assert!(in_etcd.values().map(revision).min().unwrap() > newest);
    assert_eq!(without_revisions(in_etcd.clone()), without_revisions(was));
    assert_gone(&server, newest);
    let folder = server.stop().unwrap();

    let back = ["migrate", "--from=etcd", "--to=embedded", "--data-dir", text(&data), &servers, &encryption];
    let refused = fail(&back);
    assert!(refused.contains("it exists already"), "{refused}");
    std::fs::rename(data.join("store"), folder.path().join("old-store")).unwrap();
    let out = succeed(&back);
    assert!(out.contains(" objects, ") && out.contains("; revision "), "{out}");
    assert!(!files_with(&data, "k8s:enc:secretbox:v1:one:").unwrap().is_empty());
    assert!(files_with(&data, &STANDARD.encode(TEXT)).unwrap().is_empty());
    let server = Server::at(folder, &binary(), &[STILL, &encryption]).unwrap();
    assert_eq!(objects(&server, &paths), in_etcd);
    assert_gone(&server, newest);
    let made = create(&server, CONFIG_MAPS, &config_map("t-new"));
    assert!(revision(&made) > in_etcd.values().map(revision).max().unwrap());
}

#[test]
fn types_in_an_etcd_of_their_own_are_part_of_a_migration() {
    let ((etcd, servers), (other, _)) = (etcd(), etcd());
    let overrides = format!("--etcd-servers-overrides=/events#{}", other.endpoints().join(";"));
    let server = Server::start(&binary(), &[STILL]).unwrap();
    let paths = populate(&server, 2);
    let was = objects(&server, &paths);
    let folder = server.stop().unwrap();
    let data = folder.path().join("data");
    succeed(&["migrate", "--from=embedded", "--to=etcd", "--data-dir", text(&data), &servers, &overrides]);
    assert!(other.value("/registry/events/default/t-0").unwrap().is_some());
    assert!(etcd.value("/registry/events/default/t-0").unwrap().is_none());
    assert!(other.value("/registry/configmaps/default/t-0").unwrap().is_none());
    assert!(other.value("/registry/keelson.dev/migration").unwrap().is_none());
    std::fs::remove_dir_all(data.join("store")).unwrap();
    succeed(&["migrate", "--from=etcd", "--to=embedded", "--data-dir", text(&data), &servers, &overrides]);
    let server = Server::at(folder, &binary(), &[STILL]).unwrap();
    assert_eq!(without_revisions(objects(&server, &paths)), without_revisions(was));
}

#[test]
fn an_etcd_with_an_unfinished_migration_is_refused() {
    let (etcd, servers) = etcd();
    let mark = "an unfinished migration to this etcd\nfrom: the data directory /other\nrevision: 7\n";
    put(&etcd, "/registry/keelson.dev/migration", mark);
    let folder = Folder::new().unwrap();
    let data = folder.path().join("data");
    let interrupted = "from the data directory /other was interrupted: run that";
    let refused = testkit::Process::start(&binary(), &data, &[&servers]).unwrap_err().to_string();
    assert!(refused.contains(interrupted), "{refused}");
    let backup = folder.path().join("backup");
    assert!(fail(&["backup", text(&backup), &servers]).contains(interrupted));
    fill(&data.join("store"), 3, 3);
    let other = fail(&["migrate", "--from=embedded", "--to=etcd", "--data-dir", text(&data), &servers]);
    assert!(other.contains(interrupted), "{other}");
}

#[test]
fn a_migration_makes_up_for_whatever_an_interrupted_one_has_left() {
    let (etcd, servers) = etcd();
    let folder = Folder::new().unwrap();
    let data = folder.path().join("data");
    fill(&data.join("store"), 3, 3);
    // The type of a secret is a default, which only servers of before can have left out.
    let secret = r#"{"kind":"Secret","apiVersion":"v1","metadata":{"name":"a","namespace":"default","creationTimestamp":"2026-01-01T00:00:00Z"},"data":{"k":"YQ=="}}"#;
    commit(&data.join("store"), "secrets/default/a", cache::frame::of(secret.as_bytes()).unwrap());
    let mark = format!("from: the data directory {}\nrevision: 1\n", data.join("store").display());
    put(&etcd, "/registry/keelson.dev/migration", &mark);
    let other =
        r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"cm-000001","namespace":"default"}}"#;
    for name in ["cm-000001", "unknown"] {
        put(&etcd, &format!("/registry/configmaps/default/{name}"), other);
    }
    put(&etcd, "/registry/configmaps/default/cm-000002", "no object");
    succeed(&["migrate", "--from=embedded", "--to=etcd", "--data-dir", text(&data), &servers]);
    assert_eq!(keys(&etcd), 4);
    let back = folder.path().join("back");
    succeed(&["migrate", "--from=etcd", "--to=embedded", "--data-dir", text(&back), &servers]);
    let objects = |path: &Path| entries(path).into_iter().map(|(key, (_, object))| (key, object));
    let (mut was, found): (BTreeMap<_, _>, BTreeMap<_, _>) =
        (objects(&data.join("store")).collect(), objects(&back.join("store")).collect());
    was.get_mut("secrets/default/a").unwrap()["type"] = "Opaque".into();
    assert_eq!(found, was);
}

#[test]
fn damaged_objects_are_named_and_left_out_only_on_demand() {
    let (etcd, servers) = etcd();
    let folder = Folder::new().unwrap();
    let data = folder.path().join("data");
    fill(&data.join("store"), 3, 3);
    commit(&data.join("store"), "configmaps/default/bad", "no object".into());
    let migrate = ["migrate", "--from=embedded", "--to=etcd", "--data-dir", text(&data), &servers];
    let refused = fail(&migrate);
    assert!(refused.contains("configmaps/default/bad") && !refused.contains("cm-"), "{refused}");
    assert_eq!(keys(&etcd), 0);
    let out = succeed(&[&migrate[..], &["--skip-damaged"]].concat());
    assert!(out.contains("left out") && out.contains("configmaps/default/bad"), "{out}");
    assert_eq!(keys(&etcd), 3);

    // The same on the way back.
    put(&etcd, "/registry/configmaps/default/worse", "no object");
    let other = folder.path().join("other");
    let back = ["migrate", "--from=etcd", "--to=embedded", "--data-dir", text(&other), &servers];
    let refused = fail(&back);
    assert!(refused.contains("configmaps/default/worse"), "{refused}");
    assert!(!other.exists());
    let out = succeed(&[&back[..], &["--skip-damaged"]].concat());
    assert!(out.contains("configmaps/default/worse"), "{out}");
    assert_eq!(entries(&other.join("store")).len(), 3);
}

/// Puts a value into etcd.
fn put(etcd: &Etcd, key: &str, value: &str) {
    let put = format!(r#"{{"key":"{}","value":"{}"}}"#, STANDARD.encode(key), STANDARD.encode(value));
    etcd.ask(0, "POST", "/v3/kv/put", &put).unwrap();
}

/// Puts a value into the store of a data directory.
fn commit(path: &Path, key: &str, value: bytes::Bytes) {
    let store = Embedded::open(path, embedded::EmbeddedOptions::default()).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(store.commit(Change::put(Key::try_from(key).unwrap(), value))).unwrap();
}

/// Makes a store with config maps; its newest revision is some steps after the last of them.
fn fill(path: &Path, count: u64, revision: u64) {
    let mut filling = Filling::begin(path, "a test").unwrap();
    for number in 1..=count {
        let object = json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {
            "name": format!("cm-{number:06}"), "namespace": "default", "uid": format!("00000000-0000-4000-8000-{number:012}"),
            "creationTimestamp": "2026-01-01T00:00:00Z", "labels": {"number": number.to_string()}},
            "data": {"text": "x".repeat(200), "number": number.to_string()}});
        let head = Head { create_revision: Revision(number), mod_revision: Revision(number) };
        let value = cache::frame::of(object.to_string().as_bytes()).unwrap();
        let key = Key::try_from(format!("configmaps/default/cm-{number:06}")).unwrap();
        filling.add(Entry { key, head, value }).unwrap();
    }
    filling.finish(Revision(revision)).unwrap();
}

/// The objects of a store, by key.
fn entries(path: &Path) -> BTreeMap<String, (u64, Value)> {
    let store = Embedded::open_existing(path, embedded::EmbeddedOptions::default()).unwrap();
    let mut entries = BTreeMap::new();
    let visited = store.load(b"", None, &mut |entry| {
        let Entry { key, head, value } = entry.unwrap();
        let object = serde_json::from_slice(cache::frame::json(&value).unwrap()).unwrap();
        entries.insert(key.to_string(), (head.mod_revision.0, object));
        ControlFlow::Continue(())
    });
    visited.unwrap();
    entries
}

/// Starts a command, and kills it once something holds.
fn kill_when(arguments: &[&str], mut holds: impl FnMut() -> bool) {
    let mut child: Child =
        Command::new(binary()).args(arguments).stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let begin = Instant::now();
    while !holds() {
        let ended = child.try_wait().unwrap();
        assert!(ended.is_none(), "it ended before it could be killed: {ended:?}");
        assert!(begin.elapsed() < PATIENCE, "the moment to kill it did not come");
        sleep(Duration::from_millis(5));
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

/// The bytes that the files below a folder have.
fn bytes_below(folder: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    let size = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => bytes_below(&entry.path()),
        Ok(metadata) => metadata.blocks() * 512,
        Err(_) => 0,
    };
    entries.flatten().map(size).sum()
}

#[test]
fn slow_50_000_objects_go_to_etcd_and_back_through_kills() {
    const OBJECTS: u64 = 50_000;
    const NEWEST: u64 = 60_000;
    let (etcd, servers) = etcd();
    let folder = Folder::new().unwrap();
    let (data, back) = (folder.path().join("data"), folder.path().join("back"));
    fill(&data.join("store"), OBJECTS, NEWEST);
    let was = entries(&data.join("store"));
    assert_eq!(was.len() as u64, OBJECTS);

    let migrate = ["migrate", "--from=embedded", "--to=etcd", "--data-dir", text(&data), &servers];
    for reached in [5_000, 30_000] {
        kill_when(&migrate, || keys(&etcd) >= reached);
        let refused =
            testkit::Process::start(&binary(), &folder.path().join("server"), &[&servers]).unwrap_err();
        assert!(refused.to_string().contains("was interrupted: run that command again"), "{refused}");
    }
    let out = succeed(&migrate);
    assert!(out.contains(" objects were there"), "{out}");
    assert_eq!(keys(&etcd) as u64, OBJECTS);

    let migrate = ["migrate", "--from=etcd", "--to=embedded", "--data-dir", text(&back), &servers];
    kill_when(&migrate, || bytes_below(&back.join("store/db")) >= 8 << 20);
    let refused = testkit::Process::start(&binary(), &back, &[]).unwrap_err();
    assert!(refused.to_string().contains("was interrupted: run that command again"), "{refused}");
    let out = succeed(&migrate);
    assert!(out.contains(" objects were there"), "{out}");

    let found = entries(&back.join("store"));
    assert_eq!(found.len(), was.len());
    for ((key, (_, object)), (found_key, (found_at, found_object))) in was.iter().zip(&found) {
        assert_eq!((key, object), (found_key, found_object));
        assert!(*found_at > NEWEST, "{key} at {found_at}");
    }
}

/// A client with a certificate of its own, and the authority that it got with it.
struct Person {
    authority: PathBuf,
    certificate: String,
    key: String,
}

impl Person {
    fn of(data: &Path, folder: &Path, name: &str) -> Self {
        let kubeconfig =
            succeed(&["kubeconfig", "--user", name, "--group=system:masters", "--data-dir", text(data)]);
        let value = |field: &str| {
            let data = kubeconfig.lines().find_map(|line| line.trim().strip_prefix(field)).unwrap();
            String::from_utf8(STANDARD.decode(data.trim()).unwrap()).unwrap()
        };
        let authority = folder.join(format!("{name}.crt"));
        std::fs::write(&authority, value("certificate-authority-data:")).unwrap();
        Self { authority, certificate: value("client-certificate-data:"), key: value("client-key-data:") }
    }

    /// The status of a request; `None` if the server is not the one that was trusted.
    fn ask(&self, server: &Server) -> Option<u16> {
        let target = testkit::http::Target::new(server.url(), &self.authority).unwrap();
        let mut connection =
            target.identified(&self.certificate, &self.key).unwrap().connect(Duration::from_secs(30)).ok()?;
        let request = format!("GET {CONFIG_MAPS} HTTP/1.1\r\nHost: {}\r\n\r\n", target.authority());
        connection.send(request.as_bytes()).ok()?;
        Some(connection.head("GET").ok()?.status)
    }
}

#[test]
fn authority_is_renewed_with_its_key_or_with_a_new_one() {
    let server = Server::start(&binary(), &[]).unwrap();
    let data = server.folder().join("data");
    let people = Folder::new().unwrap();
    let jane = Person::of(&data, people.path(), "jane");
    assert_eq!(jane.ask(&server), Some(200));
    for command in ["renew-authority", "renew-service-account-key"] {
        let refused = fail(&[command, "--data-dir", text(&data)]);
        assert!(refused.contains("a server uses ") && refused.contains("stop it first"), "{refused}");
        let refused = fail(&[command, "--data-dir", text(&people.path().join("none"))]);
        assert!(refused.contains("is not the data directory of a server that has run"), "{refused}");
    }

    let folder = server.stop().unwrap();
    let data = folder.path().join("data");
    let old = std::fs::read(data.join("pki/ca.crt")).unwrap();
    let said = succeed(&["renew-authority", "--data-dir", text(&data)]);
    assert!(said.contains("stay valid") && said.contains("hand out the new ca.crt"), "{said}");
    let copy = said.lines().find_map(|line| line.strip_prefix("The old file is kept: ")).unwrap();
    assert_eq!(std::fs::read(copy).unwrap(), old);
    assert_eq!(std::fs::metadata(copy).unwrap().mode() & 0o777, 0o600);
    assert_ne!(std::fs::read(data.join("pki/ca.crt")).unwrap(), old);
    let server = Server::at(folder, &binary(), &[]).unwrap();
    assert_eq!(jane.ask(&server), Some(200), "what was handed out before goes on");
    let joe = Person::of(&data, people.path(), "joe");
    assert_eq!(joe.ask(&server), Some(200));

    let folder = server.stop().unwrap();
    let data = folder.path().join("data");
    let said = succeed(&["renew-authority", "--new-key", "--data-dir", text(&data)]);
    assert!(said.contains("Void are: every kubeconfig that was handed out"), "{said}");
    assert_eq!(said.lines().filter(|line| line.starts_with("The old file is kept: ")).count(), 2, "{said}");
    let server = Server::at(folder, &binary(), &[]).unwrap();
    assert_eq!(jane.ask(&server), None, "the server is another one");
    let jane = Person { authority: data.join("pki/ca.crt"), ..jane };
    assert_eq!(jane.ask(&server), Some(401), "and knows nobody any more");
    assert_eq!(Person::of(&data, people.path(), "jim").ask(&server), Some(200));
}

/// Also where the objects are elsewhere, a server has its data directory for itself.
#[test]
fn keys_are_not_renewed_under_a_server_in_memory() {
    let server = Server::start(&binary(), &["--storage=memory"]).unwrap();
    let data = server.folder().join("data");
    let refused = fail(&["renew-authority", "--data-dir", text(&data)]);
    assert!(refused.contains("a server uses "), "{refused}");
    let account = "/api/v1/namespaces/default/serviceaccounts/default/token";
    let begin = Instant::now();
    let token = loop {
        let (status, answer) = server.call("POST", account, &json!({"spec": {}})).unwrap();
        if status == 201 {
            break answer["status"]["token"].as_str().unwrap().to_owned();
        }
        assert!(begin.elapsed() < PATIENCE, "{answer}");
        sleep(Duration::from_millis(50));
    };
    let folder = server.stop().unwrap();
    let data = folder.path().join("data");
    let said = succeed(&["renew-service-account-key", "--data-dir", text(&data)]);
    let copy = said.lines().find_map(|line| line.strip_prefix("The old file is kept: ")).unwrap();
    assert!(Path::new(copy).is_file());
    let flags = said.split_once("start the server with ").unwrap().1.to_owned();
    let flags: Vec<&str> = flags.split_whitespace().collect();
    // By the keys alone: the account is another one in a new memory.
    let review = json!({"spec": {"token": token}});
    let says = |flags: &[&str], folder: Folder| {
        let flags: Vec<&str> = ["--storage=memory"].into_iter().chain(flags.iter().copied()).collect();
        let server = Server::at(folder, &binary(), &flags).unwrap();
        let path = "/apis/authentication.k8s.io/v1/tokenreviews";
        let error = create(&server, path, &review)["status"]["error"].as_str().unwrap().to_owned();
        (error, server.stop().unwrap())
    };
    let (error, folder) = says(&[], folder);
    assert!(error.contains("invalid signature, no keys found"), "{error}");
    let (error, _folder) = says(&flags, folder);
    assert!(!error.contains("signature"), "{error}");
}
