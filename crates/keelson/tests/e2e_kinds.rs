//! The contract of kinds: every row that stores objects is made, read, changed, refused and removed in every
//! way that it announces.
//!
//! What to do comes from the rows (`kinds::all`), what to do it with from `kinds/fixtures.json`: for each
//! resource an object, a merge patch that changes it (`change`), one that makes its creation (`refused`) and
//! one that makes its update invalid (`refusedChange`), and one of its status, where it has that.
//! (Definitions of custom resources have no rules yet, and so no refused ones.)

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use kinds::{Action, Kind, Scope, Storage, Verb, Version, WrittenPart};
use serde_json::{Map, Value, json};
use testkit::Server;

const FIXTURES: &str = include_str!("kinds/fixtures.json");
const PATIENCE: Duration = Duration::from_secs(30);
const NAMESPACE: &str = "contract";
const MERGE: &str = "application/merge-patch+json";

/// Every version is served, and nothing but the kinds themselves decides about their objects.
const FLAGS: &[&str] = &[
    "--runtime-config=api/all=true",
    "--feature-gates=ClusterTrustBundle=true",
    "--controllers=-*",
    "--disable-admission-plugins=ServiceAccount,StorageObjectInUseProtection,TaintNodesByCondition",
    "--controllers=-*",
];

struct Api(Server);

struct Answer {
    status: u16,
    content_type: String,
    body: Vec<u8>,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }
}

impl Api {
    fn start() -> Self {
        let binary = testkit::server_binary(env!("CARGO_BIN_EXE_keelson"));
        let api = Self(Server::start(&binary, FLAGS).unwrap());
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
        let made = api.ok("POST", "/api/v1/namespaces", "application/json", &namespace);
        assert!(made.as_ref().err().is_none_or(|why| why.contains("AlreadyExists")), "{made:?}");
        api
    }

    fn send(&self, method: &str, path: &str, ty: &str, accept: &str, body: &[u8]) -> Answer {
        let target = self.0.target().unwrap();
        let mut connection = target.connect(PATIENCE).unwrap();
        let mut request = String::new();
        let _ = write!(
            request,
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nAccept: {accept}\r\nContent-Type: {ty}\r\nContent-Length: {}\r\n\r\n",
            target.authority(),
            self.0.token(),
            body.len()
        );
        let mut request = request.into_bytes();
        request.extend_from_slice(body);
        connection.send(&request).unwrap();
        let mut head = connection.head(method).unwrap();
        let body = connection.body(&mut head).unwrap();
        let content_type = head.header("content-type").unwrap_or_default().to_owned();
        Answer { status: head.status, content_type, body }
    }

    /// The object of a successful answer, or what went wrong.
    fn ok(&self, method: &str, path: &str, ty: &str, body: &Value) -> Result<Value, String> {
        let text = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        let answer = self.send(method, path, ty, "application/json", &text);
        match answer.status {
            200..=299 => Ok(answer.json()),
            status => Err(format!("{method} {path}: {status} {}", String::from_utf8_lossy(&answer.body))),
        }
    }

    /// Reads an object, and puts it back with a change.
    fn replace(&self, path: &str, change: &Value) -> Result<Value, String> {
        let mut outcome = Err(String::new());
        until_no_conflict(|| {
            let read = self.send("GET", path, "application/json", "application/json", &[]);
            let mut changed = read.json();
            merge(&mut changed, change);
            let body = changed.to_string().into_bytes();
            let put = self.send("PUT", path, "application/json", "application/json", &body);
            outcome = match put.status {
                200 => Ok(put.json()),
                code => Err(format!("PUT {path}: {code} {}", put.json())),
            };
            put
        });
        outcome
    }

    fn get(&self, path: &str) -> Result<Value, String> {
        self.ok("GET", path, "application/json", &Value::Null)
    }

    /// A write that is refused with the fields that are wrong.
    fn refused(&self, method: &str, path: &str, ty: &str, body: &Value) -> Result<(), String> {
        let answer = self.send(method, path, ty, "application/json", body.to_string().as_bytes());
        let status = answer.json();
        let causes = status["details"]["causes"].as_array().map_or(0, Vec::len);
        match (answer.status, causes) {
            (422, 1..) => Ok(()),
            (code, _) => Err(format!("{method} {path}: {code} where 422 was due: {status}")),
        }
    }
}

