//! Workloads with the binary and with kubectl: deployments from their creation to their rollback, stateful
//! sets, daemon sets on nodes made by hand, and a server that is killed in the middle of a rollout.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};
use testkit::{Cli, Server, eventually, tool, unique};

const PATIENCE: Duration = Duration::from_secs(60);

fn binary() -> PathBuf {
    testkit::server_binary(env!("CARGO_BIN_EXE_keelson"))
}

/// kubectl in a namespace of its own.
struct Kubectl {
    cli: Cli,
    namespace: String,
}

impl Kubectl {
    fn new(server: &Server) -> Self {
        let namespace = unique("workloads");
        let kubectl = Self::at(server, namespace);
        kubectl.cli.ok(&["create", "namespace", &kubectl.namespace]).unwrap();
        kubectl
    }

    fn at(server: &Server, namespace: String) -> Self {
        let cli = Cli::new(tool("kubectl").unwrap(), server).with(&["--namespace", &namespace]);
        Self { cli, namespace }
    }

    fn ok(&self, line: &str) -> String {
        self.cli.ok(&line.split(' ').collect::<Vec<_>>()).unwrap()
    }

    fn json(&self, line: &str) -> Value {
        serde_json::from_str(&self.ok(&format!("{line} --output=json"))).unwrap()
    }

    fn items(&self, line: &str) -> Vec<Value> {
        self.json(line)["items"].as_array().unwrap().clone()
    }

    /// The pods that are not being deleted.
    fn pods(&self) -> Vec<Value> {
        let mut pods = self.items("get pods");
        pods.retain(|pod| pod["metadata"]["deletionTimestamp"].is_null());
        pods
    }

    fn pod_names(&self) -> Vec<String> {
        self.pods().iter().map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    }

    /// Makes all pods ready that are not, as kubelets do.
    fn run_pods(&self) {
        let status = json!({"status": {"phase": "Running", "conditions":
            [{"type": "Ready", "status": "True", "lastTransitionTime": "2024-01-01T00:00:00Z"}]}});
        let mut waiting = self.pods();
        waiting.retain(|pod| pod["status"]["conditions"].is_null());
        if waiting.is_empty() {
            return;
        }
        let names = waiting.iter().map(|pod| pod["metadata"]["name"].as_str().unwrap());
        let patch = status.to_string();
        let line: Vec<_> = ["patch", "pod"].into_iter().chain(names).collect();
        // Some of the pods may be gone.
        self.cli.run(&[line, vec!["--subresource=status", "--type=merge", "-p", &patch]].concat()).unwrap();
    }

    /// Runs pods until a rollout is complete.
    fn roll_out(&self, what: &str) {
        eventually("a complete rollout", PATIENCE, || {
            self.run_pods();
            let status = self.cli.run(&["rollout", "status", what, "--watch=false"]).unwrap();
            status.out.contains("successfully rolled out")
                || status.out.contains("roll out complete")
                || status.out.contains("rolling update complete")
        });
    }

    /// How many pods run each image.
    fn images(&self) -> BTreeMap<String, usize> {
        let mut images = BTreeMap::new();
        for pod in self.pods() {
            let image = pod["spec"]["containers"][0]["image"].as_str().unwrap().to_owned();
            *images.entry(image).or_default() += 1;
        }
        images
    }
}

fn images<const N: usize>(expected: [(&str, usize); N]) -> BTreeMap<String, usize> {
    expected.into_iter().map(|(image, count)| (image.to_owned(), count)).collect()
}

#[test]
fn deployment_lives_from_its_creation_to_its_end() {
    let server = Server::start(&binary(), &["--storage=memory"]).unwrap();
    let kubectl = Kubectl::new(&server);
    kubectl.ok("create deployment web --image=one --replicas=3");
    kubectl.roll_out("deployment/web");
    assert_eq!(kubectl.images(), images([("one", 3)]));
    assert_eq!(
        kubectl.ok("get deployment web --no-headers").split_whitespace().take(4).collect::<Vec<_>>(),
        ["web", "3/3", "3", "3"]
    );

    kubectl.ok("scale deployment web --replicas=2");
    kubectl.roll_out("deployment/web");
    assert_eq!(kubectl.images(), images([("one", 2)]));

    kubectl.ok("set image deployment/web one=two");
    kubectl.roll_out("deployment/web");
    assert_eq!(kubectl.images(), images([("two", 2)]));
    let history = kubectl.ok("rollout history deployment/web");
    let revisions: Vec<_> =
        history.lines().filter_map(|line| line.split_whitespace().next()?.parse::<u32>().ok()).collect();
    assert_eq!(revisions, [1, 2], "{history}");

    assert_eq!(kubectl.ok("rollout undo deployment/web"), "deployment.apps/web rolled back\n");
    kubectl.roll_out("deployment/web");
    assert_eq!(kubectl.images(), images([("one", 2)]));
    assert_eq!(kubectl.items("get replicasets").len(), 2);

    kubectl.ok("rollout pause deployment/web");
    kubectl.ok("set image deployment/web one=three");
    eventually("a pause that is noted", PATIENCE, || {
        let conditions = kubectl.json("get deployment web")["status"]["conditions"].clone();
        conditions.as_array().unwrap().iter().any(|condition| condition["reason"] == "DeploymentPaused")
    });
    assert_eq!(kubectl.items("get replicasets").len(), 2);
    kubectl.ok("rollout resume deployment/web");
    kubectl.roll_out("deployment/web");
    assert_eq!(kubectl.images(), images([("three", 2)]));

    kubectl.ok("delete pod --all");
    eventually("new pods", PATIENCE, || kubectl.pods().len() == 2);
    kubectl.ok("delete deployment web");
    eventually("an end of all", PATIENCE, || {
        kubectl.pods().is_empty() && kubectl.items("get replicasets").is_empty()
    });
    let events = kubectl.items("get events");
    let scaled = events.iter().filter(|event| event["reason"] == "ScalingReplicaSet");
    assert!(scaled.count() >= 4);
}

