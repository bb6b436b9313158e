//! Encryption at rest, in the data directory and in a real etcd.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use encryption::test_plugin::Fake;
use serde_json::{Value, json};
use testkit::{Etcd, Folder, Server, files_with};

const SECRETS: &str = "/api/v1/namespaces/default/secrets";
/// What is looked for on the disk; in objects it is base64.
const TEXT: &str = "a text that nobody else may read";

fn binary() -> PathBuf {
    testkit::server_binary(env!("CARGO_BIN_EXE_keelson"))
}

/// A configuration that encrypts secrets with these keys, the first one for writing.
fn config(folder: &Folder, keys: &[&str]) -> String {
    let key = |name: &&str| json!({"name": name, "secret": STANDARD.encode(format!("{name:0>32}"))});
    let keys: Vec<Value> = keys.iter().map(key).collect();
    let config = json!({"kind": "EncryptionConfiguration", "apiVersion": "apiserver.config.k8s.io/v1",
        "resources": [{"resources": ["secrets"], "providers": [{"secretbox": {"keys": keys}}, {"identity": {}}]}]});
    let path = folder.path().join("encryption.yaml");
    std::fs::write(&path, config.to_string()).unwrap();
    format!("--encryption-provider-config={}", path.display())
}

fn secret(name: &str) -> Value {
    json!({"metadata": {"name": name}, "data": {"k": STANDARD.encode(TEXT)}})
}

fn create(server: &Server, name: &str) -> Value {
    let (status, made) = server.call("POST", SECRETS, &secret(name)).unwrap();
    assert_eq!(status, 201, "{made}");
    made
}

fn get(server: &Server, name: &str) -> (u16, Value) {
    server.call("GET", &format!("{SECRETS}/{name}"), &Value::Null).unwrap()
}

fn replace(server: &Server, object: &Value) -> Value {
    let name = object["metadata"]["name"].as_str().unwrap();
    let (status, replaced) = server.call("PUT", &format!("{SECRETS}/{name}"), object).unwrap();
    assert_eq!(status, 200, "{replaced}");
    replaced
}

fn is_on_disk(folder: &Path, text: &str) -> bool {
    !files_with(folder, text).unwrap().is_empty()
}

#[test]
fn a_data_directory_holds_no_secret_in_plain() {
    let folder = Folder::new().unwrap();
    let reload = "--encryption-provider-config-automatic-reload=true";
    let server = Server::start(&binary(), &[&config(&folder, &["one"]), reload]).unwrap();
    let (_, checks) = server.text("GET", "/readyz?verbose", "").unwrap();
    let hook = "[+]poststarthook/start-encryption-provider-config-automatic-reload ok";
    assert!(checks.contains(hook), "{checks}");
    let made = create(&server, "a");
    let data = server.folder().join("data");
    assert!(is_on_disk(&data, "k8s:enc:secretbox:v1:one:"));
    assert!(!is_on_disk(&data, &STANDARD.encode(TEXT)) && !is_on_disk(&data, TEXT));
    let server = server.crash(&binary(), &[&config(&folder, &["one"])]).unwrap();
    assert_eq!(get(&server, "a"), (200, made));
}

#[test]
fn a_key_is_rotated_by_writing_everything_again() {
    let folder = Folder::new().unwrap();
    let server = Server::start(&binary(), &[&config(&folder, &["one"])]).unwrap();
    let before = create(&server, "a");
    // Written as it is, it stays as it is.
    assert_eq!(replace(&server, &before), before);
    let server = server.crash(&binary(), &[&config(&folder, &["two", "one"])]).unwrap();
    let after = replace(&server, &before);
    assert_ne!(after["metadata"]["resourceVersion"], before["metadata"]["resourceVersion"]);
    assert_eq!(replace(&server, &after), after);
    let server = server.crash(&binary(), &[&config(&folder, &["two"])]).unwrap();
    assert_eq!(get(&server, "a"), (200, after.clone()));
    let flags = [config(&folder, &["three"])];
    let server = Server::at_unready(server.kill().unwrap(), &binary(), &[&flags[0]]).unwrap();
    is_unavailable_and_kept(&server, "a", &after);
    // What is not encrypted is not touched.
    assert_eq!(server.call("GET", "/api/v1/namespaces/default", &Value::Null).unwrap().0, 200);
    let (status, checks) = server.text("GET", "/readyz", "").unwrap();
    assert!(status == 500 && checks.contains("[-]informer-sync"), "{status} {checks}");
    let server = server.crash(&binary(), &[&config(&folder, &["two"])]).unwrap();
    assert_eq!(get(&server, "a"), (200, after));
}

