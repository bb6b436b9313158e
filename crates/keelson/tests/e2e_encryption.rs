//! Encryption at rest, in the data directory and in a real etcd.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
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
    assert_eq!(get(&server, "a"), (200, after));
    let server = server.crash(&binary(), &[&config(&folder, &["three"])]).unwrap();
    let (status, refused) = get(&server, "a");
    assert_eq!(status, 500, "{refused}");
    // What is not encrypted is not touched.
    assert_eq!(server.call("GET", "/api/v1/namespaces/default", &Value::Null).unwrap().0, 200);
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
