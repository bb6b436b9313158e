//! A cluster in one process, with the real kubectl: pods that are assigned to nodes on paper and run there,
//! what is said of those that find no node, preemption, drains, and the end of pods.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

use std::time::{Duration, Instant};

use testkit::{Cli, Server};

const PATIENCE: Duration = Duration::from_secs(20);

struct Cluster {
    cli: Cli,
    server: Server,
}

impl Cluster {
    /// A server with flags, and kubectl in a new namespace of it.
    fn start(flags: &[&str]) -> Self {
        let binary = testkit::server_binary(env!("CARGO_BIN_EXE_keelson"));
        let flags = [&["--storage=memory"], flags].concat();
        let server = Server::start(&binary, &flags).unwrap();
        let cli = Cli::new(testkit::tool("kubectl").unwrap(), &server);
        let namespace = testkit::unique("cluster");
        cli.ok(&["create", "namespace", &namespace]).unwrap();
        let cli = cli.with(&["--namespace", &namespace]);
        let cluster = Self { cli, server };
        cluster.until("a service account", || cluster.run("get serviceaccount default").is_some());
        cluster
    }

    /// Standard output of a command; `None` if it failed.
    fn run(&self, line: &str) -> Option<String> {
        self.cli.ok(&line.split(' ').collect::<Vec<_>>()).ok()
    }

    fn ok(&self, line: &str) -> String {
        self.cli.ok(&line.split(' ').collect::<Vec<_>>()).unwrap()
    }

    fn field(&self, object: &str, path: &str) -> String {
        self.run(&format!("get {object} -o jsonpath={path}")).unwrap_or_default()
    }

    /// Makes a pod that requests CPU time, with further fields of its specification.
    fn pod(&self, name: &str, cpu: &str, more: &str) {
        let overrides = format!(
            r#"--overrides={{"spec":{{"containers":[{{"name":"c","image":"i","resources":{{"requests":{{"cpu":"{cpu}"}}}}}}]{more}}}}}"#
        );
        self.cli.ok(&["run", name, "--image=i", &overrides]).unwrap();
    }

    fn runs(&self, pod: &str) {
        let running = || self.field(&format!("pod/{pod}"), "{.status.phase}") == "Running";
        self.until(&format!("a running pod {pod}"), running);
    }