/// Tries again what lost a race with a controller.
fn until_no_conflict(mut attempt: impl FnMut() -> Answer) -> Answer {
    for _ in 0..5 {
        let answer = attempt();
        if answer.status != 409 {
            return answer;
        }
    }
    attempt()
}

/// A kind with its fixture.
struct Row {
    kind: &'static Kind,
    fixture: Value,
}

impl Row {
    /// All kinds that store objects.
    fn all() -> Vec<Self> {
        let text = FIXTURES.replace("{ns}", NAMESPACE);
        let fixtures: Vec<Value> = serde_json::from_str(&text).unwrap();
        let mut fixtures: BTreeMap<String, Value> = fixtures
            .into_iter()
            .map(|fixture| (fixture["resource"].as_str().unwrap().to_owned(), fixture))
            .collect();
        let stores = |kind: &&Kind| {
            kind.storage != Storage::Nowhere
                && [Verb::Create, Verb::Get].iter().all(|verb| kind.verbs.contains(verb))
        };
        let rows = kinds::all().filter(stores).map(|kind| {
            let name = resource(kind);
            let fixture = fixtures.remove(&name).unwrap_or_else(|| panic!("{name} has no fixture"));
            Self { kind, fixture }
        });
        let rows = rows.collect();
        assert!(fixtures.is_empty(), "these fixtures have no kind: {:?}", fixtures.keys());
        rows
    }

    fn name(&self) -> &str {
        self.fixture["object"]["metadata"]["name"].as_str().unwrap_or("contract-a")
    }

    fn collection_in(&self, version: &Version) -> String {
        let group = match self.kind.group {
            "" => format!("/api/{}", version.name),
            group => format!("/apis/{group}/{}", version.name),
        };
        match self.kind.scope {
            Scope::Cluster => format!("{group}/{}", self.kind.resource),
            Scope::Namespaced => format!("{group}/namespaces/{NAMESPACE}/{}", self.kind.resource),
        }
    }

    fn collection(&self) -> String {
        self.collection_in(&self.kind.versions[0])
    }

    fn path(&self) -> String {
        format!("{}/{}", self.collection(), self.name())
    }

    /// The object as a client sends it, with a patch.
    fn object(&self, patch: &Value) -> Value {
        let mut object = self.fixture["object"].clone();
        let version = &self.kind.versions[0];
        let api_version = kinds::api_version(self.kind.group, version.name).to_string();
        merge(
            &mut object,
            &json!({"apiVersion": api_version, "kind": self.kind.kind, "metadata": {"name": self.name()}}),
        );
        merge(&mut object, patch);
        object
    }

    fn create(&self, api: &Api) -> Result<Value, String> {
        api.ok("POST", &self.collection(), "application/json", &self.object(&Value::Null))
    }

    /// Deletes the object, and takes away what holds it up.
    fn delete(&self, api: &Api) -> Result<(), String> {
        api.ok("DELETE", &self.path(), "application/json", &json!({"gracePeriodSeconds": 0}))?;
        let Ok(left) = api.get(&self.path()) else { return Ok(()) };
        if left["metadata"]["deletionTimestamp"].is_null() {
            return Err(format!("{} is there after its deletion", self.path()));
        }
        let free = json!({"metadata": {"finalizers": null}});
        let _ = api.ok("PATCH", &self.path(), MERGE, &free);
        if self.kind.subresource("finalize").is_some() {
            let mut left = left;
            merge(&mut left, &json!({"spec": {"finalizers": null}}));
            api.ok("PUT", &format!("{}/finalize", self.path()), "application/json", &left)?;
        }
        match api.get(&self.path()) {
            Ok(left) => Err(format!("{} stays: {left}", self.path())),
            Err(_) => Ok(()),
        }
    }
}

fn resource(kind: &Kind) -> String {
    match kind.group {
        "" => kind.resource.to_owned(),
        group => format!("{group}/{}", kind.resource),
    }
}

