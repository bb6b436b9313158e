//! A release from install to uninstall with the real Helm, with server-side apply (its default) and with
//! patches by the client.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

use std::path::Path;

use serde_json::{Value, json};
use testkit::{Cli, Server};

struct Helm {
    _server: Server,
    helm: Cli,
    kubectl: Cli,
    chart: String,
}

impl Helm {
    fn start() -> Self {
        let binary = testkit::server_binary(env!("CARGO_BIN_EXE_keelson"));
        let server = Server::start(&binary, &["--storage=memory", "--controllers=-*"]).unwrap();
        let namespace = testkit::unique("helm");
        let cli = |name| Cli::new(testkit::tool(name).unwrap(), &server).with(&["--namespace", &namespace]);
        let (helm, kubectl) = (cli("helm"), cli("kubectl"));
        let chart = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/chart").display().to_string();
        Self { _server: server, helm, kubectl, chart }
    }

    fn json(&self, arguments: &[&str]) -> Value {
        let text = self.helm.with(arguments).ok(&["--output=json"]).unwrap();
        serde_json::from_str(&text).unwrap()
    }

    /// The objects of the release, in the order of the API's kinds.
    fn objects(&self) -> Vec<String> {
        let kinds = "configmap,cronjob,deployment,role,rolebinding,service,serviceaccount";
        let names = self.kubectl.ok(&["get", kinds, "--selector=release=shop", "--output=name"]).unwrap();
        let mut names: Vec<String> = names.lines().map(str::to_owned).collect();
        names.sort();
        names
    }

    /// Replicas, image and colour.
    fn state(&self) -> [String; 3] {
        let field = |object: &str, path: &str| {
            self.kubectl.ok(&["get", object, &format!("--output=jsonpath={path}")]).unwrap()
        };
        [
            field("deployment/shop-web", "{.spec.replicas}"),
            field("deployment/shop-web", "{.spec.template.spec.containers[0].image}"),
            field("configmap/shop-settings", "{.data.colour}"),
        ]
    }

    fn history(&self) -> Vec<[String; 2]> {
        let history = self.json(&["history", "shop"]);
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let entries = history.as_array().unwrap().iter();
        entries.map(|entry| [text(&entry["status"]), text(&entry["description"])]).collect()
    }
}

const ALL: [&str; 7] = [
    "configmap/shop-settings",
    "cronjob.batch/shop-nightly",
    "deployment.apps/shop-web",
    "role.rbac.authorization.k8s.io/shop",
    "rolebinding.rbac.authorization.k8s.io/shop",
    "service/shop-web",
    "serviceaccount/shop",
];

fn a_release_from_install_to_uninstall(way: &str) {
    let helm = Helm::start();
    let said = helm.helm.ok(&["install", "shop", &helm.chart, "--create-namespace", way]).unwrap();
    assert!(said.contains("\nSTATUS: deployed\nREVISION: 1\nDESCRIPTION: Install complete\n"), "{said}");
    assert_eq!(helm.objects(), ALL);
    assert_eq!(helm.state(), ["2", "example.com/web:1", "green"]);
    let list = helm.json(&["list"]);
    assert_eq!(list.as_array().unwrap().len(), 1);
    for (field, value) in [
        ("name", "shop"),
        ("revision", "1"),
        ("status", "deployed"),
        ("chart", "shop-1.0.0"),
        ("app_version", "1"),
    ] {
        assert_eq!(list[0][field], value, "{field}");
    }
    let again = helm.helm.fails(&["install", "shop", &helm.chart, way]).unwrap();
    assert!(again.contains("cannot reuse a name that is still in use"), "{again}");

    let values = "replicas=5,cron=false,colour=red,image=example.com/web:2";
    let said = helm.helm.ok(&["upgrade", "shop", &helm.chart, "--set", values, way]).unwrap();
    assert!(said.starts_with("Release \"shop\" has been upgraded. Happy Helming!\n"), "{said}");
    assert_eq!(helm.state(), ["5", "example.com/web:2", "red"]);
    let without_cron: Vec<&str> = ALL.into_iter().filter(|name| !name.contains("cronjob")).collect();
    assert_eq!(helm.objects(), without_cron);
    assert_eq!(
        helm.json(&["get", "values", "shop"]),
        json!({"replicas": 5, "cron": false, "colour": "red", "image": "example.com/web:2"})
    );

    let refused = helm.helm.fails(&["upgrade", "shop", &helm.chart, "--set", "replicas=-1", way]).unwrap();
    assert!(
        refused.contains("spec.replicas: Invalid value: -1: must be greater than or equal to 0"),
        "{refused}"
    );
    assert_eq!(helm.state()[0], "5");

    let said = helm.helm.ok(&["rollback", "shop", "1", way]).unwrap();
    assert_eq!(said, "Rollback was a success! Happy Helming!\n");
    assert_eq!(helm.state(), ["2", "example.com/web:1", "green"]);
    assert_eq!(helm.objects(), ALL);
    let history = helm.history();
    let statuses: Vec<&str> = history.iter().map(|[status, _]| status.as_str()).collect();
    assert_eq!(statuses, ["superseded", "superseded", "failed", "deployed"]);
    assert_eq!(history[3][1], "Rollback to 1");

    let said = helm.helm.ok(&["uninstall", "shop"]).unwrap();
    assert_eq!(said, "release \"shop\" uninstalled\n");
    assert_eq!(helm.objects(), [""; 0]);
    assert_eq!(helm.json(&["list"]), json!([]));
}

#[test]
fn helm_release_with_server_side_apply() {
    a_release_from_install_to_uninstall("--server-side=true");
}

#[test]
fn helm_release_with_client_side_patches() {
    a_release_from_install_to_uninstall("--server-side=false");
}
