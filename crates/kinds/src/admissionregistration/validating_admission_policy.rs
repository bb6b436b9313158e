//! `validatingadmissionpolicies`.

use super::match_resources;
use crate::cells::{UNSET, count};
use crate::defaults::{at, fill_text, within};
use crate::resets;
use crate::{
    About, Cell, Column, Columns, Context, Generation, Kind, Row, Scope, Strategy, Subresource, Version,
    keep_all_but, keep_metadata,
};
use object::Map;
use schema::view::View;
use schema::views::admissionregistration::v1::ValidatingAdmissionPolicy;

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "admissionregistration.k8s.io",
    resource: "validatingadmissionpolicies",
    singular: "validatingadmissionpolicy",
    kind: "ValidatingAdmissionPolicy",
    categories: &["api-extensions"],
    scope: Scope::Cluster,
    versions: &[Version::V1, Version::on_request("v1beta1")],
    subresources: &[Subresource::STATUS],
    columns: Columns {
        list: &[
            Column::NAME,
            Column::integer(
                "Validations",
                About::Text(
                    "Validations indicates the number of validation rules defined in this configuration",
                ),
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
    resets: resets::STATUS_WITHOUT_METADATA,
    strategy: &ValidatingAdmissionPolicyStrategy,
    ..Kind::PLAIN
};

fn row(object: &Map) -> Row {
    let spec = ValidatingAdmissionPolicy::of(object).spec();
    let parameters = spec.param_kind().map(|kind| format!("{}/{}", kind.api_version(), kind.kind()));
    vec![
        Cell::name(object),
        count(spec.validations()),
        Cell::Text(parameters.unwrap_or_else(|| UNSET.into())),
        Cell::age(object),
    ]
    .into()
}

struct ValidatingAdmissionPolicyStrategy;

impl Strategy for ValidatingAdmissionPolicyStrategy {
    fn default(&self, object: &mut Map) {
        within(object, "spec", |spec| {
            fill_text(spec, "failurePolicy", "Fail");
            at(spec, "matchConstraints", match_resources);
        });
    }

    fn prepare_status(&self, new: &mut Map, old: &Map, _context: &Context<'_>) {
        keep_all_but(new, old, &["apiVersion", "kind", "metadata", "status"]);
        keep_metadata(new, old);
    }

    fn allow_unconditional_update(&self) -> bool {
        false
    }
}
