//! KWOK's `Stage` objects, with the real kubectl: pods, nodes and other objects that live by them, and what is
//! said of those that ask for more than is known.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

use std::path::Path;
use std::time::{Duration, Instant};

use testkit::{Cli, Server};

const PATIENCE: Duration = Duration::from_secs(20);

struct Cluster {
    cli: Cli,
    _server: Server,
}

impl Cluster {
    fn start() -> Self {
        let binary = testkit::server_binary(env!("CARGO_BIN_EXE_keelson"));
        let server = Server::start(&binary, &["--storage=memory", "--fake-nodes=2"]).unwrap();
        let cli = Cli::new(testkit::tool("kubectl").unwrap(), &server);
        let namespace = testkit::unique("stages");
        cli.ok(&["create", "namespace", &namespace]).unwrap();
        let cli = cli.with(&["--namespace", &namespace]);
        let cluster = Self { cli, _server: server };
        cluster.until("a service account", || cluster.run("get serviceaccount default").is_some());
        cluster.ok("wait --for=condition=Ready node/node-0 node/node-1 --timeout=20s");
        cluster
    }

    fn run(&self, line: &str) -> Option<String> {
        self.cli.ok(&line.split(' ').collect::<Vec<_>>()).ok()
    }

    fn ok(&self, line: &str) -> String {
        self.cli.ok(&line.split(' ').collect::<Vec<_>>()).unwrap()
    }

    fn apply(&self, file: &str) {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stages").join(file);
        self.cli.ok(&["apply", "-f", path.to_str().unwrap()]).unwrap();
    }

    fn field(&self, object: &str, path: &str) -> String {
        self.run(&format!("get {object} -o jsonpath={path}")).unwrap_or_default()
    }

    fn until(&self, what: &str, holds: impl Fn() -> bool) {
        let start = Instant::now();
        while !holds() {
            assert!(start.elapsed() < PATIENCE, "there is never {what}");
            std::thread::sleep(Duration::from_millis(30));
        }
    }

    fn until_field(&self, object: &str, path: &str, value: &str) {
        self.until(&format!("{object} with {value:?}"), || self.field(object, path) == value);
    }

    fn has_event(&self, reason: &str, namespace: &str) -> bool {
        let events =
            self.run(&format!("get events -n {namespace} --field-selector=reason={reason} --no-headers"));
        events.is_some_and(|events| events.contains(reason))
    }
}

const READY: &str = r#"{.status.conditions[?(@.type=="Ready")].reason}"#;

#[test]
fn objects_live_by_their_stages() {
    let cluster = Cluster::start();
    cluster.ok("run before --image=i");
    cluster.until_field("pod/before", "{.status.phase}", "Running");
    cluster.apply("definition.yaml");
    cluster.ok("wait --for=condition=Established crd/stages.kwok.x-k8s.io --timeout=20s");
    cluster.apply("stages.yaml");

    // What is not known is refused, and the others count.
    cluster.until("a refusal", || cluster.has_event("StageRefused", "default"));

    cluster.ok("run staged --image=i --annotations=start-delay=100ms");
    cluster.until_field("pod/staged", READY, "Staged");
    assert_eq!(cluster.field("pod/staged", "{.status.containerStatuses[0].restartCount}"), "7");
    assert!(cluster.field("pod/staged", "{.status.podIP}").starts_with("10.128."));
    let host = cluster.field("pod/staged", "{.status.hostIP}");
    let node = cluster.field("pod/staged", "{.spec.nodeName}");
    let address = r#"{.status.addresses[?(@.type=="InternalIP")].address}"#;
    assert_eq!(host, cluster.field(&format!("node/{node}"), address));
    let namespace = cluster.field("pod/staged", "{.metadata.namespace}");
    cluster.until("an event", || cluster.has_event("Staged", &namespace));

    cluster.ok("run failing --image=i --labels=fails=yes --annotations=reason=Broken");
    cluster.until_field("pod/failing", "{.status.phase}{.status.reason}", "FailedBroken");

    cluster.ok("create configmap counted --from-literal=a=1 --from-literal=b=2");
    cluster.ok("label configmap counted counted=yes");
    // Stages of other kinds may do what somebody allows them to.
    cluster.until("a refusal", || cluster.has_event("StageFailed", &namespace));
    cluster.ok("create clusterrole counting --verb=patch --resource=configmaps");
    cluster.ok("create clusterrolebinding counting --clusterrole=counting --serviceaccount=kube-system:kwok-controller");
    cluster.ok("annotate configmap counted again=yes");
    cluster.until_field("configmap/counted", "{.data.count}", "2");
    assert_eq!(cluster.field("configmap/counted", "{.metadata.finalizers}"), r#"["example.com/counted"]"#);
    cluster.until("an event", || cluster.has_event("Counted", &namespace));

    cluster.ok("delete pod staged failing before --timeout=20s");

    // Without stages the built-in life goes on.
    cluster.ok("delete stages --all");
    cluster.ok("run after --image=i");
    cluster.until_field("pod/after", "{.status.phase}", "Running");
    assert_ne!(cluster.field("pod/after", READY), "Staged");
    cluster.ok("delete pod after --timeout=20s");
}
