//! Forks of a running server, with kubectl and exact requests: what is theirs alone, what ends with them,
//! what is left of them, and how many there can be.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use testkit::{Cli, Etcd, Folder, Server, eventually};

const PATIENCE: Duration = Duration::from_secs(60);
const FORKS: &str = "/keelson/v1/forks";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

fn binary() -> PathBuf {
    testkit::server_binary(env!("CARGO_BIN_EXE_keelson"))
}

fn start(flags: &[&str]) -> Server {
    Server::start(&binary(), flags).unwrap()
}

/// Makes a request of the server that has to be answered with this status.
fn ask(server: &Server, method: &str, path: &str, body: &Value, wanted: u16) -> Value {
    let (status, answer) = server.call(method, path, body).unwrap();
    assert_eq!(status, wanted, "{method} {path}: {answer}");
    answer
}

/// A fork, by exact requests.
struct Fork<'s> {
    server: &'s Server,
    root: String,
}

impl<'s> Fork<'s> {
    fn make(server: &'s Server, request: &Value) -> Self {
        let made = ask(server, "POST", FORKS, request, 201);
        let url = made["server"].as_str().unwrap();
        let root =
            url.strip_prefix(server.url()).unwrap_or_else(|| panic!("{url} is not at {}", server.url()));
        Self { server, root: root.to_owned() }
    }

    fn named(server: &'s Server, name: &str) -> Self {
        Self::make(server, &json!({"name": name}))
    }

    fn ask(&self, method: &str, path: &str, body: &Value, wanted: u16) -> Value {
        ask(self.server, method, &format!("{}{path}", self.root), body, wanted)
    }

    fn get(&self, path: &str) -> Value {
        self.ask("GET", path, &Value::Null, 200)
    }

    fn status(&self, path: &str) -> u16 {
        self.server.text("GET", &format!("{}{path}", self.root), "").unwrap().0
    }

    /// The whole answer of a watch that the server ends.
    fn watch(&self, path: &str) -> Vec<Value> {
        let (status, text) = self.server.text("GET", &format!("{}{path}", self.root), "").unwrap();
        assert_eq!(status, 200, "{text}");
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

fn map(name: &str) -> Value {
    json!({"metadata": {"name": name}, "data": {"key": name}})
}

fn definition(plural: &str) -> Value {
    let kind = format!("{}{}", plural[..1].to_uppercase(), &plural[1..plural.len() - 1]);
    json!({"metadata": {"name": format!("{plural}.example.com")}, "spec": {
        "group": "example.com", "scope": "Namespaced", "names": {"plural": plural, "kind": kind},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
            "type": "object", "properties": {"spec": {"type": "object", "properties": {
                "size": {"type": "integer", "minimum": 1}}}}}}}]}})
}

fn custom(plural: &str, size: i64) -> Value {
    let kind = definition(plural)["spec"]["names"]["kind"].clone();
    json!({"apiVersion": "example.com/v1", "kind": kind, "metadata": {"name": "a"}, "spec": {"size": size}})
}

