//! `validatingadmissionpolicybindings`.

use super::{BINDING_COLUMNS, RegistrationStrategy, match_resources, policy};
use crate::defaults::{fill_text, update_map};
use crate::{Kind, OldVersion, Version, checks};
use object::Map;
use object::field::{Error, List, Path};
use schema::view::{Items, View};
use schema::views::admissionregistration::v1::ValidatingAdmissionPolicyBinding;
use std::collections::HashSet;

/// The row.
pub(crate) const KIND: Kind = Kind {
    resource: "validatingadmissionpolicybindings",
    singular: "validatingadmissionpolicybinding",
    kind: "ValidatingAdmissionPolicyBinding",
    versions: &[
        Version::V1.introduced(30),
        Version::on_request("v1beta1").introduced(28).deprecated(31).removed(34),
    ],
    old_versions: &[OldVersion::named("admissionregistration.k8s.io/v1alpha1").by(upgrade)],
    columns: BINDING_COLUMNS,
    strategy: &RegistrationStrategy { default, validate },
    ..super::PLAIN
};

fn default(object: &mut Map) {
    update_map(object, "spec", |spec| update_map(spec, "matchResources", match_resources));
}

/// Sets the defaults of `v1alpha1`.
fn upgrade(object: &mut Map) {
    update_map(object, "spec", |spec| {
        update_map(spec, "paramRef", |reference| fill_text(reference, "parameterNotFoundAction", "Deny"));
    });
    default(object);
}

fn validate(object: &Map, _old: Option<&Map>) -> List {
    let spec = ValidatingAdmissionPolicyBinding::of(object).spec();
    let path = Path::new("spec");
    let mut errors = policy::binding(spec.map(), &path);
    errors.append(validate_actions(spec.validation_actions(), &path.child("validationActions")));
    errors
}

fn validate_actions(actions: Items<'_, &str>, path: &Path<'_>) -> List {
    let mut errors = List::new();
    let mut seen = HashSet::new();
    for (at, action) in actions.iter().enumerate() {
        let path = path.index(at);
        errors.extend(checks::one_of(action, &["Audit", "Deny", "Warn"], &path));
        errors.extend((!seen.insert(action)).then(|| Error::duplicate(&path, action)));
    }
    if seen.contains("Deny") && seen.contains("Warn") {
        let why = "must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)";
        let shown = checks::shown_texts("admissionregistration.ValidationAction", actions);
        errors.push(Error::invalid(path, shown, why));
    }
    if seen.is_empty() {
        errors.push(Error::required(path, "at least one validation action is required"));
    }
    errors
}

#[cfg(test)]
mod tests {
    use crate::testing::create;

    fn errors(spec: &str) -> Vec<String> {
        create(&format!(
            r#"{{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicyBinding","spec":{{{spec}}}}}"#
        ))
    }

    #[test]
    fn bindings_name_a_policy_and_actions() {
        assert_eq!(
            errors(""),
            [
                "spec.policyName: Required value",
                "spec.validationActions: Required value: at least one validation action is required"
            ]
        );
        assert_eq!(
            errors(r#""policyName":"p","validationActions":["Deny","Warn","Warn","X"]"#),
            [
                r#"spec.validationActions[2]: Duplicate value: "Warn""#,
                r#"spec.validationActions[3]: Unsupported value: "X": supported values: "Audit", "Deny", "Warn""#,
                r#"spec.validationActions: Invalid value: []admissionregistration.ValidationAction{"Deny", "Warn", "Warn", "X"}: must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)"#,
            ]
        );
    }

    #[test]
    fn parameters_are_named_or_selected() {
        let errors = |reference: &str| {
            errors(&format!(r#""policyName":"p","validationActions":["Deny"],"paramRef":{{{reference}}}"#))
        };
        assert_eq!(
            errors(r#""name":"a/b","selector":{}"#),
            [
                r#"spec.paramRef.name: Invalid value: "a/b": may not contain '/'"#,
                "spec.paramRef.name: Forbidden: name and selector are mutually exclusive",
                "spec.paramRef.selector: Forbidden: name and selector are mutually exclusive",
                "spec.paramRef.parameterNotFoundAction: Required value",
            ]
        );
        assert_eq!(
            errors(r#""parameterNotFoundAction":"Explode""#),
            [
                "spec.paramRef: Required value: one of name or selector must be specified",
                r#"spec.paramRef.parameterNotFoundAction: Unsupported value: "Explode": supported values: "Deny", "Allow""#,
            ]
        );
    }
}
