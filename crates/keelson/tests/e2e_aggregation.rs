//! Other API servers behind the binary: a small one with the real protocols (`testkit::ExtensionServer`),
//! alive, old, slow and dead, with kubectl and with exact requests.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, clippy::indexing_slicing)]

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use testkit::http::Target;
use testkit::https::Authority;
use testkit::{Behaviour, Cli, ExtensionServer, Folder, Server, WebSocket, eventually, tool, unique};

const PATIENCE: Duration = Duration::from_secs(60);
const DISCOVERY: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

fn binary() -> PathBuf {
    testkit::server_binary(env!("CARGO_BIN_EXE_keelson"))
}

/// The server of a test, and of those that run beside it in one process. A test about namespaces has its own:
/// a dead server holds all of them.
fn server() -> Arc<Server> {
    static SERVER: Mutex<Weak<Server>> = Mutex::new(Weak::new());
    let mut running = SERVER.lock().unwrap_or_else(PoisonError::into_inner);
    running.upgrade().unwrap_or_else(|| {
        let folder = Folder::new().unwrap();
        let tokens = folder.path().join("more.csv");
        std::fs::write(&tokens, "jane-token,jane,jane-uid,\"testers\"\n").unwrap();
        let flag = format!("--token-auth-file={}", tokens.display());
        let server = Arc::new(Server::start(&binary(), &[&flag]).unwrap());
        *running = Arc::downgrade(&server);
        server
    })
}

