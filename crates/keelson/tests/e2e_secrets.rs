//! Secrets are planted wherever a server meets them: in objects, in the credentials of requests, in its own
//! credentials and keys. None may be in what it says of itself: the audit log at the level `Metadata`, the
//! log at the highest verbosity, metrics, spans, profiles, flags, state, health.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, clippy::indexing_slicing)]

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Value, json};
use spans::collector::Collector;
use testkit::https::{Authority, HttpsServer, Reply, Request};
use testkit::{Folder, Server};

const PATIENCE: Duration = Duration::from_secs(40);
const SECRETS: &str = "/api/v1/namespaces/default/secrets";

/// What is planted, and where.
#[derive(Default)]
struct Planted(Vec<(String, String)>);

impl Planted {
    /// Plants a secret that a test makes up.
    fn plant(&mut self, place: &str) -> String {
        let secret = format!("hunter2-{place}");
        self.add(place, &secret);
        secret
    }

    /// A secret that was made elsewhere.
    fn add(&mut self, place: &str, secret: &str) {
        assert!(secret.len() >= 8, "{place}: {} bytes", secret.len());
        self.0.push((place.to_owned(), secret.to_owned()));
    }

    /// What of them is in a text, in which form.
    fn found_in(&self, text: &str) -> Vec<String> {
        let mut found = Vec::new();
        for (place, secret) in &self.0 {
            let numbers: Vec<String> = secret.bytes().map(|byte| byte.to_string()).collect();
            let hex: String = secret.bytes().map(|byte| format!("{byte:02x}")).collect();
            let mut forms = vec![
                ("as it is", secret.clone()),
                ("as hexadecimal digits", hex),
                ("as a list of numbers", numbers.join(", ")),
            ];
            // Wherever it begins within a longer text that is encoded.
            for skip in 0..3 {
                let bytes = &secret.as_bytes()[skip..];
                let whole = &bytes[..bytes.len() / 3 * 3];
                forms.push(("in base64", STANDARD.encode(whole)));
                forms.push(("in base64 for URLs", URL_SAFE_NO_PAD.encode(whole)));
            }
            let is_there = |form: &&(&str, String)| text.contains(&form.1);
            found.extend(forms.iter().find(is_there).map(|(form, _)| format!("{place}, {form}")));
        }
        found
    }
}

/// Answers for one token, and fails for others by repeating what it was asked. Lets writes pass, but those
/// of objects named `refused`.
fn answer(request: &Request) -> Reply {
    let review: Value = serde_json::from_str(&request.body).unwrap();
    if request.path.starts_with("/authenticate") {
        let token = review["spec"]["token"].as_str().unwrap_or_default();
        if !token.starts_with("hunter2-known") {
            return Reply::Json(500, format!("{} {}", request.header("authorization"), token));
        }
        let user = json!({"username": "known", "groups": ["system:masters"]});
        let status = json!({"authenticated": true, "user": user});
        return Reply::ok(
            json!({"apiVersion": review["apiVersion"], "kind": "TokenReview", "status": status}).to_string(),
        );
    }
    if review["request"]["name"] == "refused" {
        return Reply::Json(500, request.header("authorization").to_owned());
    }
    let response = json!({"uid": review["request"]["uid"], "allowed": true});
    Reply::ok(
        json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})
            .to_string(),
    )
}

/// The lines of keys in the files of a folder.
fn keys_below(folder: &Path, keys: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            keys_below(&path, keys);
        } else if let Ok(text) = fs::read_to_string(&path)
            && text.contains("PRIVATE KEY-----")
        {
            keys.push(text.lines().nth(1).unwrap().to_owned());
        }
    }
}

struct Setup {
    planted: Planted,
    folder: Folder,
    hook: HttpsServer,
    authority: Authority,
}

