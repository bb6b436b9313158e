//! Command lines as other projects write them, and flags whose effect only a whole server has.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use pki::{Names, Pki};
use serde_json::{Value, json};
use testkit::http::Target;
use testkit::{Etcd, Folder, Server};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn binary() -> PathBuf {
    testkit::server_binary(env!("CARGO_BIN_EXE_keelson"))
}

/// A server without a data directory of the test's own.
struct Running {
    child: Child,
    url: String,
    kubeconfig: PathBuf,
}

impl Running {
    fn start(working_directory: &Path, flags: &[String]) -> Self {
        let mut command = Command::new(binary());
        command.args(flags).current_dir(working_directory).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut url = String::new();
        let mut kubeconfig = PathBuf::new();
        for line in BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok).take(2) {
            if let Some((_, rest)) = line.split_once(" is ready on ") {
                url = rest.split_whitespace().next().unwrap().to_owned();
            } else if let Some(path) = line.strip_prefix("kubeconfig: ") {
                kubeconfig = path.trim().into();
            }
        }
        Self { child, url, kubeconfig }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn command_line_of_the_kubectl_tests_starts_and_leaves_the_working_directory_alone() {
    let etcd = Etcd::start("etcd", 1, &[]).unwrap();
    let [here, certificates, other] = [(); 3].map(|()| Folder::new().unwrap());
    let keys = Pki::new(other.path());
    keys.service_account_key().unwrap();
    keys.ensure(&Names::default(), clock::now()).unwrap();
    let tokens = other.path().join("tokens.csv");
    fs::write(&tokens, "admin-token,admin,uid,\"system:masters\"\n").unwrap();
    let file = |name: &str| other.path().join(name).display().to_string();
    let flags = [
        "--version=v1.33.7-custom".to_owned(),
        "--bind-address=127.0.0.1".to_owned(),
        "--authorization-mode=RBAC,AlwaysAllow".to_owned(),
        "--secure-port=0".to_owned(),
        "--feature-gates=".to_owned(),
        "--enable-admission-plugins=LimitRanger,ResourceQuota".to_owned(),
        "--disable-admission-plugins=ServiceAccount,DefaultStorageClass".to_owned(),
        format!("--etcd-servers={}", etcd.endpoints().join(",")),
        "--runtime-config=api/v1".to_owned(),
        format!("--service-account-key-file={}", file("sa.key")),
        "--service-account-lookup=true".to_owned(),
        "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
        format!("--service-account-signing-key-file={}", file("sa.key")),
        "--storage-media-type=".to_owned(),
        format!("--cert-dir={}", certificates.path().display()),
        "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
        format!("--client-ca-file={}", file("ca.crt")),
        format!("--token-auth-file={}", tokens.display()),
    ];
    let running = Running::start(here.path(), &flags);
    assert_eq!(names(here.path()), [""; 0], "nothing is made where the server was started");
    assert_eq!(names(certificates.path()), ["apiserver.crt", "apiserver.key", "keelson"]);
    assert_eq!(running.kubeconfig, certificates.path().join("keelson/kubeconfig"));

    // The certificate in the directory is the one that is served.
    let authority = certificates.path().join("apiserver.crt");
    let server = Server::running(&running.url, "admin-token", &authority).unwrap();
    let (status, version) = server.call("GET", "/version", &Value::Null).unwrap();
    assert_eq!((status, &version["gitVersion"]), (200, &json!("v1.33.7-custom")));
    assert_eq!(version["gitTreeState"], "clean");
    let body = json!({"metadata": {"name": "a"}, "data": {"k": "v"}});
    assert_eq!(server.call("POST", CONFIG_MAPS, &body).unwrap().0, 201);
    let stored = etcd.value("/registry/configmaps/default/a").unwrap().unwrap();
    assert!(stored.starts_with(b"{\"kind\":\"ConfigMap\",\"apiVersion\":\"v1\""), "{stored:?}");

    // A second start serves with the same certificate.
    let before = fs::read(&authority).unwrap();
    drop(running);
    let again = Running::start(here.path(), &flags);
    assert_eq!(fs::read(&authority).unwrap(), before);
    let server = Server::running(&again.url, "admin-token", &authority).unwrap();
    assert_eq!(server.call("GET", "/livez", &Value::Null).unwrap().0, 200);
}

#[test]
fn version_is_the_second_word_and_raw_has_all_fields() {
    let said = |flag: &str| {
        let output = Command::new(binary()).arg(flag).output().unwrap();
        assert!(output.status.success(), "{flag}");
        String::from_utf8(output.stdout).unwrap()
    };
    let version = said("--version");
    assert_eq!(version.split_whitespace().nth(1), Some("v1.33.7"), "{version}");
    assert_eq!(version.lines().count(), 1);
    let raw = said("--version=raw");
    assert!(raw.starts_with("version.Info{Major:\"1\", Minor:\"33\", "), "{raw}");
}

#[test]
fn server_without_garbage_collection_and_with_headers_for_browsers() {
    let flags = [
        "--storage=memory",
        "--enable-garbage-collector=false",
        "--strict-transport-security-directives=max-age=31536000,includeSubDomains",
        "--cors-allowed-origins=//example\\.com(:|$)",
        "--goaway-chance=0.001",
        "--livez-grace-period=1h",
        "--permit-port-sharing",
        "--permit-address-sharing",
        "--shutdown-send-retry-after",
        "--shutdown-watch-termination-grace-period=1s",
        "--max-connection-bytes-per-sec=1000000",
        "--tls-cipher-suites=TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,TLS_RSA_WITH_AES_128_CBC_SHA",
        "--emulated-version=1.33",
        "--runtime-config=api/v1,api/legacy",
    ];
    let server = Server::start(&binary(), &flags).unwrap();
    let target: Target = server.target().unwrap();
    let mut connection = target.connect(Duration::from_secs(60)).unwrap();
    let asked = format!(
        "OPTIONS /api HTTP/1.1\r\nHost: {}\r\nOrigin: https://example.com\r\nContent-Length: 0\r\n\r\n",
        target.authority()
    );
    connection.send(asked.as_bytes()).unwrap();
    let head = connection.head("OPTIONS").unwrap();
    assert_eq!(head.status, 204);
    assert_eq!(head.header("access-control-allow-origin"), Some("https://example.com"));
    assert_eq!(head.header("strict-transport-security"), Some("max-age=31536000; includeSubDomains"));

    let body = json!({"metadata": {"name": "a"}});
    assert_eq!(server.call("POST", CONFIG_MAPS, &body).unwrap().0, 201);
    let path = format!("{CONFIG_MAPS}/a");
    let (status, answer) = server
        .call("DELETE", &path, &json!({"kind": "DeleteOptions", "propagationPolicy": "Foreground"}))
        .unwrap();
    assert_eq!((status, &answer["status"]), (200, &json!("Success")), "no finalizer waits for a collector");
    assert_eq!(server.call("GET", &path, &Value::Null).unwrap().0, 404);

    assert_eq!(server.logged("TLS_RSA_WITH_AES_128_CBC_SHA is left out"), 1);
    assert_eq!(server.logged("--permit-address-sharing has no effect: "), 1);
    let exit = server.terminate().unwrap().unwrap();
    assert_eq!(exit.code, Some(0), "{}", exit.log);
    assert!(exit.log.contains("answered with 429"), "{}", exit.log);
}

#[test]
fn certificate_directory_with_half_a_pair_is_refused() {
    let [here, certificates] = [(); 2].map(|()| Folder::new().unwrap());
    fs::write(certificates.path().join("apiserver.key"), "x").unwrap();
    let output = Command::new(binary())
        .current_dir(here.path())
        .args(["--secure-port=0", "--storage=memory"])
        .arg(format!("--cert-dir={}", certificates.path().display()))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("apiserver.crt, certificate and key must be supplied as a pair"), "{said}");
    assert_eq!(names(here.path()), [""; 0]);
}

