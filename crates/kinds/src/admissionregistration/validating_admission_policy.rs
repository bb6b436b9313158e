//! `validatingadmissionpolicies`.

use super::webhooks::one_of;
use super::{PARAM_KIND, RegistrationStrategy, default_policy, param_kind, policy};
use crate::Resets;
use crate::cells::count;
use crate::checks;
use crate::{About, Cell, Column, Kind, OldVersion, Subresource, Version, columns, metadata};
use object::field::{Error, List, Path};
use object::name::{invalid, qualified_name};
use object::{Map, Value};
use schema::view::{Items, View};
use schema::views::admissionregistration::v1::{AuditAnnotation, ValidatingAdmissionPolicy, Validation};
use std::collections::HashSet;

/// The row.
pub(crate) const KIND: Kind = Kind {
    resource: "validatingadmissionpolicies",
    singular: "validatingadmissionpolicy",
    kind: "ValidatingAdmissionPolicy",
    versions: &[
        Version::V1,
        Version::on_request("v1beta1").deprecated(
            "admissionregistration.k8s.io/v1beta1 ValidatingAdmissionPolicy is deprecated in v1.31+, unavailable in v1.34+",
        ),
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

/// The field errors of a policy, which takes the place of `old`, but for those of its metadata. Whether an
/// expression compiles is not checked.
fn validate(object: &Map, old: Option<&Map>) -> List {
    let spec = ValidatingAdmissionPolicy::of(object).spec();
    let before = old.map(|old| ValidatingAdmissionPolicy::of(old).spec().map());
    let path = Path::new("spec");
    let mut errors = policy::head(spec.map(), before, &path);
    errors.append(policy::variables(spec.variables(), &path.child("variables")));
    let (validations, annotations) = (path.child("validations"), path.child("auditAnnotations"));
    if spec.validations().is_empty() && spec.audit_annotations().is_empty() {
        let why = "validations or auditAnnotations must contain at least one item";
        errors.push(Error::required(&validations, why));
        errors.push(Error::required(&annotations, why));
    }
    for (at, validation) in spec.validations().iter().enumerate() {
        errors.append(validate_validation(validation, &validations.index(at)));
    }
    errors.append(validate_annotations(metadata(object).name(), spec.audit_annotations(), &annotations));
    errors
}

fn validate_validation(validation: Validation<'_>, path: &Path<'_>) -> List {
    let mut errors = List::new();
    if validation.expression().trim().is_empty() {
        errors.push(Error::required(&path.child("expression"), "expression is not specified"));
    }
    let is_blank = |text: &str| !text.is_empty() && text.trim().is_empty();
    let of_message = validation.message_expression();
    if is_blank(of_message) {
        let why = "must be non-empty if specified";
        errors.push(Error::invalid(&path.child("messageExpression"), of_message, why));
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

fn validate_annotations(policy: &str, all: Items<'_, AuditAnnotation<'_>>, path: &Path<'_>) -> List {
    let mut errors = List::new();
    if all.len() > MOST_ANNOTATIONS {
        let why = format!("must not have more than {MOST_ANNOTATIONS} auditAnnotations");
        let shown = checks::shown(Some(&Value::from_iter(all.values().iter().cloned())));
        errors.push(Error::invalid(path, shown, why));
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
        let why = match annotation.value_expression().trim().len() {
            0 => Some("valueExpression is not specified".to_owned()),
            length if length > LONGEST_EXPRESSION => {
                Some(format!("must not exceed {LONGEST_EXPRESSION} bytes in length"))
            }
            _ => None,
        };
        errors.extend(why.map(|why| Error::required(&path.child("valueExpression"), why)));
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

    #[test]
    fn validations_variables_and_annotations_are_checked() {
        let errors = create(&policy(&format!(
            r#"{RULES},"variables":[{{"name":"1x","expression":"true"}},{{"name":"","expression":""}}],"validations":[{{"expression":" ","message":"a\nb","messageExpression":" ","reason":"Because"}}],"auditAnnotations":[{{"key":"k","valueExpression":"x"}},{{"key":"k","valueExpression":""}}]"#
        )));
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
