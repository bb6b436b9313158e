//! `deviceclasses`.

use super::versions;
use crate::{Cell, Column, Columns, Deleted, Generation, Kind, Row, Scope, Version};
use object::Map;

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "resource.k8s.io",
    resource: "deviceclasses",
    singular: "deviceclass",
    kind: "DeviceClass",
    scope: Scope::Cluster,
    versions: versions!(None, None),
    columns: Columns { list: &[Column::NAME, Column::AGE], row },
    generation: Generation::Counted,
    deleted: Deleted::Object,
    ..Kind::PLAIN
};

fn row(object: &Map) -> Row {
    vec![Cell::name(object), Cell::age(object)].into()
}
