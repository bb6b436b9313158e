use super::*;
use crate::flags;
use access::token_signer::fake::FakeSigner;
use encryption::test_plugin::Fake;
use serde_json::{Value, json};
use std::path::PathBuf;
use tasks::{
    Counts,
    faults::{Fault, inject},
};
use testkit::Folder;

/// Tasks that cannot be met here. The announcement ends when the server is ready; the wait for the end of a
/// namespace's objects runs only while finalizers hold them, and has a test of its own in `controllers`.
/// There are no forks.
const NOT_HERE: &[Name] =
    &[Name::Announcement, Name::NamespaceEmptied, Name::ForkControllers, Name::ForkObjects];
/// Tasks of a server on etcd, with encryption by a plugin, a signer of tokens and an authentication
/// configuration.
const ON_ETCD: &[Name] = &[
    Name::PortRecord,
    Name::FileReload,
    Name::IssuerReload,
    Name::IssuerDiscovery,
    Name::EncryptionReload,
    Name::KmsStatus,
    Name::TokenSignerKeys,
    Name::EtcdWatch,
    Name::EtcdCompact,
    Name::EtcdHealth,
];

/// How long anything may take, pauses of tasks included.
const PATIENCE: Duration = Duration::from_secs(60);

/// A whole server in this process.
struct Running {
    server: testkit::Server,
    number: u32,
    _folder: Folder,
}

impl Running {
    fn start(folder: Folder, flags: &[String]) -> Self {
        let data = folder.path().join("data");
        let usual = [
            "--secure-port=0".to_owned(),
            "--bind-address=127.0.0.1".to_owned(),
            format!("--data-dir={}", data.display()),
        ];
        let flags = [&usual, flags].concat();
        let options = flags::parse(flags).unwrap().options;
        std::thread::spawn(move || run(&options, Instant::now()));
        let pki = data.join("pki");
        until("the server has a kubeconfig", || data.join("kubeconfig").exists());
        let kubeconfig = std::fs::read_to_string(data.join("kubeconfig")).unwrap();
        let url = kubeconfig.lines().find_map(|line| line.trim().strip_prefix("server: ")).unwrap();
        let token = std::fs::read_to_string(pki.join("admin.token")).unwrap();
        let ca: PathBuf = pki.join("ca.crt");
        let server = testkit::Server::running(url.trim_matches('"'), token.trim(), &ca).unwrap();
        let running = Self { server, number: 0, _folder: folder };
        until("the server is ready", || running.status("/readyz") == 200);
        running
    }

    fn status(&self, path: &str) -> u16 {
        self.server.text("GET", path, "").map_or(0, |(status, _)| status)
    }

