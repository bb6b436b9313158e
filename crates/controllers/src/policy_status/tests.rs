use super::type_checking::check;
use super::*;
use crate::Counters;
use crate::testing::Fixture;
use kinds::{ResourceType, Scope};
use registry::{Conversion, CustomKind, CustomVersion, Patch};
use schema::structural::Structural;
use schema::view::View;
use schema::views::apiextensions::v1::{CustomResourceDefinition, JSONSchemaProps};
use schema::{Builder, GroupVersionKind, Limits, Shape, Type};

/// Policies with what the reference says of them, and the definitions that they need. The numbers that the
/// reference appends to names of types are left out.
const REFERENCE: &str = include_str!("../../tests/reference/type-checking.json");

fn decode_as(ty: &'static Type, value: &Value) -> Map {
    let mut text = Vec::new();
    json::encode_shape(&Shape::Any, value, &mut text);
    json::decode(ty, &text, &Limits::REQUEST).unwrap().value.as_map().unwrap().clone()
}

/// The kind of a definition in all its versions.
fn custom(definition: &Map) -> CustomKind {
    let spec = CustomResourceDefinition::of(definition).spec();
    let version_of = |version: schema::views::apiextensions::v1::CustomResourceDefinitionVersion<'_>| {
        let kind = GroupVersionKind {
            group: spec.group().into(),
            version: version.name().into(),
            kind: spec.names().kind().into(),
        };
        let source = version.schema().and_then(|schema| schema.open_apiv3_schema()).unwrap();
        let compiled = Structural::compile(JSONSchemaProps::of(source.map())).unwrap();
        let name = format!("{}.{}", version.name(), spec.names().kind());
        let ty = Builder::new(name).kind(kind.clone()).object().custom(compiled).build();
        let resource_type = ResourceType::custom(&kind, spec.names().plural(), Scope::Namespaced, ty);
        CustomVersion { resource_type: Arc::new(resource_type), served: true }
    };
    CustomKind {
        versions: spec.versions().iter().map(version_of).collect(),
        storage_version: spec.versions().get(0).unwrap().name().into(),
        conversion: Conversion::None,
    }
}

/// A text without the numbers after names of types, which differ each time.
fn without_numbers(text: &str) -> String {
    let mut out = String::new();
    let mut is_name = false;
    let mut before = ' ';
    for char in text.chars() {
        let begins = char.is_ascii_uppercase() && !before.is_ascii_alphanumeric();
        is_name = begins || (is_name && char.is_ascii_alphanumeric());
        if !(is_name && char.is_ascii_digit()) {
            out.push(char);
        }
        before = char;
    }
    out
}

#[tokio::test]
async fn warnings_are_those_of_the_reference() {
    let fixture = Fixture::new().await;
    let reference = json::decode_shape(&Shape::Any, REFERENCE.as_bytes(), &Limits::default()).unwrap().value;
    let list = |value: &Value, key: &str| value.get(key).and_then(Value::as_list).unwrap().to_vec();
    for definition in list(&reference, "definitions") {
        let definition = decode_as(CustomResourceDefinition::schema(), &definition);
        fixture.client.registry().install(custom(&definition)).await.unwrap();
    }
    let catalog = fixture.client.registry().catalog();
    let policies = list(&reference, "policies");
    assert!(policies.len() > 60);
    for policy in policies {
        let name = policy.get("name").and_then(Value::as_str).unwrap();
        let decoded = decode_as(
            ValidatingAdmissionPolicy::schema(),
            &object([("spec", policy.get("spec").unwrap().clone())]),
        );
        let found = check(ValidatingAdmissionPolicy::of(&decoded), &catalog);
        let found: Vec<(String, String)> =
            found.into_iter().map(|warning| (warning.field, without_numbers(&warning.text))).collect();
        let text = |warning: &Value, key: &str| warning.get(key).and_then(Value::as_str).unwrap().to_owned();
        let expected: Vec<(String, String)> = list(&policy, "warnings")
            .iter()
            .map(|warning| (text(warning, "fieldRef"), text(warning, "warning")))
            .collect();
        assert_eq!(found, expected, "{name}");
    }
}

