//! `keelson doctor` on the data of real servers: sound ones, and ones with entries that are wrong.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use store::embedded::{self, Embedded, Filling};
use store::etcd;
use store::{Change, Key, Store};
use testkit::{Etcd, Folder, Server, files_with};

const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";
/// What must not be shown.
const SECRET: &str = "a text that nobody may read";

fn binary() -> PathBuf {
    testkit::server_binary(env!("CARGO_BIN_EXE_keelson"))
}

/// The exit code and what is on standard output and standard error.
fn doctor(arguments: &[&str]) -> (i32, String, String) {
    let output = Command::new(binary()).arg("doctor").args(arguments).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let (out, error) = (text(output.stdout), text(output.stderr));
    assert!(!out.contains(SECRET) && !out.contains(&STANDARD.encode(SECRET)), "{out}");
    (output.status.code().unwrap(), out, error)
}

/// The exit code and the document of `--output=json`.
fn document(arguments: &[&str]) -> (i32, Value) {
    let (code, out, error) = doctor(&[arguments, &["--output=json"]].concat());
    (code, serde_json::from_str(&out).unwrap_or_else(|_| panic!("{code}: {out}{error}")))
}

/// `problem key` of every finding that no repair has mended.
fn findings(document: &Value) -> Vec<String> {
    let all = document["findings"].as_array().unwrap().iter().filter(|one| one["repaired"].is_null());
    all.map(|one| format!("{} {}", one["problem"].as_str().unwrap(), one["key"].as_str().unwrap())).collect()
}

/// A server with objects of many kinds, whose controllers have worked.
fn busy(flags: &[&str]) -> Server {
    let server = Server::start(&binary(), flags).unwrap();
    let create = |path: &str, object: Value| {
        let (status, made) = server.call("POST", path, &object).unwrap();
        assert_eq!(status, 201, "{made}");
    };
    create("/api/v1/namespaces", json!({"metadata": {"name": "team"}}));
    create("/api/v1/namespaces", json!({"metadata": {"name": "gone"}}));
    create("/api/v1/namespaces/gone/configmaps", json!({"metadata": {"name": "a"}}));
    create(
        "/api/v1/namespaces/team/secrets",
        json!({"metadata": {"name": "s"}, "data": {"k": STANDARD.encode(SECRET)}}),
    );
    create(
        "/api/v1/namespaces/team/services",
        json!({"metadata": {"name": "web"}, "spec": {"type": "NodePort", "ports": [{"port": 80}]}}),
    );
    let pod = json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    create(
        "/apis/apps/v1/namespaces/team/deployments",
        json!({"metadata": {"name": "web"}, "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": pod}}),
    );
    let version = json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}});
    create(
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        json!({"metadata": {"name": "widgets.example.com"}, "spec": {"group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"}, "versions": [version]}}),
    );
    create(
        "/apis/example.com/v1/namespaces/team/widgets",
        json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}),
    );
    assert_eq!(server.call("DELETE", "/api/v1/namespaces/gone", &Value::Null).unwrap().0, 200);
    let is_done = || {
        let code = |path: &str| server.call("GET", path, &Value::Null).unwrap().0;
        code("/api/v1/namespaces/gone") == 404
            && code("/api/v1/namespaces/team/serviceaccounts/default") == 200
    };
    for _ in 0..600 {
        if is_done() {
            return server;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    panic!("the controllers have not done their work");
}

fn frame(object: &Value) -> Vec<u8> {
    cache::frame::of(object.to_string().as_bytes()).unwrap().to_vec()
}

fn config_map(name: &str, namespace: &str, uid: &str) -> Value {
    let meta = json!({"name": name, "namespace": namespace, "uid": uid});
    json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": meta})
}

fn put(store: &dyn Store, key: &str, value: Vec<u8>) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(store.commit(Change::put(Key::try_from(key).unwrap(), value))).unwrap();
}

fn open(folder: &Path) -> Embedded {
    Embedded::open_existing(&folder.join("store"), embedded::EmbeddedOptions::default()).unwrap()
}

#[test]
fn nothing_is_wrong_with_a_new_server() {
    let server = Server::start(&binary(), &[]).unwrap();
    let data = server.folder().join("data");
    let (code, out, error) = doctor(&["--data-dir", data.to_str().unwrap()]);
    assert_eq!((code, error.as_str()), (0, ""), "{out}");
    assert!(out.contains("nothing is wrong in "), "{out}");
}

