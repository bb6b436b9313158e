//! Custom kinds in several versions: the binary beside a real HTTPS conversion webhook, which is well, slow,
//! dead, or wrong.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use testkit::Server;
use testkit::https::{Authority, HttpsServer, Reply, Request};

const PATIENCE: Duration = Duration::from_secs(40);
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const DEFINITION: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com";
const V1: &str = "/apis/example.com/v1/namespaces/default/widgets";
const V2: &str = "/apis/example.com/v2/namespaces/default/widgets";

fn binary() -> PathBuf {
    testkit::server_binary(env!("CARGO_BIN_EXE_keelson"))
}

/// How the webhook is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Up,
    Slow(Duration),
    Dead,
    /// It refuses widgets that are called `bad`.
    Picky,
    /// It gives all objects another name.
    Renaming,
}

struct Webhook {
    server: HttpsServer,
    bundle: String,
    state: Arc<Mutex<State>>,
}

impl Webhook {
    fn start() -> Self {
        let authority = Authority::new().unwrap();
        let serving = authority.issue(&["127.0.0.1"]).unwrap();
        let state = Arc::new(Mutex::new(State::Up));
        let server = HttpsServer::start(&serving, None, {
            let state = state.clone();
            move |request| {
                let state = *state.lock().unwrap();
                match state {
                    State::Dead => Reply::Close,
                    State::Slow(time) => Reply::After(time, Box::new(answer(request, state))),
                    _ => answer(request, state),
                }
            }
        });
        Self { server: server.unwrap(), bundle: STANDARD.encode(&authority.certificate), state }
    }

    fn set(&self, state: State) {
        *self.state.lock().unwrap() = state;
    }

    /// How many objects were in each review.
    fn reviews(&self) -> Vec<usize> {
        let requests = self.server.requests();
        requests
            .iter()
            .map(|request| review(request)["request"]["objects"].as_array().unwrap().len())
            .collect()
    }

    /// A definition of widgets, which have `size` in `v1` and `extent` in `v2`.
    fn definition(&self, storage: &str, review_versions: &[&str]) -> Value {
        let version = |name: &str, field: &str| {
            let spec = json!({"type": "object", "properties": {field: {"type": "integer"}, "color": {"type": "string"}}});
            let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}});
            json!({"name": name, "served": true, "storage": name == storage, "schema": schema})
        };
        let client = json!({"url": format!("{}/convert", self.server.url()), "caBundle": self.bundle});
        let webhook = json!({"clientConfig": client, "conversionReviewVersions": review_versions});
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "widgets.example.com"},
            "spec": {
                "group": "example.com", "scope": "Namespaced",
                "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
                "versions": [version("v1", "size"), version("v2", "extent")],
                "conversion": {"strategy": "Webhook", "webhook": webhook}
            }
        })
    }
}

fn review(request: &Request) -> Value {
    serde_json::from_str(&request.body).unwrap()
}

/// Renames `size` to `extent` or back.
fn answer(request: &Request, state: State) -> Reply {
    let review = review(request);
    let desired = review["request"]["desiredAPIVersion"].clone();
    let (from, to) = if desired == "example.com/v2" { ("size", "extent") } else { ("extent", "size") };
    let mut objects = review["request"]["objects"].as_array().unwrap().clone();
    let mut result = json!({"status": "Success"});
    for object in &mut objects {
        object["apiVersion"] = desired.clone();
        if let Some(spec) = object["spec"].as_object_mut()
            && let Some(number) = spec.remove(from)
        {
            spec.insert(to.to_owned(), number);
        }
        match state {
            State::Picky if object["metadata"]["name"] == "bad" => {
                result = json!({"status": "Failure", "message": "bad is not good"});
            }
            State::Renaming => object["metadata"]["name"] = json!("other"),
            _ => object["spec"]["unknown"] = json!("to both schemas"),
        }
    }
    let response = json!({"uid": review["request"]["uid"], "convertedObjects": objects, "result": result});
    let (kind, version) = (&review["kind"], &review["apiVersion"]);
    Reply::ok(json!({"kind": kind, "apiVersion": version, "response": response}).to_string())
}

#[derive(Debug)]
struct Response {
    code: u16,
    body: String,
}

impl Response {
    fn says(self, code: u16, part: &str) -> Self {
        assert!(self.code == code && self.body.contains(part), "{code} {part}: {self:?}");
        self
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }
}

