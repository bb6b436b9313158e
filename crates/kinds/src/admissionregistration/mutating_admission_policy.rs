//! `mutatingadmissionpolicies`.

use super::match_resources;
use crate::cells::{UNSET, count};
use crate::defaults::{at, fill_text, within};
use crate::{About, Cell, Column, Columns, Context, Generation, Kind, Row, Scope, Strategy, Version};
use object::Map;
use schema::view::View;
use schema::views::admissionregistration::v1alpha1::MutatingAdmissionPolicy;

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "admissionregistration.k8s.io",
    resource: "mutatingadmissionpolicies",
    singular: "mutatingadmissionpolicy",
    kind: "MutatingAdmissionPolicy",
    categories: &["api-extensions"],
    scope: Scope::Cluster,
    versions: &[Version::on_request("v1alpha1").stored()],
    columns: Columns {
        list: &[
            Column::NAME,
            Column::integer(
                "Mutations",
                About::Text("Mutation indicates the number of mutations rules defined in this configuration"),
            ),
            Column::text(
                "ParamKind",
                About::Text("ParamKind specifies the kind of resources used to parameterize this policy"),
            ),
            Column::AGE,
        ],
        row,
    },
    generation: Generation::Counted,
    strategy: &MutatingAdmissionPolicyStrategy,
    ..Kind::PLAIN
};

fn row(object: &Map) -> Row {
    let spec = MutatingAdmissionPolicy::of(object).spec();
    let parameters = spec.param_kind().map(|kind| format!("{}/{}", kind.api_version(), kind.kind()));
    vec![
        Cell::name(object),
        count(spec.mutations()),
        Cell::Text(parameters.unwrap_or_else(|| UNSET.into())),
        Cell::age(object),
    ]
    .into()
}

struct MutatingAdmissionPolicyStrategy;

impl Strategy for MutatingAdmissionPolicyStrategy {
    fn default(&self, object: &mut Map) {
        within(object, "spec", |spec| {
            fill_text(spec, "failurePolicy", "Fail");
            at(spec, "matchConstraints", match_resources);
        });
    }

    fn prepare_create(&self, _object: &mut Map, _context: &Context<'_>) {}

    fn prepare_update(&self, _new: &mut Map, _old: &Map, _context: &Context<'_>) {}

    fn allow_unconditional_update(&self) -> bool {
        false
    }
}
