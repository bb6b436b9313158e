//! Tests of policies: here of those that validate.

mod mutating;

use super::ValidatingAdmissionPolicy;
use crate::testing::{Fixture, Write};
use object::Value;
use schema::{Limits, Shape, Status, json};

const PODS: &str = r#"{"resourceRules":[{"operations":["CREATE","UPDATE"],"apiGroups":[""],"apiVersions":["v1"],"resources":["pods"],"scope":"*"}],"matchPolicy":"Equivalent","namespaceSelector":{},"objectSelector":{}}"#;
const POD: &str = r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p","namespace":"n","labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}"#;

struct Setup {
    fixture: Fixture,
}

impl Setup {
    async fn new() -> Self {
        let fixture = Fixture::new().await;
        let namespace = r#"{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"n","labels":{"env":"prod"}},"status":{"phase":"Active"}}"#;
        fixture.put("namespaces", namespace).await;
        Self { fixture }
    }

    /// Stores a policy with these fields of its spec.
    async fn policy(&self, name: &str, fields: &str) {
        let text = format!(
            r#"{{"kind":"ValidatingAdmissionPolicy","apiVersion":"admissionregistration.k8s.io/v1","metadata":{{"name":"{name}"}},"spec":{{"matchConstraints":{PODS},{fields}}}}}"#
        );
        self.fixture.put("validatingadmissionpolicies.admissionregistration.k8s.io", &text).await;
    }

    /// Stores a binding of a policy with these further fields.
    async fn bind(&self, name: &str, policy: &str, actions: &str, fields: &str) {
        let text = format!(
            r#"{{"kind":"ValidatingAdmissionPolicyBinding","apiVersion":"admissionregistration.k8s.io/v1","metadata":{{"name":"{name}"}},"spec":{{"policyName":"{policy}","validationActions":[{actions}]{fields}}}}}"#
        );
        self.fixture.put("validatingadmissionpolicybindings.admissionregistration.k8s.io", &text).await;
    }

    /// What becomes of a write: `admitted`, or the code and the message, and the warnings.
    async fn outcome(&self, write: &Write<'_>) -> (String, Vec<String>) {
        let plugin: ValidatingAdmissionPolicy = self.fixture.make(None).unwrap();
        let outcome = match write.validate(&plugin).await {
            Ok(_) => "admitted".to_owned(),
            Err(Status { code, reason, message, .. }) => format!("{code} {} {message}", reason.as_str()),
        };
        (outcome, write.warnings.take())
    }

    async fn create(&self) -> String {
        self.outcome(&Write::create("pods", POD)).await.0
    }
}

fn tree(text: &str) -> Value {
    json::decode_shape(&Shape::Any, text.as_bytes(), &Limits::REQUEST).unwrap().value
}

fn denied(policy: &str, binding: &str, message: &str) -> String {
    format!(
        r#"422 Invalid pods "p" is forbidden: ValidatingAdmissionPolicy '{policy}' with binding '{binding}' denied request: {message}"#
    )
}

