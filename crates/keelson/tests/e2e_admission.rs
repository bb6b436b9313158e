//! Admission webhooks: the binary beside a real HTTPS server, with configurations in the style of well-known
//! projects.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use testkit::Server;
use testkit::https::{Authority, HttpsServer, Reply, Request};

const PATIENCE: Duration = Duration::from_secs(40);
const MUTATING: &str = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";
const VALIDATING: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
const PODS: &str = "/api/v1/namespaces/default/pods";
const POD: &str = r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"NAME","labels":{"app":"web"}},"spec":{"automountServiceAccountToken":false,"containers":[{"name":"c","image":"i"}]}}"#;

fn binary() -> PathBuf {
    testkit::server_binary(env!("CARGO_BIN_EXE_keelson"))
}

/// How the webhook is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum State {
    Up,
    Slow,
    Down,
}

struct Webhook {
    server: HttpsServer,
    bundle: String,
    state: Arc<AtomicU8>,
}

impl Webhook {
    fn start() -> Self {
        let authority = Authority::new().unwrap();
        let serving = authority.issue(&["127.0.0.1"]).unwrap();
        let state = Arc::new(AtomicU8::new(State::Up as u8));
        let server = HttpsServer::start(&serving, None, {
            let state = state.clone();
            move |request| match state.load(Ordering::SeqCst) {
                state if state == State::Down as u8 => Reply::Close,
                state if state == State::Slow as u8 => Reply::Silence(Duration::from_secs(60)),
                _ => answer(request),
            }
        });
        Self { server: server.unwrap(), bundle: base64(authority.certificate.as_bytes()), state }
    }

    fn set(&self, state: State) {
        self.state.store(state as u8, Ordering::SeqCst);
    }

    /// A configuration of one webhook.
    fn configuration(&self, kind: &str, name: &str, path: &str, fields: &str) -> String {
        format!(
            r#"{{"apiVersion":"admissionregistration.k8s.io/v1","kind":"{kind}","metadata":{{"name":"{name}"}},"webhooks":[{{"name":"{name}.example.com","clientConfig":{{"url":"{}{path}","caBundle":"{}"}},"admissionReviewVersions":["v1"],"sideEffects":"None",{fields}}}]}}"#,
            self.server.url(),
            self.bundle
        )
    }
}

