//! `validatingadmissionpolicies`.

use super::compilation::{self, Texts};
use super::webhooks::one_of;
use super::{PARAM_KIND, RegistrationStrategy, default_policy, param_kind, policy};
use crate::Resets;
use crate::cells::count;
use crate::{About, Cell, Column, Kind, OldVersion, Subresource, Version, columns, metadata};
use expressions::admission::{Purpose, Scope};
use object::Map;
use object::field::{BadValue, Error, List, Path};
use object::name::{invalid, qualified_name};
use object::quote::Quoted;
use schema::view::{Items, View};
use schema::views::admissionregistration::v1::{AuditAnnotation, ValidatingAdmissionPolicy, Validation};
use std::collections::HashSet;

/// The row.
pub(crate) const KIND: Kind = Kind {
    resource: "validatingadmissionpolicies",
    singular: "validatingadmissionpolicy",
    kind: "ValidatingAdmissionPolicy",
    versions: &[
        Version::V1.introduced(30),
        Version::on_request("v1beta1").introduced(28).deprecated(31).removed(34),
    ],
    old_versions: &[OldVersion::named("admissionregistration.k8s.io/v1alpha1")],
    subresources: &[Subresource::STATUS],
    columns: columns!(|object| [
        Column::NAME => Cell::name(object),
        Column::integer(
            "Validations",
            About::Text("Validations indicates the number of validation rules defined in this configuration"),
        ) => count(ValidatingAdmissionPolicy::of(object).spec().validations()),
        PARAM_KIND => param_kind(object),
        Column::AGE => Cell::age(object),
    ]),
    resets: &Resets::STATUS_WITHOUT_METADATA,
    strategy: &RegistrationStrategy { default: default_policy, validate },
    ..super::PLAIN
};

/// The texts of the expressions that a policy had before, by their purposes.
#[derive(Default)]
struct Stored<'a> {
    /// Of validations; variables are compared with them too.
    conditions: Texts<'a>,
    messages: Texts<'a>,
    annotations: Texts<'a>,
}

impl<'a> Stored<'a> {
    fn of(policy: ValidatingAdmissionPolicy<'a>) -> Self {
        let spec = policy.spec();
        let validations = || spec.validations().iter();
        Self {
            conditions: validations().map(|validation| validation.expression()).collect(),
            messages: validations().map(|validation| validation.message_expression()).collect(),
            annotations: spec.audit_annotations().iter().map(|of| of.value_expression()).collect(),
        }
    }
}

/// The field errors of a policy, which takes the place of `old`, but for those of its metadata.
fn validate(object: &Map, old: Option<&Map>) -> List {
    let spec = ValidatingAdmissionPolicy::of(object).spec();
    let old = old.map(ValidatingAdmissionPolicy::of);
    let stored = old.map(Stored::of).unwrap_or_default();
    let path = Path::new("spec");
    let mut errors = policy::head(spec.map(), old.map(|old| old.spec().map()), &path);
    let has_params = spec.param_kind().is_some();
    // Without variables there is no `variables` either.
    let scope = match spec.variables().is_empty() {
        true => Scope::of_conditions(has_params),
        false => Scope::of_policy(has_params),
    };
    let variables = path.child("variables");
    errors.append(policy::variables(spec.variables(), &scope, &stored.conditions, &variables));
    let (validations, annotations) = (path.child("validations"), path.child("auditAnnotations"));
    if spec.validations().is_empty() && spec.audit_annotations().is_empty() {
        let why = "validations or auditAnnotations must contain at least one item";
        errors.push(Error::required(&validations, why));
        errors.push(Error::required(&annotations, why));
    }
    for (at, validation) in spec.validations().iter().enumerate() {
        errors.append(validate_validation(validation, &scope, &stored, &validations.index(at)));
    }
    let name = metadata(object).name();
    let of_policy = spec.audit_annotations();
    errors.append(validate_annotations(name, of_policy, &scope, &stored.annotations, &annotations));
    errors
}

