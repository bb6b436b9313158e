//! `mutatingadmissionpolicies`.

use super::compilation::{self, Texts};
use super::{PARAM_KIND, RegistrationStrategy, default_policy, param_kind, policy};
use crate::cells::count;
use crate::checks;
use crate::{About, Cell, Column, Kind, Version, columns};
use expressions::admission::Scope;
use expressions::patches::PatchType;
use object::Map;
use object::field::{Error, List, Path};
use schema::view::View;
use schema::views::admissionregistration::v1::ValidatingAdmissionPolicySpec;
use schema::views::admissionregistration::v1alpha1::{MutatingAdmissionPolicy, Mutation};

/// The row.
pub(crate) const KIND: Kind = Kind {
    resource: "mutatingadmissionpolicies",
    singular: "mutatingadmissionpolicy",
    kind: "MutatingAdmissionPolicy",
    versions: &[Version::on_request("v1alpha1").stored().introduced(32).deprecated(35).removed(38)],
    columns: columns!(|object| [
        Column::NAME => Cell::name(object),
        Column::integer(
            "Mutations",
            About::Text("Mutation indicates the number of mutations rules defined in this configuration"),
        ) => count(MutatingAdmissionPolicy::of(object).spec().mutations()),
        PARAM_KIND => param_kind(object),
        Column::AGE => Cell::age(object),
    ]),
    strategy: &RegistrationStrategy { default: default_policy, validate },
    ..super::PLAIN
};

/// The field errors of a policy, which takes the place of `old`, but for those of its metadata.
fn validate(object: &Map, old: Option<&Map>) -> List {
    let spec = MutatingAdmissionPolicy::of(object).spec();
    let before = old.map(|old| MutatingAdmissionPolicy::of(old).spec().map());
    let path = Path::new("spec");
    let mut errors = policy::mutating_head(spec.map(), before, &path);
    // The variables of both kinds of policies have the same fields.
    let variables = ValidatingAdmissionPolicySpec::of(spec.map()).variables();
    let scope = Scope::of_policy(spec.param_kind().is_some());
    // Variables are compared with validations, of which a mutating policy has none: all of them are new.
    errors.append(policy::variables(variables, &scope, &Texts::default(), &path.child("variables")));
    let mutations = path.child("mutations");
    if spec.mutations().is_empty() {
        errors.push(Error::required(&mutations, "mutations must contain at least one item"));
    }
    // As in the reference, both types of mutations are compared with the apply configurations of before.
    let old_mutations = old.map(|old| MutatingAdmissionPolicy::of(old).spec().mutations());
    let old_mutations = old_mutations.into_iter().flat_map(|mutations| mutations.iter());
    let stored: Texts<'_> =
        old_mutations.filter_map(|mutation| Some(mutation.apply_configuration()?.expression())).collect();
    for (at, mutation) in spec.mutations().iter().enumerate() {
        errors.append(validate_mutation(mutation, &scope, &stored, &mutations.index(at)));
    }
    let at = path.child("reinvocationPolicy");
    let of_policy = spec.reinvocation_policy();
    errors.extend(checks::required_one_of(of_policy, &["IfNeeded", "Never"], &at));
    errors
}

/// A mutation has the member that its type names, whose expression compiles.
fn validate_mutation(mutation: Mutation<'_>, scope: &Scope, stored: &Texts<'_>, path: &Path<'_>) -> List {
    let patch = mutation.json_patch().map(|patch| patch.expression());
    let apply = mutation.apply_configuration().map(|configuration| configuration.expression());
    let (of_patch, of_apply) = (("jsonPatch", patch), ("applyConfiguration", apply));
    let ty = mutation.patch_type();
    let (patch_type, (key, wanted), (other, unwanted)) = match ty {
        "JSONPatch" => (PatchType::JsonPatch, of_patch, of_apply),
        "ApplyConfiguration" => (PatchType::ApplyConfiguration, of_apply, of_patch),
        "" => return Error::required(&path.child("patchType"), "").into(),
        _ => {
            let types = ["ApplyConfiguration", "JSONPatch"];
            return Error::not_supported(&path.child("patchType"), ty, types).into();
        }
    };
    let mut errors = List::new();
    let at = path.child(key);
    match wanted {
        None => errors.push(Error::required(&at, format!("must be specified when patchType is {ty}"))),
        Some(text) => {
            let at = at.child("expression");
            let trimmed = text.trim();
            errors.extend(checks::required(trimmed, &at));
            if !trimmed.is_empty()
                && let Err(fault) = scope.compile_mutation(trimmed, patch_type, stored.stage(text))
            {
                errors.push(compilation::error(&fault, trimmed, &at));
            }
        }
    }
    if unwanted.is_some() {
        let why = format!("must not be specified when patchType is {ty}");
        errors.push(Error::invalid(&path.child(other), format!("{{{other}}}"), why));
    }
    errors
}

