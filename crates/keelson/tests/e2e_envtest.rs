//! The server in place of kube-apiserver and etcd, started exactly as controller-runtime's envtest starts
//! them.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, SystemTime};

use pki::{Client, Names, Pair, Pki};
use serde_json::{Value, json};
use testkit::http::Target;
use testkit::{Etcd, Folder, Signal, eventually};

const PATIENCE: Duration = Duration::from_secs(30);
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn binary() -> PathBuf {
    testkit::server_binary(env!("CARGO_BIN_EXE_keelson"))
}

/// A folder for `KUBEBUILDER_ASSETS`, as the command makes it.
fn assets() -> Folder {
    let folder = Folder::new().unwrap();
    let said = Command::new(binary()).arg("envtest").arg(folder.path()).output().unwrap();
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    folder
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// A program of the test's own; it ends with the value.
struct Running(Child);

impl Running {
    fn start(program: &Path, arguments: &[String], variables: &[(&str, &str)]) -> Self {
        let mut command = Command::new(program);
        // As envtest does, without a home or a working directory of interest.
        command.args(arguments).envs(variables.iter().copied()).env_remove("HOME").current_dir("/");
        Self(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::inherit()).spawn().unwrap())
    }

    fn is_running(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }

    /// Asks it to end, and waits until it has: the exit code.
    fn stop(mut self) -> Option<i32> {
        signal(&self.0, Signal::SIGTERM);
        eventually("the end of a program", PATIENCE, || !self.is_running());
        self.0.wait().unwrap().code()
    }

    fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn signal(child: &Child, signal: Signal) {
    let sent = Command::new("kill").arg(format!("-{}", signal as i32)).arg(child.id().to_string()).status();
    assert!(sent.unwrap().success());
}

/// The status and the body of an answer over plain HTTP.
fn get_plain(port: u16, path: &str) -> Option<(u16, String)> {
    let mut connection = TcpStream::connect(("127.0.0.1", port)).ok()?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n");
    connection.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    connection.read_to_string(&mut answer).ok()?;
    let status = answer.split(' ').nth(1)?.parse().ok()?;
    Some((status, answer.split_once("\r\n\r\n")?.1.to_owned()))
}

/// The two programs and the files that envtest makes for them.
struct Environment {
    assets: Folder,
    /// The data directory of etcd.
    data: Folder,
    /// The directory of `--cert-dir`.
    certificates: Folder,
    /// Of another authority than the clients' certificates.
    serving_authority: Folder,
    client: Pair,
    etcd_port: u16,
    port: u16,
}

impl Environment {
    fn new() -> Self {
        let [data, certificates, serving_authority, clients, accounts] =
            [(); 5].map(|()| Folder::new().unwrap());
        let now = SystemTime::now();
        let serving = Pki::new(serving_authority.path());
        let names = Names { dns: ["localhost".to_owned()].into(), ..Names::default() };
        let serving = serving.ensure(&names.with_address([127, 0, 0, 1].into()), now).unwrap().serving;
        let authority = Pki::new(clients.path());
        let client_authority = authority.ensure(&Names::default(), now).unwrap().authority;
        let groups = ["system:masters".to_owned()];
        let client = Client { user: "default", groups: &groups, life: Duration::from_secs(7 * 24 * 3600) };
        let client = authority.issue(&client, now).unwrap();
        Pki::new(accounts.path()).ensure(&Names::default(), now).unwrap();
        let read = |name: &str| fs::read_to_string(accounts.path().join(name)).unwrap();
        for (name, text) in [
            ("apiserver.crt", &serving.certificate),
            ("apiserver.key", &serving.key),
            ("client-cert-auth-ca.crt", &client_authority),
            // A certificate, whose public key verifies tokens.
            ("sa-signer.crt", &read("ca.crt")),
            ("sa-signer.key", &read("ca.key")),
        ] {
            fs::write(certificates.path().join(name), text).unwrap();
        }
        let (etcd_port, port) = (free_port(), free_port());
        Self { assets: assets(), data, certificates, serving_authority, client, etcd_port, port }
    }

    /// Starts `etcd`, and waits until it is healthy.
    fn start_etcd(&self) -> Running {
        let program = self.assets.path().join("etcd");
        let help = Command::new(&program).arg("--help").output().unwrap();
        let is_it = |line: &str| line.trim_start().starts_with("--unsafe-no-fsync");
        assert!(String::from_utf8(help.stdout).unwrap().lines().any(is_it), "envtest adds the flag then");
        let arguments = [
            format!("--advertise-client-urls=http://127.0.0.1:{}", self.etcd_port),
            format!("--data-dir={}", self.data.path().display()),
            format!("--listen-client-urls=http://127.0.0.1:{}", self.etcd_port),
            format!("--listen-peer-urls=http://127.0.0.1:{}", free_port()),
            "--unsafe-no-fsync=true".to_owned(),
        ];
        let etcd = Running::start(&program, &arguments, &[]);
        let is_healthy = || get_plain(self.etcd_port, "/health").is_some_and(|(status, _)| status == 200);
        eventually("a healthy etcd", PATIENCE, is_healthy);
        etcd
    }

    /// Starts `kube-apiserver`, and waits until it is healthy.
    fn start_server(&self, etcd: &str, further: &[&str], variables: &[(&str, &str)]) -> Running {
        let directory = self.certificates.path().display();
        let mut arguments = vec![
            "--allow-privileged=true".to_owned(),
            "--authorization-mode=RBAC".to_owned(),
            "--bind-address=127.0.0.1".to_owned(),
            format!("--cert-dir={directory}"),
            format!("--client-ca-file={directory}/client-cert-auth-ca.crt"),
            "--disable-admission-plugins=ServiceAccount".to_owned(),
            format!("--etcd-servers={etcd}"),
            format!("--secure-port={}", self.port),
            format!("--service-account-issuer=https://127.0.0.1:{}/", self.port),
            format!("--service-account-key-file={directory}/sa-signer.crt"),
            format!("--service-account-signing-key-file={directory}/sa-signer.key"),
            "--service-cluster-ip-range=10.0.0.0/24".to_owned(),
        ];
        arguments.extend(further.iter().map(|flag| (*flag).to_owned()));
        let mut server = Running::start(&self.assets.path().join("kube-apiserver"), &arguments, variables);
        eventually("a healthy server", PATIENCE, || {
            assert!(server.is_running(), "the server has ended");
            self.try_call(&self.anonymous(), "GET", "/healthz", "").is_some_and(|(status, _)| status == 200)
        });
        server
    }

    fn start_with_shim(&self, variables: &[(&str, &str)]) -> Running {
        self.start_server(&format!("http://127.0.0.1:{}", self.etcd_port), &[], variables)
    }

    /// The server as clients without credentials see it. Its certificate has to be the one of `--cert-dir`.
    fn anonymous(&self) -> Target {
        let url = format!("https://127.0.0.1:{}", self.port);
        Target::new(&url, &self.serving_authority.path().join("ca.crt")).unwrap()
    }

    fn administrator(&self) -> Target {
        self.anonymous().identified(&self.client.certificate, &self.client.key).unwrap()
    }

    fn try_call(&self, target: &Target, method: &str, path: &str, body: &str) -> Option<(u16, Value)> {
        let mut connection = target.connect(PATIENCE).ok()?;
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            target.authority(),
            body.len()
        );
        connection.send(request.as_bytes()).ok()?;
        let mut head = connection.head(method).ok()?;
        let answer = connection.body(&mut head).ok()?;
        Some((head.status, serde_json::from_slice(&answer).unwrap_or_default()))
    }

    fn call(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        self.try_call(&self.administrator(), method, path, &body).expect("an answer")
    }

    fn get(&self, path: &str) -> (u16, Value) {
        self.call("GET", path, &Value::Null)
    }
}