fn validate_validation(
    validation: Validation<'_>,
    scope: &Scope,
    stored: &Stored<'_>,
    path: &Path<'_>,
) -> List {
    let mut errors = List::new();
    let (text, at) = (validation.expression(), path.child("expression"));
    if text.trim().is_empty() {
        errors.push(Error::required(&at, "expression is not specified"));
    } else {
        let stage = stored.conditions.stage(text);
        errors.extend(compilation::check(scope, text, Purpose::Condition, stage, &at));
    }
    let is_blank = |text: &str| !text.is_empty() && text.trim().is_empty();
    let (text, at) = (validation.message_expression(), path.child("messageExpression"));
    if is_blank(text) {
        errors.push(Error::invalid(&at, text, "must be non-empty if specified"));
    } else if !text.is_empty() {
        let stage = stored.messages.stage(text);
        errors.extend(compilation::check(scope, text, Purpose::Message, stage, &at));
    }
    let message = validation.message();
    let why = match () {
        () if is_blank(message) => Some("message must be non-empty if specified"),
        () if message.trim().contains(['\n', '\r']) => Some("message must not contain line breaks"),
        () => None,
    };
    errors.extend(why.map(|why| Error::invalid(&path.child("message"), message, why)));
    let reasons = ["Forbidden", "Invalid", "RequestEntityTooLarge"];
    errors.append(one_of(path, "reason", validation.reason(), &reasons));
    errors
}

const MOST_ANNOTATIONS: usize = 20;
/// The most bytes of the expression of an annotation.
const LONGEST_EXPRESSION: usize = 5 << 10;

/// Annotations as the Go types of the reference print.
fn shown_annotations(all: Items<'_, AuditAnnotation<'_>>) -> BadValue {
    let each: Vec<_> = all
        .iter()
        .map(|of| {
            let (key, value) = (Quoted(of.key()), Quoted(of.value_expression()));
            format!("admissionregistration.AuditAnnotation{{Key:{key}, ValueExpression:{value}}}")
        })
        .collect();
    BadValue::Raw(format!("[]admissionregistration.AuditAnnotation{{{}}}", each.join(", ")))
}

