//! `validatingadmissionpolicybindings`.

use super::{match_resources, parameters, policy};
use crate::checks;
use crate::defaults::at;
use crate::{
    About, Cell, Column, Columns, Generation, Kind, MetadataRules, Row, Rules, Scope, Strategy, Version,
};
use object::Map;
use object::field::{Error, List, Path};
use schema::view::{Items, View};
use schema::views::admissionregistration::v1::{
    ValidatingAdmissionPolicyBinding, ValidatingAdmissionPolicyBindingSpec,
};
use std::collections::HashSet;

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "admissionregistration.k8s.io",
    resource: "validatingadmissionpolicybindings",
    singular: "validatingadmissionpolicybinding",
    kind: "ValidatingAdmissionPolicyBinding",
    categories: &["api-extensions"],
    scope: Scope::Cluster,
    versions: &[
        Version::V1,
        Version::on_request("v1beta1").deprecated(
            "admissionregistration.k8s.io/v1beta1 ValidatingAdmissionPolicyBinding is deprecated in v1.31+, unavailable in v1.34+",
        ),
    ],
    columns: Columns {
        list: &[
            Column::NAME,
            Column::text(
                "PolicyName",
                About::Text("PolicyName indicates the policy definition which the policy binding binded to"),
            ),
            Column::text(
                "ParamRef",
                About::Text("ParamRef indicates the param resource which sets the configration param"),
            ),
            Column::AGE,
        ],
        row,
    },
    generation: Generation::Counted,
    metadata_rules: MetadataRules::General,
    strategy: &ValidatingAdmissionPolicyBindingStrategy,
    ..Kind::PLAIN
};

fn row(object: &Map) -> Row {
    let spec = ValidatingAdmissionPolicyBinding::of(object).spec();
    let parameters = spec
        .param_ref()
        .map(|reference| parameters(reference.name(), reference.namespace(), reference.selector()));
    vec![
        Cell::name(object),
        Cell::text(spec.policy_name()),
        Cell::Text(parameters.unwrap_or_else(|| crate::cells::UNSET.into())),
        Cell::age(object),
    ]
    .into()
}

struct ValidatingAdmissionPolicyBindingStrategy;

impl Strategy for ValidatingAdmissionPolicyBindingStrategy {
    fn default(&self, object: &mut Map) {
        at(object, "spec", |spec| at(spec, "matchResources", match_resources));
    }

    fn validate_create(&self, object: &Map, rules: &Rules<'_>) -> List {
        let mut errors = rules.metadata(object);
        errors.append(validate(ValidatingAdmissionPolicyBinding::of(object).spec()));
        errors
    }

    fn validate_update(&self, new: &Map, _old: &Map, rules: &Rules<'_>) -> List {
        self.validate_create(new, rules)
    }

    fn allow_unconditional_update(&self) -> bool {
        false
    }
}

fn validate(spec: ValidatingAdmissionPolicyBindingSpec<'_>) -> List {
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
