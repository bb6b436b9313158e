//! `/metrics` as Prometheus and its tools see it, and what uses its names: the dashboard and the alert rules.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::Server;

const PATIENCE: Duration = Duration::from_secs(20);

fn start(flags: &[&str]) -> Server {
    let binary = testkit::server_binary(env!("CARGO_BIN_EXE_keelson"));
    Server::start(&binary, flags).unwrap()
}

fn deploy() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy")
}

/// Asks with further headers. Returns code, content type, encoding and body.
fn ask(server: &Server, method: &str, path: &str, headers: &str) -> (u16, [String; 2], Vec<u8>) {
    let target = server.target().unwrap();
    let mut connection = target.connect(PATIENCE).unwrap();
    let request = format!("{method} {path} HTTP/1.1\r\nhost: {}\r\n{headers}\r\n", target.authority());
    connection.send(request.as_bytes()).unwrap();
    let mut head = connection.head(method).unwrap();
    let body = connection.body(&mut head).unwrap();
    let text = |name| head.header(name).unwrap_or_default().to_owned();
    (head.status, [text("content-type"), text("content-encoding")], body)
}

fn authorization(server: &Server) -> String {
    format!("authorization: Bearer {}\r\n", server.token())
}

/// Does a little of everything.
fn work(server: &Server) {
    let call = |method: &str, path: &str, body: Value| server.call(method, path, &body).unwrap();
    for name in ["a", "b"] {
        let path = "/api/v1/namespaces/default/configmaps";
        assert_eq!(call("POST", path, json!({"metadata": {"name": name}})).0, 201);
        let one = format!("{path}/{name}");
        assert_eq!(call("GET", &one, json!(null)).0, 200);
        let dry = format!("{one}?dryRun=All");
        assert_eq!(call("PUT", &dry, json!({"metadata": {"name": name}})).0, 200);
        assert_eq!(call("GET", &format!("{path}/missing"), json!(null)).0, 404);
        assert_eq!(call("GET", path, json!(null)).0, 200);
        assert_eq!(call("DELETE", &one, json!({})).0, 200);
    }
    let watch = "/api/v1/namespaces/default/configmaps?watch=1&timeoutSeconds=1";
    assert_eq!(server.text("GET", watch, "").unwrap().0, 200);
    assert_eq!(call("GET", "/api/v1/namespaces/default/nothings", json!(null)).0, 404);
}

fn exposed(server: &Server) -> String {
    let (code, text) = server.text("GET", "/metrics", "").unwrap();
    assert_eq!(code, 200);
    text
}

/// The value of a sample.
fn sample(text: &str, series: &str) -> Option<f64> {
    let line = text.lines().find(|line| line.strip_prefix(series).is_some_and(|rest| rest.starts_with(' ')));
    line?.rsplit(' ').next()?.parse().ok()
}

#[test]
fn requests_are_counted_as_the_reference_counts_them() {
    let server = start(&[]);
    work(&server);
    let text = exposed(&server);
    let series = |verb: &str, code: &str, scope: &str, dry: &str| {
        format!(
            "apiserver_request_total{{code=\"{code}\",component=\"apiserver\",dry_run=\"{dry}\",group=\"\",\
             resource=\"configmaps\",scope=\"{scope}\",subresource=\"\",verb=\"{verb}\",version=\"v1\"}}"
        )
    };
    for (expected, series) in [
        (2.0, series("POST", "201", "resource", "")),
        (2.0, series("GET", "200", "resource", "")),
        (2.0, series("PUT", "200", "resource", "All")),
        (2.0, series("GET", "404", "resource", "")),
        (2.0, series("LIST", "200", "namespace", "")),
        (2.0, series("DELETE", "200", "resource", "")),
        (1.0, series("WATCH", "200", "namespace", "")),
    ] {
        assert_eq!(sample(&text, &series), Some(expected), "{series}");
    }
    assert!(!text.contains("nothings"), "what is not served is not counted");
    assert!(sample(&text, "authentication_attempts{result=\"success\"}").unwrap() > 10.0);
    let stages = text.lines().filter(|line| line.starts_with("kubernetes_feature_enabled{")).count();
    assert!(stages > 100, "{stages} gates");
}

