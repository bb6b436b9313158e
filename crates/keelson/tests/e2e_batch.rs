//! Services, jobs, cron jobs, budgets and claims, brought to life by the controllers of the binary: with
//! kubectl, which also plays the kubelet where a pod has to run or end.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

use std::time::Duration;

use testkit::{Cli, Server};

/// The longest that something may take.
const PATIENCE: Duration = Duration::from_secs(60);

const SERVICE: &str = r#"{"apiVersion":"v1","kind":"Service","metadata":{"name":"web"},"spec":{"selector":{"app":"web"},
    "ports":[{"name":"http","port":80,"targetPort":"http"}]}}"#;
const NODE: &str = r#"{"apiVersion":"v1","kind":"Node","metadata":{"name":"node","labels":{"topology.kubernetes.io/zone":"z"}},
    "status":{"conditions":[{"type":"Ready","status":"True"}]}}"#;
const POD: &str = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"one","labels":{"app":"web"}},"spec":{"nodeName":"node",
    "containers":[{"name":"c","image":"i","ports":[{"name":"http","containerPort":8080}]}]}}"#;
const BUDGET: &str = r#"{"apiVersion":"policy/v1","kind":"PodDisruptionBudget","metadata":{"name":"web"},"spec":{"minAvailable":1,
    "selector":{"matchLabels":{"app":"web"}}}}"#;
const VOLUME: &str = r#"{"apiVersion":"v1","kind":"PersistentVolume","metadata":{"name":"disk"},"spec":{"capacity":{"storage":"5Gi"},
    "accessModes":["ReadWriteOnce"],"hostPath":{"path":"/x"}}}"#;
const CLAIM: &str = r#"{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"name":"data"},"spec":{"accessModes":["ReadWriteOnce"],
    "storageClassName":"","resources":{"requests":{"storage":"3Gi"}}}}"#;

struct Kubectl {
    server: Server,
    cli: Cli,
}

impl Kubectl {
    fn start() -> Self {
        let binary = testkit::server_binary(env!("CARGO_BIN_EXE_keelson"));
        let server = Server::start(&binary, &["--storage=memory"]).unwrap();
        let cli = Cli::new(testkit::tool("kubectl").unwrap(), &server);
        cli.ok(&["create", "namespace", "batch"]).unwrap();
        Self { server, cli: cli.with(&["--namespace", "batch"]) }
    }

    fn ok(&self, line: &str) -> String {
        self.cli.ok(&line.split(' ').collect::<Vec<_>>()).unwrap()
    }

    fn create(&self, object: &str) {
        let file = self.server.folder().join(testkit::unique("object"));
        std::fs::write(&file, object).unwrap();
        self.cli.ok(&["create", "-f", file.to_str().unwrap()]).unwrap();
    }

    fn field(&self, object: &str, path: &str) -> String {
        let path = format!("jsonpath={path}");
        self.cli.ok(&["get", object, "-o", &path]).unwrap()
    }

    fn until(&self, object: &str, path: &str, expected: &str) {
        let what = format!("{object} {path} {expected}");
        testkit::eventually(&what, PATIENCE, || self.field(object, path) == expected);
    }

    fn set_status(&self, pod: &str, status: &str) {
        let patch = format!(r#"{{"status":{status}}}"#);
        let patched =
            self.cli.ok(&["patch", "pod", pod, "--subresource=status", "--type=merge", "-p", &patch]);
        patched.unwrap();
    }
}

#[test]
fn endpoints_slices_and_budgets_follow_the_pods_of_a_service() {
    let kubectl = Kubectl::start();
    for object in [NODE, SERVICE, POD, BUDGET] {
        kubectl.create(object);
    }
    kubectl.until("pdb/web", "{.status.expectedPods} {.status.disruptionsAllowed}", "1 0");
    kubectl.set_status(
        "one",
        r#"{"phase":"Running","podIP":"10.1.0.1","podIPs":[{"ip":"10.1.0.1"}],"conditions":[{"type":"Ready","status":"True"}]}"#,
    );
    kubectl.until(
        "endpoints/web",
        "{.subsets[*].addresses[*].ip} {.subsets[*].ports[*].port}",
        "10.1.0.1 8080",
    );
    let slices =
        "{.items[*].endpoints[*].addresses[*]} {.items[*].endpoints[*].zone} {.items[*].ports[*].port}";
    kubectl.until("endpointslices", slices, "10.1.0.1 z 8080");
    kubectl.until("pdb/web", "{.status.currentHealthy} {.status.conditions[0].reason}", "1 InsufficientPods");
    kubectl.ok("delete pod one --grace-period=0 --force");
    kubectl.until("endpoints/web", "{.subsets}", "");
    kubectl.ok("delete service web");
    kubectl.until("endpoints", "{.items[*].metadata.name}", "");
    kubectl.until("endpointslices", "{.items[*].metadata.name}", "");
}

#[test]
fn jobs_run_to_their_end_and_cron_jobs_make_them() {
    let kubectl = Kubectl::start();
    kubectl.ok("create job once --image=example.com/once:1");
    kubectl.until("job/once", "{.status.active}", "1");
    let pod = kubectl.field("pods", "{.items[0].metadata.name}");
    kubectl.set_status(&pod, r#"{"phase":"Succeeded"}"#);
    kubectl.ok("wait --for=condition=complete --timeout=60s job/once");
    kubectl.until(
        "job/once",
        "{.status.succeeded} {.status.active}{.status.uncountedTerminatedPods}",
        "1 {}",
    );
    let events =
        kubectl.ok("get events --field-selector involvedObject.kind=Job -o jsonpath={.items[*].reason}");
    assert!(events.contains("SuccessfulCreate") && events.contains("Completed"), "{events}");

    let often = ["create", "cronjob", "often", "--image=example.com/often:1", "--schedule=@every 1s"];
    kubectl.cli.ok(&often).unwrap();
    let made = || kubectl.field("cronjob/often", "{.status.active[0].name}").starts_with("often-");
    testkit::eventually("a job of the cron job", PATIENCE, made);
}

#[test]
fn claims_are_bound_to_volumes() {
    let kubectl = Kubectl::start();
    kubectl.create(VOLUME);
    kubectl.until("pv/disk", "{.status.phase}", "Available");
    kubectl.create(CLAIM);
    kubectl.until(
        "pvc/data",
        "{.status.phase} {.spec.volumeName} {.status.capacity.storage}",
        "Bound disk 5Gi",
    );
    kubectl.ok("delete pvc data");
    kubectl.until("pv/disk", "{.status.phase}", "Released");
}
