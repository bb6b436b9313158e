//! `leasecandidates`.

use crate::{About, Cell, Column, Columns, Context, Kind, MetadataRules, Row, Rules, Strategy, Version};
use object::Map;
use object::field::List;
use schema::view::View;
use schema::views::coordination::v1beta1::LeaseCandidate;

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "coordination.k8s.io",
    resource: "leasecandidates",
    singular: "leasecandidate",
    kind: "LeaseCandidate",
    versions: &[Version::on_request("v1beta1").stored(), Version::on_request("v1alpha2")],
    columns: Columns {
        list: &[
            Column::NAME,
            Column::text("LeaseName", About::Field("coordination.v1alpha2.LeaseCandidateSpec", "leaseName")),
            Column::text("BinaryVersion", About::Text("")),
            Column::text("EmulationVersion", About::Text("")),
            Column::AGE,
        ],
        row,
    },
    strategy: &LeaseCandidateStrategy,
    metadata_rules: MetadataRules::General,
    ..Kind::PLAIN
};

fn row(object: &Map) -> Row {
    let spec = LeaseCandidate::of(object).spec();
    vec![
        Cell::name(object),
        Cell::text(spec.lease_name()),
        Cell::text(spec.binary_version()),
        Cell::text(spec.emulation_version()),
        Cell::age(object),
    ]
    .into()
}

struct LeaseCandidateStrategy;

impl Strategy for LeaseCandidateStrategy {
    fn prepare_create(&self, _object: &mut Map, _context: &Context<'_>) {}

    fn prepare_update(&self, _new: &mut Map, _old: &Map, _context: &Context<'_>) {}

    fn validate_update(&self, new: &Map, old: &Map, rules: &Rules<'_>) -> List {
        rules.metadata_update(new, old)
    }

    fn allow_create_on_update(&self) -> bool {
        true
    }

    fn allow_unconditional_update(&self) -> bool {
        false
    }
}