fn send(server: &Server, method: &str, path: &str, headers: &str, body: &str) -> Response {
    let target = server.target().unwrap();
    let mut connection = target.connect(PATIENCE).unwrap();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\n{headers}Content-Length: {}\r\n\r\n{body}",
        target.authority(),
        server.token(),
        body.len()
    );
    connection.send(request.as_bytes()).unwrap();
    let mut head = connection.head(method).unwrap();
    let body = connection.body(&mut head).unwrap();
    Response { code: head.status, body: String::from_utf8(body).unwrap() }
}

fn call(server: &Server, method: &str, path: &str, body: &str) -> Response {
    let ty = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    send(server, method, path, &format!("Content-Type: {ty}\r\n"), body)
}

fn get(server: &Server, path: &str) -> Response {
    call(server, "GET", path, "")
}

fn widget(name: &str, version: &str, field: &str, number: i64) -> Value {
    json!({
        "apiVersion": format!("example.com/{version}"), "kind": "Widget",
        "metadata": {"name": name}, "spec": {field: number}
    })
}

fn create(server: &Server, path: &str, object: &Value) -> Response {
    call(server, "POST", path, &object.to_string()).says(201, "")
}

/// A server with widgets.
fn start(webhook: &Webhook, storage: &str) -> Server {
    let server = Server::start(&binary(), &[]).unwrap();
    create(&server, DEFINITIONS, &webhook.definition(storage, &["v1"]));
    server
}

/// Makes another version the storage version.
fn flip(server: &Server, storage: &str) {
    let now = get(server, DEFINITION).json();
    let patch =
        ["v1", "v2"].iter().zip(now["spec"]["versions"].as_array().unwrap()).map(|(name, version)| {
            let mut version = version.clone();
            version["storage"] = json!(*name == storage);
            version
        });
    let patch = json!({"spec": {"versions": patch.collect::<Vec<_>>()}});
    call(server, "PATCH", DEFINITION, &patch.to_string()).says(200, storage);
}