    /// Creates an object. A thread of the store that panics fails the writes that it was about, of which some
    /// were made.
    fn create(&self, path: &str, object: &Value) {
        let begin = Instant::now();
        loop {
            let (status, answer) = self.server.call("POST", path, object).unwrap();
            if status == 201 || (status == 409 && answer["reason"] == "AlreadyExists") {
                return;
            }
            assert!(status >= 500 && begin.elapsed() < PATIENCE, "{path}: {status} {answer}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// What loops do: a namespace gets its account and its authority, a definition is served, a service has
    /// an address, a secret can be encrypted; and a namespace goes with all that is in it.
    fn works(&mut self, after: &str) {
        self.number += 1;
        let name = format!("n{}", self.number);
        let namespace = format!("/api/v1/namespaces/{name}");
        self.create("/api/v1/namespaces", &json!({"metadata": {"name": name}}));
        for made in ["serviceaccounts/default", "configmaps/kube-root-ca.crt"] {
            until(&format!("{made} is made after {after}"), || {
                self.status(&format!("{namespace}/{made}")) == 200
            });
        }
        let service = json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}});
        self.create(&format!("{namespace}/services"), &service);
        let secret = json!({"metadata": {"name": "s"}, "stringData": {"key": "value"}});
        self.create(&format!("{namespace}/secrets"), &secret);
        let group = format!("g{}.example.com", self.number);
        let definition = json!({
            "metadata": {"name": format!("widgets.{group}")},
            "spec": {"group": group, "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema":
                    {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}});
        self.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition);
        let widgets = format!("/apis/{group}/v1/namespaces/{name}/widgets");
        until(&format!("a definition is served after {after}"), || self.status(&widgets) == 200);
        let widget =
            json!({"apiVersion": format!("{group}/v1"), "kind": "Widget", "metadata": {"name": "w"}});
        self.create(&widgets, &widget);
        self.server.call("DELETE", &namespace, &Value::Null).unwrap();
        until(&format!("a namespace goes after {after}"), || self.status(&namespace) == 404);
        for path in ["/livez", "/readyz"] {
            let mut checks = String::new();
            let begin = Instant::now();
            while self.status(path) != 200 {
                checks = self
                    .server
                    .text("GET", &format!("{path}?verbose"), "")
                    .map_or(checks, |(_, checks)| checks);
                let failing = [Counts::Live, Counts::Ready].map(tasks::failing);
                assert!(begin.elapsed() < PATIENCE, "{path} fails after {after}: {checks} {failing:?}");
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

impl Running {
    /// Makes each of these tasks panic, end and pause: what loops do goes on.
    fn survives(&mut self, names: &[Name]) {
        self.works("the start");
        for name in names {
            for fault in [Fault::Panic, Fault::End] {
                until(&format!("{name} runs"), || inject(*name, fault) > 0);
                self.works(&format!("{name}: {fault:?}"));
            }
        }
        for name in names {
            inject(*name, Fault::Pause(Duration::from_secs(30)));
        }
        self.works("a pause of all tasks");
    }
}

/// Every task is made to fail by its name, here or in the test after this one, so that a new one is tried
/// too.
#[test]
fn slow_every_task_that_fails_is_started_again() {
    let folder = Folder::new().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    // Nobody listens at the port of the collector.
    let tracing =
        "kind: TracingConfiguration\napiVersion: apiserver.config.k8s.io/v1beta1\nendpoint: 127.0.0.1:9\n";
    let policy = "kind: Policy\napiVersion: audit.k8s.io/v1\nrules: [{level: Metadata}]\n";
    let flags = [
        format!("--tracing-config-file={}", write("tracing.yaml", tracing).display()),
        format!("--debug-socket-path={}", folder.path().join("debug.sock").display()),
        format!("--audit-policy-file={}", write("policy.yaml", policy).display()),
        format!("--audit-log-path={}", folder.path().join("audit.log").display()),
        "--audit-log-mode=batch".to_owned(),
        "--audit-log-maxage=1".to_owned(),
    ];
    let mut running = Running::start(folder, &flags);
    let is_here = |name: &&Name| !NOT_HERE.contains(name) && !ON_ETCD.contains(name);
    for name in ON_ETCD {
        assert_eq!(inject(*name, Fault::End), 0, "{name} runs");
    }
    let names: Vec<Name> = Name::ALL.iter().filter(is_here).copied().collect();
    running.survives(&names);
}

#[test]
fn slow_every_task_of_a_server_on_etcd_that_fails_is_started_again() {
    let folder = Folder::new().unwrap();
    let etcd = testkit::Etcd::start("etcd", 1, &[]).unwrap();
    let write = |name: &str, value: &Value| {
        let path = folder.path().join(name);
        std::fs::write(&path, value.to_string()).unwrap();
        path
    };
    let socket = folder.path().join("kms.sock");
    let plugins = tokio::runtime::Runtime::new().unwrap();
    let _plugin = plugins.block_on(async { Fake::start(&socket) });
    let signer_socket = folder.path().join("signer.sock");
    let _signer = plugins.block_on(async { FakeSigner::start(&signer_socket) });
    let kms = json!({"apiVersion": "v2", "name": "kms", "endpoint": format!("unix://{}", socket.display())});
    let encryption = json!({"kind": "EncryptionConfiguration", "apiVersion": "apiserver.config.k8s.io/v1",
        "resources": [{"resources": ["secrets"], "providers": [{"kms": kms}]}]});
    // Nobody listens at the port of the issuer: it is asked for its discovery document again and again.
    let authentication = |audience: &str| {
        json!({"kind": "AuthenticationConfiguration", "apiVersion": "apiserver.config.k8s.io/v1beta1",
            "jwt": [{"issuer": {"url": "https://127.0.0.1:9", "audiences": [audience]},
                "claimMappings": {"username": {"claim": "sub", "prefix": "i:"}}}]})
    };
    let authentication_file = write("authentication.json", &authentication("a"));
    let flags = [
        format!("--etcd-servers={}", etcd.endpoints().join(",")),
        format!("--encryption-provider-config={}", write("encryption.json", &encryption).display()),
        "--encryption-provider-config-automatic-reload=true".to_owned(),
        format!("--authentication-config={}", authentication_file.display()),
        "--feature-gates=ExternalServiceAccountTokenSigner=true".to_owned(),
        format!("--service-account-signing-endpoint={}", signer_socket.display()),
    ];
    let mut running = Running::start(folder, &flags);
    // The changed configuration waits for its issuer.
    std::fs::write(&authentication_file, authentication("b").to_string()).unwrap();
    running.survives(ON_ETCD);
}

/// A task that fails again and again shows in health, until it has run for a while.
#[test]
fn slow_a_task_that_does_not_recover_shows_in_health() {
    let running = Running::start(Folder::new().unwrap(), &[]);
    for (name, path) in [(Name::ServiceRepair, "/readyz"), (Name::CacheWake, "/livez")] {
        until(&format!("{name} shows at {path}"), || {
            inject(name, Fault::Panic);
            std::thread::sleep(Duration::from_millis(500));
            running.status(path) == 500
        });
    }
}
