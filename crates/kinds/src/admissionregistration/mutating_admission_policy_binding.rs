//! `mutatingadmissionpolicybindings`.

use super::{match_resources, parameters, policy};
use crate::defaults::{at, fill_text};
use crate::{
    About, Cell, Column, Columns, Generation, Kind, MetadataRules, Row, Rules, Scope, Strategy, Version,
};
use object::Map;
use object::field::{List, Path};
use schema::view::View;
use schema::views::admissionregistration::v1alpha1::{
    MutatingAdmissionPolicyBinding, MutatingAdmissionPolicyBindingSpec,
};

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "admissionregistration.k8s.io",
    resource: "mutatingadmissionpolicybindings",
    singular: "mutatingadmissionpolicybinding",
    kind: "MutatingAdmissionPolicyBinding",
    categories: &["api-extensions"],
    scope: Scope::Cluster,
    versions: &[Version::on_request("v1alpha1").stored()],
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
    strategy: &MutatingAdmissionPolicyBindingStrategy,
    ..Kind::PLAIN
};

fn row(object: &Map) -> Row {
    let spec = MutatingAdmissionPolicyBinding::of(object).spec();
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

struct MutatingAdmissionPolicyBindingStrategy;

impl Strategy for MutatingAdmissionPolicyBindingStrategy {
    fn default(&self, object: &mut Map) {
        at(object, "spec", |spec| {
            at(spec, "matchResources", match_resources);
            at(spec, "paramRef", |reference| fill_text(reference, "parameterNotFoundAction", "Deny"));
        });
    }

    fn validate_create(&self, object: &Map, rules: &Rules<'_>) -> List {
        let mut errors = rules.metadata(object);
        errors.append(validate(MutatingAdmissionPolicyBinding::of(object).spec()));
        errors
    }

    fn validate_update(&self, new: &Map, _old: &Map, rules: &Rules<'_>) -> List {
        self.validate_create(new, rules)
    }

    fn allow_unconditional_update(&self) -> bool {
        false
    }
}

fn validate(spec: MutatingAdmissionPolicyBindingSpec<'_>) -> List {
    let path = Path::new("spec");
    let mut errors = policy::binding(spec.map(), &path);
    if let Some(resources) = spec.match_resources() {
        errors.append(policy::mutating_operations(resources.map(), &path.child("matchResources")));
    }
    errors
}