#[test]
fn nothing_is_wrong_after_controllers_have_worked() {
    let server = busy(&[]);
    let data = server.folder().join("data");
    let running = document(&["--data-dir", data.to_str().unwrap()]);
    assert_eq!((running.0, findings(&running.1)), (0, vec![]), "{}", running.1);
    assert!(running.1["objects"].as_u64().unwrap() > 50, "{}", running.1);
    let refused = doctor(&["--data-dir", data.to_str().unwrap(), "--repair-all"]);
    assert_eq!(refused.0, 2);
    assert!(refused.2.contains("a server uses the data directory"), "{}", refused.2);
    let folder = server.stop().unwrap();
    let data = folder.path().join("data");
    let stopped = document(&["--data-dir", data.to_str().unwrap()]);
    assert_eq!((stopped.0, findings(&stopped.1)), (0, vec![]), "{}", stopped.1);
}

#[test]
fn wrong_entries_are_found_and_repaired_when_told() {
    let folder = busy(&[]).stop().unwrap();
    let data = folder.path().join("data");
    let flags = ["--data-dir", data.to_str().unwrap()];
    let marker = format!("marked {}", "x".repeat(2000));
    {
        let store = open(&data);
        put(&store, "configmaps/team/nonsense", format!("\0\0\0\0{SECRET}").into_bytes());
        put(&store, "configmaps/team/empty", Vec::new());
        put(&store, "configmaps/team/wrong-name", frame(&config_map("other", "team", "u1")));
        put(&store, "configmaps/lost/a", frame(&config_map("a", "lost", "u2")));
        put(&store, "configmaps/team/twin-a", frame(&config_map("twin-a", "team", "u3")));
        put(&store, "configmaps/team/twin-b", frame(&config_map("twin-b", "team", "u3")));
        put(
            &store,
            "gadgets.example.com/team/g",
            frame(&json!({"kind": "Gadget", "apiVersion": "example.com/v1",
            "metadata": {"name": "g", "namespace": "team", "uid": "u4"}})),
        );
        let mut large = config_map("damaged", "team", "u5");
        large["data"] = json!({"k": marker});
        put(&store, "configmaps/team/damaged", frame(&large));
        let key = Key::try_from(format!("{DEFINITIONS}/widgets.example.com")).unwrap();
        let definition = store.get(&key).unwrap().unwrap();
        let mut definition: Value =
            serde_json::from_slice(cache::frame::json(&definition.value).unwrap()).unwrap();
        definition["status"]["storedVersions"] = json!([]);
        put(&store, &key.to_string(), frame(&definition));
        store.close();
    }
    // A byte of a stored value changes on the disk.
    let files = files_with(&data.join("store"), &marker).unwrap();
    assert!(!files.is_empty());
    for path in files {
        let mut bytes = fs::read(&path).unwrap();
        let at = bytes.windows(marker.len()).position(|window| window == marker.as_bytes()).unwrap();
        bytes[at] ^= 1;
        fs::write(&path, bytes).unwrap();
    }
    fs::set_permissions(data.join("pki/ca.key"), fs::Permissions::from_mode(0o644)).unwrap();
    let ca_key = data.join("pki/ca.key").display().to_string();
    let definition = format!("storage-version-unnoted {DEFINITIONS}/widgets.example.com");
    let all = [
        "damaged configmaps/team/damaged",
        &format!("file-open {ca_key}"),
        "misnamed configmaps/team/wrong-name",
        "shared-uid configmaps/team/twin-a",
        "shared-uid configmaps/team/twin-b",
        &definition,
        "undecodable configmaps/team/empty",
        "undecodable configmaps/team/nonsense",
        "unknown-type gadgets.example.com/team/g",
        "without-namespace configmaps/lost/a",
    ];
    let (code, found) = document(&flags);
    assert_eq!((code, findings(&found)), (1, all.map(str::to_owned).to_vec()), "{found}");
    let (code, text, _) = doctor(&flags);
    assert_eq!(code, 1);
    assert!(text.contains("\n10 errors, 0 warnings in "), "{text}");
    // Nothing was changed.
    assert_eq!(findings(&document(&flags).1), all);

    // One of them, which is removed only by its name.
    let (code, found) = document(
        &[&flags[..], &["--repair", "configmaps/team/wrong-name", "--repair=configmaps/team/none"]].concat(),
    );
    assert_eq!(code, 1);
    assert_eq!(findings(&found).len(), all.len() - 1, "{found}");
    assert_eq!(
        found["notRepaired"],
        json!([{"key": "configmaps/team/none", "message": "nothing is wrong with it"}])
    );
    let saved = PathBuf::from(found["saved"].as_str().unwrap());
    assert_eq!(saved.parent(), Some(folder.path()));
    assert_eq!(fs::metadata(&saved).unwrap().permissions().mode() & 0o777, 0o600);
    let row: Value = serde_json::from_str(&fs::read_to_string(&saved).unwrap()).unwrap();
    assert_eq!(row["key"], "configmaps/team/wrong-name");
    let value = STANDARD.decode(row["value"].as_str().unwrap()).unwrap();
    assert_eq!(value, frame(&config_map("other", "team", "u1")));

    // All that can be repaired.
    let save = folder.path().join("saved");
    let (code, found) = document(&[&flags[..], &["--repair-all", "--save", save.to_str().unwrap()]].concat());
    assert_eq!(code, 1);
    let left = [
        format!("file-open {ca_key}"),
        "shared-uid configmaps/team/twin-a".into(),
        "shared-uid configmaps/team/twin-b".into(),
        "unknown-type gadgets.example.com/team/g".into(),
        "without-namespace configmaps/lost/a".into(),
    ];
    assert_eq!(findings(&found), left, "{found}");
    let saved = fs::read_to_string(found["saved"].as_str().unwrap()).unwrap();
    assert_eq!(saved.lines().count(), 4, "{saved}");
    assert_eq!(findings(&document(&flags).1), left);
    let store = open(&data);
    let key = Key::try_from(format!("{DEFINITIONS}/widgets.example.com")).unwrap();
    let repaired = store.get(&key).unwrap().unwrap();
    let repaired: Value = serde_json::from_slice(cache::frame::json(&repaired.value).unwrap()).unwrap();
    assert_eq!(repaired["status"]["storedVersions"], json!(["v1"]));
}

