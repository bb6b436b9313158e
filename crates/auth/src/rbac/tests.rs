use super::*;
use crate::testing;
use cache::Spec;

type Fixture = testing::Fixture<Rbac>;

impl Fixture {
    async fn new() -> Self {
        let [roles, bindings] = ["roles", "rolebindings"].map(|name| Spec::namespaced(name).unwrap());
        let [cluster_roles, cluster_bindings] =
            ["clusterroles", "clusterrolebindings"].map(|name| Spec::cluster(name).unwrap());
        Self::with([roles, bindings, cluster_roles, cluster_bindings], |of| {
            Rbac::new(of("roles"), of("clusterroles"), of("rolebindings"), of("clusterrolebindings"))
        })
        .await
    }

    async fn role(&self, key: &str, verb: &str, resource: &str) {
        let rules =
            format!(r#""rules":[{{"verbs":["{verb}"],"apiGroups":[""],"resources":["{resource}"]}}]"#);
        let kind = if key.contains('/') { "roles" } else { "clusterroles" };
        self.put(kind, key, &rules).await;
    }

    /// Binds a role: `Role/name`; subjects are `Kind name`, or `Kind namespace/name`.
    async fn bind(&self, key: &str, role: &str, subjects: &[&str]) {
        let (kind, name) = role.split_once('/').unwrap();
        let subjects = subjects.iter().map(|subject| {
            let (kind, name) = subject.split_once(' ').unwrap();
            let (namespace, name) = name.split_once('/').unwrap_or(("", name));
            format!(r#"{{"kind":"{kind}","name":"{name}","namespace":"{namespace}"}}"#)
        });
        let subjects = subjects.collect::<Vec<_>>().join(",");
        let fields = format!(r#""subjects":[{subjects}],"roleRef":{{"kind":"{kind}","name":"{name}"}}"#);
        let kind = if key.contains('/') { "rolebindings" } else { "clusterrolebindings" };
        self.put(kind, key, &fields).await;
    }

    /// The decision: `allow` or `none`, and the reason.
    async fn ask(&self, user: &User, verb: &'static str, resource: &str, namespace: &str) -> String {
        let target = Target::Resource {
            group: String::new(),
            version: "v1".into(),
            resource: resource.into(),
            subresource: String::new(),
            namespace: namespace.into(),
            name: String::new(),
        };
        let verdict = self.authorizer.decide(user, &Attributes::new(verb, target)).wait().await;
        assert_eq!(verdict.error, None);
        match verdict.decision {
            crate::Decision::Allow => verdict.reason.to_string(),
            crate::Decision::NoOpinion => format!("none {}", verdict.reason),
            crate::Decision::Deny => "deny".into(),
        }
    }
}

fn user(name: &str, groups: &[&str]) -> User {
    User {
        name: name.into(),
        groups: groups.iter().map(|group| (*group).to_owned()).collect(),
        ..User::default()
    }
}

#[tokio::test]
async fn role_bindings_grant_in_their_namespace_and_cluster_role_bindings_everywhere() {
    let fixture = Fixture::new().await;
    fixture.role("n/local", "get", "pods").await;
    fixture.role("global", "list", "pods").await;
    fixture.bind("n/b", "Role/local", &["User jane"]).await;
    fixture.bind("n/c", "ClusterRole/global", &["User jane"]).await;
    fixture.bind("x", "ClusterRole/global", &["Group ops"]).await;
    let jane = user("jane", &[]);
    let allowed = "RBAC: allowed by RoleBinding \"b/n\" of Role \"local\" to User \"jane\"";
    assert_eq!(fixture.ask(&jane, "get", "pods", "n").await, allowed);
    let allowed = "RBAC: allowed by RoleBinding \"c/n\" of ClusterRole \"global\" to User \"jane\"";
    assert_eq!(fixture.ask(&jane, "list", "pods", "n").await, allowed);
    for (verb, namespace) in [("get", "other"), ("list", ""), ("list", "m"), ("delete", "n")] {
        assert_eq!(fixture.ask(&jane, verb, "pods", namespace).await, "none ");
    }
    let ops = user("x", &["a", "ops"]);
    let allowed = "RBAC: allowed by ClusterRoleBinding \"x\" of ClusterRole \"global\" to Group \"ops\"";
    assert_eq!(fixture.ask(&ops, "list", "pods", "").await, allowed);
    assert_eq!(fixture.ask(&ops, "list", "pods", "m").await, allowed);
    assert_eq!(fixture.ask(&user("ops", &[]), "list", "pods", "").await, "none ");
}

#[tokio::test]
async fn reason_names_the_first_binding_by_name_and_its_first_subject_that_applies() {
    let fixture = Fixture::new().await;
    fixture.role("all", "get", "pods").await;
    fixture.role("none", "list", "nodes").await;
    let jane = user("jane", &["dev", "ops"]);
    fixture.bind("c", "ClusterRole/all", &["User jane"]).await;
    fixture.bind("b", "ClusterRole/all", &["Group other", "Group ops", "User jane", "Group dev"]).await;
    fixture.bind("a", "ClusterRole/none", &["User jane"]).await;
    fixture.bind("n/a", "ClusterRole/all", &["User jane"]).await;
    let reason = |binding: &str, subject: &str| {
        format!("RBAC: allowed by {binding} of ClusterRole \"all\" to {subject}")
    };
    let expected = reason("ClusterRoleBinding \"b\"", "Group \"ops\"");
    assert_eq!(fixture.ask(&jane, "get", "pods", "n").await, expected);
    fixture.delete("clusterrolebindings", "b").await;
    let expected = reason("ClusterRoleBinding \"c\"", "User \"jane\"");
    assert_eq!(fixture.ask(&jane, "get", "pods", "n").await, expected);
    fixture.delete("clusterrolebindings", "c").await;
    let expected = reason("RoleBinding \"a/n\"", "User \"jane\"");
    assert_eq!(fixture.ask(&jane, "get", "pods", "n").await, expected);
}

#[tokio::test]
async fn service_accounts_are_matched_by_their_user_names() {
    let fixture = Fixture::new().await;
    fixture.role("all", "get", "pods").await;
    fixture.bind("n/b", "ClusterRole/all", &["ServiceAccount local", "ServiceAccount other/far"]).await;
    fixture.bind("cluster", "ClusterRole/all", &["ServiceAccount nowhere", "ServiceAccount m/sa"]).await;
    let of = |namespace: &str, name: &str| User::service_account(namespace, name);
    let reason = |name: &str| {
        format!("RBAC: allowed by RoleBinding \"b/n\" of ClusterRole \"all\" to ServiceAccount \"{name}\"")
    };
    assert_eq!(fixture.ask(&of("n", "local"), "get", "pods", "n").await, reason("local/n"));
    assert_eq!(fixture.ask(&of("other", "far"), "get", "pods", "n").await, reason("far/other"));
    assert_eq!(fixture.ask(&of("other", "local"), "get", "pods", "n").await, "none ");
    assert_eq!(fixture.ask(&of("n", "nowhere"), "get", "pods", "n").await, "none ");
    assert_eq!(
        fixture.ask(&of("m", "sa"), "get", "pods", "").await,
        "RBAC: allowed by ClusterRoleBinding \"cluster\" of ClusterRole \"all\" to ServiceAccount \"sa/m\""
    );
}

#[tokio::test]
async fn missing_roles_are_named_once_when_nothing_allows_the_request() {
    let fixture = Fixture::new().await;
    let jane = user("jane", &["dev"]);
    fixture.bind("n/b", "Role/lost", &["User jane", "Group dev"]).await;
    assert_eq!(
        fixture.ask(&jane, "get", "pods", "n").await,
        "none RBAC: role.rbac.authorization.k8s.io \"lost\" not found"
    );
    assert_eq!(fixture.ask(&jane, "get", "pods", "").await, "none ");
    fixture.bind("a", "ClusterRole/gone", &["Group dev"]).await;
    fixture.bind("b", "ClusterRole/gone", &["User jane"]).await;
    fixture.bind("n/c", "Odd/kind", &["User jane"]).await;
    assert_eq!(
        fixture.ask(&jane, "get", "pods", "n").await,
        "none RBAC: [clusterrole.rbac.authorization.k8s.io \"gone\" not found, \
         role.rbac.authorization.k8s.io \"lost\" not found, unsupported role reference kind: \"Odd\"]"
    );
    fixture.role("n/lost", "get", "pods").await;
    assert_eq!(
        fixture.ask(&jane, "get", "pods", "n").await,
        "RBAC: allowed by RoleBinding \"b/n\" of Role \"lost\" to User \"jane\""
    );
    fixture.role("m/lost", "get", "pods").await;
    fixture.delete("roles", "n/lost").await;
    assert!(fixture.ask(&jane, "get", "pods", "n").await.starts_with("none RBAC: ["));
}

#[tokio::test]
async fn changes_count_for_the_next_decision() {
    let fixture = Fixture::new().await;
    let (jane, joe) = (user("jane", &[]), user("joe", &[]));
    fixture.role("n/r", "get", "pods").await;
    fixture.bind("n/b", "Role/r", &["User jane"]).await;
    assert!(fixture.ask(&jane, "get", "pods", "n").await.starts_with("RBAC: allowed"));
    fixture.role("n/r", "get", "secrets").await;
    assert_eq!(fixture.ask(&jane, "get", "pods", "n").await, "none ");
    assert!(fixture.ask(&jane, "get", "secrets", "n").await.starts_with("RBAC: allowed"));
    fixture.bind("n/b", "Role/r", &["User joe"]).await;
    assert_eq!(fixture.ask(&jane, "get", "secrets", "n").await, "none ");
    assert!(fixture.ask(&joe, "get", "secrets", "n").await.starts_with("RBAC: allowed"));
    fixture.delete("rolebindings", "n/b").await;
    assert_eq!(fixture.ask(&joe, "get", "secrets", "n").await, "none ");
}

#[tokio::test]
async fn index_starts_anew_when_the_log_is_gone() {
    let fixture = Fixture::new().await;
    let jane = user("jane", &[]);
    fixture.role("all", "get", "pods").await;
    fixture.bind("n/b", "ClusterRole/all", &["User jane"]).await;
    fixture.bind("x", "ClusterRole/all", &["User jane"]).await;
    assert!(fixture.ask(&jane, "get", "pods", "").await.starts_with("RBAC: allowed"));
    fixture.delete("clusterrolebindings", "x").await;
    fixture.cache.forget(fixture.cache.committed()).await.unwrap();
    assert_eq!(fixture.ask(&jane, "get", "pods", "").await, "none ");
    assert!(fixture.ask(&jane, "get", "pods", "n").await.starts_with("RBAC: allowed"));
}

#[tokio::test]
async fn object_that_cannot_be_decoded_grants_nothing_until_it_is_mended() {
    let fixture = Fixture::new().await;
    let jane = user("jane", &[]);
    fixture.role("all", "get", "pods").await;
    fixture.put("clusterrolebindings", "b", r#""subjects":5"#).await;
    fixture.put("clusterroles", "broken", r#""rules":"x""#).await;
    assert_eq!(fixture.ask(&jane, "get", "pods", "").await, "none ");
    fixture.bind("b", "ClusterRole/broken", &["User jane"]).await;
    assert_eq!(
        fixture.ask(&jane, "get", "pods", "").await,
        "none RBAC: clusterrole.rbac.authorization.k8s.io \"broken\" not found"
    );
    fixture.role("broken", "get", "pods").await;
    assert!(fixture.ask(&jane, "get", "pods", "").await.starts_with("RBAC: allowed"));
}

#[tokio::test]
async fn paths_are_granted_by_cluster_role_bindings_alone() {
    let fixture = Fixture::new().await;
    let rules = r#""rules":[{"verbs":["get"],"nonResourceURLs":["/metrics","/debug/*"]}]"#;
    fixture.put("clusterroles", "paths", rules).await;
    fixture.bind("n/b", "ClusterRole/paths", &["User joe"]).await;
    fixture.bind("b", "ClusterRole/paths", &["User jane"]).await;
    for (name, verb, path, allowed) in [
        ("jane", "get", "/metrics", true),
        ("jane", "get", "/debug/x", true),
        ("jane", "post", "/metrics", false),
        ("jane", "get", "/other", false),
        ("joe", "get", "/metrics", false),
    ] {
        let verdict = fixture.authorizer.decide(&user(name, &[]), &Attributes::path(verb, path)).wait().await;
        assert_eq!(verdict.decision == crate::Decision::Allow, allowed, "{name} {verb} {path}");
    }
}

#[tokio::test]
async fn rules_are_listed_in_the_order_of_bindings_with_the_errors() {
    let fixture = Fixture::new().await;
    let jane = user("jane", &["dev"]);
    let rules = r#""rules":[{"verbs":["get"],"apiGroups":["","x"],"resources":["pods"],"resourceNames":["a"]},
        {"verbs":["get"],"nonResourceURLs":["/healthz"]}]"#;
    fixture.put("clusterroles", "both", rules).await;
    fixture.role("n/local", "list", "secrets").await;
    fixture.role("early", "watch", "nodes").await;
    fixture.bind("n/a", "Role/local", &["User jane"]).await;
    fixture.bind("z", "ClusterRole/both", &["Group dev", "User jane"]).await;
    fixture.bind("b", "ClusterRole/early", &["User jane"]).await;
    fixture.bind("n/l", "Role/lost", &["User jane"]).await;
    let listed = fixture.authorizer.rules(&jane, "n");
    let resources = listed.resources.iter().map(|rule| rule.resources.join(","));
    assert_eq!(resources.collect::<Vec<_>>(), ["nodes", "pods", "secrets"]);
    assert_eq!(listed.resources[1].groups, ["", "x"]);
    assert_eq!(listed.resources[1].names, ["a"]);
    assert_eq!(listed.paths, [PathRule { verbs: vec!["get".into()], paths: vec!["/healthz".into()] }]);
    assert!(!listed.is_incomplete);
    assert_eq!(listed.error.unwrap(), "role.rbac.authorization.k8s.io \"lost\" not found");
    assert_eq!(fixture.authorizer.rules(&jane, "m").resources.len(), 2);
}
