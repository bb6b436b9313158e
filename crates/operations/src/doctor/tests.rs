//! The checks, on small entries.

use super::*;
use bytes::Bytes;
use encryption::Encryption;
use layout::Sealed;
use serde_json::{Value, json};
use store::{Head, Revision};

const NOW: &str = "2026-01-01T00:00:00Z";

/// What is found among entries in Keelson's own layout: problem and key, sorted.
fn found(entries: Vec<Result<Entry, Unreadable>>) -> Vec<String> {
    let coding = Coding::Own(Sealed::new(Encryption::none()));
    let mut examination = Examination::new(NOW.parse().unwrap(), ObjectOptions::default());
    entries.into_iter().for_each(|entry| examination.add(&coding, 0, entry));
    let mut report = Report { findings: examination.findings(), ..Report::default() };
    report.sort();
    report
        .findings
        .iter()
        .map(|Finding { problem, key, says, .. }| format!("{} {key}: {says}", problem.name))
        .collect()
}

fn raw(key: &str, value: impl Into<Bytes>) -> Result<Entry, Unreadable> {
    let head = Head { create_revision: Revision(1), mod_revision: Revision(7) };
    Ok(Entry { key: key.try_into().unwrap(), head, value: value.into() })
}

fn object(key: &str, object: &Value) -> Result<Entry, Unreadable> {
    raw(key, cache::frame::of(object.to_string().as_bytes()).unwrap())
}

fn namespace(name: &str) -> Result<Entry, Unreadable> {
    let meta = json!({"name": name, "uid": format!("uid of namespace {name}")});
    let spec = json!({"finalizers": ["kubernetes"]});
    object(
        &format!("namespaces/{name}"),
        &json!({"kind": "Namespace", "apiVersion": "v1", "metadata": meta, "spec": spec}),
    )
}

/// A config map, with other metadata on top.
fn config_map(name: &str, more: &Value) -> Value {
    let mut meta = json!({"name": name, "namespace": "default", "uid": format!("uid of {name}")});
    for (key, value) in more.as_object().unwrap() {
        meta[key] = value.clone();
    }
    json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": meta})
}

/// What is found of one more entry beside a namespace.
fn found_of(entry: Result<Entry, Unreadable>) -> Vec<String> {
    found(vec![namespace("default"), entry])
}

#[test]
fn sound_objects_have_no_findings() {
    assert_eq!(found_of(object("configmaps/default/a", &config_map("a", &json!({})))), [""; 0]);
}

#[test]
fn damaged_bytes_are_found() {
    let damaged = store::Corrupt {
        key: "pods/default/a".try_into().unwrap(),
        revision: Revision(7),
        reason: "a checksum fails".into(),
    };
    assert_eq!(found_of(Err(damaged.into())), ["damaged pods/default/a: a checksum fails"]);
}

#[test]
fn encrypted_value_without_its_key_is_found() {
    let entry = raw("secrets/default/a", "k8s:enc:secretbox:v1:one:xyz");
    let why = "no provider reads it: identity transformer tried to read encrypted data";
    assert_eq!(found_of(entry), [format!("undecryptable secrets/default/a: {why}")]);
}

#[test]
fn values_that_are_no_objects_are_found() {
    let no_frame = "undecodable configmaps/default/a: it is not the JSON of an object";
    assert_eq!(found_of(raw("configmaps/default/a", "\0\0\0\0nonsense")), [no_frame]);
    let misplaced = raw("configmaps/default/a", &b"\x05\0\0\0{\"metadata\":{\"resourceVersion\":\"\"}}"[..]);
    let why = "undecodable configmaps/default/a: the place of its resourceVersion is wrong";
    assert_eq!(found_of(misplaced), [why]);
    let mut wrong = config_map("a", &json!({}));
    wrong["data"] = json!({"password": 17});
    let why = "undecodable configmaps/default/a: data holds a number where string belongs";
    assert_eq!(found_of(object("configmaps/default/a", &wrong)), [why]);
}