#[test]
fn stateful_and_daemon_sets_keep_their_pods() {
    // The test plays the kubelets: nobody judges their nodes, nor where pods fit.
    let flags = ["--storage=memory", "--controllers=*,-node-lifecycle-controller", "--scheduler=off"];
    let server = Server::start(&binary(), &flags).unwrap();
    let kubectl = Kubectl::new(&server);
    let apply = |object: Value| {
        let folder = testkit::Folder::new().unwrap();
        let file = folder.path().join("object.json");
        std::fs::write(&file, object.to_string()).unwrap();
        kubectl.cli.ok(&["apply", "-f", file.to_str().unwrap()]).unwrap();
    };
    let template = |app: &str| json!({"metadata": {"labels": {"app": app}}, "spec": {"containers": [{"name": "c", "image": "one"}]}});
    apply(json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db"}, "spec": {
        "serviceName": "db", "replicas": 3, "selector": {"matchLabels": {"app": "db"}}, "template": template("db"),
        "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}}}}]}}));
    kubectl.roll_out("statefulset/db");
    assert_eq!(kubectl.pod_names(), ["db-0", "db-1", "db-2"]);
    kubectl.ok("set image statefulset/db c=two");
    kubectl.roll_out("statefulset/db");
    assert_eq!(kubectl.images(), images([("two", 3)]));
    kubectl.ok("rollout undo statefulset/db");
    kubectl.roll_out("statefulset/db");
    assert_eq!(kubectl.images(), images([("one", 3)]));
    kubectl.ok("scale statefulset db --replicas=1");
    eventually("one pod", PATIENCE, || kubectl.pod_names() == ["db-0"]);
    assert_eq!(kubectl.items("get pvc").len(), 3);
    kubectl.ok("delete statefulset db");
    eventually("no pod", PATIENCE, || kubectl.pods().is_empty());

    for name in ["n1", "n2", "n3"] {
        apply(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}));
    }
    // Nodes are tainted until they are ready, unless somebody says otherwise.
    kubectl.ok("taint node n1 n2 n3 node.kubernetes.io/not-ready:NoSchedule-");
    apply(json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "agent"}, "spec": {
        "selector": {"matchLabels": {"app": "agent"}}, "template": template("agent")}}));
    kubectl.roll_out("daemonset/agent");
    assert_eq!(kubectl.pods().len(), 3);
    kubectl.ok("set image daemonset/agent c=two");
    kubectl.roll_out("daemonset/agent");
    assert_eq!(kubectl.images(), images([("two", 3)]));
    kubectl.ok("rollout undo daemonset/agent");
    kubectl.roll_out("daemonset/agent");
    assert_eq!(kubectl.images(), images([("one", 3)]));
    kubectl.ok("taint node n2 key=value:NoExecute");
    eventually("two pods", PATIENCE, || kubectl.pods().len() == 2);
}

/// No pod is too many, none is lost, and none is without an owner, whenever the server is killed.
#[test]
fn rollout_goes_on_after_a_crash() {
    const REPLICAS: usize = 12;
    const MOST: usize = REPLICAS + 3;
    let mut server = Server::start(&binary(), &[]).unwrap();
    let mut kubectl = Kubectl::new(&server);
    kubectl.ok(&format!("create deployment web --image=start --replicas={REPLICAS}"));
    for round in 0..4u64 {
        // In the middle of the creation, and of three rollouts.
        if round > 0 {
            kubectl.ok(&format!("set image deployment/web start=image-{round}"));
            kubectl.run_pods();
        }
        std::thread::sleep(Duration::from_millis(7 * round));
        server = server.crash(&binary(), &[]).unwrap();
        kubectl = Kubectl::at(&server, kubectl.namespace);
        assert!(kubectl.pods().len() <= MOST, "{:?}", kubectl.pod_names());
        eventually("a complete rollout", PATIENCE, || {
            assert!(kubectl.pods().len() <= MOST, "{:?}", kubectl.pod_names());
            kubectl.run_pods();
            let deployment = kubectl.json("get deployment web");
            let (status, spec) = (&deployment["status"], &deployment["metadata"]);
            status["observedGeneration"] == spec["generation"]
                && ["replicas", "updatedReplicas", "availableReplicas"]
                    .iter()
                    .all(|count| status[count] == REPLICAS)
        });
        let image = if round == 0 { "start".to_owned() } else { format!("image-{round}") };
        assert_eq!(kubectl.images(), images([(image.as_str(), REPLICAS)]));
        let sets = kubectl.items("get replicasets");
        let uids: Vec<_> = sets.iter().map(|set| &set["metadata"]["uid"]).collect();
        assert_eq!(sets.len() as u64, round + 1);
        for pod in kubectl.pods() {
            assert!(uids.contains(&&pod["metadata"]["ownerReferences"][0]["uid"]), "{pod}");
        }
    }
}
