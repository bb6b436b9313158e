//! Common kubectl commands with the real kubectl. The expected output is that against the reference:
//! `testkit::Server` says how to run these tests there.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use testkit::{Cli, Server};

const PATIENCE: Duration = Duration::from_secs(20);

/// A server, and kubectl in a new namespace of it.
struct Kubectl {
    server: Server,
    namespace: String,
    cli: Cli,
}

impl Kubectl {
    fn start() -> Self {
        let binary = testkit::server_binary(env!("CARGO_BIN_EXE_keelson"));
        let server = Server::start(&binary, &["--storage=memory", "--controllers=-*"]).unwrap();
        let cli = Cli::new(testkit::tool("kubectl").unwrap(), &server);
        let namespace = testkit::unique("kubectl");
        assert_eq!(
            cli.ok(&["create", "namespace", &namespace]).unwrap(),
            format!("namespace/{namespace} created\n")
        );
        let cli = cli.with(&["--namespace", &namespace]);
        Self { server, namespace, cli }
    }

    /// Standard output of a command that has to succeed; the words are separated by blanks.
    fn ok(&self, line: &str) -> String {
        self.with(line, &[])
    }

    /// The same with further arguments, which may hold blanks.
    fn with(&self, line: &str, more: &[&str]) -> String {
        self.cli.ok(&words(line, more)).unwrap()
    }

    /// Standard error of a command that has to fail.
    fn fails(&self, line: &str) -> String {
        self.cli.fails(&words(line, &[])).unwrap()
    }

    fn field(&self, object: &str, path: &str) -> String {
        self.with("get", &[object, "-o", &format!("jsonpath={path}")])
    }
}

fn words<'a>(line: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    line.split(' ').chain(more.iter().copied()).collect()
}

/// A table without its last column, the age.
fn table(text: &str) -> Vec<Vec<String>> {
    let row = |line: &str| {
        let mut cells: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        cells.pop();
        cells
    };
    text.lines().map(row).collect()
}

fn rows(text: &[&str]) -> Vec<Vec<String>> {
    text.iter().map(|line| line.split_whitespace().map(str::to_owned).collect()).collect()
}

fn manifests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/manifests")
}

#[test]
fn discovery_and_read_commands_work() {
    let kubectl = Kubectl::start();
    let namespaces = table(&kubectl.ok("get ns"));
    assert_eq!(namespaces[0], ["NAME", "STATUS"]);
    for name in ["default", "kube-node-lease", "kube-public", "kube-system", &kubectl.namespace] {
        assert!(namespaces.contains(&vec![name.to_owned(), "Active".to_owned()]), "{name}: {namespaces:?}");
    }
    assert_eq!(kubectl.ok("get namespaces default -o name"), "namespace/default\n");

    assert_eq!(
        kubectl.ok("api-resources --api-group=apps --sort-by=name"),
        "NAME                  SHORTNAMES   APIVERSION   NAMESPACED   KIND\n\
         controllerrevisions                apps/v1      true         ControllerRevision\n\
         daemonsets            ds           apps/v1      true         DaemonSet\n\
         deployments           deploy       apps/v1      true         Deployment\n\
         replicasets           rs           apps/v1      true         ReplicaSet\n\
         statefulsets          sts          apps/v1      true         StatefulSet\n"
    );
    assert_eq!(kubectl.ok("api-resources -o name --namespaced=false").lines().count(), 29);
    assert_eq!(kubectl.ok("api-resources -o name").lines().count(), 60);
    assert_eq!(kubectl.ok("api-versions").lines().count(), 21);
    let said = kubectl.ok("cluster-info");
    assert!(said.contains(kubectl.server.url()), "{said}");

    assert_eq!(kubectl.fails("get nothing"), "error: the server doesn't have a resource type \"nothing\"\n");
    assert_eq!(
        kubectl.fails("get deploy nope"),
        "Error from server (NotFound): deployments.apps \"nope\" not found\n"
    );
    let said = kubectl.cli.run(&["get", "pods"]).unwrap();
    assert_eq!(said.out, "");
    assert_eq!(said.err, format!("No resources found in {} namespace.\n", kubectl.namespace));
}