#[test]
fn bounds_allocators_and_virtual_time_have_their_samples() {
    let server = start(&["--storage=memory"]);
    work(&server);
    let text = exposed(&server);
    for series in [
        "keelson_store_waiting_changes",
        "keelson_store_waiting_bytes",
        "keelson_store_refused_changes_total",
        "keelson_unsent_bytes",
        "keelson_unsent_refused_requests_total",
        "keelson_connections{kind=\"backend\"}",
        "keelson_connections_refused_total{kind=\"backend\"}",
        "keelson_connections_closed_total{reason=\"stalled\"}",
        "keelson_responses_ended_total{reason=\"pinning\"}",
        "keelson_admission_webhook_calls",
        "keelson_admission_webhook_waiting_calls",
        "keelson_admission_webhook_unsent_calls_total",
        "keelson_outbound_requests",
        "keelson_outbound_waiting_requests",
        "kube_apiserver_nodeport_allocator_allocated_ports",
        "apiserver_current_inqueue_requests{request_kind=\"mutating\"}",
        "aggregator_unavailable_apiservice{name=\"v1.apps\"}",
    ] {
        assert_eq!(sample(&text, series), Some(0.0), "{series}");
    }
    assert!(sample(&text, "keelson_connections{kind=\"client\"}").unwrap() >= 1.0);
    assert_eq!(sample(&text, "kube_apiserver_nodeport_allocator_available_ports"), Some(2768.0));
    let range = text.lines().find_map(|line| {
        let rest = line.strip_prefix("kube_apiserver_clusterip_allocator_allocated_ips{cidr=\"")?;
        rest.split_once('"').map(|(range, _)| range.to_owned())
    });
    let range = range.expect("the range of services");
    let of_range = |name: &str| {
        sample(&text, &format!("kube_apiserver_clusterip_allocator_{name}_ips{{cidr=\"{range}\"}}")).unwrap()
    };
    assert_eq!(of_range("allocated"), 1.0, "that of `kubernetes`");
    assert!(of_range("available") >= 253.0);
    // Exempt requests have no queues: the virtual time of others goes on.
    for series in [
        "apiserver_flowcontrol_current_r{priority_level=\"exempt\"}",
        "apiserver_flowcontrol_dispatch_r{priority_level=\"global-default\"}",
        "apiserver_flowcontrol_next_s_bounds{bound=\"max\",priority_level=\"workload-low\"}",
        "apiserver_flowcontrol_read_vs_write_current_requests_count{phase=\"waiting\",request_kind=\"readOnly\"}",
        "apiserver_init_events_total{resource=\"configmaps\"}",
        "apiserver_request_filter_duration_seconds_count{filter=\"audit\"}",
        "apiserver_request_filter_duration_seconds_count{filter=\"priorityandfairness\"}",
    ] {
        assert!(sample(&text, series).is_some(), "{series}");
    }
}

#[test]
fn formats_are_negotiated_and_only_the_authorized_get_them() {
    let server = start(&["--show-hidden-metrics-for-version=1.32", "--disabled-metrics=process_open_fds"]);
    work(&server);
    let plain = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores";
    let authorization = authorization(&server);
    let (code, [media_type, encoding], body) = ask(&server, "GET", "/metrics", &authorization);
    assert_eq!((code, media_type.as_str(), encoding.as_str()), (200, plain, ""));
    let body = String::from_utf8(body).unwrap();
    assert!(body.contains("[ALPHA] (Deprecated since 1.27.0)") && !body.contains("process_open_fds"));
    assert!(!body.contains(server.token()), "no secret");
    let headers = format!("{authorization}accept: application/openmetrics-text; version=1.0.0\r\n");
    let (_, [media_type, _], body) = ask(&server, "GET", "/metrics", &headers);
    assert!(media_type.starts_with("application/openmetrics-text; version=1.0.0"), "{media_type}");
    assert!(body.ends_with(b"# EOF\n"));
    let headers = format!("{authorization}accept-encoding: gzip\r\n");
    let (_, [_, encoding], body) = ask(&server, "GET", "/metrics", &headers);
    assert_eq!((encoding.as_str(), body.get(..2)), ("gzip", Some(&[0x1f, 0x8b][..])));
    assert_eq!(ask(&server, "GET", "/readyz", "").0, 200);
    let (_, _, body) = ask(&server, "GET", "/metrics/slis", &authorization);
    assert!(
        String::from_utf8(body).unwrap().contains("kubernetes_healthcheck{name=\"ping\",type=\"readyz\"} 1")
    );
    for path in ["/metrics", "/metrics/slis"] {
        assert_eq!(ask(&server, "GET", path, "").0, 403, "{path} for strangers");
        assert_eq!(ask(&server, "GET", &format!("{path}/"), &authorization).0, 404, "{path}/");
    }
    let (code, _, body) = ask(&server, "DELETE", "/metrics", &authorization);
    assert_eq!((code, body.as_slice()), (200, &b"metrics reset\n"[..]));
    assert!(!exposed(&server).contains("resource=\"configmaps\",scope=\"resource\""));
}

/// What `promtool check metrics` may say of names and help texts that are those of the reference.
fn is_of_the_reference(complaint: &str) -> bool {
    let name = complaint.split([' ', ':']).next().unwrap_or_default();
    !name.starts_with("keelson_") && !complaint.contains("error while")
}