/// A secret that cannot be decrypted is 503 for everybody, and no write takes its place.
fn is_unavailable_and_kept(server: &Server, name: &str, before: &Value) {
    let path = format!("{SECRETS}/{name}");
    let mut other = secret(name);
    other["data"]["k"] = json!(STANDARD.encode("another text"));
    let calls = [
        ("GET", path.clone(), Value::Null),
        ("GET", SECRETS.to_owned(), Value::Null),
        ("PUT", path.clone(), other.clone()),
        ("PUT", path.clone(), before.clone()),
        ("PATCH", path.clone(), json!({"data": {"k": "AA=="}})),
        ("DELETE", path, Value::Null),
    ];
    for (method, path, body) in calls {
        let (status, answer) = server.call(method, &path, &body).unwrap();
        assert_eq!(status, 503, "{method} {path}: {answer}");
        assert_eq!(answer["reason"], "ServiceUnavailable");
        assert_eq!(answer["details"]["retryAfterSeconds"], 1, "{answer}");
        assert!(!answer.to_string().contains("replac"), "{answer}");
    }
    let apply = format!("{SECRETS}/{name}?fieldManager=other&force=true");
    let applied =
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": {"k": "AA=="}});
    let (status, answer) = server.apply(&apply, &applied).unwrap();
    assert_eq!(status, 503, "{answer}");
    // Without its plugin the server cannot encrypt, which comes first.
    let (status, answer) = server.call("POST", SECRETS, &other).unwrap();
    assert!(status == 409 || status == 500 && answer["message"].to_string().contains("encoded"), "{answer}");
}

#[test]
fn values_in_etcd_are_in_the_envelope_of_the_reference() {
    let (folder, etcd) = (Folder::new().unwrap(), Etcd::start("etcd", 1, &["--unsafe-no-fsync"]).unwrap());
    let servers = format!("--etcd-servers={}", etcd.endpoints().join(","));
    let server = Server::start(&binary(), &[&servers, &config(&folder, &["one"])]).unwrap();
    let made = create(&server, "a");
    let stored = etcd.value("/registry/secrets/default/a").unwrap().unwrap();
    assert!(stored.starts_with(b"k8s:enc:secretbox:v1:one:"), "{stored:?}");
    assert_eq!(get(&server, "a"), (200, made));
}

/// A KMS plugin on a runtime of its own, and the configuration that uses it for some resources.
struct Kms {
    plugin: Fake,
    flag: String,
    runtime: tokio::runtime::Runtime,
    _folder: Folder,
}

impl Kms {
    fn start(resources: &[&str]) -> Self {
        let folder = Folder::new().unwrap();
        let socket = folder.path().join("kms.sock");
        let config = json!({"kind": "EncryptionConfiguration", "apiVersion": "apiserver.config.k8s.io/v1",
        "resources": [{"resources": resources, "providers": [
            {"kms": {"apiVersion": "v2", "name": "vault", "endpoint": format!("unix://{}", socket.display()), "timeout": "3s"}}
        ]}]});
        let path = folder.path().join("encryption.yaml");
        std::fs::write(&path, config.to_string()).unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.unwrap();
        let plugin = {
            let _here = runtime.enter();
            Fake::start(&socket)
        };
        let flag = format!("--encryption-provider-config={}", path.display());
        Self { plugin, flag, runtime, _folder: folder }
    }

    fn restart(&mut self) {
        let _here = self.runtime.enter();
        self.plugin.serve();
    }
}

/// How long a create of a namespace takes, at most, in some rounds: writes of what is not encrypted go on.
fn slowest_write(server: &Server, about: &str) -> Duration {
    let write = |at: u32| {
        let begin = Instant::now();
        let body = json!({"metadata": {"name": format!("{about}-{at}")}});
        let (status, answer) = server.call("POST", "/api/v1/namespaces", &body).unwrap();
        assert_eq!(status, 201, "{answer}");
        begin.elapsed()
    };
    let slowest = (0..20).map(write).max().unwrap();
    eprintln!("the slowest of 20 writes of namespaces, {about}: {slowest:?}");
    slowest
}

fn until(what: &str, mut holds: impl FnMut() -> bool) -> Duration {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < Duration::from_secs(30), "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
    eprintln!("{what}: after {:?}", begin.elapsed());
    begin.elapsed()
}

