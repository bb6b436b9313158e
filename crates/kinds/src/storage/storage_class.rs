//! `storageclasses`.

use crate::cells::{name_or_default, text_or};
use crate::defaults::fill_text;
use crate::{About, Cell, Column, Columns, Context, Deleted, Kind, Row, Scope, Strategy};
use object::Map;
use schema::view::View;
use schema::views::storage::v1::StorageClass;

/// The row.
pub(crate) const KIND: Kind = Kind {
    group: "storage.k8s.io",
    resource: "storageclasses",
    singular: "storageclass",
    kind: "StorageClass",
    short_names: &["sc"],
    scope: Scope::Cluster,
    columns: Columns {
        list: &[
            Column::NAME,
            Column::text("Provisioner", About::Field("storage.v1.StorageClass", "provisioner")),
            Column::text("ReclaimPolicy", About::Field("storage.v1.StorageClass", "reclaimPolicy")),
            Column::text("VolumeBindingMode", About::Field("storage.v1.StorageClass", "volumeBindingMode")),
            Column::text(
                "AllowVolumeExpansion",
                About::Field("storage.v1.StorageClass", "allowVolumeExpansion"),
            ),
            Column::AGE,
        ],
        row,
    },
    deleted: Deleted::Object,
    strategy: &StorageClassStrategy,
    ..Kind::PLAIN
};

const DEFAULT_MARKS: &[&str] =
    &["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];

fn row(object: &Map) -> Row {
    let class = StorageClass::of(object);
    vec![
        name_or_default(object, DEFAULT_MARKS),
        Cell::text(class.provisioner()),
        text_or(class.reclaim_policy(), "Delete"),
        text_or(class.volume_binding_mode(), "Immediate"),
        Cell::Bool(class.allow_volume_expansion().unwrap_or_default()),
        Cell::age(object),
    ]
    .into()
}

struct StorageClassStrategy;

impl Strategy for StorageClassStrategy {
    fn default(&self, object: &mut Map) {
        fill_text(object, "reclaimPolicy", "Delete");
        fill_text(object, "volumeBindingMode", "Immediate");
    }

    fn prepare_create(&self, _object: &mut Map, _context: &Context<'_>) {}

    fn prepare_update(&self, _new: &mut Map, _old: &Map, _context: &Context<'_>) {}
}
