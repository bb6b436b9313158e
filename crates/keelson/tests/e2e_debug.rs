//! Looking into a running server: spans at a collector, slow requests and all requests in the log,
//! profiles, flags and status; and no secret in any of it.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, clippy::indexing_slicing)]

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::read::GzDecoder;
use profiles::Profile;
use prost::Message as _;
use serde_json::json;
use spans::Span;
use spans::collector::{Collector, text};
use testkit::Server;
use testkit::https::{Authority, HttpsServer, Reply};

const PATIENCE: Duration = Duration::from_secs(40);

fn binary() -> PathBuf {
    testkit::server_binary(env!("CARGO_BIN_EXE_keelson"))
}

/// The answer to a request.
struct Answer {
    status: u16,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Answer {
    fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// Sends a request with further headers; `pause` lies between its head and its body.
fn send(server: &Server, method: &str, path: &str, headers: &str, body: &str, pause: Duration) -> Answer {
    let target = server.target().unwrap();
    let mut connection = target.connect(PATIENCE).unwrap();
    let authorization = match headers.contains("Authorization") {
        true => String::new(),
        false => format!("Authorization: Bearer {}\r\n", server.token()),
    };
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: {}\r\n{authorization}User-Agent: tester\r\n{headers}Content-Length: {}\r\n\r\n",
        target.authority(),
        body.len()
    );
    connection.send(head.as_bytes()).unwrap();
    std::thread::sleep(pause);
    if !body.is_empty() {
        connection.send(body.as_bytes()).unwrap();
    }
    let mut head = connection.head(method).unwrap();
    let body = connection.body(&mut head).unwrap();
    Answer { status: head.status, headers: head.headers, body }
}

fn get(server: &Server, path: &str) -> Answer {
    send(server, "GET", path, "Accept: */*\r\n", "", Duration::ZERO)
}

const JSON: &str = "Content-Type: application/json\r\n";
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Waits until a line of the log has all of these texts.
fn line(server: &Server, texts: &[&str]) -> String {
    let begin = Instant::now();
    loop {
        let log = server.process().unwrap().log();
        if let Some(line) = log.lines().find(|line| texts.iter().all(|text| line.contains(text))) {
            return line.to_owned();
        }
        assert!(begin.elapsed() < PATIENCE, "no line with {texts:?} in {log}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn decode(answer: &Answer) -> Profile {
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(answer.header("content-type"), "application/octet-stream");
    let mut bytes = Vec::new();
    GzDecoder::new(answer.body.as_slice()).read_to_end(&mut bytes).unwrap();
    Profile::decode(bytes.as_slice()).unwrap()
}

#[test]
fn requests_are_logged_with_the_fields_of_the_reference_once_verbosity_is_raised() {
    let server = Server::start(&binary(), &[]).unwrap();
    get(&server, "/api/v1/nodes?limit=1&quiet");
    let put = |body| send(&server, "PUT", "/debug/flags/v", "", body, Duration::ZERO);
    let changed = put("3");
    assert_eq!(
        (changed.status, changed.text().as_str()),
        (200, "successfully set klog.logging.verbosity to 3\n")
    );
    let refused = put("x");
    assert_eq!(refused.text(), "strconv.ParseUint: parsing \"x\": invalid syntax\n");
    assert_eq!(send(&server, "POST", "/debug/flags/v", "", "3", Duration::ZERO).status, 406);
    let id = "Audit-ID: one-request\r\n";
    send(&server, "GET", "/api/v1/nodes?limit=1&password=hunter2", id, "", Duration::ZERO);
    let said = line(&server, &["HTTP", "one-request"]);
    for field in [
        "verb=LIST",
        "URI=\"/api/v1/nodes?limit=1&password=...\"",
        "latency=",
        "userAgent=tester",
        "audit-ID=one-request",
        "srcIP=127.0.0.1:",
        "resp=200",
    ] {
        assert!(said.contains(field), "{field} in {said}");
    }
    for (method, path, verb, status) in [
        ("GET", "/api/v1/nodes/x", "verb=GET", "resp=404"),
        ("GET", "/api/v1/nodes?watch=1&timeoutSeconds=1", "verb=WATCH", "resp=200"),
        ("OPTIONS", "/api/v1/pods", "verb=OPTIONS", "resp=405"),
        ("GET", "/version", "verb=GET", "resp=200"),
    ] {
        send(&server, method, path, "", "", Duration::ZERO);
        line(&server, &["HTTP", path, verb, status]);
    }
    assert_eq!(server.logged("quiet"), 0);
    put("0");
    get(&server, "/api/v1/nodes?limit=7&quiet");
    assert_eq!(server.logged("limit=7"), 0);
}

#[test]
fn single_modules_are_logged_with_a_verbosity_of_their_own() {
    let server = Server::start(&binary(), &["--vmodule=observed=3"]).unwrap();
    get(&server, "/api/v1/nodes?limit=9");
    line(&server, &["HTTP", "limit=9"]);
    let log = server.process().unwrap().log();
    assert!(log.lines().all(|line| !line.contains(" debug ") || line.contains("HTTP")), "{log}");
}

#[test]
fn slow_request_is_one_line_with_its_steps() {
    let server = Server::start(&binary(), &[]).unwrap();
    let map = json!({"metadata": {"name": "slow"}}).to_string();
    let slow = send(
        &server,
        "POST",
        CONFIG_MAPS,
        &format!("{JSON}Audit-ID: slow-one\r\n"),
        &map,
        Duration::from_millis(700),
    );
    assert_eq!(slow.status, 201, "{}", slow.text());
    let said = line(&server, &["slow request: Create"]);
    for field in [
        "audit-id=slow-one",
        "client=127.0.0.1",
        "api-version=v1",
        "namespace=default",
        "protocol=HTTP/1.1",
        "resource=configmaps",
        "scope=resource",
        "url=/api/v1/namespaces/default/configmaps",
        "user-agent=tester",
        "verb=POST",
        "limitedReadBody succeeded len:",
        "Create etcd3 [",
        "Writing http response done",
    ] {
        assert!(said.contains(field), "{field} in {said}");
    }
    assert_eq!(server.logged("slow request"), 1);
}

#[test]
fn profiles_name_the_functions_of_this_program() {
    let socket = tempfile::tempdir().unwrap();
    let path = socket.path().join("debug");
    let server = Server::start(&binary(), &[&format!("--debug-socket-path={}", path.display())]).unwrap();
    let name = |profile: &Profile| -> Vec<String> {
        let text = |index: i64| profile.string_table[usize::try_from(index).unwrap()].clone();
        profile.function.iter().map(|function| text(function.name)).collect()
    };
    // Something to see: requests, while the CPU profile runs.
    let profile = std::thread::scope(|scope| {
        // Whichever comes first has its profile; the other one is refused, and asks again.
        let profile = scope.spawn(|| {
            let answers = std::iter::repeat_with(|| get(&server, "/debug/pprof/profile?seconds=2"));
            answers.take(1000).find(|answer| answer.status == 200).unwrap()
        });
        let mut seconds = std::iter::repeat_with(|| get(&server, "/debug/pprof/profile?seconds=1"));
        let second = seconds.by_ref().take(20).find(|answer| answer.status != 200).unwrap();
        assert_eq!(second.status, 500);
        assert_eq!(second.text(), "Could not enable CPU profiling: cpu profiling already in use\n");
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_millis(1500) {
            get(&server, "/openapi/v2");
            get(&server, "/api/v1/namespaces");
        }
        profile.join().unwrap()
    });
    assert_eq!(profile.header("content-disposition"), "attachment; filename=\"profile\"");
    let cpu = decode(&profile);
    assert!(!cpu.sample.is_empty());
    assert!(name(&cpu).iter().any(|name| name.contains("tokio")), "{:?}", name(&cpu));
    assert!(cpu.duration_nanos >= 2_000_000_000);

    // An idle server has so little memory that a sample or two stand for all of it.
    for number in 0..20 {
        let value = "x".repeat(500_000);
        let map =
            json!({"metadata": {"name": format!("map-{number}")}, "data": {"value": value}}).to_string();
        assert_eq!(send(&server, "POST", CONFIG_MAPS, JSON, &map, Duration::ZERO).status, 201);
    }
    let heap = decode(&get(&server, "/debug/pprof/heap"));
    let names = name(&heap);
    assert!(
        names.iter().any(|name| name.contains("keelson::main") || name.contains("schema::")),
        "{names:?}"
    );
    let in_use: i64 = heap.sample.iter().map(|sample| sample.value[3]).sum();
    assert!((1 << 20..1 << 30).contains(&in_use), "{in_use}");
    let text = get(&server, "/debug/pprof/heap?debug=1");
    assert!(text.text().starts_with("heap profile: total "), "{}", text.text());
    let threads = get(&server, "/debug/pprof/goroutine?debug=1").text();
    assert!(threads.contains("tokio"), "{threads}");
    for (path, status, said) in [
        ("/debug/pprof", 302, "<a href=\"/debug/pprof/\">Found</a>."),
        ("/debug/pprof/", 200, "Set debug=1"),
        ("/debug/pprof/nope", 404, "Unknown profile"),
        ("/debug/pprof/cmdline", 404, "Unknown profile"),
        ("/debug/pprof/trace", 501, "there is no runtime of Go"),
        ("/debug/pprof/symbol", 200, "num_symbols: 1"),
        ("/debug/pprof/heap?seconds=x", 400, "invalid value for \"seconds\" - must be a positive integer"),
        ("/debug/flags", 200, "<tr>v<br>"),
        ("/debug", 404, "404 page not found"),
        ("/configz", 404, "404 page not found"),
        ("/flagz", 404, "404 page not found"),
        ("/statusz", 404, "404 page not found"),
        ("/logs/", 404, "404 page not found"),
    ] {
        let answer = get(&server, path);
        assert_eq!(answer.status, status, "{path}");
        assert!(answer.text().contains(said), "{path}: {}", answer.text());
    }
    // The socket asks nobody who they are, and has the command line.
    let mut stream = UnixStream::connect(&path).unwrap();
    stream.write_all(b"GET /debug/pprof/cmdline HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.contains("--debug-socket-path="), "{answer}");
}

#[test]
fn only_users_who_may_see_them_see_these_paths_and_only_with_their_flags() {
    let flags = [
        "--feature-gates=ComponentFlagz=true,ComponentStatusz=true",
        "--enable-logs-handler",
        "--profiling=false",
    ];
    let server = Server::start(&binary(), &flags).unwrap();
    let flagz = get(&server, "/flagz");
    assert_eq!(flagz.header("content-type"), "text/plain; charset=utf-8");
    assert!(flagz.text().starts_with("\nkube-apiserver flags\nWarning: "), "{}", flagz.text());
    assert!(flagz.text().contains("\nprofiling=false\n"), "{}", flagz.text());
    let statusz = get(&server, "/statusz").text();
    assert!(statusz.contains("\nBinary version: 1.33.7\nEmulation version: 1.33\n"), "{statusz}");
    let json = send(&server, "GET", "/statusz", "Accept: application/json\r\n", "", Duration::ZERO);
    assert_eq!(
        (json.status, json.text().as_str()),
        (406, "media type not acceptable, must be: text/plain\n")
    );
    let logs = get(&server, "/logs/");
    assert_eq!((logs.status, logs.header("content-type")), (200, "text/html; charset=utf-8"));
    assert_eq!((get(&server, "/logs").status, get(&server, "/logs/nope").status), (301, 404));
    assert_eq!(get(&server, "/logs/../../etc/passwd").status, 400);
    assert_eq!((get(&server, "/debug/pprof/").status, get(&server, "/debug/flags/v").status), (404, 404));
    let paths = get(&server, "/").text();
    for path in ["\"/flagz\"", "\"/logs\"", "\"/statusz\""] {
        assert!(paths.contains(path), "{path} in {paths}");
    }
    assert!(!paths.contains("pprof"));
    let anonymous = "Accept: */*\r\nX-No-Authorization: 1\r\n";
    for path in ["/flagz", "/statusz", "/logs/", "/debug/pprof/", "/debug/flags/v"] {
        assert_eq!(send(&server, "GET", path, anonymous, "", Duration::ZERO).status, 403, "{path}");
    }
}

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Waits until the collector has spans of a trace, the one of the request among them.
fn spans_of(collector: &Collector, parent: &str) -> Vec<Span> {
    let begin = Instant::now();
    loop {
        let spans = collector.spans();
        if let Some(server) = spans.iter().find(|span| hex(&span.parent_span_id) == parent) {
            let mut found = vec![server.clone()];
            // Those below it.
            for _ in 0..4 {
                let more: Vec<_> = spans
                    .iter()
                    .filter(|span| found.iter().any(|known| known.span_id == span.parent_span_id))
                    .filter(|span| !found.iter().any(|known| known.span_id == span.span_id))
                    .cloned()
                    .collect();
                found.extend(more);
            }
            return found;
        }
        assert!(begin.elapsed() < PATIENCE, "no span below {parent} in {spans:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn spans_of_requests_reach_a_collector_and_a_trace_goes_on_to_webhooks() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let collector = runtime.block_on(Collector::start());
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("tracing.yaml");
    std::fs::write(
        &config,
        format!(
            "apiVersion: apiserver.config.k8s.io/v1beta1\nkind: TracingConfiguration\nendpoint: {}\n",
            collector.address()
        ),
    )
    .unwrap();
    let flag = format!("--tracing-config-file={}", config.display());
    let server = Server::start(&binary(), &[&flag, "--v=4"]).unwrap();

    let authority = Authority::new().unwrap();
    let webhook = HttpsServer::start(&authority.issue(&["127.0.0.1"]).unwrap(), None, |request| {
        let review: serde_json::Value = serde_json::from_str(&request.body).unwrap();
        let answer = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
            "response": {"uid": review["request"]["uid"], "allowed": true}});
        Reply::ok(answer.to_string())
    })
    .unwrap();
    let configuration = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "traced"},
        "webhooks": [{"name": "traced.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None",
            "clientConfig": {"url": format!("{}/x", webhook.url()), "caBundle": STANDARD.encode(&authority.certificate)},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["secrets"]}]}],
    });
    let path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    assert_eq!(server.call("POST", path, &configuration).unwrap().0, 201);

    let traced = |method: &str, path: &str, span: &str, sampled: &str, body: &str| {
        let headers =
            format!("{JSON}traceparent: 00-{TRACE}-{span}-{sampled}\r\ntracestate: a=1\r\nbaggage: k=v\r\n");
        send(&server, method, path, &headers, body, Duration::ZERO).status
    };
    let secret =
        json!({"metadata": {"name": "planted"}, "stringData": {"password": "hunter2-in-secret"}}).to_string();
    let secrets = "/api/v1/namespaces/default/secrets";
    // The webhook is there within moments.
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(traced("POST", secrets, "b7ad6b7169203331", "01", &secret), 201);
    assert_eq!(
        traced("GET", &format!("{secrets}/planted?password=hunter2-in-query"), "b7ad6b7169203332", "01", ""),
        200
    );
    assert_eq!(traced("GET", "/version", "b7ad6b7169203333", "00", ""), 200);
    let bearer = "Authorization: Bearer hunter2-in-token\r\ntraceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203334-01\r\n";
    assert_eq!(send(&server, "GET", "/version", bearer, "", Duration::ZERO).status, 401);

    let spans = spans_of(&collector, "b7ad6b7169203331");
    let names: Vec<_> = spans.iter().map(|span| span.name.as_str()).collect();
    for name in ["Create", "Call validating webhook", "Create etcd3", "SerializeObject"] {
        assert!(names.contains(&name), "{name} in {names:?}");
    }
    let root = &spans[0];
    assert_eq!(root.name, "POST /api/v1/namespaces/{:namespace}/secrets");
    assert_eq!((hex(&root.trace_id).as_str(), root.kind, root.trace_state.as_str()), (TRACE, 2, "a=1"));
    for (name, value) in [
        ("http.method", "POST"),
        ("http.scheme", "https"),
        ("http.target", secrets),
        ("http.status_code", "201"),
        ("net.host.name", "127.0.0.1"),
        ("net.protocol.version", "1.1"),
        ("user_agent.original", "tester"),
    ] {
        assert_eq!(root.attribute(name).as_deref(), Some(value), "{name}");
    }
    let create = spans.iter().find(|span| span.name == "Create").unwrap();
    assert_eq!(create.parent_span_id, root.span_id);
    let events: Vec<_> = create.events.iter().map(|event| event.name.as_str()).collect();
    assert_eq!(
        events,
        [
            "limitedReadBody succeeded",
            "About to convert to expected version",
            "Conversion done",
            "About to store object in database",
            "Write to database call succeeded",
            "About to write a response",
            "Writing http response done",
        ]
    );
    // The webhook was asked within its span.
    let call = spans.iter().find(|span| span.name == "Call validating webhook").unwrap();
    let asked = webhook.requests();
    assert_eq!(asked[0].header("traceparent"), format!("00-{TRACE}-{}-01", hex(&call.span_id)));
    assert_eq!((asked[0].header("tracestate"), asked[0].header("baggage")), ("a=1", "k=v"));

    let get = spans_of(&collector, "b7ad6b7169203332");
    let names: Vec<_> = get.iter().map(|span| span.name.as_str()).collect();
    for name in
        ["GET /api/v1/namespaces/{:namespace}/secrets/{:name}", "Get", "cacher.Get", "SerializeObject"]
    {
        assert!(names.contains(&name), "{name} in {names:?}");
    }
    // What its client does not record is not recorded.
    assert!(!collector.spans().iter().any(|span| hex(&span.parent_span_id) == "b7ad6b7169203333"));
    let resource = collector.batches()[0].resource_spans[0].resource.clone().unwrap();
    assert_eq!(text(&resource.attributes, "service.name").as_deref(), Some("apiserver"));
    assert!(text(&resource.attributes, "service.instance.id").unwrap().starts_with("apiserver-"));

    // No secret is in what was said of these requests.
    let said = format!("{:?}", collector.batches());
    let log = server.process().unwrap().log();
    for secret in ["hunter2", server.token(), STANDARD.encode("hunter2-in-secret").as_str()] {
        assert!(!said.contains(secret), "{secret} in spans");
        assert!(!log.contains(secret), "{secret} in the log");
    }
    assert!(log.contains("HTTP"));
}

#[test]
fn tracing_configuration_is_refused_as_the_reference_refuses_it() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("tracing.yaml");
    let text = "apiVersion: apiserver.config.k8s.io/v1beta1\nkind: TracingConfiguration\nsamplingRatePerMillion: -1\n";
    std::fs::write(&config, text).unwrap();
    let flag = format!("--tracing-config-file={}", config.display());
    let refused = Server::start(&binary(), &[&flag]).err().unwrap().to_string();
    let why = "failed to validate tracing configuration: samplingRatePerMillion: Invalid value: -1: sampling rate must be positive";
    assert!(refused.contains(why), "{refused}");
}
