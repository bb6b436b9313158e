//! Requests that are recorded in front of one server and sent to another one.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use testkit::{Cli, Folder, Server, eventually};

const PATIENCE: Duration = Duration::from_secs(30);
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";
/// What must not be in a recording.
const HUSH: &str = "hush-hush-value";

fn binary() -> PathBuf {
    testkit::server_binary(env!("CARGO_BIN_EXE_keelson"))
}

fn server() -> Server {
    Server::start(&binary(), &["--storage=memory", "--controllers=-*"]).unwrap()
}

/// A recorder in front of a server.
struct Recorder {
    child: Child,
    folder: Folder,
    /// The server as its clients see it.
    proxy: Server,
}

impl Recorder {
    fn start(server: &Server) -> Self {
        let folder = Folder::new().unwrap();
        let (file, kubeconfig) = (folder.path().join("run.jsonl"), folder.path().join("proxy.kubeconfig"));
        let mut command = Command::new(binary());
        command.arg("record").arg("--to").arg(&file).arg("--kubeconfig").arg(server.kubeconfig());
        command.arg("--output").arg(&kubeconfig).stdin(Stdio::null());
        let child = command.spawn().unwrap();
        eventually("a kubeconfig for clients", PATIENCE, || kubeconfig.is_file());
        let text = fs::read_to_string(&kubeconfig).unwrap();
        let field = |name: &str| {
            let mut lines = text.lines().filter_map(|line| line.trim().strip_prefix(name));
            lines.next().unwrap().trim().trim_matches('"').to_owned()
        };
        let authority = folder.path().join("ca.crt");
        fs::write(&authority, STANDARD.decode(field("certificate-authority-data:")).unwrap()).unwrap();
        let proxy = Server::running(&field("server:"), &field("token:"), &authority).unwrap();
        Self { child, folder, proxy }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("run.jsonl")
    }

    fn call(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        self.proxy.call(method, path, body).unwrap()
    }

    /// Ends the recorder: what it has written.
    fn stop(mut self) -> (Folder, String) {
        let killed = Command::new("kill").arg(self.child.id().to_string()).status().unwrap();
        assert!(killed.success());
        eventually("the end of the recorder", PATIENCE, || self.child.try_wait().unwrap().is_some());
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
        let text = fs::read_to_string(self.file()).unwrap();
        (std::mem::replace(&mut self.folder, Folder::new().unwrap()), text)
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn replay(file: &Path, server: &Server) -> (Output, String) {
    let mut command = Command::new(binary());
    command.arg("replay").arg(file).arg("--kubeconfig").arg(server.kubeconfig()).arg("--wait=2s");
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stdout.clone()).unwrap() + &String::from_utf8_lossy(&output.stderr);
    (output, text)
}

/// What a client does: names, uids and revisions of answers are in later requests.
fn run(recorder: &Recorder) {
    let watch = format!("{CONFIG_MAPS}?watch=1&resourceVersion=");
    let (_, list) = recorder.call("GET", CONFIG_MAPS, &Value::Null);
    let revision = list["metadata"]["resourceVersion"].as_str().unwrap();
    let target = recorder.proxy.target().unwrap();
    let mut stream = target.connect(PATIENCE).unwrap();
    let request = format!(
        "GET {watch}{revision} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nAccept: application/vnd.kubernetes.protobuf;stream=watch\r\n\r\n",
        target.authority(),
        recorder.proxy.token()
    );
    stream.send(request.as_bytes()).unwrap();
    let mut head = stream.head("GET").unwrap();
    assert_eq!(head.header("content-type"), Some("application/json"), "no Protobuf is asked for");

    let body = json!({"metadata": {"generateName": "made-"}, "data": {"k": "v"}});
    let (status, made) = recorder.call("POST", CONFIG_MAPS, &body);
    assert_eq!(status, 201, "{made}");
    let name = made["metadata"]["name"].as_str().unwrap().to_owned();
    let path = format!("{CONFIG_MAPS}/{name}");
    let mut changed = made.clone();
    changed["data"]["k"] = json!("w");
    assert_eq!(recorder.call("PUT", &path, &changed).0, 200, "with the revision that was answered");
    assert_eq!(recorder.call("PUT", &path, &changed).0, 409, "which is not the newest any more");
    let owner =
        json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": made["metadata"]["uid"]}]);
    let owned = json!({"metadata": {"name": "owned", "ownerReferences": owner}});
    assert_eq!(recorder.call("POST", CONFIG_MAPS, &owned).0, 201);

    let secret = json!({"metadata": {"name": "s"}, "stringData": {"password": HUSH}, "data": {"other": STANDARD.encode(HUSH)}});
    assert_eq!(recorder.call("POST", SECRETS, &secret).0, 201);
    let (_, read) = recorder.call("GET", &format!("{SECRETS}/s"), &Value::Null);
    assert_eq!(read["data"]["password"], STANDARD.encode(HUSH), "the client gets what is there");
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    assert_eq!(recorder.call("POST", accounts, &json!({"metadata": {"name": "a"}})).0, 201);
    let (status, token) = recorder.call("POST", &format!("{accounts}/a/token"), &json!({"spec": {}}));
    assert_eq!(status, 201, "{token}");
    let review = json!({"spec": {"token": token["status"]["token"]}});
    let (_, review) = recorder.call("POST", "/apis/authentication.k8s.io/v1/tokenreviews", &review);
    assert_eq!(review["status"]["authenticated"], true);

    let precondition = json!({"preconditions": {"uid": made["metadata"]["uid"]}});
    assert_eq!(recorder.call("DELETE", &path, &precondition).0, 200);
    assert_eq!(recorder.call("GET", &path, &Value::Null).0, 404);
    assert_eq!(recorder.call("GET", "/healthz", &Value::Null).0, 200);
    let mut rest = Vec::new();
    for kind in ["ADDED", "MODIFIED", "ADDED", "DELETED"] {
        let line = stream.line(&mut head, &mut rest).unwrap().expect("an event");
        assert_eq!(serde_json::from_slice::<Value>(&line).unwrap()["type"], kind);
    }
}

#[test]
fn recording_is_replayed_on_another_server_with_the_same_answers() {
    let first = server();
    let recorder = Recorder::start(&first);
    run(&recorder);
    let token = recorder.proxy.token().to_owned();
    let (folder, text) = recorder.stop();
    for secret in [HUSH, &STANDARD.encode(HUSH), &token, first.token(), "Bearer"] {
        assert!(!text.contains(secret), "{secret} is in the recording");
    }
    assert!(text.contains("masked-1") && text.contains("\"type\":\"MODIFIED\""), "{text}");

    let second = server();
    let file = folder.path().join("run.jsonl");
    let (output, said) = replay(&file, &second);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("14 as recorded, 0 in other words, 0 otherwise; 0 requests left out"), "{said}");
    assert!(said.contains("4 events: 4 as recorded, 0 otherwise"), "{said}");