#[test]
fn backup_is_examined_and_not_repaired() {
    let folder = busy(&[]).stop().unwrap();
    let data = folder.path().join("data");
    {
        let store = open(&data);
        put(&store, "configmaps/team/nonsense", b"\0\0\0\0nonsense".to_vec());
        store::backup::create(&store, &folder.path().join("backup")).unwrap();
        store.close();
    }
    let file = folder.path().join("backup").display().to_string();
    let (code, found) = document(&[&file]);
    assert_eq!((code, findings(&found)), (1, vec!["undecodable configmaps/team/nonsense".into()]), "{found}");
    let (code, _, error) = doctor(&[&file, "--repair-all"]);
    assert_eq!(code, 2);
    assert!(error.contains("a backup is not repaired"), "{error}");
    let bytes = fs::read(&file).unwrap();
    for (wrong, why) in [
        (bytes[..bytes.len() / 2].to_vec(), "it ends too early"),
        ([&*bytes, b"\n"].concat(), "there are bytes after its end"),
    ] {
        fs::write(&file, wrong).unwrap();
        let (code, found) = document(&[&file]);
        assert_eq!((code, findings(&found)), (1, vec![format!("store-unusable {file}")]), "{found}");
        assert!(found["findings"][0]["message"].as_str().unwrap().contains(why), "{found}");
    }
}

/// The newest journal of a data directory.
fn journal(data: &Path) -> PathBuf {
    let files = fs::read_dir(data.join("store/db")).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|path| path.extension().is_some_and(|extension| extension == "jnl")).max().unwrap()
}