/// A GET with some headers: the status code, the headers and the body.
fn get(target: &Target, path: &str, headers: &str) -> (u16, testkit::http::Head, String) {
    let mut connection = target.connect(PATIENCE).unwrap();
    connection.allow(PATIENCE);
    let host = target.authority();
    connection.send(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n{headers}\r\n").as_bytes()).unwrap();
    let mut head = connection.head("GET").unwrap();
    let body = connection.body(&mut head).unwrap();
    (head.status, head, String::from_utf8(body).unwrap())
}

fn admin(path: &str) -> (u16, testkit::http::Head, String) {
    get(&server().target().unwrap(), path, &format!("Authorization: Bearer {}\r\n", server().token()))
}

/// A group that an extension server serves, of which the server learns by an APIService.
struct Group {
    server: Arc<Server>,
    name: String,
    extension: ExtensionServer,
    service: Value,
}

impl Group {
    fn start() -> Self {
        Self::start_at(server())
    }

    fn start_at(server: Arc<Server>) -> Self {
        let group = Self::unregistered_at(server);
        group.register();
        group.wait_until("True", "Passed");
        group
    }

    fn unregistered() -> Self {
        Self::unregistered_at(server())
    }

    /// The extension server and the service in front of it.
    fn unregistered_at(server: Arc<Server>) -> Self {
        let name = format!("{}.example.com", unique("group"));
        let (extension, service) = ExtensionServer::behind(&server, &name).unwrap();
        Self { server, name, extension, service }
    }

    fn register(&self) {
        let path = "/apis/apiregistration.k8s.io/v1/apiservices";
        let (code, said) = self.server.call("POST", path, &self.service).unwrap();
        assert_eq!(code, 201, "{said}");
    }

    /// Removes the registration, so that a dead server does not hold up others.
    fn remove(&self) {
        self.server.call("DELETE", &self.path_of_registration(), &Value::Null).unwrap();
    }

    fn path_of_registration(&self) -> String {
        format!("/apis/apiregistration.k8s.io/v1/apiservices/v1.{}", self.name)
    }

    fn condition(&self) -> Value {
        let (_, object) = self.server.call("GET", &self.path_of_registration(), &Value::Null).unwrap();
        object["status"]["conditions"][0].clone()
    }

    fn wait_until(&self, status: &str, reason: &str) -> Value {
        let mut condition = Value::Null;
        eventually(&format!("{} is {status} {reason}", self.name), PATIENCE, || {
            condition = self.condition();
            condition["status"] == status && condition["reason"] == reason
        });
        condition
    }

    fn path(&self, rest: &str) -> String {
        format!("/apis/{}/v1{rest}", self.name)
    }

    fn widget(&self, name: &str) -> Value {
        json!({"kind": "Widget", "apiVersion": format!("{}/v1", self.name), "metadata": {"name": name}, "size": 3})
    }

    /// Changes the service in front of the extension server, so that that is asked at once.
    fn touch(&self) {
        let service = self.service["spec"]["service"]["name"].as_str().unwrap();
        let body = json!({"metadata": {"annotations": {"touched": unique("at")}}}).to_string();
        let target = self.server.target().unwrap();
        let mut connection = target.connect(PATIENCE).unwrap();
        let request = format!(
            "PATCH /api/v1/namespaces/default/services/{service} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\n\
             Content-Type: application/merge-patch+json\r\nContent-Length: {}\r\n\r\n{body}",
            target.authority(),
            self.server.token(),
            body.len()
        );
        connection.send(request.as_bytes()).unwrap();
        assert_eq!(connection.head("PATCH").unwrap().status, 200);
    }

    fn create(&self, namespace: &str, name: &str) {
        let path = self.path(&format!("/namespaces/{namespace}/widgets"));
        let (code, said) = self.server.call("POST", &path, &self.widget(name)).unwrap();
        assert_eq!(code, 201, "{said}");
    }
}

#[test]
fn objects_of_another_server_are_made_read_watched_and_deleted() {
    let group = Group::start();
    let widgets = group.path("/namespaces/default/widgets");
    let target = server().target().unwrap();

    let mut watch = target.connect(PATIENCE).unwrap();
    watch.allow(PATIENCE);
    let (host, token) = (target.authority(), group.server.token());
    let request =
        format!("GET {widgets}?watch=true HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n\r\n");
    watch.send(request.as_bytes()).unwrap();
    let mut head = watch.head("GET").unwrap();
    assert_eq!(head.status, 200);
    let mut rest = Vec::new();
    let mut event = || -> Value {
        serde_json::from_slice(&watch.line(&mut head, &mut rest).unwrap().expect("an event")).unwrap()
    };

    group.create("default", "one");
    let added = event();
    assert_eq!((&added["type"], &added["object"]["metadata"]["name"]), (&json!("ADDED"), &json!("one")));
    let (code, one) = server().call("GET", &format!("{widgets}/one"), &Value::Null).unwrap();
    assert_eq!((code, &one["size"]), (200, &json!(3)));
    let (code, list) = server().call("GET", &group.path("/widgets"), &Value::Null).unwrap();
    assert_eq!((code, list["items"].as_array().unwrap().len()), (200, 1));
    let (code, said) = server().call("GET", &format!("{widgets}/two"), &Value::Null).unwrap();
    assert_eq!((code, &said["reason"]), (404, &json!("NotFound")));
    let (code, _) = server().call("DELETE", &format!("{widgets}/one"), &Value::Null).unwrap();
    assert_eq!(code, 200);
    assert_eq!(event()["type"], "DELETED");
}

#[test]
fn other_server_learns_who_the_user_is_from_this_server_alone() {
    let group = Group::start();
    let path = group.path("/namespaces/default/widgets?b=2&a=x%20y");
    let headers = format!(
        "Authorization: Bearer {}\r\nX-Remote-User: root\r\nX-Remote-Group: system:masters\r\nX-Remote-Extra-Scope: all\r\n\
         Impersonate-User: jane\r\nImpersonate-Group: testers\r\nImpersonate-Extra-Some%2Fkey: v\r\nAudit-ID: my-own-id\r\n\
         Connection: X-Hop\r\nX-Hop: 1\r\nX-Kept: 2\r\n",
        server().token()
    );
    server().call("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", &json!({
        "metadata": {"name": unique("jane")}, "subjects": [{"kind": "User", "name": "jane", "apiGroup": "rbac.authorization.k8s.io"}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
    })).unwrap();
    let (code, head, body) = get(&server().target().unwrap(), &path, &headers);
    assert_eq!(code, 200, "{body}");
    assert_eq!(head.header("audit-id"), Some("my-own-id"));
    let requests = group.extension.requests();
    let got = requests.iter().rev().find(|request| request.uri.contains("a=x")).unwrap();
    assert_eq!(got.uri, group.path("/namespaces/default/widgets?a=x+y&b=2"));
    assert!(got.is_certified && got.is_http2);
    assert_eq!(got.all("x-remote-user"), ["jane"]);
    assert_eq!(got.all("x-remote-group"), ["testers", "system:authenticated"]);
    assert_eq!(got.all("x-remote-extra-some%2fkey"), ["v"]);
    assert!(got.all("x-remote-extra-scope").is_empty());
    assert_eq!(got.all("audit-id"), ["my-own-id"]);
    assert_eq!(got.all("x-forwarded-for"), ["127.0.0.1"]);
    assert_eq!(got.all("x-kept"), ["2"]);
    for name in ["authorization", "x-hop", "connection", "impersonate-user"] {
        assert!(got.all(name).is_empty(), "{name}");
    }
}

#[test]
fn config_map_says_how_other_servers_know_this_one() {
    let server = server();
    let path = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";
    let (_, map) = server.call("GET", path, &Value::Null).unwrap();
    for (key, value) in [
        ("allowed-names", r#"["front-proxy-client"]"#),
        ("username-headers", r#"["X-Remote-User"]"#),
        ("uid-headers", r#"["X-Remote-Uid"]"#),
        ("group-headers", r#"["X-Remote-Group"]"#),
        ("extra-headers-prefix", r#"["X-Remote-Extra-"]"#),
    ] {
        assert_eq!(map["data"][format!("requestheader-{key}")], value, "{key}");
    }
    let own = std::fs::read_to_string(server.folder().join("data/pki/front-proxy-ca.crt")).unwrap();
    assert_eq!(map["data"]["requestheader-client-ca-file"], own);
    assert_ne!(map["data"]["client-ca-file"], own);
}

#[test]
fn users_without_permission_do_not_reach_another_server() {
    let group = Group::start();
    let path = group.path("/namespaces/default/widgets");
    let mary = |path: &str| {
        let headers = format!("Authorization: Bearer {}\r\nImpersonate-User: mary\r\n", server().token());
        get(&server().target().unwrap(), path, &headers)
    };
    let before = group.extension.requests().len();
    let (code, _, body) = mary(&path);
    assert_eq!(code, 403);
    let name = &group.name;
    let message = format!(
        r#"widgets.{name} is forbidden: User \"mary\" cannot list resource \"widgets\" in API group \"{name}\" in the namespace \"default\""#
    );
    assert!(body.contains(&message), "{body}");
    let asked =
        |text: &str| group.extension.requests()[before..].iter().any(|request| request.uri.contains(text));
    // The server itself lists those of all namespaces, for garbage collection.
    assert!(!asked("/namespaces/default/widgets"));
    // Everybody with a name may read what is served.
    assert_eq!(mary(&group.path("")).0, 200);
}

#[test]
fn connections_that_switch_protocols_reach_another_server() {
    let group = Group::start();
    let target = server().target().unwrap();
    let path = group.path("/namespaces/default/widgets/one/echo");
    let headers = format!("Authorization: Bearer {}\r\n", server().token());
    let mut socket = WebSocket::open_with(&target, &path, &headers, PATIENCE).unwrap();
    socket.send(7, b"hello").unwrap();
    let message = socket.message().unwrap().unwrap();
    assert_eq!((message.channel, message.data.as_slice()), (7, b"hello".as_slice()));

    let mut connection = target.connect(PATIENCE).unwrap();
    connection.allow(PATIENCE);
    let host = target.authority();
    let request = format!(
        "POST {path} HTTP/1.1\r\nHost: {host}\r\n{headers}Connection: Upgrade\r\nUpgrade: SPDY/3.1\r\nContent-Length: 0\r\n\r\n"
    );
    connection.send(request.as_bytes()).unwrap();
    assert_eq!(connection.head("POST").unwrap().status, 101);
    connection.send(b"bytes as they are").unwrap();
    assert_eq!(connection.receive().unwrap().unwrap(), b"bytes as they are");
    let upgrades = group.extension.requests();
    let upgrade = upgrades.iter().find(|request| request.uri.ends_with("/echo")).unwrap();
    assert_eq!((upgrade.all("x-remote-user"), upgrade.is_http2), (vec!["admin"], false));
}

#[test]
fn discovery_lists_what_another_server_serves() {
    let group = Group::start();
    let name = &group.name;
    let (_, _, list) = admin("/apis");
    let list: Value = serde_json::from_str(&list).unwrap();
    let names: Vec<&str> =
        list["groups"].as_array().unwrap().iter().map(|of| of["name"].as_str().unwrap()).collect();
    assert_eq!(names[..3], ["apiregistration.k8s.io", "apps", "events.k8s.io"]);
    assert!(names.contains(&name.as_str()));
    let (code, _, one) = admin(&format!("/apis/{name}"));
    let one: Value = serde_json::from_str(&one).unwrap();
    assert_eq!((code, &one["preferredVersion"]["groupVersion"]), (200, &json!(format!("{name}/v1"))));
    let (code, _, resources) = admin(&group.path(""));
    assert_eq!(code, 200);
    assert!(resources.contains(r#""name":"widgets""#), "{resources}");
    let aggregated = || -> Option<Value> {
        let headers = format!("Authorization: Bearer {}\r\nAccept: {DISCOVERY}\r\n", server().token());
        let (_, _, body) = get(&server().target().unwrap(), "/apis", &headers);
        let document: Value = serde_json::from_str(&body).unwrap();
        let items = document["items"].as_array().unwrap();
        Some(items.iter().find(|item| item["metadata"]["name"] == **name)?["versions"][0].clone())
    };
    eventually("the group is current", PATIENCE, || {
        aggregated().is_some_and(|version| version["freshness"] == "Current")
    });
    let version = aggregated().unwrap();
    assert_eq!(version["resources"][0]["resource"], "widgets");
    assert!(admin("/").2.contains(&format!("\"/apis/{name}/v1\"")));
    group.extension.behave(Behaviour::Failing(503));
    // It is asked again when its registration changes, as it does now that the server fails.
    group.remove();
    eventually("the group is gone", PATIENCE, || aggregated().is_none());
    assert_eq!(admin(&format!("/apis/{name}")).0, 404);
}

#[test]
fn openapi_describes_what_another_server_serves() {
    let group = Group::start();
    let path = format!("apis/{}/v1", group.name);
    eventually("the index has the document", PATIENCE, || {
        admin("/openapi/v3").2.contains(&format!("\"{path}\""))
    });
    let (code, _, document) = admin(&format!("/openapi/v3/{path}"));
    assert_eq!(code, 200);
    assert!(document.contains("How large the widget is."), "{document}");
    eventually("OpenAPI v2 has the paths", PATIENCE, || {
        let (_, _, document) = admin("/openapi/v2");
        let document: Value = serde_json::from_str(&document).unwrap();
        let meta = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
        let definition = &document["definitions"]["test.Widget"];
        if definition.is_null() {
            return false;
        }
        assert!(document["paths"][format!("/{path}/namespaces/{{namespace}}/widgets")].is_object());
        // The type of that name is another one there.
        let reference = definition["properties"]["metadata"]["$ref"].as_str().unwrap();
        assert!(reference.starts_with(&format!("#/definitions/{meta}_v")), "{reference}");
        assert!(document["definitions"][meta]["properties"].is_object());
        true
    });
}

#[test]
fn old_server_without_the_newer_documents_is_described_too() {
    let group = Group::unregistered();
    group.extension.be_old();
    group.register();
    group.wait_until("True", "Passed");
    let path = format!("apis/{}/v1", group.name);
    eventually("the index has the document", PATIENCE, || {
        admin("/openapi/v3").2.contains(&format!("\"{path}\""))
    });
    let (code, _, document) = admin(&format!("/openapi/v3/{path}"));
    let document: Value = serde_json::from_str(&document).unwrap();
    assert_eq!((code, &document["openapi"]), (200, &json!("3.0.0")));
    let reference = &document["components"]["schemas"]["test.Widget"]["properties"]["metadata"]["$ref"];
    assert_eq!(reference, "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta");
    let kubectl = Cli::new(tool("kubectl").unwrap(), &server());
    eventually("kubectl lists the kind", PATIENCE, || {
        let listed = kubectl.ok(&["api-resources", "--api-group", &group.name, "-o", "name"]).unwrap();
        listed.trim() == format!("widgets.{}", group.name)
    });
}

#[test]
fn kubectl_works_with_objects_of_another_server() {
    let group = Group::start();
    let kubectl = Cli::new(tool("kubectl").unwrap(), &server());
    let resource = format!("widgets.{}", group.name);
    let file = server().folder().join(format!("{}.json", group.name));
    std::fs::write(&file, group.widget("one").to_string()).unwrap();
    let path = format!("apis/{}/v1", group.name);
    eventually("the documents are known", PATIENCE, || {
        admin("/openapi/v3").2.contains(&format!("\"{path}\""))
    });
    eventually("kubectl knows the kind", PATIENCE, || kubectl.ok(&["get", &resource]).is_ok());
    kubectl.ok(&["create", "--validate=false", "-f", &file.display().to_string()]).unwrap();
    let listed = kubectl.ok(&["get", &resource, "-o", "name"]).unwrap();
    assert_eq!(listed.trim(), format!("widget.{}/one", group.name));
    let version = format!("--api-version={}/v1", group.name);
    let explained = kubectl.ok(&["explain", "widgets.size", &version]).unwrap();
    assert!(explained.contains("How large the widget is."), "{explained}");
    let stream = kubectl.stream(&["get", &resource, "--watch", "-o", "name"]).unwrap();
    assert_eq!(stream.line(PATIENCE).as_deref(), Some(format!("widget.{}/one", group.name).as_str()));
    group.create("default", "two");
    assert_eq!(stream.line(PATIENCE).as_deref(), Some(format!("widget.{}/two", group.name).as_str()));
    drop(stream);
    kubectl.ok(&["delete", &resource, "one", "--wait=false"]).unwrap();
    assert_eq!(group.extension.widgets(), ["default/two"]);
    let services = kubectl.ok(&["get", "apiservices", &format!("v1.{}", group.name)]).unwrap();
    assert!(services.contains("True"), "{services}");
}

#[test]
fn dead_and_unknown_servers_are_said_to_be_unavailable() {
    let mut group = Group::unregistered();
    group.service["spec"]["service"]["name"] = json!("nobody");
    group.register();
    let condition = group.wait_until("False", "ServiceNotFound");
    assert_eq!(condition["message"], r#"service/nobody in "default" is not present"#);
    let (code, head, body) = admin(&group.path(""));
    assert_eq!((code, body.as_str()), (503, "service unavailable\n"));
    assert_eq!(head.header("content-type"), Some("text/plain; charset=utf-8"));
    let metrics = admin("/metrics").2;
    let name = &group.name;
    assert!(metrics.contains(&format!("aggregator_unavailable_apiservice{{name=\"v1.{name}\"}} 1\n")));
    group.remove();

    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut group = Group::unregistered();
    group.service["spec"]["service"]["port"] = json!(closed);
    group.register();
    let condition = group.wait_until("False", "FailedDiscoveryCheck");
    let message = condition["message"].as_str().unwrap();
    let url = format!("https://localhost:{closed}{}", group.path(""));
    assert!(
        message.starts_with(&format!("failing or missing response from {url}: Get \"{url}\": ")),
        "{message}"
    );
    assert!(message.contains("refused"), "{message}");
    let headers = format!("Authorization: Bearer {}\r\nAccept: {DISCOVERY}\r\n", server().token());
    let (_, _, body) = get(&server().target().unwrap(), "/apis", &headers);
    let document: Value = serde_json::from_str(&body).unwrap();
    let items = document["items"].as_array().unwrap();
    let item = items.iter().find(|item| item["metadata"]["name"] == *group.name).unwrap();
    assert_eq!(item["versions"], json!([{"version": "v1", "freshness": "Stale"}]));
    group.remove();
}

#[test]
fn answers_that_are_no_success_make_a_server_unavailable_until_it_recovers() {
    let group = Group::start();
    let name = &group.name;
    group.extension.behave(Behaviour::Failing(500));
    group.touch();
    let condition = group.wait_until("False", "FailedDiscoveryCheck");
    let message = condition["message"].as_str().unwrap();
    assert!(
        message.contains(": bad status from https://localhost:") && message.ends_with(": 500"),
        "{message}"
    );
    let counted = format!(
        "aggregator_unavailable_apiservice_total{{name=\"v1.{name}\",reason=\"FailedDiscoveryCheck\"}} 1\n"
    );
    assert!(admin("/metrics").2.contains(&counted));
    assert_eq!(admin(&group.path("/widgets")).2, "service unavailable\n");
    group.extension.behave(Behaviour::Serving);
    group.touch();
    group.wait_until("True", "Passed");
    assert_eq!(admin(&group.path("/widgets")).0, 200);
}

#[test]
fn slow_documents_and_redirects_of_another_server_are_refused() {
    let group = Group::start();
    group.extension.behave(Behaviour::Redirecting);
    let (code, _, body) = admin(&group.path("/widgets"));
    let why = "the backend attempted to redirect this request, which is not permitted";
    assert_eq!((code, body.as_str()), (502, why));
    group.extension.behave(Behaviour::Slow(Duration::from_secs(20)));
    let begin = Instant::now();
    let (code, _, body) = admin(&group.path(""));
    assert_eq!((code, body.as_str()), (503, "error trying to reach service: context deadline exceeded\n"));
    assert!(begin.elapsed() < Duration::from_secs(10));
    let (code, _, body) = admin(&group.path("/widgets?timeout=1s"));
    assert_eq!(code, 504);
    assert!(body.contains("request did not complete within the allotted timeout"), "{body}");
    group.remove();
}

#[test]
fn certificate_of_another_server_has_to_be_for_its_service_and_of_the_bundle() {
    let mut group = Group::unregistered();
    let other = Authority::new().unwrap();
    group.service["spec"]["caBundle"] = json!(STANDARD.encode(&other.certificate));
    group.register();
    // Whether it answers is asked without looking at its certificate, as in the reference.
    group.wait_until("True", "Passed");
    let (code, _, body) = admin(&group.path("/widgets"));
    assert_eq!(code, 503);
    assert!(body.starts_with("error trying to reach service: "), "{body}");
    group.remove();

    let mut group = Group::unregistered();
    group.service["spec"].as_object_mut().unwrap().remove("caBundle");
    group.service["spec"]["insecureSkipTLSVerify"] = json!(true);
    group.register();
    group.wait_until("True", "Passed");
    assert_eq!(admin(&group.path("/widgets")).0, 200);
    group.remove();
}

#[test]
fn namespace_is_emptied_of_objects_of_another_server_and_waits_for_a_dead_one() {
    let server = Arc::new(Server::start(&binary(), &[]).unwrap());
    let group = Group::start_at(server.clone());
    let namespaces = "/api/v1/namespaces";
    let doomed = || {
        let namespace = unique("doomed");
        let object = json!({"metadata": {"name": namespace}});
        assert_eq!(server.call("POST", namespaces, &object).unwrap().0, 201);
        group.create(&namespace, "one");
        group.create(&namespace, "two");
        namespace
    };
    let [first, second] = [doomed(), doomed()];
    let delete = |namespace: &str| {
        let path = format!("{namespaces}/{namespace}");
        assert_eq!(server.call("DELETE", &path, &Value::Null).unwrap().0, 200);
    };
    let get =
        |namespace: &str| server.call("GET", &format!("{namespaces}/{namespace}"), &Value::Null).unwrap();
    // What a server has is known from its discovery.
    eventually("the kind is known", PATIENCE, || {
        group.extension.requests().iter().any(|request| request.uri == "/apis")
    });
    delete(&first);
    eventually("the first namespace is gone", 2 * PATIENCE, || get(&first).0 == 404);
    assert_eq!(group.extension.widgets(), [format!("{second}/one"), format!("{second}/two")]);
    let requests = group.extension.requests();
    let request = requests.iter().find(|request| request.method == "DELETE").unwrap();
    assert_eq!(request.all("x-remote-user"), ["system:serviceaccount:kube-system:namespace-controller"]);

    group.extension.behave(Behaviour::Failing(503));
    group.touch();
    group.wait_until("False", "FailedDiscoveryCheck");
    delete(&second);
    let message = format!(
        "Discovery failed for some groups, 1 failing: unable to retrieve the complete list of server APIs: {0}/v1: stale GroupVersion discovery: {0}/v1",
        group.name
    );
    eventually("the namespace says what it waits for", PATIENCE, || {
        let (_, namespace) = get(&second);
        namespace["status"]["conditions"][0]["message"] == message
    });
    group.extension.behave(Behaviour::Serving);
    group.touch();
    eventually("the second namespace is gone", 2 * PATIENCE, || get(&second).0 == 404);
    assert!(group.extension.widgets().is_empty());
}

/// A config map with an owner.
fn map(name: &str, owner: &Value) -> Value {
    json!({"metadata": {"name": name, "ownerReferences": [owner]}})
}

fn reference(object: &Value) -> Value {
    let metadata = &object["metadata"];
    json!({"apiVersion": object["apiVersion"], "kind": object["kind"], "name": metadata["name"],
        "uid": metadata["uid"], "blockOwnerDeletion": true})
}

#[test]
fn objects_of_another_server_are_owners_and_dependents() {
    let server = Arc::new(Server::start(&binary(), &[]).unwrap());
    let group = Group::start_at(server.clone());
    let maps = "/api/v1/namespaces/default/configmaps";
    let widgets = group.path("/namespaces/default/widgets");
    let post = |path: &str, object: &Value| {
        let (code, made) = server.call("POST", path, object).unwrap();
        assert_eq!(code, 201, "{made}");
        made
    };
    let widget = |name: &str, owners: &[&Value]| {
        let mut widget = group.widget(name);
        widget["metadata"]["ownerReferences"] = json!(owners);
        reference(&post(&widgets, &widget))
    };
    let delete = |path: &str, policy: &str| {
        let (code, said) = server.call("DELETE", path, &json!({"propagationPolicy": policy})).unwrap();
        assert_eq!(code, 200, "{said}");
    };
    let has = |name: &str| server.call("GET", &format!("{maps}/{name}"), &Value::Null).unwrap().0 == 200;
    let owners = |name: &str| {
        let (_, map) = server.call("GET", &format!("{maps}/{name}"), &Value::Null).unwrap();
        map["metadata"]["ownerReferences"].as_array().map_or(0, Vec::len)
    };
    let is_gone = |widget: &str| !group.extension.widgets().contains(&format!("default/{widget}"));

    // An owner there, a dependent here, and the other way round.
    let there = widget("there", &[]);
    let here = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "here", "blockOwnerDeletion": true,
        "uid": post(maps, &json!({"metadata": {"name": "here"}}))["metadata"]["uid"]});
    post(maps, &map("of-there", &there));
    widget("of-here", &[&here]);
    widget("of-both", &[&here, &there]);
    post(
        maps,
        &map(
            "of-nothing",
            &json!({"apiVersion": there["apiVersion"], "kind": "Widget", "name": "never",
        "uid": "11111111-2222-3333-4444-555555555555"}),
        ),
    );
    eventually("a dependent of nothing is deleted", PATIENCE, || !has("of-nothing"));
    delete(&format!("{maps}/here"), "Foreground");
    eventually("the dependent goes before its owner", PATIENCE, || is_gone("of-here") && !has("here"));
    eventually("the other owner is left", PATIENCE, || {
        let (_, both) = server.call("GET", &format!("{widgets}/of-both"), &Value::Null).unwrap();
        both["metadata"]["ownerReferences"].as_array().is_some_and(|owners| owners.len() == 1)
    });
    assert!(has("of-there"));
    delete(&format!("{widgets}/there"), "Foreground");
    eventually("all are gone", PATIENCE, || !has("of-there") && is_gone("of-both") && is_gone("there"));
    let asked = group.extension.requests();
    let user = "system:serviceaccount:kube-system:generic-garbage-collector";
    let by_collector = |method: &str| {
        asked.iter().any(|request| request.method == method && request.all("x-remote-user") == [user])
    };
    assert!(by_collector("PATCH") && by_collector("DELETE"));

    let there = widget("orphans", &[]);
    post(maps, &map("orphan", &there));
    delete(&format!("{widgets}/orphans"), "Orphan");
    eventually("the owner is gone", PATIENCE, || is_gone("orphans"));
    assert_eq!((has("orphan"), owners("orphan")), (true, 0));

    // A dead server keeps the dependents of its objects, and holds up nothing else.
    let there = widget("kept", &[]);
    group.extension.behave(Behaviour::Failing(503));
    group.touch();
    group.wait_until("False", "FailedDiscoveryCheck");
    for number in 0..20 {
        post(maps, &map(&format!("kept-{number}"), &there));
        post(
            maps,
            &map(
                &format!("dangling-{number}"),
                &json!({"apiVersion": there["apiVersion"], "kind": "Widget",
            "name": "never", "uid": "11111111-2222-3333-4444-555555555555"}),
            ),
        );
        post(
            maps,
            &map(
                &format!("local-{number}"),
                &json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "never",
            "uid": "11111111-2222-3333-4444-555555555555"}),
            ),
        );
    }
    eventually("what does not need the dead server is deleted", PATIENCE, || {
        (0..20).all(|number| !has(&format!("local-{number}")))
    });
    assert!((0..20).all(|number| has(&format!("kept-{number}")) && has(&format!("dangling-{number}"))));
    group.extension.behave(Behaviour::Serving);
    group.touch();
    group.wait_until("True", "Passed");
    eventually("the dangling ones are deleted", 2 * PATIENCE, || {
        (0..20).all(|number| !has(&format!("dangling-{number}")))
    });
    assert!((0..20).all(|number| has(&format!("kept-{number}"))));
}

#[test]
fn quota_counts_objects_of_another_server_and_keeps_the_number_of_a_dead_one() {
    let server = Arc::new(Server::start(&binary(), &[]).unwrap());
    let group = Group::start_at(server.clone());
    let quotas = "/api/v1/namespaces/default/resourcequotas";
    let name = format!("count/widgets.{}", group.name);
    let mut hard = json!({"count/configmaps": "100"});
    hard[&name] = json!("2");
    group.create("default", "before");
    let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": hard}});
    assert_eq!(server.call("POST", quotas, &quota).unwrap().0, 201);
    let used = |name: &str| {
        let (_, quota) = server.call("GET", &format!("{quotas}/q"), &Value::Null).unwrap();
        quota["status"]["used"][name].clone()
    };
    eventually("the object from before is counted", PATIENCE, || used(&name) == "1");
    // Nobody charges for it here: more than the quota are possible, as in the reference.
    for widget in ["a", "b"] {
        group.create("default", widget);
    }
    eventually("the new ones are counted", PATIENCE, || used(&name) == "3");
    let widgets = group.path("/namespaces/default/widgets");
    server.call("DELETE", &format!("{widgets}/a"), &Value::Null).unwrap();
    eventually("the deleted one is not counted", PATIENCE, || used(&name) == "2");

    group.extension.behave(Behaviour::Failing(503));
    group.touch();
    group.wait_until("False", "FailedDiscoveryCheck");
    let maps = used("count/configmaps").as_str().unwrap().parse::<u32>().unwrap();
    let map = json!({"metadata": {"name": "one-more"}});
    assert_eq!(server.call("POST", "/api/v1/namespaces/default/configmaps", &map).unwrap().0, 201);
    let one_more = json!((maps + 1).to_string());
    eventually("others are counted", PATIENCE, || used("count/configmaps") == one_more);
    assert_eq!(used(&name), "2");
}
