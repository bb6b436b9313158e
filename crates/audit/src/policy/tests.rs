use super::*;
use auth::User;

const POLICY: &str = r#"
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
omitManagedFields: true
rules:
- {level: None, users: [quiet], verbs: [get, watch]}
- {level: Request, userGroups: [auditors], omitManagedFields: false, omitStages: [Panic]}
- level: Metadata
  resources:
  - {group: "", resources: [secrets, pods/log, "*/status"]}
  - {group: apps, resources: ["deployments/*"]}
  - {group: "", resources: [configmaps], resourceNames: [shared]}
- {level: RequestResponse, namespaces: [prod]}
- {level: Metadata, resources: [{group: batch}]}
- {level: Metadata, nonResourceURLs: ["/api*", /version]}
- {level: Request, resources: [{group: rbac.authorization.k8s.io, resources: ["*"]}]}
"#;

fn resource<'a>(group: &'a str, resource: &'a str, namespace: &'a str, name: &'a str) -> Target<'a> {
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    Target::Resource(ResourceTarget { group, version: "v1", resource, subresource, namespace, name })
}

#[test]
fn the_first_rule_that_matches_decides() {
    let policy = Policy::decode(POLICY.as_bytes()).unwrap();
    let user = |name: &str, group: &str| User {
        name: name.into(),
        groups: vec!["system:authenticated".into(), group.into()],
        ..User::default()
    };
    use AuditLevel::{Metadata, None, Request, RequestResponse};
    for (name, group, verb, target, expected) in [
        ("quiet", "", "get", resource("", "secrets", "", "a"), None),
        ("quiet", "", "list", resource("", "secrets", "", ""), Metadata),
        ("a", "auditors", "get", resource("", "secrets", "", ""), Request),
        ("a", "", "get", resource("", "secrets", "", ""), Metadata),
        ("a", "", "get", resource("", "pods/log", "", "p"), Metadata),
        ("a", "", "get", resource("", "pods", "", "p"), None),
        ("a", "", "get", resource("", "pods/exec", "", "p"), None),
        ("a", "", "get", resource("", "pods/status", "", "p"), Metadata),
        ("a", "", "get", resource("apps", "pods/status", "", "p"), None),
        ("a", "", "get", resource("apps", "deployments", "", "p"), Metadata),
        ("a", "", "get", resource("apps", "deployments/scale", "", "p"), Metadata),
        ("a", "", "get", resource("", "configmaps", "", "shared"), Metadata),
        ("a", "", "get", resource("", "configmaps", "", "other"), None),
        ("a", "", "get", resource("", "configmaps", "prod", "other"), RequestResponse),
        ("a", "", "get", resource("batch", "jobs/status", "", "j"), Metadata),
        ("a", "", "get", Target::Path("/api"), Metadata),
        ("a", "", "get", Target::Path("/apis/apps"), Metadata),
        ("a", "", "get", Target::Path("/version"), Metadata),
        ("a", "", "get", Target::Path("/version/"), None),
        ("a", "", "get", resource("rbac.authorization.k8s.io", "roles/x", "", ""), Request),
    ] {
        let user = user(name, group);
        let decision = policy.decide(&Attributes { user: Some(&user), verb, target });
        assert_eq!(decision.level, expected, "{name} {verb} {target:?}");
        assert!(decision.omitted.has(Stage::RequestReceived));
        assert_eq!(decision.omitted.has(Stage::Panic), group == "auditors");
        assert_eq!(decision.omits_managed_fields, group != "auditors");
    }
    let unknown = Attributes { user: Option::None, verb: "get", target: resource("", "secrets", "", "") };
    assert_eq!(policy.decide(&unknown).level, Metadata);
}

#[test]
fn faults_of_a_policy_are_those_of_the_reference() {
    let head = "apiVersion: audit.k8s.io/v1\nkind: Policy\n";
    for (text, expected) in [
        ("rules: []", "loaded illegal policy with 0 rules"),
        ("rules: [{}]", "rules[0].level: Required value"),
        (
            "rules: [{level: All}]",
            "rules[0].level: Unsupported value: \"All\": supported values: \"None\", \"Metadata\", \"Request\", \
             \"RequestResponse\"",
        ),
        (
            "{omitStages: [Never], rules: [{level: None, nonResourceURLs: [api, /a*b], namespaces: [x]}]}",
            "[omitStages[0]: Invalid value: \"Never\": allowed stages are \
             RequestReceived,ResponseStarted,ResponseComplete,Panic, rules[0].nonResourceURLs[0]: Invalid value: \
             \"api\": non-resource URL rules must begin with a '/' character, rules[0].nonResourceURLs[1]: Invalid \
             value: \"/a*b\": non-resource URL wildcards '*' must be the final character of the rule, \
             rules[0].nonResourceURLs: Invalid value: [\"api\",\"/a*b\"]: rules cannot apply to both regular \
             resources and non-resource URLs]",
        ),
        (
            "rules: [{level: None, resources: [{group: \"\", resourceNames: [a]}]}]",
            "rules[0].resources.resourceNames: Invalid value: [\"a\"]: using resourceNames requires at least one \
             resource",
        ),
    ] {
        let text = match text.starts_with('{') {
            true => text.replacen('{', "{apiVersion: audit.k8s.io/v1, kind: Policy, ", 1),
            false => format!("{head}{text}"),
        };
        assert_eq!(Policy::decode(text.as_bytes()).unwrap_err(), expected);
    }
    for (text, expected) in [
        ("kind: Policy", "unknown group version field audit.k8s.io/__internal, Kind=Policy in policy"),
        ("apiVersion: audit.k8s.io/v1", "loaded illegal policy with 0 rules"),
        (
            "{apiVersion: audit.k8s.io/v1, kind: Event}",
            "failed decoding: converting (v1.Event) to (audit.Policy): unknown conversion",
        ),
        (
            "{apiVersion: audit.k8s.io/v1beta1, kind: Policy}",
            "failed decoding: no kind \"Policy\" is registered for version \"audit.k8s.io/v1beta1\" in scheme \
             \"k8s.io/apiserver/pkg/audit/scheme.go:30\"",
        ),
        ("rules: [", "failed decoding: yaml: line 1: did not find expected node content"),
    ] {
        assert_eq!(Policy::decode(text.as_bytes()).unwrap_err(), expected);
    }
    assert_eq!(
        Policy::read("/nowhere/policy".as_ref()).unwrap_err().to_string(),
        "loading audit policy file: failed to read file path \"/nowhere/policy\": open /nowhere/policy: no such file or \
         directory"
    );
}

#[test]
fn fields_that_are_not_known_are_ignored() {
    let text = format!("{POLICY}surprise: true\n");
    assert_eq!(Policy::decode(text.as_bytes()), Policy::decode(POLICY.as_bytes()));
}
