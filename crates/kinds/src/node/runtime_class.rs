//! `runtimeclasses`.

use crate::{About, Cell, Column, Columns, Context, Kind, Row, Scope, Strategy};
use object::Map;
use schema::view::View;
use schema::views::node::v1::RuntimeClass;

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "node.k8s.io",
    resource: "runtimeclasses",
    singular: "runtimeclass",
    kind: "RuntimeClass",
    scope: Scope::Cluster,
    columns: Columns { list: &[Column::NAME, Column::text("Handler", About::Text("")), Column::AGE], row },
    strategy: &RuntimeClassStrategy,
    ..Kind::PLAIN
};

fn row(object: &Map) -> Row {
    let class = RuntimeClass::of(object);
    vec![Cell::name(object), Cell::text(class.handler()), Cell::age(object)].into()
}

struct RuntimeClassStrategy;

impl Strategy for RuntimeClassStrategy {
    fn prepare_create(&self, _object: &mut Map, _context: &Context<'_>) {}

    fn prepare_update(&self, _new: &mut Map, _old: &Map, _context: &Context<'_>) {}

    fn allow_create_on_update(&self) -> bool {
        true
    }

    fn allow_unconditional_update(&self) -> bool {
        false
    }
}
