//! Autoscaling in a cluster in one process, with the real kubectl: what pods on paper use, and the replicas
//! that follow from it; another server that serves metrics.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

use std::time::{Duration, Instant};

use testkit::{Cli, Server};

const PATIENCE: Duration = Duration::from_secs(30);

struct Cluster {
    cli: Cli,
    server: Server,
}

impl Cluster {
    fn start() -> Self {
        let binary = testkit::server_binary(env!("CARGO_BIN_EXE_keelson"));
        let flags = [
            "--storage=memory",
            "--fake-nodes=2",
            "--horizontal-pod-autoscaler-sync-period=300ms",
            "--horizontal-pod-autoscaler-downscale-stabilization=0s",
            "--horizontal-pod-autoscaler-cpu-initialization-period=0s",
        ];
        let server = Server::start(&binary, &flags).unwrap();
        let cli = Cli::new(testkit::tool("kubectl").unwrap(), &server);
        let namespace = testkit::unique("autoscaling");
        cli.ok(&["create", "namespace", &namespace]).unwrap();
        let cli = cli.with(&["--namespace", &namespace]);
        let cluster = Self { cli, server };
        cluster.until("a service account", || cluster.run("get serviceaccount default").is_some());
        cluster
    }

    fn run(&self, line: &str) -> Option<String> {
        self.cli.ok(&line.split(' ').collect::<Vec<_>>()).ok()
    }

    fn ok(&self, line: &str) -> String {
        self.cli.ok(&line.split(' ').collect::<Vec<_>>()).unwrap()
    }

    fn field(&self, object: &str, path: &str) -> String {
        self.run(&format!("get {object} -o jsonpath={path}")).unwrap_or_default()
    }

    /// A deployment whose pods request half a CPU.
    fn deploy(&self, replicas: usize) {
        self.ok(&format!("create deployment web --image=i --replicas={replicas}"));
        self.ok("set resources deployment web --requests=cpu=500m,memory=64Mi");
        self.ok("rollout status deployment web --timeout=30s");
    }

    fn use_cpu(&self, amount: &str) {
        self.ok(&format!("annotate pods --all kwok.x-k8s.io/usage-cpu={amount} --overwrite"));
    }

    fn until(&self, what: &str, holds: impl Fn() -> bool) {
        let start = Instant::now();
        while !holds() {
            assert!(start.elapsed() < PATIENCE, "there is never {what}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn until_replicas(&self, count: &str) {
        self.until(&format!("{count} replicas"), || {
            self.field("deployment/web", "{.spec.replicas}") == count
        });
    }
}

#[test]
fn top_shows_what_pods_on_paper_say_that_they_use() {
    let cluster = Cluster::start();
    cluster.deploy(2);
    // The API is announced once the nodes are there.
    cluster.until("metrics", || cluster.run("top nodes").is_some());
    cluster.use_cpu("250m");
    let pods = cluster.ok("top pods --no-headers");
    for line in pods.lines() {
        assert_eq!(line.split_whitespace().skip(1).collect::<Vec<_>>(), ["250m", "32Mi"], "{pods}");
    }
    assert_eq!(pods.lines().count(), 2, "{pods}");
    let nodes = cluster.ok("top nodes --no-headers");
    let cpu: usize = nodes
        .lines()
        .filter_map(|line| line.split_whitespace().nth(1)?.strip_suffix('m')?.parse::<usize>().ok())
        .sum();
    assert_eq!((nodes.lines().count(), cpu), (2, 500), "{nodes}");
    let table = cluster.ok("get pods.metrics.k8s.io --no-headers");
    assert!(table.lines().all(|line| line.contains("250m") && line.contains("32Mi")), "{table}");
    let selected = cluster.ok("get --raw /apis/metrics.k8s.io/v1beta1/pods?labelSelector=app%3Dnone");
    assert!(selected.contains(r#""items":[]"#), "{selected}");
    assert_eq!(
        cluster.ok("get apiservice v1beta1.metrics.k8s.io --no-headers").split_whitespace().nth(1),
        Some("Local")
    );
    let missing = cluster.cli.fails(&["get", "nodes.metrics.k8s.io", "nothing"]).unwrap();
    assert!(missing.contains(r#"nodes.metrics.k8s.io "nothing" not found"#), "{missing}");

    // Another server that is registered for the API comes first.
    let patch = r#"--patch={"spec":{"service":{"namespace":"kube-system","name":"metrics-server"},"insecureSkipTLSVerify":true}}"#;
    cluster.cli.ok(&["patch", "apiservice", "v1beta1.metrics.k8s.io", "--type=merge", patch]).unwrap();
    let raw = "/apis/metrics.k8s.io/v1beta1/nodes";
    cluster.until("an answer of nobody", || cluster.run(&format!("get --raw {raw}")).is_none());
    cluster.ok("delete apiservice v1beta1.metrics.k8s.io");
    cluster.until("metrics again", || cluster.run("top nodes").is_some());
    // Without nodes there is nothing to measure.
    cluster.ok("delete nodes --all");
    cluster.until("no API", || cluster.run(&format!("get --raw {raw}")).is_none());
    cluster.until("no API service", || cluster.run("get apiservice v1beta1.metrics.k8s.io").is_none());
}

#[test]
fn replicas_follow_the_use_of_cpu() {
    let cluster = Cluster::start();
    cluster.deploy(2);
    cluster.ok("autoscale deployment web --min=1 --max=6 --cpu-percent=50");
    // Half of what is requested is just right.
    let active = || cluster.field("hpa/web", r#"{.status.conditions[?(@.type=="ScalingActive")].reason}"#);
    cluster.until("a valid metric", || active() == "ValidMetricFound");
    assert_eq!(cluster.field("deployment/web", "{.spec.replicas}"), "2");
    let shown = cluster.ok("get hpa web --no-headers");
    assert!(shown.contains("Deployment/web") && shown.contains("cpu: 50%/50%"), "{shown}");

    cluster.use_cpu("1");
    // 200 % of the request: four times as many pods are too many.
    cluster.until_replicas("6");
    cluster.ok("rollout status deployment web --timeout=30s");
    let described = cluster.ok("describe hpa web");
    let reason = "reason: cpu resource utilization (percentage of request) above target";
    assert!(described.contains("SuccessfulRescale") && described.contains(reason), "{described}");

    cluster.use_cpu("10m");
    cluster.until_replicas("1");
    let described = cluster.ok("describe hpa web");
    assert!(described.contains("New size: 1; reason: All metrics below target"), "{described}");
    assert!(described.contains("DesiredWithinRange") || described.contains("TooFewReplicas"), "{described}");

    // A stateful set, and a metric that nobody serves.
    let autoscaler = r#"{"apiVersion":"autoscaling/v2","kind":"HorizontalPodAutoscaler","metadata":{"name":"lost"},"spec":{"maxReplicas":3,
        "scaleTargetRef":{"apiVersion":"apps/v1","kind":"StatefulSet","name":"none"},
        "metrics":[{"type":"External","external":{"metric":{"name":"q"},"target":{"type":"Value","value":"1"}}}]}}"#;
    let namespace = cluster.field("hpa/web", "{.metadata.namespace}");
    let path = format!("/apis/autoscaling/v2/namespaces/{namespace}/horizontalpodautoscalers");
    cluster.server.text("POST", &path, autoscaler).unwrap();
    let able = || cluster.field("hpa/lost", r#"{.status.conditions[?(@.type=="AbleToScale")].reason}"#);
    cluster.until("a failure", || able() == "FailedGetScale");
}