fn config_map(name: &str) -> Value {
    json!({"metadata": {"name": name}, "data": {"k": "v"}})
}

#[test]
fn environment_starts_serves_and_ends_with_watches_open() {
    let environment = Environment::new();
    let etcd = environment.start_etcd();
    let server = environment.start_with_shim(&[]);

    assert_eq!(environment.get("/api/v1/namespaces/default").0, 200);
    let (status, _) = environment.try_call(&environment.anonymous(), "GET", CONFIG_MAPS, "").unwrap();
    assert_eq!(status, 403, "nobody but the users of certificates may do anything");
    assert_eq!(environment.call("POST", CONFIG_MAPS, &config_map("a")).0, 201);
    let (status, token) = environment.call(
        "POST",
        "/api/v1/namespaces/default/serviceaccounts",
        &json!({"metadata": {"name": "sa"}}),
    );
    assert_eq!(status, 201, "{token}");
    let (status, review) =
        environment.call("POST", "/api/v1/namespaces/default/serviceaccounts/sa/token", &json!({"spec": {}}));
    assert_eq!(status, 201, "{review}");
    let body = json!({"spec": {"token": review["status"]["token"]}});
    let (_, review) = environment.call("POST", "/apis/authentication.k8s.io/v1/tokenreviews", &body);
    assert_eq!(review["status"]["authenticated"], true, "a token is verified with the certificate: {review}");

    let watches: Vec<_> = (0..5)
        .map(|_| {
            let target = environment.administrator();
            let mut connection = target.connect(PATIENCE).unwrap();
            let request =
                format!("GET {CONFIG_MAPS}?watch=true HTTP/1.1\r\nHost: {}\r\n\r\n", target.authority());
            connection.send(request.as_bytes()).unwrap();
            let mut head = connection.head("GET").unwrap();
            assert!(connection.chunk(&mut head).unwrap().is_some(), "the first event");
            (connection, head)
        })
        .collect();
    // One that has sent nothing, as the pools of clients keep them.
    let idle = environment.administrator().connect(PATIENCE).unwrap();
    assert_eq!(server.stop(), Some(0));
    for (mut connection, mut head) in watches {
        while let Ok(Some(_)) = connection.chunk(&mut head) {}
    }
    drop(idle);
    assert_eq!(etcd.stop(), Some(0));
}