#[cfg(test)]
mod tests {
    use crate::testing::create;

    #[test]
    fn mutations_have_the_member_of_their_type() {
        let errors = create(
            r#"{"apiVersion":"admissionregistration.k8s.io/v1alpha1","kind":"MutatingAdmissionPolicy","spec":{
            "matchConstraints":{"resourceRules":[{"operations":["DELETE"],"apiGroups":["x"],"apiVersions":["v1"],"resources":["nones"]}]},
            "mutations":[{"patchType":"JSONPatch","applyConfiguration":{"expression":"x"}},{"patchType":"X"},{"patchType":"ApplyConfiguration","applyConfiguration":{}}]}}"#,
        );
        assert_eq!(
            errors,
            [
                r#"spec.matchConstraints.resourceRules.operations: Unsupported value: "DELETE": supported values: "*", "CONNECT", "CREATE", "UPDATE""#,
                "spec.mutations[0].jsonPatch: Required value: must be specified when patchType is JSONPatch",
                r#"spec.mutations[0].applyConfiguration: Invalid value: "{applyConfiguration}": must not be specified when patchType is JSONPatch"#,
                r#"spec.mutations[1].patchType: Unsupported value: "X": supported values: "ApplyConfiguration", "JSONPatch""#,
                "spec.mutations[2].applyConfiguration.expression: Required value",
                "spec.reinvocationPolicy: Required value",
            ]
        );
    }

    #[test]
    fn the_expression_of_a_mutation_makes_a_patch_of_its_type() {
        let errors = |mutation: &str| {
            create(&format!(
                r#"{{"apiVersion":"admissionregistration.k8s.io/v1alpha1","kind":"MutatingAdmissionPolicy","spec":{{
                "matchConstraints":{{"resourceRules":[{{"operations":["CREATE"],"apiGroups":[""],"apiVersions":["v1"],"resources":["pods"]}}]}},
                "reinvocationPolicy":"Never","mutations":[{mutation}]}}}}"#
            ))
        };
        let none: [&str; 0] = [];
        for good in [
            r#"{"patchType":"ApplyConfiguration","applyConfiguration":{"expression":"Object{metadata: Object.metadata{labels: {'a': 'b'}}}"}}"#,
            r#"{"patchType":"JSONPatch","jsonPatch":{"expression":"[JSONPatch{op: 'add', path: '/a', value: object.b}]"}}"#,
        ] {
            assert_eq!(errors(good), none, "{good}");
        }
        assert_eq!(
            errors(r#"{"patchType":"ApplyConfiguration","applyConfiguration":{"expression":" 'a' "}}"#),
            [
                r#"spec.mutations[0].applyConfiguration.expression: Invalid value: "'a'": must evaluate to Object but got string"#
            ]
        );
        assert_eq!(
            errors(r#"{"patchType":"JSONPatch","jsonPatch":{"expression":"[1]"}}"#),
            [
                r#"spec.mutations[0].jsonPatch.expression: Invalid value: "[1]": must evaluate to list(JSONPatch) but got list(int)"#
            ]
        );
    }

    #[test]
    fn variables_and_match_conditions_are_compiled() {
        let errors = create(
            r#"{"apiVersion":"admissionregistration.k8s.io/v1alpha1","kind":"MutatingAdmissionPolicy","spec":{
            "matchConstraints":{"resourceRules":[{"operations":["CREATE"],"apiGroups":["x"],"apiVersions":["v1"],"resources":["nones"]}]},
            "reinvocationPolicy":"Never","matchConditions":[{"name":"a","expression":"variables.x"}],"variables":[{"name":"x","expression":"variables.x"}],
            "mutations":[{"patchType":"JSONPatch","jsonPatch":{"expression":"[JSONPatch{op: 'test', path: '/a'}]"}}]}}"#,
        );
        assert_eq!(
            errors,
            [
                "spec.matchConditions[0].expression: Invalid value: \"variables.x\": compilation failed: ERROR: <input>:1:1: undeclared reference to 'variables' (in container '')\n | variables.x\n | ^",
                "spec.variables[0].expression: Invalid value: \"variables.x\": compilation failed: ERROR: <input>:1:10: undefined field 'x'\n | variables.x\n | .........^",
            ]
        );
    }
}
