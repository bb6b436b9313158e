//! `volumeattributesclasses`.

use crate::cells::name_or_default;
use crate::{About, Cell, Column, Columns, Deleted, Kind, Row, Scope, Version};
use object::Map;
use schema::view::View;
use schema::views::storage::v1beta1::VolumeAttributesClass;

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "storage.k8s.io",
    resource: "volumeattributesclasses",
    singular: "volumeattributesclass",
    kind: "VolumeAttributesClass",
    short_names: &["vac"],
    scope: Scope::Cluster,
    versions: &[Version::on_request("v1beta1").stored(), Version::on_request("v1alpha1")],
    columns: Columns {
        list: &[
            Column::NAME,
            Column::text("DriverName", About::Field("storage.v1beta1.VolumeAttributesClass", "driverName")),
            Column::AGE,
        ],
        row,
    },
    deleted: Deleted::Object,
    ..Kind::PLAIN
};

const DEFAULT_MARKS: &[&str] = &["volumeattributesclass.alpha.kubernetes.io/is-default-class"];

fn row(object: &Map) -> Row {
    let class = VolumeAttributesClass::of(object);
    vec![name_or_default(object, DEFAULT_MARKS), Cell::text(class.driver_name()), Cell::age(object)].into()
}