#[test]
fn explain_shows_fields() {
    let kubectl = Kubectl::start();
    let text = kubectl.ok("explain pod.spec");
    assert!(text.starts_with("KIND:       Pod\nVERSION:    v1\n\nFIELD: spec <PodSpec>\n"), "{text}");
    for field in [
        "  containers\t<[]Container> -required-\n",
        "  nodeSelector\t<map[string]string>\n",
        "  terminationGracePeriodSeconds\t<integer>\n",
        "  tolerations\t<[]Toleration>\n",
    ] {
        assert!(text.contains(field), "{field} is missing:\n{text}");
    }
    let text = kubectl.ok("explain deployment.spec.strategy");
    assert!(text.starts_with("GROUP:      apps\nKIND:       Deployment\nVERSION:    v1\n"), "{text}");
    assert!(text.contains("  type\t<string>\n  enum: Recreate, RollingUpdate\n"), "{text}");
    let text = kubectl.ok("explain ingress --recursive");
    assert!(text.contains("secretName\t<string>\n"), "{text}");
    let said = kubectl.fails("explain pod.spec.nothing");
    assert_eq!(said, "error: field \"nothing\" does not exist\n");
}

#[test]
fn deployment_is_created_changed_and_deleted() {
    let kubectl = Kubectl::start();
    assert_eq!(
        kubectl.ok("create deployment web --image=nginx:1.27 --replicas=2"),
        "deployment.apps/web created\n"
    );
    assert_eq!(
        kubectl.fails("create deployment web --image=nginx:1.27"),
        "error: failed to create deployment: deployments.apps \"web\" already exists\n"
    );
    assert_eq!(
        table(&kubectl.ok("get deployment web")),
        rows(&["NAME READY UP-TO-DATE AVAILABLE", "web 0/2 0 0"])
    );
    let wide = kubectl.ok("get deploy -o wide");
    let wide: Vec<Vec<&str>> = wide.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(
        wide[0],
        ["NAME", "READY", "UP-TO-DATE", "AVAILABLE", "AGE", "CONTAINERS", "IMAGES", "SELECTOR"]
    );
    assert_eq!(wide[1][5..], ["nginx", "nginx:1.27", "app=web"]);

    let object: serde_json::Value = serde_json::from_str(&kubectl.ok("get deploy web -o json")).unwrap();
    assert_eq!(object["apiVersion"], "apps/v1");
    assert_eq!(object["spec"]["strategy"]["rollingUpdate"]["maxSurge"], "25%");
    assert_eq!(object["spec"]["template"]["spec"]["terminationGracePeriodSeconds"], 30);
    assert!(object["metadata"].get("managedFields").is_none(), "kubectl hides them");
    let yaml = kubectl.ok("get deploy web -o yaml");
    assert!(yaml.starts_with("apiVersion: apps/v1\nkind: Deployment\nmetadata:\n"), "{yaml}");
    assert!(yaml.ends_with("      terminationGracePeriodSeconds: 30\nstatus: {}\n"), "{yaml}");

    let text = kubectl.ok("describe deploy web");
    for line in [
        "Name:                   web\n",
        "Selector:               app=web\n",
        "Replicas:               2 desired | 0 updated | 0 total | 0 available | 0 unavailable\n",
        "RollingUpdateStrategy:  25% max unavailable, 25% max surge\n",
        "    Image:         nginx:1.27\n",
        "Events:            <none>\n",
    ] {
        assert!(text.contains(line), "{line} is missing:\n{text}");
    }

    assert_eq!(kubectl.ok("label deploy web tier=front"), "deployment.apps/web labeled\n");
    assert_eq!(kubectl.ok("label deploy web tier=front"), "deployment.apps/web not labeled\n");
    assert_eq!(
        kubectl.fails("label deploy web tier=back"),
        "error: 'tier' already has a value (front), and --overwrite is false\n"
    );
    assert_eq!(kubectl.ok("label deploy web tier=back --overwrite"), "deployment.apps/web labeled\n");
    assert_eq!(kubectl.ok("get deploy -l tier=back -o name"), "deployment.apps/web\n");
    assert_eq!(kubectl.ok("get deploy -l tier=front -o name"), "");
    assert_eq!(kubectl.ok("annotate deploy web note=hello"), "deployment.apps/web annotated\n");
    assert_eq!(kubectl.ok("annotate deploy web note-"), "deployment.apps/web annotated\n");
    assert_eq!(kubectl.field("deploy/web", "{.metadata.annotations}"), "");

    assert_eq!(kubectl.ok("scale deploy web --replicas=5"), "deployment.apps/web scaled\n");
    assert_eq!(
        kubectl.fails("scale deploy web --replicas=6 --current-replicas=3"),
        "error: Expected replicas to be 3, was 5\n"
    );
    assert_eq!(kubectl.field("deploy/web", "{.spec.replicas}"), "5");

    assert_eq!(kubectl.ok("delete deploy web"), "deployment.apps \"web\" deleted\n");
    assert_eq!(
        kubectl.fails("delete deploy web"),
        "Error from server (NotFound): deployments.apps \"web\" not found\n"
    );
    assert_eq!(kubectl.ok("delete deploy web --ignore-not-found"), "");
}