impl Setup {
    fn new() -> Self {
        let authority = Authority::new().unwrap();
        let serving = authority.issue(&["127.0.0.1"]).unwrap();
        let hook = HttpsServer::start(&serving, None, answer).unwrap();
        Self { planted: Planted::default(), folder: Folder::new().unwrap(), hook, authority }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file, and gives the flag that names it.
    fn file(&self, flag: &str, name: &str, text: &str) -> String {
        fs::write(self.path(name), text).unwrap();
        format!("--{flag}={}", self.path(name).display())
    }

    /// The flags that give the server its credentials, and have it say all that it can.
    fn flags(&mut self, collector: &Collector) -> Vec<String> {
        let client = self.authority.issue(&["client"]).unwrap();
        self.planted.add("the key of the admission plugin", client.key.lines().nth(1).unwrap());
        let url = self.hook.url();
        let authority = STANDARD.encode(&self.authority.certificate);
        let kubeconfig = |server: &str, name: &str, user: &str| {
            format!(
                "apiVersion: v1\nkind: Config\nclusters:\n- name: c\n  cluster:\n    server: {server}\n    certificate-authority-data: {authority}\n\
                 users:\n- name: '{name}'\n  user: {user}\ncontexts:\n- name: x\n  context: {{cluster: c, user: '{name}'}}\ncurrent-context: x\n"
            )
        };
        let password = self.planted.plant("password of the authentication webhook");
        let user = format!("{{username: hook, password: '{password}'}}");
        let authenticate = kubeconfig(&format!("{url}/authenticate"), "hook", &user);
        let token = self.planted.plant("token-of-the-admission-plugin");
        let user = format!(
            "{{token: {token}, client-certificate-data: {}, client-key-data: {}}}",
            STANDARD.encode(&client.certificate),
            STANDARD.encode(&client.key)
        );
        let admit = kubeconfig(&url, "*", &user);
        fs::write(self.path("admit.kubeconfig"), admit).unwrap();
        let admission = format!(
            "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n- name: ValidatingAdmissionWebhook\n  configuration:\n    \
             apiVersion: apiserver.config.k8s.io/v1\n    kind: WebhookAdmissionConfiguration\n    kubeConfigFile: {}\n",
            self.path("admit.kubeconfig").display()
        );
        let fixed = self.planted.plant("token-of-a-file");
        let tracing = format!(
            "apiVersion: apiserver.config.k8s.io/v1beta1\nkind: TracingConfiguration\nendpoint: {}\nsamplingRatePerMillion: 1000000\n",
            collector.address()
        );
        vec![
            self.file("authentication-token-webhook-config-file", "authenticate.kubeconfig", &authenticate),
            "--authentication-token-webhook-version=v1".to_owned(),
            self.file("admission-control-config-file", "admission.yaml", &admission),
            self.file("token-auth-file", "tokens.csv", &format!("{fixed},fixed,1,system:masters\n")),
            self.file("tracing-config-file", "tracing.yaml", &tracing),
            self.file(
                "audit-policy-file",
                "policy.yaml",
                "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n",
            ),
            format!("--audit-log-path={}", self.path("audit.log").display()),
            format!("--debug-socket-path={}", self.path("debug").display()),
            "--feature-gates=ComponentFlagz=true,ComponentStatusz=true".to_owned(),
            "-v=10".to_owned(),
        ]
    }
}

/// Sends a request with these headers, and answers with the code.
fn send(server: &Server, method: &str, path: &str, headers: &str, body: &str) -> (u16, String) {
    let target = server.target().unwrap();
    let mut connection = target.connect(PATIENCE).unwrap();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: {}\r\n{headers}Content-Length: {}\r\n\r\n{body}",
        target.authority(),
        body.len()
    );
    connection.send(request.as_bytes()).unwrap();
    let mut head = connection.head(method).unwrap();
    let body = connection.body(&mut head).unwrap();
    (head.status, String::from_utf8_lossy(&body).into_owned())
}

