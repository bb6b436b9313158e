//! What people do: kubectl and `keelson kubeconfig`.

use std::process::Command;

use testkit::{Cli, Folder, Process, Server};

use super::{As, Client, binary, start};

fn kubectl(server: &Server) -> Cli {
    Cli::new(testkit::tool("kubectl").unwrap(), server)
}

#[test]
fn first_command_works_and_the_server_is_closed_to_others() {
    let folder = Folder::new().unwrap();
    let data = folder.path().join("data");
    let process = Process::start(&binary(), &data, &["--storage=memory"]).unwrap();
    let kubeconfig = data.join("kubeconfig");
    let run = |arguments: &[&str]| {
        let output = Command::new(testkit::tool("kubectl").unwrap())
            .arg(format!("--kubeconfig={}", kubeconfig.display()))
            .args(arguments)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        text
    };
    assert!(run(&["get", "namespaces"]).contains("kube-system"));
    assert_eq!(run(&["auth", "can-i", "*", "*"]).trim(), "yes");
    let who = run(&["auth", "whoami", "-o", "json"]);
    assert!(who.contains("keelson-admin") && who.contains("system:masters"), "{who}");
    drop(process);
}

#[test]
fn kubeconfig_of_a_user_has_its_groups_and_only_the_rights_that_they_are_given() {
    let folder = Folder::new().unwrap();
    let data = folder.path().join("data");
    let process = Process::start(&binary(), &data, &["--storage=memory"]).unwrap();
    let own = folder.path().join("jane.kubeconfig");
    let made = Command::new(binary())
        .args(["kubeconfig", "--user=jane", "--group=dev", "--group=ops"])
        .arg(format!("--data-dir={}", data.display()))
        .arg(format!("--output={}", own.display()))
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let run = |kubeconfig: &std::path::Path, arguments: &[&str]| {
        let output = Command::new(testkit::tool("kubectl").unwrap())
            .arg(format!("--kubeconfig={}", kubeconfig.display()))
            .args(arguments)
            .output()
            .unwrap();
        let text = [&*output.stdout, &*output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&text).into_owned())
    };
    let (_, who) = run(&own, &["auth", "whoami", "-o", "json"]);
    for part in ["\"jane\"", "\"dev\"", "\"ops\"", "\"system:authenticated\"", "X509SHA256="] {
        assert!(who.contains(part), "{part}: {who}");
    }
    let (is_allowed, text) = run(&own, &["get", "pods"]);
    assert!(!is_allowed && text.contains("User \"jane\" cannot list resource \"pods\""), "{text}");
    let admin = data.join("kubeconfig");
    let (made, text) =
        run(&admin, &["create", "clusterrolebinding", "ops", "--clusterrole=cluster-admin", "--group=ops"]);
    assert!(made, "{text}");
    let (is_allowed, text) = run(&own, &["get", "pods"]);
    assert!(is_allowed, "{text}");
    drop(process);
}

#[test]
fn can_i_lists_the_rules_of_a_role_and_whoami_shows_who_acts() {
    let server = start(&[]);
    let admin = kubectl(&server);
    admin.ok(&["create", "namespace", "team"]).unwrap();
    admin
        .ok(&["create", "role", "reader", "--verb=get,list", "--resource=pods,pods/log", "-n", "team"])
        .unwrap();
    admin.ok(&["create", "rolebinding", "reader", "--role=reader", "--user=alice", "-n", "team"]).unwrap();
    let alice = kubectl(&server).with(&["--as=alice", "-n", "team"]);
    let list = alice.ok(&["auth", "can-i", "--list"]).unwrap();
    assert!(list.contains("pods/log") && list.contains("selfsubjectreviews"), "{list}");
    assert_eq!(alice.ok(&["auth", "can-i", "get", "pods"]).unwrap().trim(), "yes");
    let denied = alice.fails(&["auth", "can-i", "delete", "pods"]).unwrap();
    assert!(!denied.contains("yes"), "{denied}");
    assert!(alice.ok(&["auth", "whoami"]).unwrap().contains("alice"));
    let refused = alice.fails(&["get", "secrets"]).unwrap();
    assert!(refused.contains("User \"alice\" cannot list resource \"secrets\""), "{refused}");
}

#[test]
fn reconcile_adds_what_is_missing_and_keeps_the_rest() {
    let server = start(&[]);
    let admin = kubectl(&server);
    let file = server.folder().join("role.yaml");
    let role = |verbs: &str| {
        format!(
            "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata:\n  name: r\nrules:\n\
             - apiGroups: ['']\n  resources: [pods]\n  verbs: [{verbs}]\n"
        )
    };
    for verbs in ["get", "list"] {
        std::fs::write(&file, role(verbs)).unwrap();
        admin.ok(&["auth", "reconcile", "-f", file.to_str().unwrap()]).unwrap();
    }
    let mut client = Client::new(&server);
    let role = client.ask(As::Admin, "GET", "/apis/rbac.authorization.k8s.io/v1/clusterroles/r", "").text();
    assert!(role.contains("get") && role.contains("list"), "{role}");
}