#[test]
fn store_with_a_damaged_journal_is_salvaged() {
    let folder = busy(&[]).stop().unwrap();
    let data = folder.path().join("data");
    let arguments = ["--data-dir", data.to_str().unwrap()];
    {
        let store = open(&data);
        for n in 0..20 {
            let object = config_map(&format!("salvaged-{n}"), "team", &format!("uid-{n}"));
            put(&store, &format!("configmaps/team/salvaged-{n}"), frame(&object));
        }
        store.close();
    }
    let salvage = |more: &[&str]| doctor(&[&["--salvage"], &arguments[..], more].concat());
    let (code, said, _) = salvage(&[]);
    assert_eq!(code, 0);
    assert!(said.contains("all that was acknowledged is there: nothing was changed"), "{said}");

    let file = journal(&data);
    let mut bytes = fs::read(&file).unwrap();
    let text = b"\"name\":\"salvaged-7\"";
    let at = bytes.windows(text.len()).position(|window| window == text).unwrap();
    // From the value of the eighth to the key of the ninth.
    let end = at + bytes[at..].windows(10).position(|window| window == b"salvaged-8").unwrap();
    bytes[at..end].fill(0xa5);
    fs::write(&file, &bytes).unwrap();
    let (code, found) = document(&arguments);
    assert_eq!(code, 1);
    let message = found["findings"][0]["message"].as_str().unwrap();
    assert!(message.contains("keelson doctor --salvage"), "{message}");
    let (code, said, _) = salvage(&["--dry-run"]);
    assert_eq!(code, 1);
    assert!(said.contains("the journal is damaged") && said.contains("can be saved"), "{said}");
    assert_eq!(fs::read(&file).unwrap(), bytes);

    let (code, said, error) = salvage(&["--output=json", "--save", folder.path().to_str().unwrap()]);
    assert_eq!(code, 0, "{said} {error}");
    let said: Value = serde_json::from_str(&said).unwrap();
    let lost: Vec<u64> = said["lostRevisions"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|range| range["first"].as_u64().unwrap()..=range["last"].as_u64().unwrap())
        .collect();
    assert!((1..=2).contains(&lost.len()), "{said}");
    assert!(Path::new(said["saved"].as_str().unwrap()).join("db").is_dir(), "{said}");
    let without_value = said["withoutValue"].as_array().unwrap().len();
    let store = open(&data);
    let is_there = |n: usize| {
        let key = Key::try_from(format!("configmaps/team/salvaged-{n}").as_str()).unwrap();
        matches!(store.get(&key), Ok(Some(_)))
    };
    let missing: Vec<usize> = (0..20).filter(|n| !is_there(*n)).collect();
    assert_eq!(missing.len(), lost.len() + without_value, "{missing:?} {said}");
    assert_eq!(missing.first(), Some(&7));
    store.close();
    // A server starts with it, and goes on.
    let flags = ["--controllers=-*"];
    let server = testkit::Process::start(&binary(), &data, &flags).unwrap();
    drop(server);
    assert_eq!(salvage(&[]).0, 0);
}

#[test]
fn directory_without_a_store_cannot_be_examined() {
    let folder = Folder::new().unwrap();
    let (code, out, error) = doctor(&["--data-dir", folder.path().to_str().unwrap()]);
    assert_eq!((code, out.as_str()), (2, ""));
    assert!(error.contains("it holds no store"), "{error}");
    // One that had a store has lost it.
    fs::create_dir(folder.path().join("pki")).unwrap();
    assert_eq!(document(&["--data-dir", folder.path().to_str().unwrap()]).0, 1);
}

#[test]
fn unfinished_restore_is_found() {
    let folder = Folder::new().unwrap();
    let store = folder.path().join("store");
    drop(Filling::begin(&store, "a backup").unwrap());
    let (code, found) = document(&["--data-dir", folder.path().to_str().unwrap()]);
    let unusable = format!("store-unusable {}", store.display());
    assert_eq!((code, findings(&found)), (1, vec![unusable]), "{found}");
    let message = found["findings"][0]["message"].as_str().unwrap();
    assert!(message.contains("a restore or a migration into it was interrupted"), "{message}");
}

/// A configuration that encrypts secrets with these keys, the first one for writing.
fn encryption(folder: &Folder, name: &str, keys: &[&str]) -> String {
    let key = |name: &&str| json!({"name": name, "secret": STANDARD.encode(format!("{name:0>32}"))});
    let keys: Vec<Value> = keys.iter().map(key).collect();
    let config = json!({"kind": "EncryptionConfiguration", "apiVersion": "apiserver.config.k8s.io/v1",
        "resources": [{"resources": ["secrets"], "providers": [{"secretbox": {"keys": keys}}, {"identity": {}}]}]});
    let path = folder.path().join(name);
    fs::write(&path, config.to_string()).unwrap();
    format!("--encryption-provider-config={}", path.display())
}