#[test]
fn planted_secrets_are_in_nothing_that_the_server_says_of_itself() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let collector = runtime.block_on(Collector::start());
    let mut setup = Setup::new();
    let flags = setup.flags(&collector);
    let binary = testkit::server_binary(env!("CARGO_BIN_EXE_keelson"));
    let server = Server::start(&binary, &flags.iter().map(String::as_str).collect::<Vec<_>>()).unwrap();
    let Setup { planted, hook, authority, .. } = &mut setup;

    let rule =
        json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["secrets"]});
    let client =
        json!({"url": format!("{}/admit", hook.url()), "caBundle": STANDARD.encode(&authority.certificate)});
    let webhook = json!({"name": "a.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None",
        "clientConfig": client, "rules": [rule]});
    let configuration = json!({"metadata": {"name": "a"}, "webhooks": [webhook]});
    let hooks = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    assert_eq!(server.call("POST", hooks, &configuration).unwrap().0, 201);

    // Objects: written in all ways, read, and refused.
    let admin = format!("Authorization: Bearer {}\r\n", server.token());
    planted.add("the administrator's token", server.token());
    let data = |value: &str| json!({"p": STANDARD.encode(value)});
    let ask = |method: &str, path: &str, kind: &str, body: &Value| {
        let headers = format!("{admin}Content-Type: application/{kind}\r\n");
        send(&server, method, path, &headers, &body.to_string()).0
    };
    let one = format!("{SECRETS}/one");
    let made = json!({"metadata": {"name": "one"}, "stringData": {"p": planted.plant("created-secret")}});
    assert_eq!(ask("POST", SECRETS, "json", &made), 201);
    assert_eq!(ask("POST", SECRETS, "json", &made), 409);
    let put = json!({"metadata": {"name": "one"}, "data": data(&planted.plant("updated-secret"))});
    assert_eq!(ask("PUT", &one, "json", &put), 200);
    let patch = json!({"data": data(&planted.plant("merged-secret"))});
    assert_eq!(ask("PATCH", &one, "merge-patch+json", &patch), 200);
    let patch = json!({"data": data(&planted.plant("strategically-merged-secret"))});
    assert_eq!(ask("PATCH", &one, "strategic-merge-patch+json", &patch), 200);
    let operation = |op: &str, value: &str| json!([{"op": op, "path": "/data/p", "value": value}]);
    let patch = operation("replace", &STANDARD.encode(planted.plant("replaced-secret")));
    assert_eq!(ask("PATCH", &one, "json-patch+json", &patch), 200);
    let applied = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "one"},
        "data": data(&planted.plant("applied-secret"))});
    assert_eq!(ask("PATCH", &format!("{one}?fieldManager=m"), "apply-patch+yaml", &applied), 409);
    assert_eq!(ask("PATCH", &format!("{one}?fieldManager=m&force=true"), "apply-patch+yaml", &applied), 200);
    for (method, kind, body, code) in [
        ("PATCH", "json-patch+json", operation("test", &planted.plant("tested-secret")), 422),
        (
            "PUT",
            "json",
            json!({"metadata": {"name": "one"}, "data": {"p": planted.plant("no-base64!")}}),
            400,
        ),
        ("PUT", "json", json!({"metadata": {"name": "one"}, "data": planted.plant("of-a-wrong-type")}), 400),
    ] {
        assert_eq!(ask(method, &one, kind, &body), code, "{body}");
    }
    let docker = json!({"metadata": {"name": "docker"}, "type": "kubernetes.io/dockerconfigjson",
        "stringData": {".dockerconfigjson": planted.plant("docker-secret")}});
    assert_eq!(ask("POST", SECRETS, "json", &docker), 422);
    let refused =
        json!({"metadata": {"name": "refused"}, "stringData": {"p": planted.plant("refused-secret")}});
    assert_eq!(ask("POST", SECRETS, "json", &refused), 500);
    for path in [&one, SECRETS, &format!("{SECRETS}?watch=1&timeoutSeconds=1")] {
        for accept in ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"] {
            let headers = format!("{admin}Accept: {accept}\r\n");
            let code = send(&server, "GET", path, &headers, "").0;
            assert!(code == 200 || code == 406, "{path} {accept} {code}");
        }
    }

    // Credentials of requests, good and bad.
    let unknown = planted.plant("unknown-token");
    let known = planted.plant("known-token");
    let password = planted.plant("basic-password");
    let fixed = "hunter2-token-of-a-file";
    for (headers, code) in [
        (format!("Authorization: Bearer {unknown}\r\n"), 401),
        (format!("Authorization: Bearer {known}\r\n"), 200),
        (format!("Authorization: Bearer {fixed}\r\n"), 200),
        (format!("Authorization: Basic {}\r\n", STANDARD.encode(format!("user:{password}"))), 403),
        (format!("{admin}Cookie: session={}\r\n", planted.plant("cookie-of-a-request")), 200),
        (format!("{admin}X-Api-Key: {}\r\n", planted.plant("header-of-a-request")), 200),
    ] {
        assert_eq!(send(&server, "GET", "/api/v1/nodes", &headers, "").0, code, "{headers}");
    }
    let absolute = format!(
        "https://user:{}@{}",
        planted.plant("url-of-a-request"),
        server.target().unwrap().authority()
    );
    assert_eq!(send(&server, "GET", &format!("{absolute}/api/v1/nodes"), &admin, "").0, 200);
    // The audit log has what was asked for, as in the reference: the words of a command are a part of it.
    let mut unaudited = Planted::default();
    let query = unaudited.plant("query-of-a-request");
    let path = format!("/api/v1/nodes?access_token={query}&password={query}");
    assert_eq!(send(&server, "GET", &path, &admin, "").0, 200);
    let protocol = URL_SAFE_NO_PAD.encode(planted.plant("websocket-token"));
    let upgrade = format!(
        "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\
         Sec-WebSocket-Protocol: base64url.bearer.authorization.k8s.io.{protocol}, v4.channel.k8s.io\r\n"
    );
    let path = "/api/v1/namespaces/default/pods/p/exec?command=sh";
    assert_eq!(send(&server, "GET", path, &upgrade, "").0, 401);
    planted.add("the websocket's token, encoded", &protocol);

    // Tokens that the server issues and looks at.
    let token_request = json!({"spec": {"expirationSeconds": 600}});
    let path = "/api/v1/namespaces/default/serviceaccounts/default/token";
    let (code, issued) = server.call("POST", path, &token_request).unwrap();
    assert_eq!(code, 201, "{issued}");
    let issued = issued["status"]["token"].as_str().unwrap().to_owned();
    planted.add("the signature of an issued token", issued.rsplit('.').next().unwrap());
    planted.add("an issued token", &issued);
    let headers = format!("Authorization: Bearer {issued}\r\n");
    assert_eq!(send(&server, "GET", "/api/v1/nodes", &headers, "").0, 403);
    let cut = format!("Authorization: Bearer {}\r\n", &issued[..issued.len() - 4]);
    assert_eq!(send(&server, "GET", "/api/v1/nodes", &cut, "").0, 401);
    for token in [&planted.plant("reviewed-token"), &issued] {
        let review = json!({"spec": {"token": token}});
        let reviews = "/apis/authentication.k8s.io/v1/tokenreviews";
        assert_eq!(server.call("POST", reviews, &review).unwrap().0, 201);
    }

    // Keys of the server.
    let mut keys = Vec::new();
    keys_below(&server.folder().join("data"), &mut keys);
    assert!(keys.len() >= 3, "{keys:?}");
    keys.iter().for_each(|key| planted.add("a key of the server", key));
    assert_eq!(ask("DELETE", &one, "json", &json!({})), 200);

    // What the server says of itself.
    let planted = &setup.planted;
    let mut said: Vec<(String, String)> = Vec::new();
    for path in [
        "/metrics",
        "/metrics/slis",
        "/flagz",
        "/statusz",
        "/configz",
        "/livez?verbose",
        "/readyz?verbose",
        "/debug/flags",
        "/debug/pprof/heap?debug=1",
        "/debug/pprof/allocs?debug=1",
        "/debug/pprof/goroutine?debug=2",
        "/debug/pprof/threadcreate?debug=1",
        "/debug/pprof/profile?seconds=1&debug=1",
        "/debug/api_priority_and_fairness/dump_priority_levels",
        "/debug/api_priority_and_fairness/dump_queues",
        "/debug/api_priority_and_fairness/dump_requests?includeRequestDetails=1",
        "/.well-known/openid-configuration",
        "/openid/v1/jwks",
    ] {
        let (code, text) = send(&server, "GET", path, &format!("{admin}Accept: */*\r\n"), "");
        assert!(code == 200 || path == "/configz", "{path}: {code}");
        said.push((path.to_owned(), text));
    }
    let mut socket = UnixStream::connect(setup.path("debug")).unwrap();
    socket.write_all(b"GET /debug/pprof/cmdline HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    said.push(("the debug socket".to_owned(), answer));
    testkit::eventually("spans arrive", PATIENCE, || {
        format!("{:?}", collector.batches()).contains("/serviceaccounts/{:name}/token")
    });
    said.push(("spans".to_owned(), format!("{:?}", collector.batches())));
    let log = server.terminate().unwrap().unwrap().log;
    assert!(log.contains(SECRETS) && log.contains("a webhook failed"), "{log}");
    said.push(("the log".to_owned(), log));
    let in_query = said.iter().flat_map(|(_, text)| unaudited.found_in(text)).collect::<Vec<_>>();
    assert!(in_query.is_empty(), "{in_query:?}");
    let audit = fs::read_to_string(setup.path("audit.log")).unwrap();
    assert!(audit.lines().count() > 30 && audit.contains(&one), "{audit}");
    said.push(("the audit log".to_owned(), audit));
    let found: Vec<String> = said
        .iter()
        .flat_map(|(place, text)| {
            planted.found_in(text).into_iter().map(move |what| format!("{place}: {what}"))
        })
        .collect();
    assert!(found.is_empty(), "{found:#?}");
}
