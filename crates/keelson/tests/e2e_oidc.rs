//! Tokens of OpenID Connect: the binary beside real issuers whose keys change, by flags and by a
//! configuration file.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use auth::jwt::{KeySet, SigningKey};
use object::{Map, Value};
use testkit::Folder;
use testkit::Server;
use testkit::https::{Authority, HttpsServer, Reply, Request};

const PATIENCE: Duration = Duration::from_secs(20);

fn binary() -> PathBuf {
    testkit::server_binary(env!("CARGO_BIN_EXE_keelson"))
}

/// An issuer with an authority of its own.
struct Issuer {
    server: HttpsServer,
    authority: String,
    key: Mutex<SigningKey>,
    keys: Arc<Mutex<String>>,
}

fn new_key() -> (SigningKey, String) {
    let key = SigningKey::from_pem(SigningKey::generate().unwrap().as_bytes()).unwrap();
    let keys = KeySet::new(vec![key.public().clone()]).to_jwks();
    (key, keys)
}

impl Issuer {
    fn start() -> Self {
        let authority = Authority::new().unwrap();
        let serving = authority.issue(&["127.0.0.1"]).unwrap();
        let (key, keys) = new_key();
        let keys = Arc::new(Mutex::new(keys));
        let current = keys.clone();
        let answer = move |request: &Request| match request.path.as_str() {
            "/keys" => Reply::ok(current.lock().unwrap().clone()),
            // Says what it was sent, in place of a token with groups.
            "/groups" => Reply::Json(500, request.header("authorization").to_owned()),
            "/malformed" => Reply::ok(request.header("authorization")),
            "/.well-known/openid-configuration" => {
                let host = request.header("host");
                Reply::ok(format!(r#"{{"issuer":"https://{host}","jwks_uri":"https://{host}/keys"}}"#))
            }
            _ => Reply::Close,
        };
        let server = HttpsServer::start(&serving, None, answer).unwrap();
        Self { server, authority: authority.certificate, key: Mutex::new(key), keys }
    }

    /// Signs with another key from now on.
    fn rotate(&self) {
        let (key, keys) = new_key();
        *self.key.lock().unwrap() = key;
        *self.keys.lock().unwrap() = keys;
    }

    /// A token for the audience `me` that ends so many seconds from now.
    fn token(&self, user: &str, seconds: i64) -> String {
        self.token_with(user, seconds, [])
    }

    /// The same with other claims.
    fn token_with<const N: usize>(
        &self,
        user: &str,
        seconds: i64,
        other: [(&'static str, Value); N],
    ) -> String {
        let now = SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs() as i64;
        let mut claims = Map::new();
        claims.insert("iss", self.server.url().as_str());
        claims.insert("aud", "me");
        claims.insert("exp", Value::Int(now + seconds));
        claims.insert("sub", user);
        claims.insert("team", "blue");
        claims.insert("roles", [Value::from("dev")].into_iter().collect::<Value>());
        for (name, value) in other {
            claims.insert(name, value);
        }
        self.key.lock().unwrap().sign(claims).unwrap()
    }

    /// Its entry in a configuration file.
    fn entry(&self) -> String {
        entry(&self.server.url(), &self.authority)
    }
}

fn entry(url: &str, authority: &str) -> String {
    let authority = authority.replace('\n', "\\n");
    format!(
        "{{issuer: {{url: '{url}', audiences: [me], certificateAuthority: \"{authority}\"}}, \
         claimMappings: {{username: {{claim: sub, prefix: 'file:'}}}}}}"
    )
}

fn configure(path: &Path, rest: &str) {
    let head = "apiVersion: apiserver.config.k8s.io/v1beta1\nkind: AuthenticationConfiguration\n";
    fs::write(path, format!("{head}{rest}\n")).unwrap();
}

/// The status code and body of a request, with a token if it is not empty.
fn send(server: &Server, method: &str, path: &str, token: &str, body: &str) -> (u16, String) {
    let target = server.target().unwrap();
    let mut connection = target.connect(PATIENCE).unwrap();
    let credentials =
        if token.is_empty() { String::new() } else { format!("Authorization: Bearer {token}\r\n") };
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: {}\r\n{credentials}Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        target.authority(),
        body.len(),
    );
    connection.send(request.as_bytes()).unwrap();
    let mut head = connection.head(method).unwrap();
    let body = connection.body(&mut head).unwrap();
    (head.status, String::from_utf8(body).unwrap())
}

/// Who the server says that the owner of a token is.
fn review(server: &Server, token: &str) -> (u16, String) {
    let body = r#"{"kind":"SelfSubjectReview","apiVersion":"authentication.k8s.io/v1"}"#;
    send(server, "POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", token, body)
}

/// Waits until the server gives a token this answer.
fn until(server: &Server, code: u16, token: impl Fn() -> String) -> String {
    let begin = Instant::now();
    loop {
        let (found, body) = review(server, &token());
        if found == code {
            return body;
        }
        assert!(begin.elapsed() < PATIENCE, "{found} {body}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn tokens_of_an_issuer_of_flags_are_accepted_also_after_its_keys_changed() {
    let issuer = Issuer::start();
    let folder = Folder::new().unwrap();
    let ca = folder.path().join("ca.crt");
    fs::write(&ca, &issuer.authority).unwrap();
    let flags = [
        format!("--oidc-issuer-url={}", issuer.server.url()),
        "--oidc-client-id=me".to_owned(),
        format!("--oidc-ca-file={}", ca.display()),
        "--oidc-groups-claim=roles".to_owned(),
        "--oidc-groups-prefix=g:".to_owned(),
        "--oidc-required-claim=team=blue".to_owned(),
        "--oidc-signing-algs=RS256,ES256".to_owned(),
    ];
    let server = Server::start(&binary(), &flags.each_ref().map(String::as_str)).unwrap();
    let body = until(&server, 201, || issuer.token("jane", 600));
    let name = format!(r#""username":"{}#jane""#, issuer.server.url());
    assert!(body.contains(&name), "{body}");
    assert!(body.contains(r#""groups":["g:dev","system:authenticated"]"#), "{body}");
    let old = issuer.token("jane", 600);
    issuer.rotate();
    let new = issuer.token("jane", 600);
    assert_eq!(review(&server, &new).0, 201);
    assert_eq!(review(&server, &old).0, 401);
    assert_eq!(review(&server, &issuer.token("jane", -10)).0, 401);
    // Other methods know their tokens still.
    assert_eq!(review(&server, server.token()).0, 201);
}

#[test]
fn planted_tokens_are_in_no_log_no_answer_and_no_file() {
    let (issuer, stranger) = (Issuer::start(), Issuer::start());
    let folder = Folder::new().unwrap();
    let ca = folder.path().join("ca.crt");
    fs::write(&ca, &issuer.authority).unwrap();
    let flags = [
        format!("--oidc-issuer-url={}", issuer.server.url()),
        "--oidc-client-id=me".to_owned(),
        format!("--oidc-ca-file={}", ca.display()),
        "--oidc-groups-claim=groups".to_owned(),
        "--oidc-required-claim=team=blue".to_owned(),
        "--oidc-signing-algs=ES256".to_owned(),
        "-v=10".to_owned(),
    ];
    let server = Server::start(&binary(), &flags.each_ref().map(String::as_str)).unwrap();
    let good = issuer.token("jane", 600);
    until(&server, 201, || good.clone());
    // A claim that another server has, which gets an access token.
    let far = |path: &str| {
        let map = |entry: (&'static str, Value)| Value::from([entry].into_iter().collect::<Map>());
        let endpoint = format!("{}{path}", issuer.server.url());
        let source = [("endpoint", Value::from(endpoint)), ("access_token", "planted-access".into())];
        let source: Map = source.into_iter().collect();
        let names = map(("groups", "far".into()));
        issuer.token_with(
            "joe",
            600,
            [("_claim_names", names), ("_claim_sources", map(("far", source.into())))],
        )
    };
    let (head, rest) = good.split_once('.').unwrap();
    let unsigned = "eyJhbGciOiJub25lIn0";
    let wrong = [
        far("/groups"),
        far("/malformed"),
        stranger.token("jane", 600),
        stranger.token_with("jane", 600, [("iss", issuer.server.url().into())]),
        issuer.token("jane", -10),
        issuer.token_with("jane", 600, [("aud", "others".into())]),
        issuer.token_with("jane", 600, [("team", "red".into())]),
        issuer.token_with("jane", 600, [("sub", Value::Int(1))]),
        format!("{unsigned}.{rest}"),
        format!("{head}.planted{rest}"),
        good.replace('.', ".planted"),
    ];
    let mut answers = String::new();
    for token in &wrong {
        let (code, body) = review(&server, token);
        assert_eq!(code, 401, "{body}");
        answers.push_str(&body);
    }
    let asked = issuer.server.requests();
    for path in ["/groups", "/malformed"] {
        let asked = asked.iter().find(|request| request.path == path).unwrap();
        assert_eq!(asked.header("authorization"), "Bearer planted-access");
    }
    // The parts of the tokens, but for heads, which are the same in all.
    let parts = wrong.iter().chain([&good]).flat_map(|token| token.split('.').skip(1));
    let parts: Vec<&str> = parts.filter(|part| !part.is_empty()).chain(["planted"]).collect();
    let data = server.folder().join("data");
    for part in &parts {
        assert_eq!(testkit::files_with(&data, part).unwrap(), Vec::<PathBuf>::new());
    }
    let log = server.terminate().unwrap().unwrap().log;
    for part in parts {
        assert!(!log.contains(part) && !answers.contains(part), "{part}: {answers} {log}");
    }
    assert!(log.matches("a token was refused").count() >= wrong.len() - 2, "{log}");
}

#[test]
fn changes_of_the_configuration_file_take_effect_when_the_issuers_are_ready() {
    let (one, other) = (Issuer::start(), Issuer::start());
    let folder = Folder::new().unwrap();
    let path = folder.path().join("authentication.yaml");
    let anonymous = "anonymous: {enabled: true, conditions: [{path: /livez}]}";
    configure(&path, &format!("jwt: [{}]\n{anonymous}", one.entry()));
    let flag = format!("--authentication-config={}", path.display());
    let server = Server::start(&binary(), &[&flag]).unwrap();
    let body = until(&server, 201, || one.token("jane", 600));
    assert!(body.contains(r#""username":"file:jane""#), "{body}");
    assert_eq!(review(&server, &other.token("joe", 600)).0, 401);
    let get = |path: &str| send(&server, "GET", path, "", "").0;
    assert_eq!((get("/livez"), get("/readyz"), get("/version")), (200, 401, 401));

    configure(&path, &format!("jwt: [{}, {}]\n{anonymous}", one.entry(), other.entry()));
    until(&server, 201, || other.token("joe", 600));
    // What is wrong, or not ready, changes nothing.
    let nowhere = entry("https://127.0.0.1:1", &one.authority);
    let wrong = [
        format!("jwt: [{nowhere}]\n{anonymous}"),
        format!("jwt: [{}]", one.entry()),
        format!("jwt: [{{more: 1}}]\n{anonymous}"),
        "jwt: [".to_owned(),
    ];
    let read = || {
        server.logged("a changed file cannot be used")
            + server.logged("a file has changed and was read again")
    };
    for wrong in wrong {
        let before = read();
        configure(&path, &wrong);
        testkit::eventually("the file is read", PATIENCE, || read() > before);
        assert_eq!(review(&server, &one.token("jane", 600)).0, 201, "{wrong}");
        assert_eq!(review(&server, &other.token("joe", 600)).0, 201, "{wrong}");
    }
    configure(&path, &format!("jwt: [{}]\n{anonymous}", other.entry()));
    until(&server, 401, || one.token("jane", 600));
    assert_eq!(review(&server, &other.token("joe", 600)).0, 201);
}

#[test]
fn expressions_of_the_configuration_file_make_users_and_follow_its_changes() {
    let issuer = Issuer::start();
    let folder = Folder::new().unwrap();
    let path = folder.path().join("authentication.yaml");
    let configured = |prefix: &str| {
        let mappings = format!(
            "claimMappings: {{username: {{expression: \"'{prefix}:' + claims.sub\"}}, \
             groups: {{expression: 'claims.?roles.orValue([])'}}, \
             uid: {{expression: 'has(claims.secret) ? claims[claims.secret] : claims.sub'}}, \
             extra: [{{key: x.org/team, valueExpression: claims.team}}]}}, \
             claimValidationRules: [{{expression: claims.team == 'blue', message: wrong team}}], \
             userValidationRules: [{{expression: \"!user.username.endsWith(':root')\"}}]"
        );
        let plain = "claimMappings: {username: {claim: sub, prefix: 'file:'}}";
        configure(&path, &format!("jwt: [{}]", issuer.entry().replace(plain, &mappings)));
    };
    configured("one");
    let flag = format!("--authentication-config={}", path.display());
    let server = Server::start(&binary(), &[&flag, "-v=10"]).unwrap();
    let body = until(&server, 201, || issuer.token("jane", 600));
    for part in [
        r#""username":"one:jane""#,
        r#""uid":"jane""#,
        r#""groups":["dev","system:authenticated"]"#,
        r#""x.org/team":["blue"]"#,
    ] {
        assert!(body.contains(part), "{part}: {body}");
    }
    for token in [
        issuer.token("root", 600),
        issuer.token_with("jane", 600, [("team", "red".into())]),
        issuer.token_with("jane", 600, [("team", Value::Int(1))]),
        issuer.token_with("jane", 600, [("secret", "planted".into())]),
    ] {
        let (code, body) = review(&server, &token);
        assert_eq!(code, 401, "{body}");
        assert!(!body.contains("planted") && !body.contains("expression"), "{body}");
    }
    configured("two");
    let begin = Instant::now();
    while !review(&server, &issuer.token("jane", 600)).1.contains(r#""username":"two:jane""#) {
        assert!(begin.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(100));
    }
    let log = server.terminate().unwrap().unwrap().log;
    assert!(log.contains("expression 'has(claims.secret)") && !log.contains("planted"), "{log}");
}

#[test]
fn wrong_configuration_ends_the_start_with_the_reason() {
    let issuer = Issuer::start();
    let folder = Folder::new().unwrap();
    let path = folder.path().join("authentication.yaml");
    let start = |flags: &[&str]| {
        let data = Folder::new().unwrap();
        let output = Command::new(binary())
            .arg(format!("--data-dir={}", data.path().display()))
            .arg("--secure-port=0")
            .args(flags)
            .output()
            .unwrap();
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let flag = format!("--authentication-config={}", path.display());
    let file = |rest: &str, flags: &[&str]| {
        configure(&path, rest);
        let all: Vec<&str> = flags.iter().copied().chain([flag.as_str()]).collect();
        start(&all)
    };
    let expression = |text: &str| {
        issuer.entry().replace("{claim: sub, prefix: 'file:'}", &format!("{{expression: {text}}}"))
    };
    let cases = [
        (
            file(&format!("jwt: [{}]", expression("claims.email")), &[]),
            "jwt[0].claimMappings.username.expression: Invalid value: \"claims.email\": claims.email_verified must be used",
        ),
        (
            file(&format!("jwt: [{}]", expression("user.name")), &[]),
            "compilation failed: ERROR: <input>:1:1: undeclared reference to 'user' (in container '')",
        ),
        (file("jwt: [{more: 1}]", &[]), r#"unknown field "jwt[0].more""#),
        (
            file("anonymous: {enabled: true}", &["--anonymous-auth=true"]),
            "anonymous: Forbidden: --anonymous-auth flag cannot be set when anonymous field is configured",
        ),
        (
            file("jwt: []", &["--oidc-issuer-url=https://x", "--oidc-client-id=me"]),
            "authentication-config file and oidc-* flags are mutually exclusive",
        ),
        (
            start(&["--oidc-issuer-url=https://x"]),
            "oidc-issuer-url and oidc-client-id must be specified together when any oidc-* flags are set",
        ),
        (
            start(&["--oidc-issuer-url=https://kubernetes.default.svc.cluster.local", "--oidc-client-id=me"]),
            "URL must not overlap with disallowed issuers",
        ),
        (
            start(&["--oidc-issuer-url=https://x", "--oidc-client-id=me", "--oidc-signing-algs=none"]),
            "oidc: unsupported signing alg: \"none\"",
        ),
        (start(&["--authentication-config=/nowhere"]), "/nowhere cannot be read: "),
    ];
    for (said, wanted) in cases {
        assert!(said.contains(wanted), "{wanted}: {said}");
    }
}
