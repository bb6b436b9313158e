//! The type check of policies.

use super::lifetimes::Server;
use serde_json::{Value, json};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";

#[test]
fn status_of_a_policy_says_what_is_wrong_for_built_in_and_custom_kinds() {
    let server = Server::start(&[]);
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}}});
    server.create(
        DEFINITIONS,
        &json!({"metadata": {"name": "widgets.example.com"}, "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]
        }}),
    );
    server.until("/apis/example.com/v1/namespaces/default/widgets", Value::is_object);
    server.create(
        POLICIES,
        &json!({"metadata": {"name": "p"}, "spec": {
            "matchConstraints": {"resourceRules": [
                {"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["*"], "resources": ["deployments"]},
                {"apiGroups": ["example.com"], "apiVersions": ["v1"], "operations": ["*"], "resources": ["widgets"]},
            ]},
            "validations": [{"expression": "object.metadata.name != \"\""}, {"expression": "object.spec.size == 1"}]
        }}),
    );
    let warning = "apps/v1, Kind=Deployment: ERROR: <input>:1:12: undefined field 'size'\n | object.spec.size == 1\n | ...........^\n";
    server.until(&format!("{POLICIES}/p"), |policy| {
        policy["status"]
            == json!({"observedGeneration": 1, "typeChecking": {"expressionWarnings": [
                {"fieldRef": "spec.validations[1].expression", "warning": warning},
            ]}})
    });
}