#[test]
fn fork_and_server_have_their_own_objects_from_the_fork_on() {
    let server = start(&[]);
    ask(&server, "POST", MAPS, &map("before"), 201);
    let (one, other) = (Fork::named(&server, "one"), Fork::named(&server, "other"));
    ask(&server, "POST", MAPS, &map("parent"), 201);
    one.ask("POST", MAPS, &map("one"), 201);
    one.ask("DELETE", &format!("{MAPS}/before"), &Value::Null, 200);
    let names = |list: Value| -> Vec<String> {
        let items = list["items"].as_array().unwrap().iter();
        let names = items.map(|item| item["metadata"]["name"].as_str().unwrap().to_owned());
        names.filter(|name| name != "kube-root-ca.crt").collect()
    };
    assert_eq!(names(one.get(MAPS)), ["one"]);
    assert_eq!(names(other.get(MAPS)), ["before"]);
    assert_eq!(names(ask(&server, "GET", MAPS, &Value::Null, 200)), ["before", "parent"]);

    // Revisions go on from the fork; history begins there.
    let revision =
        |value: &Value| value["metadata"]["resourceVersion"].as_str().unwrap().parse::<u64>().unwrap();
    let listed = other.get(MAPS);
    let made = other.ask("POST", MAPS, &map("other"), 201);
    assert!(revision(&made) > revision(&listed));
    let events =
        other.watch(&format!("{MAPS}?watch=1&timeoutSeconds=1&resourceVersion={}", revision(&listed)));
    let changed = |name: &str| events.iter().any(|event| event["object"]["metadata"]["name"] == name);
    assert!(changed("other") && !changed("one") && !changed("parent"), "{events:?}");
    let old = other.watch(&format!("{MAPS}?watch=1&timeoutSeconds=1&resourceVersion=1"));
    assert_eq!((&old[0]["type"], &old[0]["object"]["code"]), (&json!("ERROR"), &json!(410)), "{old:?}");

    // The whole API is there, and nothing about the process.
    for path in
        ["/api", "/apis", "/version", "/healthz", "/readyz", "/livez", "/openapi/v2", "/openapi/v3", "/"]
    {
        assert_eq!(other.status(path), 200, "{path}");
    }
    for path in ["/metrics", "/debug/pprof/", FORKS, "/nothing"] {
        assert_eq!(other.status(path), 404, "{path}");
    }
}

#[test]
fn list_shows_forks_and_a_drop_ends_their_watches() {
    let server = start(&[]);
    let fork = Fork::named(&server, "a");
    Fork::make(&server, &Value::Null);
    let listed = ask(&server, "GET", FORKS, &Value::Null, 200);
    assert_eq!((listed["items"].as_array().unwrap().len(), &listed["items"][0]["name"]), (2, &json!("a")));
    ask(&server, "POST", FORKS, &json!({"name": "a"}), 409);
    ask(&server, "POST", FORKS, &json!({"name": "A.b"}), 400);
    ask(&server, "POST", FORKS, &json!({"controllers": ["no-such-controller"]}), 400);
    let dropped = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watching = scope.spawn(|| {
            let path = format!("{}{MAPS}?watch=1&timeoutSeconds=300", fork.root);
            let (status, _) = server.text("GET", &path, "").unwrap();
            (status, dropped.load(Ordering::SeqCst))
        });
        // The watch is there when it has delivered a change.
        fork.ask("POST", MAPS, &map("a"), 201);
        std::thread::sleep(Duration::from_millis(300));
        dropped.store(true, Ordering::SeqCst);
        ask(&server, "DELETE", &format!("{FORKS}/a"), &Value::Null, 200);
        assert_eq!(watching.join().unwrap(), (200, true));
    });
    assert_eq!(fork.status(MAPS), 404);
    let metrics = server.text("GET", "/metrics", "").unwrap().1;
    assert!(metrics.contains("\nkeelson_forks 1\n"), "{metrics}");
}

#[test]
fn reset_brings_back_what_the_fork_began_with() {
    let server = start(&[]);
    ask(&server, "POST", MAPS, &map("kept"), 201);
    let fork = Fork::named(&server, "a");
    let before = fork.get(&format!("{MAPS}/kept"));
    fork.ask("DELETE", &format!("{MAPS}/kept"), &Value::Null, 200);
    let newest = fork.ask("POST", MAPS, &map("new"), 201)["metadata"]["resourceVersion"].clone();
    let again = ask(&server, "POST", &format!("{FORKS}/a/reset"), &Value::Null, 200);
    assert_eq!(again["name"], "a");
    assert_eq!(fork.get(&format!("{MAPS}/kept")), before);
    assert_eq!(fork.status(&format!("{MAPS}/new")), 404);
    // A watch that goes on from the life before has to begin anew.
    let newest = newest.as_str().unwrap();
    let old = fork.watch(&format!("{MAPS}?watch=1&timeoutSeconds=1&resourceVersion={newest}"));
    assert_eq!(old[0]["object"]["code"], json!(410), "{old:?}");
    ask(&server, "GET", &format!("{MAPS}/kept"), &Value::Null, 200);
}

