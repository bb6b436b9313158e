//! What people do: kubectl and `keelson kubeconfig`.

use std::process::Command;

use auth::jwt::SigningKey;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use object::Map;
use serde_json::Value;
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

/// A service account `robot` in the namespace `team` that may read pods, and a pod `web` of it.
fn with_robot(server: &Server) -> Cli {
    let admin = kubectl(server).with(&["-n", "team"]);
    let pod = server.folder().join("pod.yaml");
    let text = "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\n\
                spec: {serviceAccountName: robot, containers: [{name: web, image: web}]}\n";
    std::fs::write(&pod, text).unwrap();
    admin.ok(&["create", "namespace", "team"]).unwrap();
    admin.ok(&["create", "serviceaccount", "robot"]).unwrap();
    admin.ok(&["create", "role", "reader", "--verb=get,list", "--resource=pods"]).unwrap();
    admin.ok(&["create", "rolebinding", "reader", "--role=reader", "--serviceaccount=team:robot"]).unwrap();
    admin.ok(&["create", "-f", pod.to_str().unwrap()]).unwrap();
    admin
}

#[test]
fn created_token_is_that_of_its_account_for_its_time_audience_and_pod() {
    let server = start(&[]);
    let admin = with_robot(&server);
    let token = |more: &[&str]| {
        let line = [&["create", "token", "robot"], more].concat();
        admin.ok(&line).unwrap().trim().to_owned()
    };
    let with = |token: &str| kubectl(&server).with(&["-n", "team", &format!("--token={token}")]);
    let claims = |token: &str| -> Value {
        let payload = URL_SAFE_NO_PAD.decode(token.split('.').nth(1).unwrap()).unwrap();
        serde_json::from_slice(&payload).unwrap()
    };
    let lifetime = |claims: &Value| claims["exp"].as_i64().unwrap() - claims["iat"].as_i64().unwrap();

    let plain = token(&[]);
    assert_eq!(lifetime(&claims(&plain)), 3600);
    let robot = with(&plain);
    let who = robot.ok(&["auth", "whoami"]).unwrap();
    assert!(who.contains("system:serviceaccount:team:robot"), "{who}");
    assert!(robot.ok(&["get", "pods"]).unwrap().contains("web"));
    let refused = robot.fails(&["get", "secrets"]).unwrap();
    assert!(refused.contains("User \"system:serviceaccount:team:robot\" cannot list"), "{refused}");

    assert_eq!(lifetime(&claims(&token(&["--duration=20m"]))), 1200);
    let refused = admin.fails(&["create", "token", "robot", "--duration=1m"]).unwrap();
    assert!(refused.contains("may not specify a duration less than 10 minutes"), "{refused}");

    let other = token(&["--audience=vault"]);
    assert_eq!(claims(&other)["aud"], serde_json::json!(["vault"]));
    let refused = with(&other).fails(&["get", "pods"]).unwrap();
    assert!(refused.contains("Unauthorized"), "{refused}");
    let review = format!(r#"{{"spec":{{"token":"{other}","audiences":["vault"]}}}}"#);
    let review = Client::new(&server).make("/apis/authentication.k8s.io/v1/tokenreviews", &review);
    assert_eq!(review["status"]["user"]["username"], "system:serviceaccount:team:robot");
    assert_eq!(review["status"]["audiences"], serde_json::json!(["vault"]));

    let bound = with(&token(&["--bound-object-kind=Pod", "--bound-object-name=web"]));
    let who = bound.ok(&["auth", "whoami"]).unwrap();
    assert!(who.contains("authentication.kubernetes.io/pod-name") && who.contains("web"), "{who}");
    admin.ok(&["delete", "pod", "web", "--force", "--grace-period=0"]).unwrap();
    let refused = bound.fails(&["get", "pods"]).unwrap();
    assert!(refused.contains("Unauthorized"), "{refused}");
    assert!(robot.ok(&["get", "pods"]).is_ok());
    let refused = admin
        .fails(&["create", "token", "robot", "--bound-object-kind=Pod", "--bound-object-name=web"])
        .unwrap();
    assert!(refused.contains("pods \"web\" not found"), "{refused}");
}

#[test]
fn token_of_a_secret_that_its_account_lists_is_used_with_a_warning() {
    let server = start(&[]);
    let admin = with_robot(&server);
    let uid = admin.ok(&["get", "serviceaccount", "robot", "-o", "jsonpath={.metadata.uid}"]).unwrap();
    let key = std::fs::read(server.folder().join("data/pki/sa.key")).unwrap();
    let mut claims = Map::new();
    claims.insert("iss", "kubernetes/serviceaccount");
    claims.insert("sub", "system:serviceaccount:team:robot");
    for (name, value) in [
        ("namespace", "team"),
        ("secret.name", "robot-token"),
        ("service-account.name", "robot"),
        ("service-account.uid", &uid),
    ] {
        claims.insert(format!("kubernetes.io/serviceaccount/{name}").as_str(), value);
    }
    let token = SigningKey::from_pem(&key).unwrap().sign(claims).unwrap();
    let secret = server.folder().join("secret.yaml");
    let text = format!(
        "apiVersion: v1\nkind: Secret\ntype: kubernetes.io/service-account-token\nmetadata:\n  name: robot-token\n  \
         annotations: {{kubernetes.io/service-account.name: robot}}\nstringData: {{token: {token}}}\n"
    );
    std::fs::write(&secret, text).unwrap();
    admin.ok(&["create", "-f", secret.to_str().unwrap()]).unwrap();
    let robot = kubectl(&server).with(&["-n", "team", &format!("--token={token}")]);
    let warning = "Warning: Use tokens from the TokenRequest API or manually created secret-based tokens";
    let said = robot.run(&["get", "pods"]).unwrap();
    assert!(said.code == Some(0) && !said.err.contains(warning), "{said:?}");
    admin.ok(&["patch", "serviceaccount", "robot", "-p", r#"{"secrets":[{"name":"robot-token"}]}"#]).unwrap();
    let said = robot.run(&["get", "pods"]).unwrap();
    assert!(said.code == Some(0) && said.err.contains(warning), "{said:?}");
    // Also with a refusal.
    let refused = robot.fails(&["get", "secrets"]).unwrap();
    assert!(refused.contains(warning) && refused.contains("Forbidden"), "{refused}");
}

#[test]
fn certificate_requests_are_approved_and_denied_by_users_who_may() {
    let server = start(&[]);
    let admin = kubectl(&server);
    let request = STANDARD.encode(include_str!("request.pem"));
    for (name, rules) in [
        ("requester", ["--verb=create", "--resource=certificatesigningrequests"].as_slice()),
        ("looker", &["--verb=get,list", "--resource=certificatesigningrequests"]),
        ("approver", &["--verb=update", "--resource=certificatesigningrequests/approval"]),
    ] {
        admin.ok(&[&["create", "clusterrole", name], rules].concat()).unwrap();
    }
    // No resource that kubectl knows.
    let signers = r#"{"metadata":{"name":"signers"},"rules":[{"apiGroups":["certificates.k8s.io"],"resources":["signers"],"verbs":["approve"]}]}"#;
    Client::new(&server).make("/apis/rbac.authorization.k8s.io/v1/clusterroles", signers);
    for (name, role, user) in [
        ("jane-1", "requester", "jane"),
        ("jane-2", "looker", "jane"),
        ("alice-1", "looker", "alice"),
        ("alice-2", "approver", "alice"),
        ("alice-3", "signers", "alice"),
    ] {
        let (role, user) = (format!("--clusterrole={role}"), format!("--user={user}"));
        admin.ok(&["create", "clusterrolebinding", name, &role, &user]).unwrap();
    }
    let jane = admin.with(&["--as=jane"]);
    let alice = admin.with(&["--as=alice"]);
    for name in ["one", "two"] {
        let file = server.folder().join("request.yaml");
        let text = format!(
            "apiVersion: certificates.k8s.io/v1\nkind: CertificateSigningRequest\nmetadata: {{name: {name}}}\n\
             spec: {{request: {request}, signerName: example.com/people, usages: [client auth]}}\n"
        );
        std::fs::write(&file, text).unwrap();
        jane.ok(&["create", "-f", file.to_str().unwrap()]).unwrap();
    }
    let shown = |name: &str, path: &str| {
        jane.ok(&["get", "csr", name, "-o", &format!("jsonpath={{{path}}}")]).unwrap()
    };
    assert_eq!(shown("one", ".spec.username"), "jane");
    for verb in ["approve", "deny"] {
        let refused = jane.fails(&["certificate", verb, "one"]).unwrap();
        assert!(
            refused.contains("cannot update resource \"certificatesigningrequests/approval\""),
            "{refused}"
        );
    }
    assert_eq!(shown("one", ".status.conditions"), "");
    alice.ok(&["certificate", "approve", "one"]).unwrap();
    alice.ok(&["certificate", "deny", "two"]).unwrap();
    let condition = ".status.conditions[*]['type','status','reason']";
    assert_eq!(shown("one", condition), "Approved True KubectlApprove");
    assert_eq!(shown("two", condition), "Denied True KubectlDeny");
    let list = jane.ok(&["get", "csr"]).unwrap();
    assert!(list.contains("Approved") && list.contains("Denied"), "{list}");
}