/// The plugin is absent at the start, hangs, answers wrongly, and is there again: what it encrypted is
/// neither lost nor replaced.
fn plugin_that_fails_loses_nothing(flags: &[&str]) {
    let mut kms = Kms::start(&["secrets", "configmaps"]);
    let encrypted = kms.flag.clone();
    let flags: Vec<&str> = flags.iter().copied().chain([encrypted.as_str()]).collect();
    let server = Server::start(&binary(), &flags).unwrap();
    let made = create(&server, "a");
    let folder = server.kill().unwrap();

    kms.plugin.stop();
    let server = Server::at_unready(folder, &binary(), &flags).unwrap();
    is_unavailable_and_kept(&server, "a", &made);
    assert_eq!(server.text("GET", "/readyz", "").unwrap().0, 500);
    let (status, _) = server.call("GET", AUTHENTICATION, &Value::Null).unwrap();
    assert_eq!(status, 503, "the start replaced an object of its own");
    kms.restart();
    until("absent, then back: the secret reads again", || get(&server, "a") == (200, made.clone()));
    until("absent, then back: the server is ready", || server.text("GET", "/readyz", "").unwrap().0 == 200);
    assert_eq!(server.call("GET", AUTHENTICATION, &Value::Null).unwrap().0, 200);
    let mut folder = server.kill().unwrap();

    for about in ["hanging", "refusing"] {
        match about {
            "hanging" => kms.plugin.set(|behaviour| behaviour.decrypt_delay = Duration::from_secs(60)),
            _ => kms.plugin.refuse_decrypts(Some("the vault is sealed")),
        }
        let begin = Instant::now();
        let server = Server::at_unready(folder, &binary(), &flags).unwrap();
        eprintln!("a start beside a plugin that is {about}: {:?}", begin.elapsed());
        assert!(begin.elapsed() < Duration::from_secs(20));
        is_unavailable_and_kept(&server, "a", &made);
        assert!(slowest_write(&server, about) < Duration::from_secs(2));
        kms.plugin.set(|behaviour| behaviour.decrypt_delay = Duration::ZERO);
        kms.plugin.refuse_decrypts(None);
        until("the secret reads again", || get(&server, "a") == (200, made.clone()));
        until("the server is ready", || server.text("GET", "/readyz", "").unwrap().0 == 200);
        folder = server.kill().unwrap();
    }
    let server = Server::at(folder, &binary(), &flags).unwrap();
    assert_eq!(get(&server, "a"), (200, made));
}

const AUTHENTICATION: &str = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";

#[test]
fn a_kms_plugin_that_fails_loses_nothing_in_the_data_directory() {
    plugin_that_fails_loses_nothing(&[]);
}

#[test]
fn a_kms_plugin_that_fails_loses_nothing_in_etcd() {
    let etcd = Etcd::start("etcd", 1, &["--unsafe-no-fsync"]).unwrap();
    plugin_that_fails_loses_nothing(&[&format!("--etcd-servers={}", etcd.endpoints().join(","))]);
}

/// One server writes with a seed that the other does not know, while the plugin hangs for it.
#[test]
fn two_servers_on_one_etcd_outlast_a_plugin_that_hangs() {
    let etcd = Etcd::start("etcd", 1, &["--unsafe-no-fsync"]).unwrap();
    // Secrets alone: what a server writes at its start would tell the other its key.
    let kms = Kms::start(&["secrets"]);
    let flags = [format!("--etcd-servers={}", etcd.endpoints().join(",")), kms.flag.clone()];
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let [one, two] = [(); 2].map(|()| Server::start(&binary(), &flags).unwrap());
    kms.plugin.set(|behaviour| behaviour.decrypt_delay = Duration::from_secs(60));
    let made = create(&one, "a");
    assert!(slowest_write(&two, "beside-a-hanging-plugin") < Duration::from_secs(2));
    is_unavailable_and_kept(&two, "a", &made);
    assert_eq!(get(&one, "a"), (200, made.clone()), "the server that wrote it knows its key");
    kms.plugin.set(|behaviour| behaviour.decrypt_delay = Duration::ZERO);
    until("the other server reads it", || get(&two, "a") == (200, made.clone()));
    let mut changed = made.clone();
    changed["data"]["k"] = json!(STANDARD.encode("another text"));
    let changed = replace(&two, &changed);
    assert_eq!(changed["metadata"]["uid"], made["metadata"]["uid"]);
    until("the first server reads what the other wrote", || get(&one, "a") == (200, changed.clone()));
}
