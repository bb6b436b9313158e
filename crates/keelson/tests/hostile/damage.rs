//! Stored bytes that are damaged: what can be read is served, and a write or an unsafe delete replaces the
//! rest.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use testkit::{Folder, Process};

use super::{Caller, OnDirectory, binary};

/// A data directory that outlives its servers.
struct Durable(Folder);

impl Durable {
    fn new() -> Self {
        Self(Folder::new().unwrap())
    }

    fn data(&self) -> PathBuf {
        self.0.path().join("data")
    }

    fn start(&self) -> (Process, Caller) {
        self.start_with(&[])
    }

    fn start_with(&self, flags: &[&str]) -> (Process, Caller) {
        let OnDirectory { process, caller } =
            OnDirectory::start(&binary(), &self.0, &self.data(), &[&["--controllers=-*"], flags].concat())
                .unwrap();
        (process, caller)
    }
}

/// Flips a bit in every place below a directory where `needle` is stored.
fn damage(directory: &Path, needle: &[u8]) -> usize {
    let mut places = 0;
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            places += damage(&path, needle);
            continue;
        }
        let mut bytes = std::fs::read(&path).unwrap();
        let found: Vec<usize> = bytes
            .windows(needle.len())
            .enumerate()
            .filter(|(_, window)| *window == needle)
            .map(|(at, _)| at)
            .collect();
        for at in &found {
            bytes[at + needle.len() / 2] ^= 4;
        }
        if !found.is_empty() {
            std::fs::write(&path, &bytes).unwrap();
            places += found.len();
        }
    }
    places
}

fn uid(caller: &mut Caller, path: &str) -> String {
    let answer = caller.ask("GET", path, b"");
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    answer.json()["metadata"]["uid"].as_str().unwrap().to_owned()
}

fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"k": "v".repeat(2000)}})
}

const MAPS: &str = "/api/v1/namespaces/other/configmaps";

/// Makes config maps in a namespace of their own, and damages one of them.
fn with_damaged(durable: &Durable) -> (Process, Caller) {
    let (process, mut caller) = durable.start();
    let namespace = json!({"metadata": {"name": "other"}}).to_string();
    assert_eq!(caller.ask("POST", "/api/v1/namespaces", namespace.as_bytes()).status, 201);
    for name in ["a", "b", "c"] {
        let answer = caller.ask("POST", MAPS, config_map(name).to_string().as_bytes());
        assert_eq!(answer.status, 201, "{}", answer.text());
    }
    let uid = uid(&mut caller, &format!("{MAPS}/b"));
    assert_eq!(process.terminate().unwrap().code, Some(0));
    assert!(damage(&durable.data().join("store"), uid.as_bytes()) > 0, "the object is stored nowhere");
    durable.start()
}

/// What is left of a damaged object: errors that name it, and everything beside it.
fn is_named(caller: &mut Caller) {
    for method in ["GET", "DELETE"] {
        let answer = caller.ask(method, &format!("{MAPS}/b"), b"");
        assert_eq!((answer.status, &answer.json()["reason"]), (500, &json!("InternalError")));
        let said = "Internal error occurred: StorageError: corrupt object, Code: 7, Key: /configmaps/other/b, \
                    ResourceVersion: 0, AdditionalErrorMsg: data from the storage is not transformable revision=0: \
                    the stored object configmaps/other/b";
        assert!(answer.json()["message"].as_str().unwrap().starts_with(said), "{}", answer.text());
        for list in [MAPS.to_owned(), format!("{MAPS}?watch=true")] {
            let answer = caller.ask(method, &list, b"");
            let status = answer.json();
            assert_eq!((answer.status, &status["reason"]), (500, &json!("StorageReadError")), "{status}");
            assert_eq!(status["message"], "failed to read one or more configmaps from the storage");
            assert_eq!(status["details"]["causes"][0]["field"], "/registry/configmaps/other/b");
        }
    }
    for list in [format!("{MAPS}?limit=1"), "/api/v1/namespaces/default/configmaps".to_owned()] {
        let answer = caller.ask("GET", &list, b"");
        assert_eq!(answer.status, 200, "{list}: {}", answer.text());
    }
    for name in ["a", "c"] {
        assert_eq!(caller.ask("GET", &format!("{MAPS}/{name}"), b"").status, 200);
    }
    let ready = caller.ask("GET", "/readyz?verbose", b"");
    assert_eq!(ready.status, 200, "{}", ready.text());
    assert!(ready.text().contains("warn: the stored object configmaps/other/b"), "{}", ready.text());
    let patch = caller.ask_as(
        "PATCH",
        &format!("{MAPS}/b"),
        "application/json",
        "application/merge-patch+json",
        br#"{"data":{"k":"w"}}"#,
    );
    assert_eq!(patch.status, 500, "{}", patch.text());
    assert!(patch.text().contains("repairs that"), "{}", patch.text());
}

fn is_replaced(caller: &mut Caller, left: &[&str]) {
    let list = caller.ask("GET", MAPS, b"");
    assert_eq!(list.status, 200, "{}", list.text());
    let list = list.json();
    let names: Vec<_> =
        list["items"].as_array().unwrap().iter().map(|item| &item["metadata"]["name"]).collect();
    assert_eq!(names, left);
    let ready = caller.ask("GET", "/readyz?verbose", b"");
    assert!(!ready.text().contains("warn:"), "{}", ready.text());
}

