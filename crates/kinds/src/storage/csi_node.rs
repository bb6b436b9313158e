//! `csinodes`.

use super::ConditionalUpdate;
use crate::cells::count;
use crate::{About, Cell, Column, Columns, Deleted, Kind, Row, Scope};
use object::Map;
use schema::view::View;
use schema::views::storage::v1::CSINode;

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "storage.k8s.io",
    resource: "csinodes",
    singular: "csinode",
    kind: "CSINode",
    scope: Scope::Cluster,
    columns: Columns {
        list: &[
            Column::NAME,
            Column::integer(
                "Drivers",
                About::Text("Drivers indicates the number of CSI drivers registered on the node"),
            ),
            Column::AGE,
        ],
        row,
    },
    deleted: Deleted::Object,
    strategy: &ConditionalUpdate,
    ..Kind::PLAIN
};

fn row(object: &Map) -> Row {
    vec![Cell::name(object), count(CSINode::of(object).spec().drivers()), Cell::age(object)].into()
}