/// Applies a merge patch.
fn merge(object: &mut Value, patch: &Value) {
    let Value::Object(fields) = patch else {
        if !patch.is_null() {
            *object = patch.clone();
        }
        return;
    };
    if !object.is_object() {
        *object = Value::Object(Map::new());
    }
    let map = object.as_object_mut().unwrap();
    for (key, value) in fields {
        match value {
            Value::Null => drop(map.remove(key)),
            value => merge(map.entry(key).or_insert(Value::Null), value),
        }
    }
}

/// Whether `whole` has everything of `part`; what a list has is compared as a whole.
fn has(whole: &Value, part: &Value) -> bool {
    match (whole, part) {
        (Value::Object(whole), Value::Object(part)) => part
            .iter()
            .all(|(key, value)| whole.get(key).is_some_and(|found| has(found, value)) || is_empty(value)),
        (Value::Array(whole), Value::Array(part)) => {
            whole.len() == part.len() && whole.iter().zip(part).all(|(whole, part)| has(whole, part))
        }
        (whole, part) => whole == part,
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Object(map) => map.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::Null | Value::Bool(false) => true,
        Value::Bool(true) | Value::String(_) => false,
    }
}

/// What a client asked for: everything but the status and the server's part of the metadata.
fn desired(object: &Value) -> Value {
    let mut object = object.clone();
    merge(
        &mut object,
        &json!({"status": null, "metadata": {"resourceVersion": null, "managedFields": null}}),
    );
    object
}

/// Runs a check for every kind, and reports all that fail.
fn each(check: impl Fn(&Api, &Row) -> Result<(), String>) {
    let api = Api::start();
    let mut faults = Vec::new();
    let rows = Row::all();
    for row in &rows {
        if let Err(why) = check(&api, row) {
            faults.push(format!("{}: {why}", resource(row.kind)));
            let _ = row.delete(&api);
        }
    }
    assert!(faults.is_empty(), "{} of {} kinds:\n{}", faults.len(), rows.len(), faults.join("\n"));
}

fn ensure(holds: bool, why: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(why()) }
}