#[test]
fn edit_saves_the_changes_of_the_editor() {
    let kubectl = Kubectl::start();
    kubectl.ok("create deployment web --image=nginx:1.27");
    let edit = |editor: &str| {
        let cli = kubectl.cli.with_variable("EDITOR", editor);
        cli.ok(&["edit", "deployment", "web"]).unwrap()
    };
    assert_eq!(edit("sed -i s/nginx:1.27/nginx:1.28/"), "deployment.apps/web edited\n");
    assert_eq!(kubectl.field("deploy/web", "{.spec.template.spec.containers[0].image}"), "nginx:1.28");
    let said = kubectl.cli.with_variable("EDITOR", "true").run(&["edit", "deployment", "web"]).unwrap();
    assert_eq!(said.err, "Edit cancelled, no changes made.\n");
    assert_eq!(said.code, Some(0));
    let refused = kubectl
        .cli
        .with_variable("EDITOR", "sed -i s/replicas:.1/replicas:\\ -1/")
        .run(&["edit", "deploy", "web"]);
    let refused = refused.unwrap();
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.err.starts_with("error: deployments.apps \"web\" is invalid\n"), "{refused:?}");
    assert_eq!(kubectl.field("deploy/web", "{.spec.replicas} {.metadata.generation}"), "1 2");
}

