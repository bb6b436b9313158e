//! `configmaps`.

use crate::{About, Cell, Column, Columns, Kind, Row};
use object::Map;
use schema::view::View;
use schema::views::core::v1::ConfigMap;

/// The row.
pub(crate) const KIND: Kind = Kind {
    resource: "configmaps",
    singular: "configmap",
    kind: "ConfigMap",
    short_names: &["cm"],
    columns: Columns { list: COLUMNS, row },
    ..Kind::PLAIN
};

const COLUMNS: &[Column] =
    &[Column::NAME, Column::text("Data", About::Field("core.v1.ConfigMap", "data")), Column::AGE];

fn row(object: &Map) -> Row {
    let map = ConfigMap::of(object);
    let entries = map.data().len() + map.binary_data().len();
    vec![Cell::name(object), Cell::count(entries), Cell::age(object)].into()
}
