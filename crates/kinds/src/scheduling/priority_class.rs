//! `priorityclasses`.

use crate::cells::boolean;
use crate::defaults::fill_text;
use crate::{About, Cell, Column, Columns, Context, Generation, Kind, Row, Scope, Strategy};
use object::Map;
use schema::view::View;
use schema::views::scheduling::v1::PriorityClass;

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "scheduling.k8s.io",
    resource: "priorityclasses",
    singular: "priorityclass",
    kind: "PriorityClass",
    short_names: &["pc"],
    scope: Scope::Cluster,
    columns: Columns {
        list: &[
            Column::NAME,
            Column::integer("Value", About::Field("scheduling.v1.PriorityClass", "value")),
            boolean("Global-Default", About::Field("scheduling.v1.PriorityClass", "globalDefault")),
            Column::AGE,
            Column::text("PreemptionPolicy", About::Field("scheduling.v1.PriorityClass", "preemptionPolicy")),
        ],
        row,
    },
    generation: Generation::One,
    strategy: &PriorityClassStrategy,
    ..Kind::PLAIN
};

fn row(object: &Map) -> Row {
    let class = PriorityClass::of(object);
    vec![
        Cell::name(object),
        Cell::Integer(class.value()),
        Cell::Bool(class.global_default()),
        Cell::age(object),
        Cell::text(class.preemption_policy().unwrap_or_default()),
    ]
    .into()
}

struct PriorityClassStrategy;

impl Strategy for PriorityClassStrategy {
    fn default(&self, object: &mut Map) {
        fill_text(object, "preemptionPolicy", "PreemptLowerPriority");
    }

    fn prepare_create(&self, _object: &mut Map, _context: &Context<'_>) {}

    fn prepare_update(&self, _new: &mut Map, _old: &Map, _context: &Context<'_>) {}
}
