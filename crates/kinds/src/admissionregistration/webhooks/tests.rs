use super::*;
use schema::{Limits, json};

fn configuration(webhooks: &[String]) -> Map {
    let text = format!(r#"{{"metadata":{{"name":"c"}},"webhooks":[{}]}}"#, webhooks.join(","));
    let ty = schema::views::admissionregistration::v1::MutatingWebhookConfiguration::schema();
    json::decode(ty, text.as_bytes(), &Limits::REQUEST).unwrap().value.as_map().unwrap().clone()
}

fn webhook(change: &str) -> String {
    let mut fields = vec![
        ("name", r#""a.example.com""#.to_owned()),
        ("clientConfig", r#"{"url":"https://x.example.com/y"}"#.to_owned()),
        ("sideEffects", r#""None""#.to_owned()),
        ("admissionReviewVersions", r#"["v1"]"#.to_owned()),
    ];
    if let Some((name, value)) = change.split_once('=') {
        fields.retain(|(own, _)| *own != name);
        fields.push((name, value.to_owned()));
    }
    let fields: Vec<String> = fields
        .iter()
        .filter(|(_, value)| !value.is_empty())
        .map(|(name, value)| format!("\"{name}\":{value}"))
        .collect();
    format!("{{{}}}", fields.join(","))
}

fn errors(change: &str) -> Vec<String> {
    validate(&configuration(&[webhook(change)]), None).iter().map(ToString::to_string).collect()
}

#[test]
fn valid_webhooks_have_no_errors() {
    for change in [
        "",
        r#"clientConfig={"service":{"namespace":"n","name":"s","port":443,"path":"/a/b"}}"#,
        r#"clientConfig={"service":{"namespace":"n","name":"s","port":443,"path":"/"}}"#,
        r#"clientConfig={"url":"https://[::1]:8443/%20x"}"#,
        r#"rules=[{"operations":["CREATE","UPDATE"],"apiGroups":[""],"apiVersions":["v1"],"resources":["pods","pods/*","*/scale"],"scope":"*"}]"#,
        r#"matchConditions=[{"name":"a.example.com/b","expression":"true"}]"#,
        r#"admissionReviewVersions=["v2","v1beta1"]"#,
    ] {
        assert_eq!(errors(change), Vec::<String>::new(), "{change}");
    }
}

#[test]
fn each_field_is_checked() {
    for (change, why) in [
        ("name=\"short\"", "webhooks[0].name: Invalid value: \"short\": should be a domain"),
        ("sideEffects=", "webhooks[0].sideEffects: Required value: must specify one of None, NoneOnDryRun"),
        ("sideEffects=\"Some\"", "webhooks[0].sideEffects: Unsupported value: \"Some\""),
        (
            "admissionReviewVersions=[\"v2\"]",
            "webhooks[0].admissionReviewVersions: Invalid value: []string{\"v2\"}: must include",
        ),
        (
            "admissionReviewVersions=[\"v1\",\"v1\"]",
            "webhooks[0].admissionReviewVersions[1]: Invalid value: \"v1\": duplicate version",
        ),
        ("timeoutSeconds=31", "webhooks[0].timeoutSeconds: Invalid value: 31: the timeout value"),
        (
            "reinvocationPolicy=\"Often\"",
            "webhooks[0].reinvocationPolicy: Unsupported value: \"Often\": supported values: \"IfNeeded\", \"Never\"",
        ),
        ("clientConfig={}", "webhooks[0].clientConfig: Required value: exactly one of url or service"),
        (
            r#"clientConfig={"url":"http://x"}"#,
            "webhooks[0].clientConfig.url: Invalid value: \"http\": 'https' is",
        ),
        (
            r#"clientConfig={"url":"https:///y"}"#,
            "webhooks[0].clientConfig.url: Invalid value: \"\": host must be specified",
        ),
        (
            r#"clientConfig={"url":"https://x:y/"}"#,
            "url must be a valid URL: parse \"https://x:y/\": invalid port \":y\" after host",
        ),
        (r#"clientConfig={"url":":x"}"#, "missing protocol scheme"),
        (r#"clientConfig={"url":"https://x/%zz"}"#, "invalid URL escape \"%zz\""),
        (
            r#"clientConfig={"service":{"name":"s","port":1}}"#,
            "service.name: Required value: service name is required",
        ),
        (
            r#"clientConfig={"service":{"name":"s","namespace":"n","port":70000}}"#,
            "service.port: Invalid value: 70000: port is not valid",
        ),
        (
            r#"clientConfig={"service":{"name":"s","namespace":"n","port":1,"path":"a//b"}}"#,
            "segment[0] may not be empty",
        ),
        (
            r#"rules=[{"operations":["*","CREATE"],"apiGroups":["a"],"apiVersions":["v1"],"resources":["a"]}]"#,
            "rules[0].operations: Invalid value: []admissionregistration.OperationType{\"*\", \"CREATE\"}",
        ),
        (
            r#"rules=[{"operations":["GET"],"apiGroups":["a"],"apiVersions":["v1"],"resources":["a"]}]"#,
            "rules[0].operations[0]: Unsupported value: \"GET\"",
        ),
        (
            r#"rules=[{"operations":["*"],"apiGroups":["a"],"apiVersions":["v1"],"resources":["*/x","a/x"]}]"#,
            "if '*/x' is present, must not specify a/x",
        ),
        (
            r#"rules=[{"operations":["*"],"apiGroups":["a"],"apiVersions":["v1"],"resources":["a"],"scope":"Some"}]"#,
            "rules[0].scope: Unsupported value: \"Some\"",
        ),
        (
            r#"matchConditions=[{"name":"a","expression":"true"},{"name":"a","expression":" "}]"#,
            "matchConditions[1].name: Duplicate value: \"a\"",
        ),
        (r#"matchConditions=[{"name":"","expression":"true"}]"#, "matchConditions[0].name: Required value"),
        (
            r#"matchConditions=[{"name":"a","expression":" not cel( "}]"#,
            "matchConditions[0].expression: Invalid value: \"not cel(\": compilation failed: ERROR: <input>:1:5: Syntax error: mismatched input 'cel' expecting <EOF>\n | not cel(\n | ....^",
        ),
        (
            r#"matchConditions=[{"name":"a","expression":"params == null"}]"#,
            "matchConditions[0].expression: Invalid value: \"params == null\": compilation failed: ERROR: <input>:1:1: undeclared reference to 'params' (in container '')",
        ),
        (
            r#"matchConditions=[{"name":"a","expression":"request.name"}]"#,
            "matchConditions[0].expression: Invalid value: \"request.name\": must evaluate to bool but got string",
        ),
        (
            r#"namespaceSelector={"matchLabels":{"a b":"c"}}"#,
            "webhooks[0].namespaceSelector.matchLabels: Invalid value: \"a b\"",
        ),
    ] {
        let found = errors(change);
        assert!(found.iter().any(|error| error.contains(why)), "{change}: {found:?}");
    }
    let two = validate(&configuration(&[webhook(""), webhook("")]), None);
    assert_eq!(
        two.iter().next().unwrap().to_string(),
        "webhooks[1].name: Duplicate value: \"a.example.com\""
    );
}

#[test]
fn configuration_keeps_what_it_has_already() {
    for change in [
        "sideEffects=\"Some\"",
        "admissionReviewVersions=[\"v2\"]",
        r#"namespaceSelector={"matchExpressions":[{"key":"a","operator":"In","values":["b c"]}]}"#,
        r#"matchConditions=[{"name":"a b","expression":"true"}]"#,
        r#"matchConditions=[{"name":"a","expression":"nothing"}]"#,
    ] {
        let old = configuration(&[webhook(change)]);
        assert!(!validate(&old, None).is_empty(), "{change}");
        assert!(validate(&old, Some(&old)).is_empty(), "{change}");
        assert!(!validate(&old, Some(&configuration(&[webhook("")]))).is_empty(), "{change}");
    }
}

#[test]
fn match_condition_of_before_may_use_what_the_release_before_does_not_know() {
    let with = |first: &str, second: &str| {
        let condition =
            |text: &str| webhook(&format!(r#"matchConditions=[{{"name":"a","expression":"{text}"}}]"#));
        configuration(&[condition(first), condition(second)])
    };
    let text = "semver(request.name).major() == 1";
    let old = with(text, "true");
    let faults = |errors: List| -> Vec<bool> {
        let of_conditions = errors.iter().map(ToString::to_string).filter(|error| error.contains("match"));
        of_conditions.map(|error| error.contains("undeclared reference to 'semver'")).collect()
    };
    assert_eq!(faults(validate(&old, None)), [true]);
    assert_eq!(faults(validate(&with("true", text), Some(&old))), Vec::<bool>::new());
    assert_eq!(faults(validate(&with("true", &format!("!({text})")), Some(&old))), [true]);
}