#[test]
fn emulated_release_has_its_own_api_and_expressions() {
    let flags = [
        "--emulated-version=1.31",
        "--runtime-config=flowcontrol.apiserver.k8s.io/v1beta3=true,authentication.k8s.io/v1beta1=true",
    ];
    let server = Server::start(&binary(), &flags).unwrap();
    let get = |path: &str| server.call("GET", path, &Value::Null).unwrap();
    let (_, version) = get("/version");
    assert_eq!(
        ["minor", "emulationMinor", "minCompatibilityMinor", "gitVersion"].map(|name| version[name].as_str()),
        [Some("33"), Some("31"), Some("31"), Some("v1.33.7")]
    );
    assert_eq!(get("/openapi/v2").1["info"]["version"], "1.31");
    // What 1.31 does not have yet, and what it still has.
    let addresses = "/apis/networking.k8s.io/v1/ipaddresses";
    assert_eq!(get(addresses).0, 404);
    let level = "/apis/flowcontrol.apiserver.k8s.io/v1beta3/prioritylevelconfigurations/catch-all";
    assert_eq!(get(level).1["apiVersion"], "flowcontrol.apiserver.k8s.io/v1beta3");
    let review = json!({"apiVersion": "authentication.k8s.io/v1beta1", "kind": "SelfSubjectReview"});
    assert_eq!(
        server.call("POST", "/apis/authentication.k8s.io/v1beta1/selfsubjectreviews", &review).unwrap().0,
        201
    );
    let (_, core) = get("/api/v1");
    let names: Vec<&str> =
        core["resources"].as_array().unwrap().iter().filter_map(|one| one["name"].as_str()).collect();
    assert!(names.contains(&"pods/status") && !names.contains(&"pods/resize"), "{names:?}");
    // Services have addresses whether their objects are served or not.
    let service = json!({"metadata": {"name": "a"}, "spec": {"ports": [{"port": 80}]}});
    let (status, service) = server.call("POST", "/api/v1/namespaces/default/services", &service).unwrap();
    assert_eq!(status, 201);
    assert!(service["spec"]["clusterIP"].as_str().unwrap().starts_with("10."), "{service}");
    // Macros with two variables are of 1.32.
    let policy = json!({"metadata": {"name": "p"}, "spec": {
        "matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]},
        "validations": [{"expression": "[1].all(i, v, i < v)"}],
    }});
    let path = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
    let (status, refused) = server.call("POST", path, &policy).unwrap();
    assert_eq!(status, 422);
    assert!(refused["message"].as_str().unwrap().contains("undeclared reference to 'all'"), "{refused}");
    assert!(server.logged("feature gates without an effect yet are changed: ") > 0);
}
