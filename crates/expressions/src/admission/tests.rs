//! Tests of scopes, variables and batches.

use super::*;
use crate::Stage;
use cel::Value as CelValue;
use object::Value;
use schema::{Shape, json};

fn tree(text: &str) -> Value {
    json::decode_shape(&Shape::Any, text.as_bytes(), &schema::Limits::default()).unwrap().value
}

fn fault(scope: &Scope, text: &str, purpose: Purpose) -> String {
    scope.compile(text, purpose, Stage::New).unwrap_err().to_string()
}

/// A batch over an object, with variables by name and text.
struct Setup {
    scope: Scope,
    variables: Variables,
    object: Value,
}

impl Setup {
    fn new(object: &str, variables: &[(&str, &str)]) -> Self {
        let scope = Scope::of_policy(true);
        let variables = variables.iter().map(|(name, text)| scope.add_variable(name, text, Stage::Stored));
        let variables = variables.collect::<Vec<_>>().into();
        Self { scope, variables, object: tree(object) }
    }

    /// The outcomes of conditions as text, and what is left of a budget.
    fn run(&self, texts: &[&str], left: u64, inline: u64) -> (Result<Vec<String>, Stopped>, u64) {
        let compile = |text: &&str| Some(self.scope.compile_stored(text, Purpose::Condition));
        let expressions: Vec<_> = texts.iter().map(compile).collect();
        let seen = Seen {
            object: CelValue::plain(&self.object),
            old_object: CelValue::Null,
            namespace: CelValue::Null,
            request: CelValue::Null,
            params: CelValue::Null,
            authorizer: None,
        };
        let batch = Batch { expressions: &expressions, variables: &self.variables, seen: &seen };
        let mut limits = Limits { left, inline, interrupted: None };
        let outcome = batch.evaluate(&mut limits, |outcome| match outcome {
            Ok(value) => matches!(value, CelValue::Bool(true)).to_string(),
            Err(why) => why,
        });
        (outcome.map(|all| all.into_iter().flatten().collect()), limits.left)
    }
}

#[test]
fn scopes_have_the_types_of_requests_and_namespaces() {
    let scope = Scope::of_conditions(false);
    for text in [
        "request.kind.group == 'apps' && request.namespace != ''",
        "request.userInfo.groups.exists(group, group.startsWith('system:'))",
        "request.userInfo.extra['a'][0] == 'b' && request.dryRun",
        "namespaceObject.metadata.labels['a'] == 'b' && namespaceObject.status.phase == 'Active'",
        "authorizer.requestResource.check('get').allowed()",
        "object.spec.anything == oldObject.anything",
    ] {
        scope.compile(text, Purpose::Condition, Stage::New).unwrap();
    }
    assert!(
        fault(&scope, "request.kind.wrong == ''", Purpose::Condition).contains("undefined field 'wrong'")
    );
    assert!(fault(&scope, "params.a", Purpose::Condition).contains("undeclared reference to 'params'"));
    assert!(fault(&scope, "variables.a", Purpose::Condition).contains("undeclared reference to 'variables'"));
    let refusal = fault(&scope, "authorizer.group('').resource('').check('').reason()", Purpose::Message);
    assert!(refusal.contains("undeclared reference to 'authorizer'"), "{refusal}");
    assert_eq!(fault(&scope, "'a'", Purpose::Condition), "must evaluate to bool but got string");
    assert_eq!(
        fault(&scope, "[1]", Purpose::Annotation),
        "must evaluate to one of [string null_type] but got list(int)"
    );
    assert!(Scope::of_conditions(true).compile("params.a", Purpose::Variable, Stage::New).is_ok());
}

#[test]
fn variables_have_the_types_of_their_expressions() {
    let scope = Scope::of_policy(false);
    assert!(fault(&scope, "variables.a == 1", Purpose::Condition).contains("undefined field 'a'"));
    assert!(scope.add_variable("a", "1", Stage::New).compiled.is_ok());
    assert!(scope.add_variable("b", "variables.a + 1", Stage::New).compiled.is_ok());
    assert!(scope.add_variable("wrong", "variables.c", Stage::New).compiled.is_err());
    assert!(fault(&scope, "variables.b == 'x'", Purpose::Condition).contains("no matching overload"));
    // A variable that could not be compiled can be of any type.
    assert!(scope.compile("variables.wrong == 'x'", Purpose::Condition, Stage::New).is_ok());
}

#[test]
fn variables_are_evaluated_once_when_they_are_asked_for() {
    let setup = Setup::new(
        r#"{"a":[1,2,3]}"#,
        &[("long", "object.a.map(n, n * 2)"), ("bad", "object.none"), ("next", "variables.long[0]")],
    );
    let (outcome, left) =
        setup.run(&["variables.next == 2", "variables.long[1] == 4", "true"], 1_000, u64::MAX);
    assert_eq!(outcome.unwrap(), ["true", "true", "true"]);
    let spent = 1_000 - left;
    let (_, left) = setup.run(&["variables.next == 2", "variables.next == 2"], 1_000, u64::MAX);
    assert!(1_000 - left < spent, "the variables were evaluated again");
    let (outcome, _) = setup.run(&["variables.bad == 1", "has(variables.long)"], 1_000, u64::MAX);
    assert_eq!(
        outcome.unwrap(),
        [
            r#"expression 'variables.bad == 1' resulted in error: composited variable "bad" fails to evaluate: no such key: none"#,
            "true"
        ]
    );
}

#[test]
fn a_variable_that_depends_on_itself_is_an_error() {
    let setup = Setup::new("{}", &[("a", "1"), ("b", "variables.a"), ("a", "variables.b")]);
    let (outcome, _) = setup.run(&["variables.a == 1"], 1_000, u64::MAX);
    let outcome = outcome.unwrap();
    assert!(outcome.iter().any(|text| text.contains("the variable depends on itself")), "{outcome:?}");
}

#[test]
fn a_batch_ends_with_its_budget_and_says_when_it_takes_long() {
    let setup = Setup::new(r#"{"a":[1,2,3,4,5,6,7,8,9]}"#, &[]);
    let texts = ["object.a.all(n, n > 0)", "true"];
    let (outcome, left) = setup.run(&texts, 1_000, u64::MAX);
    assert_eq!(outcome.unwrap(), ["true", "true"]);
    let cost = 1_000 - left;
    assert!(cost > 10);
    assert_eq!(setup.run(&texts, cost - 1, u64::MAX).0, Err(Stopped::OutOfBudget));
    assert_eq!(setup.run(&texts, 1_000, cost - 1).0, Err(Stopped::Long));
    assert_eq!(setup.run(&texts, 1_000, cost).0.unwrap(), ["true", "true"]);
}

#[test]
fn an_expression_without_a_plan_has_an_error() {
    let setup = Setup::new("{}", &[]);
    let (outcome, _) = setup.run(&["object.", "true"], 1_000, u64::MAX);
    let outcome = outcome.unwrap();
    assert!(outcome.iter().any(|text| text.starts_with("compilation error: compilation failed: ERROR")));
    assert_eq!(outcome.last().map(String::as_str), Some("true"));
}