#[test]
fn text_of_a_value_is_not_shown() {
    let secret = json!({"kind": "Secret", "apiVersion": "v1", "data": {"k": "not base64: hunter2"},
        "metadata": {"name": "a", "namespace": "default", "uid": "u"}});
    let why = "undecodable secrets/default/a: a value of it does not have the form of its field";
    assert_eq!(found_of(object("secrets/default/a", &secret)), [why]);
    let mut invalid = secret;
    invalid["data"] = json!({"hunter 2": ""});
    assert_eq!(
        found_of(object("secrets/default/a", &invalid)),
        ["invalid secrets/default/a: data[hunter 2]: Invalid value"]
    );
}

#[test]
fn objects_of_other_types_are_found() {
    let at = |kind: &str, api_version: &str| {
        let mut object_of = config_map("a", &json!({}));
        (object_of["kind"], object_of["apiVersion"]) = (json!(kind), json!(api_version));
        found_of(object("configmaps/default/a", &object_of)).join("")
    };
    assert!(
        at("Secret", "v1").starts_with("wrong-type configmaps/default/a: it says that it is Secret of v1;")
    );
    assert!(at("ConfigMap", "v7").contains("it says that it is ConfigMap of v7"));
    assert!(at("", "").contains("it has neither apiVersion nor kind"));
    assert!(at("ConfigMap", "").contains("it has no apiVersion"));
}

#[test]
fn names_that_contradict_the_key_are_found() {
    let map = config_map("a", &json!({}));
    let why = "it calls itself \"a\" in namespace \"default\"";
    assert_eq!(
        found_of(object("configmaps/default/b", &map)),
        [format!("misnamed configmaps/default/b: {why}")]
    );
    let parts = "its key does not have the parts of one of its type";
    for key in ["configmaps/a", "configmaps//a", "configmaps/a/b/c", "namespaces/a/b", "configmaps/default/"]
    {
        assert_eq!(found_of(object(key, &map)), [format!("misnamed {key}: {parts}")]);
    }
}

#[test]
fn uids_that_are_absent_or_shared_are_found() {
    let without = config_map("a", &json!({"uid": ""}));
    let why = "without-uid configmaps/default/a: metadata.uid is empty";
    assert_eq!(found_of(object("configmaps/default/a", &without)), [why]);
    let shared = ["a", "b"]
        .map(|name| object(&format!("configmaps/default/{name}"), &config_map(name, &json!({"uid": "u"}))));
    assert_eq!(
        found([namespace("default")].into_iter().chain(shared).collect()),
        [
            "shared-uid configmaps/default/a: configmaps/default/b has uid u, too",
            "shared-uid configmaps/default/b: configmaps/default/a has uid u, too",
        ]
    );
}

#[test]
fn objects_of_missing_namespaces_are_found() {
    let event = json!({"kind": "Event", "apiVersion": "v1", "metadata": {"name": "e", "namespace": "gone", "uid": "e"},
        "involvedObject": {"namespace": "gone"}});
    let map = config_map("a", &json!({"namespace": "gone"}));
    assert_eq!(
        found(vec![object("configmaps/gone/a", &map), object("events/gone/e", &event)]),
        [
            "without-namespace configmaps/gone/a: there is no namespace \"gone\"",
            "event-without-namespace events/gone/e: there is no namespace \"gone\"",
        ]
    );
    // A namespace that cannot be read is there.
    let unreadable = raw("namespaces/gone", "");
    assert_eq!(found(vec![object("configmaps/gone/a", &map), unreadable]).len(), 1);
}

#[test]
fn objects_that_are_too_large_are_found() {
    let mut large = config_map("a", &json!({}));
    large["data"] = json!({"k": "x".repeat(4 << 20)});
    let found = found_of(object("configmaps/default/a", &large));
    assert!(found[0].starts_with("too-large configmaps/default/a: it has 4194"), "{found:?}");
}

#[test]
fn overdue_deletions_are_found() {
    let found_after = |meta: Value| found_of(object("configmaps/default/a", &config_map("a", &meta)));
    let why = "stuck configmaps/default/a: it was to be gone at 2025-12-31T20:00:00Z, and has no finalizers";
    assert_eq!(found_after(json!({"deletionTimestamp": "2025-12-31T20:00:00Z"})), [why]);
    assert_eq!(found_after(json!({"deletionTimestamp": "2025-12-31T23:30:00Z"})), [""; 0]);
    let waiting = json!({"deletionTimestamp": "2025-12-31T20:00:00Z", "finalizers": ["example.com/f"]});
    assert_eq!(found_after(waiting), [""; 0]);
    // A namespace has finalizers of its own.
    let mut entry = json!({"kind": "Namespace", "apiVersion": "v1", "spec": {"finalizers": ["kubernetes"]},
        "metadata": {"name": "n", "uid": "n", "deletionTimestamp": "2025-12-31T20:00:00Z"}, "status": {"phase": "Terminating"}});
    assert_eq!(found(vec![object("namespaces/n", &entry)]), [""; 0]);
    entry["spec"] = json!({});
    assert_eq!(found(vec![object("namespaces/n", &entry)]).len(), 1);
}