/// Waits until something is true.
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn objects_are_read_and_written_in_both_versions() {
    for review_version in ["v1", "v1beta1"] {
        let webhook = Webhook::start();
        let server = Server::start(&binary(), &[]).unwrap();
        create(&server, DEFINITIONS, &webhook.definition("v1", &["v7", review_version]));
        create(&server, V1, &widget("a", "v1", "size", 1));
        assert!(webhook.reviews().is_empty());
        let made = create(&server, V2, &widget("b", "v2", "extent", 2));
        // What the webhook adds, the schema takes out again.
        assert_eq!(made.json()["spec"], json!({"extent": 2}));
        for (name, number) in [("a", 1), ("b", 2)] {
            assert_eq!(get(&server, &format!("{V1}/{name}")).json()["spec"], json!({"size": number}));
            assert_eq!(get(&server, &format!("{V2}/{name}")).json()["spec"], json!({"extent": number}));
        }
        call(&server, "PATCH", &format!("{V2}/a"), r#"{"spec":{"extent":3}}"#).says(200, r#""extent":3"#);
        get(&server, &format!("{V1}/a")).says(200, r#""size":3"#);
        let review = review(&webhook.server.requests()[0]);
        assert_eq!(review["apiVersion"], format!("apiextensions.k8s.io/{review_version}"));
    }
}

#[test]
fn lists_and_watches_convert_in_groups() {
    let webhook = Webhook::start();
    let server = start(&webhook, "v1");
    for number in 0..100 {
        create(&server, V1, &widget(&format!("w{number:03}"), "v1", "size", number));
    }
    assert!(webhook.reviews().is_empty());
    let list = get(&server, V2).json();
    let numbers = list["items"].as_array().unwrap().iter().map(|item| item["spec"]["extent"].as_i64());
    assert_eq!(numbers.collect::<Vec<_>>(), (0..100).map(Some).collect::<Vec<_>>());
    let reviews = webhook.reviews();
    assert!(reviews.len() <= 4, "{reviews:?}");
    let events = get(&server, &format!("{V2}?watch=1&timeoutSeconds=1"));
    assert_eq!(events.body.matches(r#""extent":"#).count(), 100);
    assert!(webhook.reviews().len() <= reviews.len() + 4, "{:?}", webhook.reviews());
}

#[test]
fn faults_of_the_webhook_are_told() {
    let webhook = Webhook::start();
    let server = start(&webhook, "v1");
    create(&server, V1, &widget("a", "v1", "size", 1));
    create(&server, V1, &widget("bad", "v1", "size", 2));
    let of = "conversion webhook for example.com/v1, Kind=Widget";
    webhook.set(State::Picky);
    let status = get(&server, &format!("{V2}/bad")).says(500, "").json();
    assert_eq!(status["message"], format!("{of} failed: bad is not good"));
    assert_eq!(status["reason"], Value::Null);
    get(&server, &format!("{V2}/a")).says(200, r#""extent":1"#);
    // One object that cannot be converted is the end of a list and of a watch.
    get(&server, V2).says(500, "failed: bad is not good");
    let events = get(&server, &format!("{V2}?watch=1&timeoutSeconds=1"));
    events.says(200, r#"{"type":"ERROR","object":{"kind":"Status""#).says(200, "bad is not good");
    // It cannot be deleted through the version that it cannot be converted to.
    for path in [format!("{V2}/bad"), V2.to_owned()] {
        call(&server, "DELETE", &path, "").says(500, "failed: bad is not good");
    }
    get(&server, &format!("{V1}/bad")).says(200, r#""size":2"#);
    webhook.set(State::Renaming);
    get(&server, &format!("{V2}/a"))
        .says(500, &format!("{of} returned invalid object: must have the same name: a != other"));
    webhook.set(State::Dead);
    get(&server, &format!("{V2}/a")).says(500, &format!("{of} failed: Post "));
    call(&server, "POST", V2, &widget("c", "v2", "extent", 3).to_string())
        .says(500, "conversion webhook for example.com/v2, Kind=Widget failed: Post ");
    get(&server, &format!("{V1}/c")).says(404, "");
    // The version that is stored needs no webhook.
    get(&server, V1).says(200, r#""size":2"#);
    call(&server, "PATCH", &format!("{V1}/a"), r#"{"spec":{"size":5}}"#).says(200, r#""size":5"#);
    webhook.set(State::Slow(Duration::from_millis(700)));
    get(&server, &format!("{V2}/a")).says(200, r#""extent":5"#);
    webhook.set(State::Slow(Duration::from_secs(60)));
    let begin = Instant::now();
    let late = get(&server, &format!("{V2}/a?timeout=2s"));
    assert!(late.code >= 500 && begin.elapsed() < Duration::from_secs(10), "{late:?} {:?}", begin.elapsed());
}

#[test]
fn flipped_storage_version_is_written_by_the_next_write() {
    let webhook = Webhook::start();
    let server = start(&webhook, "v1");
    create(&server, V1, &widget("a", "v1", "size", 1));
    create(&server, V1, &widget("b", "v1", "size", 2));
    flip(&server, "v2");
    create(&server, V2, &widget("c", "v2", "extent", 3));
    let stored = get(&server, DEFINITION).json()["status"]["storedVersions"].clone();
    assert_eq!(stored, json!(["v1", "v2"]));
    // An unchanged PUT moves an object to the storage version.
    let same = get(&server, &format!("{V2}/a"));
    let before = same.json()["metadata"]["resourceVersion"].clone();
    let moved = call(&server, "PUT", &format!("{V2}/a"), &same.body).says(200, r#""extent":1"#).json();
    assert_ne!(moved["metadata"]["resourceVersion"], before);
    let again = call(&server, "PUT", &format!("{V2}/a"), &moved.to_string()).says(200, "").json();
    assert_eq!(again["metadata"]["resourceVersion"], moved["metadata"]["resourceVersion"]);
    webhook.set(State::Dead);
    get(&server, &format!("{V2}/a")).says(200, r#""extent":1"#);
    get(&server, &format!("{V1}/b")).says(200, r#""size":2"#);
    get(&server, &format!("{V1}/a")).says(500, "conversion webhook");
    get(&server, &format!("{V2}/b")).says(500, "conversion webhook");
}

#[test]
fn server_side_apply_works_across_versions() {
    let webhook = Webhook::start();
    let server = start(&webhook, "v1");
    let apply = |path: &str, manager: &str, object: &Value, force: &str| {
        let path = format!("{path}/a?fieldManager={manager}{force}");
        send(&server, "PATCH", &path, "Content-Type: application/apply-patch+yaml\r\n", &object.to_string())
    };
    apply(V1, "one", &widget("a", "v1", "size", 1), "").says(201, r#""size":1"#);
    apply(V2, "two", &widget("a", "v2", "extent", 2), "").says(409, "conflict with \\\"one\\\": .spec.size");
    apply(V2, "two", &widget("a", "v2", "extent", 2), "&force=true").says(200, r#""extent":2"#);
    let mut color = widget("a", "v1", "size", 2);
    color["spec"] = json!({"color": "red"});
    apply(V1, "one", &color, "").says(200, r#""size":2"#).says(200, r#""color":"red""#);
    // The field that the manager of the other version does not name any more goes.
    let mut nothing = widget("a", "v2", "extent", 2);
    nothing["spec"] = json!({});
    let left = apply(V2, "two", &nothing, "").says(200, "").json();
    assert_eq!(left["spec"], json!({"color": "red"}));
}

const PARTIAL: &str = "Accept: application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1\r\n";

#[test]
fn dead_webhook_does_not_stop_work_on_metadata_nor_the_start() {
    let webhook = Webhook::start();
    let server = start(&webhook, "v1");
    let space = "/api/v1/namespaces/space";
    create(&server, "/api/v1/namespaces", &json!({"metadata": {"name": "space"}}));
    let owner =
        create(&server, "/api/v1/namespaces/default/configmaps", &json!({"metadata": {"name": "owner"}}));
    let uid = owner.json()["metadata"]["uid"].clone();
    let reference =
        |name: &str, uid: &Value| json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid});
    let mut owned = widget("owned", "v1", "size", 1);
    owned["metadata"]["ownerReferences"] = json!([reference("owner", &uid)]);
    create(&server, V1, &owned);
    // Of two owners one is gone: the reference is taken out.
    let other =
        create(&server, "/api/v1/namespaces/default/configmaps", &json!({"metadata": {"name": "other"}}));
    let mut shared = widget("shared", "v1", "size", 1);
    shared["metadata"]["ownerReferences"] =
        json!([reference("owner", &uid), reference("other", &other.json()["metadata"]["uid"])]);
    create(&server, V1, &shared);
    // It waits for its dependents.
    let parent = create(&server, V1, &widget("parent", "v1", "size", 1)).json();
    let mut child = widget("child", "v1", "size", 1);
    child["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "example.com/v2", "kind": "Widget", "name": "parent", "uid": parent["metadata"]["uid"],
        "blockOwnerDeletion": true
    }]);
    create(&server, V1, &child);
    create(&server, &V1.replace("default", "space"), &widget("inside", "v1", "size", 1));
    create(&server, V1, &widget("last", "v1", "size", 1));
    // From now on every object is in the version before, which is not served, and the webhook is dead.
    flip(&server, "v2");
    let mut definition = get(&server, DEFINITION).json();
    definition["spec"]["versions"][0]["served"] = json!(false);
    call(&server, "PUT", DEFINITION, &definition.to_string()).says(200, "");
    webhook.set(State::Dead);
    let server = server.crash(&binary(), &[]).unwrap();
    until("the kind is served after the start", || send(&server, "GET", V2, PARTIAL, "").code == 200);
    let asked = webhook.reviews().len();
    let list = send(&server, "GET", V2, PARTIAL, "").json();
    assert_eq!(list["items"].as_array().unwrap().len(), 5, "{list}");
    call(&server, "DELETE", "/api/v1/namespaces/default/configmaps/owner", "").says(200, "");
    let names = || {
        let list = send(&server, "GET", V2, PARTIAL, "").json();
        let items = list["items"].as_array().unwrap().clone();
        items.iter().map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    until("the object of an owner that is gone is collected", || !names().contains(&"owned".to_owned()));
    until("the reference to an owner that is gone is taken out", || {
        let list = send(&server, "GET", V2, PARTIAL, "").json();
        let shared =
            list["items"].as_array().unwrap().iter().find(|item| item["metadata"]["name"] == "shared");
        shared.unwrap()["metadata"]["ownerReferences"].as_array().unwrap().len() == 1
    });
    assert_eq!(webhook.reviews().len(), asked, "nothing was converted");
    // What is shown would be converted; what is done is done.
    let foreground = r#"{"kind":"DeleteOptions","apiVersion":"v1","propagationPolicy":"Foreground"}"#;
    call(&server, "DELETE", &format!("{V2}/parent"), foreground).says(500, "conversion webhook");
    until("an owner and its dependent are deleted", || names() == ["last", "shared"]);
    call(&server, "DELETE", &format!("{V2}/last"), "").says(200, r#""status":"Success""#);
    call(&server, "DELETE", space, "").says(200, "");
    until("the namespace is deleted", || get(&server, space).code == 404);
    call(&server, "DELETE", DEFINITION, "").says(200, "");
    until("the definition is deleted", || get(&server, DEFINITION).code == 404);
    until("the kind is not served any more", || get(&server, V2).code == 404);
}