#[test]
fn objects_outlive_the_server_alone_and_go_with_the_folder_of_etcd() {
    let environment = Environment::new();
    let etcd = environment.start_etcd();
    let server = environment.start_with_shim(&[]);
    assert_eq!(environment.call("POST", CONFIG_MAPS, &config_map("a")).0, 201);
    let uid = environment.get(&format!("{CONFIG_MAPS}/a")).1["metadata"]["uid"].clone();
    server.kill();
    let server = environment.start_with_shim(&[]);
    assert_eq!(environment.get(&format!("{CONFIG_MAPS}/a")).1["metadata"]["uid"], uid, "after a crash");
    assert_eq!(server.stop(), Some(0));
    // The shim is needed at the start only.
    let mut server = environment.start_with_shim(&[]);
    assert_eq!(etcd.stop(), Some(0));
    assert_eq!(environment.call("PUT", &format!("{CONFIG_MAPS}/a"), &config_map("a")).0, 200);
    assert!(server.is_running());
    assert_eq!(server.stop(), Some(0));

    let folder = environment.data.path().join("keelson/registry");
    assert!(folder.join("store").is_dir(), "everything is in the data directory of etcd");
    let names: Vec<_> =
        fs::read_dir(environment.certificates.path()).unwrap().map(|one| one.unwrap().file_name()).collect();
    assert_eq!(names.len(), 5, "nothing is made beside the certificates: {names:?}");
    fs::remove_dir_all(environment.data.path()).unwrap();
    let etcd = environment.start_etcd();
    let server = environment.start_with_shim(&[]);
    assert_eq!(environment.get(&format!("{CONFIG_MAPS}/a")).0, 404);
    assert_eq!((server.stop(), etcd.stop()), (Some(0), Some(0)));
}

/// Whether an object with an owner that does not exist is there after a namespace has ended, which takes
/// another controller.
fn orphan_stays(environment: &Environment) -> bool {
    let owner = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "00000000-0000-4000-8000-000000000000"}]);
    let orphan = json!({"metadata": {"name": "orphan", "ownerReferences": owner}});
    assert_eq!(environment.call("POST", CONFIG_MAPS, &orphan).0, 201);
    let namespaces = "/api/v1/namespaces";
    assert_eq!(environment.call("POST", namespaces, &json!({"metadata": {"name": "going"}})).0, 201);
    let (_, namespace) = environment.call("DELETE", &format!("{namespaces}/going"), &Value::Null);
    assert_eq!(namespace["status"]["phase"], "Terminating");
    environment.get(&format!("{CONFIG_MAPS}/orphan")).0 == 200
}