#[test]
fn owner_references_that_cannot_be_right_are_found() {
    let owner = |uid: &str| json!({"ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": uid}]});
    let found_with = |uid: &str| found_of(object("configmaps/default/a", &config_map("a", &owner(uid))));
    assert_eq!(found_with("other"), [""; 0]);
    let itself = "bad-owner configmaps/default/a: metadata.ownerReferences[0] names the object itself";
    assert_eq!(found_with("uid of a"), [itself]);
    assert_eq!(found_with(""), ["bad-owner configmaps/default/a: metadata.ownerReferences[0] has no uid"]);
}

#[test]
fn invalid_objects_are_found() {
    let found =
        found_of(object("configmaps/default/a", &config_map("a", &json!({"labels": {"k": "not valid!"}}))));
    assert_eq!(found.len(), 1);
    assert!(
        found[0].starts_with("invalid configmaps/default/a: metadata.labels: Invalid value: a valid label"),
        "{found:?}"
    );
}

fn definition(stored: &[&str]) -> Result<Entry, Unreadable> {
    let version = json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}});
    let names =
        json!({"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"});
    object(
        "customresourcedefinitions.apiextensions.k8s.io/widgets.example.com",
        &json!({"kind": "CustomResourceDefinition", "apiVersion": "apiextensions.k8s.io/v1",
            "metadata": {"name": "widgets.example.com", "uid": "d", "generation": 1},
            "spec": {"group": "example.com", "names": names, "scope": "Namespaced", "versions": [version],
                "conversion": {"strategy": "None"}},
            "status": {"storedVersions": stored, "acceptedNames": names, "conditions": []}}),
    )
}

fn widget(api_version: &str) -> Result<Entry, Unreadable> {
    let meta = json!({"name": "w", "namespace": "default", "uid": "w"});
    object(
        "widgets.example.com/default/w",
        &json!({"kind": "Widget", "apiVersion": api_version, "metadata": meta}),
    )
}

#[test]
fn stored_versions_that_are_wrong_are_found() {
    const KEY: &str = "customresourcedefinitions.apiextensions.k8s.io/widgets.example.com";
    assert_eq!(found(vec![definition(&["v1"])]), [""; 0]);
    assert_eq!(
        found(vec![definition(&["v0"])]),
        [
            format!("storage-version-unnoted {KEY}: status.storedVersions lacks \"v1\""),
            format!(
                "stored-version-unknown {KEY}: status.storedVersions names \"v0\", which spec.versions lacks"
            ),
        ]
    );
}

#[test]
fn custom_objects_need_their_definition() {
    let found_with = |entries: Vec<_>| found([namespace("default")].into_iter().chain(entries).collect());
    assert_eq!(found_with(vec![definition(&["v1"]), widget("example.com/v1")]), [""; 0]);
    let gone = "unknown-type widgets.example.com/default/w: there is no definition widgets.example.com";
    assert_eq!(found_with(vec![widget("example.com/v1")]), [gone]);
    let old = found_with(vec![definition(&["v1"]), widget("example.com/v0")]);
    assert!(old[0].starts_with("wrong-type widgets.example.com/default/w: it says"), "{old:?}");
    let unknown = "unknown-type strange/a: its key is of no type that this server has";
    assert_eq!(found(vec![raw("strange/a", "")]), [unknown]);
}

fn service(name: &str, ip: &str, node_port: u16) -> Result<Entry, Unreadable> {
    let meta = json!({"name": name, "namespace": "default", "uid": name});
    let port = json!({"port": 80, "protocol": "TCP", "targetPort": 80, "nodePort": node_port});
    object(
        &format!("services/default/{name}"),
        &json!({"kind": "Service", "apiVersion": "v1", "metadata": meta, "spec": {"type": "NodePort", "ports": [port],
            "clusterIP": ip, "clusterIPs": [ip], "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack",
            "sessionAffinity": "None", "externalTrafficPolicy": "Cluster", "internalTrafficPolicy": "Cluster"}}),
    )
}