#[test]
fn definitions_of_server_and_fork_are_their_own() {
    let server = start(&[]);
    ask(&server, "POST", DEFINITIONS, &definition("widgets"), 201);
    let fork = Fork::named(&server, "a");
    let of = |plural: &str| format!("/apis/example.com/v1/namespaces/default/{plural}");
    // Installed before the fork: served by both, and each changes its own.
    fork.ask("POST", &of("widgets"), &custom("widgets", 0), 422);
    fork.ask("POST", &of("widgets"), &custom("widgets", 1), 201);
    ask(&server, "GET", &format!("{}/a", of("widgets")), &Value::Null, 404);
    // Installed after it, on either side.
    fork.ask("POST", DEFINITIONS, &definition("gadgets"), 201);
    fork.ask("POST", &of("gadgets"), &custom("gadgets", 1), 201);
    ask(&server, "POST", DEFINITIONS, &definition("things"), 201);
    assert_eq!(server.text("GET", &of("gadgets"), "").unwrap().0, 404);
    assert_eq!(fork.status(&of("things")), 404);
    let documents = fork.get("/openapi/v3/apis/example.com/v1").to_string();
    assert!(documents.contains("com.example.v1.Gadget") && documents.contains("minimum"), "{documents}");
    // A definition that goes in the fork takes its objects along there alone.
    ask(&server, "POST", &of("widgets"), &custom("widgets", 5), 201);
    fork.ask("DELETE", &format!("{DEFINITIONS}/widgets.example.com"), &Value::Null, 200);
    eventually("the definition is gone", PATIENCE, || fork.status(&of("widgets")) == 404);
    assert_eq!(ask(&server, "GET", &format!("{}/a", of("widgets")), &Value::Null, 200)["spec"]["size"], 5);
    // The server changes the schema of the kind: the fork, begun anew, has the one before.
    ask(&server, "DELETE", &format!("{DEFINITIONS}/widgets.example.com"), &Value::Null, 200);
    ask(&server, "POST", &format!("{FORKS}/a/reset"), &Value::Null, 200);
    fork.ask("POST", &of("widgets"), &custom("widgets", 0), 422);
    let documents = fork.get("/openapi/v3/apis/example.com/v1").to_string();
    assert!(documents.contains("minimum") && !documents.contains("Gadget"), "{documents}");
}