#[test]
fn controllers_run_only_if_the_environment_names_them() {
    let environment = Environment::new();
    let _etcd = environment.start_etcd();
    let server = environment.start_with_shim(&[]);
    assert!(orphan_stays(&environment));
    // There is nothing to wait for: only a controller would do something.
    let gone = |path: &str| environment.get(path).0 == 404;
    assert!(!gone("/api/v1/namespaces/going"));
    assert_eq!(server.stop(), Some(0));

    let both = "namespace-controller,garbage-collector-controller";
    let server = environment.start_with_shim(&[("KEELSON_CONTROLLERS", both)]);
    eventually("the end of the namespace", PATIENCE, || gone("/api/v1/namespaces/going"));
    eventually("the end of the orphan", PATIENCE, || gone(&format!("{CONFIG_MAPS}/orphan")));
    assert_eq!(environment.get("/api/v1/nodes").1["items"], json!([]), "no nodes are made");
    assert_eq!(server.stop(), Some(0));

    let flags = [("KEELSON_CONTROLLERS", "*"), ("KEELSON_FLAGS", "--scheduler=on --fake-nodes=1")];
    let server = environment.start_with_shim(&flags);
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    assert_eq!(environment.call("POST", "/api/v1/namespaces/default/pods", &pod).0, 201);
    eventually("a running pod", PATIENCE, || {
        environment.get("/api/v1/namespaces/default/pods/p").1["status"]["phase"] == "Running"
    });
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn servers_with_other_prefixes_share_a_shim() {
    let [one, mut other] = [(); 2].map(|()| Environment::new());
    let _etcd = one.start_etcd();
    other.etcd_port = one.etcd_port;
    let first = one.start_with_shim(&[]);
    let url = format!("http://127.0.0.1:{}", one.etcd_port);
    let second = other.start_server(&url, &["--etcd-prefix=/other", "--advertise-address=127.0.0.1"], &[]);
    assert_eq!(one.call("POST", CONFIG_MAPS, &config_map("a")).0, 201);
    assert_eq!(other.get(&format!("{CONFIG_MAPS}/a")).0, 404);
    assert_eq!((first.stop(), second.stop()), (Some(0), Some(0)));
}

#[test]
fn real_etcd_is_used_as_one() {
    let environment = Environment::new();
    let etcd = Etcd::start("etcd", 1, &[]).unwrap();
    let url = etcd.endpoints().remove(0);
    let port = url.rsplit(':').next().unwrap().parse().unwrap();
    assert_eq!(get_plain(port, "/keelson/v1/storage").unwrap().0, 404);
    let server = environment.start_server(&url, &[], &[]);
    assert_eq!(environment.call("POST", CONFIG_MAPS, &config_map("a")).0, 201);
    assert!(etcd.value("/registry/configmaps/default/a").unwrap().is_some());
    assert_eq!(server.stop(), Some(0));
}

/// Under its own name, the server never asks what an etcd is.
#[test]
fn server_under_its_own_name_takes_the_shim_for_a_broken_etcd() {
    let environment = Environment::new();
    let _etcd = environment.start_etcd();
    let here = Folder::new().unwrap();
    let output = Command::new(binary())
        .arg(format!("--etcd-servers=http://127.0.0.1:{}", environment.etcd_port))
        .args(["--secure-port=0", "--data-dir"])
        .arg(here.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("cannot be used as the store"), "{said}");
    assert!(!environment.data.path().join("keelson").exists());
}

#[test]
fn help_ends_well_and_makes_envtest_add_nothing() {
    let assets = assets();
    let run = |program: &str, argument: &str| -> Output {
        Command::new(assets.path().join(program)).arg(argument).output().unwrap()
    };
    let help = run("kube-apiserver", "--help");
    assert_eq!(help.status.code(), Some(0));
    let text = [help.stdout, help.stderr].concat();
    let text = String::from_utf8(text).unwrap();
    assert!(!text.lines().any(|line| line.trim_start().starts_with("--insecure-port")));
    assert_eq!(run("etcd", "--help").status.code(), Some(0));
    assert!(
        String::from_utf8(run("kube-apiserver", "--version").stdout)
            .unwrap()
            .starts_with("Kubernetes v1.33.")
    );
    let refused = run("etcd", "x");
    assert_eq!(refused.status.code(), Some(1));
    assert!(String::from_utf8(refused.stderr).unwrap().contains("\"x\" is not valid"));
}

#[test]
fn wrong_variable_is_named() {
    let assets = assets();
    let output = Command::new(assets.path().join("kube-apiserver"))
        .arg("--secure-port=0")
        .env("KEELSON_CONTROLLERS", "nonsense")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        said.contains("KEELSON_CONTROLLERS: \"nonsense\" is not in the list of known controllers"),
        "{said}"
    );
}

#[test]
fn archive_of_the_command_holds_programs_that_run() {
    let folder = Folder::new().unwrap();
    let path = |name: &str| folder.path().join(name);
    let said = Command::new(binary())
        .args(["envtest", "--url=https://example.com/", "--tar"])
        .arg(path("assets.tar.gz"))
        .arg("--index")
        .arg(path("index.yaml"))
        .output()
        .unwrap();
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    assert!(String::from_utf8(said.stdout).unwrap().starts_with("setup-envtest sideload 1.33."));
    let unpacked =
        Command::new("tar").arg("-xzf").arg(path("assets.tar.gz")).arg("-C").arg(folder.path()).status();
    assert!(unpacked.unwrap().success());
    let programs = path("controller-tools/envtest");
    let help = Command::new(programs.join("etcd")).arg("--help").output().unwrap();
    assert!(help.status.success() && help.stdout.starts_with(b"keelson etcd "));
    assert_eq!(
        fs::metadata(programs.join("kube-apiserver")).unwrap().len(),
        fs::metadata(binary()).unwrap().len()
    );
    let index = fs::read_to_string(path("index.yaml")).unwrap();
    assert!(index.starts_with("releases:\n  v1.33."), "{index}");
}