fn address(ip: &str, service: &str) -> Result<Entry, Unreadable> {
    let labels = json!({"ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io", "ipaddress.kubernetes.io/ip-family": "IPv4"});
    let parent = json!({"group": "", "resource": "services", "namespace": "default", "name": service});
    object(
        &format!("ipaddresses.networking.k8s.io/{ip}"),
        &json!({"kind": "IPAddress", "apiVersion": "networking.k8s.io/v1", "spec": {"parentRef": parent},
            "metadata": {"name": ip, "uid": ip, "labels": labels}}),
    )
}

#[test]
fn services_that_share_or_lack_addresses_are_found() {
    let found_with = |entries: Vec<_>| found([namespace("default")].into_iter().chain(entries).collect());
    let sound = vec![service("a", "10.0.0.2", 30_001), address("10.0.0.2", "a")];
    assert_eq!(found_with(sound), [""; 0]);
    let shared =
        vec![service("a", "10.0.0.2", 30_001), service("b", "10.0.0.2", 30_001), address("10.0.0.2", "a")];
    assert_eq!(
        found_with(shared),
        [
            "shared-address services/default/a: services/default/b has cluster IP 10.0.0.2, too",
            "shared-address services/default/b: services/default/a has cluster IP 10.0.0.2, too",
            "shared-port services/default/a: services/default/b has node port 30001, too",
            "shared-port services/default/b: services/default/a has node port 30001, too",
        ]
    );
    assert_eq!(
        found_with(vec![service("a", "10.0.0.2", 30_001), address("10.0.0.3", "a")]),
        [
            "address-without-service ipaddresses.networking.k8s.io/10.0.0.3: there is no service default/a with this cluster IP",
            "service-without-address services/default/a: its cluster IP 10.0.0.2 has no IPAddress",
        ]
    );
}

#[test]
fn files_of_a_data_directory_are_checked() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let data_dir = DataDir::at(folder.path()).unwrap();
    let options = OperationOptions {
        storage: storage::StorageOptions { data_dir: folder.path().into(), ..Default::default() },
        ..OperationOptions::default()
    };
    let found = |now: Time| {
        let all = directory::check(&data_dir, &options, now);
        all.iter()
            .map(|one| format!("{} {}", one.problem.name, one.key.rsplit('/').next().unwrap()))
            .collect::<Vec<_>>()
    };
    assert_eq!(found(Time::now()), [""; 0]);
    let pki = pki::Pki::new(data_dir.pki());
    let names = pki::Names::of_this_host([10, 0, 0, 1].into());
    pki.service_account_key().unwrap();
    pki.ensure(&names, clock::now()).unwrap();
    let key = data_dir.pki().join("sa.key");
    std::fs::rename(&key, folder.path().join("away")).unwrap();
    assert_eq!(found(Time::now()), ["key-missing sa.key"]);
    std::fs::rename(folder.path().join("away"), &key).unwrap();
    assert_eq!(found(Time::now()), [""; 0]);
    let in_days = |days: i64| Time::from_unix(Time::now().unix() + days * 24 * 3600);
    assert_eq!(found(in_days(340)), ["certificate-ends server.crt", "certificate-ends admin.crt"]);
    assert_eq!(found(in_days(370)), ["certificate-expired server.crt", "certificate-expired admin.crt"]);
    assert_eq!(found(in_days(-2)), ["authority-not-valid ca.crt"]);
    assert_eq!(found(in_days(3600)).first().unwrap(), "authority-ends ca.crt");
    assert_eq!(found(in_days(3651)).first().unwrap(), "authority-not-valid ca.crt");
    let path = |name: &str| data_dir.pki().join(name);
    std::fs::set_permissions(path("admin.key"), std::fs::Permissions::from_mode(0o640)).unwrap();
    std::fs::remove_file(path("ca.key")).unwrap();
    assert_eq!(found(Time::now()), ["authority-incomplete ca.key", "file-open admin.key"]);
}
