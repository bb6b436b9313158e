//! Tests of rules on schemas and objects.

use crate::declared::Declaration;
use crate::{Change, OBJECT_BUDGET, Outcome, Validator};
use object::Value;
use object::field::Path;
use schema::structural::Structural;
use schema::view::View;
use schema::views::apiextensions::v1::JSONSchemaProps;
use schema::{Limits, Shape, json};

fn value(text: &str) -> Value {
    json::decode_shape(&Shape::Any, text.as_bytes(), &Limits::default()).unwrap().value
}

fn validator(schema: &str) -> Validator {
    let source = json::decode(JSONSchemaProps::schema(), schema.as_bytes(), &Limits::default()).unwrap();
    let schema = Structural::compile(JSONSchemaProps::of(source.value.as_map().unwrap())).unwrap();
    Validator::compile(schema.root(), Declaration::Resource).unwrap()
}

fn outcome(schema: &str, new: &str, old: Option<&str>) -> Outcome {
    let (new, old) = (value(new), old.map(value));
    let change = Change { new: &new, old: old.as_ref(), ratchets: true };
    validator(schema).validate(change, OBJECT_BUDGET, &Path::UNSET, &|work| work())
}

fn errors(outcome: &Outcome) -> Vec<String> {
    outcome.errors.iter().map(ToString::to_string).collect()
}

/// The errors of a new object.
fn create(schema: &str, new: &str) -> Vec<String> {
    errors(&outcome(schema, new, None))
}

/// The errors of a change.
fn update(schema: &str, new: &str, old: &str) -> Vec<String> {
    errors(&outcome(schema, new, Some(old)))
}

/// A schema whose `spec` has these rules and these properties.
fn spec(rules: &str, properties: &str) -> String {
    format!(
        r#"{{"type":"object","properties":{{"spec":{{"type":"object","x-kubernetes-validations":{rules},"properties":{properties}}}}}}}"#
    )
}

const NONE: [&str; 0] = [];