#[test]
fn kubectl_patch_takes_three_patch_types() {
    let kubectl = Kubectl::start();
    kubectl.ok("create deployment web --image=nginx:1.27");
    let containers = r#"{"spec":{"template":{"spec":{"containers":[{"name":"side","image":"b:1"}]}}}}"#;
    assert_eq!(kubectl.with("patch deploy web -p", &[containers]), "deployment.apps/web patched\n");
    assert_eq!(kubectl.field("deploy/web", "{.spec.template.spec.containers[*].image}"), "b:1 nginx:1.27");
    assert_eq!(
        kubectl.with("patch deploy web --type=merge -p", &[containers]),
        "deployment.apps/web patched\n"
    );
    assert_eq!(kubectl.field("deploy/web", "{.spec.template.spec.containers[*].image}"), "b:1");
    let operations = r#"[{"op":"test","path":"/spec/replicas","value":1},{"op":"replace","path":"/spec/replicas","value":4}]"#;
    assert_eq!(
        kubectl.with("patch deploy web --type=json -p", &[operations]),
        "deployment.apps/web patched\n"
    );
    assert_eq!(kubectl.field("deploy/web", "{.spec.replicas}"), "4");
    let again = kubectl.cli.run(&words("patch deploy web --type=json -p", &[operations])).unwrap();
    assert_eq!(again.code, Some(1));
    assert_eq!(
        again.err,
        "The request is invalid: the server rejected our request due to an error in our request\n"
    );
    assert_eq!(
        kubectl.with("patch deploy web --type=merge -p", &[r#"{"spec":{"replicas":4}}"#]),
        "deployment.apps/web patched (no change)\n"
    );
    assert_eq!(
        kubectl.with("patch deploy web --subresource=scale --type=merge -p", &[r#"{"spec":{"replicas":7}}"#]),
        "scale.autoscaling/web patched\n"
    );
    assert_eq!(kubectl.field("deploy/web", "{.spec.replicas}"), "7");
}

#[test]
fn watch_prints_changes() {
    let kubectl = Kubectl::start();
    kubectl.ok("create configmap before --from-literal=a=1");
    let stream = kubectl
        .cli
        .stream(&["get", "configmap", "--watch", "-o", "custom-columns=N:.metadata.name,A:.data.a"])
        .unwrap();
    let next = || {
        let line = stream.line(PATIENCE).expect("a line of the watch");
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(next(), "N A");
    assert_eq!(next(), "before 1");
    kubectl.ok("create configmap fresh --from-literal=a=2");
    assert_eq!(next(), "fresh 2");
    kubectl.with("patch configmap before --type=merge -p", &[r#"{"data":{"a":"3"}}"#]);
    assert_eq!(next(), "before 3");
    kubectl.ok("delete configmap fresh");
    assert_eq!(next(), "fresh 2");

    let table = kubectl.cli.stream(&["get", "deployments", "-w"]).unwrap();
    kubectl.ok("create deployment web --image=nginx:1.27");
    let heading = table.line(PATIENCE).expect("the heading of the watch");
    assert!(heading.starts_with("NAME   READY   UP-TO-DATE   AVAILABLE   AGE"), "{heading}");
    let row = table.line(PATIENCE).expect("the deployment");
    assert!(row.starts_with("web    0/1     0            0 "), "{row}");
    kubectl.ok("scale deploy web --replicas=3");
    let row = table.line(PATIENCE).expect("the deployment, scaled");
    assert!(row.starts_with("web    0/3     0            0 "), "{row}");
}

#[test]
fn kubectl_wait_ends_when_the_condition_holds() {
    let kubectl = Kubectl::start();
    kubectl.ok("create deployment web --image=nginx:1.27");
    assert_eq!(
        kubectl.ok("wait --for=create deploy/web --timeout=10s"),
        "deployment.apps/web condition met\n"
    );
    let waiting = kubectl.cli.stream(&["wait", "--for=jsonpath={.spec.replicas}=5", "deploy/web"]).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    kubectl.ok("scale deploy web --replicas=5");
    assert_eq!(waiting.line(PATIENCE).as_deref(), Some("deployment.apps/web condition met"));

    let begin = Instant::now();
    assert_eq!(
        kubectl.fails("wait --for=condition=Available deploy/web --timeout=1s"),
        "error: timed out waiting for the condition on deployments/web\n"
    );
    assert!(begin.elapsed() >= Duration::from_secs(1));
    let available =
        r#"{"status":{"conditions":[{"type":"Available","status":"True","reason":"R","message":"m"}]}}"#;
    let waiting = kubectl.cli.stream(&["wait", "--for=condition=Available", "deploy/web"]).unwrap();
    assert_eq!(
        kubectl.with("patch deploy web --subresource=status --type=merge -p", &[available]),
        "deployment.apps/web patched\n"
    );
    assert_eq!(waiting.line(PATIENCE).as_deref(), Some("deployment.apps/web condition met"));

    let finalizer = |list: &str| {
        let patch = format!(r#"{{"metadata":{{"finalizers":{list}}}}}"#);
        kubectl.with("patch deploy web --type=merge -p", &[&patch])
    };
    finalizer(r#"["example.com/test"]"#);
    assert_eq!(kubectl.ok("delete deploy web --wait=false"), "deployment.apps \"web\" deleted\n");
    assert_eq!(
        kubectl.fails("wait --for=delete deploy/web --timeout=1s"),
        "error: timed out waiting for the condition on deployments/web\n"
    );
    finalizer("null");
    kubectl.ok("wait --for=delete deploy/web --timeout=10s");
    assert!(kubectl.fails("get deploy web").contains("not found"));
}

#[test]
fn folder_of_manifests_is_applied() {
    let kubectl = Kubectl::start();
    let folder = manifests().display().to_string();
    let told = |what: [&str; 5]| {
        let names = [
            "configmap/settings",
            "secret/password",
            "deployment.apps/web",
            "service/web",
            "cronjob.batch/nightly",
        ];
        names.iter().zip(what).map(|(name, what)| format!("{name} {what}\n")).collect::<String>()
    };
    let apply = |more: &[&str]| kubectl.with(&format!("apply -f {folder}"), more);
    assert_eq!(apply(&["--dry-run=server"]), told(["created (server dry run)"; 5]));
    assert_eq!(kubectl.ok("get cm,secret,deploy,svc,cronjob -l app=shop -o name"), "");
    assert_eq!(apply(&[]), told(["created"; 5]));
    assert_eq!(apply(&[]), told(["unchanged"; 5]));
    assert_eq!(
        kubectl.ok("get deploy,svc,cm,secret,cronjob -l app=shop -o name"),
        "deployment.apps/web\nservice/web\nconfigmap/settings\nsecret/password\ncronjob.batch/nightly\n"
    );
    let same = kubectl.cli.run(&["diff", "-f", &folder]).unwrap();
    assert_eq!((same.code, same.out.as_str()), (Some(0), ""), "{same:?}");

    let changed = kubectl.server.folder().join("changed.yaml");
    let text = std::fs::read_to_string(manifests().join("2-web.yaml")).unwrap();
    let text = text.replace("replicas: 2", "replicas: 3").replace("            memory: 64Mi\n", "");
    std::fs::write(&changed, text.replace("web:1", "web:2")).unwrap();
    let changed = changed.display().to_string();
    let different = kubectl.cli.run(&["diff", "-f", &changed]).unwrap();
    assert_eq!(different.code, Some(1), "{different:?}");
    for line in [
        "-  replicas: 2\n+  replicas: 3\n",
        "-  generation: 1\n+  generation: 2\n",
        "-            memory: 64Mi\n",
    ] {
        assert!(different.out.contains(line), "{line}: {}", different.out);
    }
    assert_eq!(
        kubectl.ok(&format!("apply -f {changed}")),
        "deployment.apps/web configured\nservice/web unchanged\n"
    );
    assert_eq!(
        kubectl.field("deploy/web", "{.spec.replicas}{.spec.template.spec.containers[0].resources}"),
        r#"3{"requests":{"cpu":"100m"}}"#
    );
    assert_eq!(
        kubectl.ok(&format!("delete -f {folder}")),
        "configmap \"settings\" deleted\nsecret \"password\" deleted\ndeployment.apps \"web\" deleted\n\
         service \"web\" deleted\ncronjob.batch \"nightly\" deleted\n"
    );
}

#[test]
fn invalid_manifest_is_refused_with_the_servers_message() {
    let kubectl = Kubectl::start();
    let path = kubectl.server.folder().join("bad.yaml");
    let manifest = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: x\ndata:\n  a: b\ncolour: red\n";
    std::fs::write(&path, manifest).unwrap();
    let path = path.display().to_string();
    let said = kubectl.fails(&format!("create -f {path}"));
    assert_eq!(
        said,
        format!(
            "Error from server (BadRequest): error when creating \"{path}\": ConfigMap in version \"v1\" cannot be \
             handled as a ConfigMap: strict decoding error: unknown field \"colour\"\n"
        )
    );
    let said = kubectl.cli.run(&["create", "-f", &path, "--validate=warn"]).unwrap();
    assert_eq!(said.out, "configmap/x created\n");
    assert_eq!(said.err, "Warning: unknown field \"colour\"\n");
    assert_eq!(
        kubectl.fails("create configmap Not_A_Name"),
        "error: failed to create configmap: ConfigMap \"Not_A_Name\" is invalid: metadata.name: Invalid value: \
         \"Not_A_Name\": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or \
         '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
         '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')\n"
    );
}

#[test]
fn each_kubectl_command_has_its_field_manager() {
    let kubectl = Kubectl::start();
    let managers = || {
        let path = "-o=jsonpath={.metadata.managedFields[*].manager}";
        let names = kubectl.with("get deploy web --show-managed-fields", &[path]);
        let mut names: Vec<String> = names.split(' ').map(str::to_owned).collect();
        names.sort();
        names
    };
    kubectl.ok("create deployment web --image=nginx:1.27");
    assert_eq!(managers(), ["kubectl-create"]);
    kubectl.ok("scale deploy web --replicas=3");
    assert_eq!(managers(), ["kubectl", "kubectl-create"]);
    let folder = manifests().display().to_string();
    let conflict = kubectl.fails(&format!("apply --server-side -f {folder}"));
    assert!(conflict.contains("Apply failed with "), "{conflict}");
    let said = kubectl.ok(&format!("apply --server-side --force-conflicts -f {folder}"));
    assert!(said.contains("service/web serverside-applied\n"), "{said}");
    assert_eq!(managers()[0], "kubectl");
}
