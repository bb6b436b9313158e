use super::*;
use crate::testing::reference;

const HEAD: &str = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\n";

fn parse(authorizers: &str) -> Result<Authorizers, String> {
    Authorizers::parse(format!("{HEAD}authorizers: {authorizers}\n").as_bytes())
}

/// A webhook with other values for some fields, `FIELD: VALUE` each; an empty value takes the field out.
fn webhook(kubeconfig: &Path, changes: &[(&str, &str)]) -> String {
    let connection = format!("{{type: KubeConfigFile, kubeConfigFile: '{}'}}", kubeconfig.display());
    let mut fields = vec![
        ("timeout", "3s"),
        ("subjectAccessReviewVersion", "v1"),
        ("failurePolicy", "Deny"),
        ("connectionInfo", connection.as_str()),
    ];
    for (name, value) in changes {
        fields.retain(|(own, _)| own != name);
        if !value.is_empty() {
            fields.push((name, value));
        }
    }
    let fields: Vec<String> = fields.iter().map(|(name, value)| format!("{name}: {value}")).collect();
    format!("[{{type: Webhook, name: hook, webhook: {{{}}}}}]", fields.join(", "))
}

#[test]
fn webhook_is_read_with_defaults() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let config = Config {
        version: Version::V1,
        authorized_ttl: Duration::from_secs(300),
        unauthorized_ttl: Duration::from_secs(30),
        timeout: Duration::from_secs(3),
        failure_policy: FailurePolicy::Deny,
        backoff: Backoff::default(),
    };
    let entry = WebhookEntry {
        name: "hook".into(),
        kubeconfig: file.path().to_owned(),
        config,
        conditions: Conditions::default(),
    };
    assert_eq!(parse(&webhook(file.path(), &[])), Ok(Authorizers(vec![Entry::Webhook(entry.clone())])));
    let changes = [
        ("authorizedTTL", "1m"),
        ("unauthorizedTTL", "1s"),
        ("subjectAccessReviewVersion", "v1beta1"),
        ("failurePolicy", "NoOpinion"),
        ("matchConditionSubjectAccessReviewVersion", "v1"),
    ];
    let config = Config {
        version: Version::V1beta1,
        authorized_ttl: Duration::from_secs(60),
        unauthorized_ttl: Duration::from_secs(1),
        failure_policy: FailurePolicy::NoOpinion,
        ..entry.config
    };
    let changed = Authorizers(vec![Entry::Webhook(WebhookEntry { config, ..entry })]);
    assert_eq!(parse(&webhook(file.path(), &changes)), Ok(changed));
}

#[test]
fn all_versions_are_read_in_yaml_and_json() {
    for version in VERSIONS {
        let text = format!(
            r#"{{"kind":"AuthorizationConfiguration","apiVersion":"{version}","authorizers":[{{"type":"RBAC","name":"rbac"}},{{"type":"Node","name":"node"}}]}}"#
        );
        let modes = ["RBAC", "Node"].map(|mode| Entry::Mode(mode.to_owned()));
        assert_eq!(Authorizers::parse(text.as_bytes()), Ok(Authorizers(modes.to_vec())));
    }
}

