//! `leases`.

use crate::defaults::at;
use crate::{About, Cell, Column, Columns, Context, Kind, MetadataRules, Row, Rules, Strategy};
use object::Map;
use object::field::List;
use schema::view::View;
use schema::views::coordination::v1::Lease;

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "coordination.k8s.io",
    resource: "leases",
    singular: "lease",
    kind: "Lease",
    columns: Columns {
        list: &[
            Column::NAME,
            Column::text("Holder", About::Field("coordination.v1.LeaseSpec", "holderIdentity")),
            Column::AGE,
        ],
        row,
    },
    strategy: &LeaseStrategy,
    metadata_rules: MetadataRules::General,
    ..Kind::PLAIN
};

fn row(object: &Map) -> Row {
    let holder = Lease::of(object).spec().holder_identity();
    vec![Cell::name(object), Cell::text(holder.unwrap_or_default()), Cell::age(object)].into()
}

struct LeaseStrategy;

/// The feature `CoordinatedLeaderElection` is off: drops its fields unless the old object uses them.
impl Strategy for LeaseStrategy {
    fn prepare_create(&self, object: &mut Map, _context: &Context<'_>) {
        at(object, "spec", |spec| spec.retain(|key, _| !ELECTION.contains(&key.as_str())));
    }

    fn prepare_update(&self, new: &mut Map, old: &Map, _context: &Context<'_>) {
        let old = Lease::of(old).spec().map();
        at(new, "spec", |spec| {
            spec.retain(|key, _| !ELECTION.contains(&key.as_str()) || old.contains_key(key));
        });
    }

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

const ELECTION: &[&str] = &["strategy", "preferredHolder"];
