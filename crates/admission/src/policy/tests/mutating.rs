//! Tests of policies that change objects.

use crate::plugins::Builtin as _;
use crate::policy::MutatingAdmissionPolicy;
use crate::testing::{Fixture, Write};
use crate::{Chain, Operation, Plugin};
use object::Value;
use schema::Status;

const POD: &str = r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p","namespace":"n"},"spec":{"containers":[{"name":"c","image":"i"}]}}"#;

struct Setup {
    fixture: Fixture,
}

impl Setup {
    async fn new() -> Self {
        let mut fixture = Fixture::new().await;
        fixture.settings.gates.mutating_admission_policy = true;
        let namespace = r#"{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"n"}}"#;
        fixture.put("namespaces", namespace).await;
        Self { fixture }
    }

    /// Stores a policy about pods with these fields of its spec, and a binding of it.
    async fn policy(&self, name: &str, fields: &str) {
        let head = r#""apiVersion":"admissionregistration.k8s.io/v1alpha1""#;
        let rules = r#"{"resourceRules":[{"operations":["CREATE","UPDATE"],"apiGroups":[""],"apiVersions":["v1"],"resources":["pods"],"scope":"*"}],"matchPolicy":"Equivalent","namespaceSelector":{},"objectSelector":{}}"#;
        let text = format!(
            r#"{{"kind":"MutatingAdmissionPolicy",{head},"metadata":{{"name":"{name}"}},"spec":{{"matchConstraints":{rules},{fields}}}}}"#
        );
        self.fixture.put("mutatingadmissionpolicies.admissionregistration.k8s.io", &text).await;
        let binding = format!(
            r#"{{"kind":"MutatingAdmissionPolicyBinding",{head},"metadata":{{"name":"{name}-binding"}},"spec":{{"policyName":"{name}"}}}}"#
        );
        self.fixture.put("mutatingadmissionpolicybindings.admissionregistration.k8s.io", &binding).await;
    }

    fn plugin(&self) -> MutatingAdmissionPolicy {
        self.fixture.make(None).unwrap()
    }

    /// The labels of a new pod, or the code, the reason and the message of the refusal.
    async fn create(&self) -> String {
        match Write::create("pods", POD).mutate(&self.plugin()).await {
            Ok(pod) => labels(&pod.unwrap()),
            Err(Status { code, reason, message, .. }) => format!("{code} {} {message}", reason.as_str()),
        }
    }
}

fn labels(pod: &Value) -> String {
    let labels = pod.get("metadata").and_then(|metadata| metadata.get("labels")).and_then(Value::as_map);
    let labels = labels.into_iter().flat_map(|labels| labels.iter());
    let shown = labels.map(|(key, value)| format!("{}={}", key.as_str(), value.as_str().unwrap_or("?")));
    shown.collect::<Vec<_>>().join(" ")
}

/// An apply configuration that sets a label to the value of an expression.
fn label(key: &str, expression: &str) -> String {
    format!(
        r#"{{"patchType":"ApplyConfiguration","applyConfiguration":{{"expression":"Object{{metadata: Object.metadata{{labels: {{'{key}': {expression}}}}}}}"}}}}"#
    )
}

#[tokio::test]
async fn policies_change_the_object_one_after_another() {
    let setup = Setup::new().await;
    setup
        .policy(
            "a",
            &format!(r#""reinvocationPolicy":"Never","mutations":[{}]"#, label("a", "object.metadata.name")),
        )
        .await;
    let patch = r#"{"patchType":"JSONPatch","jsonPatch":{"expression":"[JSONPatch{op: 'add', path: '/metadata/labels/' + jsonpatch.escapeKey('x'), value: object.metadata.labels.a + '!'}]"}}"#;
    setup
        .policy(
            "b",
            &format!(
                r#""reinvocationPolicy":"Never","mutations":[{patch},{}]"#,
                label("c", "object.metadata.labels.x")
            ),
        )
        .await;
    assert_eq!(setup.create().await, "a=p c=p! x=p!");
}

#[tokio::test]
async fn nothing_happens_without_the_gate_or_a_match() {
    let mut setup = Setup::new().await;
    setup.policy("a", &format!(r#""reinvocationPolicy":"Never","matchConditions":[{{"name":"m","expression":"object.metadata.name == 'q'"}}],"mutations":[{}]"#, label("a", "'1'"))).await;
    assert_eq!(setup.create().await, "");
    setup.policy("a", &format!(r#""reinvocationPolicy":"Never","mutations":[{}]"#, label("a", "'1'"))).await;
    assert_eq!(setup.create().await, "a=1");
    assert!(!setup.plugin().handles(Operation::Delete));
    setup.fixture.settings.gates.mutating_admission_policy = false;
    assert!(setup.plugin().handles(Operation::Create));
    assert_eq!(setup.create().await, "");
    assert_eq!(MutatingAdmissionPolicy::NAME, "MutatingAdmissionPolicy");
}

#[tokio::test]
async fn the_failure_policy_decides_about_mutations_that_fail() {
    let setup = Setup::new().await;
    let failing = format!(
        r#""reinvocationPolicy":"Never","mutations":[{},{}]"#,
        label("a", "object.none"),
        label("b", "'1'")
    );
    setup.policy("a", &failing).await;
    let found = setup.create().await;
    assert!(
        found.starts_with(
            "403 Invalid policy 'a' with binding 'a-binding' denied request: expression 'Object{"
        ),
        "{found}"
    );
    assert!(found.ends_with("resulted in error: no such key: none"), "{found}");
    setup.policy("a", &format!(r#""failurePolicy":"Ignore",{failing}"#)).await;
    assert_eq!(setup.create().await, "b=1");
    let unknown = r#""reinvocationPolicy":"Never","paramKind":{"apiVersion":"x.example.com/v1","kind":"Odd"},"mutations":[]"#;
    setup.policy("a", unknown).await;
    assert_eq!(
        setup.create().await,
        r#"403 Forbidden policy "a" denied request: failed to configure policy: failed to find resource referenced by paramKind: 'x.example.com/v1, Kind=Odd'"#
    );
}

#[tokio::test]
async fn policies_are_applied_again_after_a_change_if_they_want_to() {
    let setup = Setup::new().await;
    for (name, again) in [("a", "IfNeeded"), ("b", "Never")] {
        let count = format!(
            "string(has(object.metadata.labels) && has(object.metadata.labels.{name}) ? int(object.metadata.labels.{name}) + 1 : 1)"
        );
        setup
            .policy(name, &format!(r#""reinvocationPolicy":"{again}","mutations":[{}]"#, label(name, &count)))
            .await;
    }
    let chain = Chain::new([Box::new(setup.plugin()) as Box<dyn Plugin>]);
    let write = Write::create("pods", POD);
    let after = write.through(async |attributes, object| chain.mutate(attributes, Some(object)).await);
    assert_eq!(labels(&after.await.unwrap().1), "a=2 b=1");
}