#[test]
fn files_that_are_no_configuration_are_refused() {
    let cases = [
        ("", "authorizers: Required value: at least one authorization mode must be defined"),
        ("a: 1", "failed to load AuthorizationConfiguration from file: Object 'Kind' is missing"),
        ("kind: AuthorizationConfiguration", "Object 'apiVersion' is missing"),
        ("kind: Pod\napiVersion: v1", r#"no kind "Pod" is registered for version "v1""#),
        (
            "kind: AuthorizationConfiguration\napiVersion: apiserver.config.k8s.io/v2",
            r#"no kind "AuthorizationConfiguration" is registered for version "apiserver.config.k8s.io/v2""#,
        ),
        ("kind: a\n  b: [", "yaml: line"),
    ];
    for (text, wanted) in cases {
        let error = Authorizers::parse(text.as_bytes()).unwrap_err();
        assert!(error.contains(wanted), "{text}: {error}");
    }
    let unknown = parse("[{type: RBAC, name: rbac, more: 1}]").unwrap_err();
    assert!(unknown.ends_with(r#"strict decoding error: unknown field "authorizers[0].more""#), "{unknown}");
    let twice = parse("[{type: RBAC, name: rbac}]\nauthorizers: []").unwrap_err();
    assert!(twice.contains("line 4: key \"authorizers\" already set in map"), "{twice}");
}

#[test]
fn wrong_authorizers_are_reported_as_by_the_reference() {
    let cases = [
        ("[]", "authorizers: Required value: at least one authorization mode must be defined"),
        ("[{name: x}]", "authorizers[0].type: Required value"),
        (
            "[{type: Magic, name: x}]",
            r#"authorizers[0].type: Unsupported value: "Magic": supported values: "ABAC", "AlwaysAllow", "AlwaysDeny", "Node", "RBAC", "Webhook""#,
        ),
        (
            "[{type: RBAC, name: rbac}, {type: RBAC, name: rbac2}]",
            r#"authorizers[1].type: Duplicate value: "RBAC""#,
        ),
        ("[{type: RBAC}]", "authorizers[0].name: Required value"),
        (
            "[{type: RBAC, name: same}, {type: Node, name: same}]",
            r#"authorizers[1].name: Duplicate value: "same""#,
        ),
        (
            "[{type: RBAC, name: rbac, webhook: {}}]",
            r#"authorizers[0].webhook: Invalid value: "non-null": may only be specified when type=Webhook"#,
        ),
        ("[{type: Webhook, name: x}]", "authorizers[0].webhook: Required value: required when type=Webhook"),
        (
            "[{type: RBAC, name: one}, {type: Node, name: two}]",
            "[expected name rbac for authorizer RBAC instead of one, expected name node for authorizer Node instead of two]",
        ),
    ];
    for (authorizers, wanted) in cases {
        assert_eq!(parse(authorizers), Err(wanted.to_owned()), "{authorizers}");
    }
    let name = parse("[{type: Webhook, name: No_Name, webhook: {}}]").unwrap_err();
    assert!(name.contains(r#"authorizers[0].name: Invalid value: "No_Name": authorizer name is invalid: "#));
}

#[test]
fn wrong_webhooks_are_reported_as_by_the_reference() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let cases = [
        ("timeout", "", "timeout: Required value"),
        ("timeout", "31s", r#"timeout: Invalid value: "31s": must be > 0s and <= 30s"#),
        ("timeout", "-1s", r#"timeout: Invalid value: "-1s": must be > 0s and <= 30s"#),
        ("authorizedTTL", "-1s", r#"authorizedTTL: Invalid value: "-1s": must be > 0s"#),
        ("unauthorizedTTL", "-1s", r#"unauthorizedTTL: Invalid value: "-1s": must be > 0s"#),
        ("subjectAccessReviewVersion", "", "subjectAccessReviewVersion: Required value"),
        (
            "subjectAccessReviewVersion",
            "v2",
            r#"subjectAccessReviewVersion: Unsupported value: "v2": supported values: "v1", "v1beta1""#,
        ),
        (
            "matchConditionSubjectAccessReviewVersion",
            "v1beta1",
            r#"matchConditionSubjectAccessReviewVersion: Unsupported value: "v1beta1": supported values: "v1""#,
        ),
        ("failurePolicy", "", "failurePolicy: Required value"),
        (
            "failurePolicy",
            "Allow",
            r#"failurePolicy: Unsupported value: "Allow": supported values: "NoOpinion", "Deny""#,
        ),
        ("connectionInfo", "", "connectionInfo.type: Required value"),
        (
            "connectionInfo",
            "{type: InClusterConfig}",
            r#"connectionInfo.type: Invalid value: "InClusterConfig": is not allowed for the API server"#,
        ),
        (
            "connectionInfo",
            "{type: Magic}",
            r#"connectionInfo.type: Unsupported value: "Magic": supported values: "InClusterConfig", "KubeConfigFile""#,
        ),
        ("connectionInfo", "{type: KubeConfigFile}", "connectionInfo.kubeConfigFile: Required value"),
        (
            "connectionInfo",
            "{type: KubeConfigFile, kubeConfigFile: x}",
            r#"connectionInfo.kubeConfigFile: Invalid value: "x": must be an absolute path"#,
        ),
        (
            "connectionInfo",
            "{type: KubeConfigFile, kubeConfigFile: /nowhere}",
            r#"connectionInfo.kubeConfigFile: Invalid value: "/nowhere": error loading file: stat /nowhere: no such file or directory"#,
        ),
        (
            "connectionInfo",
            "{type: KubeConfigFile, kubeConfigFile: /}",
            r#"connectionInfo.kubeConfigFile: Invalid value: "/": must be a regular file"#,
        ),
    ];
    for (field, value, wanted) in cases {
        let error = parse(&webhook(file.path(), &[(field, value)])).unwrap_err();
        assert_eq!(error, format!("authorizers[0].{wanted}"));
    }
    let conditions = [("matchConditions", "[{expression: ' '}, {expression: a}, {expression: a}]")];
    let error = parse(&webhook(file.path(), &conditions)).unwrap_err();
    for wanted in [
        "authorizers[0].matchConditionSubjectAccessReviewVersion: Required value: required if match conditions are specified",
        "authorizers[0].matchConditions[0].expression: Required value",
        r#"authorizers[0].matchConditions[2].expression: Duplicate value: "a""#,
    ] {
        assert!(error.contains(wanted), "{error}");
    }
}

#[test]
fn match_conditions_are_part_of_an_authorizer() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let read = |conditions: &str| {
        let changes = [("matchConditions", conditions), ("matchConditionSubjectAccessReviewVersion", "v1")];
        parse(&webhook(file.path(), &changes)).unwrap()
    };
    let one = "[{expression: request.user == 'a'}]";
    assert_eq!(read(one), read(one));
    assert_ne!(read(one), read("[{expression: request.user == 'b'}]"));
    assert_ne!(read(one), read("[]"));
}

#[test]
fn what_match_conditions_may_be_is_as_in_the_reference() {
    let file = tempfile::NamedTempFile::new().unwrap();
    reference::compare(include_str!("../../../tests/reference/conditions.jsonl"), |case| {
        let quoted = |text: &String| format!("{{expression: {}}}", object::quote::quote(text));
        let conditions: Vec<String> = case.texts("conditions").iter().map(quoted).collect();
        let conditions = format!("[{}]", conditions.join(", "));
        let changes =
            [("matchConditions", conditions.as_str()), ("matchConditionSubjectAccessReviewVersion", "v1")];
        let error = parse(&webhook(file.path(), &changes)).err().unwrap_or_default();
        error.replace("authorizers[0].", "").into()
    });
}

#[test]
fn modes_of_the_start_stay() {
    let of = |modes: &[&str]| Authorizers(modes.iter().map(|mode| Entry::Mode((*mode).to_owned())).collect());
    let started = of(&["Node", "RBAC"]);
    assert_eq!(of(&["RBAC", "Node", "AlwaysDeny"]).check_change(&started), Ok(()));
    assert_eq!(of(&["Node"]).check_change(&started), Err("missing required types: [RBAC]".into()));
    assert_eq!(
        started.check_change(&of(&["Node"])),
        Err("authorizer type RBAC is not allowed if it was not enabled at initial server startup".into())
    );
}
