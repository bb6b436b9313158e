//! Starts the binary, sends requests with the real kubectl, and stops it.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use testkit::{Folder, Process, Signal};

fn binary() -> PathBuf {
    testkit::server_binary(env!("CARGO_BIN_EXE_keelson"))
}

fn start(folder: &Folder, flags: &[&str]) -> Process {
    Process::start(&binary(), folder.path(), flags).unwrap()
}

fn keelson(arguments: &[&str]) -> Output {
    Command::new(binary()).args(arguments).output().unwrap()
}

fn kubectl(kubeconfig: &Path, arguments: &[&str]) -> String {
    let output = Command::new(testkit::tool("kubectl").unwrap())
        .arg("--kubeconfig")
        .arg(kubeconfig)
        .args(arguments)
        .output()
        .unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn kubectl_reaches_a_fresh_server() {
    let folder = Folder::new().unwrap();
    let server = start(&folder, &[]);
    println!(
        "ready {:.1} ms after exec, {:.1} MB resident",
        server.ready_after().as_secs_f64() * 1e3,
        server.resident_memory().unwrap() as f64 / 1e6
    );
    let kubeconfig = server.kubeconfig().to_owned();
    assert_eq!(kubeconfig, folder.path().join("kubeconfig"));
    assert_eq!(mode(&kubeconfig), 0o600);
    assert_eq!(kubectl(&kubeconfig, &["get", "--raw", "/readyz"]), "ok");
    let live = kubectl(&kubeconfig, &["get", "--raw", "/livez?verbose"]);
    assert!(live.starts_with("[+]ping ok\n[+]log ok\n[+]etcd ok\n"), "{live}");
    assert!(live.ends_with("ok\nlivez check passed\n"), "{live}");
    let version = kubectl(&kubeconfig, &["get", "--raw", "/version"]);
    assert!(version.contains("\"gitVersion\": \"v1.33.7\""), "{version}");
    let version = kubectl(&kubeconfig, &["version"]);
    assert!(version.contains("Server Version: v1.33.7"), "{version}");

    let exit = server.terminate().unwrap();
    assert_eq!(exit.code, Some(0), "{}", exit.log);
    assert!(exit.after < Duration::from_secs(5), "{:?}", exit.after);
    assert!(exit.log.contains("stopped"), "{}", exit.log);
}

#[test]
fn second_start_keeps_the_certificates() {
    let folder = Folder::new().unwrap();
    let certificates = || {
        ["ca.crt", "ca.key", "server.crt", "server.key", "admin.crt", "admin.key"]
            .map(|name| fs::read(folder.path().join("pki").join(name)).unwrap())
    };
    let first = start(&folder, &[]);
    let before = certificates();
    assert_eq!(first.terminate().unwrap().code, Some(0));
    let second = start(&folder, &[]);
    assert_eq!(certificates(), before);
    assert_eq!(kubectl(second.kubeconfig(), &["get", "--raw", "/readyz"]), "ok");
    let log = second.terminate().unwrap().log;
    assert!(!log.contains("made "), "{log}");
}

#[test]
fn given_certificates_are_served_and_trusted_by_the_kubeconfig() {
    let (own, other) = (Folder::new().unwrap(), Folder::new().unwrap());
    // The certificate of another server serves as the given one.
    assert_eq!(start(&other, &[]).terminate().unwrap().code, Some(0));
    let given = |name: &str| other.path().join("pki").join(name).display().to_string();
    let certificate = given("server.crt");
    let server =
        start(&own, &["--tls-cert-file", &certificate, "--tls-private-key-file", &given("server.key")]);
    assert_eq!(kubectl(server.kubeconfig(), &["get", "--raw", "/readyz"]), "ok");
    let kubeconfig = fs::read_to_string(server.kubeconfig()).unwrap();
    assert_eq!(server.terminate().unwrap().code, Some(0));

    let without = start(&own, &[]);
    assert_ne!(fs::read_to_string(without.kubeconfig()).unwrap(), kubeconfig);
    assert_eq!(kubectl(without.kubeconfig(), &["get", "--raw", "/readyz"]), "ok");
}

#[test]
fn port_in_use_has_a_clear_error() {
    let (first, second) = (Folder::new().unwrap(), Folder::new().unwrap());
    let server = start(&first, &[]);
    let port = server.url().rsplit(':').next().unwrap().to_owned();
    let data_dir = second.path().join("data");
    let output = keelson(&["--secure-port", &port, "--data-dir", &data_dir.display().to_string()]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        String::from_utf8(output.stderr).unwrap(),
        format!(
            "error: cannot listen on 127.0.0.1:{port}: the port is in use, perhaps by another server; choose another \
             with --secure-port\n"
        )
    );
    assert!(!data_dir.exists(), "nothing is made by a server that cannot serve");
}

#[test]
fn unwritable_data_directory_has_a_clear_error() {
    let output = keelson(&["--secure-port=0", "--data-dir=/dev/null/x"]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.starts_with("error: the data directory /dev/null/x cannot be used: "), "{text}");
}

#[test]
fn readiness_fails_during_the_shutdown_delay() {
    let folder = Folder::new().unwrap();
    let server = start(&folder, &["--shutdown-delay-duration=3s"]);
    server.signal(Signal::SIGTERM).unwrap();
    let output = Command::new(testkit::tool("kubectl").unwrap())
        .arg("--kubeconfig")
        .arg(server.kubeconfig())
        .args(["get", "--raw", "/readyz"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("[-]shutdown failed: reason withheld"), "{said}");
    assert_eq!(kubectl(server.kubeconfig(), &["get", "--raw", "/livez"]), "ok");
    let exit = server.wait().unwrap();
    assert_eq!(exit.code, Some(0), "{}", exit.log);
}

#[test]
fn second_signal_stops_at_once() {
    let folder = Folder::new().unwrap();
    let server = start(&folder, &["--shutdown-delay-duration=1h"]);
    server.signal(Signal::SIGINT).unwrap();
    std::thread::sleep(Duration::from_millis(200));
    server.signal(Signal::SIGINT).unwrap();
    let exit = server.wait().unwrap();
    assert_eq!(exit.code, Some(1), "{}", exit.log);
    assert!(exit.after < Duration::from_secs(5), "{:?}", exit.after);
}

#[test]
fn flags_of_the_reference_are_accepted_with_a_warning_each() {
    let folder = Folder::new().unwrap();
    let server =
        start(&folder, &["--peer-advertise-port=1", "--contention-profiling", "--log-flush-frequency", "2s"]);
    let log = server.terminate().unwrap().log;
    for warning in [
        "--peer-advertise-port is accepted but has no effect yet",
        "--contention-profiling has no effect: there is no record of contended locks in Rust; the profiles block and mutex are empty.",
        "--log-flush-frequency has no effect: each line is written at once.",
    ] {
        assert_eq!(log.matches(&format!("warn  {warning}")).count(), 1, "{log}");
    }
}

#[test]
fn unknown_flag_is_refused_with_a_suggestion() {
    let output = keelson(&["--data-dri=x"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        String::from_utf8(output.stderr).unwrap(),
        "error: unknown flag: --data-dri, did you mean --data-dir?; see keelson --help\n"
    );
}

#[test]
fn help_and_version_go_to_standard_output() {
    let help = keelson(&["--help"]);
    assert!(help.status.success());
    assert!(
        String::from_utf8(help.stdout).unwrap().contains("--shutdown-delay-duration duration (default 0s)")
    );
    let version = keelson(&["--version"]);
    assert!(version.status.success());
    assert!(String::from_utf8(version.stdout).unwrap().starts_with("Kubernetes v1.33.7 by Keelson "));
}

#[test]
fn json_logs_are_one_object_per_line() {
    let folder = Folder::new().unwrap();
    let mut child = Command::new(binary())
        .args(["--secure-port=0", "--logging-format=json", "--data-dir"])
        .arg(folder.path())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut stderr = std::io::BufReader::new(child.stderr.take().unwrap());
    let mut log = String::new();
    while !log.contains("\"msg\":\"ready\"") {
        assert!(std::io::BufRead::read_line(&mut stderr, &mut log).unwrap() > 0, "{log}");
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(log.lines().all(|line| line.starts_with("{\"ts\":") && line.ends_with('}')), "{log}");
    let mut said = String::new();
    child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(said, "", "machines read the log; standard output stays empty");
}

#[test]
fn plain_http_client_is_refused_and_the_server_continues() {
    let folder = Folder::new().unwrap();
    let server = start(&folder, &[]);
    let address = server.url().strip_prefix("https://").unwrap();
    let mut socket = std::net::TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    socket.write_all(b"GET /readyz HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    let _ = socket.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP/1.1 200"));
    assert_eq!(kubectl(server.kubeconfig(), &["get", "--raw", "/readyz"]), "ok");
}

#[test]
fn first_start_logs_no_lines_of_libraries() {
    let folder = Folder::new().unwrap();
    let log = start(&folder, &[]).terminate().unwrap().log;
    assert!(!log.contains("Creating database") && !log.contains("ingestion"), "{log}");
}

#[test]
fn feature_gates_are_checked_at_the_start() {
    let refused = keelson(&["--feature-gates=NoSuchGate=true"]);
    assert_eq!(refused.status.code(), Some(1));
    assert_eq!(String::from_utf8(refused.stderr).unwrap(), "error: unrecognized feature gate: NoSuchGate\n");
    let folder = Folder::new().unwrap();
    let server = start(&folder, &["--feature-gates=SidecarContainers=true,HPAScaleToZero=true"]);
    let log = server.terminate().unwrap().log;
    assert!(log.contains("warn  Setting GA feature gate SidecarContainers=true."), "{log}");
    assert!(log.contains("warn  the feature gate HPAScaleToZero is accepted but has no effect yet"), "{log}");
}

#[test]
fn server_without_the_resources_of_its_hooks_becomes_ready() {
    let refused = keelson(&["--runtime-config=api/all=false", "--enable-priority-and-fairness=false"]);
    assert_eq!(String::from_utf8(refused.stderr).unwrap(), "error: invalid key with only api/all=false\n");
    for config in ["api/all=false,batch/v1=true", "/v1/namespaces=false", "coordination.k8s.io/v1=false"] {
        let folder = Folder::new().unwrap();
        let flag = format!("--runtime-config={config}");
        let server = start(&folder, &[&flag, "--enable-priority-and-fairness=false"]);
        let log = server.terminate().unwrap().log;
        assert!(log.contains("objects of the start are left out"), "{config}: {log}");
        assert!(!log.contains("is tried again"), "{config}: {log}");
    }
}