#[test]
fn controllers_of_a_fork_work_in_it_alone() {
    let server = start(&[]);
    let namespaces = "/api/v1/namespaces";
    ask(&server, "POST", namespaces, &map("n"), 201);
    ask(&server, "POST", "/api/v1/namespaces/n/configmaps", &map("a"), 201);
    let (fork, still) = (Fork::named(&server, "a"), Fork::make(&server, &json!({"controllers": false})));
    let only = Fork::make(&server, &json!({"controllers": ["namespace-controller"]}));
    fork.ask("DELETE", "/api/v1/namespaces/n", &Value::Null, 200);
    still.ask("DELETE", "/api/v1/namespaces/n", &Value::Null, 200);
    only.ask("DELETE", "/api/v1/namespaces/n", &Value::Null, 200);
    for fork in [&fork, &only] {
        eventually("the namespace is gone", PATIENCE, || fork.status("/api/v1/namespaces/n") == 404);
    }
    assert_eq!(still.get("/api/v1/namespaces/n")["status"]["phase"], "Terminating");
    ask(&server, "GET", "/api/v1/namespaces/n/configmaps/a", &Value::Null, 200);

    // Workloads and garbage collection.
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    let deployment = json!({"metadata": {"name": "web"}, "spec": {"replicas": 2,
        "selector": {"matchLabels": {"app": "web"}}, "template": {"metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
    fork.ask("POST", deployments, &deployment, 201);
    let pods = "/api/v1/namespaces/default/pods";
    let count = |fork: &Fork<'_>| fork.get(pods)["items"].as_array().unwrap().len();
    eventually("there are two pods", PATIENCE, || count(&fork) == 2);
    fork.ask("DELETE", &format!("{deployments}/web?propagationPolicy=Foreground"), &Value::Null, 200);
    eventually("the pods are gone", PATIENCE, || count(&fork) == 0);
    assert_eq!((count(&still), count(&only)), (0, 0));
    assert_eq!(ask(&server, "GET", pods, &Value::Null, 200)["items"], json!([]));
}

/// A request with a token: its status and its answer.
fn as_user(server: &Server, token: &str, method: &str, path: &str) -> (u16, String) {
    let server = Server::running(server.url(), token, server.ca()).unwrap();
    server.text(method, path, "").unwrap()
}

fn token_of(answer: &Value) -> String {
    answer["status"]["token"].as_str().unwrap().to_owned()
}

#[test]
fn permissions_and_tokens_of_a_fork_are_its_own() {
    let folder = Folder::new().unwrap();
    let tokens = folder.path().join("more.csv");
    std::fs::write(&tokens, "jane-token,jane,jane-uid\n").unwrap();
    let server = start(&[&format!("--token-auth-file={}", tokens.display())]);
    let token_path = "/api/v1/namespaces/default/serviceaccounts/default/token";
    eventually("the account is there", PATIENCE, || {
        server.text("GET", token_path.trim_end_matches("/token"), "").unwrap().0 == 200
    });
    let fork = Fork::named(&server, "a");
    let other = Fork::named(&server, "b");
    let rest = |path: &str| format!("{}{path}", fork.root);

    // A user who may do nothing may do nothing in a fork, until the fork says otherwise.
    assert_eq!(as_user(&server, "jane-token", "GET", FORKS).0, 403);
    assert_eq!(as_user(&server, "jane-token", "GET", &rest(MAPS)).0, 403);
    assert_eq!(as_user(&server, "wrong", "GET", &rest(MAPS)).0, 401);
    assert_eq!(as_user(&server, "wrong", "GET", &format!("{FORKS}/none/server/api")).0, 401);
    assert_eq!(as_user(&server, "jane-token", "GET", &format!("{FORKS}/none/server/api")).0, 403);
    let binding = json!({"metadata": {"name": "jane"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jane"}]});
    fork.ask("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", &binding, 201);
    assert_eq!(as_user(&server, "jane-token", "GET", &rest(MAPS)).0, 200);
    assert_eq!(as_user(&server, "jane-token", "GET", MAPS).0, 403);
    assert_eq!(as_user(&server, "jane-token", "GET", &format!("{}{MAPS}", other.root)).0, 403);

    // Tokens of a fork are of no use elsewhere; those of the server are accepted while their account is
    // there.
    let own = token_of(&fork.ask("POST", token_path, &json!({"spec": {}}), 201));
    let of_server = token_of(&ask(&server, "POST", token_path, &json!({"spec": {}}), 201));
    let api = "/apis";
    assert_eq!(as_user(&server, &own, "GET", &rest(api)).0, 200);
    assert_eq!(as_user(&server, &own, "GET", api).0, 401);
    assert_eq!(as_user(&server, &own, "GET", &format!("{}{api}", other.root)).0, 401);
    assert_eq!(as_user(&server, &of_server, "GET", &rest(api)).0, 200);
    fork.ask("DELETE", token_path.trim_end_matches("/token"), &Value::Null, 200);
    eventually("the account is another one", PATIENCE, || {
        as_user(&server, &of_server, "GET", &rest(api)).0 == 401
    });
    assert_eq!(as_user(&server, &of_server, "GET", api).0, 200);
    let keys = fork.get("/openid/v1/jwks");
    assert_eq!(keys["keys"].as_array().unwrap().len(), 2, "{keys}");
}

fn keelson(arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(binary()).args(arguments).stdin(Stdio::null()).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
}

fn data_dir(folder: &Path) -> String {
    format!("--data-dir={}", folder.join("data").display())
}

#[test]
fn commands_make_list_save_and_end_forks() {
    let server = start(&[]);
    let data = data_dir(server.folder());
    ask(&server, "POST", MAPS, &map("before"), 201);
    let made = keelson(&["fork", "a", &data]).unwrap();
    let path = made.lines().find_map(|line| line.strip_prefix("kubeconfig: ")).unwrap().to_owned();
    assert!(made.contains("name:       a\n") && made.contains("/keelson/v1/forks/a/server\n"), "{made}");
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&path).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    assert!(keelson(&["fork", "a", &data]).unwrap_err().contains("already exists"));

    // What a person does with it.
    let kubectl = Cli::new(testkit::tool("kubectl").unwrap(), &server);
    let kubectl = kubectl.with(&["--kubeconfig", &path]);
    kubectl.ok(&["create", "configmap", "mine", "--from-literal=a=b"]).unwrap();
    kubectl.ok(&["create", "deployment", "web", "--image=i", "--replicas=2"]).unwrap();
    let names = kubectl.ok(&["get", "configmaps", "-o", "name"]).unwrap();
    assert!(names.contains("configmap/before\n") && names.contains("configmap/mine\n"), "{names}");
    kubectl.ok(&["explain", "deployment.spec.replicas"]).unwrap();
    kubectl.ok(&["auth", "can-i", "create", "pods"]).unwrap();
    eventually("kubectl sees the pods", PATIENCE, || {
        kubectl.ok(&["get", "pods", "-o", "name"]).unwrap().lines().count() == 2
    });
    assert_eq!(server.text("GET", &format!("{MAPS}/mine"), "").unwrap().0, 404);

    let backup = server.folder().join("backup").display().to_string();
    let said = keelson(&["fork", "--backup", &backup, "a", &data]).unwrap();
    assert!(said.contains("objects; revision "), "{said}");
    let listed = keelson(&["forks", &data]).unwrap();
    assert!(listed.lines().count() == 2 && listed.contains("/keelson/v1/forks/a/server"), "{listed}");
    assert_eq!(keelson(&["reset", "a", &data]).unwrap(), "a begins anew\n");
    assert!(kubectl.fails(&["get", "configmap", "mine"]).unwrap().contains("NotFound"));
    assert_eq!(keelson(&["drop", "a", &data]).unwrap(), "a was dropped\n");
    assert!(!Path::new(&path).exists());
    assert!(keelson(&["drop", "a", &data]).unwrap_err().contains("forks \"a\" not found"));
    assert!(keelson(&["reset", &data]).unwrap_err().contains("name of a fork"));

    // A fork becomes a data directory.
    let folder = server.stop().unwrap();
    let again = Folder::new().unwrap();
    let restored = data_dir(again.path());
    // Keys are no part of a backup.
    let (from, to) = (folder.path().join("data/pki"), again.path().join("data/pki"));
    std::fs::create_dir_all(&to).unwrap();
    for file in std::fs::read_dir(&from).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), to.join(file.file_name())).unwrap();
    }
    keelson(&["restore", &backup, &restored]).unwrap();
    let server = Server::at(again, &binary(), &[]).unwrap();
    ask(&server, "GET", &format!("{MAPS}/mine"), &Value::Null, 200);
    ask(&server, "POST", MAPS, &map("later"), 201);
    drop(folder);
    assert!(keelson(&["forks", "--data-dir=/nowhere"]).unwrap_err().contains("no server uses /nowhere"));
}

#[test]
fn nothing_is_left_of_forks_after_a_crash_and_the_server_loses_nothing() {
    let server = start(&[]);
    let data = data_dir(server.folder());
    keelson(&["fork", "left", &data]).unwrap();
    let (written, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let (server, written, stop) = (&server, &written, &stop);
        for worker in 0..3 {
            scope.spawn(move || {
                let mut turn = 0;
                while !stop.load(Ordering::SeqCst) {
                    let name = format!("f{worker}-{turn}");
                    let path = format!("{FORKS}/{name}");
                    let steps = [
                        ("POST", FORKS.to_owned(), json!({"name": name})),
                        ("POST", format!("{path}/server{MAPS}"), map("x")),
                        ("POST", format!("{path}/reset"), Value::Null),
                        ("DELETE", path, Value::Null),
                    ];
                    for (method, path, body) in steps {
                        // After the kill there is no answer.
                        drop(server.call(method, &path, &body));
                    }
                    turn += 1;
                }
            });
        }
        scope.spawn(move || {
            while !stop.load(Ordering::SeqCst) {
                let number = written.load(Ordering::SeqCst);
                let made = server.call("POST", MAPS, &map(&format!("m{number}")));
                if matches!(made, Ok((201, _))) {
                    written.store(number + 1, Ordering::SeqCst);
                }
            }
        });
        eventually("much is going on", PATIENCE, || written.load(Ordering::SeqCst) > 100);
        server.process().unwrap().signal(testkit::Signal::SIGKILL).unwrap();
        stop.store(true, Ordering::SeqCst);
    });
    let server = server.crash(&binary(), &[]).unwrap();
    let listed = ask(&server, "GET", MAPS, &Value::Null, 200);
    let count = listed["items"].as_array().unwrap().iter();
    let count = count.filter(|item| item["metadata"]["name"].as_str().unwrap().starts_with('m')).count();
    let acknowledged = written.load(Ordering::SeqCst);
    assert!(count == acknowledged || count == acknowledged + 1, "{count} of {acknowledged}");
    assert_eq!(ask(&server, "GET", FORKS, &Value::Null, 200)["items"], json!([]));
    assert!(!server.folder().join("data/forks").exists());
}

#[test]
fn two_hundred_forks_live_side_by_side() {
    let server = start(&[]);
    for number in 0..20 {
        ask(&server, "POST", MAPS, &map(&format!("shared-{number}")), 201);
    }
    // Controllers run in every tenth.
    let request =
        |number: usize| json!({"name": format!("f{number}"), "controllers": number.is_multiple_of(10)});
    let forks: Vec<_> = (0..200).map(|number| Fork::make(&server, &request(number))).collect();
    for (number, fork) in forks.iter().enumerate() {
        fork.ask("POST", MAPS, &map(&format!("own-{number}")), 201);
    }
    for (number, fork) in forks.iter().enumerate() {
        let text = fork.get(MAPS).to_string();
        assert_eq!(text.matches("\"name\":\"own-").count(), 1, "{text}");
        assert!(text.contains(&format!("\"name\":\"own-{number}\"")) && text.contains("shared-19"));
    }
    assert_eq!(server.text("GET", "/readyz", "").unwrap().0, 200);
    for number in 0..200 {
        ask(&server, "DELETE", &format!("{FORKS}/f{number}"), &Value::Null, 200);
    }
    eventually("their memory is given back", PATIENCE, || {
        let metrics = server.text("GET", "/metrics", "").unwrap().1;
        metrics.contains("\nkeelson_forks_memory_bytes 0\n")
    });
}

#[test]
fn forks_are_bounded_and_can_be_turned_off() {
    let server = start(&["--max-forks=2", "--forks-memory=2500Ki"]);
    let fork = Fork::make(&server, &json!({"name": "a", "controllers": false}));
    let filler = |name: &str| json!({"metadata": {"name": name}, "data": {"key": "x".repeat(500_000)}});
    fork.ask("POST", MAPS, &filler("a"), 201);
    let refused = fork.ask("POST", MAPS, &filler("b"), 429);
    assert!(refused["message"].as_str().unwrap().contains("the forks of this server are full"), "{refused}");
    ask(&server, "POST", MAPS, &filler("b"), 201);
    fork.ask("DELETE", &format!("{MAPS}/a"), &Value::Null, 200);
    Fork::named(&server, "b");
    ask(&server, "POST", FORKS, &Value::Null, 429);

    let server = start(&["--enable-forks=false"]);
    ask(&server, "POST", FORKS, &Value::Null, 404);
    assert!(
        keelson(&["fork", &data_dir(server.folder())]).unwrap_err().contains("does not know this request")
    );
}

#[test]
fn server_on_etcd_has_no_forks() {
    let etcd = Etcd::start("etcd", 1, &["--unsafe-no-fsync"]).unwrap();
    let server = start(&[&format!("--etcd-servers={}", etcd.endpoints().join(","))]);
    let refused = ask(&server, "POST", FORKS, &Value::Null, 501);
    assert_eq!(refused["reason"], "NotImplemented");
    assert!(refused["message"].as_str().unwrap().starts_with("a server on etcd has no forks"), "{refused}");
}