    fn until(&self, what: &str, holds: impl Fn() -> bool) {
        let start = Instant::now();
        while !holds() {
            assert!(start.elapsed() < PATIENCE, "there is never {what}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

#[test]
fn pods_run_on_nodes_of_paper_and_go() {
    let cluster = Cluster::start(&["--fake-nodes=2"]);
    cluster.ok("wait --for=condition=Ready node/node-0 node/node-1 --timeout=20s");
    cluster.pod("web", "1", "");
    cluster.ok("wait --for=condition=Ready pod/web --timeout=20s");
    let line = cluster.ok("get pod web --no-headers");
    assert_eq!(line.split_whitespace().take(4).collect::<Vec<_>>(), ["web", "1/1", "Running", "0"]);
    assert!(cluster.field("pod/web", "{.status.podIP}").starts_with("10.128."));
    let described = cluster.ok("describe pod web");
    assert!(described.contains("Successfully assigned"), "{described}");
    let nodes = cluster.ok("get nodes --no-headers");
    let versions: Vec<&str> = nodes.lines().filter_map(|line| line.split_whitespace().last()).collect();
    assert_eq!(versions, ["v1.33.7", "v1.33.7"], "{nodes}");

    let log = cluster.ok("logs web");
    assert!(log.starts_with("Container c of pod ") && log.contains("exists on paper"), "{log}");
    let said = cluster.ok("exec web -- cat /etc/hosts");
    assert!(said.starts_with("Container c of pod ") && said.ends_with("command: cat /etc/hosts\n"), "{said}");
    let refused = cluster.cli.fails(&["port-forward", "pod/web", "0:80"]).unwrap();
    assert!(refused.contains("node-") && refused.contains("exists on paper"), "{refused}");

    cluster.ok("delete pod web --timeout=20s");
    assert!(cluster.run("get pod web").is_none());

    // A node that somebody else makes, as for kwok.
    let node = r#"{"apiVersion":"v1","kind":"Node","metadata":{"name":"mine","labels":{"disk":"ssd"},"annotations":{"kwok.x-k8s.io/node":"fake","keelson.io/capacity":"cpu=1"}}}"#;
    cluster.server.text("POST", "/api/v1/nodes", node).unwrap();
    cluster.pod("picky", "1", r#","nodeSelector":{"disk":"ssd"}"#);
    cluster.runs("picky");
    assert_eq!(cluster.field("pod/picky", "{.spec.nodeName}"), "mine");

    cluster
        .cli
        .ok(&[
            "run",
            "once",
            "--image=i",
            "--restart=Never",
            "--annotations=pod-complete.stage.kwok.x-k8s.io/delay=1s",
        ])
        .unwrap();
    cluster.until("success", || cluster.field("pod/once", "{.status.phase}") == "Succeeded");
    let failing = ["run", "bad", "--image=i", "--restart=Never", "--annotations=keelson.io/exit-code=3"];
    cluster.cli.ok(&failing).unwrap();
    cluster.until("a failure", || cluster.field("pod/bad", "{.status.phase}") == "Failed");
    let code = cluster.field("pod/bad", "{.status.containerStatuses[0].state.terminated.exitCode}");
    assert_eq!(code, "3");
}

#[test]
fn pods_without_room_say_why_and_take_it_from_others() {
    let cluster = Cluster::start(&["--fake-nodes=2", "--fake-node-capacity=cpu=2"]);
    cluster.ok("wait --for=condition=Ready node/node-0 node/node-1 --timeout=20s");
    cluster.ok("cordon node-1");
    let class = r#"{"apiVersion":"scheduling.k8s.io/v1","kind":"PriorityClass","metadata":{"name":"high"},"value":1000}"#;
    cluster.server.text("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", class).unwrap();
    cluster.pod("low", "2", r#","terminationGracePeriodSeconds":0"#);
    cluster.runs("low");
    cluster.pod("waiting", "1", "");
    let message =
        || cluster.field("pod/waiting", r#"{.status.conditions[?(@.type=="PodScheduled")].message}"#);
    const REASONS: &str = "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were unschedulable. preemption: \
                           0/2 nodes are available: 1 No preemption victims found for incoming pod, \
                           1 Preemption is not helpful for scheduling.";
    cluster.until("the reasons", || !message().is_empty());
    assert_eq!(message(), REASONS);
    let event =
        || cluster.ok("get events --field-selector=reason=FailedScheduling -o jsonpath={.items[0].message}");
    cluster.until("an event", || event() == REASONS);

    cluster.pod("high", "2", r#","priorityClassName":"high""#);
    cluster.runs("high");
    assert_eq!(cluster.field("pod/high", "{.spec.nodeName}"), "node-0");
    assert!(cluster.run("get pod low").is_none());
    cluster.ok("uncordon node-1");
    cluster.runs("waiting");
    assert_eq!(cluster.field("pod/waiting", "{.spec.nodeName}"), "node-1");

    cluster.ok("drain node-1 --force --timeout=20s");
    assert!(cluster.run("get pod waiting").is_none());
    assert_eq!(cluster.field("node/node-1", "{.spec.unschedulable}"), "true");
}

#[test]
fn without_nodes_pods_are_left_alone() {
    let cluster = Cluster::start(&[]);
    cluster.pod("alone", "1", "");
    let version = cluster.field("pod/alone", "{.metadata.resourceVersion}");
    // The scheduler has seen the pod when it acts on a later one.
    let node = r#"{"apiVersion":"v1","kind":"Node","metadata":{"name":"n"}}"#;
    assert_eq!(cluster.field("pod/alone", "{.metadata.resourceVersion}"), version);
    cluster.server.text("POST", "/api/v1/nodes", node).unwrap();
    cluster.until("a rejection", || cluster.field("pod/alone", "{.metadata.resourceVersion}") != version);
    cluster.until("a message", || {
        let message = cluster.field("pod/alone", "{.status.conditions[0].message}");
        message.starts_with("0/1 nodes are available: ")
    });
}

#[test]
fn a_scheduler_that_is_off_schedules_nothing() {
    let cluster = Cluster::start(&["--fake-nodes=1", "--scheduler=off"]);
    cluster.ok("wait --for=condition=Ready node/node-0 --timeout=20s");
    cluster.pod("left", "1", "");
    cluster.pod("placed", "1", r#","nodeName":"node-0""#);
    cluster.runs("placed");
    assert_eq!(cluster.field("pod/left", "{.spec.nodeName}{.status.conditions}"), "");
}
