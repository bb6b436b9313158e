//! Webhooks that know tokens and decide on requests: the binary beside a real HTTPS server, by flags and by a
//! configuration file.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use testkit::Folder;
use testkit::Server;
use testkit::https::{Authority, HttpsServer, Reply, Request};

const PATIENCE: Duration = Duration::from_secs(20);

fn binary() -> PathBuf {
    testkit::server_binary(env!("CARGO_BIN_EXE_keelson"))
}

/// A server that knows the tokens `jane-token`, `joe-token` and `slow-token`, and lets jane do what is not
/// about secrets.
struct Other {
    server: HttpsServer,
    folder: Folder,
}

fn other() -> Other {
    let authority = Authority::new().unwrap();
    let serving = authority.issue(&["127.0.0.1"]).unwrap();
    let server = HttpsServer::start(&serving, None, answer).unwrap();
    let folder = Folder::new().unwrap();
    for path in ["authenticate", "authorize"] {
        server
            .kubeconfig(&folder.path().join(path), &format!("/{path}"), &authority, "{token: hush-own}")
            .unwrap();
    }
    Other { server, folder }
}

fn answer(request: &Request) -> Reply {
    let reviews = |group: &str, kind: &str, status: &str| {
        let body = &request.body;
        let version = if body.contains(&format!("{group}/v1beta1")) { "v1beta1" } else { "v1" };
        Reply::ok(format!(r#"{{"kind":"{kind}","apiVersion":"{group}/{version}","status":{status}}}"#))
    };
    let has = |text: &str| request.body.contains(text);
    if request.path.starts_with("/authenticate") {
        let status = match ["jane", "joe"].iter().find(|name| has(&format!("\"{name}-token\""))) {
            _ if has("slow-token") => return Reply::Silence(Duration::from_secs(60)),
            Some(name) => format!(r#"{{"authenticated":true,"user":{{"username":"{name}"}}}}"#),
            None => r#"{"authenticated":false}"#.to_owned(),
        };
        return reviews("authentication.k8s.io", "TokenReview", &status);
    }
    let status = if has(r#""resource":"secrets""#) {
        r#"{"allowed":false,"denied":true,"reason":"secrets are secret"}"#
    } else if has(r#""user":"jane""#) {
        r#"{"allowed":true}"#
    } else {
        r#"{"allowed":false,"reason":"only jane"}"#
    };
    reviews("authorization.k8s.io", "SubjectAccessReview", status)
}

impl Other {
    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn flag(&self, flag: &str, name: &str) -> String {
        format!("--{flag}={}", self.path(name).display())
    }

    /// An `AuthorizationConfiguration` with these authorizers.
    fn configure(&self, authorizers: &str) -> PathBuf {
        let path = self.path("config.yaml");
        let text = format!(
            "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\nauthorizers: {authorizers}\n"
        );
        fs::write(&path, text).unwrap();
        path
    }

    fn webhook(&self, kubeconfig: &Path) -> String {
        format!(
            "{{type: Webhook, name: other, webhook: {{timeout: 3s, subjectAccessReviewVersion: v1, failurePolicy: Deny, \
             authorizedTTL: 1ms, unauthorizedTTL: 1ms, connectionInfo: {{type: KubeConfigFile, kubeConfigFile: '{}'}}}}}}",
            kubeconfig.display()
        )
    }
}

/// The status code and body of a GET with a token.
fn get(server: &Server, token: &str, path: &str) -> (u16, String) {
    let target = server.target().unwrap();
    let mut connection = target.connect(PATIENCE).unwrap();
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {token}\r\n\r\n",
        target.authority()
    );
    connection.send(request.as_bytes()).unwrap();
    let mut head = connection.head("GET").unwrap();
    let body = connection.body(&mut head).unwrap();
    (head.status, String::from_utf8(body).unwrap())
}

const PODS: &str = "/api/v1/namespaces/default/pods";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";

#[test]
fn webhooks_of_flags_know_tokens_and_decide() {
    let other = other();
    let flags = [
        other.flag("authentication-token-webhook-config-file", "authenticate"),
        "--authorization-mode=Webhook".to_owned(),
        other.flag("authorization-webhook-config-file", "authorize"),
    ];
    let server = Server::start(&binary(), &flags.each_ref().map(String::as_str)).unwrap();
    assert_eq!(get(&server, "jane-token", PODS).0, 200);
    let (code, body) = get(&server, "jane-token", SECRETS);
    assert_eq!(code, 403);
    assert!(body.contains(r#"User \"jane\" cannot list resource \"secrets\" in API group \"\" in the namespace \"default\": secrets are secret"#), "{body}");
    let (code, body) = get(&server, "joe-token", PODS);
    assert!(code == 403 && body.contains("only jane"), "{code} {body}");
    assert_eq!(get(&server, "unknown-token", PODS).0, 401);
    // The administrator asks no other server to decide.
    let asked = other.server.requests().len();
    assert_eq!(get(&server, server.token(), SECRETS).0, 200);
    assert_eq!(other.server.requests().len(), asked);
    // Known tokens and decisions are not asked for again.
    assert_eq!(get(&server, "jane-token", PODS).0, 200);
    assert_eq!(other.server.requests().len(), asked);
    assert!(
        other.server.requests().iter().all(|request| request.header("authorization") == "Bearer hush-own")
    );
}

/// A server that repeats what it was sent, in answers of several forms.
fn repeat(request: &Request) -> Reply {
    let sent = format!("{} {}", request.header("authorization"), request.body);
    let quoted = sent.replace('"', "'");
    let failure = |code, message: String| {
        Reply::Json(code, format!(r#"{{"kind":"Status","status":"Failure","message":"{message}"}}"#))
    };
    let has = |text: &str| request.body.contains(text);
    if has("planted-body") || has("body-user") {
        Reply::Json(502, sent)
    } else if has("planted-status") || has("status-user") {
        failure(403, quoted)
    } else if has("planted-cut") {
        failure(400, format!("{}{quoted}", "x".repeat(900)))
    } else if has("planted-error") {
        let review = r#"{"kind":"TokenReview","apiVersion":"authentication.k8s.io/v1beta1","status"#;
        Reply::ok(format!(r#"{review}":{{"error":"{quoted}"}}}}"#))
    } else {
        Reply::ok(format!("<{sent}>"))
    }
}

#[test]
fn planted_secrets_are_in_no_log_no_answer_and_no_file() {
    let authority = Authority::new().unwrap();
    let serving = authority.issue(&["127.0.0.1"]).unwrap();
    let repeating = HttpsServer::start(&serving, Some(&authority), repeat).unwrap();
    let other = Other { server: repeating, folder: Folder::new().unwrap() };
    let client = authority.issue(&["client"]).unwrap();
    let line_of_key = client.key.lines().nth(1).unwrap().to_owned();
    // The plugin writes everything that it knows to its standard error too; the second run fails.
    let issued = format!(
        r#"{{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{{"token":"planted-issued","clientCertificateData":"{}","clientKeyData":"{}","expirationTimestamp":"2001-01-01T00:00:00Z"}}}}"#,
        client.certificate.replace('\n', "\\n"),
        client.key.replace('\n', "\\n"),
    );
    fs::write(other.path("issued"), issued).unwrap();
    fs::write(other.path("client.key"), &client.key).unwrap();
    let script = format!(
        "#!/bin/sh\ncd '{}'\ncat issued client.key >&2\ntail -n 2 client.key >&2\n\
         echo plugin speaks: planted-issued $PLANTED \"$@\" >&2\ncat issued\n[ ! -e ran ] || exit 3\ntouch ran\n",
        other.folder.path().display()
    );
    fs::write(other.path("plugin.sh"), script).unwrap();
    fs::set_permissions(other.path("plugin.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    let plugin = "{exec: {command: ./plugin.sh, apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, \
                  args: ['--secret=planted-argument'], env: [{name: PLANTED, value: planted-variable}]}}";
    for (name, user) in [("authenticate", "{token: planted-own}"), ("authorize", plugin)] {
        other.server.kubeconfig(&other.path(name), &format!("/{name}"), &authority, user).unwrap();
    }
    let flags = [
        other.flag("authentication-token-webhook-config-file", "authenticate"),
        "--authorization-mode=Webhook".to_owned(),
        other.flag("authorization-webhook-config-file", "authorize"),
        "-v=10".to_owned(),
    ];
    let server = Server::start(&binary(), &flags.each_ref().map(String::as_str)).unwrap();
    let mut answers = String::new();
    for token in ["planted-body", "planted-status", "planted-cut", "planted-error", "planted-other"] {
        let (code, body) = get(&server, token, PODS);
        assert_eq!(code, 401, "{body}");
        answers.push_str(&body);
    }
    // The administrator acts as users on whom the other webhook decides.
    for user in ["body-user", "status-user"] {
        let credentials = format!("{}\r\nImpersonate-User: {user}", server.token());
        let (code, body) = get(&server, &credentials, PODS);
        assert_eq!(code, 500, "{body}");
        answers.push_str(&body);
    }
    let authorize = |request: &Request| request.path.starts_with("/authorize");
    let asked = other.server.requests().into_iter().find(authorize).unwrap();
    assert!(asked.header("authorization") == "Bearer planted-issued" && asked.certificate.is_some());
    let data = server.folder().join("data");
    assert_eq!(testkit::files_with(&data, "planted").unwrap(), Vec::<PathBuf>::new());
    assert_eq!(testkit::files_with(&data, &line_of_key).unwrap(), Vec::<PathBuf>::new());
    let log = server.terminate().unwrap().unwrap().log;
    for text in [&log, &answers] {
        // All secrets have it, also when they were cut.
        assert!(!text.contains("plant") && !text.contains(&line_of_key), "{text}");
    }
    for line in ["a webhook for tokens did not answer", "plugin speaks: [withheld]", "exit code 3"] {
        assert!(log.contains(line), "{line}: {log}");
    }
}

#[test]
fn token_that_the_webhook_does_not_answer_for_is_refused_in_its_time() {
    let other = other();
    let flags = [
        other.flag("authentication-token-webhook-config-file", "authenticate"),
        "--authentication-token-webhook-version=v1".to_owned(),
        "--authorization-mode=AlwaysAllow".to_owned(),
    ];
    let server = Server::start(&binary(), &flags.each_ref().map(String::as_str)).unwrap();
    let begin = Instant::now();
    let slow = std::thread::scope(|scope| {
        let slow = scope.spawn(|| get(&server, "slow-token", PODS).0);
        assert_eq!(get(&server, "jane-token", PODS).0, 200);
        slow.join().unwrap()
    });
    assert_eq!(slow, 401);
    assert!(begin.elapsed() < PATIENCE);
}

/// Webhooks and their conditions see no selectors without the gate.
#[test]
fn webhooks_get_selectors_with_their_gate_only() {
    let list = "/api/v1/namespaces/default/pods?labelSelector=tier%3Dweb&fieldSelector=spec.nodeName%3Dn";
    let gates = "--feature-gates=AuthorizeWithSelectors=false,AuthorizeNodeWithSelectors=false";
    for (gate, is_sent) in [("--feature-gates=AuthorizeWithSelectors=true", true), (gates, false)] {
        let other = other();
        let hook = other.webhook(&other.path("authorize"));
        let path = other.configure(&format!("[{hook}]"));
        let flags = [
            other.flag("authentication-token-webhook-config-file", "authenticate"),
            format!("--authorization-config={}", path.display()),
            gate.to_owned(),
        ];
        let server = Server::start(&binary(), &flags.each_ref().map(String::as_str)).unwrap();
        assert_eq!(get(&server, "jane-token", list).0, 200);
        let asked = other.server.requests();
        let asked = asked.iter().rfind(|request| request.body.contains("\"jane\"")).unwrap();
        for selector in ["\"labelSelector\"", "\"fieldSelector\""] {
            assert_eq!(asked.body.contains(selector), is_sent, "{}", asked.body);
        }
    }
}

#[test]
fn configuration_file_decides_and_changes_take_effect() {
    let other = other();
    let hook = other.webhook(&other.path("authorize"));
    let path = other.configure(&format!("[{hook}, {{type: RBAC, name: rbac}}]"));
    let flags = [
        other.flag("authentication-token-webhook-config-file", "authenticate"),
        format!("--authorization-config={}", path.display()),
    ];
    let server = Server::start(&binary(), &flags.each_ref().map(String::as_str)).unwrap();
    assert_eq!(get(&server, "jane-token", PODS).0, 200);
    assert_eq!(get(&server, "jane-token", SECRETS).0, 403);
    assert_eq!(get(&server, "joe-token", PODS).0, 403);
    let until = |token: &str, path: &str, code: u16| {
        let begin = Instant::now();
        while get(&server, token, path).0 != code {
            assert!(begin.elapsed() < PATIENCE, "{token} {path} {code}");
            std::thread::sleep(Duration::from_millis(100));
        }
    };
    other.configure("[{type: RBAC, name: rbac}, {type: AlwaysAllow, name: alwaysallow}]");
    until("joe-token", SECRETS, 200);
    // What is wrong changes nothing.
    for wrong in ["[{type: AlwaysDeny, name: alwaysdeny}]", "[{type: RBAC, name: rbac, more: 1}]", "["] {
        let refused = server.logged("a changed file cannot be used");
        other.configure(wrong);
        testkit::eventually("the file is read", PATIENCE, || {
            server.logged("a changed file cannot be used") > refused
        });
        assert_eq!(get(&server, "joe-token", SECRETS).0, 200, "{wrong}");
    }
    other.configure(&format!("[{{type: RBAC, name: rbac}}, {hook}]"));
    until("joe-token", SECRETS, 403);
    assert_eq!(get(&server, "jane-token", PODS).0, 200);
    // The webhook is asked about requests that match.
    let matching = |condition: &str| {
        let conditions = format!(
            "webhook: {{matchConditionSubjectAccessReviewVersion: v1, matchConditions: [{{expression: \"{condition}\"}}], "
        );
        let hook = hook.replace("webhook: {", &conditions);
        other.configure(&format!("[{{type: RBAC, name: rbac}}, {hook}]"));
    };
    matching("request.user != 'jane'");
    until("jane-token", PODS, 403);
    matching("request.resourceAttributes.resource == 'pods'");
    until("jane-token", PODS, 200);
}

#[test]
fn wrong_configuration_ends_the_start_with_the_reason() {
    let other = other();
    let start = |flags: &[String]| {
        let folder = Folder::new().unwrap();
        let output = Command::new(binary())
            .arg(format!("--data-dir={}", folder.path().display()))
            .arg("--secure-port=0")
            .args(flags)
            .output()
            .unwrap();
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let config = |authorizers: &str| {
        let path = other.configure(authorizers);
        start(&[format!("--authorization-config={}", path.display())])
    };
    let hook = other.webhook(&other.path("authorize"));
    let conditions = hook.replace(
        "webhook: {",
        "webhook: {matchConditionSubjectAccessReviewVersion: v1, matchConditions: [{expression: request.name}], ",
    );
    let selectors = conditions.replace("request.name", "has(request.resourceAttributes.fieldSelector)");
    let without_selectors = || {
        let path = other.configure(&format!("[{selectors}]"));
        start(&[
            format!("--authorization-config={}", path.display()),
            "--feature-gates=AuthorizeWithSelectors=false,AuthorizeNodeWithSelectors=false".to_owned(),
        ])
    };
    fs::write(other.path("broken"), "clusters: [").unwrap();
    let cases = [
        (without_selectors(), "compilation failed: ERROR: <input>:1:4: undefined field 'fieldSelector'"),
        (config("[{type: RBAC, name: rbac, more: 1}]"), r#"unknown field "authorizers[0].more""#),
        (config("[{type: RBAC"), "yaml: line"),
        (
            config(&format!("[{conditions}]")),
            "authorizers[0].matchConditions[0].expression: Invalid value: \"request.name\": compilation failed: \
             ERROR: <input>:1:8: undefined field 'name'",
        ),
        (
            config(&format!("[{}]", other.webhook(&other.path("broken")))),
            "broken cannot be used: yaml: line 1:",
        ),
        (
            start(&[
                other.flag("authorization-config", "config.yaml"),
                "--authorization-mode=RBAC".to_owned(),
            ]),
            "--authorization-config can not be specified when --authorization-mode",
        ),
        (
            start(&["--authorization-mode=Webhook".to_owned()]),
            "authorization-mode Webhook's authorization config file not passed",
        ),
        (
            start(&[other.flag("authentication-token-webhook-config-file", "missing")]),
            "missing cannot be read: No such file",
        ),
    ];
    for (said, wanted) in cases {
        assert!(said.contains(wanted), "{wanted}: {said}");
    }
}