#[test]
fn promtool_finds_nothing_wrong_with_metrics_and_rules() {
    let server = start(&[]);
    work(&server);
    let promtool = testkit::tool("promtool").unwrap();
    let mut check = Command::new(&promtool)
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    check.stdin.take().unwrap().write_all(exposed(&server).as_bytes()).unwrap();
    let output = check.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8(said).unwrap();
    let complaints: Vec<_> = said.lines().filter(|line| !is_of_the_reference(line)).collect();
    assert!(complaints.is_empty(), "{complaints:#?}");
    let rules = Command::new(&promtool)
        .args(["test", "rules", "rules.test.yaml"])
        .current_dir(deploy().join("prometheus"))
        .output()
        .unwrap();
    assert!(rules.status.success(), "{}", String::from_utf8_lossy(&rules.stderr));
}

/// The names of metrics in expressions.
fn names_in(text: &str) -> BTreeSet<String> {
    let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let words = text.split(|c: char| !is_part(c));
    let is_metric = |word: &&str| {
        let prefixes =
            ["apiserver_", "keelson_", "workqueue_", "process_", "authentication_", "authorization_"];
        prefixes.iter().any(|prefix| word.starts_with(prefix))
    };
    words.filter(is_metric).map(str::to_owned).collect()
}

#[test]
fn dashboard_and_alert_rules_have_names_that_are_served() {
    for register in [
        admission::register_families,
        auth::register_families,
        cache::register_families,
        controllers::register_families,
        server::register_families,
        store::register_families,
    ] {
        register();
    }
    let mut served: BTreeSet<String> = BTreeSet::new();
    served.extend(metrics::MAIN.families().iter().map(|family| family.description().name.to_owned()));
    let server = start(&[]);
    work(&server);
    let text = exposed(&server);
    let typed = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
    served.extend(typed.map(str::to_owned));
    for file in ["grafana/keelson.json", "prometheus/rules.yaml", "prometheus/rules.test.yaml"] {
        let names = names_in(&fs::read_to_string(deploy().join(file)).unwrap());
        assert!(names.len() > 5, "{file}");
        for name in names {
            let family = ["_bucket", "_sum"].iter().find_map(|suffix| name.strip_suffix(suffix));
            assert!(served.contains(family.unwrap_or(&name)), "{name} in {file} is not served");
        }
    }
    let dashboard: Value =
        serde_json::from_str(&fs::read_to_string(deploy().join("grafana/keelson.json")).unwrap()).unwrap();
    assert!(dashboard["panels"].as_array().unwrap().len() > 20);
}

#[test]
fn prometheus_scrapes_for_a_minute_without_a_warning() {
    let server = start(&[]);
    let folder = testkit::Folder::new().unwrap();
    let place = |name: &str| folder.path().join(name);
    fs::write(place("token"), server.token()).unwrap();
    let host = server.url().strip_prefix("https://").unwrap();
    let config = format!(
        "global: {{scrape_interval: 3s, scrape_timeout: 3s}}\nscrape_configs:\n- job_name: keelson\n  scheme: https\n  \
         authorization: {{credentials_file: {}}}\n  tls_config: {{ca_file: {}}}\n  static_configs: [{{targets: [\"{host}\"]}}]\n",
        place("token").display(),
        server.ca().display(),
    );
    fs::write(place("prometheus.yaml"), config).unwrap();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let log = fs::File::create(place("log")).unwrap();
    let mut prometheus = Command::new(testkit::tool("prometheus").unwrap())
        .arg(format!("--config.file={}", place("prometheus.yaml").display()))
        .arg(format!("--storage.tsdb.path={}", place("data").display()))
        .arg(format!("--web.listen-address=127.0.0.1:{port}"))
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .spawn()
        .unwrap();
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(60) {
        work(&server);
        thread::sleep(Duration::from_secs(2));
    }
    let query = |path: &str| {
        let mut socket = TcpStream::connect(("127.0.0.1", port)).unwrap();
        write!(socket, "GET {path} HTTP/1.0\r\n\r\n").unwrap();
        let mut answer = String::new();
        socket.read_to_string(&mut answer).unwrap();
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        serde_json::from_str::<Value>(body).unwrap()
    };
    let targets = query("/api/v1/targets");
    let scraped = query("/api/v1/query?query=count(scrape_samples_scraped%20%3E%20100)");
    let ups = query("/api/v1/query?query=min_over_time(up%5B50s%5D)");
    prometheus.kill().unwrap();
    prometheus.wait().unwrap();
    let target = &targets["data"]["activeTargets"][0];
    assert_eq!((&target["health"], &target["lastError"]), (&json!("up"), &json!("")), "{targets}");
    assert_eq!(scraped["data"]["result"][0]["value"][1], "1", "{scraped}");
    assert_eq!(ups["data"]["result"][0]["value"][1], "1", "{ups}");
    let log = fs::read_to_string(place("log")).unwrap();
    let warnings: Vec<_> =
        log.lines().filter(|line| line.contains("level=warn") || line.contains("level=error")).collect();
    assert!(warnings.is_empty(), "{warnings:#?}");
}