    // A second time, the objects are there already.
    let (output, said) = replay(&file, &second);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains(&format!("POST {SECRETS}\n")) && said.contains("wanted 201\n    got    409"),
        "{said}"
    );
}

#[test]
fn only_clients_with_the_token_of_the_recorder_are_let_in() {
    let first = server();
    let recorder = Recorder::start(&first);
    let stranger = Server::running(recorder.proxy.url(), first.token(), recorder.proxy.ca()).unwrap();
    let (status, refused) = stranger.call("GET", CONFIG_MAPS, &Value::Null).unwrap();
    assert_eq!((status, &refused["reason"]), (401, &json!("Unauthorized")));
    let (_, text) = recorder.stop();
    assert_eq!(text.lines().count(), 1, "what was refused is not recorded: {text}");
}

#[test]
fn kubectl_works_through_the_recorder() {
    let first = server();
    let recorder = Recorder::start(&first);
    let kubectl = Cli::new(testkit::tool("kubectl").unwrap(), &recorder.proxy);
    let manifest = recorder.folder.path().join("map.yaml");
    fs::write(&manifest, "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: applied\ndata:\n  k: v\n")
        .unwrap();
    let manifest = manifest.display().to_string();
    kubectl.ok(&["apply", "-f", &manifest]).unwrap();
    assert!(kubectl.ok(&["get", "configmaps"]).unwrap().contains("applied"));
    kubectl.ok(&["delete", "-f", &manifest]).unwrap();
    let (folder, text) = recorder.stop();
    assert!(text.contains("as=Table"), "{text}");
    let (output, said) = replay(&folder.path().join("run.jsonl"), &server());
    assert_eq!(output.status.code(), Some(0), "{said}");
}

#[test]
fn wrong_files_and_arguments_are_refused() {
    let folder = Folder::new().unwrap();
    let path = folder.path().join("x");
    fs::write(&path, "nonsense\n").unwrap();
    let path = path.display().to_string();
    for (arguments, says) in [
        (vec!["record"], "--to is needed; see keelson record --help"),
        (vec!["record", "--to=/x/y", "--kubeconfig", &path], "kubeconfig"),
        (vec!["replay", "--kubeconfig=k"], "a recording is needed"),
        (vec!["replay", &path, "--kubeconfig=k"], ":1: expected"),
    ] {
        let output = Command::new(binary()).args(&arguments).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && said.contains(says), "{arguments:?}: {said}");
    }
}