/// Injects a container, refuses what is called `bad`, or sets a label.
fn answer(request: &Request) -> Reply {
    let uid = between(&request.body, "\"uid\":\"", "\"");
    let patch = |patch: &str| {
        format!(r#""allowed":true,"patchType":"JSONPatch","patch":"{}""#, base64(patch.as_bytes()))
    };
    let response = match request.path.split('?').next().unwrap_or_default() {
        "/inject" => patch(
            r#"[{"op":"add","path":"/spec/containers/-","value":{"name":"proxy","image":"p"}},{"op":"add","path":"/metadata/annotations","value":{"sidecar":"injected"}}]"#,
        ),
        "/move" => patch(r#"[{"op":"replace","path":"/metadata/namespace","value":"kube-system"}]"#),
        "/mutate" => patch(r#"[{"op":"add","path":"/metadata/labels/approved","value":"yes"}]"#),
        _ if request.body.contains(r#""name":"bad""#) => {
            r#""allowed":false,"status":{"message":"bad is not good","code":403}"#.to_owned()
        }
        "/annotate" => r#""allowed":true,"auditAnnotations":{"seen":"it passed here"}"#.to_owned(),
        _ => r#""allowed":true"#.to_owned(),
    };
    Reply::ok(format!(
        r#"{{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","response":{{"uid":"{uid}",{response}}}}}"#
    ))
}

fn between<'a>(text: &'a str, before: &str, after: &str) -> &'a str {
    let (_, rest) = text.split_once(before).unwrap_or_default();
    rest.split(after).next().unwrap_or_default()
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for chunk in bytes.chunks(3) {
        let bits =
            chunk.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for at in 0..4 {
            let letter = LETTERS[(bits >> (18 - 6 * at)) as usize & 63];
            out.push(if at <= chunk.len() { char::from(letter) } else { '=' });
        }
    }
    out
}

struct Response {
    code: u16,
    warnings: Vec<String>,
    body: String,
}

fn call(server: &Server, method: &str, path: &str, body: &str) -> Response {
    let target = server.target().unwrap();
    let mut connection = target.connect(PATIENCE).unwrap();
    let mut request = String::new();
    let _ = write!(
        request,
        "{method} {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        target.authority(),
        server.token(),
        body.len()
    );
    connection.send(request.as_bytes()).unwrap();
    let mut head = connection.head(method).unwrap();
    let warnings = head.all("warning").map(str::to_owned).collect();
    let body = connection.body(&mut head).unwrap();
    Response { code: head.status, warnings, body: String::from_utf8(body).unwrap() }
}

fn create(server: &Server, path: &str, body: &str) -> Response {
    call(server, "POST", path, body)
}

fn start(flags: &[&str]) -> Server {
    Server::start(&binary(), flags).unwrap()
}

fn pod(server: &Server, name: &str) -> Response {
    create(server, PODS, &POD.replace("NAME", name))
}

const RULE: &str =
    r#""rules":[{"operations":["CREATE"],"apiGroups":[""],"apiVersions":["v1"],"resources":["pods"]}]"#;

#[test]
fn sidecar_injector_in_the_style_of_istio() {
    let (webhook, server) = (Webhook::start(), start(&[]));
    let selectors = r#""reinvocationPolicy":"Never","namespaceSelector":{"matchLabels":{"injection":"enabled"}},"objectSelector":{"matchExpressions":[{"key":"sidecar.example.com/inject","operator":"NotIn","values":["false"]}]},"failurePolicy":"Fail","timeoutSeconds":2"#;
    let configuration = webhook.configuration(
        "MutatingWebhookConfiguration",
        "injector",
        "/inject",
        &format!("{RULE},{selectors}"),
    );
    assert_eq!(create(&server, MUTATING, &configuration).code, 201);
    let plain = pod(&server, "plain");
    assert!(plain.code == 201 && !plain.body.contains("proxy"), "{}", plain.body);
    let label = r#"{"metadata":{"labels":{"injection":"enabled"}}}"#;
    let labelled = patch(&server, "/api/v1/namespaces/default", label);
    assert_eq!(labelled.code, 200, "{}", labelled.body);
    let injected = pod(&server, "injected");
    assert_eq!(injected.code, 201, "{}", injected.body);
    // What was injected has its defaults, and belongs to nobody.
    assert!(
        injected.body.contains(r#""name":"proxy","image":"p","resources":{},"terminationMessagePath""#),
        "{}",
        injected.body
    );
    assert!(!injected.body.contains(r#"k:{\"name\":\"proxy\"}"#), "{}", injected.body);
    let opted_out =
        POD.replace("NAME", "out").replace(r#""app":"web""#, r#""sidecar.example.com/inject":"false""#);
    assert!(!create(&server, PODS, &opted_out).body.contains("proxy"));
    for state in [State::Down, State::Slow] {
        webhook.set(state);
        let begin = Instant::now();
        let refused = pod(&server, "refused");
        assert_eq!(refused.code, 500, "{state:?}");
        assert!(
            refused
                .body
                .contains(r#"failed calling webhook \"injector.example.com\": failed to call webhook: Post"#),
            "{}",
            refused.body
        );
        assert!(begin.elapsed() < Duration::from_secs(20));
    }
    // The operator can always take the webhook away.
    assert_eq!(call(&server, "DELETE", &format!("{MUTATING}/injector"), "").code, 200);
    assert_eq!(pod(&server, "free").code, 201);
}

fn patch(server: &Server, path: &str, body: &str) -> Response {
    let target = server.target().unwrap();
    let mut connection = target.connect(PATIENCE).unwrap();
    let request = format!(
        "PATCH {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nContent-Type: application/merge-patch+json\r\nContent-Length: {}\r\n\r\n{body}",
        target.authority(),
        server.token(),
        body.len()
    );
    connection.send(request.as_bytes()).unwrap();
    let mut head = connection.head("PATCH").unwrap();
    let body = connection.body(&mut head).unwrap();
    Response { code: head.status, warnings: Vec::new(), body: String::from_utf8(body).unwrap() }
}

#[test]
fn audit_annotations_are_in_the_audit_log() {
    let folder = testkit::Folder::new().unwrap();
    let (policy, audit) = (folder.path().join("policy.yaml"), folder.path().join("audit.log"));
    let rules = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n";
    std::fs::write(&policy, rules).unwrap();
    let flags = [
        format!("--audit-policy-file={}", policy.display()),
        format!("--audit-log-path={}", audit.display()),
    ];
    let (webhook, server) = (Webhook::start(), start(&flags.each_ref().map(String::as_str)));
    let configuration = webhook.configuration("ValidatingWebhookConfiguration", "auditor", "/annotate", RULE);
    assert_eq!(create(&server, VALIDATING, &configuration).code, 201);
    let label = r#"{"metadata":{"labels":{"pod-security.kubernetes.io/audit":"restricted"}}}"#;
    assert_eq!(patch(&server, "/api/v1/namespaces/default", label).code, 200);
    let made = pod(&server, "lax");
    assert!(made.code == 201 && made.warnings.is_empty(), "{} {:?}", made.body, made.warnings);
    let log = std::fs::read_to_string(&audit).unwrap();
    let lines: Vec<_> = log.lines().filter(|line| line.contains(r#""verb":"create""#)).collect();
    for part in ["auditor.example.com/seen", "it passed here"] {
        assert!(lines.iter().any(|line| line.contains(part)), "{lines:?}");
    }
    let violation = "pod-security.kubernetes.io/audit-violations";
    assert!(lines.iter().any(|line| line.contains(violation) && line.contains("lax")), "{lines:?}");
    server.stop().unwrap();
}

#[test]
fn mutating_and_validating_pair_in_the_style_of_cert_manager() {
    let (webhook, server) = (Webhook::start(), start(&[]));
    // One server for both, all versions of a group, and resources with subresources.
    let rules = r#""rules":[{"operations":["CREATE","UPDATE"],"apiGroups":["autoscaling"],"apiVersions":["v1"],"resources":["*/*"]}],"matchPolicy":"Equivalent","timeoutSeconds":2,"failurePolicy":"Fail""#;
    let pair = [
        (MUTATING, "MutatingWebhookConfiguration", "/mutate"),
        (VALIDATING, "ValidatingWebhookConfiguration", "/validate"),
    ];
    for (collection, kind, path) in pair {
        let configuration = webhook.configuration(kind, "issuer", path, rules);
        assert_eq!(create(&server, collection, &configuration).code, 201);
    }
    let scaler = |name: &str| {
        format!(
            r#"{{"apiVersion":"autoscaling/v2","kind":"HorizontalPodAutoscaler","metadata":{{"name":"{name}","labels":{{"a":"b"}}}},"spec":{{"maxReplicas":3,"scaleTargetRef":{{"kind":"Deployment","name":"d"}},"metrics":[{{"type":"Resource","resource":{{"name":"cpu","target":{{"type":"Utilization","averageUtilization":50}}}}}}]}}}}"#
        )
    };
    let collection = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers";
    let made = create(&server, collection, &scaler("good"));
    assert_eq!(made.code, 201, "{}", made.body);
    assert!(
        made.body.contains(r#""approved":"yes""#) && made.body.contains(r#""averageUtilization":50"#),
        "{}",
        made.body
    );
    // The webhooks want version v1, and get it, whatever the client speaks.
    for request in webhook.server.requests() {
        let body = &request.body;
        assert!(
            body.contains(
                r#""kind":{"group":"autoscaling","version":"v1","kind":"HorizontalPodAutoscaler"}"#
            ),
            "{body}"
        );
        assert!(
            body.contains(
                r#""requestKind":{"group":"autoscaling","version":"v2","kind":"HorizontalPodAutoscaler"}"#
            ),
            "{body}"
        );
        assert!(
            body.contains(r#""object":{"kind":"HorizontalPodAutoscaler","apiVersion":"autoscaling/v1""#),
            "{body}"
        );
        assert!(body.contains(r#""targetCPUUtilizationPercentage":50"#), "{body}");
    }
    let refused = create(&server, collection, &scaler("bad"));
    assert_eq!(refused.code, 403);
    assert!(
        refused
            .body
            .contains(r#"admission webhook \"issuer.example.com\" denied the request: bad is not good"#),
        "{}",
        refused.body
    );
    webhook.set(State::Down);
    assert_eq!(create(&server, collection, &scaler("other")).code, 500);
    // Other resources do not notice.
    assert_eq!(pod(&server, "free").code, 201);
    // The configurations stay editable while their webhook is down.
    for (collection, ..) in pair {
        let edited = patch(&server, &format!("{collection}/issuer"), r#"{"metadata":{"labels":{"x":"y"}}}"#);
        assert_eq!(edited.code, 200, "{}", edited.body);
        assert_eq!(call(&server, "DELETE", &format!("{collection}/issuer"), "").code, 200);
    }
    assert_eq!(create(&server, collection, &scaler("other")).code, 201);
}

#[test]
fn policy_engine_in_the_style_of_kyverno() {
    let webhook = Webhook::start();
    let server = start(&["--webhook-circuit-breaker=3"]);
    // What the server itself writes into its namespaces would be asked about too.
    let published = "/api/v1/configmaps?fieldSelector=metadata.name=kube-root-ca.crt";
    testkit::eventually("the authority is in all namespaces", PATIENCE, || {
        call(&server, "GET", published, "").body.matches(r#""uid""#).count() >= 4
    });
    // Two configurations, one of which may fail; its own namespace is left out.
    let own = r#""namespaceSelector":{"matchExpressions":[{"key":"kubernetes.io/metadata.name","operator":"NotIn","values":["kube-system"]}]},"timeoutSeconds":1"#;
    let rules = r#""rules":[{"operations":["CREATE","UPDATE","DELETE","CONNECT"],"apiGroups":["*"],"apiVersions":["*"],"resources":["pods/*","configmaps"],"scope":"Namespaced"}]"#;
    for (name, policy) in [("svc-ignore", "Ignore"), ("svc-fail", "Fail")] {
        let fields = format!(r#"{rules},{own},"failurePolicy":"{policy}""#);
        let configuration =
            webhook.configuration("ValidatingWebhookConfiguration", name, "/validate", &fields);
        assert_eq!(create(&server, VALIDATING, &configuration).code, 201);
    }
    let made = pod(&server, "good");
    assert_eq!(made.code, 201, "{}", made.body);
    assert_eq!(pod(&server, "bad").code, 403);
    let asked = webhook.server.requests().len();
    assert_eq!(asked, 4);
    let map = r#"{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"bad"}}"#;
    assert_eq!(create(&server, "/api/v1/namespaces/kube-system/configmaps", map).code, 201);
    assert_eq!(webhook.server.requests().len(), asked);
    webhook.set(State::Down);
    for _ in 0..3 {
        assert_eq!(pod(&server, "down").code, 500);
    }
    let asked = webhook.server.requests().len();
    let refused = pod(&server, "down");
    assert_eq!((refused.code, webhook.server.requests().len()), (500, asked));
    assert!(
        refused.body.contains("the circuit breaker is open after 3 failures in a row"),
        "{}",
        refused.body
    );
    assert!(
        refused.warnings.iter().any(|warning| warning.contains("svc-ignore.example.com")),
        "{:?}",
        refused.warnings
    );
    let ready = call(&server, "GET", "/readyz?verbose", "");
    assert_eq!(ready.code, 200);
    let line = "circuit breaker of webhook svc-fail.example.com of validating configuration svc-fail is open after 3 failures in a row";
    assert!(ready.body.contains(line), "{}", ready.body);
    // Without the one that fails, the other is ignored.
    assert_eq!(call(&server, "DELETE", &format!("{VALIDATING}/svc-fail"), "").code, 200);
    assert_eq!(pod(&server, "down").code, 201);
    let log = server.terminate().unwrap().unwrap().log;
    assert!(
        log.contains("a webhook failed, which is ignored") && log.contains("svc-ignore.example.com"),
        "{log}"
    );
    assert!(log.contains("a webhook refused a request"), "{log}");
}

#[test]
fn broken_glass_lets_the_administrator_pass() {
    let webhook = Webhook::start();
    let server = start(&["--break-glass-skip-webhooks"]);
    let fields = format!(r#"{RULE},"failurePolicy":"Fail","timeoutSeconds":1"#);
    let configuration = webhook.configuration("ValidatingWebhookConfiguration", "dead", "/validate", &fields);
    assert_eq!(create(&server, VALIDATING, &configuration).code, 201);
    webhook.set(State::Down);
    assert_eq!(pod(&server, "free").code, 201);
    assert_eq!(webhook.server.requests().len(), 0);
    let log = server.terminate().unwrap().unwrap().log;
    assert!(log.contains("a webhook is skipped, because --break-glass-skip-webhooks is on"), "{log}");
    assert!(log.contains("dead.example.com"), "{log}");
}

#[test]
fn webhook_cannot_move_an_object_to_another_namespace() {
    let (webhook, server) = (Webhook::start(), start(&[]));
    let configuration = webhook.configuration("MutatingWebhookConfiguration", "mover", "/move", RULE);
    assert_eq!(create(&server, MUTATING, &configuration).code, 201);
    let refused = pod(&server, "moved");
    assert_eq!(refused.code, 400, "{}", refused.body);
    let why = "the namespace of the provided object does not match the namespace sent on the request";
    assert!(refused.body.contains(why), "{}", refused.body);
}

#[test]
fn timeout_of_the_request_bounds_the_webhook() {
    let (webhook, server) = (Webhook::start(), start(&[]));
    webhook.set(State::Slow);
    let fields = format!(r#"{RULE},"failurePolicy":"Ignore","timeoutSeconds":30"#);
    let configuration = webhook.configuration("ValidatingWebhookConfiguration", "slow", "/validate", &fields);
    assert_eq!(create(&server, VALIDATING, &configuration).code, 201);
    let begin = Instant::now();
    let refused = create(&server, &format!("{PODS}?timeout=1s"), &POD.replace("NAME", "late"));
    assert_eq!(refused.code, 504, "{}", refused.body);
    // The body of the reference's timeout filter.
    let status = r#"{"metadata":{},"status":"Failure","message":"Timeout: request did not complete within the allotted timeout","reason":"Timeout","details":{},"code":504}"#;
    assert_eq!(refused.body, format!("{status}\n"));
    assert!(begin.elapsed() < Duration::from_secs(20));
    // The webhook knows how long it has.
    assert!(webhook.server.requests().iter().all(|request| request.path == "/validate?timeout=1s"));
}

/// A webhook that refuses everything by not answering, and takes part in every write.
const EVERYTHING: &str =
    r#""rules":[{"operations":["*"],"apiGroups":["*"],"apiVersions":["*"],"resources":["*/*"]}]"#;

#[test]
fn server_becomes_healthy_whatever_webhooks_say() {
    let (webhook, server) = (Webhook::start(), start(&[]));
    // The webhook would refuse it.
    let account = "/api/v1/namespaces/default/serviceaccounts/default";
    testkit::eventually("the account is made", PATIENCE, || call(&server, "GET", account, "").code == 200);
    webhook.set(State::Down);
    for (path, kind) in
        [(MUTATING, "MutatingWebhookConfiguration"), (VALIDATING, "ValidatingWebhookConfiguration")]
    {
        let configuration = webhook.configuration(kind, "everything", "/validate", EVERYTHING);
        assert_eq!(create(&server, path, &configuration).code, 201);
    }
    testkit::eventually("the webhook is asked", PATIENCE, || pod(&server, "refused").code == 500);
    // The start waits until the server is ready.
    let server = server.crash(&binary(), &[]).unwrap();
    for path in ["/healthz", "/livez", "/readyz"] {
        assert_eq!(call(&server, "GET", path, "").code, 200, "{path}");
    }
    assert_eq!(pod(&server, "refused").code, 500);
}

#[test]
fn webhook_with_the_certificate_itself_as_its_bundle_is_trusted() {
    let authority = Authority::new().unwrap();
    let serving = authority.issue(&["127.0.0.1"]).unwrap();
    let server = HttpsServer::start(&serving, None, answer).unwrap();
    let bundle = base64(serving.certificate.as_bytes());
    let webhook = Webhook { server, bundle, state: Arc::default() };
    let server = start(&[]);
    let configuration = webhook.configuration("MutatingWebhookConfiguration", "injector", "/inject", RULE);
    assert_eq!(create(&server, MUTATING, &configuration).code, 201);
    testkit::eventually("the webhook injects", PATIENCE, || {
        let made = create(&server, &format!("{PODS}?dryRun=All"), &POD.replace("NAME", "a"));
        made.code == 201 && made.body.contains(r#""sidecar":"injected""#)
    });
}