#[test]
fn stale_and_undecryptable_values_are_found() {
    let keys = Folder::new().unwrap();
    let [old, both, new] = [
        encryption(&keys, "old", &["one"]),
        encryption(&keys, "both", &["two", "one"]),
        encryption(&keys, "new", &["two"]),
    ];
    let folder = busy(&[&old]).stop().unwrap();
    let data = folder.path().join("data").display().to_string();
    let with = |flag: &str, more: &[&str]| document(&[&["--data-dir", &data, flag], more].concat());
    assert_eq!(with(&old, &[]).1["findings"], json!([]));
    let secret = "secrets/team/s";
    let (code, found) = with(&both, &[]);
    assert_eq!((code, findings(&found)), (0, vec![format!("stale {secret}")]), "{found}");
    let (code, found) = with(&new, &["--repair-all"]);
    assert_eq!((code, findings(&found)), (1, vec![format!("undecryptable {secret}")]), "{found}");
    assert!(found["saved"].is_null(), "{found}");
    let (code, found) = with(&both, &["--repair-all"]);
    assert_eq!((code, findings(&found)), (0, vec![]), "{found}");
    let (code, found) = with(&new, &[]);
    assert_eq!((code, &found["findings"]), (0, &json!([])), "{found}");
}

#[test]
fn etcd_is_examined_and_repaired() {
    let etcd_server = Etcd::start("etcd", 1, &["--unsafe-no-fsync"]).unwrap();
    let endpoints = etcd_server.endpoints();
    let servers = format!("--etcd-servers={}", endpoints.join(","));
    let keys = Folder::new().unwrap();
    let [old, both] = [encryption(&keys, "old", &["one"]), encryption(&keys, "both", &["two", "one"])];
    let server = busy(&[&servers, &old]);
    let data = server.folder().join("data");
    let flags = ["--data-dir", data.to_str().unwrap(), &servers, &old];
    let (code, found) = document(&flags);
    assert_eq!((code, findings(&found)), (0, vec![]), "{found}");

    let raw: Arc<dyn Store> = Arc::new(
        etcd::Etcd::connect(etcd::EtcdOptions {
            endpoints,
            prefix: "/registry/".into(),
            ..Default::default()
        })
        .unwrap(),
    );
    let envelope = etcd_server.value("/registry/serviceaccounts/team/default").unwrap().unwrap();
    put(&*raw, "/registry/configmaps/team/nonsense", SECRET.into());
    put(&*raw, "/registry/configmaps/team/account", envelope);
    put(&*raw, "/registry/configmaps/team/a", config_map("b", "team", "u1").to_string().into());
    put(
        &*raw,
        "/registry/gadgets.example.com/gadgets/team/g",
        json!({"kind": "Gadget", "apiVersion": "gadgets.example.com/v1",
        "metadata": {"name": "g", "namespace": "team", "uid": "u4"}})
        .to_string()
        .into(),
    );
    put(&*raw, "/registry/ranges/serviceips", b"of other software".to_vec());
    let all = [
        "misnamed /registry/configmaps/team/a",
        "undecodable /registry/configmaps/team/nonsense",
        "unknown-type /registry/gadgets.example.com/gadgets/team/g",
        "wrong-type /registry/configmaps/team/account",
        "stale /registry/secrets/team/s",
    ];
    let flags = ["--data-dir", data.to_str().unwrap(), &servers, &both];
    let (code, found) = document(&flags);
    assert_eq!((code, findings(&found)), (1, all.map(str::to_owned).to_vec()), "{found}");
    assert!(found["others"].as_u64().unwrap() > 0, "{found}");
    let (_, found) =
        document(&[&flags[..], &["--repair-all", "--repair", "/registry/configmaps/team/account"]].concat());
    let left =
        ["misnamed /registry/configmaps/team/a", "unknown-type /registry/gadgets.example.com/gadgets/team/g"];
    assert_eq!(findings(&found), left, "{found}");
    assert_eq!(findings(&document(&flags).1), left);
    assert_eq!(etcd_server.value("/registry/configmaps/team/nonsense").unwrap(), None);
    let stored = etcd_server.value("/registry/secrets/team/s").unwrap().unwrap();
    assert!(stored.starts_with(b"k8s:enc:secretbox:v1:two:"));
}