#[test]
fn a_rule_that_is_false_is_an_error_with_its_text_or_its_message() {
    let of = |message: &str| {
        let rule = format!(r#"[{{"rule":" self.min <= self.max "{message}}}]"#);
        spec(&rule, r#"{"min":{"type":"integer"},"max":{"type":"integer"}}"#)
    };
    let bad = r#"{"spec":{"min":2,"max":1}}"#;
    assert_eq!(create(&of(""), r#"{"spec":{"min":1,"max":1}}"#), NONE);
    assert_eq!(create(&of(""), bad), [r#"spec: Invalid value: "object": failed rule: self.min <= self.max"#]);
    assert_eq!(
        create(&of(r#","message":" too small ""#), bad),
        [r#"spec: Invalid value: "object": too small"#]
    );
    assert_eq!(
        create(&of(r#","messageExpression":"'min is ' + string(self.min)""#), bad),
        [r#"spec: Invalid value: "object": min is 2"#]
    );
}

#[test]
fn a_message_that_cannot_be_made_gives_way_to_the_text() {
    let of = |expression: &str| {
        let rule = format!(r#"[{{"rule":"false","message":"plain","messageExpression":"{expression}"}}]"#);
        create(&spec(&rule, r#"{"a":{"type":"string"}}"#), r#"{"spec":{"a":"x\ny"}}"#)
    };
    for expression in ["''", "'  '", "self.a", "string(1/0)"] {
        assert_eq!(of(expression), [r#"spec: Invalid value: "object": plain"#], "{expression}");
    }
    assert_eq!(of("' made '"), [r#"spec: Invalid value: "object": made"#]);
}

#[test]
fn reason_and_field_path_are_those_of_the_rule() {
    let of = |rest: &str| {
        let rule = format!(r#"[{{"rule":"false","message":"m"{rest}}}]"#);
        let properties = r#"{"a":{"type":"object","properties":{"b":{"type":"string"}}},"m":{"type":"object","additionalProperties":{"type":"string"}}}"#;
        create(&spec(&rule, properties), r#"{"spec":{}}"#)
    };
    assert_eq!(of(r#","reason":"FieldValueForbidden","fieldPath":".a.b""#), ["spec.a.b: Forbidden: m"]);
    assert_eq!(of(r#","reason":"FieldValueRequired","fieldPath":".a""#), ["spec.a: Required value: m"]);
    assert_eq!(of(r#","reason":"FieldValueDuplicate""#), [r#"spec: Duplicate value: "object""#]);
    assert_eq!(
        of(r#","reason":"FieldValueInvalid","fieldPath":".m['k']""#),
        [r#"spec.m[k]: Invalid value: "object": m"#]
    );
}

#[test]
fn rules_with_old_self_compare_changes_alone() {
    let schema = spec(r#"[{"rule":"self.a >= oldSelf.a"}]"#, r#"{"a":{"type":"integer"}}"#);
    assert_eq!(create(&schema, r#"{"spec":{"a":1}}"#), NONE);
    assert_eq!(update(&schema, r#"{"spec":{"a":1}}"#, r#"{}"#), NONE);
    assert_eq!(update(&schema, r#"{"spec":{"a":3}}"#, r#"{"spec":{"a":2}}"#), NONE);
    assert_eq!(
        update(&schema, r#"{"spec":{"a":1}}"#, r#"{"spec":{"a":2}}"#),
        [r#"spec: Invalid value: "object": failed rule: self.a >= oldSelf.a"#]
    );
}

#[test]
fn an_optional_old_self_is_there_for_new_values_too() {
    let rule = r#"[{"rule":"oldSelf.hasValue() ? self.a == oldSelf.value().a : self.a == 0","message":"m","optionalOldSelf":true}]"#;
    let schema = spec(rule, r#"{"a":{"type":"integer"}}"#);
    assert_eq!(create(&schema, r#"{"spec":{"a":0}}"#), NONE);
    assert_eq!(create(&schema, r#"{"spec":{"a":1}}"#), [r#"spec: Invalid value: "object": m"#]);
    assert_eq!(update(&schema, r#"{"spec":{"a":4}}"#, r#"{"spec":{"a":4}}"#), NONE);
}

#[test]
fn items_of_lists_with_keys_know_their_old_values() {
    let list = |ty: &str| {
        format!(
            r#"{{"type":"object","properties":{{"l":{{"type":"array",{ty}"items":{{"type":"object","required":["k"],"properties":{{"k":{{"type":"string"}},"n":{{"type":"integer"}}}},
            "x-kubernetes-validations":[{{"rule":"self.n == oldSelf.n","message":"fixed"}}]}}}}}}}}"#
        )
    };
    let keyed = list(r#""x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["k"],"#);
    let (new, old) =
        (r#"{"l":[{"k":"b","n":2},{"k":"a","n":9}]}"#, r#"{"l":[{"k":"a","n":1},{"k":"b","n":2}]}"#);
    assert_eq!(update(&keyed, new, old), [r#"l[1]: Invalid value: "object": fixed"#]);
    assert_eq!(update(&list(""), new, old), NONE);
}

#[test]
fn errors_of_values_that_did_not_change_are_warnings() {
    let schema = spec(
        r#"[{"rule":"false","message":"never"}]"#,
        r#"{"a":{"type":"integer","x-kubernetes-validations":[{"rule":"self < 3","message":"small"}]},"b":{"type":"integer"}}"#,
    );
    let same = outcome(&schema, r#"{"spec":{"a":5,"b":1}}"#, Some(r#"{"spec":{"a":5,"b":1}}"#));
    assert_eq!(errors(&same), NONE);
    assert_eq!(
        same.warnings,
        [r#"spec: Invalid value: "object": never"#, r#"spec.a: Invalid value: "integer": small"#]
    );
    let changed = outcome(&schema, r#"{"spec":{"a":5,"b":2}}"#, Some(r#"{"spec":{"a":5,"b":1}}"#));
    assert_eq!(errors(&changed), [r#"spec: Invalid value: "object": never"#]);
    assert_eq!(changed.warnings, [r#"spec.a: Invalid value: "integer": small"#]);
}

#[test]
fn faults_of_an_evaluation_name_the_rule() {
    let of = |rule: &str| {
        let rule = format!(r#"[{{"rule":"{rule}"}}]"#);
        let properties = r#"{"a":{"type":"integer"},"l":{"type":"array","items":{"type":"integer"}},"x":{"x-kubernetes-int-or-string":true}}"#;
        create(&spec(&rule, properties), r#"{"spec":{"a":0,"l":[1],"x":"s"}}"#)
    };
    assert_eq!(
        of("1 / self.a == 1"),
        [r#"spec: Invalid value: "object": division by zero evaluating rule: 1 / self.a == 1"#]
    );
    assert_eq!(
        of("self.l[4] == 1"),
        [r#"spec: Invalid value: "object": index out of bounds: 4 evaluating rule: self.l[4] == 1"#]
    );
    assert_eq!(
        of("self.x + 1 == 2"),
        [
            r#"spec: Invalid value: "object": 'no such overload': call arguments did not match a supported operator, function or macro signature for rule: self.x + 1 == 2"#
        ]
    );
}

#[test]
fn a_rule_that_costs_too_much_is_the_last_one() {
    let schema = spec(
        r#"[{"rule":"self.l.all(a, self.l.all(b, self.l.all(c, a + b + c >= 0)))"},{"rule":"false"}]"#,
        r#"{"l":{"type":"array","items":{"type":"integer"}}}"#,
    );
    let list: Vec<_> = (0..200).map(|number| number.to_string()).collect();
    let object = format!(r#"{{"spec":{{"l":[{}]}}}}"#, list.join(","));
    let found = outcome(&schema, &object, None);
    assert_eq!(
        errors(&found),
        [
            r#"spec: Invalid value: "object": 'operation cancelled: actual cost limit exceeded': no further validation rules will be run due to call cost exceeds limit for rule: self.l.all(a, self.l.all(b, self.l.all(c, a + b + c >= 0)))"#
        ]
    );
    assert_eq!(found.left, 0);
}

#[test]
fn all_rules_together_have_one_budget() {
    let rules = vec![r#"{"rule":"self.l.all(a, self.l.all(b, a + b >= 0))"}"#; 60].join(",");
    let schema = spec(&format!("[{rules}]"), r#"{"l":{"type":"array","items":{"type":"integer"}}}"#);
    let list: Vec<_> = (0..300).map(|number| number.to_string()).collect();
    let object = format!(r#"{{"spec":{{"l":[{}]}}}}"#, list.join(","));
    assert_eq!(
        create(&schema, &object),
        [
            r#"spec: Invalid value: "object": validation failed due to running out of cost budget, no further validation rules will be run"#
        ]
    );
}

#[test]
fn the_root_sees_the_names_of_its_metadata() {
    let schema = r#"{"type":"object","x-kubernetes-validations":[{"rule":"self.metadata.name.startsWith('a') && self.kind == 'K'"}]}"#;
    let of = |name: &str| {
        create(schema, &format!(r#"{{"apiVersion":"x/v1","kind":"K","metadata":{{"name":"{name}"}}}}"#))
    };
    assert_eq!(of("ab"), NONE);
    assert_eq!(of("b").len(), 1);
    let labels =
        r#"{"type":"object","x-kubernetes-validations":[{"rule":"self.metadata.labels.size() == 0"}]}"#;
    let errors = create(labels, r#"{"metadata":{"name":"a"}}"#);
    assert!(
        errors[0].contains(
            "rule compile error: compilation failed: ERROR: <input>:1:14: undefined field 'labels'"
        ),
        "{errors:?}"
    );
}

#[test]
fn rules_below_all_of_hold_beside_others() {
    let schema = r#"{"type":"object","properties":{"a":{"type":"integer","x-kubernetes-validations":[{"rule":"self > 0"}],
        "allOf":[{"x-kubernetes-validations":[{"rule":"self > 1"}]}]}}}"#;
    assert_eq!(create(schema, r#"{"a":1}"#), [r#"a: Invalid value: "integer": failed rule: self > 1"#]);
}

#[test]
fn names_that_are_words_of_the_language_are_escaped() {
    let schema = spec(
        r#"[{"rule":"self.__namespace__ == 'n' && self.a__dash__b == 1 && has(self.x__dot__y)"}]"#,
        r#"{"namespace":{"type":"string"},"a-b":{"type":"integer"},"x.y":{"type":"string"}}"#,
    );
    assert_eq!(create(&schema, r#"{"spec":{"namespace":"n","a-b":1,"x.y":""}}"#), NONE);
    assert_eq!(create(&schema, r#"{"spec":{"namespace":"n","a-b":1}}"#).len(), 1);
}

#[test]
fn equal_nodes_share_their_rules() {
    let schema = spec(r#"[{"rule":"self.shared == 1"}]"#, r#"{"shared":{"type":"integer"}}"#);
    let (one, other) = (validator(&schema), validator(&schema));
    assert!(one.shares_rules_with(&other));
}

#[test]
fn what_takes_long_is_done_beside() {
    let schema = spec(
        r#"[{"rule":"self.l.all(a, self.l.all(b, a + b >= 0))"}]"#,
        r#"{"l":{"type":"array","items":{"type":"integer"}}}"#,
    );
    let beside = |count: usize| {
        let list: Vec<_> = (0..count).map(|number| number.to_string()).collect();
        let object = value(&format!(r#"{{"spec":{{"l":[{}]}}}}"#, list.join(",")));
        let change = Change { new: &object, old: None, ratchets: false };
        let calls = std::cell::Cell::new(0);
        let found = validator(&schema).validate(change, OBJECT_BUDGET, &Path::UNSET, &|work| {
            calls.set(calls.get() + 1);
            work();
        });
        assert_eq!(errors(&found), NONE);
        calls.get()
    };
    assert_eq!((beside(10), beside(250)), (0, 1));
}

/// Without optimisation too: three quarters of the stack of a worker of the server.
#[test]
fn the_deepest_rules_of_the_deepest_schema_fit_in_the_stack_of_a_worker() {
    const LEVELS: usize = 240;
    let loops = format!("{}true{}", "self.l.all(i, ".repeat(240), ")".repeat(240));
    let of_root = r#""x-kubernetes-validations":[{"rule":"self == oldSelf"}]"#;
    let open = r#"{"type":"object","properties":{"a":"#;
    let schema = format!(
        r#"{{"type":"object",{of_root},"properties":{{"a":{}{{"type":"object","x-kubernetes-validations":[{{"rule":"{loops}"}}],"properties":{{"l":{{"type":"array","maxItems":1,"items":{{"type":"integer"}}}}}}}}{}}}}}"#,
        open.repeat(LEVELS),
        "}}".repeat(LEVELS),
    );
    let object = |number: usize| {
        format!(r#"{{"a":{}{{"l":[{number}]}}{}}}"#, r#"{"a":"#.repeat(LEVELS), "}".repeat(LEVELS))
    };
    let check = move || {
        assert_eq!(update(&schema, &object(1), &object(1)), NONE);
        let errors = update(&schema, &object(2), &object(1));
        assert_eq!(errors, [r#"<nil>: Invalid value: "object": failed rule: self == oldSelf"#]);
    };
    std::thread::Builder::new().stack_size(3 << 19).spawn(check).unwrap().join().unwrap();
}