#[tokio::test]
async fn a_policy_without_binding_and_one_that_does_not_match_have_no_effect() {
    let setup = Setup::new().await;
    setup.policy("p", r#""validations":[{"expression":"false"}]"#).await;
    assert_eq!(setup.create().await, "admitted");
    setup.bind("b", "p", r#""Deny""#, "").await;
    assert_eq!(setup.create().await, denied("p", "b", "failed expression: false"));
    let other = Write::create("configmaps", r#"{"metadata":{"name":"m","namespace":"n"}}"#);
    assert_eq!(setup.outcome(&other).await.0, "admitted");
    let elsewhere = r#","matchResources":{"namespaceSelector":{"matchLabels":{"env":"test"}},"objectSelector":{},"matchPolicy":"Equivalent"}"#;
    setup.bind("b", "p", r#""Deny""#, elsewhere).await;
    assert_eq!(setup.create().await, "admitted");
}

#[tokio::test]
async fn the_binding_says_what_becomes_of_a_failed_validation() {
    let setup = Setup::new().await;
    setup.policy("p", r#""validations":[{"expression":"false","message":" no "}]"#).await;
    setup.bind("b", "p", r#""Warn","Audit""#, "").await;
    let (outcome, warnings) = setup.outcome(&Write::create("pods", POD)).await;
    assert_eq!(outcome, "admitted");
    assert_eq!(warnings, ["Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b': no"]);
}

#[tokio::test]
async fn messages_and_reasons_are_those_of_the_validation() {
    let setup = Setup::new().await;
    for (fields, wanted) in [
        (r#""message":"m""#, "422 Invalid m"),
        (r#""message":"m","messageExpression":"'made of ' + object.metadata.name""#, "422 Invalid made of p"),
        (r#""message":"m","messageExpression":"'a\\nb'""#, "422 Invalid m"),
        (r#""messageExpression":"object.none""#, "422 Invalid failed expression: false"),
        (r#""reason":"Forbidden""#, "403 Forbidden failed expression: false"),
        (r#""reason":"Unauthorized""#, "401 Unauthorized failed expression: false"),
        (r#""reason":"RequestEntityTooLarge""#, "413 RequestEntityTooLarge failed expression: false"),
    ] {
        setup.policy("p", &format!(r#""validations":[{{"expression":"false",{fields}}}]"#)).await;
        setup.bind("b", "p", r#""Deny""#, "").await;
        let found = setup.create().await;
        let prefix =
            r#"pods "p" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: "#;
        assert_eq!(found.replace(prefix, ""), wanted, "{fields}");
    }
}

#[tokio::test]
async fn expressions_see_the_write() {
    let setup = Setup::new().await;
    setup.bind("b", "p", r#""Deny""#, "").await;
    for expression in [
        "object.kind == 'Pod' && object.apiVersion == 'v1'",
        "object.metadata.labels.a == 'b' && object.metadata.creationTimestamp == null",
        "oldObject == null",
        "request.operation == 'CREATE' && request.name == 'p' && request.namespace == 'n'",
        "request.kind.kind == 'Pod' && request.requestResource.resource == 'pods'",
        "request.kind.group == '' && request.requestResource.group == ''",
        "!has(request.subResource) && !request.dryRun",
        "request.userInfo.username == 'alice'",
        "namespaceObject.metadata.labels.env == 'prod'",
        "authorizer.group('').resource('pods').check('get').allowed()",
        "authorizer.serviceAccount('a', 'b').requestResource == null || true",
        "variables.images == ['i']",
    ] {
        let fields = format!(
            r#""variables":[{{"name":"images","expression":"object.spec.containers.map(c, c.image)"}}],"validations":[{{"expression":"{expression}"}}]"#
        );
        setup.policy("p", &fields).await;
        let found = setup.create().await;
        // The one that does not compile says so.
        if expression.contains("serviceAccount") {
            assert!(found.contains("compilation error: compilation failed: ERROR"), "{found}");
        } else {
            assert_eq!(found, "admitted", "{expression}");
        }
    }
}

#[tokio::test]
async fn the_failure_policy_decides_about_errors() {
    let setup = Setup::new().await;
    setup.bind("b", "p", r#""Deny""#, "").await;
    let failing = r#""validations":[{"expression":"object.none == 1"}]"#;
    setup.policy("p", failing).await;
    let error = "expression 'object.none == 1' resulted in error: no such key: none";
    assert_eq!(setup.create().await, denied("p", "b", error));
    setup.policy("p", &format!(r#""failurePolicy":"Ignore",{failing}"#)).await;
    assert_eq!(setup.create().await, "admitted");
    let conditions = r#""matchConditions":[{"name":"a","expression":"object.none == 1"}],"validations":[{"expression":"true"}]"#;
    setup.policy("p", conditions).await;
    assert_eq!(setup.create().await, denied("p", "b", error));
    setup.policy("p", &format!(r#""failurePolicy":"Ignore",{conditions}"#)).await;
    assert_eq!(setup.create().await, "admitted");
    let skipped = r#""matchConditions":[{"name":"a","expression":"request.name == 'q'"}],"validations":[{"expression":"false"}]"#;
    setup.policy("p", skipped).await;
    assert_eq!(setup.create().await, "admitted");
}

#[tokio::test]
async fn audit_annotations_that_fail_refuse_the_write() {
    let setup = Setup::new().await;
    setup.bind("b", "p", r#""Audit""#, "").await;
    setup
        .policy("p", r#""auditAnnotations":[{"key":"k","valueExpression":"string(object.metadata.name)"}]"#)
        .await;
    assert_eq!(setup.create().await, "admitted");
    let failing = r#""auditAnnotations":[{"key":"k","valueExpression":"string(object.none)"}]"#;
    setup.policy("p", failing).await;
    let error = "expression 'string(object.none)' resulted in error: no such key: none";
    assert_eq!(setup.create().await, denied("p", "b", error));
    setup.policy("p", &format!(r#""failurePolicy":"Ignore",{failing}"#)).await;
    assert_eq!(setup.create().await, "admitted");
}

#[tokio::test]
async fn a_policy_is_evaluated_with_each_object_of_its_parameters() {
    let setup = Setup::new().await;
    let kind = r#""paramKind":{"apiVersion":"v1","kind":"ConfigMap"}"#;
    setup.policy("p", &format!(r#"{kind},"validations":[{{"expression":"params == null || object.metadata.name != params.data.name","messageExpression":"'not ' + params.data.name"}}]"#)).await;
    let params = |name: &str, label: &str| {
        (
            "configmaps",
            "n",
            tree(&format!(
                r#"{{"metadata":{{"name":"{name}","labels":{{"use":"{label}"}}}},"data":{{"name":"{name}"}}}}"#
            )),
        )
    };
    let write = Write { params: vec![params("q", "x"), params("p", "y")], ..Write::create("pods", POD) };
    for (reference, wanted) in [
        (r#"{"name":"q","parameterNotFoundAction":"Deny"}"#, "admitted".to_owned()),
        (r#"{"name":"p","parameterNotFoundAction":"Deny"}"#, denied("p", "b", "not p")),
        (
            r#"{"selector":{"matchLabels":{"use":"x"}},"parameterNotFoundAction":"Deny"}"#,
            "admitted".to_owned(),
        ),
        (r#"{"selector":{},"parameterNotFoundAction":"Deny"}"#, denied("p", "b", "not p")),
        (
            r#"{"name":"gone","parameterNotFoundAction":"Deny"}"#,
            denied(
                "p",
                "b",
                "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction",
            ),
        ),
        (r#"{"name":"gone","parameterNotFoundAction":"Allow"}"#, "admitted".to_owned()),
        (r#"{"name":"p","namespace":"other","parameterNotFoundAction":"Allow"}"#, "admitted".to_owned()),
    ] {
        setup.bind("b", "p", r#""Deny""#, &format!(r#","paramRef":{reference}"#)).await;
        assert_eq!(setup.outcome(&write).await.0, wanted, "{reference}");
    }
    setup.bind("b", "p", r#""Deny""#, "").await;
    assert_eq!(setup.outcome(&write).await.0, "admitted");
    let unknown =
        r#""paramKind":{"apiVersion":"x.example.com/v1","kind":"Odd"},"validations":[{"expression":"true"}]"#;
    setup.policy("p", unknown).await;
    assert_eq!(
        setup.outcome(&write).await.0,
        r#"422 Invalid pods "p" is forbidden: ValidatingAdmissionPolicy 'p' denied request: failed to configure policy: failed to find resource referenced by paramKind: 'x.example.com/v1, Kind=Odd'"#
    );
}

#[tokio::test]
async fn policies_are_not_asked_about_policies_and_reviews() {
    let setup = Setup::new().await;
    let all = PODS
        .replace(r#"[""]"#, r#"["*"]"#)
        .replace(r#"["v1"]"#, r#"["*"]"#)
        .replace(r#"["pods"]"#, r#"["*"]"#);
    let text = format!(
        r#"{{"kind":"ValidatingAdmissionPolicy","apiVersion":"admissionregistration.k8s.io/v1","metadata":{{"name":"p"}},"spec":{{"matchConstraints":{all},"validations":[{{"expression":"false"}}]}}}}"#
    );
    setup.fixture.put("validatingadmissionpolicies.admissionregistration.k8s.io", &text).await;
    setup.bind("b", "p", r#""Deny""#, "").await;
    for (group, resource, is_free) in [
        ("admissionregistration.k8s.io", "validatingadmissionpolicies", true),
        ("admissionregistration.k8s.io", "validatingwebhookconfigurations", false),
        ("authorization.k8s.io", "subjectaccessreviews", true),
        ("rbac.authorization.k8s.io", "clusterroles", false),
    ] {
        let write = Write { group, ..Write::create(resource, r#"{"metadata":{"name":"x"}}"#) };
        assert_eq!(setup.outcome(&write).await.0 == "admitted", is_free, "{resource}");
    }
}

#[tokio::test]
async fn a_budget_is_that_of_a_binding() {
    let setup = Setup::new().await;
    setup.bind("b", "p", r#""Deny""#, "").await;
    // Each evaluation ends with its own limit; eleven of them spend the budget.
    let costly = r#"{"expression":"lists.range(1).size() == 1 || [1,2,3,4,5,6,7,8,9,10].all(a, [1,2,3,4,5,6,7,8,9,10].all(b, [1,2,3,4,5,6,7,8,9,10].all(c, [1,2,3,4,5,6,7,8,9,10].all(d, [1,2,3,4,5,6,7,8,9,10].all(e, [1,2,3,4,5,6,7,8,9,10].all(f, a + b + c + d + e + f > 0))))))"}"#
        .replace("lists.range(1).size() == 1 || ", "");
    let all = vec![costly; 11].join(",");
    setup.policy("p", &format!(r#""validations":[{all}]"#)).await;
    let message =
        "validation failed due to running out of cost budget, no further validation rules will be run";
    assert_eq!(setup.create().await, denied("p", "b", message));
}