#[tokio::test]
async fn warnings_of_a_policy_have_a_bound() {
    let fixture = Fixture::new().await;
    let text = format!("object.x == '{}'", "a".repeat(15_000));
    let validation = object([("expression", text.into())]);
    let rules = json::decode_shape(&Shape::Any, RULES.as_bytes(), &Limits::default()).unwrap().value;
    let spec = object([("matchConstraints", rules), ("validations", vec![validation; 100].into())]);
    let policy = decode_as(ValidatingAdmissionPolicy::schema(), &object([("spec", spec)]));
    let warnings = check(ValidatingAdmissionPolicy::of(&policy), &fixture.client.registry().catalog());
    let bytes: usize = warnings.iter().map(|warning| warning.text.len()).sum();
    assert!((900_000..=1 << 20).contains(&bytes), "{bytes}");
    assert_eq!(warnings[0].field, "spec.validations[0].expression");
}

const RULES: &str = r#"{"resourceRules":[{"operations":["CREATE"],"apiGroups":["apps"],"apiVersions":["v1"],"resources":["deployments"]}]}"#;

fn address() -> Address<'static> {
    Address::v1(GROUP, RESOURCE, "").named("p")
}

impl Fixture {
    /// Makes a policy with an expression.
    async fn policy(&self, expression: &str) {
        let text = format!(
            r#"{{"metadata":{{"name":"p"}},"spec":{{"matchConstraints":{RULES},"validations":[{{"expression":"{expression}"}}]}}}}"#
        );
        self.create(address(), &text).await;
    }

    /// Waits until the newest generation of the policy was checked, and returns its status as JSON.
    async fn checked(&self, generation: i64) -> String {
        let status = async || {
            let policy = self.client.get(address()).await.unwrap();
            policy.get("status").cloned().unwrap_or_default()
        };
        self.until("a status of the generation", async || {
            status().await.get("observedGeneration").and_then(Value::as_i64) == Some(generation)
        })
        .await;
        let mut out = Vec::new();
        json::encode_shape(&Shape::Any, &status().await, &mut out);
        String::from_utf8(out).unwrap()
    }
}

#[tokio::test]
async fn status_says_what_is_wrong_with_each_generation() {
    let fixture = Fixture::new().await;
    let _running = fixture.start(&CONTROLLER);
    fixture.policy("object.spec.replicas > 1").await;
    assert_eq!(fixture.checked(1).await, r#"{"observedGeneration":1,"typeChecking":{}}"#);
    let change = async |expression: &str| {
        let patch = format!(r#"{{"spec":{{"validations":[{{"expression":"{expression}"}}]}}}}"#);
        fixture.client.patch(address(), Patch::Merge, patch.as_bytes()).await.unwrap();
    };
    change("object.x == 1").await;
    assert_eq!(
        fixture.checked(2).await,
        r#"{"observedGeneration":2,"typeChecking":{"expressionWarnings":[{"fieldRef":"spec.validations[0].expression","warning":"apps/v1, Kind=Deployment: ERROR: \u003cinput\u003e:1:7: undefined field 'x'\n | object.x == 1\n | ......^\n"}]}}"#
    );
    // Server-side apply removes what is empty without the warnings.
    change("true").await;
    assert_eq!(fixture.checked(3).await, r#"{"observedGeneration":3}"#);
    let entry = fixture.lookup("validatingadmissionpolicies.admissionregistration.k8s.io", "", "p").unwrap();
    let stored = str::from_utf8(entry.bytes()).unwrap();
    assert!(stored.contains(&format!(r#""manager":"{MANAGER}","operation":"Apply""#)), "{stored}");
}

#[tokio::test]
async fn what_another_manager_has_checked_is_left_alone() {
    let fixture = Fixture::new().await;
    fixture.policy("object.x == 1").await;
    let status = br#"{"status":{"observedGeneration":1,"typeChecking":{}}}"#;
    fixture.client.patch(address().subresource("status"), Patch::Merge, status).await.unwrap();
    let counters: Arc<Counters> = Arc::default();
    let _running = fixture.start_counted(&CONTROLLER, counters.clone());
    fixture.until("a look at the policy", async || counters.done() >= 1).await;
    let patch = br#"{"metadata":{"labels":{"a":"b"}}}"#;
    fixture.client.patch(address(), Patch::Merge, patch).await.unwrap();
    fixture.until("another look at the policy", async || counters.done() >= 2).await;
    assert_eq!(fixture.checked(1).await, r#"{"observedGeneration":1,"typeChecking":{}}"#);
}