fn validate_annotations(
    policy: &str,
    all: Items<'_, AuditAnnotation<'_>>,
    scope: &Scope,
    stored: &Texts<'_>,
    path: &Path<'_>,
) -> List {
    let mut errors = List::new();
    if all.len() > MOST_ANNOTATIONS {
        let why = format!("must not have more than {MOST_ANNOTATIONS} auditAnnotations");
        errors.push(Error::invalid(path, shown_annotations(all), why));
    }
    let mut keys = HashSet::new();
    for (at, annotation) in all.iter().enumerate() {
        let path = path.index(at);
        let (key, key_path) = (annotation.key(), path.child("key"));
        if policy.is_empty() {
            errors.push(Error::invalid(&key_path, key, "requires metadata.name be non-empty"));
        } else {
            let name = format!("{policy}/{key}");
            errors.append(invalid(&key_path, &name, qualified_name(&name)));
        }
        let (text, at) = (annotation.value_expression(), path.child("valueExpression"));
        match text.trim() {
            "" => errors.push(Error::required(&at, "valueExpression is not specified")),
            trimmed if trimmed.len() > LONGEST_EXPRESSION => {
                let why = format!("must not exceed {LONGEST_EXPRESSION} bytes in length");
                errors.push(Error::required(&at, why));
            }
            trimmed => {
                // The error shows the whole text, but counts its columns without leading white space.
                let compiled = scope.compile(trimmed, Purpose::Annotation, stored.stage(text));
                errors.extend(compiled.err().map(|fault| compilation::error(&fault, text, &at)));
            }
        }
        if !keys.insert(key) {
            errors.push(Error::duplicate(&key_path, key));
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use crate::testing::{create, status};

    fn policy(spec: &str) -> String {
        format!(
            r#"{{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicy","spec":{{{spec}}}}}"#
        )
    }

    const RULES: &str = r#""matchConstraints":{"resourceRules":[{"operations":["CREATE"],"apiGroups":["x"],"apiVersions":["v1"],"resources":["nones"]}]}"#;

    #[test]
    fn policies_say_what_they_match_and_what_they_check() {
        let both = "Required value: validations or auditAnnotations must contain at least one item";
        assert_eq!(
            create(&policy("")),
            [
                "spec.matchConstraints: Required value".to_owned(),
                format!("spec.validations: {both}"),
                format!("spec.auditAnnotations: {both}"),
            ]
        );
        assert_eq!(
            create(&policy(
                r#""failurePolicy":"Shrug","paramKind":{"apiVersion":"a/b/c","kind":""},"matchConstraints":{"resourceRules":[{"operations":["CREATE"],"apiGroups":["x"],"apiVersions":["v1"],"resources":["nones"],"resourceNames":["a","a","b/c"]}]},"validations":[{"expression":"true"}]"#
            )),
            [
                r#"spec.failurePolicy: Unsupported value: "Shrug": supported values: "Fail", "Ignore""#,
                r#"spec.paramKind.apiVersion: Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c"#,
                "spec.paramKind.kind: Required value",
                r#"spec.matchConstraints.resourceRules[0].resourceNames[1]: Duplicate value: "a""#,
                r#"spec.matchConstraints.resourceRules[0].resourceNames[2]: Invalid value: "b/c": may not contain '/'"#,
            ]
        );
    }

    /// The errors of a policy with these fields, and a fault of the expression as errors show it.
    fn errors(spec: &str) -> Vec<String> {
        create(&policy(&format!("{RULES},{spec}")))
    }

    fn fault(at: usize, what: &str, text: &str) -> String {
        let caret = format!("{}^", ".".repeat(at - 1));
        format!("compilation failed: ERROR: <input>:1:{at}: {what}\n | {text}\n | {caret}")
    }

    #[test]
    fn validations_variables_and_annotations_are_checked() {
        let errors = errors(
            r#""variables":[{"name":"1x","expression":"true"},{"name":"","expression":""}],"validations":[{"expression":" ","message":"a\nb","messageExpression":" ","reason":"Because"}],"auditAnnotations":[{"key":"k","valueExpression":"null"},{"key":"k","valueExpression":""}]"#,
        );
        assert_eq!(
            errors,
            [
                r#"spec.variables[0].name: Invalid value: "1x": name is not a valid CEL identifier"#,
                "spec.variables[1].name: Required value: name is not specified",
                "spec.variables[1].expression: Required value: expression is not specified",
                "spec.validations[0].expression: Required value: expression is not specified",
                r#"spec.validations[0].messageExpression: Invalid value: " ": must be non-empty if specified"#,
                r#"spec.validations[0].message: Invalid value: "a\nb": message must not contain line breaks"#,
                r#"spec.validations[0].reason: Unsupported value: "Because": supported values: "Forbidden", "Invalid", "RequestEntityTooLarge""#,
                "spec.auditAnnotations[1].valueExpression: Required value: valueExpression is not specified",
                r#"spec.auditAnnotations[1].key: Duplicate value: "k""#,
            ]
        );
    }

    #[test]
    fn annotations_are_few() {
        let each: Vec<_> =
            (0..21).map(|at| format!(r#"{{"key":"k{at}","valueExpression":"'a'"}}"#)).collect();
        let shown: Vec<_> = (0..21)
            .map(|at| {
                format!(r#"admissionregistration.AuditAnnotation{{Key:"k{at}", ValueExpression:"'a'"}}"#)
            })
            .collect();
        assert_eq!(
            errors(&format!(r#""auditAnnotations":[{}]"#, each.join(","))),
            [format!(
                "spec.auditAnnotations: Invalid value: []admissionregistration.AuditAnnotation{{{}}}: must not have more than 20 auditAnnotations",
                shown.join(", ")
            )]
        );
    }

    #[test]
    fn expressions_are_compiled_where_they_are_written() {
        let unknown = |name: &str| format!("undeclared reference to '{name}' (in container '')");
        assert_eq!(
            errors(
                r#""matchConditions":[{"name":"m","expression":" 1 "}],"validations":[{"expression":" nope","messageExpression":" authorizer"},{"expression":"authorizer.path('/').check('get').allowed()","messageExpression":"1"}],"auditAnnotations":[{"key":"k","valueExpression":" nope "},{"key":"l","valueExpression":" 1"}]"#
            ),
            [
                r#"spec.matchConditions[0].expression: Invalid value: "1": must evaluate to bool but got int"#.to_owned(),
                format!(r#"spec.validations[0].expression: Invalid value: " nope": {}"#, fault(2, &unknown("nope"), " nope")),
                format!(r#"spec.validations[0].messageExpression: Invalid value: " authorizer": {}"#, fault(2, &unknown("authorizer"), " authorizer")),
                r#"spec.validations[1].messageExpression: Invalid value: "1": must evaluate to string but got int"#.to_owned(),
                format!(r#"spec.auditAnnotations[0].valueExpression: Invalid value: " nope ": {}"#, fault(1, &unknown("nope"), "nope")),
                r#"spec.auditAnnotations[1].valueExpression: Invalid value: " 1": must evaluate to one of [string null_type] but got int"#.to_owned(),
            ]
        );
    }

    #[test]
    fn params_are_there_if_the_policy_has_a_kind_of_them() {
        let fields = r#""matchConditions":[{"name":"m","expression":"params.x"}],"variables":[{"name":"v","expression":"params.x"}],"validations":[{"expression":"params.x","messageExpression":"params.x"}],"auditAnnotations":[{"key":"k","valueExpression":"params.x"}]"#;
        let with = format!(r#""paramKind":{{"apiVersion":"v1","kind":"ConfigMap"}},{fields}"#);
        // Parameters have no type, and the results of conditions and messages do.
        let found: Vec<bool> = errors(&with).iter().map(|error| error.ends_with("but got dyn")).collect();
        assert_eq!(found, [true; 4]);
        let found = errors(fields);
        assert_eq!(found.len(), 5);
        assert!(found.iter().all(|error| error.contains("undeclared reference to 'params'")));
    }

    #[test]
    fn expressions_name_the_variables_before_them() {
        let variables = r#""variables":[{"name":"n","expression":"variables.t"},{"name":"t","expression":"'x'"},{"name":"l","expression":"[variables.n]"}]"#;
        assert_eq!(
            errors(&format!(
                r#"{variables},"validations":[{{"expression":"variables.t == 1"}},{{"expression":"variables.n == 1","messageExpression":"variables.l[0]"}},{{"expression":"variables.z"}}]"#
            )),
            [
                format!(r#"spec.variables[0].expression: Invalid value: "variables.t": {}"#, fault(10, "undefined field 't'", "variables.t")),
                format!(r#"spec.validations[0].expression: Invalid value: "variables.t == 1": {}"#, fault(13, "found no matching overload for '_==_' applied to '(string, int)'", "variables.t == 1")),
                r#"spec.validations[1].messageExpression: Invalid value: "variables.l[0]": must evaluate to string but got dyn"#.to_owned(),
                format!(r#"spec.validations[2].expression: Invalid value: "variables.z": {}"#, fault(10, "undefined field 'z'", "variables.z")),
            ]
        );
        let without = errors(r#""validations":[{"expression":"variables.x"}]"#);
        assert!(without[0].contains("undeclared reference to 'variables'"), "{without:?}");
    }

    #[test]
    fn text_of_before_may_use_what_the_release_before_does_not_know() {
        let text = "semver('1.0.0').major() == 1";
        let message = "string(semver('1.0.0').major())";
        let spec = |condition: &str, variable: &str, validation: &str, of_message: &str, value: &str| {
            policy(&format!(
                r#"{RULES},"matchConditions":[{{"name":"m","expression":"{condition}"}}],"variables":[{{"name":"v","expression":"{variable}"}}],"validations":[{{"expression":"{validation}","messageExpression":"{of_message}"}}],"auditAnnotations":[{{"key":"k","valueExpression":"{value}"}}]"#
            ))
        };
        let faults = |new: &str, old: &str| -> Vec<String> {
            let errors = crate::testing::update(new, old);
            assert!(errors.iter().all(|error| error.contains("'semver'")), "{errors:?}");
            errors.iter().map(|error| error.split(':').next().unwrap_or_default().to_owned()).collect()
        };
        let old = spec(text, "1", text, message, message);
        assert_eq!(create(&old).len(), 4);
        assert_eq!(faults(&old, &old), [""; 0]);
        assert_eq!(faults(&spec("true", text, text, message, message), &old), [""; 0]);
        // Variables that the policy had are not looked at.
        let with_variable = spec("true", text, "true", "'a'", "'a'");
        assert_eq!(faults(&with_variable, &with_variable), ["spec.variables[0].expression"]);
        // A match condition is looked up without its white space, an annotation with it.
        assert_eq!(faults(&spec(&format!(" {text}"), "1", text, message, message), &old), [""; 0]);
        assert_eq!(
            faults(&spec(text, "1", text, message, &format!(" {message}")), &old),
            ["spec.auditAnnotations[0].valueExpression"]
        );
    }

    #[test]
    fn status_has_warnings_and_conditions() {
        let policy = |status: &str| {
            format!(
                r#"{{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicy","status":{{{status}}}}}"#
            )
        };
        let new = policy(
            r#""typeChecking":{"expressionWarnings":[{"fieldRef":"","warning":""}]},"conditions":[{"type":"A","status":"Odd","reason":"-"}]"#,
        );
        let errors = status(&new, &policy(""));
        assert_eq!(
            errors[..4],
            [
                "status.typeChecking.expressionWarnings[0].warning: Required value",
                "status.typeChecking.expressionWarnings[0].fieldRef: Required value",
                r#"status.conditions[0].status: Unsupported value: "Odd": supported values: "False", "True", "Unknown""#,
                "status.conditions[0].lastTransitionTime: Required value: must be set",
            ]
        );
        assert!(
            errors[4]
                .starts_with(r#"status.conditions[0].reason: Invalid value: "-": a condition reason must"#)
        );
    }
}