#[test]
fn only_an_unsafe_delete_removes_what_cannot_be_read() {
    const OPTION: &str = "ignoreStoreReadErrorWithClusterBreakingPotential";
    let durable = Durable::new();
    let (process, mut caller) = with_damaged(&durable);
    is_named(&mut caller);
    let path = format!("{MAPS}/b");
    let without_gate = caller.ask("DELETE", &format!("{path}?{OPTION}=true"), b"");
    assert_eq!(without_gate.status, 500, "{}", without_gate.text());
    drop(process);
    let gate = ["--feature-gates=AllowUnsafeMalformedObjectDeletion=true"];
    let (process, mut caller) = durable.start_with(&gate);
    is_named(&mut caller);
    let before = caller.ask("GET", "/api/v1/namespaces", b"").json();
    let before = before["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    for refused in [format!("{path}?{OPTION}=true&gracePeriodSeconds=0"), format!("{MAPS}/a?{OPTION}=true")] {
        assert_eq!(caller.ask("DELETE", &refused, b"").status, 422, "{refused}");
    }
    let deleted = caller.ask("DELETE", &path, format!(r#"{{"{OPTION}":true}}"#).as_bytes());
    assert_eq!(deleted.status, 200, "{}", deleted.text());
    assert_eq!(deleted.json()["details"], json!({"name": "b", "kind": "ConfigMap"}));
    is_replaced(&mut caller, &["a", "c"]);
    let watch = format!("{MAPS}?watch=true&resourceVersion={before}&timeoutSeconds=1");
    let event = caller.ask("GET", &watch, b"").json();
    assert_eq!((&event["type"], &event["object"]["reason"]), (&json!("ERROR"), &json!("StorageReadError")));
    let said = event["object"]["message"].as_str().unwrap();
    assert!(said.starts_with("saw a DELETED event, but object data is corrupt - "), "{event}");
    drop(process);
    let (_process, mut caller) = durable.start();
    is_replaced(&mut caller, &["a", "c"]);
}

#[test]
fn create_put_and_apply_replace_what_cannot_be_read() {
    for method in ["POST", "PUT", "PATCH"] {
        let durable = Durable::new();
        let (process, mut caller) = with_damaged(&durable);
        is_named(&mut caller);
        let path = format!("{MAPS}/b");
        let mut object = config_map("b");
        let answer = match method {
            "POST" => caller.ask(method, MAPS, object.to_string().as_bytes()),
            "PUT" => {
                object["metadata"]["resourceVersion"] = "1".into();
                assert_eq!(caller.ask(method, &path, object.to_string().as_bytes()).status, 409);
                object["metadata"].as_object_mut().unwrap().remove("resourceVersion");
                object["metadata"]["uid"] = "00000000-0000-4000-8000-000000000000".into();
                caller.ask(method, &path, object.to_string().as_bytes())
            }
            _ => caller.ask_as(
                method,
                &format!("{path}?fieldManager=test"),
                "application/json",
                "application/apply-patch+yaml",
                object.to_string().as_bytes(),
            ),
        };
        assert_eq!(answer.status, 201, "{method}: {}", answer.text());
        if method == "PUT" {
            assert_eq!(answer.json()["metadata"]["uid"], "00000000-0000-4000-8000-000000000000");
        }
        is_replaced(&mut caller, &["a", "b", "c"]);
        drop(process);
        let (_process, mut caller) = durable.start();
        is_replaced(&mut caller, &["a", "b", "c"]);
    }
}

#[test]
fn start_goes_on_without_an_object_of_the_system() {
    for path in [
        "/api/v1/namespaces/default",
        "/api/v1/namespaces/kube-system",
        "/api/v1/namespaces/default/services/kubernetes",
        "/apis/scheduling.k8s.io/v1/priorityclasses/system-node-critical",
        "/apis/networking.k8s.io/v1/servicecidrs/kubernetes",
    ] {
        let durable = Durable::new();
        let (process, mut caller) = durable.start();
        let uid = uid(&mut caller, path);
        let copy = caller.ask("GET", path, b"").body;
        assert_eq!(process.terminate().unwrap().code, Some(0));
        assert!(damage(&durable.data().join("store"), uid.as_bytes()) > 0, "{path} is stored nowhere");
        let (process, mut caller) = durable.start();
        println!("{path}: ready {:.0} ms after exec", process.ready_after().as_secs_f64() * 1e3);
        assert_eq!(caller.ask("GET", path, b"").status, 500);
        let ready = caller.ask("GET", "/readyz?verbose", b"");
        assert!(ready.status == 200 && ready.text().contains("warn: the stored object"), "{}", ready.text());
        if path.ends_with("services/kubernetes") {
            // Its address is still taken, and by whom cannot be read.
            let address = "/apis/networking.k8s.io/v1/ipaddresses/10.0.0.1";
            assert_eq!(caller.ask("DELETE", address, b"").status, 200);
        }
        let replaced = caller.ask("PUT", path, &copy);
        assert_eq!(replaced.status, 201, "{path}: {}", replaced.text());
        assert_eq!(replaced.json()["metadata"]["uid"], uid.as_str());
        assert_eq!(caller.ask("GET", path, b"").status, 200);
        let log = process.terminate().unwrap().log;
        assert!(log.contains("cannot be read"), "{log}");
    }
}