#[test]
fn objects_are_made_read_changed_watched_and_removed() {
    each(|api, row| {
        let before = api.get(&row.collection())?["metadata"]["resourceVersion"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        let made = row.create(api)?;
        ensure(has(&made, &row.object(&Value::Null)), || {
            format!("what was made lacks what was sent: {made}")
        })?;
        let read = api.get(&row.path())?;
        ensure(desired(&read) == desired(&made), || format!("made {made}, read {read}"))?;
        let list = api.get(&row.collection())?;
        let items = list["items"].as_array().cloned().unwrap_or_default();
        let named = items.iter().any(|item| item["metadata"]["uid"] == made["metadata"]["uid"]);
        ensure(named, || format!("the list lacks it: {list}"))?;

        let change = &row.fixture["change"];
        let put = api.replace(&row.path(), change)?;
        ensure(has(&put, change), || format!("PUT lost the change: {put}"))?;
        let note = |text: &str| json!({"metadata": {"annotations": {"note": text}}});
        let merged = api.ok("PATCH", &row.path(), MERGE, &note("merge"))?;
        ensure(merged["metadata"]["annotations"]["note"] == "merge", || format!("merge patch: {merged}"))?;
        let strategic =
            api.ok("PATCH", &row.path(), "application/strategic-merge-patch+json", &note("strategic"))?;
        ensure(has(&strategic, &note("strategic")), || format!("strategic merge patch: {strategic}"))?;
        let operations = json!([{"op": "replace", "path": "/metadata/annotations/note", "value": "json"}]);
        let json_patch = api.ok("PATCH", &row.path(), "application/json-patch+json", &operations)?;
        ensure(has(&json_patch, &note("json")), || format!("JSON patch: {json_patch}"))?;
        let applied = json!({"apiVersion": made["apiVersion"], "kind": made["kind"],
            "metadata": {"name": row.name(), "annotations": {"applied": "yes"}}});
        let path = format!("{}?fieldManager=contract&force=true", row.path());
        let applied = api.ok("PATCH", &path, "application/apply-patch+yaml", &applied)?;
        let managers = applied["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
        let owns = |entry: &Value| entry["manager"] == "contract" && entry["operation"] == "Apply";
        ensure(managers.iter().any(owns), || format!("apply: {applied}"))?;
        ensure(has(&applied, &note("json")), || format!("apply lost what others own: {applied}"))?;

        row.delete(api)?;
        let answer = api.send("GET", &row.path(), "application/json", "application/json", &[]);
        ensure(answer.status == 404, || format!("{} after its deletion", answer.status))?;
        let path = format!(
            "{}?watch=true&resourceVersion={before}&timeoutSeconds=1&fieldSelector=metadata.name%3D{}",
            row.collection(),
            row.name()
        );
        let events = api.send("GET", &path, "application/json", "application/json", &[]);
        let events = String::from_utf8_lossy(&events.body).into_owned();
        let types: Vec<Value> = events
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap_or(Value::Null)["type"].clone())
            .collect();
        let between = types.get(1..types.len().saturating_sub(1)).unwrap_or_default();
        let in_order = types.first() == Some(&json!("ADDED"))
            && types.last() == Some(&json!("DELETED"))
            && between.len() >= 5
            && between.iter().all(|ty| ty == "MODIFIED");
        ensure(in_order, || format!("events {types:?}"))
    });
}

#[test]
fn status_and_scale_are_parts_of_their_own() {
    each(|api, row| {
        let has_status = row.kind.subresource("status").is_some();
        ensure(has_status == row.fixture["status"].is_object(), || "its fixture needs a status".to_owned())?;
        let parts = row.kind.subresources.iter().filter(|part| match part.action {
            Action::Part(part) => part == WrittenPart::Status,
            Action::Scale(_) => true,
            _ => false,
        });
        let parts: Vec<_> = parts.collect();
        if parts.is_empty() {
            return Ok(());
        }
        row.create(api)?;
        for part in parts {
            let path = format!("{}/{}", row.path(), part.name);
            if let Action::Scale(_) = part.action {
                let scale = api.get(&path)?;
                ensure(scale["spec"]["replicas"] == 1, || format!("scale {scale}"))?;
                let mut more = scale;
                merge(&mut more, &json!({"spec": {"replicas": 2}}));
                api.ok("PUT", &path, "application/json", &more)?;
                let object = api.get(&row.path())?;
                ensure(object["spec"]["replicas"] == 2, || format!("scaled {object}"))?;
                let refused = json!({"spec": {"replicas": -1}});
                api.refused("PATCH", &path, MERGE, &refused)?;
            } else {
                let before = api.get(&row.path())?;
                let written = api.ok("PATCH", &path, MERGE, &row.fixture["status"])?;
                ensure(has(&written, &row.fixture["status"]), || format!("status {written}"))?;
                let ignored = json!({"status": null});
                let kept = api.ok("PATCH", &row.path(), MERGE, &ignored)?;
                ensure(written["status"].is_null() || !kept["status"].is_null(), || {
                    format!("status before {written}, after {kept}")
                })?;
                ensure(kept["spec"] == before["spec"], || format!("spec before {before}, after {kept}"))?;
            }
        }
        row.delete(api)
    });
}

#[test]
fn all_encodings_and_all_versions_say_the_same() {
    each(|api, row| {
        let made = row.create(api)?;
        for encoding in ["application/vnd.kubernetes.protobuf", "application/yaml"] {
            let put = until_no_conflict(|| {
                let read = api.send("GET", &row.path(), encoding, encoding, &[]);
                assert_eq!((read.status, read.content_type.as_str()), (200, encoding), "{}", row.path());
                api.send("PUT", &row.path(), encoding, "application/json", &read.body)
            });
            let same = put.json();
            ensure(put.status == 200 && desired(&same) == desired(&made), || {
                format!("{encoding} is not the same: {} {same}", put.status)
            })?;
        }
        let is_served = |version: &&kinds::Version| !version.life.is_removed_in(kinds::Release::OWN);
        for served in row.kind.versions.iter().filter(is_served) {
            let path = format!("{}/{}", row.collection_in(served), row.name());
            let read = api.get(&path)?;
            let api_version = kinds::api_version(row.kind.group, served.name);
            ensure(read["apiVersion"] == *api_version, || format!("{}: {read}", served.name))?;
            api.replace(&path, &Value::Null)?;
            let same = api.get(&row.path())?;
            ensure(desired(&same) == desired(&made), || format!("{} is not the same: {same}", served.name))?;
        }
        row.delete(api)
    });
}

#[test]
fn tables_and_field_selectors_show_it() {
    each(|api, row| {
        let made = row.create(api)?;
        let accept = "application/json;as=Table;g=meta.k8s.io;v=v1";
        let table = api.send("GET", &row.path(), "application/json", accept, &[]).json();
        let columns = table["columnDefinitions"].as_array().map_or(0, Vec::len);
        let cells = table["rows"][0]["cells"].as_array().cloned().unwrap_or_default();
        let is_named = cells.iter().any(|cell| cell == row.name());
        ensure(columns == row.kind.columns.list.len() && is_named, || format!("table {table}"))?;
        let fields = row.kind.fields.list.iter().filter(|field| !field.paths.is_empty());
        // The paths are those of the stored form.
        let stored = match row.kind.storage {
            Storage::Shared { resource, .. } => {
                api.get(&format!("/api/v1/namespaces/{NAMESPACE}/{resource}/{}", row.name()))?
            }
            _ => made,
        };
        let found = |path: &&str| {
            let value = path.split('.').try_fold(&stored, |value, key| value.get(key))?;
            Some(value.as_str().map_or_else(|| value.to_string(), str::to_owned))
        };
        let fields = fields.map(|field| {
            let value = field.paths.iter().find_map(found).filter(|value| !value.is_empty());
            (field.name, value.unwrap_or_else(|| field.absent.to_owned()))
        });
        for (field, value) in [("metadata.name", row.name().to_owned())].into_iter().chain(fields) {
            let named = |operator: &str| {
                let value = value.replace('/', "%2F").replace(' ', "%20");
                let list =
                    api.get(&format!("{}?fieldSelector={field}{operator}{value}", row.collection()))?;
                let items = list["items"].as_array().cloned().unwrap_or_default();
                Ok::<_, String>(items.iter().any(|item| item["metadata"]["name"] == row.name()))
            };
            ensure(named("%3D")?, || format!("{field}={value} does not select it"))?;
            ensure(!named("!%3D")?, || format!("{field}!={value} selects it"))?;
        }
        row.delete(api)
    });
}

#[test]
fn what_is_invalid_is_refused_and_changes_nothing() {
    each(|api, row| {
        if row.fixture["refused"].is_null() {
            return Ok(());
        }
        let refused = row.object(&row.fixture["refused"]);
        api.refused("POST", &row.collection(), "application/json", &refused)?;
        row.create(api)?;
        let before = api.get(&row.path())?;
        api.refused("PATCH", &row.path(), MERGE, &row.fixture["refusedChange"])?;
        let after = api.get(&row.path())?;
        ensure(desired(&before) == desired(&after), || format!("before {before}, after {after}"))?;
        row.delete(api)
    });
}

#[test]
fn a_collection_is_deleted_by_selector() {
    each(|api, row| {
        if !row.kind.verbs.contains(&Verb::DeleteCollection) {
            return Ok(());
        }
        row.create(api)?;
        let path = format!("{}?fieldSelector=metadata.name%3D{}", row.collection(), row.name());
        api.ok("DELETE", &format!("{path}x"), "application/json", &Value::Null)?;
        api.get(&row.path())?;
        api.ok("DELETE", &path, "application/json", &json!({"gracePeriodSeconds": 0}))?;
        let left = api.get(&row.path());
        match left {
            Err(_) => Ok(()),
            Ok(left) if left["metadata"]["deletionTimestamp"].is_string() => match row.delete(api) {
                // What it waited for is done.
                Err(why) if why.contains(": 404 ") => Ok(()),
                outcome => outcome,
            },
            Ok(left) => Err(format!("it is still there: {left}")),
        }
    });
}
